//! The data model of a report and its renderers.
