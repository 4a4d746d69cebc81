//! Judges what was measured. Pure: opens no device, file or socket.

pub mod plan;
pub mod snapshot;
