//! What is asked for in performance.

use fabbench_reports::model::{Host, Measurement, Named, Report};

/// What a profile expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// `soft-roce`, `tcp-only` or `unjudged`.
    pub name: &'static str,
    /// Why line rate is not judged, to follow `line rate not judged: `.
    pub not_judged: String,
}

impl Profile {
    /// As it stands in a report; there is no text to hash.
    pub fn identity(&self) -> Named {
        Named { name: self.name.to_owned(), hash: String::new() }
    }
}

/// The profile that fits what was measured. This version has no expectation for hardware.
pub fn auto(report: &Report) -> Profile {
    let rdma: Vec<_> =
        report.measurements.iter().filter(|measured| measured.transport != "tcp").collect();
    if rdma.is_empty() {
        let not_judged = "TCP alone was measured, and it has no expectation".to_owned();
        return Profile { name: "tcp-only", not_judged };
    }
    let soft = rdma.iter().find_map(|measured| soft_driver(&report.hosts, measured));
    match soft {
        Some(driver) => Profile { name: "soft-roce", not_judged: format!("{driver} has none") },
        None => Profile {
            name: "unjudged",
            not_judged: "this version has no expectation for it".to_owned(),
        },
    }
}

/// Whether an end of a measurement is a software device.
pub fn is_soft(hosts: &[Host], measured: &Measurement) -> bool {
    soft_driver(hosts, measured).is_some()
}

/// What a software device under a measurement is called.
fn soft_driver(hosts: &[Host], measured: &Measurement) -> Option<&'static str> {
    let ends = [&measured.initiator, &measured.responder];
    let devices =
        hosts.iter().flat_map(|host| host.devices.iter().map(move |device| (host, device)));
    let mut soft = devices.filter(|(_, device)| device.soft).filter(|(host, device)| {
        let prefix = format!("{}/{}:", host.name, device.name);
        ends.iter().any(|end| end.starts_with(&prefix))
    });
    soft.next().map(|(_, device)| if device.driver == "siw" { "Soft iWARP" } else { "Soft-RoCE" })
}
