//! The lab as the tests see it: two hosts, fabbench on both, and what is left on them afterwards.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The hosts of the lab.
const NODES: [&str; 2] = ["node-a", "node-b"];

/// What stood on the nodes when they were last looked at and all was well.
static LAST: Mutex<Option<[String; 2]>> = Mutex::new(None);

/// The lab for the time of one test. At the test's end, whatever its outcome, faults are undone;
/// then both guests must be alive and hold nothing that was not there before.
pub struct Lab {
    before: [String; 2],
    undo: RefCell<Vec<Undo>>,
}

/// How something that a test did to a node is undone.
enum Undo {
    /// By `ci/lab` with these arguments.
    Lab(Vec<String>),
    /// By a shell line on a node.
    Line(String, String),
}

impl Lab {
    /// Starts the lab where it is not well. The state that the last test left well is not looked at
    /// again: under emulation each look takes a second.
    pub fn new() -> Self {
        ssh();
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
        let before = last.unwrap_or_else(|| {
            if let Some(trouble) = settled() {
                println!("the lab is not well, starting anew: {trouble}");
                start();
            }
            traces()
        });
        Lab { before, undo: RefCell::default() }
    }

    /// `ci/lab link`, undone at the end.
    pub fn link(&self, place: &str, action: &[&str]) {
        self.undo_by(&["link", place, "clear"]);
        ci_lab_well(&[&["link", place], action].concat());
    }

    /// `ci/lab hide`, undone at the end.
    pub fn hide(&self, node: &str, what: &str) {
        self.undo_by(&["hide", node, "none"]);
        ci_lab_well(&["hide", node, what]);
    }

    /// Puts a script into the nodes' PATH until the end.
    pub fn script(&self, node: &str, path: &str, text: &str) {
        self.undo_line(node, &format!("rm -f {path}"));
        on(node, &format!("cat > {path} <<'END'\n{text}\nEND\nchmod 755 {path}"));
    }

    /// A shell line that is run on a node at the end.
    pub fn undo_line(&self, node: &str, line: &str) {
        self.undo.borrow_mut().push(Undo::Line(node.into(), line.into()));
    }

    fn undo_by(&self, arguments: &[&str]) {
        let arguments = arguments.iter().map(|&a| a.to_owned()).collect();
        self.undo.borrow_mut().push(Undo::Lab(arguments));
    }

    /// A command line of fabbench with the lab's ssh.
    pub fn fabbench(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).env("FABBENCH_SSH", ssh()).stdin(Stdio::null());
        command
    }

    /// Runs fabbench to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        finish(&mut self.fabbench(arguments), Duration::from_secs(240))
    }

    /// Takes back what was done; says what a dead guest or a full one shows.
    pub fn end(&self) -> Result<(), String> {
        let undone: Vec<String> = self.undo.take().iter().rev().filter_map(undo).collect();
        if let Some(trouble) = settled() {
            // They go with the lab.
            let logs: String = NODES.iter().map(|node| last_words(node)).collect();
            start();
            let trouble = format!("{trouble}\n{logs}");
            return Err(format!("the lab failed, and was started anew: {trouble}"));
        }
        if !undone.is_empty() {
            return Err(format!("not undone: {}", undone.join("; ")));
        }
        nothing_left(&self.before)?;
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.before.clone());
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        match self.end() {
            Err(why) if std::thread::panicking() => eprintln!("and beside that: {why}"),
            Err(why) => panic!("{why}"),
            Ok(()) => {}
        }
    }
}

/// Why something could not be undone.
fn undo(what: &Undo) -> Option<String> {
    let arguments: Vec<&str> = match what {
        Undo::Lab(arguments) => arguments.iter().map(String::as_str).collect(),
        Undo::Line(node, line) => vec!["run", node, line],
    };
    let output = ci_lab(&arguments);
    (!output.status.success()).then(|| format!("{arguments:?}: {}", words(&output)))
}

/// Repository root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The release binary, as users run it.
pub fn binary() -> PathBuf {
    root().join("target/release/fabbench")
}

/// The ssh command for the lab's nodes; the first call brings the lab up and the binary to it.
pub fn ssh() -> &'static str {
    static SSH: OnceLock<String> = OnceLock::new();
    SSH.get_or_init(|| {
        if trouble().is_some() {
            start();
        }
        ci_lab_well(&["push", &binary().to_string_lossy()]);
        let config = ci_lab_well(&["ssh-config"]);
        format!("ssh -F {}", config.trim())
    })
}

/// A new lab, with this build's binary on the nodes.
fn start() {
    ci_lab_well(&["up", "2", "--fresh"]);
    ci_lab_well(&["push", &binary().to_string_lossy()]);
}

/// What is wrong with the lab: a dead guest or switch, a port that is down; none when all is well.
fn trouble() -> Option<String> {
    let output = ci_lab(&["status"]);
    (!output.status.success()).then(|| words(&output))
}

/// As [`trouble`], with time for ports to come back.
fn settled() -> Option<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let trouble = trouble()?;
        if Instant::now() > deadline {
            return Some(trouble);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The end of a node's serial log, where a dead kernel says why.
fn last_words(node: &str) -> String {
    let log = String::from_utf8_lossy(&ci_lab(&["log", node]).stdout).into_owned();
    let lines: Vec<_> = log.lines().collect();
    format!("{node}:\n{}\n", lines[lines.len().saturating_sub(60)..].join("\n"))
}

/// Runs `ci/lab` with these arguments.
pub fn ci_lab(arguments: &[&str]) -> Output {
    Command::new(root().join("ci/lab"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("ci/lab runs")
}

/// Runs `ci/lab`, which must succeed; its standard output.
fn ci_lab_well(arguments: &[&str]) -> String {
    let output = ci_lab(arguments);
    assert!(output.status.success(), "the lab failed: ci/lab {arguments:?}: {}", words(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both outputs of a command.
fn words(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    format!("{} {}", text(&output.stdout), text(&output.stderr))
}

/// Runs a shell line on a node as root and returns its standard output; panics when it fails.
pub fn on(node: &str, line: &str) -> String {
    ci_lab_well(&["run", node, line])
}

/// What a run of fabbench gave.
pub struct Run {
    /// Exit code; none when it was ended by a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
    /// When it had ended.
    pub ended: Instant,
}

impl Run {
    /// The JSON report, which must be all that stands on standard output.
    pub fn report(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("no JSON on stdout ({e}): {}\n{}", self.stdout, self.stderr))
    }

    /// Both outputs, for a message.
    pub fn text(&self) -> String {
        format!("exit {:?} after {:?}\n{}\n{}", self.code, self.took, self.stdout, self.stderr)
    }

    /// Asserts the exit code and that what a person reads holds every one of `words`, wherever
    /// lines are broken.
    pub fn expect(&self, code: i32, words: &[&str]) {
        let text = self.text();
        assert_eq!(self.code, Some(code), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(flat.contains(word), "`{word}` is missing in: {text}");
        }
    }
}

/// Runs a command to its end, at most `limit`: whatever happens, fabbench must not hang.
pub fn finish(command: &mut Command, limit: Duration) -> Run {
    let began = Instant::now();
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fabbench starts");
    let pid = child.id();
    let (done, timer) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if timer.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    });
    let output = child.wait_with_output().expect("fabbench ends");
    drop(done);
    let _ = watch.join();
    let run = Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: began.elapsed(),
        ended: Instant::now(),
    };
    assert!(run.took < limit, "fabbench hung: {command:?}: {}", run.text());
    run
}

/// What may be left behind on both nodes: fabbench processes, temporary files, listeners.
fn traces() -> [String; 2] {
    const LINE: &str = "cat /proc/[0-9]*/comm 2>/dev/null | grep fabbench; \
                        ls -A /tmp /var/tmp /dev/shm /root /home/tester; \
                        grep -ho '[0-9A-F]*:[0-9A-F]* [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6";
    std::thread::scope(|scope| {
        let looks = NODES.map(|node| scope.spawn(move || on(node, LINE)));
        looks.map(|look| look.join().expect("a node shows what is on it"))
    })
}

/// Whether both nodes come back to `before` within some seconds.
fn nothing_left(before: &[String; 2]) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let now = traces();
        if now == *before {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("left on the nodes: {now:#?}, there before: {before:#?}"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
