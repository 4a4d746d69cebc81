//! Saved reports: read from files and directories.

use std::fs;
use std::path::{Path, PathBuf};

use fabbench_reports::json;
use fabbench_reports::model::Report;
use fabbench_reports::redact::Redactor;

use super::CommandError;

/// Largest file that is read as a report.
const LARGEST: u64 = 1 << 30;

/// The name of a file and its report.
pub type Saved = (String, Report);

/// The same, as the harness takes it.
pub fn borrowed(reports: &[Saved]) -> Vec<(&str, &Report)> {
    reports.iter().map(|(name, report)| (name.as_str(), report)).collect()
}

/// The reports of files, and every report in a directory.
///
/// # Errors
///
/// What cannot be read, by its name.
pub fn reports(paths: &[PathBuf]) -> Result<Vec<Saved>, CommandError> {
    let mut reports = Vec::new();
    for path in paths {
        if path.is_dir() {
            reports.extend(in_directory(path)?);
        } else {
            reports.push(read(path)?);
        }
    }
    Ok(reports)
}

/// Every `*.json` in the directory that is a report, by name; other JSON is passed over aloud.
fn in_directory(dir: &Path) -> Result<Vec<Saved>, CommandError> {
    let unreadable = |e: &dyn std::fmt::Display| {
        CommandError::usage(format!("read directory: {}: {e}", dir.display()))
    };
    let entries = fs::read_dir(dir).map_err(|e| unreadable(&e))?;
    let mut paths: Vec<PathBuf> = entries
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unreadable(&e))?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut reports = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(report) => reports.push(report),
            // A damaged report must not silently weaken the verdict.
            Err(error) => eprintln!("fabbench: passed over: {error}"),
        }
    }
    if reports.is_empty() {
        return Err(unreadable(&"holds no report (*.json); give what --json=FILE or --out wrote"));
    }
    Ok(reports)
}

/// The report in a file.
///
/// # Errors
///
/// What is wrong with it.
pub fn read(path: &Path) -> Result<Saved, CommandError> {
    let usage = |e: &dyn std::fmt::Display| {
        CommandError::usage(format!("read report: {}: {e}", path.display()))
    };
    let size = fs::metadata(path).map_err(|e| usage(&e))?.len();
    if size > LARGEST {
        return Err(usage(&"more than 1 GiB: no report is as large; give the JSON report"));
    }
    let text = fs::read_to_string(path).map_err(|e| usage(&e))?;
    let report = json::read(&text).map_err(|e| usage(&e))?;
    Ok((path.display().to_string(), report))
}

/// Takes the names out of all reports; the same name gets the same substitute in each.
pub fn redact<'a>(reports: impl Iterator<Item = &'a mut Saved>) -> Result<(), CommandError> {
    let mut redactor = Redactor::default();
    for (name, report) in reports {
        *report = redactor
            .report(report)
            .map_err(|e| CommandError::incomplete(format!("redact report: {name}: {e}")))?;
        *name = redactor.text(name);
    }
    Ok(())
}
