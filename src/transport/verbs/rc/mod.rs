//! Endpoints over queue pairs of any service: built at both ends, introduced to each other,
//! connected (datagrams: each learns where the other is).
//!
//! An endpoint belongs to one thread: its queue pairs ("lanes") share one completion queue and one
//! registered buffer. It is made in two steps, since each end needs the other's numbers:
//! `prepare` gives an end with an [`EndAddress`] to hand to the peer, and `connect` takes the
//! peer's. Both ends have to be connected before either starts to send.

mod addressed;
mod receives;
mod requests;
mod stream;

pub use super::qp::Service;
pub use addressed::{AddressedSpec, PreparedAddressed, RcAddressed};
pub use stream::{Arrival, PreparedStream, RcStream, StreamSpec, service};

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::time::{Duration, Instant};

use fabbench_harness::plan::{Poll, Tuning};

use serde::{Deserialize, Serialize};

use super::ah::AddressHandle;
use super::cq::{CompletionChannel, CompletionQueue, WorkCompletion};
use super::device::Context;
use super::error::{CallError, Error, Operation};
use super::ffi;
use super::mr::{Access, MemoryRegion};
use super::pd::ProtectionDomain;
use super::qp::{Capacity, Path, Peer, QKEY, QueuePair, Wanted, mtu_code};
use super::srq::SharedReceiveQueue;
use crate::memory::{HostBuffer, Placement};
use crate::session::protocol::PortPath;
use crate::transport::{Failure, FailureKind, Result};

/// Retries after a timeout: the most that the field holds.
const RETRIES: u8 = 7;
/// Retries when the peer has no receive: one less than "for ever", so that starvation shows.
const RNR_RETRIES: u8 = 6;
/// Routers that a packet may pass, as IP hosts set it.
const HOP_LIMIT: u8 = 64;
/// Empty looks between two looks at the device's events, and at the completion queue where
/// arrivals are seen in memory.
const LOOKS: u32 = 1024;
/// Empty looks between two sleeps over a soft device.
const SPINS: u32 = 16;
/// Longest sleep.
const SLEEP: Duration = Duration::from_millis(2);
/// How long the event behind flushed requests may take.
const EVENT_GRACE: Duration = Duration::from_secs(1);
/// Completions collected by one poll.
const BATCH: usize = 32;

/// What the peer has to know of an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAddress {
    /// Local id; 0 on Ethernet.
    pub lid: u16,
    /// GID.
    pub gid: Ipv6Addr,
    /// Number and first packet sequence number of each queue pair.
    pub lanes: Vec<(u32, u32)>,
    /// READs that this end answers at a time, per queue pair.
    pub rd_atomic_in: u8,
    /// Address of what the peer may reach.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its remote key.
    pub key: u32,
    /// Streams: slots for messages per lane; else 0.
    pub slots: u64,
    /// Streams: receives posted per lane; else 0.
    #[serde(default)]
    pub receives: u32,
}

/// Of what an end is made.
struct Parts {
    port: PortPath,
    service: Service,
    lanes: usize,
    capacity: Capacity,
    access: Access,
    buffer_len: usize,
    /// All queue pairs take their receives from one queue.
    srq: bool,
}

impl Parts {
    /// Receives of all queue pairs together.
    fn receives(&self) -> u32 {
        let all = u64::from(self.capacity.receives) * self.lanes as u64;
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

/// An end that does not yet know its peer.
struct Prepared {
    pairs: Vec<QueuePair>,
    first_psns: Vec<u32>,
    cq: CompletionQueue,
    srq: Option<SharedReceiveQueue>,
    region: MemoryRegion,
    path: Path,
    pd: ProtectionDomain,
    service: Service,
    address: EndAddress,
    context: Context,
    object: String,
    tuning: Tuning,
}

/// What the peer's buffer is, once connected, and where datagrams go.
struct Remote {
    address: u64,
    len: u64,
    key: u32,
    slots: u64,
    receives: u32,
    /// Numbers of its queue pairs.
    pairs: Vec<u32>,
    /// Datagrams: the ways to its port, one a flow label, for one queue pair after the other.
    handles: Vec<AddressHandle>,
}

impl Remote {
    /// Where a datagram of `lane` goes; none on a connection.
    fn datagram(&self, lane: usize) -> Option<Datagram> {
        let handle = self.handles.get(lane % self.handles.len().max(1))?;
        let (ah, remote_qpn) = (handle.raw(), self.pairs[lane]);
        let to = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 { ah, remote_qpn, remote_qkey: QKEY };
        Some(Datagram(to))
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy)]
struct Datagram(ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_3);

// SAFETY: an address handle may be used from any thread; the endpoint holds it.
unsafe impl Send for Datagram {}

impl Prepared {
    fn new(context: Context, parts: &Parts) -> Result<Prepared> {
        let object = format!("{}:{}", parts.port.device, parts.port.port);
        let attributes = context.query_port(parts.port.port)?;
        if attributes.state != ffi::IBV_PORT_ACTIVE {
            let cause = format!(
                "the port is {}: check cable and switch port, `ip link` on RoCE, \
                 the subnet manager on InfiniBand",
                state_word(attributes.state)
            );
            return Err(Failure::new(FailureKind::Missing, "use the port", object, cause));
        }
        let gid = own_gid(&context, &parts.port, &object)?;
        let (path, rd_atomic_in) = path(&context, &parts.port, &object)?;
        let pd = ProtectionDomain::new(&context)?;
        let cq = completion_queue(&context, parts)?;
        let region = MemoryRegion::register(&pd, buffer(parts, &object)?, parts.access)?;
        let srq = match parts.srq {
            true => Some(SharedReceiveQueue::new(&pd, parts.receives())?),
            false => None,
        };
        let wanted = Wanted {
            cq: &cq,
            srq: srq.as_ref(),
            service: parts.service,
            capacity: parts.capacity,
            extended: parts.port.tuning.extended,
        };
        let mut pairs = Vec::with_capacity(parts.lanes);
        for _ in 0..parts.lanes {
            let mut pair = QueuePair::new(&pd, &wanted)?;
            let pkey_index = parts.port.tuning.pkey_index.unwrap_or(0);
            pair.initialise(parts.port.port, pkey_index, parts.access)?;
            pairs.push(pair);
        }
        let first_psns = random_psns(parts.lanes, &object)?;
        let numbers = pairs.iter().map(QueuePair::number);
        let address = EndAddress {
            lid: attributes.lid,
            gid,
            lanes: numbers.zip(first_psns.iter().copied()).collect(),
            rd_atomic_in,
            address: region.buffer().as_ptr() as u64,
            len: region.buffer().len() as u64,
            key: region.remote_key(),
            slots: 0,
            receives: 0,
        };
        let tuning = parts.port.tuning.clone();
        Ok(Prepared {
            pairs,
            first_psns,
            cq,
            srq,
            region,
            path,
            pd,
            service: parts.service,
            address,
            context,
            object,
            tuning,
        })
    }

    /// Inline bytes that every queue pair carries.
    fn inline(&self) -> u32 {
        self.pairs.iter().map(|pair| pair.granted().inline).min().unwrap_or(0)
    }

    /// Connects each queue pair with the peer's of the same index.
    fn connect(&mut self, peer: &EndAddress) -> Result<Remote> {
        self.connect_some(0..self.pairs.len(), peer)
    }

    /// Connects some of the queue pairs with those of a peer, in their order.
    fn connect_some(&mut self, own: Range<usize>, peer: &EndAddress) -> Result<Remote> {
        if peer.lanes.len() != own.len() {
            let cause =
                format!("this end has {} queue pairs and the peer {}", own.len(), peer.lanes.len());
            return Err(Failure::new(FailureKind::Internal, "connect", &self.object, cause));
        }
        let path = &mut self.path;
        path.rd_atomic_out = path.rd_atomic_out.min(peer.rd_atomic_in);
        let mut labels = self.tuning.flow_labels.iter().copied().cycle();
        let psns = &self.first_psns[own.clone()];
        for ((pair, psn), lane) in self.pairs[own].iter_mut().zip(psns).zip(&peer.lanes) {
            path.flow_label = labels.next().unwrap_or(0);
            let to = Peer { qp_num: lane.0, psn: lane.1, lid: peer.lid, gid: peer.gid };
            pair.listen(path, &to)?;
            pair.start(path, *psn)?;
        }
        let handles = match self.service {
            Service::Datagram => self.handles(peer)?,
            _ => Vec::new(),
        };
        Ok(Remote {
            address: peer.address,
            len: peer.len,
            key: peer.key,
            slots: peer.slots,
            receives: peer.receives,
            pairs: peer.lanes.iter().map(|lane| lane.0).collect(),
            handles,
        })
    }

    /// The ways to the port of `peer`: as many as there are flow labels, or queue pairs to use
    /// them.
    fn handles(&self, peer: &EndAddress) -> Result<Vec<AddressHandle>> {
        let to = Peer { qp_num: 0, psn: 0, lid: peer.lid, gid: peer.gid };
        let labels = match &*self.tuning.flow_labels {
            [] => &[0],
            labels => &labels[..labels.len().min(self.pairs.len())],
        };
        let handle = |&flow_label| {
            let path = Path { flow_label, ..self.path.clone() };
            Ok(AddressHandle::new(&self.pd, &path, &to)?)
        };
        labels.iter().map(handle).collect()
    }
}

/// Looks for the error behind the failed completion `at` among those that came with it: a flushed
/// request only follows from another error, which may have shown up here or as an event.
#[cold]
fn completion_failure(
    done: &[WorkCompletion],
    at: usize,
    context: &Context,
    object: &str,
) -> Failure {
    let mut errors = done[at..].iter().filter_map(|done| done.error(object));
    let first = errors.next();
    let primary = first.iter().find(|error| !error.is_secondary()).cloned();
    if let Some(error) = primary.or_else(|| errors.find(|error| !error.is_secondary())) {
        return Error::from(error).into();
    }
    if let Err(event) = await_event(context) {
        return event.into();
    }
    match first {
        Some(error) => Error::from(error).into(),
        None => Failure::new(FailureKind::Internal, "read a completion", object, "no error in it"),
    }
}

/// Waits a moment for an event that ends a test: when a link goes down, requests may be flushed
/// before the driver tells of it.
#[cold]
fn await_event(context: &Context) -> super::error::Result<()> {
    let deadline = Instant::now() + EVENT_GRACE;
    while Instant::now() < deadline {
        context.check_events()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    context.check_events()
}

/// Whether an endpoint should sleep after `empty` looks that found nothing: where completions are to
/// be waited for as `events`, and over a soft device, whose work waits for the CPU that a spinning
/// loop takes.
#[inline]
fn should_sleep(context: &Context, empty: u32, events: bool) -> Result<bool> {
    if empty.is_multiple_of(LOOKS) || (events && empty.is_multiple_of(SPINS)) {
        context.check_events()?;
    }
    let sleep = events || (empty.is_multiple_of(SPINS) && context.quirks().soft);
    if !sleep {
        std::hint::spin_loop();
    }
    Ok(sleep)
}

/// The GID at the index that was chosen; unspecified where packets go by LID alone.
fn own_gid(context: &Context, port: &PortPath, object: &str) -> Result<Ipv6Addr> {
    let gids = context.gids(port.port)?;
    match gids.iter().find(|entry| entry.index == port.gid_index) {
        Some(entry) => Ok(entry.gid),
        None if !port.grh => Ok(Ipv6Addr::UNSPECIFIED),
        None => {
            let known: Vec<_> = gids.iter().map(|entry| entry.index.to_string()).collect();
            let cause = match known.is_empty() {
                true => "the port has no usable GID (another network namespace? no IP address?)",
                false => "the GID at this index is gone",
            };
            let cause = format!("{cause}; index {} was chosen, there are: {}", port.gid_index, {
                if known.is_empty() { "none".into() } else { known.join(", ") }
            });
            Err(Failure::new(FailureKind::Missing, "find the GID", object, cause))
        }
    }
}

/// How this end's packets travel, and how many READs it answers at a time.
fn path(context: &Context, port: &PortPath, object: &str) -> Result<(Path, u8)> {
    let gid_index = match port.grh {
        false => None,
        true => Some(u8::try_from(port.gid_index).map_err(|_| {
            let cause = format!("index {} is above 255, the verbs' limit", port.gid_index);
            Failure::new(FailureKind::Refused, "use the GID", object, cause)
        })?),
    };
    let quirks = context.quirks();
    let limits = context.limits();
    let path = Path {
        port: port.port,
        mtu_code: mtu_code(port.mtu),
        gid_index,
        hop_limit: HOP_LIMIT,
        traffic_class: port.traffic_class,
        service_level: port.sl,
        flow_label: 0,
        // Below this a soft device's kernel may fall over, whatever was asked for. 0 is for ever.
        timeout: match port.timeout {
            0 => 0,
            timeout if quirks.soft => timeout.max(quirks.min_timeout),
            timeout => timeout,
        },
        retries: port.tuning.retry_count.unwrap_or(RETRIES),
        rnr_retries: port.tuning.rnr_retry.unwrap_or(RNR_RETRIES),
        min_rnr_timer: quirks.min_rnr_timer,
        rd_atomic_out: u8::try_from(limits.max_qp_init_rd_atom)
            .unwrap_or(u8::MAX)
            .min(port.tuning.outstanding_reads.unwrap_or(u8::MAX)),
        rd_atomic_in: u8::try_from(limits.max_qp_rd_atom).unwrap_or(u8::MAX),
    };
    let rd_atomic_in = path.rd_atomic_in;
    Ok((path, rd_atomic_in))
}

/// Settings of the queue pairs as they took effect, for the report.
fn settings(
    path: &Path,
    tuning: &Tuning,
    buffer: &HostBuffer,
    soft: bool,
) -> BTreeMap<String, serde_json::Value> {
    let polling = match tuning.poll {
        Some(Poll::Event) => "events",
        _ if soft => "busy, asleep when idle",
        _ => "busy",
    };
    let mut settings = BTreeMap::from([
        ("mtu".into(), (128_u32 << path.mtu_code).into()),
        ("sl".into(), path.service_level.into()),
        ("traffic_class".into(), path.traffic_class.into()),
        ("timeout".into(), path.timeout.into()),
        ("retry_count".into(), path.retries.into()),
        ("rnr_retry".into(), path.rnr_retries.into()),
        ("pkey_index".into(), tuning.pkey_index.unwrap_or(0).into()),
    ]);
    let verbs = if tuning.extended { "ibv_wr_*, CQ ex" } else { "ibv_post_send, ibv_poll_cq" };
    settings.insert("verbs".into(), verbs.into());
    settings.insert("polling".into(), polling.into());
    if let Some(index) = path.gid_index {
        settings.insert("gid_index".into(), index.into());
    }
    if let Some(node) = buffer.numa_node() {
        settings.insert("numa_node".into(), node.into());
    }
    if tuning.huge_pages {
        settings.insert("huge_pages".into(), true.into());
    }
    if !tuning.flow_labels.is_empty() {
        settings.insert("flow_labels".into(), tuning.flow_labels.clone().into());
    }
    settings
}

/// Memory for the messages, where the case wants it.
fn buffer(parts: &Parts, object: &str) -> Result<HostBuffer> {
    let Tuning { numa_node, huge_pages, .. } = parts.port.tuning;
    let place = Placement { numa_node, huge_pages };
    let made = HostBuffer::placed(parts.buffer_len, place);
    made.map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::ENOMEM);
        let detail = match huge_pages {
            true => format!(
                "{} bytes of huge pages asked for: as root, write how many are needed to \
                 /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                parts.buffer_len
            ),
            false => format!("{} bytes asked for", parts.buffer_len),
        };
        let call = CallError::new(Operation::AllocMemory, object, errno).with_detail(detail);
        Error::from(call).into()
    })
}

/// A queue with a place for every request of every lane: it never overruns.
fn completion_queue(context: &Context, parts: &Parts) -> Result<CompletionQueue> {
    let Capacity { sends, receives, .. } = parts.capacity;
    let entries = (u64::from(sends) + u64::from(receives)) * parts.lanes as u64;
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    let waits = context.quirks().soft || parts.port.tuning.poll == Some(Poll::Event);
    let channel = match waits {
        true => Some(CompletionChannel::new(context)?),
        false => None,
    };
    Ok(match parts.port.tuning.extended {
        true => CompletionQueue::extended(context, entries, channel.as_ref())?,
        false => CompletionQueue::new(context, entries, channel.as_ref())?,
    })
}

/// A fresh sequence number of 24 bits for each lane, so that packets of an earlier connection with
/// the same numbers are not taken for new ones.
fn random_psns(lanes: usize, object: &str) -> Result<Vec<u32>> {
    let mut bytes = vec![0; lanes * 4];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(FailureKind::Refused, "draw random numbers", object, error.to_string())
    })?;
    let words = bytes.chunks_exact(4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    Ok(words.map(|word| word & 0xff_ffff).collect())
}

fn state_word(state: u32) -> String {
    match state {
        ffi::IBV_PORT_DOWN => "DOWN".into(),
        ffi::IBV_PORT_INIT => "INIT (no subnet manager has configured it)".into(),
        ffi::IBV_PORT_ARMED => "ARMED (the subnet manager has not activated it)".into(),
        ffi::IBV_PORT_ACTIVE => "ACTIVE".into(),
        ffi::IBV_PORT_ACTIVE_DEFER => "ACTIVE_DEFER".into(),
        other => format!("in state Unknown({other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_fit_24_bits_and_differ() {
        let psns = random_psns(64, "rxe0:1").unwrap();
        assert_eq!(psns.len(), 64);
        assert!(psns.iter().all(|psn| *psn < 1 << 24));
        let distinct: std::collections::BTreeSet<_> = psns.iter().collect();
        assert!(distinct.len() > 60, "{psns:?}");
    }

    #[test]
    fn states_are_told_in_words() {
        assert_eq!(state_word(1), "DOWN");
        assert_eq!(state_word(77), "in state Unknown(77)");
    }
}
