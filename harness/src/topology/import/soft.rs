//! Software RDMA (Soft-RoCE, Soft-iWARP): no function of its own; its network interface has one.

use std::collections::BTreeMap;

use super::sysfs::{INFINIBAND, ports};
use crate::facts::view::View;
use crate::topology::bdf::Bdf;
use crate::topology::model::{SoftHca, Topology};

/// Notes each software device with the function that its network interface is on. It is no HCA: data
/// of GPU memory would pass through the processor.
pub(super) fn add(view: &View, placed: &BTreeMap<Bdf, usize>, topology: &mut Topology) {
    for name in view.children(INFINIBAND) {
        let root = format!("{INFINIBAND}/{name}");
        if !view.link(&root).is_some_and(|path| path.contains("/virtual/")) {
            continue;
        }
        let Some(netdev) = view.text(&format!("{root}/parent")) else { continue };
        let Some(place) = view.link(&format!("/sys/class/net/{netdev}")) else { continue };
        let bdf = place.rsplit('/').find_map(|part| part.parse::<Bdf>().ok());
        if let Some(&node) = bdf.and_then(|bdf| placed.get(&bdf)) {
            let ports = ports(view, &root, &name);
            topology.soft.push(SoftHca { node, netdev: netdev.to_owned(), ports });
        }
    }
}
