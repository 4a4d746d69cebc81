//! What every command line has in common.

use crate::support::{fabbench, finish, run};

const COMMANDS: [&[&str]; 13] = [
    &[],
    &["pair"],
    &["lat"],
    &["bw"],
    &["rate"],
    &["devices"],
    &["softroce"],
    &["softroce", "up"],
    &["softroce", "down"],
    &["softroce", "status"],
    &["agent"],
    &["completions"],
    &["man"],
];

#[test]
fn help_of_every_command_reads_well_at_80_columns() {
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            let arguments = [command, &[flag]].concat();
            let ran = finish(fabbench(&arguments).env("COLUMNS", "80"));
            ran.expect(0, &["Usage: fabbench"]);
            assert_eq!(ran.stderr, "");
            for line in ran.stdout.lines() {
                assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
            }
        }
    }
}

#[test]
fn every_option_says_what_it_does() {
    let ran = run(&["pair", "-h"]);
    let options = ran.stdout.lines().filter(|line| line.trim_start().starts_with("--"));
    let texts: Vec<&str> = options.collect();
    assert!(texts.len() > 15, "{}", ran.stdout);
    for exit in ["0 pass or warn", "1 fail", "2 wrong usage", "3 incomplete", "130"] {
        assert!(
            run(&["--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(exit),
            "{exit}"
        );
    }
}

#[test]
fn the_version_names_the_commit() {
    let ran = run(&["--version"]);
    let wanted = format!("fabbench {}\n", fabbench::VERSION_LINE);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), &*wanted));
    let commit = wanted.split_once('(').unwrap().1.trim_end().trim_end_matches(')');
    assert!(
        commit == "unknown" || commit.chars().take(7).all(|c| c.is_ascii_hexdigit()),
        "{commit}"
    );
}

#[test]
fn nothing_typed_is_wrong_usage_with_the_help() {
    let ran = run(&[]);
    ran.expect(2, &["Usage: fabbench <COMMAND>", "devices"]);
    run(&["pear"]).expect(2, &["unrecognized subcommand 'pear'", "pair"]);
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        ran.expect(0, &["softroce", "suite"]);
        assert_eq!(ran.stderr, "");
    }
    run(&["completions", "cmd"]).expect(2, &["possible values: bash"]);
}

#[test]
fn the_manual_page_is_one() {
    let ran = run(&["man"]);
    ran.expect(0, &[".TH fabbench 1", ".SH SYNOPSIS"]);
}
