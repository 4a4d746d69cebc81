//! One HTML file: nothing is fetched, no script runs, and names are only ever text.

mod advice;
mod collectives;
mod comparison;
mod facts;
mod fits;
mod heat;
mod results;
mod tree;
mod trend;

pub use advice::advice;
pub use comparison::comparison;
pub use tree::topology_svg;
pub use trend::trend;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::advice::Advice;
use crate::clean;
use crate::model::{Report, Status};
use crate::view::View;
use crate::words::{SYNTHETIC, reasons, title, verdict_parts};

/// The style sheet, in the file itself.
const STYLE: &str = include_str!("style.css");

/// No source of anything but what is in the file; a report may be opened from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The report as a page of HTML.
pub fn report(report: &Report) -> String {
    with_advice(report, None)
}

/// The report, and what it means for a job, as a page of HTML.
pub fn report_and_advice(report: &Report, advice: &Advice) -> String {
    with_advice(report, Some(advice))
}

fn with_advice(report: &Report, advice: Option<&Advice>) -> String {
    let view = View::new(report);
    let title = format!("{}: {}", report.verdict.status.word(), title(report));
    page(
        &title,
        html! {
            (banner(&view))
            (facts::diagnosis(&view))
            @if let Some(advice) = advice { (advice::within(advice)) }
            (facts::not_measured(&view))
            (facts::hosts(&view))
            (facts::rails(&view))
            (facts::checks(&view))
            (facts::topology(&view))
            (heat::maps(&view))
            (results::integrity(&view))
            (results::bandwidth(&view))
            (results::by_size(&view))
            (results::latency(&view))
            (results::message_rate(&view))
            (results::beside_tcp(&view))
            (collectives::sections(&view))
            (results::others(&view))
            (fits::section_of(&view))
            (results::intervals(&view))
            (facts::counters(&view))
            (facts::method(&view))
            (facts::provenance(&view))
        },
    )
}

/// A whole page under a title.
fn page(title: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="fabbench";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    clean::page(page.into_string())
}

fn banner(view: &View) -> Markup {
    let report = view.report;
    let verdict = &report.verdict;
    html! {
        header class={ "banner " (class(verdict.status)) } {
            h1 { (title(report)) }
            p class="verdict" {
                strong { (verdict.status.word().to_uppercase()) } " "
                (verdict_parts(report))
            }
            @if report.synthetic {
                p { (SYNTHETIC) }
            }
            @if report.simulated {
                p { "The RDMA devices are software: function is tested for real, but no rate here is a line rate." }
            }
            @if !report.complete {
                p { "The run ended early: what follows was measured before that." }
            }
            ul { @for reason in reasons(report) { li { (reason) } } }
            @if !verdict.next.is_empty() {
                h2 { "Next" }
                ol { @for step in &verdict.next { li { (step) } } }
            }
            p class="when" { (report.started) " to " (report.finished) }
        }
    }
}

/// A part of the page under a title.
fn section(title: &str, body: Markup) -> Markup {
    html! { section { h2 { (title) } (body) } }
}

/// A table that becomes a list of cards where the page is narrow.
struct Table {
    head: Vec<(&'static str, bool)>,
    rows: Vec<Vec<Markup>>,
}

impl Table {
    /// Columns of text; those whose title begins with `#` hold figures.
    fn new(head: &[&'static str]) -> Self {
        let column = |title: &&'static str| match title.strip_prefix('#') {
            Some(title) => (title, true),
            None => (*title, false),
        };
        Table { head: head.iter().map(column).collect(), rows: Vec::new() }
    }

    fn row(&mut self, cells: Vec<Markup>) {
        self.rows.push(cells);
    }

    /// Columns that are empty in every row are left out; without rows there is no table.
    fn draw(&self) -> Markup {
        let filled = |i: &usize| self.rows.iter().any(|row| !row[*i].0.is_empty());
        let shown: Vec<usize> = (0..self.head.len()).filter(filled).collect();
        html! {
            @if !self.rows.is_empty() {
                table {
                    thead { tr { @for &i in &shown {
                        th scope="col" class=[self.head[i].1.then_some("n")] { (self.head[i].0) }
                    } } }
                    tbody { @for row in &self.rows { tr { @for &i in &shown {
                        @if row[i].0.is_empty() { td {} } @else {
                            td data-label=(self.head[i].0) class=[self.head[i].1.then_some("n")] { div { (row[i]) } }
                        }
                    } } } }
                }
            }
        }
    }
}

/// Text as a cell.
fn cell(text: impl AsRef<str>) -> Markup {
    html! { (text.as_ref()) }
}

/// A verdict, told by word and sign as well as by colour.
fn chip(status: Status) -> Markup {
    let word = if status == Status::Unjudged { "not judged" } else { status.word() };
    html! { span class={ "chip " (class(status)) } { (word) } }
}

fn class(status: Status) -> &'static str {
    match status {
        Status::Pass => "good",
        Status::Warn | Status::Incomplete => "warn",
        Status::Fail | Status::Error => "bad",
        Status::NotApplicable | Status::Unjudged | Status::Unknown => "quiet",
    }
}
