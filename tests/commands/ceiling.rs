//! `fabbench ceiling` as people type it.

use std::process::{Command, Output};

fn ceiling(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabbench")).arg("ceiling").args(args).output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = ceiling(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn gbps(value: &serde_json::Value) -> f64 {
    (value["bps"].as_f64().unwrap() / 1e6).round() / 1e3
}

#[test]
fn the_worked_values_come_out_and_name_their_limit() {
    let cases: [(&[&str], &str, f64); 7] = [
        (&["--link", "4x hdr", "--pcie", "gen4x16", "--mps", "256"], "link", 198.690),
        (&["--link", "4x hdr", "--pcie", "gen3x16", "--mps", "256"], "pcie", 115.228),
        (&["--link", "4x ndr", "--pcie", "gen5x16", "--mps", "256"], "link", 397.381),
        (&["--link", "4x ndr", "--pcie", "gen5x8", "--mps", "512"], "pcie", 240.775),
        (&["--link", "400GbE", "--mtu", "1024"], "link", 370.260),
        (
            &["--link", "200GbE", "--pcie", "gen4x16", "--mps", "256", "--ports", "2"],
            "pcie",
            115.228,
        ),
        (&["--link", "100GbE", "--fabric", "tcp", "--mtu", "1500"], "link", 94.148),
    ];
    for (args, by, rate) in cases {
        let found = json(args);
        assert_eq!((found["limited_by"].as_str().unwrap(), gbps(&found)), (by, rate), "{args:?}");
    }
    let unequal = json(&["--link", "4x ndr", "--peer-link", "4x hdr", "--peer-pcie", "gen4x16"]);
    assert_eq!((unequal["limited_by"].as_str(), gbps(&unequal)), (Some("peer"), 198.690));
}

#[test]
fn the_text_is_the_sum_term_by_term() {
    let output = ceiling(&[
        "--link", "4x ndr", "--fabric", "ib", "--mtu", "4096", "--size", "64KiB", "--pcie",
        "gen5x16", "--mps", "256",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "65536 B",
        "416 B  packets: 16, each 26 B",
        "16 B  once a message",
        "65968 B  99.3451 % of it is payload",
        "397.381 Gb/s  (hard)  4x NDR, 400.0 Gb/s",
        "460.913 Gb/s  (not hard)  PCIe Gen5 x16, 504.1 Gb/s raw, payload 256 B",
        "ceiling 397.381 Gb/s of payload, limited by link",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_could() {
    let cases: [(&[&str], &str); 13] = [
        (&["--link", "5x ndr"], "--link: \"5x ndr\" is no link: write lanes and speed as '4x NDR'"),
        (&["--link", "400GbE", "--fabric", "ib"], "400GbE is Ethernet"),
        (&["--link", "300GbE"], "no rate of Ethernet"),
        (&["--link", "4x ndr", "--mtu", "1500"], "--mtu 1500: a path MTU is 256"),
        (&["--link", "4x ndr", "--size", "0"], "carries no payload"),
        (&["--link", "4x ndr", "--size", "64KB"], "write bytes as 8, 64KiB"),
        (&["--link", "4x ndr", "--size", "2GiB"], "too large"),
        (&["--link", "4x ndr", "--pcie", "gen9x16"], "write generation and lanes as gen5x16"),
        (&["--link", "4x ndr", "--pcie", "gen5x16", "--mps", "100"], "no PCIe payload size"),
        (&["--link", "4x ndr", "--vlan"], "InfiniBand has no VLAN tags"),
        (&["--link", "4x ndr", "--declare-rate", "50GB/s"], "write bits per second"),
        (&["--link", "4x ndr", "--oversubscription", "0.5"], "--oversubscription 0.5: 1 for"),
        (&["--link", "100GbE", "--fabric", "tcp", "--mtu", "70000"], "576 to 65535"),
    ];
    for (args, part) in cases {
        let output = ceiling(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    for args in
        [&["--link", "4x ndr", "--mps", "256"][..], &[], &["--link", "4x ndr", "--ports", "0"]]
    {
        assert_eq!(ceiling(args).status.code(), Some(2), "{args:?}");
    }
}
