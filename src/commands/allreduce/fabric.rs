//! Ports by which ranks reach each other over verbs.

use fabbench_harness::facts::places::node_cpus;
use fabbench_harness::plan::Tuning;
use fabbench_harness::rails::{DeviceFilter, PairRail, Party, Selection, match_rails};
use fabbench_harness::snapshot::HostFacts;
use fabbench_reports::model::{Host, NotMeasured, Path};

use super::wanted::Wanted;
use crate::commands::CommandError;
use crate::commands::run::paths::measuring;
use crate::engine::collective::slots::Shape;
use crate::session::HostSpec;
use crate::session::protocol::{PortPath, VerbsPart};

/// Ports by host, one for each rank in turn.
#[derive(Debug)]
pub struct Fabric {
    ports: Vec<Vec<HostPort>>,
    /// From the first host to the second, for the report.
    path: Path,
    /// Slots and segments.
    pub shape: Shape,
    /// A software device is among them.
    pub soft: bool,
}

#[derive(Debug, Clone)]
struct HostPort {
    port: PortPath,
    label: String,
}

/// What a fabric is laid between.
pub struct Site<'a> {
    /// Hosts as typed.
    pub specs: &'a [HostSpec],
    /// What their agents saw.
    pub facts: &'a [HostFacts],
    /// What was made of that.
    pub hosts: &'a [Host],
}

impl Site<'_> {
    fn party(&self, i: usize) -> Party<'_> {
        let data_address = self.specs[i].data_address;
        Party { facts: &self.facts[i], host: &self.hosts[i], data_address }
    }
}

impl Fabric {
    /// Finds on every host the port that reaches the first host.
    ///
    /// # Errors
    /// Wrong usage: a device that is not there. Within: which host has no RDMA and what to do.
    pub fn lay(
        site: &Site,
        wanted: &Wanted,
    ) -> Result<Result<Fabric, Box<NotMeasured>>, CommandError> {
        let devices = wanted.devices().cloned();
        let selection =
            Selection { devices_a: devices.clone(), devices_b: devices, ..Selection::default() };
        let turns = match wanted.devices() {
            Some(DeviceFilter::Only(names)) => names.len(),
            _ => 1,
        };
        let mut rails: Vec<Vec<PairRail>> = Vec::new();
        for other in 1..site.specs.len().max(2) {
            let (a, b) = (site.party(0), site.party(other.min(site.specs.len() - 1)));
            let map = match match_rails(&a, &b, &selection) {
                Ok(map) => map,
                // A device that was named and is not there is wrong usage, unless none is there.
                Err(error) if site.hosts.iter().any(|host| !host.devices.is_empty()) => {
                    return Err(CommandError::usage(error.to_string()));
                }
                Err(_) => Default::default(),
            };
            if let Some(missing) = map.no_rdma(&a, &b) {
                return Ok(Err(Box::new(missing)));
            }
            rails.push(map.rails.into_iter().take(turns).collect());
        }
        Ok(Ok(Fabric::over(site, wanted, &rails)))
    }

    /// Over rails of the first host with each other one.
    fn over(site: &Site, wanted: &Wanted, rails: &[Vec<PairRail>]) -> Fabric {
        let all = || rails.iter().flatten();
        let mtu = all().map(|rail| rail.mtu.bytes).min().unwrap_or(1024);
        let first = rails[0].iter().map(|rail| port(site, 0, rail, mtu)).collect();
        let others = rails.iter().enumerate();
        let others = others
            .map(|(at, rails)| rails.iter().map(|rail| port(site, at + 1, rail, mtu)).collect());
        let ports: Vec<Vec<HostPort>> =
            std::iter::once(first).chain(others).take(site.specs.len()).collect();
        let rate = all().filter_map(|rail| rail.speed.rate_bps).min();
        let in_flight = all().filter_map(|rail| rail.speed.in_flight_bytes()).min();
        let sweep = wanted.common();
        // All ranks of a host share its link.
        let in_flight = in_flight.map(|bytes| bytes / most_together(&sweep.hosts));
        let channels = wanted.channels(rate);
        let shape = Shape::new(sweep.largest(), sweep.hosts.len(), channels, in_flight);
        let soft = all().any(|rail| rail.speed.soft);
        Fabric { ports, path: Path { mtu, ..rails[0][0].path() }, shape, soft }
    }

    /// What a rank has to know; `turn` counts the ranks of its host.
    pub fn part(&self, host: usize, turn: usize) -> VerbsPart {
        let ports = &self.ports[host];
        let port = ports[turn % ports.len()].port.clone();
        VerbsPart { port, shape: self.shape, counts: turn < ports.len() }
    }

    /// `host/dev:port` of a host's first port.
    pub fn label(&self, host: usize) -> String {
        self.ports[host][0].label.clone()
    }

    /// The way from the first host to the second.
    pub fn path(&self) -> Path {
        self.path.clone()
    }
}

/// Most ranks on one host.
fn most_together(hosts: &[usize]) -> u64 {
    let count = |host: &usize| hosts.iter().filter(|other| *other == host).count() as u64;
    hosts.iter().map(count).max().unwrap_or(1).max(1)
}

/// The end of a rail on a host: its second end for all but the first host.
fn port(site: &Site, host: usize, rail: &PairRail, mtu: u32) -> HostPort {
    let (end, gid) = if host == 0 { (&rail.a, &rail.gids.a) } else { (&rail.b, &rail.gids.b) };
    let facts = &site.facts[host.min(site.facts.len() - 1)];
    let cpus = end.numa_node.and_then(|node| node_cpus(facts, node));
    let tuning = Tuning {
        numa_node: end.numa_node,
        cpu_set: cpus.map(|cpus| measuring(&cpus, facts)).unwrap_or_default(),
        ..Tuning::default()
    };
    HostPort {
        port: PortPath {
            device: end.device.clone(),
            port: end.port,
            gid_index: gid.index,
            gid_kind: rail.gids.kind,
            grh: rail.gids.grh,
            mtu,
            sl: 0,
            traffic_class: 0,
            timeout: rail.speed.timeout(),
            max_in_flight_bytes: rail.speed.in_flight_bytes(),
            tuning,
        },
        label: end.label.clone(),
    }
}
