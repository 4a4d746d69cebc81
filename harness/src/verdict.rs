//! From measurements and checks to a verdict.

mod bounds;
mod measured;
mod whole;

use fabbench_reports::model::{Measurement, Report, Status};
use fabbench_reports::units::{BitRate, Time};

use measured::Judged;

use crate::profile::Choice;

/// What `--fail-on` adds to what fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailOn {
    /// Warnings fail.
    pub warn: bool,
    /// Performance that was not judged fails.
    pub unjudged: bool,
}

/// Name of the suite of a report that holds checks and was never meant to measure.
pub const CHECKS_ONLY: &str = "check";

/// Judges a report by the profile chosen: sets its profile, the efficiency, the bound (also as a
/// rate), the status and the reason of each measurement, the fits of collectives, and the verdict. What was judged before is
/// judged anew. A report of [`CHECKS_ONLY`] is judged by its checks.
pub fn judge(report: &mut Report, choice: &Choice) {
    if report.suite.name == CHECKS_ONLY && report.measurements.is_empty() {
        return judge_checks(report);
    }
    (report.profile, report.profile_why) = choice.identity(report);
    let judge = |measured| measured::judge(measured, report, choice);
    let mut judged: Vec<_> = report.measurements.iter().map(judge).collect();
    beside_retests(&report.measurements, &mut judged);
    for (measured, judged) in report.measurements.iter_mut().zip(&judged) {
        measured.efficiency = judged.efficiency;
        measured.bound = judged.bound.clone();
        measured.bound_bps = judged.bound_bps;
        measured.status = Some(judged.status());
        measured.reason = judged.reason();
    }
    crate::collective::complete(report);
    report.diagnosis = crate::diagnose::diagnose(report);
    report.verdict = whole::verdict(report, &judged);
}

/// Holds what would fail for its speed beside what came of measuring it again: where that passed, the
/// fault flutters and warns.
fn beside_retests(measurements: &[Measurement], judged: &mut [Judged]) {
    for (index, measured) in measurements.iter().enumerate() {
        let of_speed = judged[index].performance == Status::Fail
            && !matches!(judged[index].function, Status::Fail | Status::Error);
        if !of_speed || measured.retest_of.is_some() {
            continue;
        }
        let again =
            (0..judged.len()).filter(|&i| crate::retest::repeats(&measurements[i], measured));
        let again: Vec<usize> = again.collect();
        let passed = |i: &&usize| matches!(judged[**i].performance, Status::Pass | Status::Warn);
        match (again.iter().find(passed), again.first()) {
            (Some(&best), _) => judged[index].relent(&figure(&measurements[best])),
            (None, Some(&first)) => judged[index].confirm(&figure(&measurements[first])),
            (None, None) => {}
        }
    }
}

/// What was measured, in a figure.
fn figure(measured: &Measurement) -> String {
    match (measured.goodput_bps, measured.latency_ns) {
        (Some(rate), _) => BitRate(rate.median).to_string(),
        (None, Some(latency)) => format!("median {}", Time(latency.p50)),
        (None, None) => "no result".to_owned(),
    }
}

/// Judges a report of [`CHECKS_ONLY`] by its checks.
pub fn judge_checks(report: &mut Report) {
    report.diagnosis = crate::diagnose::diagnose(report);
    report.verdict = whole::of_checks(report);
}

/// The exit code of a judged report: 0 pass or warn, 1 fail, 3 incomplete. Fail goes first.
pub fn exit_code(report: &Report, fail_on: FailOn) -> u8 {
    let verdict = &report.verdict;
    let parts = [verdict.status, verdict.function, verdict.performance];
    let added = (fail_on.warn && parts.contains(&Status::Warn))
        || (fail_on.unjudged && !whole::performance_judged(report));
    match verdict.status {
        Status::Fail => 1,
        _ if added => 1,
        Status::Incomplete | Status::Error => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
