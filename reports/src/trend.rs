//! What `fabbench trend` answers: plain values, schema `fabbench-trend/1`.

use serde::{Deserialize, Serialize};

use crate::comparison::{Became, Change, Run, Unit};
use crate::model::Status;

/// Name and major version of the schema.
pub const TREND_SCHEMA: &str = "fabbench-trend/1";

/// Figures over many runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trend {
    /// Always [`TREND_SCHEMA`] when written by this version.
    pub schema: String,
    /// The runs, the oldest first.
    pub runs: Vec<Run>,
    /// One entry a figure.
    pub lines: Vec<Line>,
    /// What changed in hardware, firmware, settings and method on the way.
    pub steps: Vec<Step>,
}

/// A figure over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Line {
    /// Which case, in words.
    pub case: String,
    /// `goodput`, `message rate`, `p50`, `p99` or `wrong bytes`.
    pub figure: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Median of each run; none where the run has no such case.
    pub values: Vec<Option<f64>>,
    /// The last run over what was before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ratio: Option<f64>,
    /// What it became in the last run, held against all before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_became: Option<Became>,
    /// Verdict on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<Status>,
}

/// What is not as it was in the run before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Step {
    /// Index of the run, from 0.
    pub run: usize,
    /// The differences.
    pub changes: Vec<Change>,
}
