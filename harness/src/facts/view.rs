//! Looking things up in a snapshot as if it were the file system.

use std::collections::BTreeSet;

use crate::snapshot::{Entry, Snapshot};

/// A snapshot that follows the symbolic links it holds.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    snapshot: &'a Snapshot,
}

/// As deep as Linux follows links, and enough for any sysfs.
const MAX_LINKS: usize = 40;

impl<'a> View<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        View { snapshot }
    }

    /// Trimmed text at `path`, links followed; none when absent, unreadable or empty.
    pub(crate) fn text(&self, path: &str) -> Option<&'a str> {
        match self.entry(path)? {
            Entry::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// Number at `path`.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Errno met when `path` was read.
    pub(crate) fn errno(&self, path: &str) -> Option<i32> {
        match self.entry(path)? {
            Entry::Error(errno) => Some(*errno),
            _ => None,
        }
    }

    /// Names below `path`, each once: as listed, else as the captured paths show.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let mut names = BTreeSet::new();
        for place in self.places(path) {
            names.extend(self.snapshot.names(&place).iter().cloned());
            let prefix = format!("{place}/");
            for (key, _) in self.snapshot.entries.range(prefix.clone()..) {
                let Some(rest) = key.strip_prefix(&prefix) else { break };
                names.extend(rest.split('/').next().map(str::to_owned));
            }
        }
        names.into_iter().collect()
    }

    /// Where `path` leads when it is a link.
    pub(crate) fn link(&self, path: &str) -> Option<&'a str> {
        self.places(path).iter().find_map(|place| self.snapshot.link(place))
    }

    /// Whether anything stands at or below `path`.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.places(path).iter().any(|place| self.snapshot.entries.contains_key(place))
            || !self.children(path).is_empty()
    }

    fn entry(&self, path: &str) -> Option<&'a Entry> {
        let places = self.places(path);
        let found = |place: &String| self.snapshot.entries.get(place);
        places.iter().filter_map(found).find(|entry| !matches!(entry, Entry::Link(_)))
    }

    /// Every name of `path`: itself, then with captured links on the way replaced by their targets.
    fn places(&self, path: &str) -> Vec<String> {
        let mut places = vec![path.to_owned()];
        while places.len() < MAX_LINKS {
            match self.follow_one(&places[places.len() - 1]) {
                Some(next) if !places.contains(&next) => places.push(next),
                _ => break,
            }
        }
        places
    }

    fn follow_one(&self, path: &str) -> Option<String> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        ends.into_iter().find_map(|end| {
            let target = self.snapshot.link(&path[..end])?;
            Some(format!("{target}{}", &path[end..]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(entries: &[(&str, Entry)]) -> Snapshot {
        let entries = entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone()));
        Snapshot { entries: entries.collect() }
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let snapshot = snapshot(&[
            ("/sys/class/infiniband/m", Entry::Link("/sys/devices/p/infiniband/m".into())),
            ("/sys/devices/p/infiniband/m/device", Entry::Link("/sys/devices/p".into())),
            ("/sys/devices/p/numa_node", Entry::Text("1\n".into())),
            ("/sys/devices/p/net/eth0/dev_port", Entry::Text("0\n".into())),
        ]);
        let view = View::new(&snapshot);
        assert_eq!(view.number("/sys/class/infiniband/m/device/numa_node"), Some(1));
        assert_eq!(view.children("/sys/class/infiniband/m/device/net"), ["eth0"]);
        assert_eq!(view.link("/sys/class/infiniband/m/device"), Some("/sys/devices/p"));
    }

    #[test]
    fn a_circle_of_links_ends() {
        let snapshot =
            snapshot(&[("/a/b", Entry::Link("/a/c".into())), ("/a/c", Entry::Link("/a/b".into()))]);
        assert_eq!(View::new(&snapshot).text("/a/b/x"), None);
    }
}
