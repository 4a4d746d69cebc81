//! A row a measurement, for spreadsheets and data frames.
//!
//! Units stand in the names of the columns; figures are bare numbers with a decimal point. A cell
//! that was not measured is empty. Text that a spreadsheet would take for a formula gets an
//! apostrophe before it.

use ::csv::{Terminator, WriterBuilder};

use crate::clean;
use crate::model::{Latency, Measurement, Rate, Report};
use crate::view::View;
use crate::words::{judged, longest_gap};

/// The columns, in order. Columns may be added at the end; none changes its meaning.
pub const COLUMNS: [&str; 66] = [
    "started",
    "suite",
    "profile",
    "simulated",
    "id",
    "test",
    "transport",
    "op",
    "rail",
    "initiator",
    "responder",
    "data_from",
    "data_to",
    "bidirectional",
    "size_bytes",
    "status",
    "reason",
    "goodput_median_bps",
    "goodput_min_bps",
    "goodput_max_bps",
    "goodput_min_window_bps",
    "messages_median_per_s",
    "messages_min_per_s",
    "messages_max_per_s",
    "latency_is_half_rtt",
    "latency_samples",
    "latency_min_ns",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p99_9_ns",
    "latency_p99_99_ns",
    "latency_max_ns",
    "latency_mean_ns",
    "latency_stdev_ns",
    "bytes_verified",
    "bytes_wrong",
    "messages_lost",
    "ceiling_bps",
    "ceiling_limited_by",
    "efficiency",
    "bound",
    "repeats",
    "window_ns",
    "qps",
    "threads",
    "tx_depth",
    "path_mtu_bytes",
    "gid_type",
    "traffic_class",
    "memory",
    "working_set_bytes",
    "algorithm",
    "ranks",
    "in_place",
    "time_avg_ns",
    "time_max_ns",
    "algbw_bps",
    "busbw_bps",
    "elements_wrong",
    "messages_min_window_per_s",
    "longest_gap_ns",
    "qp_fairness",
    "qp_messages_min_per_s",
    "qp_messages_max_per_s",
    "load",
];

/// The report's measurements as CSV (RFC 4180, UTF-8) with a line of column names.
pub fn report(report: &Report) -> String {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    // Writing into memory fails only on rows of unequal length, and these are arrays.
    let mut row = |cells: [String; COLUMNS.len()]| writer.write_record(&cells).is_ok();
    row(COLUMNS.map(str::to_owned));
    let view = View::new(report);
    for m in &report.measurements {
        row(cells(&view, m));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn cells(view: &View, m: &Measurement) -> [String; COLUMNS.len()] {
    let report = view.report;
    let rate = |of: Option<Rate>, part: fn(Rate) -> f64| of.map(part).map_or(String::new(), number);
    let time = |part: fn(Latency) -> f64| m.latency_ns.map(part).map_or(String::new(), number);
    let collective = m.collective.as_ref();
    let (bps, messages, latency) = (m.goodput_bps, m.messages_per_s, m.latency_ns);
    [
        text(&report.started),
        text(&report.suite.name),
        text(&report.profile.name),
        report.simulated.to_string(),
        text(&m.id),
        text(&m.test),
        text(&m.transport),
        text(&m.op),
        text(&m.path.rail),
        text(&m.initiator),
        text(&m.responder),
        text(&m.data_from),
        text(&m.data_to),
        m.bidirectional.to_string(),
        m.size_bytes.to_string(),
        judged(m.status).to_string(),
        text(&m.reason),
        rate(bps, |r| r.median),
        rate(bps, |r| r.min),
        rate(bps, |r| r.max),
        rate(bps, |r| r.min_window),
        rate(messages, |r| r.median),
        rate(messages, |r| r.min),
        rate(messages, |r| r.max),
        m.is_half_rtt.map_or(String::new(), |half| half.to_string()),
        latency.map_or(String::new(), |l| l.count.to_string()),
        time(|l| l.min),
        time(|l| l.p50),
        time(|l| l.p90),
        time(|l| l.p99),
        latency.and_then(|l| l.p999).map_or(String::new(), number),
        latency.and_then(|l| l.p9999).map_or(String::new(), number),
        time(|l| l.max),
        time(|l| l.mean),
        time(|l| l.stdev),
        m.bytes_verified.to_string(),
        m.bytes_wrong.to_string(),
        m.messages_lost.to_string(),
        m.ceiling.as_ref().map_or(String::new(), |c| number(c.bps)),
        text(m.ceiling.as_ref().map_or("", |c| &c.limited_by)),
        m.efficiency.map_or(String::new(), number),
        text(m.bound.as_deref().unwrap_or_default()),
        m.repeats.len().to_string(),
        m.method.window_ns.to_string(),
        m.method.qps.to_string(),
        m.method.threads.to_string(),
        m.method.tx_depth.to_string(),
        m.path.mtu.to_string(),
        text(&m.path.gid_type),
        m.path.traffic_class.to_string(),
        text(&m.memory.kind),
        m.memory.working_set_bytes.to_string(),
        text(&m.algorithm),
        collective.map_or(String::new(), |_| m.ranks.len().to_string()),
        collective.map_or(String::new(), |c| c.in_place.to_string()),
        collective.map_or(String::new(), |c| number(c.time_ns.avg)),
        collective.map_or(String::new(), |c| number(c.time_ns.max)),
        m.algbw_bps.map_or(String::new(), number),
        m.busbw_bps.map_or(String::new(), number),
        m.elements_wrong.map_or(String::new(), |wrong| wrong.to_string()),
        rate(messages, |r| r.min_window),
        longest_gap(m).map_or(String::new(), |ns| ns.to_string()),
        m.fairness.map_or(String::new(), number),
        number(m.qp_messages_per_s.iter().copied().fold(f64::INFINITY, f64::min)),
        number(m.qp_messages_per_s.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        text(&view.loads(m).join("; ")),
    ]
}

/// An empty cell for what is no number.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

/// A cell of text that no spreadsheet runs: it is on one line and does not begin, spaces aside,
/// with one of the signs (or their full-width forms) that begin a formula.
fn text(text: &str) -> String {
    let cell = clean::line(text);
    let formula = ['=', '+', '-', '@', '|', '%', '＝', '＋', '－', '＠'];
    if cell.trim_start().starts_with(formula) { format!("'{cell}") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text_and_numbers_stay_numbers() {
        assert_eq!(text("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
        assert_eq!(text(" @SUM(A1)"), "' @SUM(A1)");
        assert_eq!(text("\t-2+3"), "' -2+3");
        assert_eq!(text("＝1"), "'＝1");
        assert_eq!(text("node-a"), "node-a");
        assert_eq!(number(-1.5), "-1.5");
        assert_eq!(number(f64::NAN), "");
    }

    #[test]
    fn no_column_is_named_twice() {
        let mut names = COLUMNS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS.len());
    }
}
