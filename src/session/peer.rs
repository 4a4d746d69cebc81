//! The link between the two agents of a case, and the data sockets that belong to it.
//!
//! The responder listens, the initiator dials; both prove that they know the case's token before
//! anything else is read. A stranger is dropped and the listener goes on waiting.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::frame::{FrameError, FrameReader, FrameWriter, PEER_LIMIT};
use super::token::{Answer, Purpose, Token, challenge, prove};
use crate::engine::{Note, Peer};
use crate::transport::{Failure, FailureKind, Result};

/// How long one connection may take to prove itself.
const PROOF: Duration = Duration::from_secs(5);

/// How long one address may take to answer.
const DIAL: Duration = Duration::from_secs(2);

/// How long the other end may take no note.
const TELL: Duration = Duration::from_secs(5);

/// Connections that may be proving themselves at the same time.
const STRANGERS: usize = 64;

/// How long a request to stop may be overlooked.
const SLICE: Duration = Duration::from_millis(20);

/// The responder's side: listens until it is dropped.
#[derive(Debug)]
pub struct Listener {
    addresses: Vec<SocketAddr>,
    arrivals: Receiver<(Purpose, TcpStream)>,
    waiting: Vec<(Purpose, TcpStream)>,
    door: Arc<Door>,
    thread: Option<JoinHandle<()>>,
}

/// What the accepting thread and the proving ones share.
#[derive(Debug)]
struct Door {
    token: Token,
    strangers: AtomicUsize,
    closed: AtomicBool,
}

impl Listener {
    /// Listens on those of `addresses` that can be bound (port 0 takes a free one) for who knows
    /// `token`.
    ///
    /// # Errors
    /// [`FailureKind::Missing`] when none of them can be bound, or the token is too short.
    pub fn bind(addresses: &[SocketAddr], token: &str) -> Result<Self> {
        let token = case_token(token)?;
        let mut listeners = Vec::new();
        let mut refusals = Vec::new();
        for address in addresses {
            match listen(*address) {
                Ok(listener) => listeners.push(listener),
                Err(error) => refusals.push(format!("{address} ({error})")),
            }
        }
        if listeners.is_empty() {
            let cause = format!(
                "no address can be bound: {}: give this host's address on the network between the \
                 two with addr=ADDRESS",
                if refusals.is_empty() { "none was given".to_owned() } else { refusals.join(", ") }
            );
            return Err(Failure::new(FailureKind::Missing, "listen", "peer link", cause));
        }
        let addresses = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();
        let door = Arc::new(Door {
            token,
            strangers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        let (sender, arrivals) = channel();
        let inside = door.clone();
        let thread = Some(std::thread::spawn(move || inside.keep(&listeners, &sender)));
        Ok(Listener { addresses, arrivals, waiting: Vec::new(), door, thread })
    }

    /// Where it listens, in the order given.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits up to `patience` for the initiator; `abort` ends the wait, and is set when the link
    /// breaks later.
    ///
    /// # Errors
    /// Stopped, or stalled when nobody came who knows the token.
    pub fn accept_peer(&mut self, patience: Duration, abort: &Arc<AtomicBool>) -> Result<PeerLink> {
        let deadline = Instant::now() + patience;
        let stream = self.take(Purpose::Peer, deadline, abort).map_err(|kind| {
            self.nobody(kind, "the initiator did not come to any of the addresses", patience)
        })?;
        PeerLink::new(stream, abort.clone())
    }

    /// Waits up to `patience` for data sockets 0 to `lanes` − 1; TCP_NODELAY is set on them.
    ///
    /// # Errors
    /// Stopped, or stalled when one of them did not come.
    pub fn accept_data(
        &mut self,
        lanes: u32,
        patience: Duration,
        abort: &AtomicBool,
    ) -> Result<Vec<TcpStream>> {
        let all: Vec<u32> = (0..lanes).collect();
        self.accept_lanes(&all, patience, abort)
    }

    /// Waits up to `patience` for the data sockets with these numbers, in this order; TCP_NODELAY
    /// is set on them.
    ///
    /// # Errors
    /// Stopped, or stalled when one of them did not come.
    pub fn accept_lanes(
        &mut self,
        lanes: &[u32],
        patience: Duration,
        abort: &AtomicBool,
    ) -> Result<Vec<TcpStream>> {
        let deadline = Instant::now() + patience;
        lanes
            .iter()
            .map(|&lane| {
                self.take(Purpose::Data(lane), deadline, abort).map_err(|kind| {
                    let missing = format!("data socket {lane} did not come");
                    self.nobody(kind, &missing, patience)
                })
            })
            .collect()
    }

    fn take(
        &mut self,
        purpose: Purpose,
        deadline: Instant,
        abort: &AtomicBool,
    ) -> std::result::Result<TcpStream, FailureKind> {
        loop {
            if let Some(at) = self.waiting.iter().position(|(for_what, _)| *for_what == purpose) {
                return Ok(self.waiting.swap_remove(at).1);
            }
            if abort.load(Ordering::Relaxed) {
                return Err(FailureKind::Stopped);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.arrivals.recv_timeout(left.min(SLICE)) {
                Ok(arrival) => self.waiting.push(arrival),
                Err(_) if left.is_zero() => return Err(FailureKind::Stalled),
                Err(_) => {}
            }
        }
    }

    fn nobody(&self, kind: FailureKind, missing: &str, patience: Duration) -> Failure {
        let cause = match kind {
            FailureKind::Stopped => "stopped on request before it began".to_owned(),
            _ => format!(
                "{missing} within {} s: is there a firewall, or another way to this host?",
                patience.as_secs_f64()
            ),
        };
        Failure::new(kind, "connect", format!("peer link on {}", listed(&self.addresses)), cause)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.door.closed.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within a slice; the ports are free then.
            let _ = thread.join();
        }
    }
}

impl Door {
    /// Accepts connections until the door is closed.
    fn keep(self: &Arc<Self>, listeners: &[TcpListener], arrivals: &Sender<(Purpose, TcpStream)>) {
        let slice = Timespec { tv_sec: 0, tv_nsec: i64::from(SLICE.subsec_nanos()) };
        while !self.closed.load(Ordering::Relaxed) {
            let mut ready: Vec<_> = listeners
                .iter()
                .map(|l| PollFd::from_borrowed_fd(l.as_fd(), PollFlags::IN))
                .collect();
            // An interrupted or failed poll is tried again; accepting never blocks.
            if !matches!(poll(&mut ready, Some(&slice)), Ok(n) if n > 0) {
                continue;
            }
            for listener in listeners {
                while let Ok((stream, _)) = listener.accept() {
                    self.examine(stream, arrivals.clone());
                }
            }
        }
    }

    /// Has a connection prove itself in a thread of its own; who cannot is dropped.
    fn examine(self: &Arc<Self>, stream: TcpStream, arrivals: Sender<(Purpose, TcpStream)>) {
        if self.strangers.fetch_add(1, Ordering::AcqRel) >= STRANGERS {
            self.strangers.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let door = self.clone();
        std::thread::spawn(move || {
            let admit = |purpose| (purpose != Purpose::Control).then_some(Answer::Welcome);
            let proof = challenge(stream, &door.token, Instant::now() + PROOF, admit);
            door.strangers.fetch_sub(1, Ordering::AcqRel);
            if let Ok((stream, purpose)) = proof
                && stream.set_nodelay(true).is_ok()
            {
                // The case may have given up meanwhile.
                let _ = arrivals.send((purpose, stream));
            }
        });
    }
}

/// The initiator's side: knows the way that worked.
#[derive(Debug)]
pub struct Dialer {
    token: Token,
    address: SocketAddr,
    local: Option<IpAddr>,
}

impl Dialer {
    /// Dials `addresses` in order, 2 s each: first from the local addresses `bind` of the same
    /// family, then from whichever the system chooses; links with the first that proves to know
    /// `token`. `abort` ends the attempts, and is set when the link breaks later.
    ///
    /// # Errors
    /// Stopped; or [`FailureKind::PeerLost`] with what each address said.
    pub fn connect(
        addresses: &[SocketAddr],
        bind: &[IpAddr],
        token: &str,
        patience: Duration,
        abort: &Arc<AtomicBool>,
    ) -> Result<(Self, PeerLink)> {
        let token = case_token(token)?;
        let deadline = Instant::now() + patience;
        let mut refusals = Vec::new();
        for (address, local) in ways(addresses, bind) {
            if abort.load(Ordering::Relaxed) {
                let cause = "stopped on request before it began";
                return Err(Failure::new(FailureKind::Stopped, "connect", "peer link", cause));
            }
            if Instant::now() >= deadline {
                break;
            }
            let dialer = Dialer { token: token.clone(), address, local };
            match dialer.dial(Purpose::Peer, deadline) {
                Ok(stream) => return Ok((dialer, PeerLink::new(stream, abort.clone())?)),
                Err(why) => refusals.push(why),
            }
        }
        let cause = format!(
            "the responder cannot be reached: {}: is there a firewall? Give its address on the \
             network between the two with addr=ADDRESS",
            if refusals.is_empty() { "it gave no address".to_owned() } else { refusals.join("; ") }
        );
        let object = format!("peer link to {}", listed(addresses));
        Err(Failure::new(FailureKind::PeerLost, "connect", object, cause))
    }

    /// Data sockets 0 to `lanes` − 1 over the same way; TCP_NODELAY is set on them.
    ///
    /// # Errors
    /// [`FailureKind::PeerLost`] when one cannot be connected.
    pub fn connect_data(&self, lanes: u32, patience: Duration) -> Result<Vec<TcpStream>> {
        let deadline = Instant::now() + patience;
        (0..lanes)
            .map(|lane| {
                self.dial(Purpose::Data(lane), deadline).map_err(|why| {
                    let object = format!("data socket {lane} of {lanes}");
                    Failure::new(FailureKind::PeerLost, "connect", object, why)
                })
            })
            .collect()
    }

    /// The responder's address that answered.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The local address that was bound to; none where the system chose.
    pub fn local(&self) -> Option<IpAddr> {
        self.local
    }

    fn dial(&self, purpose: Purpose, deadline: Instant) -> std::result::Result<TcpStream, String> {
        let way = match self.local {
            Some(local) => format!("{local} -> {}", self.address),
            None => self.address.to_string(),
        };
        let stream = self.socket().map_err(|error| format!("{way}: {error}"))?;
        let deadline = deadline.min(Instant::now() + PROOF);
        let stream = prove(stream, &self.token, purpose, deadline)
            .map_err(|error| format!("{way}: what listens there: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("{way}: TCP_NODELAY: {error}"))?;
        Ok(stream)
    }

    fn socket(&self) -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
        if let Some(local) = self.local {
            socket.bind(&SocketAddr::new(local, 0).into())?;
        }
        socket.connect_timeout(&self.address.into(), DIAL)?;
        Ok(socket.into())
    }
}

/// A data socket with the number `lane` to who listens on one of the addresses of `way` and knows
/// `token`; they are tried in order, 2 s each, first from the local addresses of `way`.
///
/// # Errors
/// Stopped; or [`FailureKind::PeerLost`] with what each address said.
pub fn dial_data(
    way: (&[SocketAddr], &[IpAddr]),
    token: &str,
    lane: u32,
    patience: Duration,
    abort: &AtomicBool,
) -> Result<TcpStream> {
    let token = case_token(token)?;
    let deadline = Instant::now() + patience;
    let mut refusals = Vec::new();
    for (address, local) in ways(way.0, way.1) {
        if abort.load(Ordering::Relaxed) {
            let cause = "stopped on request before it began";
            return Err(Failure::new(FailureKind::Stopped, "connect", "data socket", cause));
        }
        if Instant::now() >= deadline {
            break;
        }
        match (Dialer { token: token.clone(), address, local }).dial(Purpose::Data(lane), deadline)
        {
            Ok(stream) => return Ok(stream),
            Err(why) => refusals.push(why),
        }
    }
    let cause = format!(
        "it cannot be reached: {}: is there a firewall? Give its address on the network between \
         the two with addr=ADDRESS",
        if refusals.is_empty() { "it gave no address".to_owned() } else { refusals.join("; ") }
    );
    Err(Failure::new(FailureKind::PeerLost, "connect", "data socket", cause))
}

/// Ways to try: every address from every local address of its family, then without a choice.
fn ways(addresses: &[SocketAddr], bind: &[IpAddr]) -> Vec<(SocketAddr, Option<IpAddr>)> {
    let chosen = addresses.iter().flat_map(|address| {
        let fits = |local: &&IpAddr| local.is_ipv4() == address.is_ipv4();
        bind.iter().filter(fits).map(|local| (*address, Some(*local)))
    });
    chosen.chain(addresses.iter().map(|address| (*address, None))).collect()
}

/// What goes over the link.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    Note(Note),
    /// The speaker has all that it needs; the end of the connection is no loss.
    Bye,
}

/// The link between the two ends of a case.
///
/// A thread reads it all the time: when it breaks, or the other end closes it without
/// [`PeerLink::finish`], the case's abort flag is set at once, even while nobody listens.
#[derive(Debug)]
pub struct PeerLink {
    writer: FrameWriter,
    stream: TcpStream,
    notes: Receiver<Note>,
    watch: Arc<Watch>,
}

/// What the reading thread shares with the link and its observers.
#[derive(Debug)]
struct Watch {
    object: String,
    abort: Arc<AtomicBool>,
    closing: AtomicBool,
    loss: OnceLock<Failure>,
    last_failure: Mutex<Option<Failure>>,
}

impl PeerLink {
    fn new(stream: TcpStream, abort: Arc<AtomicBool>) -> Result<Self> {
        let refused = |error: std::io::Error| {
            Failure::new(FailureKind::Refused, "connect", "peer link", error.to_string())
        };
        let ends = || -> std::io::Result<_> {
            let object = format!("{} -> {}", stream.local_addr()?.ip(), stream.peer_addr()?.ip());
            let reader = FrameReader::new(stream.try_clone()?, PEER_LIMIT)?;
            Ok((object, reader, FrameWriter::new(stream.try_clone()?, PEER_LIMIT)?))
        };
        let (object, reader, writer) = ends().map_err(refused)?;
        let watch = Arc::new(Watch {
            object,
            abort,
            closing: AtomicBool::new(false),
            loss: OnceLock::new(),
            last_failure: Mutex::new(None),
        });
        let (sender, notes) = channel();
        let watcher = watch.clone();
        std::thread::spawn(move || watcher.read(reader, &sender));
        Ok(PeerLink { writer, stream, notes, watch })
    }

    /// The way, e.g. `10.0.0.1 -> 10.0.0.2`.
    pub fn object(&self) -> &str {
        &self.watch.object
    }

    /// This end's address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// The other end's address.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    /// Why the link is lost; none while it is well. It is what to report when the case was aborted
    /// and nobody asked for that: the failure that the other end told of, if it did.
    pub fn loss(&self) -> Option<Failure> {
        self.watch.loss.get().cloned()
    }

    /// Ends the link in good order: the other end keeps what it has and is not aborted. To be
    /// called once nothing more is needed from the other end; dropping the link without it aborts
    /// the other end.
    pub fn finish(mut self) {
        self.watch.closing.store(true, Ordering::Release);
        // The other end may have finished before.
        let _ = self.writer.send(&Word::Bye, Instant::now() + TELL);
    }
}

impl Drop for PeerLink {
    fn drop(&mut self) {
        self.watch.closing.store(true, Ordering::Release);
        // Ends the reading thread; fails when the other end has closed.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Peer for PeerLink {
    fn tell(&mut self, note: &Note) -> Result<()> {
        let sent = self.writer.send(&Word::Note(note.clone()), Instant::now() + TELL);
        sent.map_err(|error| self.watch.loss_or(&format!("a note could not be sent: {error}")))
    }

    fn hear(&mut self, wait: Duration) -> Result<Option<Note>> {
        match self.notes.recv_timeout(wait) {
            Ok(note) => Ok(Some(note)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(self.watch.loss_or("the other end has finished"))
            }
        }
    }
}

impl Watch {
    /// Passes notes on until the link ends, and says whether it was lost.
    fn read(&self, mut reader: FrameReader, notes: &Sender<Note>) {
        loop {
            let error = match reader.next(Instant::now() + Duration::from_secs(3600)) {
                Ok(Word::Note(note)) => {
                    if let Note::Failed(failure) = &note {
                        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some(failure.clone());
                    }
                    if notes.send(note).is_err() {
                        return;
                    }
                    continue;
                }
                Ok(Word::Bye) => return,
                Err(FrameError::TimedOut) => continue,
                Err(error) => error,
            };
            if !self.closing.load(Ordering::Acquire) {
                self.lose(&error);
            }
            return;
        }
    }

    fn lose(&self, error: &FrameError) {
        let told = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let cause = match told {
            Some(failure) => format!("the other end gave up: {failure}"),
            None => format!("the other end of the case is gone, or the path to it: {error}"),
        };
        let failure = Failure::new(FailureKind::PeerLost, "peer link", &*self.object, cause);
        // Nobody else sets it.
        let _ = self.loss.set(failure);
        self.abort.store(true, Ordering::Relaxed);
    }

    fn loss_or(&self, otherwise: &str) -> Failure {
        let lost = || Failure::new(FailureKind::PeerLost, "peer link", &*self.object, otherwise);
        self.loss.get().cloned().unwrap_or_else(lost)
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn case_token(token: &str) -> Result<Token> {
    Token::new(token.as_bytes())
        .map_err(|why| Failure::new(FailureKind::Internal, "connect", "case token", why))
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn any() -> [SocketAddr; 1] {
        ["127.0.0.1:0".parse().unwrap()]
    }

    fn flag() -> Arc<AtomicBool> {
        Arc::default()
    }

    const LONG: Duration = Duration::from_secs(10);

    /// A listener with its initiator's link and its own.
    fn linked(aborts: [&Arc<AtomicBool>; 2]) -> (Listener, PeerLink, Dialer, PeerLink) {
        let mut listener = Listener::bind(&any(), TOKEN).unwrap();
        let addresses = listener.addresses().to_vec();
        let (dialer, initiator) = Dialer::connect(&addresses, &[], TOKEN, LONG, aborts[0]).unwrap();
        let responder = listener.accept_peer(LONG, aborts[1]).unwrap();
        (listener, responder, dialer, initiator)
    }

    fn wait_until_set(flag: &AtomicBool) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !flag.load(Ordering::Relaxed) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn notes_go_both_ways_in_order() {
        let (_listener, mut a, _dialer, mut b) = linked([&flag(), &flag()]);
        for repeat in 0..100 {
            a.tell(&Note::Ready { repeat }).unwrap();
        }
        b.tell(&Note::Ping).unwrap();
        for repeat in 0..100 {
            assert_eq!(b.hear(LONG).unwrap(), Some(Note::Ready { repeat }));
        }
        assert_eq!(a.hear(LONG).unwrap(), Some(Note::Ping));
        assert_eq!(a.hear(Duration::ZERO).unwrap(), None);
        assert_eq!(a.object(), "127.0.0.1 -> 127.0.0.1");
    }

    #[test]
    fn strangers_are_dropped_and_the_peer_is_still_admitted() {
        let mut listener = Listener::bind(&any(), TOKEN).unwrap();
        let addresses = listener.addresses().to_vec();
        let _silent = TcpStream::connect(addresses[0]).unwrap();
        let mut garbage = TcpStream::connect(addresses[0]).unwrap();
        garbage.write_all(b"\x16\x03\x01 this is no greeting of ours at all").unwrap();
        let wrong = "ffffffffffffffffffffffffffffffff";
        let refused = Dialer::connect(&addresses, &[], wrong, LONG, &flag()).unwrap_err();
        assert_eq!(refused.kind, FailureKind::PeerLost);
        assert!(refused.cause.contains("it does not know the token"), "{refused}");
        let patience = Duration::from_millis(50);
        let nobody = listener.accept_peer(patience, &flag()).unwrap_err();
        assert_eq!(nobody.kind, FailureKind::Stalled, "no stranger is taken for the peer");
        let (_dialer, _link) = Dialer::connect(&addresses, &[], TOKEN, LONG, &flag()).unwrap();
        listener.accept_peer(LONG, &flag()).unwrap();
        assert_eq!(garbage.read(&mut [0; 10]).unwrap_or(0), 0, "told nothing");
    }

    #[test]
    fn data_sockets_come_by_number_whatever_their_order() {
        let (mut listener, _a, dialer, _b) = linked([&flag(), &flag()]);
        let connecting = std::thread::spawn(move || dialer.connect_data(4, LONG).unwrap());
        let far = listener.accept_data(4, LONG, &AtomicBool::new(false)).unwrap();
        let near = connecting.join().unwrap();
        for (lane, (mut near, mut far)) in near.into_iter().zip(far).enumerate() {
            assert!(near.nodelay().unwrap() && far.nodelay().unwrap());
            near.write_all(&[lane as u8]).unwrap();
            let mut got = [0];
            far.read_exact(&mut got).unwrap();
            assert_eq!(got[0], lane as u8);
        }
        let missing = listener.accept_data(1, Duration::from_millis(30), &AtomicBool::new(false));
        assert!(missing.unwrap_err().cause.contains("data socket 0 did not come"));
    }

    #[test]
    fn a_lost_link_aborts_and_is_named_a_finished_one_is_not() {
        let (near, far) = (flag(), flag());
        let (_listener, responder, _dialer, mut initiator) = linked([&near, &far]);
        drop(responder);
        wait_until_set(&near);
        let loss = initiator.loss().unwrap();
        assert!(loss.cause.contains("the other end of the case is gone"), "{loss}");
        assert_eq!(initiator.hear(LONG).unwrap_err(), loss);

        let (near, far) = (flag(), flag());
        let (_listener, mut responder, _dialer, mut initiator) = linked([&near, &far]);
        responder.tell(&Note::Ready { repeat: 9 }).unwrap();
        responder.finish();
        assert_eq!(initiator.hear(LONG).unwrap(), Some(Note::Ready { repeat: 9 }));
        let ended = initiator.hear(LONG).unwrap_err();
        assert!(ended.cause.contains("the other end has finished"), "{ended}");
        assert!(!near.load(Ordering::Relaxed) && initiator.loss().is_none());
    }

    #[test]
    fn the_reason_that_the_other_end_gave_is_kept() {
        let near = flag();
        let (_listener, mut responder, _dialer, initiator) = linked([&near, &flag()]);
        let failure = Failure::new(FailureKind::Refused, "RDMA WRITE", "rxe0:1", "bad key");
        responder.tell(&Note::Failed(failure)).unwrap();
        drop(responder);
        wait_until_set(&near);
        let loss = initiator.loss().unwrap().to_string();
        assert!(loss.contains("the other end gave up: rxe0:1: RDMA WRITE: bad key"), "{loss}");
    }

    #[test]
    fn addresses_are_tried_in_order_and_from_the_given_ones_first() {
        let mut listener = Listener::bind(&any(), TOKEN).unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let addresses = [closed, listener.addresses()[0]];
        let bind = ["127.0.0.2".parse().unwrap(), "::1".parse().unwrap()];
        let (dialer, link) = Dialer::connect(&addresses, &bind, TOKEN, LONG, &flag()).unwrap();
        assert_eq!((dialer.address(), dialer.local()), (addresses[1], Some(bind[0])));
        let responder = listener.accept_peer(LONG, &flag()).unwrap();
        assert_eq!(responder.remote().unwrap().ip(), bind[0]);
        assert_eq!(link.local().unwrap().ip(), bind[0]);
        let foreign = ["192.0.2.1".parse().unwrap()];
        let (dialer, _link) = Dialer::connect(&addresses, &foreign, TOKEN, LONG, &flag()).unwrap();
        assert_eq!(dialer.local(), None, "not an address of this host");
    }

    #[test]
    fn waits_end_on_request_and_ports_are_free_afterwards() {
        let mut listener = Listener::bind(&any(), TOKEN).unwrap();
        let address = listener.addresses()[0];
        let abort = flag();
        abort.store(true, Ordering::Relaxed);
        let stopped = listener.accept_peer(LONG, &abort).unwrap_err();
        assert_eq!(stopped.kind, FailureKind::Stopped);
        let stopped = Dialer::connect(&[address], &[], TOKEN, LONG, &abort).unwrap_err();
        assert_eq!(stopped.kind, FailureKind::Stopped);
        drop(listener);
        TcpListener::bind(address).unwrap();
        let foreign = ["192.0.2.1:0".parse().unwrap()];
        let refused = Listener::bind(&foreign, TOKEN).unwrap_err();
        assert!(refused.cause.contains("192.0.2.1:0 ("), "{refused}");
    }
}
