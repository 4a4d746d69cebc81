//! The words that every form of a comparison shares.

use crate::comparison::{Became, Comparison, Figure, Unit};
use crate::units::{BitRate, MessageRate, Share, Time};

/// `1 worse, 3 better, 12 same`.
pub fn summary(comparison: &Comparison) -> String {
    let kinds = [
        Became::Worse,
        Became::Gone,
        Became::NotComparable,
        Became::Better,
        Became::New,
        Became::Same,
    ];
    let number = |kind: Became| comparison.figures.iter().filter(|f| f.became == kind).count();
    let parts: Vec<String> = kinds
        .into_iter()
        .filter(|kind| number(*kind) > 0)
        .map(|kind| format!("{} {}", number(kind), kind.word()))
        .collect();
    let parts = if parts.is_empty() { "nothing was measured".to_owned() } else { parts.join(", ") };
    if comparison.firm { parts } else { format!("{parts}; not firm: fewer than 3 runs before") }
}

/// What became of a figure, in its unit: `390 Gb/s before, 356 Gb/s after (-8.7 %)`.
pub(crate) fn difference(figure: &Figure) -> String {
    match (figure.before, figure.after, figure.ratio) {
        (Some(_), Some(_), Some(_)) => format!(
            "{} before, {} after ({})",
            in_unit(figure.unit, figure.before),
            in_unit(figure.unit, figure.after),
            change(figure)
        ),
        (_, Some(_), _) => format!("{}: {}", in_unit(figure.unit, figure.after), figure.why),
        _ => figure.why.clone(),
    }
}

/// A figure in its unit; nothing where there is none.
pub(crate) fn in_unit(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    match unit {
        Unit::BitPerSecond => BitRate(value).to_string(),
        Unit::MessagePerSecond => MessageRate(value).to_string(),
        Unit::Nanosecond => Time(value).to_string(),
        Unit::WrongByte => format!("{value:.0} B"),
    }
}

/// `+3.1 %`; nothing where there is no ratio.
pub(crate) fn change(figure: &Figure) -> String {
    figure.ratio.map_or(String::new(), |ratio| signed(ratio - 1.0))
}

/// `-0.4 % to +0.7 %`; nothing where there is no interval.
pub(crate) fn interval(figure: &Figure) -> String {
    let words = |[low, high]: [f64; 2]| format!("{} to {}", signed(low - 1.0), signed(high - 1.0));
    figure.interval.map(words).unwrap_or_default()
}

/// `+3.1 %`, `-0.4 %`.
pub(crate) fn signed(part: f64) -> String {
    let sign = if part >= 0.0 { "+" } else { "" };
    format!("{sign}{}", Share(part))
}

/// `PASS: 12 same`, for the head of a page.
pub(crate) fn verdict(comparison: &Comparison) -> String {
    format!("{}: {}", comparison.status.word().to_uppercase(), summary(comparison))
}
