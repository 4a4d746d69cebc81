//! Reports as JSON: written pretty, read with tolerance for newer minor versions.

use serde_json::Value;
use thiserror::Error;

use crate::model::{Report, SCHEMA};

/// Why a text is not a report that this version reads. The caller names the file.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Not JSON at all, or cut off.
    #[error(
        "not a fabbench report: no valid JSON ({0}); give the file that --json=FILE or --out DIR wrote"
    )]
    NotJson(#[source] serde_json::Error),
    /// JSON of another kind.
    #[error(
        "not a fabbench report: JSON without a \"schema\" that begins with \"fabbench-report/\"; \
         give the file that --json=FILE or --out DIR wrote"
    )]
    NotAReport,
    /// A report of another major version.
    #[error(
        "schema {found:?} cannot be read: this fabbench reads {SCHEMA:?}; \
         use the fabbench version that wrote it"
    )]
    OtherSchema {
        /// Its `schema` field.
        found: String,
    },
    /// The right schema, but a field is missing or of the wrong type.
    #[error("damaged report: {0}; it was edited or cut off, so measure again or restore the file")]
    Damaged(#[source] serde_json::Error),
}

/// Writes a report as indented JSON with a final newline.
///
/// # Errors
///
/// When a figure is not a finite number: JSON has no way to write it, and a report that cannot be
/// read back is worth nothing.
pub fn write(report: &Report) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    serde_json::from_str::<Report>(&text)?;
    Ok(text)
}

/// Reads a report; fields that this version does not know are ignored.
///
/// # Errors
///
/// See [`ReadError`].
pub fn read(text: &str) -> Result<Report, ReadError> {
    let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default();
    if !schema.starts_with("fabbench-report/") {
        return Err(ReadError::NotAReport);
    }
    if major(schema) != SCHEMA {
        return Err(ReadError::OtherSchema { found: schema.to_owned() });
    }
    // From the text again, since only that gives line and column.
    serde_json::from_str(text).map_err(ReadError::Damaged)
}

/// `fabbench-report/1.4` → `fabbench-report/1`.
fn major(schema: &str) -> &str {
    schema.split_once('.').map_or(schema, |(major, _)| major)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Named, Status, Tool, Verdict};

    fn report() -> Report {
        Report {
            schema: SCHEMA.into(),
            tool: Tool { version: "0.1.0".into(), commit: "unknown".into() },
            command: vec!["pair".into(), "a".into(), "b".into()],
            suite: Named { name: "quick".into(), hash: "0123456789ab".into() },
            profile: Named { name: "auto".into(), hash: String::new() },
            profile_why: String::new(),
            started: "2025-01-01T00:00:00Z".into(),
            finished: "2025-01-01T00:01:00Z".into(),
            complete: true,
            simulated: false,
            synthetic: false,
            hosts: vec![],
            rails: vec![],
            checks: vec![],
            topology: vec![],
            measurements: vec![],
            matrices: vec![],
            fits: vec![],
            not_measured: vec![],
            diagnosis: vec![],
            verdict: Verdict {
                status: Status::Pass,
                function: Status::Pass,
                performance: Status::Unjudged,
                reasons: vec![],
                next: vec![],
            },
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        let report = report();
        let text = write(&report).unwrap();
        assert!(text.ends_with("}\n"));
        assert_eq!(read(&text).unwrap(), report);
    }

    #[test]
    fn a_newer_minor_version_with_unknown_fields_is_read() {
        let text = write(&report()).unwrap().replace("report/1\"", "report/1.7\"").replacen(
            '{',
            "{ \"weather\": {\"cloudy\": true},",
            1,
        );
        assert_eq!(read(&text).unwrap().schema, "fabbench-report/1.7");
    }

    #[test]
    fn another_major_version_is_refused_by_name() {
        for other in ["fabbench-report/2", "fabbench-report/10", "fabbench-report/2.1"] {
            let text = write(&report()).unwrap().replace(SCHEMA, other);
            let error = read(&text).unwrap_err().to_string();
            assert!(
                error.contains(other) && error.contains("reads \"fabbench-report/1\""),
                "{error}"
            );
        }
    }

    #[test]
    fn other_files_are_told_apart() {
        assert!(matches!(read("rail0 9.8 Gb/s"), Err(ReadError::NotJson(_))));
        assert!(matches!(read(""), Err(ReadError::NotJson(_))));
        assert!(matches!(read("[1, 2]"), Err(ReadError::NotAReport)));
        assert!(matches!(read("{\"schema\": 1}"), Err(ReadError::NotAReport)));
        let cut = write(&report()).unwrap().replace("\"complete\": true,", "");
        let error = read(&cut).unwrap_err();
        assert!(matches!(error, ReadError::Damaged(_)));
        assert!(error.to_string().contains("complete"), "{error}");
    }

    #[test]
    fn a_figure_that_json_cannot_hold_is_refused() {
        let mut report = report();
        report.measurements.push(crate::model::Measurement {
            efficiency: None,
            goodput_bps: Some(crate::model::Rate { median: f64::NAN, ..Default::default() }),
            ..Default::default()
        });
        assert!(write(&report).is_err());
    }
}
