//! The table against perftest's own help, and the command line that comes out.

use super::table::{Entry, How, Kind, Table};
use super::*;

/// What the help of each program lists, `program option…` a line, from Debian 12's perftest (6.06).
const DEBIAN: &str = include_str!("../../../tests/fixtures/perftest-6.06-options.txt");

/// What the help and the parser of 6.29 know, one a line.
const NEWEST: &str = include_str!("../../../tests/fixtures/perftest-6.29-options.txt");

fn find<'t>(table: &'t Table, name: &str) -> Option<&'t Entry> {
    table.entries().iter().find(|e| e.names.iter().any(|n| n == name))
}

#[test]
fn every_option_of_debians_help_is_known_of_its_program() {
    let table = Table::own().unwrap();
    let mut seen = 0;
    for line in DEBIAN.lines().filter(|l| !l.starts_with('#')) {
        let mut words = line.split(' ');
        let program = Program::named(words.next().unwrap()).unwrap();
        for option in words {
            let entry = find(&table, option).unwrap_or_else(|| panic!("{option} is missing"));
            assert!(program.has(entry), "{} has {option}", program.name);
            seen += 1;
        }
    }
    assert!(seen > 600, "only {seen} options in the fixture");
}

#[test]
fn every_option_of_the_newest_is_known() {
    let table = Table::own().unwrap();
    for line in NEWEST.lines().filter(|l| !l.starts_with('#')) {
        for option in line.split(' ') {
            assert!(find(&table, option).is_some(), "{option} is missing");
        }
    }
}

/// A value that the option takes.
fn sample(entry: &Entry) -> &'static str {
    match (&entry.how, entry.flag.as_deref()) {
        (How::Device, _) => "mlx5_0",
        (How::Connection, _) => "RC",
        (How::Atomic, _) => "CMP_AND_SWAP",
        (How::Size, _) => "64K",
        (How::Duration, _) => "10",
        (How::RateUnits, _) => "M",
        (_, Some("--mtu")) => "1024",
        (_, Some("--signal-every")) => "4",
        (_, Some("--json")) => "out.json",
        _ => "2",
    }
}

#[test]
fn every_flag_that_the_table_prints_is_one_of_fabbench() {
    let table = Table::own().unwrap();
    for entry in table.entries().iter().filter(|e| e.kind == Kind::Flag) {
        let programs = Program::names().into_iter().filter_map(Program::named);
        for program in programs.filter(|p| p.has(entry)) {
            for name in &entry.names {
                let mut words = vec![name.clone()];
                words.extend(entry.value.then(|| sample(entry).to_owned()));
                let typed = typed::read(&table, program, &words).unwrap();
                let command = translate(&typed).unwrap().command.unwrap();
                check(&command).unwrap_or_else(|e| panic!("{} {name}: {e}", program.name));
            }
        }
    }
}

fn command(line: &str) -> String {
    let table = Table::own().unwrap();
    let words = shell_words::split(line).unwrap();
    let program = Program::named(&words[0]).unwrap();
    let typed = typed::read(&table, program, &words[1..]).unwrap();
    let command = translate(&typed).unwrap().command.unwrap();
    check(&command).unwrap();
    shell_words::join(&command)
}

#[test]
fn worked_examples() {
    let cases = [
        (
            "ib_write_bw -d mlx5_0 -x 3 -q 4 -D 10 --report_gbits host-b",
            "fabbench bw local host-b --op write --device mlx5_0 --size 64KiB --signal-every 1 \
             --duration 6s --warmup 2s --gid-index 3 --qps 4",
        ),
        (
            "ib_send_lat -d mlx5_0 -i 2 -F -n 10000 -s 8 host-b",
            "fabbench lat local host-b --op send --device mlx5_0:2 --size 8 --signal-every 1 \
             --iterations 10000",
        ),
        (
            "ib_read_bw -s 1M -D 20 -f 3 -o 16 host-b",
            "fabbench bw local host-b --op read --direction b-a --size 1MiB --qps 1 \
             --signal-every 1 --duration 14s --warmup 3s --outstanding-reads 16",
        ),
        (
            "ib_write_bw -abF -t 64 -m 1024 host-b",
            "fabbench bw local host-b --op write --direction both --size 2..8MiB --qps 1 \
             --signal-every 64 --tx-depth 64 --mtu 1024",
        ),
        (
            "ib_write_bw --reversed -s 512 -l 8 host-b",
            "fabbench bw local host-b --op write --direction b-a --size 512 --qps 1 \
             --signal-every 8 --post-list 8",
        ),
        (
            "ib_send_bw -s 2048 -m 2048 -e host-b",
            "fabbench bw local host-b --op send --size 2KiB --qps 1 --signal-every 100 \
             --mtu 2048 --poll event",
        ),
        (
            "ib_write_bw --rate_limit=10 --disable_pcie_relaxed host-b",
            "fabbench bw local host-b --op write --size 64KiB --qps 1 --signal-every 1 \
             --rate-limit 10Gb/s --relaxed-ordering off",
        ),
        (
            "ib_atomic_lat -A CMP_AND_SWAP host-b",
            "fabbench lat local host-b --op cmp_swap --direction b-a --signal-every 1",
        ),
    ];
    for (typed, wanted) in cases {
        assert_eq!(command(typed), wanted, "{typed}");
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    let table = Table::own().unwrap();
    let refused = |line: &str| {
        let words = shell_words::split(line).unwrap();
        let program = Program::named(&words[0]).unwrap();
        let typed = typed::read(&table, program, &words[1..]).unwrap();
        let command = translate(&typed).map(|t| t.command.unwrap_or_default());
        command.and_then(|c| check(&c)).unwrap_err().to_string()
    };
    let cases = [
        ("ib_write_bw -D 4 -f 2 h", "leave nothing to measure"),
        ("ib_write_bw -q 99999 h", "99999"),
        ("ib_write_bw -c TCP h", "perftest knows RC"),
        ("ib_write_bw -s 0 h", "no size"),
        ("ib_write_bw -s 2000000000 h", "1 GiB at most"),
        ("ib_write_bw --rate_limit=5 --rate_units=p h", "not packets"),
        ("ib_atomic_bw -A SWAP h", "FETCH_AND_ADD"),
    ];
    for (line, words) in cases {
        let error = refused(line);
        assert!(error.contains(words), "{line}: {error}");
    }
}
