//! From what the two ends of each case of a group measured to measurements of a report.

use std::collections::BTreeMap;

use fabbench_harness::plan::{Case, Direction, LOOPBACK, Test};
use fabbench_reports::model::{CpuTime, Latency, Measurement, Memory, Method, Path, Rate, Repeat};
use serde_json::{Value, json};

use crate::measure::histogram::{self, Merged};
use crate::measure::summary::{self, Window};
use crate::session::protocol::{SideRepeat, SideResult};

/// One case with its results and the names that the report gives its ends.
pub struct CaseOutcome<'a> {
    /// What was asked.
    pub case: &'a Case,
    /// Ends by host: `host/dev:port` or `host/netdev` of A and of B.
    pub ends: [String; 2],
    /// Host names of A and B, for counters and CPU time.
    pub hosts: [String; 2],
    /// Index (0 for A) of the host that initiated.
    pub initiator: usize,
    /// Results by host.
    pub sides: [SideResult; 2],
    /// Which way it took.
    pub path: Path,
    /// Last-level cache of the initiator's host, bytes, where known.
    pub cache_bytes: Option<u64>,
    /// Resolution and cost of the initiator's clock, ns.
    pub clock: (u64, f64),
}

/// Which host starts the operations of a case: the one whose payload moves, for READ and atomics
/// the other.
pub fn initiator_of(case: &Case) -> usize {
    match (case.direction, case.op) {
        (Direction::AToB, op) if op.fetches() => 1,
        (Direction::BToA, op) if op.fetches() => 0,
        (Direction::BToA, _) => 1,
        _ => 0,
    }
}

/// Measurements of one group of cases that ran at the same time, one for each direction of each
/// case. Rates are counted inside the window that all cases of the group have in common.
pub fn measurements(outcomes: &[CaseOutcome]) -> Vec<Measurement> {
    let repeats = outcomes.iter().map(|o| o.case.knobs.repeats as usize).max().unwrap_or(0);
    let common: Vec<Option<Window>> = (0..repeats).map(|r| common_window(outcomes, r)).collect();
    let mut all: Vec<Measurement> = outcomes.iter().flat_map(|o| one_case(o, &common)).collect();
    let ids: Vec<String> = all.iter().map(|m| m.id.clone()).collect();
    for measurement in &mut all {
        measurement.together_with =
            ids.iter().filter(|id| **id != measurement.id).cloned().collect();
    }
    all
}

/// Measurements of one case.
fn one_case(outcome: &CaseOutcome, common: &[Option<Window>]) -> Vec<Measurement> {
    let case = outcome.case;
    match case.test {
        Test::Integrity => directions(case)
            .iter()
            .map(|&(from, to)| integrity(outcome, base(outcome, from, to), to))
            .collect(),
        Test::Latency => {
            let (from, to) = (outcome.initiator, 1 - outcome.initiator);
            vec![latency(outcome, base(outcome, from, to))]
        }
        Test::Bandwidth | Test::MessageRate => directions(case)
            .iter()
            .map(|&(from, to)| bandwidth(outcome, base(outcome, from, to), (from, to), common))
            .collect(),
    }
}

/// (host that the payload leaves, host that it reaches) for each direction of a case.
fn directions(case: &Case) -> &'static [(usize, usize)] {
    match case.direction {
        Direction::AToB => &[(0, 1)],
        Direction::BToA => &[(1, 0)],
        Direction::Both => &[(0, 1), (1, 0)],
    }
}

/// What every measurement of a case has in common.
fn base(outcome: &CaseOutcome, from: usize, to: usize) -> Measurement {
    let case = outcome.case;
    let both = case.direction == Direction::Both;
    let arrow = if from == 0 { "a-b" } else { "b-a" };
    let own = &outcome.sides[outcome.initiator];
    Measurement {
        id: if both { format!("{}/{arrow}", case.id) } else { case.id.clone() },
        test: if case.loopback.is_some() { LOOPBACK.into() } else { word(&case.test) },
        retest_of: case.retest_of.clone(),
        transport: word(&case.transport),
        op: word(&case.op),
        initiator: outcome.ends[outcome.initiator].clone(),
        responder: outcome.ends[1 - outcome.initiator].clone(),
        data_from: outcome.ends[from].clone(),
        data_to: outcome.ends[to].clone(),
        bidirectional: both,
        size_bytes: case.size_bytes,
        method: method(outcome),
        path: outcome.path.clone(),
        memory: Memory {
            kind: if own.effective.contains_key("huge_pages") { "huge" } else { "host" }.into(),
            numa_node: own.effective.get("numa_node").and_then(Value::as_u64).map(|n| n as u32),
            working_set_bytes: own.working_set_bytes,
            exceeds_llc: outcome.cache_bytes.map(|cache| own.working_set_bytes > cache),
        },
        counters: counters(outcome),
        cpu: cpu(outcome),
        ..Measurement::default()
    }
}

/// Word of a plan's value, as its serialisation spells it.
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The method as asked for and as it took effect.
fn method(outcome: &CaseOutcome) -> Method {
    let knobs = &outcome.case.knobs;
    let effective = &outcome.sides[outcome.initiator].effective;
    let number = |name: &str, asked: u32| {
        effective.get(name).and_then(Value::as_u64).map_or(asked, |n| n as u32)
    };
    let text = |name: &str, unsaid: &str| {
        effective.get(name).and_then(Value::as_str).unwrap_or(unsaid).to_owned()
    };
    let timed = outcome.case.test != Test::Integrity;
    Method {
        qps: number("qps", knobs.qps),
        threads: number("threads", knobs.threads),
        tx_depth: number("tx_depth", knobs.tx_depth),
        rx_depth: number("rx_depth", 0),
        inline: number("inline", 0),
        signal_every: number("signal_every", knobs.signal_every),
        polling: text("polling", "busy"),
        arrival: text("arrival", ""),
        warmup_ns: if timed { knobs.warmup_ns } else { 0 },
        window_ns: if timed { knobs.window_ns } else { 0 },
        interval_ns: if timed { knobs.interval_ns } else { 0 },
        clock_resolution_ns: outcome.clock.0,
        clock_cost_ns: outcome.clock.1,
        requested: requested(outcome.case),
        effective: effective.clone(),
    }
}

/// Knobs as asked for.
fn requested(case: &Case) -> BTreeMap<String, Value> {
    let k = &case.knobs;
    let mut map = BTreeMap::from([
        ("qps".to_string(), json!(k.qps)),
        ("threads".to_string(), json!(k.threads)),
        ("tx_depth".to_string(), json!(k.tx_depth)),
        ("rx_depth".to_string(), json!(k.rx_depth)),
        ("inline".to_string(), k.inline.map_or(json!("auto"), |n| json!(n))),
        ("signal_every".to_string(), json!(k.signal_every)),
        ("repeats".to_string(), json!(k.repeats)),
    ]);
    if let Some(rounds) = k.rounds {
        map.insert("rounds".into(), json!(rounds));
    }
    let tuning = serde_json::to_value(&k.tuning).unwrap_or_default();
    for (name, value) in tuning.as_object().into_iter().flatten() {
        let unset = value.is_null() || *value == Value::Bool(false);
        if !unset && !value.as_array().is_some_and(Vec::is_empty) {
            map.insert(name.clone(), value.clone());
        }
    }
    if case.test == Test::Integrity {
        map.insert("volume_bytes".into(), json!(k.volume_bytes));
    }
    map
}

/// Counter deltas of both ends under the hosts' names; only those that changed.
fn counters(outcome: &CaseOutcome) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    for (host, side) in outcome.hosts.iter().zip(&outcome.sides) {
        for (name, &delta) in side.counters.iter().filter(|(_, delta)| **delta != 0) {
            // Both ends of a loopback read the same counters; the later reading saw all of it.
            let told = all.entry(format!("{host}/{name}")).or_insert(delta);
            *told = delta.max(*told);
        }
    }
    all
}

/// CPU time of both ends by host.
fn cpu(outcome: &CaseOutcome) -> BTreeMap<String, CpuTime> {
    let mut by_host: BTreeMap<String, CpuTime> = BTreeMap::new();
    for (host, side) in outcome.hosts.iter().zip(&outcome.sides) {
        let (user_ns, system_ns) = side.cpu_ns;
        if (user_ns, system_ns) != (0, 0) {
            let own = by_host.entry(host.clone()).or_insert(CpuTime { user_ns: 0, system_ns: 0 });
            own.user_ns += user_ns;
            own.system_ns += system_ns;
        }
    }
    by_host
}

/// What the receiver of one direction found in its data: of READ that is the initiator.
fn integrity(outcome: &CaseOutcome, mut measurement: Measurement, to: usize) -> Measurement {
    let Some(found) = &outcome.sides[to].integrity else { return measurement };
    measurement.bytes_verified = found.bytes_verified;
    measurement.bytes_wrong = found.bytes_wrong + found.guard_bytes_wrong;
    measurement.messages_lost = found.dropped + found.lost;
    let parts = [
        (found.dropped, "dropped"),
        (found.repeated, "repeated"),
        (found.misplaced, "misplaced"),
        (found.corrupted, "corrupted"),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} of {} chunks {what}", found.chunks))
        .chain(
            (found.immediates_wrong > 0)
                .then(|| format!("{} immediates wrong", found.immediates_wrong)),
        )
        .chain(
            (found.guard_bytes_wrong > 0)
                .then(|| format!("{} guard bytes overwritten", found.guard_bytes_wrong)),
        )
        .chain((!found.first_wrong.is_empty()).then(|| format!("first: {}", found.first_wrong)))
        .collect();
    measurement.data_errors = words.join("; ");
    measurement
}

/// Latency of all repeats, measured by the initiator.
fn latency(outcome: &CaseOutcome, mut measurement: Measurement) -> Measurement {
    let mut merged = Merged::default();
    for repeat in &outcome.sides[outcome.initiator].repeats {
        let (Some(encoded), Some(exact)) = (&repeat.histogram, &repeat.exact) else { continue };
        // A damaged histogram is no result: the repeat is left out, and the count shows it.
        let Ok(summary) = histogram::latency(encoded, exact) else { continue };
        if merged.add(encoded, exact).is_ok() {
            measurement.repeats.push(latency_repeat(repeat, summary));
        }
    }
    let lost = |r: &Repeat| r.messages_sent.saturating_sub(r.messages_received);
    measurement.messages_lost = measurement.repeats.iter().map(lost).sum();
    measurement.latency_ns = merged.latency();
    measurement.histogram = measurement.latency_ns.map(|_| merged.encoded());
    let halved = outcome.case.op.is_message();
    measurement.is_half_rtt = Some(halved && outcome.case.knobs.tuning.schedule_ns.is_none());
    measurement
}

/// One repeat of a latency case.
fn latency_repeat(repeat: &SideRepeat, latency_ns: Option<Latency>) -> Repeat {
    Repeat {
        messages_sent: repeat.messages_sent,
        messages_received: repeat.messages_received,
        window_ns: repeat.window_ns,
        longest_gap_ns: repeat.longest_gap_ns,
        latency_ns,
        ..Repeat::default()
    }
}

/// Bandwidth of one direction, by the receiver's count. READ has no arrival at the responder: its
/// initiator finishes what it receives, and counts both.
fn bandwidth(
    outcome: &CaseOutcome,
    mut measurement: Measurement,
    (from, to): (usize, usize),
    common: &[Option<Window>],
) -> Measurement {
    let read = outcome.case.op.fetches();
    let sender = if read { to } else { from };
    let bits = outcome.case.size_bytes as f64 * 8.0;
    let mut message_rates = Vec::new();
    let mut interval_rates = Vec::new();
    for (r, received) in outcome.sides[to].repeats.iter().enumerate() {
        let Some(sent) = outcome.sides[sender].repeats.get(r) else { break };
        let shift = clock_shift(outcome, to, r);
        let window = common.get(r).copied().flatten().map(|w| w.shifted_back(shift));
        let interval_ns = outcome.case.knobs.interval_ns;
        // A window that ends by number is each end's own: nothing is cut off it.
        let window = window.filter(|_| received.counted.is_none());
        let mut rates = rates_inside(&received.received_series, received, interval_ns, window);
        let (per_s, window_ns) = mean_rate(&rates, received, interval_ns);
        if let Some(counted) = &received.counted {
            // The interval in which the number was reached is no whole one: it would read as a stall.
            rates.truncate((counted.received_ns / interval_ns.max(1)) as usize);
        }
        measurement.repeats.push(Repeat {
            sent_bps: (!read).then(|| sent_bps(sent, bits)),
            received_bps: Some(per_s * bits),
            messages_sent: sent.messages_sent,
            messages_received: received.messages_received,
            window_ns,
            skew_ns: skew(outcome, r),
            intervals_bps: rates.iter().map(|n| n * bits).collect(),
            longest_gap_ns: received.longest_gap_ns,
            qp_messages: sent.lane_messages.clone(),
            ..Repeat::default()
        });
        message_rates.push(per_s);
        interval_rates.extend(rates);
    }
    let lost = |r: &Repeat| r.messages_sent.saturating_sub(r.messages_received);
    measurement.messages_lost = measurement.repeats.iter().map(lost).sum();
    measurement.messages_per_s = summary::rate(&message_rates, interval_rates);
    measurement.goodput_bps = measurement.messages_per_s.map(|rate| scaled(rate, bits));
    measurement.qp_messages_per_s = qp_rates(&outcome.sides[sender].repeats);
    measurement.fairness = fairness(&measurement.qp_messages_per_s);
    measurement
}

/// Messages per second of each queue pair over all repeats, by the sender's count.
fn qp_rates(repeats: &[SideRepeat]) -> Vec<f64> {
    let mut messages = Vec::new();
    repeats.iter().for_each(|repeat| summary::add_series(&mut messages, &repeat.lane_messages));
    let window_ns = |r: &SideRepeat| r.counted.map_or(r.window_ns, |counted| counted.sent_ns);
    let window_ns = repeats.iter().map(window_ns).sum();
    messages.iter().map(|&n| summary::per_second(n, 1.0, window_ns)).collect()
}

/// The slowest over the fastest; none of fewer than two, or where nothing moved.
fn fairness(rates: &[f64]) -> Option<f64> {
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    (rates.len() > 1 && fastest > 0.0).then(|| slowest / fastest)
}

/// Rate by the sender's count; none of READ, whose payload the responder's adapter sends unseen.
fn sent_bps(sent: &SideRepeat, bits: f64) -> f64 {
    if let Some(counted) = &sent.counted {
        return summary::per_second(counted.sent, bits, counted.sent_ns);
    }
    summary::per_second(sent.sent_series.iter().sum(), bits, sent.window_ns)
}

/// Messages per second in each interval of the receiver's series that lies inside `window` (all of
/// them without one; times on the receiver's clock).
fn rates_inside(
    series: &[u64],
    received: &SideRepeat,
    interval_ns: u64,
    window: Option<Window>,
) -> Vec<f64> {
    let start = |i: usize| received.window_start_ns + i as u64 * interval_ns;
    // Half an interval of tolerance: the windows of one group begin within milliseconds.
    let tolerance = interval_ns / 2;
    let inside = |i: usize| {
        window.is_none_or(|w| {
            start(i) + tolerance >= w.start_ns && start(i) + interval_ns <= w.end_ns() + tolerance
        })
    };
    let chosen: Vec<u64> = (0..series.len()).filter(|&i| inside(i)).map(|i| series[i]).collect();
    summary::interval_rates(&chosen, 1.0, interval_ns)
}

/// Mean of the intervals chosen and the time that it was counted in, ns: the window's real length
/// where all of them are, since a window begins and ends at the first turn of the loop after its
/// edges.
fn mean_rate(rates: &[f64], received: &SideRepeat, interval_ns: u64) -> (f64, u64) {
    if let Some(counted) = &received.counted {
        let per_s = summary::per_second(counted.received, 1.0, counted.received_ns);
        return (per_s, counted.received_ns);
    }
    if rates.len() == received.received_series.len() {
        let all = received.received_series.iter().sum();
        return (summary::per_second(all, 1.0, received.window_ns), received.window_ns);
    }
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    (mean, rates.len() as u64 * interval_ns)
}

/// A rate in another unit.
fn scaled(rate: Rate, factor: f64) -> Rate {
    Rate {
        median: rate.median * factor,
        min: rate.min * factor,
        max: rate.max * factor,
        spread: rate.spread,
        min_window: rate.min_window * factor,
    }
}

/// What to add to a time of `host`'s clock to get host A's, in repeat `r` of this case.
fn clock_shift(outcome: &CaseOutcome, host: usize, r: usize) -> i64 {
    let offset = outcome.sides[outcome.initiator].repeats.get(r).map_or(0, |x| x.clock_offset_ns);
    // The initiator estimated responder − initiator.
    match (host, outcome.initiator) {
        (1, 0) => -offset,
        (1, 1) => offset,
        _ => 0,
    }
}

/// Distance of the two ends' windows in repeat `r`.
fn skew(outcome: &CaseOutcome, r: usize) -> u64 {
    let start = |host: usize| {
        let at = outcome.sides[host].repeats.get(r)?.window_start_ns;
        Some(at as i64 + clock_shift(outcome, host, r))
    };
    match (start(0), start(1)) {
        (Some(a), Some(b)) => a.abs_diff(b),
        _ => 0,
    }
}

/// The window that all cases share in repeat `r`, on host A's clock; none when they have none in
/// common.
fn common_window(outcomes: &[CaseOutcome], r: usize) -> Option<Window> {
    let windows = outcomes.iter().flat_map(|o| {
        (0..2).filter_map(move |host| {
            let repeat = o.sides[host].repeats.get(r)?;
            let own = Window { start_ns: repeat.window_start_ns, len_ns: repeat.window_ns };
            Some(own.shifted_back(-clock_shift(o, host, r)))
        })
    });
    windows.map(Some).reduce(|a, b| a?.intersect(&b?)).flatten()
}

#[cfg(test)]
mod tests {
    use fabbench_harness::plan::{Knobs, Op, Transport};

    use super::*;
    use crate::session::protocol::{Counted, IntegrityResult};

    const MS: u64 = 1_000_000;

    /// A case of 1000-byte messages whose intervals last 100 ms.
    fn case(test: Test, op: Op, direction: Direction) -> Case {
        let knobs = Knobs {
            qps: 1,
            threads: 1,
            tx_depth: 16,
            rx_depth: 16,
            inline: None,
            signal_every: 4,
            warmup_ns: 0,
            window_ns: 400 * MS,
            interval_ns: 100 * MS,
            repeats: 1,
            rounds: None,
            volume_bytes: 4096,
            tuning: Default::default(),
        };
        let (id, transport) = ("case".into(), Transport::Rc);
        Case {
            id,
            test,
            transport,
            op,
            size_bytes: 1000,
            direction,
            rail: None,
            loopback: None,
            retest_of: None,
            knobs,
        }
    }

    fn outcome(case: &Case, sides: [SideResult; 2]) -> CaseOutcome<'_> {
        CaseOutcome {
            case,
            ends: ["a/x:1".into(), "b/x:1".into()],
            hosts: ["a".into(), "b".into()],
            initiator: initiator_of(case),
            sides,
            path: Path::default(),
            cache_bytes: Some(1 << 20),
            clock: (1, 30.0),
        }
    }

    /// A side with one repeat whose window begins at `start_ms` of its own clock.
    fn side(start_ms: u64, sent: &[u64], received: &[u64]) -> SideResult {
        let repeat = SideRepeat {
            window_start_ns: start_ms * MS,
            window_ns: 400 * MS,
            messages_sent: sent.iter().sum(),
            messages_received: received.iter().sum(),
            sent_series: sent.to_vec(),
            received_series: received.to_vec(),
            ..SideRepeat::default()
        };
        SideResult { repeats: vec![repeat], ..SideResult::default() }
    }

    /// The same, knowing how far the peer's clock is ahead.
    fn knowing(mut side: SideResult, offset_ms: i64) -> SideResult {
        side.repeats[0].clock_offset_ns = offset_ms * MS as i64;
        side
    }

    fn one(outcome: &CaseOutcome) -> Measurement {
        let all = measurements(std::slice::from_ref(outcome));
        assert_eq!(all.len(), 1);
        all[0].clone()
    }

    #[test]
    fn goodput_is_what_arrived_while_both_ends_measured() {
        let case = case(Test::Bandwidth, Op::Write, Direction::AToB);
        // B's clock is 5 s ahead; its window begins 150 ms after A's: two intervals are common.
        let (a, b) = (side(1000, &[10; 4], &[]), side(6150, &[], &[7, 9, 100, 100]));
        let found = one(&outcome(&case, [knowing(a, 5000), b]));
        let repeat = &found.repeats[0];
        assert_eq!(repeat.skew_ns, 150 * MS);
        assert_eq!(repeat.window_ns, 300 * MS, "half an interval is tolerated at the end");
        assert_eq!(repeat.intervals_bps, [560_000.0, 720_000.0, 8_000_000.0]);
        assert_eq!(repeat.sent_bps, Some(800_000.0));
        assert_eq!(found.goodput_bps.map(|rate| rate.min_window), Some(560_000.0));
        assert_eq!((&*found.data_from, &*found.data_to), ("a/x:1", "b/x:1"));
    }

    #[test]
    fn a_window_that_ended_by_number_has_its_own_length() {
        let case = case(Test::MessageRate, Op::Write, Direction::AToB);
        let (mut a, mut b) = (side(1000, &[10; 4], &[]), side(1000, &[], &[10, 10, 4]));
        a.repeats[0].counted = Some(Counted { sent: 60, sent_ns: 150 * MS, ..Counted::default() });
        a.repeats[0].lane_messages = vec![20, 40];
        let received = Counted { received: 60, received_ns: 200 * MS, ..Counted::default() };
        b.repeats[0].counted = Some(received);
        let found = one(&outcome(&case, [a, b]));
        assert_eq!(found.messages_per_s.map(|rate| rate.median), Some(300.0));
        assert_eq!(found.repeats[0].window_ns, 200 * MS);
        assert_eq!(found.repeats[0].intervals_bps.len(), 2, "whole intervals only");
        assert_eq!(found.repeats[0].sent_bps, Some(400.0 * 8000.0));
        assert_eq!(found.repeats[0].qp_messages, [20, 40]);
        assert_eq!((found.qp_messages_per_s[0].round(), found.fairness), (133.0, Some(0.5)));
    }

    #[test]
    fn fairness_needs_two_and_something_that_moved() {
        assert_eq!(fairness(&[5.0]), None);
        assert_eq!(fairness(&[0.0, 0.0]), None);
        assert_eq!(fairness(&[0.0, 2.0]), Some(0.0));
        assert_eq!(fairness(&[]), None);
    }

    #[test]
    fn a_whole_window_is_counted_over_its_real_length() {
        let case = case(Test::Bandwidth, Op::Write, Direction::AToB);
        let mut sides = [side(0, &[10; 4], &[]), side(0, &[], &[10; 4])];
        for side in &mut sides {
            side.repeats[0].window_ns = 500 * MS;
        }
        let repeat = &one(&outcome(&case, sides)).repeats[0];
        assert_eq!((repeat.window_ns, repeat.received_bps), (500 * MS, Some(640_000.0)));
    }

    #[test]
    fn skew_is_right_whoever_initiated() {
        let case = case(Test::Bandwidth, Op::Write, Direction::BToA);
        // B initiates and finds A's clock 5 s behind its own.
        let (a, b) = (side(1000, &[], &[4; 4]), side(6020, &[4; 4], &[]));
        let found = one(&outcome(&case, [a, knowing(b, -5000)]));
        assert_eq!(found.repeats[0].skew_ns, 20 * MS);
        assert_eq!(found.repeats[0].intervals_bps.len(), 4);
        assert_eq!((&*found.initiator, &*found.data_from), ("b/x:1", "b/x:1"));
    }

    #[test]
    fn windows_that_share_nothing_give_no_rate() {
        let case = case(Test::Bandwidth, Op::Write, Direction::AToB);
        let (a, b) = (side(1000, &[1; 4], &[]), side(1380, &[], &[1; 4]));
        let found = one(&outcome(&case, [a, b]));
        assert_eq!(found.repeats[0].received_bps, Some(0.0));
        assert_eq!(found.goodput_bps.map(|rate| rate.median), Some(0.0));
    }

    #[test]
    fn both_directions_are_two_measurements_by_their_own_receivers() {
        let case = case(Test::Bandwidth, Op::Send, Direction::Both);
        let sides = [side(0, &[10; 4], &[20; 4]), side(0, &[20; 4], &[10; 4])];
        let all = measurements(&[outcome(&case, sides)]);
        let told: Vec<_> = all
            .iter()
            .map(|m| (&*m.id, &*m.data_to, m.repeats[0].received_bps, m.bidirectional))
            .collect();
        let expected = [
            ("case/a-b", "b/x:1", Some(800_000.0), true),
            ("case/b-a", "a/x:1", Some(1_600_000.0), true),
        ];
        assert_eq!(told, expected);
        assert_eq!(all[0].together_with, ["case/b-a"]);
        assert!(all.iter().all(|m| m.messages_lost == 0));
    }

    #[test]
    fn cases_of_a_group_share_one_window() {
        let case = case(Test::Bandwidth, Op::Write, Direction::AToB);
        let early = outcome(&case, [side(0, &[1; 4], &[]), side(0, &[], &[1; 4])]);
        let late = outcome(&case, [side(200, &[1; 4], &[]), side(200, &[], &[1; 4])]);
        let all = measurements(&[early, late]);
        assert!(all.iter().all(|m| m.repeats[0].window_ns == 200 * MS));
    }

    #[test]
    fn what_was_sent_and_never_arrived_is_lost() {
        let case = case(Test::Bandwidth, Op::Write, Direction::AToB);
        let found = one(&outcome(&case, [side(0, &[10; 4], &[]), side(0, &[], &[10, 10, 10, 7])]));
        assert_eq!(found.messages_lost, 3);
    }

    #[test]
    fn read_is_initiated_and_counted_where_its_payload_arrives() {
        for (direction, reader) in [(Direction::AToB, 1), (Direction::BToA, 0)] {
            let case = case(Test::Bandwidth, Op::Read, direction);
            assert_eq!(initiator_of(&case), reader);
            let mut sides = [side(0, &[], &[]), side(0, &[], &[])];
            sides[reader] = side(0, &[], &[5; 4]);
            let found = one(&outcome(&case, sides));
            assert_eq!(found.data_to, found.initiator);
            assert_eq!(found.repeats[0].received_bps, Some(400_000.0));
            assert_eq!(found.repeats[0].sent_bps, None, "nobody sees it leave");
        }
    }

    #[test]
    fn ends_of_one_name_keep_their_own_findings() {
        let case = case(Test::Integrity, Op::Write, Direction::Both);
        let found = |bytes_wrong, dropped| SideResult {
            integrity: Some(IntegrityResult {
                bytes_verified: 4096,
                bytes_wrong,
                dropped,
                chunks: 4,
                ..IntegrityResult::default()
            }),
            ..SideResult::default()
        };
        let mut outcome = outcome(&case, [found(1, 0), found(2, 3)]);
        outcome.ends = ["a/x:1".into(), "a/x:1".into()];
        let wrong: Vec<_> = measurements(&[outcome])
            .iter()
            .map(|m| (m.id.clone(), m.bytes_wrong, m.messages_lost, m.data_errors.clone()))
            .collect();
        let dropped = "3 of 4 chunks dropped".to_owned();
        let expected =
            [("case/a-b".into(), 2, 3, dropped), ("case/b-a".into(), 1, 0, String::new())];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn a_damaged_histogram_is_no_result() {
        let case = case(Test::Latency, Op::Send, Direction::AToB);
        let mut a = side(0, &[1], &[1]);
        a.repeats[0].histogram = Some("AAAA".into());
        a.repeats[0].exact = Some(crate::session::protocol::ExactLatency::default());
        let found = one(&outcome(&case, [a, side(0, &[1], &[1])]));
        assert_eq!((found.repeats.len(), found.latency_ns, found.histogram), (0, None, None));
        assert_eq!(found.is_half_rtt, Some(true));
    }

    #[test]
    fn only_counters_that_changed_are_told_under_their_hosts() {
        let case = case(Test::Bandwidth, Op::Write, Direction::AToB);
        let mut sides = [side(0, &[1], &[]), side(0, &[], &[1])];
        sides[0].counters = BTreeMap::from([("x:1/sent".into(), 4), ("x:1/errors".into(), 0)]);
        sides[1].counters = BTreeMap::from([("x:1/sent".into(), -1)]);
        let counters = one(&outcome(&case, sides)).counters;
        let expected = [("a/x:1/sent".to_owned(), 4), ("b/x:1/sent".to_owned(), -1)];
        assert_eq!(counters, BTreeMap::from(expected));
    }
}
