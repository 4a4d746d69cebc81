//! Sessions with real agents: as children, through a fake ssh, and over TCP.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fabbench::session::protocol::{PROTOCOL, ToAgent, ToCoordinator};
use fabbench::session::token::Token;
use fabbench::session::{
    Binary, Event, HostFailure, Interrupt, Launch, Session, Wait, parse_hosts,
};

const FABBENCH: &str = env!("CARGO_BIN_EXE_fabbench");

/// Stands in for ssh: takes the same arguments and runs the command here, in an environment that
/// the host's name decides.
const FAKE_SSH: &str = r#"#!/bin/sh
place=$(dirname "$0")
while [ "$1" != "--" ]; do shift; done
host=$2; command=$3
shell=$(command -v "${host#shell-}")
export TMPDIR="$place/tmp" HOME="$place/home" PATH="$place/bin:/usr/bin:/bin"
case $host in
refused) echo "ssh: connect to host refused port 22: Connection refused" >&2; exit 255 ;;
unknown) echo "ssh: Could not resolve hostname unknown: Name or service not known" >&2; exit 255 ;;
missing) PATH=/usr/bin:/bin ;;
shell-*) exec "$shell" -c "$command" ;;
noisy) echo "Last login: today"; echo "You have mail." ;;
chatty) while :; do echo "restricted shell, go away"; done ;;
mute) exec sleep 60 ;;
riscv) PATH="$place/riscv:$PATH" ;;
ancient) PATH="$place/ancient:$PATH" ;;
noexec) PATH="$place/noexec:$PATH" ;;
future) printf '\000\002fabbench agent stream\003\n'; printf '\000\000\000\064%s' \
  '{"Hello":{"protocol":99,"version":"9.9.9","x":"yz"}}'; exec cat >/dev/null ;;
older) printf '\000\002fabbench agent stream\003\n'; printf '\000\000\000\063%s' \
  '{"Hello":{"protocol":PROTOCOL,"version":"0.0.1","x":"yz"}}'; exec cat >/dev/null ;;
esac
exec sh -c "$command"
"#;

/// A directory with the fake ssh and what hosts behind it hold.
struct Place {
    directory: tempfile::TempDir,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place { directory, notices: Arc::default() };
        for name in ["tmp", "home", "bin", "riscv", "ancient", "noexec"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        place.script("ssh", &FAKE_SSH.replace("PROTOCOL", &PROTOCOL.to_string()));
        place.script("riscv/uname", "#!/bin/sh\necho riscv64\n");
        place.script("ancient/getconf", "#!/bin/sh\necho glibc 2.5\n");
        // Without the permission to execute, as on a file system mounted noexec.
        place.script("noexec/chmod", "#!/bin/sh\n");
        std::os::unix::fs::symlink(FABBENCH, place.path("bin/fabbench")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn launch(&self) -> Launch {
        let notices = self.notices.clone();
        Launch {
            guests: fabbench::session::join::Guests::default(),
            ssh: vec![self.path("ssh").to_string_lossy().into_owned()],
            binary: Binary::Find,
            token: None,
            own: PathBuf::from(FABBENCH),
            notice: Arc::new(move |line: &str| notices.lock().unwrap().push(line.to_owned())),
            verbose: false,
            patience: Duration::from_secs(20),
            push_patience: Duration::from_secs(60),
            silence: Duration::from_secs(10),
        }
    }

    fn start(&self, hosts: &[&str], launch: &Launch) -> Result<Session, Vec<HostFailure>> {
        Session::start(&parse_hosts(hosts).unwrap(), launch, &Interrupt::default())
    }

    fn refusal(&self, host: &str, launch: &Launch) -> String {
        match self.start(&[host], launch) {
            Ok(_) => panic!("{host} was reached"),
            Err(failures) => failures[0].to_string(),
        }
    }

    fn temporary_files(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// Processes whose command line holds `session`.
fn processes(session: &str) -> BTreeSet<u32> {
    let holds = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(session))
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(holds)
        .collect()
}

fn assert_gone(session: &str) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while !processes(session).is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:?}", processes(session));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

fn next_loss(session: &Session, patience: Duration) -> (usize, HostFailure) {
    loop {
        match session.wait(patience) {
            Wait::Event(host, Event::Lost(failure)) => return (host, failure),
            Wait::Event(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn two_local_agents_tell_facts_and_leave_nothing() {
    let place = Place::new();
    let mut session = place.start(&["local", "local"], &place.launch()).unwrap();
    let id = session.id().to_owned();
    assert_eq!(processes(&id).len(), 2);
    assert_eq!(session.name(1), "local#2");
    for facts in session.facts() {
        let facts = facts.unwrap();
        assert!(facts.calls.addresses.iter().any(|a| a.address.is_loopback()));
        assert_eq!(facts.snapshot.text("/sys/class/net/lo/mtu"), Some("65536"));
    }
    assert_eq!(session.close(), Vec::<String>::new());
    assert_gone(&id);
}

#[test]
fn dropping_a_session_ends_its_agents() {
    let place = Place::new();
    let session = place.start(&["local", "far"], &place.launch()).unwrap();
    let id = session.id().to_owned();
    assert!(processes(&id).len() >= 2);
    drop(session);
    assert_gone(&id);
}

#[test]
fn an_agent_behind_a_noisy_login_shell_is_reached() {
    let place = Place::new();
    let mut launch = place.launch();
    let mut session = place.start(&["noisy", "root@noisy"], &launch).unwrap();
    assert!(session.facts().iter().all(Result::is_ok));
    session.close();
    launch.binary = Binary::Path(FABBENCH.to_owned());
    let session = place.start(&["missing"], &launch).unwrap();
    session.close();
}

/// With every shell that this machine has, of which it has at least `sh`.
#[test]
fn any_login_shell_starts_an_agent_by_any_way() {
    let place = Place::new();
    let shells = ["sh", "dash", "bash", "zsh", "mksh", "csh", "tcsh", "fish"];
    let path = std::env::var_os("PATH").unwrap();
    let installed = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    let hosts: Vec<String> =
        shells.iter().filter(installed).map(|name| format!("shell-{name}")).collect();
    assert!(!hosts.is_empty());
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    for binary in [Binary::Find, Binary::Path(FABBENCH.to_owned()), Binary::Push] {
        let launch = Launch { binary, ..place.launch() };
        let session = place.start(&hosts, &launch).unwrap_or_else(|e| panic!("{e:?}"));
        let id = session.id().to_owned();
        session.close();
        assert_gone(&id);
        assert_eq!(place.temporary_files(), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_keeps_an_agent_from_starting_is_named_with_the_next_step() {
    let place = Place::new();
    let mut launch = place.launch();
    let text = place.refusal("refused", &launch);
    assert!(text.starts_with("refused: connect: ssh: connect to host refused port 22"), "{text}");
    assert!(text.contains("is sshd running"), "{text}");
    let text = place.refusal("unknown", &launch);
    assert!(text.contains("Could not resolve") && text.contains("spelling"), "{text}");
    let text = place.refusal("missing", &launch);
    assert!(text.contains("not found in PATH") && text.contains("--push"), "{text}");
    let text = place.refusal("future", &launch);
    assert!(text.contains("fabbench 9.9.9 speaks protocol 99"), "{text}");
    assert!(
        text.contains(&format!("speaks protocol {PROTOCOL}: install the same version")),
        "{text}"
    );
    let text = place.refusal("chatty", &launch);
    assert!(text.contains("more than 1 MiB") && text.contains("restricted shell"), "{text}");
    launch.patience = Duration::from_millis(300);
    let text = place.refusal("mute", &launch);
    assert!(text.contains("the deadline passed before the agent spoke"), "{text}");
    launch.ssh = vec!["/nonexistent/ssh".to_owned()];
    let text = place.refusal("any", &launch);
    assert!(text.contains("start /nonexistent/ssh") && text.contains("--ssh"), "{text}");
    launch.ssh = place.launch().ssh;
    launch.binary = Binary::Path("/nonexistent/fabbench".to_owned());
    let text = place.refusal("far", &launch);
    assert!(text.contains("/nonexistent/fabbench: not there"), "{text}");
}

#[test]
fn another_build_is_taken_with_a_warning() {
    let place = Place::new();
    let session = place.start(&["older"], &place.launch()).unwrap();
    let begin = Instant::now();
    assert_eq!(session.close(), Vec::<String>::new());
    assert!(begin.elapsed() < Duration::from_secs(1), "the end of its input ended it");
    let notices = place.notices.lock().unwrap();
    let warning = "older: warning: its fabbench is another build, 0.0.1";
    assert!(notices.len() == 1 && notices[0].starts_with(warning), "{notices:?}");
}

#[test]
fn one_unreachable_host_ends_the_others() {
    let place = Place::new();
    let (hosts, launch) = (parse_hosts(&["local", "refused"]).unwrap(), place.launch());
    let (session, failures) =
        Session::start_available(&hosts, &launch, &Interrupt::default()).unwrap();
    assert_eq!((session.len(), session.name(0), failures.len()), (1, "local", 1));
    let id = session.id().to_owned();
    session.close();
    assert_gone(&id);
    assert_eq!(place.start(&["local", "refused"], &launch).err().unwrap(), failures);
}

#[test]
fn a_pushed_copy_runs_and_is_removed_at_once() {
    let place = Place::new();
    let launch = Launch { binary: Binary::Push, ..place.launch() };
    // This host has no fabbench.
    let mut session = place.start(&["missing", "noisy"], &launch).unwrap();
    assert_eq!(place.temporary_files(), Vec::<PathBuf>::new(), "removed before it speaks");
    assert!(session.facts().iter().all(Result::is_ok));
    let id = session.id().to_owned();
    session.close();
    assert_gone(&id);
}

#[test]
fn a_pushed_copy_that_cannot_run_is_removed_too() {
    let place = Place::new();
    // This test program is a binary for this machine, but no agent.
    let own = std::env::current_exe().unwrap();
    let launch = Launch { binary: Binary::Push, own, ..place.launch() };
    let text = place.refusal("far", &launch);
    assert!(text.contains("its agent did not start"), "{text}");
    assert_eq!(place.temporary_files(), Vec::<PathBuf>::new());
}

#[test]
fn a_push_that_cannot_run_is_refused_with_the_reason() {
    let place = Place::new();
    let launch = Launch { binary: Binary::Push, ..place.launch() };
    for (host, reason) in [
        ("riscv", "the host is riscv64"),
        ("ancient", "the host has glibc 2.5"),
        ("noexec", "does not allow execution"),
    ] {
        let text = place.refusal(host, &launch);
        assert!(text.contains(reason) && text.contains("--agent-path"), "{text}");
        assert_eq!(place.temporary_files(), Vec::<PathBuf>::new(), "{host}");
    }
}

#[test]
fn a_killed_agent_is_noticed_at_once_and_named() {
    let place = Place::new();
    let session = place.start(&["local", "far"], &place.launch()).unwrap();
    session.set_stage("measure");
    signal(session.hello(1).pid, "-KILL");
    let begin = Instant::now();
    let (host, failure) = next_loss(&session, Duration::from_secs(5));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!((host, failure.stage.as_str()), (1, "measure"));
    assert!(failure.to_string().starts_with("far: measure: its agent ended"), "{failure}");
    assert!(session.is_lost(1) && !session.is_lost(0));
    let id = session.id().to_owned();
    session.close();
    assert_gone(&id);
}

#[test]
fn stopped_agents_are_silent_and_killed_all_the_same() {
    let place = Place::new();
    let launch = Launch { silence: Duration::from_secs(3), ..place.launch() };
    let session = place.start(&["local", "far"], &launch).unwrap();
    session.set_stage("warm-up");
    for host in 0..2 {
        signal(session.hello(host).pid, "-STOP");
    }
    let begin = Instant::now();
    for _ in 0..2 {
        let (_, failure) = next_loss(&session, Duration::from_secs(10));
        assert!(failure.to_string().contains("warm-up: its agent was silent for 3 s"), "{failure}");
    }
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    let id = session.id().to_owned();
    assert_eq!(session.close(), Vec::<String>::new());
    assert_gone(&id);
}

#[test]
fn an_agent_ends_when_its_coordinator_is_silent() {
    let mut agent = Command::new(FABBENCH)
        .args(["agent", "--stdio", "--session", "lonely"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // `wait` would close it.
    let mut stdin = agent.stdin.take().unwrap();
    let hello = serde_json::to_vec(&ToAgent::Hello(fabbench::session::hello(
        "lonely",
        Duration::from_millis(500),
    )))
    .unwrap();
    stdin.write_all(&(hello.len() as u32).to_be_bytes()).unwrap();
    stdin.write_all(&hello).unwrap();
    let begin = Instant::now();
    assert_eq!(agent.wait().unwrap().code(), Some(3));
    assert!(begin.elapsed() < Duration::from_secs(3));
    let mut said = String::new();
    agent.stderr.unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the coordinator was silent for 0.5 s"), "{said}");
    drop(stdin);
}

#[test]
fn an_interrupt_ends_waits_and_starts() {
    let place = Place::new();
    let interrupt = Interrupt::default();
    let hosts = parse_hosts(&["local"]).unwrap();
    let session = Session::start(&hosts, &place.launch(), &interrupt).unwrap();
    interrupt.set();
    assert!(matches!(session.wait(Duration::from_secs(60)), Wait::Interrupted));
    let id = session.id().to_owned();
    session.close();
    assert_gone(&id);
    let begin = Instant::now();
    let mute = parse_hosts(&["mute"]).unwrap();
    let failures = Session::start(&mute, &place.launch(), &interrupt).err().unwrap();
    assert_eq!(failures[0].cause, "interrupted");
    assert!(begin.elapsed() < Duration::from_secs(5));
}

/// `fabbench agent --listen` on a free port.
struct Listening {
    process: Child,
    address: String,
    log: Arc<Mutex<String>>,
}

impl Listening {
    fn start(token: &Path) -> Self {
        let mut process = Command::new(FABBENCH)
            .args(["agent", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(token)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, stderr) = (log.clone(), process.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                *lines.lock().unwrap() += &(line.unwrap() + "\n");
            }
        });
        Listening { process, address, log }
    }

    fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.log.lock().unwrap().contains(text) {
            assert!(Instant::now() < deadline, "{text:?} not in {}", self.log.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_listening_agent_serves_who_knows_the_token_and_nobody_else() {
    let place = Place::new();
    let file = place.path("token");
    fs::write(&file, "correct horse battery staple\n").unwrap();
    let agent = Listening::start(&file);
    let host = format!("tcp://{}", agent.address);
    let with = |token: &str| Launch {
        token: Some(Token::new(token.as_bytes()).unwrap()),
        ..place.launch()
    };

    let text = place.refusal(&host, &with("incorrect horse battery staple"));
    assert!(text.contains("does not admit this token"), "{text}");
    agent.wait_for_log("refused: it does not know the token");
    let text = place.refusal(&host, &place.launch());
    assert!(text.contains("--token-file"), "{text}");
    let mut stranger = TcpStream::connect(&agent.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(stranger.read(&mut [0; 100]).unwrap_or(0), 0, "a stranger is told nothing");
    agent.wait_for_log("refused: what came is not fabbench's greeting");
    let _silent = TcpStream::connect(&agent.address).unwrap();

    for _ in 0..2 {
        let launch = with("correct horse battery staple");
        let mut session = place.start(&[&host], &launch).unwrap();
        assert!(session.facts()[0].is_ok());
        let text = place.refusal(&host, &launch);
        assert!(text.contains("busy with another session"), "{text}");
        session.close();
        agent.wait_for_log("session ended: the coordinator said goodbye");
        agent.log.lock().unwrap().clear();
    }
}

#[test]
fn cases_that_do_not_exist_disturb_nothing() {
    let place = Place::new();
    let mut session = place.start(&["local"], &place.launch()).unwrap();
    assert!(session.facts()[0].is_ok());
    session.go(0, vec![17]).unwrap();
    session.stop(0, 17).unwrap();
    session.send(0, &ToAgent::Facts).unwrap();
    match session.wait(Duration::from_secs(20)) {
        Wait::Event(0, Event::Message(ToCoordinator::Facts(_))) => {}
        other => panic!("cases that do not exist must not disturb: {other:?}"),
    }
}
