//! Operations on named ranges over queue pairs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::{
    BATCH, EndAddress, Parts as Made, Prepared, Remote, SLEEP, completion_failure, settings,
    should_sleep,
};
use fabbench_harness::plan::Poll;

use crate::session::protocol::PortPath;
use crate::transport::verbs::cq::{CompletionQueue, WorkCompletion};
use crate::transport::verbs::device::Context;
use crate::transport::verbs::ffi;
use crate::transport::verbs::mr::{Access, MemoryRegion};
use crate::transport::verbs::qp::{Capacity, GRH, QueuePair, Service};
use crate::transport::{
    Addressed, Completion, Failure, FailureKind, Operation, Parts, Request, Result, Span, overlap,
};

/// Where and with what an atomic works.
type Atomic = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_2;

/// What an addressed endpoint is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressedSpec {
    /// The way out.
    pub port: PortPath,
    /// Queue pairs.
    pub lanes: usize,
    /// Operations under way per queue pair.
    pub tx_depth: u32,
    /// Receives posted per queue pair.
    pub rx_depth: u32,
    /// Bytes of the local buffer.
    pub buffer_len: usize,
    /// Bytes of a message that may be carried inside its request.
    pub inline: u32,
}

/// An addressed end that does not yet know its peer.
pub struct PreparedAddressed {
    prepared: Prepared,
    tx_depth: u32,
    rx_depth: u32,
    len: usize,
}

impl PreparedAddressed {
    /// Opens the device, allocates and registers the buffer, makes the queue pairs. Depths above
    /// the device's limits are cut.
    ///
    /// # Errors
    /// What the device refuses, or lacks.
    pub fn new(spec: &AddressedSpec) -> Result<PreparedAddressed> {
        PreparedAddressed::over(spec, Service::Reliable)
    }

    /// The same over queue pairs of any service; what the service lacks is refused when posted.
    ///
    /// # Errors
    /// As [`PreparedAddressed::new`].
    pub fn over(spec: &AddressedSpec, service: Service) -> Result<PreparedAddressed> {
        let context = Context::open(&spec.port.device)?;
        let most = context.limits().max_qp_wr.max(1);
        let (tx_depth, rx_depth) = (spec.tx_depth.clamp(1, most), spec.rx_depth.clamp(1, most));
        let mut access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        if spec.port.tuning.relaxed_ordering != Some(false) {
            access = access | Access::RELAXED_ORDERING;
        }
        if service.is_reliable() {
            access = access | Access::REMOTE_READ;
            if context.limits().has_atomics() {
                access = access | Access::REMOTE_ATOMIC;
            }
        }
        let parts = Made {
            port: spec.port.clone(),
            service,
            lanes: spec.lanes,
            capacity: Capacity { sends: tx_depth, receives: rx_depth, inline: spec.inline },
            access,
            // Headers of datagrams go behind the payload.
            buffer_len: match service {
                Service::Datagram => spec.buffer_len.next_multiple_of(8) + GRH as usize,
                _ => spec.buffer_len,
            },
            srq: false,
        };
        let mut prepared = Prepared::new(context, &parts)?;
        prepared.address.len = spec.buffer_len as u64;
        let len = spec.buffer_len;
        Ok(PreparedAddressed { prepared, tx_depth, rx_depth, len })
    }

    /// What the peer has to know.
    pub fn address(&self) -> &EndAddress {
        &self.prepared.address
    }

    /// What the peer `index` of `peers` has to know, each of which gets as many lanes.
    pub fn address_for(&self, index: usize, peers: usize) -> EndAddress {
        let all = &self.prepared.address;
        let each = all.lanes.len() / peers.max(1);
        EndAddress { lanes: all.lanes[index * each..][..each].to_vec(), ..all.clone() }
    }

    /// Connects to the peer.
    ///
    /// # Errors
    /// What the device refuses: usually an address that leads nowhere.
    pub fn connect(self, peer: &EndAddress) -> Result<RcAddressed> {
        self.connect_each(std::slice::from_ref(peer))
    }

    /// Connects to several peers over one buffer: the first lanes to the first, the next ones to
    /// the second, to each as many.
    ///
    /// # Errors
    /// Likewise.
    pub fn connect_each(mut self, peers: &[EndAddress]) -> Result<RcAddressed> {
        let each = self.prepared.pairs.len() / peers.len().max(1);
        let remotes = peers
            .iter()
            .enumerate()
            .map(|(at, peer)| self.prepared.connect_some(at * each..(at + 1) * each, peer))
            .collect::<Result<Vec<_>>>()?;
        let inline = self.prepared.inline();
        let Prepared { pairs, cq, region, context, object, path, tuning, service, .. } =
            self.prepared;
        let settings = settings(&path, &tuning, region.buffer(), context.quirks().soft);
        let mut numbers: Vec<_> =
            pairs.iter().enumerate().map(|(lane, pair)| (pair.number(), lane)).collect();
        numbers.sort_unstable();
        let (tx_depth, rx_depth) = (self.tx_depth, self.rx_depth);
        let lane = |pair| Lane {
            pair,
            under_way: 0,
            unsignalled: 0,
            // Never grows: there are at most so many completions to come.
            signalled: VecDeque::with_capacity(tx_depth as usize),
            receives: 0,
        };
        let lanes = pairs.into_iter().map(lane).collect();
        let done = [WorkCompletion::EMPTY; BATCH];
        Ok(RcAddressed {
            lanes,
            cq,
            region,
            remotes,
            each: each.max(1),
            inline,
            service,
            len: self.len,
            numbers,
            context,
            object,
            settings,
            events: tuning.poll == Some(Poll::Event),
            tx_depth,
            rx_depth,
            done,
            fetched: 0,
            handed_out: 0,
        })
    }
}

/// A connected addressed end.
pub struct RcAddressed {
    // Queue pairs go before the memory that their requests point to: fields drop in this order.
    lanes: Vec<Lane>,
    cq: CompletionQueue,
    region: MemoryRegion,
    /// One for each peer, and how many lanes go to each.
    remotes: Vec<Remote>,
    each: usize,
    /// Bytes that are carried inside a request.
    inline: u32,
    service: Service,
    /// Bytes of the buffer that may be addressed.
    len: usize,
    /// Number of each queue pair and its lane, sorted.
    numbers: Vec<(u32, usize)>,
    context: Context,
    object: String,
    settings: BTreeMap<String, serde_json::Value>,
    events: bool,
    tx_depth: u32,
    rx_depth: u32,
    /// Completions polled, and how many of them have been handed out.
    done: [WorkCompletion; BATCH],
    fetched: usize,
    handed_out: usize,
}

struct Lane {
    pair: QueuePair,
    /// Requests posted whose place is not yet free again.
    under_way: u32,
    /// Of these, the ones behind the last signalled one.
    unsignalled: u32,
    /// For each completion to come, the places that it frees.
    signalled: VecDeque<u32>,
    /// Receives posted and not yet used up.
    receives: u32,
}

impl RcAddressed {
    /// Settings of the queue pairs as they took effect, for the report.
    pub fn settings(&self) -> &BTreeMap<String, serde_json::Value> {
        &self.settings
    }

    /// Bytes of the guard regions around the buffer that were changed. Only while no operation is
    /// under way at either end, as for [`Addressed::memory`].
    pub fn guard_bytes_wrong(&self) -> u64 {
        // SAFETY: quiescent, as the caller was told.
        unsafe { self.region.buffer().guard_bytes_wrong() }
    }

    fn entry(&self, span: Span) -> Result<ffi::ibv_sge> {
        let len = self.len as u64;
        if span.offset.checked_add(span.len.into()).is_none_or(|end| end > len) {
            return Err(self.outside("local", span.offset, span.len, len));
        }
        let addr = self.region.buffer().as_ptr() as u64 + span.offset;
        Ok(ffi::ibv_sge { addr, length: span.len, lkey: self.region.local_key() })
    }

    /// Who is at the other end of a lane.
    #[inline]
    fn remote(&self, lane: usize) -> &Remote {
        &self.remotes[lane / self.each]
    }

    fn remote_address(&self, request: &Request) -> Result<u64> {
        let (offset, len) = (request.remote_offset, request.local.len);
        let remote = self.remote(request.lane);
        if offset.checked_add(len.into()).is_none_or(|end| end > remote.len) {
            return Err(self.outside("remote", offset, len, remote.len));
        }
        Ok(remote.address + offset)
    }

    fn atomic(&self, request: &Request) -> Result<Atomic> {
        let remote_addr = self.remote_address(request)?;
        if request.local.len != 8 || !remote_addr.is_multiple_of(8) {
            let cause = format!(
                "an atomic is of 8 aligned bytes, not of {} at {}",
                request.local.len, request.remote_offset
            );
            let kind = FailureKind::Internal;
            return Err(Failure::new(kind, "address memory", &self.object, cause));
        }
        let Request { add_or_compare: compare_add, swap, .. } = *request;
        Ok(Atomic { remote_addr, compare_add, swap, rkey: self.remote(request.lane).key })
    }

    #[cold]
    fn outside(&self, buffer: &str, offset: u64, span: u32, len: u64) -> Failure {
        let cause = format!("{span} bytes at {offset} reach outside the {buffer} {len} bytes");
        Failure::new(FailureKind::Internal, "address memory", &self.object, cause)
    }

    /// Polls once all that was polled before is handed out; true when there is something to hand
    /// out.
    #[inline]
    fn fetch(&mut self) -> Result<bool> {
        if self.handed_out == self.fetched {
            self.fetched = self.cq.poll(&mut self.done)?;
            self.handed_out = 0;
        }
        Ok(self.handed_out < self.fetched)
    }

    fn completion(&mut self, done: &WorkCompletion) -> Completion {
        let found = self.numbers.binary_search_by_key(&done.qp_num(), |(number, _)| *number);
        let lane = found.map_or(0, |at| self.numbers[at].1);
        let state = &mut self.lanes[lane];
        let arrival = done.is_receive();
        if arrival {
            state.receives -= 1;
        } else {
            state.under_way -= state.signalled.pop_front().unwrap_or(0);
        }
        let (len, immediate) =
            if arrival { (done.byte_len(), done.immediate().unwrap_or(0)) } else { (0, 0) };
        let len = if self.service == Service::Datagram { len.saturating_sub(GRH) } else { len };
        Completion { id: done.id(), lane, arrival, len, immediate }
    }
}

impl Addressed for RcAddressed {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn post(&mut self, request: &Request) -> Result<bool> {
        if self.lanes[request.lane].under_way >= self.tx_depth {
            return Ok(false);
        }
        let mut entry = self.entry(request.local)?;
        // SAFETY: numbers and null pointers.
        let mut wr: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
        wr.wr_id = request.id;
        wr.sg_list = &mut entry;
        wr.num_sge = i32::from(entry.length > 0);
        wr.send_flags = if request.signal { ffi::IBV_SEND_SIGNALED } else { 0 };
        if entry.length <= self.inline && self.inline > 0 && !request.operation.fetches() {
            wr.send_flags |= ffi::IBV_SEND_INLINE;
        }
        wr.opcode = match request.operation {
            Operation::Send => ffi::IBV_WR_SEND,
            Operation::SendImm => ffi::IBV_WR_SEND_WITH_IMM,
            Operation::Write => ffi::IBV_WR_RDMA_WRITE,
            Operation::WriteImm => ffi::IBV_WR_RDMA_WRITE_WITH_IMM,
            Operation::Read => ffi::IBV_WR_RDMA_READ,
            Operation::FetchAdd => ffi::IBV_WR_ATOMIC_FETCH_AND_ADD,
            Operation::CmpSwap => ffi::IBV_WR_ATOMIC_CMP_AND_SWP,
        };
        wr.__bindgen_anon_1.imm_data = request.immediate.to_be();
        if let Some(datagram) = self.remote(request.lane).datagram(request.lane % self.each) {
            if !request.operation.is_send() {
                let cause = format!("{:?} is no datagram", request.operation);
                let kind = FailureKind::Internal;
                return Err(Failure::new(kind, "post a send", &self.object, cause));
            }
            wr.wr.ud = datagram.0;
        } else if request.operation.is_atomic() {
            wr.wr.atomic = self.atomic(request)?;
        } else if !request.operation.is_send() {
            wr.wr.rdma.remote_addr = self.remote_address(request)?;
            wr.wr.rdma.rkey = self.remote(request.lane).key;
        }
        let lane = &mut self.lanes[request.lane];
        // SAFETY: the entry points into the region, which outlives the queue pair; the library
        // copies request and entry.
        unsafe { lane.pair.post_send(&mut wr) }?;
        lane.under_way += 1;
        lane.unsignalled += 1;
        if request.signal {
            lane.signalled.push_back(lane.unsignalled);
            lane.unsignalled = 0;
        }
        Ok(true)
    }

    fn post_receive(&mut self, lane: usize, local: Span, id: u64) -> Result<bool> {
        if self.lanes[lane].receives >= self.rx_depth {
            return Ok(false);
        }
        let entry = self.entry(local)?;
        let header = ffi::ibv_sge {
            addr: self.region.buffer().as_ptr() as u64 + self.len.next_multiple_of(8) as u64,
            length: GRH,
            lkey: entry.lkey,
        };
        let mut entries = [header, entry];
        let first = usize::from(self.service != Service::Datagram);
        let num_sge = 1 - first as i32 + i32::from(entry.length > 0);
        let next = std::ptr::null_mut();
        let sg_list = entries[first..].as_mut_ptr();
        let mut wr = ffi::ibv_recv_wr { wr_id: id, next, sg_list, num_sge };
        let lane = &mut self.lanes[lane];
        // SAFETY: as above.
        unsafe { lane.pair.post_receive(&mut wr) }?;
        lane.receives += 1;
        Ok(true)
    }

    fn poll(&mut self, done: &mut [Completion]) -> Result<usize> {
        if !self.fetch()? {
            return Ok(0);
        }
        let count = done.len().min(self.fetched - self.handed_out);
        for place in &mut done[..count] {
            let at = self.handed_out;
            let completion = self.done[at];
            if !completion.is_ok() {
                let done = &self.done[..self.fetched];
                return Err(completion_failure(done, at, &self.context, &self.object));
            }
            *place = self.completion(&completion);
            self.handed_out += 1;
        }
        Ok(count)
    }

    fn memory(&mut self) -> &mut [u8] {
        // SAFETY: quiescent, as the trait demands of the caller.
        let bytes = unsafe { self.region.buffer_mut().bytes_mut() };
        &mut bytes[..self.len]
    }

    fn parts(&mut self, write: Span, read: [Span; 2]) -> Result<Parts<'_>> {
        for span in [write, read[0], read[1]] {
            self.entry(span)?;
        }
        if read.iter().any(|span| overlap(write, *span)) {
            let cause = format!("{write:?} is to be written and {read:?} to be read at once");
            return Err(Failure::new(FailureKind::Internal, "share memory", &self.object, cause));
        }
        let start = self.region.buffer().as_ptr();
        // SAFETY: inside the buffer, apart from each other as was just seen, borrowed with the
        // endpoint, and quiescent as the trait demands of the caller.
        unsafe {
            let at = |span: Span| start.add(span.offset as usize);
            let read = read.map(|span| std::slice::from_raw_parts(at(span), span.len as usize));
            Ok((std::slice::from_raw_parts_mut(at(write), write.len as usize), read))
        }
    }

    fn inline(&self) -> u32 {
        self.inline
    }

    fn remote_len(&self) -> u64 {
        self.remotes.iter().map(|remote| remote.len).min().unwrap_or(0)
    }

    #[inline]
    fn idle(&mut self, empty: u32) -> Result<bool> {
        let sleep = should_sleep(&self.context, empty, self.events)?;
        if sleep {
            self.cq.arm()?;
            // What came before the queue was armed wakes nobody.
            if !self.fetch()? {
                self.cq.wait(Instant::now() + SLEEP)?;
            }
        }
        Ok(sleep)
    }
}
