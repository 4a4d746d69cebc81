//! `rdma_topo dump` of rdma-core: a JSON list of PCI functions, each with its place in `/sys`, its
//! modalias, and its configuration space and vital product data compressed by zlib in base64.
//!
//! It is turned into the files of `/sys` that it was made from, and read as those.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use serde::Deserialize;

use super::FUNCTIONS;
use super::sysfs::config_text;
use crate::snapshot::{Entry, Snapshot};
use crate::topology::bdf::Bdf;

/// Bytes taken of a configuration space (4 KiB) or of vital product data (at most 32 KiB).
const UNPACKED: u64 = 32 << 10;

/// One function.
#[derive(Deserialize)]
struct Function {
    realpath: String,
    config: Option<String>,
    modalias: String,
    iommu_group: Option<u32>,
    numa_node: Option<i64>,
    vpd: Option<String>,
    #[serde(default)]
    subsystems: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

/// Whether text looks like a dump: a list of objects that name their place in `/sys`.
pub fn is_dump(text: &str) -> bool {
    text.trim_start().starts_with('[') && text.contains("\"realpath\"")
}

/// The files of `/sys` that a dump stands for.
pub fn snapshot(text: &str) -> Result<Snapshot, String> {
    let functions: Vec<Function> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if functions.len() > FUNCTIONS {
        return Err(format!("more than {FUNCTIONS} PCI functions"));
    }
    let mut snapshot = Snapshot::default();
    let mut adapters = Vec::new();
    for function in &functions {
        adapters.extend(place(function, &mut snapshot)?);
    }
    snapshot.entries.insert("/sys/class/infiniband".into(), Entry::Dir(adapters));
    Ok(snapshot)
}

/// Adds one function; returns the verbs devices on it.
fn place(function: &Function, snapshot: &mut Snapshot) -> Result<Vec<String>, String> {
    let path = function.realpath.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    // What has no PCI address (VMD's own root, say) is passed over, as rdma_topo does.
    let Ok(bdf) = name.parse::<Bdf>() else { return Ok(Vec::new()) };
    if !path.starts_with("/sys/devices/") || path.contains("/../") {
        let shown: String = path.chars().take(80).collect();
        return Err(format!("realpath {shown:?} is not below /sys/devices"));
    }
    let link = format!("/sys/bus/pci/devices/{bdf}");
    let mut put = |file: &str, entry: Entry| {
        snapshot.entries.insert(format!("{link}/{file}"), entry);
    };
    for (file, value) in ids(&function.modalias) {
        put(file, Entry::Text(value));
    }
    if let Some(numa) = function.numa_node {
        put("numa_node", Entry::Text(numa.to_string()));
    }
    if let Some(group) = function.iommu_group {
        put("iommu_group", Entry::Link(format!("/sys/kernel/iommu_groups/{group}")));
    }
    for (file, content) in [("config", &function.config), ("vpd", &function.vpd)] {
        let Some(packed) = content else { continue };
        let bytes = unpacked(packed).map_err(|error| format!("{bdf}: {file}: {error}"))?;
        put(file, Entry::Text(config_text(&bytes)));
    }
    snapshot.entries.insert(link, Entry::Link(path.to_owned()));
    let subsystems = function.subsystems.as_ref();
    let devices = subsystems.and_then(|all| all.get("infiniband")).cloned().unwrap_or_default();
    let devices: Vec<String> = devices.into_iter().filter(|name| !name.contains('/')).collect();
    for device in &devices {
        let real = format!("{path}/infiniband/{device}");
        snapshot.entries.insert(format!("/sys/class/infiniband/{device}"), Entry::Link(real));
    }
    Ok(devices)
}

fn unpacked(packed: &str) -> Result<Vec<u8>, String> {
    let bytes = BASE64.decode(packed.trim()).map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    ZlibDecoder::new(bytes.as_slice())
        .take(UNPACKED)
        .read_to_end(&mut content)
        .map_err(|error| error.to_string())?;
    Ok(content)
}

/// `pci:v000015B3d00001021sv000015B3sd00000023bc02sc07i00` as the files that it is made of.
fn ids(modalias: &str) -> Vec<(&'static str, String)> {
    let Some(rest) = modalias.trim().strip_prefix("pci:") else { return Vec::new() };
    let after = |mark: &str, width: usize| -> Option<&str> {
        let at = rest.find(mark)? + mark.len();
        let digits = rest.get(at..at + width)?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then_some(digits)
    };
    // `v` stands first and again in `sv`, `d` likewise in `sd`: marks are looked for in order.
    let vendor = rest.strip_prefix('v').and_then(|v| v.get(..8));
    let device = rest.get(9..).and_then(|r| r.strip_prefix('d')).and_then(|d| d.get(..8));
    let class = (after("bc", 2), after("sc", 2), after("i", 2));
    let mut files = Vec::new();
    let wide = [
        ("vendor", vendor),
        ("device", device),
        ("subsystem_vendor", after("sv", 8)),
        ("subsystem_device", after("sd", 8)),
    ];
    for (file, digits) in wide {
        if let Some(low) = digits.and_then(|digits| digits.get(4..)) {
            files.push((file, format!("0x{}", low.to_ascii_lowercase())));
        }
    }
    if let (Some(base), Some(sub), Some(interface)) = class {
        files.push(("class", format!("0x{base}{sub}{interface}").to_ascii_lowercase()));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modalias_is_taken_apart() {
        let files = ids("pci:v000015B3d00001021sv000015B3sd00000023bc02sc07i00");
        let of = |name: &str| files.iter().find(|(file, _)| *file == name).map(|(_, v)| v.as_str());
        assert_eq!((of("vendor"), of("device")), (Some("0x15b3"), Some("0x1021")));
        assert_eq!((of("subsystem_device"), of("class")), (Some("0x0023"), Some("0x020700")));
        assert!(ids("usb:v1").is_empty() && ids("pci:v").is_empty() && ids("pci:vé").is_empty());
    }

    #[test]
    fn damaged_dumps_are_told_and_do_not_leave_their_place() {
        let one = |path: &str, config: &str| {
            format!("[{{\"realpath\": {path:?}, \"config\": {config:?}, \"modalias\": \"pci:v\"}}]")
        };
        let error = |text: &str| snapshot(text).unwrap_err();
        assert!(error("[{\"realpath\": 3}]").contains("expected a string"));
        assert!(error(&one("/etc/0000:01:00.0", "")).contains("not below /sys/devices"));
        let bad = one("/sys/devices/pci0000:00/0000:00:01.0", "%%%");
        assert!(error(&bad).contains("0000:00:01.0: config"));
    }
}
