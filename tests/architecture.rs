//! Who may know whom: the rooms of the source tree keep their doors shut.

use std::fs;
use std::path::{Path, PathBuf};

/// Rust files under `room` (a directory, or a file of its own), those of its unit tests left out.
fn files(room: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(room);
    let mut open = vec![root];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if ["tests", "tests.rs"].iter().any(|own| path.ends_with(own)) {
            continue;
        }
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    assert!(!found.is_empty(), "{room}: no source file; has the room moved?");
    found
}

/// Lines of code of a file, comments and its unit tests left out, with their numbers.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    let of_product = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    of_product
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line.to_owned()))
        .collect()
}

/// Asserts that no code in `room` names any of `foreign`, but for files ending in one of `but`.
fn shut(room: &str, foreign: &[&str], but: &[&str], why: &str) {
    for path in files(room) {
        if but.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        for (number, line) in code(&path) {
            let named = foreign.iter().find(|name| line.contains(**name));
            assert!(named.is_none(), "{}:{number}: {line}\n{why}", path.display());
        }
    }
}

#[test]
fn what_measures_knows_no_command_line() {
    for room in ["src/engine", "src/transport", "src/memory", "src/measure", "src/host"] {
        let foreign = ["crate::cli", "crate::commands", "crate::agent", "clap::"];
        shut(room, &foreign, &[], "what measures is told what to do by values, not by flags");
    }
}

#[test]
fn engines_and_transports_know_no_plan() {
    let foreign =
        ["fabbench_harness::suite", "fabbench_harness::verdict", "fabbench_harness::rails"];
    for room in ["src/engine", "src/transport", "src/agent", "src/session", "src/measure"] {
        shut(
            room,
            &foreign,
            &[],
            "agents return plain data; the coordinator alone plans and judges",
        );
    }
    let plan = ["fabbench_harness::plan"];
    shut("src/engine", &plan, &[], "an engine gets its numbers from who runs the case");
}

#[test]
fn what_judges_opens_no_file_socket_or_process() {
    let foreign = ["std::fs", "std::process", "std::env", "TcpStream", "UdpSocket", "TcpListener"];
    shut("harness/src", &foreign, &["fixtures.rs"], "the harness is pure");
}

#[test]
fn only_commands_render() {
    let foreign = ["fabbench_reports::text", "fabbench_reports::json", "fabbench_reports::{"];
    for room in ["src/agent", "src/engine", "src/host", "src/measure", "src/memory"] {
        shut(room, &foreign, &[], "renderers are used by commands alone");
    }
    for room in ["src/session", "src/transport", "harness/src"] {
        shut(room, &foreign, &[], "renderers are used by commands alone");
    }
}

#[test]
fn unsafe_code_has_few_homes() {
    let words = ["unsafe {", "unsafe fn", "unsafe impl"];
    // A function compiled for vector instructions is called there, once the CPU was asked for them.
    let but = ["collective/kernels.rs"];
    for room in ["src/commands", "src/session", "src/agent", "src/engine", "src/measure"] {
        shut(
            room,
            &words,
            &but,
            "unsafe code lives in src/transport, src/memory and src/host alone",
        );
    }
    for room in ["src/cli.rs", "harness/src", "reports/src"] {
        shut(room, &words, &[], "no unsafe code here");
    }
}
