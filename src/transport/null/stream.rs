//! Both ends of a [`Stream`] within this process: messages are counted, not copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::transport::{Result, Stream};

/// How such a pair behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Lanes.
    pub lanes: usize,
    /// Messages that may be on their way per lane.
    pub depth: u32,
    /// A completion every so many messages of a lane.
    pub signal_every: u32,
    /// As SEND: a message has room only once earlier ones were collected at the other end.
    pub must_drain: bool,
    /// After so many messages nothing arrives any more, and with `must_drain` nothing finishes.
    pub cut_after: Option<u64>,
    /// This message (from 0) of each direction is finished but never arrives.
    pub lose: Option<u64>,
}

impl Default for Shape {
    fn default() -> Self {
        let (lanes, depth, signal_every) = (1, 16, 1);
        Shape { lanes, depth, signal_every, must_drain: true, cut_after: None, lose: None }
    }
}

/// What one direction shares.
#[derive(Debug, Default)]
struct Way {
    arrived: AtomicU64,
    collected: AtomicU64,
}

/// One end.
#[derive(Debug)]
pub struct LocalStream {
    shape: Shape,
    out: Arc<Way>,
    into: Arc<Way>,
    total: u64,
    started: Vec<u64>,
    reported: Vec<u64>,
    flushed: bool,
}

/// Both ends.
pub fn pair(shape: Shape) -> (LocalStream, LocalStream) {
    let ways = (Arc::new(Way::default()), Arc::new(Way::default()));
    let end = |out: &Arc<Way>, into: &Arc<Way>| LocalStream {
        shape,
        out: Arc::clone(out),
        into: Arc::clone(into),
        total: 0,
        started: vec![0; shape.lanes],
        reported: vec![0; shape.lanes],
        flushed: false,
    };
    (end(&ways.0, &ways.1), end(&ways.1, &ways.0))
}

impl LocalStream {
    fn room(&self, lane: usize) -> u64 {
        let depth = u64::from(self.shape.depth);
        let here = depth - (self.started[lane] - self.reported[lane]);
        if !self.shape.must_drain {
            return here;
        }
        let lost = u64::from(self.shape.lose.is_some_and(|lost| lost < self.total));
        let there = self.total - lost - self.out.collected.load(Ordering::Acquire);
        here.min((depth * self.shape.lanes as u64).saturating_sub(there))
    }

    fn deliver(&mut self) {
        let cut = self.shape.cut_after.is_some_and(|after| self.total >= after);
        if !cut && self.shape.lose != Some(self.total) {
            self.out.arrived.fetch_add(1, Ordering::Release);
        }
        self.total += 1;
    }
}

impl Stream for LocalStream {
    fn lanes(&self) -> usize {
        self.shape.lanes
    }

    fn must_drain(&self) -> bool {
        self.shape.must_drain
    }

    fn start(&mut self, lane: usize, n: u32) -> Result<u32> {
        let n = u64::from(n).min(self.room(lane));
        (0..n).for_each(|_| self.deliver());
        self.started[lane] += n;
        self.flushed = false;
        Ok(n as u32)
    }

    fn finished(&mut self, per_lane: &mut [u64]) -> Result<u32> {
        let every = u64::from(self.shape.signal_every.max(1));
        let mut sum = 0;
        for ((started, reported), count) in
            self.started.iter().zip(&mut self.reported).zip(per_lane)
        {
            let visible = if self.flushed { *started } else { started - started % every };
            let new = visible.saturating_sub(*reported);
            *reported += new;
            *count += new;
            sum += new;
        }
        Ok(sum as u32)
    }

    fn arrived(&mut self) -> Result<u64> {
        let arrived = self.into.arrived.load(Ordering::Acquire);
        self.into.collected.store(arrived, Ordering::Release);
        Ok(arrived)
    }

    fn flush(&mut self) -> Result<()> {
        self.flushed = true;
        Ok(())
    }

    fn idle(&mut self, empty: u32) -> Result<bool> {
        if empty.is_multiple_of(64) {
            std::thread::yield_now();
        }
        Ok(false)
    }
}
