use fabbench_reports::comparison::Comparison;
use fabbench_reports::model::{
    Device, Host, Latency, Measurement, Named, Path, Repeat, SCHEMA, Tool, Verdict,
};

use super::statistics::Random;
use super::*;

const TRIALS: u64 = 1000;
const CASES: usize = 30;

/// A report of bandwidth cases, each on its own rail, with these repeats.
fn report(cases: &[Vec<f64>]) -> Report {
    let measurements = cases.iter().enumerate().map(|(n, repeats)| bandwidth(n, repeats)).collect();
    let host = |name: &str| Host {
        name: name.into(),
        devices: vec![Device { firmware: "28.39".into(), ..Device::default() }],
        ..Host::default()
    };
    let named = || Named { name: "quick".into(), hash: "1".into() };
    Report {
        schema: SCHEMA.into(),
        tool: Tool { version: "0".into(), commit: "0".into() },
        command: vec![],
        suite: named(),
        profile: named(),
        profile_why: String::new(),
        started: String::new(),
        finished: String::new(),
        complete: true,
        simulated: false,
        synthetic: false,
        hosts: vec![host("a"), host("b")],
        rails: vec![],
        checks: vec![],
        topology: vec![],
        measurements,
        matrices: vec![],
        fits: vec![],
        not_measured: vec![],
        diagnosis: vec![],
        verdict: Verdict {
            status: Status::Pass,
            function: Status::Pass,
            performance: Status::Pass,
            reasons: vec![],
            next: vec![],
        },
    }
}

fn bandwidth(rail: usize, repeats: &[f64]) -> Measurement {
    let repeat = |bps: &f64| Repeat { received_bps: Some(*bps), ..Repeat::default() };
    Measurement {
        id: format!("case {rail}"),
        test: "bandwidth".into(),
        transport: "rc".into(),
        op: "write".into(),
        data_from: "a/mlx5_0:1".into(),
        data_to: "b/mlx5_0:1".into(),
        size_bytes: 65_536,
        path: Path { rail: format!("rail{rail}"), ..Path::default() },
        repeats: repeats.iter().map(repeat).collect(),
        ..Measurement::default()
    }
}

/// Draws of known truth.
struct Truth {
    random: Random,
    between: f64,
    within: f64,
}

impl Truth {
    fn uniform(&mut self) -> f64 {
        ((self.random.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Box and Muller.
    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// A run in which each case has its factor.
    fn run(&mut self, factor: impl Fn(usize) -> f64) -> Report {
        let case = |n: usize, truth: &mut Self| {
            let level = 390e9 * factor(n) * (1.0 + truth.between * truth.normal());
            (0..5).map(|_| level * (1.0 + truth.within * truth.normal())).collect()
        };
        let cases: Vec<Vec<f64>> = (0..CASES).map(|n| case(n, self)).collect();
        report(&cases)
    }
}

fn compared(before: &[Report], after: &[Report]) -> Comparison {
    let old: Vec<(&str, &Report)> = before.iter().map(|report| ("before", report)).collect();
    let new: Vec<(&str, &Report)> = after.iter().map(|report| ("after", report)).collect();
    compare(&old, &new, &Limits::HARDWARE)
}

/// The part of the trials whose comparison is as `wanted`: `before` runs of nothing special
/// against one run in which each case has its factor.
fn part(
    between: f64,
    before: usize,
    factor: impl Fn(usize) -> f64,
    wanted: impl Fn(&Comparison) -> bool,
) -> f64 {
    let mut hits = 0;
    for trial in 0..TRIALS {
        let mut truth = Truth { random: Random(trial << 8), between, within: 0.01 };
        let old: Vec<Report> = (0..before).map(|_| truth.run(|_| 1.0)).collect();
        let new = truth.run(&factor);
        hits += u32::from(wanted(&compared(&old, &[new])));
    }
    f64::from(hits) / TRIALS as f64
}

fn any_worse(comparison: &Comparison) -> bool {
    comparison.figures.iter().any(|figure| figure.became == Became::Worse)
}

#[test]
fn what_has_not_changed_is_seldom_called_worse() {
    for between in [0.01, 0.02] {
        let false_alarms = part(between, 3, |_| 1.0, any_worse);
        assert!(false_alarms <= 0.05, "{false_alarms} with {between} between runs");
    }
}

#[test]
fn a_loss_of_eight_per_cent_fails() {
    for between in [0.01, 0.02] {
        let found = part(between, 3, |_| 0.92, |c| c.status == Status::Fail);
        assert!(found >= 0.95, "{found} with {between} between runs");
    }
}

#[test]
fn a_loss_of_five_per_cent_is_at_least_warned_of() {
    for between in [0.01, 0.02] {
        let found = part(between, 3, |_| 0.95, any_worse);
        assert!(found >= 0.95, "{found} with {between} between runs");
    }
}

#[test]
fn a_single_case_that_lost_eight_per_cent_is_found_among_thirty() {
    let lost = |n: usize| if n == 17 { 0.92 } else { 1.0 };
    let found = part(0.01, 3, lost, |comparison| {
        let rail = |f: &&Figure| f.case.contains("rail17 ");
        comparison.figures.iter().find(rail).unwrap().status == Status::Fail
    });
    assert!(found >= 0.95, "{found}");
}

#[test]
fn one_run_a_side_is_not_firm_and_says_so() {
    let flat = report(&vec![vec![390e9, 391e9, 389e9]; 3]);
    let one = compared(std::slice::from_ref(&flat), std::slice::from_ref(&flat));
    assert!(!one.firm && one.basis.iter().any(|sentence| sentence.contains("not firm")));
    let three = compared(&[flat.clone(), flat.clone(), flat.clone()], std::slice::from_ref(&flat));
    assert!(three.firm && !three.basis.iter().any(|sentence| sentence.contains("not firm")));
    let width = |c: &Comparison| c.figures[0].interval.map(|[low, high]| high - low).unwrap();
    assert!(width(&one) > 1.5 * width(&three), "{} {}", width(&one), width(&three));
}

#[test]
fn cases_are_matched_by_meaning() {
    let mut before = report(&[vec![100e9; 3], vec![200e9; 3]]);
    let mut after = before.clone();
    after.measurements.reverse();
    after.measurements[0].id = "renamed".into();
    let comparison = compared(&[before.clone()], &[after.clone()]);
    assert!(comparison.figures.iter().all(|f| f.became == Became::Same && f.ratio == Some(1.0)));
    assert_eq!(comparison.status, Status::Pass);

    before.measurements[0].op = "read".into();
    let comparison = compared(&[before], &[after]);
    let became: Vec<Became> = comparison.figures.iter().map(|f| f.became).collect();
    assert_eq!(became, [Became::Gone, Became::Same, Became::New]);
    assert_eq!(comparison.status, Status::Warn, "what has gone is told");
}

#[test]
fn other_ways_of_measuring_do_not_compare() {
    let before = report(&[vec![100e9; 3]]);
    let mut after = report(&[vec![50e9; 3]]);
    after.measurements[0].method.qps = 8;
    let comparison = compared(&[before], &[after]);
    assert_eq!(comparison.figures[0].became, Became::NotComparable);
    assert!(comparison.figures[0].why.contains("QPs 0 before, 8 after"));
    assert_eq!(comparison.status, Status::Incomplete);
}

#[test]
fn a_longer_latency_is_worse_and_a_shorter_one_better() {
    let with = |p50: f64| {
        let mut report = report(&[vec![]]);
        let latency = Latency { p50, p99: 2.0 * p50, ..Latency::default() };
        report.measurements[0].test = "latency".into();
        report.measurements[0].latency_ns = Some(latency);
        report
    };
    let slower = compared(&[with(2000.0)], &[with(2600.0)]);
    assert_eq!(slower.status, Status::Fail);
    assert_eq!(slower.figures.len(), 2, "p50 and p99");
    let faster = compared(&[with(2600.0)], &[with(2000.0)]);
    assert!(faster.figures.iter().all(|f| f.became == Became::Better));
}

#[test]
fn wrong_bytes_are_a_failure_even_if_they_were_there_before() {
    let mut wrong = report(&[vec![]]);
    wrong.measurements[0].test = "integrity".into();
    wrong.measurements[0].bytes_wrong = 1;
    let comparison = compared(std::slice::from_ref(&wrong), std::slice::from_ref(&wrong));
    assert_eq!(comparison.status, Status::Fail);
}

#[test]
fn changed_firmware_is_listed_beside_the_speed() {
    let before = report(&[vec![100e9; 3]]);
    let mut after = before.clone();
    after.hosts[1].devices[0].firmware = "28.40".into();
    let changes = compared(&[before], &[after]).changes;
    assert_eq!(changes.len(), 1, "{changes:?}");
    let change = &changes[0];
    assert_eq!((&*change.object, &*change.what), ("b/", "firmware"));
    assert_eq!((&*change.before, &*change.after), ("28.39", "28.40"));
}

#[test]
fn nothing_to_compare_is_incomplete() {
    assert_eq!(compared(&[report(&[])], &[report(&[])]).status, Status::Incomplete);
}

#[test]
fn absurd_figures_are_not_compared() {
    let comparison = compared(&[report(&[vec![f64::NAN; 3]])], &[report(&[vec![-1.0; 3]])]);
    assert_eq!(comparison.figures[0].became, Became::NotComparable);
}
