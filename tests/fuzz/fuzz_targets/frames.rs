//! Any bytes as the stream of an agent.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fabbench_fuzz::frames(bytes));
