//! Before and after, for tickets and merge requests.

use std::fmt::Write;

use super::{Table, list, prose};
use crate::clean;
use crate::compared::{change, difference, in_unit, interval, verdict};
use crate::comparison::{Became, Comparison};
use crate::model::Status;
use crate::words::count;

/// A comparison as GitHub-flavoured Markdown; what stayed the same is counted.
pub fn comparison(comparison: &Comparison) -> String {
    let mut page = format!("## fabbench compare\n\n**{}**\n\n", prose(&verdict(comparison)));
    let failed = comparison.figures.iter().filter(|figure| figure.status == Status::Fail);
    let failed: Vec<String> =
        failed.map(|f| format!("{} {}: {}", f.case, f.figure, difference(f))).collect();
    list(&mut page, "- ", failed.iter().map(String::as_str));
    figures(comparison, &mut page);
    changes(comparison, &mut page);
    page.push_str("### Basis\n\n");
    list(&mut page, "- ", comparison.basis.iter().map(String::as_str));
    runs(comparison, &mut page);
    clean::page(page)
}

fn figures(comparison: &Comparison, page: &mut String) {
    let columns = ["case", "figure", "before", "after", "change", "95 % interval", "became", "why"];
    let mut table = Table::new(&columns);
    for figure in comparison.figures.iter().filter(|f| f.became != Became::Same) {
        table.row(&[
            &figure.case,
            &figure.figure,
            &in_unit(figure.unit, figure.before),
            &in_unit(figure.unit, figure.after),
            &change(figure),
            &interval(figure),
            figure.became.word(),
            &figure.why,
        ]);
    }
    table.titled("Figures", page);
    let same = comparison.figures.iter().filter(|f| f.became == Became::Same).count();
    let _ = writeln!(page, "{} the same\n", count(same, "figure"));
}

fn changes(comparison: &Comparison, page: &mut String) {
    let mut table = Table::new(&["object", "property", "before", "after"]);
    for change in &comparison.changes {
        table.row(&[&change.object, &change.what, &change.before, &change.after]);
    }
    table.titled("What changed in hardware, firmware, settings and method", page);
}

fn runs(comparison: &Comparison, page: &mut String) {
    let mut table = Table::new(&["side", "report", "hosts", "started", "fabbench"]);
    let before = comparison.before.iter().map(|run| ("before", run));
    for (side, run) in before.chain(comparison.after.iter().map(|run| ("after", run))) {
        table.row(&[side, &run.source, &run.hosts.join(", "), &run.started, &run.fabbench]);
    }
    table.titled("Runs", page);
}
