//! Whole hosts: the list of checks of each is beside its tree.

use super::*;
use crate::snapshot::Entry;

/// Hosts whose lists are kept; two names are a pair.
const HOSTS: [&[&str]; 13] = [
    &["ndr"],
    &["hdr"],
    &["ndr-gen4"],
    &["ndr-x8"],
    &["hdr-2x"],
    &["ndr-rail-down"],
    &["roce400-mtu1500"],
    &["bond"],
    &["vf-guest"],
    &["rxe"],
    &["efa"],
    &["ndr", "ndr-firmware"],
    &["ndr-no-sm"],
];

/// Those with something to find, for what a missing file may not hide.
const TROUBLED: [&str; 3] = ["hdr-2x", "roce400-mtu1500", "ndr-no-sm"];

pub(super) fn of_site(all: &[HostFacts]) -> Vec<Check> {
    let names = ["a", "b"];
    let hosts: Vec<_> = all.iter().zip(names).map(|(f, name)| facts::host(name, f)).collect();
    let party = |(facts, host)| Party { facts, host, data_address: None };
    let parties: Vec<_> = all.iter().zip(&hosts).map(party).collect();
    site_checks(&parties)
}

fn list(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let Check { id, object, status, found, wanted, remedy, .. } = check;
        let mut line = format!("{status} {id} {object}: {found}");
        if *status != Status::Pass && !wanted.is_empty() {
            line.push_str(&format!("; wanted: {wanted}"));
        }
        if !remedy.is_empty() {
            line.push_str(&format!("; to do: {remedy}"));
        }
        line + "\n"
    };
    checks.iter().map(line).collect()
}

#[test]
fn whole_hosts_are_checked_as_their_lists_say() {
    let update = std::env::var_os("UPDATE_HOSTS").is_some();
    for names in HOSTS {
        let all: Vec<_> = names.iter().map(|name| fixtures::tree(name)).collect();
        let seen = list(&of_site(&all));
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts");
        let path = format!("{directory}/{}.checks", names.join("+"));
        if update {
            std::fs::write(&path, &seen).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        for (number, (seen, expected)) in seen.lines().zip(expected.lines()).enumerate() {
            assert_eq!(seen, expected, "{path}:{}", number + 1);
        }
        assert_eq!(seen.lines().count(), expected.lines().count(), "{path}");
    }
}

/// Worst status of an id and object.
fn verdicts(checks: &[Check]) -> std::collections::BTreeMap<(String, String), Status> {
    let mut all = std::collections::BTreeMap::new();
    for check in checks {
        let worst = all.entry((check.id.clone(), check.object.clone())).or_insert(Status::Pass);
        *worst = check.status.max(*worst);
    }
    all
}

#[test]
fn a_file_that_is_gone_turns_nothing_into_a_pass() {
    for name in TROUBLED {
        let whole = fixtures::tree(name);
        let before = verdicts(&of_site(std::slice::from_ref(&whole)));
        for path in whole.snapshot.entries.keys() {
            let mut less = whole.clone();
            less.snapshot.entries.remove(path);
            for (key, status) in verdicts(&of_site(std::slice::from_ref(&less))) {
                let was = before.get(&key).copied().unwrap_or(Status::Unknown);
                let bad = matches!(was, Status::Fail | Status::Warn | Status::Unknown);
                let known = before.contains_key(&key);
                assert!(
                    !(known && bad && status == Status::Pass),
                    "{name} without {path}: {key:?} was {was}, is {status}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_read_turns_nothing_into_a_pass() {
    for name in TROUBLED {
        let whole = fixtures::tree(name);
        let before = verdicts(&of_site(std::slice::from_ref(&whole)));
        // Every third is enough: all are taken away in the test above.
        for path in whole.snapshot.entries.keys().step_by(3) {
            let mut less = whole.clone();
            less.snapshot.entries.insert(path.clone(), Entry::Error(13));
            for (key, status) in verdicts(&of_site(std::slice::from_ref(&less))) {
                let bad = before.get(&key).is_some_and(|was| {
                    matches!(was, Status::Fail | Status::Warn | Status::Unknown)
                });
                assert!(!(bad && status == Status::Pass), "{name}, {path}: {key:?}");
            }
        }
    }
}

/// A small generator: the test needs variety, not quality.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn garbled(text: &str, state: &mut u64) -> String {
    let junk = [
        "",
        "\u{0}\u{1}\u{fffd}",
        "-1",
        "99999999999999999999999",
        "üé:x",
        "N/A",
        "0x",
        "1-",
        "1:on:",
        "= =",
    ];
    let at = random(state) as usize % (text.chars().count() + 1);
    let head: String = text.chars().take(at).collect();
    match random(state) % 4 {
        0 => junk[random(state) as usize % junk.len()].to_owned(),
        1 => head,
        2 => head + junk[random(state) as usize % junk.len()],
        _ => text.repeat(3),
    }
}

#[test]
fn no_garbled_tree_breaks_a_check() {
    let mut state = 7;
    for names in HOSTS {
        let whole = fixtures::asked(names[0]);
        let paths: Vec<String> = whole.snapshot.entries.keys().cloned().collect();
        for _ in 0..8 {
            let mut broken = whole.clone();
            for _ in 0..1 + random(&mut state) % 12 {
                let path = paths[random(&mut state) as usize % paths.len()].clone();
                let entry = match (random(&mut state) % 5, broken.snapshot.entries.get(&path)) {
                    (0, _) => Entry::Error(random(&mut state) as i32 % 200),
                    (1, _) => Entry::Link(paths[random(&mut state) as usize % paths.len()].clone()),
                    (2, _) => Entry::Dir(vec!["..".into(), String::new(), "ü".into(), "1".into()]),
                    (_, Some(Entry::Text(text))) => Entry::Text(garbled(&text.clone(), &mut state)),
                    _ => Entry::Text("\u{fffd}".into()),
                };
                broken.snapshot.entries.insert(path, entry);
            }
            for output in broken.tools.values_mut() {
                if random(&mut state).is_multiple_of(4) {
                    *output =
                        crate::snapshot::ToolFact::Output(garbled("RX: on; TX: off", &mut state));
                }
            }
            let pair = [broken.clone(), whole.clone()];
            of_site(&pair);
        }
    }
}

#[test]
fn twelve_adapters_are_checked_at_once() {
    let mut facts = fixtures::tree("ndr");
    let copies: Vec<_> = facts
        .snapshot
        .entries
        .iter()
        .filter(|(path, _)| path.contains("mlx5_1"))
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect();
    for number in 2..12 {
        for (path, entry) in &copies {
            facts
                .snapshot
                .entries
                .insert(path.replace("mlx5_1", &format!("mlx5_{number}")), entry.clone());
        }
    }
    let started = std::time::Instant::now();
    let checks = of_site(std::slice::from_ref(&facts));
    // 50 ms in a release build; a debug build on a busy machine gets more.
    assert!(started.elapsed().as_millis() < 2000, "{:?}", started.elapsed());
    assert_eq!(checks.iter().filter(|check| check.id == "pcie-link").count(), 12);
}
