//! `fabbench allreduce HOST…`: collectives between ranks on N hosts.

mod collect;
mod drive;
mod fabric;
mod launched;
mod places;
mod wanted;

use std::time::Duration;

use fabbench_harness::facts;
use fabbench_harness::plan::Transport;
use fabbench_harness::profile::Choice;
use fabbench_harness::verdict;
use fabbench_reports::model::{Host, Measurement, Named, NotMeasured, Report, SCHEMA, Tool};
use fabbench_reports::text;

use super::run::outputs::Outputs;
use super::run::progress::Progress;
use super::run::{
    all_facts, exit_code, handed_on, install_interrupt, launch, now, print, start, unjudged,
};
use super::{CommandError, ExitCode};
use crate::cli::allreduce::AllreduceArgs;
use crate::session::join::Guests;
use crate::session::protocol::RankPart;
use crate::session::{HostSpec, Interrupt, parse_hosts, token};
use collect::Wire;
use drive::{Ended, Place};
use fabric::{Fabric, Site};
use places::Places;
use wanted::Wanted;

/// Silence after which an agent counts as gone: below the ranks' own watchdog, so that a stopped
/// rank is named rather than the ranks that wait for it.
const SILENCE: Duration = Duration::from_secs(8);

/// Measures what was typed, or plays the part of a rank that a launcher started.
pub fn run(args: &AllreduceArgs) -> Result<ExitCode, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(e.to_string());
    let Some(world) = launched::world(args)? else {
        let specs = parse_hosts(&args.hosts).map_err(|e| usage(&e))?;
        let wanted = Wanted::new(args, specs.len()).map_err(|e| usage(&e))?;
        let outputs = Outputs::prepare(&args.output)?;
        let interrupt = install_interrupt()?;
        return lead(args, wanted, (specs, Guests::default()), outputs, &interrupt);
    };
    // Every rank refuses what cannot be measured, so that none waits for another.
    let wanted = Wanted::new(args, world.size.into());
    let wanted = wanted.map_err(|why| launched::only_once(&world, why))?;
    if world.rank > 0 {
        return launched::serve_rank(&world, args);
    }
    let outputs = Outputs::prepare(&args.output)?;
    let interrupt = install_interrupt()?;
    let hosts = launched::gather(&world, args, &interrupt)?;
    lead(args, wanted, hosts, outputs, &interrupt)
}

/// Measures between all hosts and reports.
fn lead(
    args: &AllreduceArgs,
    mut wanted: Wanted,
    (specs, guests): (Vec<HostSpec>, Guests),
    mut outputs: Outputs,
    interrupt: &Interrupt,
) -> Result<ExitCode, CommandError> {
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    if let Some(leaves) = wanted.leaves().map_err(CommandError::usage)? {
        let stood = wanted.stand_by_leaf(&leaves, &names);
        stood.map_err(|e| CommandError::usage(e.to_string()))?;
    }
    let mut launch = launch(&args.launch, args.output.verbose)?;
    launch.silence = SILENCE;
    launch.guests = guests;
    let started = now();
    let mut session = start(&specs, &launch, interrupt)?;
    let facts = all_facts(&mut session, interrupt)?;
    let places = places::listen(&specs, &facts);
    let hosts: Vec<Host> =
        specs.iter().zip(&facts).map(|(spec, facts)| facts::host(&spec.name, facts)).collect();
    let site = Site { specs: &specs, facts: &facts, hosts: &hosts };
    let (fabric, not_measured) = fabric(&wanted, &site)?;
    let wires = wires(&wanted, fabric.as_ref(), &places);
    let mut found = Found { not_measured, ..Found::default() };
    let quiet = args.output.quiet || args.output.nagios;
    let mut progress = Progress::new(wanted.rows() * wires.len(), Duration::ZERO, quiet);
    session.set_stage("collective");
    for (turn, &wire) in wires.iter().enumerate() {
        progress.say(&wanted.announcement(&specs, wire.transport()));
        let crew = crew(&wanted, &specs, (&places, wire), turn)?;
        let ended = drive::drive(&session, &crew, &mut |what| progress.now(what));
        progress.clear();
        let measured = collect::measurements(&wanted, &names, wire, &facts, &ended);
        measured.iter().for_each(|measurement| outputs.note(measurement));
        let agent_lost = ended.trouble.as_ref().is_some_and(|trouble| trouble.agent_lost());
        found.take(&wanted, (wire, &names), measured, &ended);
        // An agent that is gone can play no rank over another transport.
        if interrupt.is_set() || agent_lost {
            break;
        }
    }
    for line in session.close() {
        eprintln!("fabbench: {}", text::printable(&line));
    }
    let simulated = wires.iter().any(|wire| wire.is_soft());
    let report = found.report(started, (hosts, simulated), !interrupt.is_set())?;
    tell(report, args, outputs, interrupt.is_set())
}

/// What a run has found so far.
#[derive(Default)]
struct Found {
    measurements: Vec<Measurement>,
    not_measured: Vec<NotMeasured>,
    troubled: bool,
}

impl Found {
    /// Takes in what was measured over one transport.
    fn take(
        &mut self,
        wanted: &Wanted,
        (wire, names): (Wire, &[&str]),
        measured: Vec<Measurement>,
        ended: &Ended,
    ) {
        self.not_measured.extend(missing(wanted, wire, measured.len(), ended, names));
        self.measurements.extend(measured);
        self.troubled |= ended.trouble.is_some();
    }

    /// The report, judged; `whole` when nobody ended the run early.
    fn report(
        self,
        started: String,
        (hosts, simulated): (Vec<Host>, bool),
        whole: bool,
    ) -> Result<Report, CommandError> {
        let asked = self.not_measured.iter().any(|left| left.asked);
        let mut report = Report {
            schema: SCHEMA.into(),
            tool: Tool { version: crate::VERSION.into(), commit: crate::COMMIT.into() },
            command: std::env::args().collect(),
            suite: Named { name: "allreduce".into(), hash: String::new() },
            profile: Named { name: String::new(), hash: String::new() },
            profile_why: String::new(),
            started,
            finished: now(),
            complete: whole && !self.troubled && !asked,
            simulated,
            synthetic: false,
            hosts,
            rails: Vec::new(),
            checks: Vec::new(),
            topology: Vec::new(),
            not_measured: self.not_measured,
            measurements: self.measurements,
            matrices: Vec::new(),
            fits: Vec::new(),
            diagnosis: Vec::new(),
            verdict: unjudged(),
        };
        let choice = Choice::by_name("auto").map_err(|e| CommandError::usage(e.to_string()))?;
        verdict::judge(&mut report, &choice);
        Ok(report)
    }
}

/// Prints and writes the report.
fn tell(
    report: Report,
    args: &AllreduceArgs,
    outputs: Outputs,
    interrupted: bool,
) -> Result<ExitCode, CommandError> {
    let report = handed_on(report, &args.output)?;
    let alone = outputs.alone_on_stdout();
    let written = outputs.complete(&report);
    print(&report, &args.output, alone)?;
    written?;
    Ok(if interrupted { ExitCode::INTERRUPTED } else { exit_code(&report, &args.output) })
}

/// The ports of all hosts, where verbs are wanted or may be; why there are none.
fn fabric(
    wanted: &Wanted,
    site: &Site,
) -> Result<(Option<Fabric>, Vec<NotMeasured>), CommandError> {
    let typed = wanted.transports();
    if !typed.is_empty() && !typed.contains(&Transport::Rc) {
        return Ok((None, Vec::new()));
    }
    match Fabric::lay(site, wanted)? {
        Ok(fabric) => Ok((Some(fabric), Vec::new())),
        // Nobody asked for it.
        Err(_) if typed.is_empty() => Ok((None, Vec::new())),
        Err(missing) => Ok((None, vec![*missing])),
    }
}

/// What is measured over, one after the other: as typed, else verbs where there are any.
fn wires<'a>(wanted: &Wanted, fabric: Option<&'a Fabric>, places: &'a Places) -> Vec<Wire<'a>> {
    let rc = fabric.map(Wire::Rc);
    match wanted.transports() {
        [] => vec![rc.unwrap_or(Wire::Tcp(places))],
        typed => {
            let wire = |transport: &Transport| match transport {
                Transport::Tcp => Some(Wire::Tcp(places)),
                _ => rc,
            };
            typed.iter().filter_map(wire).collect()
        }
    }
}

/// Every rank's part and the host that plays it; `turn` counts the transports.
fn crew(
    wanted: &Wanted,
    specs: &[HostSpec],
    (places, wire): (&Places, Wire),
    turn: usize,
) -> Result<Vec<Place>, CommandError> {
    let token = token::Token::random()
        .map_err(|e| CommandError::incomplete(format!("random bytes: {e}")))?;
    let hosts = wanted.hosts();
    let verbs = |rank: usize, host: usize| match wire {
        Wire::Tcp(_) => None,
        Wire::Rc(fabric) => {
            let before = hosts[..rank].iter().filter(|other| **other == host).count();
            Some(fabric.part(host, before))
        }
    };
    let place = |(rank, &host): (usize, &usize)| Place {
        host,
        part: RankPart {
            case: (turn * hosts.len() + rank) as u32 + 1,
            name: format!("rank {rank} on {}", specs[host].name),
            sweep: wanted.sweep(rank),
            addresses: places.listen(host),
            bind: specs[host].data_address.into_iter().collect(),
            token: token.clone(),
            verbs: verbs(rank, host),
        },
    };
    Ok(hosts.iter().enumerate().map(place).collect())
}

/// What was asked for and has no result, and why.
fn missing(
    wanted: &Wanted,
    wire: Wire,
    measured: usize,
    ended: &Ended,
    names: &[&str],
) -> Option<NotMeasured> {
    let trouble = ended.trouble.as_ref()?;
    let left = wanted.rows().saturating_sub(measured);
    let title = wanted.title(wire.transport());
    let what = format!("{title}: {left} of {} results", wanted.rows());
    Some(NotMeasured { what, why: trouble.sentence(names), asked: true })
}
