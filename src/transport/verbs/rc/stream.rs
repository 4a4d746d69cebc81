//! A flow of equal messages over queue pairs.
//!
//! Where the service is not reliable, nobody holds a sender back whose receiver has no receive
//! posted: the message would be lost, and the path blamed. So the receiver tells how many receives
//! it has posted again (a *credit*, an empty SEND whose immediate has the top bit set), and a sender
//! never has more messages out than there are receives. Messages that the path loses take their
//! credit with them; a sender that has starved for long gets them back by [`Stream::flush`].
//!
//! Both ends hold slots for messages: what is sent comes from send slots, what arrives goes to
//! receive slots. How an arrival is seen is decided when the endpoint is built ([`Arrival`]).

use std::collections::BTreeMap;
use std::time::Instant;

use fabbench_harness::plan::{Op, Poll, Test, Transport};

use super::receives::{Receives, SharedReceives};
use super::requests::Requests;
use super::{
    BATCH, Datagram, EndAddress, LOOKS, Parts, Prepared, Remote, SLEEP, completion_failure,
    settings, should_sleep,
};
use crate::session::protocol::{PortPath, Prepare};
use crate::transport::verbs::cq::{CompletionQueue, WorkCompletion};
use crate::transport::verbs::device::Context;
use crate::transport::verbs::ffi;
use crate::transport::verbs::mr::{Access, MemoryRegion};
use crate::transport::verbs::qp::{Capacity, GRH, QueuePair, Service};
use crate::transport::{Failure, FailureKind, Result, Stream};

/// Payload that the slots of one direction may take together: inside the last-level cache of a
/// server, as published bandwidth figures have it.
const WORKING_SET: u64 = 16 << 20;
/// Most slots of a lane: each has a request of its own. A larger working set has gaps between its
/// messages.
const MOST_SLOTS: u32 = 1 << 16;
/// Slots begin on a cache line of their own.
const LINE: u64 = 64;
/// Bytes that are carried inline when nothing else is asked for: more makes work queue entries
/// large on common adapters.
const INLINE: u32 = 220;
/// Marks the id of a receive.
const RECEIVE: u64 = 1 << 63;
/// Marks the id of a credit that was sent.
const CREDIT: u64 = 1 << 62;
/// Marks the immediate of a credit; the rest is its count.
const CREDIT_IMMEDIATE: u32 = 1 << 31;
/// Receives that are kept for credits and flushes.
const RESERVE: u32 = 16;
/// Credits under way at most, per lane.
const CREDITS: u32 = 4;
/// Fruitless looks for credit after which what is missing counts as lost.
const STARVED: u32 = 256;

/// What a stream endpoint is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// The way out.
    pub port: PortPath,
    /// Operation: SEND or WRITE with or without immediate, READ, FETCH_ADD or CMP_SWAP.
    pub op: Op,
    /// What the queue pairs promise.
    pub service: Service,
    /// Message size in bytes.
    pub size: u64,
    /// Queue pairs.
    pub lanes: usize,
    /// Sends outstanding per queue pair.
    pub tx_depth: u32,
    /// Receives posted per queue pair; more where the depth needs more.
    pub rx_depth: u32,
    /// A completion every so many sends.
    pub signal_every: u32,
    /// Bytes that may be carried inline; none for a default.
    pub inline: Option<u32>,
    /// One message at a time, each answered at once: an arriving WRITE is looked for in memory
    /// where that is sound.
    pub latency: bool,
}

impl StreamSpec {
    /// The part of a case's end with `lanes` queue pairs over `port`.
    pub fn of(prepare: &Prepare, port: &PortPath, lanes: usize) -> StreamSpec {
        StreamSpec {
            port: port.clone(),
            op: prepare.op,
            service: service(prepare.transport),
            size: prepare.size_bytes,
            lanes,
            tx_depth: prepare.knobs.tx_depth,
            rx_depth: prepare.knobs.rx_depth,
            signal_every: prepare.knobs.signal_every,
            inline: prepare.knobs.inline,
            latency: prepare.test == Test::Latency,
        }
    }
}

/// The service of a transport of the plan.
pub fn service(transport: Transport) -> Service {
    match transport {
        Transport::Uc => Service::Unreliable,
        Transport::Ud => Service::Datagram,
        Transport::Rc | Transport::Tcp | Transport::Null => Service::Reliable,
    }
}

/// How an arriving message is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A SEND completes a receive.
    Receive,
    /// A WRITE ends in its sequence number, which the receiver looks for in memory. Sound within
    /// one packet, and only without relaxed ordering.
    Memory,
    /// The last of so many WRITEs carries the count as immediate data and completes a receive.
    Immediate {
        /// Messages per immediate.
        every: u32,
    },
    /// A READ is not seen by the peer.
    None,
}

impl Arrival {
    /// Memory is looked at for latency only, and only where the last word cannot come first.
    fn choose(spec: &StreamSpec, signal_every: u32) -> Arrival {
        let tuning = &spec.port.tuning;
        // Nothing tells of a word in memory, and reordered writes may bring it first.
        let watched = tuning.poll != Some(Poll::Event) && tuning.relaxed_ordering != Some(true);
        let one_packet = spec.size <= u64::from(spec.port.mtu) && watched;
        let has_word = spec.size >= 4 && spec.size.is_multiple_of(4);
        match spec.op {
            op if op.fetches() => Arrival::None,
            Op::WriteImm => Arrival::Immediate { every: 1 },
            Op::Write if spec.latency && one_packet && has_word => Arrival::Memory,
            // One that is lost shows only where each tells of itself.
            Op::Write if spec.latency || !spec.service.is_reliable() => {
                Arrival::Immediate { every: 1 }
            }
            Op::Write => Arrival::Immediate { every: signal_every },
            _ => Arrival::Receive,
        }
    }

    fn word(self) -> String {
        match self {
            Arrival::Receive => "receive".into(),
            Arrival::Memory => "memory".into(),
            Arrival::Immediate { every: 1 } => "immediate".into(),
            Arrival::Immediate { every } => format!("immediate every {every}"),
            Arrival::None => "none".into(),
        }
    }
}

/// What was asked for, as it takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    op: Op,
    service: Service,
    size: u32,
    /// Bytes that the adapter puts before each arriving message.
    head: u32,
    stride: u64,
    lanes: u64,
    /// Slots per lane in each direction.
    slots: u32,
    /// Of these, used one after the other. Both ends use the same number.
    cycle: u32,
    /// Messages under way per lane; no more than are used.
    depth: u32,
    receives: u32,
    signal_every: u32,
    inline: u32,
    arrival: Arrival,
    relaxed: bool,
    /// All lanes take their receives from one queue.
    srq: bool,
}

/// What a device and its port allow.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    /// Requests in a queue of a queue pair.
    requests: u32,
    /// Receives in a shared queue.
    shared_receives: u32,
    /// Bytes of a message.
    message: u32,
}

impl Shape {
    fn new(spec: &StreamSpec, device: &Allowed) -> Result<Shape> {
        let object = format!("{}:{}", spec.port.device, spec.port.port);
        let refuse = |cause| Failure::new(FailureKind::Refused, "prepare", &object, cause);
        let datagram = spec.service == Service::Datagram;
        let (most, whose) = match datagram {
            true => (spec.port.mtu, "a datagram's: the path MTU is"),
            false => (device.message, "the port's"),
        };
        let size = u32::try_from(spec.size).ok().filter(|size| *size <= most);
        let size = size.ok_or_else(|| {
            refuse(format!("{} bytes are above {whose} {most} a message", spec.size))
        })?;
        let head = if datagram { GRH } else { 0 };
        if !(spec.op.is_message() || spec.op.fetches()) || spec.lanes == 0 {
            return Err(refuse(format!("{:?} over {} queue pairs", spec.op, spec.lanes)));
        }
        let stride = (spec.size.max(1) + u64::from(head)).next_multiple_of(LINE);
        let lanes = spec.lanes as u64;
        let cached = (WORKING_SET / (stride * lanes)).max(2);
        let allowed = spec
            .port
            .max_in_flight_bytes
            .map_or(u64::MAX, |most| (most / (lanes * spec.size.max(1))).max(1));
        // Half of what a queue holds, since a flush may follow each message.
        let besides = if spec.service.is_reliable() { 1 } else { 1 + CREDITS };
        let srq = spec.port.tuning.srq && spec.op.is_send();
        let most_receives = match srq {
            true => (u64::from(device.shared_receives) / lanes).max(1) as u32,
            false => device.requests.max(1),
        };
        let queue = device.requests.saturating_sub(besides).min(most_receives);
        let queue = u64::from(queue / 2).max(1);
        let depth = u64::from(spec.tx_depth.max(1)).min(cached).min(allowed).min(queue) as u32;
        let signal_every = spec.signal_every.clamp(1, (depth / 2).max(1));
        let arrival = Arrival::choose(spec, signal_every);
        let receives = match arrival {
            Arrival::Receive | Arrival::Immediate { .. } => {
                let least = if spec.service.is_reliable() { 1 } else { 4 * RESERVE };
                spec.rx_depth.max(2 * depth).max(least).min(most_receives)
            }
            Arrival::Memory | Arrival::None => 1,
        };
        let wanted = spec.inline.unwrap_or(INLINE);
        let inline = if spec.op.is_message() && size <= wanted { size } else { 0 };
        let relaxed =
            arrival != Arrival::Memory && spec.port.tuning.relaxed_ordering != Some(false);
        let op = spec.op;
        let (slots, stride) = match spec.port.tuning.working_set_bytes {
            Some(bytes) => spread(bytes / lanes, stride, depth),
            None => (depth, stride),
        };
        Ok(Shape {
            op,
            service: spec.service,
            size,
            head,
            stride,
            lanes,
            slots,
            cycle: slots,
            depth,
            receives,
            signal_every,
            inline,
            arrival,
            relaxed,
            srq,
        })
    }

    /// With a peer that has `slots`: both cycle through as many as either has.
    fn agreed(mut self, slots: u64) -> Shape {
        self.cycle = u64::from(self.cycle).min(slots.max(1)) as u32;
        self.depth = self.depth.min(self.cycle);
        self.signal_every = self.signal_every.min((self.depth / 2).max(1));
        if let Arrival::Immediate { every } = &mut self.arrival {
            *every = self.signal_every.min(*every);
        }
        self
    }

    /// Requests that may be in the send queue at once.
    fn sends(&self) -> u32 {
        let credits = if self.has_credits() { CREDITS } else { 0 };
        credits + if self.signal_every == 1 { self.depth } else { 2 * self.depth + 1 }
    }

    /// Messages may be lost.
    fn is_lossy(&self) -> bool {
        !self.service.is_reliable()
    }

    /// Messages take receives of the peer that it must not run out of.
    fn has_credits(&self) -> bool {
        self.is_lossy() && matches!(self.arrival, Arrival::Receive | Arrival::Immediate { .. })
    }

    /// Bytes that one direction's messages cycle through.
    fn area(&self) -> u64 {
        self.stride * self.lanes * u64::from(self.slots)
    }

    /// Where a slot lies in its area.
    fn offset(&self, lane: u64, slot: u64) -> u64 {
        (lane * u64::from(self.slots) + slot) * self.stride
    }

    /// Where the number `sequence` of an arriving message lies in the buffer.
    #[inline]
    fn arrival_word(&self, lane: u64, sequence: u64) -> usize {
        self.area() as usize + self.departure_word(lane, sequence)
    }

    /// Where the number `sequence` of a message to be sent lies in the buffer: at its end.
    #[inline]
    fn departure_word(&self, lane: u64, sequence: u64) -> usize {
        let slot = (sequence - 1) % u64::from(self.cycle);
        (self.offset(lane, slot) + u64::from(self.size) - 4) as usize
    }

    fn access(&self) -> Access {
        // REMOTE_WRITE always: a flush is an empty WRITE.
        let mut access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        if self.op == Op::Read {
            access = access | Access::REMOTE_READ;
        }
        if self.op.is_atomic() {
            access = access | Access::REMOTE_ATOMIC;
        }
        if self.relaxed { access | Access::RELAXED_ORDERING } else { access }
    }
}

/// Slots of a lane, and the distance of their begins, that cover about `bytes`: at least `depth`
/// slots, at least `stride` apart.
fn spread(bytes: u64, stride: u64, depth: u32) -> (u32, u64) {
    let most = u64::from(MOST_SLOTS.max(depth));
    let slots = (bytes / stride).clamp(u64::from(depth), most);
    (slots as u32, (bytes / slots / LINE * LINE).max(stride))
}

/// A stream's end that does not yet know its peer.
pub struct PreparedStream {
    prepared: Prepared,
    shape: Shape,
}

impl PreparedStream {
    /// Opens the device, allocates and registers memory, makes the queue pairs, posts receives.
    ///
    /// # Errors
    /// What the device refuses, or lacks; a size that a message cannot have.
    pub fn new(spec: &StreamSpec) -> Result<PreparedStream> {
        let context = Context::open(&spec.port.device)?;
        if spec.op.is_atomic() && !context.limits().has_atomics() {
            let cause = "the device offers no atomic operations (atomic_cap is none)";
            let kind = FailureKind::Refused;
            return Err(Failure::new(kind, spec.op.text(), &spec.port.device, cause));
        }
        let max_msg = context.query_port(spec.port.port)?.max_msg_sz;
        let limits = context.limits();
        let allowed = Allowed {
            requests: limits.max_qp_wr,
            shared_receives: limits.max_srq_wr,
            message: max_msg,
        };
        let mut shape = Shape::new(spec, &allowed)?;
        let (sends, receives, inline) = (shape.sends(), shape.receives, shape.inline);
        let parts = Parts {
            port: spec.port.clone(),
            service: spec.service,
            lanes: spec.lanes,
            capacity: Capacity { sends, receives, inline },
            access: shape.access(),
            // Send slots first, then receive slots.
            buffer_len: (2 * shape.area()) as usize,
            srq: shape.srq,
        };
        let mut prepared = Prepared::new(context, &parts)?;
        if prepared.inline() < shape.inline {
            shape.inline = 0;
        }
        prepared.address.slots = u64::from(shape.slots);
        prepared.address.receives = shape.receives;
        Ok(PreparedStream { prepared, shape })
    }

    /// What the peer has to know.
    pub fn address(&self) -> &EndAddress {
        &self.prepared.address
    }

    /// Connects to the peer.
    ///
    /// # Errors
    /// What the device refuses: usually an address that leads nowhere.
    pub fn connect(mut self, peer: &EndAddress) -> Result<RcStream> {
        let remote = self.prepared.connect(peer)?;
        let Prepared { pairs, cq, srq, region, path, context, object, tuning, .. } = self.prepared;
        let shape = self.shape.agreed(remote.slots);
        let numbers: Vec<u32> = pairs.iter().map(QueuePair::number).collect();
        let lanes = pairs.into_iter().enumerate();
        let lanes = lanes.map(|(i, pair)| Lane::new(i as u64, pair, &shape, &region, &remote));
        let settings = settings(&path, &tuning, region.buffer(), context.quirks().soft);
        let mut stream = RcStream {
            lanes: lanes.collect(),
            shared: None,
            cq,
            region,
            shape,
            window: u64::from(remote.receives.saturating_sub(RESERVE).max(1)),
            _remote: remote,
            context,
            object,
            settings,
            rd_atomic: path.rd_atomic_out,
            events: tuning.poll == Some(Poll::Event),
            unreported: false,
            arrived: 0,
            looks: 0,
            done: [WorkCompletion::EMPTY; BATCH],
        };
        if let Some(queue) = srq {
            let receives = receives(None, &shape, &stream.region);
            stream.shared = Some(SharedReceives::new(queue, receives, numbers.into_iter())?);
        } else if stream.must_drain() {
            for lane in &mut stream.lanes {
                lane.receives.post_to(&mut lane.pair, shape.receives.into())?;
            }
        }
        Ok(stream)
    }
}

/// A connected end of a stream.
pub struct RcStream {
    // Queue pairs go before the memory that their requests point to: fields drop in this order.
    lanes: Vec<Lane>,
    /// Receives that the lanes share.
    shared: Option<SharedReceives>,
    cq: CompletionQueue,
    region: MemoryRegion,
    shape: Shape,
    // Held: requests point to its address handle.
    _remote: Remote,
    /// Messages that may be out per lane for which there is a receive.
    window: u64,
    context: Context,
    object: String,
    /// Of the queue pairs, as they took effect.
    settings: BTreeMap<String, serde_json::Value>,
    rd_atomic: u8,
    /// Completions are waited for.
    events: bool,
    /// Some lane has finished messages that [`Stream::finished`] has not yet told of.
    unreported: bool,
    arrived: u64,
    looks: u32,
    done: [WorkCompletion; BATCH],
}

impl RcStream {
    /// Knobs as they took effect, for the report.
    pub fn effective(&self) -> BTreeMap<String, serde_json::Value> {
        let shape = &self.shape;
        let mut effective = BTreeMap::from([
            ("qps".into(), self.lanes.len().into()),
            ("tx_depth".into(), shape.depth.into()),
            ("signal_every".into(), shape.signal_every.into()),
            ("inline".into(), shape.inline.into()),
            ("arrival".into(), shape.arrival.word().into()),
            ("relaxed_ordering".into(), shape.relaxed.into()),
        ]);
        effective.extend(self.settings.clone());
        match shape.arrival {
            Arrival::None => effective.insert("outstanding_reads".into(), self.rd_atomic.into()),
            _ => effective.insert("rx_depth".into(), shape.receives.into()),
        };
        if let Some(shared) = &self.shared {
            let limits = self.context.limits();
            effective.insert("srq".into(), true.into());
            effective.insert("srq_receives".into(), shared.len().into());
            effective.insert("max_srq".into(), limits.max_srq.into());
            effective.insert("max_srq_wr".into(), limits.max_srq_wr.into());
        }
        if shape.has_credits() {
            let credits = format!("credits, at most {} messages out per QP", self.window);
            effective.insert("flow_control".into(), credits.into());
        }
        if shape.head > 0 {
            effective.insert("grh_bytes".into(), shape.head.into());
        }
        effective
    }

    /// Bytes that the messages of one direction cycle through.
    pub fn working_set_bytes(&self) -> u64 {
        self.shape.area()
    }

    /// Moves what has completed into the lanes' counters; returns how many completions that were.
    #[inline]
    fn progress(&mut self) -> Result<usize> {
        let count = self.cq.poll(&mut self.done)?;
        for i in 0..count {
            let done = &self.done[i];
            if !done.is_ok() {
                let done = &self.done[..count];
                return Err(completion_failure(done, i, &self.context, &self.object));
            }
            let (index, sequence) = unpack(done.id());
            let lane = &mut self.lanes[index];
            if done.id() & CREDIT != 0 {
                lane.credit.under_way -= 1;
                continue;
            }
            if done.id() & RECEIVE == 0 {
                lane.finished = extend(lane.finished, sequence);
                self.unreported = true;
                continue;
            }
            let lane = match &self.shared {
                None => lane,
                Some(shared) => &mut self.lanes[shared.lane(done.qp_num())],
            };
            let before = lane.arrived;
            lane.arrived = match (done.immediate(), self.shape.arrival) {
                (Some(count), _) if self.shape.is_lossy() => {
                    let is_credit = count & CREDIT_IMMEDIATE != 0;
                    if is_credit {
                        lane.credit.renew(count);
                    }
                    before + u64::from(!is_credit)
                }
                (Some(count), Arrival::Immediate { .. }) => extend(before, count),
                _ => before + 1,
            };
            self.arrived += lane.arrived - before;
            match &mut self.shared {
                None => lane.renew_receives()?,
                Some(shared) => {
                    shared.take();
                    // All are posted again below, before the peer is told.
                    lane.receives.posted += 1;
                }
            }
        }
        if let Some(shared) = &mut self.shared {
            shared.renew(self.shape.has_credits())?;
        }
        if count > 0 && self.shape.has_credits() {
            for lane in &mut self.lanes {
                lane.tell_credit(&self.shape, self.window)?;
            }
        }
        Ok(count)
    }

    /// Messages that `lane` may start as far as the peer has receives; looks for news where there
    /// are none.
    #[inline]
    fn allowed(&mut self, lane: usize) -> Result<u64> {
        if self.lanes[lane].credit.left(self.window) == 0 {
            self.progress()?;
        }
        let credit = &mut self.lanes[lane].credit;
        let left = credit.left(self.window);
        credit.starved = if left == 0 { credit.starved.saturating_add(1) } else { 0 };
        Ok(left)
    }

    /// Follows the sequence numbers that arriving WRITEs leave in memory.
    #[inline]
    fn look_at_memory(&mut self) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            loop {
                let at = self.shape.arrival_word(index as u64, lane.arrived + 1);
                let seen = extend(lane.arrived, self.region.buffer().load_u32(at));
                if seen == lane.arrived {
                    break;
                }
                // What was lost between the two did not arrive.
                self.arrived += if self.shape.is_lossy() { 1 } else { seen - lane.arrived };
                lane.arrived = seen;
            }
        }
    }
}

impl Stream for RcStream {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn must_drain(&self) -> bool {
        matches!(self.shape.arrival, Arrival::Receive | Arrival::Immediate { .. })
    }

    #[inline]
    fn start(&mut self, lane: usize, n: u32) -> Result<u32> {
        let allowed = if self.shape.has_credits() { self.allowed(lane)? } else { u64::MAX };
        let lane = &mut self.lanes[lane];
        let room = u64::from(self.shape.depth) - (lane.started - lane.finished);
        let n = n.min(room.min(allowed) as u32);
        if n > 0 {
            lane.post_sends(n, &self.shape, &self.region)?;
        }
        Ok(n)
    }

    #[inline]
    fn finished(&mut self, per_lane: &mut [u64]) -> Result<u32> {
        self.progress()?;
        if !self.unreported {
            return Ok(0);
        }
        self.unreported = false;
        let mut sum = 0;
        for (lane, counter) in self.lanes.iter_mut().zip(per_lane) {
            let news = lane.finished - lane.reported;
            lane.reported = lane.finished;
            *counter += news;
            sum += news as u32;
        }
        Ok(sum)
    }

    #[inline]
    fn arrived(&mut self) -> Result<u64> {
        if self.shape.arrival != Arrival::Memory {
            self.progress()?;
            return Ok(self.arrived);
        }
        self.look_at_memory();
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            // Errors show up in the queue, not in memory.
            self.progress()?;
        }
        Ok(self.arrived)
    }

    fn flush(&mut self) -> Result<()> {
        for lane in &mut self.lanes {
            if lane.credit.starved >= STARVED {
                lane.credit.forgive();
            }
            if lane.started > lane.signalled {
                lane.post_flush(&self.shape)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn idle(&mut self, empty: u32) -> Result<bool> {
        let sleep = should_sleep(&self.context, empty, self.events)?;
        if sleep && self.shape.arrival == Arrival::Memory {
            // Nothing tells of an arrival in memory.
            std::thread::yield_now();
        } else if sleep {
            self.cq.arm()?;
            // What came before the queue was armed wakes nobody.
            if self.progress()? == 0 {
                self.cq.wait(Instant::now() + SLEEP)?;
            }
        }
        Ok(sleep)
    }
}

/// Where and with what an atomic works.
type Atomic = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_2;

/// Where a WRITE or a READ goes.
type Place = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1;

/// A queue pair with its requests, written once and posted again and again.
struct Lane {
    pair: QueuePair,
    index: u64,
    sends: Requests<ffi::ibv_send_wr>,
    /// Its own; of shared ones the counts.
    receives: Receives,
    /// Some place in the peer's buffer.
    there: Place,
    /// Where its datagrams go, if it sends such.
    datagram: Option<Datagram>,
    credit: Credit,
    /// Messages started.
    started: u64,
    /// Messages started up to the last one whose completion was asked for.
    signalled: u64,
    /// Messages up to the last completion.
    finished: u64,
    /// Of these, what was told.
    reported: u64,
    /// Messages that have arrived.
    arrived: u64,
}

impl Lane {
    fn new(
        index: u64,
        pair: QueuePair,
        shape: &Shape,
        region: &MemoryRegion,
        remote: &Remote,
    ) -> Lane {
        Lane {
            pair,
            index,
            sends: send_requests(index, shape, region, remote),
            receives: match shape.srq {
                true => Receives::new(0, Vec::new(), false).counting_from(shape.receives.into()),
                false => receives(Some(index), shape, region),
            },
            there: Place { remote_addr: remote.address, rkey: remote.key },
            datagram: remote.datagram(index as usize),
            credit: Credit::default(),
            started: 0,
            signalled: 0,
            finished: 0,
            reported: 0,
            arrived: 0,
        }
    }

    /// Posts the next `n` messages, which have room, as one list.
    #[inline]
    fn post_sends(&mut self, n: u32, shape: &Shape, region: &MemoryRegion) -> Result<()> {
        let len = self.sends.len();
        let first = self.started % len;
        let numbers = if shape.is_lossy() { !CREDIT_IMMEDIATE } else { u32::MAX };
        self.credit.consumed += u64::from(n);
        for i in 0..u64::from(n) {
            let slot = (first + i) % len;
            self.started += 1;
            let sequence = self.started;
            if shape.arrival == Arrival::Memory {
                let at = shape.departure_word(self.index, sequence);
                region.buffer().store_u32(at, sequence as u32);
            }
            let signal = sequence - self.signalled >= u64::from(shape.signal_every);
            let request = self.sends.link(slot, i + 1 < u64::from(n));
            request.wr_id = pack(self.index, sequence);
            request.send_flags &= !ffi::IBV_SEND_SIGNALED;
            if let Arrival::Immediate { every } = shape.arrival {
                let last = every == 1 || signal;
                request.opcode =
                    if last { ffi::IBV_WR_RDMA_WRITE_WITH_IMM } else { ffi::IBV_WR_RDMA_WRITE };
                request.__bindgen_anon_1.imm_data = (sequence as u32 & numbers).to_be();
            }
            if shape.op == Op::SendImm {
                request.__bindgen_anon_1.imm_data = (sequence as u32 & numbers).to_be();
            }
            if signal {
                request.send_flags |= ffi::IBV_SEND_SIGNALED;
                self.signalled = sequence;
            }
        }
        // SAFETY: the requests point into the region, which outlives the queue pair.
        Ok(unsafe { self.pair.post_send(self.sends.at(first)) }?)
    }

    /// Posts an empty, signalled WRITE behind the last message; it carries the count where the
    /// peer counts by immediates.
    fn post_flush(&mut self, shape: &Shape) -> Result<()> {
        // SAFETY: numbers and null pointers.
        let mut request: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = pack(self.index, self.started);
        request.opcode = match shape.arrival {
            Arrival::Immediate { every } if every > 1 => ffi::IBV_WR_RDMA_WRITE_WITH_IMM,
            _ => ffi::IBV_WR_RDMA_WRITE,
        };
        request.send_flags = ffi::IBV_SEND_SIGNALED;
        request.__bindgen_anon_1.imm_data = (self.started as u32).to_be();
        request.wr.rdma = self.there;
        if self.datagram.is_some() {
            // There is no empty WRITE: a credit serves as well.
            request.opcode = ffi::IBV_WR_SEND_WITH_IMM;
            self.fill_credit(&mut request, shape);
        }
        self.signalled = self.started;
        // SAFETY: no scatter entries.
        Ok(unsafe { self.pair.post_send(&mut request) }?)
    }

    /// Makes an empty SEND of `request` that tells how many receives were posted again.
    fn fill_credit(&mut self, request: &mut ffi::ibv_send_wr, shape: &Shape) {
        let again = self.receives.posted - u64::from(shape.receives);
        let immediate = CREDIT_IMMEDIATE | again as u32 & !CREDIT_IMMEDIATE;
        request.__bindgen_anon_1.imm_data = immediate.to_be();
        if let Some(datagram) = self.datagram {
            request.wr.ud = datagram.0;
        }
        self.credit.told = again;
        self.credit.consumed += 1;
    }

    /// Tells the peer of receives posted again, once there are enough of them.
    #[inline]
    fn tell_credit(&mut self, shape: &Shape, window: u64) -> Result<()> {
        let again = self.receives.posted - u64::from(shape.receives);
        let enough = again - self.credit.told >= u64::from(shape.receives / 4).max(1);
        let room = self.credit.left(window + u64::from(RESERVE / 2)) > 0;
        if !enough || !room || self.credit.under_way >= CREDITS {
            return Ok(());
        }
        // SAFETY: numbers and null pointers.
        let mut request: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = CREDIT | pack(self.index, 0);
        request.opcode = ffi::IBV_WR_SEND_WITH_IMM;
        request.send_flags = ffi::IBV_SEND_SIGNALED;
        self.fill_credit(&mut request, shape);
        self.credit.under_way += 1;
        // SAFETY: no scatter entries.
        Ok(unsafe { self.pair.post_send(&mut request) }?)
    }

    /// One receive has been used up: posts again, once there are enough.
    #[inline]
    fn renew_receives(&mut self) -> Result<()> {
        match self.receives.take() {
            true => self.receives.post_to(&mut self.pair, self.receives.taken.into()),
            false => Ok(()),
        }
    }
}

/// What a lane knows of the receives at the peer.
#[derive(Debug, Default)]
struct Credit {
    /// Receives that what was sent takes.
    consumed: u64,
    /// Receives that the peer has posted again, by its last word.
    renewed: u64,
    /// Receives that were to be taken by what was lost.
    forgiven: u64,
    /// Looks in a row that found none left.
    starved: u32,
    /// Own receives posted again, as the peer was told.
    told: u64,
    /// Credits sent whose completion is still to come.
    under_way: u32,
}

impl Credit {
    /// Messages that may go out when `window` may be out at once.
    #[inline]
    fn left(&self, window: u64) -> u64 {
        let out = self.consumed.saturating_sub(self.renewed + self.forgiven);
        window.saturating_sub(out)
    }

    /// The peer's word.
    fn renew(&mut self, immediate: u32) {
        let half = CREDIT_IMMEDIATE / 2;
        let ahead = (immediate.wrapping_sub(self.renewed as u32)) & !CREDIT_IMMEDIATE;
        if ahead < half {
            self.renewed += u64::from(ahead);
        }
        // What was given up on came after all.
        self.forgiven = self.forgiven.min(self.consumed.saturating_sub(self.renewed));
    }

    /// Whatever is out is lost.
    fn forgive(&mut self) {
        self.forgiven = self.consumed.saturating_sub(self.renewed);
        self.starved = 0;
    }
}

fn send_requests(
    lane: u64,
    shape: &Shape,
    region: &MemoryRegion,
    remote: &Remote,
) -> Requests<ffi::ibv_send_wr> {
    let read = shape.op.fetches();
    let own_base = if read { shape.area() } else { 0 };
    // The peer's buffer is laid out as this one, with its own number of slots.
    let there = Shape { slots: remote.slots as u32, ..*shape };
    let remote_base = if read { 0 } else { there.area() };
    let entry = |slot| ffi::ibv_sge {
        addr: region.buffer().as_ptr() as u64 + own_base + shape.offset(lane, slot),
        length: shape.size,
        lkey: region.local_key(),
    };
    let entries = (0..u64::from(shape.cycle)).map(entry).collect();
    let request = |slot, entry| {
        // SAFETY: numbers and null pointers.
        let mut request: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.sg_list = entry;
        request.num_sge = i32::from(shape.size > 0);
        request.opcode = match shape.op {
            Op::Read => ffi::IBV_WR_RDMA_READ,
            Op::Write | Op::WriteImm => ffi::IBV_WR_RDMA_WRITE,
            Op::FetchAdd => ffi::IBV_WR_ATOMIC_FETCH_AND_ADD,
            Op::CmpSwap => ffi::IBV_WR_ATOMIC_CMP_AND_SWP,
            Op::SendImm => ffi::IBV_WR_SEND_WITH_IMM,
            _ => ffi::IBV_WR_SEND,
        };
        if shape.size > 0 && shape.inline >= shape.size {
            request.send_flags = ffi::IBV_SEND_INLINE;
        }
        let remote_addr = remote.address + remote_base + there.offset(lane, slot);
        if let Some(datagram) = remote.datagram(lane as usize) {
            request.wr.ud = datagram.0;
        } else if shape.op.is_atomic() {
            // Counts up, or finds what it expects: the buffer is of zeroes.
            let compare_add = u64::from(shape.op == Op::FetchAdd);
            request.wr.atomic = Atomic { remote_addr, compare_add, swap: 0, rkey: remote.key };
        } else {
            request.wr.rdma = Place { remote_addr, rkey: remote.key };
        }
        request
    };
    Requests::new(entries, request)
}

/// Receives of one lane, or of all lanes in turn where they are shared.
fn receives(lane: Option<u64>, shape: &Shape, region: &MemoryRegion) -> Receives {
    let base = region.buffer().as_ptr() as u64 + shape.area();
    let lanes = if lane.is_some() { 1 } else { shape.lanes };
    let entry = |i: u64| {
        let (lane, slot) = (lane.unwrap_or(i % lanes), i / lanes % u64::from(shape.cycle));
        ffi::ibv_sge {
            addr: base + shape.offset(lane, slot),
            length: shape.size + shape.head,
            lkey: region.local_key(),
        }
    };
    let places = (0..u64::from(shape.receives) * lanes).map(entry).collect();
    // An immediate's receive takes no bytes.
    let filled = shape.arrival == Arrival::Receive && shape.size + shape.head > 0;
    Receives::new(RECEIVE | pack(lane.unwrap_or(0), 0), places, filled)
}

/// Id of a request: the lane and the low half of the sequence number.
#[inline]
fn pack(lane: u64, sequence: u64) -> u64 {
    lane << 32 | sequence & 0xffff_ffff
}

#[inline]
fn unpack(id: u64) -> (usize, u32) {
    ((id >> 32 & 0x3fff_ffff) as usize, id as u32)
}

/// The count not below `known` whose low half is `low`; `known` itself when that would be more than
/// half the range ahead (an older count).
#[inline]
fn extend(known: u64, low: u32) -> u64 {
    let ahead = low.wrapping_sub(known as u32);
    if ahead > u32::MAX / 2 { known } else { known + u64::from(ahead) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabbench_harness::plan::Tuning;
    use fabbench_harness::snapshot::GidKind;

    fn spec(op: Op, size: u64) -> StreamSpec {
        let port = PortPath {
            device: "rxe0".into(),
            port: 1,
            gid_index: 1,
            gid_kind: GidKind::RoceV2,
            grh: true,
            mtu: 4096,
            sl: 0,
            traffic_class: 0,
            timeout: 18,
            max_in_flight_bytes: None,
            tuning: Default::default(),
        };
        let (tx_depth, rx_depth) = (128, 256);
        StreamSpec {
            port,
            op,
            service: Service::Reliable,
            size,
            lanes: 2,
            tx_depth,
            rx_depth,
            signal_every: 16,
            inline: None,
            latency: false,
        }
    }

    const LARGE: Allowed = Allowed { requests: 16_384, shared_receives: 16_384, message: 1 << 30 };
    const SMALL: Allowed = Allowed { requests: 64, ..LARGE };

    fn shape(spec: &StreamSpec) -> Shape {
        Shape::new(spec, &LARGE).unwrap()
    }

    #[test]
    fn a_write_is_looked_for_in_memory_only_where_that_is_sound() {
        let arrival = |op, size, latency| shape(&StreamSpec { latency, ..spec(op, size) }).arrival;
        assert_eq!(arrival(Op::Write, 8, true), Arrival::Memory);
        assert_eq!(arrival(Op::Write, 4096, true), Arrival::Memory);
        assert_eq!(arrival(Op::Write, 4100, true), Arrival::Immediate { every: 1 });
        assert_eq!(arrival(Op::Write, 7, true), Arrival::Immediate { every: 1 });
        assert_eq!(arrival(Op::Write, 0, true), Arrival::Immediate { every: 1 });
        assert_eq!(arrival(Op::Write, 65_536, false), Arrival::Immediate { every: 16 });
        assert_eq!(arrival(Op::Send, 8, true), Arrival::Receive);
        assert_eq!(arrival(Op::Read, 8, true), Arrival::None);
        assert!(!shape(&StreamSpec { latency: true, ..spec(Op::Write, 8) }).relaxed);
    }

    #[test]
    fn memory_is_not_watched_for_what_is_waited_for_or_may_be_reordered() {
        let with = |change: fn(&mut Tuning)| {
            let mut spec = StreamSpec { latency: true, ..spec(Op::Write, 8) };
            change(&mut spec.port.tuning);
            let shape = shape(&spec);
            (shape.arrival, shape.relaxed)
        };
        let immediate = Arrival::Immediate { every: 1 };
        assert_eq!(with(|_| ()), (Arrival::Memory, false));
        assert_eq!(with(|t| t.poll = Some(Poll::Event)), (immediate, true));
        assert_eq!(with(|t| t.poll = Some(Poll::Busy)), (Arrival::Memory, false));
        assert_eq!(with(|t| t.relaxed_ordering = Some(true)), (immediate, true));
        assert_eq!(with(|t| t.relaxed_ordering = Some(false)), (Arrival::Memory, false));
    }

    #[test]
    fn depth_is_bounded_by_cache_flight_and_device() {
        assert_eq!(shape(&spec(Op::Write, 65_536)).depth, 128);
        assert_eq!(shape(&spec(Op::Write, 1 << 20)).depth, 8);
        assert_eq!(shape(&spec(Op::Write, 1 << 29)).depth, 2);
        let mut capped = spec(Op::Write, 65_536);
        capped.port.max_in_flight_bytes = Some(1 << 20);
        assert_eq!((shape(&capped).depth, shape(&capped).signal_every), (8, 4));
        capped.port.max_in_flight_bytes = Some(1);
        assert_eq!((shape(&capped).depth, shape(&capped).signal_every), (1, 1));
        let small = Shape::new(&spec(Op::Send, 64), &SMALL).unwrap();
        assert_eq!((small.depth, small.sends(), small.receives), (31, 63, 64));
    }

    #[test]
    fn shared_receives_are_those_of_all_lanes_within_the_devices_limit() {
        let shared = |op, service, device: &Allowed| {
            let mut spec = StreamSpec { service, ..spec(op, 64) };
            spec.port.tuning.srq = true;
            let shape = Shape::new(&spec, device).unwrap();
            (shape.srq, shape.depth, shape.receives)
        };
        assert_eq!(shared(Op::Send, Service::Reliable, &LARGE), (true, 128, 256));
        let few = Allowed { shared_receives: 200, ..LARGE };
        assert_eq!(shared(Op::Send, Service::Reliable, &few), (true, 50, 100));
        assert_eq!(shared(Op::SendImm, Service::Datagram, &few), (true, 50, 100));
        assert_eq!(shared(Op::Write, Service::Reliable, &few), (false, 128, 256));
    }

    #[test]
    fn a_message_above_the_ports_limit_is_refused() {
        let failure = Shape::new(&spec(Op::Send, 1 << 31), &SMALL).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.cause.contains("2147483648 bytes"), "{failure}");
    }

    #[test]
    fn inline_follows_the_wish_or_the_default() {
        assert_eq!(shape(&spec(Op::Send, 64)).inline, 64);
        assert_eq!(shape(&spec(Op::Send, 256)).inline, 0);
        assert_eq!(shape(&StreamSpec { inline: Some(0), ..spec(Op::Send, 64) }).inline, 0);
        assert_eq!(shape(&StreamSpec { inline: Some(400), ..spec(Op::Send, 256) }).inline, 256);
        assert_eq!(shape(&spec(Op::Read, 8)).inline, 0);
    }

    #[test]
    fn a_datagram_fits_one_packet_behind_its_header() {
        let datagram = |size| StreamSpec { service: Service::Datagram, ..spec(Op::Send, size) };
        let shape = shape(&datagram(4096));
        assert_eq!((shape.head, shape.stride), (40, 4096 + 64));
        assert!(shape.has_credits() && shape.receives >= 2 * shape.depth);
        let failure = Shape::new(&datagram(4097), &LARGE).unwrap_err();
        assert!(failure.cause.contains("the path MTU is 4096"), "{failure}");
    }

    #[test]
    fn every_write_that_may_be_lost_tells_of_itself() {
        let unreliable = StreamSpec { service: Service::Unreliable, ..spec(Op::Write, 65_536) };
        assert_eq!(shape(&unreliable).arrival, Arrival::Immediate { every: 1 });
        let polled = StreamSpec { latency: true, size: 8, ..unreliable };
        assert_eq!(shape(&polled).arrival, Arrival::Memory);
        assert!(!shape(&polled).has_credits());
    }

    #[test]
    fn credit_is_renewed_by_the_peer_and_forgiven_when_it_is_lost() {
        let mut credit = Credit { consumed: 100, ..Credit::default() };
        assert_eq!((credit.left(100), credit.left(120)), (0, 20));
        credit.renew(CREDIT_IMMEDIATE | 60);
        assert_eq!(credit.left(100), 60);
        credit.renew(CREDIT_IMMEDIATE | 40);
        assert_eq!(credit.left(100), 60, "an older word changes nothing");
        credit.forgive();
        assert_eq!((credit.left(100), credit.forgiven), (100, 40));
        credit.consumed += 10;
        credit.renew(CREDIT_IMMEDIATE | 95);
        assert_eq!((credit.forgiven, credit.left(100)), (15, 100), "most came after all");
        let near_the_end = u64::from(!CREDIT_IMMEDIATE) - 5;
        let mut credit =
            Credit { consumed: near_the_end, renewed: near_the_end, ..Credit::default() };
        credit.consumed += 10;
        credit.renew(CREDIT_IMMEDIATE | 3);
        assert_eq!(credit.renewed, near_the_end + 9, "it counts past 31 bits");
    }

    #[test]
    fn counts_extend_past_32_bits_and_never_go_back() {
        assert_eq!(extend(0, 0), 0);
        assert_eq!(extend(5, 7), 7);
        assert_eq!(extend(7, 5), 7);
        assert_eq!(extend(u64::from(u32::MAX), 3), (1 << 32) + 3);
        assert_eq!(extend((1 << 32) + 3, u32::MAX), (1 << 32) + 3);
    }

    #[test]
    fn ids_carry_lane_and_sequence() {
        assert_eq!(unpack(pack(1023, 70_000)), (1023, 70_000));
        assert_eq!(unpack(RECEIVE | pack(3, 0)), (3, 0));
        assert_eq!(unpack(pack(3, (5 << 32) + 9)), (3, 9));
    }

    #[test]
    fn slots_do_not_overlap_and_words_end_their_message() {
        let shape = shape(&StreamSpec { latency: true, ..spec(Op::Write, 100) });
        assert_eq!(shape.stride, 128);
        assert_eq!(shape.departure_word(0, 1), 96);
        assert_eq!(shape.departure_word(0, 129), 96);
        assert_eq!(shape.departure_word(1, 1), 128 * 128 + 96);
        assert_eq!(shape.arrival_word(1, 128), 2 * 2 * 128 * 128 - 128 + 96);
    }

    #[test]
    fn a_working_set_is_cycled_through_whatever_the_depth() {
        let with = |bytes, size| {
            let mut spec = spec(Op::Write, size);
            spec.port.tuning.working_set_bytes = Some(bytes);
            shape(&spec)
        };
        let large = with(64 << 20, 65_536);
        assert_eq!((large.depth, large.slots, large.cycle), (128, 512, 512));
        assert_eq!(large.area(), 64 << 20);
        assert_ne!(large.departure_word(0, 129), large.departure_word(0, 1));
        assert_eq!(large.departure_word(0, 513), large.departure_word(0, 1));
        let sparse = with(1 << 30, 8);
        assert_eq!((sparse.slots, sparse.stride, sparse.area()), (1 << 16, 8192, 1 << 30));
        let small = with(65_536, 65_536);
        assert_eq!(small.slots, 128, "never fewer than are under way");
        assert_eq!(large.agreed(300).cycle, 300);
    }

    #[test]
    fn ends_with_unequal_queues_cycle_through_the_fewer_slots() {
        let shape = shape(&spec(Op::Write, 64)).agreed(6);
        assert_eq!((shape.slots, shape.depth, shape.signal_every), (128, 6, 3));
        assert_eq!(shape.cycle, 6);
        assert_eq!(shape.arrival, Arrival::Immediate { every: 3 });
        assert_eq!(shape.departure_word(0, 7), shape.departure_word(0, 1));
        assert_eq!(shape.departure_word(1, 1), 128 * 64 + 60);
    }
}
