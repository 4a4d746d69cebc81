//! `fabbench agent`: the node side.

use std::io::Write;
use std::sync::Arc;

use super::{CommandError, ExitCode};
use crate::agent::listen::ListeningAgent;
use crate::agent::{CaseRunner, Ended, stdio};
use crate::cli::AgentArgs;
use crate::session::token::{Token, exposed};

/// Serves one session on standard input and output, or sessions over TCP until it is killed.
///
/// # Errors
/// A token file that cannot be used or an address that cannot be bound is wrong usage; a session
/// that ended badly is incomplete.
pub fn run(args: &AgentArgs, runner: Arc<dyn CaseRunner>) -> Result<ExitCode, CommandError> {
    if args.remove_self {
        stdio::remove_self()
            .map_err(|error| CommandError::usage(format!("agent --remove-self: {error}")))?;
    }
    match (args.listen, &args.token_file) {
        (Some(address), Some(file)) => {
            let token = Token::from_file(file).map_err(CommandError::usage)?;
            if let Some(warning) = exposed(file) {
                eprintln!("fabbench agent: warning: {warning}");
            }
            listen(address, token, runner)
        }
        _ => on_stdio(&args.session, runner),
    }
}

fn on_stdio(session: &str, runner: Arc<dyn CaseRunner>) -> Result<ExitCode, CommandError> {
    let ended = stdio::serve_stdio(session, runner)
        .map_err(|error| CommandError::incomplete(format!("agent: standard output: {error}")))?;
    match ended {
        Ended::Bye => Ok(ExitCode::PASS),
        other => Err(CommandError::incomplete(format!("agent: session ended: {other}"))),
    }
}

fn listen(
    address: std::net::SocketAddr,
    token: Token,
    runner: Arc<dyn CaseRunner>,
) -> Result<ExitCode, CommandError> {
    let unusable = |error: std::io::Error| {
        CommandError::usage(format!(
            "agent --listen {address}: {error}: choose an address of this host and a free port"
        ))
    };
    let agent = ListeningAgent::bind(address, token).map_err(unusable)?;
    let bound = agent.address().map_err(unusable)?;
    // Scripts wait for this line; nobody may be reading it.
    let mut out = std::io::stdout();
    let _ = writeln!(out, "listening on {bound}").and_then(|()| out.flush());
    agent.run(runner, |line| eprintln!("fabbench agent: {line}"))
}
