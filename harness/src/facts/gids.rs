//! GID tables, from the verbs library or from sysfs.

use std::net::Ipv6Addr;

use super::view::View;
use super::{INFINIBAND, verbs_port};
use crate::snapshot::{GidFact, GidKind, HostFacts};

/// Usable entries of a port's GID table by index: readable and not zero.
pub fn gid_table(facts: &HostFacts, device: &str, port: u8) -> Vec<GidFact> {
    let view = View::new(&facts.snapshot);
    let root = format!("{INFINIBAND}/{device}/ports/{port}");
    let asked = verbs_port(facts, device, port).map(|port| port.gids.clone()).unwrap_or_default();
    let mut table = if asked.is_empty() { from_sysfs(&view, &root) } else { asked };
    for gid in table.iter_mut().filter(|gid| gid.netdev.is_none()) {
        gid.netdev = netdev(&view, &root, gid.index);
    }
    table.retain(|gid| !gid.gid.is_unspecified());
    table.sort_by_key(|gid| gid.index);
    table
}

/// The word of a GID type in reports.
pub fn kind_word(kind: GidKind) -> &'static str {
    match kind {
        GidKind::Ib => "IB",
        GidKind::RoceV1 => "RoCE v1",
        GidKind::RoceV2 => "RoCE v2",
    }
}

fn from_sysfs(view: &View, root: &str) -> Vec<GidFact> {
    let infiniband = view.text(&format!("{root}/link_layer")) == Some("InfiniBand");
    let indexes = view.children(&format!("{root}/gids"));
    let entry = |index: &String| {
        let index: u32 = index.parse().ok()?;
        let gid: Ipv6Addr = view.number(&format!("{root}/gids/{index}"))?;
        let kind = match view.text(&format!("{root}/gid_attrs/types/{index}")) {
            _ if infiniband => GidKind::Ib,
            Some("RoCE v2") => GidKind::RoceV2,
            // The kernel has one word, "IB/RoCE v1", for both; the link layer tells them apart.
            Some(_) => GidKind::RoceV1,
            None => return None,
        };
        Some(GidFact { index, gid, kind, netdev: None })
    };
    indexes.iter().filter_map(entry).collect()
}

fn netdev(view: &View, root: &str, index: u32) -> Option<String> {
    view.text(&format!("{root}/gid_attrs/ndevs/{index}")).map(str::to_owned)
}
