//! `fabbench report FILE`: a saved report again, judged anew where a profile is given.

use fabbench_harness::verdict;
use fabbench_reports::json;

use super::run::outputs::Outputs;
use super::run::{exit_code, handed_on, print, profile};
use super::{CommandError, ExitCode};
use crate::cli::ReportArgs;

/// Prints the report; the exit code is that of its verdict.
pub fn run(args: &ReportArgs) -> Result<ExitCode, CommandError> {
    let choice = args.profile.as_deref().map(profile).transpose()?;
    let name = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|e| CommandError::usage(format!("read report: {name}: {e}")))?;
    let mut report =
        json::read(&text).map_err(|e| CommandError::usage(format!("read report: {name}: {e}")))?;
    if let Some(choice) = choice {
        verdict::judge(&mut report, &choice);
    }
    let outputs = Outputs::of_saved(&args.output)?;
    let report = handed_on(report, &args.output)?;
    let alone = outputs.alone_on_stdout();
    let written = outputs.complete(&report);
    print(&report, &args.output, alone)?;
    written?;
    Ok(exit_code(&report, &args.output))
}
