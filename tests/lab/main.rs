//! Tests on real Soft-RoCE hosts. `ci/test` runs them; by hand:
//! `cargo build --release && cargo test --features lab --test lab -- --test-threads=1`.

mod support;

mod collective;
mod compare;
mod faults;
mod pair;
mod shaped;
mod softroce;
mod topo;
