//! fabbench measures what a cluster's network really carries and says what limits it.
//!
//! The library holds what the `fabbench` binary is made of; its rooms are described in CONTRIBUTING.md.

pub mod session;
pub mod transport;
