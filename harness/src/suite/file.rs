//! Suites as TOML.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Budget, Lanes, Rails, Step, Suite, SuiteError, content_hash};
use crate::plan::{Direction, Op, Test, Transport};
use crate::possible::{PathLimits, refusal};
use crate::size::{MAX_SIZE, parse_size};

/// Longest window and warm-up.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// Most queue pairs or sockets of a case.
const MAX_LANES: u32 = 4096;
/// Most work requests of a queue.
const MAX_DEPTH: u32 = 32_768;

/// Reads and checks a suite.
pub(super) fn read(name: &str, text: &str) -> Result<Suite, SuiteError> {
    let unreadable = |reason: String| SuiteError::Unreadable { suite: name.to_owned(), reason };
    let file: File = toml::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    if file.step.is_empty() {
        return Err(unreadable("it has no [[step]]".to_owned()));
    }
    let steps = file.step.into_iter().enumerate().map(|(index, step)| {
        let wrong = |reason| SuiteError::Step { suite: name.to_owned(), step: index + 1, reason };
        step.resolve(&file.knobs).map_err(wrong)
    });
    Ok(Suite {
        steps: steps.collect::<Result<_, _>>()?,
        // A file goes by its path, so that two files with one inner name are told apart.
        name: name.to_owned(),
        about: file.about,
        hash: content_hash(text),
        group_overhead: file.group_overhead.0,
        budget: Budget { one_rail: file.budget.one_rail.0, more_rails: file.budget.more_rails.0 },
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "name")]
    _name: String,
    #[serde(default)]
    about: String,
    group_overhead: Time,
    budget: BudgetTable,
    knobs: KnobTable,
    step: Vec<StepTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetTable {
    one_rail: Time,
    more_rails: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnobTable {
    tx_depth: u32,
    rx_depth: u32,
    signal_every: u32,
    interval: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepTable {
    test: Test,
    transport: Transport,
    ops: Vec<Op>,
    sizes: Vec<Size>,
    directions: Vec<Direction>,
    rails: Rails,
    lanes: LanesValue,
    warmup: Option<Time>,
    window: Option<Time>,
    repeats: Option<u32>,
    rounds: Option<u64>,
    volume: Option<Size>,
    tx_depth: Option<u32>,
    rx_depth: Option<u32>,
    signal_every: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "lanes is a list of numbers or \"cores\"")]
enum LanesValue {
    Numbers(Vec<u32>),
    Word(LanesWord),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum LanesWord {
    Cores,
}

/// A time as `250ms`.
#[derive(Clone, Copy)]
struct Time(Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |error| D::Error::custom(format!("{text:?} is no time ({error}): write 250ms"));
        humantime::parse_duration(&text).map(Time).map_err(wrong)
    }
}

/// A size as `64KiB`.
#[derive(Clone, Copy)]
struct Size(u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_size(&text).map(Size).map_err(D::Error::custom)
    }
}

impl StepTable {
    fn resolve(self, knobs: &KnobTable) -> Result<Step, String> {
        let timed = self.test != Test::Integrity;
        self.check_fields(timed)?;
        let step = Step {
            test: self.test,
            transport: self.transport,
            ops: self.ops,
            sizes: self.sizes.into_iter().map(|size| size.0).collect(),
            directions: self.directions,
            rails: self.rails,
            lanes: match self.lanes {
                LanesValue::Numbers(numbers) => Lanes::Numbers(numbers),
                LanesValue::Word(LanesWord::Cores) => Lanes::Cores,
            },
            warmup: self.warmup.map_or(Duration::ZERO, |time| time.0),
            window: self.window.map_or(Duration::ZERO, |time| time.0),
            interval: knobs.interval.0,
            repeats: self.repeats.unwrap_or(1),
            rounds: self.rounds,
            volume: self.volume.map_or(0, |size| size.0),
            tx_depth: self.tx_depth.unwrap_or(knobs.tx_depth),
            rx_depth: self.rx_depth.unwrap_or(knobs.rx_depth),
            signal_every: self.signal_every.unwrap_or(knobs.signal_every),
        };
        check_values(&step, timed)?;
        Ok(step)
    }

    fn check_fields(&self, timed: bool) -> Result<(), String> {
        let lists = [
            ("ops", self.ops.is_empty()),
            ("sizes", self.sizes.is_empty()),
            ("directions", self.directions.is_empty()),
            ("lanes", matches!(&self.lanes, LanesValue::Numbers(list) if list.is_empty())),
        ];
        if let Some((name, _)) = lists.into_iter().find(|(_, empty)| *empty) {
            return Err(format!("{name} is empty"));
        }
        let foreign = [
            ("volume", self.volume.is_some() && timed),
            ("window", self.window.is_some() && !timed),
            ("warmup", self.warmup.is_some() && !timed),
            ("repeats", self.repeats.is_some() && !timed),
            ("rounds", self.rounds.is_some() && self.test != Test::Latency),
        ];
        match foreign.into_iter().find(|(_, wrong)| *wrong) {
            Some((name, _)) => Err(format!("{name} means nothing to a {} step", self.test.word())),
            None => Ok(()),
        }
    }
}

fn check_values(step: &Step, timed: bool) -> Result<(), String> {
    for op in &step.ops {
        for size in &step.sizes {
            let limits = PathLimits::default();
            refusal(step.test, *op, step.transport, *size, &limits)
                .map_err(|error| error.to_string())?;
        }
    }
    if step.rails == Rails::Loopback {
        let fits = step.transport.is_verbs() && step.test == Test::Bandwidth;
        if !fits || step.directions != [Direction::AToB] || step.ops.iter().any(|op| op.fetches()) {
            return Err("a loopback is bandwidth over verbs, a-b, of SEND or WRITE".to_owned());
        }
    }
    if step.test == Test::Latency && step.directions.contains(&Direction::Both) {
        return Err("latency has a direction: a-b or b-a".to_owned());
    }
    let intervals = step.interval > Duration::ZERO && step.window >= step.interval;
    let lanes_fit = match &step.lanes {
        Lanes::Numbers(list) => list.iter().all(|lanes| (1..=MAX_LANES).contains(lanes)),
        Lanes::Cores => true,
    };
    let rules = [
        (lanes_fit, "lanes are 1 to 4096"),
        (!timed || step.repeats > 0, "repeats must be at least 1"),
        (!timed || intervals, "window must be at least one interval, and more than 0"),
        (step.window <= MAX_DURATION && step.warmup <= MAX_DURATION, "no time exceeds 24 hours"),
        (step.rounds != Some(0), "rounds must be at least 1"),
        (timed || (1..=MAX_SIZE).contains(&step.volume), "volume is missing, or 0"),
        ((1..=MAX_DEPTH).contains(&step.tx_depth), "tx_depth is 1 to 32768"),
        ((1..=MAX_DEPTH).contains(&step.rx_depth), "rx_depth is 1 to 32768"),
        (
            (1..=(step.tx_depth / 2).max(1)).contains(&step.signal_every),
            "signal_every is 1 to half of tx_depth, or the queue runs dry",
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, reason)) => Err(reason.to_owned()),
        None => Ok(()),
    }
}
