//! What elements are and how two of them become one.

use serde::{Deserialize, Serialize};

/// Type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// The upper half of a binary32.
    Bf16,
    /// IEEE 754 binary16.
    F16,
    /// Signed integer of 32 bits; sums wrap.
    I32,
}

impl DataType {
    /// All of them.
    pub const ALL: [DataType; 5] =
        [DataType::F32, DataType::F64, DataType::Bf16, DataType::F16, DataType::I32];

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            DataType::F64 => 8,
            DataType::F32 | DataType::I32 => 4,
            DataType::Bf16 | DataType::F16 => 2,
        }
    }

    /// The word used on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            DataType::F32 => "f32",
            DataType::F64 => "f64",
            DataType::Bf16 => "bf16",
            DataType::F16 => "f16",
            DataType::I32 => "i32",
        }
    }

    /// Largest sum of positive integers that every order of adding gives exactly: the significand's
    /// range, and 2^24 for the wider types, which is enough.
    pub const fn exact_limit(self) -> u32 {
        match self {
            DataType::Bf16 => 1 << 8,
            DataType::F16 => 1 << 11,
            DataType::F32 | DataType::F64 | DataType::I32 => 1 << 24,
        }
    }
}

/// How two elements become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The larger one.
    Max,
}

impl Reduction {
    /// The word used on the command line and in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
        }
    }
}
