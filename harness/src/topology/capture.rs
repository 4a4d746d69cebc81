//! A machine's topology as an archive that tells nothing of its owner: for bug reports and fixtures.

use std::collections::BTreeMap;
use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::import::sysfs::config_bytes;
use crate::snapshot::{Entry, Snapshot};

/// What the readers look at, by the beginning of its path.
const KEPT: [&str; 13] = [
    "/sys/bus/pci/devices/",
    "/sys/devices/pci",
    "/sys/class/infiniband/",
    "/sys/class/net/",
    "/sys/devices/system/node/",
    "/sys/devices/system/cpu/cpu",
    "/sys/class/dmi/id/",
    "/sys/kernel/iommu_groups/",
    "/sys/kernel/mm/memory_peers/",
    "/sys/module/nvidia_peermem/",
    "/proc/driver/nvidia/version",
    "/proc/modules",
    "/proc/cpuinfo",
];

/// Files below a verbs device that are looked at.
const OF_DEVICES: [&str; 6] = ["sys_image_guid", "state", "rate", "link_layer", "device", "parent"];

/// The part of a snapshot that topology is read from, without serial numbers, GUIDs, addresses and
/// names of hosts. What joins functions of one board (GUIDs, product data) is numbered instead.
pub fn anonymised(snapshot: &Snapshot) -> Snapshot {
    let mut numbers = Numbers::default();
    let mut safe = Snapshot::default();
    for (path, entry) in &snapshot.entries {
        if !KEPT.iter().any(|kept| path.starts_with(kept)) {
            continue;
        }
        let file = path.rsplit('/').next().unwrap_or_default();
        let below_device =
            path.starts_with("/sys/class/infiniband/") && path.matches('/').count() > 4;
        if below_device && !OF_DEVICES.contains(&file) {
            continue;
        }
        // Of interfaces the place is enough; what stands below has their addresses.
        if path.starts_with("/sys/class/net/") && path.matches('/').count() > 4 {
            continue;
        }
        let entry = match entry {
            Entry::Link(target) => Entry::Link(target.clone()),
            Entry::Text(text) => Entry::Text(numbers.content(path, file, text)),
            // What a directory holds is seen from what stands below it.
            Entry::Dir(_) | Entry::Error(_) => continue,
        };
        safe.entries.insert(path.clone(), entry);
    }
    safe
}

/// Numbers in the place of what names a board.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, name: &str) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(name.to_owned()).or_insert(next)
    }

    fn content(&mut self, path: &str, file: &str, text: &str) -> String {
        match (path, file) {
            (_, "sys_image_guid") => format!("0000:0000:0000:{:04x}", self.of(text.trim())),
            (_, "vpd") => self.vpd(text),
            // Flags tell a guest; serial numbers and the like stand in the rest.
            ("/proc/cpuinfo", _) => {
                let told = |line: &&str| {
                    ["flags", "Features", "vendor_id", "model name"]
                        .iter()
                        .any(|name| line.starts_with(name))
                };
                text.lines().filter(told).fold(String::new(), |all, line| all + line + "\n")
            }
            ("/proc/modules", _) => {
                let names = text.lines().filter_map(|line| line.split(' ').next());
                names.fold(String::new(), |all, name| all + name + " 0 0 - Live 0x0\n")
            }
            _ => text.to_owned(),
        }
    }

    /// Product data with keyword V3 alone, numbered, and the mark of NVLink's management.
    fn vpd(&mut self, text: &str) -> String {
        let found = super::import::vpd(&config_bytes(text));
        let mut items = Vec::new();
        if let Some(v3) = found.v3 {
            let value = format!("board-{}", self.of(&v3));
            items.extend([b'V', b'3', value.len() as u8]);
            items.extend(value.bytes());
        }
        if found.nvlink_management {
            items.extend(*b"V0\x06SW_MNG");
        }
        let mut data = vec![0x90, items.len() as u8, 0];
        data.extend(items);
        data.push(0x78);
        super::config_text(&data)
    }
}

/// The snapshot as a gzipped tar that [`super::read`] takes.
///
/// # Errors
///
/// When an entry does not fit a tar (a path that is far too long).
pub fn pack(snapshot: &Snapshot) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, entry) in &snapshot.entries {
        let name = path.trim_start_matches('/');
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        match entry {
            Entry::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                archive.append_link(&mut header, name, target)?;
            }
            Entry::Text(text) => {
                let hex = path.ends_with("/config") || path.ends_with("/vpd");
                let content = if hex { config_bytes(text) } else { text.as_bytes().to_vec() };
                header.set_size(content.len() as u64);
                archive.append_data(&mut header, name, content.as_slice())?;
            }
            Entry::Dir(_) | Entry::Error(_) => {}
        }
    }
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, judge, read, read_snapshot};
    use super::*;

    fn snapshot() -> Snapshot {
        const ROOT: &str = "/sys/devices/pci0000:00/0000:00:01.0";
        let mut snapshot = Snapshot::default();
        let mut put = |path: String, entry: Entry| drop(snapshot.entries.insert(path, entry));
        let mut function = |path: &str, class: &str, vendor: &str| {
            let bdf = path.rsplit('/').next().unwrap();
            let link = format!("/sys/bus/pci/devices/{bdf}");
            put(format!("{link}/class"), Entry::Text(class.into()));
            put(format!("{link}/vendor"), Entry::Text(vendor.into()));
            put(format!("{link}/device"), Entry::Text("0x1021".into()));
            put(link, Entry::Link(path.into()));
        };
        function(ROOT, "0x060400", "0x8086");
        function(&format!("{ROOT}/0000:01:00.0"), "0x060400", "0x1000");
        function(&format!("{ROOT}/0000:01:00.0/0000:02:00.0"), "0x060400", "0x1000");
        function(&format!("{ROOT}/0000:01:00.0/0000:02:01.0"), "0x060400", "0x1000");
        let gpu = format!("{ROOT}/0000:01:00.0/0000:02:00.0/0000:03:00.0");
        let hca = format!("{ROOT}/0000:01:00.0/0000:02:01.0/0000:04:00.0");
        function(&gpu, "0x030200", "0x10de");
        function(&hca, "0x020700", "0x15b3");
        let class = "/sys/class/infiniband/mlx5_0";
        put(class.into(), Entry::Link(format!("{hca}/infiniband/mlx5_0")));
        put(format!("{class}/sys_image_guid"), Entry::Text("b859:9f03:00c2:a1b2\n".into()));
        put(format!("{class}/node_desc"), Entry::Text("gpu01 HCA-1\n".into()));
        put(format!("{class}/ports/1/gids/0"), Entry::Text("fe80::b859:9fff\n".into()));
        put(format!("{class}/ports/1/state"), Entry::Text("4: ACTIVE\n".into()));
        put("/proc/sys/kernel/random/boot_id".into(), Entry::Text("secret".into()));
        put("/proc/cpuinfo".into(), Entry::Text("flags\t: fpu sse\nserial : 123secret\n".into()));
        snapshot
    }

    #[test]
    fn a_capture_is_read_back_to_the_same_verdict_and_names_nobody() {
        let whole = snapshot();
        let safe = anonymised(&whole);
        let text = format!("{safe:?}");
        for secret in ["b859", "gpu01", "fe80", "secret"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let packed = pack(&safe).unwrap();
        let back = read("dump.tar.gz", &packed).unwrap();
        let live = read_snapshot(&whole).unwrap();
        let verdict = |topology| judge(topology, Rules::default());
        let (one, other) = (verdict(&back), verdict(&live));
        assert_eq!(one.gpus.len(), 1);
        assert_eq!((one.gpus, one.status), (other.gpus, other.status));
        assert_eq!(one.scene.adapters[0].name, "mlx5_0");
    }

    #[test]
    fn product_data_keep_what_joins_functions() {
        let mut numbers = Numbers::default();
        let data = b"\x90\x0c\x00V3\x03abcSN\x03123\x78";
        let text = super::super::config_text(data);
        let safe = config_bytes(&numbers.vpd(&text));
        assert_eq!(super::super::import::vpd(&safe).v3.as_deref(), Some("board-1"));
        assert!(!safe.windows(3).any(|part| part == b"123"));
    }
}
