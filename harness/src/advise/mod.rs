//! Is this job bound by the network, on what was measured or named, now and when it grows?
//!
//! The model: bytes per NIC and step from the kind of parallelism ([`flows`]), their time on a
//! fabric and what computing hides of it ([`estimate`]), RDMA and TCP side by side, over a growing
//! number of nodes. Hierarchical collectives are assumed: a NIC carries its GPU's share, and what
//! stays inside a node is left out.

mod answer;
pub mod estimate;
pub mod flows;
pub mod job;
pub mod library;
pub mod link;
pub mod measured;
mod recommend;
#[cfg(test)]
mod tests;

use fabbench_reports::advice::Transport;

pub use answer::{Change, Observed, Question, advise};
pub use recommend::questions;

/// Why there is no answer: what is wrong or missing, and what would do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AdviseError {
    /// A number that has to be above zero.
    #[error("{flag} {value}: give a number above 0")]
    NotPositive {
        /// As typed.
        flag: String,
        /// Its value.
        value: f64,
    },
    /// A name that is not known.
    #[error("{flag} {name}: unknown; known are {known}; {otherwise}")]
    Unknown {
        /// As typed.
        flag: &'static str,
        /// As typed.
        name: String,
        /// All names.
        known: String,
        /// What else would do.
        otherwise: &'static str,
    },
    /// A report lacks a measurement.
    #[error("{file} has no {transport} {what}: {remedy}")]
    NotMeasured {
        /// The report.
        file: String,
        /// Which side.
        transport: Transport,
        /// Which figure.
        what: &'static str,
        /// What would supply it.
        remedy: &'static str,
    },
    /// Anything else, in a sentence that ends with what would do.
    #[error("{0}")]
    Wrong(String),
}

/// Refuses zero, negative and other numbers that mean nothing.
pub fn positive(flag: &str, value: f64) -> Result<(), AdviseError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(AdviseError::NotPositive { flag: flag.to_owned(), value })
}
