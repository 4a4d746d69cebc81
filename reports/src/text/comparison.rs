//! Before and after: what became worse, what changed beside it, the verdict last.

use super::Options;
use super::layout::{Column, Page, Table};
use crate::compared::{change, difference, in_unit, interval, summary};
use crate::comparison::{Became, Comparison, Figure, Run};
use crate::model::Status;
use crate::words::count;

/// A comparison; with `explain` also the figures that stayed the same.
pub fn comparison(comparison: &Comparison, options: &Options) -> String {
    super::harmless(comparison, options, whole)
}

fn whole(comparison: &Comparison, options: &Options) -> String {
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
        let word = match figure.status {
            Status::Fail | Status::Warn => page.painted_as(figure.became.word(), figure.status),
            _ => figure.became.word().to_owned(),
        };
        table.row(vec![
            figure.case.clone(),
            figure.figure.clone(),
            in_unit(figure.unit, figure.before),
            in_unit(figure.unit, figure.after),
            change(figure),
            interval(figure),
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
