//! `fabbench softroce`, as far as it changes nothing here.

use crate::support::run;

#[test]
fn names_that_lead_nowhere_are_refused() {
    run(&["softroce", "up", "nosuch0"]).expect(2, &["nosuch0: no such network interface"]);
    run(&["softroce", "down", "nosuch0"])
        .expect(2, &["nosuch0: no Soft-RoCE device", "there are:"]);
    run(&["softroce", "up", "../lo"]).expect(2, &["../lo"]);
    run(&["softroce", "sideways"]).expect(2, &["unrecognized subcommand"]);
}

#[test]
fn status_says_what_there_is_or_how_to_get_it() {
    let ran = run(&["softroce", "status"]);
    ran.expect(0, &[]);
    let none = ran.stdout.contains("fabbench softroce up [NETDEV] creates one (needs root)");
    assert!(none || ran.stdout.contains(" on "), "{}", ran.stdout);
}
