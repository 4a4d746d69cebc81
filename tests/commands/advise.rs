//! `fabbench advise`: its answer in every form.

use std::fs;

use crate::support::{golden, run, samples};

const JOB: [&str; 19] = [
    "advise",
    "--model",
    "7b",
    "--tokens-per-gpu",
    "2048",
    "--gpu",
    "h100",
    "--gpus-per-node",
    "8",
    "--nics-per-node",
    "8",
    "--nodes",
    "8",
    "--target-nodes",
    "64",
    "--fabric",
    "ndr,tcp-25g",
    "--what-if",
    "fabric=hdr,nodes=128",
];

#[test]
fn the_answer_is_up_to_date_in_every_form() {
    let place = tempfile::tempdir().unwrap();
    let (json, html) = (place.path().join("a.json"), place.path().join("a.html"));
    let mut typed = JOB.to_vec();
    let options = [format!("--json={}", json.display()), format!("--html={}", html.display())];
    typed.extend(options.iter().map(String::as_str));
    let ran = run(&typed);
    ran.expect(0, &["RDMA: ", "nodes"]);
    golden("advice.txt", &ran.stdout);
    golden("advice.json", &fs::read_to_string(json).unwrap());
    golden("advice.html", &fs::read_to_string(html).unwrap());
}

#[test]
fn the_answer_is_a_part_of_the_reports_page() {
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("report.html");
    let report = samples().join("soft-roce-pair.json");
    let typed = [
        "advise",
        "--model",
        "7b",
        "--tokens-per-gpu",
        "8192",
        "--gpu",
        "h100",
        "--gpus-per-node",
        "8",
        "--nodes",
        "8",
        "--report",
        report.to_str().unwrap(),
        &format!("--html={}", page.display()),
    ];
    run(&typed).expect(0, &["no extrapolation", "not measured above 64 KiB"]);
    let page = fs::read_to_string(page).unwrap();
    for part in ["Is this job bound by the network?", "Hosts and adapters", "As nodes grow"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && page.len() < 400_000);
    run(&["advise", "--html=/tmp/x.html"]).expect(2, &["describe a job"]);
}
