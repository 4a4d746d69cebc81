//! Straight lines through times over sizes, piece by piece.
//!
//! One line mispredicts wherever a protocol, an algorithm or a cache changes on the way (NCCL corrects
//! its own by a table), so up to three are laid. Each minimises relative errors, since times span five
//! decades; what stands far out weighs less (Huber). The number of pieces is the one with the lowest
//! Bayesian information criterion (Schwarz 1978).

/// Sizes that a fit needs at least.
pub const FEWEST_SIZES: usize = 5;
/// The largest of them must be so many times the smallest.
pub const NARROWEST: f64 = 16.0;
/// Most pieces.
const MOST_PIECES: usize = 3;
/// Sizes that a piece needs: with two, any line fits.
const SIZES_OF_A_PIECE: usize = 3;
/// Root mean square of the relative residuals above which a fit says nothing.
pub const POOR: f64 = 0.15;
/// Residuals below this are noise of any machine, and no reason for a further piece.
const NOISE: f64 = 0.01;
/// Residuals weigh less from so many standard deviations on (Huber 1964: 95 % efficiency).
const HUBER: f64 = 1.345;

/// A size in bytes and the time that it took, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Bytes.
    pub size: f64,
    /// ns.
    pub time: f64,
}

/// One straight line: `fixed_ns + ns_per_byte · size`; neither is negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Time of a vector of no bytes, ns.
    pub fixed_ns: f64,
    /// ns for each byte.
    pub ns_per_byte: f64,
}

impl Line {
    /// The time that it predicts, ns.
    pub fn time(&self, size: f64) -> f64 {
        self.fixed_ns + self.ns_per_byte * size
    }

    /// (predicted − measured) / measured.
    fn residual(&self, point: &Point) -> f64 {
        (self.time(point.size) - point.time) / point.time
    }
}

/// A line and where it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Smallest size that it was laid through, bytes.
    pub from: f64,
    /// Largest one.
    pub to: f64,
    /// Points.
    pub points: usize,
    /// The line.
    pub line: Line,
    /// Root mean square of the relative residuals.
    pub residual: f64,
}

/// All pieces, by size.
#[derive(Debug, Clone, PartialEq)]
pub struct Pieces {
    /// At least one.
    pub pieces: Vec<Piece>,
    /// Root mean square of all relative residuals.
    pub residual: f64,
    /// The largest of them.
    pub worst: f64,
}

impl Pieces {
    /// The time of a vector of `size` bytes, ns; none outside of what was measured.
    pub fn time(&self, size: f64) -> Option<f64> {
        let (first, last) = (self.pieces.first()?, self.pieces.last()?);
        let inside = (first.from..=last.to).contains(&size);
        let piece = self.pieces.iter().rev().find(|piece| piece.from <= size)?;
        inside.then(|| piece.line.time(size))
    }
}

/// Why there is no fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// Too few sizes.
    #[error("too few sizes, {0} of at least {FEWEST_SIZES}: sweep more (-b, -e, -f)")]
    TooFew(usize),
    /// Too close to each other.
    #[error("the largest size must be {NARROWEST} times the smallest: sweep wider (-b, -e)")]
    TooNarrow,
    /// No lines lead through the points.
    #[error(
        "the times leave straight lines by {:.0} % ({:.0} % at most): measure longer (-n) on a \
         quiet machine", .0 * 100.0, POOR * 100.0
    )]
    Poor(f64),
}

/// Lays lines through `points`, which may hold a size several times.
///
/// # Errors
/// [`NoFit`]: a fit that would mislead is none.
pub fn fit(points: &[Point]) -> Result<Pieces, NoFit> {
    let sizes = by_size(points);
    if sizes.len() < FEWEST_SIZES {
        return Err(NoFit::TooFew(sizes.len()));
    }
    if sizes[sizes.len() - 1][0].size < NARROWEST * sizes[0][0].size {
        return Err(NoFit::TooNarrow);
    }
    let laid = cuts(sizes.len()).map(|cut| lay(&sizes, &cut));
    let best = laid.min_by(|a, b| criterion(a).total_cmp(&criterion(b)));
    match best {
        Some(best) if best.residual <= POOR => Ok(best),
        Some(best) => Err(NoFit::Poor(best.residual)),
        None => Err(NoFit::TooFew(sizes.len())),
    }
}

/// Usable points, those of one size together, by size.
fn by_size(points: &[Point]) -> Vec<Vec<Point>> {
    let usable =
        |p: &&Point| p.size.is_finite() && p.size > 0.0 && p.time.is_finite() && p.time > 0.0;
    let mut points: Vec<Point> = points.iter().filter(usable).copied().collect();
    points.sort_by(|a, b| a.size.total_cmp(&b.size));
    points.chunk_by(|a, b| a.size == b.size).map(<[Point]>::to_vec).collect()
}

/// Every way to cut so many sizes into pieces: the ends of the pieces.
fn cuts(sizes: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut all = vec![vec![sizes]];
    let mut grown = all.clone();
    for _ in 1..MOST_PIECES {
        grown = grown.iter().flat_map(|cut| cut_once_more(cut)).collect();
        all.extend(grown.clone());
    }
    all.into_iter()
}

/// The first piece cut into two, in every way.
fn cut_once_more(cut: &[usize]) -> Vec<Vec<usize>> {
    let last = cut[0].saturating_sub(SIZES_OF_A_PIECE);
    (SIZES_OF_A_PIECE..=last).map(|at| [&[at], cut].concat()).collect()
}

fn lay(sizes: &[Vec<Point>], ends: &[usize]) -> Pieces {
    let mut from = 0;
    let mut pieces = Vec::with_capacity(ends.len());
    let mut residuals = Vec::new();
    for &end in ends {
        let points = sizes[from..end].concat();
        let line = robust(&points);
        let own: Vec<f64> = points.iter().map(|point| line.residual(point)).collect();
        pieces.push(Piece {
            from: sizes[from][0].size,
            to: sizes[end - 1][0].size,
            points: points.len(),
            line,
            residual: root_mean_square(&own),
        });
        residuals.extend(own);
        from = end;
    }
    let worst = residuals.iter().fold(0.0, |worst: f64, r| worst.max(r.abs()));
    Pieces { pieces, residual: root_mean_square(&residuals), worst }
}

/// Lower is better: of the residuals and of the number of what was chosen freely.
fn criterion(laid: &Pieces) -> f64 {
    let points: usize = laid.pieces.iter().map(|piece| piece.points).sum();
    let free = 3 * laid.pieces.len() - 1;
    let n = points as f64;
    2.0 * n * laid.residual.max(NOISE).ln() + free as f64 * n.ln()
}

/// A line whose outliers weigh less.
fn robust(points: &[Point]) -> Line {
    let mut weights = vec![1.0; points.len()];
    let mut line = weighted(points, &weights);
    for _ in 0..8 {
        let residuals: Vec<f64> = points.iter().map(|point| line.residual(point)).collect();
        let limit = HUBER * deviation(&residuals).max(NOISE);
        for (weight, residual) in weights.iter_mut().zip(&residuals) {
            *weight = (limit / residual.abs()).min(1.0);
        }
        line = weighted(points, &weights);
    }
    line
}

/// Least squares of relative residuals: Σ w·(fixed·x + slope·y − 1)² with x = 1/t and y = size/t.
fn weighted(points: &[Point], weights: &[f64]) -> Line {
    let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
        let terms = points.iter().zip(weights);
        terms.map(|(p, w)| w * term(1.0 / p.time, p.size / p.time)).sum()
    };
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    let (x1, y1) = (sum(&|x, _| x), sum(&|_, y| y));
    let flat = Line { fixed_ns: x1 / xx, ns_per_byte: 0.0 };
    let determinant = xx * yy - xy * xy;
    // Points of one size only: nothing tells a slope.
    if determinant <= 1e-12 * xx * yy {
        return flat;
    }
    let fixed_ns = (x1 * yy - y1 * xy) / determinant;
    let ns_per_byte = (y1 * xx - x1 * xy) / determinant;
    match (fixed_ns < 0.0, ns_per_byte < 0.0) {
        (true, _) => Line { fixed_ns: 0.0, ns_per_byte: y1 / yy },
        (_, true) => flat,
        _ => Line { fixed_ns, ns_per_byte },
    }
}

/// 1.4826 times the median of absolute residuals: the standard deviation of what is normal.
fn deviation(residuals: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    1.4826 * sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|v| v * v).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 B to 32 MiB, each twice the one before.
    fn sizes() -> impl Iterator<Item = f64> {
        (3..=25).map(|power| (1u64 << power) as f64)
    }

    /// Between −1 and 1, the same each time.
    fn noise(index: usize) -> f64 {
        let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)) as f64 / u64::MAX as f64 * 2.0 - 1.0
    }

    fn measured(truth: impl Fn(f64) -> f64, spread: f64) -> Vec<Point> {
        let one = |(i, size)| Point { size, time: truth(size) * (1.0 + spread * noise(i)) };
        sizes().enumerate().map(one).collect()
    }

    fn near(found: f64, truth: f64, share: f64) {
        assert!((found / truth - 1.0).abs() < share, "{found}, not {truth}");
    }

    #[test]
    fn one_line_is_found_as_it_is() {
        let fit = fit(&measured(|s| 30_000.0 + 0.12 * s, 0.0)).unwrap();
        assert_eq!(fit.pieces.len(), 1);
        near(fit.pieces[0].line.fixed_ns, 30_000.0, 1e-9);
        near(fit.pieces[0].line.ns_per_byte, 0.12, 1e-9);
        assert!(fit.residual < 1e-9 && fit.worst < 1e-9);
        assert_eq!(fit.pieces[0].points, 23);
    }

    #[test]
    fn a_switch_of_regime_is_found_where_it_is() {
        // Eager up to 16 KiB; beyond, a handshake and a faster copy.
        let truth = |s: f64| if s <= 16_384.0 { 20_000.0 + 1.0 * s } else { 90_000.0 + 0.2 * s };
        for spread in [0.0, 0.03] {
            let fit = fit(&measured(truth, spread)).unwrap();
            assert_eq!(fit.pieces.len(), 2, "{fit:?}");
            let [small, large] = [fit.pieces[0], fit.pieces[1]];
            assert_eq!((small.to, large.from), (16_384.0, 32_768.0));
            near(small.line.fixed_ns, 20_000.0, 0.05);
            near(small.line.ns_per_byte, 1.0, 0.1);
            near(large.line.ns_per_byte, 0.2, 0.05);
            near(large.line.fixed_ns, 90_000.0, 0.1);
            near(fit.time(1e6).unwrap(), truth(1e6), 0.05);
        }
    }

    #[test]
    fn noise_makes_no_pieces_and_an_outlier_no_slope() {
        let mut points = measured(|s| 50_000.0 + 0.5 * s, 0.05);
        points.extend(measured(|s| 50_000.0 + 0.5 * s, 0.05).iter().rev());
        points[12].time *= 3.0;
        let fit = fit(&points).unwrap();
        assert_eq!(fit.pieces.len(), 1, "{fit:?}");
        near(fit.pieces[0].line.fixed_ns, 50_000.0, 0.03);
        near(fit.pieces[0].line.ns_per_byte, 0.5, 0.03);
        assert!(fit.worst > 0.6, "the outlier stays visible");
    }

    #[test]
    fn times_that_fall_with_size_give_no_negative_time() {
        let fit = fit(&measured(|s| 1e6 - 0.001 * s, 0.0)).unwrap();
        assert!(fit.pieces.iter().all(|p| p.line.ns_per_byte >= 0.0 && p.line.fixed_ns >= 0.0));
        let quadratic = measured(|s| 1.0 + 1e-4 * s * s, 0.0);
        assert!(matches!(super::fit(&quadratic), Err(NoFit::Poor(residual)) if residual > POOR));
    }

    #[test]
    fn nothing_is_said_of_sizes_outside() {
        let fit = fit(&measured(|s| 1000.0 + s, 0.0)).unwrap();
        assert_eq!((fit.time(4.0), fit.time(1e9)), (None, None));
        near(fit.time(8.0).unwrap(), 1008.0, 1e-9);
    }

    #[test]
    fn too_few_too_narrow_or_too_wild_is_refused_with_the_next_step() {
        let points = measured(|s| 1000.0 + s, 0.0);
        assert_eq!(fit(&points[..4]), Err(NoFit::TooFew(4)));
        let same = [&points[..2], &points[..2], &points[..2]].concat();
        assert_eq!(fit(&same), Err(NoFit::TooFew(2)), "repeats are no further sizes");
        let close = |i: u32| Point { size: 1e6 + f64::from(i), time: 1e6 };
        let close: Vec<Point> = (0..8).map(close).collect();
        assert_eq!(fit(&close), Err(NoFit::TooNarrow));
        let wild = measured(|s| 10_000.0 + s, 0.9);
        let refused = fit(&wild).unwrap_err();
        assert!(matches!(refused, NoFit::Poor(_)), "{refused:?}");
        assert!(refused.to_string().contains("measure longer (-n)"), "{refused}");
        let unusable = [Point { size: 8.0, time: f64::NAN }, Point { size: 0.0, time: 1.0 }];
        assert_eq!(fit(&unusable), Err(NoFit::TooFew(0)));
    }
}
