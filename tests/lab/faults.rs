//! Bad input and faults: the right exit code, a sentence that helps, what was measured kept, and
//! (which [`Lab`] sees to) nothing left on the hosts.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Lab, Run, finish, on, ssh};

/// A run that is short, for cases in which only the end matters.
const SHORT: [&str; 4] = ["--duration", "100ms", "--repeats", "1"];

/// A fault must end a case within this time: 10 s of silence or of standing still, the agents'
/// last words, and what a slow machine adds.
const SOON: Duration = Duration::from_secs(25);

/// `bw node-a node-b` with these further arguments.
fn short_bw(lab: &Lab, more: &[&str]) -> Run {
    lab.run(&[&["bw", "node-a", "node-b"][..], &SHORT[..], more].concat())
}

/// Ids of what a report says was asked for and not measured, with the reasons.
fn missing(report: &Value) -> Vec<(String, String)> {
    let entries = report["not_measured"].as_array().expect("not_measured");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let asked = entries.iter().filter(|entry| entry["asked"] == true);
    asked.map(|entry| (text(&entry["what"]), text(&entry["why"]))).collect()
}

/// How many measurements of a transport a report holds.
fn measured(report: &Value, transport: &str) -> usize {
    let all = report["measurements"].as_array().expect("measurements");
    all.iter().filter(|m| m["transport"] == transport).count()
}

#[test]
fn an_unknown_host_is_named_with_the_next_step() {
    Lab::new().run(&["pair", "node-a", "node-nowhere"]).expect(
        3,
        &["node-nowhere: connect", "Could not resolve", "check the spelling, /etc/hosts"],
    );
}

#[test]
fn a_host_without_sshd_is_named_with_the_next_step() {
    let closed = format!("{} -o ControlPath=none -o Port=1", ssh());
    Lab::new().run(&["pair", "node-a", "node-b", "--ssh", &closed]).expect(
        3,
        &["node-a: connect", "node-b: connect", "Connection refused", "is sshd running"],
    );
}

#[test]
fn host_names_that_ssh_or_a_shell_would_interpret_are_refused() {
    let lab = Lab::new();
    for (name, sign) in
        [("-oProxyCommand=true", "'-'"), ("node-b;id", "';'"), ("$(id)", "'$'"), ("a b", "' '")]
    {
        lab.run(&["pair", "--", "node-a", name]).expect(2, &[sign, "[user@]host"]);
    }
}

#[test]
fn a_missing_fabbench_is_named_and_push_brings_one_and_takes_it_away() {
    let lab = Lab::new();
    lab.run(&["pair", "node-a", "node-b", "--agent-path", "/nonexistent/fabbench"])
        .expect(3, &["node-a: connect", "/nonexistent/fabbench", "--push"]);
    let hosts = ["bw", "tester@node-a", "node-b"];
    lab.undo_line("node-b", "mv /usr/local/bin/away /usr/local/bin/fabbench");
    on("node-b", "mv /usr/local/bin/fabbench /usr/local/bin/away");
    lab.run(&hosts).expect(3, &["node-b: connect: fabbench is not there", "--agent-path, or copy"]);
    let pushed = [&hosts[..], &["--push", "--device", "rxe0"], &SHORT[..]].concat();
    lab.run(&pushed).expect(0, &["function passed"]);
}

#[test]
fn another_protocol_is_refused_by_name() {
    let lab = Lab::new();
    let hello = r#"{"Hello":{"protocol":99,"version":"9.9.9","x":"yz"}}"#;
    let script = format!(
        "#!/bin/sh\nprintf '\\000\\002fabbench agent stream\\003\\n\\000\\000\\000\\0{:o}%s' '{hello}'\n\
         exec cat >/dev/null",
        hello.len()
    );
    lab.script("node-b", "/usr/local/bin/other-fabbench", &script);
    lab.script("node-a", "/usr/local/bin/other-fabbench", "#!/bin/sh\nexec fabbench \"$@\"");
    lab.run(&["pair", "node-a", "node-b", "--agent-path", "/usr/local/bin/other-fabbench"])
        .expect(3, &["node-b: connect", "fabbench 9.9.9 speaks protocol 99", "--push"]);
}

#[test]
fn without_the_library_tcp_is_measured_and_the_rest_named() {
    let lab = Lab::new();
    lab.hide("node-b", "library");
    let run =
        lab.run(&["pair", "node-a", "node-b", "--duration", "300ms", "--repeats", "1", "--json"]);
    run.expect(3, &[]);
    let report = run.report();
    assert_eq!(measured(&report, "rc"), 0);
    assert!(measured(&report, "tcp") >= 6, "{:#}", report["measurements"]);
    let why = &missing(&report)[0].1;
    for word in ["node-b", "libibverbs.so.1", "apt install rdma-core", "--transport tcp"] {
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn what_verbs_lack_is_told_apart_with_the_next_step() {
    let lab = Lab::new();
    for (hidden, words) in [
        ("provider", ["no provider", "apt install ibverbs-providers"]),
        ("nodes", ["/dev/infiniband/uverbs", "--device=/dev/infiniband"]),
        ("rxe", ["no device", "fabbench softroce up"]),
    ] {
        lab.hide("node-b", hidden);
        let run = short_bw(&lab, &[]);
        run.expect(3, &["node-b", "INCOMPLETE"]);
        run.expect(3, &words);
        lab.hide("node-b", "none");
    }
}

#[test]
fn unreadable_uverbs_is_told_to_an_ordinary_user() {
    let lab = Lab::new();
    lab.hide("node-b", "uverbs");
    lab.run(&["bw", "node-a", "tester@node-b"]).expect(
        3,
        &["node-b", "/dev/infiniband/uverbs0", "Permission denied (EACCES)", "run as root or"],
    );
}

#[test]
fn memlock_too_small_is_told_to_an_ordinary_user() {
    let lab = Lab::new();
    for node in ["node-a", "node-b"] {
        let script = "#!/bin/sh\nulimit -l 64\nexec fabbench \"$@\"";
        lab.script(node, "/usr/local/bin/small-fabbench", script);
    }
    let small = ["--device", "rxe0", "--agent-path", "/usr/local/bin/small-fabbench"];
    let hosts = |user: &str| [format!("{user}node-a"), format!("{user}node-b")];
    let run = |user: &str| {
        let [a, b] = hosts(user);
        lab.run(&[&["bw", a.as_str(), b.as_str()][..], &SHORT[..], &small[..]].concat())
    };
    run("tester@").expect(3, &["memlock", "64 KiB", "limits.conf", "register memory"]);
    run("root@").expect(0, &["function passed"]);
}

#[test]
fn a_wrong_device_or_port_name_lists_what_there_is() {
    let lab = Lab::new();
    lab.run(&["pair", "node-a", "node-b", "--device", "mlx9_9"])
        .expect(2, &["node-a has no mlx9_9", "node-a/rxe0:1", "node-a/rxe1:1"]);
    lab.run(&["bw", "node-a", "node-b", "--device-b", "rxe0:7"])
        .expect(2, &["node-b has no rxe0:7", "node-b/rxe0:1"]);
}

#[test]
fn a_port_that_is_down_is_named_and_the_other_rail_measured() {
    let lab = Lab::new();
    lab.link("node-b/1", &["cut"]);
    std::thread::sleep(Duration::from_secs(1));
    let pair = ["pair", "node-a", "node-b", "--transport", "rc", "--json"];
    let run = lab.run(&[&pair[..], &SHORT[..]].concat());
    run.expect(3, &["node-b/rxe1:1 is DOWN: check the cable"]);
    let report = run.report();
    let down = report["checks"].as_array().unwrap().iter().any(|c| {
        c["id"] == "port-state" && c["status"] == "fail" && c["object"] == "node-b/rxe1:1"
    });
    assert!(down, "{:#}", report["checks"]);
    assert!(measured(&report, "rc") >= 12, "{:#}", report["measurements"]);
    assert_eq!(report["rails"].as_array().unwrap().len(), 1);
}

#[test]
fn different_mtus_work_at_the_smaller_and_warn() {
    let lab = Lab::new();
    lab.link("node-b/0", &["mtu", "1500"]);
    let run = short_bw(&lab, &["--device", "rxe0", "--json"]);
    run.expect(0, &["MTUs differ", "works at 1024 B"]);
    let report = run.report();
    assert_eq!(report["verdict"]["status"], "warn", "{:#}", report["verdict"]);
    let checks = report["checks"].as_array().unwrap();
    let mtu = checks.iter().find(|c| c["id"] == "mtu" && c["status"] == "warn");
    assert!(mtu.is_some(), "{checks:#?}");
    assert_eq!(report["measurements"][0]["path"]["mtu"], 1024);
}

#[test]
fn a_port_without_usable_gid_is_told() {
    let lab = Lab::new();
    let addresses = on("node-b", "ip -o -4 addr show dev eth0 | awk '{print $4}'");
    let address = addresses.trim();
    // The link-local address comes back with the interface.
    let back =
        format!("ip addr add {address} dev eth0; ip link set eth0 down; ip link set eth0 up");
    lab.undo_line("node-b", &back);
    on("node-b", "ip addr flush dev eth0");
    let words = ["node-b/rxe0:1 has no usable GID", "give its interface an IP address"];
    short_bw(&lab, &["--device", "rxe0"]).expect(3, &words);
}

/// Starts a long verbs case, does `fault` while it moves packets, and returns how it ended and how
/// long after the fault.
fn during_a_case(lab: &Lab, fault: impl FnOnce()) -> (Run, Duration) {
    let arguments =
        ["bw", "node-a", "node-b", "--device", "rxe0", "--duration", "60s", "--repeats", "1"];
    let mut command = lab.fabbench(&arguments);
    std::thread::scope(|scope| {
        let running = scope.spawn(move || finish(&mut command, Duration::from_secs(100)));
        // More packets than go before the measured window.
        let moving = "cd /sys/class/infiniband/rxe0/ports/1/hw_counters; n=$(cat sent_pkts); \
                      for i in $(seq 200); do [ $(($(cat sent_pkts) - n)) -lt 3000 ] || exit 0; \
                      sleep 0.1; done; exit 1";
        on("node-a", moving);
        let began = Instant::now();
        fault();
        let run = running.join().expect("the run ends");
        let after = run.ended.saturating_duration_since(began);
        (run, after)
    })
}

/// What every fault during a case must end in.
fn assert_ended(run: &Run, after: Duration, words: &[&str]) {
    run.expect(3, &["INCOMPLETE", "bandwidth/rc/write/65536/rail0/a-b", "stage "]);
    run.expect(3, words);
    assert!(after < SOON, "{after:?} after the fault: {}", run.text());
}

#[test]
fn a_killed_agent_ends_the_run_at_once() {
    let lab = Lab::new();
    let (run, after) = during_a_case(&lab, || {
        on("node-b", "pkill -KILL -x fabbench");
    });
    assert_ended(&run, after, &["node-b: stage bandwidth", "its agent ended", "dmesg"]);
    assert!(after < Duration::from_secs(15), "no silence to wait for, but {after:?}");
}

#[test]
fn a_stopped_agent_is_noticed_and_cleaned_up() {
    let lab = Lab::new();
    let (run, after) = during_a_case(&lab, || {
        on("node-b", "pkill -STOP -x fabbench");
    });
    assert_ended(&run, after, &["node-b: stage bandwidth", "silent for 10 s", "stopped"]);
}

#[test]
fn a_link_cut_for_good_ends_the_case_with_the_stage() {
    let lab = Lab::new();
    let (run, after) = during_a_case(&lab, || lab.link("node-a/0", &["cut"]));
    assert_ended(&run, after, &["stage measure", "rxe0", "went down", "check its cable"]);
}

#[test]
fn packets_that_vanish_end_the_case_with_the_stage() {
    let lab = Lab::new();
    let (run, after) = during_a_case(&lab, || {
        lab.link("node-a/0", &["drop"]);
        lab.link("node-b/0", &["drop"]);
    });
    assert_ended(&run, after, &["stage measure", "rxe0:1", "nothing moved for 10"]);
}

/// Starts `pair` with `--out`, waits until so many measurements are in the journal, does `then`,
/// and returns the end, the time since, and the report that was kept.
fn pair_until(
    lab: &Lab,
    more: &[&str],
    count: usize,
    then: impl FnOnce(u32),
) -> (Run, Duration, Value) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = lab.fabbench(&["pair", "node-a", "node-b", "--out"]);
    command.arg(dir.path()).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let child = command.spawn().unwrap();
    wait_for_lines(&dir.path().join("journal.jsonl"), count);
    let since = Instant::now();
    then(child.id());
    let output = child.wait_with_output().unwrap();
    let run = Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: began.elapsed(),
        ended: Instant::now(),
    };
    let kept = std::fs::read_to_string(dir.path().join("report.json"))
        .unwrap_or_else(|e| panic!("report.json: {e}: {}", run.text()));
    (run, since.elapsed(), serde_json::from_str(&kept).unwrap())
}

fn wait_for_lines(file: &Path, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(file).unwrap_or_default().lines().count() < count {
        assert!(Instant::now() < deadline, "no {count} measurements within a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_link_cut_during_pair_costs_its_rail_and_little_time() {
    let lab = Lab::new();
    let more = ["--duration", "200ms"];
    let (run, since, report) = pair_until(&lab, &more, 7, |_| lab.link("node-a/0", &["cut"]));
    run.expect(3, &["DOWN", "rail0 failed 2 times before"]);
    assert!(since < Duration::from_secs(100), "{since:?}: {}", run.text());
    assert!(measured(&report, "rc") >= 7 + 6, "rail1 goes on: {:#}", report["measurements"]);
    assert_eq!(report["verdict"]["function"], "incomplete");
    let lost = missing(&report);
    assert!(
        lost.len() >= 5
            && lost.iter().all(|(_, why)| why.contains("rail0") || why.contains("node-")),
        "{lost:?}"
    );
}

#[test]
fn frames_that_vanish_during_pair_cost_their_rail_and_little_time() {
    let lab = Lab::new();
    let more = ["--duration", "200ms"];
    let (run, since, report) = pair_until(&lab, &more, 7, |_| {
        lab.link("node-a/0", &["drop"]);
        lab.link("node-b/0", &["drop"]);
    });
    run.expect(3, &["rail0 failed 2 times before"]);
    assert!(since < Duration::from_secs(150), "{since:?}: {}", run.text());
    assert!(measured(&report, "rc") >= 7 + 6, "rail1 goes on: {:#}", report["measurements"]);
    assert!(measured(&report, "tcp") >= 6, "{:#}", report["measurements"]);
}

#[test]
fn loss_is_measured_and_warned_about() {
    let lab = Lab::new();
    lab.link("node-a/0", &["loss", "2"]);
    let run = lab.run(&[
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
    let reasons = report["verdict"]["reasons"].to_string();
    assert!(reasons.contains("retransmi") || reasons.contains("sequence"), "{reasons}");
    let counters = report["measurements"][0]["counters"].to_string();
    assert!(counters.contains("retry") || counters.contains("seq"), "{counters}");
}

#[test]
fn interrupt_keeps_what_was_measured_and_cleans_up() {
    let lab = Lab::new();
    let (run, since, report) = pair_until(&lab, &[], 3, |pid| {
        std::process::Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap();
    });
    run.expect(130, &["interrupted"]);
    assert!(since < Duration::from_secs(10), "{since:?}");
    assert_eq!(report["complete"], false);
    assert_eq!(report["verdict"]["status"], "incomplete");
    assert!(report["measurements"].as_array().unwrap().len() >= 3);
}

#[test]
fn a_guest_that_dies_fails_its_test_and_the_lab_starts_anew() {
    let lab = Lab::new();
    // Told to die a moment later, so that the command itself ends.
    on("node-b", "(sleep 1; echo c > /proc/sysrq-trigger) > /dev/null 2>&1 < /dev/null &");
    let run = lab.run(&["bw", "node-a", "node-b", "--device", "rxe0", "--duration", "30s"]);
    run.expect(3, &["node-b"]);
    let ended = lab.end();
    std::mem::forget(lab);
    let why = ended.unwrap_err();
    assert!(why.contains("the lab failed, and was started anew"), "{why}");
    assert!(why.contains("sysrq"), "the serial log says why: {why}");
    drop(Lab::new());
}
