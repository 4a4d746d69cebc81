//! What `pair`, `lat` and `bw` have in common: from hosts as typed to a report and an exit code.

pub mod baseline;
pub mod collect;
mod folded;
pub mod group;
pub mod knobs;
pub mod outputs;
pub mod paths;
pub mod progress;
mod retest;
pub mod single;
pub mod watch;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use fabbench_harness::ceiling::{self, DeclaredRate};
use fabbench_harness::facts::places::last_level_cache;
use fabbench_harness::knob_limits::Asked;
use fabbench_harness::plan::{Case, Group, Knobs, LOOPBACK, Transport, Tuning};
use fabbench_harness::profile::Choice;
use fabbench_harness::rails::{
    DeviceFilter, PairRail, Party, RailError, RailMap, Selection, match_rails, parse_map,
};
use fabbench_harness::snapshot::HostFacts;
use fabbench_harness::suite::{Plan, RailTraits, Scene, tcp_streams};
use fabbench_harness::{checks, facts, topology, verdict};
use fabbench_reports::model::{
    Check, Host, HostTopology, Measurement, Named, NotMeasured, Report, SCHEMA, Status, Tool,
    Verdict,
};
use fabbench_reports::nagios::State;
use fabbench_reports::redact::Redactor;
use fabbench_reports::text;

use super::{CommandError, ExitCode, nagios, print_page};
use crate::cli::{Color, DeviceArgs, FailOn, JudgeArgs, LaunchArgs, OutputArgs};
use crate::session::interrupt::state_wanted;
use crate::session::protocol::{CaseId, Prepare, Role};
use crate::session::token;
use crate::session::{HostFailure, HostSpec, Interrupt, Launch, Session, parse_hosts};
use baseline::Baseline;
use collect::CaseOutcome;
use folded::Folded;
use group::{Agents, CaseEnd, Preparer};
use outputs::{Form, Outputs};
use paths::Paths;
use progress::Progress;
use watch::Watch;

/// Failures on one rail after which its other cases over the same transport are not tried any more.
const RAIL_PATIENCE: u32 = 2;

/// What a command asks to be measured between two hosts.
pub struct Request<'a> {
    /// Hosts as typed.
    pub hosts: [&'a str; 2],
    /// How they are reached.
    pub launch: &'a LaunchArgs,
    /// Devices and paths.
    pub devices: &'a DeviceArgs,
    /// What results are held against.
    pub judge: &'a JudgeArgs,
    /// Where results go.
    pub output: &'a OutputArgs,
    /// Name and hash of what is run.
    pub suite: Named,
    /// Verbs transports are wanted.
    pub wants_rdma: bool,
    /// The topology of both hosts is part of the report and of its verdict.
    pub topology: bool,
    /// A line about what is under way so often.
    pub every: Option<Duration>,
    /// Where threads and buffers are to be; the default for suites.
    pub place: Tuning,
    /// Knobs that the devices of each rail must be able to do; none where suites set them.
    pub asked: Option<Asked>,
    /// What this command never measures, for the report's list.
    pub beyond: Vec<NotMeasured>,
    /// From what is there to cases.
    pub plan: &'a dyn Fn(&Scene) -> Result<Plan, CommandError>,
}

/// Runs the request to its end.
pub fn run(request: &Request) -> Result<ExitCode, CommandError> {
    let specs = parse_hosts(&request.hosts).map_err(|e| CommandError::usage(e.to_string()))?;
    let choice = profile(&request.judge.profile)?;
    let declared = declared(&request.judge.declare_rate, &specs)?;
    let selection = selection(request.devices, &declared)?;
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let baseline = Baseline::of(request.judge, &names, &request.suite)?;
    let outputs = Outputs::prepare(request.output)?;
    let launch = launch(request.launch, request.output.verbose)?;
    let interrupt = install_interrupt()?;
    let started = now();
    let mut session = start(&specs, &launch, &interrupt)?;
    let facts = all_facts(&mut session, &interrupt)?;
    let site = Site::new(&specs, [&facts[0], &facts[1]], request, &selection)?;
    let ceilings = ceiling::Site::new(&site.hosts, &site.facts, declared);
    let judging = Judging { choice, ceilings, baseline };
    let mut campaign = Campaign::new(&site, request, session, outputs, started, judging)?;
    campaign.measure(&interrupt);
    campaign.finish(&interrupt)
}

/// Starts watching Ctrl-C.
pub fn install_interrupt() -> Result<Interrupt, CommandError> {
    Interrupt::install().map_err(|e| CommandError::incomplete(format!("watch signals: {e}")))
}

/// How agents are started, from what was typed.
pub fn launch(args: &LaunchArgs, verbose: u8) -> Result<Launch, CommandError> {
    if let Some(warning) = args.token_file.as_deref().and_then(token::exposed) {
        eprintln!("warning: {warning}");
    }
    Launch::from_args(
        args,
        verbose > 0,
        Arc::new(|line: &str| eprintln!("{}", text::printable(line))),
    )
    .map_err(CommandError::usage)
}

/// Starts the agents; the failures of all hosts in one message.
pub fn start(
    specs: &[HostSpec],
    launch: &Launch,
    interrupt: &Interrupt,
) -> Result<Session, CommandError> {
    Session::start(specs, launch, interrupt).map_err(|failures| start_error(failures, interrupt))
}

/// Facts of all hosts; the failures of all of them in one message.
pub fn all_facts(
    session: &mut Session,
    interrupt: &Interrupt,
) -> Result<Vec<HostFacts>, CommandError> {
    let (facts, failures): (Vec<_>, Vec<_>) = session.facts().into_iter().partition(Result::is_ok);
    if failures.is_empty() {
        return Ok(facts.into_iter().flatten().collect());
    }
    Err(start_error(failures.into_iter().filter_map(Result::err).collect(), interrupt))
}

/// Why agents could not be started or asked.
fn start_error(failures: Vec<HostFailure>, interrupt: &Interrupt) -> CommandError {
    if interrupt.is_set() {
        return CommandError { message: "interrupted".into(), code: ExitCode::INTERRUPTED };
    }
    let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
    CommandError::incomplete(lines.join("\nfabbench: "))
}

/// RFC 3339 now, to the second.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The profile of that name, or in that file.
pub fn profile(name: &str) -> Result<Choice, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(format!("--profile: {e}"));
    if !name.contains(['/', '.']) {
        return Choice::by_name(name).map_err(|e| usage(&e));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|e| CommandError::usage(format!("read profile: {name}: {e}")))?;
    Choice::parse(name, &text).map_err(|e| usage(&e))
}

/// Declared rates as typed; each must name one of the hosts.
fn declared(typed: &[String], specs: &[HostSpec]) -> Result<Vec<DeclaredRate>, CommandError> {
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let one = |text: &String| {
        let refused = |why: String| CommandError::usage(format!("--declare-rate: {why}"));
        let rate: DeclaredRate = text.parse().map_err(refused)?;
        let host = rate.object.rsplit_once('/').map_or("", |(host, _)| host);
        if !names.contains(&host) {
            return Err(refused(format!("{text}: the hosts are {}", names.join(" and "))));
        }
        Ok(rate)
    };
    typed.iter().map(one).collect()
}

/// Device filters, the rail map and the slowest declared rate as typed.
fn selection(args: &DeviceArgs, declared: &[DeclaredRate]) -> Result<Selection, CommandError> {
    let usage = |e: &dyn std::fmt::Display| CommandError::usage(e.to_string());
    let filter = |own: &[String]| -> Result<Option<DeviceFilter>, CommandError> {
        let list = if own.is_empty() { &args.device } else { own };
        if list.is_empty() {
            return Ok(None);
        }
        list.join(",").parse().map(Some).map_err(|e| usage(&e))
    };
    let map = match &args.rails {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|e| CommandError::usage(format!("read rails: {}: {e}", path.display())))?;
            let map = parse_map(&text)
                .map_err(|e| CommandError::usage(format!("rails: {}: {e}", path.display())))?;
            Some(map)
        }
        None => None,
    };
    if let Some(mtu) = args.mtu.filter(|mtu| ![256, 512, 1024, 2048, 4096].contains(mtu)) {
        return Err(CommandError::usage(format!(
            "--mtu {mtu}: a path MTU is 256, 512, 1024, 2048 or 4096 bytes"
        )));
    }
    Ok(Selection {
        devices_a: filter(&args.device_a)?,
        devices_b: filter(&args.device_b)?,
        map,
        gid_index_a: args.gid_index,
        gid_index_b: args.gid_index,
        mtu: args.mtu,
        declared_bps: declared.iter().map(|rate| rate.bps as u64).min(),
    })
}

/// The two hosts and what lies between them.
struct Site<'a> {
    names: [&'a str; 2],
    facts: [&'a HostFacts; 2],
    data_addresses: [Option<std::net::IpAddr>; 2],
    hosts: [Host; 2],
    map: RailMap,
}

impl<'a> Site<'a> {
    /// Interprets the facts and lays the rails (none where RDMA is not wanted).
    fn new(
        specs: &'a [HostSpec],
        facts: [&'a HostFacts; 2],
        request: &Request,
        selection: &Selection,
    ) -> Result<Self, CommandError> {
        let names = [specs[0].name.as_str(), specs[1].name.as_str()];
        let hosts = [0, 1].map(|i| facts::host(names[i], facts[i]));
        let data_addresses = [specs[0].data_address, specs[1].data_address];
        let party =
            |i: usize| Party { facts: facts[i], host: &hosts[i], data_address: data_addresses[i] };
        let map = match match_rails(&party(0), &party(1), selection) {
            Ok(map) => map,
            // A device that was named and is not there is wrong usage, unless nothing is there.
            Err(error) if request.wants_rdma && has_devices(&hosts, &error) => {
                return Err(CommandError::usage(error.to_string()));
            }
            Err(_) => RailMap::default(),
        };
        Ok(Site { names, facts, data_addresses, hosts, map })
    }

    /// One of the hosts, for the harness.
    fn party(&self, i: usize) -> Party<'_> {
        Party { facts: self.facts[i], host: &self.hosts[i], data_address: self.data_addresses[i] }
    }

    /// Checks of both hosts and their rails; none where RDMA is not wanted.
    fn checks(&self, wanted: bool, locked_bytes: u64) -> Vec<Check> {
        let [a, b] = [self.party(0), self.party(1)];
        if wanted { checks::pair_checks(&a, &b, &self.map, locked_bytes) } else { Vec::new() }
    }
}

/// Whether the host that the error is about has any device at all.
fn has_devices(hosts: &[Host; 2], error: &RailError) -> bool {
    match error {
        RailError::Absent { host, .. } => {
            hosts.iter().any(|h| h.name == *host && !h.devices.is_empty())
        }
        RailError::NothingExcluded { .. } => hosts.iter().any(|h| !h.devices.is_empty()),
    }
}

/// Failures by rail and transport: where verbs fail, sockets may still tell whether the cable is
/// good.
#[derive(Debug, Default)]
struct RailFailures(BTreeMap<(usize, &'static str), (u32, String)>);

impl RailFailures {
    /// Counts a failure.
    fn note(&mut self, rail: usize, transport: Transport, what: &str) {
        let entry = self.0.entry((rail, family(transport))).or_default();
        *entry = (entry.0 + 1, what.to_owned());
    }

    /// The last failure, once there were too many.
    fn given_up(&self, rail: usize, transport: Transport) -> Option<&str> {
        let (count, last) = self.0.get(&(rail, family(transport)))?;
        (*count >= RAIL_PATIENCE).then_some(last)
    }
}

/// Transports that fail together.
fn family(transport: Transport) -> &'static str {
    if transport == Transport::Tcp { "sockets" } else { "verbs" }
}

/// How results are judged.
struct Judging {
    choice: Choice,
    ceilings: ceiling::Site,
    baseline: Option<Baseline>,
}

/// A run under way.
struct Campaign<'a> {
    site: &'a Site<'a>,
    request: &'a Request<'a>,
    session: Session,
    outputs: Outputs,
    started: String,
    plan: Plan,
    rails: Vec<PairRail>,
    progress: Progress,
    measurements: Vec<Measurement>,
    not_measured: Vec<NotMeasured>,
    complete: bool,
    next_id: CaseId,
    rail_failures: RailFailures,
    locked_bytes: u64,
    judging: Judging,
    state_wanted: Arc<AtomicBool>,
}

impl<'a> Campaign<'a> {
    /// Plans the cases and says what is going to happen.
    fn new(
        site: &'a Site<'a>,
        request: &'a Request<'a>,
        session: Session,
        outputs: Outputs,
        started: String,
        judging: Judging,
    ) -> Result<Self, CommandError> {
        let rails = site.map.rails.clone();
        let same = facts::same_machine(site.facts[0], site.facts[1]);
        let scene = Scene {
            rails: rails.iter().map(|rail| traits(rail, same)).collect(),
            tcp_streams: tcp_streams(site.facts[0], site.facts[1], same),
        };
        for (asked, rail) in
            request.asked.iter().flat_map(|asked| rails.iter().map(move |r| (asked, r)))
        {
            knobs::check_rail(asked, rail, site.facts)?;
        }
        for (name, facts) in site.names.iter().zip(site.facts) {
            knobs::check_place(&request.place, name, facts)?;
        }
        let plan = (request.plan)(&scene)?;
        let cases = plan.groups.iter().map(|group| group.cases.len()).sum();
        let silent = request.output.quiet || request.output.nagios;
        let estimate = Duration::from_secs_f64(plan.estimated_seconds.clamp(0.0, 1e6));
        let mut progress = Progress::new(cases, estimate, silent);
        let mut not_measured = Vec::new();
        if request.wants_rdma {
            not_measured.extend(site.map.no_rdma(&site.party(0), &site.party(1)));
            not_measured.extend(site.map.not_measured());
        }
        announce(&mut progress, &rails, &plan, &not_measured);
        Ok(Campaign {
            site,
            request,
            session,
            outputs,
            started,
            rail_failures: RailFailures::default(),
            locked_bytes: checks::least_locked_bytes(&plan.groups),
            plan,
            rails,
            progress,
            measurements: Vec::new(),
            not_measured,
            complete: true,
            next_id: 1,
            judging,
            state_wanted: state_wanted()
                .map_err(|e| CommandError::incomplete(format!("watch signals: {e}")))?,
        })
    }

    /// Runs all groups; ends early when an agent is gone or the user interrupts.
    fn measure(&mut self, interrupt: &Interrupt) {
        let groups = std::mem::take(&mut self.plan.groups);
        for group in &groups {
            if let Some(why) = self.hopeless(group, interrupt) {
                for case in &group.cases {
                    self.give_up(case, &why);
                }
                self.progress.cases_over(group.cases.len());
                continue;
            }
            self.progress.now(&group.title);
            self.run_group(group);
        }
        self.progress.clear();
        self.retest(&groups, interrupt);
    }

    /// Why a group cannot be measured any more.
    fn hopeless(&mut self, group: &Group, interrupt: &Interrupt) -> Option<String> {
        if interrupt.is_set() {
            self.complete = false;
            return Some("interrupted before it".into());
        }
        if let Some(host) = (0..2).find(|&host| self.session.is_lost(host)) {
            return Some(format!("the agent on {} is gone", self.site.names[host]));
        }
        let given_up = |case: &Case| {
            let rail = case.rail?;
            let last = self.rail_failures.given_up(rail, case.transport)?;
            Some(format!("{} failed {RAIL_PATIENCE} times before ({last})", self.rails[rail].name))
        };
        group.cases.iter().find_map(given_up)
    }

    /// Runs a group, keeps what it measured, tells what it could not.
    fn run_group(&mut self, group: &Group) {
        let site = self.site;
        self.session.set_stage(&group.title);
        let own = group.cases.first().and_then(|case| case.loopback);
        let rails: Vec<PairRail> = match own {
            Some(host) => self.rails.iter().map(|rail| rail.against_itself(host)).collect(),
            None => self.rails.clone(),
        };
        let paths = self.paths(&rails, own);
        let mut preparer = Tickets { paths: &paths };
        let so_far: Vec<String> =
            self.measurements.iter().map(|m| text::result_line(m, &site.names)).collect();
        let (every, wanted) = (self.request.every, &self.state_wanted);
        let progress = &mut self.progress;
        let mut watch = Watch::new(progress, group, paths.names, every, wanted, &so_far);
        let folded = own.map(|host| Folded { agents: &self.session, host });
        let agents = folded.as_ref().map_or(&self.session as &dyn Agents, |both| both);
        let ends = group::run(agents, group, self.next_id, &mut preparer, &mut watch);
        self.next_id += group.cases.len() as CaseId;
        let outcomes: Vec<CaseOutcome> =
            group.cases.iter().zip(&ends).map(|(case, end)| outcome(case, end, &paths)).collect();
        let mut measured: Vec<Measurement> = collect::measurements(&outcomes)
            .into_iter()
            .filter(|m| !m.repeats.is_empty() || m.bytes_verified > 0)
            .collect();
        self.judging.ceilings.set(&mut measured);
        let names = paths.names;
        for (case, end) in group.cases.iter().zip(&ends) {
            self.note_trouble(case, end, names);
        }
        for measurement in measured {
            self.outputs.note(&measurement);
            let line = text::result_line(&measurement, &site.names);
            self.progress.result(&line);
            self.measurements.push(measurement);
        }
        self.progress.cases_over(group.cases.len());
    }

    /// Keeps why a case did not end well.
    fn note_trouble(&mut self, case: &Case, end: &CaseEnd, names: [&str; 2]) {
        let Some(trouble) = &end.trouble else { return };
        if let Some(rail) = case.rail.filter(|_| case.loopback.is_none()) {
            self.rail_failures.note(rail, case.transport, trouble.in_short());
        }
        self.give_up(case, &trouble.sentence(names));
    }

    /// A case that was asked for and has no (whole) result.
    fn give_up(&mut self, case: &Case, why: &str) {
        self.progress.warn(&format!("{}: {why}", case.id));
        let asked = case.retest_of.is_none();
        self.not_measured.push(NotMeasured { what: case.id.clone(), why: why.into(), asked });
    }

    /// Ways between the two hosts, or from host `own` to itself.
    fn paths<'p>(&self, rails: &'p [PairRail], own: Option<usize>) -> Paths<'p>
    where
        'a: 'p,
    {
        let [a, b] = own.map_or([0, 1], |host| [host, host]);
        let site = self.site;
        Paths {
            facts: [site.facts[a], site.facts[b]],
            names: [site.names[a], site.names[b]],
            data_addresses: [site.data_addresses[a], site.data_addresses[b]],
            rails,
            service: (self.request.devices.sl, self.request.devices.traffic_class),
        }
    }

    /// Topology of both hosts where it was asked for; of one machine that stands twice, once.
    fn topology(&self) -> Vec<HostTopology> {
        let [a, b] = self.site.facts;
        let hosts = if facts::same_machine(a, b) { 1 } else { 2 };
        let asked = self.site.names.iter().zip([a, b]).take(hosts);
        let asked = asked.filter(|_| self.request.topology);
        asked.map(|(name, facts)| topology::report::of_host(name, facts)).collect()
    }

    /// The report of what was measured, not judged yet.
    fn report(
        &self,
        topology: Vec<HostTopology>,
        checks: Vec<Check>,
        measurements: Vec<Measurement>,
        complete: bool,
    ) -> Report {
        Report {
            schema: SCHEMA.into(),
            tool: Tool { version: crate::VERSION.into(), commit: crate::COMMIT.into() },
            command: std::env::args().collect(),
            suite: self.request.suite.clone(),
            profile: Named { name: String::new(), hash: String::new() },
            profile_why: String::new(),
            started: self.started.clone(),
            finished: now(),
            complete: self.complete && complete,
            simulated: self.rails.iter().any(|r| r.a.soft || r.b.soft),
            synthetic: false,
            hosts: self.site.hosts.to_vec(),
            rails: report_rails(&self.rails, &measurements),
            checks,
            matrices: Vec::new(),
            fits: Vec::new(),
            not_measured: [&self.not_measured[..], &gpu_memory(&topology), &self.request.beyond]
                .concat(),
            topology,
            measurements,
            diagnosis: Vec::new(),
            verdict: unjudged(),
        }
    }

    /// Ends the agents, judges, writes and prints.
    fn finish(mut self, interrupt: &Interrupt) -> Result<ExitCode, CommandError> {
        self.progress.clear();
        let interrupted = interrupt.is_set();
        let topology = self.topology();
        let mut checks = self.site.checks(self.request.wants_rdma, self.locked_bytes);
        checks.extend(topology.iter().flat_map(topology::report::checks));
        let measurements = std::mem::take(&mut self.measurements);
        let mut report = self.report(topology, checks, measurements, !interrupted);
        let session = self.session;
        for line in session.close() {
            eprintln!("fabbench: {}", text::printable(&line));
        }
        verdict::judge(&mut report, &self.judging.choice);
        let output = self.request.output;
        let comparison = self.judging.baseline.as_ref().map(|kept| kept.hold(&mut report));
        let report = handed_on(report, output)?;
        let alone = self.outputs.alone_on_stdout();
        let written = self.outputs.complete(&report);
        print(&report, output, alone)?;
        if let Some(comparison) = comparison.filter(|_| alone.is_none() && in_full(output)) {
            print_page(&format!("\n{}", text::comparison(&comparison, &text_options(output))))?;
        }
        written?;
        if interrupted {
            return Ok(ExitCode::INTERRUPTED);
        }
        Ok(exit_code(&report, output))
    }
}

/// Says, of hosts with GPUs, that no traffic ran on their memory.
fn gpu_memory(topology: &[HostTopology]) -> Vec<NotMeasured> {
    let with_gpus = topology.iter().any(|host| !host.gpus.is_empty());
    let entry = NotMeasured {
        what: "GPU memory".into(),
        why: "no traffic ran on it: the topology says what is possible, not what is reached".into(),
        asked: false,
    };
    with_gpus.then_some(entry).into_iter().collect()
}

/// The verdict of a report that nobody has judged yet.
pub fn unjudged() -> Verdict {
    Verdict {
        status: Status::Unknown,
        function: Status::Unknown,
        performance: Status::Unknown,
        reasons: Vec::new(),
        next: Vec::new(),
    }
}

/// The report as it may be shown: without names where that was asked for.
pub fn handed_on(report: Report, output: &OutputArgs) -> Result<Report, CommandError> {
    if !output.redact {
        return Ok(report);
    }
    Redactor::default()
        .report(&report)
        .map_err(|e| CommandError::incomplete(format!("redact report: {e}")))
}

/// Whether a person reads more than a line, and may read names.
fn in_full(output: &OutputArgs) -> bool {
    !output.quiet && !output.nagios && !output.redact
}

/// Exit code of a judged report, as people or as Nagios read it.
pub fn exit_code(report: &Report, output: &OutputArgs) -> ExitCode {
    if output.nagios {
        return ExitCode(nagios_state(report, output).code());
    }
    plain_exit_code(report, output)
}

fn plain_exit_code(report: &Report, output: &OutputArgs) -> ExitCode {
    let fail_on = verdict::FailOn {
        warn: output.fail_on.contains(&FailOn::Warn),
        unjudged: output.fail_on.contains(&FailOn::Unjudged),
    };
    ExitCode(verdict::exit_code(report, fail_on))
}

fn nagios_state(report: &Report, output: &OutputArgs) -> State {
    nagios::state(report.verdict.status, plain_exit_code(report, output))
}

/// Says which hosts, which rails and for how long.
fn announce(progress: &mut Progress, rails: &[PairRail], plan: &Plan, missing: &[NotMeasured]) {
    for rail in rails {
        progress.say(&format!(
            "{}: {} <-> {}, {}, MTU {} ({})",
            rail.name,
            rail.a.label,
            rail.b.label,
            rail.gids.type_words(),
            rail.mtu.bytes,
            rail.why
        ));
        for warning in &rail.warnings {
            progress.warn(&format!("{}: {warning}", rail.name));
        }
    }
    for item in missing {
        let text = format!("{} is not measured: {}", item.what, item.why);
        if item.asked { progress.warn(&text) } else { progress.say(&text) }
    }
    for note in &plan.notes {
        progress.say(note);
    }
    if !plan.groups.is_empty() {
        progress.say(&format!("measuring, about {:.0} s", plan.estimated_seconds.ceil()));
    }
}

/// Rails of the report; proved is one over which verified data or messages went.
fn report_rails(
    rails: &[PairRail],
    measurements: &[Measurement],
) -> Vec<fabbench_reports::model::Rail> {
    let proved = |rail: &PairRail| {
        let crossed = |m: &&Measurement| m.transport != "tcp" && m.test != LOOPBACK;
        measurements.iter().filter(crossed).any(|m| m.path.rail == rail.name)
    };
    rails.iter().map(|rail| rail.report(proved(rail))).collect()
}

/// What of a rail decides which cases it gets; `same` where both hosts are one machine.
fn traits(rail: &PairRail, same: bool) -> RailTraits {
    let one_port = same && rail.a.device == rail.b.device && rail.a.port == rail.b.port;
    RailTraits { one_port, ..RailTraits::from(rail) }
}

/// A case with its results and names.
fn outcome<'c>(case: &'c Case, end: &CaseEnd, paths: &Paths) -> CaseOutcome<'c> {
    let calls = &paths.facts[end.initiator].calls;
    CaseOutcome {
        case,
        ends: [paths.end(case, 0), paths.end(case, 1)],
        hosts: paths.names.map(str::to_owned),
        initiator: end.initiator,
        sides: end.sides.clone(),
        path: paths.describe(case),
        cache_bytes: last_level_cache(paths.facts[end.initiator]),
        clock: (calls.clock_resolution_ns, calls.clock_cost_ns),
    }
}

/// Fills in ways, addresses and tokens.
struct Tickets<'p> {
    paths: &'p Paths<'p>,
}

impl Preparer for Tickets<'_> {
    fn prepare(&mut self, id: CaseId, case: &Case, host: usize, role: Role) -> Prepare {
        let both = case.direction == fabbench_harness::plan::Direction::Both;
        let initiator = role == Role::Initiator;
        Prepare {
            case: id,
            name: case.id.clone(),
            role,
            test: case.test,
            transport: case.transport,
            op: case.op,
            size_bytes: case.size_bytes,
            sends: both || initiator,
            receives: both || !initiator,
            knobs: Knobs { tuning: self.paths.placed(case, host), ..case.knobs.clone() },
            port: self.paths.port(case, host),
            addresses: if initiator { Vec::new() } else { self.paths.listen(case, host) },
            bind: if initiator { self.paths.bind(case, host) } else { Vec::new() },
            token: token::Token::random().unwrap_or_default(),
        }
    }
}

/// Prints what a person, or a script with bare `--json` or `--csv`, reads on stdout.
pub fn print(
    report: &Report,
    output: &OutputArgs,
    alone: Option<Form>,
) -> Result<(), CommandError> {
    let text = match alone {
        _ if output.nagios => {
            fabbench_reports::nagios::report(report, nagios_state(report, output))
        }
        Some(form) => form.render(report)?,
        None if output.quiet => text::report_line(report),
        None => text::report(report, &text_options(output)),
    };
    print_page(&text)
}

/// How text looks on this stdout.
pub fn text_options(output: &OutputArgs) -> text::Options {
    let terminal = std::io::stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let color = match output.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !no_color,
    };
    let width = if terminal { progress::terminal_width() } else { 100 };
    text::Options { width, color, explain: output.explain, histogram: output.histogram }
}

/// Transports wanted, from those typed: none typed means all.
pub fn transports(typed: &[crate::cli::TransportArg]) -> Option<Vec<Transport>> {
    use crate::cli::TransportArg::{Rc, Rdma, Tcp, Uc, Ud, Xrc};
    if typed.is_empty() {
        return None;
    }
    let one = |t: &crate::cli::TransportArg| match t {
        Rdma => &[Transport::Rc, Transport::Uc, Transport::Ud][..],
        Rc => &[Transport::Rc],
        Uc => &[Transport::Uc],
        Ud => &[Transport::Ud],
        // Refused before: no suite asks for it.
        Xrc => &[],
        Tcp => &[Transport::Tcp],
    };
    Some(typed.iter().flat_map(one).copied().collect())
}
