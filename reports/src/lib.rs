//! The data model of a report and its renderers.

pub mod advice;
pub mod json;
pub mod model;
#[cfg(test)]
mod schema;
#[cfg(feature = "text")]
pub mod text;
pub mod units;
#[cfg(feature = "words")]
mod view;
#[cfg(feature = "words")]
mod words;
