//! How ports find each other.

use std::cmp::Ordering;
use std::net::IpAddr;

use fabbench_reports::model::{Device, Port};

use super::{
    DeviceFilter, PairRail, Party, PortName, RailEnd, RailError, RailMap, Selection, Unmatched,
};
use crate::facts::{atomics, gid_table, max_message_bytes, natural_order, same_machine};
use crate::gid::{GidEnd, GidPair, choose, path_mtu};
use crate::limits::LinkSpeed;
use crate::snapshot::GidFact;

/// Lays the rails between two hosts.
///
/// A map goes first, then lists of devices on both ends (in the order typed). Else usable active
/// ports of one link layer find each other: those in one subnet before others, equal rates before
/// different ones, equal positions (by PCI address, or name) before the next free. On one machine
/// each port meets itself.
pub fn match_rails(a: &Party, b: &Party, selection: &Selection) -> Result<RailMap, RailError> {
    let mut work = Work::new(a, b, selection)?;
    let chosen = match (&selection.map, &selection.devices_a, &selection.devices_b) {
        (Some(map), _, _) => work.by_map(map)?,
        (None, Some(DeviceFilter::Only(_)), Some(DeviceFilter::Only(_))) => work.by_lists(),
        _ if same_machine(a.facts, b.facts) => work.each_with_itself(),
        _ => work.by_merit(),
    };
    Ok(work.finish(chosen))
}

/// A port that may be on a rail.
struct Candidate<'a> {
    party: &'a Party<'a>,
    device: &'a Device,
    port: &'a Port,
    gids: Vec<GidFact>,
    /// Among the ports of its link layer on its host, unusable ones included, so that a port that
    /// is down does not shift its neighbours onto the wrong rail.
    position: usize,
    /// Why it cannot be used.
    unusable: Option<String>,
    named: bool,
}

impl Candidate<'_> {
    fn label(&self) -> String {
        format!("{}/{}:{}", self.party.host.name, self.device.name, self.port.port)
    }
}

/// A pair of candidates by index, and why.
struct Chosen {
    a: usize,
    b: usize,
    why: String,
}

struct Work<'a> {
    hosts: [&'a str; 2],
    a: Vec<Candidate<'a>>,
    b: Vec<Candidate<'a>>,
    selection: &'a Selection,
    unmatched: Vec<Unmatched>,
}

impl<'a> Work<'a> {
    fn new(a: &'a Party, b: &'a Party, selection: &'a Selection) -> Result<Self, RailError> {
        if selection.map.is_none() {
            refuse_unknown(a, b, selection)?;
        }
        let filters = match selection.map {
            Some(_) => [None, None],
            None => [selection.devices_a.as_ref(), selection.devices_b.as_ref()],
        };
        let hosts = [a.host.name.as_str(), b.host.name.as_str()];
        let (a, b) = (candidates(a, filters[0]), candidates(b, filters[1]));
        Ok(Work { hosts, a, b, selection, unmatched: Vec::new() })
    }

    fn by_map(&mut self, map: &[(PortName, PortName)]) -> Result<Vec<Chosen>, RailError> {
        let mut chosen = Vec::new();
        for (name_a, name_b) in map {
            let of_a = named(&mut self.a, name_a)?;
            let of_b = named(&mut self.b, name_b)?;
            chosen.extend(of_a.into_iter().zip(of_b).map(|(a, b)| Chosen {
                a,
                b,
                why: "named in the map of rails".to_owned(),
            }));
        }
        Ok(chosen)
    }

    fn by_lists(&mut self) -> Vec<Chosen> {
        let count = self.a.len().min(self.b.len());
        let why = || "named by the user, in this order".to_owned();
        (0..count).map(|index| Chosen { a: index, b: index, why: why() }).collect()
    }

    fn each_with_itself(&mut self) -> Vec<Chosen> {
        let itself = |(a, port): (usize, &Candidate)| {
            let same = |other: &Candidate| {
                other.device.name == port.device.name && other.port.port == port.port.port
            };
            let b = self.b.iter().position(same)?;
            Some(Chosen { a, b, why: "one machine twice: the port with itself".to_owned() })
        };
        self.a.iter().enumerate().filter_map(itself).collect()
    }

    fn by_merit(&mut self) -> Vec<Chosen> {
        let links: Vec<Vec<Option<Merit>>> =
            self.a.iter().map(|a| self.b.iter().map(|b| self.merit(a, b)).collect()).collect();
        let mut free = (vec![true; self.a.len()], vec![true; self.b.len()]);
        let mut chosen = Vec::new();
        for wanted in Merit::ALL {
            for (a, row) in links.iter().enumerate() {
                let fits = |b: &usize| free.1[*b] && row[*b] == Some(wanted);
                if let Some(b) = (0..row.len()).find(fits).filter(|_| free.0[a]) {
                    (free.0[a], free.1[b]) = (false, false);
                    chosen.push(Chosen { a, b, why: wanted.why(self.a[a].port) });
                }
            }
        }
        chosen.sort_by_key(|chosen| chosen.a);
        chosen
    }

    /// How well two ports fit; none when they cannot reach each other.
    fn merit(&self, a: &Candidate, b: &Candidate) -> Option<Merit> {
        if a.unusable.is_some() || b.unusable.is_some() || a.port.link_layer != b.port.link_layer {
            return None;
        }
        let gids = self.gids(a, b).ok()?;
        Some(Merit {
            same_subnet: gids.same_subnet,
            same_rate: a.port.rate_bps == b.port.rate_bps,
            same_position: a.position == b.position,
        })
    }

    fn gids(&self, a: &Candidate, b: &Candidate) -> Result<GidPair, String> {
        if a.port.link_layer != b.port.link_layer {
            return Err(format!(
                "{} is {}, {} is {}",
                a.label(),
                a.port.link_layer,
                b.label(),
                b.port.link_layer
            ));
        }
        let names = (a.label(), b.label());
        let end_a = gid_end(a, &names.0, self.selection.gid_index_a);
        let end_b = gid_end(b, &names.1, self.selection.gid_index_b);
        choose(&end_a, &end_b).map_err(|error| error.to_string())
    }

    fn finish(mut self, chosen: Vec<Chosen>) -> RailMap {
        let mut used = (vec![false; self.a.len()], vec![false; self.b.len()]);
        let mut rails = Vec::new();
        for pair in chosen {
            match self.rail(&pair, rails.len()) {
                Ok(rail) => {
                    rails.push(rail);
                    (used.0[pair.a], used.1[pair.b]) = (true, true);
                }
                Err(why) => self.give_up(&pair, &why, &mut used),
            }
        }
        let mut unmatched = std::mem::take(&mut self.unmatched);
        for (first, own, used) in [(true, &self.a, &used.0), (false, &self.b, &used.1)] {
            let left = own.iter().zip(used).filter(|(_, used)| !**used).map(|(port, _)| port);
            unmatched.extend(left.map(|port| self.left_out(port, first)));
        }
        RailMap { rails, unmatched }
    }

    fn give_up(&mut self, pair: &Chosen, why: &str, used: &mut (Vec<bool>, Vec<bool>)) {
        (used.0[pair.a], used.1[pair.b]) = (true, true);
        let (a, b) = (&self.a[pair.a], &self.b[pair.b]);
        let object = format!("{} with {}", a.label(), b.label());
        let named = a.named || b.named;
        self.unmatched.push(Unmatched { object, why: why.to_owned(), named });
    }

    fn rail(&self, pair: &Chosen, number: usize) -> Result<PairRail, String> {
        let (a, b) = (&self.a[pair.a], &self.b[pair.b]);
        if let Some(why) = a.unusable.as_ref().or(b.unusable.as_ref()) {
            return Err(why.clone());
        }
        let gids = self.gids(a, b)?;
        let names = [a.label(), b.label()];
        let active = [a.port.active_mtu, b.port.active_mtu];
        let mtu = path_mtu([&names[0], &names[1]], active, self.selection.mtu, gids.wire());
        let speed = LinkSpeed {
            rate_bps: [a.port.rate_bps, b.port.rate_bps].into_iter().flatten().min(),
            declared_bps: self.selection.declared_bps,
            soft: a.device.soft || b.device.soft,
        };
        let mut warnings = gids.warnings.clone();
        warnings.extend(mtu.warnings.clone());
        warnings.extend(rate_warning(a, b));
        let (mut end_a, mut end_b) = (rail_end(a, &gids.a), rail_end(b, &gids.b));
        keep_common_families(&mut end_a.addresses, &mut end_b.addresses);
        Ok(PairRail {
            name: format!("rail{number}"),
            a: end_a,
            b: end_b,
            link_layer: a.port.link_layer.clone(),
            gids,
            mtu,
            speed,
            why: pair.why.clone(),
            warnings,
        })
    }

    /// Why a port of the first (or the second) host is on no rail.
    fn left_out(&self, port: &Candidate, first: bool) -> Unmatched {
        let (others, other_host) =
            if first { (&self.b, self.hosts[1]) } else { (&self.a, self.hosts[0]) };
        let layer = &port.port.link_layer;
        let mut alike = others.iter().filter(|other| other.port.link_layer == *layer);
        let counterpart = alike.clone().find(|other| other.position == port.position);
        let why = match (&port.unusable, counterpart.and_then(|other| other.unusable.as_ref())) {
            (Some(why), _) => why.clone(),
            (None, Some(why)) => format!("its counterpart cannot be used: {why}"),
            (None, None) => match alike.find(|other| other.unusable.is_none()) {
                None => format!("no usable {layer} port on {other_host}"),
                Some(other) => {
                    let gids = if first { self.gids(port, other) } else { self.gids(other, port) };
                    let busy = || format!("every matching port of {other_host} is on another rail");
                    gids.err().unwrap_or_else(busy)
                }
            },
        };
        Unmatched { object: port.label(), why, named: port.named }
    }
}

/// How well two ports fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Merit {
    same_subnet: bool,
    same_rate: bool,
    same_position: bool,
}

impl Merit {
    /// Best first.
    const ALL: [Merit; 8] = [
        Merit::new(true, true, true),
        Merit::new(true, true, false),
        Merit::new(true, false, true),
        Merit::new(true, false, false),
        Merit::new(false, true, true),
        Merit::new(false, true, false),
        Merit::new(false, false, true),
        Merit::new(false, false, false),
    ];

    const fn new(same_subnet: bool, same_rate: bool, same_position: bool) -> Self {
        Merit { same_subnet, same_rate, same_position }
    }

    fn why(self, port: &Port) -> String {
        let place =
            if self.same_position { "the same position on both hosts" } else { "next free" };
        let rate = match (self.same_rate, port.rate_bps) {
            (true, Some(_)) => ", equal rate",
            (true, None) => "",
            (false, _) => ", different rates",
        };
        let subnet = if self.same_subnet { "one subnet, " } else { "no common subnet, " };
        format!("{subnet}{place}{rate}")
    }
}

fn candidates<'a>(party: &'a Party, filter: Option<&DeviceFilter>) -> Vec<Candidate<'a>> {
    let mut devices: Vec<_> = party.host.devices.iter().collect();
    devices.sort_by(|a, b| place_order(a, b));
    let ports = devices.iter().flat_map(|device| device.ports.iter().map(|port| (*device, port)));
    let admitted = |(device, port): &(&Device, &Port)| {
        filter.is_none_or(|filter| filter.admits(&device.name, port.port))
    };
    let mut seen: Vec<&str> = Vec::new();
    let mut list: Vec<_> = ports
        .filter(admitted)
        .map(|(device, port)| {
            let layer = port.link_layer.as_str();
            let position = seen.iter().filter(|other| **other == layer).count();
            seen.push(layer);
            Candidate {
                party,
                device,
                port,
                gids: gid_table(party.facts, &device.name, port.port),
                position,
                unusable: unusable(party, device, port),
                named: matches!(filter, Some(DeviceFilter::Only(_))),
            }
        })
        .collect();
    if let Some(DeviceFilter::Only(names)) = filter {
        let typed = |port: &Candidate| {
            names.iter().position(|name| name.names(&port.device.name, port.port.port))
        };
        list.sort_by_key(typed);
    }
    list
}

/// By PCI address where both have one, else by name.
fn place_order(a: &Device, b: &Device) -> Ordering {
    match (&a.pci, &b.pci) {
        (Some(one), Some(other)) => one.cmp(other).then_with(|| natural_order(&a.name, &b.name)),
        _ => natural_order(&a.name, &b.name),
    }
}

fn unusable(party: &Party, device: &Device, port: &Port) -> Option<String> {
    let label = format!("{}/{}:{}", party.host.name, device.name, port.port);
    if let Some(why) = &device.unusable {
        return Some(format!("{}: {why}", party.host.name));
    }
    if port.state != "ACTIVE" {
        let fix = match (port.state.as_str(), port.link_layer.as_str(), &port.netdev) {
            ("INIT" | "ARMED", "InfiniBand", _) => {
                "is a subnet manager running on this fabric?".to_owned()
            }
            (_, "Ethernet", Some(netdev)) => {
                format!("check the cable, then ip link set {netdev} up (needs root)")
            }
            _ => "check the cable and the switch port".to_owned(),
        };
        return Some(format!("{label} is {}: {fix}", port.state));
    }
    if port.link_layer == "InfiniBand" && port.lid == 0 {
        return Some(format!("{label} has no LID: is a subnet manager running on this fabric?"));
    }
    None
}

fn gid_end<'a>(port: &'a Candidate, name: &'a str, forced: Option<u32>) -> GidEnd<'a> {
    let holds = |address: &IpAddr| {
        port.gids.iter().any(|gid| IpAddr::V6(gid.gid).to_canonical() == address.to_canonical())
    };
    GidEnd {
        name,
        gids: &port.gids,
        addresses: &port.party.facts.calls.addresses,
        // The user's address belongs to one port; the host's other rails go by their own.
        wanted: port.party.data_address.filter(holds),
        forced,
    }
}

fn rail_end(port: &Candidate, gid: &GidFact) -> RailEnd {
    let netdev = gid.netdev.clone().or_else(|| port.port.netdev.clone());
    RailEnd {
        host: port.party.host.name.clone(),
        device: port.device.name.clone(),
        port: port.port.port,
        label: port.label(),
        soft: port.device.soft,
        lid: port.port.lid,
        addresses: addresses(port, gid, netdev.as_deref()),
        netdev,
        numa_node: port.device.numa_node,
        max_message_bytes: max_message_bytes(port.party.facts, &port.device.name, port.port.port),
        atomics: atomics(port.party.facts, &port.device.name),
    }
}

fn addresses(port: &Candidate, gid: &GidFact, netdev: Option<&str>) -> Vec<IpAddr> {
    let own = &port.party.facts.calls.addresses;
    let of_netdev = |family: fn(&IpAddr) -> bool| {
        let entries = own.iter().filter(|entry| Some(entry.netdev.as_str()) == netdev);
        entries.map(|entry| entry.address.to_canonical()).filter(family).collect::<Vec<_>>()
    };
    let by_gid = IpAddr::V6(gid.gid).to_canonical();
    let mut list: Vec<_> =
        port.party.data_address.filter(|data| *data == by_gid).into_iter().collect();
    list.extend(own.iter().map(|entry| entry.address.to_canonical()).find(|one| *one == by_gid));
    list.extend(of_netdev(IpAddr::is_ipv4));
    list.extend(of_netdev(IpAddr::is_ipv6));
    let mut unique = Vec::new();
    for address in list {
        let scoped = matches!(address, IpAddr::V6(ipv6) if ipv6.is_unicast_link_local());
        if !scoped && !unique.contains(&address) {
            unique.push(address);
        }
    }
    unique
}

/// Drops addresses of a family that the other end lacks.
fn keep_common_families(a: &mut Vec<IpAddr>, b: &mut Vec<IpAddr>) {
    let has =
        |list: &[IpAddr]| (list.iter().any(IpAddr::is_ipv4), list.iter().any(IpAddr::is_ipv6));
    let (of_a, of_b) = (has(a), has(b));
    a.retain(|address| if address.is_ipv4() { of_b.0 } else { of_b.1 });
    b.retain(|address| if address.is_ipv4() { of_a.0 } else { of_a.1 });
}

fn rate_warning(a: &Candidate, b: &Candidate) -> Option<String> {
    let (of_a, of_b) = (a.port.rate_bps?, b.port.rate_bps?);
    let gbps = |bps: u64| bps as f64 / 1e9;
    (of_a != of_b).then(|| {
        format!(
            "rates differ: {} {:.0} Gb/s, {} {:.0} Gb/s",
            a.label(),
            gbps(of_a),
            b.label(),
            gbps(of_b)
        )
    })
}

fn named(ports: &mut [Candidate], name: &PortName) -> Result<Vec<usize>, RailError> {
    let fits = |port: &Candidate| name.names(&port.device.name, port.port.port);
    let found: Vec<_> = (0..ports.len()).filter(|index| fits(&ports[*index])).collect();
    for index in &found {
        ports[*index].named = true;
    }
    match ports.first() {
        Some(first) if found.is_empty() => Err(absent(first.party, name)),
        _ => Ok(found),
    }
}

/// Refuses names of devices and ports that do not exist, since a typing error must not choose
/// another device.
fn refuse_unknown(a: &Party, b: &Party, selection: &Selection) -> Result<(), RailError> {
    let ends = [(a, b, &selection.devices_a), (b, a, &selection.devices_b)];
    for (party, other, filter) in ends {
        match filter {
            None => {}
            Some(DeviceFilter::Only(names)) => {
                if let Some(name) = names.iter().find(|name| !exists(party, name)) {
                    return Err(absent(party, name));
                }
            }
            Some(DeviceFilter::Except(names)) => {
                let nowhere = |name: &&PortName| !exists(party, name) && !exists(other, name);
                if let Some(name) = names.iter().find(nowhere) {
                    let present = format!("{}; {}", present(party), present(other));
                    return Err(RailError::NothingExcluded { named: name.to_string(), present });
                }
            }
        }
    }
    Ok(())
}

fn exists(party: &Party, name: &PortName) -> bool {
    let ports =
        |device: &Device| device.ports.iter().any(|port| name.names(&device.name, port.port));
    party.host.devices.iter().any(ports)
}

fn absent(party: &Party, name: &PortName) -> RailError {
    let (host, named) = (party.host.name.clone(), name.to_string());
    RailError::Absent { host, named, present: present(party) }
}

fn present(party: &Party) -> String {
    let devices = &party.host.devices;
    let words = devices.iter().flat_map(|device| {
        device.ports.iter().map(move |port| {
            let host = &party.host.name;
            format!("{host}/{}:{} ({}, {})", device.name, port.port, port.link_layer, port.state)
        })
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() {
        format!("no RDMA device on {}", party.host.name)
    } else {
        words.join(", ")
    }
}
