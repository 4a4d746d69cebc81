//! `fabbench devices [HOST…]`: what can be tested, and what stands in the way.

use fabbench_harness::rails::{Party, RailMap};
use fabbench_harness::snapshot::HostFacts;
use fabbench_harness::{checks, facts};
use fabbench_reports::model::{Check, Host};
use fabbench_reports::text;

use super::run::{all_facts, install_interrupt, launch, start, text_options};
use super::{CommandError, ExitCode, print_page};
use crate::cli::{DevicesArgs, OutputArgs};
use crate::session::parse_hosts;

/// Prints the devices of each host. Exit 3 when a host has none that can be used.
pub fn run(args: &DevicesArgs) -> Result<ExitCode, CommandError> {
    let typed: Vec<&str> = match args.hosts.is_empty() {
        true => vec!["local"],
        false => args.hosts.iter().map(String::as_str).collect(),
    };
    if args.capture.is_some() && typed.len() > 1 {
        let message = "--capture: holds one host; give one, and run it again for the others";
        return Err(CommandError::usage(message.into()));
    }
    let specs = parse_hosts(&typed).map_err(|e| CommandError::usage(e.to_string()))?;
    let launch = launch(&args.launch, args.verbose)?;
    let interrupt = install_interrupt()?;
    let mut session = start(&specs, &launch, &interrupt)?;
    let all = all_facts(&mut session, &interrupt)?;
    session.close();
    if let (Some(path), Some(facts)) = (&args.capture, all.first()) {
        capture(path, facts)?;
    }
    let hosts: Vec<Host> =
        specs.iter().zip(&all).map(|(spec, facts)| facts::host(&spec.name, facts)).collect();
    let found: Vec<Check> =
        all.iter().zip(&hosts).flat_map(|(facts, host)| host_findings(facts, host)).collect();
    let page = if args.json {
        let page = serde_json::json!({ "hosts": hosts, "checks": found });
        serde_json::to_string_pretty(&page).map_err(|e| CommandError::incomplete(e.to_string()))?
    } else {
        text::devices(&hosts, &found, &text_options(&OutputArgs::default()))
    };
    print_page(&page)?;
    let usable = |host: &Host| host.devices.iter().any(|device| device.unusable.is_none());
    Ok(if hosts.iter().all(usable) { ExitCode::PASS } else { ExitCode::INCOMPLETE })
}

/// Checks of one host alone.
fn host_findings(facts: &HostFacts, host: &Host) -> Vec<Check> {
    let party = Party { facts, host, data_address: None };
    checks::host_checks(&party, None, &RailMap::default(), 0)
}

/// Writes what the agent saw, in the form of the harness's fixtures.
fn capture(path: &std::path::Path, facts: &HostFacts) -> Result<(), CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::usage(format!("write capture: {}: {error}", path.display()))
    };
    let text = serde_json::to_string_pretty(facts).map_err(|e| failed(&e))?;
    std::fs::write(path, text + "\n").map_err(|e| failed(&e))
}
