//! Receives of a stream: of each queue pair, or one queue of them for all.

use super::requests::Requests;
use crate::transport::Result;
use crate::transport::verbs::ffi;
use crate::transport::verbs::qp::QueuePair;
use crate::transport::verbs::srq::SharedReceiveQueue;

/// Most receives that are posted again at a time.
const BATCH: u64 = 16;

/// Receives in a ring, posted again as messages use them up.
pub struct Receives {
    requests: Requests<ffi::ibv_recv_wr>,
    /// Posted, ever.
    pub posted: u64,
    /// Used up and not yet posted again.
    pub taken: u32,
    /// So many are posted again at a time.
    repost: u32,
}

impl Receives {
    /// Receives with `id` into `places`; `filled` when messages bring bytes.
    pub fn new(id: u64, places: Vec<ffi::ibv_sge>, filled: bool) -> Receives {
        let repost = (places.len() as u64 / 4).clamp(1, BATCH) as u32;
        let request = |_, entry| ffi::ibv_recv_wr {
            wr_id: id,
            next: std::ptr::null_mut(),
            sg_list: entry,
            num_sge: i32::from(filled),
        };
        Receives { requests: Requests::new(places, request), posted: 0, taken: 0, repost }
    }

    /// With `n` counted as posted, elsewhere.
    pub fn counting_from(mut self, n: u64) -> Receives {
        self.posted = n;
        self
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.requests.len()
    }

    /// One has been used up; true when it is time to post again.
    #[inline]
    pub fn take(&mut self) -> bool {
        self.taken += 1;
        self.taken >= self.repost
    }

    /// Links the next `n` and hands the first of them to `post`.
    #[inline]
    fn post(
        &mut self,
        n: u64,
        post: impl FnOnce(*mut ffi::ibv_recv_wr) -> Result<()>,
    ) -> Result<()> {
        let len = self.requests.len();
        let first = self.posted % len;
        for i in 0..n {
            self.requests.link((first + i) % len, i + 1 < n);
        }
        self.posted += n;
        self.taken = 0;
        post(self.requests.at(first))
    }

    /// Posts the next `n` to `pair` as one list.
    #[inline]
    pub fn post_to(&mut self, pair: &mut QueuePair, n: u64) -> Result<()> {
        // SAFETY: the requests point into the region, which outlives the queue pair.
        self.post(n, |first| Ok(unsafe { pair.post_receive(first) }?))
    }
}

/// One queue of receives for all queue pairs of an end.
pub struct SharedReceives {
    queue: SharedReceiveQueue,
    receives: Receives,
    /// Number of each queue pair and its lane, sorted.
    numbers: Vec<(u32, usize)>,
}

impl SharedReceives {
    /// Posts all of `receives` to `queue`, from which the queue pairs of these numbers take.
    pub fn new(
        queue: SharedReceiveQueue,
        receives: Receives,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<SharedReceives> {
        let mut numbers: Vec<_> = numbers.zip(0..).collect();
        numbers.sort_unstable();
        let mut shared = SharedReceives { queue, receives, numbers };
        shared.post(shared.receives.len())?;
        Ok(shared)
    }

    /// Receives that the queue holds.
    pub fn len(&self) -> u64 {
        self.receives.len()
    }

    /// Lane of the queue pair that a message came by.
    #[inline]
    pub fn lane(&self, qp_num: u32) -> usize {
        let found = self.numbers.binary_search_by_key(&qp_num, |(number, _)| *number);
        found.map_or(0, |at| self.numbers[at].1)
    }

    /// One receive has been used up.
    #[inline]
    pub fn take(&mut self) {
        self.receives.take();
    }

    /// Posts again what was used up, once it is enough, or all of it when that is `urgent`.
    #[inline]
    pub fn renew(&mut self, urgent: bool) -> Result<()> {
        let taken = self.receives.taken;
        match taken > 0 && (urgent || taken >= self.receives.repost) {
            true => self.post(taken.into()),
            false => Ok(()),
        }
    }

    fn post(&mut self, n: u64) -> Result<()> {
        let queue = &self.queue;
        // SAFETY: the requests point into the region, which outlives the queue pairs.
        self.receives.post(n, |first| Ok(unsafe { queue.post(first) }?))
    }
}
