//! Judges what was measured. Pure: opens no device, file or socket.

pub mod facts;
#[cfg(test)]
mod fixtures;
pub mod line_rate;
pub mod plan;
pub mod snapshot;
