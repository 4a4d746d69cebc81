//! Several reports as one: the pairs of a cluster in one view.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::model::{Measurement, Named, Report, Status, Verdict};

/// Why reports cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Nothing to merge.
    #[error("no report was given")]
    Nothing,
    /// One name, two machines.
    #[error(
        "host {name:?} is {one:?} in {one_source} and {other:?} in {other_source}: two machines \
         under one name cannot be told apart; measure them under their own names"
    )]
    TwoMachines {
        /// Name as typed.
        name: String,
        /// What the one calls itself.
        one: String,
        /// Where that was read.
        one_source: String,
        /// What the other calls itself.
        other: String,
        /// Where that was read.
        other_source: String,
    },
}

/// Merges reports, each with the name of its file. Facts of a host are those of the newest report;
/// rails and cases whose names would meet get their hosts, or a number, added. The verdict is the
/// worst of all: what one of them did not judge is not judged.
///
/// # Errors
///
/// See [`MergeError`].
pub fn merge(reports: &[(&str, &Report)]) -> Result<Report, MergeError> {
    one_machine_a_name(reports)?;
    let mut sorted: Vec<&(&str, &Report)> = reports.iter().collect();
    sorted.sort_by(|a, b| a.1.started.cmp(&b.1.started));
    let (_, newest) = **sorted.last().ok_or(MergeError::Nothing)?;
    let mut merged = Report {
        suite: shared(reports, |report| &report.suite),
        profile: shared(reports, |report| &report.profile),
        started: sorted[0].1.started.clone(),
        finished: sorted.iter().map(|(_, r)| r.finished.clone()).max().unwrap_or_default(),
        complete: reports.iter().all(|(_, report)| report.complete),
        simulated: reports.iter().any(|(_, report)| report.simulated),
        synthetic: reports.iter().any(|(_, report)| report.synthetic),
        hosts: Vec::new(),
        rails: Vec::new(),
        checks: Vec::new(),
        topology: Vec::new(),
        measurements: Vec::new(),
        matrices: reports.iter().flat_map(|(_, report)| report.matrices.clone()).collect(),
        fits: Vec::new(),
        not_measured: Vec::new(),
        diagnosis: Vec::new(),
        verdict: verdict(reports),
        ..newest.clone()
    };
    let mut ids = BTreeSet::new();
    for (_, report) in sorted {
        add_facts(&mut merged, report);
        let rails = add_rails(&mut merged, report);
        add_measurements(&mut merged, report, &rails, &mut ids);
    }
    crate::collective::complete(&mut merged);
    Ok(merged)
}

fn one_machine_a_name(reports: &[(&str, &Report)]) -> Result<(), MergeError> {
    let mut seen: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (source, report) in reports {
        for host in report.hosts.iter().filter(|host| !host.hostname.is_empty()) {
            let (one_source, one) = *seen.entry(&host.name).or_insert((source, &host.hostname));
            if one != host.hostname {
                return Err(MergeError::TwoMachines {
                    name: host.name.clone(),
                    one: one.to_owned(),
                    one_source: one_source.to_owned(),
                    other: host.hostname.clone(),
                    other_source: (*source).to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// What all reports name alike.
fn shared(reports: &[(&str, &Report)], part: impl Fn(&Report) -> &Named) -> Named {
    let mut all = reports.iter().map(|(_, report)| part(report));
    match all.next() {
        Some(first) if all.all(|other| other == first) => first.clone(),
        _ => Named { name: "several".into(), hash: String::new() },
    }
}

/// Hosts, checks and topology, the newest of each; what is missing and diagnosed, once each.
fn add_facts(merged: &mut Report, report: &Report) {
    for host in &report.hosts {
        replace(&mut merged.hosts, host, |a, b| a.name == b.name);
    }
    for check in &report.checks {
        let same = |a: &fabbench_reports::model::Check, b: &fabbench_reports::model::Check| {
            (&a.id, &a.host, &a.object) == (&b.id, &b.host, &b.object)
        };
        replace(&mut merged.checks, check, same);
    }
    for host in &report.topology {
        replace(&mut merged.topology, host, |a, b| a.host == b.host);
    }
    for missing in &report.not_measured {
        replace(&mut merged.not_measured, missing, |a, b| a == b);
    }
    for found in &report.diagnosis {
        replace(&mut merged.diagnosis, found, |a, b| a == b);
    }
}

fn replace<T: Clone>(all: &mut Vec<T>, new: &T, same: impl Fn(&T, &T) -> bool) {
    match all.iter_mut().find(|old| same(old, new)) {
        Some(old) => *old = new.clone(),
        None => all.push(new.clone()),
    }
}

/// Adds the rails; returns what each is called now.
fn add_rails<'a>(merged: &mut Report, report: &'a Report) -> BTreeMap<&'a str, String> {
    let mut names = BTreeMap::new();
    for rail in &report.rails {
        let ends =
            |other: &&mut fabbench_reports::model::Rail| (&other.a, &other.b) == (&rail.a, &rail.b);
        if let Some(known) = merged.rails.iter_mut().find(ends) {
            known.proved |= rail.proved;
            names.insert(rail.name.as_str(), known.name.clone());
            continue;
        }
        let host = |end: &str| end.rsplit_once('/').map_or(end, |(host, _)| host).to_owned();
        let taken = |name: &str| merged.rails.iter().any(|other| other.name == name);
        let mut name = rail.name.clone();
        if taken(&name) {
            name = format!("{} {}-{}", rail.name, host(&rail.a), host(&rail.b));
        }
        let plain = name.clone();
        let mut number = 2;
        while taken(&name) {
            name = format!("{plain} #{number}");
            number += 1;
        }
        names.insert(rail.name.as_str(), name.clone());
        merged.rails.push(fabbench_reports::model::Rail { name, ..rail.clone() });
    }
    names
}

fn add_measurements(
    merged: &mut Report,
    report: &Report,
    rails: &BTreeMap<&str, String>,
    ids: &mut BTreeSet<String>,
) {
    let mut renamed: BTreeMap<&str, String> = BTreeMap::new();
    for m in &report.measurements {
        let mut id = m.id.clone();
        let mut number = 2;
        while !ids.insert(id.clone()) {
            id = format!("{}#{number}", m.id);
            number += 1;
        }
        renamed.insert(&m.id, id);
    }
    for m in &report.measurements {
        let id = |old: &String| renamed.get(old.as_str()).unwrap_or(old).clone();
        let mut path = m.path.clone();
        if let Some(name) = rails.get(path.rail.as_str()) {
            path.rail.clone_from(name);
        }
        merged.measurements.push(Measurement {
            id: id(&m.id),
            together_with: m.together_with.iter().map(id).collect(),
            path,
            ..m.clone()
        });
    }
}

/// The worst of each part; reasons with the hosts that they are about, of the worst report first.
fn verdict(reports: &[(&str, &Report)]) -> Verdict {
    let worst = |part: fn(&Verdict) -> Status| {
        let all = reports.iter().map(|(_, report)| part(&report.verdict));
        all.max_by_key(|status| rank(*status)).unwrap_or(Status::Unknown)
    };
    let mut sorted: Vec<&Report> = reports.iter().map(|(_, report)| *report).collect();
    sorted.sort_by_key(|report| std::cmp::Reverse(rank(report.verdict.status)));
    let mut reasons = Vec::new();
    let mut next: Vec<String> = Vec::new();
    for report in sorted {
        let names: Vec<&str> = report.hosts.iter().map(|host| host.name.as_str()).collect();
        let names = names.join(" and ");
        let (status, all) = (report.verdict.status, &report.verdict.reasons);
        reasons.extend(all.iter().map(|reason| format!("{names}: {status}: {reason}")));
        for step in &report.verdict.next {
            replace(&mut next, step, |a, b| a == b);
        }
    }
    Verdict {
        status: worst(|v| v.status),
        function: worst(|v| v.function),
        performance: worst(|v| v.performance),
        reasons,
        next,
    }
}

/// What was not judged is worse than a pass, since it is none.
fn rank(status: Status) -> u8 {
    match status {
        Status::NotApplicable => 0,
        Status::Pass => 1,
        Status::Unjudged => 2,
        Status::Warn => 3,
        Status::Unknown => 4,
        Status::Incomplete => 5,
        Status::Error => 6,
        Status::Fail => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = include_str!("../../reports/samples/soft-roce-pair.json");
    const FAILING: &str = include_str!("../../reports/samples/failing.json");

    fn read(text: &str) -> Report {
        fabbench_reports::json::read(text).unwrap()
    }

    /// The same pair under other names.
    fn other(text: &str, a: &str, b: &str) -> Report {
        read(&text.replace("node-a", a).replace("node-b", b))
    }

    #[test]
    fn two_pairs_become_one_view_in_which_every_case_has_its_own_name() {
        let (one, two) = (read(PAIR), other(FAILING, "node-a", "node-c"));
        let merged = merge(&[("1.json", &one), ("2.json", &two)]).unwrap();
        let names: Vec<&str> = merged.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["node-a", "node-b", "node-c"]);
        let all = one.measurements.len() + two.measurements.len();
        let ids: BTreeSet<&str> = merged.measurements.iter().map(|m| m.id.as_str()).collect();
        assert_eq!((merged.measurements.len(), ids.len()), (all, all));
        let beside = merged.measurements.iter().flat_map(|m| &m.together_with);
        assert!(beside.into_iter().all(|id| ids.contains(id.as_str())));
        let rails: BTreeSet<&str> = merged.rails.iter().map(|rail| rail.name.as_str()).collect();
        assert_eq!(rails.len(), merged.rails.len());
        assert!(rails.contains("rail0") && rails.contains("rail0 node-a-node-c"), "{rails:?}");
        let used = |m: &&Measurement| !m.path.rail.is_empty();
        let mut of_rails = merged.measurements.iter().filter(used);
        assert!(of_rails.all(|m| rails.contains(m.path.rail.as_str())));
        assert_eq!(merged.verdict.status, Status::Fail, "the worst");
        assert!(merged.verdict.reasons[0].starts_with("node-a and node-c: fail: "));
    }

    #[test]
    fn a_report_merged_alone_stays_what_it_is() {
        let one = read(PAIR);
        let mut merged = merge(&[("1.json", &one)]).unwrap();
        merged.verdict.reasons.clone_from(&one.verdict.reasons);
        assert_eq!(merged, one);
    }

    #[test]
    fn what_one_did_not_judge_does_not_pass() {
        let mut passed = other(PAIR, "node-c", "node-d");
        passed.verdict.performance = Status::Pass;
        let one = read(PAIR);
        let merged = merge(&[("1.json", &one), ("2.json", &passed)]).unwrap();
        assert_eq!(merged.verdict.performance, Status::Unjudged);
    }

    #[test]
    fn two_machines_under_one_name_are_refused() {
        let (one, mut two) = (read(PAIR), read(PAIR));
        two.hosts[0].hostname = "elsewhere".into();
        let error = merge(&[("1.json", &one), ("2.json", &two)]).unwrap_err().to_string();
        assert!(error.contains("\"node-a\"") && error.contains("2.json"), "{error}");
        assert_eq!(merge(&[]), Err(MergeError::Nothing));
    }
}
