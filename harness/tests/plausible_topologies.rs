//! Machines as vendors build them, in the formats that people have at hand. (Synthetic: written from
//! public descriptions of the machines, with the verdict that the rules call for.)

use std::fmt::Write as _;

use fabbench_harness::snapshot::{Entry, Snapshot};
use fabbench_harness::topology::{self, Assessment, Rules, view};
use fabbench_reports::model::Status;

fn judged(text: &str) -> Assessment {
    let topology = topology::read("probe", text.as_bytes()).unwrap();
    let judged = topology::judge(&topology, Rules::default());
    println!("{}", view::table(&topology, &judged, "probe"));
    judged
}

fn classes(judged: &Assessment) -> Vec<&'static str> {
    judged.gpus.iter().map(|gpu| gpu.class.word()).collect()
}

/// Files of a `/sys`.
#[derive(Default)]
struct Sys(Snapshot);

impl Sys {
    fn put(&mut self, path: &str, entry: Entry) {
        self.0.entries.insert(path.to_owned(), entry);
    }

    /// A function at its place below a root complex, with class, vendor, device and NUMA node.
    fn function(&mut self, path: &str, class: &str, ids: (&str, &str), numa: i32) {
        let link = format!("/sys/bus/pci/devices/{}", path.rsplit('/').next().unwrap());
        let numa = numa.to_string();
        let files = [("class", class), ("vendor", ids.0), ("device", ids.1), ("numa_node", &numa)];
        for (file, text) in files {
            self.put(&format!("{link}/{file}"), Entry::Text(text.to_owned()));
        }
        self.put(&link, Entry::Link(format!("/sys/devices/{path}")));
    }

    fn adapter(&mut self, name: &str, path: &str) {
        let root = format!("/sys/class/infiniband/{name}");
        self.put(&format!("{root}/ports/1/state"), Entry::Text("4: ACTIVE\n".into()));
        self.put(&format!("{root}/ports/1/rate"), Entry::Text("400 Gb/sec (4X NDR)\n".into()));
        self.put(&root, Entry::Link(format!("/sys/devices/{path}/infiniband/{name}")));
    }

    /// NUMA nodes, each with its first processor and the package of that.
    fn nodes(&mut self, packages: &[u32]) {
        for (node, package) in packages.iter().enumerate() {
            let list = format!("/sys/devices/system/node/node{node}/cpulist");
            self.put(&list, Entry::Text(format!("{}-{}\n", node * 8, node * 8 + 7)));
            let place = format!("/sys/devices/system/cpu/cpu{}/topology", node * 8);
            let file = format!("{place}/physical_package_id");
            self.put(&file, Entry::Text(package.to_string()));
        }
    }

    fn judged(&self) -> Assessment {
        let topology = topology::read_snapshot(&self.0).unwrap();
        let judged = topology::judge(&topology, Rules::default());
        println!("{}", view::table(&topology, &judged, "probe"));
        judged
    }
}

const BRIDGE: &str = "0x060400";
const GPU: &str = "0x030200";
const IB: &str = "0x020700";

#[test]
fn a_dgx_h100_by_lspci_tv() {
    let text = r"
-+-[0000:97]-+-00.0  Intel Corporation Ice Lake Memory Map/VT-d
 |           \-01.0-[98-a3]----00.0-[99-a3]--+-00.0-[9a]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
 |                                           +-01.0-[9b]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
 |                                           +-02.0-[9c]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
 |                                           +-03.0-[9d]----00.0  Samsung Electronics Co Ltd NVMe SSD Controller PM174X
 |                                           \-04.0-[9e]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
 +-[0000:37]-+-00.0  Intel Corporation Ice Lake Memory Map/VT-d
 |           \-01.0-[38-3f]----00.0-[39-3f]--+-00.0-[3a]----00.0  NVIDIA Corporation GH100 [H100 NVSwitch]
 |                                           \-01.0-[3b]----00.0  NVIDIA Corporation GH100 [H100 NVSwitch]
 \-[0000:00]-+-00.0  Intel Corporation Ice Lake Memory Map/VT-d
             +-0f.0-[01]--+-00.0  Intel Corporation Ethernet Controller 10G X550T
             |            \-00.1  Intel Corporation Ethernet Controller 10G X550T
             \-1c.0-[02-03]----00.0-[03]----00.0  ASPEED Technology, Inc. ASPEED Graphics Family
";
    let judged = judged(text);
    assert_eq!((judged.gpus.len(), judged.scene.adapters.len()), (2, 2), "NVSwitch is no GPU");
    assert_eq!(classes(&judged), ["PIX", "PIX"]);
    assert_eq!(judged.status, Status::Pass);
    assert_ne!(judged.gpus[0].hca, judged.gpus[1].hca);
}

#[test]
fn makers_without_a_product_name_are_told_by_their_device() {
    let text = r"
-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 14a4
           +-01.1-[01-06]----00.0-[02-06]--+-00.0-[03]----00.0  Advanced Micro Devices, Inc. [AMD/ATI] Device 74a1
           |                               \-01.0-[04]----00.0  Broadcom Inc. and subsidiaries BCM57608 10Gb/25Gb/50Gb/100Gb/200Gb/400Gb Ethernet
           +-03.1-[07-0c]----00.0-[08-0c]--+-00.0-[09]----00.0  Intel Corporation Ponte Vecchio XT (2 Tile) [Data Center GPU Max 1550]
           |                               \-01.0-[0a]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
           \-07.1-[0d]--+-00.0  Advanced Micro Devices, Inc. [AMD] Device 14ac
                        \-00.2  Advanced Micro Devices, Inc. [AMD] Genoa CCP/PSP 4.0 Device
";
    let judged = judged(text);
    assert_eq!(classes(&judged), ["PIX", "PIX"]);
    assert_eq!(judged.status, Status::Pass);
}

/// hwloc's objects for bridges on top of each other, and what hangs below the last.
fn below(bridges: &[(&str, &str)], inner: &str) -> String {
    let open = bridges.iter().fold(String::new(), |mut text, (bus, ids)| {
        let _ = write!(
            text,
            r#"<object type="Bridge" bridge_type="1-1" depth="1" bridge_pci="0000:[01-ff]" pci_busid="{bus}" pci_type="0604 [{ids}] [0000:0000] 00" pci_link_speed="63.0">"#
        );
        text
    });
    open + inner + &"</object>".repeat(bridges.len())
}

#[test]
fn an_mi300x_node_by_hwloc() {
    let mut halves = String::new();
    for socket in 0..2 {
        let mut complexes = String::new();
        for at in 0..4 {
            let bus = 16 * (1 + socket * 4 + at);
            let address = |offset: i32| format!("0000:{:02x}:00.0", bus + offset);
            let gpu = format!(
                r#"<object type="PCIDev" pci_busid="{}" pci_type="1200 [1002:74a1] [1002:74a1] 00" pci_link_speed="63.0"><object type="OSDev" name="card{at}" osdev_type="1"/></object>"#,
                address(4)
            );
            let nic = format!(
                r#"<object type="PCIDev" pci_busid="{}" pci_type="0200 [14e4:1760] [14e4:1760] 00" pci_link_speed="63.0"><object type="OSDev" name="bnxt_re{}" osdev_type="3"/></object>"#,
                address(6),
                socket * 4 + at
            );
            // GPU behind its own bridges, as on the OAM board; all under one Gen5 switch.
            let gpu = below(
                &[
                    (&address(2), "1000:c030"),
                    (&address(3), "1022:1500"),
                    (&address(5), "1022:1501"),
                ],
                &gpu,
            );
            let nic = below(&[(&address(7), "1000:c030")], &nic);
            let switch =
                below(&[(&address(0), "1022:14ab"), (&address(1), "1000:c030")], &(gpu + &nic));
            let _ = write!(
                complexes,
                r#"<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[{bus:02x}-ff]">{switch}</object>"#
            );
        }
        let _ = write!(
            halves,
            r#"<object type="Package" os_index="{socket}" cpuset="0x{0:x}" nodeset="0x{0:x}"><object type="NUMANode" os_index="{socket}" nodeset="0x{0:x}"/>{complexes}</object>"#,
            1 << socket
        );
    }
    let text = format!(
        r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0"><object type="Machine" os_index="0" cpuset="0x3" nodeset="0x3"><info name="DMISysVendor" value="Supermicro"/>{halves}</object></topology>"#
    );
    let judged = judged(&text);
    assert_eq!(judged.gpus.len(), 8);
    assert!(classes(&judged).iter().all(|class| matches!(*class, "PIX" | "PXB")));
    assert_eq!(judged.status, Status::Pass);
    let paired: std::collections::BTreeSet<_> = judged.gpus.iter().map(|gpu| gpu.hca).collect();
    assert_eq!(paired.len(), 8, "each GPU has the NIC of its own switch");
}

/// `rdma_topo dump`'s entry of a function.
fn entry(path: &str, ids: &str, class: &str, numa: u32, device: Option<&str>) -> String {
    let (vendor, product) = ids.split_once(':').unwrap();
    let class = format!("bc{}sc{}i00", &class[..2], &class[2..4]);
    let modalias = format!(
        "pci:v0000{}d0000{}sv00000000sd00000000{class}",
        vendor.to_uppercase(),
        product.to_uppercase()
    );
    let subsystems = device.map_or("{}".into(), |name| format!(r#"{{"infiniband": ["{name}"]}}"#));
    format!(
        r#"{{"realpath": "/sys/devices/{path}", "modalias": "{modalias}", "config": null, "iommu_group": null, "numa_node": {numa}, "vpd": null, "subsystems": {subsystems}}}"#
    )
}

#[test]
fn an_hgx_b200_by_rdma_topo() {
    let mut entries = Vec::new();
    for at in 0..8 {
        let numa = u32::from(at >= 4);
        let bus = 0x10 * (at + 1);
        let place = |steps: &[(i32, i32)]| {
            steps.iter().fold(format!("pci0000:{bus:02x}"), |path, (add, device)| {
                format!("{path}/0000:{:02x}:{device:02x}.0", bus + add)
            })
        };
        let root = [(0, 1)];
        let up = [(0, 1), (1, 0)];
        for (path, ids) in [(place(&root), "8086:352a"), (place(&up), "1000:c030")] {
            entries.push(entry(&path, ids, "0604", numa, None));
        }
        for port in 0..3 {
            entries.push(entry(
                &place(&[(0, 1), (1, 0), (2, port)]),
                "1000:c030",
                "0604",
                numa,
                None,
            ));
        }
        let gpu = place(&[(0, 1), (1, 0), (2, 0), (3, 0)]);
        let hca = place(&[(0, 1), (1, 0), (2, 1), (4, 0)]);
        entries.push(entry(&gpu, "10de:2901", "0302", numa, None));
        entries.push(entry(&hca, "15b3:1021", "0207", numa, Some(&format!("mlx5_{at}"))));
    }
    let judged = judged(&format!("[{}]", entries.join(",\n")));
    assert_eq!(classes(&judged), ["PIX"; 8]);
    assert_eq!(judged.status, Status::Pass);
}

#[test]
fn a_gh200_by_sysfs() {
    let mut sys = Sys::default();
    // Node 1 is the GPU's own memory: no processor.
    sys.nodes(&[0]);
    sys.put("/sys/devices/system/node/node1/cpulist", Entry::Text("\n".into()));
    sys.function("pci0000:00/0000:00:00.0", BRIDGE, ("0x10de", "0x22b2"), 0);
    sys.function("pci0000:00/0000:00:00.0/0000:01:00.0", IB, ("0x15b3", "0x1021"), 0);
    sys.adapter("mlx5_0", "pci0000:00/0000:00:00.0/0000:01:00.0");
    sys.function("pci0009:00/0009:00:00.0", BRIDGE, ("0x10de", "0x22b1"), 0);
    sys.function("pci0009:00/0009:00:00.0/0009:01:00.0", GPU, ("0x10de", "0x2342"), 0);
    let judged = sys.judged();
    assert_eq!(classes(&judged), ["P2C"]);
    assert_eq!(judged.status, Status::Pass);
}

#[test]
fn flat_guests_are_not_judged_by_what_they_hide() {
    let kvm = r"
-[0000:00]-+-00.0  Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller
           +-01.0  Red Hat, Inc. Virtio GPU
           +-02.0-[01]----00.0  Red Hat, Inc. Virtio network device
           +-02.1-[02]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
           +-02.2-[03]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
           +-02.3-[04]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7 VF]
           \-02.4-[05]----00.0  Mellanox Technologies ConnectX Family mlx5Gen Virtual Function
";
    let judged_kvm = judged(kvm);
    assert_eq!(judged_kvm.gpus.len(), 2);
    assert_eq!(judged_kvm.status, Status::Unknown);
    let mut sys = Sys::default();
    sys.put("/proc/cpuinfo", Entry::Text("flags\t\t: fpu vme hypervisor\n".into()));
    for at in 0..4 {
        sys.function(
            &format!("pci0000:00/0000:00:{:02x}.0", 5 + at),
            GPU,
            ("0x10de", "0x2335"),
            -1,
        );
        let nic = format!("pci0000:00/0000:00:{:02x}.0", 0x10 + at);
        sys.function(&nic, IB, ("0x15b3", "0x101e"), -1);
        sys.adapter(&format!("mlx5_{at}"), &nic);
    }
    let judged = sys.judged();
    assert_eq!(judged.status, Status::Unknown);
    assert!(
        judged.reasons.iter().any(|line| line.contains("NCCL_TOPO_FILE")),
        "{:?}",
        judged.reasons
    );
}

#[test]
fn gaudi_behind_two_switches_in_a_row_is_pxb() {
    let mut sys = Sys::default();
    sys.nodes(&[0, 1]);
    for socket in 0..2 {
        let bus = 0x40 + socket * 0x40;
        let at = |offset: i32, device: i32| format!("0000:{:02x}:{device:02x}.0", bus + offset);
        let root = format!("pci0000:{bus:02x}/{}", at(0, 1));
        let top = format!("{root}/{}", at(1, 0));
        sys.function(&root, BRIDGE, ("0x8086", "0x347a"), socket);
        sys.function(&top, BRIDGE, ("0x10b5", "0x9797"), socket);
        let hca_port = format!("{top}/{}", at(2, 0));
        sys.function(&hca_port, BRIDGE, ("0x10b5", "0x9797"), socket);
        let hca = format!("{hca_port}/{}", at(3, 0));
        sys.function(&hca, IB, ("0x15b3", "0x101b"), socket);
        sys.adapter(&format!("mlx5_{socket}"), &hca);
        let port = format!("{top}/{}", at(2, 1));
        let inner = format!("{port}/{}", at(4, 0));
        sys.function(&port, BRIDGE, ("0x10b5", "0x9797"), socket);
        sys.function(&inner, BRIDGE, ("0x10b5", "0x9797"), socket);
        for gpu in 0..2 {
            let port = format!("{inner}/{}", at(5, gpu));
            sys.function(&port, BRIDGE, ("0x10b5", "0x9797"), socket);
            let gaudi = format!("{port}/{}", at(6 + gpu, 0));
            sys.function(&gaudi, "0x120000", ("0x1da3", "0x1020"), socket);
        }
    }
    let judged = sys.judged();
    assert_eq!(classes(&judged), ["PXB"; 4]);
    assert_eq!(judged.status, Status::Pass);
}

/// Root ports of a socket divided into two NUMA nodes; GPU in one, adapter in the other.
#[test]
fn numa_nodes_of_one_package_are_no_sockets() {
    let mut sys = Sys::default();
    sys.nodes(&[0, 0, 1, 1]);
    for (numa, name) in [(1, "mlx5_0"), (3, "mlx5_1")] {
        let root = format!("pci0000:{numa}0/0000:{numa}0:01.0");
        sys.function(&root, BRIDGE, ("0x8086", "0x352a"), numa);
        let hca = format!("{root}/0000:{numa}1:00.0");
        sys.function(&hca, IB, ("0x15b3", "0x1021"), numa);
        sys.adapter(name, &hca);
    }
    for numa in [0, 2] {
        let root = format!("pci0000:{numa}8/0000:{numa}8:01.0");
        sys.function(&root, BRIDGE, ("0x8086", "0x352a"), numa);
        sys.function(&format!("{root}/0000:{numa}9:00.0"), GPU, ("0x10de", "0x2331"), numa);
    }
    let judged = sys.judged();
    assert_eq!(classes(&judged), ["NODE"; 2]);
    assert_eq!(judged.status, Status::Warn);
}

#[test]
fn a_workstations_own_graphics_and_npu_are_no_gpus() {
    let mut sys = Sys::default();
    sys.nodes(&[0]);
    sys.function("pci0000:00/0000:00:02.0", "0x030000", ("0x8086", "0x7d55"), -1);
    sys.function("pci0000:00/0000:00:0b.0", "0x120000", ("0x8086", "0x7d1d"), -1);
    sys.function("pci0000:00/0000:00:01.0", BRIDGE, ("0x8086", "0x7ecc"), -1);
    sys.function("pci0000:00/0000:00:01.0/0000:01:00.0", IB, ("0x15b3", "0x101b"), -1);
    sys.adapter("mlx5_0", "pci0000:00/0000:00:01.0/0000:01:00.0");
    let judged = sys.judged();
    assert_eq!((judged.gpus.len(), judged.status), (0, Status::NotApplicable));
}
