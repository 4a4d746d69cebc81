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

/// Runs a group to its end. `between` is told after each repeat (repeats done, repeats in all).
pub fn run(
    session: &Session,
    group: &Group,
    first_id: CaseId,
    preparer: &mut dyn Preparer,
    between: &mut dyn FnMut(u32, u32),
) -> Vec<CaseEnd> {
    let mut live: Vec<Live> = group
        .cases
        .iter()
        .zip(first_id..)
        .map(|(case, id)| start(session, case, id, preparer))
        .collect();
    let mut stopping = false;
    while live.iter().any(|case| !case.over()) {
        let deadline = live.iter().filter(|c| !c.over()).map(|c| c.deadline).min();
        let left = deadline.map_or(Duration::ZERO, |d| d.saturating_duration_since(Instant::now()));
        // Once it is interrupted, what is left is to hear the agents' last words.
        match if stopping { session.wait_on(left) } else { session.wait(left) } {
            Wait::Event(host, Event::Message(message)) => handle(session, &mut live, host, message),
            Wait::Event(host, Event::Lost(failure)) => lose(session, &mut live, host, &failure),
            Wait::Interrupted => {
                stopping = true;
                stop_all(session, &mut live);
            }
            Wait::TimedOut => {}
        }
        time_out(session, &mut live);
        release(session, &mut live, between);
    }
    live.into_iter().map(Live::end).collect()
}

/// Prepares the responder; the initiator follows when the responder listens.
fn start(session: &Session, case: &Case, id: CaseId, preparer: &mut dyn Preparer) -> Live {
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
    live.tell(session, 1 - initiator, ToAgent::Prepare(Box::new(responder)));
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
fn handle(session: &Session, live: &mut [Live], host: usize, message: ToCoordinator) {
    let find = |live: &mut [Live], id: CaseId| live.iter().position(|c| c.id == id);
    match message {
        ToCoordinator::Listening { case, addresses } => {
            if let Some(i) = find(live, case) {
                live[i].prepared.addresses = addresses;
                let prepare = Box::new(live[i].prepared.clone());
                let initiator = live[i].initiator;
                live[i].tell(session, initiator, ToAgent::Prepare(prepare));
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
                live[i].tell(session, 1 - host, ToAgent::Stop(case));
            }
        }
        ToCoordinator::Hello(_) | ToCoordinator::Facts(_) | ToCoordinator::Heartbeat => {}
    }
}

/// Starts the next repeat of all cases once every one of them waits for it.
fn release(session: &Session, live: &mut [Live], between: &mut dyn FnMut(u32, u32)) {
    let mut waiting = live.iter().filter(|c| c.running()).peekable();
    if waiting.peek().is_none() || !waiting.all(Live::waits) {
        return;
    }
    if let Some(case) = live.iter().find(|c| c.running()) {
        between(case.done, case.repeats);
    }
    for host in 0..2 {
        let ids: Vec<CaseId> =
            live.iter().filter(|c| c.running() && c.initiator == host).map(|c| c.id).collect();
        if ids.is_empty() {
            continue;
        }
        if let Err(failure) = session.send(host, &ToAgent::Go(ids)) {
            lose(session, live, host, &failure);
        }
    }
    for case in live.iter_mut().filter(|c| c.running()) {
        case.released += 1;
    }
}

/// An agent is gone: its side of every case is over; the other is told to stop, and may still hand
/// in what it has.
fn lose(session: &Session, live: &mut [Live], host: usize, failure: &HostFailure) {
    for case in live.iter_mut().filter(|c| !c.over()) {
        case.fail(lost(host, failure));
        case.sides[host].get_or_insert_with(SideResult::default);
        case.deadline = Instant::now() + Duration::from_secs(3);
        let stop = ToAgent::Stop(case.id);
        case.tell(session, 1 - host, stop);
    }
}

/// The trouble of a host that is gone.
fn lost(host: usize, failure: &HostFailure) -> Trouble {
    let cause = failure.cause.clone();
    let failure = Failure::new(FailureKind::PeerLost, "agent", failure.host.clone(), cause);
    Trouble { host, stage: "session".into(), failure, agent_lost: true }
}

/// Asks both agents to end every case; their answers or the deadline end the group.
fn stop_all(session: &Session, live: &mut [Live]) {
    for case in live.iter_mut().filter(|c| !c.over()) {
        let failure = Failure::new(FailureKind::Stopped, "run", "this run", "interrupted");
        case.fail(Trouble::of(case.initiator, "measure", failure));
        case.deadline = Instant::now() + Duration::from_secs(2);
        for host in 0..2 {
            let stop = ToAgent::Stop(case.id);
            case.tell(session, host, stop);
        }
    }
}

/// Gives up on what is past its deadline: first asks to stop, then takes it as over.
fn time_out(session: &Session, live: &mut [Live]) {
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
            case.tell(session, host, stop);
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
    fn tell(&mut self, session: &Session, host: usize, message: ToAgent) {
        if let Err(failure) = session.send(host, &message) {
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
