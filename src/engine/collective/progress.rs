//! How far the moves of a schedule are, and how far each may go.

use super::schedule::Schedule;
use crate::transport::{Failure, FailureKind};

/// A schedule prepared for carrying out: positions are bytes of the vector.
#[derive(Debug, Clone)]
pub struct Course {
    /// The schedule.
    pub schedule: Schedule,
    /// Bytes of an element.
    pub element: usize,
    /// Ranks that this one speaks with, ascending; a lane each.
    pub peers: Vec<usize>,
    /// For each lane, the moves that send there.
    pub sends: Vec<Vec<usize>>,
    /// For each lane, the moves that receive from there.
    pub receives: Vec<Vec<usize>>,
    /// For each move, the earlier receives that touch the same elements.
    before: Vec<Vec<usize>>,
}

impl Course {
    /// Prepares a schedule for lanes to `peers`.
    ///
    /// # Errors
    /// Internal, when one of the schedule's peers has no lane.
    pub fn new(schedule: Schedule, element: usize, peers: &[usize]) -> Result<Course, Failure> {
        let (mut sends, mut receives) =
            (vec![Vec::new(); peers.len()], vec![Vec::new(); peers.len()]);
        let mut before = Vec::with_capacity(schedule.moves.len());
        for (index, m) in schedule.moves.iter().enumerate() {
            let lane = peers.binary_search(&m.peer).map_err(|_| {
                let cause = format!("there is no lane to rank {}", m.peer);
                Failure::new(FailureKind::Internal, "prepare", "collective", cause)
            })?;
            let list = if m.is_send() { &mut sends } else { &mut receives };
            list[lane].push(index);
            let earlier = schedule.moves[..index].iter().enumerate();
            let touches = |other: &super::Move| {
                !other.is_send()
                    && other.range.start < m.range.end
                    && m.range.start < other.range.end
            };
            let reads_input =
                matches!(m.action, super::Action::Send { from: super::Source::Input, .. });
            let found = earlier.filter(|(_, other)| touches(other)).map(|(i, _)| i);
            before.push(if reads_input { Vec::new() } else { found.collect() });
        }
        Ok(Course { schedule, element, peers: peers.to_vec(), sends, receives, before })
    }

    /// First and last byte of a move.
    #[inline]
    pub fn span(&self, index: usize) -> (usize, usize) {
        let range = &self.schedule.moves[index].range;
        (range.start * self.element, range.end * self.element)
    }

    /// Fresh positions: nothing has moved.
    pub fn start(&self) -> Vec<usize> {
        (0..self.schedule.moves.len()).map(|index| self.span(index).0).collect()
    }

    /// Up to which byte a move may go, given how far all are.
    #[inline]
    pub fn limit(&self, index: usize, positions: &[usize]) -> usize {
        let mut limit = self.span(index).1;
        for &other in &self.before[index] {
            if positions[other] < self.span(other).1 {
                limit = limit.min(positions[other]);
            }
        }
        limit
    }

    /// A move in words, e.g. `step 2 of 6, receiving from rank 3`.
    pub fn words(&self, index: usize) -> String {
        let m = &self.schedule.moves[index];
        let what = if m.is_send() { "sending to" } else { "receiving from" };
        format!("step {} of {}, {what} rank {}", m.step + 1, self.schedule.steps, m.peer)
    }
}
