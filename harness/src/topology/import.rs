//! Readers: bytes of a capture → [`Topology`]. The format is found by the content alone.

mod archive;
mod hwloc;
mod lspci;
mod matrix;
mod nccl;
mod rdma_topo;
mod soft;
pub mod sysfs;
mod vpd;

use roxmltree::{Document, ParsingOptions};

use super::model::{Source, Topology};
use crate::snapshot::HostFacts;

/// Bytes taken of an input.
pub const INPUT_LIMIT: usize = 64 << 20;

/// Elements taken of an XML file.
const XML_NODES: u32 = 1_000_000;

/// Depth of nesting followed in an XML file; real machines stay below 20.
const DEPTH: usize = 64;

/// Functions taken of a machine.
const FUNCTIONS: usize = 65_536;

/// Why an input is no topology that can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A file that is known and is something else.
    #[error("{name}: {found}; {next}")]
    Refused {
        /// Name of the input.
        name: String,
        /// What it is.
        found: String,
        /// What to give instead.
        next: String,
    },
    /// A damaged file of a known format.
    #[error("{name}: damaged {format}: {what}; capture it again")]
    Damaged {
        /// Name of the input.
        name: String,
        /// Format by its first bytes.
        format: &'static str,
        /// What is wrong.
        what: String,
    },
}

/// What can be given, for messages.
const READABLE: &str = "give a NCCL or RCCL topology file (NCCL_TOPO_DUMP_FILE), an hwloc export \
(lstopo x.xml), a tar of /sys, the text of lspci -tv or of nvidia-smi topo -m, the JSON of rdma_topo dump, or what fabbench topo dump \
or fabbench devices --capture wrote";

/// Reads a capture; `name` is for messages.
pub fn read(name: &str, bytes: &[u8]) -> Result<Topology, ImportError> {
    let refused = |found: &str| ImportError::Refused {
        name: name.to_owned(),
        found: found.to_owned(),
        next: READABLE.to_owned(),
    };
    let damaged = |format: &'static str, what: String| ImportError::Damaged {
        name: name.to_owned(),
        format,
        what,
    };
    if bytes.len() > INPUT_LIMIT {
        return Err(refused("larger than 64 MiB"));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(refused("empty"));
    }
    if archive::is_archive(bytes) {
        let snapshot = archive::snapshot(bytes).map_err(|what| damaged("sysfs archive", what))?;
        return sysfs::read(&snapshot).map_err(|what| refused(&what));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(refused("neither text nor a tar archive"));
    };
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return xml(text).map_err(|error| match error {
            XmlError::Refused(what) => refused(&what),
            XmlError::Damaged(format, what) => damaged(format, what),
        });
    }
    if text.trim_start().starts_with('{') {
        let facts: HostFacts = serde_json::from_str(text)
            .map_err(|_| refused("JSON, and not that of fabbench devices --capture"))?;
        return sysfs::read(&facts.snapshot).map_err(|what| refused(&what));
    }
    if rdma_topo::is_dump(text) {
        let snapshot = rdma_topo::snapshot(text).map_err(|what| damaged("rdma_topo dump", what))?;
        let topology = sysfs::read(&snapshot).map_err(|what| refused(&what))?;
        return Ok(Topology { source: Source::RdmaTopo, ..topology });
    }
    if lspci::is_lspci(text) {
        return lspci::read(text).map_err(|what| damaged("lspci text", what));
    }
    if matrix::is_matrix(text) {
        return matrix::read(text).map_err(|what| damaged("nvidia-smi topo -m text", what));
    }
    Err(refused("no topology that fabbench can read"))
}

enum XmlError {
    Refused(String),
    Damaged(&'static str, String),
}

fn xml(text: &str) -> Result<Topology, XmlError> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    // The formats declare no entities: a file that does wants to expand.
    if text.contains("<!ENTITY") {
        return Err(XmlError::Refused("an XML file that declares entities".into()));
    }
    let nesting = nesting(text);
    if nesting > 4 * DEPTH {
        return Err(XmlError::Damaged("XML", format!("elements nested {nesting} deep")));
    }
    let options =
        ParsingOptions { allow_dtd: true, nodes_limit: XML_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| XmlError::Damaged("XML", error.to_string()))?;
    let root = document.root_element();
    match root.tag_name().name() {
        "system" => nccl::read(root).map_err(|e| XmlError::Damaged("NCCL topology XML", e)),
        "topology" => hwloc::read(root).map_err(|e| XmlError::Damaged("hwloc XML", e)),
        "graphs" => Err(XmlError::Refused(
            "root element <graphs>: a NCCL graph file (NCCL_GRAPH_DUMP_FILE), not a topology"
                .into(),
        )),
        other => {
            let other: String = other.chars().take(40).collect();
            Err(XmlError::Refused(format!("XML with the root element <{other}>, not a topology")))
        }
    }
}

/// Depth of nesting at most: elements opened less those closed, counted without a parser, since a
/// parser may recurse.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('<') {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let end = text[at..].find('>').map_or(text.len(), |end| at + end);
                if bytes.get(end.saturating_sub(1)) != Some(&b'/') {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
            }
        }
    }
    deepest
}

/// A new topology of that source with room for the functions of one machine; `Err` beyond.
fn room(topology: &Topology) -> Result<(), String> {
    if topology.nodes.len() < FUNCTIONS {
        return Ok(());
    }
    Err(format!("more than {FUNCTIONS} PCI functions"))
}

/// Number in hex, with or without `0x`.
fn hex(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// Speed of a link in MT/s: `16.0 GT/s PCIe`, `8 GT/s`, `2.5GT/s`.
fn speed_mts(text: &str) -> Option<u32> {
    let (number, _) = text.split_once("GT/s")?;
    let gts: f64 = number.trim().parse().ok()?;
    (gts > 0.0 && gts < 1000.0).then_some((gts * 1000.0).round() as u32)
}

/// Width of a link in lanes: `16`, `x16`; 0 and 255 mean that nothing is known.
fn width(text: &str) -> Option<u8> {
    let lanes: u8 = text.trim().trim_start_matches('x').parse().ok()?;
    (lanes > 0 && lanes <= 32).then_some(lanes)
}

/// Vital product data of a function.
pub(super) fn vpd(data: &[u8]) -> super::model::Vpd {
    vpd::parse(data)
}

/// Source of a live or archived `/sys`.
fn sysfs_topology() -> Topology {
    Topology::new(Source::Sysfs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> String {
        read("x", bytes).unwrap_err().to_string()
    }

    #[test]
    fn other_files_are_refused_by_name() {
        assert!(error(b"<graphs version=\"1\"></graphs>").contains("NCCL graph file"));
        assert!(error(b"<svg/>").contains("<svg>"));
        assert!(error(b"hello\n").contains("no topology"));
        assert!(error(b"{\"schema\": \"fabbench-report/1\"}").contains("--capture"));
        assert!(error(b" \n").contains("empty"));
        assert!(error(&[0xff, 0x00, 0x10]).contains("neither text"));
        assert!(error(b"<system version=\"1\">").contains("damaged XML"));
    }

    #[test]
    fn xml_does_not_expand_and_does_not_nest_without_end() {
        let bomb = b"<!DOCTYPE s [<!ENTITY a \"b\">]><system version=\"1\">&a;</system>";
        assert!(error(bomb).contains("entities"));
        let deep = "<a>".repeat(200_000);
        assert!(error(deep.as_bytes()).contains("nested"));
    }

    #[test]
    fn numbers_of_links_are_read_in_every_spelling() {
        assert_eq!(speed_mts("16.0 GT/s PCIe"), Some(16_000));
        assert_eq!(speed_mts("32 GT/s PCIe/s"), Some(32_000));
        assert_eq!(speed_mts("2.5GT/s"), Some(2_500));
        assert_eq!(speed_mts(""), None);
        assert_eq!(width("x8"), Some(8));
        assert_eq!(width("0"), None);
        assert_eq!(hex("0x030200"), Some(0x030200));
        assert_eq!(hex("0xzz"), None);
    }
}
