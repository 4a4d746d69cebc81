//! Regression runs: the same pair again, then with one host's link slowed down.

use std::path::Path;

use serde_json::Value;

use crate::support::{Lab, Run};

/// An acceptance run of one rail, kept in `file`.
fn pair(lab: &Lab, file: &Path) {
    let kept = format!("--json={}", file.display());
    let what = ["pair", "node-a", "node-b", "--device", "rxe0", "--transport", "rc"];
    let short = ["--duration", "500ms", "--repeats", "2"];
    lab.run(&[&what[..], &short, &[&kept]].concat()).expect(0, &["function passed"]);
}

fn compare(lab: &Lab, before: &Path, after: &Path) -> Run {
    lab.run(&["compare", &before.to_string_lossy(), &after.to_string_lossy(), "--json"])
}

/// Cases whose payload rate became worse.
fn slower(comparison: &Value) -> Vec<String> {
    let figures = comparison["figures"].as_array().expect("figures");
    let worse = figures.iter().filter(|f| f["became"] == "worse" && f["figure"] == "goodput");
    worse.map(|f| f["case"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_same_pair_again_is_the_same_and_a_slowed_host_is_named() {
    let lab = Lab::new();
    let place = tempfile::tempdir().unwrap();
    let before = place.path().join("before");
    std::fs::create_dir(&before).unwrap();
    let [again, after] = ["again.json", "after.json"].map(|name| place.path().join(name));
    // Shapers and not this machine's spare time set the rates.
    for link in ["node-a/0", "node-b/0"] {
        lab.link(link, &["shape", "40mbit"]);
    }
    for run in ["1.json", "2.json", "3.json"] {
        pair(&lab, &before.join(run));
    }
    pair(&lab, &again);
    let same = compare(&lab, &before, &again);
    let comparison: Value = serde_json::from_str(&same.stdout).unwrap();
    assert_eq!(slower(&comparison), [""; 0], "{comparison:#}");
    let figures = comparison["figures"].as_array().unwrap();
    let rates = figures.iter().filter(|f| f["figure"] == "goodput" && f["became"] == "same");
    assert!(rates.count() >= 3, "{comparison:#}");

    lab.link("node-b/0", &["shape", "24mbit"]);
    pair(&lab, &after);
    let worse = compare(&lab, &before, &after);
    assert_eq!(worse.code, Some(1), "{}", worse.text());
    let slower = slower(&serde_json::from_str(&worse.stdout).unwrap());
    // Acknowledgements share the slow link: with both directions at once, the other one may suffer.
    let alone: Vec<_> = slower.iter().filter(|case| !case.ends_with("at once")).collect();
    assert!(!alone.is_empty(), "{slower:#?}");
    assert!(alone.iter().all(|case| case.ends_with("node-b→node-a")), "{slower:#?}");
}
