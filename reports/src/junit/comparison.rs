//! Before and after, for continuous integration: a case a figure, and the verdict.

use super::{Case, Outcome, Run, Suite, document, outcome, output};
use crate::compared::{difference, summary};
use crate::comparison::{Became, Comparison, Figure};

/// A comparison as JUnit XML. What became worse beyond what is allowed is a failure; what could not
/// be compared, or stands on one side alone, is skipped.
pub fn comparison(comparison: &Comparison) -> String {
    let hosts = comparison.after.first().map(|run| run.hosts.join(", ")).unwrap_or_default();
    let mut figures = Suite::new("compared", &hosts);
    figures.cases = comparison.figures.iter().map(case).collect();
    let mut verdict = Suite::new("verdict", &hosts);
    verdict.cases = vec![sum(comparison)];
    let sources = |runs: &[crate::comparison::Run]| {
        runs.iter().map(|run| run.source.as_str()).collect::<Vec<_>>().join(" ")
    };
    let run = Run {
        started: comparison.after.first().map_or("", |run| run.started.as_str()),
        properties: vec![
            ("before", sources(&comparison.before)),
            ("after", sources(&comparison.after)),
            ("firm", comparison.firm.to_string()),
        ],
    };
    let mut suites = vec![figures, verdict];
    suites.retain(|suite| !suite.cases.is_empty());
    document(&suites, &run)
}

fn case(figure: &Figure) -> Case {
    let skipped = matches!(figure.became, Became::New | Became::Gone | Became::NotComparable);
    let message = format!("{}: {}", figure.became.word(), difference(figure));
    let message = message.trim_end_matches([':', ' ']).to_owned();
    Case {
        class: "fabbench.compare".into(),
        name: format!("{} {}", figure.case, figure.figure),
        seconds: 0.0,
        outcome: if skipped { Outcome::Skipped } else { outcome(figure.status) },
        kind: figure.status,
        output: output(figure.status, &message, &figure.why),
        message,
    }
}

fn sum(comparison: &Comparison) -> Case {
    let message = summary(comparison);
    let more = comparison.basis.join("\n");
    let status = comparison.status;
    Case {
        class: "fabbench.verdict".into(),
        name: "comparison".into(),
        seconds: 0.0,
        outcome: outcome(status),
        kind: status,
        output: output(status, &message, &more),
        message,
    }
}
