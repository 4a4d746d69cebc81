//! The `fabbench` command.
fn main() {}
