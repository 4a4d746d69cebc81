//! The `fabbench` command: parse, dispatch, exit code.

use clap::Parser;
use fabbench::cli::Cli;
use fabbench::commands::{self, CommandError, nagios};
use fabbench_reports::text::printable;

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && nagios::asked() => {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            return nagios::tell(&CommandError::usage(first)).0.into();
        }
        Err(error) => error.exit(),
    };
    let code = commands::run(&cli.command).unwrap_or_else(|error| {
        eprintln!("fabbench: {}", printable(&error.message));
        if nagios::asked() { nagios::tell(&error) } else { error.code }
    });
    code.0.into()
}
