//! The coordinator's side of a session: agents on N hosts, their messages, their end.

use std::net::Shutdown;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabbench_harness::snapshot::HostFacts;

use super::frame::{FrameError, FrameReader};
use super::host_spec::{HostSpec, Way};
use super::launch::{Connection, Launch, Link, Messages, connect, kill_remote};
use super::outlet::{Outlet, beat};
use super::protocol::{CaseId, Hello, Prepare, ToAgent, ToCoordinator};
use super::token::random;
use super::{HostFailure, Interrupt};

/// How often a wait looks whether the user wants an end.
const SLICE: Duration = Duration::from_millis(50);

/// How long agents may take to end once they were told goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// How long facts may take.
const FACTS: Duration = Duration::from_secs(60);

/// Something that happened on a host.
#[derive(Debug)]
pub enum Event {
    /// Its agent said this; never a greeting or a heartbeat.
    Message(ToCoordinator),
    /// Its agent is gone, with the stage in which it went. Comes once and last.
    Lost(HostFailure),
}

/// How a wait ended.
#[derive(Debug)]
pub enum Wait {
    /// On the host of this index.
    Event(usize, Event),
    /// Nothing happened in time.
    TimedOut,
    /// The user wants an end.
    Interrupted,
}

/// Agents on hosts, from their start to their end. Dropping it ends them all.
pub struct Session {
    id: String,
    launch: Launch,
    interrupt: Interrupt,
    agents: Vec<Agent>,
    events: Receiver<(usize, Event)>,
    /// For agents to come; it also keeps the channel open when all are lost.
    sender: Sender<(usize, Event)>,
    stage: Arc<Mutex<String>>,
}

struct Agent {
    host: HostSpec,
    hello: Hello,
    outlet: Arc<Outlet>,
    link: Arc<Mutex<Link>>,
    loss: Arc<Mutex<Option<Loss>>>,
    /// Heartbeats go on until it is dropped.
    heart: Option<Sender<()>>,
}

/// How an agent was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Its connection was closed.
    Closed,
    /// It went silent, or spoke nonsense: it may still be there.
    Silent,
}

impl Session {
    /// Starts agents on all `hosts` at the same time; when one cannot be started, all are ended.
    ///
    /// # Errors
    /// One failure for each host that could not be reached.
    pub fn start(
        hosts: &[HostSpec],
        launch: &Launch,
        interrupt: &Interrupt,
    ) -> Result<Self, Vec<HostFailure>> {
        let (session, failures) = Session::start_available(hosts, launch, interrupt)?;
        if failures.is_empty() { Ok(session) } else { Err(failures) }
    }

    /// Starts agents on all `hosts` at the same time and goes on with those that could be started:
    /// their indices are those of [`Session::name`].
    ///
    /// # Errors
    /// When the system has no random bytes; a host that cannot be reached is in the second part.
    pub fn start_available(
        hosts: &[HostSpec],
        launch: &Launch,
        interrupt: &Interrupt,
    ) -> Result<(Self, Vec<HostFailure>), Vec<HostFailure>> {
        let id = random::<16>().map(hex::encode).map_err(|error| {
            let (host, stage) = ("this host".to_owned(), "connect".to_owned());
            vec![HostFailure { host, stage, cause: format!("random bytes: {error}") }]
        })?;
        let connections = connect_all(hosts, launch, &id, interrupt);
        let (sender, events) = channel();
        let mut session = Session {
            id,
            launch: launch.clone(),
            interrupt: interrupt.clone(),
            agents: Vec::new(),
            events,
            sender,
            stage: Arc::new(Mutex::new("prepare".to_owned())),
        };
        let mut failures = Vec::new();
        for (host, connection) in hosts.iter().zip(connections) {
            match connection {
                Ok(connection) => session.adopt(host, connection),
                Err(failure) => failures.push(failure),
            }
        }
        Ok((session, failures))
    }

    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// True without any host.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Random name of the session, on the command line of every agent.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name of the host of this index.
    pub fn name(&self, host: usize) -> &str {
        &self.agents[host].host.name
    }

    /// The host of this index as typed.
    pub fn host(&self, host: usize) -> &HostSpec {
        &self.agents[host].host
    }

    /// The greeting of the agent of this index.
    pub fn hello(&self, host: usize) -> &Hello {
        &self.agents[host].hello
    }

    /// Names what is being done, for the message about an agent that is lost meanwhile.
    pub fn set_stage(&self, stage: &str) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage.to_owned();
    }

    /// Facts of all hosts, asked for at the same time; one result a host.
    ///
    /// Messages of cases that arrive meanwhile are lost: call it when none is under way.
    pub fn facts(&mut self) -> Vec<Result<HostFacts, HostFailure>> {
        self.set_stage("facts");
        let mut answers: Vec<Option<Result<HostFacts, HostFailure>>> = Vec::new();
        for host in 0..self.len() {
            answers.push(self.send(host, &ToAgent::Facts).err().map(Err));
        }
        let deadline = Instant::now() + FACTS;
        while answers.iter().any(Option::is_none) {
            match self.wait(deadline.saturating_duration_since(Instant::now())) {
                Wait::Event(host, Event::Message(ToCoordinator::Facts(facts))) => {
                    answers[host] = Some(Ok(*facts));
                }
                Wait::Event(host, Event::Lost(failure)) => answers[host] = Some(Err(failure)),
                Wait::Event(..) => {}
                Wait::TimedOut | Wait::Interrupted => break,
            }
        }
        let missing = if self.interrupt.is_set() {
            "interrupted".to_owned()
        } else {
            format!("it did not tell about itself within {} s", FACTS.as_secs())
        };
        let filled = |(host, answer): (usize, Option<_>)| {
            answer.unwrap_or_else(|| Err(self.failure(host, &missing)))
        };
        answers.into_iter().enumerate().map(filled).collect()
    }

    /// Has a host build its end of a case.
    ///
    /// # Errors
    /// When its agent is gone.
    pub fn prepare(&self, host: usize, prepare: Prepare) -> Result<(), HostFailure> {
        self.send(host, &ToAgent::Prepare(Box::new(prepare)))
    }

    /// Has a host start these cases, together.
    ///
    /// # Errors
    /// When its agent is gone.
    pub fn go(&self, host: usize, cases: Vec<CaseId>) -> Result<(), HostFailure> {
        self.send(host, &ToAgent::Go(cases))
    }

    /// Has a host end a case.
    ///
    /// # Errors
    /// When its agent is gone.
    pub fn stop(&self, host: usize, case: CaseId) -> Result<(), HostFailure> {
        self.send(host, &ToAgent::Stop(case))
    }

    /// Sends a message to a host.
    ///
    /// # Errors
    /// When its agent is gone, or takes no message for 5 s.
    pub fn send(&self, host: usize, message: &ToAgent) -> Result<(), HostFailure> {
        let agent = &self.agents[host];
        agent.outlet.send(message).map_err(|error| {
            // Whoever writes may see an agent's end before whoever reads: it is told alike.
            let cause = match error {
                FrameError::Closed => {
                    closed(&mut agent.link.lock().unwrap_or_else(PoisonError::into_inner))
                }
                other => format!("message to its agent: {other}"),
            };
            self.failure(host, &cause)
        })
    }

    /// Waits for the next event, or until the user wants an end.
    pub fn wait(&self, patience: Duration) -> Wait {
        let deadline = Instant::now() + patience;
        loop {
            if self.interrupt.is_set() {
                return Wait::Interrupted;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wait_on(left.min(SLICE)) {
                Wait::TimedOut if !left.is_zero() => {}
                wait => return wait,
            }
        }
    }

    /// Waits for the next event even when the user wants an end: for the last words of cases.
    pub fn wait_on(&self, patience: Duration) -> Wait {
        match self.events.recv_timeout(patience) {
            Ok((host, event)) => Wait::Event(host, event),
            Err(_) => Wait::TimedOut,
        }
    }

    /// Whether the agent of a host is gone.
    pub fn is_lost(&self, host: usize) -> bool {
        self.agents[host].loss().is_some()
    }

    /// Ends all agents: says goodbye, waits up to 2 s, then kills what is left, on remote hosts
    /// over a connection of its own. Returns a sentence for each host where that failed.
    pub fn close(mut self) -> Vec<String> {
        self.end()
    }

    /// Takes an agent in and listens to it from now on.
    fn adopt(&mut self, host: &HostSpec, connection: Connection) {
        let outlet = Arc::new(Outlet::new(connection.writer));
        let agent = Agent {
            host: host.clone(),
            hello: connection.hello,
            heart: Some(beat(outlet.clone(), ToAgent::Heartbeat)),
            outlet,
            link: Arc::new(Mutex::new(connection.link)),
            loss: Arc::default(),
        };
        let watcher = Watcher {
            host: self.agents.len(),
            name: host.name.clone(),
            events: self.sender.clone(),
            stage: self.stage.clone(),
            silence: self.launch.silence,
            link: agent.link.clone(),
            loss: agent.loss.clone(),
        };
        let reader = connection.reader;
        std::thread::spawn(move || watcher.run(reader));
        self.agents.push(agent);
    }

    fn failure(&self, host: usize, cause: &str) -> HostFailure {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        HostFailure { host: self.name(host).to_owned(), stage, cause: cause.to_owned() }
    }

    fn end(&mut self) -> Vec<String> {
        let agents = std::mem::take(&mut self.agents);
        let (id, launch) = (self.id.as_str(), &self.launch);
        std::thread::scope(|scope| {
            let endings: Vec<_> = agents
                .into_iter()
                .map(|agent| scope.spawn(move || agent.end(launch, id)))
                .collect();
            endings.into_iter().filter_map(|ending| ending.join().ok().flatten()).collect()
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for warning in self.end() {
            (self.launch.notice)(&warning);
        }
    }
}

impl Agent {
    fn loss(&self) -> Option<Loss> {
        *self.loss.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says goodbye and sees to it that nothing is left; says so where that failed.
    fn end(mut self, launch: &Launch, session: &str) -> Option<String> {
        self.heart = None;
        // A lost agent cannot hear it.
        let told = self.loss().is_none() && self.outlet.send(&ToAgent::Bye).is_ok();
        // Whoever does not understand a goodbye understands the end of its input.
        self.outlet.close();
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let process = match &mut *link {
            Link::Socket(stream) => {
                // The agent serves on; the end of the connection ends its cases.
                let _ = stream.shutdown(if told { Shutdown::Write } else { Shutdown::Both });
                return None;
            }
            Link::Process(process) => process,
        };
        let patience =
            if told || self.loss() == Some(Loss::Closed) { GOODBYE } else { Duration::ZERO };
        let ended = process.wait(patience).is_some();
        process.kill();
        let Way::Ssh { destination } = &self.host.way else { return None };
        if ended && self.loss() != Some(Loss::Silent) {
            return None;
        }
        let killed = kill_remote(destination, launch, session, self.hello.pid);
        killed.err().map(|why| {
            format!(
                "{}: close: its agent, process {}, may still be there ({why}): end it by hand",
                self.host.name, self.hello.pid
            )
        })
    }
}

/// Reads what one agent says and passes it on as events.
struct Watcher {
    host: usize,
    name: String,
    events: Sender<(usize, Event)>,
    stage: Arc<Mutex<String>>,
    silence: Duration,
    link: Arc<Mutex<Link>>,
    loss: Arc<Mutex<Option<Loss>>>,
}

impl Watcher {
    /// Runs until the agent is gone.
    fn run(self, mut reader: FrameReader) {
        let error = pass_on(&mut reader, self.host, &self.events, self.silence);
        let (how, cause) = lost(&error, &self.link, self.silence);
        *self.loss.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = HostFailure { host: self.name, stage, cause };
        // Nobody listens after the session's end.
        let _ = self.events.send((self.host, Event::Lost(failure)));
    }
}

/// Passes messages on until the connection fails.
fn pass_on(
    reader: &mut FrameReader,
    index: usize,
    events: &Sender<(usize, Event)>,
    silence: Duration,
) -> FrameError {
    loop {
        match reader.next(Instant::now() + silence) {
            Ok(ToCoordinator::Heartbeat | ToCoordinator::Hello(_)) => {}
            Ok(message) => {
                if events.send((index, Event::Message(message))).is_err() {
                    return FrameError::Cancelled;
                }
            }
            Err(error) => return error,
        }
    }
}

/// How an agent went and why, in words; a connection to one that does not answer is ended.
fn lost(error: &FrameError, link: &Mutex<Link>, silence: Duration) -> (Loss, String) {
    let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(error, FrameError::Closed | FrameError::Cut { .. }) {
        return (Loss::Closed, closed(&mut link));
    }
    match &mut *link {
        Link::Process(process) => process.kill(),
        Link::Socket(stream) => {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    let cause = match error {
        FrameError::TimedOut => format!(
            "its agent was silent for {} s: the agent is stopped, or the host or the path to it \
             is gone: log in there and look",
            silence.as_secs_f64()
        ),
        other => format!("its agent cannot be understood: {other}"),
    };
    (Loss::Silent, cause)
}

fn closed(link: &mut Link) -> String {
    let mut text = "its agent ended, or the connection to it broke".to_owned();
    if let Link::Process(process) = link {
        if let Some(status) = process.wait(Duration::from_millis(300)) {
            text.push_str(&format!(" ({status})"));
        }
        process.messages.settle();
        if let Some(said) = Messages::last(&process.messages) {
            text.push_str(&format!("; it said last: {said}"));
        }
    }
    text + ": look there for a crash or for the out-of-memory killer (dmesg), and at the way to it"
}

fn connect_all(
    hosts: &[HostSpec],
    launch: &Launch,
    id: &str,
    interrupt: &Interrupt,
) -> Vec<Result<Connection, HostFailure>> {
    std::thread::scope(|scope| {
        let attempts: Vec<_> = hosts
            .iter()
            .map(|host| (host, scope.spawn(move || connect(host, launch, id, interrupt))))
            .collect();
        let panicked = |host: &HostSpec| HostFailure {
            host: host.name.clone(),
            stage: "connect".to_owned(),
            cause: "fabbench panicked: please report this".to_owned(),
        };
        attempts
            .into_iter()
            .map(|(host, attempt)| attempt.join().unwrap_or_else(|_| Err(panicked(host))))
            .collect()
    })
}
