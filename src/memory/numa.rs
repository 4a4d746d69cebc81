//! Memory on a NUMA node.

use std::io;

use memmap2::{MmapMut, MmapOptions};

use super::Placement;

/// Most nodes that a mask holds.
const NODES: usize = 1024;

/// The smallest page: one touch in each brings all memory in.
const PAGE: usize = 4096;

/// Exponent of a huge page of 2 MiB.
const HUGE_SHIFT: u8 = 21;

/// A mapping of `len` bytes of zeroes at its place, all of it touched, and the node that it is bound
/// to.
pub(super) fn map(len: usize, place: Placement) -> io::Result<(MmapMut, Option<u32>)> {
    let mut options = MmapOptions::new();
    options.len(len);
    if place.huge_pages {
        options.huge(Some(HUGE_SHIFT));
    }
    let Some(node) = place.numa_node else { return Ok((options.populate().map_anon()?, None)) };
    let mut map = options.map_anon()?;
    let bound = match bind(&mut map, node) {
        Ok(()) => Some(node),
        Err(error) if is_forbidden(&error) => None,
        Err(error) => return Err(error),
    };
    map.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
    Ok((map, bound))
}

/// What a container's filter, or a kernel without NUMA, says.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

/// Binds pages that have not been touched yet.
fn bind(map: &mut MmapMut, node: u32) -> io::Result<()> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask = [0 as libc::c_ulong; NODES / BITS];
    let node = node as usize;
    if node >= NODES {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    mask[node / BITS] |= 1 << (node % BITS);
    // SAFETY: the range is the mapping's own, and the mask is as long as said; the kernel reads it
    // and touches no other memory.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            map.as_mut_ptr(),
            map.len(),
            libc::MPOL_BIND,
            mask.as_ptr(),
            // The kernel counts one bit less than it is told.
            NODES + 1,
            0,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
