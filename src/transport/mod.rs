//! How bytes move.

pub mod verbs;
