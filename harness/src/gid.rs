//! Which GIDs, headers and path MTU two ports use to reach each other.
//!
//! The pair is resolved together: indexes may differ, the type may not.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::facts::kind_word;
use crate::line_rate::Wire;
use crate::snapshot::{GidFact, GidKind, InterfaceAddress};

/// One end of a path that is to be resolved.
#[derive(Debug, Clone, Copy)]
pub struct GidEnd<'a> {
    /// The port as `host/dev:port`, for messages.
    pub name: &'a str,
    /// Its GID table without all-zero and unreadable entries.
    pub gids: &'a [GidFact],
    /// Addresses of the host, which tell how long a subnet's prefix is.
    pub addresses: &'a [InterfaceAddress],
    /// Data address that the user wants this end to use, if any.
    pub wanted: Option<IpAddr>,
    /// GID index that the user forces, if any.
    pub forced: Option<u32>,
}

/// The GIDs of a path and how it is addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidPair {
    /// Entry of the first end's table.
    pub a: GidFact,
    /// Entry of the second end's table.
    pub b: GidFact,
    /// Type of both.
    pub kind: GidKind,
    /// Packets carry a global route header: always on RoCE, across subnets on InfiniBand.
    pub grh: bool,
    /// Both are addresses of one subnet, so that they belong to the same rail.
    pub same_subnet: bool,
    /// What may go wrong with this choice.
    pub warnings: Vec<String>,
    /// Why these two.
    pub why: String,
}

impl GidPair {
    /// How packets of this path look on the wire.
    pub fn wire(&self) -> Wire {
        match (self.kind, self.grh, self.a.gid.to_ipv4_mapped().is_some()) {
            (GidKind::Ib, false, _) => Wire::InfiniBand,
            (GidKind::Ib, true, _) => Wire::InfiniBandGrh,
            (GidKind::RoceV1, _, _) => Wire::RoceV1,
            (GidKind::RoceV2, _, true) => Wire::RoceV2Ipv4,
            (GidKind::RoceV2, _, false) => Wire::RoceV2Ipv6,
        }
    }

    /// The words of [`fabbench_reports::model::Path::gid_type`].
    pub fn type_words(&self) -> &'static str {
        match (self.kind, self.grh) {
            (GidKind::Ib, false) => "IB LID",
            (GidKind::Ib, true) => "IB GRH",
            (kind, _) => kind_word(kind),
        }
    }
}

/// Why two ports have no common GIDs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GidError {
    /// A table without a usable entry.
    #[error(
        "{port} has no usable GID (netns? no IP?): give its interface an IP address and bring it \
         up, in the network namespace of this process"
    )]
    Empty {
        /// `host/dev:port`.
        port: String,
    },
    /// The forced index is not in the table.
    #[error("{port} has no usable GID at index {index}; it has {present}")]
    NoIndex {
        /// `host/dev:port`.
        port: String,
        /// As forced.
        index: u32,
        /// Indexes with their types and addresses.
        present: String,
    },
    /// No entry of the table has the address that the user wants.
    #[error("{port} has no GID for the address {address}; it has {present}")]
    NoAddress {
        /// `host/dev:port`.
        port: String,
        /// As wanted.
        address: IpAddr,
        /// Indexes with their types and addresses.
        present: String,
    },
    /// Tables, but nothing in common.
    #[error(
        "{a} and {b} have no GIDs of one type and address family: {a} has {table_a}; {b} has \
         {table_b}; configure IPv4 addresses on both interfaces"
    )]
    NothingCommon {
        /// `host/dev:port`.
        a: String,
        /// `host/dev:port`.
        b: String,
        /// First table.
        table_a: String,
        /// Second table.
        table_b: String,
    },
}

/// Chooses the GIDs of both ends of a path.
///
/// Best first: RoCE v2 with IPv4 addresses of one subnet; RoCE v2 with other IPv4 addresses, with
/// global or unique-local IPv6, with link-local; RoCE v1 in the same order, only without a common
/// v2 entry; InfiniBand by LID, with a route header across subnets.
pub fn choose(a: &GidEnd, b: &GidEnd) -> Result<GidPair, GidError> {
    let (left, right) = (candidates(a)?, candidates(b)?);
    let forced = a.forced.is_some() || b.forced.is_some();
    let pairs = left.iter().flat_map(|x| right.iter().map(move |y| (*x, *y)));
    let ranked = pairs.filter_map(|(x, y)| Some((class(x, y, a, b, forced)?, x, y)));
    let best = ranked.min_by_key(|(class, x, y)| (*class, x.index, y.index));
    let (class, x, y) = best.ok_or_else(|| nothing_common(a, b))?;
    Ok(pair(class, x, y, a, b))
}

/// Path MTU of a pair and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMtu {
    /// Bytes of payload per packet.
    pub bytes: u32,
    /// Each end's MTU that could be raised, with the gain.
    pub warnings: Vec<String>,
}

/// The path MTU: the smallest of both active MTUs and the user's; MTUs in bytes, 0 for unknown
/// (then 1024, which every port can). `names` are the ports as `host/dev:port`.
pub fn path_mtu(names: [&str; 2], active: [u32; 2], user: Option<u32>, wire: Wire) -> PathMtu {
    let known = active.map(|mtu| if mtu == 0 { 1024 } else { mtu });
    let active_path = known[0].min(known[1]);
    let bytes = active_path.min(user.map_or(u32::MAX, legal_mtu));
    let remedy = match wire {
        Wire::InfiniBand | Wire::InfiniBandGrh => "raise the subnet's MTU in the subnet manager",
        _ => "set the interface MTU to 4200 or more at both ends and on the switches",
    };
    let gain = |to: u32| wire.mtu_gain_percent(bytes, to);
    let mut warnings = Vec::new();
    if bytes < active_path {
        warnings.push(format!(
            "path MTU {bytes} B as asked; the ports could do {active_path} B, up to {:.1} % more \
             payload",
            gain(active_path)
        ));
    } else if known[0] != known[1] {
        warnings.push(format!(
            "MTUs differ: {} has {} B, {} has {} B; the path works at {bytes} B, {} B would carry \
             up to {:.1} % more payload: {remedy}",
            names[0],
            known[0],
            names[1],
            known[1],
            known[0].max(known[1]),
            gain(known[0].max(known[1]))
        ));
    } else if bytes < 4096 {
        warnings.push(format!(
            "path MTU {bytes} B; 4096 B would carry up to {:.1} % more payload: {remedy}",
            gain(4096)
        ));
    }
    PathMtu { bytes, warnings }
}

/// The largest path MTU that is not above `mtu`: 256, 512, 1024, 2048 or 4096.
pub fn legal_mtu(mtu: u32) -> u32 {
    [4096, 2048, 1024, 512].into_iter().find(|legal| *legal <= mtu).unwrap_or(256)
}

/// Whether an entry cannot be used although it stands in the table: a port has a link-local RoCE v2
/// entry made from its MAC even where no interface carries that address, and then nothing routes.
/// `addresses` are all of the host; none known says nothing.
pub fn is_without_address(gid: &GidFact, addresses: &[InterfaceAddress]) -> bool {
    gid.kind == GidKind::RoceV2
        && gid.gid.is_unicast_link_local()
        && !addresses.is_empty()
        && !addresses.iter().any(|own| own.address == IpAddr::V6(gid.gid))
}

/// How good a pair of entries is; the smallest is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    kind: KindRank,
    family: Family,
    other_subnet: bool,
    prefix: Reverse<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KindRank {
    V2,
    V1,
    Ib,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Ipv4,
    Ipv6,
    LinkLocal,
}

fn candidates<'a>(end: &GidEnd<'a>) -> Result<Vec<&'a GidFact>, GidError> {
    let usable = |gid: &&GidFact| {
        let insisted = end.forced == Some(gid.index);
        !gid.gid.is_unspecified() && (insisted || !is_without_address(gid, end.addresses))
    };
    let all: Vec<_> = end.gids.iter().filter(usable).collect();
    let port = || end.name.to_owned();
    if all.is_empty() {
        return Err(GidError::Empty { port: port() });
    }
    let picked = |wanted: &dyn Fn(&GidFact) -> bool| -> Vec<_> {
        all.iter().copied().filter(|gid| wanted(gid)).collect()
    };
    if let Some(index) = end.forced {
        let found = picked(&|gid| gid.index == index);
        let missing = || GidError::NoIndex { port: port(), index, present: table_words(end.gids) };
        return if found.is_empty() { Err(missing()) } else { Ok(found) };
    }
    match end.wanted {
        // A data address names an IP; InfiniBand's entries hold none.
        Some(address) if all.iter().any(|gid| gid.kind != GidKind::Ib) => {
            let found = picked(&|gid| ip_of(gid.gid) == address.to_canonical());
            let present = table_words(end.gids);
            let missing = || GidError::NoAddress { port: port(), address, present };
            if found.is_empty() { Err(missing()) } else { Ok(found) }
        }
        _ => Ok(all),
    }
}

fn class(x: &GidFact, y: &GidFact, a: &GidEnd, b: &GidEnd, forced: bool) -> Option<Class> {
    if x.kind != y.kind {
        return None;
    }
    let kind = match x.kind {
        GidKind::RoceV2 => KindRank::V2,
        GidKind::RoceV1 => KindRank::V1,
        GidKind::Ib => KindRank::Ib,
    };
    if x.kind == GidKind::Ib {
        let other_subnet = subnet_prefix(x.gid) != subnet_prefix(y.gid);
        return Some(Class { kind, family: Family::Ipv6, other_subnet, prefix: Reverse(0) });
    }
    let family = match (family(x.gid), family(y.gid)) {
        (x, y) if x == y => x,
        // Between IPv4 and IPv6 there is no way; between scopes of IPv6 the user may insist.
        (Family::Ipv4, _) | (_, Family::Ipv4) => return None,
        _ if forced => Family::LinkLocal,
        _ => return None,
    };
    let shared = shared_prefix(x, y, a.addresses, b.addresses);
    let prefix = Reverse(shared.unwrap_or(0));
    Some(Class { kind, family, other_subnet: shared.is_none(), prefix })
}

fn pair(class: Class, x: &GidFact, y: &GidFact, a: &GidEnd, b: &GidEnd) -> GidPair {
    let forced = a.forced.is_some() || b.forced.is_some();
    let grh = x.kind != GidKind::Ib || class.other_subnet || forced;
    let mut why = match (x.kind, class.family) {
        (GidKind::Ib, _) if class.other_subnet => {
            "InfiniBand with a route header: the ports are in different subnets".to_owned()
        }
        (GidKind::Ib, _) if forced => "InfiniBand with a route header, as asked".to_owned(),
        (GidKind::Ib, _) => "InfiniBand addressed by LID: one subnet".to_owned(),
        (kind, family) => format!("{}, {}", kind_word(kind), address_words(family, &class)),
    };
    if !forced {
        why += better(&class);
    }
    for end in [a, b] {
        if let Some(index) = end.forced {
            why += &format!("; index {index} of {} forced by the user", end.name);
        } else if let Some(address) = end.wanted.filter(|_| x.kind != GidKind::Ib) {
            why += &format!("; {address} of {} asked for by the user", end.name);
        }
    }
    let same_subnet = !class.other_subnet && class.family != Family::LinkLocal;
    let warnings = warnings(&class);
    GidPair { a: x.clone(), b: y.clone(), kind: x.kind, grh, same_subnet, warnings, why }
}

fn address_words(family: Family, class: &Class) -> &'static str {
    match (family, class.other_subnet) {
        (Family::Ipv4, false) => "IPv4 addresses of one subnet",
        (Family::Ipv4, true) => "IPv4 addresses of different subnets",
        (Family::Ipv6, false) => "IPv6 addresses of one subnet",
        (Family::Ipv6, true) => "IPv6 addresses",
        (Family::LinkLocal, _) => "link-local addresses",
    }
}

/// What was looked for before this class was taken.
fn better(class: &Class) -> &'static str {
    match (class.kind, class.family) {
        (KindRank::Ib, _) | (_, Family::Ipv4) => "",
        (_, Family::Ipv6) => "; no common IPv4",
        (_, Family::LinkLocal) => "; nothing better is common",
    }
}

fn warnings(class: &Class) -> Vec<String> {
    let mut warnings = Vec::new();
    if class.kind == KindRank::V1 {
        warnings.push(
            "RoCE v1: no common RoCE v2 GID; not routable, and switches see no IP header"
                .to_owned(),
        );
    }
    if class.kind != KindRank::Ib && class.family == Family::LinkLocal {
        warnings.push(
            "link-local, not routable: works only when both ends share one Ethernet segment"
                .to_owned(),
        );
    }
    warnings
}

/// Length of the prefix of the subnet that both addresses are in; none when they share none.
fn shared_prefix(
    x: &GidFact,
    y: &GidFact,
    of_a: &[InterfaceAddress],
    of_b: &[InterfaceAddress],
) -> Option<u8> {
    // Used where the host did not tell its prefixes; rails are nearly always numbered so.
    let (default, width) = if x.gid.to_ipv4_mapped().is_some() { (24, 32) } else { (64, 128) };
    let (left, right) = (prefix_len(x, of_a), prefix_len(y, of_b));
    let length = match (left, right) {
        // Both ends must see the other in their own subnet: the longer prefix decides.
        (Some(left), Some(right)) => left.max(right),
        (one, other) => one.or(other).unwrap_or(default),
    };
    let keep = |gid: Ipv6Addr| {
        let bits = match gid.to_ipv4_mapped() {
            Some(ipv4) => u128::from(ipv4.to_bits()),
            None => gid.to_bits(),
        };
        bits.checked_shr(u32::from(width - length.min(width))).unwrap_or(0)
    };
    (keep(x.gid) == keep(y.gid)).then_some(length)
}

fn prefix_len(gid: &GidFact, addresses: &[InterfaceAddress]) -> Option<u8> {
    let own = |entry: &&InterfaceAddress| {
        entry.address.to_canonical() == ip_of(gid.gid)
            && gid.netdev.as_ref().is_none_or(|netdev| *netdev == entry.netdev)
    };
    addresses.iter().find(own).map(|entry| entry.prefix_len)
}

fn ip_of(gid: Ipv6Addr) -> IpAddr {
    IpAddr::V6(gid).to_canonical()
}

fn family(gid: Ipv6Addr) -> Family {
    if gid.to_ipv4_mapped().is_some_and(|ipv4| ipv4 != Ipv4Addr::UNSPECIFIED) {
        Family::Ipv4
    } else if gid.is_unicast_link_local() {
        Family::LinkLocal
    } else {
        Family::Ipv6
    }
}

fn subnet_prefix(gid: Ipv6Addr) -> u64 {
    (gid.to_bits() >> 64) as u64
}

fn nothing_common(a: &GidEnd, b: &GidEnd) -> GidError {
    GidError::NothingCommon {
        a: a.name.to_owned(),
        b: b.name.to_owned(),
        table_a: table_words(a.gids),
        table_b: table_words(b.gids),
    }
}

fn table_words(gids: &[GidFact]) -> String {
    let words = gids
        .iter()
        .map(|gid| format!("{} ({} {})", gid.index, kind_word(gid.kind), ip_of(gid.gid)));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
