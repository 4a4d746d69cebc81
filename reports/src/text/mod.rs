//! The report as people read it on a terminal.
