//! `fabbench lat A B`: latency with every knob.

use fabbench_harness::plan::Test;

use super::run::single::measure;
use super::{CommandError, ExitCode};
use crate::cli::CaseArgs;

/// Measures latency.
pub fn run(args: &CaseArgs) -> Result<ExitCode, CommandError> {
    measure(Test::Latency, "lat", args)
}
