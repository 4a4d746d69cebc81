//! `fabbench lat`.

use fabbench_reports::json;

use crate::support::{alone, run};

#[test]
fn latency_over_tcp_is_whole_round_trips_of_each_size() {
    let _alone = alone();
    let ran = run(&[
        "lat",
        "local",
        "local",
        "--transport",
        "tcp",
        "--duration",
        "200ms",
        "--repeats",
        "2",
        "--warmup",
        "20ms",
        "--size",
        "1,64KiB",
        "--json",
    ]);
    ran.expect(0, &["latency 1 B TCP request/response A→B: RTT p50"]);
    let report = json::read(&ran.stdout).unwrap();
    let sizes: Vec<u64> = report.measurements.iter().map(|m| m.size_bytes).collect();
    assert_eq!(sizes, [1, 65_536]);
    for m in &report.measurements {
        assert_eq!((m.is_half_rtt, m.repeats.len()), (Some(false), 2));
        assert!(m.latency_ns.unwrap().count > 0 && m.histogram.is_some());
    }
}

#[test]
fn the_text_says_what_was_halved() {
    let _alone = alone();
    let ran = run(&[
        "lat",
        "local",
        "local",
        "--transport",
        "tcp",
        "--duration",
        "100ms",
        "--repeats",
        "1",
    ]);
    ran.expect(0, &["latency: half of the median round trip"]);
}

#[test]
fn the_distribution_is_drawn_and_rounds_are_counted() {
    let _alone = alone();
    let flags = ["lat", "local", "local", "--transport", "tcp", "--warmup", "20ms"];
    let rounds = ["--iterations", "300", "--repeats", "2", "--histogram"];
    let ran = run(&[&flags[..], &rounds].concat());
    let words =
        ["Distribution: latency 8 B TCP request/response A→B", "█", "600 samples; the time"];
    ran.expect(0, &words);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--direction", "both"], &["a round trip goes both ways already; give a-b or b-a"]),
        (&["--qps", "2"], &["latency is measured over one queue pair"]),
        (&["--size", "0"], &["not for TCP request and response"]),
        (&["--duration", "0"], &["shorter than 10 ms"]),
    ];
    for (flags, words) in cases {
        run(&[&["lat", "local", "local", "--transport", "tcp"], *flags].concat()).expect(2, words);
    }
}
