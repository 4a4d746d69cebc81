//! Counters of a port, read as they are and never reset.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a driver may keep an old value where it does not say.
const LIFESPAN: Duration = Duration::from_millis(12);

/// Counters of one port, of `counters` and `hw_counters`.
#[derive(Debug)]
pub struct PortCounters {
    port: PathBuf,
    unreadable: BTreeSet<PathBuf>,
}

impl PortCounters {
    /// Counters of `port` of `device` under `root` (`/` for this machine).
    pub fn new(root: &Path, device: &str, port: u8) -> Self {
        let port = root.join(format!("sys/class/infiniband/{device}/ports/{port}"));
        PortCounters { port, unreadable: BTreeSet::new() }
    }

    /// Reads all counters, by name; where both directories have one, that of `hw_counters` is
    /// called `hw_NAME`. What cannot be read is left out, and not tried again: some drivers log
    /// every attempt. Data counters count words of 4 bytes.
    pub fn read(&mut self) -> BTreeMap<String, u64> {
        let mut values = BTreeMap::new();
        for directory in ["counters", "hw_counters"] {
            for (name, path) in files(&self.port.join(directory)) {
                if name == "lifespan" || self.unreadable.contains(&path) {
                    continue;
                }
                match number(&path) {
                    Some(value) if values.contains_key(&name) => {
                        values.insert(format!("hw_{name}"), value);
                    }
                    Some(value) => {
                        values.insert(name, value);
                    }
                    None => {
                        self.unreadable.insert(path);
                    }
                }
            }
        }
        values
    }

    /// Reads all counters after waiting until the driver's copies of earlier values have expired.
    pub fn read_settled(&mut self) -> BTreeMap<String, u64> {
        std::thread::sleep(self.lifespan() + Duration::from_millis(2));
        self.read()
    }

    /// How long the driver answers with an old value.
    pub fn lifespan(&self) -> Duration {
        let told = number(&self.port.join("hw_counters/lifespan")).map(Duration::from_millis);
        // A second is beyond any driver's; a value of hours must not stop the run.
        told.map_or(LIFESPAN, |told| told.clamp(LIFESPAN, Duration::from_secs(1)))
    }
}

/// What was counted between two readings, for counters in both; negative where one was reset.
pub fn delta(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, i64> {
    let difference = |(name, after): (&String, &u64)| {
        let before = before.get(name)?;
        Some((name.clone(), after.wrapping_sub(*before) as i64))
    };
    after.iter().filter_map(difference).collect()
}

fn files(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), entry.path()))
        })
        .collect()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(files: &[(&str, &str)]) -> (tempfile::TempDir, PortCounters) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("sys/class/infiniband/rxe0/ports/1");
        for (path, text) in files {
            fs::create_dir_all(directory.join(path).parent().unwrap()).unwrap();
            fs::write(directory.join(path), text).unwrap();
        }
        let counters = PortCounters::new(root.path(), "rxe0", 1);
        (root, counters)
    }

    #[test]
    fn both_directories_are_read_and_differences_taken() {
        let (root, mut counters) = port(&[
            ("counters/port_xmit_data", "100\n"),
            ("counters/link_downed", "1\n"),
            ("hw_counters/link_downed", "7\n"),
            ("hw_counters/sent_pkts", "5\n"),
            ("hw_counters/lifespan", "20\n"),
        ]);
        let before = counters.read();
        let names: Vec<&str> = before.keys().map(String::as_str).collect();
        assert_eq!(names, ["hw_link_downed", "link_downed", "port_xmit_data", "sent_pkts"]);
        assert_eq!(before["hw_link_downed"], 7);
        let sent = root.path().join("sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts");
        fs::write(sent, "9\n").unwrap();
        let begin = std::time::Instant::now();
        let after = counters.read_settled();
        assert!(begin.elapsed() >= Duration::from_millis(20), "older than the driver's copy");
        assert_eq!(delta(&before, &after)["sent_pkts"], 4);
        assert_eq!(delta(&before, &after)["link_downed"], 0);
        let reset = BTreeMap::from([("sent_pkts".to_owned(), 2)]);
        assert_eq!(delta(&before, &reset), BTreeMap::from([("sent_pkts".to_owned(), -3)]));
    }

    #[test]
    fn what_cannot_be_read_is_not_tried_again() {
        let (root, mut counters) = port(&[("counters/VL15_dropped", "not a number\n")]);
        assert!(counters.read().is_empty());
        let file = root.path().join("sys/class/infiniband/rxe0/ports/1/counters/VL15_dropped");
        fs::write(file, "3\n").unwrap();
        assert!(counters.read().is_empty());
        let absent = PortCounters::new(root.path(), "none", 1);
        assert_eq!(absent.lifespan(), LIFESPAN);
    }
}
