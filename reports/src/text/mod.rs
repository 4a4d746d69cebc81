//! The report as people read it on a terminal: evidence first, the verdict last.

mod advice;
mod comparison;
mod ending;
mod hosts;
mod layout;
mod line;
mod results;

pub use advice::{advice, questions};
pub use comparison::{comparison, summary as comparison_line};
pub use hosts::devices;
pub use line::{report_line, result_line};

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
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 80, color: false, explain: false }
    }
}

/// The whole report.
pub fn report(report: &Report, options: &Options) -> String {
    let view = View::new(report);
    let mut page = Page::new(options);
    hosts::heading(&view, &mut page);
    hosts::rails(&view, &mut page);
    hosts::checks(&view, &mut page);
    hosts::topology(&view, &mut page);
    results::integrity(&view, &mut page);
    results::latency(&view, &mut page);
    results::bandwidth(&view, &mut page);
    results::together(&view, &mut page);
    results::message_rate(&view, &mut page);
    results::tcp(&view, &mut page);
    results::others(&view, &mut page);
    ending::counters(&view, &mut page);
    ending::not_measured(&view, &mut page);
    ending::method(&view, &mut page);
    ending::diagnosis(&view, &mut page);
    ending::verdict(&view, &mut page);
    page.finish()
}
