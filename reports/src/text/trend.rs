//! Figures over many runs: a row a figure, with a line of small bars.

use super::Options;
use super::layout::{Column, Page, Table};
use crate::compared::{in_unit, signed};
use crate::model::Status;
use crate::trend::{Line, Trend};

/// A trend; with `explain` also every value.
pub fn trend(trend: &Trend, options: &Options) -> String {
    super::harmless(trend, options, whole)
}

fn whole(trend: &Trend, options: &Options) -> String {
    let mut page = Page::new(options);
    page.title("fabbench trend");
    for (index, run) in trend.runs.iter().enumerate() {
        let (number, hosts) = (index + 1, run.hosts.join(", "));
        let (started, source) = (&run.started, &run.source);
        page.paragraph(&format!(
            "{number}: {started}, {hosts}, fabbench {} ({source})",
            run.fabbench
        ));
    }
    page.title("Figures, the oldest run on the left; the last against all before it");
    page.table(table(trend, &page));
    if page.explain {
        values(trend, &mut page);
    }
    page.title("What changed in hardware, firmware, settings and method");
    if trend.steps.is_empty() {
        page.paragraph("nothing that a report holds");
    }
    for step in &trend.steps {
        for change in &step.changes {
            page.item(&format!(
                "run {}: {} {}: {} before, {} after",
                step.run + 1,
                change.object,
                change.what,
                change.before,
                change.after
            ));
        }
    }
    page.finish()
}

fn table(trend: &Trend, page: &Page) -> Table {
    let mut table = Table::new(vec![
        Column::key("case"),
        Column::key("figure"),
        Column::word("runs"),
        Column::number("lowest"),
        Column::number("highest"),
        Column::number("last"),
        Column::number("change"),
        Column::word("became"),
    ]);
    for line in &trend.lines {
        let known = || line.values.iter().flatten().copied();
        let became = line.last_became.map_or("", |became| became.word());
        let became = match line.last_status {
            Some(status @ (Status::Fail | Status::Warn)) => page.painted_as(became, status),
            _ => became.to_owned(),
        };
        table.row(vec![
            line.case.clone(),
            line.figure.clone(),
            bars(line),
            in_unit(line.unit, known().reduce(f64::min)),
            in_unit(line.unit, known().reduce(f64::max)),
            in_unit(line.unit, line.values.last().copied().flatten()),
            line.last_ratio.map_or(String::new(), |ratio| signed(ratio - 1.0)),
            became,
        ]);
    }
    table
}

/// A bar a run, from four fifths of the highest value (or the lowest, if that is less) to the
/// highest, so that noise stays small; a dot where a run has no such case.
fn bars(line: &Line) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = || line.values.iter().flatten().copied();
    let highest = known().fold(0.0, f64::max);
    let lowest = known().fold(0.8 * highest, f64::min);
    let bar = |value: &Option<f64>| match value {
        None => '·',
        Some(_) if highest <= lowest => BARS[0],
        Some(value) => {
            let part = (value - lowest) / (highest - lowest);
            BARS[((part * 7.0).round() as usize).min(7)]
        }
    };
    line.values.iter().map(bar).collect()
}

fn values(trend: &Trend, page: &mut Page) {
    page.title("Values");
    for line in &trend.lines {
        let value = |v: &Option<f64>| v.map_or("none".into(), |v| in_unit(line.unit, Some(v)));
        let values: Vec<String> = line.values.iter().map(value).collect();
        page.paragraph(&format!("{} {}: {}", line.case, line.figure, values.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Unit;

    #[test]
    fn noise_stays_small_and_a_gap_is_seen() {
        let line = |values: &[Option<f64>]| Line {
            case: String::new(),
            figure: "goodput".into(),
            unit: Unit::BitPerSecond,
            values: values.to_vec(),
            last_ratio: None,
            last_became: None,
            last_status: None,
        };
        assert_eq!(bars(&line(&[Some(100.0), None, Some(99.0), Some(60.0)])), "█·█▁");
        assert_eq!(bars(&line(&[Some(0.0), Some(0.0)])), "▁▁");
        assert_eq!(bars(&line(&[])), "");
    }
}
