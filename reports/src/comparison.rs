//! What `fabbench compare` answers: plain values, schema `fabbench-compare/1`.
//!
//! Rates are in bit/s or messages/s, times in ns; a ratio is after over before.

use serde::{Deserialize, Serialize};

use crate::model::Status;

/// Name and major version of the schema.
pub const COMPARISON_SCHEMA: &str = "fabbench-compare/1";

/// Reports from before held against reports from after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Always [`COMPARISON_SCHEMA`] when written by this version.
    pub schema: String,
    /// The runs before.
    pub before: Vec<Run>,
    /// The runs after.
    pub after: Vec<Run>,
    /// True when there are runs enough on the side before to know how much runs differ.
    pub firm: bool,
    /// What the verdicts stand on, in sentences.
    pub basis: Vec<String>,
    /// One entry a figure that is compared.
    pub figures: Vec<Figure>,
    /// What is not the same in hardware, firmware, settings and method.
    pub changes: Vec<Change>,
    /// fail when a figure is worse beyond what is allowed, warn when it is worse by less or has
    /// gone, incomplete when nothing could be compared, else pass.
    pub status: Status,
}

/// A run that takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// File that it was read from.
    pub source: String,
    /// When it started.
    pub started: String,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Version and commit of fabbench.
    pub fabbench: String,
}

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// Better beyond chance, and by as much as is worth telling.
    Better,
    /// No difference that is beyond chance and worth telling.
    Same,
    /// Measured only after.
    New,
    /// Measured on both sides, in ways that cannot be compared.
    NotComparable,
    /// Measured only before.
    Gone,
    /// Worse beyond chance, and by as much as is worth telling.
    Worse,
}

impl Became {
    /// As people read it.
    pub fn word(self) -> &'static str {
        match self {
            Became::Better => "better",
            Became::Same => "same",
            Became::New => "new",
            Became::NotComparable => "not comparable",
            Became::Gone => "gone",
            Became::Worse => "worse",
        }
    }
}

/// What a figure is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// bit/s; more is better.
    BitPerSecond,
    /// Messages per second; more is better.
    MessagePerSecond,
    /// Nanoseconds; less is better.
    Nanosecond,
    /// Bytes that differed; none is right.
    WrongByte,
}

/// A figure before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// Which case, in words.
    pub case: String,
    /// `goodput`, `message rate`, `p50`, `p99` or `wrong bytes`.
    pub figure: String,
    /// Unit of `before` and `after`.
    pub unit: Unit,
    /// Median of the runs before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Median of the runs after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// After over before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Where the true ratio lies with 95 % confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What became of it.
    pub became: Became,
    /// fail or warn where it became worse or has gone, pass where it was compared.
    pub status: Status,
    /// Why, where it is not said by the figures.
    pub why: String,
}

/// Something that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// Host, `host/device`, `host/device:port`, rail or the run.
    pub object: String,
    /// Which of its properties.
    pub what: String,
    /// Before; `absent` where it was not there.
    pub before: String,
    /// After; `absent` where it is not there.
    pub after: String,
}
