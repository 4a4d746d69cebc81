//! Who was measured and how; what explains the results and what is missing.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{Table, cell, chip, section, tree};
use crate::model::{Check, Device, Host, Measurement, Port, Status};
use crate::units::{BitRate, Span, Time};
use crate::view::View;
use crate::words::{
    count, counter_totals, host_facts, is_traffic, letter, meaning, mtu, noteworthy, object_of,
    unseen,
};

pub(super) fn diagnosis(view: &View) -> Markup {
    let findings = &view.report.diagnosis;
    if findings.is_empty() {
        return html! {};
    }
    let body = html! {
        @for finding in findings {
            h3 { (finding.object) ": " (finding.cause) }
            p class="faint" { "confidence " (finding.confidence) }
            ul {
                @for evidence in &finding.evidence { li { "seen: " (evidence) } }
                @if !finding.remedy.is_empty() { li { strong { "to do: " } (finding.remedy) } }
            }
        }
    };
    section("Diagnosis", body)
}

pub(super) fn not_measured(view: &View) -> Markup {
    let missing = &view.report.not_measured;
    if missing.is_empty() {
        return html! {};
    }
    let body = html! {
        ul { @for item in missing { li {
            strong { (item.what) }
            @if item.asked { " (was asked for)" }
            ": " (item.why)
        } } }
    };
    section("Not measured", body)
}

pub(super) fn hosts(view: &View) -> Markup {
    let hosts = &view.report.hosts;
    if hosts.is_empty() {
        return html! {};
    }
    let mut adapters = Table::new(&[
        "host",
        "adapter",
        "driver",
        "firmware",
        "board",
        "GUID",
        "PCI",
        "#NUMA node",
    ]);
    let mut ports =
        Table::new(&["host", "port", "state", "link", "#rate", "#MTU", "interface", "addresses"]);
    for host in hosts {
        let name = letter(&host.name, &view.names);
        for device in &host.devices {
            adapters.row(adapter_row(name, device));
            for port in &device.ports {
                ports.row(port_row(name, device, port));
            }
        }
    }
    let body = html! {
        @for host in hosts { (host_lines(view, host)) }
        (adapters.draw())
        (ports.draw())
    };
    section("Hosts and adapters", body)
}

fn host_lines(view: &View, host: &Host) -> Markup {
    let letter = letter(&host.name, &view.names);
    html! {
        p {
            strong { (host.name) }
            @if letter != host.name { " (" (letter) ")" }
            ": " (host_facts(host))
        }
        @for device in &host.devices {
            @if let Some(why) = &device.unusable {
                p { (chip(Status::Warn)) " " (device.name) " cannot be used: " (why) }
            }
        }
        @if !host.limits.is_empty() {
            p class="faint" { "limits: "
                @for (index, (name, value)) in host.limits.iter().enumerate() {
                    @if index > 0 { ", " } (name) " " (value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                }
            }
        }
    }
}

fn adapter_row(host: &str, device: &Device) -> Vec<Markup> {
    vec![
        cell(host),
        cell(&device.name),
        cell(&device.driver),
        cell(&device.firmware),
        cell(&device.board),
        cell(&device.guid),
        cell(device.pci.as_deref().unwrap_or_default()),
        cell(device.numa_node.map(|node| node.to_string()).unwrap_or_default()),
    ]
}

fn port_row(host: &str, device: &Device, port: &Port) -> Vec<Markup> {
    let rate = match (port.rate_bps, device.soft) {
        (_, true) => "software".to_owned(),
        (Some(bps), false) => format!("{} {} {}", BitRate(bps as f64), port.width, port.speed),
        (None, false) => "unknown".to_owned(),
    };
    let mut addresses: Vec<String> = port
        .gids
        .iter()
        .map(|gid| format!("GID {} {} ({})", gid.index, gid.gid, gid.kind))
        .collect();
    if port.lid != 0 {
        addresses.insert(0, format!("LID {}", port.lid));
    }
    vec![
        cell(host),
        cell(format!("{}:{}", device.name, port.port)),
        cell(&port.state),
        cell(&port.link_layer),
        cell(rate),
        cell(mtu(port.active_mtu)),
        cell(port.netdev.as_deref().unwrap_or_default()),
        cell(addresses.join(", ")),
    ]
}

pub(super) fn rails(view: &View) -> Markup {
    if view.report.rails.is_empty() {
        return html! {};
    }
    let mut table =
        Table::new(&["rail", "from", "to", "data crossed", "#path MTU", "addresses", "why"]);
    for rail in &view.report.rails {
        let used = |m: &&Measurement| {
            m.transport != "tcp" && m.path.rail == rail.name && !m.path.gid_a.is_empty()
        };
        let path = view.report.measurements.iter().find(used).map(|m| &m.path);
        table.row(vec![
            cell(&rail.name),
            cell(view.endpoint(&rail.a)),
            cell(view.endpoint(&rail.b)),
            cell(if rail.proved { "yes" } else { "not proved" }),
            cell(path.map(|p| mtu(p.mtu)).unwrap_or_default()),
            cell(
                path.map(|p| format!("{} ↔ {}, {}", p.gid_a, p.gid_b, p.gid_type))
                    .unwrap_or_default(),
            ),
            cell(&rail.why),
        ]);
    }
    section("Rails", table.draw())
}

pub(super) fn checks(view: &View) -> Markup {
    let checks = &view.report.checks;
    if checks.is_empty() {
        return html! {};
    }
    let (open, others): (Vec<&Check>, Vec<&Check>) = checks.iter().partition(|c| noteworthy(c));
    let passed = checks.iter().filter(|check| check.status == Status::Pass).count();
    let body = html! {
        p { (passed) " of " (count(checks.len(), "check")) " passed" }
        @if let Some(hidden) = unseen(checks) { p { (hidden) } }
        (check_table(view, &open))
        @if !others.is_empty() {
            details {
                summary { "Checks without a finding (" (others.len()) ")" }
                (check_table(view, &others))
            }
        }
    };
    section("Checks", body)
}

fn check_table(view: &View, checks: &[&Check]) -> Markup {
    let mut table = Table::new(&["check", "object", "verdict", "found", "wanted", "to do"]);
    for check in checks {
        table.row(vec![
            cell(&check.id),
            cell(object_of(check, &view.names)),
            chip(check.status),
            cell(&check.found),
            cell(&check.wanted),
            cell(&check.remedy),
        ]);
    }
    table.draw()
}

/// Which HCA serves which GPU, and whether over a common PCIe switch.
pub(super) fn topology(view: &View) -> Markup {
    let hosts = &view.report.topology;
    if hosts.is_empty() {
        return html! {};
    }
    let mut gpus = Table::new(&["host", "GPU", "PCI", "HCAs", "path", "verdict", "why", "NCCL"]);
    let mut findings = Table::new(&["host", "object", "verdict", "found", "to do"]);
    for host in hosts {
        let name = letter(&host.host, &view.names);
        for gpu in &host.gpus {
            gpus.row(vec![
                cell(name),
                cell(&gpu.name),
                cell(gpu.pci.as_deref().unwrap_or_default()),
                cell(gpu.hcas.join(", ")),
                cell(&gpu.path),
                chip(gpu.status),
                cell(&gpu.reason),
                cell(gpu.nccl.as_deref().unwrap_or_default()),
            ]);
        }
        for finding in &host.findings {
            findings.row(vec![
                cell(name),
                cell(&finding.object),
                chip(finding.status),
                cell(&finding.found),
                cell(&finding.remedy),
            ]);
        }
    }
    let body = html! {
        @for host in hosts {
            p {
                strong { (host.host) } ": " (chip(host.status)) " " (host.reasons.join("; "))
                span class="faint" { " (read from " (host.source) "; GPU memory " (host.gpu_memory) ")" }
            }
        }
        (gpus.draw())
        div class="plots" { @for host in hosts { (tree::figure(host)) } }
        (findings.draw())
    };
    section("GPUs and HCAs", body)
}

pub(super) fn counters(view: &View) -> Markup {
    let totals = counter_totals(view.report);
    if totals.is_empty() {
        return html! {};
    }
    let (traffic, trouble): (Vec<_>, Vec<_>) =
        totals.iter().partition(|(name, _)| is_traffic(name));
    let table = |rows: &[(&&str, &(i64, usize))]| {
        let mut table = Table::new(&["port", "counter", "#grew by", "which says", "in"]);
        for (name, (delta, cases)) in rows {
            let (port, counter) = name.rsplit_once('/').unwrap_or(("", name));
            table.row(vec![
                cell(view.endpoint(port)),
                cell(counter),
                cell(format!("{delta:+}")),
                cell(meaning(name)),
                cell(count(*cases, "measurement")),
            ]);
        }
        table.draw()
    };
    let body = html! {
        @if trouble.is_empty() { p { "No error counter grew." } } @else { (table(&trouble)) }
        @if !traffic.is_empty() {
            details {
                summary { "Counters of traffic (" (traffic.len()) ")" }
                (table(&traffic))
            }
        }
    };
    section("Counters of the ports", body)
}

pub(super) fn method(view: &View) -> Markup {
    let measurements = &view.report.measurements;
    if measurements.is_empty() {
        return html! {};
    }
    let mut table = Table::new(&[
        "case",
        "#repeats",
        "#window",
        "#warm-up",
        "#QPs",
        "#threads",
        "#tx depth",
        "#signal every",
        "polling",
        "arrival",
        "memory",
    ]);
    for m in measurements {
        let k = &m.method;
        table.row(vec![
            cell(&m.id),
            cell(m.repeats.len().to_string()),
            cell(Span(k.window_ns).to_string()),
            cell(Span(k.warmup_ns).to_string()),
            cell(k.qps.to_string()),
            cell(k.threads.to_string()),
            cell(k.tx_depth.to_string()),
            cell(format!("{} sends", k.signal_every)),
            cell(&k.polling),
            cell(&k.arrival),
            cell(&m.memory.kind),
        ]);
    }
    let stamped = measurements.iter().filter(|m| m.method.clock_resolution_ns > 0);
    let clock = stamped.max_by(|a, b| a.method.clock_cost_ns.total_cmp(&b.method.clock_cost_ns));
    let body = html! {
        p {
            "Percentiles are nearest rank over all samples; nothing is trimmed. Bandwidth is the "
            "receiver's count, the median of the repeats; the min window is the worst interval of "
            "any repeat."
        }
        @if let Some(m) = clock {
            p { "Clock: step " (Time(m.method.clock_resolution_ns as f64).to_string()) ", "
                (Time(m.method.clock_cost_ns).to_string()) " a reading." }
        }
        (ceilings(measurements))
        details { summary { "Parameters of every case" } (table.draw()) }
    };
    section("Method", body)
}

/// The terms of the ceilings, each said once.
fn ceilings(measurements: &[Measurement]) -> Markup {
    let mut terms = BTreeSet::new();
    for term in measurements.iter().filter_map(|m| m.ceiling.as_ref()).flat_map(|c| &c.terms) {
        let hard = if term.hard { "nothing is faster" } else { "not a hard limit" };
        terms.insert((&term.name, BitRate(term.bps).to_string(), hard, &term.because));
    }
    let mut table = Table::new(&["ceiling", "#rate", "", "because"]);
    for (name, rate, hard, because) in terms {
        table.row(vec![cell(name), cell(rate), cell(hard), cell(because)]);
    }
    html! {
        @if !table.rows.is_empty() {
            details { summary { "Ceilings, term by term" } (table.draw()) }
        }
    }
}

pub(super) fn provenance(view: &View) -> Markup {
    let report = view.report;
    let agents: BTreeSet<&str> = report.hosts.iter().map(|host| host.agent.as_str()).collect();
    let agents: Vec<&str> = agents.into_iter().filter(|agent| !agent.is_empty()).collect();
    let body = html! {
        dl {
            dt { "fabbench" } dd { (report.tool.version) " (" (report.tool.commit) ")" }
            dt { "agents" } dd { (agents.join(", ")) }
            dt { "command" } dd { code { (report.command.join(" ")) } }
            dt { "suite" } dd { (report.suite.name) " " code { (report.suite.hash) } }
            dt { "profile" } dd { (report.profile.name) " " code { (report.profile.hash) } }
            dt { "schema" } dd { (report.schema) }
        }
    };
    section("Provenance", body)
}
