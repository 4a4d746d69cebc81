//! Which hosts hang on which leaf switch, as people write it, and the order of ranks that follows.
//!
//! A line a leaf: `leaf1: node-a node-b`, or a line of Slurm's topology.conf:
//! `SwitchName=leaf1 Nodes=node[01-16]`. Names may be a list as Slurm writes it.

use std::collections::BTreeMap;

/// Most hosts of a list.
pub const MOST: usize = 65_536;

/// What cannot be read, with the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeavesError {
    /// No list of hosts.
    #[error("{0:?} is no list of hosts: write node-a,node-b or node[01-16,20]")]
    Hosts(String),
    /// More than anybody can mean.
    #[error("{0:?} names more than {MOST} hosts")]
    TooMany(String),
    /// Neither form.
    #[error(
        "line {0}: {1:?}: write `leaf1: node-a node-b`, or as Slurm's topology.conf \
         `SwitchName=leaf1 Nodes=node[01-16]`"
    )]
    Line(usize, String),
    /// Two leaves for one host.
    #[error("{host} hangs on {one} and on {other}: name it once")]
    Twice {
        /// Host.
        host: String,
        /// First leaf.
        one: String,
        /// Second leaf.
        other: String,
    },
    /// A host of the run that no line names.
    #[error("no leaf is named for {0}: add it to the file")]
    Missing(String),
}

/// The hosts of a list as Slurm writes it: `node[01-03,07],gpu1` are node01, node02, node03, node07
/// and gpu1. Leading zeros are kept.
///
/// # Errors
/// What is no such list.
pub fn hosts(list: &str) -> Result<Vec<String>, LeavesError> {
    let wrong = || LeavesError::Hosts(list.to_owned());
    let mut found = Vec::new();
    for item in items(list).ok_or_else(wrong)? {
        found.extend(expand(item, list)?);
        if found.len() > MOST {
            return Err(LeavesError::TooMany(list.to_owned()));
        }
    }
    if found.is_empty() { Err(wrong()) } else { Ok(found) }
}

/// Parts between commas outside of brackets.
fn items(list: &str) -> Option<Vec<&str>> {
    let (mut depth, mut from) = (0, 0);
    let mut found = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => depth = 0,
            '[' | ']' => return None,
            ',' if depth == 0 => {
                found.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[from..]);
    (depth == 0 && found.iter().all(|item| is_name(item))).then_some(found)
}

fn is_name(item: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.[],".contains(c);
    !item.is_empty() && item.chars().all(allowed)
}

/// All that an item with one bracket or more stands for.
fn expand(item: &str, list: &str) -> Result<Vec<String>, LeavesError> {
    let Some((before, rest)) = item.split_once('[') else { return Ok(vec![item.to_owned()]) };
    let wrong = || LeavesError::Hosts(list.to_owned());
    let (inside, after) = rest.split_once(']').ok_or_else(wrong)?;
    let after = expand(after, list)?;
    let mut found = Vec::new();
    for part in inside.split(',') {
        for number in numbers(part).ok_or_else(wrong)? {
            found.extend(after.iter().map(|tail| format!("{before}{number}{tail}")));
            if found.len() > MOST {
                return Err(LeavesError::TooMany(list.to_owned()));
            }
        }
    }
    Ok(found)
}

/// `01-03` or `7`.
fn numbers(part: &str) -> Option<Vec<String>> {
    let (from, to) = part.split_once('-').unwrap_or((part, part));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(from) || !digits(to) {
        return None;
    }
    let (first, last): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    let width = from.len();
    let few = first <= last && last - first < MOST as u64 * 2;
    few.then(|| (first..=last).map(|number| format!("{number:0width$}")).collect())
}

/// Leaf of each host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leaves(BTreeMap<String, String>);

impl Leaves {
    /// Reads a file. What stands behind `#`, and switches that name no hosts, are left out.
    ///
    /// # Errors
    /// [`LeavesError`] with the line.
    pub fn parse(text: &str) -> Result<Leaves, LeavesError> {
        let mut leaves = Leaves::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let wrong = || LeavesError::Line(number + 1, line.to_owned());
            let Some((leaf, names)) = entry(line).ok_or_else(wrong)? else { continue };
            for list in names {
                for host in hosts(list)? {
                    leaves.add(host, leaf)?;
                }
            }
        }
        Ok(leaves)
    }

    fn add(&mut self, host: String, leaf: &str) -> Result<(), LeavesError> {
        match self.0.get(&host) {
            Some(one) if one != leaf => {
                let (one, other) = (one.clone(), leaf.to_owned());
                Err(LeavesError::Twice { host, one, other })
            }
            _ => {
                self.0.insert(host, leaf.to_owned());
                Ok(())
            }
        }
    }

    /// The leaf of a host by its full name, or by the part before its first dot. `node-a#2`, the
    /// second agent on a host, hangs where the host does.
    pub fn of(&self, host: &str) -> Option<&str> {
        let name = host.split('#').next().unwrap_or(host);
        let short = name.split('.').next().unwrap_or(name);
        self.0.get(name).or_else(|| self.0.get(short)).map(String::as_str)
    }

    /// Indices of `hosts` so that those of one leaf stand together; leaves stand in the order in
    /// which they appear, hosts of a leaf keep theirs.
    ///
    /// # Errors
    /// [`LeavesError::Missing`] for the first host that has none.
    pub fn order(&self, hosts: &[&str]) -> Result<Vec<usize>, LeavesError> {
        let mut leaves: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let leaf = self.of(host).ok_or_else(|| LeavesError::Missing((*host).to_owned()))?;
            match leaves.iter_mut().find(|(name, _)| *name == leaf) {
                Some((_, members)) => members.push(index),
                None => leaves.push((leaf, vec![index])),
            }
        }
        Ok(leaves.into_iter().flat_map(|(_, members)| members).collect())
    }
}

/// A leaf and its lists of hosts; none for an empty line or a switch above the leaves. The outer
/// none is for what is neither form.
fn entry(line: &str) -> Option<Option<(&str, Vec<&str>)>> {
    if line.is_empty() {
        return Some(None);
    }
    if line.contains('=') {
        let value = |key: &str| {
            line.split_whitespace().find_map(|word| {
                let (name, value) = word.split_once('=')?;
                name.eq_ignore_ascii_case(key).then_some(value)
            })
        };
        let leaf = value("SwitchName")?;
        return match (value("Nodes"), value("Switches")) {
            (Some(nodes), _) => Some(Some((leaf, vec![nodes]))),
            (None, Some(_)) => Some(None),
            (None, None) => None,
        };
    }
    let (leaf, names) = line.split_once(':')?;
    let leaf = leaf.trim();
    let names: Vec<&str> = names
        .split_whitespace()
        .map(|name| name.trim_matches(','))
        .filter(|n| !n.is_empty())
        .collect();
    (!leaf.is_empty() && !leaf.contains(' ') && !names.is_empty()).then_some(Some((leaf, names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_are_read_as_slurm_writes_them() {
        assert_eq!(hosts("node-a").unwrap(), ["node-a"]);
        let list = hosts("node[01-03,07],gpu1,r[1-2]n[9-10]").unwrap();
        let want =
            "node01 node02 node03 node07 gpu1 r1n9 r1n10 r2n9 r2n10".split(' ').collect::<Vec<_>>();
        assert_eq!(list, want);
        for text in ["", "a,", "a b", "a[1", "a]1", "a[]", "a[x]", "a[3-1]", "a[[1]]", "a;b"] {
            let error = hosts(text).unwrap_err().to_string();
            assert!(error.contains("node[01-16,20]"), "{text}: {error}");
        }
        assert!(hosts("a[1-9][1-9999][1-9999]").unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn both_forms_of_a_file_say_the_same() {
        let own = "# racks\nleaf1: n01 n02, n03\n\nleaf2: n[04-05]  # half full\n";
        let slurm = "SwitchName=leaf1 Nodes=n[01-03]\nSwitchName=leaf2 Nodes=n04,n05\n\
                     SwitchName=spine Switches=leaf[1-2]\n";
        let leaves = Leaves::parse(own).unwrap();
        assert_eq!(leaves, Leaves::parse(slurm).unwrap());
        assert_eq!(leaves.of("n02.cluster.example"), Some("leaf1"));
        assert_eq!((leaves.of("n05#2"), leaves.of("n06")), (Some("leaf2"), None));
    }

    #[test]
    fn hosts_of_a_leaf_stand_together() {
        let leaves = Leaves::parse("x: a c e\ny: b d\n").unwrap();
        assert_eq!(leaves.order(&["b", "a", "d", "c", "b#2"]).unwrap(), [0, 2, 4, 1, 3]);
        let error = leaves.order(&["a", "z"]).unwrap_err();
        assert_eq!(error.to_string(), "no leaf is named for z: add it to the file");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        for (text, words) in [
            ("leaf1 a b", "line 1"),
            ("\nleaf1:", "line 2"),
            (": a", "line 1"),
            ("Nodes=a", "line 1"),
            ("SwitchName=x", "line 1"),
            ("x: a\ny: a", "a hangs on x and on y"),
            ("x: a[", "is no list of hosts"),
        ] {
            let error = Leaves::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
