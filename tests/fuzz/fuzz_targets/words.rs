//! Any text as a size, a rate, a duration, a host.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fabbench_fuzz::words(text));
