//! The data model of a report and its renderers.

pub mod model;
