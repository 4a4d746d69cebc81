//! Where reports go, and what happens when they cannot.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use fabbench_reports::json;

use crate::support::{FABBENCH, SHORT, alone, end_of, fabbench, finish, names, plain, run, short};

#[test]
fn bare_json_is_alone_on_stdout() {
    let ran = short(&["--json"]);
    assert_eq!(ran.json()["schema"], "fabbench-report/1");
    ran.expect(0, &["[1/6] integrity"]);
}

#[test]
fn a_directory_gets_every_form_and_a_journal() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("deep/out");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("report.json"), "of an earlier run").unwrap();
    fs::write(out.join("mine.txt"), "mine").unwrap();
    short(&["--out", out.to_str().unwrap()]).expect(0, &["PASS"]);
    let forms = ["csv", "html", "json", "junit.xml", "md", "prom", "txt"];
    let mut wanted = vec!["journal.jsonl".to_owned(), "mine.txt".to_owned()];
    wanted.extend(forms.map(|form| format!("report.{form}")));
    assert_eq!(names(&out), wanted);
    let report = json::read(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    let journal = fs::read_to_string(out.join("journal.jsonl")).unwrap();
    let ids = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].clone();
    let told: Vec<_> = journal.lines().map(ids).collect();
    let reported: Vec<_> = report.measurements.iter().map(|m| m.id.clone()).collect();
    assert_eq!(told, reported, "a line for each measurement, in order");
    let text = fs::read_to_string(out.join("report.txt")).unwrap();
    assert!(text.contains("PASS: function passed") && !text.contains('\x1b'));
}

#[test]
fn a_path_that_cannot_be_written_is_told_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "mine").unwrap();
    let directory = format!("--json={}", place.path().display());
    let (below, file) = (format!("--json={}/x.json", file.display()), file.to_str().unwrap());
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--json=/nonexistent/x.json"], &["create report: /nonexistent/x.json: No such file"]),
        (&["--json=/proc/x.json"], &["create report: /proc/x.json"]),
        (&[&below], &["Not a directory"]),
        (&[&directory], &["is a directory; name a file, or use --out"]),
        (&["--out", file], &["create directory", "File exists"]),
    ];
    for (flags, words) in cases {
        let ran = run(&[&SHORT[..], flags].concat());
        ran.expect(2, words);
        assert!(ran.stdout.is_empty() && !ran.stderr.contains("measuring"), "{}", ran.stderr);
        assert!(!ran.stderr.contains(".fabbench-"), "no temporary name: {}", ran.stderr);
    }
    assert_eq!(
        (names(place.path()), fs::read_to_string(file).unwrap()),
        (vec!["file".into()], "mine".into())
    );
}

#[test]
fn what_is_no_regular_file_is_written_to_and_not_replaced() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read_to_string(pipe).unwrap())
    };
    short(&[&format!("--json={}", pipe.display())]).expect(0, &["PASS"]);
    assert!(json::read(&reader.join().unwrap()).unwrap().complete);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(names(place.path()), ["pipe"], "no journal, no temporary file");
}

#[test]
fn a_symbolic_link_stays_one() {
    let place = tempfile::tempdir().unwrap();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let inode = fs::symlink_metadata(&link).unwrap().ino();
    short(&[&format!("--json={}", link.display())]).expect(0, &["PASS"]);
    assert_eq!(fs::symlink_metadata(&link).unwrap().ino(), inode);
    assert!(json::read(&fs::read_to_string(&file).unwrap()).unwrap().complete);
}

/// A limit on the size of files stands in for a disk that is full.
#[test]
fn a_full_disk_costs_the_report_and_not_the_results() {
    let place = tempfile::tempdir().unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {FABBENCH} {} --out {}",
        SHORT.join(" "),
        place.path().display()
    );
    let mut command = Command::new("sh");
    plain(command.args(["-c", &script]));
    let ran = {
        let _alone = alone();
        finish(&mut command)
    };
    ran.expect(
        3,
        &[
            "append to journal",
            "measuring goes on",
            "write report:",
            "as many measurements as fitted are in",
            "journal.jsonl",
            "PASS: function passed",
        ],
    );
    assert_eq!(ran.stderr.matches("append to journal").count(), 1, "{}", ran.stderr);
    assert!(!names(place.path()).iter().any(|name| name == "report.json"), "no torn report");
    assert!(!names(place.path()).iter().any(|name| name.starts_with('.')), "nothing left");
    let journal = fs::read_to_string(place.path().join("journal.jsonl")).unwrap();
    let first = journal.lines().next().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(first).is_ok(), "{first}");
}

#[test]
fn a_full_disk_under_stdout_is_an_error() {
    for arguments in [&["devices"][..], &["completions", "bash"], &["man"], &["softroce", "status"]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = finish(fabbench(arguments).stdout(Stdio::from(full)));
        ran.expect(3, &["write results: stdout: No space left on device"]);
    }
}

/// What `| head -1` does to a program that goes on writing.
#[test]
fn a_reader_that_goes_away_is_no_trouble() {
    let pages: [&[&str]; 9] = [
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
        &["completions", "elvish"],
        &["completions", "powershell"],
        &["man"],
        &["pair", "--help"],
        &["devices"],
        &["softroce", "status"],
    ];
    for arguments in pages {
        closed_early(arguments);
    }
    let _alone = alone();
    closed_early(&[&SHORT[..], &["--json"]].concat());
}

fn closed_early(arguments: &[&str]) {
    let mut child = fabbench(arguments).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let code = end_of(&mut child).code();
    assert!(matches!(code, Some(0 | 3)), "{arguments:?}: {code:?}: {said}");
    assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{arguments:?}: {said}");
}

#[test]
fn an_unwritable_path_is_told_at_once() {
    let ran = run(&["bw", "nosuchhost.invalid", "local", "--json=/nonexistent/x.json"]);
    ran.expect(2, &["nothing was measured"]);
    assert!(ran.took < Duration::from_secs(5), "no host was asked: {:?}", ran.took);
}
