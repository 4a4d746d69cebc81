//! Who carries a schedule out, and the two vectors that it works on.

use super::progress::Course;
use super::sockets::{Arithmetic, Cost, Runner, Vectors};
use crate::engine::End;
use crate::measure::clock::Time;
use crate::transport::{Bytes, Failure, FailureKind, Result};

/// Bytes behind the vector in use whose content is known.
pub const GUARD: usize = 64;

/// Carries out schedules between an input and a work vector of its own.
pub trait Carrier {
    /// Room for the largest input and a guard. Only while settled.
    ///
    /// # Errors
    /// Internal alone.
    fn input(&mut self) -> Result<&mut [u8]>;

    /// Likewise for what is worked on, and the result.
    ///
    /// # Errors
    /// Internal alone.
    fn work(&mut self) -> Result<&mut [u8]>;

    /// Everybody has come here.
    ///
    /// # Errors
    /// Stopped; stalled or a peer lost.
    fn barrier(&mut self, rank: usize, ranks: usize) -> Result<()>;

    /// Does once what the course asks of this rank, over the first bytes of both vectors.
    ///
    /// # Errors
    /// Stopped; stalled or a peer lost, with rank and step.
    fn run(&mut self, course: &Course, how: How) -> Result<()>;

    /// Waits until all that was sent has left, so that the vectors may be changed.
    ///
    /// # Errors
    /// As [`Carrier::run`].
    fn settle(&mut self) -> Result<()>;

    /// What runs took, summed up since this was last set to nothing.
    fn cost(&mut self) -> &mut Cost;
}

/// How a course is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Bytes of the vector.
    pub bytes: usize,
    /// Output lies on top of input.
    pub in_place: bool,
    /// What is reduced how.
    pub arithmetic: Arithmetic,
}

/// Carries over lanes of bytes.
pub struct OverSockets<'a, B, T> {
    runner: Runner<'a, B, T>,
    peers: Vec<usize>,
    input: Vec<u8>,
    work: Vec<u8>,
}

impl<'a, B: Bytes, T: Time> OverSockets<'a, B, T> {
    /// With vectors of `bytes` over `wires`, a lane to each of `peers`.
    ///
    /// # Errors
    /// Refused, when there is not enough memory.
    pub fn new(
        end: &'a End<'a>,
        wires: &'a mut B,
        time: &'a T,
        peers: Vec<usize>,
        bytes: usize,
    ) -> Result<Self> {
        let vector = || -> Result<Vec<u8>> {
            let mut vector = Vec::new();
            let len = bytes.saturating_add(GUARD);
            vector.try_reserve_exact(len).map_err(|error| {
                let cause = format!("{bytes} bytes of memory: {error}: choose a smaller -e");
                Failure::new(FailureKind::Refused, "prepare", end.object, cause)
            })?;
            vector.resize(len, 0);
            Ok(vector)
        };
        let (input, work) = (vector()?, vector()?);
        Ok(OverSockets { runner: Runner::new(end, wires, time), peers, input, work })
    }
}

impl<B: Bytes, T: Time> Carrier for OverSockets<'_, B, T> {
    fn input(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.input)
    }

    fn work(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.work)
    }

    fn barrier(&mut self, rank: usize, ranks: usize) -> Result<()> {
        self.runner.barrier(rank, ranks, &self.peers)
    }

    fn run(&mut self, course: &Course, how: How) -> Result<()> {
        let input = (!how.in_place).then_some(&self.input[..how.bytes]);
        let mut vectors = Vectors { input, work: &mut self.work[..how.bytes] };
        self.runner.run(course, &mut vectors, how.arithmetic)
    }

    /// What a socket has taken is the kernel's own.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn cost(&mut self) -> &mut Cost {
        &mut self.runner.cost
    }
}
