//! What must hold for any input, with generated input; the fuzz targets check the same.

use proptest::prelude::*;
use serde_json::{Value, json};

#[path = "fuzz/src/lib.rs"]
mod checks;

use checks::{LIMIT, Next};

/// A frame as it is sent.
fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// Messages of all shapes, each smaller than a frame may be.
fn messages() -> impl Strategy<Value = Vec<Value>> {
    let message = prop_oneof![
        any::<i64>().prop_map(|n| json!({ "Progress": n })),
        ".{0,80}".prop_map(|text| json!({ "Failed": { "why": text } })),
        proptest::collection::vec(any::<bool>(), 0..40).prop_map(|list| json!(list)),
    ];
    proptest::collection::vec(message, 0..12)
}

/// What people might type for a size, a rate, a duration, a host; close enough to be understood often.
fn typed() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9]{1,22} ?(B|K|k|Ki|KiB|KB|M|MiB|G|GiB|T)?",
        "[0-9]{1,12}(\\.[0-9]{0,9})? ?(b|kb|Mb|Gb|Tb|GB|Gbit|bit)(/s|ps)?",
        "[0-9]{1,20}(ns|us|ms|s|sec|m|min|h|d|y|month)( ?[0-9]{1,3}(s|ms))?",
        "-?([a-z.@]{0,8}@)?[a-zA-Z0-9.:_%$;|-]{0,12}(,addr=[0-9a-f.:\\[\\]]{0,20})?",
        "tcp://\\[?[a-z0-9.:-]{0,12}\\]?:[0-9]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_as_described(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        checks::frames(&bytes);
    }

    /// Lengths near the limit and near the end of the stream, where a decoder errs.
    #[test]
    fn frames_of_any_length_are_read_as_described(
        announced in 0..LIMIT as u32 + 3,
        short in 0..4_usize,
        fill in prop_oneof![Just(b' '), Just(b'1'), any::<u8>()],
    ) {
        let mut bytes = announced.to_be_bytes().to_vec();
        bytes.resize(4 + (announced as usize).saturating_sub(short), fill);
        checks::frames(&bytes);
    }

    #[test]
    fn messages_come_out_as_they_went_in(messages in messages(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        for message in &messages {
            bytes.extend(frame(&serde_json::to_vec(message).unwrap()));
        }
        let mut wanted: Vec<Next> = messages.iter().cloned().map(Next::Message).collect();
        wanted.push(Next::Closed);
        prop_assert_eq!(checks::decoded(&bytes), wanted.clone());
        // Cut anywhere, every message that came whole is read, and nothing else.
        let cut = cut.index(bytes.len() + 1);
        let found = checks::decoded(&bytes[..cut]);
        prop_assert!(matches!(found.last(), Some(Next::Closed | Next::Cut)), "{:?}", found.last());
        prop_assert_eq!(&found[..found.len() - 1], &wanted[..found.len() - 1]);
    }

    #[test]
    fn any_words_are_understood_or_refused(text in typed()) {
        checks::words(&text);
    }
}
