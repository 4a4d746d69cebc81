//! Running the program, and what it may leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program.
pub const FABBENCH: &str = env!("CARGO_BIN_EXE_fabbench");

/// Longest time that any run here may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Two agents on this machine, sockets alone, as short as it can be measured.
pub const SHORT: [&str; 9] =
    ["pair", "local", "local", "--transport", "tcp", "--duration", "100ms", "--repeats", "1"];

/// Reports and what they render to.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/samples")
}

/// Compares with a file of the samples, or rewrites it when `UPDATE_SAMPLES` is set.
pub fn golden(file: &str, text: &str) {
    let path = samples().join(file);
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::write(&path, text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == text, "{file} differs; UPDATE_SAMPLES=1 rewrites it:\n{text}");
}

/// What a run gave.
pub struct Run {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Run {
    /// Asserts the exit code and that what a person reads holds each of `words`, lines joined.
    pub fn expect(&self, code: i32, words: &[&str]) {
        let all = format!("{}\n{}", self.stdout, self.stderr);
        let joined = all.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(self.code, Some(code), "after {:?}: {all}", self.took);
        for word in words {
            assert!(joined.contains(word), "{word:?} is missing in: {all}");
        }
        assert!(!all.contains("panicked"), "{all}");
    }

    /// The JSON on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("no JSON alone ({e}): {}\n{}", self.stdout, self.stderr))
    }
}

/// A command line of the program, free of this shell's settings for it.
pub fn fabbench(arguments: &[&str]) -> Command {
    let mut command = Command::new(FABBENCH);
    command.args(arguments);
    plain(&mut command);
    command
}

/// Takes this shell's settings for the program away, and pipes what it says.
pub fn plain(command: &mut Command) {
    for name in ["FABBENCH_SSH", "FABBENCH_LIBIBVERBS", "NO_COLOR", "COLUMNS"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Run {
    finish(&mut fabbench(arguments))
}

/// The shortest acceptance run with more flags.
pub fn short(more: &[&str]) -> Run {
    let _alone = alone();
    run(&[&SHORT[..], more].concat())
}

/// Runs a command to its end, which must come within a minute.
pub fn finish(command: &mut Command) -> Run {
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let code = end_of(&mut child).code();
    let took = began.elapsed();
    Run { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), took }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut text).unwrap();
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits for a child's end; one that hangs is killed and fails the test.
pub fn end_of(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("it hung for {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Measurements disturb each other: one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes whose parent is `pid`.
pub fn children(pid: u32) -> BTreeSet<u32> {
    let parent = |child: &u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        // The name before it may hold anything, a parenthesis too.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|child| parent(child) == Some(pid))
        .collect()
}

/// Waits until none of these processes is there any more.
pub fn assert_gone(pids: &BTreeSet<u32>, patience: Duration) {
    let deadline = Instant::now() + patience;
    let left = || pids.iter().filter(|pid| running(**pid)).collect::<Vec<_>>();
    while !left().is_empty() {
        assert!(Instant::now() < deadline, "left behind: {:?}", left());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// There, and no zombie that nobody has waited for.
fn running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Sends a signal by `kill`'s name for it, to a process or (negative) a process group.
pub fn signal(pid: i64, name: &str) {
    let status = Command::new("kill").args([name, "--", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// A run under way, whose standard error has been read up to a word.
pub struct Under {
    /// The process.
    pub child: Child,
    /// The rest of its standard error; read on, so that the process does not block.
    pub rest: std::thread::JoinHandle<String>,
}

/// Starts a run and waits until it says `word` on standard error.
pub fn under_way(command: &mut Command, word: &str) -> Under {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let mut said = String::new();
    while !line.contains(word) {
        line.clear();
        let read = lines.read_line(&mut line).unwrap();
        said += &line;
        assert!(read > 0, "ended before {word:?}: {said}");
    }
    let rest = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = lines.read_to_string(&mut text);
        text
    });
    Under { child, rest }
}

/// Names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Whether this machine has what RDMA needs of the kernel.
pub fn kernel_has_verbs() -> bool {
    Path::new("/sys/class/infiniband_verbs").exists()
}
