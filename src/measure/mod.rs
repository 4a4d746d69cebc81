//! Time, samples and what is computed from them.

pub mod clock;
pub mod cpu;
pub mod histogram;
pub mod summary;
