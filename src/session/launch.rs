//! Starts an agent on a host, or reaches one, up to the exchange of greetings.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::elf::{needed_glibc, parse_version};
use super::frame::{CONTROL_LIMIT, FrameError, FrameReader, FrameWriter, PREAMBLE, quote};
use super::host_spec::{HostSpec, Way};
use super::join::Guests;
use super::protocol::{Hello, PROTOCOL, ToAgent, ToCoordinator};
use super::token::{Purpose, Token, TokenError, prove};
use super::{HostFailure, Interrupt, SILENCE, hello, remote};
use crate::cli::LaunchArgs;

/// Lines of an agent's messages that are kept for errors.
const KEPT_LINES: usize = 20;

/// Bytes of one such line.
const LINE_LIMIT: usize = 1000;

/// Beginnings of lines that explain nothing, whatever happened after them.
const CHATTER: [&str; 2] = ["Warning: Permanently added", "note: run with `RUST_BACKTRACE"];

/// Where lines for the user go while a session is under way.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How agents are started, for all hosts of a session.
#[derive(Clone)]
pub struct Launch {
    /// ssh and its options.
    pub ssh: Vec<String>,
    /// Where the binary on remote hosts comes from.
    pub binary: Binary,
    /// What agents that were started by hand ask for.
    pub token: Option<Token>,
    /// This binary: run by local agents, copied by [`Binary::Push`].
    pub own: PathBuf,
    /// Takes warnings, and what agents write to standard error if `verbose`.
    pub notice: Notice,
    /// Hand on what agents write to standard error.
    pub verbose: bool,
    /// How long the start of an agent may take, login included.
    pub patience: Duration,
    /// How long a copy of the binary may take (`--push`).
    pub push_patience: Duration,
    /// Silence after which either side gives the other up.
    pub silence: Duration,
    /// Connections of hosts that have joined by themselves.
    pub guests: Guests,
}

/// Where the binary on remote hosts comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binary {
    /// PATH, ~/.cargo/bin, /usr/local/bin.
    Find,
    /// This path.
    Path(String),
    /// A copy of the running binary.
    Push,
}

impl Launch {
    /// As typed; `notice` takes lines for the user.
    ///
    /// # Errors
    /// Wrong usage, as a sentence: an ssh command that cannot be split into words, a path with
    /// characters that a shell would interpret, an unusable token file.
    pub fn from_args(args: &LaunchArgs, verbose: bool, notice: Notice) -> Result<Self, String> {
        let typed = args.ssh.as_deref().unwrap_or("ssh");
        let ssh = shell_words::split(typed).map_err(|error| format!("--ssh {typed:?}: {error}"))?;
        if ssh.is_empty() {
            return Err("--ssh: the command is empty".to_owned());
        }
        let binary = match &args.agent_path {
            _ if args.push => Binary::Push,
            Some(path) => {
                remote::check_path(path)?;
                Binary::Path(path.clone())
            }
            None => Binary::Find,
        };
        let token = args.token_file.as_deref().map(Token::from_file).transpose()?;
        Ok(Launch {
            ssh,
            binary,
            token,
            // Stays right when the file is replaced while this process runs.
            own: PathBuf::from("/proc/self/exe"),
            notice,
            verbose,
            patience: Duration::from_secs(30),
            push_patience: Duration::from_secs(180),
            silence: SILENCE,
            guests: Guests::default(),
        })
    }
}

/// A connection to an agent that has greeted.
#[derive(Debug)]
pub(crate) struct Connection {
    pub reader: FrameReader,
    pub writer: FrameWriter,
    pub hello: Hello,
    pub link: Link,
}

/// What carries a connection.
#[derive(Debug)]
pub(crate) enum Link {
    /// A child process: the agent itself, or ssh.
    Process(Process),
    /// A socket to an agent that was started by hand.
    Socket(TcpStream),
}

/// Starts the agent of `host` for `session` and exchanges greetings.
pub(crate) fn connect(
    host: &HostSpec,
    launch: &Launch,
    session: &str,
    interrupt: &Interrupt,
) -> Result<Connection, HostFailure> {
    let attempt = Attempt { host, launch, session, interrupt };
    let connected = match &host.way {
        Way::Local => attempt.local(),
        Way::Ssh { destination } => attempt.ssh(destination),
        Way::Tcp { host, port } => attempt.tcp(host, *port),
        Way::Joined { rank } => attempt.joined(*rank),
    };
    connected.map_err(|cause| HostFailure {
        host: host.name.clone(),
        stage: "connect".to_owned(),
        cause,
    })
}

/// Ends process `pid` of `session` on an ssh host, even a stopped one, over a connection of its own.
pub(crate) fn kill_remote(
    destination: &str,
    launch: &Launch,
    session: &str,
    pid: u32,
) -> Result<(), String> {
    let mut command = ssh_command(launch, destination, &remote::kill(session, pid));
    let mut process = Process::spawn(&mut command, launch, destination)?;
    process.close_input();
    match process.wait(Duration::from_secs(10)) {
        Some(status) if status.code() != Some(255) => Ok(()),
        Some(_) => Err(process.messages.last().unwrap_or_else(|| "ssh failed".to_owned())),
        None => {
            process.kill();
            Err("ssh did not answer".to_owned())
        }
    }
}

struct Attempt<'a> {
    host: &'a HostSpec,
    launch: &'a Launch,
    session: &'a str,
    interrupt: &'a Interrupt,
}

impl Attempt<'_> {
    fn local(&self) -> Result<Connection, String> {
        let mut command = Command::new(&self.launch.own);
        command.arg0("fabbench").args(["agent", "--stdio", "--session", self.session]);
        self.greet_process(self.spawn(&mut command)?)
    }

    fn ssh(&self, destination: &str) -> Result<Connection, String> {
        let script = match &self.launch.binary {
            Binary::Push => return self.push(destination),
            Binary::Path(path) => remote::at_path(self.session, path),
            Binary::Find => remote::find(self.session),
        };
        self.greet_process(self.spawn(&mut ssh_command(self.launch, destination, &script))?)
    }

    fn push(&self, destination: &str) -> Result<Connection, String> {
        let own = &self.launch.own;
        let binary = std::fs::read(own)
            .map_err(|error| format!("--push: read {}: {error}", own.display()))?;
        let script = remote::push(self.session, binary.len());
        let mut started = self.spawn(&mut ssh_command(self.launch, destination, &script))?;
        let deadline = Instant::now() + self.launch.patience;
        let reader = &mut started.reader;
        let offer =
            reader.skip_to(remote::PUSH_READY, deadline).and_then(|()| reader.line(200, deadline));
        let offer = match offer {
            Ok(offer) => offer,
            Err(error) => return Err(self.explain(&error, started)),
        };
        if let Err(why) = check_push(&offer, &binary) {
            started.dismiss();
            return Err(format!(
                "--push refused: {why}: install fabbench on that host and give its place with \
                 --agent-path"
            ));
        }
        let deadline = Instant::now() + self.launch.push_patience;
        match started.writer.write_all(&binary, deadline) {
            Ok(()) => self.greet_process(started),
            Err(error) => Err(self.explain(&error, started)),
        }
    }

    fn tcp(&self, name: &str, port: u16) -> Result<Connection, String> {
        let token = self.launch.token.as_ref().ok_or_else(|| {
            "an agent that was started by hand asks for a token: give --token-file FILE with the \
             same content as its own"
                .to_owned()
        })?;
        let deadline = Instant::now() + self.launch.patience;
        let stream = dial(name, port)?;
        let stream = prove(stream, token, Purpose::Control, deadline).map_err(explain_proof)?;
        let reader = stream.try_clone().and_then(|own| FrameReader::new(own, CONTROL_LIMIT));
        self.greet_socket(stream, reader.map_err(|error| error.to_string())?, deadline)
    }

    fn joined(&self, rank: u16) -> Result<Connection, String> {
        let mut guests = self.launch.guests.lock().unwrap_or_else(PoisonError::into_inner);
        let guest = guests.remove(&rank).ok_or("it has not joined: start all ranks again")?;
        drop(guests);
        self.greet_socket(guest.stream, guest.reader, Instant::now() + self.launch.patience)
    }

    fn greet_socket(
        &self,
        stream: TcpStream,
        mut reader: FrameReader,
        deadline: Instant,
    ) -> Result<Connection, String> {
        let writer = stream
            .set_nodelay(true)
            .and_then(|()| FrameWriter::new(stream.try_clone()?, CONTROL_LIMIT));
        let mut writer = writer.map_err(|error| error.to_string())?;
        reader.cancel_with(Some(self.interrupt.flag()));
        let hello = greet(&mut reader, deadline)
            .map_err(|error| error.to_string())
            .and_then(|hello| self.check(hello))?;
        self.confirm(&mut writer, deadline).map_err(|error| error.to_string())?;
        reader.cancel_with(None);
        Ok(Connection { reader, writer, hello, link: Link::Socket(stream) })
    }

    fn spawn(&self, command: &mut Command) -> Result<Started, String> {
        let mut process = Process::spawn(command, self.launch, &self.host.name)?;
        let pipes = process.pipes().map_err(|error| format!("pipe: {error}"))?;
        let (mut reader, writer) = pipes;
        reader.cancel_with(Some(self.interrupt.flag()));
        Ok(Started { reader, writer, process })
    }

    fn greet_process(&self, mut started: Started) -> Result<Connection, String> {
        let deadline = Instant::now() + self.launch.patience;
        let hello = match greet(&mut started.reader, deadline) {
            Ok(hello) => hello,
            Err(error) => return Err(self.explain(&error, started)),
        };
        let hello = match self.check(hello) {
            Ok(hello) => hello,
            Err(why) => {
                started.dismiss();
                return Err(why);
            }
        };
        if let Err(error) = self.confirm(&mut started.writer, deadline) {
            return Err(self.explain(&error, started));
        }
        let Started { mut reader, writer, process } = started;
        reader.cancel_with(None);
        Ok(Connection { reader, writer, hello, link: Link::Process(process) })
    }

    /// Sends the own greeting once the agent's is acceptable.
    fn confirm(&self, writer: &mut FrameWriter, deadline: Instant) -> Result<(), FrameError> {
        writer.send(&ToAgent::Hello(hello(self.session, self.launch.silence)), deadline)
    }

    /// Refuses another protocol, warns of another build.
    fn check(&self, theirs: Hello) -> Result<Hello, String> {
        if theirs.protocol != PROTOCOL {
            return Err(format!(
                "its fabbench {} speaks protocol {}, this fabbench {} speaks protocol {PROTOCOL}: \
                 install the same version on both, or copy this one with --push",
                theirs.version,
                theirs.protocol,
                crate::VERSION
            ));
        }
        if (theirs.version.as_str(), theirs.commit.as_str()) != (crate::VERSION, crate::COMMIT) {
            (self.launch.notice)(&format!(
                "{}: warning: its fabbench is another build, {} ({}), than this one, {} ({})",
                self.host.name,
                theirs.version,
                theirs.commit,
                crate::VERSION,
                crate::COMMIT
            ));
        }
        Ok(theirs)
    }

    /// Why no agent spoke, with the next step.
    fn explain(&self, error: &FrameError, started: Started) -> String {
        let (status, said) = started.dismiss();
        if matches!(error, FrameError::Cancelled) {
            return "interrupted".to_owned();
        }
        let ssh = matches!(self.host.way, Way::Ssh { .. });
        match status.and_then(|status| status.code()) {
            Some(255) if ssh => explain_ssh(said.as_deref(), error),
            Some(127) if ssh => format!(
                "fabbench is not there ({}): install it, give its place with --agent-path, or \
                 copy this one with --push",
                said.unwrap_or_else(|| error.to_string())
            ),
            _ => {
                let mut text = format!("its agent did not start: {error}");
                if let Some(status) = status {
                    text.push_str(&format!(" ({status})"));
                }
                if let Some(said) = said {
                    text.push_str(&format!("; it said: {said}"));
                }
                text + ": run it there by hand (`fabbench agent --stdio`) to see more"
            }
        }
    }
}

/// A process from which an agent is to speak.
struct Started {
    reader: FrameReader,
    writer: FrameWriter,
    process: Process,
}

impl Started {
    /// Closes its input and gives it a moment to clean up and end, then kills it; returns how it
    /// ended by itself and the last line that it wrote to standard error.
    fn dismiss(self) -> (Option<ExitStatus>, Option<String>) {
        let Started { reader, writer, mut process } = self;
        drop(writer);
        drop(reader);
        let status = process.wait(Duration::from_secs(1));
        process.kill();
        process.messages.settle();
        (status, process.messages.last())
    }
}

/// Reads the agent's greeting after its preamble.
fn greet(reader: &mut FrameReader, deadline: Instant) -> Result<Hello, FrameError> {
    reader.skip_to(PREAMBLE, deadline)?;
    match reader.next(deadline)? {
        ToCoordinator::Hello(hello) => Ok(hello),
        other => {
            let text = format!("a greeting was due, not {other:?}");
            Err(FrameError::Io(io::Error::other(text)))
        }
    }
}

/// Whether the host that made this offer can run `binary`.
fn check_push(offer: &str, binary: &[u8]) -> Result<(), String> {
    let mut words = offer.splitn(3, ' ');
    let (arch, exec) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let libc = words.next().unwrap_or_default().trim();
    let ours = std::env::consts::ARCH;
    if arch != ours {
        return Err(format!("the host is {arch}, this binary is for {ours}"));
    }
    if exec != "exec" {
        return Err("its temporary directory does not allow execution (noexec)".to_owned());
    }
    let needed = needed_glibc(binary).map_err(|error| format!("the running binary: {error}"))?;
    let Some((major, minor)) = needed else { return Ok(()) };
    match parse_version(libc) {
        Some(there) if there >= (major, minor) => Ok(()),
        Some((a, b)) => {
            Err(format!("the host has glibc {a}.{b}, this binary needs {major}.{minor} or newer"))
        }
        None => Err(format!(
            "the host has no glibc, or no getconf to ask; this binary needs {major}.{minor} or newer"
        )),
    }
}

fn dial(name: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = (name, port)
        .to_socket_addrs()
        .map_err(|error| format!("{name}: {error}: check the spelling, or give an address"))?;
    let mut last = "it has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(format!(
        "{last}: start an agent there (`fabbench agent --listen ADDR:{port} --token-file FILE`)"
    ))
}

fn explain_proof(error: TokenError) -> String {
    match error {
        TokenError::WrongToken => "the agent does not admit this token: both ends need a token \
                                   file with the same content"
            .to_owned(),
        TokenError::Busy => {
            "its agent is busy with another session: wait until that has ended".to_owned()
        }
        other => format!("what listens there is no fabbench agent, or is not well: {other}"),
    }
}

/// ssh's own words and what to do.
fn explain_ssh(said: Option<&str>, error: &FrameError) -> String {
    let Some(said) = said else { return format!("ssh failed: {error}: try `ssh HOST true`") };
    let said = said.trim_end_matches('.');
    let lower = said.to_lowercase();
    let steps = [
        ("could not resolve", "check the spelling, /etc/hosts and ~/.ssh/config"),
        ("connection refused", "is sshd running there, on the port that ~/.ssh/config names?"),
        ("permission denied", "log in with a key and without a password, e.g. by ssh-copy-id"),
        ("host key verification", "log in once by hand with ssh and check the host key"),
        ("timed out", "is the host up, and is this the right network?"),
        ("no route to host", "is the host up, and is this the right network?"),
        ("network is unreachable", "is this the right network?"),
    ];
    let step = steps.iter().find(|(words, _)| lower.contains(words)).map(|(_, step)| *step);
    format!("{said}: {}", step.unwrap_or("try the same login by hand with ssh"))
}

fn ssh_command(launch: &Launch, destination: &str, script: &str) -> Command {
    let mut command = Command::new(&launch.ssh[0]);
    command.args(&launch.ssh[1..]);
    // -T -x: neither terminal nor X11. ControlMaster=no: a shared connection is used where one
    // exists, but ours must not become one, which would outlive this session.
    command.args(["-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ControlMaster=no", "--", destination, script]);
    command
}

/// A child process with its messages; killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
    pub messages: Messages,
}

impl Process {
    /// Starts `command` in a process group of its own, so that Ctrl-C reaches only this process,
    /// which then ends the agents in good order.
    fn spawn(command: &mut Command, launch: &Launch, host: &str) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy();
            format!("start {program}: {error}: install it, or name another with --ssh")
        })?;
        let notice = launch.verbose.then(|| launch.notice.clone());
        let messages = match child.stderr.take() {
            Some(stderr) => Messages::follow(stderr, host.to_owned(), notice),
            None => Messages::default(),
        };
        Ok(Process { child, status: None, messages })
    }

    fn pipes(&mut self) -> io::Result<(FrameReader, FrameWriter)> {
        let missing = || io::Error::other("taken already");
        let output = self.child.stdout.take().ok_or_else(missing)?;
        let input = self.child.stdin.take().ok_or_else(missing)?;
        let reader = FrameReader::new(output, CONTROL_LIMIT)?;
        Ok((reader, FrameWriter::new(input, CONTROL_LIMIT)?))
    }

    fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// Its exit status, waiting up to `patience`; none while it runs.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        while self.status.is_none() {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(None) => break,
                Ok(Some(status)) => self.status = Some(status),
                // There is no such child any more.
                Err(_) => self.status = Some(ExitStatus::from_raw(0)),
            }
        }
        self.status
    }

    /// Ends it at once with all of its process group, even when it is stopped.
    pub fn kill(&mut self) {
        if self.wait(Duration::ZERO).is_some() {
            return;
        }
        // Not reaped yet, so the number is still its own. The group holds what a wrapper script
        // given as --ssh has started.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        self.wait(Duration::from_secs(2));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines that a process wrote to standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    lines: Arc<Mutex<VecDeque<String>>>,
    ended: Arc<AtomicBool>,
}

impl Messages {
    /// Reads `stderr` in a thread until it ends; hands each line to `notice`.
    fn follow(stderr: impl Read + Send + 'static, host: String, notice: Option<Notice>) -> Self {
        let messages = Messages::default();
        let kept = messages.clone();
        std::thread::spawn(move || {
            kept.read(stderr, &host, notice.as_ref());
            kept.ended.store(true, Ordering::Release);
        });
        messages
    }

    /// The last line that is not empty.
    pub fn last(&self) -> Option<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }

    /// Waits a moment for the rest of the lines of a process that has ended. Not for long: another
    /// process (a shared ssh connection) may hold the pipe open.
    pub fn settle(&self) {
        let deadline = Instant::now() + Duration::from_millis(300);
        while !self.ended.load(Ordering::Acquire) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn read(&self, mut stderr: impl Read, host: &str, notice: Option<&Notice>) {
        let mut pending = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let n = match stderr.read(&mut chunk) {
                Ok(0) | Err(_) => break,
                Ok(n) => n,
            };
            for &byte in &chunk[..n] {
                if byte == b'\n' {
                    self.line(&pending, host, notice);
                    pending.clear();
                } else if pending.len() < LINE_LIMIT {
                    pending.push(byte);
                }
            }
        }
        self.line(&pending, host, notice);
    }

    fn line(&self, bytes: &[u8], host: &str, notice: Option<&Notice>) {
        let line = quote(bytes);
        if line.is_empty() {
            return;
        }
        if let Some(notice) = notice {
            notice(&format!("{host}: {line}"));
        }
        if CHATTER.iter().any(|chatter| line.starts_with(chatter)) {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_refused_with_the_reason() {
        let binary = std::fs::read("/proc/self/exe").unwrap();
        let arch = std::env::consts::ARCH;
        check_push(&format!("{arch} exec glibc 99.1"), &binary).unwrap();
        let refused = |offer: &str| check_push(offer, &binary).unwrap_err();
        assert!(refused("riscv64 exec glibc 99.1").contains("the host is riscv64"));
        assert!(refused(&format!("{arch} noexec glibc 99.1")).contains("noexec"));
        let text = refused(&format!("{arch} exec glibc 2.1"));
        assert!(text.contains("the host has glibc 2.1, this binary needs 2."), "{text}");
        assert!(refused(&format!("{arch} exec none")).contains("no glibc"));
    }

    #[test]
    fn what_ssh_says_comes_with_a_next_step() {
        let closed = FrameError::Closed;
        for (said, step) in [
            ("ssh: Could not resolve hostname x: Name or service not known", "spelling"),
            ("ssh: connect to host x port 22: Connection refused", "is sshd running"),
            ("x@y: Permission denied (publickey).", "ssh-copy-id"),
            ("Host key verification failed.", "host key"),
            ("ssh: connect to host x port 22: Connection timed out", "is the host up"),
            ("kex_exchange_identification: banner line too long", "by hand"),
        ] {
            let text = explain_ssh(Some(said), &closed);
            let said = said.trim_end_matches('.');
            assert!(text.starts_with(&format!("{said}: ")) && text.contains(step), "{text}");
        }
    }

    #[test]
    fn the_last_lines_of_messages_are_kept_and_bounded() {
        let mut text = (0..100).map(|i| format!("line {i}\n")).collect::<String>();
        text += &"x".repeat(9999);
        text += "\nWarning: Permanently added 'h' (ED25519) to the list of known hosts.\n";
        let messages = Messages::follow(io::Cursor::new(text), "h".into(), None);
        messages.settle();
        assert_eq!(messages.lines.lock().unwrap().len(), KEPT_LINES);
        assert!(messages.last().unwrap().starts_with("xxx"));
        assert!(messages.last().unwrap().len() <= LINE_LIMIT);
    }

    #[test]
    fn launch_arguments_are_checked() {
        let quiet: Notice = Arc::new(|_: &str| {});
        let args = |ssh: &str, path: Option<&str>| LaunchArgs {
            ssh: Some(ssh.to_owned()),
            agent_path: path.map(str::to_owned),
            ..LaunchArgs::default()
        };
        let launch = Launch::from_args(&args("ssh -F 'a b'", None), false, quiet.clone()).unwrap();
        assert_eq!(launch.ssh, ["ssh", "-F", "a b"]);
        for (ssh, path) in [("ssh 'open", None), ("", None), ("ssh", Some("a;b"))] {
            assert!(Launch::from_args(&args(ssh, path), false, quiet.clone()).is_err());
        }
    }
}
