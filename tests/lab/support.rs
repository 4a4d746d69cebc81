//! The lab as the tests see it: two hosts, fabbench on both, and what is left on them afterwards.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Repository root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The release binary, as users run it.
pub fn binary() -> PathBuf {
    root().join("target/release/fabbench")
}

/// Starts the lab where it is not up, copies the binary to the nodes; returns the ssh command.
pub fn lab() -> &'static str {
    static SSH: OnceLock<String> = OnceLock::new();
    SSH.get_or_init(|| {
        if !ci_lab(&["status"]).status.success() {
            ci_lab(&["down"]);
            let up = ci_lab(&["up", "2"]);
            assert!(up.status.success(), "ci/lab up: {}", String::from_utf8_lossy(&up.stderr));
        }
        let push = ci_lab(&["push", &binary().to_string_lossy()]);
        assert!(push.status.success(), "ci/lab push: {}", String::from_utf8_lossy(&push.stderr));
        let config = String::from_utf8(ci_lab(&["ssh-config"]).stdout).unwrap();
        format!("ssh -F {}", config.trim())
    })
}

/// Runs `ci/lab` with these arguments.
pub fn ci_lab(arguments: &[&str]) -> Output {
    Command::new(root().join("ci/lab"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("ci/lab runs")
}

/// Runs a shell line on a node as root and returns its standard output; panics when it fails.
pub fn on(node: &str, line: &str) -> String {
    lab();
    let output = ci_lab(&["run", node, line]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{node}: {line}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
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
}

impl Run {
    /// The JSON report on standard output.
    pub fn report(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("no JSON on stdout ({e}): {}\n{}", self.stdout, self.stderr))
    }

    /// Both outputs, for a message.
    pub fn text(&self) -> String {
        format!("exit {:?} after {:?}\n{}\n{}", self.code, self.took, self.stdout, self.stderr)
    }

    /// Asserts the exit code and that what a person reads holds every one of `words`.
    pub fn expect(&self, code: i32, words: &[&str]) {
        let text = self.text();
        assert_eq!(self.code, Some(code), "{text}");
        for word in words {
            assert!(text.contains(word), "`{word}` is missing in: {text}");
        }
    }
}

/// A command line of fabbench with the lab's ssh.
pub fn fabbench(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env("FABBENCH_SSH", lab()).stdin(Stdio::null());
    command
}

/// Runs fabbench to its end.
pub fn run(arguments: &[&str]) -> Run {
    finish(
        fabbench(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()),
        Duration::from_secs(240),
    )
}

/// Runs a command to its end, at most `limit`: whatever happens, fabbench must not hang.
pub fn finish(command: &mut Command, limit: Duration) -> Run {
    let began = Instant::now();
    let child = command.spawn().expect("fabbench starts");
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
    let took = began.elapsed();
    assert!(took < limit, "fabbench hung for {took:?}: {command:?}");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took,
    }
}

/// What a test may leave behind on a node: fabbench processes, temporary files, listeners.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    processes: String,
    files: String,
    listeners: String,
}

/// Traces on both nodes now.
pub fn traces() -> [Traces; 2] {
    ["node-a", "node-b"].map(|node| Traces {
        processes: on(node, "pgrep -x fabbench | wc -l"),
        files: on(node, "ls -A /tmp /var/tmp /dev/shm | sort"),
        listeners: on(node, "ss -Hltn | awk '{print $4}' | sort"),
    })
}

/// Asserts that both nodes come back to `before` within a few seconds.
pub fn nothing_left(before: &[Traces; 2]) {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let now = traces();
        if now == *before {
            return;
        }
        assert!(Instant::now() < deadline, "left behind: {now:#?}, before: {before:#?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}
