//! Queue pairs: made, connected, posted to.

use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::ptr::NonNull;

use super::cq::CompletionQueue;
use super::device::{Context, report_leak};
use super::error::{CallError, Operation, Result, last_errno};
use super::extended::{ExtendedSends, operations};
use super::ffi;
use super::mr::Access;
use super::pd::ProtectionDomain;
use super::srq::SharedReceiveQueue;

/// What a queue pair can hold, as asked for or as granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Sends.
    pub sends: u32,
    /// Receives.
    pub receives: u32,
    /// Bytes of a send that can be carried inside the request.
    pub inline: u32,
}

/// Bytes that the adapter puts before each received datagram: the global route header.
pub const GRH: u32 = 40;
/// What a datagram must know of the queue pair that takes it: any value without the top bit, which
/// is the kernel's.
pub const QKEY: u32 = 0x1111_1111;

/// What a queue pair promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Service {
    /// Reliable connection: all arrives, in order.
    #[default]
    Reliable,
    /// Unreliable connection: what is lost stays lost, and nobody tells.
    Unreliable,
    /// Datagrams of one packet to any queue pair: likewise.
    Datagram,
}

impl Service {
    /// Nothing is lost.
    pub fn is_reliable(self) -> bool {
        self == Service::Reliable
    }

    fn kind(self) -> ffi::ibv_qp_type {
        match self {
            Service::Reliable => ffi::IBV_QPT_RC,
            Service::Unreliable => ffi::IBV_QPT_UC,
            Service::Datagram => ffi::IBV_QPT_UD,
        }
    }
}

/// What a queue pair is to be.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Where its completions go.
    pub cq: &'a CompletionQueue,
    /// Where it takes its receives from; none for a queue of its own.
    pub srq: Option<&'a SharedReceiveQueue>,
    /// What it promises.
    pub service: Service,
    /// What it holds.
    pub capacity: Capacity,
    /// Sends are posted by `ibv_wr_*`.
    pub extended: bool,
}

/// A queue pair. Destroyed on drop, before its parents.
pub struct QueuePair {
    raw: NonNull<ffi::ibv_qp>,
    /// Posts sends by `ibv_wr_*`.
    extended: Option<ExtendedSends>,
    service: Service,
    granted: Capacity,
    pd: ProtectionDomain,
    // Held, since the device writes to it until the queue pair is gone.
    _cq: CompletionQueue,
    // Held likewise.
    _srq: Option<SharedReceiveQueue>,
}

// SAFETY: libibverbs allows every verb on a queue pair from any thread at any time.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// A queue pair in RESET whose sends are signalled one by one as they ask. Inline that the
    /// device does not grant is asked for in smaller portions, down to none.
    pub fn new(pd: &ProtectionDomain, wanted: &Wanted) -> Result<QueuePair> {
        let mut inline = wanted.capacity.inline;
        loop {
            let capacity = Capacity { inline, ..wanted.capacity };
            match QueuePair::create(pd, &Wanted { capacity, ..*wanted }) {
                Err(libc::EINVAL | libc::ENOMEM | libc::EOPNOTSUPP) if inline > 0 => {
                    inline = if inline > 32 { inline / 2 } else { 0 };
                }
                Ok(pair) => return Ok(pair),
                Err(errno) => {
                    let context = pd.context();
                    let Capacity { sends, receives, .. } = capacity;
                    let most = context.limits().max_qp_wr;
                    let operation = match wanted.extended {
                        true => Operation::CreateQpEx,
                        false => Operation::CreateQp,
                    };
                    return Err(CallError::new(operation, context.name(), errno)
                        .with_detail(format!(
                            "{sends} sends and {receives} receives asked for, \
                             the device allows {most} each"
                        ))
                        .into());
                }
            }
        }
    }

    fn create(pd: &ProtectionDomain, wanted: &Wanted) -> std::result::Result<QueuePair, i32> {
        let Wanted { cq, srq, service, capacity, .. } = wanted;
        // SAFETY: numbers and null pointers.
        let mut request: ffi::ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        request.send_cq = cq.raw();
        request.recv_cq = cq.raw();
        request.srq = srq.map_or(std::ptr::null_mut(), SharedReceiveQueue::raw);
        request.cap = ffi::ibv_qp_cap {
            max_send_wr: capacity.sends,
            max_recv_wr: if srq.is_some() { 0 } else { capacity.receives },
            max_send_sge: 1,
            // A datagram's header goes apart from its payload.
            max_recv_sge: if *service == Service::Datagram { 2 } else { 1 },
            max_inline_data: capacity.inline,
        };
        request.qp_type = service.kind();
        let raw = match wanted.extended {
            true => {
                request.comp_mask = ffi::IBV_QP_INIT_ATTR_PD | ffi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
                request.pd = pd.raw();
                let atomics = pd.context().limits().has_atomics();
                request.send_ops_flags = operations(service.kind(), atomics);
                pd.context().create_qp_ex(&mut request)?
            }
            false => {
                let request: *mut ffi::ibv_qp_init_attr_ex = &mut request;
                let create = pd.context().symbols().ibv_create_qp;
                // SAFETY: domain and queues are alive, and the queue pair keeps them so; the plain
                // structure is the beginning of the extended one.
                let raw = unsafe { create(pd.raw(), request.cast()) };
                NonNull::new(raw).ok_or_else(last_errno)?
            }
        };
        let granted = Capacity {
            sends: request.cap.max_send_wr,
            receives: request.cap.max_recv_wr,
            inline: request.cap.max_inline_data,
        };
        let mut pair = QueuePair {
            raw,
            extended: None,
            service: *service,
            granted,
            pd: pd.clone(),
            _cq: (*cq).clone(),
            _srq: srq.cloned(),
        };
        if wanted.extended {
            // From here on the queue pair is destroyed when this fails.
            pair.extended = Some(pair.extended_sends().ok_or(libc::EOPNOTSUPP)?);
        }
        Ok(pair)
    }

    /// What sends by `ibv_wr_*` go through; none where the library or the driver lacks it.
    fn extended_sends(&self) -> Option<ExtendedSends> {
        let convert = self.context().symbols().ibv_qp_to_qp_ex?;
        // SAFETY: alive, and it lives as long as what is made of it.
        unsafe { ExtendedSends::of(NonNull::new(convert(self.raw.as_ptr()))?) }
    }

    /// Number by which the peer reaches it.
    pub fn number(&self) -> u32 {
        // SAFETY: alive; the library does not change it.
        unsafe { self.raw.as_ref() }.qp_num
    }

    /// What the device granted, at least what was asked for except for inline.
    pub fn granted(&self) -> Capacity {
        self.granted
    }

    /// RESET to INIT: receives can be posted from now on. `access` is what the peer may do.
    pub fn initialise(&mut self, port: u8, pkey_index: u16, access: Access) -> Result<()> {
        let mut attributes = no_attributes();
        attributes.qp_state = ffi::IBV_QPS_INIT;
        attributes.port_num = port;
        attributes.pkey_index = pkey_index;
        attributes.qp_access_flags = access.mandatory();
        attributes.qkey = QKEY;
        let mask = ffi::IBV_QP_STATE | ffi::IBV_QP_PKEY_INDEX | ffi::IBV_QP_PORT;
        let mask = match self.service {
            Service::Datagram => mask | ffi::IBV_QP_QKEY,
            _ => mask | ffi::IBV_QP_ACCESS_FLAGS,
        };
        let detail = || format!("partition key index {pkey_index}");
        self.modify(Operation::ModifyInit, port, attributes, mask, detail)
    }

    /// INIT to RTR: listens to `peer`; for datagrams, to anybody.
    pub fn listen(&mut self, path: &Path, peer: &Peer) -> Result<()> {
        let mut attributes = no_attributes();
        attributes.qp_state = ffi::IBV_QPS_RTR;
        attributes.path_mtu = path.mtu_code;
        attributes.dest_qp_num = peer.qp_num;
        attributes.rq_psn = peer.psn;
        attributes.max_dest_rd_atomic = path.rd_atomic_in;
        attributes.min_rnr_timer = path.min_rnr_timer;
        attributes.ah_attr = address(path, peer);
        let connected =
            ffi::IBV_QP_AV | ffi::IBV_QP_PATH_MTU | ffi::IBV_QP_DEST_QPN | ffi::IBV_QP_RQ_PSN;
        let reliable = ffi::IBV_QP_MAX_DEST_RD_ATOMIC | ffi::IBV_QP_MIN_RNR_TIMER;
        let mask = match self.service {
            Service::Reliable => ffi::IBV_QP_STATE | connected | reliable,
            Service::Unreliable => ffi::IBV_QP_STATE | connected,
            Service::Datagram => ffi::IBV_QP_STATE,
        };
        self.modify(Operation::ModifyRtr, path.port, attributes, mask, || destination(path, peer))
    }

    /// RTR to RTS: can send, from packet sequence number `psn` on.
    pub fn start(&mut self, path: &Path, psn: u32) -> Result<()> {
        let mut attributes = no_attributes();
        attributes.qp_state = ffi::IBV_QPS_RTS;
        attributes.sq_psn = psn;
        attributes.timeout = path.timeout;
        attributes.retry_cnt = path.retries;
        attributes.rnr_retry = path.rnr_retries;
        attributes.max_rd_atomic = path.rd_atomic_out;
        let reliable = ffi::IBV_QP_TIMEOUT
            | ffi::IBV_QP_RETRY_CNT
            | ffi::IBV_QP_RNR_RETRY
            | ffi::IBV_QP_MAX_QP_RD_ATOMIC;
        let mask = ffi::IBV_QP_STATE | ffi::IBV_QP_SQ_PSN;
        let mask = if self.service.is_reliable() { mask | reliable } else { mask };
        self.modify(Operation::ModifyRts, path.port, attributes, mask, || {
            format!("{} outstanding READs asked for", path.rd_atomic_out)
        })
    }

    fn modify(
        &mut self,
        operation: Operation,
        port: u8,
        mut attributes: ffi::ibv_qp_attr,
        mask: u32,
        detail: impl FnOnce() -> String,
    ) -> Result<()> {
        let modify = self.context().symbols().ibv_modify_qp;
        // SAFETY: alive; the mask names the attributes that are set.
        match unsafe { modify(self.raw.as_ptr(), &mut attributes, mask as i32) } {
            0 => Ok(()),
            errno => {
                let object = format!("{}:{port} QP {}", self.context().name(), self.number());
                let errno = if errno > 0 { errno } else { last_errno() };
                Err(CallError::new(operation, object, errno).with_detail(detail()).into())
            }
        }
    }

    /// Posts a list of sends; those before a refused one are posted.
    ///
    /// # Safety
    /// `first` begins a valid list, whose scatter entries lie in memory that stays registered until the requests are done
    /// or the queue pair is gone. Requests and scatter entries are copied.
    #[inline]
    pub unsafe fn post_send(&mut self, first: *mut ffi::ibv_send_wr) -> Result<()> {
        if let Some(extended) = &self.extended {
            // SAFETY: alive, and the list by contract.
            let status = unsafe { extended.post(first, self.service == Service::Datagram) };
            return if status == 0 {
                Ok(())
            } else {
                Err(self.refused(Operation::PostSend, status))
            };
        }
        let raw = self.raw.as_ptr();
        let mut refused = std::ptr::null_mut();
        // SAFETY: alive, and the list by contract.
        let status = unsafe {
            match (*(*raw).context).ops.post_send {
                Some(post) => post(raw, first, &mut refused),
                None => libc::EOPNOTSUPP,
            }
        };
        if status == 0 { Ok(()) } else { Err(self.refused(Operation::PostSend, status)) }
    }

    /// Posts a list of receives; those before a refused one are posted.
    ///
    /// # Safety
    /// As for [`QueuePair::post_send`].
    #[inline]
    pub unsafe fn post_receive(&mut self, first: *mut ffi::ibv_recv_wr) -> Result<()> {
        let raw = self.raw.as_ptr();
        let mut refused = std::ptr::null_mut();
        // SAFETY: alive, and the list by contract.
        let status = unsafe {
            match (*(*raw).context).ops.post_recv {
                Some(post) => post(raw, first, &mut refused),
                None => libc::EOPNOTSUPP,
            }
        };
        if status == 0 { Ok(()) } else { Err(self.refused(Operation::PostRecv, status)) }
    }

    fn context(&self) -> &Context {
        self.pd.context()
    }

    #[cold]
    fn refused(&self, operation: Operation, status: i32) -> super::error::Error {
        // Providers return an errno, some old ones -1 with errno set.
        let errno = if status > 0 { status } else { last_errno() };
        let object = format!("{} QP {}", self.context().name(), self.number());
        CallError::new(operation, object, errno).into()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let context = self.context();
        // SAFETY: made once, destroyed once.
        let status = unsafe { (context.symbols().ibv_destroy_qp)(self.raw.as_ptr()) };
        report_leak("destroy the queue pair", context.name(), status);
    }
}

/// How to reach any peer from a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Port, from 1.
    pub port: u8,
    /// `ibv_mtu` code of the path MTU: 1 for 256 bytes … 5 for 4096.
    pub mtu_code: u32,
    /// Own GID; none addresses by LID alone.
    pub gid_index: Option<u8>,
    /// Routers that a packet may pass.
    pub hop_limit: u8,
    /// Traffic class byte.
    pub traffic_class: u8,
    /// Flow label; 0 leaves it to the driver.
    pub flow_label: u32,
    /// Service level.
    pub service_level: u8,
    /// Acknowledge timeout, 4.096 µs · 2^n; 0 is for ever.
    pub timeout: u8,
    /// Retries after a timeout, at most 7.
    pub retries: u8,
    /// Retries when the peer has no receive; 7 is for ever.
    pub rnr_retries: u8,
    /// Code of the wait that is asked of a sender for whom there is no receive.
    pub min_rnr_timer: u8,
    /// READs outstanding from here.
    pub rd_atomic_out: u8,
    /// READs outstanding from the peer.
    pub rd_atomic_in: u8,
}

/// The other end of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Number of its queue pair.
    pub qp_num: u32,
    /// First packet sequence number that it sends.
    pub psn: u32,
    /// Its local id; 0 on Ethernet.
    pub lid: u16,
    /// Its GID.
    pub gid: Ipv6Addr,
}

/// `ibv_mtu` code of the largest path MTU that is not above `bytes`; 256 bytes at least.
pub fn mtu_code(bytes: u32) -> u32 {
    (bytes.max(256).ilog2() - 7).min(ffi::IBV_MTU_4096)
}

/// The way by `path` to the port of `peer`.
pub(super) fn address(path: &Path, peer: &Peer) -> ffi::ibv_ah_attr {
    let mut address = no_attributes().ah_attr;
    address.dlid = peer.lid;
    address.sl = path.service_level;
    address.port_num = path.port;
    if let Some(gid_index) = path.gid_index {
        address.is_global = 1;
        address.grh.dgid = ffi::ibv_gid { raw: peer.gid.octets() };
        address.grh.sgid_index = gid_index;
        address.grh.hop_limit = path.hop_limit;
        address.grh.traffic_class = path.traffic_class;
        address.grh.flow_label = path.flow_label;
    }
    address
}

/// The same in words.
pub(super) fn destination(path: &Path, peer: &Peer) -> String {
    let from = match path.gid_index {
        Some(index) => format!("GID index {index} to GID {}", peer.gid),
        None => format!("LID {}", peer.lid),
    };
    let bytes = 128_u32 << path.mtu_code;
    format!("{from}, QP {}, path MTU {bytes} bytes", peer.qp_num)
}

fn no_attributes() -> ffi::ibv_qp_attr {
    // SAFETY: numbers only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtus_have_the_codes_of_the_headers() {
        for (bytes, code) in [
            (0, ffi::IBV_MTU_256),
            (256, ffi::IBV_MTU_256),
            (1023, ffi::IBV_MTU_512),
            (1024, ffi::IBV_MTU_1024),
            (2048, ffi::IBV_MTU_2048),
            (4096, ffi::IBV_MTU_4096),
            (9000, ffi::IBV_MTU_4096),
        ] {
            assert_eq!(mtu_code(bytes), code, "{bytes} bytes");
        }
    }
}
