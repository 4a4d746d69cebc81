//! Every machine of `tests/topologies/` gives the verdict that its `index.tsv` says.

use std::collections::BTreeMap;
use std::path::Path;

use fabbench_harness::topology::{self, Rules, view};

/// A row of `index.tsv`, by column name.
type Row = BTreeMap<String, String>;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(folder().join("index.tsv")).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let row = |line: &str| {
        let cells = line.split('\t').map(|cell| cell.trim_matches('"').to_owned());
        names.iter().map(|name| (*name).to_owned()).zip(cells).collect()
    };
    lines.filter(|line| !line.is_empty()).map(row).collect()
}

/// What is wrong with a row; empty when nothing is.
fn faults(row: &Row) -> Vec<String> {
    let file = &row["file"];
    let bytes = std::fs::read(folder().join(file)).unwrap();
    let expected = row["expected"].replace("N-A", "N/A");
    let topology = match topology::read(file, &bytes) {
        Ok(topology) => topology,
        Err(error) if expected == "REFUSED" => {
            assert!(error.to_string().contains("not a topology"), "{error}");
            return Vec::new();
        }
        Err(error) => return vec![format!("{file}: {error}")],
    };
    let judged = topology::judge(&topology, Rules::default());
    let mut faults = Vec::new();
    let status = view::word(judged.status);
    if status != expected {
        let page = view::table(&topology, &judged, file);
        faults.push(format!("{file}: {status}, expected {expected}\n{page}"));
    }
    let each = each_gpu(&row["expected_per_gpu"]);
    for (gpu, verdict) in judged.scene.gpus.iter().zip(&judged.gpus) {
        if gpu.missing {
            continue;
        }
        let key = gpu.bdf.map_or_else(|| gpu.name.clone(), |bdf| bdf.to_string());
        let Some(expected) = each.get(&key).or(each.get("all")) else { continue };
        let status = view::word(verdict.status);
        if status != expected {
            faults.push(format!("{file}: {key} {status}, expected {expected}: {}", verdict.reason));
        }
    }
    faults.extend(classes(row, &judged));
    faults
}

/// `all=PASS` or `0000:03:00.0=WARN 0000:83:00.0=PASS`.
fn each_gpu(text: &str) -> BTreeMap<String, String> {
    let entry = |word: &str| {
        let (gpu, status) = word.rsplit_once('=')?;
        Some((gpu.to_owned(), status.replace("N-A", "N/A")))
    };
    text.split_whitespace().filter_map(entry).collect()
}

/// The nearest classes, where the verdict is about classes: `GPU0=PIX:NIC0`.
fn classes(row: &Row, judged: &topology::Assessment) -> Vec<String> {
    if matches!(row["expected"].as_str(), "N-A" | "UNKNOWN" | "REFUSED") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for word in row["per_gpu_nearest"].split_whitespace() {
        let Some((gpu, rest)) = word.split_once('=') else { continue };
        let class = rest.split(':').next().unwrap();
        let at = judged.scene.gpus.iter().position(|view| {
            view.name == gpu || view.bdf.is_some_and(|bdf| bdf.to_string() == gpu)
        });
        let Some(at) = at else {
            faults.push(format!("{}: {gpu} is not found", row["file"]));
            continue;
        };
        let found = judged.gpus[at].class.to_string();
        // Sockets that are assumed turn SYS of the raw tree into NODE of one socket.
        if found != class && !(class == "SYS" && found == "NODE*") {
            faults.push(format!("{}: {gpu} {found}, expected {class}", row["file"]));
        }
    }
    faults
}

#[test]
fn every_machine_gives_the_verdict_of_the_index() {
    let rows = rows();
    assert!(rows.len() >= 80, "{} rows", rows.len());
    let faults: Vec<String> = rows.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
