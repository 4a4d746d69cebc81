//! Where results go: checked before the run, written as they come, completed at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fabbench_reports::model::{Measurement, Report};
use fabbench_reports::text::{self, Options};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::cli::OutputArgs;
use crate::commands::CommandError;

/// Open targets of one run.
pub struct Outputs {
    files: Vec<Target>,
    json_on_stdout: bool,
    journal: Option<Journal>,
}

/// One form of the report on its way to a path.
struct Target {
    path: PathBuf,
    form: Form,
    place: Place,
}

/// Where a target is written.
enum Place {
    /// Beside its path; it appears there when it is complete.
    Beside(NamedTempFile),
    /// Straight into what is there and is no regular file (a pipe, a terminal, /dev/null): to put
    /// a file in its place would destroy it.
    Into(File),
}

/// What a target holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Text,
}

/// Measurements so far, one JSON document a line.
struct Journal {
    path: PathBuf,
    file: File,
    keep: bool,
    failed: bool,
    empty: bool,
}

impl Drop for Journal {
    /// A run that measured nothing leaves no empty file.
    fn drop(&mut self) {
        if self.empty {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Outputs {
    /// Creates directories and temporary files next to every target, so that an unwritable path is
    /// told before anything is measured.
    pub fn prepare(args: &OutputArgs) -> Result<Outputs, CommandError> {
        let mut wanted: Vec<(PathBuf, Form)> = Vec::new();
        let mut journal = None;
        let json_on_stdout = args.json.as_deref() == Some(Path::new("-"));
        if let (Some(path), false) = (&args.json, json_on_stdout) {
            refuse_directory(path)?;
            wanted.push((path.clone(), Form::Json));
            journal = (!is_special(path)).then(|| (sibling(path, ".journal.jsonl"), false));
        }
        if let Some(dir) = &args.out {
            fs::create_dir_all(dir).map_err(|e| unwritable("create directory", dir, &e))?;
            wanted.push((dir.join("report.json"), Form::Json));
            wanted.push((dir.join("report.txt"), Form::Text));
            journal = Some((dir.join("journal.jsonl"), true));
        }
        let files = wanted
            .into_iter()
            .map(|(path, form)| Ok(Target { place: Place::open(&path)?, path, form }))
            .collect::<Result<_, CommandError>>()?;
        let journal = journal.map(|(path, keep)| Journal::create(path, keep)).transpose()?;
        Ok(Outputs { files, json_on_stdout, journal })
    }

    /// True when stdout must hold the JSON report and nothing else.
    pub fn json_on_stdout(&self) -> bool {
        self.json_on_stdout
    }

    /// Appends a measurement to the journal. A full disk is told once and does not end the run.
    pub fn note(&mut self, measurement: &Measurement) {
        if let Some(journal) = &mut self.journal {
            journal.append(measurement);
        }
    }

    /// Writes every target under a temporary name and renames it; the journal of a single JSON
    /// file is removed once that file is complete.
    pub fn complete(mut self, report: &Report) -> Result<(), CommandError> {
        let mut first_error = None;
        for target in self.files.drain(..) {
            if let Err(error) = target.write(report) {
                first_error.get_or_insert(error);
            }
        }
        match (first_error, self.journal) {
            (None, Some(journal)) if !journal.keep => {
                let _ = fs::remove_file(&journal.path);
                Ok(())
            }
            (None, _) => Ok(()),
            (Some(error), Some(journal)) => {
                let path = journal.path.display();
                let all = if journal.failed {
                    "as many measurements as fitted"
                } else {
                    "the measurements"
                };
                Err(CommandError::incomplete(format!("{error}; {all} are in {path}")))
            }
            (Some(error), None) => Err(error),
        }
    }
}

impl Target {
    /// Renders, writes, renames.
    fn write(self, report: &Report) -> Result<(), CommandError> {
        let text = match self.form {
            Form::Json => fabbench_reports::json::write(report)
                .map_err(|e| CommandError::incomplete(format!("write report: {e}")))?,
            Form::Text => text::report(report, &Options { explain: true, ..Options::default() }),
        };
        let written = match self.place {
            Place::Into(mut file) => file.write_all(text.as_bytes()),
            Place::Beside(file) => complete(file, &self.path, &text),
        };
        written.map_err(|e| {
            let (path, cause) = (self.path.display(), cause(&e));
            CommandError::incomplete(format!("write report: {path}: {cause}"))
        })
    }
}

impl Place {
    /// Opens what is needed so that writing to `path` later can only fail for lack of room.
    fn open(path: &Path) -> Result<Place, CommandError> {
        if !is_special(path) {
            return temporary(path).map(Place::Beside);
        }
        let file = OpenOptions::new().write(true).open(path);
        file.map(Place::Into).map_err(|e| unwritable("open report", path, &e))
    }
}

/// Writes all of `text`, then lets the file appear at `path`; a symbolic link there stays one.
fn complete(mut file: NamedTempFile, path: &Path, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(real(path))?;
    Ok(())
}

impl Journal {
    /// Starts an empty journal.
    fn create(path: PathBuf, keep: bool) -> Result<Journal, CommandError> {
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| unwritable("create journal", &path, &e))?;
        Ok(Journal { path, file, keep, failed: false, empty: true })
    }

    /// Appends one document as a line.
    fn append(&mut self, document: &impl Serialize) {
        let Ok(mut line) = serde_json::to_string(document) else { return };
        line.push('\n');
        self.empty = false;
        if let (Err(error), false) = (self.file.write_all(line.as_bytes()), self.failed) {
            self.failed = true;
            eprintln!(
                "fabbench: append to journal: {}: {error}; measuring goes on, make room before the \
                 report is written",
                self.path.display()
            );
        }
    }
}

/// A temporary file beside `path`, readable like a file that the user's own shell makes.
fn temporary(path: &Path) -> Result<NamedTempFile, CommandError> {
    use std::os::unix::fs::PermissionsExt;
    let path = &real(path);
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".fabbench-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(|e| unwritable("create report", path, &e))
}

/// Whether something is there that is neither a regular file nor a directory.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// What a symbolic link leads to, where something is there; else the path itself.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// An error without the temporary name that it happened to, which the crate tempfile appends.
fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" at path ").next().unwrap_or_default().to_owned()
}

/// `path` with something added to its name.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// A directory cannot become a report.
fn refuse_directory(path: &Path) -> Result<(), CommandError> {
    if path.is_dir() {
        return Err(CommandError::usage(format!(
            "--json={}: is a directory; name a file, or use --out for a directory",
            path.display()
        )));
    }
    Ok(())
}

/// Told before the run.
fn unwritable(operation: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::usage(format!(
        "{operation}: {}: {}; nothing was measured: choose a path that can be written",
        path.display(),
        cause(error)
    ))
}
