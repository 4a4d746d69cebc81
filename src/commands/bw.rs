//! `fabbench bw A B`: bandwidth with every knob.

use fabbench_harness::plan::Test;

use super::run::single::measure;
use super::{CommandError, ExitCode};
use crate::cli::CaseArgs;

/// Measures bandwidth.
pub fn run(args: &CaseArgs) -> Result<ExitCode, CommandError> {
    measure(Test::Bandwidth, "bw", args)
}
