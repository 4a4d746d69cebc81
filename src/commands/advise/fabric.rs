//! From fabrics as typed and a report to what a node sees of RDMA and TCP.

use fabbench_harness::advise::library::{self, Fabric};
use fabbench_harness::advise::link::{Figure, Link, Point};
use fabbench_harness::advise::{AdviseError, measured};
use fabbench_reports::advice::Transport;
use fabbench_reports::model::Report;

use super::question::Missing;
use crate::cli::advise::FabricArgs;

/// A report with the name that it is called by.
pub struct Measured {
    /// Path as typed.
    pub file: String,
    /// Its content.
    pub report: Report,
}

/// RDMA and TCP. What is missing is noted, and then the links are empty.
pub fn links(
    args: &FabricArgs,
    report: Option<&Measured>,
    missing: &mut Missing,
) -> Result<Option<[Link; 2]>, AdviseError> {
    let named = named(args)?;
    if named == [None, None] && report.is_none() && !all_given(args) {
        missing.add(
            "--report FILE or --fabric NAME (or --rdma-bandwidth, --rdma-latency, --tcp-bandwidth \
             and --tcp-latency)",
        );
        return Ok(None);
    }
    let rails = report.and_then(|found| measured::rails(&found.report, Transport::Rdma));
    let args = &FabricArgs { nics_per_node: args.nics_per_node.or(rails), ..args.clone() };
    let rdma = side(args, &named, report, Transport::Rdma, missing)?;
    let tcp = side(args, &named, report, Transport::Tcp, missing)?;
    Ok(rdma.zip(tcp).map(|(rdma, tcp)| [rdma, tcp]))
}

/// The fabric that a what-if row names.
pub fn other(name: &str, links: &[Link; 2]) -> Result<Link, AdviseError> {
    let fabric = library::fabric(name)?;
    let nics = match fabric.transport {
        Transport::Rdma => links[0].nics,
        Transport::Tcp => links[1].nics,
    };
    Ok(Link::named(&fabric, nics))
}

/// Fabrics as typed: RDMA, TCP.
fn named(args: &FabricArgs) -> Result<[Option<Fabric>; 2], AdviseError> {
    let mut named = [None, None];
    for name in &args.fabric {
        let fabric = library::fabric(name)?;
        let place = &mut named[index(fabric.transport)];
        if let Some(first) = place.replace(fabric) {
            return Err(AdviseError::Wrong(format!(
                "--fabric {},{name}: both are {}; give one of each kind, and the other as \
                 --what-if fabric={name}",
                first.name, first.transport
            )));
        }
    }
    Ok(named)
}

fn index(transport: Transport) -> usize {
    match transport {
        Transport::Rdma => 0,
        Transport::Tcp => 1,
    }
}

/// Bandwidth and latency as typed.
fn own(args: &FabricArgs, transport: Transport) -> (Option<f64>, Option<f64>) {
    match transport {
        Transport::Rdma => (args.rdma_bandwidth, args.rdma_latency),
        Transport::Tcp => (args.tcp_bandwidth, args.tcp_latency),
    }
}

fn all_given(args: &FabricArgs) -> bool {
    let given = |transport| matches!(own(args, transport), (Some(_), Some(_)));
    given(Transport::Rdma) && given(Transport::Tcp)
}

fn side(
    args: &FabricArgs,
    named: &[Option<Fabric>; 2],
    report: Option<&Measured>,
    transport: Transport,
    missing: &mut Missing,
) -> Result<Option<Link>, AdviseError> {
    let (rate, latency) = own(args, transport);
    let here = &named[index(transport)];
    let counterpart = || {
        let other = named[1 - index(transport)].as_ref()?;
        Some(library::fabric(&other.counterpart))
    };
    let complete = rate.is_some() && latency.is_some();
    let link = match (here, report) {
        (Some(fabric), _) => named_link(args, fabric, named, missing),
        (None, _) if complete => bare_link(args, transport, missing),
        (None, Some(found)) => {
            let nics = match transport {
                Transport::Rdma => args.nics_per_node,
                Transport::Tcp => args.tcp_nics,
            };
            Some(measured::link(&found.report, &found.file, transport, nics)?)
        }
        (None, None) => match counterpart().transpose()? {
            Some(fabric) => {
                let note = format!(
                    "{} was not named: {} is taken beside it",
                    fabric.transport, fabric.name
                );
                named_link(args, &fabric, named, missing).map(|link| noted(link, note))
            }
            None => {
                missing.add(&format!("--fabric NAME for {transport}"));
                None
            }
        },
    };
    Ok(link.map(|link| replaced(link, rate, latency)))
}

/// NICs of a node, RDMA.
fn nics(args: &FabricArgs, missing: &mut Missing) -> Option<u32> {
    if args.nics_per_node.is_none() {
        missing.add("--nics-per-node N");
    }
    args.nics_per_node
}

fn named_link(
    args: &FabricArgs,
    fabric: &Fabric,
    named: &[Option<Fabric>; 2],
    missing: &mut Missing,
) -> Option<Link> {
    if fabric.transport == Transport::Rdma {
        return Some(Link::named(fabric, nics(args, missing)?));
    }
    // TCP over the NICs that carry RoCE, or over those of the only fabric that was named.
    let same = match &named[0] {
        Some(rdma) => rdma.same_nics && rdma.counterpart == fabric.name,
        None => fabric.same_nics && named[1].is_some(),
    };
    match args.tcp_nics {
        Some(nics) => Some(Link::named(fabric, nics)),
        None if same => Some(Link::named(fabric, nics(args, missing)?)),
        None => Some(noted(
            Link::named(fabric, 1),
            "TCP runs over one NIC a node (--tcp-nics)".to_owned(),
        )),
    }
}

fn bare_link(args: &FabricArgs, transport: Transport, missing: &mut Missing) -> Option<Link> {
    let nics = match (transport, args.tcp_nics) {
        (Transport::Tcp, found) => found.unwrap_or(1),
        (Transport::Rdma, _) => nics(args, missing)?,
    };
    Some(Link::flat(transport, "as given", nics, 0.0, 0.0))
}

fn noted(mut link: Link, note: String) -> Link {
    link.notes.push(note);
    link
}

/// With the bandwidth and latency that were typed.
fn replaced(mut link: Link, rate: Option<f64>, latency: Option<f64>) -> Link {
    if let Some(rate) = rate {
        link.points = vec![Point { size: 0.0, rate: Figure::exact(rate) }];
    }
    if let Some(latency) = latency {
        link.latency = Figure::exact(latency);
    }
    if rate.is_some() || latency.is_some() {
        let what = match (rate, latency) {
            (Some(_), Some(_)) => "bandwidth and latency are",
            (Some(_), None) => "bandwidth is",
            _ => "latency is",
        };
        link.notes.push(format!("{} {what} as given", link.transport));
    }
    link
}
