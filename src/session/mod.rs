//! The control plane: agents, frames, deadlines; never sees payload.

pub mod frame;
pub mod host_spec;
pub mod protocol;
pub mod token;
