//! Work requests, written once and posted again and again.

use crate::transport::verbs::ffi;

/// Work requests in a ring, with one scatter entry each.
pub struct Requests<T> {
    requests: Vec<T>,
    // Held: the requests point to it.
    _entries: Vec<ffi::ibv_sge>,
}

// SAFETY: all pointers lead into its own vectors.
unsafe impl<T> Send for Requests<T> {}

/// A work request that another may follow.
pub trait Linked {
    /// Has `next` follow; null for none.
    fn set_next(&mut self, next: *mut Self);
}

impl Linked for ffi::ibv_send_wr {
    #[inline]
    fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl Linked for ffi::ibv_recv_wr {
    #[inline]
    fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl<T: Linked> Requests<T> {
    /// A request for each entry, made from its index and its place.
    pub fn new(
        mut entries: Vec<ffi::ibv_sge>,
        request: impl Fn(u64, *mut ffi::ibv_sge) -> T,
    ) -> Requests<T> {
        let places = (0..).zip(&mut entries);
        let requests = places.map(|(index, entry)| request(index, entry)).collect();
        Requests { requests, _entries: entries }
    }

    /// Number of requests.
    pub fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// The request at `index`, with the one behind it in the ring as its next, or none.
    #[inline]
    pub fn link(&mut self, index: u64, more: bool) -> &mut T {
        let next = if more { self.at((index + 1) % self.len()) } else { std::ptr::null_mut() };
        let request = &mut self.requests[index as usize];
        request.set_next(next);
        request
    }

    /// Place of the request at `index`.
    #[inline]
    pub fn at(&mut self, index: u64) -> *mut T {
        &raw mut self.requests[index as usize]
    }
}
