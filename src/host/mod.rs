//! What this machine looks like: files as they are, and what only calls can tell. Interprets nothing.

pub mod calls;
pub mod counters;
pub mod nvml;
pub mod snapshot;
pub mod tools;

use std::path::Path;

use fabbench_harness::snapshot::{HostFacts, VerbsDevice};

/// Facts of the machine whose file system begins at `root`; what only calls tell is always of the
/// running one.
pub fn facts(root: &Path) -> HostFacts {
    let calls = calls::facts();
    let knows_gids = |device: &&VerbsDevice| {
        !device.ports.is_empty() && device.ports.iter().all(|port| !port.gids.is_empty())
    };
    let told: Vec<&str> =
        calls.verbs.devices.iter().filter(knows_gids).map(|device| &*device.name).collect();
    let snapshot = snapshot::take(root, &told);
    let tools = tools::ask(&snapshot);
    HostFacts { snapshot, calls, tools }
}

/// Facts of a captured tree of files: no call is made and no tool is run.
pub fn captured(root: &Path) -> HostFacts {
    HostFacts { snapshot: snapshot::take(root, &[]), ..HostFacts::default() }
}
