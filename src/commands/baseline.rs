//! `fabbench baseline add|list|show`: reports kept to hold later runs against.
//!
//! Plain files: a directory a baseline, in it the reports as they were written, named by their start.

use std::fs;
use std::path::{Path, PathBuf};

use fabbench_harness::compare::FIRM_RUNS;
use fabbench_reports::json;
use fabbench_reports::model::{Report, Status};
use fabbench_reports::text::printable;

use super::files::Place;
use super::saved::{Saved, reports};
use super::{CommandError, ExitCode, print_page, trend};
use crate::cli::{BaselineAction, BaselineArgs, Color, StoreArgs};

/// Adds to, lists or shows the store.
pub fn run(args: &BaselineArgs) -> Result<ExitCode, CommandError> {
    match &args.action {
        BaselineAction::Add { files, name, store } => {
            add(&Store::open(store)?, files, name.as_deref())
        }
        BaselineAction::List { store } => list(&Store::open(store)?),
        BaselineAction::Show { name, explain, store } => show(&Store::open(store)?, name, *explain),
    }
}

/// The directory that holds the baselines; it need not be there.
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The store that was named, or this user's own.
    ///
    /// # Errors
    ///
    /// When none was named and the user has no home.
    pub fn open(args: &StoreArgs) -> Result<Store, CommandError> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let data = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/share"));
        let own = || data.or_else(home).map(|data| data.join("fabbench/baselines"));
        let root = args.store.clone().or_else(own).ok_or_else(|| {
            CommandError::usage("no HOME to keep baselines in: name a directory by --store".into())
        })?;
        Ok(Store { root })
    }

    /// Names of all baselines, sorted.
    pub fn names(&self) -> Result<Vec<String>, CommandError> {
        let unreadable = |e: &std::io::Error| {
            CommandError::usage(format!("read baselines: {}: {e}", self.root.display()))
        };
        let entries = match fs::read_dir(&self.root) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| unreadable(&e))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| unreadable(&e))?;
            if entry.path().is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The reports of a baseline.
    ///
    /// # Errors
    ///
    /// When there is none of that name, with those that there are.
    pub fn reports(&self, name: &str) -> Result<Vec<Saved>, CommandError> {
        let names = self.names()?;
        if !names.iter().any(|known| known == name) {
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(CommandError::usage(format!(
                "no baseline {name:?} in {}; there: {there}; fabbench baseline add FILE makes one",
                self.root.display()
            )));
        }
        reports(&[self.root.join(name)])
    }
}

/// Keeps every report under the name of its baseline.
fn add(store: &Store, files: &[PathBuf], name: Option<&str>) -> Result<ExitCode, CommandError> {
    let all = reports(files)?;
    if let Some((source, _)) = all.iter().find(|(_, report)| !report.complete) {
        return Err(CommandError::usage(format!(
            "{source}: the run ended early: a baseline needs whole runs; nothing was added"
        )));
    }
    let mut page = String::new();
    for (source, report) in &all {
        let name = name.map_or_else(|| name_of(report), slug);
        let dir = store.root.join(&name);
        let said = if keep(&dir, report)? { "added to" } else { "is already in" };
        let failed = report.verdict.status == Status::Fail;
        let failed = if failed {
            " (its verdict is fail: is that what later runs shall be like?)"
        } else {
            ""
        };
        page.push_str(&format!("{source} {said} {name}{failed}\n"));
    }
    print_page(&printable(&page))?;
    Ok(ExitCode::PASS)
}

/// Writes the report into the directory; false when it is there already.
fn keep(dir: &Path, report: &Report) -> Result<bool, CommandError> {
    fs::create_dir_all(dir)
        .map_err(|e| CommandError::usage(format!("create baseline: {}: {e}", dir.display())))?;
    let text = json::write(report)
        .map_err(|e| CommandError::usage(format!("write baseline: {}: {e}", dir.display())))?;
    let start = slug(&report.started);
    for number in 1.. {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = dir.join(format!("{start}{suffix}.json"));
        match fs::read_to_string(&path) {
            Ok(there) if there == text => return Ok(false),
            Ok(_) => {}
            Err(_) => {
                Place::open(&path)?.fill(&path, &text)?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn list(store: &Store) -> Result<ExitCode, CommandError> {
    let mut page = String::new();
    for name in store.names()? {
        let Ok(reports) = store.reports(&name) else { continue };
        let firm = if reports.len() >= FIRM_RUNS { "firm" } else { "not firm: fewer than 3 runs" };
        let starts = reports.iter().map(|(_, report)| report.started.as_str());
        let (first, last) = (starts.clone().min(), starts.max());
        page.push_str(&format!(
            "{name}: {} run{}, {firm}; {} to {}\n",
            reports.len(),
            if reports.len() == 1 { "" } else { "s" },
            first.unwrap_or_default(),
            last.unwrap_or_default()
        ));
    }
    if page.is_empty() {
        page = format!(
            "no baseline in {}; fabbench baseline add FILE makes one\n",
            store.root.display()
        );
    }
    print_page(&printable(&page))?;
    Ok(ExitCode::PASS)
}

fn show(store: &Store, name: &str, explain: bool) -> Result<ExitCode, CommandError> {
    let reports = store.reports(name)?;
    print_page(&trend::page(&trend::of(&reports), explain, Color::Auto))?;
    Ok(ExitCode::PASS)
}

/// `host-a+host-b--quick--ndr`: the same for runs that compare.
fn name_of(report: &Report) -> String {
    let hosts: Vec<String> = report.hosts.iter().map(|host| slug(&host.name)).collect();
    let hosts = match hosts.as_slice() {
        few if few.len() <= 4 => few.join("+"),
        many => format!("{}+{}-more", many[0], many.len() - 1),
    };
    format!("{hosts}--{}--{}", slug(&report.suite.name), slug(&report.profile.name))
}

/// A name that is a file's name everywhere and never leaves its directory.
fn slug(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '-' };
    let safe: String = name.chars().map(safe).take(100).collect();
    let safe = safe.trim_start_matches(['.', '-']);
    if safe.is_empty() { "unnamed".to_owned() } else { safe.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_store() {
        for name in ["../../etc/passwd", "..", "/", "a/b", ".hidden", "", "\u{1b}[31m", "-rf"] {
            let slug = slug(name);
            assert!(!slug.contains('/') && !slug.starts_with(['.', '-']) && !slug.is_empty());
        }
        assert_eq!(slug("2025-03-01T09:00:00Z"), "2025-03-01T09-00-00Z");
    }
}
