//! Frames over a pipe or a socket: a 32-bit big-endian length and that many bytes of JSON.
//!
//! Both directions work on non-blocking descriptors, so that every call has a deadline whatever the
//! other side does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Begins an agent's stream; a login shell may print before it.
pub const PREAMBLE: &[u8] = b"\x00\x02fabbench agent stream\x03\n";

/// Largest frame between coordinator and agent, bytes: a host's facts are the largest message.
pub const CONTROL_LIMIT: usize = 64 << 20;

/// Largest frame between the two agents of a case, bytes.
pub const PEER_LIMIT: usize = 1 << 20;

/// Bytes of noise that may come before the preamble.
pub const NOISE_LIMIT: usize = 1 << 20;

/// How much of the noise an error quotes, bytes.
const QUOTED_NOISE: usize = 400;

/// Bytes read at once.
const CHUNK: usize = 16 << 10;

/// Longest sleep before a cancellation is noticed.
const SLICE: Duration = Duration::from_millis(50);

/// Why no frame came or went.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side closed the connection between two frames.
    #[error("the connection was closed by the other side")]
    Closed,
    /// The other side closed the connection in the middle of a frame.
    #[error("the connection was closed in the middle of a message ({got} of {wanted} bytes)")]
    Cut {
        /// Bytes that came.
        got: usize,
        /// Bytes announced.
        wanted: usize,
    },
    /// A length beyond the limit: the other side speaks something else.
    #[error("a message of {len} bytes is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Bytes announced or to be sent.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The deadline passed.
    #[error("nothing came before the deadline")]
    TimedOut,
    /// The deadline passed while the other side took no more bytes.
    #[error("the other side takes no more messages")]
    Blocked,
    /// The stream has no preamble.
    #[error("{0}")]
    NoPreamble(NoPreamble),
    /// The caller was asked to stop.
    #[error("stopped")]
    Cancelled,
    /// The bytes are no message of this protocol.
    #[error("a message cannot be understood: {0}")]
    Json(#[from] serde_json::Error),
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for FrameError {
    fn from(errno: Errno) -> Self {
        FrameError::Io(errno.into())
    }
}

/// What came instead of a preamble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPreamble {
    /// How it ended: closed, deadline, too much noise.
    pub end: &'static str,
    /// The last of what came, in readable form; empty when nothing came.
    pub noise: String,
}

impl std::fmt::Display for NoPreamble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} before the agent spoke", self.end)?;
        if self.noise.is_empty() { Ok(()) } else { write!(f, "; it printed: {}", self.noise) }
    }
}

/// Reads frames; what has come of a frame is kept when a deadline passes.
#[derive(Debug)]
pub struct FrameReader {
    fd: OwnedFd,
    buffer: Vec<u8>,
    limit: usize,
    cancel: Option<Arc<AtomicBool>>,
}

impl FrameReader {
    /// Reads from `fd`, which becomes non-blocking; frames larger than `limit` bytes are refused.
    ///
    /// # Errors
    /// When the descriptor cannot be made non-blocking.
    pub fn new(fd: impl Into<OwnedFd>, limit: usize) -> io::Result<Self> {
        let fd = fd.into();
        set_nonblocking(fd.as_fd())?;
        Ok(FrameReader { fd, buffer: Vec::new(), limit, cancel: None })
    }

    /// From now on waits end with [`FrameError::Cancelled`] soon after `flag` is set; with none,
    /// nothing but the deadline ends them.
    pub fn cancel_with(&mut self, flag: Option<Arc<AtomicBool>>) {
        self.cancel = flag;
    }

    /// Skips everything up to and including `magic`.
    ///
    /// # Errors
    /// [`FrameError::NoPreamble`] when the stream ends, [`NOISE_LIMIT`] bytes have come or the
    /// deadline passes before; it quotes the last of what came.
    pub fn skip_to(&mut self, magic: &[u8], deadline: Instant) -> Result<(), FrameError> {
        let mut dropped = 0;
        loop {
            if let Some(at) = find(&self.buffer, magic) {
                self.buffer.drain(..at + magic.len());
                return Ok(());
            }
            if dropped + self.buffer.len() > NOISE_LIMIT {
                return Err(self.no_preamble("more than 1 MiB of other output came"));
            }
            // The magic may straddle two reads, and the error wants the last lines.
            let keep = QUOTED_NOISE.max(magic.len());
            if self.buffer.len() > 2 * keep {
                let excess = self.buffer.len() - keep;
                self.buffer.drain(..excess);
                dropped += excess;
            }
            match self.fill(CHUNK, deadline) {
                Ok(()) => {}
                Err(FrameError::Closed) => return Err(self.no_preamble("the connection ended")),
                Err(FrameError::TimedOut) => return Err(self.no_preamble("the deadline passed")),
                Err(other) => return Err(other),
            }
        }
    }

    /// Reads a line of at most `limit` bytes, without its end.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] for a longer line, and those of [`FrameReader::next`].
    pub fn line(&mut self, limit: usize, deadline: Instant) -> Result<String, FrameError> {
        loop {
            if let Some(at) = self.buffer.iter().position(|&b| b == b'\n') {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.drain(..=at);
                return Ok(line);
            }
            if self.buffer.len() > limit {
                return Err(FrameError::TooLarge { len: self.buffer.len(), limit });
            }
            self.fill(CHUNK, deadline)?;
        }
    }

    /// Reads exactly `N` bytes that are no frame, for handshakes.
    ///
    /// # Errors
    /// Those of [`FrameReader::next`].
    pub fn bytes<const N: usize>(&mut self, deadline: Instant) -> Result<[u8; N], FrameError> {
        while self.buffer.len() < N {
            // Not one byte more: what follows belongs to who uses the socket next.
            self.fill(N - self.buffer.len(), deadline)?;
        }
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer[..N]);
        self.buffer.drain(..N);
        Ok(bytes)
    }

    /// Reads the next message.
    ///
    /// # Errors
    /// See [`FrameError`]; after [`FrameError::TimedOut`] and [`FrameError::Cancelled`] the call
    /// may be repeated, after any other the stream is of no use.
    pub fn next<T: DeserializeOwned>(&mut self, deadline: Instant) -> Result<T, FrameError> {
        let frame = self.frame(deadline)?;
        Ok(serde_json::from_slice(&frame)?)
    }

    fn frame(&mut self, deadline: Instant) -> Result<Vec<u8>, FrameError> {
        loop {
            let mut wanted = 4;
            if let Some(head) = self.buffer.first_chunk::<4>() {
                let len = u32::from_be_bytes(*head) as usize;
                if len > self.limit {
                    return Err(FrameError::TooLarge { len, limit: self.limit });
                }
                wanted += len;
                if self.buffer.len() >= wanted {
                    let body = self.buffer[4..wanted].to_vec();
                    self.buffer.drain(..wanted);
                    return Ok(body);
                }
            }
            match self.fill(CHUNK, deadline) {
                Err(FrameError::Closed) if !self.buffer.is_empty() => {
                    return Err(FrameError::Cut { got: self.buffer.len(), wanted });
                }
                other => other?,
            }
        }
    }

    /// Waits for more bytes and appends up to `most` of them to the buffer.
    fn fill(&mut self, most: usize, deadline: Instant) -> Result<(), FrameError> {
        let mut chunk = [0_u8; CHUNK];
        loop {
            match rustix::io::read(&self.fd, &mut chunk[..most.min(CHUNK)]) {
                Ok(0) => return Err(FrameError::Closed),
                Ok(n) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait_for(self.fd.as_fd(), PollFlags::IN, deadline, self.cancel.as_deref())?;
                }
                Err(Errno::CONNRESET) => return Err(FrameError::Closed),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn no_preamble(&self, end: &'static str) -> FrameError {
        FrameError::NoPreamble(NoPreamble { end, noise: quote(&self.buffer) })
    }
}

/// Writes frames.
#[derive(Debug)]
pub struct FrameWriter {
    fd: OwnedFd,
    limit: usize,
    broken: bool,
}

impl FrameWriter {
    /// Writes to `fd`, which becomes non-blocking; frames larger than `limit` bytes are refused.
    ///
    /// # Errors
    /// When the descriptor cannot be made non-blocking.
    pub fn new(fd: impl Into<OwnedFd>, limit: usize) -> io::Result<Self> {
        let fd = fd.into();
        set_nonblocking(fd.as_fd())?;
        Ok(FrameWriter { fd, limit, broken: false })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`FrameError::Blocked`] when the other side does not take it before the deadline,
    /// [`FrameError::Closed`] when it is gone; the stream is of no use after either.
    pub fn send<T: Serialize>(&mut self, message: &T, deadline: Instant) -> Result<(), FrameError> {
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, message)?;
        let len = bytes.len() - 4;
        if len > self.limit {
            return Err(FrameError::TooLarge { len, limit: self.limit });
        }
        // The limit is far below 4 GiB.
        bytes[..4].copy_from_slice(&(len as u32).to_be_bytes());
        self.write_all(&bytes, deadline)
    }

    /// Sends bytes that are no frame.
    ///
    /// # Errors
    /// Those of [`FrameWriter::send`].
    pub fn write_all(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), FrameError> {
        if self.broken {
            return Err(FrameError::Closed);
        }
        while !bytes.is_empty() {
            match rustix::io::write(&self.fd, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if let Err(error) = wait_for(self.fd.as_fd(), PollFlags::OUT, deadline, None) {
                        self.broken = true;
                        return Err(match error {
                            FrameError::TimedOut => FrameError::Blocked,
                            other => other,
                        });
                    }
                }
                Err(errno) => {
                    self.broken = true;
                    return Err(match errno {
                        Errno::PIPE | Errno::CONNRESET => FrameError::Closed,
                        other => other.into(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Readable form of the last bytes of `noise`: lines joined by ` | `, control characters replaced.
pub fn quote(noise: &[u8]) -> String {
    let tail = &noise[noise.len().saturating_sub(QUOTED_NOISE)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>())
        .map(|line: String| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" | ")
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// Waits until `fd` is ready (or closed, or in error: the next call on it tells).
fn wait_for(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    deadline: Instant,
    cancel: Option<&AtomicBool>,
) -> Result<(), FrameError> {
    loop {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(FrameError::Cancelled);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FrameError::TimedOut);
        }
        let slice = if cancel.is_some() { left.min(SLICE) } else { left };
        // Rounded up, so that the last slice does not spin.
        let slice = Timespec {
            tv_sec: slice.as_secs().min(1 << 30) as i64,
            tv_nsec: i64::from(slice.subsec_nanos()),
        };
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&slice)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair(limit: usize) -> (UnixStream, FrameReader) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, FrameReader::new(theirs, limit).unwrap())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(80)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn messages_survive_any_fragmentation() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut reader = FrameReader::new(theirs, 1000).unwrap();
        let mut bytes = Vec::new();
        let sent: Vec<String> = (0..50).map(|i| "x".repeat(i * 3)).collect();
        for text in &sent {
            let body = serde_json::to_vec(text).unwrap();
            bytes.extend((body.len() as u32).to_be_bytes());
            bytes.extend(body);
        }
        let writer = std::thread::spawn(move || {
            let mut ours = ours;
            // Pieces of 1, 2, 3 … bytes cross every kind of border.
            let mut rest = &bytes[..];
            let mut n = 1;
            while !rest.is_empty() {
                let piece = n.min(rest.len());
                ours.write_all(&rest[..piece]).unwrap();
                rest = &rest[piece..];
                n = n % 17 + 1;
            }
        });
        for text in &sent {
            assert_eq!(&reader.next::<String>(later()).unwrap(), text);
        }
        assert!(matches!(reader.next::<String>(later()), Err(FrameError::Closed)));
        writer.join().unwrap();
    }

    #[test]
    fn a_frame_cut_short_is_told_from_a_clean_end() {
        let (mut ours, mut reader) = pair(1000);
        ours.write_all(&[0, 0, 0, 9, b'"', b'a']).unwrap();
        drop(ours);
        let error = reader.next::<String>(later()).unwrap_err();
        assert!(matches!(error, FrameError::Cut { got: 6, wanted: 13 }), "{error}");
    }

    #[test]
    fn an_oversized_length_is_refused_before_its_bytes_come() {
        let (mut ours, mut reader) = pair(1000);
        ours.write_all(b"SSH-2.0-OpenSSH").unwrap();
        let error = reader.next::<String>(later()).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { limit: 1000, .. }), "{error}");
        let mut writer = FrameWriter::new(ours, 10).unwrap();
        let error = writer.send(&"more than ten bytes", later()).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { limit: 10, .. }), "{error}");
    }

    #[test]
    fn garbage_and_an_empty_frame_are_no_message() {
        for body in [&b"{]"[..], b"", b"\xff\xfe"] {
            let (mut ours, mut reader) = pair(1000);
            ours.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
            ours.write_all(body).unwrap();
            let error = reader.next::<String>(later()).unwrap_err();
            assert!(matches!(error, FrameError::Json(_)), "{error}");
        }
    }

    #[test]
    fn a_deadline_keeps_what_has_come() {
        let (mut ours, mut reader) = pair(1000);
        ours.write_all(&[0, 0, 0, 4, b'"']).unwrap();
        assert!(matches!(reader.next::<String>(soon()), Err(FrameError::TimedOut)));
        ours.write_all(b"ok\"").unwrap();
        assert_eq!(reader.next::<String>(later()).unwrap(), "ok");
    }

    #[test]
    fn noise_before_the_preamble_is_skipped() {
        let (mut ours, mut reader) = pair(1000);
        ours.write_all(b"Welcome!\n\x00\x02fabbench agent str").unwrap();
        ours.write_all(&vec![b'.'; 100_000]).unwrap();
        ours.write_all(PREAMBLE).unwrap();
        ours.write_all(&[0, 0, 0, 2, b'4', b'2']).unwrap();
        reader.skip_to(PREAMBLE, later()).unwrap();
        assert_eq!(reader.next::<u32>(later()).unwrap(), 42);
    }

    #[test]
    fn a_missing_preamble_quotes_what_came() {
        let (mut ours, mut reader) = pair(1000);
        ours.write_all(b"motd\nsh: 1: fabbench: command not found\n").unwrap();
        drop(ours);
        let text = reader.skip_to(PREAMBLE, later()).unwrap_err().to_string();
        assert!(text.contains("the connection ended"), "{text}");
        assert!(text.contains("motd | sh: 1: fabbench: command not found"), "{text}");

        let (ours, mut reader) = pair(1000);
        let text = reader.skip_to(PREAMBLE, soon()).unwrap_err().to_string();
        assert_eq!(text, "the deadline passed before the agent spoke");
        drop(ours);
    }

    #[test]
    fn endless_noise_ends_at_the_limit() {
        let (mut ours, mut reader) = pair(1000);
        let writer = std::thread::spawn(move || while ours.write_all(&[b'y'; 4096]).is_ok() {});
        let text = reader.skip_to(PREAMBLE, later()).unwrap_err().to_string();
        assert!(text.starts_with("more than 1 MiB"), "{text}");
        drop(reader);
        writer.join().unwrap();
    }

    #[test]
    fn a_side_that_does_not_read_blocks_only_until_the_deadline() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut writer = FrameWriter::new(ours, 8 << 20).unwrap();
        let large = "x".repeat(4 << 20);
        assert!(matches!(writer.send(&large, soon()), Err(FrameError::Blocked)));
        assert!(matches!(writer.send(&"more", later()), Err(FrameError::Closed)));
        drop(theirs);
    }

    #[test]
    fn cancelling_ends_a_wait() {
        let (ours, mut reader) = pair(1000);
        let flag = Arc::new(AtomicBool::new(false));
        reader.cancel_with(Some(flag.clone()));
        let setter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            flag.store(true, Ordering::Relaxed);
        });
        assert!(matches!(reader.next::<u32>(later()), Err(FrameError::Cancelled)));
        setter.join().unwrap();
        drop(ours);
    }

    /// Streams with damaged bytes end in an error or in other messages, never in a panic or a wait.
    #[test]
    fn damaged_streams_end_in_an_error() {
        use crate::session::protocol::{ToAgent, ToCoordinator};
        let mut whole = Vec::new();
        for message in [&ToAgent::Go(vec![1, 2, 3]), &ToAgent::Stop(7), &ToAgent::Bye] {
            let body = serde_json::to_vec(message).unwrap();
            whole.extend((body.len() as u32).to_be_bytes());
            whole.extend(body);
        }
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut errors = 0;
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            bytes.truncate(1 + random(bytes.len()));
            let (mut ours, mut reader) = pair(1000);
            ours.write_all(&bytes).unwrap();
            drop(ours);
            let error = loop {
                if let Err(error) = reader.next::<ToAgent>(later()) {
                    break error;
                }
            };
            assert!(!matches!(error, FrameError::TimedOut | FrameError::Io(_)), "{error}");
            errors += usize::from(!matches!(error, FrameError::Closed));
        }
        assert!(errors > 1000, "{errors}");
        assert!(serde_json::from_slice::<ToCoordinator>(&whole[4..]).is_err());
    }
}
