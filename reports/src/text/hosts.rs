//! Who was measured: hosts, devices, rails, checks.

use super::Options;
use super::layout::{Column, Page, Table};
use crate::model::{Check, Device, Host, Port, Status};
use crate::units::BitRate;
use crate::view::View;
use crate::words::{
    SYNTHETIC, count, host_facts, letter, mtu, noteworthy, object_of, or_unknown, title, unseen,
};

/// What can be tested on some hosts, with the remedy for what cannot: `fabbench devices`.
///
/// `checks` that passed are not shown.
pub fn devices(hosts: &[Host], checks: &[Check], options: &Options) -> String {
    let seen = (hosts.to_vec(), checks.to_vec());
    super::harmless(&seen, options, |(hosts, checks), options| of_hosts(hosts, checks, options))
}

fn of_hosts(hosts: &[Host], checks: &[Check], options: &Options) -> String {
    let mut page = Page::new(options);
    for host in hosts {
        page.title(&host.name);
        page.paragraph(&host_facts(host));
        let found = device_rows(host);
        if found.is_empty() {
            page.paragraph(&no_device(host));
        } else {
            page.table(device_table(vec![Column::key("port")], found));
            for device in &host.devices {
                unusable(device, &mut page);
            }
            addresses(host, "", &mut page);
        }
    }
    problems(checks, &mut page);
    page.finish()
}

pub(super) fn heading(view: &View, page: &mut Page) {
    let report = view.report;
    page.title(&title(report));
    page.paragraph(&format!(
        "suite {}, profile {}; {} to {}; fabbench {} ({})",
        report.suite.name,
        report.profile.name,
        report.started,
        report.finished,
        report.tool.version,
        report.tool.commit,
    ));
    if !report.profile_why.is_empty() {
        page.paragraph(&format!("profile {}: {}", report.profile.name, report.profile_why));
    }
    if page.explain {
        page.paragraph(&format!("command: {}", report.command.join(" ")));
        page.paragraph(&format!(
            "suite hash {}, profile hash {}",
            or_none(&report.suite.hash),
            or_none(&report.profile.hash)
        ));
    }
    if report.synthetic {
        page.paragraph(SYNTHETIC);
    }
    if report.simulated {
        page.paragraph(
            "The RDMA devices are software (Soft-RoCE): function is tested for real, but no rate \
             here is a line rate.",
        );
    }
    if !report.complete {
        page.paragraph("The run ended early: what follows was measured before that.");
    }
    hosts(view, page);
}

pub(super) fn rails(view: &View, page: &mut Page) {
    if view.report.rails.is_empty() {
        return;
    }
    page.title("Rails");
    let mut table = Table::new(vec![
        Column::key("rail"),
        Column::key("from"),
        Column::key("to"),
        Column::word("data crossed"),
        Column::number("path MTU"),
        Column::text("GIDs"),
    ]);
    for rail in &view.report.rails {
        let path =
            view.report.measurements.iter().find(|m| {
                m.transport != "tcp" && m.path.rail == rail.name && !m.path.gid_a.is_empty()
            });
        let path = path.map(|m| &m.path);
        table.row(vec![
            rail.name.clone(),
            view.endpoint(&rail.a),
            view.endpoint(&rail.b),
            if rail.proved { "yes" } else { "not proved" }.to_owned(),
            path.map(|path| mtu(path.mtu)).unwrap_or_default(),
            path.map(|p| format!("{} ↔ {}, {}", p.gid_a, p.gid_b, p.gid_type)).unwrap_or_default(),
        ]);
    }
    page.table(table);
    for (names, why) in grouped(view.report.rails.iter().map(|r| (&*r.name, &*r.why))) {
        page.paragraph(&format!("{names}: {why}"));
    }
    let verbs = view.report.measurements.iter().filter(|m| m.transport != "tcp");
    for (names, why) in grouped(verbs.map(|m| (&*m.path.rail, &*m.path.why))) {
        page.paragraph(&format!("path of {names}: {why}"));
    }
}

pub(super) fn checks(view: &View, page: &mut Page) {
    let checks = &view.report.checks;
    if checks.is_empty() {
        return;
    }
    page.title("Checks");
    let mut table = Table::new(vec![
        Column::key("check"),
        Column::key("object"),
        Column::key("verdict"),
        Column::text("found"),
    ]);
    for check in checks.iter().filter(|check| page.explain || noteworthy(check)) {
        let object = object_of(check, &view.names);
        let status = page.status(check.status);
        table.row(vec![check.id.clone(), object, status, found(check)]);
    }
    page.table(table);
    let passed = checks.iter().filter(|check| check.status == Status::Pass).count();
    let beside = checks.iter().filter(|check| check.status == Status::NotApplicable).count();
    let beside = if beside > 0 { format!(", {beside} did not apply") } else { String::new() };
    page.paragraph(&format!("{passed} of {} passed{beside}", count(checks.len(), "check")));
    if let Some(hidden) = unseen(checks) {
        let why = if page.explain { "" } else { " (--explain says why)" };
        page.paragraph(&format!("{hidden}{why}"));
    }
}

/// Which HCA serves which GPU; hosts without a GPU are told in a line.
pub(super) fn topology(view: &View, page: &mut Page) {
    let hosts = &view.report.topology;
    if hosts.is_empty() {
        return;
    }
    page.title("GPUs and HCAs");
    let mut table = Table::new(vec![
        Column::key("host"),
        Column::key("GPU"),
        Column::key("HCA"),
        Column::key("path"),
        Column::key("verdict"),
        Column::text("why"),
    ]);
    for host in hosts {
        for gpu in &host.gpus {
            let pci = gpu.pci.as_deref().map(|pci| format!(" {pci}")).unwrap_or_default();
            table.row(vec![
                letter(&host.host, &view.names).to_owned(),
                format!("{}{pci}", gpu.name),
                gpu.hcas.first().cloned().unwrap_or_else(|| "-".into()),
                gpu.path.clone(),
                page.status(gpu.status),
                gpu.reason.clone(),
            ]);
        }
    }
    page.table(table);
    for host in hosts.iter().filter(|host| host.gpus.is_empty()) {
        let name = letter(&host.host, &view.names);
        page.paragraph(&format!("{name}: {}", host.reasons.join("; ")));
    }
    if hosts.iter().any(|host| !host.gpus.is_empty()) {
        page.paragraph("GPU memory: not measured");
    }
}

fn hosts(view: &View, page: &mut Page) {
    for host in &view.report.hosts {
        let name = letter(&host.name, &view.names);
        page.paragraph(&format!("{name}: {}", host_facts(host)));
        if page.explain {
            let limits = host.limits.iter().map(|(name, value)| format!("{name} {value}"));
            let limits: Vec<String> = limits.collect();
            page.paragraph(&format!("{name} limits: {}", or_none(&limits.join(", "))));
        }
    }
    let mut rows = Vec::new();
    for host in &view.report.hosts {
        for mut row in device_rows(host) {
            row.insert(0, letter(&host.name, &view.names).to_owned());
            rows.push(row);
        }
    }
    page.table(device_table(vec![Column::key("host"), Column::key("port")], rows));
    for host in &view.report.hosts {
        for device in &host.devices {
            unusable(device, page);
        }
        if page.explain {
            let letter = letter(&host.name, &view.names);
            addresses(host, &format!("{letter} "), page);
        }
    }
}

fn device_table(keys: Vec<Column>, rows: Vec<Vec<String>>) -> Table {
    let mut columns = keys;
    columns.extend([
        Column::word("state"),
        Column::word("link"),
        Column::number("rate"),
        Column::number("MTU"),
        Column::word("netdev"),
        Column::word("driver"),
        Column::word("firmware"),
        Column::number("NUMA"),
    ]);
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row);
    }
    table
}

fn device_rows(host: &Host) -> Vec<Vec<String>> {
    let ports = host.devices.iter().flat_map(|d| d.ports.iter().map(move |port| (d, port)));
    ports.map(|(device, port)| port_row(device, port)).collect()
}

fn port_row(device: &Device, port: &Port) -> Vec<String> {
    let speed = format!("{} {}", port.width, port.speed);
    let rate = match (port.rate_bps, device.soft) {
        (Some(bps), false) => format!("{} {}", BitRate(bps as f64), speed.trim()),
        (_, true) => "software".to_owned(),
        (None, false) => "unknown".to_owned(),
    };
    vec![
        format!("{}:{}", device.name, port.port),
        port.state.clone(),
        port.link_layer.clone(),
        rate.trim_end().to_owned(),
        mtu(port.active_mtu),
        port.netdev.clone().unwrap_or_default(),
        device.driver.clone(),
        device.firmware.clone(),
        device.numa_node.map(|node| node.to_string()).unwrap_or_default(),
    ]
}

/// LID and GIDs of each port.
fn addresses(host: &Host, before: &str, page: &mut Page) {
    for device in &host.devices {
        for port in &device.ports {
            let mut known: Vec<String> = Vec::new();
            if port.lid != 0 {
                known.push(format!("LID {}", port.lid));
            }
            let gids = port.gids.iter();
            known.extend(gids.map(|gid| format!("GID {} {} ({})", gid.index, gid.gid, gid.kind)));
            if port.gids.is_empty() {
                known.push("no usable GID".to_owned());
            }
            page.paragraph(&format!("{before}{}:{}: {}", device.name, port.port, known.join(", ")));
        }
    }
}

fn unusable(device: &Device, page: &mut Page) {
    if let Some(why) = &device.unusable {
        page.paragraph(&format!("{} cannot be used: {why}", device.name));
    }
}

fn problems(checks: &[Check], page: &mut Page) {
    let problems: Vec<&Check> = checks.iter().filter(|check| noteworthy(check)).collect();
    if problems.is_empty() {
        return;
    }
    page.title("Problems");
    for check in problems {
        let status = page.status(check.status);
        page.item(&format!("{}: {status}: {}", object_of(check, &[]), found(check)));
    }
}

fn found(check: &Check) -> String {
    let mut text = check.found.clone();
    if !check.wanted.is_empty() && check.status != Status::Pass {
        text.push_str(&format!("; wanted: {}", check.wanted));
    }
    if !check.remedy.is_empty() {
        text.push_str(&format!("; to do: {}", check.remedy));
    }
    text
}

/// Names that share a text, in the order met: `rail0, rail1`.
fn grouped<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, &'a str)> {
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for (name, text) in pairs.filter(|(name, text)| !name.is_empty() && !text.is_empty()) {
        match groups.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) if names.contains(&name) => {}
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], text)),
        }
    }
    groups.into_iter().map(|(names, text)| (names.join(", "), text)).collect()
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// Why a host shows no device; the reason often says so itself.
fn no_device(host: &Host) -> String {
    let reason = or_unknown(&host.rdma_core);
    if reason.contains("no RDMA") {
        reason.to_string()
    } else {
        format!("no RDMA device: {reason}")
    }
}
