//! An agent that was started by hand and admits who proves to know its token.

use std::cell::Cell;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{CaseRunner, serve};
use crate::session::frame::{CONTROL_LIMIT, FrameReader, FrameWriter};
use crate::session::token::{Answer, Purpose, Token, challenge};

/// How long a stranger may take to prove itself.
const PROOF: Duration = Duration::from_secs(5);

/// Strangers that may be proving themselves at the same time.
const STRANGERS: usize = 16;

/// An agent bound to an address.
#[derive(Debug)]
pub struct ListeningAgent {
    listener: TcpListener,
    token: Token,
}

impl ListeningAgent {
    /// Binds `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn bind(address: SocketAddr, token: Token) -> io::Result<Self> {
        Ok(ListeningAgent { listener: TcpListener::bind(address)?, token })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves one session after the other and never returns; `log` gets one line for each event.
    ///
    /// Who does not know the token, or says something else, is dropped after 5 s at the latest; who
    /// knows it while a session is under way is told so.
    pub fn run(self, runner: Arc<dyn CaseRunner>, log: fn(&str)) -> ! {
        let desk = Arc::new(Desk {
            token: self.token,
            runner,
            log,
            busy: AtomicBool::new(false),
            strangers: AtomicUsize::new(0),
        });
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => desk.receive(stream, from),
                Err(error) => {
                    // Out of descriptors or the like: give others the time to go.
                    log(&format!("accept: {error}"));
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

/// What all connections share.
struct Desk {
    token: Token,
    runner: Arc<dyn CaseRunner>,
    log: fn(&str),
    busy: AtomicBool,
    strangers: AtomicUsize,
}

impl Desk {
    fn receive(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        if self.strangers.fetch_add(1, Ordering::AcqRel) >= STRANGERS {
            self.strangers.fetch_sub(1, Ordering::AcqRel);
            (self.log)(&format!("{from}: refused: too many connections prove themselves"));
            return;
        }
        let desk = self.clone();
        std::thread::spawn(move || desk.admit(stream, from));
    }

    fn admit(&self, stream: TcpStream, from: SocketAddr) {
        let claimed = Cell::new(false);
        let proof = challenge(stream, &self.token, Instant::now() + PROOF, |purpose| {
            if purpose != Purpose::Control {
                return None;
            }
            claimed.set(!self.busy.swap(true, Ordering::AcqRel));
            Some(if claimed.get() { Answer::Welcome } else { Answer::Busy })
        });
        self.strangers.fetch_sub(1, Ordering::AcqRel);
        match proof {
            Ok((stream, _)) => {
                (self.log)(&format!("{from}: session began"));
                let end = self.session(stream);
                (self.log)(&format!("{from}: session ended: {end}"));
            }
            Err(error) => (self.log)(&format!("{from}: refused: {error}")),
        }
        if claimed.get() {
            self.busy.store(false, Ordering::Release);
        }
    }

    fn session(&self, stream: TcpStream) -> String {
        let ends = || -> io::Result<(FrameReader, FrameWriter)> {
            stream.set_nodelay(true)?;
            let reader = FrameReader::new(stream.try_clone()?, CONTROL_LIMIT)?;
            Ok((reader, FrameWriter::new(stream.try_clone()?, CONTROL_LIMIT)?))
        };
        match ends() {
            Ok((reader, writer)) => {
                let ended = serve(reader, writer, "", self.runner.clone());
                // Threads that were given up may still hold the socket. It may be gone already.
                let _ = stream.shutdown(Shutdown::Both);
                ended.to_string()
            }
            Err(error) => error.to_string(),
        }
    }
}
