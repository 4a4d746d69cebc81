//! Links of a declared rate: the formula against real packets, and a link that does not hold it.

use crate::support::Lab;

/// Bandwidth of rail 0 with a declared rate, measured for `time` in all.
fn declared<'a>(rate: &'a str, time: &'a str, mtu: &'a str) -> [&'a str; 12] {
    let device = ["bw", "node-a", "node-b", "--device", "rxe0", "--json"];
    let rest = ["--declare-rate", rate, "--duration", time, "--mtu", mtu];
    let all = [device, rest].concat();
    all.try_into().expect("twelve")
}

#[test]
fn goodput_over_a_shaped_link_is_what_the_headers_leave() {
    let lab = Lab::new();
    lab.link("node-a/0", &["shape", "10mbit"]);
    let mut table = vec!["path MTU  predicted Mb/s  measured Mb/s  ratio".to_owned()];
    let mut wrong = Vec::new();
    for mtu in ["256", "512", "1024", "2048", "4096"] {
        let line = declared("node-a/rxe0=10Mb/s", "6s", mtu);
        let run = lab.run(&[&line[..], &["--warmup", "1s", "--repeats", "1"]].concat());
        let report = run.report();
        let measured = &report["measurements"][0];
        // The shaper counts 58 B of headers a packet and 16 B more a message.
        let packets = 65_536_f64 / mtu.parse::<f64>().unwrap();
        let predicted = 10e6 * 65_536.0 / (65_536.0 + packets * 58.0 + 16.0);
        let ceiling = measured["ceiling"]["bps"].as_f64().unwrap();
        assert!((ceiling / predicted - 1.0).abs() < 1e-6, "{ceiling} is not {predicted}");
        let bps = measured["goodput_bps"]["median"].as_f64().unwrap();
        let ratio = bps / predicted;
        table.push(format!("{mtu:>8}{:>16.2}{:>15.2}{ratio:>7.3}", predicted / 1e6, bps / 1e6));
        if (ratio - 1.0).abs() > 0.02 {
            wrong.push(mtu);
        }
    }
    println!("{}", table.join("\n"));
    assert!(wrong.is_empty(), "not within 2 % at {wrong:?}:\n{}", table.join("\n"));
}

#[test]
fn half_of_the_declared_rate_fails_and_says_where() {
    let lab = Lab::new();
    lab.link("node-a/0", &["shape", "10mbit"]);
    let pair = ["pair", "node-a", "node-b", "--device", "rxe0", "--transport", "rc", "--json"];
    let rest = ["--declare-rate", "node-a/rxe0=20Mb/s", "--duration", "2s", "--repeats", "2"];
    let run = lab.run(&[&pair[..], &rest].concat());
    run.expect(1, &[]);
    let report = run.report();
    let all = report["measurements"].as_array().unwrap();
    let slow = all.iter().find(|m| m["id"] == "bandwidth/rc/write/65536/rail0/a-b").unwrap();
    assert_eq!(slow["status"], "fail", "{slow:#}");
    let share = slow["efficiency"].as_f64().unwrap();
    assert!((0.46..=0.54).contains(&share), "{share}");
    let reason = slow["reason"].as_str().unwrap();
    assert!(reason.contains("declared rate node-a/rxe0"), "{reason}");
    assert!(reason.contains("measured again"), "{reason}");
    let again: Vec<&str> = all
        .iter()
        .filter(|m| m["retest_of"] == slow["id"])
        .map(|m| m["id"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(again, ["again", "swapped", "qps1", "qps8", "a", "b"]);
    let first = &report["diagnosis"][0];
    assert_eq!(first["object"], "node-a/rxe0:1 - node-b/rxe0:1", "{first:#}");
    assert!(first["cause"].as_str().unwrap().contains("the path"), "{first:#}");
}
