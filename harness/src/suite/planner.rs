//! From a suite's steps to cases on rails.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Lanes, Overrides, Plan, RailTraits, Rails, Scene, Step, Suite, SuiteError};
use crate::plan::{Case, Direction, Group, Knobs, Op, Test, Transport, in_intervals};
use crate::possible::{PathLimits, refusal};
use crate::size::size_text;

/// What verified bytes are assumed to take, as slow as emulated hosts: 50 MB/s.
const INTEGRITY_BYTES_PER_S: f64 = 50e6;

/// Windows are not shortened below this, however many rails there are.
const SHORTEST_WINDOW: Duration = Duration::from_millis(300);

/// Nor are warm-ups.
const SHORTEST_WARMUP: Duration = Duration::from_millis(50);

/// Time that is left for measuring again what would fail, however full the budget is, s.
const LEAST_RETEST: f64 = 30.0;

pub(super) fn plan(
    suite: &Suite,
    scene: &Scene,
    overrides: &Overrides,
) -> Result<Plan, SuiteError> {
    check_overrides(overrides)?;
    let wanted = |step: &&Step| {
        overrides.transports.as_ref().is_none_or(|list| list.contains(&step.transport))
    };
    let mut groups = Vec::new();
    for step in suite.steps.iter().filter(wanted) {
        groups.extend(groups_of(&overridden(step, overrides), scene)?);
    }
    refuse_twins(suite, &groups)?;
    let mut notes = tcp_notes(&groups, scene);
    if overrides.duration.is_none() && overrides.repeats.is_none() {
        notes.extend(fit(suite, scene, &mut groups));
    }
    let estimated_seconds = seconds(suite, &groups);
    let retest_seconds = Some((budget_seconds(suite, scene) - estimated_seconds).max(LEAST_RETEST));
    Ok(Plan { groups, estimated_seconds, retest_seconds, notes })
}

fn check_overrides(overrides: &Overrides) -> Result<(), SuiteError> {
    let refuse = |text: &str| Err(SuiteError::Override(text.to_owned()));
    match (overrides.duration, overrides.repeats) {
        (Some(Duration::ZERO), _) => refuse("duration 0: a measured window takes time, e.g. 2s"),
        (Some(time), _) if time > Duration::from_secs(24 * 3600) => {
            refuse("duration: at most 24 hours a window")
        }
        (_, Some(0)) => refuse("repeats 0: a case is measured at least once"),
        (_, Some(repeats)) if repeats > 1000 => refuse("repeats: at most 1000"),
        _ => Ok(()),
    }
}

fn overridden(step: &Step, overrides: &Overrides) -> Step {
    let mut step = step.clone();
    if step.test != Test::Integrity {
        step.repeats = overrides.repeats.unwrap_or(step.repeats);
        if let Some(duration) = overrides.duration {
            let (window, interval) = in_intervals(nanos(duration));
            step.window = Duration::from_nanos(window);
            step.interval = Duration::from_nanos(interval);
            // Who asks for a time wants it spent.
            step.rounds = None;
        }
    }
    step
}

fn groups_of(step: &Step, scene: &Scene) -> Result<Vec<Group>, SuiteError> {
    let places = places(step, scene);
    let mut groups = Vec::new();
    for op in &step.ops {
        for size in &step.sizes {
            for lanes in lane_numbers(step, scene) {
                for direction in &step.directions {
                    let point = Point { op: *op, size: *size, lanes, direction: *direction };
                    groups.extend(groups_at(step, &point, &places, scene)?);
                }
            }
        }
    }
    Ok(groups)
}

/// What is measured, without where.
struct Point {
    op: Op,
    size: u64,
    lanes: u32,
    direction: Direction,
}

fn groups_at(
    step: &Step,
    point: &Point,
    places: &[Option<usize>],
    scene: &Scene,
) -> Result<Vec<Group>, SuiteError> {
    let mut cases = Vec::new();
    for rail in places {
        let case = case(step, point, *rail);
        let limits = rail.map_or_else(PathLimits::default, |rail| scene.rails[rail].limits);
        refusal(step.test, point.op, step.transport, point.size, &limits)
            .map_err(|error| SuiteError::Impossible { case: case.id.clone(), error })?;
        cases.push(case);
    }
    if step.rails == Rails::Loopback {
        return Ok(cases.into_iter().flat_map(|case| against_themselves(&case, scene)).collect());
    }
    if step.rails == Rails::Together {
        // Alone, a single rail has been measured already.
        let group = Group { title: title(step, point, "all rails together"), cases };
        return Ok(if places.len() < 2 { Vec::new() } else { vec![group] });
    }
    let alone = cases.into_iter().map(|case| {
        let place = case.rail.map_or_else(|| "the route".to_owned(), |rail| format!("rail{rail}"));
        Group { title: title(step, point, &place), cases: vec![case] }
    });
    Ok(alone.collect())
}

/// A case on a rail as one of each end's port against itself; none where the rail itself is that.
fn against_themselves(case: &Case, scene: &Scene) -> Vec<Group> {
    let one_port = case.rail.is_some_and(|rail| scene.rails[rail].one_port);
    let hosts = if one_port { 0..0 } else { 0..2 };
    hosts.map(|host| loopback(case, host)).collect()
}

/// A case on a rail as one of host `host`'s port against itself.
pub(crate) fn loopback(case: &Case, host: usize) -> Group {
    let letter = ["a", "b"][host];
    let place = case.rail.map_or_else(String::new, |rail| format!("rail{rail}"));
    let (size, op) = (size_text(case.size_bytes), case.op.text());
    let id = format!(
        "loopback/{}/{}/{}/{place}/{letter}",
        case.transport.word(),
        case.op.word(),
        case.size_bytes
    );
    let direction = Direction::AToB;
    Group {
        title: format!(
            "loopback {size} {op}, {place}, the port of {} alone",
            letter.to_uppercase()
        ),
        cases: vec![Case { id, direction, loopback: Some(host), ..case.clone() }],
    }
}

/// Rails that a step runs on; TCP goes over the rails that carry it, else over the route.
fn places(step: &Step, scene: &Scene) -> Vec<Option<usize>> {
    let fits = |rail: &RailTraits| step.transport != Transport::Tcp || rail.tcp;
    let rails = scene.rails.iter().enumerate().filter(|(_, rail)| fits(rail));
    let rails: Vec<_> = rails.map(|(index, _)| Some(index)).collect();
    if rails.is_empty() && !step.transport.is_verbs() { vec![None] } else { rails }
}

fn lane_numbers(step: &Step, scene: &Scene) -> Vec<u32> {
    match &step.lanes {
        Lanes::Numbers(numbers) => numbers.clone(),
        Lanes::Cores => vec![scene.tcp_streams.max(1)],
    }
}

fn case(step: &Step, point: &Point, rail: Option<usize>) -> Case {
    let place = rail.map_or_else(|| "route".to_owned(), |rail| format!("rail{rail}"));
    let mut id = format!(
        "{}/{}/{}/{}/{place}/{}",
        step.test.word(),
        step.transport.word(),
        point.op.word(),
        point.size,
        direction_word(point.direction),
    );
    if matches!(&step.lanes, Lanes::Numbers(numbers) if numbers.len() > 1) {
        id += &format!("/qps{}", point.lanes);
    }
    if step.rails == Rails::Together {
        id += "/together";
    }
    Case {
        id,
        test: step.test,
        transport: step.transport,
        op: point.op,
        size_bytes: point.size,
        direction: point.direction,
        rail,
        loopback: None,
        retest_of: None,
        knobs: Knobs {
            qps: point.lanes,
            threads: if step.lanes == Lanes::Cores { point.lanes } else { 1 },
            tx_depth: step.tx_depth,
            rx_depth: step.rx_depth,
            inline: None,
            // One message at a time, each asking for its completion: perftest's way.
            signal_every: if step.test == Test::Latency { 1 } else { step.signal_every },
            warmup_ns: nanos(step.warmup),
            window_ns: nanos(step.window),
            interval_ns: nanos(step.interval),
            repeats: step.repeats,
            rounds: step.rounds,
            volume_bytes: step.volume,
            tuning: Default::default(),
        },
    }
}

fn title(step: &Step, point: &Point, place: &str) -> String {
    let op = point.op.text();
    let direction = match point.direction {
        Direction::AToB => "A to B",
        Direction::BToA => "B to A",
        Direction::Both => "both ways",
    };
    let lanes = match &step.lanes {
        Lanes::Numbers(numbers) if numbers.len() > 1 => format!(", {} QP", point.lanes),
        _ => String::new(),
    };
    let size = size_text(point.size);
    format!("{} {size} {op}{lanes}, {place}, {direction}", step.test.word().replace('_', " "))
}

fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::AToB => "a-b",
        Direction::BToA => "b-a",
        Direction::Both => "both",
    }
}

/// Two steps must not measure one thing under one id.
fn refuse_twins(suite: &Suite, groups: &[Group]) -> Result<(), SuiteError> {
    let mut seen = BTreeSet::new();
    let mut cases = groups.iter().flat_map(|group| &group.cases);
    match cases.find(|case| !seen.insert(case.id.as_str())) {
        Some(case) => Err(SuiteError::Unreadable {
            suite: suite.name.clone(),
            reason: format!("two steps measure {}: merge them", case.id),
        }),
        None => Ok(()),
    }
}

fn tcp_notes(groups: &[Group], scene: &Scene) -> Vec<String> {
    let mut tcp = groups.iter().flat_map(|group| &group.cases);
    if !tcp.any(|case| case.transport == Transport::Tcp) {
        return Vec::new();
    }
    let lack = scene.rails.iter().enumerate().filter(|(_, rail)| !rail.tcp);
    let lack: Vec<_> = lack.map(|(index, _)| format!("rail{index}")).collect();
    if lack.is_empty() {
        return Vec::new();
    }
    let rest = if lack.len() == scene.rails.len() {
        "TCP is measured over the route to the peer instead"
    } else {
        "TCP is measured on the other rails"
    };
    vec![format!("{} without IP addresses: {rest}", lack.join(", "))]
}

/// Shortens windows and warm-ups until the plan keeps to the suite's budget; says so.
fn fit(suite: &Suite, scene: &Scene, groups: &mut [Group]) -> Option<String> {
    let budget = budget_seconds(suite, scene);
    let left = (budget - fixed_seconds(suite, groups)).max(0.0);
    let before = timed_seconds(groups);
    // What has met its lower limit leaves the rest to the others, hence more than one turn.
    for _ in 0..8 {
        let timed = timed_seconds(groups);
        if timed <= left {
            break;
        }
        groups
            .iter_mut()
            .flat_map(|group| &mut group.cases)
            .for_each(|case| shorten(case, left / timed));
    }
    let after = timed_seconds(groups);
    if after >= before {
        return None;
    }
    Some(format!(
        "windows shortened to {:.0} % (at least {} ms) to keep {} rails within {} s; --duration sets \
         them",
        after / before * 100.0,
        SHORTEST_WINDOW.as_millis(),
        scene.rails.len(),
        budget
    ))
}

fn budget_seconds(suite: &Suite, scene: &Scene) -> f64 {
    let budget = match scene.rails.len() {
        0 | 1 => suite.budget.one_rail,
        _ => suite.budget.more_rails,
    };
    budget.as_secs_f64()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Windows stay whole intervals, as a series is made of them.
fn shorten(case: &mut Case, scale: f64) {
    let shorter = |time_ns: u64, least: Duration| {
        ((time_ns as f64 * scale) as u64).max(nanos(least).min(time_ns))
    };
    let knobs = &mut case.knobs;
    let window_ns = shorter(knobs.window_ns, SHORTEST_WINDOW);
    let intervals = (window_ns / knobs.interval_ns.max(1)).max(1);
    knobs.window_ns = (intervals * knobs.interval_ns).min(knobs.window_ns);
    knobs.warmup_ns = shorter(knobs.warmup_ns, SHORTEST_WARMUP);
}

fn seconds(suite: &Suite, groups: &[Group]) -> f64 {
    fixed_seconds(suite, groups) + timed_seconds(groups)
}

/// Preparing and collecting, and the untimed volumes.
fn fixed_seconds(suite: &Suite, groups: &[Group]) -> f64 {
    let volume =
        |group: &Group| -> u64 { group.cases.iter().map(|case| case.knobs.volume_bytes).sum() };
    let bytes: u64 = groups.iter().map(volume).sum();
    groups.len() as f64 * suite.group_overhead.as_secs_f64() + bytes as f64 / INTEGRITY_BYTES_PER_S
}

/// Warm-ups and windows; the cases of a group run at once.
fn timed_seconds(groups: &[Group]) -> f64 {
    let case = |case: &Case| {
        let knobs = &case.knobs;
        (knobs.warmup_ns + knobs.window_ns) as f64 * f64::from(knobs.repeats) / 1e9
    };
    groups.iter().map(|group| group.cases.iter().map(case).fold(0.0, f64::max)).sum()
}
