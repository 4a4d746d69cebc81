//! `fabbench explain-perftest` as people type it.

use crate::support::run;

#[test]
fn the_command_and_what_differs_are_printed() {
    let found = run(&[
        "explain-perftest",
        "ib_write_bw",
        "-d",
        "mlx5_0",
        "-x",
        "3",
        "-q",
        "4",
        "-D",
        "10",
        "--report_gbits",
        "host-b",
    ]);
    found.expect(
        0,
        &[
            "fabbench bw local host-b --op write --device mlx5_0 --size 64KiB --signal-every 1 \
             --duration 6s --warmup 2s --gid-index 3 --qps 4",
            "-D 10 perftest cuts its margin off",
            "--report_gbits bandwidth is in decimal bits per second",
            "counted by the receiver",
        ],
    );
    assert!(found.stderr.is_empty(), "{}", found.stderr);
}

#[test]
fn a_quoted_line_and_combined_options_are_understood() {
    run(&["explain-perftest", "/usr/bin/ib_write_bw -abF --tx-depth=64 host-b"]).expect(
        0,
        &["--direction both --size 2..8MiB --qps 1 --signal-every 64 --tx-depth 64", "-F"],
    );
}

#[test]
fn the_servers_side_needs_no_command() {
    run(&["explain-perftest", "ib_send_lat", "-d", "mlx5_0"])
        .expect(0, &["fabbench lat local HOST --op send", "This is the server's side"]);
}

#[test]
fn what_is_unknown_is_named_and_wrong_usage() {
    run(&["explain-perftest", "ib_write_bw", "--frobnicate"])
        .expect(2, &["ib_write_bw has no option --frobnicate"]);
    run(&["explain-perftest", "ib_write_bw", "-q", "many", "h"]).expect(2, &["many"]);
    run(&["explain-perftest", "iperf3", "-c", "h"])
        .expect(2, &["iperf3 is no program of perftest", "ib_atomic_bw"]);
    run(&["explain-perftest"]).expect(2, &["PERFTEST COMMAND"]);
}

#[test]
fn what_no_command_measures_is_said_so() {
    run(&["explain-perftest", "raw_ethernet_bw", "--client", "-B", "00:00:00:00:00:01"])
        .expect(3, &["raw_ethernet_bw is not covered", "--transport tcp"]);
    run(&["explain-perftest", "ib_send_bw", "-c", "DC", "h"])
        .expect(3, &["no command measures the same", "fabbench's transports are rc"]);
    run(&["explain-perftest", "ib_write_bw", "--use_cuda=0", "h"])
        .expect(3, &["no command measures the same", "--use_cuda=0", "fabbench topo"]);
}
