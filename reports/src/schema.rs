//! The JSON schema of a report, kept in `schema/` for people who read reports with other programs.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::advice::Advice;
use crate::comparison::Comparison;
use crate::model::Report;
use crate::trend::Trend;

fn of_the_model() -> Value {
    of::<Report>()
}

fn of<T: schemars::JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    serde_json::to_value(generator.into_root_schema_for::<T>()).unwrap()
}

#[test]
fn answers_have_schemas_too_and_their_samples_fit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let known = [
        ("advice", of::<Advice>(), Some("advice.json")),
        ("compare", of::<Comparison>(), None),
        ("trend", of::<Trend>(), None),
    ];
    for (name, schema, sample) in known {
        checked_in(&root.join(format!("schema/fabbench-{name}-1.json")), &schema);
        let Some(sample) = sample else { continue };
        let text = fs::read_to_string(root.join("samples").join(sample)).unwrap();
        let mut errors = Vec::new();
        check(&serde_json::from_str(&text).unwrap(), &schema, &schema, "", &mut errors);
        assert_eq!(errors, Vec::<String>::new(), "{sample}");
    }
}

#[test]
fn the_checked_in_schema_is_that_of_the_model() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    checked_in(&root.join("schema/fabbench-report-1.json"), &of_the_model());
}

fn checked_in(path: &Path, schema: &Value) {
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::write(path, serde_json::to_string_pretty(schema).unwrap() + "\n").unwrap();
    }
    let there: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        there == *schema,
        "{} is not that of the model; UPDATE_SAMPLES=1 rewrites it: read the difference, since \
         a field may be added but never change its meaning",
        path.display()
    );
}

#[test]
fn every_sample_is_valid_and_what_is_damaged_is_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let schema = read(&root.join("schema/fabbench-report-1.json"));
    let errors = |document: &Value| {
        let mut errors = Vec::new();
        check(document, &schema, &schema, "", &mut errors);
        errors
    };
    let mut samples = 0;
    for entry in fs::read_dir(root.join("samples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let sample = read(&path);
        if sample["schema"] != crate::model::SCHEMA {
            continue;
        }
        assert_eq!(errors(&sample), Vec::<String>::new(), "{}", path.display());
        let damages: [fn(&mut Value); 4] = [
            |report| report["verdict"]["status"] = "passed".into(),
            |report| report["hosts"] = Value::Null,
            |report| report["hosts"][0]["cpus"] = (-1).into(),
            |report| drop(report["verdict"].as_object_mut().unwrap().remove("function")),
        ];
        for damage in damages {
            let mut damaged = sample.clone();
            damage(&mut damaged);
            assert_eq!(errors(&damaged).len(), 1, "{:?}", errors(&damaged));
        }
        samples += 1;
    }
    assert!(samples >= 4, "{samples} samples");
}

/// Holds a value against those keywords of JSON schema that the schema uses; panics at others, so
/// that none is passed over. (A crate that knows them all would bring 76 others with it.)
fn check(value: &Value, schema: &Value, root: &Value, at: &str, errors: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        assert_eq!(schema, &Value::Bool(true), "at {at}");
        return;
    };
    for (keyword, wanted) in keywords {
        let fits = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            "$ref" => {
                let pointer = wanted.as_str().unwrap().trim_start_matches('#');
                check(value, root.pointer(pointer).unwrap(), root, at, errors);
                true
            }
            "type" => match wanted {
                Value::Array(all) => all.iter().any(|one| is_of(value, one)),
                one => is_of(value, one),
            },
            "const" => value == wanted,
            "enum" => wanted.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|v| v >= wanted.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|v| v <= wanted.as_f64().unwrap()),
            "anyOf" | "oneOf" => wanted.as_array().unwrap().iter().any(|one| {
                let mut inner = Vec::new();
                check(value, one, root, at, &mut inner);
                inner.is_empty()
            }),
            "required" => wanted.as_array().unwrap().iter().all(|name| {
                value.as_object().is_none_or(|all| all.contains_key(name.as_str().unwrap()))
            }),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(item, wanted, root, &format!("{at}/{index}"), errors);
                }
                true
            }
            "properties" => {
                for (name, schema) in wanted.as_object().unwrap() {
                    if let Some(inner) = value.get(name) {
                        check(inner, schema, root, &format!("{at}/{name}"), errors);
                    }
                }
                true
            }
            "additionalProperties" => {
                assert!(!keywords.contains_key("properties"), "at {at}");
                for (name, inner) in value.as_object().into_iter().flatten() {
                    check(inner, wanted, root, &format!("{at}/{name}"), errors);
                }
                true
            }
            other => panic!("keyword {other} at {at}: teach it to this test"),
        };
        if !fits {
            errors.push(format!("{at}: {value} against {keyword} {wanted}"));
        }
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("type {other}"),
    }
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
