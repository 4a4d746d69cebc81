//! Causes that the growth of counters shows.

use std::collections::BTreeMap;

use super::Cause;
use super::scene::{RETRANSMITS, Scene, words};

/// Counters, weight where any of them grew by more than so much, cause and remedy.
struct Rule {
    counters: &'static [&'static str],
    above: i64,
    weight: u32,
    cause: &'static str,
    remedy: &'static str,
}

const RULES: [Rule; 7] = [
    Rule {
        counters: &[
            "symbol_error",
            "port_rcv_errors",
            "local_link_integrity_errors",
            "link_error_recovery",
            "rx_crc_errors_phy",
            "rx_symbol_err_phy",
            "rx_icrc_encapsulated",
            "rx_icrc_errors",
        ],
        above: 0,
        weight: 88,
        cause: "packets arrive damaged: cable, connector or transceiver",
        remedy: "clean and reseat the connectors, then exchange the cable (stops this port's traffic)",
    },
    Rule {
        counters: &["link_downed", "carrier_changes"],
        above: 0,
        weight: 89,
        cause: "the link went down during the run",
        remedy: "exchange cable and transceiver in turn (stops this port's traffic); look at the switch's log",
    },
    Rule {
        counters: &[
            "rx_prio0_pause",
            "rx_prio1_pause",
            "rx_prio2_pause",
            "rx_prio3_pause",
            "rx_prio4_pause",
            "rx_prio5_pause",
            "rx_prio6_pause",
            "rx_prio7_pause",
            "rx_pause_ctrl_phy",
        ],
        above: 10_000,
        weight: 74,
        cause: "a pause storm: the switch keeps the port from sending",
        remedy: "find the slow receiver behind the switch; turn on PFC watchdog and ECN there (disturbs traffic)",
    },
    Rule {
        counters: &["np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets"],
        above: 1000,
        weight: 68,
        cause: "the fabric is congested, and senders are slowed down",
        remedy: "look for other load on the path, and at the switches' ECN thresholds",
    },
    Rule {
        counters: &["rnr_nak_retry_err", "out_of_buffer", "rcvd_rnr_err", "send_rnr_err"],
        above: 0,
        weight: 59,
        cause: "the receiver posts its receives too late",
        remedy: "look for what takes its processors away; a larger receive depth helps",
    },
    Rule {
        counters: &["excessive_buffer_overrun_errors", "rx_discards_phy", "rx_buf_discard"],
        above: 0,
        weight: 80,
        cause: "the adapter drops packets: its slot or memory does not take them fast enough",
        remedy: "look at the slot's width, relaxed ordering and NUMA of this host; turn on PFC (disturbs traffic)",
    },
    Rule {
        counters: &[
            "req_remote_access_errors",
            "resp_remote_access_errors",
            "resp_local_length_error",
        ],
        above: 0,
        weight: 57,
        cause: "requests were refused by the peer",
        remedy: "update both ends to one version and repeat",
    },
];

pub(super) fn causes(scene: &Scene) -> Vec<Cause> {
    let grown = grown(scene);
    let mut causes = Vec::new();
    for rule in &RULES {
        let own = grown.iter().filter(|((_, name), delta)| {
            rule.counters.contains(&name.as_str()) && **delta > rule.above
        });
        for ((port, name), delta) in own {
            let cause = Cause::new(rule.weight, rule.cause, port.as_str());
            causes.push(cause.seen(format!("{port}: {name} +{delta}")).remedy(rule.remedy));
        }
    }
    causes.extend(losses(scene, &grown));
    causes.extend(other_way(scene));
    causes
}

/// Growth by port and counter over all measurements.
fn grown(scene: &Scene) -> BTreeMap<(String, String), i64> {
    let mut grown: BTreeMap<(String, String), i64> = BTreeMap::new();
    for m in scene.report.measurements.iter().filter(|m| m.transport != "tcp") {
        for (counter, delta) in &m.counters {
            let Some((port, name)) = counter.rsplit_once('/') else { continue };
            let name = name.strip_prefix("hw_").unwrap_or(name);
            let sum = grown.entry((port.to_owned(), name.to_owned())).or_default();
            *sum = sum.saturating_add((*delta).max(0));
        }
    }
    grown
}

/// Packets that were lost; a reliable connection sends them again.
fn losses(scene: &Scene, grown: &BTreeMap<(String, String), i64>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for m in &scene.lossy {
        let seen = grown.iter().filter(|((port, name), delta)| {
            RETRANSMITS.contains(&name.as_str())
                && **delta > 0
                && [&m.data_from, &m.data_to].contains(&port)
        });
        let lines: Vec<String> =
            seen.map(|((port, name), delta)| format!("{port}: {name} +{delta}")).collect();
        let what = match m.transport.as_str() {
            "uc" | "ud" => "packets are lost on the path",
            _ => "packets are lost on the path and sent again",
        };
        let mut cause = Cause::new(81, what, format!("{} - {}", m.initiator, m.responder))
            .remedy("look at drops of the switch ports on the way, at PFC and ECN of the traffic class, and at the cable");
        cause.adopt(lines);
        causes.push(cause.seen(words(m)));
    }
    causes
}

/// Payload that the port's counters did not see.
fn other_way(scene: &Scene) -> Vec<Cause> {
    let other = scene.report.measurements.iter().filter(|m| m.reason.contains("went another way"));
    let cause = |m: &fabbench_reports::model::Measurement| {
        Cause::new(
            76,
            "the payload took another port or never left the host",
            format!("{} - {}", m.initiator, m.responder),
        )
        .seen(m.reason.clone())
        .remedy("check the rail map, the GIDs and the routing of several interfaces in one subnet")
    };
    other.map(cause).collect()
}
