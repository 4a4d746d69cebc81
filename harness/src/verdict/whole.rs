//! The sum of a report.

use fabbench_reports::model::{Check, Measurement, Report, Status, Verdict};

use super::bounds::has_bound;
use super::measured::Judged;
use crate::checks::is_gate;
use crate::plan::LOOPBACK;

/// So many sentences of one weight are worth reading in a verdict.
const MOST_OF_A_KIND: usize = 8;

/// Whether every performance figure that profiles have a bound for was held against it: those over
/// RDMA, or all where there is no RDMA.
pub(super) fn performance_judged(report: &Report) -> bool {
    let timed =
        |m: &&Measurement| !["integrity", LOOPBACK].contains(&&*m.test) && m.retest_of.is_none();
    let timed: Vec<_> = report.measurements.iter().filter(timed).collect();
    let rdma: Vec<_> =
        timed.iter().copied().filter(|measured| measured.transport != "tcp").collect();
    let all = if rdma.is_empty() { timed } else { rdma };
    let judged = |measured: &&Measurement| measured.bound.is_some();
    all.iter().any(judged) && all.iter().all(|measured| judged(measured) || !has_bound(measured))
}

pub(super) fn verdict(report: &Report, judged: &[Judged]) -> Verdict {
    let function = function(report, judged);
    let performance = performance(report, judged);
    let mut reasons = vec![headline(report, judged, function, performance)];
    reasons.extend(reasons_of(report, judged));
    Verdict {
        status: sum(function, performance),
        function,
        performance,
        reasons,
        next: next(report, function),
    }
}

/// The verdict of checks alone: no speed was measured, so that none is passed.
pub(super) fn of_checks(report: &Report) -> Verdict {
    let has = |status, gate| {
        let alike = |check: &&Check| check.status == status && is_gate(&check.id) == gate;
        report.checks.iter().any(|check| alike(&check))
    };
    let function = if !report.complete || has(Status::Fail, true) {
        Status::Incomplete
    } else if has(Status::Warn, true) {
        Status::Warn
    } else {
        Status::Pass
    };
    let performance = if has(Status::Fail, false) {
        Status::Fail
    } else if has(Status::Warn, false) {
        Status::Warn
    } else {
        Status::Unjudged
    };
    let mut reasons = vec![counted(report)];
    reasons.extend(reasons_of(report, &[]));
    let next = next(report, Status::Pass);
    Verdict { status: sum(function, performance), function, performance, reasons, next }
}

/// `checks: 2 failed, 1 warns, 40 passed, 12 could not be seen; nothing was measured`.
fn counted(report: &Report) -> String {
    let count = |status| report.checks.iter().filter(|check| check.status == status).count();
    let parts = [
        (Status::Fail, "failed"),
        (Status::Warn, "warn"),
        (Status::Pass, "passed"),
        (Status::Unknown, "could not be seen"),
    ];
    let parts = parts.map(|(status, word)| (count(status), word));
    let words: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    format!("checks: {}; nothing was measured", words.join(", "))
}

fn sum(function: Status, performance: Status) -> Status {
    let both = [function, performance];
    let has = |status| both.contains(&status);
    match function {
        _ if has(Status::Fail) => Status::Fail,
        Status::Incomplete => Status::Incomplete,
        _ if has(Status::Warn) => Status::Warn,
        _ => Status::Pass,
    }
}

fn function(report: &Report, judged: &[Judged]) -> Status {
    let any = |status| judged.iter().any(|judged| judged.function == status);
    let missing = report.not_measured.iter().any(|missing| missing.asked);
    let blocked = |check: &Check| check.status == Status::Fail && is_gate(&check.id);
    let incomplete = !report.complete
        || missing
        || judged.is_empty()
        || any(Status::Error)
        || report.checks.iter().any(blocked);
    let gate_warns = |check: &Check| check.status == Status::Warn && is_gate(&check.id);
    if any(Status::Fail) {
        Status::Fail
    } else if incomplete {
        Status::Incomplete
    } else if any(Status::Warn) || report.checks.iter().any(gate_warns) {
        Status::Warn
    } else {
        Status::Pass
    }
}

fn performance(report: &Report, judged: &[Judged]) -> Status {
    let of_checks =
        |status| report.checks.iter().any(|check| check.status == status && !is_gate(&check.id));
    let counts = |judged: &&Judged| !judged.evidence;
    let any = |status| judged.iter().filter(counts).any(|judged| judged.performance == status);
    if of_checks(Status::Fail) || any(Status::Fail) {
        Status::Fail
    } else if of_checks(Status::Warn) || any(Status::Warn) {
        Status::Warn
    } else if performance_judged(report) {
        Status::Pass
    } else {
        Status::Unjudged
    }
}

/// The sum in a sentence, e.g. `function passed; line rate not judged: Soft-RoCE has none`.
fn headline(report: &Report, judged: &[Judged], function: Status, performance: Status) -> String {
    let first = match function {
        Status::Pass => "function passed",
        Status::Warn => "function passed with warnings",
        Status::Fail => "function failed",
        _ => "not all that was asked could be measured",
    };
    let second = match performance {
        Status::Pass => "performance passed",
        Status::Warn => "performance warns",
        Status::Fail => "performance failed",
        _ => "",
    };
    let measured = report.measurements.iter().any(|measured| measured.test != "integrity");
    let third = match (performance_judged(report), measured) {
        (true, _) => String::new(),
        (false, true) => format!("line rate not judged: {}", not_judged(report, judged)),
        (false, false) => "line rate not judged: nothing was timed".to_owned(),
    };
    let parts = [first, second, &third];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// Why line rate was not judged: by the first measurement over RDMA that tells.
fn not_judged(report: &Report, judged: &[Judged]) -> String {
    let pairs = || report.measurements.iter().zip(judged).filter(|(m, _)| m.test != LOOPBACK);
    let mut rdma = pairs().filter(|(measured, _)| measured.transport != "tcp").peekable();
    if rdma.peek().is_none() {
        return "TCP alone was measured, and it has no expectation".to_owned();
    }
    let why = rdma.find_map(|(_, judged)| judged.not_judged.clone());
    why.unwrap_or_else(|| "nothing measured has a bound".to_owned())
}

/// Everything that is not as it should be, worst first.
fn reasons_of(report: &Report, judged: &[Judged]) -> Vec<String> {
    let mut found: Vec<(Status, String)> = Vec::new();
    for (measured, judged) in report.measurements.iter().zip(judged) {
        let grave = judged
            .sentences
            .iter()
            .filter(|(status, _)| matches!(status, Status::Fail | Status::Error | Status::Warn));
        found.extend(grave.map(|(status, text)| (*status, format!("{}: {text}", measured.id))));
    }
    found.extend(missing(report).into_iter().map(|text| (Status::Incomplete, text)));
    let bad = |check: &&Check| matches!(check.status, Status::Fail | Status::Warn);
    for check in report.checks.iter().filter(bad) {
        let Check { id, object, found: seen, wanted, .. } = check;
        found.push((check.status, format!("{id}, {object}: {seen}, wanted {wanted}")));
    }
    if !report.complete {
        found.push((Status::Incomplete, "the run ended before everything was tried".to_owned()));
    }
    found.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
    shortened(&found)
}

/// What was asked for and is missing; what is missing for one reason stands in one sentence.
fn missing(report: &Report) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for entry in report.not_measured.iter().filter(|entry| entry.asked) {
        match by_reason.iter_mut().find(|(why, _)| *why == entry.why) {
            Some((_, whats)) => whats.push(&entry.what),
            None => by_reason.push((&entry.why, vec![&entry.what])),
        }
    }
    let sentence = |(why, whats): &(&str, Vec<&str>)| match whats[..] {
        [first, second, ref rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second} and {} more not measured: {why}", rest.len())
        }
        _ => format!("{} not measured: {why}", whats.join(", ")),
    };
    by_reason.iter().map(sentence).collect()
}

/// Sentences without repetition, at most [`MOST_OF_A_KIND`] of one weight.
fn shortened(found: &[(Status, String)]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for kind in found.chunk_by(|one, other| one.0 == other.0) {
        let mut own: Vec<&String> = Vec::new();
        for (_, text) in kind {
            if !own.contains(&text) {
                own.push(text);
            }
        }
        let left = own.len().saturating_sub(MOST_OF_A_KIND);
        texts.extend(own.into_iter().take(MOST_OF_A_KIND).cloned());
        if left > 0 {
            texts.push(format!("{left} more of weight {} stand in the report", kind[0].0));
        }
    }
    texts
}

fn next(report: &Report, function: Status) -> Vec<String> {
    let mut steps = Vec::new();
    let mut add = |step: String| {
        if !step.is_empty() && !steps.contains(&step) {
            steps.push(step);
        }
    };
    for status in [Status::Fail, Status::Warn] {
        for check in report.checks.iter().filter(|check| check.status == status) {
            if !check.remedy.is_empty() {
                let place = if check.object == check.host {
                    check.host.clone()
                } else {
                    format!("{}, {}", check.host, check.object)
                };
                add(format!("{place}: {}", check.remedy));
            }
        }
    }
    let wrong = |measured: &Measurement| {
        measured.bytes_wrong > 0 || measured.messages_lost > 0 || !measured.data_errors.is_empty()
    };
    if let Some(measured) = report.measurements.iter().find(|measured| wrong(measured)) {
        add(format!(
            "trust no data over {} - {} until this is explained: repeat the run, exchange cable \
             and adapter in turn, look at the kernel logs of both hosts",
            measured.initiator, measured.responder
        ));
    }
    if function == Status::Incomplete {
        add("repeat the run when the cause is removed".to_owned());
    }
    steps
}
