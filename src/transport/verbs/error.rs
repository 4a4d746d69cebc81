//! What can go wrong with verbs, in words: the operation, the object and the likely cause.

use std::fmt;

use super::ffi;
use super::library::Unavailable;
use crate::transport::{Failure, FailureKind};

/// Result of a verbs call.
pub type Result<T> = std::result::Result<T, Error>;

/// A verbs call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are no verbs on this host.
    #[error("{0}")]
    Unavailable(#[from] Unavailable),
    /// A device or port that is not there.
    #[error("{object}: no such {what}: {present}")]
    Absent {
        /// `device` or `port`.
        what: &'static str,
        /// What was asked for.
        object: String,
        /// What there is instead, in words.
        present: String,
    },
    /// A call came back with an errno.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A work request completed with an error.
    #[error(transparent)]
    Completion(#[from] CompletionError),
    /// The device reported an event that ends a test.
    #[error("{device}: {event}")]
    Event {
        /// Device.
        device: String,
        /// The event.
        event: AsyncEvent,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        match error {
            Error::Unavailable(_) => {
                Failure::new(FailureKind::Missing, "open the verbs library", "this host", text)
            }
            Error::Absent { what, object, present } => {
                let operation = format!("find the {what}");
                Failure::new(FailureKind::Missing, operation, object, present)
            }
            Error::Call(call) => {
                let cause = call.cause();
                Failure::new(FailureKind::Refused, call.operation.text(), call.object, cause)
            }
            Error::Completion(done) => {
                let kind = match done.status {
                    // Neither is a cause: what the other end tells explains more.
                    WcStatus(ffi::IBV_WC_RETRY_EXC_ERR | ffi::IBV_WC_WR_FLUSH_ERR) => {
                        FailureKind::PeerLost
                    }
                    _ => FailureKind::Refused,
                };
                let cause = done.cause();
                let object = format!("{} QP {}", done.object, done.qp_num);
                Failure::new(kind, "complete a work request", object, cause)
            }
            Error::Event { device, event } => {
                let cause = event.to_string();
                Failure::new(FailureKind::PeerLost, "watch the device", device, cause)
            }
        }
    }
}

/// A verbs call that came back with an errno.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// Which call.
    pub operation: Operation,
    /// Device, with port or queue pair where that matters: `mlx5_0:1 QP 17`.
    pub object: String,
    /// errno of the call.
    pub errno: i32,
    /// What was asked for, where that helps; else empty.
    pub detail: String,
}

impl CallError {
    /// Of `operation` on `object` with `errno`.
    pub fn new(operation: Operation, object: impl Into<String>, errno: i32) -> Self {
        CallError { operation, object: object.into(), errno, detail: String::new() }
    }

    /// Says what was asked for.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The errno in words, what was asked for and the likely cause.
    pub fn cause(&self) -> String {
        let mut text = errno_text(self.errno);
        for part in [self.detail.as_str(), self.operation.likely_cause(self.errno)] {
            if !part.is_empty() {
                text = format!("{text}; {part}");
            }
        }
        text
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} failed: {}", self.object, self.operation.text(), self.cause())
    }
}

impl std::error::Error for CallError {}

/// Calls that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `ibv_open_device`.
    OpenDevice,
    /// `ibv_query_device`.
    QueryDevice,
    /// `ibv_query_port`.
    QueryPort,
    /// `ibv_query_gid_table`, or the same from sysfs.
    QueryGids,
    /// `ibv_get_async_event`.
    GetAsyncEvent,
    /// `ibv_alloc_pd`.
    AllocPd,
    /// Allocation of the memory to register.
    AllocMemory,
    /// `ibv_reg_mr`.
    RegMr,
    /// `ibv_create_comp_channel`.
    CreateCompChannel,
    /// `ibv_create_cq`.
    CreateCq,
    /// `ibv_create_cq_ex`.
    CreateCqEx,
    /// `ibv_poll_cq`.
    PollCq,
    /// `ibv_req_notify_cq`.
    RequestNotify,
    /// `ibv_get_cq_event`.
    GetCqEvent,
    /// `ibv_create_qp`.
    CreateQp,
    /// `ibv_create_qp_ex`.
    CreateQpEx,
    /// `ibv_create_srq`.
    CreateSrq,
    /// `ibv_create_ah`.
    CreateAh,
    /// `ibv_modify_qp` from RESET to INIT.
    ModifyInit,
    /// `ibv_modify_qp` from INIT to RTR.
    ModifyRtr,
    /// `ibv_modify_qp` from RTR to RTS.
    ModifyRts,
    /// `ibv_post_send`.
    PostSend,
    /// `ibv_post_recv`.
    PostRecv,
    /// `ibv_post_srq_recv`.
    PostSrqRecv,
}

impl Operation {
    /// What is done, as a person says it.
    pub fn text(self) -> &'static str {
        match self {
            Operation::OpenDevice => "open the device",
            Operation::QueryDevice => "query the device",
            Operation::QueryPort => "query the port",
            Operation::QueryGids => "read the GID table",
            Operation::GetAsyncEvent => "read device events",
            Operation::AllocPd => "allocate a protection domain",
            Operation::AllocMemory => "allocate memory",
            Operation::RegMr => "register memory",
            Operation::CreateCompChannel => "create a completion channel",
            Operation::CreateCq => "create a completion queue",
            Operation::CreateCqEx => "create an extended completion queue",
            Operation::PollCq => "poll the completion queue",
            Operation::RequestNotify => "arm the completion queue",
            Operation::GetCqEvent => "wait for a completion",
            Operation::CreateQp => "create a queue pair",
            Operation::CreateQpEx => "create an extended queue pair",
            Operation::CreateSrq => "create a shared receive queue",
            Operation::CreateAh => "create an address handle",
            Operation::ModifyInit => "move the queue pair to INIT",
            Operation::ModifyRtr => "move the queue pair to RTR (connect to the peer)",
            Operation::ModifyRts => "move the queue pair to RTS",
            Operation::PostSend => "post a send",
            Operation::PostRecv => "post a receive",
            Operation::PostSrqRecv => "post a shared receive",
        }
    }

    /// The likely cause of `errno` with the next step; empty when errno says it all.
    pub fn likely_cause(self, errno: i32) -> &'static str {
        use Operation as O;
        match (self, errno) {
            (O::OpenDevice, libc::EACCES | libc::EPERM) => {
                "no permission for the device node: \
                 add the user to the group that owns it (often `rdma`), or a udev rule"
            }
            (O::OpenDevice, libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                "the device node is missing: modprobe ib_uverbs; \
                 in a container pass --device=/dev/infiniband"
            }
            (O::RegMr, libc::ENOMEM) => {
                "the limit of locked memory is too small: raise RLIMIT_MEMLOCK \
                 (`ulimit -l unlimited`, LimitMEMLOCK=infinity in the service, limits.conf for ssh)"
            }
            (O::RegMr, libc::EFAULT) => "bad address, or no peer-memory module for GPU memory",
            (O::RegMr, libc::EOPNOTSUPP | libc::EPROTONOSUPPORT) => {
                "the driver lacks this kind of registration (dma-buf or peer memory)"
            }
            (O::RegMr, libc::EINVAL) => "the driver refuses these access flags",
            (O::CreateQp | O::CreateSrq | O::CreateCq, libc::ENOMEM | libc::EINVAL) => {
                "depth, inline size or scatter entries above the device's limits: ask for less"
            }
            (O::ModifyRtr | O::CreateAh, libc::EINVAL) => {
                "the GID is all zero or of the wrong type, the path MTU is above active_mtu, \
                 or a global address is missing"
            }
            (
                O::ModifyRtr | O::CreateAh,
                libc::ENODEV | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ETIMEDOUT,
            ) => {
                "the peer's address does not resolve on this netdev: \
                 check routes and VLAN, or choose another GID or rail"
            }
            (O::ModifyRts, libc::EINVAL) => "more outstanding READs than the device can have",
            (O::CreateQpEx | O::CreateCqEx, libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => {
                "the driver or the library does not offer it: use --verbs classic"
            }
            (O::CreateSrq, libc::EOPNOTSUPP | libc::ENOSYS) => {
                "the device offers no shared receive queue: leave --srq away"
            }
            (O::PostSend | O::PostRecv | O::PostSrqRecv, libc::ENOMEM) => "the queue is full",
            (O::PostSend | O::PostRecv, libc::EINVAL) => {
                "the queue pair is in the wrong state, or the request is too large"
            }
            _ => "",
        }
    }
}

/// A work request that completed with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionError {
    /// Device and port: `mlx5_0:1`.
    pub object: String,
    /// Number of the queue pair.
    pub qp_num: u32,
    /// Status.
    pub status: WcStatus,
    /// The driver's own code.
    pub vendor_err: u32,
}

impl CompletionError {
    /// Status and vendor error in words, and the likely cause.
    pub fn cause(&self) -> String {
        let CompletionError { status, vendor_err, .. } = self;
        let mut text = format!("{status}, vendor error {vendor_err:#x}");
        let cause = status.likely_cause();
        if !cause.is_empty() {
            text = format!("{text}: {cause}");
        }
        text
    }

    /// True when this only follows from an earlier error on the same queue pair.
    pub fn is_secondary(&self) -> bool {
        self.status.0 == ffi::IBV_WC_WR_FLUSH_ERR
    }
}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} QP {}: {}", self.object, self.qp_num, self.cause())
    }
}

impl std::error::Error for CompletionError {}

/// Status of a work completion, as the driver gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(pub u32);

impl WcStatus {
    /// Name as in the verbs headers, and what it says.
    fn words(self) -> Option<(&'static str, &'static str)> {
        Some(match self.0 {
            ffi::IBV_WC_SUCCESS => ("SUCCESS", "done"),
            ffi::IBV_WC_LOC_LEN_ERR => ("LOC_LEN_ERR", "message and buffer differ in length"),
            ffi::IBV_WC_LOC_QP_OP_ERR => ("LOC_QP_OP_ERR", "request that this QP cannot do"),
            ffi::IBV_WC_LOC_EEC_OP_ERR => ("LOC_EEC_OP_ERR", "end-to-end context error"),
            ffi::IBV_WC_LOC_PROT_ERR => ("LOC_PROT_ERR", "local memory is not registered for this"),
            ffi::IBV_WC_WR_FLUSH_ERR => ("WR_FLUSH_ERR", "dropped because the QP is in error"),
            ffi::IBV_WC_MW_BIND_ERR => ("MW_BIND_ERR", "memory window bind failed"),
            ffi::IBV_WC_BAD_RESP_ERR => ("BAD_RESP_ERR", "unexpected answer of the peer"),
            ffi::IBV_WC_LOC_ACCESS_ERR => ("LOC_ACCESS_ERR", "local memory refuses this access"),
            ffi::IBV_WC_REM_INV_REQ_ERR => ("REM_INV_REQ_ERR", "the peer refuses the request"),
            ffi::IBV_WC_REM_ACCESS_ERR => {
                ("REM_ACCESS_ERR", "the peer's memory refuses this access")
            }
            ffi::IBV_WC_REM_OP_ERR => ("REM_OP_ERR", "the peer failed to do it"),
            ffi::IBV_WC_RETRY_EXC_ERR => {
                ("RETRY_EXC_ERR", "no acknowledgement came, retries used up")
            }
            ffi::IBV_WC_RNR_RETRY_EXC_ERR => {
                ("RNR_RETRY_EXC_ERR", "the peer had no receive posted")
            }
            ffi::IBV_WC_REM_ABORT_ERR => ("REM_ABORT_ERR", "the peer aborted it"),
            ffi::IBV_WC_FATAL_ERR => ("FATAL_ERR", "fatal transport error"),
            ffi::IBV_WC_RESP_TIMEOUT_ERR => ("RESP_TIMEOUT_ERR", "no answer in time"),
            ffi::IBV_WC_GENERAL_ERR => ("GENERAL_ERR", "transport error"),
            _ => return None,
        })
    }

    /// What usually is behind it, likeliest first; empty when nothing is known.
    pub fn likely_cause(self) -> &'static str {
        match self.0 {
            ffi::IBV_WC_LOC_LEN_ERR => {
                "a receive smaller than the message, or a message above the port's max_msg_sz"
            }
            ffi::IBV_WC_LOC_QP_OP_ERR => {
                "wrong scatter list or flags, inline above what was granted, too many READs"
            }
            ffi::IBV_WC_LOC_PROT_ERR => {
                "a key or address outside the registered memory; \
                 with GPU memory: not pinned, or ACS or the IOMMU on the path"
            }
            ffi::IBV_WC_WR_FLUSH_ERR => {
                "a consequence: look for an earlier error, here or at the peer"
            }
            ffi::IBV_WC_REM_INV_REQ_ERR => {
                "an operation that is not enabled at the peer, a message above its buffer, \
                 or more READs than it accepts"
            }
            ffi::IBV_WC_REM_ACCESS_ERR => "a stale remote key, wrong bounds or access flags",
            ffi::IBV_WC_REM_OP_ERR => "look at the peer's log",
            ffi::IBV_WC_RETRY_EXC_ERR => {
                "wrong GID or GID type, a firewall on UDP port 4791, a hop with a smaller MTU, \
                 loss (PFC, ECN), routing or VLAN, or a peer that is gone"
            }
            ffi::IBV_WC_RNR_RETRY_EXC_ERR => "the receiver is starved of CPU time",
            ffi::IBV_WC_FATAL_ERR | ffi::IBV_WC_GENERAL_ERR => {
                "look at the vendor error and at dmesg"
            }
            _ => "",
        }
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some((name, words)) => write!(f, "{words} ({name})"),
            None => write!(f, "completion status Unknown({})", self.0),
        }
    }
}

/// An asynchronous event of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent {
    /// `IBV_EVENT_*`, as the driver gave it.
    pub kind: u32,
    /// Port or queue pair that it is about; 0 for the device.
    pub number: u32,
}

impl AsyncEvent {
    /// True when a test cannot go on after it.
    pub fn is_fatal(self) -> bool {
        matches!(
            self.kind,
            ffi::IBV_EVENT_PORT_ERR
                | ffi::IBV_EVENT_DEVICE_FATAL
                | ffi::IBV_EVENT_QP_FATAL
                | ffi::IBV_EVENT_QP_REQ_ERR
                | ffi::IBV_EVENT_QP_ACCESS_ERR
                | ffi::IBV_EVENT_CQ_ERR
                | ffi::IBV_EVENT_SRQ_ERR
                | ffi::IBV_EVENT_PATH_MIG_ERR
        )
    }
}

impl fmt::Display for AsyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.number;
        match self.kind {
            ffi::IBV_EVENT_CQ_ERR => write!(f, "a completion queue overran (CQ_ERR)"),
            ffi::IBV_EVENT_SRQ_ERR => write!(f, "a shared receive queue failed (SRQ_ERR)"),
            ffi::IBV_EVENT_QP_FATAL => write!(f, "QP {n} failed (QP_FATAL)"),
            ffi::IBV_EVENT_QP_REQ_ERR => write!(f, "QP {n} got a bad request (QP_REQ_ERR)"),
            ffi::IBV_EVENT_QP_ACCESS_ERR => {
                write!(f, "QP {n} got a request for memory that it may not touch (QP_ACCESS_ERR)")
            }
            ffi::IBV_EVENT_COMM_EST => write!(f, "QP {n} heard its peer (COMM_EST)"),
            ffi::IBV_EVENT_PATH_MIG_ERR => {
                write!(f, "QP {n}'s path migration failed (PATH_MIG_ERR)")
            }
            ffi::IBV_EVENT_DEVICE_FATAL => write!(f, "the device failed (DEVICE_FATAL): see dmesg"),
            ffi::IBV_EVENT_PORT_ACTIVE => write!(f, "port {n} came up (PORT_ACTIVE)"),
            ffi::IBV_EVENT_PORT_ERR => write!(
                f,
                "port {n} went down (PORT_ERR): check its cable and switch port, and who took its \
                 interface down"
            ),
            ffi::IBV_EVENT_LID_CHANGE => write!(f, "port {n}'s LID changed (LID_CHANGE)"),
            ffi::IBV_EVENT_SM_CHANGE => write!(f, "port {n}'s subnet manager changed (SM_CHANGE)"),
            ffi::IBV_EVENT_GID_CHANGE => write!(f, "port {n}'s GID table changed (GID_CHANGE)"),
            kind => write!(f, "event Unknown({kind}), number {n}"),
        }
    }
}

/// An errno in words with its name, e.g. `Invalid argument (EINVAL)`.
pub(super) fn errno_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::ENOSYS => "ENOSYS",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        other => return format!("{words} (errno {other})"),
    };
    format!("{words} ({name})")
}

/// errno of the calling thread, or EIO where a call failed without setting it.
pub(super) fn last_errno() -> i32 {
    match std::io::Error::last_os_error().raw_os_error() {
        Some(0) | None => libc::EIO,
        Some(errno) => errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(status: u32, vendor_err: u32) -> CompletionError {
        let status = WcStatus(status);
        CompletionError { object: "rxe0:1".into(), qp_num: 17, status, vendor_err }
    }

    #[test]
    fn a_call_error_names_operation_object_and_next_step() {
        let error = CallError::new(Operation::RegMr, "mlx5_0", libc::ENOMEM)
            .with_detail("1 MiB asked for, RLIMIT_MEMLOCK is 65536 bytes");
        let text = error.to_string();
        assert!(
            text.starts_with("mlx5_0: register memory failed: Cannot allocate memory (ENOMEM)")
        );
        assert!(text.contains("RLIMIT_MEMLOCK is 65536 bytes"), "{text}");
        assert!(text.contains("ulimit -l unlimited"), "{text}");
    }

    #[test]
    fn an_errno_without_a_known_cause_ends_with_its_words() {
        let error = CallError::new(Operation::AllocPd, "mlx5_0", libc::EBADF);
        let text = error.to_string();
        assert_eq!(
            text,
            "mlx5_0: allocate a protection domain failed: Bad file descriptor (errno 9)"
        );
    }

    #[test]
    fn a_completion_error_shows_status_vendor_error_and_cause() {
        let text = completion(ffi::IBV_WC_RETRY_EXC_ERR, 0x81).to_string();
        assert!(
            text.starts_with("rxe0:1 QP 17: no acknowledgement came, retries used up"),
            "{text}"
        );
        assert!(text.contains("(RETRY_EXC_ERR), vendor error 0x81"), "{text}");
        assert!(text.contains("UDP port 4791"), "{text}");
        let failure = Failure::from(Error::from(completion(ffi::IBV_WC_RETRY_EXC_ERR, 0x81)));
        assert_eq!(failure.kind, FailureKind::PeerLost);
        assert_eq!(failure.object, "rxe0:1 QP 17");
    }

    #[test]
    fn a_flush_is_secondary_and_an_unknown_status_keeps_its_number() {
        assert!(completion(ffi::IBV_WC_WR_FLUSH_ERR, 0).is_secondary());
        assert!(!completion(ffi::IBV_WC_RETRY_EXC_ERR, 0).is_secondary());
        let text = completion(4711, 0).to_string();
        assert_eq!(text, "rxe0:1 QP 17: completion status Unknown(4711), vendor error 0x0");
    }

    #[test]
    fn events_that_end_a_test() {
        let event = |kind| AsyncEvent { kind, number: 1 };
        for kind in [
            ffi::IBV_EVENT_PORT_ERR,
            ffi::IBV_EVENT_DEVICE_FATAL,
            ffi::IBV_EVENT_QP_FATAL,
            ffi::IBV_EVENT_PATH_MIG_ERR,
        ] {
            assert!(event(kind).is_fatal(), "{}", event(kind));
        }
        for kind in [ffi::IBV_EVENT_PORT_ACTIVE, ffi::IBV_EVENT_GID_CHANGE, 99] {
            assert!(!event(kind).is_fatal(), "{}", event(kind));
        }
        assert_eq!(event(99).to_string(), "event Unknown(99), number 1");
    }
}
