//! Before and after, as a page of HTML.

use maud::{Markup, html};

use super::{Table, cell, class, page, section};
use crate::compared::{change, difference, in_unit, interval, summary};
use crate::comparison::{Became, Change, Comparison, Figure, Run};
use crate::model::Status;
use crate::svg::Interval;

/// A comparison as a page of HTML.
pub fn comparison(comparison: &Comparison) -> String {
    let title = format!("{}: fabbench compare", comparison.status.word());
    page(
        &title,
        html! {
            (banner(comparison))
            (runs(comparison))
            (figures(comparison))
            (changes(&comparison.changes))
            (section("Basis", html! { ul { @for line in &comparison.basis { li { (line) } } } }))
        },
    )
}

fn banner(comparison: &Comparison) -> Markup {
    let failed = comparison.figures.iter().filter(|figure| figure.status == Status::Fail);
    html! {
        header class={ "banner " (class(comparison.status)) } {
            h1 { "fabbench compare" }
            p class="verdict" {
                strong { (comparison.status.word().to_uppercase()) } " " (summary(comparison))
            }
            ul { @for figure in failed {
                li { (figure.case) " " (figure.figure) ": " (difference(figure)) }
            } }
        }
    }
}

fn runs(comparison: &Comparison) -> Markup {
    let mut table = Table::new(&["side", "report", "hosts", "started", "fabbench"]);
    let mut add = |side: &str, run: &Run| {
        table.row(vec![
            cell(side),
            cell(&run.source),
            cell(run.hosts.join(", ")),
            cell(&run.started),
            cell(&run.fabbench),
        ]);
    };
    comparison.before.iter().for_each(|run| add("before", run));
    comparison.after.iter().for_each(|run| add("after", run));
    section("Runs", table.draw())
}

fn figures(comparison: &Comparison) -> Markup {
    let (same, told): (Vec<&Figure>, Vec<&Figure>) =
        comparison.figures.iter().partition(|figure| figure.became == Became::Same);
    let scale = scale(&comparison.figures);
    let body = html! {
        p class="faint" {
            "Line: where the true change lies with 95 % confidence. Mark: what was found. The "
            "middle is no change, the ends are " (crate::compared::signed(-scale)) " and "
            (crate::compared::signed(scale)) "."
        }
        (figure_table(&told, scale))
        @if !same.is_empty() {
            details open[told.is_empty()] {
                summary { "The same (" (same.len()) ")" }
                (figure_table(&same, scale))
            }
        }
    };
    section("Figures", body)
}

/// The largest change that is drawn: of what was compared, at least 5 %, at most the double.
fn scale(figures: &[Figure]) -> f64 {
    let reach = |f: &Figure| {
        let ends = f.interval.into_iter().flatten().chain(f.ratio);
        ends.map(|ratio| (ratio - 1.0).abs()).filter(|part| part.is_finite()).fold(0.0, f64::max)
    };
    figures.iter().map(reach).fold(0.05, f64::max).min(1.0)
}

fn figure_table(figures: &[&Figure], scale: f64) -> Markup {
    let mut table = Table::new(&[
        "case",
        "figure",
        "#before",
        "#after",
        "#change",
        "interval",
        "95 % interval",
        "became",
        "why",
    ]);
    for figure in figures {
        let drawn = figure.ratio.zip(figure.interval).map(|(ratio, [low, high])| {
            let title = format!("{} {}: {}", figure.case, figure.figure, difference(figure));
            Interval { title, scale, value: ratio - 1.0, low: low - 1.0, high: high - 1.0 }.draw()
        });
        table.row(vec![
            cell(&figure.case),
            cell(&figure.figure),
            cell(in_unit(figure.unit, figure.before)),
            cell(in_unit(figure.unit, figure.after)),
            cell(change(figure)),
            drawn.unwrap_or_default(),
            cell(interval(figure)),
            became(figure),
            cell(&figure.why),
        ]);
    }
    table.draw()
}

fn became(figure: &Figure) -> Markup {
    let status = match (figure.status, figure.became) {
        (status @ (Status::Fail | Status::Warn), _) => status,
        (_, Became::Better | Became::Same) => Status::Pass,
        _ => Status::Unjudged,
    };
    html! { span class={ "chip " (class(status)) } { (figure.became.word()) } }
}

fn changes(changes: &[Change]) -> Markup {
    let mut table = Table::new(&["object", "property", "before", "after"]);
    for change in changes {
        table.row(vec![
            cell(&change.object),
            cell(&change.what),
            cell(&change.before),
            cell(&change.after),
        ]);
    }
    let body = html! {
        @if changes.is_empty() { p { "Nothing that a report holds." } }
        (table.draw())
    };
    section("What changed in hardware, firmware, settings and method", body)
}
