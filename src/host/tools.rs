//! Tools of the host that tell what no file does: run side by side, each with a deadline, and only to
//! read.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fabbench_harness::snapshot::{Snapshot, ToolFact};

/// A tool that has not answered by then is left.
const DEADLINE: Duration = Duration::from_millis(400);
/// mlxlink reads registers of the adapter and its cable one by one.
const SLOW_DEADLINE: Duration = Duration::from_secs(5);
/// Bytes kept of an answer, its last.
const LIMIT: usize = 64 << 10;
/// Tools that run at once.
const AT_ONCE: usize = 8;

/// What is worth asking on a host with these files: of each hardware adapter and its interfaces.
pub fn commands(snapshot: &Snapshot) -> Vec<String> {
    const BUS: &str = "/sys/class/infiniband";
    let mut commands = Vec::new();
    for device in snapshot.names(BUS) {
        let root = format!("{BUS}/{device}");
        let Some(target) = snapshot.link(&format!("{root}/device")) else { continue };
        let pci = target.rsplit('/').next().unwrap_or_default();
        if snapshot.link(&format!("{root}/device/physfn")).is_none() {
            let ports = snapshot.names(&format!("{root}/ports")).iter();
            commands.extend(ports.map(|port| format!("mlxlink -d {pci} -p {port} -m -c")));
        }
        for netdev in snapshot.names(&format!("{root}/device/net")) {
            commands
                .extend(["-a", "--show-fec", "-m"].map(|flag| format!("ethtool {flag} {netdev}")));
            commands.extend([
                format!("dcb pfc show dev {netdev}"),
                format!("dcb apptrust show dev {netdev}"),
                format!("dcb app show dev {netdev} dscp-prio"),
            ]);
        }
    }
    let words = |command: &String| {
        let known = |c: char| c.is_ascii_alphanumeric() || " -_.:@".contains(c);
        command.chars().all(known)
    };
    commands.retain(words);
    if !commands.is_empty() {
        commands.push("dmesg".to_owned());
    }
    commands
}

/// Runs what [`commands`] says.
pub fn ask(snapshot: &Snapshot) -> BTreeMap<String, ToolFact> {
    let commands = commands(snapshot);
    let mut told = BTreeMap::new();
    for batch in commands.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let asked: Vec<_> =
                batch.iter().map(|command| (command, scope.spawn(|| run(command)))).collect();
            for (command, answer) in asked {
                let failed = |_| ToolFact::Failed("the thread that ran it broke".into());
                told.insert(command.clone(), answer.join().unwrap_or_else(failed));
            }
        });
    }
    told
}

/// Runs one command line of plain words.
fn run(command: &str) -> ToolFact {
    let mut words = command.split_whitespace();
    let Some(name) = words.next() else { return ToolFact::Absent };
    let path = search_path();
    let started = Command::new(name)
        .args(words)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ToolFact::Absent,
        Err(error) => return ToolFact::Failed(error.to_string()),
    };
    let (out, err) = (child.stdout.take().map(drained), child.stderr.take().map(drained));
    let deadline = Instant::now() + if name == "mlxlink" { SLOW_DEADLINE } else { DEADLINE };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                // One that hangs in its driver cannot be ended: it is waited for aside.
                let _ = child.kill();
                std::thread::spawn(move || child.wait());
                return ToolFact::Failed("no answer in time".into());
            }
            Err(error) => return ToolFact::Failed(error.to_string()),
        }
    };
    // What a tool leaves running may hold the pipe open.
    let read = |pipe: Option<mpsc::Receiver<String>>| {
        pipe.and_then(|pipe| pipe.recv_timeout(DEADLINE).ok()).unwrap_or_default()
    };
    let (out, err) = (read(out), read(err));
    if status.success() && !out.trim().is_empty() {
        return ToolFact::Output(out);
    }
    let said = if err.trim().is_empty() { out } else { err };
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    ToolFact::Failed(line.trim().to_owned())
}

/// The user's path, with the places where an ordinary user's lacks tools that read only.
fn search_path() -> String {
    let own = std::env::var("PATH").unwrap_or_default();
    format!("{own}:/usr/local/sbin:/usr/sbin:/sbin")
}

/// Reads a pipe to its end, aside; the last bytes come when it has ended.
fn drained(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(last_of(pipe)));
    receiver
}

/// The last bytes of a pipe, as text.
fn last_of(mut pipe: impl Read) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let beyond = kept.len().saturating_sub(LIMIT);
        kept.drain(..beyond);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabbench_harness::snapshot::Entry;

    fn snapshot(netdev: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut put = |path: &str, entry| snapshot.entries.insert(path.to_owned(), entry);
        let dir =
            |names: &[&str]| Entry::Dir(names.iter().map(|name| (*name).to_owned()).collect());
        put("/sys/class/infiniband", dir(&["mlx5_0", "rxe0"]));
        put("/sys/class/infiniband/mlx5_0/device", Entry::Link("/sys/devices/0000:18:00.0".into()));
        put("/sys/class/infiniband/mlx5_0/ports", dir(&["1"]));
        put("/sys/class/infiniband/mlx5_0/device/net", dir(&[netdev]));
        snapshot
    }

    #[test]
    fn hardware_alone_is_asked_about() {
        let commands = commands(&snapshot("ens3f0"));
        assert_eq!(commands[0], "mlxlink -d 0000:18:00.0 -p 1 -m -c");
        assert!(commands.contains(&"dcb pfc show dev ens3f0".to_owned()));
        assert!(!commands.iter().any(|command| command.contains("rxe0")));
        assert!(super::commands(&Snapshot::default()).is_empty());
    }

    #[test]
    fn a_name_that_is_no_plain_word_is_not_run() {
        let commands = commands(&snapshot("a;reboot"));
        assert!(!commands.iter().any(|command| command.contains("reboot")), "{commands:?}");
    }

    #[test]
    fn an_answer_a_refusal_and_an_absence_are_told_apart() {
        assert_eq!(run("echo prio-pfc 3:on"), ToolFact::Output("prio-pfc 3:on\n".into()));
        assert_eq!(run("no-such-tool-of-fabbench -a"), ToolFact::Absent);
        let ToolFact::Failed(why) = run("ls /no/such/place") else { panic!("it cannot list that") };
        assert!(why.contains("/no/such/place"), "{why}");
        let begin = Instant::now();
        assert_eq!(run("sleep 5"), ToolFact::Failed("no answer in time".into()));
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    }
}
