//! Collectives between N ranks: schedules as data, reduction kernels, exact verification, and the
//! loops that carry a schedule out.
//!
//! A [`Schedule`] says what one rank sends and receives, in order. Every loop follows one rule: a
//! move may use a part of the vector once all earlier receives of that part are finished. So parts
//! of a later step travel while the rest of an earlier one still arrives, and each element is
//! reduced in the same order whatever the network does.

pub mod carrier;
pub mod kernels;
pub mod messages;
pub mod progress;
pub mod schedule;
pub mod slots;
pub mod sockets;
pub mod sweep;
pub mod types;
pub mod values;

#[cfg(test)]
mod tests;

pub use schedule::{Action, Algorithm, Collective, Move, Schedule, Scope, Source};
pub use sweep::{Row, Sweep};
pub use types::{DataType, Reduction};
