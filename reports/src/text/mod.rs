//! The report as people read it on a terminal: evidence first, the verdict last.

mod advice;
mod collective;
mod comparison;
mod ending;
mod histogram;
mod hosts;
mod layout;
mod line;
mod results;
mod tcp;
mod trend;

pub use crate::compared::summary as comparison_line;
pub use advice::{advice, questions};
pub use comparison::comparison;
pub use hosts::devices;
pub use line::{report_line, result_line};
pub use trend::trend;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clean;
use crate::model::Report;
use crate::view::View;
use layout::Page;

/// How a text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal; tables that do not fit become lists.
    pub width: usize,
    /// Colour and bold by ANSI escapes.
    pub color: bool,
    /// Adds every parameter, path, counter and repeat.
    pub explain: bool,
    /// Draws the distribution of each latency.
    pub histogram: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 80, color: false, explain: false, histogram: false }
    }
}

/// The whole report.
pub fn report(report: &Report, options: &Options) -> String {
    harmless(report, options, whole)
}

/// Text of others on its way to a terminal: what would act there is replaced, ends of lines stay.
pub fn printable(text: &str) -> String {
    clean::page(text.to_owned())
}

/// Renders a value in which no name acts on the terminal; the colours are the page's own.
fn harmless<T: Serialize + DeserializeOwned + Clone>(
    value: &T,
    options: &Options,
    render: impl Fn(&T, &Options) -> String,
) -> String {
    match clean::plain(value) {
        Some(plain) => render(&plain, options),
        None => clean::page(render(value, &Options { color: false, ..*options })),
    }
}

fn whole(report: &Report, options: &Options) -> String {
    let view = View::new(report);
    let mut page = Page::new(options);
    hosts::heading(&view, &mut page);
    hosts::rails(&view, &mut page);
    hosts::checks(&view, &mut page);
    hosts::topology(&view, &mut page);
    results::integrity(&view, &mut page);
    results::latency(&view, &mut page);
    if options.histogram {
        histogram::draw(&view, &mut page);
    }
    results::bandwidth(&view, &mut page);
    results::together(&view, &mut page);
    results::loopback(&view, &mut page);
    results::retests(&view, &mut page);
    results::message_rate(&view, &mut page);
    tcp::tcp(&view, &mut page);
    collective::table(&view, &mut page);
    results::others(&view, &mut page);
    ending::counters(&view, &mut page);
    ending::not_measured(&view, &mut page);
    ending::method(&view, &mut page);
    ending::diagnosis(&view, &mut page);
    ending::verdict(&view, &mut page);
    page.finish()
}
