//! What the times of collectives say: α, β, γ, and busbw beside what pairs of hosts reached.

mod pairs;
pub mod pieces;

use fabbench_reports::model::{Collective, CollectiveFit, FitPiece, Measurement, Report};

use pieces::{Piece, Pieces, Point};

/// A term that makes up less than this part of the time is not told: the other one hides it.
const TOLD: f64 = 0.5;

/// Sets what follows from all measurements of a report together: its fits, and beside each
/// collective the bandwidth that its pairs of hosts reached.
pub fn complete(report: &mut Report) {
    report.fits = fits(report);
    pairs::set(report);
}

/// α, β and γ of each collective, in the order measured; with the reason where there are none.
pub fn fits(report: &Report) -> Vec<CollectiveFit> {
    let series = series(report);
    let laid: Vec<_> = series.iter().map(|one| one.lay()).collect();
    let wire = |one: &Series| {
        let alike = |other: &&(usize, &Series)| !other.1.reduced() && one.moves_as(other.1);
        let (index, _) = series.iter().enumerate().find(|pair| alike(&pair))?;
        laid[index].as_ref().ok().and_then(|pieces| pieces.pieces.last())
    };
    let pairs = series.iter().zip(&laid);
    pairs.map(|(one, laid)| one.told(laid, wire(one))).collect()
}

/// One collective over its sizes.
struct Series<'a> {
    all: Vec<(&'a Measurement, &'a Collective)>,
}

/// Measurements of one collective, done in one way by the same ranks.
fn series(report: &Report) -> Vec<Series<'_>> {
    let mut found: Vec<Series> = Vec::new();
    for m in report.measurements.iter().filter(|m| m.test == "collective" && m.ranks.len() > 1) {
        let Some(detail) = &m.collective else { continue };
        let one = Series { all: vec![(m, detail)] };
        let same = |other: &&mut Series| other.moves_as(&one) && other.reduced() == one.reduced();
        match found.iter_mut().find(same) {
            Some(series) => series.all.push((m, detail)),
            None => found.push(one),
        }
    }
    found
}

impl Series<'_> {
    /// Whether both move the same bytes in the same way, whatever they do with them.
    fn moves_as(&self, other: &Series) -> bool {
        let key = |one: &Series| {
            let (m, detail) = one.all[0];
            let Measurement { op, algorithm, transport, ranks, .. } = m;
            (
                op.clone(),
                algorithm.clone(),
                transport.clone(),
                ranks.clone(),
                detail.data_type.clone(),
            )
        };
        let reduction = |one: &Series| one.all[0].1.reduction.clone();
        key(self) == key(other) && reduction(self) == reduction(other)
    }

    /// Whether what arrived was reduced, where the operation does so.
    fn reduced(&self) -> bool {
        self.all[0].1.reduced
    }

    fn lay(&self) -> Result<Pieces, pieces::NoFit> {
        let point = |(m, detail): &(&Measurement, &Collective)| Point {
            size: m.size_bytes as f64,
            time: detail.time_ns.avg,
        };
        pieces::fit(&self.all.iter().map(point).collect::<Vec<_>>())
    }

    /// The sum; `wire` is the last piece of the same moves without reduction.
    fn told(&self, laid: &Result<Pieces, pieces::NoFit>, wire: Option<&Piece>) -> CollectiveFit {
        let (m, detail) = self.all[0];
        let mut fit = CollectiveFit {
            op: m.op.clone(),
            algorithm: m.algorithm.clone(),
            transport: m.transport.clone(),
            data_type: detail.data_type.clone(),
            reduction: detail.reduction.clone(),
            reduced: detail.reduced,
            ranks: m.ranks.len() as u32,
            steps: detail.steps,
            wire_factor: self.wire_factor(),
            ..CollectiveFit::default()
        };
        let laid = match laid {
            Ok(laid) => laid,
            Err(why) => return CollectiveFit { refused: why.to_string(), ..fit },
        };
        (fit.residual, fit.worst_residual) = (Some(laid.residual), Some(laid.worst));
        let (first, last) = (laid.pieces[0], laid.pieces[laid.pieces.len() - 1]);
        let gamma = self.gamma(&last, wire);
        fit.reduce_ns_per_byte = gamma.map(|(gamma, _)| gamma);
        fit.reduce_from = gamma.map(|(_, from)| from.to_owned()).unwrap_or_default();
        let reducing = gamma.map_or(0.0, |(gamma, _)| gamma) * self.reduced_factor();
        let told = |piece: &Piece| FitPiece {
            from_bytes: piece.from as u64,
            to_bytes: piece.to as u64,
            points: piece.points as u32,
            fixed_ns: piece.line.fixed_ns,
            ns_per_byte: piece.line.ns_per_byte,
            residual: piece.residual,
        };
        fit.pieces = laid.pieces.iter().map(told).collect();
        let share = |part: f64, size: f64, piece: &Piece| part / piece.line.time(size);
        if share(first.line.fixed_ns, first.from, &first) >= TOLD {
            let steps = detail.steps.filter(|steps| *steps > 0);
            fit.alpha_ns = steps.map(|steps| first.line.fixed_ns / f64::from(steps));
        }
        let on_wire = last.line.ns_per_byte - reducing;
        if fit.wire_factor > 0.0 && share(on_wire * last.to, last.to, &last) >= TOLD {
            fit.wire_ns_per_byte = Some(on_wire / fit.wire_factor);
        }
        fit
    }

    /// Bytes that the busiest rank sends for each byte of the vector, at the largest size.
    fn wire_factor(&self) -> f64 {
        let largest = self.all.iter().max_by_key(|(m, _)| m.size_bytes);
        let sent = |(m, detail): &(&Measurement, &Collective)| {
            let most = detail.bytes_sent.iter().max().copied().unwrap_or(0);
            most as f64 / m.size_bytes.max(1) as f64
        };
        largest.map_or(0.0, sent)
    }

    /// Bytes that a rank reduces for each byte of the vector, on average over the ranks: every
    /// element is reduced n − 1 times, whatever the algorithm.
    fn reduced_factor(&self) -> f64 {
        let n = self.all[0].0.ranks.len() as f64;
        (n - 1.0) / n
    }

    /// ns to reduce a byte, and how that is known: from the same moves without reduction, or from
    /// the ranks' own time in it.
    fn gamma(&self, last: &Piece, wire: Option<&Piece>) -> Option<(f64, &'static str)> {
        let (_, detail) = self.all[0];
        if !detail.reduced || detail.reduction == "none" {
            return None;
        }
        let factor = self.reduced_factor();
        if let Some(wire) = wire.filter(|wire| wire.from <= last.to && last.from <= wire.to) {
            let more = last.line.ns_per_byte - wire.line.ns_per_byte;
            if more > 0.0 {
                return Some((more / factor, "difference to the runs without reduction"));
            }
        }
        let of_piece = |m: &Measurement| m.size_bytes as f64 >= last.from;
        let each = |(m, detail): &(&Measurement, &Collective)| {
            let reducing = detail.reduce_share? * detail.time_ns.avg;
            of_piece(m).then(|| reducing / (m.size_bytes as f64 * factor))
        };
        let mut all: Vec<f64> = self.all.iter().filter_map(each).filter(|ns| *ns > 0.0).collect();
        all.sort_by(f64::total_cmp);
        let median = all.get(all.len() / 2)?;
        Some((*median, "time that the ranks spent reducing"))
    }
}

#[cfg(test)]
mod tests;
