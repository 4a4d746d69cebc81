//! Which port of one host is measured against which of the other.

mod matching;
mod select;

use std::net::IpAddr;

use fabbench_reports::model::{Host, NotMeasured, Path, Rail};

use crate::facts::{rdma_problem, same_machine};
use crate::gid::{GidPair, PathMtu};
use crate::limits::LinkSpeed;
use crate::possible::PathLimits;
use crate::snapshot::{GidFact, HostFacts};

pub use matching::match_rails;
pub use select::{DeviceFilter, PortName, SelectError, parse_map};

/// One host of the pair.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// What its agent saw.
    pub facts: &'a HostFacts,
    /// What [`crate::facts::host`] made of it; its name stands in messages.
    pub host: &'a Host,
    /// The address that the user gave with `addr=`, if any.
    pub data_address: Option<IpAddr>,
}

/// What the user asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Devices of the first host.
    pub devices_a: Option<DeviceFilter>,
    /// Devices of the second host.
    pub devices_b: Option<DeviceFilter>,
    /// Rails by name; goes before everything else.
    pub map: Option<Vec<(PortName, PortName)>>,
    /// GID index forced on the first host.
    pub gid_index_a: Option<u32>,
    /// GID index forced on the second host.
    pub gid_index_b: Option<u32>,
    /// Largest path MTU in bytes.
    pub mtu: Option<u32>,
    /// Rate of the links as the user declares it, bit/s.
    pub declared_bps: Option<u64>,
}

/// The rails of a pair, and the ports that are on none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RailMap {
    /// `rail0`, `rail1`, … in the first host's order.
    pub rails: Vec<PairRail>,
    /// What was left out, and why.
    pub unmatched: Vec<Unmatched>,
}

impl RailMap {
    /// The ports on no rail, for a report.
    pub fn not_measured(&self) -> Vec<NotMeasured> {
        let entry = |left: &Unmatched| NotMeasured {
            what: left.object.clone(),
            why: left.why.clone(),
            asked: left.named,
        };
        self.unmatched.iter().map(entry).collect()
    }

    /// Why no RDMA can be measured between two hosts, with the next step; none when it can.
    pub fn no_rdma(&self, a: &Party, b: &Party) -> Option<NotMeasured> {
        if !self.rails.is_empty() {
            return None;
        }
        let of_host = |party: &Party| {
            let problem = rdma_problem(party.facts)?;
            let told = problem.starts_with(&format!("{}:", party.host.name));
            Some(if told { problem } else { format!("{}: {problem}", party.host.name) })
        };
        let mut problems: Vec<_> = [a, b].into_iter().filter_map(of_host).collect();
        if same_machine(a.facts, b.facts) {
            problems.truncate(1);
        }
        if problems.is_empty() {
            problems.extend(self.unmatched.iter().map(|left| left.why.clone()));
            problems.dedup();
        }
        let tail = "or measure the TCP baseline alone with --transport tcp";
        let why = format!("{}; {tail}", problems.join("; "));
        Some(NotMeasured { what: "RDMA".to_owned(), why, asked: true })
    }
}

/// A port that is on no rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    /// `host/dev:port`.
    pub object: String,
    /// Why, with the next step where there is one.
    pub why: String,
    /// The user named it, so that the run is incomplete without it.
    pub named: bool,
}

/// Two ports that belong together, and how they reach each other.
#[derive(Debug, Clone, PartialEq)]
pub struct PairRail {
    /// `rail0`, …
    pub name: String,
    /// Port of the first host.
    pub a: RailEnd,
    /// Port of the second host.
    pub b: RailEnd,
    /// Addressing.
    pub gids: GidPair,
    /// Path MTU and remarks on it.
    pub mtu: PathMtu,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// What is known of its rate: the slower end's.
    pub speed: LinkSpeed,
    /// Why these two belong together.
    pub why: String,
    /// Remarks of addressing, MTU and rate.
    pub warnings: Vec<String>,
}

impl PairRail {
    /// As it stands in a report; `proved` once data crossed it.
    pub fn report(&self, proved: bool) -> Rail {
        Rail {
            name: self.name.clone(),
            a: self.a.label.clone(),
            b: self.b.label.clone(),
            why: self.why.clone(),
            proved,
        }
    }

    /// One end (0 for the first host's) as a rail to itself.
    pub fn against_itself(&self, host: usize) -> PairRail {
        let (end, gid) = if host == 0 { (&self.a, &self.gids.a) } else { (&self.b, &self.gids.b) };
        PairRail {
            a: end.clone(),
            b: end.clone(),
            gids: GidPair { a: gid.clone(), b: gid.clone(), ..self.gids.clone() },
            why: format!("{} against itself: nothing leaves the host", end.label),
            ..self.clone()
        }
    }

    /// The way of a verbs case over this rail.
    pub fn path(&self) -> Path {
        let gid = |gid: &GidFact| format!("{} {}", gid.index, gid.gid);
        Path {
            rail: self.name.clone(),
            mtu: self.mtu.bytes,
            gid_a: gid(&self.gids.a),
            gid_b: gid(&self.gids.b),
            gid_type: self.gids.type_words().to_owned(),
            why: format!("{}; {}", self.why, self.gids.why),
            ..Path::default()
        }
    }

    /// Whether sockets can be opened along this rail.
    pub fn has_tcp(&self) -> bool {
        !self.a.addresses.is_empty() && !self.b.addresses.is_empty()
    }

    /// Largest message that both ends take in bytes; none when neither said.
    pub fn max_message_bytes(&self) -> Option<u64> {
        [self.a.max_message_bytes, self.b.max_message_bytes].into_iter().flatten().min()
    }

    /// What can be carried along it.
    pub fn limits(&self) -> PathLimits {
        PathLimits {
            max_message_bytes: self.max_message_bytes(),
            mtu: Some(self.mtu.bytes),
            atomics: [self.a.atomics, self.b.atomics].into_iter().flatten().reduce(|a, b| a && b),
        }
    }
}

/// One end of a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailEnd {
    /// Name of the host.
    pub host: String,
    /// Device.
    pub device: String,
    /// Port, from 1.
    pub port: u8,
    /// `host/dev:port`.
    pub label: String,
    /// True for a software device.
    pub soft: bool,
    /// InfiniBand local id.
    pub lid: u16,
    /// Interface that shares the port.
    pub netdev: Option<String>,
    /// NUMA node of the adapter.
    pub numa_node: Option<u32>,
    /// Addresses for sockets along this rail, best first: the GID's own, then the interface's;
    /// empty when the port has none. Link-local ones are left out, since they need a scope.
    pub addresses: Vec<IpAddr>,
    /// Largest message of the port in bytes, where known.
    pub max_message_bytes: Option<u64>,
    /// Whether the device does atomic operations, where known.
    pub atomics: Option<bool>,
}

/// Why rails cannot be laid as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// The user named a device or a port that is not there.
    #[error("{host} has no {named}: it has {present}")]
    Absent {
        /// Host.
        host: String,
        /// Device or port as named.
        named: String,
        /// What is there.
        present: String,
    },
    /// The excluded device is on neither host.
    #[error("^{named}: neither host has it: {present}")]
    NothingExcluded {
        /// As named.
        named: String,
        /// What is there.
        present: String,
    },
}

#[cfg(test)]
mod tests;
