//! One line for Nagios and what speaks its language: state, verdict, performance data.
//!
//! After the Nagios plug-in guidelines: `SERVICE STATE - text | 'label'=value[unit];warn;crit`.

use crate::clean;
use crate::compared;
use crate::comparison::Comparison;
use crate::model::{Measurement, Report};
use crate::text;

/// What the exit code of a plug-in says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// 0
    Ok,
    /// 1
    Warning,
    /// 2
    Critical,
    /// 3
    Unknown,
}

impl State {
    /// The exit code.
    pub fn code(self) -> u8 {
        self as u8
    }

    fn word(self) -> &'static str {
        match self {
            State::Ok => "OK",
            State::Warning => "WARNING",
            State::Critical => "CRITICAL",
            State::Unknown => "UNKNOWN",
        }
    }
}

/// What Nagios keeps of a line at most, in bytes; performance data beyond that is left out.
const LONGEST: usize = 7000;

/// A report as a line without an end of line.
pub fn report(report: &Report, state: State) -> String {
    let mut line = sentence(&text::report_line(report), state);
    let mut separator = " | ";
    for data in report.measurements.iter().filter_map(performance) {
        if line.len() + separator.len() + data.len() > LONGEST {
            break;
        }
        line.push_str(separator);
        line.push_str(&data);
        separator = " ";
    }
    line
}

/// A comparison as a line.
pub fn comparison(comparison: &Comparison, state: State) -> String {
    sentence(&compared::summary(comparison), state)
}

/// Why there is no result, as a line.
pub fn error(message: &str) -> String {
    sentence(message, State::Unknown)
}

/// A bar would begin the performance data.
fn sentence(text: &str, state: State) -> String {
    format!("FABBENCH {} - {}", state.word(), clean::line(text).replace('|', "/"))
}

/// `'id'=value`: bit/s, messages/s, or the median latency in microseconds; below the bound, where it
/// is one of a rate, is critical.
fn performance(m: &Measurement) -> Option<String> {
    let figure = match m.test.as_str() {
        "integrity" => format!("{}B;;0", m.bytes_wrong),
        "latency" => format!("{:.3}us", finite(m.latency_ns?.p50 / 1000.0)?),
        "message_rate" => format!("{:.0}", finite(m.messages_per_s?.median)?),
        _ => {
            let bound = m.bound_bps.and_then(finite).map(|bps| format!(";;{bps:.0}:"));
            format!("{:.0}{}", finite(m.goodput_bps?.median)?, bound.unwrap_or_default())
        }
    };
    // Quotes, equal signs and bars end a label.
    let label = clean::line(&m.id).replace(['\'', '=', '|'], "_");
    Some(format!("'{label}'={figure}"))
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
