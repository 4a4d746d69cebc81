//! `fabbench softroce` on a host whose kernel has rdma_rxe.

use crate::support::{Lab, ci_lab, on};

#[test]
fn a_device_goes_comes_back_and_carries_traffic() {
    let lab = Lab::new();
    let status = || on("node-b", "fabbench softroce status");
    assert!(status().contains("rxe1 on eth1: ACTIVE"), "{}", status());
    lab.undo_line("node-b", "fabbench softroce up eth1 --name rxe1");

    assert!(on("node-b", "fabbench softroce down rxe1").contains("removed from eth1"));
    assert!(!status().contains("rxe1"), "{}", status());
    let up = on("node-b", "fabbench softroce up eth1");
    assert!(up.contains("rxe1 created on eth1"), "{up}");
    let again = on("node-b", "fabbench softroce up eth1");
    assert!(again.contains("rxe1 is on eth1 already"), "{again}");
    let device = ["--device", "rxe1", "--duration", "100ms", "--repeats", "1"];
    lab.run(&[&["lat", "node-a", "node-b"][..], &device[..]].concat()).expect(0, &["rxe1"]);
}

#[test]
fn an_ordinary_user_is_told_that_it_needs_root() {
    let _lab = Lab::new();
    let output = ci_lab(&["run", "tester@node-a", "fabbench", "softroce", "down", "rxe1"]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("rxe1") && text.contains("needs root"), "{text}");
    assert!(on("node-a", "fabbench softroce status").contains("rxe1 on eth1"));
}
