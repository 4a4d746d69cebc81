//! `fabbench report`: saved reports again.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{golden, run};

fn report(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabbench")).arg("report").args(args).output().unwrap()
}

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/samples").join(name);
    path.to_string_lossy().into_owned()
}

#[test]
fn a_saved_report_is_printed_as_it_was_judged() {
    let output = report(&[&sample("failing.json")]);
    assert_eq!(output.status.code(), Some(1), "the verdict's exit code");
    assert!(String::from_utf8_lossy(&output.stdout).contains("fail"));
    let output = report(&[&sample("failing.json"), "--json"]);
    let own: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let saved = std::fs::read_to_string(sample("failing.json")).unwrap();
    assert_eq!(own, serde_json::from_str::<serde_json::Value>(&saved).unwrap());
}

#[test]
fn a_profile_judges_it_again() {
    let output = report(&[&sample("soft-roce-pair.json"), "--profile", "auto", "--json"]);
    let judged: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(judged["profile"]["name"], "soft-roce");
    assert_eq!(judged["verdict"]["performance"], "unjudged");
    let reason = judged["verdict"]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("line rate not judged: Soft-RoCE has none"), "{reason}");
}

#[test]
fn judged_samples_are_up_to_date() {
    let place = tempfile::tempdir().unwrap();
    let json = place.path().join("judged.json");
    for (raw, judged, code) in
        [("ndr-pair.json", "ndr-judged", 0), ("hdr-half-width.json", "hdr-judged", 1)]
    {
        let [html, markdown] =
            ["html", "md"].map(|form| place.path().join(judged).with_extension(form));
        let ran = run(&[
            "report",
            &sample(raw),
            "--profile=auto",
            &format!("--html={}", html.display()),
            &format!("--markdown={}", markdown.display()),
            &format!("--json={}", json.display()),
        ]);
        ran.expect(code, &["made up"]);
        golden(&format!("{judged}.txt"), &ran.stdout);
        golden(&format!("{judged}.html"), &std::fs::read_to_string(html).unwrap());
        golden(&format!("{judged}.md"), &std::fs::read_to_string(markdown).unwrap());
    }
    let kept = std::fs::read_to_string(json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let reasons = report["verdict"]["reasons"].to_string();
    assert!(reasons.contains("gpu02/mlx5_1:1: 2x of 4x"), "{reasons}");
}

#[test]
fn what_is_no_report_or_no_profile_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let bad = "name = \"x\"\nabout = \"\"\n[bounds.bandwith]\npass = 1\n";
    let cases = [
        (vec![put("empty.json", "")], "not a fabbench report"),
        (vec![put("new.json", "{\"schema\": \"fabbench-report/9\"}")], "cannot be read"),
        (vec![put("cut.json", "{\"schema\": \"fabbench-report/1\"}")], "damaged report"),
        (vec!["/nonexistent.json".into()], "read report: /nonexistent.json"),
        (vec![sample("failing.json"), "--profile=ndrr".into()], "is no profile: take auto"),
        (
            vec![sample("failing.json"), format!("--profile={}", put("x.toml", bad))],
            "unknown field `bandwith`",
        ),
    ];
    for (args, part) in cases {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = report(&args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn nagios_gets_one_line_and_its_own_exit_codes() {
    let line = |args: &[&str]| {
        let output = report(args);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        (output.status.code(), text)
    };
    let (code, text) = line(&[&sample("soft-roce-pair.json"), "--nagios"]);
    assert!(code == Some(0) && text.starts_with("FABBENCH OK - pass: node-a and node-b"), "{text}");
    assert!(text.contains(" | '"), "performance data: {text}");
    let (code, text) = line(&[&sample("failing.json"), "--nagios"]);
    assert!(code == Some(2) && text.starts_with("FABBENCH CRITICAL - "), "{text}");
    let (code, text) = line(&["/nonexistent.json", "--nagios"]);
    assert!(code == Some(3) && text.starts_with("FABBENCH UNKNOWN - read report"), "{text}");
    let (code, text) = line(&[&sample("failing.json"), "--nagios", "--no-such-flag"]);
    assert!(code == Some(3) && text.starts_with("FABBENCH UNKNOWN - "), "{text}");
    let strict = ["--nagios", "--fail-on", "unjudged"];
    let (code, _) = line(&[&[sample("soft-roce-pair.json").as_str()][..], &strict].concat());
    assert_eq!(code, Some(2));
}

#[test]
fn a_redacted_report_can_be_handed_on() {
    let output = report(&[&sample("failing.json"), "--redact", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("node-a") && !text.contains("node-b"), "{text}");
    assert!(text.contains("\"host-1\"") && text.contains("host-2/rxe0:1"), "{text}");
    assert_eq!(output.status.code(), Some(1), "the verdict stays");
}
