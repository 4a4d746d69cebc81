//! `lat`, `bw` and `rate`: one case with every knob, on every rail alone.

use std::time::Duration;

use fabbench_harness::knob_limits::Asked;
use fabbench_harness::plan::{
    Case, Direction, Group, Knobs, Op, Test, Transport, Tuning, in_intervals,
};
use fabbench_harness::possible::{PathLimits, refusal};
use fabbench_harness::size::{SizeError, SizeList, size_text};
use fabbench_harness::suite::{Plan, Scene};
use fabbench_reports::model::Named;

use super::collect::word;
use super::knobs::{asked, check_sense, tuning};
use super::{Request, run};
use crate::cli::case::Relaxed;
use crate::cli::{CaseArgs, DirectionArg, TransportArg};
use crate::commands::{CommandError, ExitCode};

/// Measures what `args` says as `test`.
pub fn measure(test: Test, name: &str, args: &CaseArgs) -> Result<ExitCode, CommandError> {
    let cases = Cases::new(test, args)?;
    run(&Request {
        hosts: [&args.a, &args.b],
        launch: &args.launch,
        devices: &args.devices,
        judge: &args.judge,
        output: &args.output,
        suite: Named { name: name.into(), hash: String::new() },
        wants_rdma: cases.transport.is_verbs(),
        topology: false,
        asked: cases.asked(),
        every: args.every,
        place: tuning(args, test),
        beyond: Vec::new(),
        plan: &|scene| cases.plan(scene),
    })
}

/// Window where nothing is said.
const WINDOW: Duration = Duration::from_secs(1);

/// Longest window of a repeat that ends by number, where nothing is said.
const LONGEST_BY_NUMBER: Duration = Duration::from_secs(60);

/// Queue pairs of a rate of messages where nothing is said: one keeps no adapter busy.
const RATE_QPS: u32 = 4;

/// From one probe of the latency under load to the next: few enough to be no load themselves.
const SCHEDULE: Duration = Duration::from_millis(1);

/// Messages of the stream that loads the path, bytes.
const LOAD_BYTES: u64 = 65_536;

/// The cases of one command.
struct Cases<'a> {
    args: &'a CaseArgs,
    test: Test,
    transport: Transport,
    op: Op,
    direction: Direction,
    sizes: SizeList,
}

impl<'a> Cases<'a> {
    /// Understands what was typed; refuses what cannot be measured before any agent starts.
    fn new(test: Test, args: &'a CaseArgs) -> Result<Self, CommandError> {
        let transport = match args.transport {
            TransportArg::Tcp => Transport::Tcp,
            // What the devices say of XRC decides how it is refused, once they are known.
            TransportArg::Rc | TransportArg::Rdma | TransportArg::Xrc => Transport::Rc,
            TransportArg::Uc => Transport::Uc,
            TransportArg::Ud => Transport::Ud,
        };
        let op = match (transport, test, args.op) {
            (Transport::Tcp, Test::Latency, _) => Op::RequestResponse,
            (Transport::Tcp, _, _) => Op::Stream,
            (_, _, op) => op.op(),
        };
        let direction = match args.direction {
            DirectionArg::AB => Direction::AToB,
            DirectionArg::BA => Direction::BToA,
            DirectionArg::Both => Direction::Both,
        };
        if test == Test::Latency && direction == Direction::Both {
            return Err(CommandError::usage(
                "--direction both: a round trip goes both ways already; give a-b or b-a".into(),
            ));
        }
        let typed = match (args.size.is_empty(), test) {
            (false, _) => args.size.join(","),
            (true, Test::Latency | Test::MessageRate) => "8".into(),
            (true, _) if op.is_atomic() => "8".into(),
            (true, _) => "64KiB".into(),
        };
        let usage = |e: &dyn std::fmt::Display| CommandError::usage(e.to_string());
        let sizes = SizeList::parse(&typed).map_err(|e| usage(&e))?;
        for size in sizes.fixed() {
            refusal(test, op, transport, size, &PathLimits::default()).map_err(|e| usage(&e))?;
        }
        if sizes.needs_mtu() && transport == Transport::Tcp {
            let why = SizeError::NoMtu("sockets carry a stream of bytes, which has no path MTU");
            return Err(usage(&why));
        }
        check_sense(args, transport, test, &sizes.fixed().collect::<Vec<_>>())?;
        let cases = Cases { args, test, transport, op, direction, sizes };
        cases.check_threads()?;
        Ok(cases)
    }

    /// Every thread needs a queue pair.
    fn check_threads(&self) -> Result<(), CommandError> {
        let (qps, threads) = (self.qps(), self.threads());
        if threads > qps {
            return Err(CommandError::usage(format!(
                "--threads {threads}: each needs a queue pair (a socket on TCP) of its own, and \
                 there are {qps}; give at least --qps {threads}"
            )));
        }
        if self.test == Test::Latency && qps > 1 {
            return Err(CommandError::usage(format!(
                "--qps {qps}: latency is measured over one queue pair"
            )));
        }
        Ok(())
    }

    fn qps(&self) -> u32 {
        let default = match (self.test, self.transport) {
            (Test::Latency, _) => 1,
            (Test::MessageRate, _) => RATE_QPS.max(self.threads()),
            (_, Transport::Tcp) => 1,
            _ => 2.max(self.args.threads.unwrap_or(1)),
        };
        self.args.qps.unwrap_or(default)
    }

    /// Measured window of each repeat, at most.
    fn window(&self) -> Duration {
        let unsaid = if self.args.iterations.is_some() { LONGEST_BY_NUMBER } else { WINDOW };
        self.args.duration.unwrap_or(unsaid)
    }

    fn threads(&self) -> u32 {
        self.args.threads.unwrap_or(1)
    }

    /// One group for each rail and size.
    fn plan(&self, scene: &Scene) -> Result<Plan, CommandError> {
        let rails: Vec<Option<usize>> = match self.transport {
            Transport::Tcp => {
                let with_tcp: Vec<_> =
                    (0..scene.rails.len()).filter(|&i| scene.rails[i].tcp).map(Some).collect();
                if with_tcp.is_empty() { vec![None] } else { with_tcp }
            }
            _ => (0..scene.rails.len()).map(Some).collect(),
        };
        let mut groups = Vec::new();
        for rail in rails {
            let limits = rail.map_or_else(PathLimits::default, |r| scene.rails[r].limits);
            for size in self.sizes.resolve(limits.mtu.unwrap_or(0)) {
                refusal(self.test, self.op, self.transport, size, &limits)
                    .map_err(|e| CommandError::usage(e.to_string()))?;
                for way in self.orderings() {
                    let group = self.group(rail, size, *way);
                    match self.args.under_load {
                        true => groups.extend(self.with_and_without_load(group)),
                        false => groups.push(group),
                    }
                }
            }
        }
        let each = (self.window() + self.args.warmup).as_secs_f64() * f64::from(self.args.repeats);
        let estimated_seconds = groups.len() as f64 * (each + 0.5);
        Ok(Plan { groups, estimated_seconds, retest_seconds: None, notes: Vec::new() })
    }

    /// What the devices of the rails are asked for; nothing where no verbs take part.
    fn asked(&self) -> Option<Asked> {
        let tuning = tuning(self.args, self.test);
        let verbs = self.transport != Transport::Tcp;
        verbs.then(|| asked(self.args, self.qps(), self.threads(), tuning))
    }

    /// Relaxed ordering of each case of a point.
    fn orderings(&self) -> &'static [Option<bool>] {
        match self.args.pairs.relaxed_ordering {
            None => &[None],
            Some(Relaxed::On) => &[Some(true)],
            Some(Relaxed::Off) => &[Some(false)],
            Some(Relaxed::Both) => &[Some(true), Some(false)],
        }
    }

    /// The case of this size on this rail.
    fn group(&self, rail: Option<usize>, size_bytes: u64, relaxed: Option<bool>) -> Group {
        let (test, transport) = (word(&self.test), word(&self.transport));
        let title = test.replace('_', " ");
        let (op, way) = (word(&self.op), word(&self.direction));
        let place = rail.map_or("route".into(), |r| format!("rail{r}"));
        let mut id = format!("{test}/{transport}/{op}/{size_bytes}/{place}/{way}");
        if self.orderings().len() > 1 {
            id += if relaxed == Some(true) { "/relaxed" } else { "/strict" };
        }
        let case = Case {
            id,
            test: self.test,
            transport: self.transport,
            op: self.op,
            size_bytes,
            direction: self.direction,
            rail,
            loopback: None,
            retest_of: None,
            knobs: self.knobs(relaxed),
        };
        Group {
            title: format!("{title} {} {op} {place}", size_text(size_bytes)),
            cases: vec![case],
        }
    }

    /// The same latency on a schedule, first alone, then beside a stream on the same rail.
    fn with_and_without_load(&self, mut group: Group) -> [Group; 2] {
        for case in &mut group.cases {
            case.knobs.tuning.schedule_ns = Some(SCHEDULE.as_nanos() as u64);
        }
        let mut loaded = group.clone();
        group.cases.iter_mut().for_each(|case| case.id += "/scheduled");
        loaded.cases.iter_mut().for_each(|case| case.id += "/under-load");
        loaded.title += " under load";
        let streams: Vec<Case> = loaded.cases.iter().map(load_beside).collect();
        loaded.cases.extend(streams);
        [group, loaded]
    }

    /// Knobs as typed, the rest by default.
    fn knobs(&self, relaxed: Option<bool>) -> Knobs {
        let args = self.args;
        let (window_ns, interval_ns) = in_intervals(self.window().as_nanos() as u64);
        let by_rounds = self.test == Test::Latency;
        let tx_depth = args.tx_depth.unwrap_or(128);
        Knobs {
            qps: self.qps(),
            threads: self.threads(),
            tx_depth,
            rx_depth: args.rx_depth.unwrap_or(512),
            inline: args.inline,
            signal_every: args.signal_every.unwrap_or(match self.test {
                Test::Latency => 1,
                _ => (tx_depth / 4).clamp(1, 32),
            }),
            warmup_ns: args.warmup.as_nanos() as u64,
            window_ns,
            interval_ns,
            repeats: args.repeats,
            rounds: args.iterations.filter(|_| by_rounds),
            volume_bytes: 0,
            tuning: Tuning { relaxed_ordering: relaxed, ..tuning(args, self.test) },
        }
    }
}

/// The stream that loads the way of a latency case meanwhile.
fn load_beside(latency: &Case) -> Case {
    let op = if latency.transport == Transport::Tcp { Op::Stream } else { Op::Write };
    let (transport, way) = (word(&latency.transport), word(&latency.direction));
    let place = latency.rail.map_or("route".into(), |r| format!("rail{r}"));
    let knobs = &latency.knobs;
    Case {
        id: format!("bandwidth/{transport}/{}/{LOAD_BYTES}/{place}/{way}/load", word(&op)),
        test: Test::Bandwidth,
        op,
        size_bytes: LOAD_BYTES,
        knobs: Knobs {
            qps: 2,
            tx_depth: 128,
            rx_depth: 512,
            signal_every: 32,
            rounds: None,
            // A WRITE has no receives to share.
            tuning: Tuning { schedule_ns: None, srq: false, ..knobs.tuning.clone() },
            ..knobs.clone()
        },
        ..latency.clone()
    }
}
