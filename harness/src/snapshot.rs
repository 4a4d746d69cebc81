//! What a host looks like, as bytes: a captured tree of files, and the answers that only calls give.
//!
//! Taken by the agent, carried over the wire, interpreted here; a capture from a file is judged by
//! the same code as a live machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything an agent tells about its host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Files under `/sys`, `/proc`, `/etc`, by absolute path.
    pub snapshot: Snapshot,
    /// Answers of calls.
    pub calls: CallFacts,
    /// What tools of the host printed, by command line; only those that were tried.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolFact>,
}

/// What became of a tool that was run to see what no file tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFact {
    /// What it printed, its last 64 KiB.
    Output(String),
    /// It is not installed.
    Absent,
    /// Why it told nothing: not permitted, not supported, no answer in time.
    Failed(String),
}

/// Paths and what was found there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// By absolute path without a trailing slash.
    pub entries: BTreeMap<String, Entry>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Content of a text file; bytes that are not UTF-8 are replaced.
    Text(String),
    /// Target of a symbolic link, resolved to an absolute path where possible.
    Link(String),
    /// Names in a directory.
    Dir(Vec<String>),
    /// Reading failed with this errno.
    Error(i32),
}

impl Snapshot {
    /// Text of the file at `path`, without trailing white space; none when absent or unreadable.
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.entries.get(path) {
            Some(Entry::Text(text)) => Some(text.trim_end()),
            _ => None,
        }
    }

    /// Names in the directory at `path`, in the order captured; empty when it is none.
    pub fn names(&self, path: &str) -> &[String] {
        match self.entries.get(path) {
            Some(Entry::Dir(names)) => names,
            _ => &[],
        }
    }

    /// Target of the link at `path`.
    pub fn link(&self, path: &str) -> Option<&str> {
        match self.entries.get(path) {
            Some(Entry::Link(target)) => Some(target),
            _ => None,
        }
    }

    /// Errno met at `path`, if reading it failed.
    pub fn errno(&self, path: &str) -> Option<i32> {
        match self.entries.get(path) {
            Some(Entry::Error(errno)) => Some(*errno),
            _ => None,
        }
    }
}

/// What only calls can tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFacts {
    /// `uname -n`.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub arch: String,
    /// Effective user id.
    pub uid: u32,
    /// CPUs that the agent may run on.
    pub cpus: Vec<u32>,
    /// RLIMIT_MEMLOCK of the agent, bytes; none for unlimited.
    pub memlock_bytes: Option<u64>,
    /// RLIMIT_NOFILE of the agent; none for unlimited.
    pub nofile: Option<u64>,
    /// Resolution of the measuring clock.
    pub clock_resolution_ns: u64,
    /// Cost of one reading of it.
    pub clock_cost_ns: f64,
    /// The measuring clock's name, e.g. `CLOCK_MONOTONIC_RAW`.
    pub clock: String,
    /// Addresses of the host's interfaces, loopback and link-local ones included.
    pub addresses: Vec<InterfaceAddress>,
    /// NVIDIA GPUs by their management library; none on a host without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml: Option<NvmlFacts>,
    /// Devices by the verbs library, or why there are none.
    pub verbs: VerbsFacts,
    /// fabbench version and commit of the agent, `0.1.0 (abc1234)`.
    pub agent: String,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// Interface.
    pub netdev: String,
    /// Address.
    pub address: std::net::IpAddr,
    /// Length of the subnet prefix in bits.
    pub prefix_len: u8,
}

/// What NVIDIA's management library (NVML) says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlFacts {
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// Why it told nothing of the GPUs; none when it did.
    pub problem: Option<String>,
    /// GPUs, in the library's order.
    pub gpus: Vec<NvmlGpu>,
}

/// A GPU by NVML; none for what it did not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlGpu {
    /// PCI address, `00000000:18:00.0`.
    pub pci: String,
    /// `GPU-…`.
    pub uuid: Option<String>,
    /// Product.
    pub name: Option<String>,
    /// PCIe generation in use; idle GPUs lower it.
    pub link_generation: Option<u32>,
    /// Lanes in use.
    pub link_width: Option<u32>,
    /// PCIe generation that GPU and slot are capable of.
    pub max_link_generation: Option<u32>,
    /// Lanes that GPU and slot are capable of.
    pub max_link_width: Option<u32>,
}

/// What the verbs library says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerbsFacts {
    /// Version of the library's file, e.g. `libibverbs.so.1.14.44.0`; empty when not loaded.
    pub library: String,
    /// Why RDMA cannot be used at all; none when devices can be listed.
    pub problem: Option<VerbsProblem>,
    /// Devices, in the library's order.
    pub devices: Vec<VerbsDevice>,
}

/// Why no verbs device can be used on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsProblem {
    /// `library-absent`, `library-unusable`, `kernel-absent`, `provider-absent`, `no-device`.
    pub kind: String,
    /// A sentence with the next step.
    pub text: String,
}

/// A device as the verbs library sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerbsDevice {
    /// Name.
    pub name: String,
    /// errno and text of a failed open; none when it opened.
    pub open_error: Option<(i32, String)>,
    /// Node GUID in host order; 0 when unknown.
    pub node_guid: u64,
    /// Firmware version.
    pub firmware: String,
    /// Vendor id.
    pub vendor_id: u32,
    /// Largest number of queue pairs.
    pub max_qp: u32,
    /// Work requests a queue pair can hold.
    pub max_qp_wr: u32,
    /// Completions a queue can hold.
    pub max_cqe: u32,
    /// Largest memory region, bytes.
    pub max_mr_size: u64,
    /// Largest number of shared receive queues, 0 where there is none; none where it was not asked
    /// for.
    #[serde(default)]
    pub max_srq: Option<u32>,
    /// Receives that a shared receive queue can hold; likewise.
    #[serde(default)]
    pub max_srq_wr: Option<u32>,
    /// Outstanding READs and atomics as initiator.
    pub max_qp_init_rd_atom: u32,
    /// Outstanding READs and atomics as responder.
    pub max_qp_rd_atom: u32,
    /// `ibv_atomic_cap`: 0 none, 1 within the device, 2 with the host's CPUs as well; none where it
    /// was not asked for.
    #[serde(default)]
    pub atomic_cap: Option<u32>,
    /// `device_cap_flags`; none where it was not asked for.
    #[serde(default)]
    pub capabilities: Option<u32>,
    /// Ports, from 1.
    pub ports: Vec<VerbsPort>,
}

/// A port as the verbs library sees it; codes as in the verbs headers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VerbsPort {
    /// Number, from 1.
    pub port: u8,
    /// `ibv_port_state`.
    pub state: u32,
    /// `ibv_mtu` code (1 = 256 … 5 = 4096).
    pub active_mtu: u32,
    /// `ibv_mtu` code.
    pub max_mtu: u32,
    /// Local id.
    pub lid: u16,
    /// Local id of the subnet manager.
    pub sm_lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// Width code.
    pub active_width: u8,
    /// Speed code, 8 bits.
    pub active_speed: u8,
    /// Speed code, 32 bits; 0 means use [`VerbsPort::active_speed`].
    pub active_speed_ex: u32,
    /// `IBV_LINK_LAYER_*`: 1 InfiniBand, 2 Ethernet.
    pub link_layer: u8,
    /// Physical state code; 5 is LinkUp.
    pub phys_state: u8,
    /// Largest message in bytes.
    pub max_msg_sz: u32,
    /// Entries of the partition key table; 0 when the agent did not tell.
    #[serde(default)]
    pub pkey_tbl_len: u16,
    /// Readable, non-zero entries of the GID table.
    pub gids: Vec<GidFact>,
}

/// An entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GidFact {
    /// Index.
    pub index: u32,
    /// The 128 bits.
    pub gid: std::net::Ipv6Addr,
    /// Type.
    pub kind: GidKind,
    /// Interface that it belongs to, where known.
    pub netdev: Option<String>,
}

/// Type of a GID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GidKind {
    /// InfiniBand.
    Ib,
    /// RoCE v1 (Ethertype 0x8915).
    RoceV1,
    /// RoCE v2 (UDP 4791).
    RoceV2,
}
