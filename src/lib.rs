//! fabbench measures what a cluster's network really carries and says what limits it.
//!
//! The library holds what the `fabbench` binary is made of; its rooms are described in CONTRIBUTING.md.

pub mod agent;
pub mod cli;
pub mod commands;
pub mod engine;
pub mod host;
pub mod measure;
pub mod memory;
pub mod session;
pub mod transport;

/// Semantic version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit that this build was made from, `unknown` outside a checkout.
pub const COMMIT: &str = env!("FABBENCH_COMMIT");

/// Version and commit, as `--version` prints them.
pub const VERSION_LINE: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("FABBENCH_COMMIT"), ")");
