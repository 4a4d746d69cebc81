//! Bad input and faults: the right exit code, a sentence that helps, what was measured kept, and
//! nothing left on the hosts.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{ci_lab, fabbench, finish, lab, nothing_left, on, run, traces};

/// Undoes what a test did to a node, also when the test fails.
struct Undo(Vec<Vec<&'static str>>);

impl Drop for Undo {
    fn drop(&mut self) {
        for arguments in &self.0 {
            ci_lab(arguments);
        }
    }
}

/// Hides something on node-b until dropped.
fn hide(what: &'static str) -> Undo {
    lab();
    let undo = Undo(vec![vec!["hide", "node-b", "none"]]);
    let output = ci_lab(&["hide", "node-b", what]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    undo
}

/// A run that is short, for cases in which only the end matters.
const SHORT: [&str; 4] = ["--duration", "100ms", "--repeats", "1"];

/// `pair node-a node-b` with these further arguments.
fn short_pair(more: &[&str]) -> crate::support::Run {
    run(&[&["pair", "node-a", "node-b"][..], &SHORT[..], more].concat())
}

#[test]
fn an_unknown_host_is_named_with_the_next_step() {
    lab();
    run(&["pair", "node-a", "node-nowhere"]).expect(3, &["node-nowhere", "ssh"]);
}

#[test]
fn a_missing_fabbench_is_named_with_the_next_step() {
    run(&["pair", "node-a", "node-b", "--agent-path", "/nonexistent/fabbench"])
        .expect(3, &["/nonexistent/fabbench", "--push"]);
}

#[test]
fn push_brings_the_binary_and_takes_it_away() {
    let before = traces();
    on("node-b", "mv /usr/local/bin/fabbench /root/away");
    let missing = short_pair(&["--transport", "tcp"]);
    let pushed = short_pair(&["--transport", "tcp", "--push"]);
    on("node-b", "mv /root/away /usr/local/bin/fabbench");
    missing.expect(3, &["node-b", "--push"]);
    pushed.expect(0, &[]);
    nothing_left(&before);
}

#[test]
fn without_the_library_tcp_is_measured_and_the_rest_named() {
    let _undo = hide("library");
    short_pair(&[]).expect(3, &["node-b", "libibverbs", "apt install", "TCP"]);
    short_pair(&["--transport", "tcp"]).expect(0, &["not judged"]);
}

#[test]
fn a_missing_provider_is_told_from_a_missing_library() {
    let _undo = hide("provider");
    short_pair(&[]).expect(3, &["node-b", "ibverbs-providers"]);
}

#[test]
fn no_device_is_told_with_the_next_step() {
    let _undo = hide("rxe");
    short_pair(&[]).expect(3, &["node-b", "no RDMA device", "softroce up"]);
}

#[test]
fn unreadable_uverbs_is_told_to_an_ordinary_user() {
    let _undo = hide("uverbs");
    run(&[&["pair", "node-a", "tester@node-b"][..], &SHORT[..]].concat())
        .expect(3, &["/dev/infiniband/uverbs", "node-b"]);
}

#[test]
fn memlock_too_small_is_told_to_an_ordinary_user() {
    let limited = "ssh -F CONFIG";
    assert!(lab().starts_with(&limited[..7]));
    run(&[&["pair", "tester@node-a", "tester@node-b"][..], &SHORT[..]].concat())
        .expect(3, &["memlock", "limits.conf"]);
}

#[test]
fn a_wrong_device_or_port_name_lists_what_there_is() {
    run(&["pair", "node-a", "node-b", "--device", "mlx9_9"]).expect(2, &["mlx9_9", "rxe0", "rxe1"]);
    run(&["bw", "node-a", "node-b", "--device", "rxe0:7"]).expect(2, &["rxe0:7"]);
}

#[test]
fn a_port_that_is_down_is_named_and_the_other_rail_measured() {
    let before = traces();
    let _undo = Undo(vec![vec!["link", "node-b/1", "heal"]]);
    ci_lab(&["link", "node-b/1", "cut"]);
    std::thread::sleep(Duration::from_secs(2));
    let run = short_pair(&["--json"]);
    run.expect(3, &[]);
    let report = run.report();
    let down = report["checks"].as_array().unwrap().iter().any(|c| {
        c["id"] == "port-state" && c["status"] == "fail" && c["object"] == "node-b/rxe1:1"
    });
    assert!(down, "{:#}", report["checks"]);
    let measured = report["measurements"].as_array().unwrap();
    assert!(measured.iter().any(|m| m["transport"] == "rc" && m["test"] == "bandwidth"));
    nothing_left(&before);
}

#[test]
fn different_mtus_work_at_the_smaller_and_warn() {
    let _undo = Undo(vec![vec!["link", "node-b/0", "mtu", "9000"]]);
    ci_lab(&["link", "node-b/0", "mtu", "1500"]);
    let run = short_pair(&["--device", "rxe0", "--json"]);
    run.expect(0, &[]);
    let report = run.report();
    let mtu = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["id"].as_str().unwrap().contains("mtu") && c["status"] == "warn");
    assert!(mtu.is_some(), "{:#}", report["checks"]);
    let rc = report["measurements"].as_array().unwrap().iter().find(|m| m["transport"] == "rc");
    assert_eq!(rc.unwrap()["path"]["mtu"], 1024);
}

#[test]
fn a_port_without_usable_gid_is_told() {
    lab();
    let addresses = on("node-b", "ip -o addr show dev eth0 | awk '{print $4}'");
    on("node-b", "ip addr flush dev eth0");
    let run = short_pair(&["--device", "rxe0"]);
    for address in addresses.lines() {
        let extra = if address.contains(':') { "nodad" } else { "" };
        on("node-b", &format!("ip addr add {address} dev eth0 {extra}"));
    }
    run.expect(3, &["node-b/rxe0:1", "GID"]);
}

/// Starts a long verbs case, waits until it measures, does `fault`, and returns how it ended.
fn during_a_case(fault: impl FnOnce()) -> crate::support::Run {
    let arguments =
        ["bw", "node-a", "node-b", "--device", "rxe0", "--duration", "60s", "--repeats", "1"];
    let mut command = fabbench(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    std::thread::scope(|scope| {
        let running = scope.spawn(move || finish(&mut command, Duration::from_secs(100)));
        let deadline = std::time::Instant::now() + Duration::from_secs(40);
        while on("node-a", "pgrep -x fabbench | wc -l").trim() == "0" {
            assert!(std::time::Instant::now() < deadline, "no agent came up");
        }
        std::thread::sleep(Duration::from_secs(4));
        fault();
        running.join().expect("the run ends")
    })
}

#[test]
fn a_killed_agent_ends_the_run_at_once() {
    let before = traces();
    let run = during_a_case(|| {
        on("node-b", "pkill -KILL -x fabbench");
    });
    run.expect(3, &["node-b"]);
    assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
    nothing_left(&before);
}

#[test]
fn a_stopped_agent_is_noticed_and_cleaned_up() {
    let before = traces();
    let run = during_a_case(|| {
        on("node-b", "pkill -STOP -x fabbench");
    });
    run.expect(3, &["node-b"]);
    assert!(run.took < Duration::from_secs(60), "{:?}", run.took);
    nothing_left(&before);
}

#[test]
fn a_link_cut_for_good_ends_the_run_with_the_stage() {
    let before = traces();
    let _undo = Undo(vec![vec!["link", "node-a/0", "heal"]]);
    let run = during_a_case(|| {
        ci_lab(&["link", "node-a/0", "cut"]);
    });
    run.expect(3, &["measure", "rxe0"]);
    assert!(run.took < Duration::from_secs(60), "{:?}", run.took);
    nothing_left(&before);
}

#[test]
fn packets_that_vanish_end_the_run_with_the_stage() {
    let before = traces();
    let _undo = Undo(vec![vec!["link", "node-a/0", "clear"], vec!["link", "node-b/0", "clear"]]);
    let run = during_a_case(|| {
        ci_lab(&["link", "node-a/0", "drop"]);
        ci_lab(&["link", "node-b/0", "drop"]);
    });
    run.expect(3, &["rxe0"]);
    nothing_left(&before);
}

#[test]
fn loss_is_measured_and_warned_about() {
    let _undo = Undo(vec![vec!["link", "node-a/0", "clear"]]);
    ci_lab(&["link", "node-a/0", "loss", "1"]);
    let run = run(&[
        "bw",
        "node-a",
        "node-b",
        "--device",
        "rxe0",
        "--duration",
        "2s",
        "--repeats",
        "1",
        "--json",
    ]);
    run.expect(0, &[]);
    let report = run.report();
    assert_eq!(report["verdict"]["status"], "warn", "{:#}", report["verdict"]);
    let counters = report["measurements"][0]["counters"].to_string();
    assert!(counters.contains("retry") || counters.contains("seq"), "{counters}");
}

#[test]
fn interrupt_keeps_what_was_measured_and_cleans_up() {
    let before = traces();
    let dir = tempfile::tempdir().unwrap();
    let mut command = fabbench(&["pair", "node-a", "node-b", "--out"]);
    command.arg(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let journal = dir.path().join("journal.jsonl");
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&journal).unwrap_or_default().lines().count() < 3 {
        assert!(std::time::Instant::now() < deadline, "no three measurements within a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(dir.path().join("report.json")).expect("report kept");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["complete"], false);
    assert!(report["measurements"].as_array().unwrap().len() >= 3);
    nothing_left(&before);
}
