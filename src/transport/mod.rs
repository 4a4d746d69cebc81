//! How bytes move: the two hot traits, and what implements them.
//!
//! Both traits are non-blocking; their methods neither allocate, lock nor ask the system for the
//! time. Everything that can be decided before the loop (operation, size, inline, signalling) is
//! fixed when an endpoint is built.

pub mod null;
pub mod tcp;
pub mod verbs;

/// Result of a transport call.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a transport, an engine or a case stopped: operation, object and cause with the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{object}: {operation}: {cause}")]
pub struct Failure {
    /// What class of trouble it is.
    pub kind: FailureKind,
    /// What was being done, e.g. `RDMA WRITE`, `connect`, `measure`.
    pub operation: String,
    /// To what, e.g. `rxe0:1 QP 17 -> 10.0.0.2`.
    pub object: String,
    /// Why, in plain words, ending with the likely cause or the next step.
    pub cause: String,
}

/// Class of a [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The peer, its process or the path to it is gone.
    PeerLost,
    /// Nothing moved for longer than the deadline.
    Stalled,
    /// The device or the operating system refused.
    Refused,
    /// Something needed is not there (library, device, address).
    Missing,
    /// Asked to stop (Ctrl-C, coordinator gone).
    Stopped,
    /// fabbench contradicts itself.
    Internal,
}

impl Failure {
    /// A failure of `kind` while doing `operation` to `object`, because of `cause`.
    pub fn new(
        kind: FailureKind,
        operation: impl Into<String>,
        object: impl Into<String>,
        cause: impl Into<String>,
    ) -> Self {
        Failure { kind, operation: operation.into(), object: object.into(), cause: cause.into() }
    }
}

/// A flow of equal messages over one or more lanes (queue pairs or sockets), in one direction or in
/// both, driven by one thread.
pub trait Stream {
    /// Number of lanes.
    fn lanes(&self) -> usize;

    /// True when arrivals must be collected for the flow to go on (receives to repost, sockets to
    /// drain); false when they are only looked at (WRITE seen in memory) or do not exist (READ).
    fn must_drain(&self) -> bool;

    /// Starts up to `n` messages on `lane`; returns how many were started, 0 when there is no room.
    fn start(&mut self, lane: usize, n: u32) -> Result<u32>;

    /// Collects what finished, adds it to `per_lane` (one counter a lane), returns how many
    /// messages that were. Messages whose completion was not asked for finish with the next one
    /// that was.
    fn finished(&mut self, per_lane: &mut [u64]) -> Result<u32>;

    /// Messages from the peer that have arrived since the endpoint was built, over all lanes.
    /// A lower bound where arrivals are seen in memory while the flow is under way.
    fn arrived(&mut self) -> Result<u64>;

    /// Makes everything started so far show up in [`Stream::finished`] without further starts.
    fn flush(&mut self) -> Result<()>;

    /// Called when a look found nothing to do, `empty` times in a row by now. May give up the CPU,
    /// for at most 10 ms, until something can move; returns true if it did. Polled memory only
    /// spins.
    #[inline]
    fn idle(&mut self, empty: u32) -> Result<bool> {
        let _ = empty;
        std::hint::spin_loop();
        Ok(false)
    }
}

/// Operations on named ranges of the local and the remote buffer.
pub trait Addressed {
    /// Number of lanes (queue pairs).
    fn lanes(&self) -> usize;

    /// Starts an operation; false when there is no room for it now.
    fn post(&mut self, request: &Request) -> Result<bool>;

    /// Offers a range of the local buffer to one SEND of the peer, or takes the immediate of one
    /// WRITE; false when there is no room.
    fn post_receive(&mut self, lane: usize, local: Span, id: u64) -> Result<bool>;

    /// Collects completions into `done`, returns how many.
    fn poll(&mut self, done: &mut [Completion]) -> Result<usize>;

    /// The local buffer, for filling and comparing. Only while no operation on it is under way at
    /// either end: the adapter does not know of Rust's rules.
    fn memory(&mut self) -> &mut [u8];

    /// A part of the local buffer for writing and two others for reading, while operations on the
    /// rest of it go on. Only while none on these parts is under way at either end.
    ///
    /// # Errors
    /// Parts that lie outside, or that overlap the one to be written.
    fn parts(&mut self, write: Span, read: [Span; 2]) -> Result<Parts<'_>> {
        let ranges = [write, read[0], read[1]].map(|span| {
            let start = span.offset as usize;
            // An empty part overlaps nothing wherever it lies.
            if span.len == 0 { 0..0 } else { start..start + span.len as usize }
        });
        let found = self.memory().get_disjoint_mut(ranges);
        let [write, a, b] = found.map_err(|error| {
            let (kind, cause) = (FailureKind::Internal, error.to_string());
            Failure::new(kind, "share memory", "local buffer", cause)
        })?;
        Ok((write, [a, b]))
    }

    /// Bytes of a message that are read when it is posted: its place may change at once.
    fn inline(&self) -> u32 {
        0
    }

    /// Bytes of the peer's buffer that may be addressed, of the smallest where there are several.
    fn remote_len(&self) -> u64;

    /// As [`Stream::idle`].
    #[inline]
    fn idle(&mut self, empty: u32) -> Result<bool> {
        let _ = empty;
        std::hint::spin_loop();
        Ok(false)
    }
}

/// A part of a buffer for writing, and two for reading.
pub type Parts<'a> = (&'a mut [u8], [&'a [u8]; 2]);

/// Lanes that carry bytes in order, without messages: sockets.
pub trait Bytes {
    /// Number of lanes.
    fn lanes(&self) -> usize;

    /// Takes bytes from the front of `from`; returns how many, 0 when there is no room.
    fn write(&mut self, lane: usize, from: &[u8]) -> Result<usize>;

    /// Puts what has arrived into `into`; returns how many bytes, 0 when there is nothing.
    fn read(&mut self, lane: usize, into: &mut [u8]) -> Result<usize>;

    /// As [`Stream::idle`]; `writing` when there is something left to write.
    fn idle(&mut self, empty: u32, writing: bool) -> Result<bool>;

    /// As [`Bytes::idle`], but only what moves on these lanes matters.
    fn idle_on(&mut self, empty: u32, reading: &[usize], writing: &[usize]) -> Result<bool> {
        let _ = reading;
        self.idle(empty, !writing.is_empty())
    }
}

/// A range of a buffer in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// From the start of the buffer.
    pub offset: u64,
    /// Length.
    pub len: u32,
}

/// Whether two ranges have a byte in common.
pub(crate) fn overlap(a: Span, b: Span) -> bool {
    let end = |span: Span| span.offset + u64::from(span.len);
    a.offset < end(b) && b.offset < end(a) && a.len > 0 && b.len > 0
}

/// An addressed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// Into a receive that the peer has posted.
    #[default]
    Send,
    /// Likewise, with immediate data.
    SendImm,
    /// Into the peer's buffer.
    Write,
    /// Into the peer's buffer, consuming a receive that carries the immediate.
    WriteImm,
    /// From the peer's buffer.
    Read,
    /// Adds to 8 bytes of the peer's buffer; what stood there comes into the local range.
    FetchAdd,
    /// Replaces 8 bytes of the peer's buffer if they are as expected; what stood there comes into
    /// the local range.
    CmpSwap,
}

impl Operation {
    /// Takes a receive that the peer has posted.
    pub fn takes_receive(self) -> bool {
        matches!(self, Operation::Send | Operation::SendImm | Operation::WriteImm)
    }

    /// Carries immediate data.
    pub fn has_immediate(self) -> bool {
        matches!(self, Operation::SendImm | Operation::WriteImm)
    }

    /// Goes where the peer's receive says, not to an address.
    pub fn is_send(self) -> bool {
        matches!(self, Operation::Send | Operation::SendImm)
    }

    /// Works on 8 bytes of the peer's buffer, aligned to 8, in the adapter's byte order: the
    /// host's.
    pub fn is_atomic(self) -> bool {
        matches!(self, Operation::FetchAdd | Operation::CmpSwap)
    }

    /// Brings something back from the peer's buffer.
    pub fn fetches(self) -> bool {
        self == Operation::Read || self.is_atomic()
    }
}

/// What to do with which bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// Operation.
    pub operation: Operation,
    /// Lane.
    pub lane: usize,
    /// Local range.
    pub local: Span,
    /// Offset in the peer's buffer; ignored by SEND.
    pub remote_offset: u64,
    /// Immediate data of [`Operation::SendImm`] and [`Operation::WriteImm`].
    pub immediate: u32,
    /// What [`Operation::FetchAdd`] adds, and [`Operation::CmpSwap`] expects.
    pub add_or_compare: u64,
    /// What [`Operation::CmpSwap`] puts there.
    pub swap: u64,
    /// Ask for a completion.
    pub signal: bool,
    /// Comes back in the [`Completion`].
    pub id: u64,
}

/// Something that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// Of the request or the receive.
    pub id: u64,
    /// Lane.
    pub lane: usize,
    /// True for an arrival from the peer, false for an own operation.
    pub arrival: bool,
    /// Bytes of an arrival; 0 for an own operation.
    pub len: u32,
    /// Immediate data of an arrival; 0 without.
    pub immediate: u32,
}
