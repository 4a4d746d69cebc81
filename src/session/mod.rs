//! The control plane: agents, frames, deadlines; never sees payload.

pub mod coordinator;
pub mod elf;
pub mod frame;
pub mod host_spec;
pub mod interrupt;
pub mod join;
pub mod launch;
pub mod outlet;
pub mod peer;
pub mod protocol;
pub mod remote;
pub mod token;
pub mod world;

use std::time::Duration;

pub use coordinator::{Event, Session, Wait};
pub use host_spec::{HostSpec, parse_hosts};
pub use interrupt::Interrupt;
pub use launch::{Binary, Launch};

use protocol::{Hello, PROTOCOL};

/// Time between two heartbeats of either side.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// Silence after which the other side counts as gone, unless the coordinator says otherwise.
pub const SILENCE: Duration = Duration::from_secs(10);

/// A host that takes no part any more, and why, ending with the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host}: {stage}: {cause}")]
pub struct HostFailure {
    /// Name of the host.
    pub host: String,
    /// What was being done: connect, facts, or the stage of a case.
    pub stage: String,
    /// Why, in plain words.
    pub cause: String,
}

/// The greeting of this process.
pub fn hello(session: &str, silence: Duration) -> Hello {
    Hello {
        protocol: PROTOCOL,
        version: crate::VERSION.to_owned(),
        commit: crate::COMMIT.to_owned(),
        session: session.to_owned(),
        pid: std::process::id(),
        silence_ms: u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
    }
}
