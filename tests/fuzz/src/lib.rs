//! What must hold for any bytes and any words. The fuzz targets and the property tests of the
//! workspace (`tests/properties.rs`) share these checks.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use clap::Parser;
use fabbench::cli::{Cli, Command};
use fabbench::session::frame::{FrameError, FrameReader};
use fabbench::session::parse_hosts;
use fabbench_harness::rate::parse_rate;
use fabbench_harness::size::{MAX_SIZE, parse_size, size_text};
use serde_json::Value;

/// Largest frame of these checks, bytes.
pub const LIMIT: usize = 4096;

/// Most bytes of a check: what a socket takes before its reader looks.
pub const MOST: usize = 32 << 10;

/// What a stream gave next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A message.
    Message(Value),
    /// A whole frame that is no JSON.
    NotJson,
    /// The end between two frames.
    Closed,
    /// The end within one.
    Cut,
    /// A frame above the limit.
    TooLarge,
}

/// Reads `bytes` as frames: as the decoder's description has it, whatever the bytes, without hanging.
pub fn frames(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST)];
    assert_eq!(decoded(bytes), described(bytes));
}

/// By the decoder, until the stream is of no use any more.
pub fn decoded(bytes: &[u8]) -> Vec<Next> {
    let (mut from, to) = UnixStream::pair().expect("a socket pair");
    from.write_all(bytes).expect("the socket takes them");
    drop(from);
    let mut reader = FrameReader::new(to, LIMIT).expect("a socket");
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut found = Vec::new();
    loop {
        found.push(match reader.next::<Value>(deadline) {
            Ok(message) => Next::Message(message),
            Err(FrameError::Json(_)) => Next::NotJson,
            Err(FrameError::Closed) => Next::Closed,
            Err(FrameError::Cut { .. }) => Next::Cut,
            Err(FrameError::TooLarge { .. }) => Next::TooLarge,
            Err(other) => panic!("{other}"),
        });
        if !matches!(found.last(), Some(Next::Message(_))) {
            return found;
        }
    }
}

/// By the description: a 32-bit big-endian length and that many bytes of JSON.
fn described(mut bytes: &[u8]) -> Vec<Next> {
    let mut found = Vec::new();
    loop {
        let next = match bytes.split_first_chunk::<4>() {
            None if bytes.is_empty() => Next::Closed,
            None => Next::Cut,
            Some((head, rest)) => match u32::from_be_bytes(*head) as usize {
                len if len > LIMIT => Next::TooLarge,
                len if len > rest.len() => Next::Cut,
                len => {
                    let (body, after) = rest.split_at(len);
                    bytes = after;
                    serde_json::from_slice(body).map_or(Next::NotJson, Next::Message)
                }
            },
        };
        let ends = !matches!(next, Next::Message(_));
        found.push(next);
        if ends {
            return found;
        }
    }
}

/// Reads `text` as everything that people type: refused or understood, never a panic, and what was
/// understood is in its range and reads the same when printed.
pub fn words(text: &str) {
    size(text);
    rate(text);
    host(text);
    duration(text);
}

fn size(text: &str) {
    let Ok(bytes) = parse_size(text) else { return };
    assert!(bytes <= MAX_SIZE, "{text:?}: {bytes}");
    assert_eq!(parse_size(&size_text(bytes)), Ok(bytes), "{text:?}");
}

fn rate(text: &str) {
    let Ok(bps) = parse_rate(text) else { return };
    assert!(bps.is_finite() && bps >= 1.0, "{text:?}: {bps}");
    assert_eq!(parse_rate(&format!("{bps}b/s")), Ok(bps), "{text:?}");
}

fn host(text: &str) {
    let Ok(hosts) = parse_hosts(&[text, text]) else { return };
    assert_eq!(hosts.len(), 2, "{text:?}");
    assert_ne!(hosts[0].name, hosts[1].name, "{text:?}");
    for host in &hosts {
        // A name goes to ssh as an argument.
        assert!(!host.name.starts_with('-') && !host.name.is_empty(), "{text:?}");
        assert!(!host.name.contains(|c: char| c.is_whitespace() || "`$;|&<>'\"\\".contains(c)));
    }
}

fn duration(text: &str) {
    let typed = ["fabbench", "pair", "a", "b", &format!("--duration={text}")];
    let Ok(cli) = Cli::try_parse_from(typed) else { return };
    let Command::Pair(pair) = cli.command else { panic!("{text:?}: another command") };
    let took = pair.duration.expect("as given");
    assert!((10..=86_400_000).contains(&took.as_millis()), "{text:?}: {took:?}");
}
