//! Did it get better or worse? Reports from before held against reports from after.
//!
//! A difference counts when it is beyond chance and as large as is worth telling. What runs differ
//! by from one to the next cannot be seen inside one run: it is estimated from three or more runs,
//! or taken from [`Limits::between_runs`], and the answer says which.

mod cases;
pub(crate) mod changes;
mod statistics;
#[cfg(test)]
mod tests;
mod trend;

pub use trend::trend;

use std::collections::BTreeMap;

use fabbench_reports::comparison::{Became, COMPARISON_SCHEMA, Comparison, Figure, Run, Unit};
use fabbench_reports::model::{Report, Status};

use cases::{Key, Samples};
use statistics::{Estimate, Spread};

/// Runs on the side before from which on their own differences are known.
pub const FIRM_RUNS: usize = 3;

/// The part of [`Limits::false_alarms`] that is spent: tails at three standard deviations are the
/// least certain part of the model, and what is promised must hold.
const SPENT: f64 = 0.5;

/// What is worth telling, and how much runs differ where that is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Worse by this part: a warning.
    pub warn: f64,
    /// Worse by this part: a failure.
    pub fail: f64,
    /// Standard deviation of a figure from run to run, as a part of it.
    pub between_runs: f64,
    /// Wrong verdicts of a whole comparison, when nothing has changed.
    pub false_alarms: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Limits {
    /// For adapters: 3 % and 5 %.
    pub const HARDWARE: Limits =
        Limits { warn: 0.03, fail: 0.05, between_runs: 0.015, false_alarms: 0.05, seed: 1 };
    /// For software devices, which share the CPU with everything: 25 %.
    pub const SOFT: Limits =
        Limits { warn: 0.25, fail: 0.25, between_runs: 0.08, ..Self::HARDWARE };

    /// Those that fit the reports.
    pub fn fitting(reports: &[&Report]) -> Limits {
        if reports.iter().any(|report| report.simulated) { Self::SOFT } else { Self::HARDWARE }
    }
}

/// Compares the runs before with those after. Each comes with the name of its file.
pub fn compare(
    before: &[(&str, &Report)],
    after: &[(&str, &Report)],
    limits: &Limits,
) -> Comparison {
    let (old, new) = (cases::collect(before), cases::collect(after));
    let spreads = spreads(&old, &new, limits);
    let compared = old.iter().filter(|(key, _)| new.contains_key(*key)).count();
    let mut figures: Vec<Figure> = Vec::new();
    for (index, (key, before)) in old.iter().enumerate() {
        let seed = limits.seed.wrapping_add(index as u64);
        figures.push(match new.get(key) {
            Some(after) => {
                let spread = &spreads[&key.kind()];
                let test = Test { limits, spread, compared, seed };
                test.figure(key, before, after)
            }
            None => lone(key, before, Became::Gone),
        });
    }
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    figures.extend(added.map(|(key, after)| lone(key, after, Became::New)));
    figures.sort_by_key(|figure| std::cmp::Reverse(figure.became == Became::Worse));
    Comparison {
        schema: COMPARISON_SCHEMA.into(),
        before: before.iter().map(|(source, report)| run(source, report)).collect(),
        after: after.iter().map(|(source, report)| run(source, report)).collect(),
        firm: before.len() >= FIRM_RUNS,
        basis: basis(before.len(), after.len(), compared, limits),
        status: status(&figures),
        figures,
        changes: changes::between(before, after),
    }
}

fn run(source: &str, report: &Report) -> Run {
    Run {
        source: source.to_owned(),
        started: report.started.clone(),
        hosts: report.hosts.iter().map(|host| host.name.clone()).collect(),
        fabbench: format!("{} ({})", report.tool.version, report.tool.commit),
    }
}

/// The spread from run to run of each kind of figure, over all its cases on both sides.
fn spreads(
    old: &BTreeMap<Key, Samples>,
    new: &BTreeMap<Key, Samples>,
    limits: &Limits,
) -> BTreeMap<String, Spread> {
    let mut spreads: BTreeMap<String, Spread> = BTreeMap::new();
    for (key, samples) in old.iter().chain(new) {
        let spread =
            spreads.entry(key.kind()).or_insert_with(|| Spread::assumed(limits.between_runs));
        spread.learn(&samples.runs);
    }
    spreads
}

/// How one figure is decided.
struct Test<'a> {
    limits: &'a Limits,
    spread: &'a Spread,
    /// Figures that are compared: the more, the more of them differ by chance.
    compared: usize,
    seed: u64,
}

impl Test<'_> {
    fn figure(&self, key: &Key, before: &Samples, after: &Samples) -> Figure {
        let figure = Figure {
            before: statistics::middle(&before.runs),
            after: statistics::middle(&after.runs),
            ..bare(key)
        };
        if key.unit == Unit::WrongByte {
            return integrity(figure);
        }
        if let Some(why) = before.differs(after) {
            let (became, status) = (Became::NotComparable, Status::Unknown);
            return Figure { became, status, why, ..figure };
        }
        let estimate = statistics::ratio(&before.runs, &after.runs, self.spread, self.seed);
        match estimate {
            Some(estimate) => self.judged(figure, &estimate),
            None => Figure {
                became: Became::NotComparable,
                status: Status::Unknown,
                why: "a figure is zero or no number".into(),
                ..figure
            },
        }
    }

    fn judged(&self, figure: Figure, estimate: &Estimate) -> Figure {
        let ratio = estimate.log_ratio.exp();
        // How much worse, as a part of what was before; negative where it is better.
        let loss = if figure.unit == Unit::Nanosecond { ratio - 1.0 } else { 1.0 - ratio };
        // One in so many comparisons is called worse (or better) by chance, however many figures.
        let chance = SPENT * self.limits.false_alarms / self.compared.max(1) as f64;
        let beyond_chance = estimate.is_beyond(chance);
        let (became, status) = match loss {
            loss if beyond_chance && loss >= self.limits.fail => (Became::Worse, Status::Fail),
            loss if beyond_chance && loss >= self.limits.warn => (Became::Worse, Status::Warn),
            loss if beyond_chance && loss <= -self.limits.warn => (Became::Better, Status::Pass),
            _ => (Became::Same, Status::Pass),
        };
        let interval = Some(estimate.interval(0.95));
        Figure { ratio: Some(ratio), interval, became, status, ..figure }
    }
}

fn integrity(figure: Figure) -> Figure {
    let (before, after) = (figure.before.unwrap_or(0.0), figure.after.unwrap_or(0.0));
    let (became, status, why) = if after > 0.0 {
        (Became::Worse, Status::Fail, "wrong bytes are a failure whatever was before")
    } else if before > 0.0 {
        (Became::Better, Status::Pass, "")
    } else {
        (Became::Same, Status::Pass, "")
    };
    Figure { became, status, why: why.into(), ..figure }
}

/// A figure of one side alone.
fn lone(key: &Key, samples: &Samples, became: Became) -> Figure {
    let value = statistics::middle(&samples.runs);
    let gone = became == Became::Gone;
    Figure {
        before: value.filter(|_| gone),
        after: value.filter(|_| !gone),
        became,
        status: if gone { Status::Warn } else { Status::Pass },
        ..bare(key)
    }
}

fn bare(key: &Key) -> Figure {
    Figure {
        case: key.case.clone(),
        figure: key.figure.to_owned(),
        unit: key.unit,
        before: None,
        after: None,
        ratio: None,
        interval: None,
        became: Became::Same,
        status: Status::Unknown,
        why: String::new(),
    }
}

fn status(figures: &[Figure]) -> Status {
    let any = |status: Status| figures.iter().any(|figure| figure.status == status);
    let compared =
        |f: &Figure| !matches!(f.became, Became::New | Became::Gone | Became::NotComparable);
    match () {
        () if any(Status::Fail) => Status::Fail,
        () if !figures.iter().any(compared) => Status::Incomplete,
        () if any(Status::Warn) => Status::Warn,
        () => Status::Pass,
    }
}

fn basis(before: usize, after: usize, compared: usize, limits: &Limits) -> Vec<String> {
    let percent = |part: f64| format!("{} %", (part * 1000.0).round() / 10.0);
    let runs = |n: usize| if n == 1 { "1 run".to_owned() } else { format!("{n} runs") };
    let mut basis = vec![format!(
        "{} before, {} after; worse by {} is a warning, by {} a failure, when it is beyond chance",
        runs(before),
        runs(after),
        percent(limits.warn),
        percent(limits.fail),
    )];
    if before < FIRM_RUNS {
        basis.push(format!(
            "not firm: how much runs differ from one to the next is assumed ({} standard \
             deviation), not measured: give {FIRM_RUNS} or more separate runs from before",
            percent(limits.between_runs)
        ));
    }
    basis.push(format!(
        "{compared} figures compared: chance alone calls one of them worse in at most {} of all \
         comparisons",
        percent(limits.false_alarms)
    ));
    basis
}
