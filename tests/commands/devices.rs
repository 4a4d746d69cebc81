//! `fabbench devices`.

use crate::support::{fabbench, finish, kernel_has_verbs, run};

#[test]
fn what_is_missing_is_named_with_the_fix() {
    let absent = "/nonexistent/libibverbs.so";
    let ran = finish(fabbench(&["devices"]).env("FABBENCH_LIBIBVERBS", absent));
    ran.expect(
        3,
        &["no RDMA: /nonexistent/libibverbs.so cannot be opened", "apt install rdma-core"],
    );
    if !kernel_has_verbs() {
        run(&["devices"]).expect(3, &["no RDMA: "]);
    }
}

#[test]
fn json_holds_the_hosts_and_what_stands_in_the_way() {
    let absent = "/nonexistent/libibverbs.so";
    let mut command = fabbench(&["devices", "local", "local", "--json"]);
    let ran = finish(command.env("FABBENCH_LIBIBVERBS", absent));
    let page = ran.json();
    assert_eq!(
        (page["hosts"][0]["name"].as_str(), page["hosts"][1]["name"].as_str()),
        (Some("local"), Some("local#2"))
    );
    let checks = page["checks"].as_array().unwrap();
    assert!(checks.iter().any(|c| c["status"] == "fail" && c["id"] == "verbs"), "{checks:?}");
}

#[test]
fn a_host_that_cannot_be_meant_or_reached_is_named() {
    run(&["devices", "-x"]).expect(2, &["unexpected argument '-x'"]);
    run(&["devices", "a`id`"]).expect(2, &["a host name cannot hold '`'"]);
    let mut command = fabbench(&["devices", "elsewhere"]);
    let ran = finish(command.env("FABBENCH_SSH", "/nonexistent/ssh"));
    ran.expect(3, &["elsewhere: connect: start /nonexistent/ssh"]);
}
