//! `fabbench trend FILE...`: how figures went on over many runs.

use std::path::Path;

use fabbench_harness::compare::{Limits, trend};
use fabbench_reports::model::Report;
use fabbench_reports::trend::Trend;
use fabbench_reports::{html, text};

use super::files::{Place, refuse_directory};
use super::run::text_options;
use super::saved::{Saved, borrowed, redact, reports};
use super::{CommandError, ExitCode, print_page};
use crate::cli::{Color, OutputArgs, TrendArgs};

/// Prints and writes the trend. It shows and does not judge: exit 0.
pub fn run(args: &TrendArgs) -> Result<ExitCode, CommandError> {
    let mut all = reports(&args.files)?;
    let stdout = Path::new("-");
    let mut targets = Vec::new();
    for (option, path) in [("--json", &args.json), ("--html", &args.html)] {
        let Some(path) = path.as_deref().filter(|path| *path != stdout) else { continue };
        refuse_directory(option, path)?;
        targets.push((option, path, Place::open(path)?));
    }
    if args.redact {
        redact(all.iter_mut())?;
    }
    let trend = of(&all);
    for (option, path, place) in targets {
        let text = if option == "--html" { html::trend(&trend) } else { as_json(&trend)? };
        place.fill(path, &text)?;
    }
    let page = match args.json.as_deref() {
        Some(path) if path == stdout => as_json(&trend)?,
        _ => page(&trend, args.explain, args.color),
    };
    print_page(&page)?;
    Ok(ExitCode::PASS)
}

/// The trend of these reports, with the limits that fit them.
pub fn of(reports: &[Saved]) -> Trend {
    let all: Vec<&Report> = reports.iter().map(|(_, report)| report).collect();
    trend(&borrowed(reports), &Limits::fitting(&all))
}

/// The trend as text for this stdout.
pub fn page(trend: &Trend, explain: bool, color: Color) -> String {
    text::trend(trend, &text_options(&OutputArgs { explain, color, ..OutputArgs::default() }))
}

fn as_json(trend: &Trend) -> Result<String, CommandError> {
    serde_json::to_string_pretty(trend)
        .map(|text| text + "\n")
        .map_err(|e| CommandError::incomplete(format!("write trend: {e}")))
}
