//! Causes that measurements show beside each other.

use fabbench_reports::model::Measurement;
use fabbench_reports::units::Share;

use super::Cause;
use super::scene::{Scene, host_of, is_bandwidth, is_low, line, rate, retransmits, words};
use crate::plan::LOOPBACK;

/// One is clearly faster than the other.
const CLEARLY: f64 = 1.25;
/// The worst interval of a steady stream.
const STALL: f64 = 0.75;
/// So much of a processor's time is all of it.
const ALL: f64 = 0.90;

pub(super) fn causes(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    causes.extend(wrong_data(scene));
    causes.extend(slots(scene));
    causes.extend(loopbacks(scene));
    causes.extend(single_qp(scene));
    causes.extend(flutter(scene));
    causes.extend(directions(scene));
    causes.extend(both_ways(scene));
    causes.extend(together(scene));
    causes.extend(one_rail(scene));
    causes.extend(far_memory(scene));
    causes.extend(stalls(scene));
    causes.extend(impossible(scene));
    causes.extend(processors(scene));
    causes.extend(errors(scene));
    causes
}

fn bandwidths<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Measurement> {
    scene.report.measurements.iter().filter(|m| is_bandwidth(m))
}

fn alone(m: &Measurement) -> bool {
    !m.bidirectional && m.together_with.is_empty()
}

fn wrong_data(scene: &Scene) -> Vec<Cause> {
    let wrong = scene.report.measurements.iter().filter(|m| m.bytes_wrong > 0);
    let cause = |m: &Measurement| {
        Cause::new(99, "payload is damaged between the two memories", format!("{} - {}", m.data_from, m.data_to))
            .seen(format!("{}: {} bytes wrong of {}", m.id, m.bytes_wrong, m.bytes_verified))
            .remedy("exchange cable and adapter in turn, look for PCIe and memory errors in both kernel logs; trust no data over it until then")
    };
    wrong.map(cause).collect()
}

/// The rate is what a PCIe slot allows: the term that limits the ceiling is reached.
fn slots(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for m in bandwidths(scene).filter(|m| alone(m)) {
        let Some(ceiling) = &m.ceiling else { continue };
        let Some(term) = crate::ceiling::binding(ceiling) else { continue };
        let (Some(bps), Some(line)) = (rate(m), line(m)) else { continue };
        let Some(end) = term.name.strip_prefix("pcie") else { continue };
        if ceiling.bps < 0.95 * line && bps >= 0.85 * ceiling.bps {
            causes.push(
                Cause::new(91, "the PCIe slot carries less than the port", end.trim())
                    .seen(format!("{}: {}", term.name, term.because))
                    .seen(words(m))
                    .remedy("move the card to a slot of the generation and width that it supports (stops the host's traffic)"),
            );
        }
    }
    causes
}

/// A card against itself does not leave the host: where that is slow, the card or its slot is.
fn loopbacks(scene: &Scene) -> Vec<Cause> {
    let own = |m: &&Measurement| m.test == LOOPBACK || (is_bandwidth(m) && !scene.crosses(m));
    let own: Vec<&Measurement> = scene.report.measurements.iter().filter(own).collect();
    let mut causes = Vec::new();
    for low in scene.slow.iter().filter(|m| scene.crosses(m) && alone(m)) {
        let of = |end: &str| own.iter().copied().find(|m| m.data_from == end && m.data_to == end);
        let (Some(a), Some(b)) = (of(&low.data_from), of(&low.data_to)) else { continue };
        let (Some(bps), Some(at_a), Some(at_b)) = (rate(low), rate(a), rate(b)) else { continue };
        // On its own host a card shares its slot between both directions: only a clear gap tells.
        let slower = if at_a < at_b { (a, b) } else { (b, a) };
        let gap = at_a.max(at_b) / at_a.min(at_b);
        if gap >= CLEARLY && at_a.min(at_b) < CLEARLY * bps {
            causes.push(
                Cause::new(87, "the adapter or its slot is slow, not the path", place(slower.0))
                    .seen(format!("against itself {}", words(slower.0)))
                    .seen(format!("the other end against itself {}", words(slower.1)))
                    .remedy("look at the slot (lspci -vv as root), reseat the card, exchange it with one that is fast"),
            );
        } else if at_a.min(at_b) >= CLEARLY * bps {
            let object = format!("{} - {}", low.data_from, low.data_to);
            causes.push(
                Cause::new(73, "the path between the adapters is slow: cable, switch port or route", object)
                    .seen(format!("both ends are fast against themselves: {}; {}", words(a), words(b)))
                    .seen(words(low))
                    .remedy("exchange the cable, then the switch port (stops this rail's traffic); look at the switch's counters"),
            );
        }
    }
    causes
}

/// Where an adapter is: `host-b/mlx5_3:1, slot Gen4 x16`.
fn place(m: &Measurement) -> String {
    let terms = m.ceiling.iter().flat_map(|ceiling| &ceiling.terms);
    let slot = terms.filter_map(|term| term.because.strip_prefix("PCIe ")).next();
    let link = slot.map(|words| words.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    match link {
        Some(link) => format!("{}, slot {}", m.data_from, link.trim_end_matches(',')),
        None => m.data_from.clone(),
    }
}

/// Other measurements of the same way with other queue pairs.
fn more_qps<'a>(scene: &Scene<'a>, m: &Measurement) -> Option<&'a Measurement> {
    let same = |other: &&'a Measurement| {
        other.data_from == m.data_from
            && other.data_to == m.data_to
            && alone(other)
            && other.op == m.op
            && other.method.qps > m.method.qps
    };
    bandwidths(scene).filter(same).max_by_key(|other| other.method.qps)
}

fn single_qp(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for m in scene.report.measurements.iter().filter(|m| is_bandwidth(m) && alone(m)) {
        let Some(more) = more_qps(scene, m) else { continue };
        let (Some(few), Some(many)) = (rate(m), rate(more)) else { continue };
        if many < CLEARLY * few {
            continue;
        }
        let bonded = [&m.data_from, &m.data_to].iter().any(|end| {
            let netdev = scene.device(end).and_then(|device| device.ports.first()?.netdev.clone());
            netdev.is_some_and(|name| name.starts_with("bond"))
        });
        let half = (0.4..0.6).contains(&(few / many));
        let object = format!("{} - {}", m.data_from, m.data_to);
        let cause = if bonded && half {
            Cause::new(88, "one queue pair uses one leg of the bond", object)
                .remedy("use two queue pairs a leg at least with source ports that differ (NCCL_IB_QPS_PER_CONNECTION)")
        } else if m.method.qps == 1 && m.path.gid_type.starts_with("IB") {
            Cause::new(75, "one queue pair does not fill the link", object)
                .remedy("use more queue pairs (NCCL_IB_QPS_PER_CONNECTION=2 or more)")
        } else if m.method.qps == 1 && !is_low(more) && half {
            Cause::new(79, "flows collide on one of several equal paths (ECMP)", object)
                .remedy("spread the UDP source ports over more queue pairs, or turn on adaptive routing in the switches (disturbs traffic)")
        } else if m.method.qps == 1 {
            Cause::new(75, "one queue pair does not fill the link", object)
                .remedy("use more queue pairs (NCCL_IB_QPS_PER_CONNECTION=2 or more)")
        } else {
            Cause::new(79, "flows collide on one of several equal paths (ECMP)", object)
                .remedy("spread the UDP source ports over more queue pairs, or turn on adaptive routing in the switches (disturbs traffic)")
        };
        causes.push(cause.seen(words(m)).seen(words(more)));
    }
    causes
}

/// Slow at first, and fast with new queue pairs.
fn flutter(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for low in scene.slow.iter().filter(|m| m.retest_of.is_none()) {
        let again = bandwidths(scene).filter(|m| crate::retest::repeats(m, low));
        let best = again.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
        let (Some(best), Some(bps)) = (best, rate(low)) else { continue };
        if rate(best).unwrap_or(0.0) < CLEARLY * bps {
            continue;
        }
        let object = format!("{} - {}", low.data_from, low.data_to);
        let cause = match best.path.udp_sports.is_empty() {
            true => Cause::new(66, "the fault comes and goes", object).remedy(
                "repeat the run for longer, look at link errors and at other load on the fabric",
            ),
            false => Cause::new(72, "flows met on one of several paths: new source ports are fast", object)
                .remedy("spread the UDP source ports over more queue pairs, or turn on adaptive routing in the switches (disturbs traffic)"),
        };
        causes.push(cause.seen(words(low)).seen(format!("again {}", words(best))));
    }
    causes
}

/// One direction of a rail slow, the other fast.
fn directions(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for low in scene.slow.iter().filter(|m| alone(m)) {
        let back = bandwidths(scene).find(|m| {
            alone(m)
                && m.data_from == low.data_to
                && m.data_to == low.data_from
                && m.op == low.op
                && m.method.qps == low.method.qps
        });
        let Some(back) = back else { continue };
        let (Some(bps), Some(other)) = (rate(low), rate(back)) else { continue };
        if other >= CLEARLY * bps {
            causes.push(
                Cause::new(
                    69,
                    "one direction of the rail is slow",
                    format!("{} → {}", low.data_from, low.data_to),
                )
                .seen(words(low))
                .seen(words(back))
                .remedy(format!(
                    "a cable's lanes and a slot serve each direction apart: look at errors of {} \
                         as receiver and at the memory writes of {} (ordering, IOMMU, NUMA)",
                    low.data_to,
                    host_of(&low.data_to)
                )),
            );
        }
    }
    causes
}

fn same_way(one: &Measurement, other: &Measurement) -> bool {
    one.data_from == other.data_from
        && one.data_to == other.data_to
        && one.op == other.op
        && one.size_bytes == other.size_bytes
}

/// Each direction alone is fast, both at once are not.
fn both_ways(scene: &Scene) -> Vec<Cause> {
    let low =
        bandwidths(scene).filter(|m| m.bidirectional && m.together_with.len() < 2 && is_low(m));
    let mut causes = Vec::new();
    for m in low {
        let single = bandwidths(scene).find(|own| alone(own) && same_way(own, m));
        let Some(single) = single.filter(|own| !is_low(own)) else { continue };
        causes.push(
            Cause::new(65, "the adapter or its host does not carry both directions at once", format!("{} - {}", m.data_from, m.data_to))
                .seen(words(m))
                .seen(format!("alone {}", words(single)))
                .remedy("look at relaxed ordering, the payload size of PCIe and the memory channels of both hosts"),
        );
    }
    causes
}

/// Each rail alone is fast, all at once are not.
fn together(scene: &Scene) -> Vec<Cause> {
    let low = bandwidths(scene)
        .filter(|m| is_low(m) && m.together_with.len() > usize::from(m.bidirectional));
    let mut causes = Vec::new();
    for m in low {
        let single = bandwidths(scene).find(|own| alone(own) && same_way(own, m));
        let Some(single) = single.filter(|own| !is_low(own)) else { continue };
        causes.push(
            Cause::new(71, "rails share something that does not carry all of them: a slot, a PCIe uplink, a link between switches", "all rails at once")
                .seen(words(m))
                .seen(format!("alone {}", words(single)))
                .remedy("compare pairs of rails to find the two that share it; an oversubscribed fabric is planned with its share"),
        );
    }
    causes
}

/// A rail slow beside others of its kind, and nothing of its own that tells why.
fn one_rail(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for low in scene.slow.iter().filter(|m| alone(m) && !m.path.rail.is_empty()) {
        let fast = bandwidths(scene).filter(|m| {
            alone(m)
                && m.path.rail != low.path.rail
                && host_of(&m.data_from) == host_of(&low.data_from)
                && m.op == low.op
                && m.method.qps == low.method.qps
                && m.size_bytes == low.size_bytes
                && !is_low(m)
        });
        let best = fast.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
        let (Some(best), Some(bps)) = (best, rate(low)) else { continue };
        let share = bps / rate(best).unwrap_or(bps);
        if share < 0.93 {
            causes.push(
                Cause::new(56, format!("{} alone is slow: its cable, switch port, card or slot", low.path.rail), format!("{} - {}", low.data_from, low.data_to))
                    .seen(format!("{} of {}", Share(share), best.path.rail))
                    .seen(words(low))
                    .remedy("exchange its cable with that of a fast rail: if the fault moves, it is the cable (stops both rails' traffic)"),
            );
        }
    }
    causes
}

/// Buffers on another NUMA node than the adapter.
fn far_memory(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for m in scene.slow.iter().chain(&scene.late) {
        let Some(node) = m.memory.numa_node else { continue };
        let Some(own) = scene.device(&m.initiator).and_then(|device| device.numa_node) else {
            continue;
        };
        if own != node {
            causes.push(
                Cause::new(77, "buffers and threads are on another NUMA node than the adapter", &m.initiator)
                    .seen(format!("memory on node {node}, the adapter on node {own}"))
                    .seen(words(m))
                    .remedy("start the agent where it may use the adapter's node (numactl --cpunodebind, cpuset)"),
            );
        }
    }
    causes
}

fn stalls(scene: &Scene) -> Vec<Cause> {
    let stalled = bandwidths(scene).filter(|m| {
        let judged = m.bound_bps.is_some();
        judged && m.goodput_bps.is_some_and(|rate| rate.min_window < STALL * rate.median)
    });
    let cause = |m: &Measurement| {
        let share = m.goodput_bps.map_or(0.0, |rate| rate.min_window / rate.median);
        let again = retransmits(m) > 0;
        let words_of = if again {
            "the stream stops while lost packets are sent again"
        } else {
            "the stream stops now and then: pauses, another load, or a processor that is taken away"
        };
        Cause::new(
            if again { 67 } else { 54 },
            words_of,
            format!("{} → {}", m.data_from, m.data_to),
        )
        .seen(format!("worst interval {} of the median", Share(share)))
        .seen(words(m))
        .remedy("look at pause counters, other jobs and the kernel's scheduling on both hosts")
    };
    stalled.map(cause).collect()
}

/// More than the link allows was never on the link.
fn impossible(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    for m in bandwidths(scene) {
        let (Some(bps), Some(line)) = (rate(m), line(m)) else { continue };
        if bps > 1.005 * line {
            causes.push(
                Cause::new(90, "the payload did not cross the link that was meant", format!("{} → {}", m.data_from, m.data_to))
                    .seen(words(m))
                    .remedy("check the rail map and the GIDs: loopback, or a second port that carries part of it"),
            );
        }
    }
    causes
}

/// TCP that takes all of its processors.
fn processors(scene: &Scene) -> Vec<Cause> {
    let mut causes = Vec::new();
    let streams =
        scene.report.measurements.iter().filter(|m| m.transport == "tcp" && m.test == "bandwidth");
    for m in streams {
        // What a window that ends by number took of the threads' time is not known.
        if m.method.requested.contains_key("iterations") {
            continue;
        }
        let warmup = m.method.warmup_ns * m.repeats.len() as u64;
        let window = m.repeats.iter().map(|repeat| repeat.window_ns).sum::<u64>() + warmup;
        let whole = window as f64 * f64::from(m.method.threads.max(1));
        for (host, cpu) in &m.cpu {
            let used = ((cpu.user_ns + cpu.system_ns) as f64 / whole).min(1.0);
            if window > 0 && used >= ALL {
                causes.push(
                    Cause::new(63, "TCP is bound by processors, not by the link", host.as_str())
                        .seen(format!(
                            "{} of {} measuring threads in use",
                            Share(used),
                            m.method.threads
                        ))
                        .seen(words(m))
                        .remedy(
                            "more streams on more cores raise it; RDMA needs none of this time",
                        ),
                );
            }
        }
    }
    causes
}

/// Errors that connections ended with.
fn errors(scene: &Scene) -> Vec<Cause> {
    const RULES: [(&[&str], u32, &str, &str); 4] = [
        (
            &["(RETRY_EXC_ERR)", "no acknowledgement came"],
            87,
            "packets do not arrive: wrong GID or route, a firewall on UDP 4791, or an MTU that a hop does not take",
            "ping from the rail's own address, look at the GID table and the route, open UDP port 4791, try --mtu 1024",
        ),
        (
            &["RNR_RETRY_EXC_ERR", "had no receive posted"],
            80,
            "the receiver is starved: it posts no receives in time",
            "look for what takes its processors away",
        ),
        (
            &["REM_ACCESS_ERR"],
            78,
            "the peer refuses access to its memory",
            "update both ends to one version of fabbench and repeat",
        ),
        (
            &["the agent on", "no answer", "timed out"],
            60,
            "a host or its management path stopped answering",
            "look at the host's console and its kernel log",
        ),
    ];
    let mut causes = Vec::new();
    for missing in &scene.missing {
        for (words, weight, cause, remedy) in RULES {
            if words.iter().any(|word| missing.why.contains(word)) {
                let object = missing.what.clone();
                causes.push(
                    Cause::new(weight, cause, object).seen(missing.why.clone()).remedy(remedy),
                );
            }
        }
    }
    causes
}

/// Slow, and nothing that tells why.
pub(super) fn unexplained(scene: &Scene) -> Vec<Cause> {
    let low = scene.slow.iter().filter(|m| is_low(m)).take(1);
    let cause = |m: &&Measurement| {
        Cause::new(30, "degraded, and no limiting term was found", format!("{} - {}", m.data_from, m.data_to))
            .seen(words(m))
            .seen("slots, links, settings and counters that could be seen are clean")
            .remedy("measure each of the two hosts with a third one: two hosts cannot tell which of them it is")
    };
    low.map(cause).collect()
}
