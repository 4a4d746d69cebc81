//! `fabbench baseline` and `pair --baseline`.

use std::fs;
use std::path::Path;

use crate::support::{Run, alone, names, run, short};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An acceptance run long enough that its ends have a window in common where CPUs are busy.
fn measure(more: &[&str]) -> Run {
    let _alone = alone();
    let pair = ["pair", "local", "local", "--transport", "tcp", "--duration", "500ms"];
    run(&[&pair[..], &["--repeats", "1"], more].concat())
}

/// A short run of this machine over sockets, as a file.
fn measured(into: &Path) -> String {
    let file = format!("{}", into.display());
    measure(&["-q", &format!("--json={file}")]).expect(0, &["pass"]);
    file
}

/// The report as of a machine `factor` times as fast, in rates and in latencies, and another start.
///
/// Latencies too: one left as it was would be held against that of a busier moment.
fn scaled(file: &str, factor: f64, minute: u32) -> String {
    let mut report = fabbench_reports::json::read(&fs::read_to_string(file).unwrap()).unwrap();
    report.started = format!("2025-01-01T00:{minute:02}:00Z");
    for measurement in &mut report.measurements {
        if let Some(rate) = &mut measurement.messages_per_s {
            rate.median *= factor;
        }
        for repeat in &mut measurement.repeats {
            repeat.received_bps = repeat.received_bps.map(|bps| bps * factor);
            if let Some(latency) = &mut repeat.latency_ns {
                latency.p50 /= factor;
                latency.p99 /= factor;
            }
        }
    }
    let scaled = format!("{file}.{minute}.json");
    fs::write(&scaled, fabbench_reports::json::write(&report).unwrap()).unwrap();
    scaled
}

#[test]
fn runs_are_kept_by_hosts_suite_and_profile_and_later_ones_held_against_them() {
    let place = tempfile::tempdir().unwrap();
    let store = format!("--store={}", text(&place.path().join("store")));
    let file = measured(&place.path().join("run.json"));
    run(&["baseline", "list", &store]).expect(0, &["no baseline in", "baseline add FILE"]);
    measure(&["--baseline", "auto", &store])
        .expect(2, &["--baseline auto: none kept of local", "baseline add"]);
    // Far below what this machine does, so that chance makes no regression.
    let slow = [1, 2, 3].map(|minute| scaled(&file, 0.01, minute));
    let mut add = vec!["baseline", "add", store.as_str()];
    add.extend(slow.iter().map(String::as_str));
    run(&add).expect(0, &["added to local+local", "--quick--"]);
    run(&add).expect(0, &["is already in local+local"]);
    let list = run(&["baseline", "list", &store]);
    list.expect(0, &["3 runs, firm; 2025-01-01T00:01:00Z to 2025-01-01T00:03:00Z"]);
    let name = list.stdout.split(':').next().unwrap().to_owned();
    run(&["baseline", "show", &name, &store]).expect(0, &["fabbench trend", "bandwidth", "▁"]);
    assert_eq!(names(&place.path().join("store").join(&name)).len(), 3);
    measure(&["--baseline", "auto", &store])
        .expect(0, &["against the baseline auto: ", "fabbench compare", "better"]);

    let fast = scaled(&file, 100.0, 4);
    measure(&["--baseline", &fast])
        .expect(1, &["FAIL: ", "regression against the baseline", "worse"]);
    measure(&["--baseline", &fast, "--nagios"]).expect(2, &["FABBENCH CRITICAL - "]);
}

#[test]
fn a_baseline_that_is_not_there_is_told_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let store = format!("--store={}", text(place.path()));
    short(&["--baseline", "other", &store]).expect(2, &["no baseline \"other\"", "there: none"]);
    short(&["--baseline", "/nonexistent.json"]).expect(2, &["read report: /nonexistent.json"]);
    run(&["baseline", "show", "x", &store]).expect(2, &["no baseline \"x\""]);
    run(&["baseline", "add", "/nonexistent.json", &store]).expect(2, &["/nonexistent.json"]);
}
