//! Markdown for tickets and merge requests: the verdict first, then what it rests on.
//!
//! Names and findings are escaped, so that none of them is read as markup, a link, a mention or a
//! reference.

mod comparison;

use std::fmt::Write;

pub use comparison::comparison;

use crate::clean;
use crate::model::{Measurement, Report, Status};
use crate::units::{BitRate, MessageRate, Share, Size, Time, range};
use crate::view::View;
use crate::words::{
    SYNTHETIC, count, counter_totals, host_facts, is_traffic, judged, label, meaning, noteworthy,
    object_of, reasons, title, trip, unseen, verdict_parts,
};

/// The report as GitHub-flavoured Markdown.
pub fn report(report: &Report) -> String {
    let view = View::new(report);
    let mut page = String::new();
    verdict(&view, &mut page);
    checks(&view, &mut page);
    topology(&view, &mut page);
    integrity(&view, &mut page);
    latency(&view, &mut page);
    bandwidth(&view, &mut page);
    message_rate(&view, &mut page);
    notes(&view, &mut page);
    counters(&view, &mut page);
    diagnosis(&view, &mut page);
    not_measured(&view, &mut page);
    hosts(&view, &mut page);
    clean::page(page)
}

fn verdict(view: &View, page: &mut String) {
    let report = view.report;
    let _ = writeln!(page, "## {}\n", prose(&title(report)));
    let word = report.verdict.status.word().to_uppercase();
    let _ = writeln!(page, "**{word}**: {}\n", prose(&verdict_parts(report)));
    if report.synthetic {
        let _ = writeln!(page, "{SYNTHETIC}\n");
    }
    if report.simulated {
        page.push_str("The RDMA devices are software: no rate here is a line rate.\n\n");
    }
    if !report.complete {
        page.push_str("The run ended early: this was measured before that.\n\n");
    }
    list(page, "- ", reasons(report));
    if !report.verdict.next.is_empty() {
        page.push_str("Next:\n\n");
        list(page, "1. ", report.verdict.next.iter().map(String::as_str));
    }
}

fn checks(view: &View, page: &mut String) {
    let checks = &view.report.checks;
    if checks.is_empty() {
        return;
    }
    let passed = checks.iter().filter(|check| check.status == Status::Pass).count();
    let hidden = unseen(checks).map(|text| format!("; {text}")).unwrap_or_default();
    let all = count(checks.len(), "check");
    let _ = writeln!(page, "### Checks\n\n{passed} of {all} passed{hidden}\n");
    let mut table = Table::new(&["check", "object", "verdict", "found", "wanted", "to do"]);
    for check in checks.iter().filter(|check| noteworthy(check)) {
        table.row(&[
            &check.id,
            &object_of(check, &view.names),
            word(check.status),
            &check.found,
            &check.wanted,
            &check.remedy,
        ]);
    }
    table.write(page);
}

fn topology(view: &View, page: &mut String) {
    let mut table = Table::new(&["host", "GPU", "HCAs", "path", "verdict", "why"]);
    for host in &view.report.topology {
        for gpu in &host.gpus {
            let pci = gpu.pci.as_deref().unwrap_or_default();
            table.row(&[
                &host.host,
                &format!("{} {pci}", gpu.name),
                &gpu.hcas.join(", "),
                &gpu.path,
                word(gpu.status),
                &gpu.reason,
            ]);
        }
    }
    table.titled("GPUs and HCAs", page);
}

fn integrity(view: &View, page: &mut String) {
    let columns = ["rail", "operation", "direction", "checked", "wrong", "lost", "verdict"];
    let mut table = Table::new(&columns);
    for m in both(view, "integrity") {
        table.row(&[
            &m.path.rail,
            &label(m),
            &view.direction(m),
            &Size(m.bytes_verified).to_string(),
            &format!("{} B", m.bytes_wrong),
            &count(m.messages_lost as usize, "message"),
            word(judged(m.status)),
        ]);
    }
    table.titled("Integrity: every byte compared at its place", page);
}

fn latency(view: &View, page: &mut String) {
    let mut table = Table::new(&[
        "rail",
        "operation",
        "size",
        "direction",
        "of",
        "p50",
        "p99",
        "p99.9",
        "max",
        "samples",
        "verdict",
    ]);
    for m in both(view, "latency") {
        let Some(l) = m.latency_ns else { continue };
        table.row(&[
            &m.path.rail,
            &label(m),
            &Size(m.size_bytes).to_string(),
            &view.direction(m),
            trip(m),
            &Time(l.p50).to_string(),
            &Time(l.p99).to_string(),
            &l.p999.map_or("n/a".into(), |ns| Time(ns).to_string()),
            &Time(l.max).to_string(),
            &l.count.to_string(),
            word(judged(m.status)),
        ]);
    }
    table.titled("Latency", page);
}

fn bandwidth(view: &View, page: &mut String) {
    let mut table = Table::new(&[
        "rail",
        "operation",
        "size",
        "direction",
        "median",
        "min–max",
        "min window",
        "ceiling",
        "verdict",
    ]);
    for m in both(view, "bandwidth") {
        let Some(rate) = m.goodput_bps else { continue };
        let together = if view.rails_together(m) { ", all rails at once" } else { "" };
        table.row(&[
            &m.path.rail,
            &label(m),
            &Size(m.size_bytes).to_string(),
            &format!("{}{together}", view.direction(m)),
            &BitRate(rate.median).to_string(),
            &range(BitRate(rate.min), BitRate(rate.max)),
            &BitRate(rate.min_window).to_string(),
            &ceiling(m),
            word(judged(m.status)),
        ]);
    }
    table.titled("Bandwidth: payload that arrived", page);
}

fn ceiling(m: &Measurement) -> String {
    match (&m.ceiling, m.efficiency) {
        (Some(ceiling), Some(share)) => format!("{} of {}", Share(share), BitRate(ceiling.bps)),
        (Some(ceiling), None) => BitRate(ceiling.bps).to_string(),
        (None, _) => String::new(),
    }
}

fn message_rate(view: &View, page: &mut String) {
    let columns = ["rail", "operation", "size", "direction", "median", "min–max", "QPs", "verdict"];
    let mut table = Table::new(&columns);
    for m in both(view, "message_rate") {
        let Some(rate) = m.messages_per_s else { continue };
        table.row(&[
            &m.path.rail,
            &label(m),
            &Size(m.size_bytes).to_string(),
            &view.direction(m),
            &MessageRate(rate.median).to_string(),
            &range(MessageRate(rate.min), MessageRate(rate.max)),
            &m.method.qps.to_string(),
            word(judged(m.status)),
        ]);
    }
    table.titled("Message rate", page);
}

/// Why results are not as expected.
fn notes(view: &View, page: &mut String) {
    let mut notes = Vec::new();
    for m in &view.report.measurements {
        let status = judged(m.status);
        let name = crate::words::case_name(m, &view.names);
        let expected = matches!(status, Status::Pass | Status::Unjudged | Status::NotApplicable);
        let told = !expected && !m.reason.is_empty();
        if told {
            notes.push(format!("{name}: {status}: {}", m.reason));
        }
        let again = told && m.reason.contains(&m.data_errors);
        if !again && !m.data_errors.is_empty() {
            notes.push(format!("{name}: {}", m.data_errors));
        }
    }
    if !notes.is_empty() {
        page.push_str("### Not as expected\n\n");
        list(page, "- ", notes.iter().map(String::as_str));
    }
}

fn counters(view: &View, page: &mut String) {
    let mut table = Table::new(&["port", "counter", "grew by", "which says"]);
    for (name, (delta, _)) in counter_totals(view.report) {
        if is_traffic(name) {
            continue;
        }
        let (port, counter) = name.rsplit_once('/').unwrap_or(("", name));
        table.row(&[&view.endpoint(port), counter, &format!("{delta:+}"), meaning(name)]);
    }
    table.titled("Counters that tell of trouble", page);
}

fn diagnosis(view: &View, page: &mut String) {
    let findings = &view.report.diagnosis;
    if findings.is_empty() {
        return;
    }
    page.push_str("### Diagnosis\n\n");
    for finding in findings {
        let (object, cause) = (prose(&finding.object), prose(&finding.cause));
        let sure = prose(&finding.confidence);
        let _ = writeln!(page, "- **{object}**: {cause} (confidence {sure})");
        for evidence in &finding.evidence {
            let _ = writeln!(page, "  - seen: {}", prose(evidence));
        }
        if !finding.remedy.is_empty() {
            let _ = writeln!(page, "  - to do: {}", prose(&finding.remedy));
        }
    }
    page.push('\n');
}

fn not_measured(view: &View, page: &mut String) {
    let missing = &view.report.not_measured;
    if missing.is_empty() {
        return;
    }
    page.push_str("### Not measured\n\n");
    let lines: Vec<String> = missing
        .iter()
        .map(|item| {
            let asked = if item.asked { " (was asked for)" } else { "" };
            format!("{}{asked}: {}", item.what, item.why)
        })
        .collect();
    list(page, "- ", lines.iter().map(String::as_str));
}

fn hosts(view: &View, page: &mut String) {
    let report = view.report;
    page.push_str("### Hosts and provenance\n\n");
    let facts: Vec<String> =
        report.hosts.iter().map(|host| format!("{}: {}", host.name, host_facts(host))).collect();
    list(page, "- ", facts.iter().map(String::as_str));
    let columns = ["host", "device", "driver", "firmware", "board", "PCI", "port", "link", "MTU"];
    let mut table = Table::new(&columns);
    for host in &report.hosts {
        for device in &host.devices {
            for port in &device.ports {
                let rate = port.rate_bps.map_or(String::new(), |bps| {
                    format!(" {} {} {}", BitRate(bps as f64), port.width, port.speed)
                });
                table.row(&[
                    &host.name,
                    &device.name,
                    &device.driver,
                    &device.firmware,
                    &device.board,
                    device.pci.as_deref().unwrap_or_default(),
                    &format!("{} {}", port.port, port.state),
                    &format!("{}{rate}", port.link_layer),
                    &crate::words::mtu(port.active_mtu),
                ]);
            }
        }
    }
    table.write(page);
    let _ = writeln!(
        page,
        "suite {}, profile {}; {} to {}; fabbench {} ({}); `{}`",
        prose(&format!("{} {}", report.suite.name, report.suite.hash)),
        prose(&format!("{} {}", report.profile.name, report.profile.hash)),
        prose(&report.started),
        prose(&report.finished),
        prose(&report.tool.version),
        prose(&report.tool.commit),
        // A command line holds no backtick that matters more than the span's own.
        clean::line(&report.command.join(" ")).replace('`', "'"),
    );
}

/// Measurements of a test, RDMA before TCP.
fn both<'a>(view: &View<'a>, test: &str) -> Vec<&'a Measurement> {
    let mut all = view.of(test, false);
    all.extend(view.of(test, true));
    all
}

fn word(status: Status) -> &'static str {
    if status == Status::Unjudged { "not judged" } else { status.word() }
}

fn list<'t>(page: &mut String, mark: &str, items: impl Iterator<Item = &'t str>) {
    let before = page.len();
    for item in items {
        let _ = writeln!(page, "{mark}{}", prose(item));
    }
    if page.len() > before {
        page.push('\n');
    }
}

/// A pipe table; columns that are empty in every row are left out.
struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&'static str]) -> Self {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|cell| prose(cell)).collect());
    }

    /// With its title, when it has rows.
    fn titled(&self, title: &str, page: &mut String) {
        if !self.rows.is_empty() {
            let _ = writeln!(page, "### {title}\n");
            self.write(page);
        }
    }

    fn write(&self, page: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let filled = |i: &usize| self.rows.iter().any(|row| !row[*i].is_empty());
        let shown: Vec<usize> = (0..self.head.len()).filter(filled).collect();
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        page.push_str(&line(shown.iter().map(|&i| self.head[i]).collect()));
        page.push_str(&line(shown.iter().map(|_| "---").collect()));
        for row in &self.rows {
            page.push_str(&line(shown.iter().map(|&i| row[i].as_str()).collect()));
        }
        page.push('\n');
    }
}

/// Text that stays text: markup is escaped, on one line; a word joiner keeps `@name`, `#1` and
/// `!1` from becoming mentions and references, an escaped colon or dot addresses from becoming
/// links.
fn prose(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    let line = clean::line(text.trim());
    let mut rest = line.as_str();
    while let Some(c) = rest.chars().next() {
        match c {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$'
            | '^' => safe.extend(['\\', c]),
            '#' | '!' | '@' => safe.extend(['\\', c, '\u{2060}']),
            ':' if rest.starts_with("://") => safe.push_str("\\:"),
            // The signs that begin a list, a rule or a heading do so only at the start.
            '-' | '+' | '=' if safe.is_empty() => safe.extend(['\\', c]),
            '.' if ends_with_www(&safe) => safe.push_str("\\."),
            '.' | ')' if numbers_an_item(&safe, &rest[1..]) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    safe
}

fn ends_with_www(before: &str) -> bool {
    before.to_ascii_lowercase().ends_with("www")
}

/// `1. ` and `1) ` begin a numbered item.
fn numbers_an_item(before: &str, after: &str) -> bool {
    let digits = !before.is_empty() && before.chars().all(|c| c.is_ascii_digit());
    digits && (after.is_empty() || after.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_are_called_is_no_markup() {
        let cases = [
            ("a|b", "a\\|b"),
            ("<img src=x>", "\\<img src=x\\>"),
            ("[x](javascript:y)", "\\[x\\](javascript:y)"),
            ("see https://x.example", "see https\\://x.example"),
            ("www.x.example", "www\\.x.example"),
            ("@all", "\\@\u{2060}all"),
            ("# title", "\\#\u{2060} title"),
            ("1. one", "1\\. one"),
            ("- one", "\\- one"),
            ("a\nb", "a b"),
            ("mlx5_0", "mlx5\\_0"),
            ("10.77.0.1", "10.77.0.1"),
            ("node-a", "node-a"),
            ("`code`", "\\`code\\`"),
        ];
        for (text, safe) in cases {
            assert_eq!(prose(text), safe);
        }
    }

    #[test]
    fn columns_without_content_are_left_out() {
        let mut table = Table::new(&["a", "b", "c"]);
        table.row(&["1", "", "3"]);
        let mut page = String::new();
        table.write(&mut page);
        assert_eq!(page, "| a | c |\n| --- | --- |\n| 1 | 3 |\n\n");
    }
}
