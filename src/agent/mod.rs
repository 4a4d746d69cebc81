//! The node side: tells facts, runs cases, returns plain data.
//!
//! One thread reads what the coordinator says and never waits for anything else; facts and cases
//! have threads of their own. The process lives as long as its connection: when that closes, or is
//! silent for too long, everything ends.

pub mod case;
pub mod case_runner;
pub mod listen;
mod ranks;
pub mod stdio;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use case_runner::Gate;
pub use case_runner::{CaseContext, CaseRunner};

use crate::session::frame::{FrameError, FrameReader, FrameWriter, PREAMBLE};
use crate::session::outlet::{Outlet, beat};
use crate::session::protocol::{CaseId, PROTOCOL, SideResult, ToAgent, ToCoordinator};
use crate::session::{SILENCE, hello};
use crate::transport::{Failure, FailureKind};

/// How long the coordinator may take for its greeting.
const GREETING: Duration = Duration::from_secs(20);

/// How long cases may take to end once they were told to.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Why a session ended, from the agent's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The coordinator said goodbye.
    Bye,
    /// The connection was closed without a goodbye.
    Closed,
    /// Nothing was heard for this long.
    Silent(Duration),
    /// The coordinator's greeting, or what it said later, was not acceptable.
    Refused(String),
    /// The connection failed.
    Broken(String),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Bye => f.write_str("the coordinator said goodbye"),
            Ended::Closed => f.write_str("the coordinator closed the connection"),
            Ended::Silent(time) => {
                write!(f, "the coordinator was silent for {} s", time.as_secs_f64())
            }
            Ended::Refused(why) | Ended::Broken(why) => f.write_str(why),
        }
    }
}

/// Speaks with one coordinator until the session ends; all cases have ended afterwards, or were
/// given up after 1.5 s.
///
/// `session` is the name that the coordinator must give; empty for any.
pub fn serve(
    mut reader: FrameReader,
    mut writer: FrameWriter,
    session: &str,
    runner: Arc<dyn CaseRunner>,
) -> Ended {
    let silence = match greet(&mut reader, &mut writer, session) {
        Ok(silence) => silence,
        Err(ended) => return ended,
    };
    let outlet = Arc::new(Outlet::new(writer));
    let heart = beat(outlet.clone(), ToCoordinator::Heartbeat);
    let mut cases = Cases { outlet, runner, running: BTreeMap::new(), facts: Vec::new() };
    let ended = listen_to(&mut reader, &mut cases, silence);
    cases.end();
    drop(heart);
    ended
}

/// The CPU for threads that only wait: the last that this process may use, so that measuring
/// threads get the others. None when there is only one.
pub fn control_cpu() -> Option<u32> {
    let cpus = crate::host::calls::allowed_cpus();
    if cpus.len() > 1 { cpus.last().copied() } else { None }
}

/// Exchanges greetings; returns the silence that the coordinator wants to be endured.
fn greet(
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    session: &str,
) -> Result<Duration, Ended> {
    let deadline = Instant::now() + GREETING;
    let spoken = writer
        .write_all(PREAMBLE, deadline)
        .and_then(|()| writer.send(&ToCoordinator::Hello(hello(session, SILENCE)), deadline));
    spoken.map_err(|error| ended_by(&error, GREETING))?;
    let theirs = match reader.next(deadline).map_err(|error| ended_by(&error, GREETING))? {
        ToAgent::Hello(hello) => hello,
        other => return Err(Ended::Refused(format!("a greeting was due, not {other:?}"))),
    };
    if theirs.protocol != PROTOCOL {
        return Err(Ended::Refused(format!(
            "the coordinator (fabbench {}) speaks protocol {}, this agent (fabbench {}) {PROTOCOL}",
            theirs.version,
            theirs.protocol,
            crate::VERSION
        )));
    }
    if !session.is_empty() && theirs.session != session {
        return Err(Ended::Refused("the coordinator belongs to another session".to_owned()));
    }
    Ok(match theirs.silence_ms {
        0 => SILENCE,
        ms => Duration::from_millis(ms),
    })
}

/// Reads messages until the session ends.
fn listen_to(reader: &mut FrameReader, cases: &mut Cases, silence: Duration) -> Ended {
    loop {
        let message = match reader.next(Instant::now() + silence) {
            Ok(message) => message,
            Err(error) => return ended_by(&error, silence),
        };
        match message {
            ToAgent::Heartbeat => {}
            ToAgent::Bye => return Ended::Bye,
            ToAgent::Facts => cases.tell_facts(),
            ToAgent::Prepare(prepare) => {
                let case = prepare.case;
                cases.start(case, move |runner, context| runner.run(*prepare, context));
            }
            ToAgent::Rank(part) => {
                let case = part.case;
                cases.start(case, move |runner, context| runner.run_rank(*part, context));
            }
            ToAgent::Ranks { case, addresses } => cases.introduce(case, addresses),
            ToAgent::Go(ids) => cases.go(&ids),
            ToAgent::Look => cases.look(),
            ToAgent::Stop(id) => cases.stop(id),
            ToAgent::Hello(_) => {
                return Ended::Refused("the coordinator greeted twice".to_owned());
            }
        }
    }
}

fn ended_by(error: &FrameError, silence: Duration) -> Ended {
    match error {
        FrameError::Closed | FrameError::Cut { .. } => Ended::Closed,
        FrameError::TimedOut | FrameError::Blocked => Ended::Silent(silence),
        other => Ended::Broken(format!("connection to the coordinator: {other}")),
    }
}

/// The cases of a session.
struct Cases {
    outlet: Arc<Outlet>,
    runner: Arc<dyn CaseRunner>,
    running: BTreeMap<CaseId, RunningCase>,
    facts: Vec<JoinHandle<()>>,
}

struct RunningCase {
    gate: Arc<Gate>,
    thread: JoinHandle<()>,
}

impl Cases {
    /// Gathers facts beside everything else: reading counters of some adapters takes a while.
    fn tell_facts(&mut self) {
        let outlet = self.outlet.clone();
        self.facts.retain(|thread| !thread.is_finished());
        self.facts.push(std::thread::spawn(move || {
            let facts = crate::host::facts(std::path::Path::new("/"));
            // When the coordinator is gone, the reading thread sees it as well.
            let _ = outlet.send(&ToCoordinator::Facts(Box::new(facts)));
        }));
    }

    fn start(
        &mut self,
        case: CaseId,
        run: impl FnOnce(&dyn CaseRunner, &CaseContext) + Send + 'static,
    ) {
        self.running.retain(|_, case| !case.thread.is_finished());
        let gate = Arc::new(Gate::default());
        let context = CaseContext::new(case, self.outlet.clone(), gate.clone());
        if self.running.contains_key(&case) {
            conclude(&context, "a case of this number is under way");
            return;
        }
        let runner = self.runner.clone();
        let thread = std::thread::spawn(move || {
            let run = AssertUnwindSafe(|| run(&*runner, &context));
            if catch_unwind(run).is_err() {
                conclude(&context, "the agent panicked; its messages say more (-v)");
            } else if !context.is_concluded() {
                conclude(&context, "the case ended without a result");
            }
        });
        self.running.insert(case, RunningCase { gate, thread });
    }

    fn introduce(&self, case: CaseId, addresses: Vec<Vec<SocketAddr>>) {
        if let Some(case) = self.running.get(&case) {
            let mut ranks = case.gate.ranks.lock().unwrap_or_else(PoisonError::into_inner);
            *ranks = Some(addresses);
        }
    }

    fn go(&self, ids: &[CaseId]) {
        for case in ids.iter().filter_map(|id| self.running.get(id)) {
            case.gate.open();
        }
    }

    /// Tells how far each case is that has not ended.
    fn look(&self) {
        for (&case, running) in self.running.iter().filter(|(_, case)| !case.thread.is_finished()) {
            let (stage, moved) = (&running.gate.stage, running.gate.stage.moved());
            let stage = stage.get().word().to_owned();
            // When the coordinator is gone, the reading thread sees it as well.
            let _ = self.outlet.send(&ToCoordinator::Tick { case, stage, moved });
        }
    }

    fn stop(&self, id: CaseId) {
        if let Some(case) = self.running.get(&id) {
            case.gate.abort();
        }
    }

    /// Ends all cases, waiting for each no longer than there is time.
    fn end(self) {
        for case in self.running.values() {
            case.gate.abort();
        }
        let deadline = Instant::now() + LAST_WORDS;
        for thread in self.running.into_values().map(|case| case.thread).chain(self.facts) {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Concludes a case that cannot do so itself.
fn conclude(context: &CaseContext, why: &str) {
    let object = format!("case {}", context.case());
    context.emit(&ToCoordinator::Failed {
        case: context.case(),
        stage: "prepare".to_owned(),
        failure: Failure::new(FailureKind::Internal, "run", object, why),
        side: Box::new(SideResult::default()),
    });
}

#[cfg(test)]
mod tests;
