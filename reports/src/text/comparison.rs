//! Before and after: what became worse, what changed beside it, the verdict last.

use super::Options;
use super::layout::{Column, Page, Table};
use crate::comparison::{Became, Comparison, Figure, Run, Unit};
use crate::model::Status;
use crate::units::{BitRate, MessageRate, Share, Time};
use crate::words::count;

/// A comparison; with `explain` also the figures that stayed the same.
pub fn comparison(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    page.title("fabbench compare");
    runs("before", &comparison.before, &mut page);
    runs("after", &comparison.after, &mut page);
    figures(comparison, &mut page);
    changes(comparison, &mut page);
    page.title("Basis");
    for sentence in &comparison.basis {
        page.paragraph(sentence);
    }
    page.title("Verdict");
    let word = page.painted_as(&comparison.status.word().to_uppercase(), comparison.status);
    page.paragraph(&format!("{word}: {}", summary(comparison)));
    for worst in comparison.figures.iter().filter(|figure| figure.status == Status::Fail) {
        page.item(&format!("{} {}: {}", worst.case, worst.figure, difference(worst)));
    }
    page.finish()
}

/// `1 worse, 3 better, 12 same`.
pub fn summary(comparison: &Comparison) -> String {
    let kinds = [
        Became::Worse,
        Became::Gone,
        Became::NotComparable,
        Became::Better,
        Became::New,
        Became::Same,
    ];
    let number = |kind: Became| comparison.figures.iter().filter(|f| f.became == kind).count();
    let parts: Vec<String> = kinds
        .into_iter()
        .filter(|kind| number(*kind) > 0)
        .map(|kind| format!("{} {}", number(kind), kind.word()))
        .collect();
    let parts = if parts.is_empty() { "nothing was measured".to_owned() } else { parts.join(", ") };
    if comparison.firm { parts } else { format!("{parts}; not firm: fewer than 3 runs before") }
}

fn runs(when: &str, runs: &[Run], page: &mut Page) {
    for run in runs {
        let hosts = run.hosts.join(", ");
        let (source, started) = (&run.source, &run.started);
        page.paragraph(&format!("{when}: {source}: {hosts}, {started}, fabbench {}", run.fabbench));
    }
}

fn figures(comparison: &Comparison, page: &mut Page) {
    page.title("Figures");
    let mut table = Table::new(vec![
        Column::key("case"),
        Column::key("figure"),
        Column::number("before"),
        Column::number("after"),
        Column::number("change"),
        Column::number("95 % interval"),
        Column::word("became"),
        Column::text("why"),
    ]);
    let shown = |f: &&Figure| page.explain || f.became != Became::Same;
    let rows: Vec<&Figure> = comparison.figures.iter().filter(shown).collect();
    for figure in &rows {
        let value = |v: Option<f64>| v.map_or(String::new(), |v| in_unit(figure.unit, v));
        let interval = figure
            .interval
            .map(|[low, high]| format!("{} to {}", signed(low - 1.0), signed(high - 1.0)));
        let word = match figure.status {
            Status::Fail | Status::Warn => page.painted_as(figure.became.word(), figure.status),
            _ => figure.became.word().to_owned(),
        };
        table.row(vec![
            figure.case.clone(),
            figure.figure.clone(),
            value(figure.before),
            value(figure.after),
            figure.ratio.map_or(String::new(), |ratio| signed(ratio - 1.0)),
            interval.unwrap_or_default(),
            word,
            figure.why.clone(),
        ]);
    }
    page.table(table);
    let same = comparison.figures.iter().filter(|figure| figure.became == Became::Same).count();
    if !page.explain && same > 0 {
        page.paragraph(&format!("{} the same (--explain lists them)", count(same, "figure")));
    }
}

fn changes(comparison: &Comparison, page: &mut Page) {
    page.title("What changed in hardware, firmware, settings and method");
    if comparison.changes.is_empty() {
        page.paragraph("nothing that a report holds");
        return;
    }
    let mut table = Table::new(vec![
        Column::key("object"),
        Column::key("property"),
        Column::key("before"),
        Column::text("after"),
    ]);
    for change in &comparison.changes {
        let (object, what) = (change.object.clone(), change.what.clone());
        table.row(vec![object, what, change.before.clone(), change.after.clone()]);
    }
    page.table(table);
}

fn difference(figure: &Figure) -> String {
    match (figure.before, figure.after, figure.ratio) {
        (Some(before), Some(after), Some(ratio)) => format!(
            "{} before, {} after ({})",
            in_unit(figure.unit, before),
            in_unit(figure.unit, after),
            signed(ratio - 1.0)
        ),
        (_, Some(after), _) => format!("{}: {}", in_unit(figure.unit, after), figure.why),
        _ => figure.why.clone(),
    }
}

fn in_unit(unit: Unit, value: f64) -> String {
    match unit {
        Unit::BitPerSecond => BitRate(value).to_string(),
        Unit::MessagePerSecond => MessageRate(value).to_string(),
        Unit::Nanosecond => Time(value).to_string(),
        Unit::WrongByte => format!("{value:.0} B"),
    }
}

/// `+3.1 %`, `-0.4 %`.
fn signed(part: f64) -> String {
    let sign = if part >= 0.0 { "+" } else { "" };
    format!("{sign}{}", Share(part))
}
