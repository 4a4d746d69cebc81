//! Figures over many runs, as a page of HTML.

use maud::{Markup, html};

use super::{Table, cell, class, page, section};
use crate::compared::{in_unit, signed};
use crate::comparison::Unit;
use crate::model::Status;
use crate::svg::{Axis, Plot, Series};
use crate::trend::{Line, Trend};

/// Pictures; a page with more of them helps nobody.
const MOST_PLOTS: usize = 60;

/// A trend as a page of HTML.
pub fn trend(trend: &Trend) -> String {
    page(
        "fabbench trend",
        html! {
            h1 { "fabbench trend" }
            (runs(trend))
            (figures(trend))
            (pictures(trend))
            (steps(trend))
        },
    )
}

fn runs(trend: &Trend) -> Markup {
    let mut table = Table::new(&["#run", "started", "hosts", "fabbench", "report"]);
    for (index, run) in trend.runs.iter().enumerate() {
        table.row(vec![
            cell((index + 1).to_string()),
            cell(&run.started),
            cell(run.hosts.join(", ")),
            cell(&run.fabbench),
            cell(&run.source),
        ]);
    }
    section("Runs", table.draw())
}

fn figures(trend: &Trend) -> Markup {
    let columns = ["case", "figure", "#lowest", "#highest", "#last", "#change", "became"];
    let mut table = Table::new(&columns);
    for line in &trend.lines {
        let known = || line.values.iter().flatten().copied();
        table.row(vec![
            cell(&line.case),
            cell(&line.figure),
            cell(in_unit(line.unit, known().reduce(f64::min))),
            cell(in_unit(line.unit, known().reduce(f64::max))),
            cell(in_unit(line.unit, line.values.last().copied().flatten())),
            cell(line.last_ratio.map_or(String::new(), |ratio| signed(ratio - 1.0))),
            became(line),
        ]);
    }
    let body = html! {
        p class="faint" { "Change and verdict: the last run against all before it." }
        (table.draw())
    };
    section("Figures", body)
}

fn became(line: &Line) -> Markup {
    let Some(became) = line.last_became else { return html! {} };
    let status = line.last_status.unwrap_or(Status::Unjudged);
    html! { span class={ "chip " (class(status)) } { (became.word()) } }
}

fn pictures(trend: &Trend) -> Markup {
    let drawn: Vec<&Line> = trend.lines.iter().filter(|l| l.unit != Unit::WrongByte).collect();
    let left_out = drawn.len().saturating_sub(MOST_PLOTS);
    let body = html! {
        div class="plots" { @for line in drawn.iter().take(MOST_PLOTS) { (plot(trend, line)) } }
        @if left_out > 0 { p class="faint" { (left_out) " more are in the table only." } }
    };
    if drawn.is_empty() {
        html! {}
    } else {
        section("Over the runs", body)
    }
}

fn plot(trend: &Trend, line: &Line) -> Markup {
    let points: Vec<(f64, f64)> = line
        .values
        .iter()
        .enumerate()
        .filter_map(|(run, value)| Some(((run + 1) as f64, (*value)?)))
        .collect();
    let unit = line.unit;
    let name = |v: f64| if v == 0.0 { "0".to_owned() } else { in_unit(unit, Some(v)) };
    let Some(y) = Axis::from_zero(&line.figure, points.iter().map(|p| p.1), name) else {
        return html! {};
    };
    let runs = trend.runs.len();
    let step = runs.div_ceil(10).max(1);
    let ticks = (1..=runs).step_by(step).map(|run| (run as f64, run.to_string())).collect();
    let (from, to) = (0.5, runs as f64 + 0.5);
    let x = Axis { title: "run".into(), from, to, log: false, ticks };
    let said: Vec<String> = points
        .iter()
        .map(|(run, value)| format!("run {run}: {}", in_unit(unit, Some(*value))))
        .collect();
    let changed = |run: f64| trend.steps.iter().any(|step| (step.run + 1) as f64 == run);
    let marked = points.iter().copied().filter(|(run, _)| changed(*run)).collect();
    Plot {
        title: format!("{} {}", line.case, line.figure),
        description: said.join("; "),
        x,
        y,
        series: vec![Series {
            name: "median of the run; a circle: something changed".into(),
            dashed: false,
            points,
            marked,
        }],
    }
    .draw()
}

fn steps(trend: &Trend) -> Markup {
    let mut table = Table::new(&["#run", "object", "property", "before", "after"]);
    for step in &trend.steps {
        for change in &step.changes {
            table.row(vec![
                cell((step.run + 1).to_string()),
                cell(&change.object),
                cell(&change.what),
                cell(&change.before),
                cell(&change.after),
            ]);
        }
    }
    let body = html! {
        @if trend.steps.is_empty() { p { "Nothing that a report holds." } }
        (table.draw())
    };
    section("What changed in hardware, firmware, settings and method", body)
}
