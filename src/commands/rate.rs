//! `fabbench rate A B`: messages per second with every knob.

use fabbench_harness::plan::Test;

use super::run::single::measure;
use super::{CommandError, ExitCode};
use crate::cli::CaseArgs;

/// Measures the rate of small messages.
pub fn run(args: &CaseArgs) -> Result<ExitCode, CommandError> {
    measure(Test::MessageRate, "rate", args)
}
