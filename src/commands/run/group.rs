//! Runs one group of cases: both ends prepared, started together, collected.

use std::time::{Duration, Instant};

use fabbench_harness::plan::{Case, Group, Test};

use super::collect::initiator_of;
use crate::session::protocol::{CaseId, Prepare, Role, SideResult, ToAgent, ToCoordinator};
use crate::session::{Event, HostFailure, Session, Wait};
use crate::transport::{Failure, FailureKind};

/// Time for connecting and for each barrier, on top of what a case measures.
const OVERHEAD: Duration = Duration::from_secs(45);

/// Slowest transfer that an integrity phase waits for, bytes/s.
const SLOWEST_INTEGRITY: u64 = 200_000;

/// How a case ended.
pub struct CaseEnd {
    /// Index of the host that initiated.
    pub initiator: usize,
    /// What each host measured, complete or not.
    pub sides: [SideResult; 2],
    /// Why it did not end well.
    pub trouble: Option<Trouble>,
}

/// Why a case did not end well.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// Host that told of it.
    pub host: usize,
    /// Stage.
    pub stage: String,
    /// Failure.
    pub failure: Failure,
    /// The agent itself is gone, which explains whatever else is told.
    agent_lost: bool,
}

impl Trouble {
    /// In a sentence: host, stage, what went wrong. `names` are the names of A and B.
    pub fn sentence(&self, names: [&str; 2]) -> String {
        let (host, stage) = (names[self.host], &self.stage);
        // An agent that is gone is an object of its own: the host stands there already.
        match self.agent_lost {
            true => format!("{host}: stage {stage}: {}", self.failure.cause),
            false => format!("{host}: stage {stage}: {}", self.failure),
        }
    }

    /// What went wrong, without where and what to do.
    pub fn in_short(&self) -> &str {
        let cause = self.failure.cause.as_str();
        let end = [": ", "; "].iter().filter_map(|mark| cause.find(mark)).min();
        &cause[..end.unwrap_or(cause.len())]
    }

    /// Trouble that an agent or the coordinator tells of.
    fn of(host: usize, stage: impl Into<String>, failure: Failure) -> Self {
        Trouble { host, stage: stage.into(), failure, agent_lost: false }
    }
}

/// Fills what a case's end needs to know: way out, addresses, token.
pub trait Preparer {
    /// One end of `case`; the responder's `addresses` are where it listens.
    fn prepare(&mut self, id: CaseId, case: &Case, host: usize, role: Role) -> Prepare;
}

/// Who is told how a group goes on.
pub trait Onlooker {
    /// A repeat begins: so many are done, of so many.
    fn between(&mut self, done: u32, all: u32);

    /// How long at most until it wants to be asked whether it wants to look.
    fn patience(&self) -> Duration {
        Duration::MAX
    }

    /// Whether the agents shall tell how far they are.
    fn wants_look(&mut self) -> bool {
        false
    }

    /// How far the case of this index is on a host that counts it.
    fn tick(&mut self, index: usize, host: usize, stage: &str, moved: u64) {
        let _ = (index, host, stage, moved);
    }
}

impl<F: FnMut(u32, u32)> Onlooker for F {
    fn between(&mut self, done: u32, all: u32) {
        self(done, all);
    }
}

/// The agents of a run, as a group sees them.
pub trait Agents {
    /// Sends to an agent.
    fn send(&self, host: usize, message: &ToAgent) -> Result<(), HostFailure>;
    /// The next event; ends early when the user interrupts.
    fn wait(&self, patience: Duration) -> Wait;
    /// The next event, interrupted or not.
    fn wait_on(&self, patience: Duration) -> Wait;
}

impl Agents for Session {
    fn send(&self, host: usize, message: &ToAgent) -> Result<(), HostFailure> {
        Session::send(self, host, message)
    }

    fn wait(&self, patience: Duration) -> Wait {
        Session::wait(self, patience)
    }

    fn wait_on(&self, patience: Duration) -> Wait {
        Session::wait_on(self, patience)
    }
}

/// A case under way.
struct Live {
    id: CaseId,
    initiator: usize,
    repeats: u32,
    ready: bool,
    released: u32,
    done: u32,
    prepared: Prepare,
    sides: [Option<SideResult>; 2],
    trouble: Option<Trouble>,
    deadline: Instant,
}

/// Runs a group to its end, which `onlooker` may follow.
pub fn run(
    agents: &dyn Agents,
    group: &Group,
    first_id: CaseId,
    preparer: &mut dyn Preparer,
    onlooker: &mut dyn Onlooker,
) -> Vec<CaseEnd> {
    let mut live: Vec<Live> = group
        .cases
        .iter()
        .zip(first_id..)
        .map(|(case, id)| start(agents, case, id, preparer))
        .collect();
    let mut stopping = false;
    while live.iter().any(|case| !case.over()) {
        let deadline = live.iter().filter(|c| !c.over()).map(|c| c.deadline).min();
        let left = deadline.map_or(Duration::ZERO, |d| d.saturating_duration_since(Instant::now()));
        let left = left.min(onlooker.patience());
        // Once it is interrupted, what is left is to hear the agents' last words.
        match if stopping { agents.wait_on(left) } else { agents.wait(left) } {
            Wait::Event(host, Event::Message(ToCoordinator::Tick { case, stage, moved })) => {
                let counted = |live: &Live| live.id == case && live.counts_at(host);
                if let Some(index) = live.iter().position(counted) {
                    onlooker.tick(index, host, &stage, moved);
                }
            }
            Wait::Event(host, Event::Message(message)) => handle(agents, &mut live, host, message),
            Wait::Event(host, Event::Lost(failure)) => lose(agents, &mut live, host, &failure),
            Wait::Interrupted => {
                stopping = true;
                stop_all(agents, &mut live);
            }
            Wait::TimedOut => {}
        }
        if onlooker.wants_look() {
            // An agent that is gone is seen as such anyway.
            let _ = (0..2).try_for_each(|host| agents.send(host, &ToAgent::Look));
        }
        time_out(agents, &mut live);
        release(agents, &mut live, onlooker);
    }
    live.into_iter().map(Live::end).collect()
}

/// Prepares the responder; the initiator follows when the responder listens.
fn start(agents: &dyn Agents, case: &Case, id: CaseId, preparer: &mut dyn Preparer) -> Live {
    let initiator = initiator_of(case);
    let responder = preparer.prepare(id, case, 1 - initiator, Role::Responder);
    let mut prepared = preparer.prepare(id, case, initiator, Role::Initiator);
    prepared.token.clone_from(&responder.token);
    let mut live = Live {
        id,
        initiator,
        repeats: if case.test == Test::Integrity { 1 } else { case.knobs.repeats },
        ready: false,
        released: 0,
        done: 0,
        prepared,
        sides: [None, None],
        trouble: None,
        deadline: Instant::now() + allowance(case),
    };
    live.tell(agents, 1 - initiator, ToAgent::Prepare(Box::new(responder)));
    live
}

/// How long a case may take in all before the coordinator gives up on it.
fn allowance(case: &Case) -> Duration {
    let knobs = &case.knobs;
    let timed = u64::from(knobs.repeats) * (knobs.warmup_ns + knobs.window_ns) * 2;
    let work = match case.test {
        Test::Integrity => Duration::from_secs(2 * knobs.volume_bytes / SLOWEST_INTEGRITY),
        _ => Duration::from_nanos(timed),
    };
    work + OVERHEAD * (1 + knobs.repeats)
}

/// Takes a message of an agent.
fn handle(agents: &dyn Agents, live: &mut [Live], host: usize, message: ToCoordinator) {
    let find = |live: &mut [Live], id: CaseId| live.iter().position(|c| c.id == id);
    match message {
        ToCoordinator::Listening { case, addresses } => {
            if let Some(i) = find(live, case) {
                live[i].prepared.addresses = addresses;
                let prepare = Box::new(live[i].prepared.clone());
                let initiator = live[i].initiator;
                live[i].tell(agents, initiator, ToAgent::Prepare(prepare));
            }
        }
        ToCoordinator::Ready { case } => {
            if let Some(i) = find(live, case) {
                live[i].ready = true;
            }
        }
        ToCoordinator::Progress { case, done } => {
            if let Some(i) = find(live, case) {
                live[i].done = done;
            }
        }
        ToCoordinator::Done { case, side } => {
            if let Some(i) = find(live, case) {
                live[i].sides[host] = Some(*side);
            }
        }
        ToCoordinator::Failed { case, stage, failure, side } => {
            if let Some(i) = find(live, case) {
                live[i].sides[host] = Some(*side);
                live[i].fail(Trouble::of(host, stage, failure));
                live[i].tell(agents, 1 - host, ToAgent::Stop(case));
            }
        }
        ToCoordinator::Hello(_)
        | ToCoordinator::Facts(_)
        | ToCoordinator::Tick { .. }
        | ToCoordinator::Row { .. }
        | ToCoordinator::Heartbeat => {}
    }
}

/// Starts the next repeat of all cases once every one of them waits for it.
fn release(agents: &dyn Agents, live: &mut [Live], onlooker: &mut dyn Onlooker) {
    let mut waiting = live.iter().filter(|c| c.running()).peekable();
    if waiting.peek().is_none() || !waiting.all(Live::waits) {
        return;
    }
    if let Some(case) = live.iter().find(|c| c.running()) {
        onlooker.between(case.done, case.repeats);
    }
    for host in 0..2 {
        let ids: Vec<CaseId> =
            live.iter().filter(|c| c.running() && c.initiator == host).map(|c| c.id).collect();
        if ids.is_empty() {
            continue;
        }
        if let Err(failure) = agents.send(host, &ToAgent::Go(ids)) {
            lose(agents, live, host, &failure);
        }
    }
    for case in live.iter_mut().filter(|c| c.running()) {
        case.released += 1;
    }
}

/// An agent is gone: its side of every case is over; the other is told to stop, and may still hand
/// in what it has.
fn lose(agents: &dyn Agents, live: &mut [Live], host: usize, failure: &HostFailure) {
    for case in live.iter_mut().filter(|c| !c.over()) {
        case.fail(lost(host, failure));
        case.sides[host].get_or_insert_with(SideResult::default);
        case.deadline = Instant::now() + Duration::from_secs(3);
        let stop = ToAgent::Stop(case.id);
        case.tell(agents, 1 - host, stop);
    }
}

/// The trouble of a host that is gone.
fn lost(host: usize, failure: &HostFailure) -> Trouble {
    let cause = failure.cause.clone();
    let stage = failure.stage.clone();
    let failure = Failure::new(FailureKind::PeerLost, "agent", failure.host.clone(), cause);
    Trouble { host, stage, failure, agent_lost: true }
}

/// Asks both agents to end every case; their answers or the deadline end the group.
fn stop_all(agents: &dyn Agents, live: &mut [Live]) {
    for case in live.iter_mut().filter(|c| !c.over()) {
        let failure = Failure::new(FailureKind::Stopped, "run", "this run", "interrupted");
        case.fail(Trouble::of(case.initiator, "measure", failure));
        case.deadline = Instant::now() + Duration::from_secs(2);
        for host in 0..2 {
            let stop = ToAgent::Stop(case.id);
            case.tell(agents, host, stop);
        }
    }
}

/// Gives up on what is past its deadline: first asks to stop, then takes it as over.
fn time_out(agents: &dyn Agents, live: &mut [Live]) {
    let now = Instant::now();
    for case in live.iter_mut().filter(|c| !c.over() && c.deadline <= now) {
        if case.trouble.is_some() {
            for side in &mut case.sides {
                side.get_or_insert_with(SideResult::default);
            }
            continue;
        }
        let cause =
            "the agents did not end it in time; look for a hanging device in their kernel log";
        let failure =
            Failure::new(FailureKind::Stalled, "run case", case.prepared.name.clone(), cause);
        case.fail(Trouble::of(case.initiator, "measure", failure));
        case.deadline = now + Duration::from_secs(5);
        for host in 0..2 {
            let stop = ToAgent::Stop(case.id);
            case.tell(agents, host, stop);
        }
    }
}

impl Live {
    /// Both sides have answered for good.
    fn over(&self) -> bool {
        self.sides.iter().all(Option::is_some)
    }

    /// Nobody has ended it yet and repeats are left.
    fn running(&self) -> bool {
        self.trouble.is_none() && self.sides[self.initiator].is_none() && self.done < self.repeats
    }

    /// Whether what counts of this case is counted at `host`: round trips and READs where they begin,
    /// else messages where they arrive.
    fn counts_at(&self, host: usize) -> bool {
        let begins = host == self.initiator;
        let prepared = &self.prepared;
        match prepared.test == Test::Latency || prepared.op.fetches() {
            true => begins,
            false => !begins || prepared.receives,
        }
    }

    /// Ready, and every repeat released so far is done.
    fn waits(&self) -> bool {
        self.ready && self.released == self.done
    }

    /// Keeps the trouble that explains most: a cause rather than its echo at the other end.
    fn fail(&mut self, trouble: Trouble) {
        let echo = |t: &Trouble| match t.failure.kind {
            _ if t.agent_lost => 0,
            FailureKind::Stopped => 3,
            FailureKind::PeerLost => 2,
            _ => 1,
        };
        match &self.trouble {
            Some(old) if echo(old) <= echo(&trouble) => {}
            _ => self.trouble = Some(trouble),
        }
        self.deadline = self.deadline.min(Instant::now() + Duration::from_secs(15));
    }

    /// Sends to one agent; an agent that cannot be reached ends the case.
    fn tell(&mut self, agents: &dyn Agents, host: usize, message: ToAgent) {
        if let Err(failure) = agents.send(host, &message) {
            self.fail(lost(host, &failure));
            self.sides[host].get_or_insert_with(SideResult::default);
            if matches!(message, ToAgent::Prepare(_)) {
                self.sides[1 - host].get_or_insert_with(SideResult::default);
            }
        }
    }

    /// The result.
    fn end(self) -> CaseEnd {
        let [a, b] = self.sides;
        CaseEnd {
            initiator: self.initiator,
            sides: [a.unwrap_or_default(), b.unwrap_or_default()],
            trouble: self.trouble,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, VecDeque};

    use fabbench_harness::plan::{Direction, Knobs, Op, Transport};

    use super::*;

    /// Agents that do as they are told and answer at once, unless a fault answers instead.
    #[derive(Default)]
    struct Fake {
        events: RefCell<VecDeque<Wait>>,
        sent: RefCell<Vec<(usize, String)>>,
        roles: RefCell<BTreeMap<(usize, CaseId), Role>>,
        done: RefCell<BTreeMap<CaseId, u32>>,
        fault: Option<Fault>,
    }

    /// What a host answers to a message instead of what is usual.
    type Fault = fn(usize, &ToAgent) -> Option<Vec<Wait>>;

    impl Agents for Fake {
        fn send(&self, host: usize, message: &ToAgent) -> Result<(), HostFailure> {
            let answers = match self.fault.and_then(|fault| fault(host, message)) {
                Some(answers) => answers,
                None => self.usual(host, message),
            };
            self.events.borrow_mut().extend(answers);
            let text = match message {
                ToAgent::Prepare(p) => format!("prepare {} {:?}", p.case, p.role),
                ToAgent::Go(ids) => format!("go {ids:?}"),
                ToAgent::Stop(id) => format!("stop {id}"),
                other => format!("{other:?}"),
            };
            self.sent.borrow_mut().push((host, text));
            Ok(())
        }

        fn wait(&self, _: Duration) -> Wait {
            self.events.borrow_mut().pop_front().expect("somebody would wait for ever")
        }

        fn wait_on(&self, patience: Duration) -> Wait {
            self.wait(patience)
        }
    }

    impl Fake {
        fn usual(&self, host: usize, message: &ToAgent) -> Vec<Wait> {
            match message {
                ToAgent::Prepare(p) => {
                    self.roles.borrow_mut().insert((host, p.case), p.role);
                    let case = p.case;
                    vec![said(
                        host,
                        match p.role {
                            Role::Responder => ToCoordinator::Listening { case, addresses: vec![] },
                            Role::Initiator => ToCoordinator::Ready { case },
                        },
                    )]
                }
                ToAgent::Go(ids) => ids.iter().flat_map(|&id| self.repeat(host, id)).collect(),
                ToAgent::Stop(case) => vec![failed(host, *case, FailureKind::Stopped)],
                _ => Vec::new(),
            }
        }

        /// A repeat passes; both ends are done after the second.
        fn repeat(&self, host: usize, case: CaseId) -> Vec<Wait> {
            let mut all = self.done.borrow_mut();
            let done = all.entry(case).or_default();
            *done += 1;
            let mut told = vec![said(host, ToCoordinator::Progress { case, done: *done })];
            if *done == 2 {
                told.extend([0, 1].map(|host| finished(host, case)));
            }
            told
        }

        fn sent_to(&self, host: usize) -> Vec<String> {
            let sent = self.sent.borrow();
            sent.iter().filter(|(to, _)| *to == host).map(|(_, text)| text.clone()).collect()
        }
    }

    fn said(host: usize, message: ToCoordinator) -> Wait {
        Wait::Event(host, Event::Message(message))
    }

    fn finished(host: usize, case: CaseId) -> Wait {
        let side = SideResult { working_set_bytes: 64, ..SideResult::default() };
        said(host, ToCoordinator::Done { case, side: Box::new(side) })
    }

    fn failed(host: usize, case: CaseId, kind: FailureKind) -> Wait {
        let failure = Failure::new(kind, "measure", "case", format!("{kind:?} at {host}"));
        let side = Box::new(SideResult::default());
        said(host, ToCoordinator::Failed { case, stage: "measure".into(), failure, side })
    }

    fn gone(host: usize) -> Wait {
        let (name, stage, cause) = (format!("host{host}"), "measure".into(), "it ended".into());
        Wait::Event(host, Event::Lost(HostFailure { host: name, stage, cause }))
    }

    /// Prepares without a way.
    struct Bare;

    impl Preparer for Bare {
        fn prepare(&mut self, id: CaseId, case: &Case, _: usize, role: Role) -> Prepare {
            Prepare {
                case: id,
                name: case.id.clone(),
                role,
                test: case.test,
                transport: case.transport,
                op: case.op,
                size_bytes: case.size_bytes,
                sends: true,
                receives: true,
                knobs: case.knobs.clone(),
                port: None,
                addresses: Vec::new(),
                bind: Vec::new(),
                token: format!("{role:?}"),
            }
        }
    }

    fn case(direction: Direction) -> Case {
        let knobs = Knobs {
            qps: 1,
            threads: 1,
            tx_depth: 1,
            rx_depth: 1,
            inline: None,
            signal_every: 1,
            warmup_ns: 0,
            window_ns: 1,
            interval_ns: 1,
            repeats: 2,
            rounds: None,
            volume_bytes: 0,
            tuning: Default::default(),
        };
        let (id, test, transport) = ("c".into(), Test::Bandwidth, Transport::Tcp);
        Case {
            id,
            test,
            transport,
            op: Op::Stream,
            size_bytes: 8,
            direction,
            rail: None,
            loopback: None,
            retest_of: None,
            knobs,
        }
    }

    /// Runs cases in these directions, numbered from 1.
    fn ends(fake: &Fake, directions: &[Direction]) -> Vec<CaseEnd> {
        let cases = directions.iter().map(|&direction| case(direction)).collect();
        let group = Group { title: "group".into(), cases };
        run(fake, &group, 1, &mut Bare, &mut |_, _| ())
    }

    fn kind(end: &CaseEnd) -> Option<(usize, FailureKind)> {
        end.trouble.as_ref().map(|trouble| (trouble.host, trouble.failure.kind))
    }

    #[test]
    fn every_repeat_of_all_cases_is_let_go_at_once() {
        let fake = Fake::default();
        let ends = ends(&fake, &[Direction::AToB, Direction::Both, Direction::BToA]);
        assert!(ends.iter().all(|end| end.trouble.is_none()));
        assert!(ends.iter().all(|end| end.sides.iter().all(|s| s.working_set_bytes == 64)));
        let go = |host| -> Vec<String> {
            fake.sent_to(host).into_iter().filter(|text| text.starts_with("go")).collect()
        };
        assert_eq!(go(0), ["go [1, 2]", "go [1, 2]"]);
        assert_eq!(go(1), ["go [3]", "go [3]"]);
    }

    #[test]
    fn the_initiator_follows_when_the_responder_listens_and_gets_its_token() {
        let fake = Fake {
            fault: Some(|_, message| match message {
                ToAgent::Prepare(p) => {
                    assert_eq!(p.token, "Responder");
                    None
                }
                _ => None,
            }),
            ..Fake::default()
        };
        ends(&fake, &[Direction::BToA]);
        let sent = fake.sent.borrow();
        let first: Vec<_> = sent.iter().take(2).map(|(host, text)| (*host, &**text)).collect();
        assert_eq!(first, [(0, "prepare 1 Responder"), (1, "prepare 1 Initiator")]);
    }

    /// Wants to look once, and keeps what it is told.
    #[derive(Default)]
    struct Curious {
        looked: bool,
        told: Vec<(usize, usize, String, u64)>,
    }

    impl Onlooker for Curious {
        fn between(&mut self, _: u32, _: u32) {}

        fn wants_look(&mut self) -> bool {
            !std::mem::replace(&mut self.looked, true)
        }

        fn tick(&mut self, index: usize, host: usize, stage: &str, moved: u64) {
            self.told.push((index, host, stage.into(), moved));
        }
    }

    #[test]
    fn who_looks_is_told_by_the_host_where_messages_arrive() {
        let fake = Fake {
            fault: Some(|host, message| match message {
                ToAgent::Look => {
                    let (stage, moved) = ("measure".into(), 7);
                    Some(vec![said(host, ToCoordinator::Tick { case: 1, stage, moved })])
                }
                _ => None,
            }),
            ..Fake::default()
        };
        let group = Group { title: "group".into(), cases: vec![case(Direction::AToB)] };
        let mut curious = Curious::default();
        // Bare's ends say that both receive: both directions are counted where they arrive.
        run(&fake, &group, 1, &mut Bare, &mut curious);
        let hosts: Vec<usize> = curious.told.iter().map(|told| told.1).collect();
        assert_eq!(hosts, [0, 1]);
        assert_eq!(curious.told[0], (0, 0, "measure".into(), 7));
    }

    #[test]
    fn a_case_that_cannot_start_does_not_hold_the_others() {
        let fake = Fake {
            fault: Some(|host, message| match message {
                ToAgent::Prepare(p) if p.case == 2 => {
                    Some(vec![failed(host, 2, FailureKind::Refused)])
                }
                _ => None,
            }),
            ..Fake::default()
        };
        let ends = ends(&fake, &[Direction::AToB, Direction::AToB]);
        assert_eq!(kind(&ends[0]), None);
        assert_eq!(kind(&ends[1]), Some((1, FailureKind::Refused)));
    }

    #[test]
    fn the_cause_is_told_and_not_its_echo() {
        let echo_first: Fault = |host, message| match message {
            ToAgent::Go(_) => Some(vec![
                failed(host, 1, FailureKind::PeerLost),
                failed(1 - host, 1, FailureKind::Stalled),
            ]),
            ToAgent::Stop(_) => Some(Vec::new()),
            _ => None,
        };
        let cause_first: Fault = |host, message| match message {
            ToAgent::Go(_) => Some(vec![
                failed(1 - host, 1, FailureKind::Stalled),
                failed(host, 1, FailureKind::PeerLost),
            ]),
            ToAgent::Stop(_) => Some(Vec::new()),
            _ => None,
        };
        for fault in [echo_first, cause_first] {
            let fake = Fake { fault: Some(fault), ..Fake::default() };
            assert_eq!(kind(&ends(&fake, &[Direction::AToB])[0]), Some((1, FailureKind::Stalled)));
        }
    }

    #[test]
    fn an_agent_that_is_gone_explains_everything_else() {
        let fake = Fake {
            fault: Some(|host, message| match message {
                ToAgent::Go(_) => Some(vec![failed(host, 1, FailureKind::Stalled), gone(1 - host)]),
                ToAgent::Stop(_) if host == 0 => Some(Vec::new()),
                _ => None,
            }),
            ..Fake::default()
        };
        let ends = ends(&fake, &[Direction::AToB]);
        let trouble = ends[0].trouble.as_ref().unwrap();
        assert_eq!((trouble.host, &*trouble.failure.object), (1, "host1"));
        assert_eq!(trouble.failure.cause, "it ended");
    }

    #[test]
    fn the_other_end_of_a_lost_agent_is_stopped_and_heard() {
        let fake = Fake {
            fault: Some(|host, message| match message {
                ToAgent::Go(_) => Some(vec![gone(1 - host)]),
                ToAgent::Stop(case) => Some(vec![finished(host, *case)]),
                _ => None,
            }),
            ..Fake::default()
        };
        let ends = ends(&fake, &[Direction::AToB]);
        assert!(fake.sent_to(0).contains(&"stop 1".to_owned()));
        let sets = ends[0].sides.each_ref().map(|side| side.working_set_bytes);
        assert_eq!(sets, [64, 0], "what the other measured is kept");
    }

    #[test]
    fn an_interrupt_stops_both_ends_of_every_case() {
        let fake = Fake {
            fault: Some(|_, message| match message {
                ToAgent::Go(_) => Some(vec![Wait::Interrupted]),
                _ => None,
            }),
            ..Fake::default()
        };
        let ends = ends(&fake, &[Direction::AToB, Direction::AToB]);
        for host in 0..2 {
            let sent = fake.sent_to(host);
            assert!(["stop 1", "stop 2"].iter().all(|stop| sent.iter().any(|s| s == stop)));
        }
        assert!(ends.iter().all(|end| kind(end) == Some((0, FailureKind::Stopped))));
    }

    #[test]
    fn a_case_past_its_deadline_is_stopped_first_and_given_up_then() {
        let fake = Fake { fault: Some(|_, _| Some(Vec::new())), ..Fake::default() };
        let mut live = vec![start(&fake, &case(Direction::AToB), 1, &mut Bare)];
        live[0].deadline = Instant::now();
        time_out(&fake, &mut live);
        assert!(!live[0].over(), "the agents may still hand in what they have");
        assert!((0..2).all(|host| fake.sent_to(host).contains(&"stop 1".to_owned())));
        live[0].deadline = Instant::now();
        time_out(&fake, &mut live);
        assert!(live[0].over());
        let end = live.remove(0).end();
        assert_eq!(kind(&end), Some((0, FailureKind::Stalled)));
        assert!(end.trouble.unwrap().failure.cause.contains("did not end it in time"));
    }
}
