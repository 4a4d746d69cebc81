//! Proof that both ends of a connection know the same secret, without ever sending it.
//!
//! The connecting side says what it wants and a nonce; the listening side answers with its own
//! nonce; the connecting side proves itself first, so a stranger learns nothing, not even a
//! digest; then the listening side proves itself.
//!
//! ```text
//! connector → listener   magic, purpose, lane, 32-byte nonce C
//! listener  → connector  32-byte nonce L
//! connector → listener   HMAC-SHA256(token, "connector" · purpose · lane · C · L)
//! listener  → connector  answer byte, HMAC-SHA256(token, "listener" · answer · purpose · lane · C · L)
//! ```

use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::frame::{FrameError, FrameReader, FrameWriter};

const MAGIC: [u8; 8] = *b"fabauth1";
const NONCE: usize = 32;
const DIGEST: usize = 32;

/// Fewest bytes of a secret.
pub const SHORTEST_TOKEN: usize = 16;

/// A shared secret; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The secret `bytes`, surrounding white space taken off.
    ///
    /// # Errors
    /// Says so when it is shorter than [`SHORTEST_TOKEN`] bytes: a guessable secret is none.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.trim_ascii();
        if bytes.len() < SHORTEST_TOKEN {
            return Err(format!(
                "a token needs at least {SHORTEST_TOKEN} bytes, this has {}: \
                 make one with `openssl rand -hex 32`",
                bytes.len()
            ));
        }
        Ok(Token(bytes.to_vec()))
    }

    /// The secret in the file at `path`.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn from_file(path: &std::path::Path) -> Result<Self, String> {
        let bytes = std::fs::read(path)
            .map_err(|error| format!("token file {}: {error}", path.display()))?;
        Token::new(&bytes).map_err(|why| format!("token file {}: {why}", path.display()))
    }

    /// A new secret of 32 random bytes, in hexadecimal.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn random() -> std::io::Result<String> {
        Ok(hex::encode(random::<32>()?))
    }
}

/// A warning when others than its owner may read the token file at `path`.
pub fn exposed(path: &std::path::Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).ok()?;
    let mode = metadata.permissions().mode() & 0o777;
    let path = path.display();
    (metadata.is_file() && mode & 0o077 != 0).then(|| {
        format!("token file {path}: others may read it (mode {mode:04o}): chmod 600 {path}")
    })
}

/// `N` random bytes of the system.
///
/// # Errors
/// When the system has none.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// What a connection is for; part of what both ends prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A coordinator's session with an agent.
    Control,
    /// The link between the two agents of a case.
    Peer,
    /// Payload of this lane.
    Data(u32),
    /// A rank that a launcher started, at rank 0.
    Join {
        /// Own number.
        rank: u16,
        /// Number of ranks.
        size: u16,
    },
}

impl Purpose {
    fn to_bytes(self) -> [u8; 5] {
        let (tag, lane) = match self {
            Purpose::Control => (1, 0),
            Purpose::Peer => (2, 0),
            Purpose::Data(lane) => (3, lane),
            Purpose::Join { rank, size } => (4, u32::from(rank) << 16 | u32::from(size)),
        };
        let [a, b, c, d] = u32::to_be_bytes(lane);
        [tag, a, b, c, d]
    }

    fn from_bytes(bytes: [u8; 5]) -> Option<Self> {
        let [tag, lane @ ..] = bytes;
        match (tag, u32::from_be_bytes(lane)) {
            (1, 0) => Some(Purpose::Control),
            (2, 0) => Some(Purpose::Peer),
            (3, lane) => Some(Purpose::Data(lane)),
            (4, both) => Some(Purpose::Join { rank: (both >> 16) as u16, size: both as u16 }),
            _ => None,
        }
    }
}

/// What the listening side says to who has proved the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Welcome,
    /// Another session is under way.
    Busy,
}

/// Why a connection was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It does not speak this protocol.
    #[error("what came is not fabbench's greeting")]
    Garbage,
    /// It does not know the token.
    #[error("it does not know the token")]
    WrongToken,
    /// The agent serves another session.
    #[error("it is busy with another session")]
    Busy,
    /// The connection ended or was silent.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Admits the other end of `stream` if it knows `token` and wants what `admit` allows.
///
/// Reads a fixed number of bytes at most. The stream is blocking again afterwards.
///
/// # Errors
/// See [`TokenError`]; the connection is closed then.
pub fn challenge(
    stream: TcpStream,
    token: &Token,
    deadline: Instant,
    admit: impl FnOnce(Purpose) -> Option<Answer>,
) -> Result<(TcpStream, Purpose), TokenError> {
    let mut wire = Wire::new(&stream)?;
    let hello: [u8; 13] = wire.reader.bytes(deadline)?;
    let (magic, wanted) = hello.split_at(8);
    let wanted: [u8; 5] = wanted.try_into().map_err(|_| TokenError::Garbage)?;
    let purpose = Purpose::from_bytes(wanted).ok_or(TokenError::Garbage)?;
    if magic != MAGIC {
        return Err(TokenError::Garbage);
    }
    let theirs: [u8; NONCE] = wire.reader.bytes(deadline)?;
    let ours = random::<NONCE>()?;
    wire.writer.write_all(&ours, deadline)?;
    let proof: [u8; DIGEST] = wire.reader.bytes(deadline)?;
    // `verify_slice` compares in constant time.
    digest(token, &[b"connector", &wanted, &theirs, &ours])
        .verify_slice(&proof)
        .map_err(|_| TokenError::WrongToken)?;
    let answer = admit(purpose).ok_or(TokenError::Garbage)?;
    let code = [match answer {
        Answer::Welcome => b'w',
        Answer::Busy => b'b',
    }];
    let own = digest(token, &[b"listener", &code, &wanted, &theirs, &ours]).finalize().into_bytes();
    let mut reply = code.to_vec();
    reply.extend_from_slice(&own);
    wire.writer.write_all(&reply, deadline)?;
    drop(wire);
    match answer {
        Answer::Welcome => {
            stream.set_nonblocking(false)?;
            Ok((stream, purpose))
        }
        Answer::Busy => {
            stream.shutdown(Shutdown::Both)?;
            Err(TokenError::Busy)
        }
    }
}

/// Proves `token` to the listening end of `stream` and checks that it knows it too.
///
/// The stream is blocking again afterwards.
///
/// # Errors
/// See [`TokenError`]; a listener that closes the connection instead of answering did not
/// recognise the token.
pub fn prove(
    stream: TcpStream,
    token: &Token,
    purpose: Purpose,
    deadline: Instant,
) -> Result<TcpStream, TokenError> {
    let mut wire = Wire::new(&stream)?;
    let wanted = purpose.to_bytes();
    let ours = random::<NONCE>()?;
    wire.writer.write_all(&[&MAGIC[..], &wanted, &ours].concat(), deadline)?;
    let theirs: [u8; NONCE] = wire.reader.bytes(deadline)?;
    let proof = digest(token, &[b"connector", &wanted, &ours, &theirs]).finalize().into_bytes();
    wire.writer.write_all(&proof, deadline)?;
    let reply: [u8; 1 + DIGEST] = wire.reader.bytes(deadline).map_err(|error| match error {
        FrameError::Closed => TokenError::WrongToken,
        other => other.into(),
    })?;
    let (code, proof) = reply.split_at(1);
    digest(token, &[b"listener", code, &wanted, &ours, &theirs])
        .verify_slice(proof)
        .map_err(|_| TokenError::WrongToken)?;
    drop(wire);
    if code != b"w" {
        return Err(TokenError::Busy);
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Both directions of a stream for the time of a handshake.
struct Wire {
    reader: FrameReader,
    writer: FrameWriter,
}

impl Wire {
    fn new(stream: &TcpStream) -> std::io::Result<Self> {
        let half = || -> std::io::Result<OwnedFd> { Ok(stream.try_clone()?.into()) };
        Ok(Wire { reader: FrameReader::new(half()?, 0)?, writer: FrameWriter::new(half()?, 0)? })
    }
}

fn digest(token: &Token, parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC takes keys of any length, so this cannot fail.
    let mut mac = match Hmac::<Sha256>::new_from_slice(&token.0) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC-SHA256 takes keys of any length"),
    };
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    fn token(text: &str) -> Token {
        Token::new(text.as_bytes()).unwrap()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn the_same_token_admits_and_the_stream_works_on() {
        let (near, far) = sockets();
        let listener = std::thread::spawn(move || {
            challenge(far, &token("0123456789abcdef"), later(), |_| Some(Answer::Welcome)).unwrap()
        });
        let near = prove(near, &token(" 0123456789abcdef\n"), Purpose::Data(7), later()).unwrap();
        let (far, purpose) = listener.join().unwrap();
        assert_eq!(purpose, Purpose::Data(7));
        (&near).write_all(b"payload").unwrap();
        let mut got = [0; 7];
        (&far).read_exact(&mut got).unwrap();
        assert_eq!(&got, b"payload");
    }

    #[test]
    fn another_token_is_refused_on_both_ends() {
        let (near, far) = sockets();
        let listener = std::thread::spawn(move || {
            challenge(far, &token("0123456789abcdef"), later(), |_| Some(Answer::Welcome)).map(drop)
        });
        let error = prove(near, &token("0123456789abcdeX"), Purpose::Peer, later()).unwrap_err();
        assert!(matches!(error, TokenError::WrongToken), "{error}");
        let error = listener.join().unwrap().unwrap_err();
        assert!(matches!(error, TokenError::WrongToken), "{error}");
    }

    #[test]
    fn a_listener_that_does_not_know_the_token_is_found_out() {
        let (near, mut far) = sockets();
        let fake = std::thread::spawn(move || {
            let mut hello = [0; 45];
            far.read_exact(&mut hello).unwrap();
            far.write_all(&[0; NONCE]).unwrap();
            far.read_exact(&mut [0; DIGEST]).unwrap();
            far.write_all(&[b'w'; 1 + DIGEST]).unwrap();
        });
        let error = prove(near, &token("0123456789abcdef"), Purpose::Peer, later()).unwrap_err();
        assert!(matches!(error, TokenError::WrongToken), "{error}");
        fake.join().unwrap();
    }

    #[test]
    fn garbage_and_silence_are_refused() {
        let (mut near, far) = sockets();
        near.write_all(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").unwrap();
        let error = challenge(far, &token("0123456789abcdef"), later(), |_| None).unwrap_err();
        assert!(matches!(error, TokenError::Garbage), "{error}");

        let (_near, far) = sockets();
        let soon = Instant::now() + Duration::from_millis(50);
        let error = challenge(far, &token("0123456789abcdef"), soon, |_| None).unwrap_err();
        assert!(matches!(error, TokenError::Frame(FrameError::TimedOut)), "{error}");
    }

    #[test]
    fn a_busy_agent_says_so_only_to_who_knows_the_token() {
        let (near, far) = sockets();
        let listener = std::thread::spawn(move || {
            challenge(far, &token("0123456789abcdef"), later(), |_| Some(Answer::Busy)).map(drop)
        });
        let error = prove(near, &token("0123456789abcdef"), Purpose::Control, later()).unwrap_err();
        assert!(matches!(error, TokenError::Busy), "{error}");
        assert!(listener.join().unwrap().is_err());
    }

    #[test]
    fn short_secrets_are_refused_and_none_is_printed() {
        assert!(Token::new(b"hunter2\n").unwrap_err().contains("at least 16 bytes"));
        assert!(!format!("{:?}", token("0123456789abcdef")).contains("0123"));
        assert_eq!(Token::random().unwrap().len(), 64);
    }
}
