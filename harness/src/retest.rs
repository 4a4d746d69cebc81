//! What is measured again before something fails: the same with new queue pairs and source ports, the
//! other way round, with one and with eight queue pairs, and each port against itself.

use fabbench_reports::model::{Measurement, Report, Status};

use crate::plan::{Case, Direction, Group, Knobs, LOOPBACK, Test};
use crate::profile::Choice;
use crate::suite::loopback;

/// Repeats of a retest, at most.
const REPEATS: u32 = 2;
/// Measured window of each, at most, ns.
const WINDOW_NS: u64 = 1_000_000_000;
/// Preparing and collecting one, s.
const OVERHEAD: f64 = 0.5;
/// UDP source ports come from flow labels; these differ in the bits that ports are made of.
const FLOW_LABELS: [u32; 8] =
    [0x01a5b, 0x15c37, 0x293e1, 0x3c84d, 0x427b9, 0x56ef3, 0x6b165, 0x7f09c];

/// Measurements of verbs that would fail for their speed, and for which a retest can tell something:
/// of each rail the first of bandwidth, or else of latency.
pub fn suspects(judged: &Report) -> Vec<&Measurement> {
    let failed = |m: &&Measurement| {
        let timed = ["bandwidth", "latency"].contains(&&*m.test);
        let wrong = m.bytes_wrong > 0 || m.messages_lost > 0;
        m.status == Some(Status::Fail) && timed && m.transport != "tcp" && !wrong
    };
    let mut found: Vec<&Measurement> = Vec::new();
    for test in ["bandwidth", "latency"] {
        for m in judged.measurements.iter().filter(failed).filter(|m| m.test == test) {
            if found.iter().all(|own| own.path.rail != m.path.rail) {
                found.push(m);
            }
        }
    }
    found
}

/// The report as it stands, judged, to find its suspects in.
pub fn judged(mut report: Report, choice: &Choice) -> Report {
    crate::verdict::judge(&mut report, choice);
    report
}

/// Whether `measured` is a result of `case`: of both directions at once there are two.
pub fn is_of(case: &Case, measured: &Measurement) -> bool {
    is_of_id(&case.id, measured)
}

/// Whether `m` repeats `first`: the same way with as many queue pairs.
pub fn repeats(m: &Measurement, first: &Measurement) -> bool {
    let same = m.data_from == first.data_from
        && m.data_to == first.data_to
        && m.test == first.test
        && m.method.qps == first.method.qps
        && m.bidirectional == first.bidirectional;
    same && m.retest_of.as_deref().is_some_and(|id| is_of_id(id, first))
}

fn is_of_id(id: &str, measured: &Measurement) -> bool {
    let own = measured.id.strip_suffix("/a-b").or(measured.id.strip_suffix("/b-a"));
    measured.id == id || (measured.bidirectional && own == Some(id))
}

/// The groups that explain a case which would fail. `spread` where source ports decide the way (RoCE
/// v2); `beside` are the measurements that there are already.
pub fn groups(case: &Case, spread: bool, beside: &[Measurement]) -> Vec<Group> {
    let latency = case.test == Test::Latency;
    let mut all = vec![again(case, "again", case.direction, None, spread)];
    match case.direction {
        Direction::AToB => all.push(again(case, "swapped", Direction::BToA, None, spread)),
        Direction::BToA => all.push(again(case, "swapped", Direction::AToB, None, spread)),
        Direction::Both => {}
    }
    if !latency {
        let way = if case.direction == Direction::Both { Direction::AToB } else { case.direction };
        all.push(again(case, "qps1", way, Some(1), spread));
        all.push(again(case, "qps8", way, Some(8), spread));
    }
    let known = |host: usize| {
        let rail = case.rail.map_or_else(String::new, |rail| format!("rail{rail}"));
        let place = format!("/{rail}/{}", ["a", "b"][host]);
        beside.iter().any(|m| m.test == LOOPBACK && m.id.ends_with(&place))
    };
    let fetches = case.op.fetches();
    for host in (0..2).filter(|host| !latency && !fetches && !known(*host)) {
        let mut group = loopback(case, host);
        group.cases.iter_mut().for_each(|own| *own = shortened(own, case));
        all.push(group);
    }
    all
}

/// How long a group takes, s.
pub fn seconds(group: &Group) -> f64 {
    let longest = group.cases.iter().map(|case| {
        let knobs = &case.knobs;
        (knobs.warmup_ns + knobs.window_ns) as f64 * f64::from(knobs.repeats) / 1e9
    });
    longest.fold(0.0, f64::max) + OVERHEAD
}

/// The case once more, changed in one respect.
fn again(case: &Case, what: &str, way: Direction, qps: Option<u32>, spread: bool) -> Group {
    let mut own = shortened(case, case);
    own.id = format!("{}/retest/{what}", case.id);
    own.direction = way;
    own.knobs.qps = qps.unwrap_or(own.knobs.qps);
    if spread && own.knobs.tuning.flow_labels.is_empty() {
        own.knobs.tuning.flow_labels = FLOW_LABELS.to_vec();
    }
    let words = match what {
        "again" if spread => "new queue pairs and source ports",
        "again" => "new queue pairs",
        "swapped" => "the other way round",
        "qps1" => "1 queue pair",
        _ => "8 queue pairs",
    };
    Group { title: format!("again {}: {words}", case.id), cases: vec![own] }
}

fn shortened(case: &Case, of: &Case) -> Case {
    let knobs = &case.knobs;
    let intervals = (WINDOW_NS / knobs.interval_ns.max(1)).max(1);
    Case {
        retest_of: Some(of.id.clone()),
        knobs: Knobs {
            repeats: knobs.repeats.min(REPEATS),
            window_ns: knobs.window_ns.min(intervals * knobs.interval_ns),
            threads: 1,
            ..knobs.clone()
        },
        ..case.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Overrides, RailTraits, Scene, Suite};

    fn case(id: &str) -> Case {
        let scene = Scene { rails: vec![RailTraits::default()], tcp_streams: 1 };
        let plan = Suite::built_in("quick").unwrap().plan(&scene, &Overrides::default()).unwrap();
        let mut cases = plan.groups.into_iter().flat_map(|group| group.cases);
        cases.find(|case| case.id == id).unwrap()
    }

    const AB: &str = "bandwidth/rc/write/65536/rail0/a-b";

    fn told(groups: &[Group]) -> Vec<(String, u32, Option<usize>)> {
        let cases = groups.iter().flat_map(|group| &group.cases);
        cases.map(|case| (case.id.clone(), case.knobs.qps, case.loopback)).collect()
    }

    #[test]
    fn bandwidth_is_measured_again_in_every_respect() {
        let groups = groups(&case(AB), true, &[]);
        let again = |what: &str| format!("{AB}/retest/{what}");
        let own = |letter: &str| format!("loopback/rc/write/65536/rail0/{letter}");
        let expected = [
            (again("again"), 2, None),
            (again("swapped"), 2, None),
            (again("qps1"), 1, None),
            (again("qps8"), 8, None),
            (own("a"), 2, Some(0)),
            (own("b"), 2, Some(1)),
        ];
        assert_eq!(told(&groups), expected);
        let all: Vec<&Case> = groups.iter().flat_map(|group| &group.cases).collect();
        assert!(all.iter().all(|case| case.retest_of.as_deref() == Some(AB)));
        assert_eq!(all[1].direction, Direction::BToA);
        assert_eq!(all[0].knobs.tuning.flow_labels.len(), 8);
        assert!(groups.iter().map(seconds).sum::<f64>() <= 20.0);
    }

    #[test]
    fn what_is_known_already_is_not_measured_once_more() {
        let of = |id: &str| Measurement {
            id: id.into(),
            test: LOOPBACK.into(),
            ..Measurement::default()
        };
        let beside = [of("loopback/rc/write/65536/rail0/b"), of("loopback/rc/write/65536/rail1/a")];
        let groups = groups(&case("bandwidth/rc/write/65536/rail0/both"), false, &beside);
        let ids: Vec<String> = told(&groups).into_iter().map(|(id, ..)| id).collect();
        let tails: Vec<&str> = ids.iter().map(|id| id.rsplit("rail0/").next().unwrap()).collect();
        assert_eq!(tails, ["both/retest/again", "both/retest/qps1", "both/retest/qps8", "a"]);
        assert!(groups[0].cases[0].knobs.tuning.flow_labels.is_empty());
    }

    #[test]
    fn latency_is_measured_again_and_the_other_way_round() {
        let groups = groups(&case("latency/rc/read/8/rail0/a-b"), true, &[]);
        let ids: Vec<String> = told(&groups).into_iter().map(|(id, ..)| id).collect();
        assert!(ids[0].ends_with("/again") && ids[1].ends_with("/swapped") && ids.len() == 2);
    }

    #[test]
    fn both_directions_of_one_case_are_its_own() {
        let m = |id: &str, bidirectional| Measurement {
            id: id.into(),
            bidirectional,
            ..Measurement::default()
        };
        let (both, alone) = (case("bandwidth/rc/write/65536/rail0/both"), case(AB));
        assert!(is_of(&both, &m("bandwidth/rc/write/65536/rail0/both/b-a", true)));
        assert!(is_of(&alone, &m(AB, false)));
        assert!(!is_of(&both, &m("bandwidth/rc/write/65536/rail0/both/retest/again/a-b", true)));
    }
}
