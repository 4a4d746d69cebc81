//! Transports that touch no network: they move nothing, to measure the loops themselves, or move
//! within this process, to run whole engines with exact numbers and with faults on purpose.

pub mod addressed;
pub mod stream;

use crate::transport::{Addressed, Completion, Request, Result, Span, Stream};

/// A [`Stream`] that moves nothing: each message is finished and answered at the next look.
#[derive(Debug, Clone)]
pub struct NullStream {
    lanes: usize,
    must_drain: bool,
    started: Vec<u64>,
    reported: Vec<u64>,
}

impl NullStream {
    /// With so many lanes; `must_drain` as in [`Stream::must_drain`].
    pub fn new(lanes: usize, must_drain: bool) -> Self {
        NullStream { lanes, must_drain, started: vec![0; lanes], reported: vec![0; lanes] }
    }

    /// Messages started since it was made.
    pub fn started(&self) -> u64 {
        self.started.iter().sum()
    }
}

impl Stream for NullStream {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn must_drain(&self) -> bool {
        self.must_drain
    }

    #[inline]
    fn start(&mut self, lane: usize, n: u32) -> Result<u32> {
        self.started[lane] += u64::from(n);
        Ok(n)
    }

    #[inline]
    fn finished(&mut self, per_lane: &mut [u64]) -> Result<u32> {
        let mut sum = 0;
        for ((started, reported), count) in
            self.started.iter().zip(&mut self.reported).zip(per_lane)
        {
            let new = started - *reported;
            *reported = *started;
            *count += new;
            sum += new;
        }
        Ok(sum as u32)
    }

    #[inline]
    fn arrived(&mut self) -> Result<u64> {
        Ok(self.started.iter().sum())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An [`Addressed`] that moves nothing: each operation is complete at the next look.
#[derive(Debug, Clone)]
pub struct NullAddressed {
    memory: Vec<u8>,
    pending: Option<Completion>,
    posted: u64,
}

impl NullAddressed {
    /// With a local (and allegedly remote) buffer of `len` bytes and one lane, which holds one
    /// operation.
    pub fn new(len: usize) -> Self {
        NullAddressed { memory: vec![0; len], pending: None, posted: 0 }
    }

    /// Operations posted since it was made.
    pub fn posted(&self) -> u64 {
        self.posted
    }
}

impl Addressed for NullAddressed {
    fn lanes(&self) -> usize {
        1
    }

    #[inline]
    fn post(&mut self, request: &Request) -> Result<bool> {
        if self.pending.is_some() {
            return Ok(false);
        }
        self.posted += 1;
        self.pending = Some(Completion { id: request.id, ..Completion::default() });
        Ok(true)
    }

    fn post_receive(&mut self, _lane: usize, _local: Span, _id: u64) -> Result<bool> {
        Ok(false)
    }

    #[inline]
    fn poll(&mut self, done: &mut [Completion]) -> Result<usize> {
        match (self.pending, done.first_mut()) {
            (Some(completion), Some(place)) => {
                *place = completion;
                self.pending = None;
                Ok(1)
            }
            _ => Ok(0),
        }
    }

    fn memory(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    fn remote_len(&self) -> u64 {
        self.memory.len() as u64
    }
}
