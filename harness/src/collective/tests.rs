use fabbench_reports::json;
use fabbench_reports::model::{Collective, Measurement, RankTime, Rate, Report};

use super::*;

/// n ranks; each step costs α, each byte on the wire β and each byte reduced γ.
struct Truth {
    n: usize,
    alpha: f64,
    beta: f64,
    gamma: f64,
    reduced: bool,
}

impl Truth {
    fn ring(&self, size: u64) -> Measurement {
        let n = self.n as f64;
        let (steps, bytes) = (2.0 * (n - 1.0), size as f64);
        let wire = steps * self.alpha + steps / n * bytes * self.beta;
        let reducing = if self.reduced { (n - 1.0) / n * bytes * self.gamma } else { 0.0 };
        let avg = wire + reducing;
        Measurement {
            id: format!("ring/{size}/{}", self.reduced),
            test: "collective".into(),
            transport: "rc".into(),
            op: "all_reduce".into(),
            algorithm: "ring".into(),
            ranks: (0..self.n).map(|rank| format!("node-{rank}")).collect(),
            size_bytes: size,
            busbw_bps: Some(size as f64 * 8e9 / avg * steps / n),
            collective: Some(Collective {
                data_type: "f32".into(),
                reduction: "sum".into(),
                reduced: self.reduced,
                steps: Some(steps as u32),
                time_ns: RankTime { min: avg, avg, max: avg, p99: None },
                bytes_sent: vec![(steps / n * bytes) as u64; self.n],
                reduce_share: self.reduced.then_some(reducing / avg),
                ..Collective::default()
            }),
            ..Measurement::default()
        }
    }

    fn sweep(&self) -> Vec<Measurement> {
        (3..=25).map(|power| self.ring(1 << power)).collect()
    }
}

const FABRIC: Truth = Truth { n: 4, alpha: 5_000.0, beta: 0.08, gamma: 0.1, reduced: true };

fn report(measurements: Vec<Measurement>) -> Report {
    let text = include_str!("../../../reports/samples/soft-roce-pair.json");
    let mut report = json::read(text).unwrap();
    report.measurements = measurements;
    report
}

fn near(found: Option<f64>, truth: f64) {
    let found = found.unwrap();
    assert!((found / truth - 1.0).abs() < 0.02, "{found}, not {truth}");
}

#[test]
fn alpha_beta_and_gamma_are_found_from_the_share_of_reduction() {
    let fits = fits(&report(FABRIC.sweep()));
    assert_eq!(fits.len(), 1);
    let fit = &fits[0];
    near(fit.alpha_ns, 5_000.0);
    near(fit.wire_ns_per_byte, 0.08);
    near(fit.reduce_ns_per_byte, 0.1);
    assert_eq!(fit.reduce_from, "time that the ranks spent reducing");
    assert_eq!((fit.pieces.len(), fit.steps, fit.ranks), (1, Some(6), 4));
    assert!((fit.wire_factor - 1.5).abs() < 1e-6 && fit.residual.unwrap() < 0.01);
    // 65.5 µs in the cost table's terms: 6·5 + 1.5·64 KiB·0.08 + 0.75·64 KiB·0.1 ns.
    let line = fit.pieces[0];
    let time = line.fixed_ns + line.ns_per_byte * 65_536.0;
    assert!((time / (30_000.0 + 7_864.3 + 4_915.2) - 1.0).abs() < 0.01, "{time}");
}

#[test]
fn gamma_is_what_runs_without_reduction_lack_where_there_are_such() {
    let wire = Truth { reduced: false, ..FABRIC };
    let mut all = FABRIC.sweep();
    // What ranks measure of themselves is overlapped with the transfer and would say too much.
    for m in &mut all {
        m.collective.as_mut().unwrap().reduce_share = Some(0.9);
    }
    all.extend(wire.sweep());
    let fits = fits(&report(all));
    assert_eq!(fits.iter().map(|fit| fit.reduced).collect::<Vec<_>>(), [true, false]);
    near(fits[0].reduce_ns_per_byte, 0.1);
    near(fits[0].wire_ns_per_byte, 0.08);
    assert!(fits[0].reduce_from.contains("without reduction"));
    assert_eq!(fits[1].reduce_ns_per_byte, None);
    near(fits[1].wire_ns_per_byte, 0.08);
}

#[test]
fn a_term_that_the_sizes_do_not_show_is_not_told() {
    let small: Vec<_> = FABRIC.sweep().into_iter().filter(|m| m.size_bytes <= 4096).collect();
    let fit = &fits(&report(small))[0];
    near(fit.alpha_ns, 5_000.0);
    assert_eq!(fit.wire_ns_per_byte, None);
    let large: Vec<_> = FABRIC.sweep().into_iter().filter(|m| m.size_bytes >= 1 << 20).collect();
    let fit = &fits(&report(large))[0];
    assert_eq!(fit.alpha_ns, None);
    near(fit.wire_ns_per_byte, 0.08);
}

#[test]
fn too_few_sizes_are_refused_and_one_rank_has_no_fit() {
    let few = FABRIC.sweep().into_iter().take(3).collect();
    let fit = &fits(&report(few))[0];
    assert!(fit.refused.starts_with("too few sizes, 3 of at least 5"), "{}", fit.refused);
    assert!(fit.pieces.is_empty() && fit.alpha_ns.is_none() && fit.residual.is_none());
    let alone = Truth { n: 1, ..FABRIC };
    assert!(fits(&report(alone.sweep())).is_empty());
}

#[test]
fn algorithms_and_transports_are_fitted_apart() {
    let mut all = FABRIC.sweep();
    for mut m in FABRIC.sweep() {
        m.transport = "tcp".into();
        all.push(m.clone());
        m.algorithm = "rhd".into();
        all.push(m);
    }
    let fits = fits(&report(all));
    let names = fits.iter().map(|fit| (fit.transport.as_str(), fit.algorithm.as_str()));
    assert_eq!(names.collect::<Vec<_>>(), [("rc", "ring"), ("tcp", "ring"), ("tcp", "rhd")]);
}

fn pair(from: &str, to: &str, bps: f64, bidirectional: bool) -> Measurement {
    Measurement {
        test: "bandwidth".into(),
        transport: "rc".into(),
        op: "write".into(),
        data_from: format!("{from}/mlx5_0:1"),
        data_to: format!("{to}/mlx5_0:1"),
        size_bytes: 65_536,
        bidirectional,
        goodput_bps: Some(Rate { median: bps, ..Rate::default() }),
        ..Measurement::default()
    }
}

#[test]
fn busbw_stands_beside_the_slowest_way_between_its_hosts() {
    let largest = FABRIC.ring(1 << 25);
    let busbw = largest.busbw_bps.unwrap();
    let tcp = Measurement { transport: "tcp".into(), ..pair("node-0", "node-1", 1e9, true) };
    let mut report = report(vec![
        largest,
        pair("node-0", "node-1", 98e9, false),
        pair("node-0", "node-1", 96e9, true),
        pair("node-1", "node-0", 90e9, true),
        pair("node-1", "node-0", 91e9, true),
        pair("node-9", "node-0", 5e9, true),
        tcp,
    ]);
    complete(&mut report);
    let pair = report.measurements[0].collective.as_ref().unwrap().pair.clone().unwrap();
    assert_eq!((pair.from.as_str(), pair.to.as_str(), pair.bps), ("node-1", "node-0", 91e9));
    assert!(pair.both_directions && (pair.busbw_share - busbw / 91e9).abs() < 1e-9);
    assert_eq!(report.fits.len(), 1, "one size is told with why it has no fit");
    report.measurements.truncate(1);
    complete(&mut report);
    assert_eq!(report.measurements[0].collective.as_ref().unwrap().pair, None);
}
