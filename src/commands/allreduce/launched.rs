//! Inside a job of mpirun, srun or torchrun: rank 0 leads and prints, the others serve.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::case::Cases;
use crate::agent::{Ended, serve};
use crate::cli::allreduce::AllreduceArgs;
use crate::commands::run::paths::is_link_local;
use crate::commands::{CommandError, ExitCode};
use crate::session::frame::{CONTROL_LIMIT, FrameReader, FrameWriter};
use crate::session::join::{Guests, Meeting};
use crate::session::token::Token;
use crate::session::world::{World, detect};
use crate::session::{HostSpec, Interrupt};

/// How long ranks wait for each other: launchers start them within seconds, loaded file systems
/// show a new file within half a minute.
const PATIENCE: Duration = Duration::from_secs(60);

/// The job that this process is a rank of; none when hosts were given, or nobody started several.
///
/// # Errors
/// Wrong usage: neither hosts nor a job; both; several ranks for each process.
pub fn world(args: &AllreduceArgs) -> Result<Option<World>, CommandError> {
    let found = detect(&|name| std::env::var(name).ok()).map_err(CommandError::usage)?;
    let Some(world) = found else {
        return match args.hosts.is_empty() {
            true => Err(CommandError::usage(
                "no hosts: name them (fabbench allreduce host-a host-b), or have mpirun, srun or \
                 torchrun start fabbench allreduce once a rank"
                    .into(),
            )),
            false => Ok(None),
        };
    };
    if !args.hosts.is_empty() {
        // RANK and WORLD_SIZE are names that others use as well.
        return match world.size > 1 && world.launcher != "torchrun" {
            true => Err(only_once(
                &world,
                format!(
                    "{} started {} processes, and each would measure the hosts given: leave the hosts \
                 out, or start it once",
                    world.launcher, world.size
                ),
            )),
            false => Ok(None),
        };
    }
    if args.ranks_per_host != 1 {
        let launcher = world.launcher;
        return Err(only_once(
            &world,
            format!("--ranks-per-host: {launcher} decides how many ranks a host has"),
        ));
    }
    Ok(Some(world))
}

/// Wrong usage that every rank sees and rank 0 alone tells.
pub fn only_once(world: &World, message: String) -> CommandError {
    let message =
        if world.rank == 0 { message } else { format!("rank {}: as rank 0 says", world.rank) };
    CommandError::usage(message)
}

/// As rank 0: all ranks as hosts, and the connections of the others.
///
/// # Errors
/// Incomplete: ranks that did not join.
pub fn gather(
    world: &World,
    args: &AllreduceArgs,
    interrupt: &Interrupt,
) -> Result<(Vec<HostSpec>, Guests), CommandError> {
    let own = crate::host::calls::facts();
    let addresses: Vec<IpAddr> = own
        .addresses
        .iter()
        .map(|address| address.address)
        .filter(|address| !address.is_loopback() && !is_link_local(*address))
        .collect();
    let meeting = meeting(world, args)?;
    meeting.gather(&own.hostname, &addresses, interrupt).map_err(CommandError::incomplete)
}

/// As another rank: serves rank 0 until it says goodbye.
///
/// # Errors
/// Incomplete: rank 0 was not found, or the session ended badly.
pub fn serve_rank(world: &World, args: &AllreduceArgs) -> Result<ExitCode, CommandError> {
    let name = crate::host::calls::facts().hostname;
    let stream = meeting(world, args)?.join(&name).map_err(CommandError::incomplete)?;
    let ends = || -> std::io::Result<(FrameReader, FrameWriter)> {
        stream.set_nodelay(true)?;
        let reader = FrameReader::new(stream.try_clone()?, CONTROL_LIMIT)?;
        Ok((reader, FrameWriter::new(stream.try_clone()?, CONTROL_LIMIT)?))
    };
    let rank = world.rank;
    let incomplete = |why: String| CommandError::incomplete(format!("rank {rank}: {why}"));
    let (reader, writer) = ends().map_err(|error| incomplete(error.to_string()))?;
    match serve(reader, writer, "", Arc::new(Cases)) {
        Ended::Bye => Ok(ExitCode::PASS),
        other => Err(incomplete(format!("session ended: {other}"))),
    }
}

fn meeting(world: &World, args: &AllreduceArgs) -> Result<Meeting, CommandError> {
    let token = given_token(args).map_err(CommandError::usage)?;
    Meeting::new(world, token, directory(), PATIENCE).map_err(CommandError::usage)
}

/// `--token-file`, else `FABBENCH_TOKEN`.
fn given_token(args: &AllreduceArgs) -> Result<Option<Token>, String> {
    if let Some(file) = &args.launch.token_file {
        return Token::from_file(file).map(Some);
    }
    let text = std::env::var("FABBENCH_TOKEN").ok();
    let token = text.map(|text| Token::new(text.as_bytes())).transpose();
    token.map_err(|why| format!("FABBENCH_TOKEN: {why}"))
}

/// `FABBENCH_RENDEZVOUS`, else a place in the home directory, which clusters share.
fn directory() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    set("FABBENCH_RENDEZVOUS").or_else(|| Some(cache()?.join("fabbench")))
}
