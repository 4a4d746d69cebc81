//! Time, samples and what is computed from them.

pub mod clock;
