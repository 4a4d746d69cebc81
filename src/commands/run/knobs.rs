//! Knobs of a single case: from what was typed to what is asked for; what sockets cannot have.

use fabbench_harness::facts::places::{node_cpus, nodes};
use fabbench_harness::gid::legal_mtu;
use fabbench_harness::knob_limits::{Asked, LimitedEnd, check};
use fabbench_harness::numbers::flow_label;
use fabbench_harness::plan::{Op, Poll, Test, Transport, Tuning};
use fabbench_harness::rails::{PairRail, RailEnd};
use fabbench_harness::size::size_text;
use fabbench_harness::snapshot::{GidKind, HostFacts};

use crate::cli::case::{PollArg, Relaxed, VerbsArg};
use crate::cli::{CaseArgs, TransportArg};
use crate::commands::CommandError;

/// The knobs that no suite sets. Relaxed ordering `both` leaves it open here.
pub fn tuning(args: &CaseArgs, test: Test) -> Tuning {
    let pairs = &args.pairs;
    let class = pairs.dscp.map_or(args.devices.traffic_class, |dscp| dscp << 2);
    let sports = pairs.udp_sport.iter().flat_map(|list| &list.0);
    let labels = pairs.flow_label.iter().flat_map(|list| &list.0).copied();
    Tuning {
        iterations: args.iterations.filter(|_| test != Test::Latency),
        post_list: args.post_list,
        mtu: args.devices.mtu,
        gid_index: args.devices.gid_index,
        sl: Some(args.devices.sl).filter(|sl| *sl > 0),
        traffic_class: Some(class).filter(|class| *class > 0),
        pkey_index: pairs.pkey_index,
        // A list holds ports from 49152 to 65535.
        flow_labels: sports.map(|port| flow_label(*port as u16)).chain(labels).collect(),
        extended: pairs.verbs == VerbsArg::Extended,
        srq: pairs.srq,
        outstanding_reads: pairs.outstanding_reads,
        retry_count: pairs.retry_count,
        rnr_retry: pairs.rnr_retry,
        timeout: pairs.timeout,
        relaxed_ordering: match pairs.relaxed_ordering {
            Some(Relaxed::On) => Some(true),
            Some(Relaxed::Off) => Some(false),
            Some(Relaxed::Both) | None => None,
        },
        poll: pairs.poll.map(|poll| match poll {
            PollArg::Busy => Poll::Busy,
            PollArg::Event => Poll::Event,
        }),
        rate_limit_bps: args.rate_limit,
        cpus: args.place.cpu.iter().flat_map(|list| &list.0).copied().collect(),
        cpu_set: Vec::new(),
        numa_node: args.place.numa_node,
        huge_pages: args.place.huge_pages,
        working_set_bytes: args.place.working_set,
        schedule_ns: None,
    }
}

/// Refuses CPUs and nodes that a host does not have, or its agent may not use.
pub fn check_place(tuning: &Tuning, host: &str, facts: &HostFacts) -> Result<(), CommandError> {
    let refuse = |text: String| Err(CommandError::usage(text));
    let allowed = &facts.calls.cpus;
    if let Some(cpu) = tuning.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return refuse(format!("--cpu {cpu}: the agent on {host} may use CPUs {allowed:?}"));
    }
    let Some(node) = tuning.numa_node else { return Ok(()) };
    match node_cpus(facts, node) {
        None => refuse(format!("--numa-node {node}: {host} has nodes {:?}", nodes(facts))),
        Some(cpus) if cpus.is_empty() && tuning.cpus.is_empty() => refuse(format!(
            "--numa-node {node}: the agent on {host} may use no CPU of it; add --cpu LIST"
        )),
        Some(_) => Ok(()),
    }
}

/// What is to be held against the devices' limits.
pub fn asked(args: &CaseArgs, qps: u32, threads: u32, tuning: Tuning) -> Asked {
    Asked {
        qps,
        threads,
        tx_depth: args.tx_depth,
        rx_depth: args.rx_depth,
        mtu: args.devices.mtu,
        udp_sport: args.pairs.udp_sport.is_some(),
        xrc: args.transport == TransportArg::Xrc,
        tuning,
    }
}

/// Refuses what the devices at the ends of a rail cannot do.
pub fn check_rail(
    asked: &Asked,
    rail: &PairRail,
    facts: [&HostFacts; 2],
) -> Result<(), CommandError> {
    let ends = [(&rail.a, facts[0]), (&rail.b, facts[1])];
    let ends: Vec<LimitedEnd> = ends.iter().filter_map(|(end, f)| limited(rail, end, f)).collect();
    check(asked, &ends).map_err(CommandError::usage)
}

/// An end of a rail as its device sees itself; none where the agent told nothing of it.
fn limited<'a>(rail: &PairRail, end: &'a RailEnd, facts: &'a HostFacts) -> Option<LimitedEnd<'a>> {
    let device = facts.calls.verbs.devices.iter().find(|device| device.name == end.device)?;
    Some(LimitedEnd {
        label: &end.label,
        device,
        port: device.ports.iter().find(|port| port.port == end.port)?,
        soft: end.soft,
        grh: rail.gids.grh,
        udp: rail.gids.kind == GidKind::RoceV2,
    })
}

/// Refuses knobs of queue pairs that sockets do not have, and what no test of this kind takes.
pub fn check_sense(
    args: &CaseArgs,
    transport: Transport,
    test: Test,
    sizes: &[u64],
) -> Result<(), CommandError> {
    if args.rate_limit.is_some() {
        if test == Test::Latency {
            let text = "--rate-limit: a ping-pong has one message under way; it is for bw and rate";
            return Err(CommandError::usage(text.into()));
        }
        if sizes.contains(&0) {
            let text = "--rate-limit: messages of no bytes have no rate of payload";
            return Err(CommandError::usage(text.into()));
        }
    }
    if args.under_load && (test != Test::Latency || args.op.op().fetches()) {
        let text = "--under-load: a latency is sampled while a stream loads its path; it is for \
                    lat, with send or write";
        return Err(CommandError::usage(text.into()));
    }
    if test == Test::Latency && args.post_list.is_some_and(|list| list > 1) {
        let text = "--post-list: a ping-pong has one message under way; it is for bw and rate";
        return Err(CommandError::usage(text.into()));
    }
    if let Some(bytes) = args.place.working_set {
        if let Some(size) = sizes.iter().find(|size| **size > bytes) {
            let (bytes, size) = (size_text(bytes), size_text(*size));
            let text = format!("--working-set {bytes}: it cannot hold a message of {size}");
            return Err(CommandError::usage(text));
        }
        if test == Test::Latency && args.op.op().fetches() {
            let text = "--working-set: this operation's latency is that of one place; it is for bw, \
                        and for send and write";
            return Err(CommandError::usage(text.into()));
        }
    }
    if args.pairs.srq {
        shared_receives(args.op.op(), transport)?;
    }
    if transport != Transport::Tcp {
        return Ok(());
    }
    match on_sockets(args).into_iter().find(|(typed, ..)| *typed) {
        Some((_, flag, why)) => Err(CommandError::usage(format!("{flag}: {why}"))),
        None => Ok(()),
    }
}

/// Refuses shared receives where there are none to share, and where the specification has no such
/// queue.
fn shared_receives(op: Op, transport: Transport) -> Result<(), CommandError> {
    let why = match transport {
        Transport::Tcp => return Ok(()),
        Transport::Uc => "shared receive queues are for rc and ud",
        _ if op.is_send() => return Ok(()),
        _ => "it shares the receives of SENDs: give --op send or --op send_imm",
    };
    Err(CommandError::usage(format!("--srq: {why}")))
}

/// Whether it was typed, the flag, why sockets have no such thing.
fn on_sockets(args: &CaseArgs) -> [(bool, &'static str, &'static str); 19] {
    const BUFFERS: &str = "the kernel sizes a socket's queue by itself; it is for verbs";
    const HEADER: &str = "sockets have no such header field; it is for verbs";
    const RELIABLE: &str = "TCP has its own retransmission, set by the kernel; it is for verbs";
    let (pairs, devices) = (&args.pairs, &args.devices);
    [
        (args.tx_depth.is_some(), "--tx-depth", BUFFERS),
        (args.rx_depth.is_some(), "--rx-depth", BUFFERS),
        (args.inline.is_some(), "--inline", "the kernel copies what a socket sends anyway"),
        (args.signal_every.is_some(), "--signal-every", "sockets have no completions"),
        // What is no path MTU at all is told so, whatever the transport.
        (
            devices.mtu.is_some_and(|mtu| legal_mtu(mtu) == mtu),
            "--mtu",
            "set the interface's MTU instead (ip link set)",
        ),
        (devices.gid_index.is_some(), "--gid-index", HEADER),
        (devices.sl > 0, "--sl", HEADER),
        (pairs.pkey_index.is_some(), "--pkey-index", HEADER),
        (pairs.udp_sport.is_some(), "--udp-sport", "TCP is not in UDP"),
        (pairs.flow_label.is_some(), "--flow-label", "the kernel gives each socket its own"),
        (pairs.verbs == VerbsArg::Extended, "--verbs", "sockets have no work requests"),
        (pairs.srq, "--srq", "sockets have no receives to post; it is for verbs"),
        (pairs.outstanding_reads.is_some(), "--outstanding-reads", "sockets have no READ"),
        (args.place.huge_pages, "--huge-pages", "the kernel owns a socket's buffers"),
        (
            args.place.working_set.is_some(),
            "--working-set",
            "the kernel copies what a socket sends through buffers of its own",
        ),
        (pairs.retry_count.is_some(), "--retry-count", RELIABLE),
        (pairs.rnr_retry.is_some(), "--rnr-retry", RELIABLE),
        (pairs.timeout.is_some(), "--timeout", RELIABLE),
        (
            pairs.relaxed_ordering.is_some(),
            "--relaxed-ordering",
            "the kernel owns a socket's buffers; it is for verbs",
        ),
    ]
}
