//! `fabbench check`.

use std::path::Path;

use crate::support::run;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(&path[1..]);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A tree with one NDR adapter in a slot of `speed`.
fn tree(speed: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let (port, card) = ("/sys/devices/pci0000:15/0000:15:01.0", "0000:18:00.0");
    let adapter = format!("{port}/{card}");
    for place in [port, &adapter] {
        for which in ["current", "max"] {
            write(root.path(), &format!("{place}/{which}_link_speed"), speed);
            write(root.path(), &format!("{place}/{which}_link_width"), "16\n");
        }
    }
    let device = format!("{adapter}/infiniband/mlx5_0");
    for (file, text) in [
        ("state", "4: ACTIVE\n"),
        ("phys_state", "5: LinkUp\n"),
        ("rate", "400 Gb/sec (4X NDR)\n"),
        ("link_layer", "InfiniBand\n"),
        ("lid", "0xb\n"),
        ("sm_lid", "0x1\n"),
    ] {
        write(root.path(), &format!("{device}/ports/1/{file}"), text);
    }
    let functions = root.path().join("sys/bus/pci/devices");
    std::fs::create_dir_all(&functions).unwrap();
    for place in [port, &adapter] {
        let name = place.rsplit('/').next().unwrap();
        write(root.path(), &format!("{place}/class"), "0x020700\n");
        let target = format!("../../..{}", &place[4..]);
        std::os::unix::fs::symlink(target, functions.join(name)).unwrap();
    }
    write(root.path(), "/proc/sys/kernel/hostname", "gpu07\n");
    let class = root.path().join("sys/class/infiniband");
    std::fs::create_dir_all(&class).unwrap();
    std::os::unix::fs::symlink(format!("../..{}", &device[4..]), class.join("mlx5_0")).unwrap();
    std::os::unix::fs::symlink(
        format!("../../../{card}"),
        root.path().join(&device[1..]).join("device"),
    )
    .unwrap();
    root
}

#[test]
fn a_captured_tree_is_judged_with_the_side_and_the_remedy() {
    let root = tree("16.0 GT/s PCIe\n");
    let ran = run(&["check", "--sysroot", root.path().to_str().unwrap()]);
    ran.expect(1, &[]);
    assert!(ran.stdout.contains("pcie-rate"), "{}", ran.stdout);
    assert!(ran.stdout.contains("gpu07"), "{}", ran.stdout);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("move the card to a slot"), "{words}");
    let ran = run(&["check", "--json", "--sysroot", root.path().to_str().unwrap()]);
    let checks = ran.json()["checks"].as_array().unwrap().clone();
    let of = |id: &str| checks.iter().find(|check| check["id"] == id).unwrap();
    assert_eq!(
        (of("pcie-rate")["status"].as_str(), of("pcie-link")["status"].as_str()),
        (Some("fail"), Some("pass"))
    );
    assert_eq!(of("fec")["status"], "unknown", "no tool of this machine answers for another");
    assert_eq!(of("memlock")["status"], "unknown");
}

#[test]
fn what_could_not_be_seen_is_no_pass_and_no_failure() {
    let root = tree("32.0 GT/s PCIe\n");
    let ran = run(&["check", "--sysroot", root.path().to_str().unwrap()]);
    ran.expect(0, &[]);
    assert!(ran.stdout.contains("could not be seen"), "{}", ran.stdout);
    assert!(ran.stdout.contains("nothing was measured"), "{}", ran.stdout);
    let strict =
        run(&["check", "--fail-on", "unjudged", "--sysroot", root.path().to_str().unwrap()]);
    strict.expect(1, &[]);
}

#[test]
fn this_machine_is_checked_without_a_host_named() {
    let ran = run(&["check", "--json"]);
    let report = ran.json();
    assert_eq!(report["suite"]["name"], "check");
    assert_eq!(report["hosts"][0]["name"], "local");
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["id"] == "memlock"), "{checks:?}");
}

#[test]
fn what_is_no_tree_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    run(&["check", "--sysroot", empty.path().to_str().unwrap()]).expect(2, &["no sys/ below it"]);
    run(&["check", "--sysroot", "/no/such/tree"]).expect(2, &["/no/such/tree"]);
    run(&["check", "host-a", "--sysroot", "/"]).expect(2, &["cannot be used with"]);
}
