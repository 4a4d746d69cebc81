//! Address handles: where a datagram goes.

use std::ptr::NonNull;

use super::device::report_leak;
use super::error::{CallError, Operation, Result, last_errno};
use super::ffi;
use super::pd::ProtectionDomain;
use super::qp::{Path, Peer, address, destination};

/// The way to a port of the peer. Destroyed on drop, before its domain.
pub struct AddressHandle {
    raw: NonNull<ffi::ibv_ah>,
    pd: ProtectionDomain,
}

// SAFETY: libibverbs allows every verb on an address handle from any thread at any time.
unsafe impl Send for AddressHandle {}

impl AddressHandle {
    /// The way by `path` to the port of `peer`.
    pub fn new(pd: &ProtectionDomain, path: &Path, peer: &Peer) -> Result<AddressHandle> {
        let mut attributes = address(path, peer);
        // SAFETY: the domain is alive, and the handle keeps it so; the attributes are copied.
        let raw = unsafe { (pd.context().symbols().ibv_create_ah)(pd.raw(), &mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let object = format!("{}:{}", pd.context().name(), path.port);
            CallError::new(Operation::CreateAh, object, last_errno())
                .with_detail(destination(path, peer))
        })?;
        Ok(AddressHandle { raw, pd: pd.clone() })
    }

    pub(super) fn raw(&self) -> *mut ffi::ibv_ah {
        self.raw.as_ptr()
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        let context = self.pd.context();
        // SAFETY: made once, destroyed once.
        let status = unsafe { (context.symbols().ibv_destroy_ah)(self.raw.as_ptr()) };
        report_leak("destroy the address handle", context.name(), status);
    }
}
