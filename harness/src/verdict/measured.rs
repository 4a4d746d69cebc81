//! One measurement.

use fabbench_reports::model::{Measurement, Report, Status};

use super::bounds;
use crate::counters::{CounterScene, judge_counters};
use crate::plan::LOOPBACK;
use crate::profile::{Choice, is_soft};
use crate::size::size_text;

/// Repeats of a bandwidth case may differ by this much of their median.
const STEADY_BANDWIDTH: f64 = 0.03;
/// Medians of a latency case's repeats likewise.
const STEADY_LATENCY: f64 = 0.10;
/// A result above this share of what is possible is wrong.
const POSSIBLE: f64 = 1.005;

/// What a measurement says of function and of performance.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    /// pass, warn, error, fail; unknown is kept as a remark.
    pub function: Status,
    /// pass, warn, unjudged; n/a where there is none, as in integrity.
    pub performance: Status,
    /// Sentences with their weight, worst first.
    pub sentences: Vec<(Status, String)>,
    /// Goodput as part of the ceiling.
    pub efficiency: Option<f64>,
    /// What was asked for, in words; none where it was not judged.
    pub bound: Option<String>,
    /// The same as the lowest rate that passes, where it is one.
    pub bound_bps: Option<f64>,
    /// Why it was not judged, where it should have been.
    pub not_judged: Option<String>,
    /// A retest: it tells why another is as it is, and its speed counts for nothing by itself.
    pub evidence: bool,
}

impl Judged {
    /// Both in one word.
    pub fn status(&self) -> Status {
        let performance = if self.evidence { Status::Unjudged } else { self.performance };
        match (self.function, performance) {
            (Status::Pass, Status::NotApplicable) => Status::Pass,
            (Status::Pass, performance) => performance,
            (function, performance) => function.max(performance),
        }
    }

    /// It would have failed for its speed, and passed when it was measured again: best `bps`.
    pub fn relent(&mut self, told: &str) {
        self.performance = Status::Warn;
        for (status, text) in
            self.sentences.iter_mut().filter(|(status, _)| *status == Status::Fail)
        {
            *status = Status::Warn;
            *text += &format!("; measured again it passed ({told}): it flutters");
        }
    }

    /// It fails for its speed, and did so when it was measured again.
    pub fn confirm(&mut self, told: &str) {
        if let Some((_, text)) = self.sentences.iter_mut().find(|(s, _)| *s == Status::Fail) {
            *text += &format!("; measured again: {told}");
        }
    }

    /// The sentences in one.
    pub fn reason(&self) -> String {
        let texts: Vec<_> = self.sentences.iter().map(|(_, text)| text.as_str()).collect();
        texts.join("; ")
    }
}

pub(super) fn judge(measured: &Measurement, report: &Report, choice: &Choice) -> Judged {
    let soft = is_soft(&report.hosts, measured);
    let mut sentences = data(measured);
    sentences.extend(presence(measured));
    sentences.extend(impossible(measured));
    if measured.transport != "tcp" {
        sentences.extend(counters(measured, soft));
    }
    let function = worst(&sentences);
    let asked = choice.asked(&report.hosts, measured);
    let speed = match measured.test.as_str() {
        "integrity" => bounds::Found::default(),
        _ => bounds::judge(measured, report, &asked),
    };
    let steadiness = unsteady(measured).filter(|_| !soft && measured.transport != "tcp");
    let mut of_speed = speed.sentences;
    if !of_speed.iter().any(|(_, text)| text.starts_with(bounds::UNSTEADY)) {
        of_speed.extend(steadiness.map(|text| (Status::Warn, text)));
    }
    let performance = match (measured.test.as_str(), worst(&of_speed), &speed.bound) {
        ("integrity", ..) => Status::NotApplicable,
        (_, Status::Pass, None) => Status::Unjudged,
        (_, worst, _) => worst,
    };
    let evidence = measured.retest_of.is_some();
    if evidence {
        of_speed.iter_mut().for_each(|(status, _)| *status = Status::Unjudged);
    }
    sentences.extend(of_speed);
    if sentences.is_empty() {
        let verified = size_text(measured.bytes_verified);
        sentences.push((Status::Pass, format!("every byte right: {verified} compared")));
    }
    sentences.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
    Judged {
        function,
        performance,
        sentences,
        efficiency: speed.efficiency,
        bound: speed.bound,
        bound_bps: speed.bound_bps,
        not_judged: speed.not_judged,
        evidence,
    }
}

/// The worst of fail, error and warn; what could not be seen does not count as seen well or badly.
fn worst(sentences: &[(Status, String)]) -> Status {
    let grave = |status: &Status| matches!(status, Status::Fail | Status::Error | Status::Warn);
    sentences.iter().map(|(status, _)| *status).filter(grave).max().unwrap_or(Status::Pass)
}

fn data(measured: &Measurement) -> Vec<(Status, String)> {
    let mut found = Vec::new();
    let errors = &measured.data_errors;
    if measured.bytes_wrong > 0 {
        let of = size_text(measured.bytes_verified);
        let tail = if errors.is_empty() { String::new() } else { format!(": {errors}") };
        let text = format!("{} bytes wrong of {of}{tail}", measured.bytes_wrong);
        found.push((Status::Fail, text));
    } else if !errors.is_empty() {
        found.push((Status::Fail, format!("wrong data: {errors}")));
    }
    let lost = lost(measured);
    if lost > 0 {
        let text = format!("messages sent and never received: {lost}");
        found.push((Status::Fail, text));
    } else if measured.messages_lost > 0 {
        let text = format!(
            "{} messages lost: {} owes none, but a sound path loses none",
            measured.messages_lost, measured.transport
        );
        found.push((Status::Warn, text));
    }
    found
}

/// Messages lost, by the measurement's own count and by both ends' totals. Only reliable transports
/// owe each message; where the receiver cannot count (READ) there is nothing to compare.
fn lost(measured: &Measurement) -> u64 {
    if !matches!(measured.transport.as_str(), "rc" | "tcp") {
        return 0;
    }
    let rated = matches!(measured.test.as_str(), "bandwidth" | LOOPBACK);
    let counted = rated && measured.method.arrival != "none";
    let total = |of: fn(&fabbench_reports::model::Repeat) -> u64| -> u64 {
        measured.repeats.iter().map(of).sum()
    };
    let (sent, received) =
        (total(|repeat| repeat.messages_sent), total(|repeat| repeat.messages_received));
    let missing = if counted && received > 0 { sent.saturating_sub(received) } else { 0 };
    measured.messages_lost.max(missing)
}

/// Whether there is a result at all.
fn presence(measured: &Measurement) -> Option<(Status, String)> {
    let text = match measured.test.as_str() {
        "integrity" if measured.bytes_verified == 0 => "no byte was compared",
        "latency" if measured.latency_ns.is_none_or(|latency| latency.count == 0) => {
            "no round trip was measured"
        }
        // Messages of no bytes carry no payload.
        "bandwidth" if measured.size_bytes == 0 => {
            match measured.messages_per_s.is_none_or(|rate| rate.median <= 0.0) {
                true => "no message arrived in the measured windows",
                false => return None,
            }
        }
        "bandwidth" | LOOPBACK if measured.goodput_bps.is_none_or(|rate| rate.median <= 0.0) => {
            "no payload was counted in the windows that all ends have in common: measure longer \
             (--duration)"
        }
        _ => return None,
    };
    Some((Status::Error, text.to_owned()))
}

/// More than a hard term allows means that the measurement is wrong.
fn impossible(measured: &Measurement) -> Option<(Status, String)> {
    let (rate, ceiling) = (measured.goodput_bps?, measured.ceiling.as_ref()?);
    let mut hard = ceiling.terms.iter().filter(|term| term.hard);
    let broken = hard.find(|term| rate.median > POSSIBLE * term.bps)?;
    let text = format!(
        "accounting: {:.3} Gb/s is more than {} allows ({:.3} Gb/s)",
        rate.median / 1e9,
        broken.name,
        broken.bps / 1e9
    );
    Some((Status::Error, text))
}

fn counters(measured: &Measurement, soft: bool) -> Vec<(Status, String)> {
    let watched = measured.repeats.iter().map(|repeat| repeat.window_ns).sum();
    let scene = CounterScene {
        deltas: &measured.counters,
        ports: [&measured.initiator, &measured.responder],
        soft,
        receives: measured.op.starts_with("send"),
        watched_ns: watched,
    };
    // What does not leave an adapter need not show in the counters of its port.
    let of_port = |counter: &str| measured.test == LOOPBACK && counter == measured.initiator;
    let found = judge_counters(&scene).into_iter().filter(|found| !of_port(&found.counter));
    found.map(|found| (found.status, found.sentence)).collect()
}

/// Repeats that differ more than a sound fabric's do.
fn unsteady(measured: &Measurement) -> Option<String> {
    match measured.test.as_str() {
        "bandwidth" | LOOPBACK => {
            let spread = measured.goodput_bps?.spread;
            let words = || {
                format!(
                    "unstable: repeats differ by {:.1} % (steady is {:.0} %)",
                    spread * 100.0,
                    STEADY_BANDWIDTH * 100.0
                )
            };
            (spread > STEADY_BANDWIDTH).then(words)
        }
        "latency" => {
            let latencies = measured.repeats.iter().filter_map(|repeat| repeat.latency_ns);
            let mut medians: Vec<f64> = latencies.map(|latency| latency.p50).collect();
            medians.sort_by(f64::total_cmp);
            let (low, high) = (*medians.first()?, *medians.last()?);
            let spread = (high - low) / medians[(medians.len() - 1) / 2];
            let words = || {
                format!(
                    "unstable: medians of the repeats differ by {:.1} % (steady is {:.0} %)",
                    spread * 100.0,
                    STEADY_LATENCY * 100.0
                )
            };
            (spread > STEADY_LATENCY).then(words)
        }
        _ => None,
    }
}
