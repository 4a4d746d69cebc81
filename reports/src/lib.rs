//! The data model of a report and its renderers.

pub mod advice;
#[cfg(feature = "words")]
mod advised;
mod clean;
#[cfg(feature = "words")]
mod collectives;
#[cfg(feature = "words")]
mod compared;
pub mod comparison;
#[cfg(feature = "csv")]
pub mod csv;
#[cfg(feature = "html")]
pub mod html;
pub mod json;
#[cfg(feature = "junit")]
pub mod junit;
#[cfg(feature = "markdown")]
pub mod markdown;
pub mod model;
#[cfg(feature = "text")]
pub mod nagios;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod redact;
#[cfg(test)]
mod schema;
#[cfg(feature = "html")]
mod svg;
#[cfg(feature = "text")]
pub mod text;
pub mod trend;
pub mod units;
#[cfg(feature = "words")]
mod view;
#[cfg(feature = "words")]
mod words;
