//! Measures again what would fail, before it does.

use fabbench_harness::plan::{Case, Group};
use fabbench_harness::retest;
use fabbench_harness::snapshot::GidKind;
use fabbench_reports::model::NotMeasured;

use super::Campaign;
use crate::session::Interrupt;

impl Campaign<'_> {
    /// Measures again what would fail, as long as there is time for it.
    pub(super) fn retest(&mut self, groups: &[Group], interrupt: &Interrupt) {
        let Some(mut left) = self.plan.retest_seconds.filter(|_| !interrupt.is_set()) else {
            return;
        };
        for case in self.suspects(groups) {
            let rail = case.rail.and_then(|rail| self.rails.get(rail));
            let spread = rail.is_some_and(|rail| rail.gids.kind == GidKind::RoceV2);
            let again = retest::groups(&case, spread, &self.measurements);
            self.progress.say(&format!("{} would fail: measuring it again", case.id));
            self.progress.more(again.iter().map(|group| group.cases.len()).sum());
            for group in &again {
                left -= retest::seconds(group);
                if let Some(why) = self.no_retest(group, left, interrupt) {
                    self.skip(group, &why);
                    continue;
                }
                self.progress.now(&group.title);
                self.run_group(group);
            }
        }
        self.progress.clear();
    }

    /// The cases that would fail.
    fn suspects(&self, groups: &[Group]) -> Vec<Case> {
        let (checks, topology) = (Vec::new(), Vec::new());
        let report = self.report(topology, checks, self.measurements.clone(), true);
        let judged = retest::judged(report, &self.judging.choice);
        let suspects = retest::suspects(&judged);
        let cases = groups.iter().flat_map(|group| &group.cases);
        let suspected = |case: &&Case| suspects.iter().any(|m| retest::is_of(case, m));
        cases.filter(suspected).cloned().collect()
    }

    /// Why a group is not measured again.
    fn no_retest(&mut self, group: &Group, left: f64, interrupt: &Interrupt) -> Option<String> {
        if left < 0.0 {
            return Some("the suite's time is spent".into());
        }
        self.hopeless(group, interrupt)
    }

    /// Says of a group that it was not measured again.
    fn skip(&mut self, group: &Group, why: &str) {
        for case in &group.cases {
            let (what, why) = (case.id.clone(), why.to_owned());
            self.not_measured.push(NotMeasured { what, why, asked: false });
        }
        self.progress.cases_over(group.cases.len());
    }
}
