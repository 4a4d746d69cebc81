//! Which way a case goes: ports and GIDs for verbs, addresses for sockets and for the link between
//! the two ends.

use std::net::{IpAddr, SocketAddr};

use fabbench_harness::facts::places::node_cpus;
use fabbench_harness::facts::same_machine;
use fabbench_harness::numbers::udp_sport;
use fabbench_harness::plan::{Case, Transport, Tuning};
use fabbench_harness::rails::{PairRail, RailEnd};
use fabbench_harness::snapshot::{GidKind, HostFacts, InterfaceAddress};
use fabbench_reports::model::Path;

use crate::session::protocol::PortPath;

/// What the paths of a run are chosen from.
pub struct Paths<'a> {
    /// Facts of A and B.
    pub facts: [&'a HostFacts; 2],
    /// Host names of A and B.
    pub names: [&'a str; 2],
    /// Addresses given with `addr=`.
    pub data_addresses: [Option<IpAddr>; 2],
    /// Rails of the run.
    pub rails: &'a [PairRail],
    /// Service level and traffic class.
    pub service: (u8, u8),
}

impl Paths<'_> {
    /// The rail of a case.
    fn rail(&self, case: &Case) -> Option<&PairRail> {
        self.rails.get(case.rail?)
    }

    /// The port that `host` uses for a verbs case.
    pub fn port(&self, case: &Case, host: usize) -> Option<PortPath> {
        let rail = self.rail(case)?;
        let tuning = self.placed(case, host);
        let (end, gid) = if host == 0 { (&rail.a, &rail.gids.a) } else { (&rail.b, &rail.gids.b) };
        Some(PortPath {
            device: end.device.clone(),
            port: end.port,
            gid_index: gid.index,
            gid_kind: rail.gids.kind,
            grh: rail.gids.grh,
            mtu: rail.mtu.bytes,
            sl: tuning.sl.unwrap_or(self.service.0),
            traffic_class: tuning.traffic_class.unwrap_or(self.service.1),
            timeout: tuning.timeout.unwrap_or(rail.speed.timeout()),
            max_in_flight_bytes: rail.speed.in_flight_bytes(),
            tuning,
        })
    }

    /// The knobs of a case with the place of `host`'s threads and buffers: by default the adapter's
    /// own NUMA node.
    pub fn placed(&self, case: &Case, host: usize) -> Tuning {
        let mut tuning = case.knobs.tuning.clone();
        let end = self.rail(case).map(|rail| if host == 0 { &rail.a } else { &rail.b });
        tuning.numa_node = tuning.numa_node.or(end.and_then(|end| end.numa_node));
        let node = tuning.numa_node.and_then(|node| node_cpus(self.facts[host], node));
        tuning.cpu_set = node.map(|cpus| measuring(&cpus, self.facts[host])).unwrap_or_default();
        tuning
    }

    /// Addresses on which `host` listens for the other end of a case, best first: for sockets that
    /// are measured only the measured path, else the rail's and then whatever else may connect.
    pub fn listen(&self, case: &Case, host: usize) -> Vec<SocketAddr> {
        let rail = self.rail_addresses(case, host);
        let mut all = match (case.transport, rail.is_empty()) {
            (Transport::Tcp, false) => rail,
            _ => [self.data_addresses[host].into_iter().collect(), rail, self.reachable(host)]
                .concat(),
        };
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|address| seen.insert(*address));
        all.into_iter().map(|address| SocketAddr::new(address, 0)).collect()
    }

    /// Local addresses that `host` binds to when it connects, so that a measured path is the one
    /// that was meant.
    pub fn bind(&self, case: &Case, host: usize) -> Vec<IpAddr> {
        match case.transport {
            Transport::Tcp => self.rail_addresses(case, host),
            _ => Vec::new(),
        }
    }

    /// The way of a case, as the report tells it.
    pub fn describe(&self, case: &Case) -> Path {
        match (case.transport, self.rail(case)) {
            (transport, Some(rail)) if transport.is_verbs() => {
                let tuning = &case.knobs.tuning;
                let udp = rail.gids.kind == GidKind::RoceV2;
                Path {
                    sl: tuning.sl.unwrap_or(self.service.0),
                    traffic_class: tuning.traffic_class.unwrap_or(self.service.1),
                    udp_sports: match udp {
                        true => tuning.flow_labels.iter().map(|label| udp_sport(*label)).collect(),
                        false => Vec::new(),
                    },
                    ..rail.path()
                }
            }
            (Transport::Tcp, Some(rail)) => self.tcp_over_rail(case, rail),
            _ => self.tcp_over_route(case),
        }
    }

    /// `host/dev:port` for verbs, `host/netdev` for sockets.
    pub fn end(&self, case: &Case, host: usize) -> String {
        let rail_end = self.rail(case).map(|rail| if host == 0 { &rail.a } else { &rail.b });
        match (case.transport, rail_end) {
            (Transport::Tcp, Some(RailEnd { netdev: Some(netdev), .. })) => {
                format!("{}/{netdev}", self.names[host])
            }
            (transport, Some(end)) if transport.is_verbs() => end.label.clone(),
            _ => match self.listen(case, host).first() {
                Some(address) => {
                    format!("{}/{}", self.names[host], self.netdev(host, address.ip()))
                }
                None => self.names[host].to_string(),
            },
        }
    }

    /// Addresses of a rail's interface on `host`.
    fn rail_addresses(&self, case: &Case, host: usize) -> Vec<IpAddr> {
        match self.rail(case) {
            Some(rail) if host == 0 => rail.a.addresses.clone(),
            Some(rail) => rail.b.addresses.clone(),
            None => Vec::new(),
        }
    }

    /// Addresses by which the other host may reach `host` when no rail tells: loopback on one
    /// machine; else what both have a common subnet for, then the rest. An address that both hosts
    /// call their own (NATed guests) leads nowhere and is left out.
    fn reachable(&self, host: usize) -> Vec<IpAddr> {
        if same_machine(self.facts[0], self.facts[1]) {
            return vec![IpAddr::from([127, 0, 0, 1])];
        }
        let other = &self.facts[1 - host].calls.addresses;
        let usable = |a: &&InterfaceAddress| {
            !a.address.is_loopback()
                && !is_link_local(a.address)
                && !other.iter().any(|o| o.address == a.address)
        };
        let mut own: Vec<_> = self.facts[host].calls.addresses.iter().filter(usable).collect();
        own.sort_by_key(|a| !other.iter().any(|o| same_subnet(a, o)));
        own.into_iter().map(|a| a.address).collect()
    }

    /// Sockets on a rail's interfaces.
    fn tcp_over_rail(&self, case: &Case, rail: &PairRail) -> Path {
        let first = |host| self.rail_addresses(case, host).first().map(ToString::to_string);
        Path {
            rail: rail.name.clone(),
            mtu: self.netdev_mtu(0, rail.a.netdev.as_deref()),
            gid_a: first(0).unwrap_or_default(),
            gid_b: first(1).unwrap_or_default(),
            gid_type: "TCP".into(),
            why: format!("TCP on the interfaces of {}", rail.name),
            ..Path::default()
        }
    }

    /// Sockets by whatever route there is.
    fn tcp_over_route(&self, case: &Case) -> Path {
        let first = |host| self.listen(case, host).first().map(SocketAddr::ip);
        let (a, b) = (first(0), first(1));
        let netdev = a.map(|address| self.netdev(0, address));
        let why = match (self.data_addresses, a.is_some_and(|a| a.is_loopback())) {
            ([None, None], true) => "both agents are on one machine: loopback".into(),
            ([None, None], false) => {
                "no rail has an address for sockets: the route between the hosts, which may be the \
                 management network"
                    .to_string()
            }
            _ => "the address given with addr=".into(),
        };
        Path {
            mtu: self.netdev_mtu(0, netdev.as_deref()),
            gid_a: a.map(|a| a.to_string()).unwrap_or_default(),
            gid_b: b.map(|b| b.to_string()).unwrap_or_default(),
            gid_type: "TCP".into(),
            why,
            ..Path::default()
        }
    }

    /// Interface of an address of `host`; the address itself when it is none of its own.
    fn netdev(&self, host: usize, address: IpAddr) -> String {
        let own = self.facts[host].calls.addresses.iter().find(|a| a.address == address);
        own.map_or_else(|| address.to_string(), |a| a.netdev.clone())
    }

    /// MTU of an interface of `host` in bytes; 0 when unknown.
    fn netdev_mtu(&self, host: usize, netdev: Option<&str>) -> u32 {
        netdev
            .and_then(|n| self.facts[host].snapshot.text(&format!("/sys/class/net/{n}/mtu")))
            .and_then(|mtu| mtu.parse().ok())
            .unwrap_or(0)
    }
}

/// Of a node's CPUs those for measuring threads: the control thread keeps the last that the agent may
/// use, where there are enough.
pub fn measuring(cpus: &[u32], facts: &HostFacts) -> Vec<u32> {
    const ENOUGH: usize = 4;
    let control = facts.calls.cpus.last().filter(|_| cpus.len() >= ENOUGH);
    cpus.iter().filter(|cpu| Some(*cpu) != control).copied().collect()
}

/// Needs a scope, so it cannot be handed to another host.
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Both addresses are of one family and in one subnet by the shorter prefix.
pub fn same_subnet(a: &InterfaceAddress, b: &InterfaceAddress) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let ((x, family), (y, other)) = (bits(a.address), bits(b.address));
    let prefix = u32::from(a.prefix_len.min(b.prefix_len));
    let mask = if prefix == 0 { 0 } else { u128::MAX << (128 - prefix) };
    family == other && x & mask == y & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(addresses: &[(&str, &str)], boot: &str) -> HostFacts {
        let mut facts = HostFacts::default();
        facts.calls.addresses = addresses
            .iter()
            .map(|(netdev, text)| {
                let (address, prefix) = text.split_once('/').unwrap();
                InterfaceAddress {
                    netdev: (*netdev).into(),
                    address: address.parse().unwrap(),
                    prefix_len: prefix.parse().unwrap(),
                }
            })
            .collect();
        facts.snapshot.entries.insert(
            "/proc/sys/kernel/random/boot_id".into(),
            fabbench_harness::snapshot::Entry::Text(boot.into()),
        );
        facts
    }

    fn paths<'a>(a: &'a HostFacts, b: &'a HostFacts) -> Paths<'a> {
        Paths {
            facts: [a, b],
            names: ["a", "b"],
            data_addresses: [None; 2],
            rails: &[],
            service: (0, 0),
        }
    }

    #[test]
    fn an_address_that_both_hosts_have_is_no_way_between_them() {
        let a = facts(&[("eth9", "10.0.2.15/24"), ("eth0", "192.168.7.1/24")], "one");
        let b = facts(
            &[("eth9", "10.0.2.15/24"), ("ib", "172.30.0.2/16"), ("eth0", "192.168.7.2/24")],
            "two",
        );
        let b_addresses: Vec<String> =
            paths(&a, &b).reachable(1).iter().map(ToString::to_string).collect();
        assert_eq!(b_addresses, ["192.168.7.2", "172.30.0.2"]);
    }

    fn case(transport: Transport) -> Case {
        let (window_ns, interval_ns) = fabbench_harness::plan::in_intervals(1_000_000_000);
        Case {
            id: "case".into(),
            test: fabbench_harness::plan::Test::Bandwidth,
            transport,
            op: fabbench_harness::plan::Op::Stream,
            size_bytes: 8,
            direction: fabbench_harness::plan::Direction::AToB,
            rail: None,
            loopback: None,
            retest_of: None,
            knobs: fabbench_harness::plan::Knobs {
                qps: 1,
                threads: 1,
                tx_depth: 1,
                rx_depth: 1,
                inline: None,
                signal_every: 1,
                warmup_ns: 0,
                window_ns,
                interval_ns,
                repeats: 1,
                rounds: None,
                volume_bytes: 0,
                tuning: Default::default(),
            },
        }
    }

    #[test]
    fn measuring_threads_leave_a_cpu_to_the_control_thread_where_there_are_enough() {
        let mut facts = facts(&[], "one");
        facts.calls.cpus = vec![0, 1, 2, 3];
        assert_eq!(measuring(&[0, 1, 2, 3], &facts), [0, 1, 2]);
        assert_eq!(measuring(&[2, 3], &facts), [2, 3]);
        facts.snapshot.entries.insert(
            "/sys/devices/system/node/node1/cpulist".into(),
            fabbench_harness::snapshot::Entry::Text("2-3".into()),
        );
        let mut case = case(Transport::Tcp);
        assert!(paths(&facts, &facts).placed(&case, 0).cpu_set.is_empty(), "no rail, no node");
        case.knobs.tuning.numa_node = Some(1);
        assert_eq!(paths(&facts, &facts).placed(&case, 1).cpu_set, [2, 3]);
    }

    #[test]
    fn agents_on_one_machine_meet_on_loopback() {
        let a = facts(&[("lo", "127.0.0.1/8"), ("eth0", "10.0.0.1/24")], "one");
        let (paths, case) = (paths(&a, &a), case(Transport::Tcp));
        assert_eq!(paths.listen(&case, 1), ["127.0.0.1:0".parse().unwrap()]);
        assert_eq!(paths.end(&case, 0), "a/lo");
        assert_eq!(paths.describe(&case).why, "both agents are on one machine: loopback");
    }

    #[test]
    fn an_address_that_was_given_comes_first_and_once() {
        let a = facts(&[("eth0", "10.0.0.1/24"), ("eth1", "10.1.0.1/24")], "one");
        let b = facts(&[("eth0", "10.0.0.2/24"), ("eth1", "10.1.0.2/24")], "two");
        let given = "10.1.0.2".parse().unwrap();
        let paths = Paths { data_addresses: [None, Some(given)], ..paths(&a, &b) };
        let case = case(Transport::Tcp);
        let listens: Vec<IpAddr> = paths.listen(&case, 1).iter().map(SocketAddr::ip).collect();
        assert_eq!(listens, [given, "10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(paths.end(&case, 1), "b/eth1");
        assert_eq!(paths.describe(&case).why, "the address given with addr=");
        assert!(paths.bind(&case, 0).is_empty(), "no rail binds it");
    }

    #[test]
    fn a_route_that_nobody_chose_is_told_to_be_one() {
        let a = facts(&[("eth0", "10.0.0.1/24")], "one");
        let b = facts(&[("eth0", "10.0.0.2/24")], "two");
        let why = paths(&a, &b).describe(&case(Transport::Tcp)).why;
        assert!(why.contains("which may be the management network"), "{why}");
    }

    #[test]
    fn an_address_of_nobodys_interface_names_itself() {
        let a = facts(&[("eth0", "10.0.0.1/24")], "one");
        let b = facts(&[("eth0", "10.0.0.2/24")], "two");
        let given = "192.0.2.9".parse().unwrap();
        let paths = Paths { data_addresses: [Some(given), None], ..paths(&a, &b) };
        assert_eq!(paths.end(&case(Transport::Tcp), 0), "a/192.0.2.9");
    }

    #[test]
    fn subnets_are_compared_by_prefix_and_family() {
        let at = |text: &str| facts(&[("x", text)], "").calls.addresses[0].clone();
        assert!(same_subnet(&at("10.1.0.1/16"), &at("10.1.255.9/16")));
        assert!(!same_subnet(&at("10.1.0.1/16"), &at("10.2.0.1/16")));
        assert!(!same_subnet(&at("10.1.0.1/16"), &at("fd00::1/64")));
        assert!(same_subnet(&at("fd00::1/64"), &at("fd00::2/64")));
    }
}
