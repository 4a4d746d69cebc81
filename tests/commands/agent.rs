//! `fabbench agent`, started by hand, and who may talk to it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fabbench_reports::json;

use crate::support::{alone, end_of, fabbench, finish, run};

const TOKEN: &str = "correct horse battery staple";

/// A file that only its owner may read.
fn token_file(place: &Path, name: &str, text: &str) -> PathBuf {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// An agent that listens on a free port.
struct Agent {
    child: Child,
    host: String,
    log: Arc<Mutex<String>>,
}

impl Agent {
    fn start(token: &Path) -> Self {
        let file = token.to_str().unwrap();
        let mut child =
            fabbench(&["agent", "--listen", "127.0.0.1:0", "--token-file", file]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap();
        let host = format!("tcp://{address}");
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, stderr) = (log.clone(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *lines.lock().unwrap() += &(line + "\n");
            }
        });
        Agent { child, host, log }
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        end_of(&mut self.child);
    }
}

#[test]
fn two_agents_started_by_hand_measure_for_who_knows_the_token() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let token = token_file(place.path(), "token", TOKEN);
    let wrong = token_file(place.path(), "wrong", "incorrect horse battery staple");
    let (a, b) = (Agent::start(&token), Agent::start(&token));
    let pair = |more: &[&str]| {
        let hosts = ["pair", &a.host, &b.host, "--transport", "tcp"];
        run(&[&hosts[..], &["--duration", "100ms", "--repeats", "1"], more].concat())
    };
    pair(&[]).expect(3, &["asks for a token: give --token-file FILE"]);
    let refused = pair(&["--token-file", wrong.to_str().unwrap()]);
    refused.expect(3, &["does not admit this token"]);
    assert!(a.log().contains("refused: it does not know the token"), "{}", a.log());
    for _ in 0..2 {
        let ran = pair(&["--token-file", token.to_str().unwrap()]);
        ran.expect(0, &["PASS: function passed"]);
        assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    }
    assert!(!a.log().contains("warning") && !a.log().contains(TOKEN), "{}", a.log());
}

#[test]
fn token_files_that_are_none_are_refused_and_open_ones_warned_of() {
    let place = tempfile::tempdir().unwrap();
    let short = token_file(place.path(), "short", "x");
    let listen = |file: &str| run(&["agent", "--listen", "127.0.0.1:0", "--token-file", file]);
    listen("/nonexistent/token").expect(2, &["token file /nonexistent/token: No such file"]);
    listen(short.to_str().unwrap()).expect(2, &["needs at least 16 bytes", "openssl rand -hex 32"]);
    run(&["agent", "--listen", "127.0.0.1:0"]).expect(2, &["--token-file <FILE>"]);
    run(&["agent"]).expect(2, &["--listen"]);
    run(&["agent", "--listen", "here", "--token-file", "x"]).expect(2, &["--listen"]);

    let open = token_file(place.path(), "open", TOKEN);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let agent = Agent::start(&open);
    let ran = run(&["devices", &agent.host, "--token-file", open.to_str().unwrap()]);
    assert!(ran.stderr.contains("others may read it (mode 0644): chmod 600"), "{}", ran.stderr);
    assert!(agent.log().contains("others may read it (mode 0644)"), "{}", agent.log());
}

#[test]
fn an_address_that_is_taken_or_foreign_is_told() {
    let place = tempfile::tempdir().unwrap();
    let token = token_file(place.path(), "token", TOKEN);
    let agent = Agent::start(&token);
    for address in [agent.host.strip_prefix("tcp://").unwrap(), "192.0.2.1:7"] {
        let ran = run(&["agent", "--listen", address, "--token-file", token.to_str().unwrap()]);
        ran.expect(2, &[&format!("agent --listen {address}"), "a free port"]);
    }
}

/// Ports on which a process listens over IPv4.
fn listens(pid: u32) -> Vec<u16> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inodes: BTreeSet<String> = links
        .filter_map(|fd| {
            let target = fs::read_link(fd.path()).ok()?;
            Some(target.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let port = |line: String| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let port = u16::from_str_radix(address.split_once(':')?.1, 16).ok()?;
        (*state == "0A").then(|| inodes.contains(*inode).then_some(port))
    };
    let Ok(table) = fs::File::open("/proc/net/tcp") else { return Vec::new() };
    // Listeners stand first; thousands of closed connections may follow.
    BufReader::new(table).lines().skip(1).map_while(|line| port(line.ok()?)).flatten().collect()
}

/// Says garbage to whatever these processes listen on, again and again.
fn pester(pids: [u32; 2], control: &BTreeSet<u16>, over: &AtomicBool, data_ports: &AtomicU32) {
    let garbage = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\x00\xff\xfe".repeat(50);
    let mut held = Vec::new();
    let mut knocked: Option<Instant> = None;
    while !over.load(Ordering::Relaxed) {
        // A data port is open for milliseconds: the control ports must not take the time.
        let knock = knocked.is_none_or(|at| at.elapsed() > Duration::from_millis(100));
        knocked = if knock { Some(Instant::now()) } else { knocked };
        for port in pids.into_iter().flat_map(listens) {
            if !knock && control.contains(&port) {
                continue;
            }
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1))
            else {
                continue;
            };
            let _ = stream.write_all(&garbage);
            if !control.contains(&port) {
                data_ports.fetch_add(1, Ordering::Relaxed);
                // Some only knock and wait.
                held.push(TcpStream::connect_timeout(&address, Duration::from_secs(1)));
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn strangers_disturb_no_measurement() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let token = token_file(place.path(), "token", TOKEN);
    let (a, b) = (Agent::start(&token), Agent::start(&token));
    let pids = [a.child.id(), b.child.id()];
    let control = pids.into_iter().flat_map(listens).collect();
    let (over, data_ports) = (AtomicBool::new(false), AtomicU32::new(0));
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| pester(pids, &control, &over, &data_ports));
        let file = token.to_str().unwrap();
        let mut command = fabbench(&[
            "pair",
            &a.host,
            &b.host,
            "--transport",
            "tcp",
            "--duration",
            "200ms",
            "--repeats",
            "2",
            "--token-file",
            file,
            "--json",
        ]);
        let ran = finish(&mut command);
        over.store(true, Ordering::Relaxed);
        ran
    });
    ran.expect(0, &[]);
    let report = json::read(&ran.stdout).unwrap();
    assert!(report.complete && report.measurements.len() == 7);
    let all = report.measurements.iter().flat_map(|m| &m.repeats);
    assert!(all.clone().all(|r| r.messages_sent == r.messages_received));
    assert!(data_ports.load(Ordering::Relaxed) > 0, "no data port was found to pester");
    assert!(a.log().contains("refused: what came is not fabbench's greeting"), "{}", a.log());
}

/// A login shell that prints before the agent speaks.
#[test]
fn noise_of_a_login_shell_is_no_trouble() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let ssh = place.path().join("ssh");
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n\
                  echo 'Last login: today'; printf 'no end of line'; exec sh -c \"$3\"\n";
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let ran = run(&[
        "pair",
        "noisy",
        "me@noisy",
        "--ssh",
        ssh.to_str().unwrap(),
        "--agent-path",
        crate::support::FABBENCH,
        "--transport",
        "tcp",
        "--duration",
        "100ms",
        "--repeats",
        "1",
    ]);
    ran.expect(0, &["fabbench pair: noisy (A), noisy#2 (B)", "PASS: function passed"]);
    assert!(!ran.stdout.contains("Last login"), "{}", ran.stdout);
}
