//! What is asked for in performance: bounds by the class of the fabric.

mod auto;
mod file;

use std::collections::BTreeSet;

use fabbench_reports::model::{Host, Measurement, Named, Report};

use crate::suite::content_hash;
pub use auto::{ends, is_soft, one_machine};
use file::BUILT_IN;
pub use file::{Bounds, Floor, LatencyLimit, Limit, Lower};

/// A profile that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No such name.
    #[error("{0:?} is no profile: take auto, strict, {names}, or a file (a name with a dot or a slash)", names = built_in_names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// Not a profile, or one that contradicts itself.
    #[error("profile {profile}: {reason}")]
    Unreadable {
        /// Name or path.
        profile: String,
        /// What is wrong, with line and column where known.
        reason: String,
    },
}

/// How bounds are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Name as in the report.
    name: String,
    /// Of the text that the user gave, or of the built-in's.
    hash: String,
    base: Base,
    strict: bool,
    /// Bounds of the user's file, over those of the base.
    own: Bounds,
}

/// Where bounds come from that the user's file does not give.
#[derive(Debug, Clone, PartialEq)]
enum Base {
    /// By the facts of each measurement.
    Auto,
    /// For all measurements.
    Fixed(Box<Bounds>),
}

/// What is asked of one measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Name of the profile, e.g. `ndr`.
    pub profile: String,
    /// Why this one.
    pub why: String,
    /// Its bounds; why it is not judged where there are none, to follow `line rate not judged: `.
    pub bounds: Result<Bounds, String>,
}

/// Names of the built-in profiles.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.into_iter().map(|(name, _)| name)
}

impl Default for Choice {
    fn default() -> Self {
        Choice::auto()
    }
}

impl Choice {
    /// For each measurement the profile of the slower port that it used.
    pub fn auto() -> Self {
        Choice {
            name: "auto".into(),
            hash: String::new(),
            base: Base::Auto,
            strict: false,
            own: Bounds::default(),
        }
    }

    /// `auto`, `strict`, or a built-in profile.
    pub fn by_name(name: &str) -> Result<Self, ProfileError> {
        match name {
            "auto" => Ok(Choice::auto()),
            "strict" => Ok(Choice { name: name.into(), strict: true, ..Choice::auto() }),
            _ => {
                let text = built_in_text(name).ok_or(ProfileError::Unknown(name.into()))?;
                Ok(Choice {
                    name: name.into(),
                    hash: content_hash(text),
                    base: Base::Fixed(Box::new(built_in(name, false)?)),
                    ..Choice::auto()
                })
            }
        }
    }

    /// A user's file; `path` stands in messages and in the report.
    pub fn parse(path: &str, text: &str) -> Result<Self, ProfileError> {
        let file = file::read(path, text)?;
        let base = match file.inherits.as_deref() {
            None => Base::Fixed(Box::default()),
            Some("auto") => Base::Auto,
            Some(name) => {
                let bounds = built_in(name, false).map_err(|error| ProfileError::Unreadable {
                    profile: path.into(),
                    reason: format!("inherits: {error}"),
                })?;
                Base::Fixed(Box::new(bounds))
            }
        };
        Ok(Choice {
            name: path.into(),
            hash: content_hash(text),
            base,
            strict: false,
            own: file.bounds,
        })
    }

    /// What is asked of a measurement between `hosts`. Of software devices nothing, unless a rate was
    /// declared.
    pub fn asked(&self, hosts: &[Host], measured: &Measurement) -> Asked {
        let class = match auto::class(hosts, measured) {
            Ok(class) => class,
            Err(auto::NoClass { profile, reason }) => {
                return Asked { profile, why: reason.clone(), bounds: Err(reason) };
            }
        };
        if auto::is_soft(hosts, measured) && measured.ceiling.is_none() {
            let name = auto::soft_words(hosts, measured);
            let (profile, why) = (class.profile, class.why);
            return Asked { profile, why, bounds: Err(format!("{name} has none")) };
        }
        match &self.base {
            Base::Fixed(bounds) => Asked {
                profile: self.name.clone(),
                why: "as asked".into(),
                bounds: Ok(self.own.clone().over((**bounds).clone())),
            },
            Base::Auto => Asked {
                bounds: built_in(&class.profile, self.strict)
                    .map(|bounds| self.own.clone().over(bounds))
                    .map_err(|error| error.to_string()),
                profile: class.profile,
                why: class.why,
            },
        }
    }

    /// Name and hash for a report, and why: `ndr` where `auto` took it for every measurement.
    pub fn identity(&self, report: &Report) -> (Named, String) {
        if let Base::Fixed(_) = self.base {
            return (Named { name: self.name.clone(), hash: self.hash.clone() }, String::new());
        }
        let rdma = |measured: &&Measurement| measured.transport != "tcp";
        let mut measured: Vec<_> = report.measurements.iter().filter(rdma).collect();
        if measured.is_empty() {
            measured = report.measurements.iter().collect();
        }
        let asked: Vec<_> = measured.iter().map(|m| self.asked(&report.hosts, m)).collect();
        let names: BTreeSet<_> = asked.iter().map(|asked| asked.profile.as_str()).collect();
        let whys: BTreeSet<_> = asked.iter().map(|asked| asked.why.as_str()).collect();
        let found = names.into_iter().collect::<Vec<_>>().join(", ");
        let name = match (self.name.as_str(), found.as_str()) {
            (name, "") => name.to_owned(),
            ("auto", found) => found.to_owned(),
            (name, found) => format!("{name}: {found}"),
        };
        let why = whys.into_iter().collect::<Vec<_>>().join("; ");
        (Named { name, hash: self.hash.clone() }, why)
    }
}

fn built_in_text(name: &str) -> Option<&'static str> {
    BUILT_IN.into_iter().find(|(own, _)| *own == name).map(|(_, text)| text)
}

/// Bounds of a built-in profile over those that it inherits.
fn built_in(name: &str, strict: bool) -> Result<Bounds, ProfileError> {
    let text = built_in_text(name).ok_or(ProfileError::Unknown(name.into()))?;
    let file = file::read(name, text)?;
    let base = match &file.inherits {
        Some(base) if base != name => built_in(base, strict)?,
        _ => Bounds::default(),
    };
    let own = file.bounds.over(base);
    Ok(if strict { file.strict.over(own) } else { own })
}

#[cfg(test)]
mod tests;
