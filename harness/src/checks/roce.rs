//! Checks of Ethernet ports: what keeps RoCE lossless, and how several of them are routed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabbench_reports::model::{Check, Device, Port};

use super::physical::field;
use super::subject::Subject;

/// The lossless settings of one Ethernet port of a hardware adapter.
pub(super) fn checks(subject: &Subject, device: &Device, port: &Port) -> Vec<Check> {
    let settings = Settings::of(subject, device, port);
    vec![
        flow_control(subject, device, port, &settings),
        trust(subject, device, port, &settings),
        congestion(subject, device, port, &settings),
        class(subject, device, port, &settings),
        pause(subject, device, port, &settings),
    ]
}

/// What is set on a port; what cannot be read says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// Priorities with PFC.
    pub paused: Result<Vec<u8>, String>,
    /// Whether priorities are taken from DSCP.
    pub trusts_dscp: Result<bool, String>,
    /// Priorities with ECN, at the receiver and at the sender.
    pub marked: Result<(Vec<u8>, Vec<u8>), String>,
    /// Traffic class byte that the driver forces; none when none is set.
    pub class: Result<Option<u8>, String>,
    /// Global pause, receiving and sending.
    pub pause: Result<(bool, bool), String>,
}

impl Settings {
    pub fn of(subject: &Subject, device: &Device, port: &Port) -> Settings {
        let Some(netdev) = port.netdev.as_deref() else {
            let why = || "the port's interface is not known".to_owned();
            return Settings {
                paused: Err(why()),
                trusts_dscp: Err(why()),
                marked: Err(why()),
                class: forced_class(subject, device, port),
                pause: Err(why()),
            };
        };
        Settings {
            paused: subject.tool(&format!("dcb pfc show dev {netdev}")).and_then(paused),
            trusts_dscp: trusts_dscp(subject, netdev),
            marked: marked(subject, netdev),
            class: forced_class(subject, device, port),
            pause: subject.tool(&format!("ethtool -a {netdev}")).and_then(global_pause),
        }
    }
}

/// Priorities of `prio-pfc 0:off 1:off 2:off 3:on`.
fn paused(text: &str) -> Result<Vec<u8>, String> {
    let words = text.split_whitespace();
    let list = words.skip_while(|word| *word != "prio-pfc").skip(1);
    let pairs: Vec<(u8, bool)> = list
        .map_while(|word| {
            let (priority, state) = word.split_once(':')?;
            Some((priority.parse().ok()?, state == "on"))
        })
        .collect();
    if pairs.is_empty() {
        return Err("dcb does not list the priorities".into());
    }
    Ok(pairs.into_iter().filter(|(_, on)| *on).map(|(priority, _)| priority).collect())
}

fn trusts_dscp(subject: &Subject, netdev: &str) -> Result<bool, String> {
    let order = subject.tool(&format!("dcb apptrust show dev {netdev}"));
    if let Ok(text) = order
        && let Some(line) = text.lines().find_map(|line| line.trim().strip_prefix("order"))
    {
        return Ok(line.split_whitespace().any(|word| word.trim_matches(':') == "dscp"));
    }
    let map = subject.tool(&format!("dcb app show dev {netdev} dscp-prio"))?;
    // A table of DSCP values is kept only where they are trusted.
    Ok(map.split_whitespace().any(|word| word.contains(':')))
}

fn marked(subject: &Subject, netdev: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let side = |side: &str| -> Result<Vec<u8>, String> {
        let mut on = Vec::new();
        for priority in 0..8u8 {
            let path = format!("/sys/class/net/{netdev}/ecn/{side}/enable/{priority}");
            if subject.read(&path)? == "1" {
                on.push(priority);
            }
        }
        Ok(on)
    };
    Ok((side("roce_np")?, side("roce_rp")?))
}

/// `Global tclass=106`, or nothing when none is set.
fn forced_class(subject: &Subject, device: &Device, port: &Port) -> Result<Option<u8>, String> {
    let path = format!("/sys/class/infiniband/{}/tc/{}/traffic_class", device.name, port.port);
    if !subject.view.exists(&path) {
        return Err(format!("{path} is not there"));
    }
    let text = match subject.read(&path) {
        Ok(text) => text,
        // An empty file is one without a forced class.
        Err(_) if subject.view.errno(&path).is_none() => return Ok(None),
        Err(why) => return Err(why),
    };
    let number = text.rsplit('=').next().unwrap_or_default().trim();
    Ok(number.parse().ok())
}

fn global_pause(text: &str) -> Result<(bool, bool), String> {
    let state = |key: &str| field(text, key).map(|word| word.starts_with("on"));
    state("RX").zip(state("TX")).ok_or_else(|| "ethtool does not tell".to_owned())
}

fn words(priorities: &[u8]) -> String {
    let words: Vec<_> = priorities.iter().map(u8::to_string).collect();
    words.join(", ")
}

fn flow_control(subject: &Subject, device: &Device, port: &Port, settings: &Settings) -> Check {
    let draft = subject.of_port("pfc", device, port, "on exactly one priority, that of RoCE");
    let remedy = "mlnx_qos -i INTERFACE --pfc 0,0,0,1,0,0,0,0 on every host and the same on every \
                  switch port (needs root, disturbs traffic), or a profile for a lossy fabric";
    match &settings.paused {
        Err(why) => draft.unknown(why.clone()),
        Ok(on) if on.len() == 1 => draft.pass(format!("priority {}", words(on))),
        Ok(on) if on.is_empty() => {
            draft.warn("off: RoCE loses packets when a switch is full", remedy)
        }
        Ok(on) => draft.warn(format!("priorities {}", words(on)), remedy),
    }
}

fn trust(subject: &Subject, device: &Device, port: &Port, settings: &Settings) -> Check {
    let draft = subject.of_port("trust", device, port, "priorities taken from DSCP");
    match settings.trusts_dscp {
        Err(ref why) => draft.unknown(why.clone()),
        Ok(true) => draft.pass("dscp"),
        Ok(false) => draft.warn(
            "not dscp: packets without a VLAN tag all fall into priority 0",
            "mlnx_qos -i INTERFACE --trust dscp on every host (needs root, disturbs traffic)",
        ),
    }
}

fn congestion(subject: &Subject, device: &Device, port: &Port, settings: &Settings) -> Check {
    let draft =
        subject.of_port("ecn", device, port, "on at sender and receiver for RoCE's priority");
    let (receiver, sender) = match &settings.marked {
        Ok(both) => both,
        Err(why) => return draft.unknown(why.clone()),
    };
    let asked = settings.paused.as_ref().ok().and_then(|on| on.first().copied());
    let covers = |on: &[u8]| match asked {
        Some(priority) => on.contains(&priority),
        None => !on.is_empty(),
    };
    let found =
        |on: &[u8]| if on.is_empty() { "off".to_owned() } else { format!("on for {}", words(on)) };
    let found = format!("receiver {}, sender {}", found(receiver), found(sender));
    match covers(receiver) && covers(sender) {
        true => draft.pass(found),
        false => draft.warn(
            found,
            "write 1 to /sys/class/net/INTERFACE/ecn/roce_np/enable/PRIORITY and roce_rp likewise \
             (needs root)",
        ),
    }
}

/// Where packets go that nobody gave a class: the kernel's connection manager and NCCL.
fn class(subject: &Subject, device: &Device, port: &Port, settings: &Settings) -> Check {
    let draft =
        subject.of_port("traffic-class", device, port, "one that falls into the paused priority");
    let class = match &settings.class {
        Ok(class) => *class,
        Err(why) => return draft.unknown(why.clone()),
    };
    // By default a switch and the adapter take the priority from the upper three bits of DSCP.
    let priority = class.unwrap_or(0) >> 5;
    let found = match class {
        Some(class) => format!("{class} (DSCP {}, priority {priority})", class >> 2),
        None => "not set: packets go in class 0 unless the application says otherwise".to_owned(),
    };
    match settings.paused.as_ref().ok().and_then(|on| on.first().copied()) {
        Some(paused) if paused != priority => draft.warn(
            format!("{found}; PFC is on priority {paused}"),
            format!(
                "echo {} > /sys/class/infiniband/{}/tc/{}/traffic_class (needs root), and \
                 NCCL_IB_TC={0} for NCCL",
                u32::from(paused) * 32 + 8,
                device.name,
                port.port
            ),
        ),
        Some(_) => draft.pass(found),
        None => draft.told(found),
    }
}

fn pause(subject: &Subject, device: &Device, port: &Port, settings: &Settings) -> Check {
    let draft = subject.of_port("pause", device, port, "not beside PFC");
    let (receives, sends) = match settings.pause {
        Ok(both) => both,
        Err(ref why) => return draft.unknown(why.clone()),
    };
    let word = |on: bool| if on { "on" } else { "off" };
    let found = format!("global pause: receiving {}, sending {}", word(receives), word(sends));
    let lossless = settings.paused.as_ref().is_ok_and(|on| !on.is_empty());
    match (lossless, receives || sends) {
        (true, true) => draft.warn(
            found,
            "ethtool -A INTERFACE rx off tx off (needs root, disturbs traffic): one of the two",
        ),
        (_, true) => draft.told(found),
        (_, false) => draft.pass(found),
    }
}

/// Interfaces of RDMA ports that share a subnet: without settings the kernel answers for all of them
/// on any, so that rails mix.
pub(super) fn routing(subject: &Subject) -> Option<Check> {
    let devices = subject.party.host.devices.iter().filter(|device| !device.soft);
    let ports = devices.flat_map(|device| device.ports.iter());
    let netdevs: Vec<&str> = ports
        .filter(|port| port.link_layer == "Ethernet" && port.state == "ACTIVE")
        .filter_map(|port| port.netdev.as_deref())
        .collect();
    if netdevs.len() < 2 {
        return None;
    }
    let draft = subject.of_host("rail-routing", "each rail answers for its own address alone");
    if !subject.was_asked() {
        return Some(draft.unknown("no agent was asked for the addresses"));
    }
    let shared = shared_subnets(subject, &netdevs);
    let Some((subnet, members)) = shared.first() else {
        return Some(
            draft.pass(format!("{} interfaces, each in a subnet of its own", netdevs.len())),
        );
    };
    let names = members.join(", ");
    let mut wrong = Vec::new();
    for netdev in members {
        for (file, good) in [("arp_ignore", 1), ("arp_announce", 2)] {
            match effective(subject, netdev, file) {
                Ok(value) if value >= good => {}
                Ok(value) => wrong.push(format!("{netdev} {file} {value}")),
                Err(why) => return Some(draft.unknown(why)),
            }
        }
        match effective(subject, netdev, "rp_filter") {
            Ok(1) => wrong.push(format!("{netdev} rp_filter 1")),
            Ok(_) => {}
            Err(why) => return Some(draft.unknown(why)),
        }
    }
    Some(match wrong[..] {
        [] => draft.pass(format!("{names} share {subnet} and answer each for itself")),
        _ => draft.warn(
            format!("{names} share {subnet}: {}", wrong.join(", ")),
            "one subnet a rail; or sysctl -w net.ipv4.conf.all.arp_ignore=1 \
             net.ipv4.conf.all.arp_announce=2, rp_filter=2 and a routing rule for each address \
             (needs root, disturbs traffic)",
        ),
    })
}

/// The kernel uses the larger of an interface's own value and that of `all`.
fn effective(subject: &Subject, netdev: &str, file: &str) -> Result<u8, String> {
    let of = |name: &str| subject.number::<u8>(&format!("/proc/sys/net/ipv4/conf/{name}/{file}"));
    Ok(of(netdev)?.max(of("all")?))
}

/// Subnets with more than one of these interfaces.
fn shared_subnets<'a>(subject: &Subject<'a>, netdevs: &[&str]) -> Vec<(String, Vec<&'a str>)> {
    let mut subnets: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for own in &subject.facts().calls.addresses {
        let IpAddr::V4(address) = own.address else { continue };
        if !netdevs.contains(&own.netdev.as_str()) || own.prefix_len == 0 || own.prefix_len > 31 {
            continue;
        }
        let mask = u32::MAX << (32 - u32::from(own.prefix_len));
        let base = std::net::Ipv4Addr::from(u32::from(address) & mask);
        let members = subnets.entry(format!("{base}/{}", own.prefix_len)).or_default();
        if !members.contains(&own.netdev.as_str()) {
            members.push(&own.netdev);
        }
    }
    subnets.into_iter().filter(|(_, members)| members.len() > 1).collect()
}
