//! Where ranks listen for each other.

use std::net::{IpAddr, SocketAddr};

use fabbench_harness::facts::same_machine;
use fabbench_harness::snapshot::HostFacts;

use crate::commands::run::paths::{is_link_local, same_subnet};
use crate::session::HostSpec;

/// Addresses by host, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Vec<Vec<IpAddr>>);

impl Places {
    /// Where ranks of `host` listen; port 0 takes a free one.
    pub fn listen(&self, host: usize) -> Vec<SocketAddr> {
        self.0[host].iter().map(|address| SocketAddr::new(*address, 0)).collect()
    }

    /// The address that others try first.
    pub fn first(&self, host: usize) -> Option<IpAddr> {
        self.0[host].first().copied()
    }
}

/// What was given with `addr=`; loopback when all agents are on one machine; else what the others
/// have a common subnet for, then the rest. An address that another machine calls its own as well
/// (NATed guests) leads nowhere and is left out.
pub fn listen(specs: &[HostSpec], facts: &[HostFacts]) -> Places {
    let together = facts.iter().all(|other| same_machine(&facts[0], other));
    let of_host = |host: usize| match specs[host].data_address {
        Some(address) => vec![address],
        None if together => vec![IpAddr::from([127, 0, 0, 1])],
        None => reachable(facts, host),
    };
    Places((0..specs.len()).map(of_host).collect())
}

fn reachable(facts: &[HostFacts], host: usize) -> Vec<IpAddr> {
    let own = &facts[host];
    let others = || facts.iter().filter(|other| !same_machine(own, other));
    let elsewhere =
        |address: IpAddr| others().any(|o| o.calls.addresses.iter().any(|a| a.address == address));
    let mut usable: Vec<_> = own
        .calls
        .addresses
        .iter()
        .filter(|a| !a.address.is_loopback() && !is_link_local(a.address))
        .filter(|a| !elsewhere(a.address))
        .collect();
    usable.sort_by_key(|a| {
        let near = |o: &&HostFacts| o.calls.addresses.iter().any(|other| same_subnet(a, other));
        std::cmp::Reverse(others().filter(near).count())
    });
    usable.into_iter().map(|a| a.address).collect()
}
