//! `fabbench topo`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Run, run};

/// A machine of the harness' collection.
fn machine(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness/tests/topologies");
    folder.join(file).to_str().unwrap().to_owned()
}

/// Eight H100, each behind a switch with its own adapter.
fn good() -> String {
    machine("cloud/oci-H100-topology.xml")
}

/// Four of eight GPUs share a switch with an adapter.
fn mixed() -> String {
    machine("nvsmi/h100-6nic-node-everywhere.txt")
}

fn from(file: &str, more: &[&str]) -> Run {
    run(&[&["topo", "--from", file][..], more].concat())
}

/// A folder for one test, and a file in it.
fn scratch(file: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn the_table_pairs_each_gpu_and_ends_with_the_verdict() {
    let ran = from(&good(), &[]);
    ran.expect(0, &["8 GPU, 8 HCA", "NCCL topology XML", "-> mlx5_0+mlx5_1", "verdict: PASS"]);
    let rows = ran.stdout.lines().filter(|line| line.starts_with("GPU"));
    let paired: Vec<&str> =
        rows.filter(|row| row.contains("PIX") && row.ends_with("PASS")).collect();
    assert_eq!(paired.len(), 8, "{}", ran.stdout);
}

#[test]
fn what_does_not_share_a_switch_fails_only_where_that_is_required() {
    let ran = from(&mixed(), &[]);
    ran.expect(0, &["verdict: WARN"]);
    from(&mixed(), &["--require", "same-switch"]).expect(1, &["verdict: FAIL", "GPU1"]);
    from(&good(), &["--require", "same-switch"]).expect(0, &["verdict: PASS"]);
}

#[test]
fn json_alone_stands_on_standard_output() {
    let host = from(&good(), &["--json"]).json();
    assert_eq!(host["status"], "pass");
    assert_eq!(host["gpu_memory"], "not measured");
    let gpus = host["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 8);
    let near = |gpu: &Value| gpu["path"] == "PIX" && gpu["status"] == "pass";
    assert!(gpus.iter().all(near), "{gpus:?}");
    assert!(host["graph"]["nodes"].as_array().unwrap().len() > 16);
}

#[test]
fn the_tree_shows_gpus_and_adapters_in_their_places() {
    let ran = from(&good(), &["--tree"]);
    ran.expect(0, &["root complex", "switch"]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let at = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let gpu = lines[at("GPU0 -> mlx5_0+mlx5_1")];
    assert!(indentation(gpu) > indentation(lines[at("root complex")]), "{}", ran.stdout);
    from(&mixed(), &["--tree"]).expect(0, &["no tree", "classes alone"]);
}

#[test]
fn the_matrix_has_a_row_for_each_gpu_and_a_column_for_each_adapter() {
    let ran = from(&good(), &["--matrix"]);
    ran.expect(0, &[]);
    let mut lines = ran.stdout.lines();
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(columns.len(), 8, "{columns:?}");
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_eq!(row.len(), 9, "{row:?}");
        assert_eq!(row.iter().filter(|cell| **cell == "PIX").count(), 1, "{row:?}");
        assert!(row[1..].contains(&"SYS"), "{row:?}");
    }
}

#[test]
fn one_gpu_is_explained_by_name_number_or_address() {
    for name in ["GPU3", "gpu3", "3"] {
        let ran = from(&good(), &["--explain", name]);
        ran.expect(0, &["GPU3", "path to the processor", "nearest first", "<- paired"]);
        let paired = ran.stdout.lines().find(|line| line.contains("<- paired")).unwrap();
        assert!(paired.contains("PIX"), "{paired}");
    }
    from(&good(), &["--explain", "0000:0f:00.0"]).expect(0, &["GPU0 0000:0f:00.0", "PASS"]);
    from(&good(), &["--explain", "GPU8"]).expect(2, &["no such GPU", "GPU0, GPU1"]);
}

#[test]
fn the_picture_is_written_beside_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topology.svg");
    let flag = format!("--svg={}", path.display());
    from(&good(), &[&flag]).expect(0, &["verdict: PASS"]);
    let picture = std::fs::read_to_string(&path).unwrap();
    assert!(
        picture.starts_with("<?xml")
            && picture.contains("<svg ")
            && picture.trim_end().ends_with("</svg>"),
        "{picture}"
    );
    for word in ["GPU0", "GPU7", "mlx5_0"] {
        assert!(picture.contains(word), "{word} is not in the picture");
    }
    let ran = from(&good(), &["--svg=/no/such/folder/topology.svg"]);
    ran.expect(2, &["/no/such/folder/topology.svg"]);
    assert!(ran.stdout.is_empty(), "judged before it was clear that it cannot be written");
}

#[test]
fn a_shape_that_is_not_there_fails_and_is_told_in_words() {
    from(&good(), &["--expect", "1:1"]).expect(0, &["verdict: PASS"]);
    from(&good(), &["--expect", "2:1"]).expect(1, &["not as expected", "1:1, expected 2:1"]);
    from(&mixed(), &["--expect", "1:1"]).expect(1, &["GPU1: no HCA on its switch"]);
    let ran = from(&good(), &["--expect", "2:1", "--json"]);
    assert_eq!((ran.code, &ran.json()["status"]), (Some(1), &Value::from("pass")));
    assert!(ran.stderr.contains("not as expected"), "{}", ran.stderr);
}

#[test]
fn pairs_that_are_expected_come_from_a_file() {
    let file = |text: &str| scratch("pairs.toml", text);
    let judged = |text: &str| {
        let (_folder, path) = file(text);
        from(&good(), &["--expect", path.to_str().unwrap()])
    };
    let first = ["mlx5_0", "mlx5_3", "mlx5_5", "mlx5_7", "mlx5_9", "mlx5_12", "mlx5_14", "mlx5_16"];
    let pair = |(gpu, hca)| format!("GPU{gpu} = {{ hca = \"{hca}\", path = \"PIX\" }}\n");
    let all = "[pairs]\n".to_owned() + &first.iter().enumerate().map(pair).collect::<String>();
    judged(&all).expect(0, &["verdict: PASS"]);
    judged(&all.replace("mlx5_12", "mlx5_11")).expect(1, &["not as expected: GPU5", "mlx5_11"]);
    judged(&all.replacen("PIX", "PXB", 1)).expect(1, &["not as expected: GPU0", "PXB"]);
    judged("[pairs]\nGPU0 = \"mlx5_0\"\n").expect(1, &["GPU7: is not in the expected pairs"]);
    judged("[pairs]\n").expect(2, &["no pair in it"]);
    judged("[pears]\nGPU0 = \"mlx5_3\"\n").expect(2, &["--expect", "pears"]);
    from(&good(), &["--expect", "0:1"]).expect(2, &["neither GPUS:HCAS nor a file"]);
}

#[test]
fn two_machines_are_compared_by_what_matters() {
    let (good, other) = (good(), machine("cloud/azure-ndv5-topo.xml"));
    run(&["topo", "--compare", &good, &good]).expect(0, &["alike"]);
    let ran = run(&["topo", "--compare", &good, &other]);
    ran.expect(1, &["machine HCAs"]);
    let ran = run(&["topo", "--json", "--compare", &good, &mixed()]);
    let changes = ran.json();
    let verdict = changes
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["object"] == "machine" && change["what"] == "verdict");
    assert_eq!((ran.code, &verdict.unwrap()["after"]), (Some(1), &Value::from("warn")));
    run(&["topo", "--compare", &good]).expect(2, &["2 values required"]);
}

#[test]
fn a_dump_reads_back_to_what_the_machine_showed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.tar.gz");
    let file = path.to_str().unwrap();
    let dumped = run(&["topo", "dump", "--out", file]);
    dumped.expect(0, &["files of local", "tar tzf", "fabbench topo --from"]);
    let (live, back) = (run(&["topo", "--json"]), from(file, &["--json"]));
    assert_eq!(live.code, back.code, "{}\n{}", live.stderr, back.stderr);
    let (live, back) = (live.json(), back.json());
    for part in ["gpus", "status", "reasons", "findings", "graph"] {
        assert_eq!(live[part], back[part], "{part}");
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().as_bytes();
    let mut tar = Command::new("tar");
    let unpacked = tar.args(["xzOf", file]).output().expect("tar runs").stdout;
    assert!(!unpacked.is_empty());
    let named = name.len() > 6 && unpacked.windows(name.len()).any(|part| part == name);
    assert!(!named, "the host's name is in the dump");
    run(&["topo", "dump", "--out", "/no/such/folder/x"]).expect(3, &["write topology", "/no/such"]);
}

#[test]
fn what_is_no_topology_is_refused_by_name() {
    let refused = |file: &str, text: &str, words: &[&str]| {
        let (_folder, path) = scratch(file, text);
        from(path.to_str().unwrap(), &[]).expect(2, &[&[file], words].concat());
    };
    refused("graph.xml", "<graphs version=\"1\"></graphs>", &["NCCL graph file"]);
    refused("page.xml", "<html><body/></html>", &["html"]);
    refused("cut.xml", "<system version=\"1\"><cpu numaid=\"0\">", &[]);
    refused("empty.txt", "", &[]);
    refused("noise.bin", "\u{1}\u{2}nothing of use", &[]);
    from("/no/such/file", &[]).expect(2, &["read topology", "/no/such/file"]);
    let empty = tempfile::tempdir().unwrap();
    from(empty.path().to_str().unwrap(), &[]).expect(2, &["the directory that holds sys/"]);
}

#[test]
fn stand_ins_need_an_id_that_is_there() {
    from(&good(), &["--treat-as-gpu", "1234:1111"]).expect(2, &["1234:1111", "lspci -n"]);
    from(&good(), &["--treat-as-gpu", "display"]).expect(2, &["vendor and device"]);
    let ran = from(&good(), &["--treat-as-gpu", "10de:2330"]);
    ran.expect(0, &["8 × 10de:2330 taken for GPUs", "no verdict on real ones"]);
}

#[test]
fn wrong_usage_is_told_before_anything_is_read() {
    let file = good();
    run(&["topo", "host-a", "--from", &file]).expect(2, &["cannot be used with"]);
    from(&file, &["--tree", "--matrix"]).expect(2, &["cannot be used with"]);
    from(&file, &["--json", "--explain", "GPU0"]).expect(2, &["cannot be used with"]);
    from(&file, &["--require", "luck"]).expect(2, &["same-switch"]);
    from(&file, &["--compare", &file, &file]).expect(2, &["cannot be used with"]);
}
