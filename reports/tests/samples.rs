//! The samples are golden files: what a report renders to is read by people before it is committed.

mod builder;

use std::fs;
use std::path::PathBuf;

use fabbench_reports::model::{Report, Status};
use fabbench_reports::text::{self, Options};
use fabbench_reports::{csv, html, json, junit, markdown, model, prometheus};

const WIDTHS: [usize; 3] = [60, 80, 120];

fn samples() -> [(&'static str, Report); 5] {
    [
        ("soft-roce-pair", builder::soft_roce_pair()),
        ("tcp-only", builder::tcp_only()),
        ("failing", builder::failing()),
        ("collective", builder::collective()),
        ("hardware-unjudged", builder::hardware_unjudged()),
    ]
}

fn plain(width: usize) -> Options {
    Options { width, ..Options::default() }
}

/// Compares with the file, or rewrites it when `UPDATE_SAMPLES` is set.
fn golden(file: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("samples").join(file);
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        fs::write(&path, text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == text,
        "{} differs from what is rendered now; UPDATE_SAMPLES=1 rewrites it:\n{text}",
        path.display()
    );
}

#[test]
fn samples_are_up_to_date() {
    for (name, report) in samples() {
        golden(&format!("{name}.json"), &json::write(&report).unwrap());
        golden(&format!("{name}.txt"), &text::report(&report, &plain(100)));
        golden(&format!("{name}.md"), &markdown::report(&report));
        golden(&format!("{name}.html"), &html::report(&report));
        golden(&format!("{name}.csv"), &csv::report(&report));
        golden(&format!("{name}.junit.xml"), &junit::report(&report));
        golden(&format!("{name}.prom"), &prometheus::report(&report));
    }
    // What the program makes of them is in the tests of its command line.
    for (name, report) in
        [("ndr-pair", builder::ndr_pair()), ("hdr-half-width", builder::hdr_half_width())]
    {
        golden(&format!("{name}.json"), &json::write(&report).unwrap());
    }
    let failing = builder::failing();
    golden("devices.txt", &text::devices(&failing.hosts, &failing.checks, &plain(100)));
}

/// A run of `ci/demo`, kept as it was written: older reports stay readable.
#[test]
fn a_real_report_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("samples/lab-pair.json");
    let report = json::read(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(!report.synthetic && report.simulated);
    golden("lab-pair.txt", &text::report(&report, &plain(100)));
    golden("lab-pair.md", &markdown::report(&report));
    golden("lab-pair.html", &html::report(&report));
}

#[test]
fn a_comparison_is_up_to_date() {
    let comparison = builder::comparison();
    golden("comparison.txt", &text::comparison(&comparison, &plain(100)));
    golden("comparison.md", &markdown::comparison(&comparison));
    golden("comparison.html", &html::comparison(&comparison));
    golden("comparison.junit.xml", &junit::comparison(&comparison));
    let all = Options { explain: true, ..plain(100) };
    let everything = text::comparison(&comparison, &all);
    assert!(everything.contains("same") && !everything.contains("--explain"), "{everything}");
    assert_eq!(text::comparison_line(&comparison), "1 worse, 1 gone, 1 better, 1 same");
}

#[test]
fn pictures_of_a_cluster_are_up_to_date() {
    let mut report = builder::hardware_unjudged();
    report.topology = vec![builder::topology()];
    report.matrices = vec![builder::matrix(8), builder::matrix(40)];
    golden("cluster-pictures.html", &html::report(&report));
    golden("pcie-tree.svg", &html::topology_svg(&report.topology[0]));
}

#[test]
fn a_trend_is_up_to_date() {
    let trend = builder::trend();
    golden("trend.txt", &text::trend(&trend, &plain(100)));
    golden("trend.html", &html::trend(&trend));
    for width in WIDTHS {
        let page = text::trend(&trend, &Options { explain: true, ..plain(width) });
        assert!(page.contains("356.0 Gb/s"), "{page}");
    }
}

#[test]
fn a_sample_read_back_is_the_report_that_was_built() {
    for (_, report) in samples() {
        assert_eq!(json::read(&json::write(&report).unwrap()).unwrap(), report);
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, report) in samples() {
        for width in WIDTHS {
            for explain in [false, true] {
                let options = Options { explain, ..plain(width) };
                let devices = text::devices(&report.hosts, &report.checks, &options);
                for line in (text::report(&report, &options) + &devices).lines() {
                    // A single word that is longer than the line cannot be broken.
                    let breakable = line.trim_start().trim_start_matches("- ").contains(' ');
                    let fits = line.chars().count() <= width;
                    assert!(fits || !breakable, "{name} at {width}: {line}");
                }
            }
        }
    }
}

#[test]
fn every_figure_is_there_at_every_width() {
    let report = builder::failing();
    for width in [0, 1, 20, 60, 80, 120, 1000] {
        let text = text::report(&report, &plain(width));
        let flat: Vec<&str> = text.split_whitespace().collect();
        let flat = flat.join(" ");
        for figure in ["4096 B", "µs", "553.2", "Gb/s", "0.4312", "0.4053", "completer_retry_err"]
        {
            assert!(flat.contains(figure), "{figure} at width {width}:\n{text}");
        }
    }
}

#[test]
fn the_verdict_comes_last_and_what_was_not_judged_is_no_pass() {
    let text = text::report(&builder::soft_roce_pair(), &plain(100));
    let (_, verdict) = text.split_once("\nVerdict\n").unwrap();
    assert!(verdict.contains("function passed; line rate not judged: Soft-RoCE has none"));
    assert!(!verdict.contains("performance passed"));
    let timed: Vec<&str> = text.lines().filter(|line| line.contains("64 KiB  A→B")).collect();
    let timed: Vec<&str> = timed.into_iter().filter(|line| !line.contains("all rails")).collect();
    assert!(timed.len() == 6 && timed.iter().all(|line| line.ends_with("not judged")), "{text}");
}

#[test]
fn a_case_without_a_verdict_reads_as_not_judged() {
    let mut report = builder::hardware_unjudged();
    for m in &mut report.measurements {
        m.status = None;
    }
    report.checks.clear();
    let text = text::report(&report, &plain(100));
    let (results, _) = text.split_once("\nVerdict\n").unwrap();
    assert!(results.contains("not judged") && !results.contains("pass"), "{results}");
}

#[test]
fn a_judged_report_says_how_much_of_it_was_not() {
    let mut report = builder::hardware_unjudged();
    report.verdict.performance = Status::Pass;
    let before = text::report(&report, &plain(100));
    assert!(before.contains("performance passed (9 results not judged)"), "{before}");
    for m in &mut report.measurements {
        m.status = Some(Status::Pass);
    }
    let after = text::report(&report, &plain(100));
    assert!(after.ends_with("performance passed\n  - every byte right on 2 rails\n"), "{after}");
}

#[test]
fn a_failure_is_named_with_its_rail_and_its_reason() {
    let text = text::report(&builder::failing(), &plain(100));
    assert!(text.contains("rail0 WRITE A→B: fail: 4096 B of 1 MiB differ"), "{text}");
    assert!(text.contains("message 17 of QP 0 holds the bytes of message 16"));
    assert!(text.contains("sender counted 3204 messages, receiver 3201"), "{text}");
    assert!(text.contains("rail1 (was asked for): bandwidth 64 KiB WRITE"));
    assert!(text.contains("FAIL: function failed"));
}

#[test]
fn both_directions_and_all_rails_are_summed_repeat_by_repeat() {
    let text = text::report(&builder::soft_roce_pair(), &plain(100));
    let sum = text.lines().find(|line| line.contains("  sum  ")).unwrap();
    assert!(sum.contains(" 0.4525 "), "{sum}");
    let rails = text.lines().find(|line| line.contains("all rails  WRITE")).unwrap();
    assert!(rails.contains(" 0.4353 ") && rails.contains("A→B"), "{rails}");
}

#[test]
fn rdma_stands_beside_tcp_with_the_factor() {
    let text = text::report(&builder::soft_roce_pair(), &plain(120));
    let line = text.lines().find(|line| line.contains("rail0  128 KiB")).unwrap();
    assert!(line.contains(" 1.21 ") && line.contains("431.2 Mb/s WRITE 64 KiB"), "{line}");
    assert!(line.ends_with("0.36×"), "{line}");
}

#[test]
fn a_latency_under_load_says_what_the_load_was() {
    let mut report = builder::soft_roce_pair();
    let stream = report.measurements.iter().find(|m| m.test == "bandwidth").unwrap().id.clone();
    let probe = report.measurements.iter_mut().find(|m| m.test == "latency").unwrap();
    probe.together_with = vec![stream];
    let load = "64 KiB WRITE A→B over 2 QPs, 431.2 Mb/s";
    let text = text::report(&report, &plain(120));
    assert!(text.contains(&format!("load beside rail0 WRITE A→B: {load}")), "{text}");
    assert!(text.lines().any(|line| line.contains("A→B   load")), "{text}");
    assert!(fabbench_reports::html::report(&report).contains(load));
    let csv = fabbench_reports::csv::report(&report);
    assert_eq!(csv.lines().filter(|line| line.contains(load)).count(), 1, "{csv}");
}

#[test]
fn a_row_of_bandwidth_has_its_worst_moments_in_every_form() {
    let mut report = builder::hardware_unjudged();
    let m = report.measurements.iter_mut().find(|m| m.test == "bandwidth").unwrap();
    m.qp_messages_per_s = vec![400.0, 500.0];
    m.fairness = Some(0.8);
    m.repeats[1].longest_gap_ns = 4_321_000;
    let text = text::report(&report, &plain(120));
    let row = text.lines().find(|line| line.contains("4321.0")).unwrap();
    assert!(row.contains("80.0 %") && row.contains("368.6"), "{row}");
    let flat: Vec<&str> = text.split_whitespace().collect();
    assert!(flat.join(" ").contains("fairness: the slowest QP's rate as a part of the fastest"));
    let html = fabbench_reports::html::report(&report);
    assert!(html.contains("4321.0") && html.contains("80.0 %"));
    let csv = fabbench_reports::csv::report(&report);
    assert!(csv.contains(",4321000,0.8,400,500,"), "{csv}");
}

#[test]
fn one_line_for_quiet_and_for_progress() {
    let report = builder::soft_roce_pair();
    assert_eq!(
        text::report_line(&report),
        "pass: node-a and node-b: function pass, performance not judged; 32 measurements; \
         every byte right on 2 rails in both directions, no error counter grew"
    );
    let line = |test: &str, transport: &str| {
        let mut all = report.measurements.iter();
        let found = all.find(|m| m.test == test && m.transport == transport).unwrap();
        text::result_line(found, &["node-a", "node-b"])
    };
    assert_eq!(
        line("bandwidth", "rc"),
        "bandwidth 64 KiB WRITE rail0 A→B: 431.2 Mb/s (min window 405.3 Mb/s)"
    );
    assert_eq!(
        line("latency", "tcp"),
        "latency 8 B TCP request/response rail0 A→B: half RTT p50 402.5 µs, p99 780.9 µs, \
         max 2938 µs"
    );
    let wrong = builder::failing().measurements;
    let wrong = wrong.iter().find(|m| m.bytes_wrong > 0).unwrap();
    assert_eq!(
        text::result_line(wrong, &["node-a", "node-b"]),
        "integrity 64 KiB WRITE rail0 A→B: 1 MiB checked, 4096 B wrong, 1 message lost: fail: \
         4096 B of 1 MiB differ"
    );
}

#[test]
fn colour_changes_nothing_but_escapes() {
    let report = builder::failing();
    let colored = text::report(&report, &Options { color: true, ..plain(100) });
    let mut bare = String::new();
    let mut rest = colored.as_str();
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        bare.push_str(before);
        rest = escape.split_once('m').unwrap().1;
    }
    bare.push_str(rest);
    assert_ne!(colored, bare);
    assert_eq!(bare, text::report(&report, &plain(100)));
}

#[test]
fn an_empty_report_renders() {
    let mut report = builder::tcp_only();
    report.hosts.clear();
    report.measurements.clear();
    report.command.clear();
    report.verdict.status = Status::Incomplete;
    assert!(text::report(&report, &plain(80)).contains("INCOMPLETE"));
    assert!(text::result_line(&model::Measurement::default(), &[]).contains("no result"));
}
