//! `fabbench pair A B`: the acceptance run of two hosts.

use fabbench_harness::plan::Tuning;
use fabbench_harness::suite::{Overrides, Suite};
use fabbench_reports::model::NotMeasured;

use super::run::{self, Request, transports};
use super::{CommandError, ExitCode};
use crate::cli::{PairArgs, TransportArg};

/// Runs the suite between the two hosts.
pub fn run(args: &PairArgs) -> Result<ExitCode, CommandError> {
    if args.transport.contains(&TransportArg::Xrc) {
        let text =
            "--transport xrc: no suite measures it; use rc, which carries the same operations";
        return Err(CommandError::usage(text.into()));
    }
    let suite = suite(&args.suite)?;
    let overrides = Overrides {
        duration: args.duration,
        repeats: args.repeats,
        transports: transports(&args.transport),
    };
    let wants_rdma = overrides.transports.as_ref().is_none_or(|t| t.iter().any(|t| t.is_verbs()));
    run::run(&Request {
        hosts: [&args.a, &args.b],
        launch: &args.launch,
        devices: &args.devices,
        judge: &args.judge,
        output: &args.output,
        suite: suite.identity(),
        wants_rdma,
        topology: true,
        asked: None,
        every: None,
        place: Tuning::default(),
        beyond: beyond(),
        plan: &|scene| {
            suite.plan(scene, &overrides).map_err(|e| CommandError::usage(e.to_string()))
        },
    })
}

/// The suite of that name, or in that file.
fn suite(name: &str) -> Result<Suite, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(e.to_string());
    if Suite::built_in_names().any(|known| known == name) {
        return Suite::built_in(name).map_err(|e| usage(&e));
    }
    if !name.contains(['/', '.']) {
        return Suite::built_in(name).map_err(|e| usage(&e));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|e| CommandError::usage(format!("read suite: {name}: {e}")))?;
    Suite::parse(name, &text).map_err(|e| usage(&e))
}

/// What an acceptance run should hold and this version does not measure: said, never passed over.
fn beyond() -> Vec<NotMeasured> {
    let parts = [
        ("message rate", "no suite holds it: fabbench rate measures it"),
        ("all-reduce pattern", "no suite holds it: fabbench allreduce measures it"),
    ];
    let entry = |(what, why): (&str, &str)| NotMeasured {
        what: what.into(),
        why: why.into(),
        asked: false,
    };
    parts.map(entry).into()
}
