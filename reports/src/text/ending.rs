//! What explains the results, what is missing, how it was measured, and the verdict.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Column, Page, Table};

use crate::model::Measurement;
use crate::units::{BitRate, Size, Span, Time};
use crate::view::View;
use crate::words::{count, counter_totals, is_traffic, judged, meaning, reasons, verdict_parts};

pub(super) fn counters(view: &View, page: &mut Page) {
    let totals = counter_totals(view.report);
    if totals.is_empty() {
        return;
    }
    page.title("Counters of the ports");
    let mut table = Table::new(vec![
        Column::key("port"),
        Column::key("counter"),
        Column::number("grew by"),
        Column::text("which says"),
    ]);
    let explaining = totals.iter().filter(|(name, _)| page.explain || !is_traffic(name));
    let mut shown = 0;
    for (name, (delta, cases)) in explaining {
        let (port, counter) = name.rsplit_once('/').unwrap_or(("", name));
        table.row(vec![
            view.endpoint(port),
            counter.to_owned(),
            format!("{delta:+}"),
            format!("{} (in {})", meaning(name), count(*cases, "measurement")),
        ]);
        shown += 1;
    }
    page.table(table);
    let traffic = totals.keys().filter(|name| is_traffic(name)).count();
    let silent = if shown == 0 { "; no error counter grew" } else { "" };
    if !page.explain && (traffic > 0 || shown == 0) {
        page.paragraph(&format!("{} of traffic grew{silent}", count(traffic, "counter")));
    }
}

pub(super) fn not_measured(view: &View, page: &mut Page) {
    let missing = &view.report.not_measured;
    if missing.is_empty() {
        return;
    }
    page.title("Not measured");
    for item in missing {
        let asked = if item.asked { " (was asked for)" } else { "" };
        page.item(&format!("{}{asked}: {}", item.what, item.why));
    }
}

pub(super) fn method(view: &View, page: &mut Page) {
    let measurements = &view.report.measurements;
    if measurements.is_empty() {
        return;
    }
    page.title("Method");
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for m in measurements.iter().filter(|m| m.test != "integrity" && m.method.window_ns > 0) {
        kinds.entry(m.test.replace('_', " ")).or_default().insert(timing(m));
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(test, ways)| format!("{test} {}", ways.into_iter().collect::<Vec<_>>().join(" or ")))
        .collect();
    if !kinds.is_empty() {
        page.paragraph(&format!("{}.", kinds.join("; ")));
    }
    if let Some(clock) = clock(measurements) {
        page.paragraph(&clock);
    }
    if page.explain {
        for m in measurements {
            explain(view, m, page);
        }
    }
}

pub(super) fn diagnosis(view: &View, page: &mut Page) {
    if view.report.diagnosis.is_empty() {
        return;
    }
    page.title("Diagnosis");
    for finding in &view.report.diagnosis {
        let sure = format!("confidence {}", finding.confidence);
        page.item(&format!("{}: {} ({sure})", finding.object, finding.cause));
        for evidence in &finding.evidence {
            page.wrapped(&format!("seen: {evidence}"), "    ", "      ");
        }
        if !finding.remedy.is_empty() {
            page.wrapped(&format!("to do: {}", finding.remedy), "    ", "      ");
        }
    }
}

pub(super) fn verdict(view: &View, page: &mut Page) {
    let verdict = &view.report.verdict;
    page.title("Verdict");
    let word = page.painted_as(&verdict.status.word().to_uppercase(), verdict.status);
    page.paragraph(&format!("{word}: {}", verdict_parts(view.report)));
    for reason in reasons(view.report) {
        page.item(reason);
    }
    for (number, step) in verdict.next.iter().enumerate() {
        if number == 0 {
            page.paragraph("Next:");
        }
        page.wrapped(&format!("{}. {step}", number + 1), "  ", "     ");
    }
}

/// `3 × 1 s after 250 ms warm-up`; by number, `3 × 1000 a QP (at most 60 s) after …`.
fn timing(m: &Measurement) -> String {
    let longest = Span(m.method.window_ns);
    let number = ["iterations", "rounds"].iter().find_map(|name| m.method.requested.get(*name));
    let window = match (number, m.test.as_str()) {
        (None, _) => longest.to_string(),
        (Some(number), "latency") => format!("{number} rounds (at most {longest})"),
        (Some(number), _) => format!("{number} messages a QP (at most {longest})"),
    };
    format!("{} × {window} after {} warm-up", m.repeats.len(), Span(m.method.warmup_ns))
}

fn clock(measurements: &[Measurement]) -> Option<String> {
    let stamped = measurements.iter().filter(|m| m.method.clock_resolution_ns > 0);
    let worst = stamped.max_by(|a, b| a.method.clock_cost_ns.total_cmp(&b.method.clock_cost_ns))?;
    Some(format!(
        "Clock: step {}, {} a reading. Percentiles are nearest rank over all samples, nothing is \
         trimmed; bandwidth is the receiver's count, the median of the repeats; the min window is \
         the worst interval of any repeat.",
        Time(worst.method.clock_resolution_ns as f64),
        Time(worst.method.clock_cost_ns),
    ))
}

fn explain(view: &View, m: &Measurement, page: &mut Page) {
    page.item(&m.id);
    let mut detail = |text: String| page.wrapped(&text, "    ", "      ");
    let ends = (view.endpoint(&m.initiator), view.endpoint(&m.responder));
    detail(format!("initiator {}, responder {}", ends.0, ends.1));
    detail(knobs(m));
    for (title, values) in
        [("requested", &m.method.requested), ("took effect", &m.method.effective)]
    {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|(k, v)| format!("{k} {v}")).collect();
            detail(format!("{title}: {}", values.join(", ")));
        }
    }
    detail(route(m));
    detail(memory(m));
    for (host, cpu) in &m.cpu {
        let (user, system) = (Time(cpu.user_ns as f64), Time(cpu.system_ns as f64));
        detail(format!("CPU time on {host}: {user} user, {system} system"));
    }
    for term in m.ceiling.iter().flat_map(|ceiling| &ceiling.terms) {
        let hard = if term.hard { "hard" } else { "soft" };
        let rate = BitRate(term.bps);
        detail(format!("ceiling {}: {rate} ({hard}): {}", term.name, term.because));
    }
    if let Some(bound) = &m.bound {
        detail(format!("bound: {bound}"));
    }
    if !m.reason.is_empty() {
        detail(format!("{}: {}", judged(m.status), m.reason));
    }
    for (index, text) in m.repeats.iter().map(repeat).enumerate() {
        detail(format!("repeat {}: {text}", index + 1));
    }
}

fn knobs(m: &Measurement) -> String {
    let k = &m.method;
    let inline = match k.inline {
        0 => "nothing inline".to_owned(),
        bytes => format!("inline up to {}", Size(u64::from(bytes))),
    };
    format!(
        "{}, {}, tx depth {}, rx depth {}, {inline}, signal every {}, {} polling, arrival by {}",
        count(k.qps as usize, if m.transport == "tcp" { "socket" } else { "QP" }),
        count(k.threads as usize, "thread"),
        k.tx_depth,
        k.rx_depth,
        k.signal_every,
        k.polling,
        k.arrival,
    )
}

fn route(m: &Measurement) -> String {
    let p = &m.path;
    let mut text = format!("path {} ↔ {}, {}, MTU {} B", p.gid_a, p.gid_b, p.gid_type, p.mtu);
    text.push_str(&format!(", service level {}, traffic class {}", p.sl, p.traffic_class));
    if !p.udp_sports.is_empty() {
        text.push_str(&format!(", UDP source ports {:?}", p.udp_sports));
    }
    text
}

fn memory(m: &Measurement) -> String {
    let kind = &m.memory.kind;
    let mut text = format!("memory {kind}, working set {}", Size(m.memory.working_set_bytes));
    if let Some(node) = m.memory.numa_node {
        text.push_str(&format!(", NUMA node {node}"));
    }
    text.push_str(match m.memory.exceeds_llc {
        Some(true) => ", more than the last-level cache holds",
        Some(false) => ", fits the last-level cache",
        None => ", last-level cache unknown",
    });
    text
}

fn repeat(r: &crate::model::Repeat) -> String {
    let mut parts = vec![format!("window {}", Time(r.window_ns as f64))];
    if let Some(latency) = r.latency_ns {
        parts.push(format!("p50 {}, max {}", Time(latency.p50), Time(latency.max)));
        parts.push(format!("{} samples", latency.count));
    }
    for (who, bps) in [("sent", r.sent_bps), ("received", r.received_bps)] {
        parts.extend(bps.map(|bps| format!("{who} {}", BitRate(bps))));
    }
    if r.messages_sent > 0 {
        parts.push(format!("{} messages sent, {} received", r.messages_sent, r.messages_received));
    }
    parts.push(format!("skew {}", Time(r.skew_ns as f64)));
    if r.qp_messages.len() > 1 {
        parts.push(format!("by QP {:?}", r.qp_messages));
    }
    if r.longest_gap_ns > 0 {
        parts.push(format!("longest gap {}", Time(r.longest_gap_ns as f64)));
    }
    parts.join(", ")
}
