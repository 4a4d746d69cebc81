//! Files that appear when they are complete, and paths that are told unwritable beforehand.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::CommandError;

/// Where a target is written.
pub enum Place {
    /// Beside its path; it appears there when it is complete.
    Beside(NamedTempFile),
    /// Straight into what is there and is no regular file (a pipe, a terminal, /dev/null): to put
    /// a file in its place would destroy it.
    Into(File),
}

impl Place {
    /// Opens what is needed so that writing to `path` later can only fail for lack of room.
    ///
    /// # Errors
    ///
    /// When the path cannot be written.
    pub fn open(path: &Path) -> Result<Place, CommandError> {
        if !is_special(path) {
            return temporary(path).map(Place::Beside);
        }
        let file = OpenOptions::new().write(true).open(path);
        file.map(Place::Into).map_err(|e| unwritable("open report", path, &e))
    }

    /// Writes all of `text`; only then the file appears at `path`, which was opened with it.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn fill(self, path: &Path, text: &str) -> Result<(), CommandError> {
        let written = match self {
            Place::Into(mut file) => file.write_all(text.as_bytes()),
            Place::Beside(file) => complete(file, path, text),
        };
        written.map_err(|e| {
            let (path, cause) = (path.display(), cause(&e));
            CommandError::incomplete(format!("write report: {path}: {cause}"))
        })
    }
}

/// Writes all of `text`, then lets the file appear at `path`; a symbolic link there stays one.
fn complete(mut file: NamedTempFile, path: &Path, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(real(path))?;
    Ok(())
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
pub fn is_special(path: &Path) -> bool {
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

/// A directory cannot become a report: an error of usage.
pub fn refuse_directory(option: &str, path: &Path) -> Result<(), CommandError> {
    if path.is_dir() {
        return Err(CommandError::usage(format!(
            "{option}={}: is a directory; name a file, or use --out for a directory",
            path.display()
        )));
    }
    Ok(())
}

/// Told before the run.
pub fn unwritable(operation: &str, path: &Path, error: &io::Error) -> CommandError {
    CommandError::usage(format!(
        "{operation}: {}: {}; nothing was measured: choose a path that can be written",
        path.display(),
        cause(error)
    ))
}
