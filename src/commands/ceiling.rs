//! `fabbench ceiling`: what a link, its headers, MTU and PCIe allow, for people who plan.

use fabbench_harness::ceiling::{Carried, Declared, End, Line, Scene, Slot, ceiling};
use fabbench_harness::line_rate::{Framing, Link, Messages, Wire, extension_bytes};
use fabbench_harness::pcie::check_payload;
use fabbench_harness::plan::Transport;
use fabbench_harness::possible::PathLimits;
use fabbench_harness::rate::parse_rate;
use fabbench_harness::size::{check_size, parse_size, size_text};
use fabbench_reports::model::{Ceiling, CeilingTerm};
use fabbench_reports::units::MessageRate;

use super::{CommandError, ExitCode, print_page};
use crate::cli::{CeilingArgs, FabricArg};

/// Smallest and largest MTU of an interface that TCP makes sense on.
const TCP_MTU: std::ops::RangeInclusive<u32> = 576..=65_535;

/// Prints the sum.
pub fn run(args: &CeilingArgs) -> Result<ExitCode, CommandError> {
    let scene = scene(args)?;
    let found = ceiling(&scene)
        .ok_or_else(|| CommandError::usage("no term is known: give --link or --pcie".into()))?;
    let page = if args.json {
        serde_json::to_string_pretty(&found).map_err(|e| CommandError::incomplete(e.to_string()))?
    } else {
        text(&scene, &found)
    };
    print_page(&page)?;
    Ok(ExitCode::PASS)
}

/// What was typed, understood.
fn scene(args: &CeilingArgs) -> Result<Scene, CommandError> {
    let link: Link = args.link.parse().map_err(|e| refused("--link", &e))?;
    let default = match link {
        Link::Lanes(..) => FabricArg::Ib,
        Link::Ethernet(_) => FabricArg::RoceV2Ipv4,
    };
    let fabric = args.fabric.unwrap_or(default);
    let peer = match &args.peer_link {
        Some(text) => text.parse().map_err(|e| refused("--peer-link", &e))?,
        None => link,
    };
    let two_ends = args.peer_link.is_some() || args.peer_pcie.is_some();
    let from = End {
        name: if two_ends { "here".into() } else { String::new() },
        line: Some(line(link, fabric, "--link")?),
        slots: slot(args.pcie.as_deref(), args.mps, args.ports, ["--pcie", "--mps"])?,
    };
    let to = match two_ends {
        true => End {
            name: "peer".into(),
            line: Some(line(peer, fabric, "--peer-link")?),
            slots: slot(
                args.peer_pcie.as_deref(),
                args.peer_mps,
                1,
                ["--peer-pcie", "--peer-mps"],
            )?,
        },
        false => End::default(),
    };
    let carried = carried(args, fabric)?;
    Ok(Scene { carried, ack_every: args.acks, from, to, declared: declared(args)? })
}

/// The option and why its value cannot be.
fn refused(option: &str, why: &dyn std::fmt::Display) -> CommandError {
    CommandError::usage(format!("{option}: {why}"))
}

/// Header set of the fabric; none of TCP.
fn wire(fabric: FabricArg) -> Option<Wire> {
    match fabric {
        FabricArg::Ib => Some(Wire::InfiniBand),
        FabricArg::IbGrh => Some(Wire::InfiniBandGrh),
        FabricArg::RoceV1 => Some(Wire::RoceV1),
        FabricArg::RoceV2Ipv4 => Some(Wire::RoceV2Ipv4),
        FabricArg::RoceV2Ipv6 => Some(Wire::RoceV2Ipv6),
        FabricArg::Tcp => None,
    }
}

/// A link with its data rate: after encoding on InfiniBand, nominal on Ethernet.
fn line(link: Link, fabric: FabricArg, option: &str) -> Result<Line, CommandError> {
    let ethernet = wire(fabric).is_none_or(Wire::is_ethernet);
    let bps = match ethernet {
        true => link.ethernet_bps(),
        false => link.infiniband_bps().map_err(|e| refused(option, &e))?,
    };
    Ok(Line { bps: bps as f64, words: link.to_string(), hard: true })
}

fn slot(
    typed: Option<&str>,
    payload: Option<u32>,
    ports: u32,
    [link_option, payload_option]: [&str; 2],
) -> Result<Vec<Slot>, CommandError> {
    let Some(typed) = typed else { return Ok(Vec::new()) };
    let link = typed.parse().map_err(|e| refused(link_option, &e))?;
    let payload =
        payload.map(check_payload).transpose().map_err(|e| refused(payload_option, &e))?;
    Ok(vec![Slot { address: String::new(), link, payload, ports }])
}

fn carried(args: &CeilingArgs, fabric: FabricArg) -> Result<Carried, CommandError> {
    let Some(wire) = wire(fabric) else { return tcp(args) };
    if args.vlan && !wire.is_ethernet() {
        return Err(refused("--vlan", &"InfiniBand has no VLAN tags; give a RoCE or TCP fabric"));
    }
    let mtu = args.mtu.unwrap_or(4096);
    if ![256, 512, 1024, 2048, 4096].contains(&mtu) {
        let why = "a path MTU is 256, 512, 1024, 2048 or 4096 bytes, whatever the interface's is";
        return Err(refused(&format!("--mtu {mtu}"), &why));
    }
    let op = args.op.op();
    let size_bytes = parse_size(&args.size).map_err(|e| refused("--size", &e))?;
    if size_bytes == 0 {
        return Err(refused("--size 0", &"carries no payload; give at least 1 byte"));
    }
    check_size(size_bytes, Transport::Rc, op, &PathLimits::default())
        .map_err(|e| refused("--size", &e))?;
    let framing = Framing { wire, vlan: args.vlan };
    let packets = size_bytes.div_ceil(u64::from(mtu));
    let extension_bytes = extension_bytes(op.word(), packets);
    Ok(Carried::Rdma(Messages { framing, mtu, size_bytes, extension_bytes }))
}

fn tcp(args: &CeilingArgs) -> Result<Carried, CommandError> {
    let netdev_mtu = args.mtu.unwrap_or(9000);
    if !TCP_MTU.contains(&netdev_mtu) {
        let why = "the MTU of an interface with TCP is 576 to 65535 bytes";
        return Err(refused(&format!("--mtu {netdev_mtu}"), &why));
    }
    if args.acks.is_some() {
        return Err(refused("--acks", &"counts for RDMA; TCP's depend on the receiver's offloads"));
    }
    Ok(Carried::Tcp { netdev_mtu, ipv6: false, vlan: args.vlan })
}

fn declared(args: &CeilingArgs) -> Result<Vec<Declared>, CommandError> {
    let mut declared = Vec::new();
    if let Some(text) = &args.declare_rate {
        let bps = parse_rate(text).map_err(|e| refused("--declare-rate", &e))?;
        declared.push(Declared::Rate { object: String::new(), bps, shaped: false });
    }
    if let Some(factor) = args.oversubscription {
        if !(1.0..=1000.0).contains(&factor) {
            let why = "1 for a fabric that is not oversubscribed, 2 for 2:1, at most 1000";
            return Err(refused(&format!("--oversubscription {factor}"), &why));
        }
        declared.push(Declared::Oversubscription(factor));
    }
    Ok(declared)
}

/// The sum as people add it up.
fn text(scene: &Scene, found: &Ceiling) -> String {
    let mut lines = vec![heading(scene)];
    if let Carried::Rdma(messages) = scene.carried {
        lines.extend(addition(&messages, scene.ack_every));
    }
    let width = found.terms.iter().map(|term| term.name.len()).max().unwrap_or(0);
    lines.push(String::new());
    lines.extend(found.terms.iter().map(|term| term_line(term, width)));
    lines.push(String::new());
    lines.push(format!("ceiling {} of payload, limited by {}", rate(found.bps), limit(found)));
    if let Carried::Rdma(messages) = scene.carried {
        let messages_per_s = found.bps / 8.0 / messages.size_bytes as f64;
        lines.push(format!(
            "that is {}; adapters stay below it for small messages",
            MessageRate(messages_per_s)
        ));
    }
    lines.join("\n")
}

fn heading(scene: &Scene) -> String {
    match scene.carried {
        Carried::Rdma(messages) => format!(
            "messages of {}, {}, path MTU {} B",
            size_text(messages.size_bytes),
            fabric_words(messages.framing),
            messages.mtu
        ),
        Carried::Tcp { netdev_mtu, .. } => {
            format!("TCP over IPv4 with timestamps, interface MTU {netdev_mtu} B")
        }
    }
}

fn fabric_words(framing: Framing) -> String {
    let words = match framing.wire {
        Wire::InfiniBand => "InfiniBand",
        Wire::InfiniBandGrh => "InfiniBand with global route headers",
        Wire::RoceV1 => "RoCE v1",
        Wire::RoceV2Ipv4 => "RoCE v2 over IPv4",
        Wire::RoceV2Ipv6 => "RoCE v2 over IPv6",
    };
    if framing.vlan { format!("{words} with a VLAN tag") } else { words.to_owned() }
}

/// Bytes of a message on the wire.
fn addition(messages: &Messages, ack_every: Option<u64>) -> Vec<String> {
    let (packets, header) = (messages.packets(), messages.framing.header_bytes());
    let mut lines = vec![
        String::new(),
        format!("  payload              {:>10} B", messages.size_bytes),
        format!(
            "  headers              {:>10} B  packets: {packets}, each {header} B",
            packets * u64::from(header)
        ),
        format!("  extension headers    {:>10} B  once a message", messages.extension_bytes),
    ];
    let acks = ack_every.map_or(0.0, |every| messages.ack_bytes(every));
    if ack_every.is_some() {
        lines.push(format!("  acknowledgements     {acks:>10.0} B  of the reverse direction"));
    }
    let all = messages.wire_bytes() as f64 + acks;
    let share = messages.size_bytes as f64 / all * 100.0;
    lines.push(format!("  on the wire          {all:>10.0} B  {share:.4} % of it is payload"));
    lines
}

fn term_line(term: &CeilingTerm, width: usize) -> String {
    let rate = match term.low_bps {
        Some(low) => format!("{} to {}", rate(low), rate(term.bps)),
        None => rate(term.bps),
    };
    let hard = if term.hard { "hard" } else { "not hard" };
    format!("  {:width$}  {rate}  ({hard})  {}", term.name, term.because)
}

/// The first term with the ceiling's rate.
fn limit(found: &Ceiling) -> String {
    let term = fabbench_harness::ceiling::binding(found);
    term.map_or("none", |term| &term.name).to_owned()
}

/// Three decimals, as reference tables have them.
fn rate(bps: f64) -> String {
    if bps >= 1e9 { format!("{:.3} Gb/s", bps / 1e9) } else { format!("{:.3} Mb/s", bps / 1e6) }
}
