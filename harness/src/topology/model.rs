//! One form for every input: a tree of PCI functions with what is known of each.

use serde::{Deserialize, Serialize};

use super::bdf::Bdf;
use super::distance::Class;

/// A fact of a machine, or why it is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// Seen.
    Known(T),
    /// The input does not say.
    #[default]
    Unknown,
    /// The input could not read it without more rights.
    NotPermitted,
}

impl<T> Fact<T> {
    /// The value, when seen.
    pub fn known(self) -> Option<T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::Unknown | Fact::NotPermitted => None,
        }
    }

    /// A reference to the value, when seen.
    pub fn as_known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::Unknown | Fact::NotPermitted => None,
        }
    }
}

impl<T> From<Option<T>> for Fact<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Fact::Unknown, Fact::Known)
    }
}

/// Where a topology came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Files of `/sys`, live or from an archive.
    Sysfs,
    /// Topology file of NCCL or RCCL.
    NcclXml,
    /// Export of hwloc.
    HwlocXml,
    /// Text of `lspci -tv`, with `lspci -vvv` where present.
    Lspci,
    /// Text of `nvidia-smi topo -m`.
    NvidiaSmi,
    /// Dump of rdma-core's `rdma_topo`.
    RdmaTopo,
}

impl Source {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Source::Sysfs => "sysfs",
            Source::NcclXml => "NCCL topology XML",
            Source::HwlocXml => "hwloc XML",
            Source::Lspci => "lspci text",
            Source::NvidiaSmi => "nvidia-smi topo -m text",
            Source::RdmaTopo => "rdma_topo dump JSON",
        }
    }
}

/// A machine's devices and how they hang together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// Kind of input.
    pub source: Source,
    /// The tree; a parent stands before its children.
    pub nodes: Vec<Node>,
    /// Software RDMA devices, which are no HCAs.
    #[serde(default)]
    pub soft: Vec<SoftHca>,
    /// Distances as printed, for inputs that hold no tree.
    pub matrix: Option<Matrix>,
    /// Socket of each NUMA node where the input tells it; index = NUMA node.
    pub sockets: Vec<Fact<u32>>,
    /// Number of NUMA nodes; 0 when not told.
    pub numa_nodes: u32,
    /// The machine.
    pub machine: Machine,
    /// What the reader found odd, in sentences.
    pub notes: Vec<String>,
    /// Parts that are missing or damaged so that the verdict cannot be trusted.
    pub damage: Vec<String>,
}

impl Topology {
    /// An empty topology.
    pub fn new(source: Source) -> Self {
        Topology {
            source,
            nodes: Vec::new(),
            soft: Vec::new(),
            matrix: None,
            sockets: Vec::new(),
            numa_nodes: 0,
            machine: Machine::default(),
            notes: Vec::new(),
            damage: Vec::new(),
        }
    }

    /// Adds a node and tells its index.
    pub fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// `index` and what is above it, up to the root complex.
    pub fn chain(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(index), |&at| {
            // A parent stands before its child, so that no input can make a circle.
            self.nodes[at].parent.filter(|&parent| parent < at)
        })
    }

    /// The nodes directly below each node.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent.filter(|&parent| parent < index) {
                children[parent].push(index);
            }
        }
        children
    }

    /// NUMA node of `index`: its own, or the nearest above that has one; on a machine with a single
    /// NUMA node, that one.
    pub fn numa(&self, index: usize) -> Option<u32> {
        let told = self.chain(index).find_map(|at| self.nodes[at].numa.known());
        told.or((self.numa_nodes == 1).then_some(0))
    }
}

/// The machine as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Vendor and product by DMI.
    pub product: Option<String>,
    /// Whether it is a guest of a hypervisor.
    pub guest: Fact<bool>,
    /// Whether its processors are NVIDIA Grace or later (C2C to the GPU).
    pub grace: bool,
    /// Whether a module lets HCAs read NVIDIA or AMD GPU memory (nvidia_peermem, amdkfd).
    pub peer_memory: Fact<bool>,
    /// Version of the GPU driver.
    #[serde(default)]
    pub gpu_driver: Option<String>,
    /// Whether the GPU driver can export memory as dma-buf.
    pub dma_buf: Fact<bool>,
    /// Type of the IOMMU's default domain, e.g. `identity`, `DMA`, `DMA-FQ`, `off`.
    pub iommu: Fact<String>,
    /// Whether the input was read by root.
    pub root: Fact<bool>,
}

/// A PCI function, or a root complex.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Index of what is above; none for a root complex.
    pub parent: Option<usize>,
    /// What it is in the tree.
    pub kind: Kind,
    /// Address; none for a root complex that has no function of its own.
    pub bdf: Option<Bdf>,
    /// Class code, 24 bits (`0x030200`).
    pub class: Fact<u32>,
    /// Vendor, device, subsystem vendor, subsystem device.
    pub ids: Ids,
    /// Name for people, where the input has one.
    pub label: Option<String>,
    /// NUMA node.
    pub numa: Fact<u32>,
    /// PCIe link above it.
    pub link: Link,
    /// ACS control bits of a bridge.
    pub acs: Fact<Acs>,
    /// IOMMU group.
    pub iommu_group: Fact<u32>,
    /// What its vital product data say.
    pub vpd: Option<Vpd>,
    /// GPU.
    pub gpu: Option<Gpu>,
    /// Network adapter with the verbs devices on this function.
    pub hca: Option<Hca>,
}

/// Vital product data of a network adapter's function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vpd {
    /// Keyword V3: the same on all functions of one adapter, Data Direct's among them.
    pub v3: Option<String>,
    /// Marked as part of NVLink's management (`SW_MNG`).
    pub nvlink_management: bool,
}

/// What a node is in the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Where a processor's PCIe begins; in NCCL's files a NUMA node.
    RootComplex,
    /// Port of a root complex.
    RootPort,
    /// A switch: its upstream port, or the switch as a whole where ports are not shown.
    Switch,
    /// Downstream port of a switch.
    DownstreamPort,
    /// Bridge between PCIe and PCI.
    OtherBridge,
    /// Anything that does not forward.
    #[default]
    Endpoint,
}

/// Ids of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// Vendor.
    pub vendor: Fact<u16>,
    /// Device.
    pub device: Fact<u16>,
    /// Subsystem vendor.
    pub subvendor: Fact<u16>,
    /// Subsystem device.
    pub subdevice: Fact<u16>,
}

impl Ids {
    /// Vendor and device, when both are known.
    pub fn pair(self) -> Option<(u16, u16)> {
        Some((self.vendor.known()?, self.device.known()?))
    }
}

/// A PCIe link: speed in MT/s a lane (8000 for Gen3) and width in lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Speed in use, MT/s.
    pub speed_mts: Fact<u32>,
    /// Lanes in use.
    pub width: Fact<u8>,
    /// Speed that the function is capable of, MT/s.
    pub max_speed_mts: Fact<u32>,
    /// Lanes that the function is capable of.
    pub max_width: Fact<u8>,
}

/// ACS control bits that send peer traffic through the root complex.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acs {
    /// Requests are redirected.
    pub request_redirect: bool,
    /// Completions are redirected.
    pub completion_redirect: bool,
    /// Translated requests may go directly.
    pub direct_translated: bool,
    /// The source of requests is checked.
    #[serde(default)]
    pub source_validation: bool,
    /// Requests may go up and come down again.
    #[serde(default)]
    pub upstream_forwarding: bool,
}

impl Acs {
    /// By the bits of the control register that the rules look at.
    pub fn of_control(control: u16) -> Acs {
        let bit = |bit: u16| control & 1 << bit != 0;
        Acs {
            source_validation: bit(0),
            request_redirect: bit(2),
            completion_redirect: bit(3),
            upstream_forwarding: bit(4),
            direct_translated: bit(6),
        }
    }

    /// Whether it is as a pattern of seven bits says, the highest (6) first; `x` fits either. Bits 1
    /// and 5 are not kept and fit only `x`.
    pub fn fits(self, pattern: &str) -> bool {
        let bits = [
            Some(self.direct_translated),
            None,
            Some(self.upstream_forwarding),
            Some(self.completion_redirect),
            Some(self.request_redirect),
            None,
            Some(self.source_validation),
        ];
        let fit = |(bit, wanted): (Option<bool>, u8)| match wanted {
            b'0' => bit == Some(false),
            b'1' => bit == Some(true),
            _ => true,
        };
        bits.into_iter().zip(pattern.bytes()).all(fit)
    }
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Number that the input gives it (NCCL's `dev`).
    pub number: Option<u32>,
    /// `GPU-…`, by which NVIDIA's tools name it.
    #[serde(default)]
    pub uuid: Option<String>,
    /// Attached to its processor by NVLink-C2C.
    pub c2c: bool,
    /// Whether GPUDirect RDMA is possible, as a NCCL file says.
    pub gdr: Fact<bool>,
    /// Compute capability times ten (`sm`), NVIDIA only.
    pub sm: Fact<u32>,
}

/// A network adapter's function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hca {
    /// Its ports' devices; empty where the input names none.
    pub ports: Vec<HcaPort>,
    /// Why it takes no part; none when it does.
    pub excluded: Option<String>,
    /// The physical function, for a virtual one that is seen beside it.
    pub virtual_of: Option<Bdf>,
    /// What the functions of one board share (GUID, serial number).
    pub board: Option<String>,
    /// Nodes of its Data Direct functions, which read and write GPU memory for it.
    #[serde(default)]
    pub data_direct: Vec<usize>,
}

/// A verbs device's port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HcaPort {
    /// Verbs device, e.g. `mlx5_0`.
    pub device: String,
    /// Rate in Mb/s.
    pub rate_mbps: Fact<u64>,
    /// Whether the port is ACTIVE.
    pub active: Fact<bool>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Fact<LinkLayer>,
    /// Whether GPUDirect RDMA is possible, as a NCCL file says.
    pub gdr: Fact<bool>,
}

/// A software RDMA device on a network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftHca {
    /// Node of the interface's function.
    pub node: usize,
    /// The interface.
    pub netdev: String,
    /// The device's ports.
    pub ports: Vec<HcaPort>,
}

/// Link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet (RoCE, EFA).
    Ethernet,
}

/// Distances between devices as a tool printed them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Names of the GPUs, in the order of the columns.
    pub gpus: Vec<String>,
    /// Names of the adapters, in the order of the columns.
    pub hcas: Vec<String>,
    /// Verbs devices by the legend, beside `hcas`; empty where there is none.
    pub devices: Vec<String>,
    /// Class of each GPU (outer) to each adapter (inner).
    pub classes: Vec<Vec<Class>>,
    /// NUMA node of each GPU.
    pub numa: Vec<Fact<u32>>,
    /// Processors near each GPU, as printed.
    pub affinity: Vec<String>,
    /// Rows that do not hold together: name and what is wrong.
    pub damaged: Vec<(String, String)>,
    /// Class between adapters, where printed.
    pub between_hcas: Vec<Vec<Class>>,
}
