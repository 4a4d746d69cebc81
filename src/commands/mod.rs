//! One file per subcommand, named as typed.

pub mod advise;
pub mod agent;
pub mod allreduce;
pub mod baseline;
pub mod bw;
pub mod ceiling;
pub mod check;
pub mod compare;
pub mod devices;
pub mod explain_perftest;
pub mod files;
pub mod lat;
pub mod nagios;
pub mod pair;
pub mod rate;
pub mod report;
pub mod run;
pub mod saved;
pub mod softroce;
pub mod topo;
pub mod trend;

use std::io::Write;

use clap::CommandFactory;

use crate::cli::{Cli, Command};

/// What the process answers to its caller (design: 0 pass or warn, 1 fail, 2 usage, 3 incomplete).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(pub u8);

impl ExitCode {
    /// Pass or warn.
    pub const PASS: ExitCode = ExitCode(0);
    /// Too slow, wrong data, regression, or what `--fail-on` adds.
    pub const FAIL: ExitCode = ExitCode(1);
    /// Wrong usage or unreadable input.
    pub const USAGE: ExitCode = ExitCode(2);
    /// Not all that was asked could be measured.
    pub const INCOMPLETE: ExitCode = ExitCode(3);
    /// Ctrl-C.
    pub const INTERRUPTED: ExitCode = ExitCode(130);
}

/// Why a command ended without its result: a sentence for stderr and the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// Operation, object, cause and next step.
    pub message: String,
    /// Exit code.
    pub code: ExitCode,
}

impl CommandError {
    /// Wrong usage or unreadable input: exit 2.
    pub fn usage(message: String) -> Self {
        CommandError { message, code: ExitCode::USAGE }
    }

    /// What was asked could not be done: exit 3.
    pub fn incomplete(message: String) -> Self {
        CommandError { message, code: ExitCode::INCOMPLETE }
    }
}

/// Runs what was typed.
pub fn run(command: &Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Pair(args) => pair::run(args),
        Command::Lat(args) => lat::run(args),
        Command::Bw(args) => bw::run(args),
        Command::Rate(args) => rate::run(args),
        Command::Check(args) => check::run(args),
        Command::Allreduce(args) => allreduce::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Baseline(args) => baseline::run(args),
        Command::Trend(args) => trend::run(args),
        Command::Devices(args) => devices::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Topo(args) => topo::run(args),
        Command::Ceiling(args) => ceiling::run(args),
        Command::ExplainPerftest(args) => explain_perftest::run(args),
        Command::Report(args) => report::run(args),
        Command::Softroce(args) => softroce::run(&args.action),
        Command::Agent(args) => agent::run(args, std::sync::Arc::new(crate::agent::case::Cases)),
        Command::Completions { shell } => completions(*shell),
        Command::Man => man(),
    }
}

/// Prints a completion script. The generator panics when it cannot write, so it writes to memory.
fn completions(shell: clap_complete::Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fabbench", &mut script);
    print_page(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::PASS)
}

/// Prints the manual page.
fn man() -> Result<ExitCode, CommandError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| CommandError::incomplete(format!("render manual page: {error}")))?;
    print_page(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::PASS)
}

/// Prints a page on stdout, with one end of line. A reader that went away (head, less) has seen
/// enough.
pub fn print_page(page: &str) -> Result<(), CommandError> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{}", page.trim_end()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandError::incomplete(format!("write results: stdout: {e}")))
        }
        _ => Ok(()),
    }
}
