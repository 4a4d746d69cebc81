//! From measurements, checks, counters and topology to causes, likeliest first.
//!
//! A cause needs a symptom: a setting that is not as it should be explains nothing where all is fast
//! and whole, and stays a check. What points to several causes is listed under each.

mod counters;
mod hops;
mod ratios;
mod scene;
mod settings;

use fabbench_reports::model::{Diagnosis, Report};

use scene::Scene;

/// So many causes are worth reading.
const MOST: usize = 12;
/// From this weight on a cause is near certain.
const HIGH: u32 = 80;
/// From this weight on it is likely.
const MEDIUM: u32 = 55;

/// The causes of what a judged report shows, likeliest first; none where nothing is wrong.
pub fn diagnose(report: &Report) -> Vec<Diagnosis> {
    let scene = Scene::new(report);
    let mut causes = settings::causes(&scene);
    causes.extend(ratios::causes(&scene));
    causes.extend(counters::causes(&scene));
    causes.extend(hops::causes(&scene));
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.weight));
    if causes.is_empty() {
        causes.extend(ratios::unexplained(&scene));
    }
    let mut kept: Vec<Cause> = Vec::new();
    for cause in causes {
        let same = |own: &&mut Cause| own.words == cause.words && own.object == cause.object;
        match kept.iter_mut().find(same) {
            Some(own) => own.adopt(cause.evidence),
            None => kept.push(cause),
        }
    }
    kept.into_iter().take(MOST).map(Cause::told).collect()
}

/// A cause under consideration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    /// How sure it is, 0 to 100.
    weight: u32,
    words: String,
    object: String,
    evidence: Vec<String>,
    remedy: String,
}

impl Cause {
    fn new(weight: u32, words: impl Into<String>, object: impl Into<String>) -> Cause {
        Cause {
            weight,
            words: words.into(),
            object: object.into(),
            evidence: Vec::new(),
            remedy: String::new(),
        }
    }

    fn seen(mut self, evidence: impl Into<String>) -> Cause {
        self.evidence.push(evidence.into());
        self
    }

    fn remedy(self, remedy: impl Into<String>) -> Cause {
        Cause { remedy: remedy.into(), ..self }
    }

    fn adopt(&mut self, evidence: Vec<String>) {
        for line in evidence {
            if !self.evidence.contains(&line) && self.evidence.len() < 6 {
                self.evidence.push(line);
            }
        }
    }

    fn told(self) -> Diagnosis {
        let confidence = match self.weight {
            weight if weight >= HIGH => "high",
            weight if weight >= MEDIUM => "medium",
            _ => "low",
        };
        Diagnosis {
            cause: self.words,
            object: self.object,
            confidence: confidence.to_owned(),
            evidence: self.evidence,
            remedy: self.remedy,
        }
    }
}

#[cfg(test)]
mod tests;
