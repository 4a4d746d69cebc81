//! What a fabric carries: latency, and bandwidth by message size, each from worst to best.

use fabbench_reports::advice::Transport;

use super::library::Fabric;

/// Which end of an interval a figure is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corner {
    /// Fastest repeat, shortest way.
    Best,
    /// Median.
    Nominal,
    /// Slowest repeat, 99th percentile, longest way.
    Worst,
}

/// A figure with the ends of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// At its best.
    pub best: f64,
    /// Median.
    pub nominal: f64,
    /// At its worst.
    pub worst: f64,
}

impl Figure {
    /// A figure without an interval.
    pub fn exact(value: f64) -> Self {
        Figure { best: value, nominal: value, worst: value }
    }

    /// One end of it.
    pub fn at(self, corner: Corner) -> f64 {
        match corner {
            Corner::Best => self.best,
            Corner::Nominal => self.nominal,
            Corner::Worst => self.worst,
        }
    }

    /// All ends multiplied.
    pub fn times(self, factor: f64) -> Self {
        Figure {
            best: self.best * factor,
            nominal: self.nominal * factor,
            worst: self.worst * factor,
        }
    }
}

/// One measured size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Message size in bytes.
    pub size: f64,
    /// One NIC, one direction, bytes/s.
    pub rate: Figure,
}

/// One fabric as a node sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// RDMA or TCP.
    pub transport: Transport,
    /// Its name, or the report that it was measured in.
    pub name: String,
    /// NICs of a node.
    pub nics: u32,
    /// One step of a collective, s.
    pub latency: Figure,
    /// Bandwidth of one NIC by message size, sizes rising, never empty. A fabric by name has one
    /// point that holds for every size.
    pub points: Vec<Point>,
    /// Where the figures come from and what they leave out.
    pub notes: Vec<String>,
}

impl Link {
    /// A fabric by name.
    pub fn named(fabric: &Fabric, nics: u32) -> Self {
        let (latency, rate) = (fabric.latency_us * 1e-6, fabric.gbytes_per_s * 1e9);
        let note = format!(
            "{} was not measured: {}, {} µs per step, {} GB/s per NIC assumed",
            fabric.name, fabric.about, fabric.latency_us, fabric.gbytes_per_s
        );
        Link {
            notes: vec![note],
            ..Link::flat(fabric.transport, &fabric.name, nics, latency, rate)
        }
    }

    /// A fabric of one latency (s) and one bandwidth (bytes/s per NIC).
    pub fn flat(transport: Transport, name: &str, nics: u32, latency: f64, rate: f64) -> Self {
        Link {
            transport,
            name: name.to_owned(),
            nics,
            latency: Figure::exact(latency),
            points: vec![Point { size: 0.0, rate: Figure::exact(rate) }],
            notes: Vec::new(),
        }
    }

    /// Bandwidth of one NIC in bytes/s at a message size: between measured sizes on a straight line
    /// over the logarithm of the size, above the largest as there, below the smallest in proportion
    /// to the size (each message takes as long as the smallest one measured).
    pub fn rate(&self, size: f64, corner: Corner) -> f64 {
        let at = |point: &Point| point.rate.at(corner);
        let above = self.points.iter().position(|point| point.size >= size);
        match above {
            None => self.points.last().map_or(0.0, at),
            Some(0) => {
                let first = &self.points[0];
                if first.size > 0.0 { at(first) * size / first.size } else { at(first) }
            }
            Some(index) => {
                let (low, high) = (&self.points[index - 1], &self.points[index]);
                let part = (size / low.size).ln() / (high.size / low.size).ln();
                at(low) + (at(high) - at(low)) * part
            }
        }
    }

    /// Whether its bandwidth was measured by size.
    pub fn is_measured(&self) -> bool {
        self.points.iter().any(|point| point.size > 0.0)
    }

    /// Whether a message size lies outside what was measured.
    pub fn extrapolates(&self, size: f64) -> bool {
        let inside = |first: &Point, last: &Point| (first.size..=last.size).contains(&size);
        self.is_measured()
            && !self.points.first().zip(self.points.last()).is_some_and(|(a, b)| inside(a, b))
    }

    /// The same fabric with every bandwidth multiplied.
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |point: &Point| Point { size: point.size, rate: point.rate.times(factor) };
        Link { points: self.points.iter().map(scale).collect(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Link {
        let point = |size, rate| Point { size, rate: Figure::exact(rate) };
        let points = vec![point(1024.0, 1e9), point(65536.0, 7e9)];
        Link { points, ..Link::flat(Transport::Rdma, "x", 1, 1e-6, 1.0) }
    }

    #[test]
    fn bandwidth_follows_the_curve_and_says_where_it_ends() {
        let link = measured();
        assert_eq!(link.rate(1024.0, Corner::Nominal), 1e9);
        assert_eq!(link.rate(8192.0, Corner::Nominal), 4e9);
        assert_eq!(link.rate(65536.0, Corner::Nominal), 7e9);
        assert_eq!(link.rate(1e9, Corner::Nominal), 7e9);
        assert_eq!(link.rate(512.0, Corner::Nominal), 5e8);
        assert!(link.extrapolates(512.0) && link.extrapolates(1e9) && !link.extrapolates(8192.0));
        assert!(!Link::flat(Transport::Tcp, "x", 1, 1e-6, 1.0).extrapolates(1e9));
    }
}
