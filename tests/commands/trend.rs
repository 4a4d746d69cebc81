//! `fabbench trend`, and several reports as one.

use std::fs;

use crate::support::run;

fn sample(name: &str) -> String {
    format!("{}/reports/samples/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_trend_is_a_table_a_page_and_json() {
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("trend.html");
    let (one, two) = (sample("hardware-unjudged"), sample("soft-roce-pair"));
    let html = format!("--html={}", page.display());
    run(&["trend", &one, &one, &html]).expect(0, &["██", "goodput", "same"]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg class=\"plot\"") && !page.contains("<script"));
    let json = run(&["trend", &one, &two, "--json", "--redact"]).json();
    assert_eq!(json["schema"], "fabbench-trend/1");
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    assert!(!json.to_string().contains("gpu01"), "redacted");
    run(&["trend", "/nonexistent.json"]).expect(2, &["/nonexistent.json"]);
    run(&["trend"]).expect(2, &["FILE"]);
}

#[test]
fn several_reports_are_one_only_when_asked() {
    let (one, two) = (sample("hardware-unjudged"), sample("soft-roce-pair"));
    run(&["report", &one, &two]).expect(2, &["2 reports: add --merge"]);
    let merged = run(&["report", "--merge", &one, &two, "--json"]).json();
    let hosts = merged["hosts"].as_array().unwrap();
    let hosts: Vec<&str> = hosts.iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert_eq!(hosts.len(), 4, "{hosts:?}");
    assert!(hosts.contains(&"gpu01") && hosts.contains(&"node-b"));
    assert_eq!(merged["verdict"]["performance"], "unjudged");
    run(&["report", "--merge", &one, &two, "--profile", "strict", "-q"]).expect(0, &["gpu01"]);
}
