//! A run held against what was kept from before it.

use std::path::PathBuf;

use fabbench_harness::compare::{Limits, compare};
use fabbench_reports::comparison::Comparison;
use fabbench_reports::model::{Named, Report, Status};
use fabbench_reports::text;

use crate::cli::JudgeArgs;
use crate::commands::CommandError;
use crate::commands::baseline::Store;
use crate::commands::saved::{Saved, borrowed, reports};

/// Reports from before.
pub struct Baseline {
    name: String,
    /// Of several profiles, where the run's own is known only at its end.
    candidates: Vec<Vec<Saved>>,
}

impl Baseline {
    /// What `--baseline` names, read before anything is measured; none where it was not given.
    ///
    /// # Errors
    ///
    /// When it is not there or cannot be read.
    pub fn of(
        judge: &JudgeArgs,
        hosts: &[&str],
        suite: &Named,
    ) -> Result<Option<Baseline>, CommandError> {
        let Some(name) = judge.baseline.clone() else { return Ok(None) };
        let path = PathBuf::from(&name);
        if path.exists() || name.contains('/') {
            let candidates = vec![reports(&[path])?];
            return Ok(Some(Baseline { name, candidates }));
        }
        let store = Store::open(&judge.store)?;
        if name != "auto" {
            let candidates = vec![store.reports(&name)?];
            return Ok(Some(Baseline { name, candidates }));
        }
        let mut candidates = Vec::new();
        for kept in store.names()? {
            let reports = store.reports(&kept)?;
            let fits = |(_, report): &Saved| {
                report.suite == *suite
                    && report.hosts.iter().map(|host| host.name.as_str()).eq(hosts.iter().copied())
            };
            if reports.iter().all(fits) {
                candidates.push(reports);
            }
        }
        if candidates.is_empty() {
            return Err(CommandError::usage(format!(
                "--baseline auto: none kept of {} with suite {}: run without it, then fabbench \
                 baseline add the report",
                hosts.join(" and "),
                suite.name
            )));
        }
        Ok(Some(Baseline { name, candidates }))
    }

    /// Compares the judged run with what was before, and lets its verdict know.
    pub fn hold(&self, report: &mut Report) -> Comparison {
        let same_profile =
            |all: &&Vec<Saved>| all.iter().all(|(_, r)| r.profile.name == report.profile.name);
        let fitting = self.candidates.iter().find(same_profile);
        let before = fitting.or(self.candidates.first()).map(Vec::as_slice).unwrap_or_default();
        let all: Vec<&Report> = before.iter().map(|(_, report)| report).chain([&*report]).collect();
        let comparison =
            compare(&borrowed(before), &[("this run", report)], &Limits::fitting(&all));
        let sum = text::comparison_line(&comparison);
        let verdict = &mut report.verdict;
        match comparison.status {
            Status::Fail => {
                verdict.performance = Status::Fail;
                verdict.status = Status::Fail;
                let reason = format!("regression against the baseline {}: {sum}", self.name);
                verdict.reasons.insert(0, reason);
                verdict.next.push(
                    "look under what changed in the comparison with the baseline, then measure \
                     again"
                        .into(),
                );
            }
            Status::Incomplete => {
                verdict.reasons.push(format!("not held against the baseline {}: {sum}", self.name))
            }
            _ => verdict.reasons.push(format!("against the baseline {}: {sum}", self.name)),
        }
        comparison
    }
}
