//! Leads all ranks of a collective: listening, connected, started together, collected.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::commands::run::group::Agents;
use crate::engine::collective::Row;
use crate::session::protocol::{CaseId, RankPart, SideResult, ToAgent, ToCoordinator};
use crate::session::{Event, HostFailure, Wait};
use crate::transport::{Failure, FailureKind};

/// How long ranks may take until all are connected.
const CONNECT: Duration = Duration::from_secs(60);

/// How long there may be no sign of any rank's work: theirs is the shorter watchdog.
const SILENCE: Duration = Duration::from_secs(600);

/// How long ranks may take for their last words once one has failed.
const LAST_WORDS: Duration = Duration::from_secs(4);

/// One rank and who plays it.
#[derive(Debug, Clone)]
pub struct Place {
    /// Index of the host.
    pub host: usize,
    /// Its part.
    pub part: RankPart,
}

/// How it ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Rows of each rank, in the order measured.
    pub rows: Vec<Vec<Row>>,
    /// What else each rank measured.
    pub sides: Vec<SideResult>,
    /// Why it did not end well.
    pub trouble: Option<Trouble>,
}

/// Why it did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Host that told of it, or that is gone.
    host: usize,
    stage: String,
    failure: Failure,
    /// The agent itself is gone.
    agent_lost: bool,
    /// Ranks of the agent that is gone.
    ranks: Vec<usize>,
    /// Where another rank was then.
    seen: Option<String>,
}

impl Trouble {
    /// The agent itself is gone.
    pub fn agent_lost(&self) -> bool {
        self.agent_lost
    }

    /// In a sentence: which rank on which host, what went wrong, where the others were.
    pub fn sentence(&self, names: &[&str]) -> String {
        let (host, stage) = (names[self.host], &self.stage);
        let seen = self.seen.as_ref().map(|seen| format!("; {seen}")).unwrap_or_default();
        if !self.agent_lost {
            return format!("{host}: stage {stage}: {}{seen}", self.failure);
        }
        let ranks: Vec<String> = self.ranks.iter().map(ToString::to_string).collect();
        let ranks = match ranks.len() {
            1 => format!("rank {}", ranks[0]),
            _ => format!("ranks {}", ranks.join(", ")),
        };
        format!("{host} ({ranks}): stage {stage}: {}{seen}", self.failure.cause)
    }
}

/// Runs all ranks to their end. `now` hears what is being measured.
pub fn drive(agents: &dyn Agents, crew: &[Place], now: &mut dyn FnMut(&str)) -> Ended {
    let ranks = crew.len();
    let mut live = Live {
        agents,
        crew,
        addresses: vec![None; ranks],
        ready: vec![false; ranks],
        rows: vec![Vec::new(); ranks],
        sides: vec![None; ranks],
        trouble: None,
        words: Vec::new(),
        deadline: Instant::now() + CONNECT,
        interrupted: false,
    };
    for place in crew {
        live.tell(place.host, ToAgent::Rank(Box::new(place.part.clone())));
    }
    while live.sides.iter().any(Option::is_none) {
        live.step(now);
    }
    live.end()
}

/// Ranks under way.
struct Live<'a> {
    agents: &'a dyn Agents,
    crew: &'a [Place],
    addresses: Vec<Option<Vec<SocketAddr>>>,
    ready: Vec<bool>,
    rows: Vec<Vec<Row>>,
    sides: Vec<Option<SideResult>>,
    trouble: Option<Trouble>,
    /// Where ranks were when they were stopped.
    words: Vec<String>,
    deadline: Instant,
    interrupted: bool,
}

impl Live<'_> {
    /// Waits for one event and takes it in.
    fn step(&mut self, now: &mut dyn FnMut(&str)) {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let wait = match self.interrupted {
            true => self.agents.wait_on(left),
            false => self.agents.wait(left),
        };
        match wait {
            Wait::Event(host, Event::Message(message)) => self.hear(host, message, now),
            Wait::Event(host, Event::Lost(failure)) => self.lose(host, &failure),
            Wait::Interrupted => {
                self.interrupted = true;
                let cause = "interrupted";
                let failure = Failure::new(FailureKind::Stopped, "run", "this run", cause);
                self.fail(self.crew[0].host, "collective", failure, false);
            }
            Wait::TimedOut => self.time_out(),
        }
    }

    fn hear(&mut self, host: usize, message: ToCoordinator, now: &mut dyn FnMut(&str)) {
        match message {
            ToCoordinator::Listening { case, addresses } => {
                let Some(rank) = self.rank(case) else { return };
                self.addresses[rank] = Some(addresses);
                self.introduce();
            }
            ToCoordinator::Ready { case } => {
                let Some(rank) = self.rank(case) else { return };
                self.ready[rank] = true;
                self.start();
            }
            ToCoordinator::Row { case, row } => {
                let Some(rank) = self.rank(case) else { return };
                if rank == 0 {
                    now(&format!("{} B done", row.size_bytes));
                }
                self.rows[rank].push(*row);
                self.put_off(SILENCE);
            }
            ToCoordinator::Done { case, side } => {
                let Some(rank) = self.rank(case) else { return };
                self.sides[rank] = Some(*side);
            }
            ToCoordinator::Failed { case, stage, failure, side } => {
                let Some(rank) = self.rank(case) else { return };
                self.sides[rank] = Some(*side);
                self.words.push(format!("{} was then at {}", self.crew[rank].part.name, {
                    let object = &failure.object;
                    object.split_once(", ").map_or(stage.as_str(), |(_, step)| step)
                }));
                self.fail(host, &stage, failure, false);
            }
            _ => {}
        }
    }

    fn rank(&self, case: CaseId) -> Option<usize> {
        let first = self.crew.first()?.part.case;
        let rank = case.checked_sub(first)? as usize;
        (rank < self.crew.len()).then_some(rank)
    }

    /// Once all listen, all are told where.
    fn introduce(&mut self) {
        let all: Option<Vec<Vec<SocketAddr>>> = self.addresses.iter().cloned().collect();
        let Some(all) = all else { return };
        for place in self.crew {
            let addresses = all.clone();
            self.tell(place.host, ToAgent::Ranks { case: place.part.case, addresses });
        }
    }

    /// Once all are connected, all may go.
    fn start(&mut self) {
        if !self.ready.iter().all(|ready| *ready) || self.trouble.is_some() {
            return;
        }
        self.put_off(SILENCE);
        let mut hosts: Vec<usize> = self.crew.iter().map(|place| place.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts {
            let here = self.crew.iter().filter(|place| place.host == host);
            let cases = here.map(|place| place.part.case).collect();
            self.tell(host, ToAgent::Go(cases));
        }
    }

    /// More time, unless the end has begun.
    fn put_off(&mut self, time: Duration) {
        if self.trouble.is_none() {
            self.deadline = Instant::now() + time;
        }
    }

    /// Keeps what explains most, and stops everybody else.
    fn fail(&mut self, host: usize, stage: &str, failure: Failure, agent_lost: bool) {
        let first = self.trouble.is_none();
        let here = |(_, place): &(usize, &Place)| place.host == host;
        let ranks = self.crew.iter().enumerate().filter(here).map(|(rank, _)| rank).collect();
        let stage = stage.to_owned();
        let trouble = Trouble { host, stage, failure, agent_lost, ranks, seen: None };
        match &self.trouble {
            Some(old) if weight(old) <= weight(&trouble) => {}
            _ => self.trouble = Some(trouble),
        }
        if !first {
            return;
        }
        self.deadline = Instant::now() + LAST_WORDS;
        for (rank, place) in self.crew.iter().enumerate() {
            if self.sides[rank].is_none() {
                self.tell(place.host, ToAgent::Stop(place.part.case));
            }
        }
    }

    /// An agent is gone, and its ranks with it.
    fn lose(&mut self, host: usize, failure: &HostFailure) {
        for (rank, place) in self.crew.iter().enumerate() {
            if place.host == host {
                self.sides[rank].get_or_insert_with(SideResult::default);
            }
        }
        let cause = failure.cause.clone();
        let cause = Failure::new(FailureKind::PeerLost, "agent", failure.host.clone(), cause);
        self.fail(host, &failure.stage, cause, true);
    }

    /// Nothing was heard for too long: first asks for an end, then takes it as one.
    fn time_out(&mut self) {
        if self.trouble.is_some() {
            for side in &mut self.sides {
                side.get_or_insert_with(SideResult::default);
            }
            return;
        }
        let missing = self.sides.iter().position(Option::is_none).unwrap_or(0);
        let place = &self.crew[missing];
        let cause = "it gave no result in time; look for a hanging device in its kernel log";
        let failure = Failure::new(FailureKind::Stalled, "run", place.part.name.clone(), cause);
        self.fail(place.host, "collective", failure, false);
    }

    /// An agent that cannot be told is lost, and that comes as an event with the reason.
    fn tell(&self, host: usize, message: ToAgent) {
        let _ = self.agents.send(host, &message);
    }

    fn end(self) -> Ended {
        let mut trouble = self.trouble;
        if let Some(trouble) = trouble.as_mut().filter(|trouble| trouble.agent_lost) {
            let names = |word: &&String| {
                trouble.ranks.iter().any(|rank| word.ends_with(&format!(" rank {rank}")))
            };
            let words = &self.words;
            trouble.seen = words.iter().find(names).or(words.first()).cloned();
        }
        let sides = self.sides.into_iter().map(Option::unwrap_or_default).collect();
        Ended { rows: self.rows, sides, trouble }
    }
}

/// A cause weighs less than its echo at another rank; the lightest is told.
fn weight(trouble: &Trouble) -> u8 {
    match trouble.failure.kind {
        _ if trouble.agent_lost => 0,
        FailureKind::Stopped => 4,
        FailureKind::PeerLost => 3,
        FailureKind::Stalled => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;
    use crate::engine::collective::{Algorithm, Collective, DataType, Reduction, Sweep};

    /// What a host answers to a message instead of what is usual.
    type Fault = fn(usize, &ToAgent) -> Option<Vec<Wait>>;

    /// Agents that do as they are told, unless a fault answers instead.
    #[derive(Default)]
    struct Fake {
        events: RefCell<VecDeque<Wait>>,
        sent: RefCell<Vec<(usize, String)>>,
        fault: Option<Fault>,
    }

    fn said(host: usize, message: ToCoordinator) -> Wait {
        Wait::Event(host, Event::Message(message))
    }

    fn failed(host: usize, case: CaseId, kind: FailureKind, object: &str) -> Wait {
        let failure = Failure::new(kind, "measure", object, "it is so");
        let (stage, side) = ("measure".into(), Box::default());
        said(host, ToCoordinator::Failed { case, stage, failure, side })
    }

    impl Agents for Fake {
        fn send(&self, host: usize, message: &ToAgent) -> Result<(), HostFailure> {
            let usual = || match message {
                ToAgent::Rank(part) => {
                    let addresses = vec![SocketAddr::from(([127, 0, 0, 1], part.case as u16))];
                    vec![said(host, ToCoordinator::Listening { case: part.case, addresses })]
                }
                ToAgent::Ranks { case, .. } => {
                    vec![said(host, ToCoordinator::Ready { case: *case })]
                }
                ToAgent::Go(cases) => cases
                    .iter()
                    .map(|&case| said(host, ToCoordinator::Done { case, side: Box::default() }))
                    .collect(),
                ToAgent::Stop(case) => {
                    let object = format!("rank {}, step 1 of 4, receiving from rank 1", case - 1);
                    vec![failed(host, *case, FailureKind::Stopped, &object)]
                }
                _ => Vec::new(),
            };
            let answers = self.fault.and_then(|fault| fault(host, message)).unwrap_or_else(usual);
            self.events.borrow_mut().extend(answers);
            let text = match message {
                ToAgent::Rank(part) => format!("rank {}", part.case),
                ToAgent::Ranks { case, addresses } => format!("ranks {case} {}", addresses.len()),
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

    /// Ranks 0 and 1 on the first host, rank 2 on the second.
    fn crew() -> Vec<Place> {
        let hosts = vec![0, 0, 1];
        let sweep = |rank| Sweep {
            collective: Collective::AllReduce,
            algorithms: vec![Algorithm::Ring],
            kind: DataType::F32,
            reduction: Reduction::Sum,
            hosts: hosts.clone(),
            rank,
            root: 0,
            sizes: vec![8],
            iterations: 1,
            warmups: 0,
            reduces: true,
            seed: 1,
        };
        let part = |rank: usize| RankPart {
            case: rank as u32 + 1,
            name: format!("rank {rank}"),
            sweep: sweep(rank),
            addresses: Vec::new(),
            bind: Vec::new(),
            token: String::new(),
            verbs: None,
        };
        (0..3).map(|rank| Place { host: hosts[rank], part: part(rank) }).collect()
    }

    fn run(fault: Option<Fault>) -> (Ended, Vec<String>) {
        let fake = Fake { fault, ..Fake::default() };
        let ended = drive(&fake, &crew(), &mut |_| ());
        let sent = fake.sent.into_inner().into_iter().map(|(host, text)| format!("{host}: {text}"));
        (ended, sent.collect())
    }

    #[test]
    fn all_are_introduced_when_all_listen_and_start_when_all_are_connected() {
        let (ended, sent) = run(None);
        assert!(ended.trouble.is_none());
        assert_eq!(
            sent,
            [
                "0: rank 1",
                "0: rank 2",
                "1: rank 3",
                "0: ranks 1 3",
                "0: ranks 2 3",
                "1: ranks 3 3",
                "0: Go([1, 2])",
                "1: Go([3])"
            ]
        );
    }

    #[test]
    fn a_lost_agent_is_named_with_its_rank_and_where_another_was() {
        let (ended, sent) = run(Some(|host, message| match message {
            ToAgent::Go(_) if host == 0 => Some(vec![
                failed(0, 1, FailureKind::PeerLost, "rank 0, step 2 of 4, receiving from rank 2"),
                Wait::Event(
                    1,
                    Event::Lost(HostFailure {
                        host: "b".into(),
                        stage: "collective".into(),
                        cause: "its agent ended".into(),
                    }),
                ),
            ]),
            ToAgent::Go(_) => Some(Vec::new()),
            _ => None,
        }));
        assert_eq!(
            ended.trouble.unwrap().sentence(&["a", "b"]),
            "b (rank 2): stage collective: its agent ended; \
             rank 0 was then at step 2 of 4, receiving from rank 2"
        );
        assert!(sent.contains(&"0: Stop(2)".to_owned()), "{sent:?}");
    }

    #[test]
    fn a_rank_that_cannot_listen_stops_the_others() {
        let (ended, sent) = run(Some(|host, message| match message {
            ToAgent::Rank(part) if part.case == 2 => {
                Some(vec![failed(host, 2, FailureKind::Missing, "peer link")])
            }
            _ => None,
        }));
        assert_eq!(
            ended.trouble.unwrap().sentence(&["a", "b"]),
            "a: stage measure: peer link: measure: it is so"
        );
        assert!(sent.contains(&"0: Stop(1)".into()) && sent.contains(&"1: Stop(3)".into()));
    }

    #[test]
    fn an_interrupt_stops_everybody() {
        let (ended, sent) = run(Some(|_, message| match message {
            ToAgent::Go(_) => Some(vec![Wait::Interrupted]),
            _ => None,
        }));
        let sentence = ended.trouble.unwrap().sentence(&["a", "b"]);
        assert!(sentence.contains("interrupted"), "{sentence}");
        assert_eq!(sent.iter().filter(|text| text.contains("Stop")).count(), 3);
    }
}
