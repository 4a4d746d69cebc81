//! What the growth of port counters during a case means.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::model::Status;

/// The case during which counters grew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterScene<'a> {
    /// Deltas by `host/dev:port/name`, unchanged counters left out.
    pub deltas: &'a BTreeMap<String, i64>,
    /// Ports that the case used, `host/dev:port`.
    pub ports: [&'a str; 2],
    /// A port is of a software device.
    pub soft: bool,
    /// Receives were posted for the messages (SEND), so that a late receiver is no fault.
    pub receives: bool,
    /// How long the counters were watched, ns.
    pub watched_ns: u64,
}

/// What a counter says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterFinding {
    /// `host/dev:port/name`; `host/dev:port` for its counters as a whole.
    pub counter: String,
    /// `fail`, `warn`, or `unknown` where a counter is missing or was reset.
    pub status: Status,
    /// A sentence.
    pub sentence: String,
}

/// Judges counter deltas; what is as it should be gives no finding. Worst first.
pub fn judge_counters(scene: &CounterScene) -> Vec<CounterFinding> {
    let mut findings: Vec<_> =
        scene.deltas.iter().filter_map(|(name, delta)| judge_one(scene, name, *delta)).collect();
    let ports: BTreeSet<&str> = scene.ports.into_iter().collect();
    findings.extend(ports.into_iter().filter_map(|port| judge_traffic(scene, port)));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.status));
    findings
}

/// How a counter is judged.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Any growth fails.
    Fatal,
    /// Any growth warns.
    Warn,
    /// Growth warns, more than so many a minute fails.
    FatalAbovePerMinute(f64),
    /// Fails, or warns when receives had to be posted.
    FatalWithoutReceives,
    /// Fails on hardware, where a pair's fabric is lossless; warns on software.
    FatalOnHardware,
    /// Warns above so many.
    WarnAbove(i64),
}

use Rule::{Fatal, FatalAbovePerMinute, FatalOnHardware, FatalWithoutReceives, Warn, WarnAbove};

/// Counters with a meaning, in plain words. The limits are those that health checks of large
/// clusters use; counters not listed here are kept in the report and not judged.
const RULES: [(&str, Rule, &str); 46] = [
    ("link_downed", Fatal, "the link went down"),
    ("excessive_buffer_overrun_errors", Fatal, "receive buffers overran"),
    ("local_link_integrity_errors", Fatal, "the link's integrity was lost"),
    ("port_rcv_errors", Fatal, "packets arrived damaged"),
    ("req_cqe_error", Fatal, "requests completed with errors"),
    ("resp_cqe_error", Fatal, "responses completed with errors"),
    ("req_remote_access_errors", Fatal, "the peer refused access"),
    ("resp_remote_access_errors", Fatal, "requests were refused access"),
    ("resp_local_length_error", Fatal, "messages did not fit their receive"),
    ("rx_icrc_encapsulated", Fatal, "packets failed their checksum"),
    ("rx_discards_phy", Fatal, "packets were dropped for lack of buffers"),
    ("retry_exceeded_err", Fatal, "retries were used up"),
    ("retry_rnr_exceeded_err", Fatal, "retries for a late receiver were used up"),
    ("send_err", Fatal, "packets could not be sent"),
    ("symbol_error", FatalAbovePerMinute(2.0), "symbols were damaged"),
    ("link_error_recovery", FatalAbovePerMinute(5.0), "the link had to recover"),
    ("port_xmit_discards", FatalAbovePerMinute(6000.0), "packets to send were dropped"),
    ("roce_adp_retrans", FatalAbovePerMinute(600.0), "adaptive retransmissions"),
    ("roce_adp_retrans_to", FatalAbovePerMinute(600.0), "adaptive retransmission time-outs"),
    ("roce_slow_restart", FatalAbovePerMinute(600.0), "slow restarts"),
    ("roce_slow_restart_cnps", FatalAbovePerMinute(600.0), "slow restarts after congestion"),
    ("roce_slow_restart_trans", FatalAbovePerMinute(600.0), "slow restart transitions"),
    ("port_rcv_remote_physical_errors", Warn, "packets were marked bad by another port"),
    ("port_rcv_switch_relay_errors", Warn, "a switch could not relay packets"),
    ("port_xmit_constraint_errors", Warn, "packets to send broke a constraint"),
    ("port_rcv_constraint_errors", Warn, "received packets broke a constraint"),
    ("VL15_dropped", Warn, "management packets were dropped"),
    ("rnr_nak_retry_err", FatalWithoutReceives, "the receiver was not ready"),
    ("out_of_buffer", FatalWithoutReceives, "no receive was posted"),
    ("rcvd_rnr_err", FatalWithoutReceives, "the peer's receiver was not ready"),
    ("send_rnr_err", FatalWithoutReceives, "the receiver was not ready"),
    ("out_of_sequence", FatalOnHardware, "packets arrived out of sequence"),
    ("packet_seq_err", FatalOnHardware, "the peer reported a gap in the sequence"),
    ("implied_nak_seq_err", FatalOnHardware, "answers showed a gap in the sequence"),
    ("local_ack_timeout_err", FatalOnHardware, "acknowledgements were late"),
    ("out_of_seq_request", FatalOnHardware, "requests arrived out of sequence"),
    ("rcvd_seq_err", FatalOnHardware, "the peer reported a gap in the sequence"),
    ("duplicate_request", FatalOnHardware, "requests arrived again after a retransmission"),
    ("completer_retry_err", FatalOnHardware, "requests had to be retransmitted"),
    ("np_cnp_sent", WarnAbove(1000), "congestion was reported to the sender"),
    ("rp_cnp_handled", WarnAbove(1000), "the sender was told of congestion"),
    ("np_ecn_marked_roce_packets", WarnAbove(1000), "switches marked congestion"),
    ("rx_crc_errors_phy", Warn, "frames failed their checksum"),
    ("carrier_changes", WarnAbove(2), "the interface's carrier changed"),
    ("rx_symbol_err_phy", FatalAbovePerMinute(2.0), "symbols were damaged"),
    ("rx_icrc_errors", Fatal, "packets failed their checksum"),
];

/// Counters of traffic, one of which grows whenever a port moves payload.
const TRAFFIC: [&str; 8] = [
    "sent_pkts",
    "rcvd_pkts",
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
    "unicast_xmit_packets",
    "unicast_rcv_packets",
];

fn judge_one(scene: &CounterScene, counter: &str, delta: i64) -> Option<CounterFinding> {
    let (port, name) = counter.rsplit_once('/')?;
    let (name, rule, words) = rule(name)?;
    let finding =
        |status, sentence| Some(CounterFinding { counter: counter.to_owned(), status, sentence });
    if delta < 0 {
        let sentence = format!("{port}: {name} was reset while it was watched: not available");
        return finding(Status::Unknown, sentence);
    }
    let delta = delta - flushed(scene, port, name);
    if delta <= 0 {
        return None;
    }
    let status = match rule {
        Fatal => Status::Fail,
        Warn => Status::Warn,
        FatalWithoutReceives if scene.receives => Status::Warn,
        FatalWithoutReceives => Status::Fail,
        FatalOnHardware if scene.soft => Status::Warn,
        FatalOnHardware => Status::Fail,
        FatalAbovePerMinute(limit) if above(delta, limit, scene.watched_ns) => Status::Fail,
        FatalAbovePerMinute(_) => Status::Warn,
        WarnAbove(limit) if delta > limit => Status::Warn,
        WarnAbove(_) => return None,
    };
    finding(status, format!("{port}: {words} ({name} +{delta})"))
}

/// The rule of a counter; one that both directories have stands there as `hw_NAME` as well.
fn rule(name: &str) -> Option<(&'static str, Rule, &'static str)> {
    let plain = name.strip_prefix("hw_").unwrap_or(name);
    RULES.into_iter().find(|(own, _, _)| *own == name || *own == plain)
}

/// Requests that were flushed when their queue pair was torn down: no fault.
fn flushed(scene: &CounterScene, port: &str, name: &str) -> i64 {
    let flush = match name {
        "req_cqe_error" => "req_cqe_flush_error",
        "resp_cqe_error" => "resp_cqe_flush_error",
        _ => return 0,
    };
    scene.deltas.get(&format!("{port}/{flush}")).copied().unwrap_or(0)
}

/// More than `limit` a minute; less than a minute counts as one, since a rate needs time.
fn above(delta: i64, limit: f64, watched_ns: u64) -> bool {
    let minutes = (watched_ns as f64 / 60e9).max(1.0);
    delta as f64 > limit * minutes
}

/// Whether a port's traffic counters grew: payload that they did not see went another way.
fn judge_traffic(scene: &CounterScene, port: &str) -> Option<CounterFinding> {
    let own = scene.deltas.iter().filter_map(|(name, delta)| {
        let (of, name) = name.rsplit_once('/')?;
        (of == port).then_some((name, *delta))
    });
    let own: Vec<_> = own.collect();
    let grew = |(name, delta): &(&str, i64)| TRAFFIC.contains(name) && *delta > 0;
    let (status, sentence) = if own.is_empty() {
        (Status::Unknown, format!("{port}: its counters are not available"))
    } else if own.iter().any(grew) {
        return None;
    } else {
        let text = "its packet counters did not grow: the payload went another way";
        (Status::Warn, format!("{port}: {text}"))
    };
    Some(CounterFinding { counter: port.to_owned(), status, sentence })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "node-a/rxe0:1";
    const B: &str = "node-b/rxe0:1";

    /// Findings when these counters of A grew beside the packets of both.
    fn judged(soft: bool, receives: bool, grown: &[(&str, i64)]) -> Vec<(Status, String)> {
        let mut deltas: BTreeMap<String, i64> =
            grown.iter().map(|(name, delta)| (format!("{A}/{name}"), *delta)).collect();
        deltas.insert(format!("{A}/sent_pkts"), 100);
        deltas.insert(format!("{B}/rcvd_pkts"), 100);
        let watched_ns = 3_000_000_000;
        let scene = CounterScene { deltas: &deltas, ports: [A, B], soft, receives, watched_ns };
        judge_counters(&scene).into_iter().map(|found| (found.status, found.sentence)).collect()
    }

    fn status(soft: bool, receives: bool, name: &str, delta: i64) -> Option<Status> {
        judged(soft, receives, &[(name, delta)]).first().map(|(status, _)| *status)
    }

    #[test]
    fn soft_roce_is_judged_as_it_behaves() {
        for name in ["link_downed", "retry_exceeded_err", "send_err"] {
            assert_eq!(status(true, false, name, 1), Some(Status::Fail), "{name}");
        }
        for name in
            ["completer_retry_err", "duplicate_request", "out_of_seq_request", "rcvd_seq_err"]
        {
            assert_eq!(status(true, false, name, 1), Some(Status::Warn), "{name}");
        }
        assert_eq!(status(true, false, "ack_deferred", 9), None, "unknown to the table");
        assert_eq!(judged(true, false, &[]), []);
    }

    #[test]
    fn a_sentence_names_port_counter_and_growth() {
        let found = judged(true, false, &[("completer_retry_err", 12), ("link_downed", 1)]);
        let expected = [
            (Status::Fail, "node-a/rxe0:1: the link went down (link_downed +1)"),
            (
                Status::Warn,
                "node-a/rxe0:1: requests had to be retransmitted (completer_retry_err +12)",
            ),
        ];
        assert_eq!(found, expected.map(|(status, text)| (status, text.to_owned())), "worst first");
    }

    #[test]
    fn lossless_hardware_must_not_lose_sequence() {
        for name in ["out_of_sequence", "packet_seq_err", "local_ack_timeout_err"] {
            assert_eq!(status(false, false, name, 1), Some(Status::Fail), "{name}");
        }
    }

    #[test]
    fn a_late_receiver_is_no_fault_of_send() {
        assert_eq!(status(false, false, "out_of_buffer", 1), Some(Status::Fail));
        assert_eq!(status(false, true, "out_of_buffer", 1), Some(Status::Warn));
    }

    #[test]
    fn rates_decide_where_some_growth_is_usual() {
        assert_eq!(status(false, false, "symbol_error", 1), Some(Status::Warn));
        assert_eq!(status(false, false, "symbol_error", 3), Some(Status::Fail));
        assert_eq!(status(false, false, "np_cnp_sent", 1000), None);
        assert_eq!(status(false, false, "np_cnp_sent", 1001), Some(Status::Warn));
        assert!(above(11, 2.0, 300_000_000_000) && !above(10, 2.0, 300_000_000_000));
    }

    #[test]
    fn flushes_at_the_end_are_not_errors() {
        let both = |errors, flushes| {
            judged(false, false, &[("req_cqe_error", errors), ("req_cqe_flush_error", flushes)])
        };
        assert_eq!(both(64, 64), []);
        assert_eq!(
            both(65, 64)[0].1,
            format!("{A}: requests completed with errors (req_cqe_error +1)")
        );
    }

    #[test]
    fn missing_and_reset_counters_are_not_available() {
        let deltas =
            BTreeMap::from([(format!("{A}/sent_pkts"), 5), (format!("{A}/link_downed"), -1)]);
        let scene = CounterScene {
            deltas: &deltas,
            ports: [A, B],
            soft: true,
            receives: false,
            watched_ns: 1,
        };
        let found = judge_counters(&scene);
        let words: Vec<_> =
            found.iter().map(|found| (found.status, found.counter.as_str())).collect();
        let reset = format!("{A}/link_downed");
        assert_eq!(words, [(Status::Unknown, reset.as_str()), (Status::Unknown, B)]);
        assert!(found.iter().all(|found| found.sentence.ends_with("not available")));
    }

    #[test]
    fn payload_that_no_counter_saw_warns() {
        let deltas =
            BTreeMap::from([(format!("{A}/sent_pkts"), 5), (format!("{B}/ack_deferred"), 1)]);
        let scene = CounterScene {
            deltas: &deltas,
            ports: [A, B],
            soft: true,
            receives: false,
            watched_ns: 1,
        };
        let found = judge_counters(&scene);
        assert_eq!((found.len(), found[0].status), (1, Status::Warn));
        assert!(found[0].sentence.contains("did not grow"), "{found:?}");
    }

    #[test]
    fn both_directories_count() {
        assert_eq!(status(false, false, "hw_link_downed", 1), Some(Status::Fail));
    }

    #[test]
    fn every_rule_stands_once() {
        let names: BTreeSet<_> = RULES.iter().map(|(name, _, _)| name).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
