//! Which profile fits what was measured, by the ports that were used.

use std::collections::BTreeSet;

use fabbench_reports::model::{Device, Host, Measurement, Port};

use crate::line_rate::EthernetRate;
use crate::plan::LOOPBACK;

/// A class of fabric.
pub(super) struct Class {
    /// Name of the profile.
    pub profile: String,
    /// Why.
    pub why: String,
}

/// Why a measurement has no class.
pub(super) struct NoClass {
    /// What stands for the profile in a report.
    pub profile: String,
    /// To follow `line rate not judged: `.
    pub reason: String,
}

/// Drivers whose adapters are listed, and to which no transport speaks.
const LISTED_ONLY: [(&str, &str); 3] =
    [("efa", "EFA speaks SRD"), ("cxgb4", "iWARP"), ("qedr", "iWARP or RoCE by its mode")];

/// The class of the slower end.
pub(super) fn class(hosts: &[Host], measured: &Measurement) -> Result<Class, NoClass> {
    if measured.transport == "tcp" {
        return none("tcp-only", "TCP has no expectation");
    }
    let ends = ends(hosts, measured);
    if let Some(device) = soft_device(hosts, measured) {
        let why = format!("the devices are {}", soft_name(device));
        return Ok(Class { profile: "soft-roce".into(), why });
    }
    if measured.test != LOOPBACK && one_machine(hosts, measured) {
        return none("unjudged", "both ends are on one machine, and no fabric was crossed");
    }
    for (driver, what) in LISTED_ONLY {
        if ends.iter().any(|(_, device, _)| device.driver == driver) {
            return none("unjudged", &format!("{what}, which fabbench lists only"));
        }
    }
    if let Some((host, device, _)) = ends.iter().find(|(_, device, _)| device.virtual_function) {
        let why = format!("{}/{} is a virtual function", host.name, device.name);
        return Ok(Class { profile: "virtual-function".into(), why });
    }
    let slower = ends.iter().filter(|(_, _, port)| port.rate_bps.is_some());
    let slower = slower.min_by_key(|(_, _, port)| port.rate_bps);
    let Some((host, device, port)) = slower else {
        let reason = format!("the rate of {} is not known", measured.initiator);
        return none("unjudged", &reason);
    };
    of_port(port, &format!("{}/{}:{}", host.name, device.name, port.port))
}

fn none(profile: &str, reason: &str) -> Result<Class, NoClass> {
    Err(NoClass { profile: profile.into(), reason: reason.into() })
}

fn of_port(port: &Port, name: &str) -> Result<Class, NoClass> {
    let rate = port.rate_bps.unwrap_or(0);
    let words = format!("{} {} on {} at {name}", port.width, port.speed, port.link_layer);
    if port.link_layer == "Ethernet" {
        let Some(class) = EthernetRate::at_most(rate) else {
            return none("unjudged", &format!("{name} is slower than 10GbE"));
        };
        let gbps = match class.gbps() {
            56 => 50,
            above if above > 800 => 800,
            usual => usual,
        };
        let why = format!("{} Gb/s of Ethernet at {name}", rate / 1_000_000_000);
        return Ok(Class { profile: format!("roce-{gbps}g"), why });
    }
    let speed = port.speed.to_ascii_lowercase();
    match speed.as_str() {
        "sdr" | "ddr" | "qdr" | "fdr" | "edr" | "hdr" | "ndr" | "xdr" => {
            Ok(Class { profile: speed, why: words })
        }
        "fdr10" => Ok(Class { profile: "fdr".into(), why: words }),
        _ => none("unjudged", &format!("no profile fits {words}")),
    }
}

/// Host, device and port of each end that is among `hosts`.
pub fn ends<'a>(
    hosts: &'a [Host],
    measured: &Measurement,
) -> Vec<(&'a Host, &'a Device, &'a Port)> {
    let names = [&measured.initiator, &measured.responder];
    let mut found = Vec::new();
    for name in names {
        for host in hosts {
            for device in &host.devices {
                let own =
                    |port: &&Port| *name == format!("{}/{}:{}", host.name, device.name, port.port);
                found.extend(device.ports.iter().find(own).map(|port| (host, device, port)));
            }
        }
    }
    found
}

/// Whether both ends of a measurement are on one machine: hosts with one name of their own and the
/// same adapters.
pub fn one_machine(hosts: &[Host], measured: &Measurement) -> bool {
    let host = |end: &str| {
        let name = end.rsplit_once('/').map_or(end, |(host, _)| host);
        hosts.iter().find(|host| host.name == name)
    };
    let guids = |host: &Host| -> BTreeSet<String> {
        host.devices.iter().map(|device| device.guid.clone()).collect()
    };
    match (host(&measured.initiator), host(&measured.responder)) {
        (Some(a), Some(b)) => {
            a.name == b.name
                || (!a.hostname.is_empty() && a.hostname == b.hostname && guids(a) == guids(b))
        }
        _ => false,
    }
}

/// Whether an end of a measurement is a software device.
pub fn is_soft(hosts: &[Host], measured: &Measurement) -> bool {
    soft_device(hosts, measured).is_some()
}

fn soft_device<'a>(hosts: &'a [Host], measured: &Measurement) -> Option<&'a Device> {
    let ends = [&measured.initiator, &measured.responder];
    let mut devices =
        hosts.iter().flat_map(|host| host.devices.iter().map(move |device| (host, device)));
    let soft = devices.find(|(host, device)| {
        let prefix = format!("{}/{}:", host.name, device.name);
        device.soft && ends.iter().any(|end| end.starts_with(&prefix))
    });
    soft.map(|(_, device)| device)
}

/// What people call a software device.
fn soft_name(device: &Device) -> &'static str {
    if device.driver == "siw" { "Soft iWARP" } else { "Soft-RoCE" }
}

/// What people call the software device of a measurement; empty when it has none.
pub(super) fn soft_words(hosts: &[Host], measured: &Measurement) -> &'static str {
    soft_device(hosts, measured).map_or("", soft_name)
}
