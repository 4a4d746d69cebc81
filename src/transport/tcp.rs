//! Bytes through connected TCP sockets: the baseline that RDMA is compared with.
//!
//! Messages are only a count of bytes: nothing marks where one ends. A message is finished when the
//! kernel has taken its last byte, and has arrived when its last byte was read here.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::transport::{Bytes, Failure, FailureKind, Result, Stream};

/// Largest piece handed to the kernel or taken from it at once.
const PIECE: usize = 256 * 1024;

/// Most bytes that a lane takes before the kernel has taken those; at least one message.
const MOST_PENDING: u64 = 1 << 20;

/// Most reads from one lane before the next one has its turn.
const READS: usize = 4;

/// Longest time to wait in the kernel.
const LONGEST_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The same for a call that waits for bytes.
const LONGEST_RECEIVE: Duration = Duration::from_millis(10);

/// What to do while nothing can be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polling {
    /// Look again so many times before waiting in the kernel: quick, at the price of a CPU.
    Busy(u32),
    /// Wait in the kernel: the other side, or the kernel itself, may need this CPU.
    Events,
    /// Likewise, where one side speaks at a time: nothing can have come before it was waited for, so
    /// a round is one call to send and one that waits for the answer and takes it.
    Turns,
}

impl Polling {
    /// For ping-pong on a host with so many usable CPUs: with few of them whoever spins keeps the
    /// kernel's own network work, or the other end, from running.
    pub fn for_cpus(cpus: usize) -> Self {
        if cpus >= 4 { Polling::Busy(10_000) } else { Polling::Turns }
    }

    /// The word used in reports.
    pub fn word(self) -> &'static str {
        match self {
            Polling::Busy(_) => "busy",
            Polling::Events | Polling::Turns => "events",
        }
    }
}

/// One socket.
#[derive(Debug)]
struct Lane {
    socket: TcpStream,
    /// Bytes of started messages that the kernel has not taken yet.
    pending: u64,
    /// The kernel took no more a moment ago: asking again at once would be a call for nothing.
    full: bool,
    started: u64,
    reported: u64,
    received: u64,
}

/// Several sockets to one peer.
#[derive(Debug)]
pub struct TcpLanes {
    object: String,
    lanes: Vec<Lane>,
    size: u64,
    polling: Polling,
    payload: Vec<u8>,
    sink: Vec<u8>,
}

impl TcpLanes {
    /// Over connected `sockets`, for messages of `size` bytes (at least 1). Buffer sizes are left
    /// to the kernel, which tunes them.
    ///
    /// # Errors
    /// The kernel refuses to make a socket non-blocking or to send small segments at once.
    pub fn new(sockets: Vec<TcpStream>, size: u64, polling: Polling) -> Result<Self> {
        let object = sockets.first().map_or_else(|| "no socket".into(), name);
        let size = size.max(1);
        for socket in &sockets {
            let refused = |operation| move |error| io_failure(operation, &name(socket), &error);
            // Calls are non-blocking one by one; the one that waits must end.
            socket.set_nonblocking(false).map_err(refused("set blocking"))?;
            socket
                .set_read_timeout(Some(LONGEST_RECEIVE))
                .map_err(refused("limit the time of receiving"))?;
            socket.set_nodelay(true).map_err(refused("set TCP_NODELAY"))?;
        }
        let lanes = sockets
            .into_iter()
            .map(|socket| Lane {
                socket,
                pending: 0,
                full: false,
                started: 0,
                reported: 0,
                received: 0,
            })
            .collect();
        let piece = usize::try_from(size).unwrap_or(PIECE).min(PIECE);
        let payload = vec![0x5a; PIECE / piece * piece];
        Ok(TcpLanes { object, lanes, size, polling, payload, sink: vec![0; PIECE] })
    }

    /// Segments that the kernel has sent again since the sockets were made, over all of them.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn retransmits(&self) -> Result<u64> {
        let ask = |lane: &Lane| {
            total_retrans(&lane.socket)
                .map_err(|error| io_failure("read TCP_INFO", &name(&lane.socket), &error))
        };
        self.lanes.iter().map(|lane| ask(lane).map(u64::from)).sum()
    }

    /// Bytes that the payload cycles through.
    pub fn working_set(&self) -> u64 {
        self.payload.len() as u64
    }

    /// Hands pending bytes of `lane` to the kernel; true when none are left.
    fn push(&mut self, lane: usize) -> Result<bool> {
        let Lane { socket, pending, .. } = &mut self.lanes[lane];
        while *pending > 0 {
            let len = usize::try_from(*pending).unwrap_or(PIECE).min(self.payload.len());
            match put(socket, &self.payload[..len], &self.object)? {
                0 => return Ok(false),
                n => *pending -= n as u64,
            }
        }
        Ok(true)
    }

    fn wait(&mut self, writing: impl Fn(&Lane) -> bool) -> Result<bool> {
        let mut descriptors: Vec<_> = self
            .lanes
            .iter()
            .map(|lane| {
                let out = if writing(lane) { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::from_borrowed_fd(lane.socket.as_fd(), PollFlags::IN | out)
            })
            .collect();
        match poll(&mut descriptors, Some(&LONGEST_WAIT)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(io_failure("poll", &self.object, &error.into())),
        }
    }

    /// Waits for the answer and takes what there is of it.
    fn await_answer(&mut self) -> Result<()> {
        let Lane { socket, received, .. } = &mut self.lanes[0];
        *received += take(socket, &mut self.sink, RecvFlags::empty(), &self.object)? as u64;
        Ok(())
    }

    /// Whether all that may happen is that bytes come on the only socket.
    fn listens(&self) -> bool {
        self.polling == Polling::Turns && self.lanes.len() == 1 && self.lanes[0].pending == 0
    }

    fn spins(&self, empty: u32) -> bool {
        matches!(self.polling, Polling::Busy(looks) if empty < looks)
    }
}

impl Stream for TcpLanes {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn must_drain(&self) -> bool {
        true
    }

    fn start(&mut self, lane: usize, n: u32) -> Result<u32> {
        if self.lanes[lane].pending > 0 && !self.push(lane)? {
            self.lanes[lane].full = true;
            return Ok(0);
        }
        // More would only lengthen the way to the end of a repeat.
        let n = n.min((MOST_PENDING / self.size).clamp(1, u64::from(u32::MAX)) as u32);
        self.lanes[lane].pending = u64::from(n) * self.size;
        self.lanes[lane].started += u64::from(n);
        self.lanes[lane].full = !self.push(lane)?;
        Ok(n)
    }

    fn finished(&mut self, per_lane: &mut [u64]) -> Result<u32> {
        let mut sum = 0;
        for (index, count) in per_lane.iter_mut().enumerate().take(self.lanes.len()) {
            if !std::mem::take(&mut self.lanes[index].full) {
                self.push(index)?;
            }
            let size = self.size;
            let lane = &mut self.lanes[index];
            let new = lane.started - lane.pending.div_ceil(size) - lane.reported;
            lane.reported += new;
            *count += new;
            sum += new;
        }
        Ok(sum as u32)
    }

    fn arrived(&mut self) -> Result<u64> {
        if self.listens() {
            return Ok(self.lanes[0].received / self.size);
        }
        let mut messages = 0;
        for lane in &mut self.lanes {
            for _ in 0..READS {
                let n = get(&lane.socket, &mut self.sink, &self.object)?;
                lane.received += n as u64;
                if n < self.sink.len() {
                    break;
                }
            }
            messages += lane.received / self.size;
        }
        Ok(messages)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn idle(&mut self, empty: u32) -> Result<bool> {
        if self.spins(empty) {
            return Ok(false);
        }
        if self.listens() {
            return self.await_answer().map(|()| true);
        }
        self.wait(|lane| lane.pending > 0)
    }
}

impl Bytes for TcpLanes {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn write(&mut self, lane: usize, from: &[u8]) -> Result<usize> {
        put(&self.lanes[lane].socket, from, &self.object)
    }

    fn read(&mut self, lane: usize, into: &mut [u8]) -> Result<usize> {
        get(&self.lanes[lane].socket, into, &self.object)
    }

    fn idle(&mut self, empty: u32, writing: bool) -> Result<bool> {
        if self.spins(empty) {
            return Ok(false);
        }
        self.wait(|_| writing)
    }

    fn idle_on(&mut self, empty: u32, reading: &[usize], writing: &[usize]) -> Result<bool> {
        if self.spins(empty) {
            return Ok(false);
        }
        let interest = |lane: &usize| {
            let of =
                |list: &[usize], flag| if list.contains(lane) { flag } else { PollFlags::empty() };
            of(reading, PollFlags::IN) | of(writing, PollFlags::OUT)
        };
        let mut descriptors: Vec<_> = (0..self.lanes.len())
            .filter(|lane| !interest(lane).is_empty())
            .map(|lane| PollFd::from_borrowed_fd(self.lanes[lane].socket.as_fd(), interest(&lane)))
            .collect();
        match poll(&mut descriptors, Some(&LONGEST_WAIT)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(io_failure("poll", &self.object, &error.into())),
        }
    }
}

/// Writes without waiting; 0 when the socket is full.
fn put(socket: &TcpStream, from: &[u8], object: &str) -> Result<usize> {
    match send(socket, from, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map_err(Into::into) {
        Ok(n) => Ok(n),
        Err(error) if waits(&error) => Ok(0),
        Err(error) => Err(io_failure("TCP send", object, &error)),
    }
}

/// Reads without waiting; 0 when nothing is there.
fn get(socket: &TcpStream, into: &mut [u8], object: &str) -> Result<usize> {
    take(socket, into, RecvFlags::DONTWAIT, object)
}

/// Reads; 0 when nothing came.
fn take(socket: &TcpStream, into: &mut [u8], flags: RecvFlags, object: &str) -> Result<usize> {
    let wants = !into.is_empty();
    match recv(socket, into, flags).map(|(_, n)| n).map_err(Into::into) {
        Ok(0) if wants => {
            let cause = "the peer has closed the connection: look for its error";
            Err(Failure::new(FailureKind::PeerLost, "TCP receive", object, cause))
        }
        Ok(n) => Ok(n),
        Err(error) if waits(&error) => Ok(0),
        Err(error) => Err(io_failure("TCP receive", object, &error)),
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn name(socket: &TcpStream) -> String {
    let text = |address: std::io::Result<std::net::SocketAddr>| {
        address.map_or_else(|_| "?".into(), |address| address.to_string())
    };
    format!("{} -> {}", text(socket.local_addr()), text(socket.peer_addr()))
}

fn io_failure(operation: &str, object: &str, error: &std::io::Error) -> Failure {
    let (kind, hint) = match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            (FailureKind::PeerLost, "the other end is gone: look for its error")
        }
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            (FailureKind::PeerLost, "the path is broken: look at link and routes")
        }
        _ => (FailureKind::Refused, "the system refused"),
    };
    Failure::new(kind, operation, object, format!("{error}: {hint}"))
}

/// The kernel's count of segments of this socket that it has sent again.
fn total_retrans(socket: &TcpStream) -> std::io::Result<u32> {
    use std::os::fd::AsRawFd;
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open, `info` is writable for `len` bytes, and the kernel writes no
    // more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: tcp_info holds integers only, all of which began as zero.
    Ok(unsafe { info.assume_init() }.tcpi_total_retrans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::local::LocalPeer;
    use crate::engine::testing::both;
    use crate::engine::{End, ping_pong, stream};
    use crate::measure::clock::Clock;
    use std::net::TcpListener;

    const MS: u64 = 1_000_000;

    fn connected(lanes: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (0..lanes)
            .map(|_| {
                let socket = TcpStream::connect(address).unwrap();
                (socket, listener.accept().unwrap().0)
            })
            .unzip()
    }

    fn lanes(n: usize, size: u64) -> (TcpLanes, TcpLanes) {
        let (left, right) = connected(n);
        let make = |sockets| TcpLanes::new(sockets, size, Polling::Events).unwrap();
        (make(left), make(right))
    }

    #[test]
    fn partial_writes_are_kept_until_there_is_room() {
        const SIZE: u64 = 30_000_001;
        let (mut left, mut right) = lanes(1, SIZE);
        assert_eq!(left.start(0, 8).unwrap(), 1, "one message is more than enough");
        assert_eq!(left.start(0, 1).unwrap(), 0, "a full socket takes no more");
        let mut counts = [0];
        assert_eq!(left.finished(&mut counts).unwrap(), 0);
        while counts[0] < 1 || right.arrived().unwrap() < 1 {
            left.finished(&mut counts).unwrap();
            right.arrived().unwrap();
        }
        assert_eq!((counts[0], right.lanes[0].received), (1, SIZE));
        assert!(left.start(0, 1).unwrap() == 1, "there is room again");
        assert!(left.retransmits().unwrap() < 1_000);
    }

    #[test]
    fn streams_run_both_ways_at_once_with_equal_totals() {
        let (left, right) = lanes(3, 50_000);
        let flow = stream::Flow {
            starts: true,
            collects: true,
            fetches: false,
            warmup_ns: 5 * MS,
            window_ns: 100 * MS,
            interval_ns: 25 * MS,
            depth: 16,
            in_flight: None,
            post_list: stream::POST_LIST,
            iterations: None,
            pace_ps: None,
            grace_ns: None,
        };
        let run = |lanes, end: &End, mut peer: LocalPeer| {
            stream::repeat(end, &mut [lanes], &mut peer, &Clock, &flow, 0, &|_| {}).unwrap()
        };
        let stall = Duration::from_secs(10);
        let (a, b) =
            both(stall, |end, peer| run(left, end, peer), |end, peer| run(right, end, peer));
        assert_eq!(a.repeat.messages_sent, b.repeat.messages_received);
        assert_eq!(b.repeat.messages_sent, a.repeat.messages_received);
        assert!(b.repeat.received_series.iter().sum::<u64>() > 0);
    }

    #[test]
    fn request_and_response_take_the_whole_round_trip() {
        let kinds = [Polling::Events, Polling::Busy(1_000), Polling::Turns];
        // The larger ones fill the socket, so that sending has to wait as well.
        for (polling, size) in kinds.into_iter().flat_map(|p| [(p, 8), (p, 5_000_001)]) {
            let (left, right) = connected(1);
            let mut left = TcpLanes::new(left, size, polling).unwrap();
            let mut right = TcpLanes::new(right, size, polling).unwrap();
            let timing = ping_pong::Timing {
                lost_after_ns: None,
                warmup_ns: MS,
                window_ns: 10_000 * MS,
                rounds: Some(50),
                divisor: 1,
                schedule_ns: None,
            };
            let (a, _) = both(
                Duration::from_secs(10),
                |end, mut peer| {
                    ping_pong::repeat(end, &mut left, &mut peer, &Clock, &timing, 0).unwrap()
                },
                |end, mut peer| {
                    ping_pong::repeat(end, &mut right, &mut peer, &Clock, &timing, 0).unwrap()
                },
            );
            let exact = a.repeat.exact.unwrap();
            assert_eq!(exact.count, 50);
            assert!((exact.mean_ns * 50.0 / a.repeat.window_ns as f64 - 1.0).abs() < 0.05);
        }
    }

    #[test]
    fn a_closed_peer_is_lost() {
        let (mut left, right) = lanes(1, 8);
        drop(right);
        let failure = left.arrived().unwrap_err();
        assert_eq!(failure.kind, FailureKind::PeerLost);
        assert!(failure.to_string().contains("127.0.0.1"), "{failure}");
    }

    #[test]
    fn few_cpus_wait_in_the_kernel() {
        assert_eq!(Polling::for_cpus(1).word(), "events");
        assert_eq!(Polling::for_cpus(64).word(), "busy");
    }
}
