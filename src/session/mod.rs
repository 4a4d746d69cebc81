//! The control plane: agents, frames, deadlines; never sees payload.

pub mod protocol;
