//! The `fabbench` command: parse, dispatch, exit code.

use clap::Parser;
use fabbench::{cli::Cli, commands};

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    let code = commands::run(&cli.command).unwrap_or_else(|error| {
        eprintln!("fabbench: {error}");
        error.code
    });
    code.0.into()
}
