//! Hosts from `tests/fixtures`, for the unit tests.

use crate::snapshot::HostFacts;

/// The host in `tests/fixtures/NAME.json`.
pub(crate) fn read(name: &str) -> HostFacts {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
