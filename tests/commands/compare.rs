//! `fabbench compare`.

use std::fs;
use std::path::Path;

use crate::support::run;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/reports/samples");

fn sample(name: &str) -> String {
    format!("{SAMPLES}/{name}.json")
}

/// The sample with every rate of its repeats at `part` of what it was.
fn slowed(into: &Path, part: f64) -> String {
    let text = fs::read_to_string(sample("hardware-unjudged")).unwrap();
    let mut report = fabbench_reports::json::read(&text).unwrap();
    for repeat in report.measurements.iter_mut().flat_map(|m| &mut m.repeats) {
        repeat.received_bps = repeat.received_bps.map(|bps| bps * part);
    }
    report.hosts[1].devices[0].firmware = "28.99".into();
    let path = into.join("after.json");
    fs::write(&path, fabbench_reports::json::write(&report).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_report_is_the_same_as_itself() {
    let file = sample("soft-roce-pair");
    run(&["compare", &file, &file, "-q"]).expect(0, &["pass: 40 same; not firm"]);
}

#[test]
fn a_slower_fabric_is_a_regression_and_new_firmware_stands_beside_it() {
    let place = tempfile::tempdir().unwrap();
    let (before, after) = (sample("hardware-unjudged"), slowed(place.path(), 0.6));
    run(&["compare", &before, &after])
        .expect(1, &["FAIL: ", "worse", "gpu02/mlx5_0 firmware 28.39.1002 28.99", "not firm"]);
    let page = run(&["compare", &before, &after, "--json"]).json();
    assert_eq!((&page["schema"], &page["status"]), (&"fabbench-compare/1".into(), &"fail".into()));
    run(&["compare", &before, &after, "--warn", "50", "--fail", "60", "-q"]).expect(0, &["pass"]);
}

#[test]
fn what_is_no_report_is_refused_by_name() {
    let good = sample("failing");
    run(&["compare", "/nonexistent.json", &good])
        .expect(2, &["read report: /nonexistent.json: No such file"]);
    run(&["compare", &good, &format!("{SAMPLES}/failing.txt")])
        .expect(2, &["failing.txt: not a fabbench report"]);
    run(&["compare", &good, &good, "--fail", "x"]).expect(2, &["between 0 and 100"]);
}
