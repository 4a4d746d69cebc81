//! `fabbench report FILE`: a saved report again, or several as one, judged anew where a profile is
//! given.

use fabbench_harness::merge::merge;
use fabbench_harness::verdict;
use fabbench_reports::model::{Report, Tool};

use super::run::outputs::Outputs;
use super::run::{exit_code, handed_on, print, profile};
use super::saved::{borrowed, read, reports};
use super::{CommandError, ExitCode};
use crate::cli::ReportArgs;

/// Prints the report; the exit code is that of its verdict.
pub fn run(args: &ReportArgs) -> Result<ExitCode, CommandError> {
    let choice = args.profile.as_deref().map(profile).transpose()?;
    let mut report = if args.merge { merged(args)? } else { single(args)? };
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

fn single(args: &ReportArgs) -> Result<Report, CommandError> {
    match args.files.as_slice() {
        [file] => Ok(read(file)?.1),
        files => Err(CommandError::usage(format!(
            "{} reports: add --merge for one view of all of them, or use fabbench compare or trend",
            files.len()
        ))),
    }
}

fn merged(args: &ReportArgs) -> Result<Report, CommandError> {
    let reports = reports(&args.files)?;
    let mut report = merge(&borrowed(&reports))
        .map_err(|e| CommandError::usage(format!("merge reports: {e}")))?;
    report.tool = Tool { version: crate::VERSION.into(), commit: crate::COMMIT.into() };
    report.command = std::env::args().collect();
    Ok(report)
}
