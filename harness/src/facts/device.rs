//! One RDMA device and its ports.

use fabbench_reports::model::{Device, Gid, Port};

use super::view::View;
use super::{
    INFINIBAND, device_node, gid_table, kind_word, natural_order, rdma_problem, verbs_device,
    verbs_port,
};
use crate::line_rate::{LaneSpeed, lanes_of_code, speed_code};
use crate::snapshot::{GidFact, HostFacts, VerbsDevice, VerbsPort};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;

/// Vendor id of the kernel's rdma_rxe.
const RXE_VENDOR: u32 = 0xff_ffff;
/// Vendor id of the kernel's siw.
const SIW_VENDOR: u32 = 0x62_6d74;

pub(super) fn device(name: &str, facts: &HostFacts) -> Device {
    let view = View::new(&facts.snapshot);
    let root = format!("{INFINIBAND}/{name}");
    let verbs = verbs_device(facts, name);
    let soft = soft_driver(&view, &root, verbs);
    let ports = port_numbers(&view, &root, verbs);
    let ports: Vec<_> =
        ports.into_iter().map(|number| port(name, number, soft.is_some(), facts)).collect();
    let place = hardware_place(&view, &root, ports.first().and_then(|port| port.netdev.as_deref()));
    let or_verbs = |file: &str, answer: Option<String>| {
        let seen = view.text(&format!("{root}/{file}")).map(str::to_owned);
        seen.or(answer).unwrap_or_default()
    };
    Device {
        name: name.to_owned(),
        driver: soft.map(str::to_owned).or_else(|| driver(&view, &root)).unwrap_or_default(),
        firmware: or_verbs("fw_ver", verbs.map(|verbs| verbs.firmware.clone())),
        board: or_verbs("board_id", None),
        guid: or_verbs("node_guid", verbs.map(|verbs| guid_text(verbs.node_guid))),
        pci: place.as_ref().and_then(|place| pci_address(&place.real)),
        numa_node: place.as_ref().and_then(|place| place.numa_node(&view)),
        soft: soft.is_some(),
        virtual_function: is_virtual(&view, &root),
        unusable: unusable(name, facts),
        ports,
    }
}

/// Name of the software driver behind a device, if it is one. rxe has a `parent` file with the
/// interface's name and, unlike an adapter, no `device` link.
fn soft_driver(view: &View, root: &str, verbs: Option<&VerbsDevice>) -> Option<&'static str> {
    let described = view.text(&format!("{root}/node_desc")).unwrap_or_default();
    let vendor = verbs.map_or(0, |verbs| verbs.vendor_id);
    if view.link(&format!("{root}/device")).is_some() {
        return None;
    }
    if described.starts_with("siw") || vendor == SIW_VENDOR {
        return Some("siw");
    }
    let parent = view.exists(&format!("{root}/parent"));
    (parent || described.starts_with("rxe") || vendor == RXE_VENDOR).then_some("rdma_rxe")
}

/// Device ids of Mellanox's virtual functions: ConnectX-4, its Lx, 5, 5 Ex, 6 and the family's.
const MELLANOX_VIRTUAL: [&str; 6] = ["0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e"];

/// Whether it is a virtual function: it links to its physical one, or, inside a virtual machine, has
/// the device id of one.
fn is_virtual(view: &View, root: &str) -> bool {
    let id = |file: &str| view.text(&format!("{root}/device/{file}")).unwrap_or_default();
    view.link(&format!("{root}/device/physfn")).is_some()
        || (id("vendor") == "0x15b3" && MELLANOX_VIRTUAL.contains(&id("device")))
}

fn driver(view: &View, root: &str) -> Option<String> {
    let target = view.link(&format!("{root}/device/driver"))?;
    target.rsplit('/').next().map(str::to_owned)
}

/// Where the hardware is in sysfs: the adapter itself, or that of the interface under a soft device.
struct Place {
    /// By way of the class.
    by_class: String,
    /// Its own directory.
    real: String,
}

impl Place {
    /// None when unknown, which the kernel writes as -1.
    fn numa_node(&self, view: &View) -> Option<u32> {
        let of = |directory: &String| view.number(&format!("{directory}/numa_node"));
        of(&self.by_class).or_else(|| of(&self.real))
    }
}

fn hardware_place(view: &View, root: &str, netdev: Option<&str>) -> Option<Place> {
    let own = format!("{root}/device");
    let by_netdev = || netdev.map(|netdev| format!("/sys/class/net/{netdev}/device"));
    let by_class = if view.exists(&own) { Some(own) } else { by_netdev() }?;
    let target = view.link(&by_class).unwrap_or(&by_class);
    // A virtio interface hangs below its PCI function.
    let end = target.rfind("/virtio").filter(|at| !target[at + 1..].contains('/'));
    let real = end.map_or(target, |at| &target[..at]).to_owned();
    Some(Place { by_class, real })
}

/// The PCI address that the last part of a path is.
pub(super) fn pci_address(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let mut fields = name.split([':', '.']);
    let lengths = [4, 2, 2, 1];
    let hex = |field: &str, length| {
        field.len() >= length && field.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let fits = lengths.iter().all(|length| fields.next().is_some_and(|field| hex(field, *length)));
    (fits && fields.next().is_none()).then(|| name.to_owned())
}

fn guid_text(guid: u64) -> String {
    let part = |shift: u32| (guid >> shift) & 0xffff;
    format!("{:04x}:{:04x}:{:04x}:{:04x}", part(48), part(32), part(16), part(0))
}

/// Why a device cannot be used by this user, with the next step.
fn unusable(name: &str, facts: &HostFacts) -> Option<String> {
    let node = device_node(facts, name).unwrap_or_else(|| "/dev/infiniband/uverbs*".to_owned());
    let Some(verbs) = verbs_device(facts, name) else {
        return Some(unlisted(name, &node, facts));
    };
    let (errno, text) = verbs.open_error.as_ref()?;
    let fix = match *errno {
        EACCES | EPERM => {
            "run as root or as a user who may read and write it; rdma-core's udev rules set mode \
             0666 (needs root; weakens isolation)"
        }
        ENOENT => "modprobe ib_uverbs (needs root), or pass the device node into the container",
        _ => "look at dmesg for the driver's message",
    };
    Some(format!("{name} cannot be opened ({node}: {text}): {fix}"))
}

fn unlisted(name: &str, node: &str, facts: &HostFacts) -> String {
    if facts.calls.verbs.problem.is_some() {
        let problem = rdma_problem(facts).unwrap_or_default();
        return format!("{name} cannot be used: {problem}");
    }
    if facts.calls.verbs.library.is_empty() {
        return format!("{name} was seen in sysfs only: no verbs library was asked");
    }
    format!(
        "the verbs library does not list {name}: its provider is missing (apt install \
         ibverbs-providers; needs root) or {node} is not there (modprobe ib_uverbs; needs root)"
    )
}

fn port_numbers(view: &View, root: &str, verbs: Option<&VerbsDevice>) -> Vec<u8> {
    let listed = view.children(&format!("{root}/ports"));
    let mut numbers: Vec<u8> = listed.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.extend(verbs.into_iter().flat_map(|verbs| verbs.ports.iter().map(|port| port.port)));
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn port(device: &str, number: u8, soft: bool, facts: &HostFacts) -> Port {
    let view = View::new(&facts.snapshot);
    let root = format!("{INFINIBAND}/{device}/ports/{number}");
    let verbs = verbs_port(facts, device, number);
    let gids = gid_table(facts, device, number);
    let netdev = netdev(&view, device, number, &gids);
    let of_netdev = |file: &str| {
        let netdev = netdev.as_deref()?;
        view.number(&format!("/sys/class/net/{netdev}/{file}"))
    };
    let state = state(&view, &root, verbs);
    let link = Link::of(&view, &root, verbs);
    let link_layer = link_layer(&view, &root, verbs);
    let up = state == "ACTIVE" && phys_up(&view, &root, verbs);
    let ethernet = link_layer == "Ethernet";
    let mbps = of_netdev("speed").filter(|_| ethernet);
    Port {
        port: number,
        link_layer,
        rate_bps: if up && !soft { link.rate_bps(ethernet, mbps) } else { None },
        state,
        width: link.lanes.map(|lanes| format!("{lanes}x")).unwrap_or_default(),
        speed: link.speed.map(|speed| speed.name.to_owned()).unwrap_or_default(),
        active_mtu: verbs.map_or(0, |port| mtu_bytes(port.active_mtu)),
        max_mtu: verbs.map_or(0, |port| mtu_bytes(port.max_mtu)),
        lid: verbs.map(|port| port.lid).or_else(|| hex_number(&view, &root, "lid")).unwrap_or(0),
        netdev_mtu: of_netdev("mtu").and_then(|mtu| u32::try_from(mtu).ok()),
        gids: gids.into_iter().map(gid).collect(),
        netdev,
    }
}

fn gid(fact: GidFact) -> Gid {
    Gid {
        index: fact.index,
        gid: fact.gid.to_string(),
        kind: kind_word(fact.kind).to_owned(),
        netdev: fact.netdev,
    }
}

/// The interface that shares a port: by its GIDs, as a soft device's parent, or as a sibling below
/// the same adapter with the port's number.
fn netdev(view: &View, device: &str, port: u8, gids: &[GidFact]) -> Option<String> {
    let root = format!("{INFINIBAND}/{device}");
    let of_gid = gids.iter().find_map(|gid| gid.netdev.clone());
    let first = || view.text(&format!("{root}/ports/{port}/gid_attrs/ndevs/0")).map(str::to_owned);
    let parent = || view.text(&format!("{root}/parent")).map(str::to_owned);
    let sibling = || {
        let mut names = view.children(&format!("{root}/device/net"));
        names.sort_by(|a, b| natural_order(a, b));
        let number = |name: &str| view.number::<u8>(&format!("/sys/class/net/{name}/dev_port"));
        names.into_iter().find(|name| number(name).unwrap_or(0) + 1 == port)
    };
    of_gid.or_else(first).or_else(parent).or_else(sibling)
}

fn state(view: &View, root: &str, verbs: Option<&VerbsPort>) -> String {
    if let Some(port) = verbs {
        let word = match port.state {
            0 => "NOP",
            1 => "DOWN",
            2 => "INIT",
            3 => "ARMED",
            4 => "ACTIVE",
            5 => "ACTIVE_DEFER",
            other => return format!("unknown ({other})"),
        };
        return word.to_owned();
    }
    let text = view.text(&format!("{root}/state")).unwrap_or("unknown");
    text.split_once(':').map_or(text, |(_, word)| word.trim()).to_owned()
}

/// False only when the physical state is known and is not LinkUp.
fn phys_up(view: &View, root: &str, verbs: Option<&VerbsPort>) -> bool {
    const LINK_UP: u8 = 5;
    match verbs.map(|port| port.phys_state).filter(|state| *state != 0) {
        Some(state) => state == LINK_UP,
        None => {
            let text = view.text(&format!("{root}/phys_state"));
            text.is_none_or(|text| text.starts_with("5:"))
        }
    }
}

fn link_layer(view: &View, root: &str, verbs: Option<&VerbsPort>) -> String {
    let seen = view.text(&format!("{root}/link_layer"));
    let word = match (verbs.map_or(0, |port| port.link_layer), seen) {
        (1, _) => "InfiniBand",
        (2, _) => "Ethernet",
        (_, seen) => seen.unwrap_or("unknown"),
    };
    word.to_owned()
}

fn mtu_bytes(code: u32) -> u32 {
    if (1..=5).contains(&code) { 128 << code } else { 0 }
}

fn hex_number(view: &View, root: &str, file: &str) -> Option<u16> {
    let text = view.text(&format!("{root}/{file}"))?;
    u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Width and speed of a port.
struct Link {
    lanes: Option<u32>,
    speed: Option<LaneSpeed>,
}

impl Link {
    /// By the verbs library; sysfs's `rate` says the same in words, and less well on old kernels.
    fn of(view: &View, root: &str, verbs: Option<&VerbsPort>) -> Link {
        let seen = Link::of_words(view.text(&format!("{root}/rate")).unwrap_or_default());
        let Some(port) = verbs else { return seen };
        let code = speed_code(port.active_speed, port.active_speed_ex);
        Link {
            lanes: lanes_of_code(port.active_width).or(seen.lanes),
            speed: LaneSpeed::by_code(code).or(seen.speed),
        }
    }

    /// Of a text as `400 Gb/sec (4X NDR)`.
    fn of_words(rate: &str) -> Link {
        let inner = rate.split_once('(').map(|(_, tail)| tail.trim_end_matches(')'));
        let mut words = inner.unwrap_or_default().split_whitespace();
        let lanes = words.next().and_then(|word| word.trim_end_matches(['X', 'x']).parse().ok());
        Link { lanes, speed: words.next().and_then(LaneSpeed::by_name) }
    }

    /// Data rate; on Ethernet the interface's word in Mb/s is preferred, since an unknown link mode
    /// is reported as some other width and speed and a bond is more than one leg.
    fn rate_bps(&self, ethernet: bool, netdev_mbps: Option<i64>) -> Option<u64> {
        let by_netdev = netdev_mbps.and_then(|mbps| u64::try_from(mbps).ok());
        match by_netdev.filter(|mbps| *mbps > 0 && *mbps < u64::from(u32::MAX)) {
            Some(mbps) => Some(mbps * 1_000_000),
            None if ethernet => Some(self.speed?.ethernet_bps(self.lanes?)),
            None => Some(self.speed?.data_bps(self.lanes?)),
        }
    }
}
