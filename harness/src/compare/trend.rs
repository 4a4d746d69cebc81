//! How figures went on over many runs.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::model::Report;
use fabbench_reports::trend::{Line, Step, TREND_SCHEMA, Trend};

use super::cases::{self, Key};
use super::{Limits, changes, compare, run, statistics};

/// The runs in the order of their start, every figure over them, and what the last run says against
/// all before it.
pub fn trend(reports: &[(&str, &Report)], limits: &Limits) -> Trend {
    let mut runs = reports.to_vec();
    runs.sort_by(|a, b| a.1.started.cmp(&b.1.started));
    let figures: Vec<BTreeMap<Key, Vec<f64>>> =
        runs.iter().map(|(_, report)| cases::values(report)).collect();
    let keys: BTreeSet<&Key> = figures.iter().flat_map(BTreeMap::keys).collect();
    let judged = runs.split_last().filter(|(_, before)| !before.is_empty());
    let judged = judged.map(|(last, before)| compare(before, &[*last], limits));
    let line = |key: &Key| {
        let value = |run: &BTreeMap<Key, Vec<f64>>| {
            statistics::middle(std::slice::from_ref(run.get(key)?)).filter(|v| v.is_finite())
        };
        let of_figure = |c: &fabbench_reports::comparison::Comparison| {
            let same = |f: &&fabbench_reports::comparison::Figure| {
                f.case == key.case && f.figure == key.figure
            };
            c.figures.iter().find(same).map(|f| (f.ratio, f.became, f.status))
        };
        let last = judged.as_ref().and_then(of_figure);
        Line {
            case: key.case.clone(),
            figure: key.figure.to_owned(),
            unit: key.unit,
            values: figures.iter().map(value).collect(),
            last_ratio: last.and_then(|(ratio, ..)| ratio),
            last_became: last.map(|(_, became, _)| became),
            last_status: last.map(|(.., status)| status),
        }
    };
    Trend {
        schema: TREND_SCHEMA.into(),
        lines: keys.into_iter().map(line).collect(),
        steps: steps(&runs),
        runs: runs.iter().map(|(source, report)| run(source, report)).collect(),
    }
}

/// What changed from one run to the next.
fn steps(runs: &[(&str, &Report)]) -> Vec<Step> {
    let pairs = runs.windows(2).enumerate();
    pairs
        .map(|(index, pair)| Step {
            run: index + 1,
            changes: changes::between(&pair[..1], &pair[1..]),
        })
        .filter(|step| !step.changes.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use fabbench_reports::comparison::Became;

    use super::*;

    fn run(started: &str, factor: f64) -> Report {
        let text = include_str!("../../../reports/samples/hardware-unjudged.json");
        let mut report = fabbench_reports::json::read(text).unwrap();
        report.started = started.into();
        for repeat in report.measurements.iter_mut().flat_map(|m| &mut m.repeats) {
            repeat.received_bps = repeat.received_bps.map(|bps| bps * factor);
        }
        report
    }

    #[test]
    fn runs_are_put_in_order_and_the_last_is_held_against_the_others() {
        let mut last = run("2025-03-04T00:00:00Z", 0.8);
        last.hosts[0].devices[0].firmware = "28.99".into();
        let others = [1, 2, 3].map(|day| run(&format!("2025-03-0{day}T00:00:00Z"), 1.0));
        let named: Vec<(&str, &Report)> =
            vec![("4", &last), ("2", &others[1]), ("1", &others[0]), ("3", &others[2])];
        let trend = trend(&named, &Limits::HARDWARE);
        let order: Vec<&str> = trend.runs.iter().map(|run| run.source.as_str()).collect();
        assert_eq!(order, ["1", "2", "3", "4"]);
        let line = trend.lines.iter().find(|line| line.figure == "goodput").unwrap();
        assert_eq!(line.values.len(), 4);
        let (first, last) = (line.values[0].unwrap(), line.values[3].unwrap());
        assert!((last / first - 0.8).abs() < 1e-9);
        assert_eq!(line.last_became, Some(Became::Worse));
        assert_eq!((trend.steps.len(), trend.steps[0].run), (1, 3));
        assert_eq!(trend.steps[0].changes[0].what, "firmware");
    }

    #[test]
    fn a_case_that_a_run_lacks_has_a_gap_and_one_run_has_no_verdict() {
        let (one, mut two) = (run("1", 1.0), run("2", 1.0));
        two.measurements.retain(|m| m.test != "latency");
        let trend = super::trend(&[("1", &one), ("2", &two)], &Limits::HARDWARE);
        let line = trend.lines.iter().find(|line| line.figure == "p50").unwrap();
        assert!(line.values[0].is_some() && line.values[1].is_none());
        assert_eq!(line.last_became, Some(Became::Gone));
        let alone = super::trend(&[("1", &one)], &Limits::HARDWARE);
        assert!(alone.lines.iter().all(|line| line.last_became.is_none()));
    }
}
