//! Where buffers live: page-aligned host memory between guard regions.
//!
//! An adapter writes into a buffer behind the compiler's back, so a buffer is reached through raw
//! pointers: single words by atomic loads and stores at any time, slices only while no operation
//! is under way.

mod numa;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::MmapMut;

/// Bytes before and after the payload whose content is known.
const GUARD: usize = 4096;

/// Page-aligned host memory of zeroes, with a guard region on either side.
pub struct HostBuffer {
    map: MmapMut,
    payload: *mut u8,
    len: usize,
    numa_node: Option<u32>,
}

/// Where memory is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// NUMA node; none for where it is first touched.
    pub numa_node: Option<u32>,
    /// In huge pages of 2 MiB.
    pub huge_pages: bool,
}

/// A huge page, bytes.
const HUGE_PAGE: usize = 2 << 20;

// SAFETY: the buffer owns its mapping; the pointer is into it.
unsafe impl Send for HostBuffer {}

impl HostBuffer {
    /// A buffer of `len` bytes, every page touched so that none is first met while measuring.
    ///
    /// # Errors
    /// Those of `mmap`, of which out of memory is the likely one.
    pub fn new(len: usize) -> std::io::Result<HostBuffer> {
        HostBuffer::placed(len, Placement::default())
    }

    /// The same at a place. A node to which the system does not let memory be bound (a container)
    /// is left out: [`HostBuffer::numa_node`] tells.
    ///
    /// # Errors
    /// Likewise; out of memory also where there are too few free huge pages, or none on the node.
    pub fn placed(len: usize, place: Placement) -> std::io::Result<HostBuffer> {
        let too_large = || std::io::Error::from_raw_os_error(libc::ENOMEM);
        let rounded = len.checked_next_multiple_of(GUARD).ok_or_else(too_large)?;
        let whole = rounded.checked_add(2 * GUARD).ok_or_else(too_large)?;
        let page = if place.huge_pages { HUGE_PAGE } else { GUARD };
        let whole = whole.checked_next_multiple_of(page).ok_or_else(too_large)?;
        let (map, numa_node) = numa::map(whole, place)?;
        let mut map = map;
        for guard in guards(len, whole) {
            for offset in guard {
                map[offset] = guard_byte(offset);
            }
        }
        // SAFETY: the mapping is longer than a guard region.
        let payload = unsafe { map.as_mut_ptr().add(GUARD) };
        Ok(HostBuffer { map, payload, len, numa_node })
    }

    /// The NUMA node that the memory is bound to; none where it is not bound.
    pub fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }

    /// Bytes of payload.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a buffer without payload.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte of the payload.
    pub fn as_ptr(&self) -> *mut u8 {
        self.payload
    }

    /// The word at `offset` bytes, with everything that was written before it.
    ///
    /// # Panics
    /// When the word is not inside the payload or not aligned.
    #[inline]
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes the word at `offset` bytes, after everything that was written before.
    ///
    /// # Panics
    /// When the word is not inside the payload or not aligned.
    #[inline]
    pub fn store_u32(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// The payload. Safe while no adapter writes to it.
    ///
    /// # Safety
    /// No operation on this memory is under way, at this end or at the peer.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, initialised by `new`, and quiescent by contract.
        unsafe { std::slice::from_raw_parts(self.payload, self.len) }
    }

    /// The payload, for writing.
    ///
    /// # Safety
    /// No operation on this memory is under way, at this end or at the peer.
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.payload, self.len) }
    }

    /// Bytes of the guard regions that do not hold what they should.
    ///
    /// # Safety
    /// No operation on this memory is under way, at this end or at the peer.
    pub unsafe fn guard_bytes_wrong(&self) -> u64 {
        let guards = guards(self.len, self.map.len()).into_iter().flatten();
        guards.filter(|offset| self.map[*offset] != guard_byte(*offset)).count() as u64
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < self.len && self.len - offset >= 4);
        // SAFETY: inside the payload and aligned, since the payload begins a page; an adapter's
        // write of an aligned word is seen whole.
        unsafe { AtomicU32::from_ptr(self.payload.add(offset).cast()) }
    }
}

/// Where the guard regions lie in a mapping of `whole` bytes around `len` bytes of payload.
fn guards(len: usize, whole: usize) -> [Range<usize>; 2] {
    [0..GUARD, GUARD + len..whole]
}

/// What the guard byte at `offset` from the start of the mapping holds: never zero, and another at
/// each place, so that neither a stray zero nor a shifted copy passes.
fn guard_byte(offset: usize) -> u8 {
    (offset % 251) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_aligned_zero_and_as_long_as_asked() {
        for len in [0, 1, 4095, 4096, 4097, 100_000] {
            let mut buffer = HostBuffer::new(len).unwrap();
            assert_eq!(buffer.as_ptr() as usize % 4096, 0);
            assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
            // SAFETY: nothing else knows of this memory.
            unsafe {
                assert!(buffer.bytes().iter().all(|byte| *byte == 0));
                buffer.bytes_mut().fill(0xff);
                assert_eq!(buffer.guard_bytes_wrong(), 0, "length {len}");
            }
        }
    }

    #[test]
    fn words_are_stored_and_loaded_at_their_place() {
        let buffer = HostBuffer::new(16).unwrap();
        buffer.store_u32(12, 0x0403_0201);
        assert_eq!((buffer.load_u32(8), buffer.load_u32(12)), (0, 0x0403_0201));
        // SAFETY: nothing else knows of this memory.
        assert_eq!(unsafe { buffer.bytes() }[12..], 0x0403_0201_u32.to_ne_bytes());
    }

    #[test]
    fn every_byte_written_beside_the_payload_is_counted() {
        let buffer = HostBuffer::new(100).unwrap();
        // SAFETY: the guard regions are part of the mapping.
        unsafe {
            buffer.as_ptr().sub(1).write(0);
            buffer.as_ptr().add(100).write_bytes(0, 3);
            assert_eq!(buffer.guard_bytes_wrong(), 4);
        }
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn a_word_that_reaches_over_the_end_is_refused() {
        HostBuffer::new(14).unwrap().load_u32(12);
    }

    #[test]
    fn memory_is_bound_to_a_node_that_is_there() {
        let place = Placement { numa_node: Some(0), huge_pages: false };
        let mut buffer = HostBuffer::placed(100_000, place).unwrap();
        assert!(matches!(buffer.numa_node(), Some(0) | None), "none where it is not allowed");
        // SAFETY: nothing else knows of this memory.
        unsafe {
            buffer.bytes_mut().fill(0xff);
            assert_eq!(buffer.guard_bytes_wrong(), 0);
        }
        let nowhere = Placement { numa_node: Some(1000), huge_pages: false };
        if buffer.numa_node().is_some() {
            assert!(HostBuffer::placed(4096, nowhere).is_err());
        }
    }

    #[test]
    fn huge_pages_hold_a_buffer_or_are_refused() {
        let place = Placement { huge_pages: true, ..Placement::default() };
        match HostBuffer::placed(3 << 20, place) {
            // SAFETY: nothing else knows of this memory.
            Ok(buffer) => assert_eq!(unsafe { buffer.guard_bytes_wrong() }, 0),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOMEM), "{error}"),
        }
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(HostBuffer::new(usize::MAX - 100).is_err());
        assert!(HostBuffer::new(1 << 60).is_err());
    }
}
