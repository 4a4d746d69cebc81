//! Shared receive queues: receives for whichever queue pair gets a message first.

use std::ptr::NonNull;
use std::sync::Arc;

use super::device::report_leak;
use super::error::{CallError, Operation, Result, last_errno};
use super::ffi;
use super::pd::ProtectionDomain;

/// Receives that several queue pairs take from. Clones share it.
#[derive(Clone)]
pub struct SharedReceiveQueue(Arc<Inner>);

struct Inner {
    raw: NonNull<ffi::ibv_srq>,
    granted: u32,
    pd: ProtectionDomain,
}

// SAFETY: libibverbs allows every verb on a shared receive queue from any thread at any time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl SharedReceiveQueue {
    /// A queue for at least `receives` of one scatter entry each.
    pub fn new(pd: &ProtectionDomain, receives: u32) -> Result<SharedReceiveQueue> {
        let mut request = ffi::ibv_srq_init_attr {
            srq_context: std::ptr::null_mut(),
            attr: ffi::ibv_srq_attr { max_wr: receives, max_sge: 1, srq_limit: 0 },
        };
        // SAFETY: the domain is alive, and the queue keeps it so.
        let raw = unsafe { (pd.context().symbols().ibv_create_srq)(pd.raw(), &mut request) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let (context, limits) = (pd.context(), pd.context().limits());
            CallError::new(Operation::CreateSrq, context.name(), last_errno()).with_detail(format!(
                "{receives} receives asked for, the device allows {} in each of {} queues",
                limits.max_srq_wr, limits.max_srq
            ))
        })?;
        let granted = request.attr.max_wr;
        Ok(SharedReceiveQueue(Arc::new(Inner { raw, granted, pd: pd.clone() })))
    }

    /// Receives that the device granted, at least as many as were asked for.
    pub fn granted(&self) -> u32 {
        self.0.granted
    }

    /// Posts a list of receives; those before a refused one are posted.
    ///
    /// # Safety
    /// As for [`super::qp::QueuePair::post_receive`], until every queue pair that takes from the
    /// queue is gone.
    #[inline]
    pub unsafe fn post(&self, first: *mut ffi::ibv_recv_wr) -> Result<()> {
        let raw = self.0.raw.as_ptr();
        let mut refused = std::ptr::null_mut();
        // SAFETY: alive, and the list by contract.
        let status = unsafe {
            match (*(*raw).context).ops.post_srq_recv {
                Some(post) => post(raw, first, &mut refused),
                None => libc::EOPNOTSUPP,
            }
        };
        if status == 0 { Ok(()) } else { Err(self.refused(status)) }
    }

    pub(super) fn raw(&self) -> *mut ffi::ibv_srq {
        self.0.raw.as_ptr()
    }

    #[cold]
    fn refused(&self, status: i32) -> super::error::Error {
        // Providers return an errno, some old ones -1 with errno set.
        let errno = if status > 0 { status } else { last_errno() };
        let object = format!("{} shared receive queue", self.0.pd.context().name());
        CallError::new(Operation::PostSrqRecv, object, errno).into()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let context = self.pd.context();
        // SAFETY: every queue pair that takes from it holds a clone, so none is left.
        let status = unsafe { (context.symbols().ibv_destroy_srq)(self.raw.as_ptr()) };
        report_leak("destroy the shared receive queue", context.name(), status);
    }
}
