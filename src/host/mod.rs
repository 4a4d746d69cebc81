//! What this machine looks like: files as they are, and what only calls can tell. Interprets nothing.

pub mod calls;
pub mod counters;
pub mod snapshot;

use std::path::Path;

use fabbench_harness::snapshot::HostFacts;

/// Facts of the machine whose file system begins at `root`; what only calls tell is always of the
/// running one.
pub fn facts(root: &Path) -> HostFacts {
    HostFacts { snapshot: snapshot::take(root), calls: calls::facts() }
}
