//! Takes files, links and directories as they are, under a given root.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use fabbench_harness::snapshot::{Entry, Snapshot};
use fabbench_harness::topology::config_text;

/// What is taken. A `*` stands for one name, or for part of one; the directories it is looked up in
/// are taken as lists of names. A trailing `/` takes the list of names alone. A symbolic link is
/// taken as a link; below it, paths stay as written here.
pub const PATTERNS: &[&str] = &[
    // Adapters.
    "/sys/class/infiniband/*",
    "/sys/class/infiniband/*/device",
    "/sys/class/infiniband/*/{node_type,node_guid,sys_image_guid,node_desc,fw_ver,hca_type,hw_rev,board_id,parent}",
    "/sys/class/infiniband/*/device/{vendor,device,subsystem_vendor,subsystem_device,class,numa_node,local_cpulist,current_link_speed,current_link_width,max_link_speed,max_link_width,driver,physfn}",
    "/sys/class/infiniband/*/device/{aer_dev_correctable,aer_dev_nonfatal,aer_dev_fatal}",
    "/sys/class/infiniband/*/device/net/",
    "/sys/class/infiniband/*/ports/*/{state,phys_state,rate,link_layer,lid,sm_lid,lid_mask_count,cap_mask}",
    "/sys/class/infiniband/*/ports/*/{counters,hw_counters}/",
    "/sys/class/infiniband/*/ports/*/counters/{symbol_error,link_error_recovery,link_downed,port_rcv_errors,port_rcv_remote_physical_errors,port_xmit_discards,local_link_integrity_errors,excessive_buffer_overrun_errors}",
    "/sys/class/infiniband/*/ports/*/hw_counters/lifespan",
    "/sys/class/infiniband/*/ports/*/pkeys/0",
    "/sys/class/infiniband/*/tc/*/traffic_class",
    "/sys/class/infiniband_verbs/*",
    "/sys/class/infiniband_verbs/{abi_version}",
    "/sys/class/infiniband_verbs/*/{ibdev,abi_version,dev}",
    "/dev/infiniband/",
    // PCI functions and what lets adapters reach GPU memory.
    "/sys/bus/pci/devices/*",
    "/sys/bus/pci/devices/*/{class,vendor,device,subsystem_vendor,subsystem_device,numa_node,current_link_speed,current_link_width,max_link_speed,max_link_width,iommu_group,physfn}",
    "/sys/kernel/iommu_groups/*/type",
    "/sys/kernel/mm/memory_peers/*/version",
    "/proc/driver/nvidia/version",
    "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu0/cpuidle/*/{name,latency,disable}",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    // Network interfaces.
    "/sys/class/net/*",
    "/sys/class/net/*/{mtu,speed,operstate,address,carrier,carrier_changes,type,dev_port,duplex,flags,ifindex,phys_port_name}",
    "/sys/class/net/*/{device,master}",
    "/sys/class/net/*/device/{vendor,device,numa_node,driver,current_link_speed,current_link_width}",
    "/sys/class/net/*/bonding/{mode,slaves}",
    "/sys/class/net/*/ecn/{roce_np,roce_rp}/enable/*",
    "/proc/sys/net/ipv4/conf/*/{rp_filter,arp_announce,arp_ignore}",
    // Processors and memory.
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/modules",
    "/proc/version",
    "/proc/cmdline",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/{hostname,osrelease,numa_balancing}",
    "/proc/sys/vm/zone_reclaim_mode",
    "/proc/net/bonding/*",
    "/sys/devices/system/cpu/{online,present}",
    "/sys/devices/system/cpu/cpu0/cache/index*/{level,type,size,shared_cpu_list}",
    "/sys/devices/system/cpu/cpu0/cpufreq/{scaling_driver,cpuinfo_max_freq}",
    "/sys/devices/system/node/{online,has_memory}",
    "/sys/devices/system/node/node*/{cpulist,distance,meminfo}",
    "/sys/kernel/mm/hugepages/*/{nr_hugepages,free_hugepages}",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/module/{ib_core,mlx5_core,mlx4_core,bnxt_re,irdma,efa,rdma_rxe,nvidia_peermem}/version",
    "/sys/hypervisor/type",
    "/sys/class/dmi/id/{sys_vendor,product_name}",
    "/etc/os-release",
    "/etc/debian_version",
];

/// Where the kernel lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// Nodes that may be opened to see whether the user may: opening a `umad` or `issm` node changes
/// the port's state.
const OPENABLE: &[&str] = &["uverbs", "rdma_cm"];

/// Processes that bear on results.
const SERVICES: &[&str] =
    &["irqbalance", "chronyd", "ntpd", "systemd-timesyn", "ptp4l", "opensm", "firewalld"];

/// Text of a node under /dev/infiniband that could be opened.
pub const OPENED: &str = "opened";

/// Bytes taken of one file.
const FILE_LIMIT: u64 = 64 << 10;

/// Entries taken in all: some 250 adapters with full GID tables.
const ENTRY_LIMIT: usize = 100_000;

/// Bytes taken in all.
const TOTAL_LIMIT: usize = 32 << 20;

/// Takes [`PATTERNS`] and the GID tables under `root` (`/` for this machine); of the devices in
/// `without_gids` the tables are left out, since reading thousands of files takes seconds on a slow
/// machine and the verbs library has told the same by one call.
///
/// Paths in the result begin at `root`. What does not exist is left out; what cannot be read is
/// there with its errno. Of /proc/cpuinfo the first processor is taken. Beyond 64 KiB of a file,
/// 100 000 entries or 32 MiB in all, the rest is left out.
pub fn take(root: &Path, without_gids: &[&str]) -> Snapshot {
    let mut taker = Taker { root, snapshot: Snapshot::default(), bytes: 0 };
    for pattern in PATTERNS {
        for pattern in alternatives(pattern) {
            taker.walk(PathBuf::from("/"), &pattern[1..]);
        }
    }
    taker.configurations();
    taker.gids(without_gids);
    taker.device_nodes();
    taker.processes();
    taker.snapshot
}

struct Taker<'a> {
    root: &'a Path,
    snapshot: Snapshot,
    bytes: usize,
}

impl Taker<'_> {
    /// Takes what `rest` matches below `base`.
    fn walk(&mut self, base: PathBuf, rest: &str) {
        let (first, rest) = match rest.split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (rest, None),
        };
        if first.is_empty() {
            self.list(&base);
            return;
        }
        for name in self.matching(&base, first) {
            let path = base.join(name);
            match rest {
                Some(rest) => self.walk(path, rest),
                None => self.one(&path),
            }
        }
    }

    /// Names in `base` that `part` matches.
    fn matching(&mut self, base: &Path, part: &str) -> Vec<String> {
        match part.split_once('*') {
            None => vec![part.to_owned()],
            Some((before, after)) => {
                let fits = |name: &String| {
                    name.len() >= before.len() + after.len()
                        && name.starts_with(before)
                        && name.ends_with(after)
                };
                self.list(base).into_iter().filter(fits).collect()
            }
        }
    }

    /// Takes the names in a directory; numbers are sorted as such.
    fn list(&mut self, path: &Path) -> Vec<String> {
        let names = match fs::read_dir(self.real(path)) {
            Ok(entries) => {
                let mut names: Vec<String> = entries
                    .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into()))
                    .collect();
                names.sort_by_key(|name| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone()));
                names
            }
            Err(error) => {
                self.failed(path, &error);
                return Vec::new();
            }
        };
        self.keep(path, Entry::Dir(names.clone()));
        names
    }

    /// Takes a file or a link.
    fn one(&mut self, path: &Path) {
        let real = self.real(path);
        match fs::symlink_metadata(&real) {
            Ok(metadata) if metadata.is_symlink() => match fs::read_link(&real) {
                Ok(target) => {
                    let target = resolve(path, &target).to_string_lossy().into_owned();
                    self.keep(path, Entry::Link(target));
                    // A file that is reached over a link (/etc/os-release) is wanted as well.
                    self.text_beyond_link(path);
                }
                Err(error) => self.failed(path, &error),
            },
            Ok(metadata) if metadata.is_file() => match text(&real) {
                Ok(text) => self.keep(path, Entry::Text(first_processor(path, text))),
                Err(error) => self.failed(path, &error),
            },
            Ok(_) => {}
            Err(error) => self.failed(path, &error),
        }
    }

    fn text_beyond_link(&mut self, path: &Path) {
        let real = self.real(path);
        if fs::metadata(&real).is_ok_and(|metadata| metadata.is_file())
            && let Ok(text) = text(&real)
        {
            self.keep(path, Entry::Text(text));
        }
    }

    /// Configuration space of PCI bridges, for port types and ACS, and of network adapters, for the
    /// payload size; binary, so kept as hex digits. An ordinary user gets the first 64 bytes.
    fn configurations(&mut self) {
        const PCI: &str = "/sys/bus/pci/devices";
        const WANTED: [&str; 2] = ["0x0604", "0x02"];
        self.product_data();
        for name in self.snapshot.names(PCI).to_vec() {
            let device = format!("{PCI}/{name}");
            let class = self.snapshot.text(&format!("{device}/class"));
            if !class.is_some_and(|class| WANTED.iter().any(|own| class.starts_with(own))) {
                continue;
            }
            let path = format!("{device}/config");
            match bytes(&self.real(Path::new(&path))) {
                Ok(content) => self.keep(Path::new(&path), Entry::Text(config_text(&content))),
                Err(error) => self.failed(Path::new(&path), &error),
            }
        }
    }

    /// Vital product data of InfiniBand functions and DMA functions of NVIDIA's adapters, which tell
    /// what belongs together and what manages NVLink; binary, so kept as hex digits. For root alone.
    fn product_data(&mut self) {
        const PCI: &str = "/sys/bus/pci/devices";
        const WANTED: [&str; 2] = ["0x0207", "0x0801"];
        for name in self.snapshot.names(PCI).to_vec() {
            let text = |file: &str| self.snapshot.text(&format!("{PCI}/{name}/{file}"));
            let nvidia = text("vendor") == Some("0x15b3");
            let class = text("class").unwrap_or_default();
            if !nvidia || !WANTED.iter().any(|own| class.starts_with(own)) {
                continue;
            }
            let path = format!("{PCI}/{name}/vpd");
            match bytes(&self.real(Path::new(&path))) {
                Ok(content) => self.keep(Path::new(&path), Entry::Text(config_text(&content))),
                Err(error) => self.failed(Path::new(&path), &error),
            }
        }
    }

    fn gids(&mut self, without: &[&str]) {
        for device in self.snapshot.names(DEVICES).to_vec() {
            if without.contains(&device.as_str()) {
                continue;
            }
            for port in self.snapshot.names(&format!("{DEVICES}/{device}/ports")).to_vec() {
                self.gid_table(&format!("{DEVICES}/{device}/ports/{port}"));
            }
        }
    }

    /// Type and interface are read for entries that are not zero, since some drivers log every read
    /// of an empty one.
    fn gid_table(&mut self, port: &str) {
        for index in self.list(Path::new(&format!("{port}/gids"))) {
            let gid = format!("{port}/gids/{index}");
            self.one(Path::new(&gid));
            let zero = |gid: &str| gid.chars().all(|c| c == '0' || c == ':');
            if self.snapshot.text(&gid).is_none_or(zero) {
                self.snapshot.entries.remove(&gid);
                continue;
            }
            self.one(Path::new(&format!("{port}/gid_attrs/types/{index}")));
            self.one(Path::new(&format!("{port}/gid_attrs/ndevs/{index}")));
        }
    }

    /// Whether the user may open the device nodes, where opening does no more than that.
    fn device_nodes(&mut self) {
        let directory = Path::new("/dev/infiniband");
        for name in self.snapshot.names("/dev/infiniband").to_vec() {
            if !OPENABLE.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let path = directory.join(name);
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(self.real(&path));
            match opened {
                Ok(_) => self.keep(&path, Entry::Text(OPENED.to_owned())),
                Err(error) => self.failed(&path, &error),
            }
        }
    }

    /// Names of the processes that bear on results, and of those that hold an RDMA device open, with
    /// that link; of what is hidden from this user, that it is. This process is left out.
    fn processes(&mut self) {
        let Ok(entries) = fs::read_dir(self.real(Path::new("/proc"))) else { return };
        let own = std::process::id();
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        for process in numbers.filter(|process: &u32| *process != own) {
            let directory = PathBuf::from(format!("/proc/{process}"));
            let name = directory.join("comm");
            let known = text(&self.real(&name)).unwrap_or_default();
            if process == 1 || SERVICES.contains(&known.trim_end()) {
                self.one(&name);
            }
            match self.opened_devices(&directory.join("fd")) {
                Ok(links) if links.is_empty() => {}
                Ok(links) => {
                    self.one(&name);
                    links.into_iter().for_each(|(path, entry)| self.keep(&path, entry));
                }
                Err(error) => self.failed(&directory.join("fd"), &error),
            }
        }
        let own = Path::new("/proc/self/fd");
        if let Ok(links) = self.opened_devices(own) {
            self.keep(own, Entry::Dir(links.iter().map(|_| "device".to_owned()).collect()));
        }
    }

    /// Descriptors of a process that lead to an RDMA device.
    fn opened_devices(&self, directory: &Path) -> io::Result<Vec<(PathBuf, Entry)>> {
        let entries = fs::read_dir(self.real(directory))?;
        let link = |entry: io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let target = fs::read_link(&path).ok()?;
            let kept = directory.join(path.file_name()?);
            let target = target.to_str()?.to_owned();
            target.starts_with("/dev/infiniband/uverbs").then_some((kept, Entry::Link(target)))
        };
        Ok(entries.filter_map(link).collect())
    }

    fn keep(&mut self, path: &Path, entry: Entry) {
        let path = path.to_string_lossy().into_owned();
        let size = path.len()
            + match &entry {
                Entry::Text(text) | Entry::Link(text) => text.len(),
                Entry::Dir(names) => names.iter().map(|name| name.len() + 4).sum(),
                Entry::Error(_) => 4,
            };
        if self.snapshot.entries.len() < ENTRY_LIMIT && self.bytes + size <= TOTAL_LIMIT {
            self.bytes += size;
            self.snapshot.entries.insert(path, entry);
        }
    }

    /// Keeps the errno, except that something is not there.
    fn failed(&mut self, path: &Path, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) | None => {}
            Some(errno) => self.keep(path, Entry::Error(errno)),
        }
    }

    /// Where `path` really is.
    fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// `pattern` with each of the names in its `{a,b}`.
fn alternatives(pattern: &str) -> Vec<String> {
    let parts = pattern.split_once('{').and_then(|(before, rest)| {
        let (names, after) = rest.split_once('}')?;
        Some((before, names, after))
    });
    match parts {
        None => vec![pattern.to_owned()],
        Some((before, names, after)) => {
            names.split(',').map(|name| format!("{before}{name}{after}")).collect()
        }
    }
}

fn text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// /proc/cpuinfo repeats itself for every processor.
fn first_processor(path: &Path, text: String) -> String {
    if path != Path::new("/proc/cpuinfo") {
        return text;
    }
    text.split("\n\n").next().unwrap_or_default().to_owned()
}

/// The absolute path that the link at `path` names, without a look at the file system.
fn resolve(path: &Path, target: &Path) -> PathBuf {
    let base = path.parent().unwrap_or(Path::new("/"));
    let mut absolute = PathBuf::from("/");
    for component in base.join(target).components() {
        match component {
            Component::ParentDir => {
                absolute.pop();
            }
            Component::Normal(name) => absolute.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(&path[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A tree with one adapter behind a link, as sysfs has it.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let device = "/sys/devices/pci0000:00/0000:00:03.0";
        let adapter = format!("{device}/infiniband/mlx5_0");
        write(root.path(), &format!("{device}/numa_node"), "1\n");
        write(root.path(), &format!("{adapter}/ports/1/state"), "4: ACTIVE\n");
        let zero = "0000:0000:0000:0000:0000:0000:0000:0000\n";
        write(root.path(), &format!("{adapter}/ports/1/gids/0"), zero);
        write(root.path(), &format!("{adapter}/ports/1/gids/10"), "fe80::1\n");
        write(root.path(), &format!("{adapter}/ports/1/gid_attrs/types/0"), "RoCE v2\n");
        write(root.path(), &format!("{adapter}/ports/1/gid_attrs/types/10"), "RoCE v2\n");
        write(root.path(), &format!("{adapter}/ports/1/hw_counters/out_of_sequence"), "0\n");
        symlink("../..", root.path().join(&format!("{adapter}/device")[1..])).unwrap();
        fs::create_dir_all(root.path().join("sys/class/infiniband")).unwrap();
        let link = root.path().join("sys/class/infiniband/mlx5_0");
        symlink(format!("../../..{adapter}"), link).unwrap();
        root
    }

    #[test]
    fn an_adapter_is_taken_through_its_links() {
        let root = machine();
        let snapshot = take(root.path(), &[]);
        let adapter = "/sys/class/infiniband/mlx5_0";
        assert_eq!(snapshot.names("/sys/class/infiniband"), ["mlx5_0"]);
        let target = "/sys/devices/pci0000:00/0000:00:03.0/infiniband/mlx5_0";
        assert_eq!(snapshot.link(adapter), Some(target));
        assert_eq!(snapshot.text(&format!("{adapter}/ports/1/state")), Some("4: ACTIVE"));
        assert_eq!(snapshot.text(&format!("{adapter}/device/numa_node")), Some("1"));
        assert_eq!(snapshot.names(&format!("{adapter}/ports/1/hw_counters")), ["out_of_sequence"]);
    }

    #[test]
    fn empty_gids_are_left_out_with_their_attributes() {
        let root = machine();
        let snapshot = take(root.path(), &[]);
        let port = "/sys/class/infiniband/mlx5_0/ports/1";
        assert_eq!(snapshot.text(&format!("{port}/gids/10")), Some("fe80::1"));
        assert_eq!(snapshot.text(&format!("{port}/gid_attrs/types/10")), Some("RoCE v2"));
        assert_eq!(snapshot.text(&format!("{port}/gids/0")), None);
        assert_eq!(snapshot.text(&format!("{port}/gid_attrs/types/0")), None);
        assert_eq!(snapshot.names(&format!("{port}/gids")), ["0", "10"]);
        let without = take(root.path(), &["mlx5_0"]);
        assert!(!without.entries.keys().any(|path| path.contains("gid")));
        assert_eq!(without.text(&format!("{port}/state")), Some("4: ACTIVE"));
    }

    #[test]
    fn device_nodes_tell_whether_they_open_and_others_are_not_touched() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "/dev/infiniband/uverbs0", "");
        write(root.path(), "/dev/infiniband/issm0", "");
        symlink("uverbs1", root.path().join("dev/infiniband/uverbs1")).unwrap();
        let snapshot = take(root.path(), &[]);
        assert_eq!(snapshot.text("/dev/infiniband/uverbs0"), Some(OPENED));
        assert_eq!(snapshot.errno("/dev/infiniband/uverbs1"), Some(libc::ELOOP));
        assert!(!snapshot.entries.contains_key("/dev/infiniband/issm0"));
        assert_eq!(snapshot.names("/dev/infiniband").len(), 3);
    }

    #[test]
    fn size_is_bounded_and_one_processor_is_enough() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "/proc/modules", &"x".repeat(1 << 20));
        write(root.path(), "/proc/cpuinfo", "processor : 0\nflags : a\n\nprocessor : 1\n");
        let snapshot = take(root.path(), &[]);
        assert_eq!(snapshot.text("/proc/modules").unwrap().len() as u64, FILE_LIMIT);
        assert_eq!(snapshot.text("/proc/cpuinfo"), Some("processor : 0\nflags : a"));
    }

    #[test]
    fn this_machine_has_a_loopback_interface_and_a_kernel() {
        let snapshot = take(Path::new("/"), &[]);
        assert_eq!(snapshot.text("/sys/class/net/lo/mtu"), Some("65536"));
        assert!(snapshot.text("/proc/meminfo").unwrap().contains("MemTotal"));
        let release = fs::read_to_string("/etc/os-release").unwrap();
        assert_eq!(snapshot.text("/etc/os-release"), Some(release.trim_end()));
    }
}
