//! Vital product data of network adapters: which DMA function belongs to which adapter, and which
//! adapters manage NVLink.

use super::sysfs::{PCI, config_bytes};
use crate::facts::view::View;
use crate::topology::devices::{self, Role};
use crate::topology::model::{Topology, Vpd};

/// Read-only keywords.
const READ_ONLY: u8 = 0x90;

/// Why an adapter of NVLink's management serves no GPU.
const NVLINK: &str = "manages NVLink (SW_MNG in its product data)";

/// Reads the product data that the snapshot holds, and joins Data Direct functions to the adapters
/// that share their keyword V3.
pub fn add(view: &View, topology: &mut Topology) {
    for node in &mut topology.nodes {
        let Some(bdf) = node.bdf else { continue };
        let Some(text) = view.text(&format!("{PCI}/{bdf}/vpd")) else { continue };
        let vpd = parse(&config_bytes(text));
        if let Some(hca) = node.hca.as_mut().filter(|_| vpd.nvlink_management) {
            hca.excluded.get_or_insert_with(|| NVLINK.into());
        }
        node.vpd = Some(vpd);
    }
    for at in 0..topology.nodes.len() {
        let Some(v3) = data_direct(topology, at) else { continue };
        for node in &mut topology.nodes {
            let same = node.vpd.as_ref().and_then(|vpd| vpd.v3.as_ref()) == Some(&v3);
            if let Some(hca) = node.hca.as_mut().filter(|_| same) {
                hca.data_direct.push(at);
            }
        }
    }
}

/// V3 of a DMA function.
fn data_direct(topology: &Topology, at: usize) -> Option<String> {
    let node = &topology.nodes[at];
    let role = devices::role(node.class.known()?, node.ids.pair());
    (role == Role::DataDirect).then(|| node.vpd.as_ref()?.v3.clone()).flatten()
}

/// Large resources (PCI specification, vital product data): tag, length, content; among the
/// read-only ones keywords of two letters with a length of one byte.
pub fn parse(data: &[u8]) -> Vpd {
    let mut vpd =
        Vpd { nvlink_management: data.windows(6).any(|part| part == b"SW_MNG"), ..Vpd::default() };
    let mut rest = data;
    while let [tag, low, high, after @ ..] = rest {
        // Small resources, the end tag among them, do not stand before what is looked for.
        if tag & 0x80 == 0 {
            break;
        }
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        if *tag == READ_ONLY {
            vpd.v3 = keyword(&after[..length], *b"V3");
        }
        rest = &after[length..];
    }
    vpd
}

fn keyword(mut items: &[u8], wanted: [u8; 2]) -> Option<String> {
    while let [a, b, length, after @ ..] = items {
        let length = usize::from(*length).min(after.len());
        if [*a, *b] == wanted {
            let text = std::str::from_utf8(&after[..length]).ok()?.trim_matches(['\0', ' ']);
            return (!text.is_empty()).then(|| text.to_owned());
        }
        items = &after[length..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(keywords: &[(&str, &str)]) -> Vec<u8> {
        let mut items = Vec::new();
        for (name, value) in keywords {
            items.extend(name.as_bytes());
            items.push(value.len() as u8);
            items.extend(value.as_bytes());
        }
        let mut data = vec![0x82, 4, 0, b'C', b'X', b'-', b'8', READ_ONLY, items.len() as u8, 0];
        data.extend(items);
        data.push(0x78);
        data
    }

    #[test]
    fn the_keyword_that_joins_functions_is_found() {
        let found = parse(&data(&[("PN", "900-9X81"), ("V3", "a1b2c3"), ("RV", "x")]));
        assert_eq!(found.v3.as_deref(), Some("a1b2c3"));
        assert!(!found.nvlink_management);
        assert!(parse(&data(&[("V0", "SW_MNG")])).nvlink_management);
    }

    #[test]
    fn damaged_data_end() {
        let whole = data(&[("V3", "a1b2c3")]);
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
        assert_eq!(parse(&[0x90, 0xff, 0xff, b'V', b'3', 200]), Vpd::default());
    }
}
