//! Reports as input, what is missing, and numbers that mean nothing.

use fabbench_reports::advice::Transport;
use fabbench_reports::{json, model};

use super::*;
use crate::advise::answer::{Change, advise};
use crate::advise::{AdviseError, link::Corner, measured};

fn report() -> model::Report {
    json::read(include_str!("../../../../reports/samples/soft-roce-pair.json")).unwrap()
}

#[test]
fn a_report_gives_both_sides() {
    let report = report();
    let rdma = measured::link(&report, "r.json", Transport::Rdma, None).unwrap();
    assert_eq!(rdma.nics, 2);
    // The slower direction alone is 425.8 Mb/s; together the rails carry 215.9 of 431.2.
    let alone = 425.8e6 / 8.0;
    let together = 215.9 / 431.2;
    let found = rdma.rate(65536.0, Corner::Nominal);
    assert!((found / (alone * together) - 1.0).abs() < 1e-9, "{found}");
    // Rail 1 is the slower one, WRITE the faster operation.
    assert!((rdma.latency.nominal - 562.2e-6).abs() < 1e-12);
    assert!(rdma.latency.worst > rdma.latency.nominal);
    assert!(rdma.notes.iter().any(|note| note.contains("software devices")));
    let tcp = measured::link(&report, "r.json", Transport::Tcp, Some(1)).unwrap();
    assert_eq!((tcp.nics, tcp.points[0].size), (1, 131_072.0));
    assert!((tcp.latency.nominal - 402.5e-6).abs() < 1e-12);
}

#[test]
fn a_measured_interval_widens_the_band_and_sizes_beyond_it_are_said() {
    let report = report();
    let side = |transport| measured::link(&report, "r.json", transport, None).unwrap();
    let question = question(
        train("7b", Scheme::Ddp, 65536.0, 8),
        [side(Transport::Rdma), side(Transport::Tcp)],
        2,
    );
    let advice = advise(&question).unwrap();
    let flat =
        rdma(2, question.links[0].latency.nominal, question.links[0].rate(1e9, Corner::Nominal));
    let exact = advise(&Question { links: [flat, side(Transport::Tcp)], ..question }).unwrap();
    assert!(advice.now[0].efficiency_band.worst < exact.now[0].efficiency_band.worst);
    assert!(advice.now[0].efficiency_band.best > exact.now[0].efficiency_band.best);
    let said = |part: &str| advice.assumptions.iter().any(|one| one.contains(part));
    assert!(
        said("RDMA was not measured above 64 KiB: no extrapolation"),
        "{:?}",
        advice.assumptions
    );
}

/// A measurement of the sample's first RDMA bandwidth under another test, so many times as fast.
fn contended(report: &mut model::Report, test: &str, senders: usize, factor: f64) {
    let alone = |m: &&model::Measurement| {
        m.test == "bandwidth"
            && m.transport == "rc"
            && !m.bidirectional
            && m.together_with.is_empty()
    };
    let mut one = report.measurements.iter().find(alone).unwrap().clone();
    one.test = test.into();
    let rate = one.goodput_bps.as_mut().unwrap();
    for value in [&mut rate.median, &mut rate.min, &mut rate.max] {
        *value *= factor;
    }
    report.measurements.extend(std::iter::repeat_n(one, senders));
}

#[test]
fn measured_incast_takes_bandwidth_off_and_says_so() {
    let mut report = report();
    report.measurements.retain(|m| m.together_with.is_empty());
    let rate = |report: &model::Report| {
        let link = measured::link(report, "r.json", Transport::Rdma, None).unwrap();
        (link.rate(65536.0, Corner::Nominal), link.notes)
    };
    let (plain, _) = rate(&report);
    contended(&mut report, "incast", 3, 0.2);
    let (less, notes) = rate(&report);
    assert!((less / plain - 0.6).abs() < 1e-9, "three senders at a fifth each: {less} {plain}");
    assert!(notes.iter().any(|note| note.contains("deliver 60 %")), "{notes:?}");
}

#[test]
fn measured_bisection_gives_the_oversubscription() {
    let mut report = report();
    assert_eq!(measured::oversubscription(&report), None);
    report.measurements.retain(|m| m.path.rail != "rail1" && m.data_from.contains("node-a"));
    contended(&mut report, "bisection", 2, 0.25);
    let found = measured::oversubscription(&report).unwrap();
    assert!((3.0..5.0).contains(&found), "{found}");
}

#[test]
fn from_how_many_nodes_on_it_is_bound_is_said() {
    let links = [named("ndr", 8), named("tcp-25g", 1)];
    let mut question = question(train("7b", Scheme::Ddp, 4096.0, 8), links, 8);
    question.target = Some(64);
    let advice = advise(&question).unwrap();
    let [rdma, tcp] = advice.bound_at.as_slice() else { panic!("{:?}", advice.bound_at) };
    assert_eq!((rdma.nodes, rdma.looked_to), (None, 64), "{}", rdma.sentence());
    let nodes = tcp.nodes.unwrap();
    assert!(tcp.sentence().contains("bound"), "{}", tcp.sentence());
    let at = |nodes: u32| {
        let question = Question { nodes, target: None, ..question.clone() };
        advise(&question).unwrap().now[1].verdict
    };
    assert_eq!(at(nodes), fabbench_reports::advice::NetworkVerdict::Bound);
    assert!(nodes == 1 || at(nodes - 1) != fabbench_reports::advice::NetworkVerdict::Bound);
}

#[test]
fn a_report_without_a_needed_measurement_says_which_and_what_would_do() {
    let mut report = report();
    report.measurements.retain(|one| !(one.transport == "tcp" && one.test == "bandwidth"));
    let error = measured::link(&report, "r.json", Transport::Tcp, None).unwrap_err().to_string();
    for part in ["r.json has no TCP bandwidth", "fabbench pair", "--fabric", "--tcp-bandwidth"] {
        assert!(error.contains(part), "{error}");
    }
    report.measurements.retain(|one| one.test != "latency");
    let error = measured::link(&report, "r.json", Transport::Rdma, None).unwrap_err().to_string();
    assert!(error.contains("no RDMA latency") && error.contains("--rdma-latency"), "{error}");
}

fn refused(change: impl FnOnce(&mut Question)) -> String {
    let links = [named("ndr", 8), named("tcp-25g", 1)];
    let mut question = question(train("7b", Scheme::Ddp, 4096.0, 8), links, 8);
    assert!(advise(&question).is_ok());
    change(&mut question);
    advise(&question).unwrap_err().to_string()
}

#[test]
fn impossible_parallelism_is_refused_with_what_would_do() {
    let product = refused(|q| q.job.parallel.tp = 3);
    assert!(product.contains("--tp 3") && product.contains("64 GPUs"), "{product}");
    let dp = refused(|q| q.job.parallel.dp = Some(32));
    assert!(dp.contains("--dp 64"), "{dp}");
    let experts = refused(|q| q.job.parallel.ep = 4);
    assert!(experts.contains("no experts") && experts.contains("--experts"), "{experts}");
    let layers = refused(|q| q.job.parallel.pp = 64);
    assert!(layers.contains("32 layers"), "{layers}");
    let huge = refused(|q| q.nodes = u32::MAX);
    assert!(huge.contains("not modelled"), "{huge}");
}

#[test]
fn zero_negative_and_absurd_numbers_are_refused_by_flag() {
    type Wrong = fn(&mut Question);
    let all: [(&str, Wrong); 9] = [
        ("--nodes", |q| q.nodes = 0),
        ("--target-nodes", |q| q.target = Some(0)),
        ("--tp", |q| q.job.parallel.tp = 0),
        ("--gpus-per-node", |q| q.job.gpus_per_node = 0),
        ("--flops", |q| q.job.compute = Compute::Flops(-1.0)),
        ("--oversubscription", |q| q.path.oversubscription = 0.5),
        ("--overlap", |q| q.path.overlap = f64::NAN),
        ("--rdma-bandwidth", |q| q.links[0] = rdma(8, 1e-6, 0.0)),
        ("--storage-rate", |q| q.path.storage = -1.0),
    ];
    for (flag, wrong) in all {
        let sentence = refused(wrong);
        assert!(sentence.starts_with(flag), "{flag}: {sentence}");
    }
}

#[test]
fn what_if_changes_one_row_only() {
    let links = [named("ndr", 8), named("tcp-25g", 1)];
    let mut question = question(train("7b", Scheme::Ddp, 4096.0, 8), links, 8);
    question.changes = vec![Change {
        text: "fabric=tcp-100g,nodes=16".to_owned(),
        link: Some(named("tcp-100g", 1)),
        nodes: Some(16),
        ..Change::default()
    }];
    let advice = advise(&question).unwrap();
    let row = &advice.what_if[0];
    assert_eq!((row.nodes, row.fabrics[1].as_str()), (16, "tcp-100g"));
    assert!(row.estimates[1].efficiency > advice.now[1].efficiency);
    assert_eq!(advice.now[1].fabric, "tcp-25g");
    question.changes[0].oversubscription = Some(0.0);
    let error = advise(&question).unwrap_err();
    assert!(
        matches!(error, AdviseError::Wrong(text) if text.contains("--what-if fabric=tcp-100g"))
    );
}

#[test]
fn an_answer_is_quick() {
    let links = [named("ndr", 8), named("tcp-25g", 1)];
    let mut question = question(train("7b", Scheme::Zero3, 4096.0, 8), links, 8);
    question.target = Some(4096);
    let fastest = (0..5).map(|_| {
        let start = std::time::Instant::now();
        advise(&question).unwrap();
        start.elapsed()
    });
    let fastest = fastest.min().unwrap();
    assert!(fastest.as_millis() < 50, "{fastest:?}");
}
