//! Pictures as inline SVG: a bar beside a figure, and curves over two axes.
//!
//! Colours are classes of the page's style sheet, so that they follow light, dark and print. Every
//! picture has a title and a description for those who do not see it.

use maud::{Markup, html};

/// Sizes in the units of the drawing.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// More series than these cannot be told apart by colour and dashes.
pub(crate) const MOST_SERIES: usize = 12;

/// A figure as a bar, with its range and what it is held against.
pub(crate) struct Bar {
    /// What a reader who does not see it is told.
    pub(crate) title: String,
    /// Right end of the scale.
    pub(crate) scale: f64,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ceiling: Option<f64>,
    pub(crate) bound: Option<f64>,
}

impl Bar {
    /// The bar; nothing where a figure cannot be drawn.
    pub(crate) fn draw(&self) -> Markup {
        let drawable = [self.scale, self.value, self.low, self.high].iter().all(|v| v.is_finite());
        if !drawable || self.scale <= 0.0 {
            return html! {};
        }
        let x = |value: f64| number((value / self.scale).clamp(0.0, 1.0) * 200.0);
        let mark = |value: Option<f64>| value.filter(|v| v.is_finite() && *v > 0.0).map(x);
        html! {
            svg class="bar" viewBox="0 0 200 14" preserveAspectRatio="none" role="img" aria-label=(self.title) {
                title { (self.title) }
                rect class="track" x="0" y="1" width="200" height="12" {}
                rect class="fill" x="0" y="3" width=(x(self.value)) height="8" {}
                line class="range" x1=(x(self.low)) y1="7" x2=(x(self.high)) y2="7" {}
                @if let Some(bound) = mark(self.bound) {
                    line class="bound" x1=(bound) y1="0" x2=(bound) y2="14" {}
                }
                @if let Some(ceiling) = mark(self.ceiling) {
                    line class="ceiling" x1=(ceiling) y1="0" x2=(ceiling) y2="14" {}
                }
            }
        }
    }
}

/// A change with its interval around no change.
pub(crate) struct Interval {
    /// What a reader who does not see it is told.
    pub(crate) title: String,
    /// The change at either end.
    pub(crate) scale: f64,
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// The picture; nothing where a figure cannot be drawn.
    pub(crate) fn draw(&self) -> Markup {
        let drawable = [self.scale, self.value, self.low, self.high].iter().all(|v| v.is_finite());
        if !drawable || self.scale <= 0.0 {
            return html! {};
        }
        let x = |part: f64| number(100.0 + (part / self.scale).clamp(-1.0, 1.0) * 96.0);
        html! {
            svg class="bar" viewBox="0 0 200 14" preserveAspectRatio="none" role="img" aria-label=(self.title) {
                title { (self.title) }
                rect class="track" x="0" y="1" width="200" height="12" {}
                line class="bound" x1="100" y1="0" x2="100" y2="14" {}
                line class="range" x1=(x(self.low)) y1="7" x2=(x(self.high)) y2="7" {}
                line class="dot" x1=(x(self.value)) y1="3" x2=(x(self.value)) y2="11" {}
            }
        }
    }
}

/// A value and what stands at it.
pub(crate) type Tick = (f64, String);

/// An axis from its first to its last value.
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) log: bool,
    pub(crate) ticks: Vec<Tick>,
}

impl Axis {
    /// A logarithmic axis over the values, with ticks at 1, 2 and 5 times powers of ten.
    /// None where there is no value to show.
    pub(crate) fn log(
        title: &str,
        values: impl Iterator<Item = f64>,
        name: impl Fn(f64) -> String,
    ) -> Option<Axis> {
        let (low, high) = extent(values.filter(|v| *v > 0.0))?;
        let mut ticks = Vec::new();
        for power in low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1 {
            ticks.extend([1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
        }
        let below = |tick: &&f64| **tick <= low * (1.0 + 1e-9);
        let above = |tick: &&f64| **tick >= high * (1.0 - 1e-9);
        let from = ticks.iter().rfind(below).copied()?;
        let to = ticks.iter().find(|tick| above(tick) && **tick > from).copied()?;
        ticks.retain(|tick| (from..=to).contains(tick));
        // Few enough to be read: whole powers of ten where the span is long.
        if ticks.len() > 9 {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9);
        }
        let ticks = ticks.into_iter().map(|tick| (tick, name(tick))).collect();
        Some(Axis { title: title.to_owned(), from, to, log: true, ticks })
    }

    /// A linear axis from 0 over the values, with about five ticks.
    pub(crate) fn from_zero(
        title: &str,
        values: impl Iterator<Item = f64>,
        name: impl Fn(f64) -> String,
    ) -> Option<Axis> {
        let (_, high) = extent(values.filter(|v| *v >= 0.0))?;
        let high = if high > 0.0 { high } else { 1.0 };
        let rough = high / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= rough)?;
        let count = (high / step).ceil() as usize;
        let ticks: Vec<Tick> =
            (0..=count).map(|n| (n as f64 * step, name(n as f64 * step))).collect();
        Some(Axis {
            title: title.to_owned(),
            from: 0.0,
            to: count as f64 * step,
            log: false,
            ticks,
        })
    }

    /// Where a value lies, 0 at the beginning and 1 at the end.
    fn part(&self, value: f64) -> f64 {
        let on = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).log10() } else { v };
        ((on(value) - on(self.from)) / (on(self.to) - on(self.from))).clamp(0.0, 1.0)
    }
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite = values.filter(|v| v.is_finite() && v.abs() < 1e30);
    let first = finite.next()?;
    Some(finite.fold((first, first), |(low, high), v| (low.min(v), high.max(v))))
}

/// A curve.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<(f64, f64)>,
    /// Points that stand out.
    pub(crate) marked: Vec<(f64, f64)>,
}

/// Curves over two axes.
pub(crate) struct Plot {
    pub(crate) title: String,
    /// What it shows, in a sentence.
    pub(crate) description: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Plot {
    /// The picture with its legend.
    pub(crate) fn draw(&self) -> Markup {
        html! {
            figure {
                figcaption { (self.title) }
                svg class="plot" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" {
                    title { (self.title) }
                    desc { (self.description) }
                    (self.grid())
                    @for (index, series) in self.series.iter().enumerate() {
                        (self.curve(index, series))
                    }
                }
                ul class="legend" {
                    @for (index, series) in self.series.iter().enumerate() {
                        li { (swatch(index, series.dashed)) (series.name) }
                    }
                }
            }
        }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = LEFT + self.x.part(x) * (WIDTH - LEFT - RIGHT);
        let down = HEIGHT - BOTTOM - self.y.part(y) * (HEIGHT - TOP - BOTTOM);
        (across, down)
    }

    fn grid(&self) -> Markup {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        html! {
            @for (value, name) in &self.x.ticks {
                @let x = number(self.at((*value, self.y.from)).0);
                line class="grid" x1=(x) y1=(TOP) x2=(x) y2=(bottom) {}
                text class="tick" x=(x) y=(bottom + 16.0) text-anchor="middle" { (name) }
            }
            @for (value, name) in &self.y.ticks {
                @let y = self.at((self.x.from, *value)).1;
                line class="grid" x1=(LEFT) y1=(number(y)) x2=(right) y2=(number(y)) {}
                text class="tick" x=(LEFT - 6.0) y=(number(y + 4.5)) text-anchor="end" { (name) }
            }
            text class="axis" x=(number((LEFT + right) / 2.0)) y=(HEIGHT - 6.0) text-anchor="middle" {
                (self.x.title)
            }
        }
    }

    fn curve(&self, index: usize, series: &Series) -> Markup {
        let drawable = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let points: Vec<String> = series
            .points
            .iter()
            .filter(drawable)
            .map(|point| self.at(*point))
            .map(|(x, y)| format!("{},{}", number(x), number(y)))
            .collect();
        html! {
            polyline class=(class(index, series.dashed)) points=(points.join(" ")) {}
            @for (x, y) in series.marked.iter().filter(drawable).map(|point| self.at(*point)) {
                circle class="stall" cx=(number(x)) cy=(number(y)) r="4.5" {}
            }
        }
    }
}

/// A piece of the line as it is drawn.
fn swatch(index: usize, dashed: bool) -> Markup {
    html! {
        svg class="swatch" viewBox="0 0 28 10" aria-hidden="true" {
            line class=(class(index, dashed)) x1="0" y1="5" x2="28" y2="5" {}
        }
    }
}

fn class(index: usize, dashed: bool) -> String {
    format!("curve c{}{}", index % 6, if dashed || index >= 6 { " dashed" } else { "" })
}

/// A coordinate without superfluous digits.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: f64) -> String {
        value.to_string()
    }

    #[test]
    fn a_logarithmic_axis_holds_all_values_between_round_ones() {
        let axis = Axis::log("t", [3.0, 70.0].into_iter(), plain).unwrap();
        assert_eq!((axis.from, axis.to), (2.0, 100.0));
        assert!((axis.part(2.0), axis.part(100.0)) == (0.0, 1.0));
        assert!((axis.part(20.0) - (10f64.ln() / 50f64.ln())).abs() < 1e-12);
        let long = Axis::log("t", [1.0, 1e9].into_iter(), plain).unwrap();
        assert!(long.ticks.len() <= 10, "{}", long.ticks.len());
        let single = Axis::log("t", [5.0].into_iter(), plain).unwrap();
        assert!(single.from < single.to);
    }

    #[test]
    fn nothing_to_show_has_no_axis() {
        assert!(Axis::log("t", [f64::NAN, -1.0, 0.0].into_iter(), plain).is_none());
        assert!(Axis::from_zero("t", [f64::INFINITY].into_iter(), plain).is_none());
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        let axis = Axis::from_zero("t", [431.2, 405.3].into_iter(), plain).unwrap();
        assert_eq!((axis.from, axis.to), (0.0, 600.0));
        let none = Axis::from_zero("t", [0.0, 0.0].into_iter(), plain).unwrap();
        assert!(none.to > 0.0);
    }

    #[test]
    fn a_bar_ends_at_its_scale_and_absurd_figures_have_none() {
        let bar = |value: f64| Bar {
            title: "b".into(),
            scale: 100.0,
            value,
            low: value,
            high: value,
            ceiling: Some(100.0),
            bound: None,
        };
        assert!(bar(1e9).draw().into_string().contains("width=\"200\" height=\"8\""));
        assert!(bar(25.0).draw().into_string().contains("width=\"50\" height=\"8\""));
        assert_eq!(bar(f64::NAN).draw().into_string(), "");
    }
}
