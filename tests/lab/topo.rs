//! `fabbench topo` on a guest with two sockets, a PCIe switch, and displays in the place of GPUs.

use serde_json::Value;

use crate::support::{binary, ci_lab};

/// Id of the displays.
const STAND_IN: &str = "1234:1111";

/// A guest of its own beside the lab; it ends with the test.
struct Guest;

impl Guest {
    fn start() -> Self {
        let guest = Guest;
        guest.well(&["up", "1", "--pcie-switch", "--fresh"]);
        guest.well(&["push", &binary().to_string_lossy()]);
        guest
    }

    fn ask(&self, arguments: &[&str]) -> std::process::Output {
        let state = concat!(env!("CARGO_MANIFEST_DIR"), "/target/lab-pcie");
        ci_lab(&[&["--state", state], arguments].concat())
    }

    fn well(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "ci/lab {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Exit code and JSON of `fabbench topo --json` with these arguments.
    fn topo(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let line = [&["run", "node-a", "fabbench", "topo", "--json"], arguments].concat();
        let output = self.ask(&line);
        let json = serde_json::from_slice(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        (output.status.code(), json.unwrap_or_else(|e| panic!("{arguments:?}: {e}: {said}")))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.ask(&["down"]);
    }
}

/// Paths of the GPUs to the HCAs that they are paired with, and their verdicts.
fn paths(host: &Value) -> Vec<(&str, &str)> {
    let gpus = host["gpus"].as_array().unwrap().iter();
    gpus.map(|gpu| (gpu["path"].as_str().unwrap(), gpu["status"].as_str().unwrap())).collect()
}

#[test]
fn a_live_machine_shows_each_kind_of_path() {
    let guest = Guest::start();
    let (code, host) = guest.topo(&[]);
    assert_eq!((code, &host["status"]), (Some(0), &Value::from("n/a")), "displays are no GPUs");

    let (code, host) = guest.topo(&["--treat-as-gpu", STAND_IN]);
    let expected = [("PIX", "pass"), ("PHB", "warn"), ("NODE", "warn"), ("SYS", "fail")];
    assert_eq!(paths(&host), expected, "{host:#}");
    assert_eq!(host["gpus"][0]["hcas"][0], "rxe0", "the rail on the same switch");
    assert_eq!(code, Some(1));
    let (_, strict) = guest.topo(&["--treat-as-gpu", STAND_IN, "--require", "same-switch"]);
    let verdicts: Vec<&str> = paths(&strict).iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(verdicts, ["pass", "fail", "fail", "fail"]);

    guest.well(&["run", "node-a", "fabbench", "topo", "dump", "--out", "/tmp/shape.tar.gz"]);
    let (code, back) = guest.topo(&["--from", "/tmp/shape.tar.gz", "--treat-as-gpu", STAND_IN]);
    assert_eq!(code, Some(1));
    assert_eq!((&back["gpus"], &back["graph"]), (&host["gpus"], &host["graph"]));
}
