//! Memory regions: memory that the device may reach.

use std::ops::BitOr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use super::device::report_leak;
use super::error::{CallError, Operation, Result, last_errno};
use super::ffi;
use super::pd::ProtectionDomain;
use crate::memory::HostBuffer;

/// What may be done with a region, from here and from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Received messages and READ answers may be written to it.
    pub const LOCAL_WRITE: Access = Access(ffi::IBV_ACCESS_LOCAL_WRITE);
    /// The peer may WRITE to it.
    pub const REMOTE_WRITE: Access = Access(ffi::IBV_ACCESS_REMOTE_WRITE);
    /// The peer may READ from it.
    pub const REMOTE_READ: Access = Access(ffi::IBV_ACCESS_REMOTE_READ);
    /// The peer may change words of it by atomics.
    pub const REMOTE_ATOMIC: Access = Access(ffi::IBV_ACCESS_REMOTE_ATOMIC);
    /// The device may reorder its writes to it, where it can: never for memory that is polled.
    pub const RELAXED_ORDERING: Access = Access(ffi::IBV_ACCESS_RELAXED_ORDERING);

    /// Without what a library or kernel may lack: the flags that are only a wish.
    pub(super) fn mandatory(self) -> u32 {
        self.0 & !ffi::IB_UVERBS_ACCESS_OPTIONAL_RANGE
    }
}

impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Host memory, registered. The region owns its buffer.
pub struct MemoryRegion {
    // Deregistered before the buffer goes: fields drop in their order.
    registration: Registration,
    buffer: HostBuffer,
}

impl MemoryRegion {
    /// Registers `buffer` for `access`.
    pub fn register(
        pd: &ProtectionDomain,
        buffer: HostBuffer,
        access: Access,
    ) -> Result<MemoryRegion> {
        let symbols = pd.context().symbols();
        let (address, len) = (buffer.as_ptr().cast(), buffer.len());
        // Only the later function knows the optional flags, and drops those the kernel lacks.
        let raw = match symbols.ibv_reg_mr_iova2 {
            Some(register) if access.mandatory() != access.0 => {
                let iova = buffer.as_ptr() as u64;
                // SAFETY: the domain is alive, and the region owns the buffer from here on.
                unsafe { register(pd.raw(), address, len, iova, access.0) }
            }
            // SAFETY: as above; all access flags are below bit 31.
            _ => unsafe { (symbols.ibv_reg_mr)(pd.raw(), address, len, access.mandatory() as i32) },
        };
        let registration = Registration::new(pd, raw, || {
            let limit = locked_memory_limit();
            format!("{len} bytes asked for, RLIMIT_MEMLOCK is {limit}")
        })?;
        Ok(MemoryRegion { registration, buffer })
    }

    /// The memory.
    #[inline]
    pub fn buffer(&self) -> &HostBuffer {
        &self.buffer
    }

    /// The memory, for slices.
    pub fn buffer_mut(&mut self) -> &mut HostBuffer {
        &mut self.buffer
    }

    /// Key for own requests.
    pub fn local_key(&self) -> u32 {
        self.registration.keys().0
    }

    /// Key that the peer needs.
    pub fn remote_key(&self) -> u32 {
        self.registration.keys().1
    }
}

/// Memory of another device, exported as a dma-buf, registered for as long as this lives.
pub struct DmaBufRegion {
    registration: Registration,
}

impl DmaBufRegion {
    /// Registers `len` bytes from `offset` of the dma-buf `fd`; they get the address `iova`.
    ///
    /// # Errors
    /// EOPNOTSUPP where the library or the driver has no dma-buf registration.
    pub fn register(
        pd: &ProtectionDomain,
        fd: BorrowedFd<'_>,
        (offset, len): (u64, usize),
        iova: u64,
        access: Access,
    ) -> Result<DmaBufRegion> {
        let detail = || format!("{len} bytes of a dma-buf asked for");
        let Some(register) = pd.context().symbols().ibv_reg_dmabuf_mr else {
            let name = pd.context().name();
            let error = CallError::new(Operation::RegMr, name, libc::EOPNOTSUPP);
            return Err(error.with_detail(detail()).into());
        };
        // SAFETY: the domain is alive; the kernel checks the range and holds the dma-buf itself.
        let raw = unsafe { register(pd.raw(), offset, len, iova, fd.as_raw_fd(), access.0 as i32) };
        Ok(DmaBufRegion { registration: Registration::new(pd, raw, detail)? })
    }

    /// Keys for own requests and for the peer's.
    pub fn keys(&self) -> (u32, u32) {
        self.registration.keys()
    }
}

struct Registration {
    raw: NonNull<ffi::ibv_mr>,
    pd: ProtectionDomain,
}

// SAFETY: a registration may be read and ended from any thread.
unsafe impl Send for Registration {}

impl Registration {
    fn new(
        pd: &ProtectionDomain,
        raw: *mut ffi::ibv_mr,
        detail: impl FnOnce() -> String,
    ) -> Result<Registration> {
        let errno = last_errno();
        let raw = NonNull::new(raw).ok_or_else(|| {
            CallError::new(Operation::RegMr, pd.context().name(), errno).with_detail(detail())
        })?;
        Ok(Registration { raw, pd: pd.clone() })
    }

    fn keys(&self) -> (u32, u32) {
        // SAFETY: registered until dropped; the library does not change it.
        let region = unsafe { self.raw.as_ref() };
        (region.lkey, region.rkey)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let context = self.pd.context();
        // SAFETY: registered once, deregistered once.
        let status = unsafe { (context.symbols().ibv_dereg_mr)(self.raw.as_ptr()) };
        report_leak("deregister memory", context.name(), status);
    }
}

fn locked_memory_limit() -> String {
    match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        Some(bytes) => format!("{bytes} bytes"),
        None => "unlimited".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relaxed_ordering_is_a_wish_and_the_rest_is_not() {
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::RELAXED_ORDERING;
        assert_eq!(access.mandatory(), 1 | 4);
        assert_eq!(access.0, 1 | 4 | 1 << 20);
    }
}
