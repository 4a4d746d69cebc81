//! Judges what was measured. Pure: opens no device, file or socket.

pub mod advise;
pub mod ceiling;
pub mod checks;
pub mod collective;
pub mod compare;
pub mod counters;
pub mod diagnose;
pub mod facts;
#[cfg(test)]
mod fixtures;
pub mod gid;
pub mod knob_limits;
pub mod leaves;
pub mod limits;
pub mod line_rate;
pub mod merge;
pub mod numbers;
pub mod pcie;
pub mod plan;
pub mod possible;
pub mod profile;
pub mod rails;
pub mod rate;
pub mod retest;
pub mod size;
pub mod snapshot;
pub mod suite;
pub mod topology;
pub mod verdict;
