//! `fabbench rate`.

use fabbench_reports::json;
use serde_json::json;

use crate::support::{alone, run};

/// `rate` between two agents over sockets, as short as it can be measured.
fn rate(more: &[&str]) -> crate::support::Run {
    let short = ["rate", "local", "local", "--transport", "tcp", "--warmup", "20ms"];
    let _alone = alone();
    run(&[&short[..], &["--repeats", "1"], more].concat())
}

#[test]
fn every_socket_is_counted_beside_the_total() {
    let ran = rate(&["--duration", "200ms", "--qps", "3", "--size", "8", "--json"]);
    ran.expect(0, &[]);
    let report = json::read(&ran.stdout).unwrap();
    let [m] = &report.measurements[..] else { panic!("one measurement") };
    assert_eq!((&*m.test, m.size_bytes, m.method.qps), ("message_rate", 8, 3));
    assert_eq!(m.qp_messages_per_s.len(), 3);
    let (total, sum) = (m.messages_per_s.unwrap().median, m.qp_messages_per_s.iter().sum::<f64>());
    assert!((0.5..2.0).contains(&(sum / total)), "{sum} of QPs, {total} in total");
    let fairness = m.fairness.unwrap();
    assert!((0.0..=1.0).contains(&fairness), "{fairness}");
    assert_eq!(m.method.effective["post_list"], json!(1), "a message a call over sockets");
    assert_eq!(m.repeats[0].qp_messages.len(), 3);
}

#[test]
fn the_text_tells_total_sockets_and_fairness() {
    let ran = rate(&["--duration", "100ms", "--post-list", "8", "--threads", "2"]);
    ran.expect(0, &["Message rate", "Mmsg/s", "per QP", "fairness", "the slowest socket's rate"]);
}

#[test]
fn a_number_of_messages_ends_a_repeat_before_its_time() {
    let ran = rate(&["--iterations", "500", "--qps", "2", "--direction", "both", "--json"]);
    ran.expect(0, &[]);
    assert!(ran.took.as_secs() < 30, "{:?} of 60 s", ran.took);
    let report = json::read(&ran.stdout).unwrap();
    assert_eq!(report.measurements.len(), 2);
    for m in &report.measurements {
        assert_eq!(m.method.requested["iterations"], json!(500));
        assert_eq!(m.repeats[0].qp_messages, [500, 500]);
        assert!(m.repeats[0].window_ns > 0 && m.messages_per_s.unwrap().median > 0.0);
        assert_eq!(m.repeats[0].messages_sent, m.repeats[0].messages_received);
    }
}

#[test]
fn a_row_a_measurement_goes_to_stdout_alone() {
    let ran = rate(&["--duration", "100ms", "--size", "2..16", "--csv"]);
    ran.expect(0, &[]);
    let rows: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(rows.len(), 1 + 4, "{}", ran.stdout);
    assert!(rows[0].starts_with("started,suite,") && rows[1].contains("message_rate"));
    run(&["rate", "local", "local", "--csv", "--json"]).expect(2, &["only one of them"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--size", "around-mtu"], &["sockets carry a stream of bytes", "give the sizes"]),
        (&["--size", "64..2"], &["64..2 runs backwards"]),
        (&["--size", "64.."], &["is no size"]),
        (&["--iterations", "0"], &["0 is not in 1..="]),
        (&["--post-list", "0"], &["0 is not in 1..=1024"]),
        (&["--threads", "9", "--qps", "4"], &["give at least --qps 9"]),
    ];
    for (flags, words) in cases {
        run(&[&["rate", "local", "local", "--transport", "tcp"], *flags].concat()).expect(2, words);
    }
}
