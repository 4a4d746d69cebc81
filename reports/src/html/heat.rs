//! A figure between every two hosts, as a map of colours with what falls short outlined.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{Markup, html};

use super::{Table, cell, section};
use crate::model::{Matrix, Report};
use crate::units::{BitRate, Size, Time};
use crate::view::View;
use crate::words::{count, host_of, label};

/// From so many hosts on cells are pixels of an image: a rectangle each would make the file huge.
const MOST_RECTANGLES: usize = 32;
/// Outlines; beyond that the worst are shown.
const MOST_OUTLINES: usize = 500;
/// Rows of the list below the map.
const MOST_LISTED: usize = 20;
/// Steps of colour.
const STEPS: usize = 16;
/// Worse than the median by this part: outlined.
const OUTLIER: f64 = 0.10;

/// Maps of what the report holds for three hosts or more.
pub(super) fn maps(view: &View) -> Markup {
    let own = &view.report.matrices;
    let derived = if own.is_empty() { from_measurements(view.report) } else { Vec::new() };
    let maps: Vec<Markup> =
        own.iter().chain(&derived).filter_map(Map::of).map(|m| m.draw()).collect();
    if maps.is_empty() {
        return html! {};
    }
    section("Between every two hosts", html! { @for map in &maps { (map) } })
}

/// The worst figure of each ordered pair of hosts, by kind of case.
fn from_measurements(report: &Report) -> Vec<Matrix> {
    let hosts: Vec<String> = report.hosts.iter().map(|host| host.name.clone()).collect();
    if hosts.len() < 3 {
        return Vec::new();
    }
    let index: BTreeMap<&str, usize> =
        hosts.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    let mut kinds: BTreeMap<String, Matrix> = BTreeMap::new();
    for m in &report.measurements {
        let (figure, unit) = match m.test.as_str() {
            "bandwidth" => (m.goodput_bps.map(|rate| rate.median), "bit/s"),
            "latency" => (m.latency_ns.map(|latency| latency.p50), "ns"),
            _ => continue,
        };
        let ends = (index.get(host_of(&m.data_from)), index.get(host_of(&m.data_to)));
        let (Some(value), (Some(&from), Some(&to))) = (figure, ends) else { continue };
        let beside = if m.together_with.is_empty() { "" } else { ", not alone" };
        let title = format!("{} {} {}{beside}", m.test, Size(m.size_bytes), label(m));
        let matrix = kinds.entry(title.clone()).or_insert_with(|| Matrix {
            title,
            unit: unit.into(),
            hosts: hosts.clone(),
            values: vec![vec![None; hosts.len()]; hosts.len()],
        });
        let known = &mut matrix.values[from][to];
        let worse = if unit == "ns" { f64::max } else { f64::min };
        *known = Some(known.map_or(value, |old| worse(old, value)));
    }
    kinds
        .into_values()
        .filter(|matrix| matrix.values.iter().flatten().flatten().count() > 2)
        .collect()
}

/// A matrix with what is needed to draw it.
struct Map<'a> {
    matrix: &'a Matrix,
    lowest: f64,
    highest: f64,
    median: f64,
    /// From, to and value, the worst first.
    outliers: Vec<(usize, usize, f64)>,
}

impl<'a> Map<'a> {
    /// None where nothing can be drawn.
    fn of(matrix: &'a Matrix) -> Option<Map<'a>> {
        let size = matrix.hosts.len();
        let square = matrix.values.len() == size && matrix.values.iter().all(|r| r.len() == size);
        let mut known: Vec<f64> =
            matrix.values.iter().flatten().flatten().copied().filter(|v| v.is_finite()).collect();
        if !square || known.is_empty() {
            return None;
        }
        let middle = known.len() / 2;
        let median = *known.select_nth_unstable_by(middle, f64::total_cmp).1;
        let lowest = known.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut map = Map { matrix, lowest, highest, median, outliers: Vec::new() };
        map.outliers = map.found();
        Some(map)
    }

    fn found(&self) -> Vec<(usize, usize, f64)> {
        let mut outliers = Vec::new();
        for (from, row) in self.matrix.values.iter().enumerate() {
            for (to, value) in row.iter().enumerate() {
                let Some(value) = value.filter(|v| v.is_finite()) else { continue };
                if self.loss(value) > OUTLIER {
                    outliers.push((from, to, value));
                }
            }
        }
        outliers.sort_by(|a, b| self.loss(b.2).total_cmp(&self.loss(a.2)));
        outliers
    }

    fn of_time(&self) -> bool {
        self.matrix.unit == "ns"
    }

    /// How much worse than the median, as a part of it.
    fn loss(&self, value: f64) -> f64 {
        let more = value / self.median - 1.0;
        if self.of_time() { more } else { -more }
    }

    fn words(&self, value: f64) -> String {
        if self.of_time() { Time(value).to_string() } else { BitRate(value).to_string() }
    }

    /// Step of colour, 0 for the worst.
    fn step(&self, value: f64) -> usize {
        let span = self.highest - self.lowest;
        let part = if span > 0.0 { (value - self.lowest) / span } else { 1.0 };
        let part = if self.of_time() && span > 0.0 { 1.0 - part } else { part };
        ((part * STEPS as f64) as usize).min(STEPS - 1)
    }

    fn draw(&self) -> Markup {
        let size = self.matrix.hosts.len();
        let said = format!(
            "Rows send, columns receive. Median {}, lowest {}, highest {}; {} more than {:.0} % worse \
             than the median{}.",
            self.words(self.median),
            self.words(self.lowest),
            self.words(self.highest),
            count(self.outliers.len(), "pair"),
            OUTLIER * 100.0,
            if self.outliers.len() > MOST_OUTLINES {
                ", of which the worst are outlined"
            } else {
                ", outlined"
            },
        );
        html! {
            figure class="heat" {
                figcaption { (self.matrix.title) }
                p class="faint" { (said) " The darker, the better." }
                @if size <= MOST_RECTANGLES { (self.small(&said)) } @else { (self.large(&said)) }
                (self.often())
                (self.list())
            }
        }
    }

    /// A rectangle a cell, with names.
    fn small(&self, said: &str) -> Markup {
        const CELL: usize = 18;
        // Widest letter of the style sheet's ticks but m and w, of which names have few.
        const LETTER: usize = 9;
        let hosts = &self.matrix.hosts;
        let longest = hosts.iter().map(|h| h.chars().count()).max().unwrap_or(0).min(16);
        let left = longest * LETTER + 8;
        let side = hosts.len() * CELL;
        // Twice as large as drawn at most: a few hosts do not fill the page.
        let width = format!("max-width: {}px", 2 * (left + side + 4));
        let short = |name: &str| name.chars().take(16).collect::<String>();
        html! {
            svg class="plot map" style=(width) viewBox={ "0 0 " (left + side + 4) " " (left + side + 4) } role="img" {
                title { (self.matrix.title) }
                desc { (said) }
                @for (i, host) in hosts.iter().enumerate() {
                    @let at = left + i * CELL + 13;
                    text class="tick" x=(left - 4) y=(at) text-anchor="end" { (short(host)) }
                    text class="tick" transform={ "translate(" (at) " " (left - 4) ") rotate(-90)" } { (short(host)) }
                }
                @for (from, row) in self.matrix.values.iter().enumerate() {
                    @for (to, value) in row.iter().enumerate() {
                        @if let Some(value) = value.filter(|v| v.is_finite()) {
                            rect class={ "h" (self.step(value)) } x=(left + to * CELL) y=(left + from * CELL) width=(CELL - 1) height=(CELL - 1) {}
                        }
                    }
                }
                @for (from, to, _) in self.outliers.iter().take(MOST_OUTLINES) {
                    rect class="outlier" x=(left + to * CELL) y=(left + from * CELL) width=(CELL - 1) height=(CELL - 1) {}
                }
            }
        }
    }

    /// A pixel a cell, in an image within the file.
    fn large(&self, said: &str) -> Markup {
        let size = self.matrix.hosts.len();
        let Some(image) = self.image() else { return html! {} };
        let image = format!("data:image/png;base64,{}", BASE64.encode(image));
        html! {
            svg class="plot map" viewBox={ "0 0 " (size) " " (size) } role="img" {
                title { (self.matrix.title) }
                desc { (said) }
                rect class="track" x="0" y="0" width=(size) height=(size) {}
                image href=(image) x="0" y="0" width=(size) height=(size) {}
                @for (from, to, _) in self.outliers.iter().take(MOST_OUTLINES) {
                    rect class="outlier" x=(to) y=(from) width="1" height="1" {}
                }
            }
        }
    }

    /// Indexed colours, the last of them clear.
    fn image(&self) -> Option<Vec<u8>> {
        let size = u32::try_from(self.matrix.hosts.len()).ok()?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size, size);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(palette());
        let clear = STEPS as u8;
        let opaque = std::iter::repeat_n(255, STEPS).chain([0]).collect::<Vec<u8>>();
        encoder.set_trns(opaque);
        let mut writer = encoder.write_header().ok()?;
        let color = |value: &Option<f64>| {
            value.filter(|v| v.is_finite()).map_or(clear, |value| self.step(value) as u8)
        };
        let pixels: Vec<u8> = self.matrix.values.iter().flatten().map(color).collect();
        writer.write_image_data(&pixels).ok()?;
        writer.finish().ok()?;
        Some(bytes)
    }

    /// Hosts that stand out most, by the outliers of their row and their column.
    fn often(&self) -> Markup {
        let mut rows: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for (from, to, _) in &self.outliers {
            rows.entry(*from).or_default().0 += 1;
            rows.entry(*to).or_default().1 += 1;
        }
        let mut hosts: Vec<(usize, (usize, usize))> = rows.into_iter().collect();
        hosts.sort_by_key(|(_, (sends, receives))| std::cmp::Reverse(sends + receives));
        let several = hosts.iter().take(3).filter(|(_, (s, r))| s + r >= 3);
        let said: Vec<String> = several
            .map(|(host, (sends, receives))| {
                let name = &self.matrix.hosts[*host];
                format!("{name} ({sends} where it sends, {receives} where it receives)")
            })
            .collect();
        html! { @if !said.is_empty() { p { "Most often among them: " (said.join(", ")) "." } } }
    }

    fn list(&self) -> Markup {
        let mut table = Table::new(&["from", "to", "#measured", "#of the median"]);
        for (from, to, value) in self.outliers.iter().take(MOST_LISTED) {
            table.row(vec![
                cell(&self.matrix.hosts[*from]),
                cell(&self.matrix.hosts[*to]),
                cell(self.words(*value)),
                cell(format!("{:.0} %", value / self.median * 100.0)),
            ]);
        }
        html! {
            @if !table.rows.is_empty() {
                details {
                    summary { "The worst pairs (" (table.rows.len()) " of " (self.outliers.len()) ")" }
                    (table.draw())
                }
            }
        }
    }
}

/// From pale to dark blue; the same steps as the style sheet's h0 to h15.
fn palette() -> Vec<u8> {
    let mix = |step: usize, pale: f64, dark: f64| {
        (pale + (dark - pale) * step as f64 / (STEPS - 1) as f64).round() as u8
    };
    let colors =
        (0..STEPS).flat_map(|s| [mix(s, 222.0, 8.0), mix(s, 235.0, 48.0), mix(s, 247.0, 107.0)]);
    colors.chain([255, 255, 255]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(size: usize, value: impl Fn(usize, usize) -> f64) -> Matrix {
        let row = |from: usize| (0..size).map(|to| (from != to).then(|| value(from, to))).collect();
        Matrix {
            title: "bandwidth 64 KiB WRITE".into(),
            unit: "bit/s".into(),
            hosts: (0..size).map(|host| format!("gpu{host:04}")).collect(),
            values: (0..size).map(row).collect(),
        }
    }

    #[test]
    fn what_falls_short_is_outlined_and_its_host_named() {
        let bad =
            matrix(8, |from, to| if from == 3 || (from, to) == (5, 6) { 200e9 } else { 390e9 });
        let map = Map::of(&bad).unwrap();
        assert_eq!((map.median, map.outliers.len()), (390e9, 8));
        let page = map.draw().into_string();
        assert_eq!(page.matches("class=\"outlier\"").count(), 8);
        assert!(page.contains("gpu0003 (7 where it sends, 0 where it receives)"), "{page}");
        let flat = matrix(8, |_, _| 390e9);
        assert!(Map::of(&flat).unwrap().outliers.is_empty());
    }

    #[test]
    fn a_longer_latency_is_the_worse_one() {
        let slow = matrix(4, |from, _| if from == 1 { 3000.0 } else { 2000.0 });
        let slow = Matrix { unit: "ns".into(), ..slow };
        let map = Map::of(&slow).unwrap();
        assert_eq!(map.outliers.len(), 3);
        assert!(map.step(3000.0) < map.step(2000.0));
    }

    #[test]
    fn nothing_absurd_is_drawn() {
        let empty = Matrix { hosts: vec![], values: vec![], ..matrix(1, |_, _| 1.0) };
        let ragged = Matrix { values: vec![vec![Some(1.0)]], ..matrix(4, |_, _| 1.0) };
        let none = matrix(4, |_, _| f64::NAN);
        for matrix in [empty, ragged, none] {
            assert!(Map::of(&matrix).is_none());
        }
    }
}
