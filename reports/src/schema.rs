//! The JSON schema of a report, kept in `schema/` for people who read reports with other programs.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::model::Report;

fn of_the_model() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    serde_json::to_value(generator.into_root_schema_for::<Report>()).unwrap()
}

#[test]
fn the_checked_in_schema_is_that_of_the_model() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/fabbench-report-1.json");
    let schema = of_the_model();
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&schema).unwrap() + "\n").unwrap();
    }
    let checked_in: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(
        checked_in == schema,
        "{} is not that of the model; UPDATE_SAMPLES=1 rewrites it: read the difference, since \
         a field may be added but never change its meaning",
        path.display()
    );
}

#[test]
fn it_names_the_fields_that_scripts_rely_on() {
    let schema = of_the_model();
    for pointer in [
        "/properties/verdict",
        "/$defs/Verdict/properties/status",
        "/$defs/Measurement/properties/goodput_bps",
        "/$defs/Latency/properties/p99",
        "/$defs/Measurement/properties/bytes_wrong",
    ] {
        assert!(schema.pointer(pointer).is_some(), "{pointer}");
    }
}
