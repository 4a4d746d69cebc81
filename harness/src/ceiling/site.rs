//! Ceilings of what was measured, from the facts of the hosts.

use std::collections::{BTreeMap, BTreeSet};

use fabbench_reports::model::{Ceiling, Device, Host, Measurement, Port};

use super::{Carried, Declared, End, Line, Scene, Slot, ceiling};
use crate::facts::{Chain, pcie_chain};
use crate::line_rate::{Framing, LaneSpeed, Messages, Wire, extension_bytes};
use crate::plan::LOOPBACK;
use crate::profile::one_machine;
use crate::rate::parse_rate;
use crate::snapshot::HostFacts;

/// A rate that the user declares for a port: `host-a/rxe0=100Mb/s`.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredRate {
    /// `host/dev` or `host/dev:port`.
    pub object: String,
    /// bit/s, headers included.
    pub bps: f64,
}

impl std::str::FromStr for DeclaredRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('=').filter(|(object, _)| object.contains('/'));
        let (object, rate) =
            parts.ok_or(format!("{text:?} is no port with its rate: write host-a/rxe0=100Mb/s"))?;
        let bps = parse_rate(rate).map_err(|error| error.to_string())?;
        Ok(DeclaredRate { object: object.to_owned(), bps })
    }
}

/// The hosts of a run, as far as ceilings depend on them.
#[derive(Debug, Clone)]
pub struct Site {
    hosts: Vec<Host>,
    /// By `host/dev`.
    chains: BTreeMap<String, Chain>,
    declared: Vec<DeclaredRate>,
}

/// One end of a measurement.
type Place<'a> = (&'a Host, &'a Device, &'a Port);

impl Site {
    /// Of hosts and what their agents saw, in one order.
    pub fn new(hosts: &[Host], facts: &[&HostFacts], declared: Vec<DeclaredRate>) -> Self {
        let pairs = hosts.iter().zip(facts);
        let chains = pairs.flat_map(|(host, facts)| {
            let chain = |device: &Device| {
                (format!("{}/{}", host.name, device.name), pcie_chain(facts, &device.name))
            };
            host.devices.iter().map(chain)
        });
        Site { hosts: hosts.to_vec(), chains: chains.collect(), declared }
    }

    /// Sets the ceilings of measurements that ran at the same time: of bandwidth over verbs. Where
    /// both ends are on one machine no link is crossed, and there is none.
    pub fn set(&self, together: &mut [Measurement]) {
        let found: Vec<_> = together.iter().map(|m| self.ceiling(m, together)).collect();
        for (measured, ceiling) in together.iter_mut().zip(found) {
            measured.ceiling = ceiling;
        }
    }

    fn ceiling(&self, measured: &Measurement, together: &[Measurement]) -> Option<Ceiling> {
        let rated = ["bandwidth", LOOPBACK].contains(&&*measured.test);
        if !rated || measured.transport == "tcp" || measured.path.mtu == 0 {
            return None;
        }
        let places = [self.place(&measured.data_from)?, self.place(&measured.data_to)?];
        if measured.test == LOOPBACK {
            return self.loopback(places[0], measured);
        }
        let local = one_machine(&self.hosts, measured);
        let [from, to] = [0, 1].map(|way| match local {
            true => End::default(),
            false => self.end(places[way], way, together),
        });
        let messages = messages(measured)?;
        let declared = |end: &str| self.declared.iter().find(|d| names(&d.object, end));
        let declared = declared(&measured.data_from).or(declared(&measured.data_to));
        let scene = Scene {
            carried: Carried::Rdma(messages),
            // One acknowledgement a message is the least there is.
            ack_every: measured.bidirectional.then(|| messages.packets()),
            from,
            to,
            declared: declared
                .map(|rate| Declared::Rate {
                    object: rate.object.clone(),
                    bps: rate.bps,
                    shaped: places[0].1.soft,
                })
                .into_iter()
                .collect(),
        };
        ceiling(&scene)
    }

    /// What a port can do against itself: the slot is crossed twice, once each way, and PCIe carries
    /// both ways at once. That adapters pass it on at the rate of their port is what health checks
    /// ask for, no law, so that no term is hard.
    fn loopback(&self, place: Place, measured: &Measurement) -> Option<Ceiling> {
        let mut end = self.end(place, 0, std::slice::from_ref(measured));
        end.line = end.line.map(|line| Line { hard: false, ..line });
        let carried = Carried::Rdma(messages(measured)?);
        let (to, declared) = (End::default(), Vec::new());
        let mut found = ceiling(&Scene { carried, ack_every: None, from: end, to, declared })?;
        for term in found.terms.iter_mut().filter(|term| term.name.starts_with("pcie")) {
            term.because += "; crossed twice, once each way";
        }
        Some(found)
    }

    /// Host, device and port of `host/dev:port`.
    fn place(&self, end: &str) -> Option<Place<'_>> {
        let (host, rest) = end.rsplit_once('/')?;
        let (device, port) = rest.rsplit_once(':')?;
        let number: u8 = port.parse().ok()?;
        let host = self.hosts.iter().find(|own| own.name == host)?;
        let device = host.devices.iter().find(|own| own.name == device)?;
        Some((host, device, device.ports.iter().find(|own| own.port == number)?))
    }

    /// An end with its link and its slots; `way` is 0 for payload that leaves it.
    fn end(&self, (host, device, port): Place, way: usize, together: &[Measurement]) -> End {
        let name = format!("{}/{}", host.name, device.name);
        let chain = self.chains.get(&name).cloned().unwrap_or_default();
        let slots = chain.hops.iter().map(|hop| Slot {
            address: hop.address.clone(),
            link: hop.link,
            payload: chain.payload,
            ports: self.ports_behind(&host.name, &hop.address, way, together).max(1),
        });
        End { name: format!("{name}:{}", port.port), line: line(port), slots: slots.collect() }
    }

    /// Ports of `host` behind a PCIe function that load it in one direction at the same time.
    fn ports_behind(&self, host: &str, hop: &str, way: usize, together: &[Measurement]) -> u32 {
        let verbs = together.iter().filter(|m| m.transport != "tcp");
        let ends: BTreeSet<&str> =
            verbs.map(|m| if way == 0 { m.data_from.as_str() } else { &m.data_to }).collect();
        let behind = |end: &&&str| {
            let device = end.rsplit_once(':').map_or("", |(device, _)| device);
            let on_host = device.rsplit_once('/').is_some_and(|(own, _)| own == host);
            let chain = self.chains.get(device);
            on_host && chain.is_some_and(|chain| chain.hops.iter().any(|own| own.address == hop))
        };
        u32::try_from(ends.iter().filter(behind).count()).unwrap_or(u32::MAX)
    }
}

/// Whether `host/dev` or `host/dev:port` names this end.
fn names(object: &str, end: &str) -> bool {
    object == end || end.rsplit_once(':').is_some_and(|(device, _)| device == object)
}

/// The port's link. Where the interface and the verbs library disagree it is not hard.
fn line(port: &Port) -> Option<Line> {
    let bps = port.rate_bps?;
    let words = format!("{} {}", port.width, port.speed);
    let by_words = || {
        let lanes = port.width.trim_end_matches('x').parse().ok()?;
        let speed = LaneSpeed::by_name(&port.speed)?;
        let ethernet = port.link_layer == "Ethernet";
        Some(if ethernet { speed.ethernet_bps(lanes) } else { speed.data_bps(lanes) })
    };
    Some(Line { bps: bps as f64, words, hard: by_words() == Some(bps) })
}

fn messages(measured: &Measurement) -> Option<Messages> {
    let ipv4 = measured.path.gid_a.contains("::ffff:");
    let wire = match measured.path.gid_type.as_str() {
        "IB LID" => Wire::InfiniBand,
        "IB GRH" => Wire::InfiniBandGrh,
        "RoCE v1" => Wire::RoceV1,
        "RoCE v2" if ipv4 => Wire::RoceV2Ipv4,
        "RoCE v2" => Wire::RoceV2Ipv6,
        _ => return None,
    };
    let mut messages = Messages {
        framing: Framing::new(wire),
        mtu: measured.path.mtu,
        size_bytes: measured.size_bytes,
        extension_bytes: 0,
    };
    messages.extension_bytes = extension_bytes(&measured.op, messages.packets());
    (measured.size_bytes > 0).then_some(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::snapshot::Entry;

    /// The NDR hosts of the fixtures; host b's slot is downtrained.
    fn site(declared: &[&str]) -> Site {
        let (a, mut b) = (fixtures::read("ndr-a"), fixtures::read("ndr-b"));
        let real = b.snapshot.link("/sys/class/infiniband/mlx5_0").unwrap().to_owned();
        let slot = real.split("/infiniband/").next().unwrap().to_owned();
        for (file, text) in [("speed", "16.0 GT/s PCIe\n"), ("width", "16\n")] {
            let path = format!("{slot}/current_link_{file}");
            b.snapshot.entries.insert(path, Entry::Text(text.into()));
        }
        let hosts = [crate::facts::host("a", &a), crate::facts::host("b", &b)];
        let declared = declared.iter().map(|text| text.parse().unwrap()).collect();
        Site::new(&hosts, &[&a, &b], declared)
    }

    fn measured(from: &str, to: &str) -> Measurement {
        let mut measured = Measurement {
            test: "bandwidth".into(),
            transport: "rc".into(),
            op: "write".into(),
            initiator: from.into(),
            responder: to.into(),
            data_from: from.into(),
            data_to: to.into(),
            size_bytes: 65_536,
            ..Measurement::default()
        };
        measured.path.mtu = 4096;
        measured.path.gid_type = "IB LID".into();
        measured
    }

    #[test]
    fn the_side_that_limits_is_named() {
        let mut both = [measured("a/mlx5_0:1", "b/mlx5_0:1")];
        site(&[]).set(&mut both);
        let ceiling = both[0].ceiling.as_ref().unwrap();
        assert_eq!(ceiling.limited_by, "peer");
        let term = super::super::binding(ceiling).unwrap();
        assert_eq!(term.name, "pcie b/mlx5_0:1");
        assert!(term.because.starts_with("PCIe Gen4 x16 at 0000:"), "{}", term.because);
        let hard = ceiling.terms.iter().find(|term| term.hard).unwrap();
        assert_eq!((hard.bps / 1e6).round(), 397_381.0);
        let mut healthy = [measured("a/mlx5_10:1", "b/mlx5_10:1")];
        site(&[]).set(&mut healthy);
        assert_eq!(healthy[0].ceiling.as_ref().unwrap().limited_by, "link");
    }

    #[test]
    fn declared_rates_go_to_the_ports_that_they_name() {
        let site = site(&["a/mlx5_10=100Gb/s"]);
        let mut all =
            [measured("a/mlx5_10:1", "b/mlx5_10:1"), measured("a/mlx5_0:1", "b/mlx5_0:1")];
        site.set(&mut all);
        let by = |m: &Measurement| m.ceiling.as_ref().unwrap().limited_by.clone();
        assert_eq!(all.each_ref().map(by), ["declared", "peer"]);
        for text in ["", "rxe0=1Gb/s", "a/rxe0", "a/rxe0=fast", "a/rxe0=-1Gb/s"] {
            assert!(text.parse::<DeclaredRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_against_itself_is_held_against_its_slot_and_its_rate() {
        let own = |end: &str| Measurement { test: LOOPBACK.into(), ..measured(end, end) };
        let mut all = [own("a/mlx5_10:1"), own("b/mlx5_0:1")];
        site(&["b/mlx5_0=1Gb/s"]).set(&mut all);
        let [healthy, slow] = all.map(|measured| measured.ceiling.unwrap());
        assert_eq!((healthy.bps / 1e6).round(), 397_381.0, "the rate of its port");
        assert!(healthy.terms.iter().all(|term| !term.hard), "no law");
        assert_eq!((slow.limited_by.as_str(), (slow.bps / 1e7).round()), ("pcie", 24_078.0));
        let term = super::super::binding(&slow).unwrap();
        assert!(term.because.ends_with("; crossed twice, once each way"), "{}", term.because);
    }

    #[test]
    fn what_has_no_ceiling_gets_none() {
        let latency =
            Measurement { test: "latency".into(), ..measured("a/mlx5_0:1", "b/mlx5_0:1") };
        let unknown = measured("a/mlx5_7:1", "b/mlx5_0:1");
        let loopback = measured("a/mlx5_0:1", "a/mlx5_0:1");
        let mut all = [latency, unknown, loopback];
        site(&[]).set(&mut all);
        assert!(all.iter().all(|measured| measured.ceiling.is_none()));
    }
}
