//! `fabbench check [HOST…]`: hosts and configuration, without any measurement.

use std::path::Path;

use fabbench_harness::rails::Party;
use fabbench_harness::snapshot::HostFacts;
use fabbench_harness::{checks, facts, topology, verdict};
use fabbench_reports::model::{Host, Named, Report, SCHEMA, Tool};

use super::run::outputs::Outputs;
use super::run::{
    all_facts, exit_code, handed_on, install_interrupt, launch, now, print, start, unjudged,
};
use super::{CommandError, ExitCode};
use crate::cli::CheckArgs;
use crate::session::parse_hosts;

/// Checks the hosts, prints what was found and what to do.
pub fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    let outputs = Outputs::of_saved(&args.output)?;
    let started = now();
    let seen = if args.sysroot.is_empty() { live(args)? } else { captured(args)? };
    let report = handed_on(report(&seen, started), &args.output)?;
    let alone = outputs.alone_on_stdout();
    let written = outputs.complete(&report);
    print(&report, &args.output, alone)?;
    written?;
    Ok(exit_code(&report, &args.output))
}

/// A host as typed and what was seen of it.
type Seen = (String, HostFacts);

fn live(args: &CheckArgs) -> Result<Vec<Seen>, CommandError> {
    let typed: Vec<&str> = match args.hosts.is_empty() {
        true => vec!["local"],
        false => args.hosts.iter().map(String::as_str).collect(),
    };
    let specs = parse_hosts(&typed).map_err(|e| CommandError::usage(e.to_string()))?;
    let launch = launch(&args.launch, args.output.verbose)?;
    let interrupt = install_interrupt()?;
    let mut session = start(&specs, &launch, &interrupt)?;
    let all = all_facts(&mut session, &interrupt)?;
    for line in session.close() {
        eprintln!("fabbench: {line}");
    }
    Ok(specs.into_iter().map(|spec| spec.name).zip(all).collect())
}

/// Trees and captures, each under the name that its host gives itself, else its path.
fn captured(args: &CheckArgs) -> Result<Vec<Seen>, CommandError> {
    let mut all: Vec<Seen> = Vec::new();
    for path in &args.sysroot {
        let facts = read(path)?;
        let own = facts.snapshot.text("/proc/sys/kernel/hostname").unwrap_or_default();
        let own = if facts.calls.hostname.is_empty() { own } else { &facts.calls.hostname };
        let plain = !own.is_empty() && !own.contains(['/', ' ']);
        let mut name = if plain { own.to_owned() } else { path.display().to_string() };
        if all.iter().any(|(other, _)| *other == name) {
            name = format!("{name}#{}", all.len() + 1);
        }
        all.push((name, facts));
    }
    Ok(all)
}

fn read(path: &Path) -> Result<HostFacts, CommandError> {
    let refused = |why: &dyn std::fmt::Display| {
        CommandError::usage(format!("read captured host: {}: {why}", path.display()))
    };
    let metadata = std::fs::metadata(path).map_err(|e| refused(&e))?;
    if !metadata.is_dir() {
        let text = std::fs::read_to_string(path).map_err(|e| refused(&e))?;
        return serde_json::from_str(&text).map_err(|e| {
            refused(&format!("neither a directory nor a file of fabbench devices --capture: {e}"))
        });
    }
    let facts = crate::host::captured(path);
    if facts.snapshot.entries.keys().any(|path| path.starts_with("/sys/")) {
        return Ok(facts);
    }
    Err(refused(&"no sys/ below it: give the directory that stands for /"))
}

fn report(seen: &[Seen], started: String) -> Report {
    let hosts: Vec<Host> = seen.iter().map(|(name, facts)| facts::host(name, facts)).collect();
    let parties: Vec<Party> = hosts
        .iter()
        .zip(seen)
        .map(|(host, (_, facts))| Party { facts, host, data_address: None })
        .collect();
    let topology: Vec<_> =
        seen.iter().map(|(name, facts)| topology::report::of_host(name, facts)).collect();
    let mut found = checks::site_checks(&parties);
    found.extend(topology.iter().flat_map(topology::report::checks));
    let mut report = Report {
        schema: SCHEMA.into(),
        tool: Tool { version: crate::VERSION.into(), commit: crate::COMMIT.into() },
        command: std::env::args().collect(),
        suite: Named { name: verdict::CHECKS_ONLY.into(), hash: String::new() },
        profile: Named { name: "none".into(), hash: String::new() },
        profile_why: String::new(),
        started,
        finished: now(),
        complete: true,
        simulated: false,
        synthetic: false,
        hosts,
        rails: Vec::new(),
        checks: found,
        topology,
        measurements: Vec::new(),
        matrices: Vec::new(),
        fits: Vec::new(),
        not_measured: Vec::new(),
        diagnosis: Vec::new(),
        verdict: unjudged(),
    };
    verdict::judge_checks(&mut report);
    report
}
