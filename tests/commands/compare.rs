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

#[test]
fn every_form_is_written_and_what_cannot_be_written_is_told_first() {
    let place = tempfile::tempdir().unwrap();
    let (before, after) = (sample("hardware-unjudged"), slowed(place.path(), 0.6));
    let file = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let option = |form: &str| format!("--{form}={}", file(form));
    let options = ["json", "html", "junit", "markdown"].map(option);
    let mut typed = vec!["compare", before.as_str(), after.as_str(), "-q"];
    typed.extend(options.iter().map(String::as_str));
    run(&typed).expect(1, &["fail: "]);
    let read = |form: &str| fs::read_to_string(file(form)).unwrap();
    assert!(read("html").contains("28.99") && read("html").contains("worse"));
    assert!(read("junit").contains("<failure type=\"fail\" message=\"worse: "));
    assert!(read("markdown").starts_with("## fabbench compare\n\n**FAIL: "));
    let page: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
    assert_eq!(page["schema"], "fabbench-compare/1");
    run(&["compare", &before, &after, "--html=/nonexistent/x"]).expect(2, &["/nonexistent/x"]);
    let twice = [option("html"), format!("--junit={}", file("html"))];
    run(&["compare", &before, &after, &twice[0], &twice[1]]).expect(2, &["two forms"]);
}
