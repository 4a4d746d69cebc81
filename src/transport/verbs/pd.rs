//! Protection domains.

use std::ptr::NonNull;
use std::sync::Arc;

use super::device::{Context, report_leak};
use super::error::{CallError, Operation, Result, last_errno};
use super::ffi;

/// What memory regions and queue pairs that work together belong to. Clones share it.
#[derive(Clone)]
pub struct ProtectionDomain(Arc<Inner>);

struct Inner {
    raw: NonNull<ffi::ibv_pd>,
    context: Context,
}

// SAFETY: libibverbs allows every verb on a protection domain from any thread at any time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl ProtectionDomain {
    /// A domain of the device.
    pub fn new(context: &Context) -> Result<ProtectionDomain> {
        // SAFETY: the context is open.
        let raw = NonNull::new(unsafe { (context.symbols().ibv_alloc_pd)(context.raw()) })
            .ok_or_else(|| CallError::new(Operation::AllocPd, context.name(), last_errno()))?;
        Ok(ProtectionDomain(Arc::new(Inner { raw, context: context.clone() })))
    }

    /// Its device.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    pub(super) fn raw(&self) -> *mut ffi::ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: every region and queue pair of this domain holds a clone, so none is left.
        let status = unsafe { (self.context.symbols().ibv_dealloc_pd)(self.raw.as_ptr()) };
        report_leak("deallocate the protection domain", self.context.name(), status);
    }
}
