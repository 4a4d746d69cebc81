//! An agent on standard input and output, as a coordinator starts it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::{CaseRunner, Ended, serve};
use crate::session::frame::{CONTROL_LIMIT, FrameReader, FrameWriter};

/// Beginning of the name of the directory into which a coordinator copies its binary.
pub const PUSH_PREFIX: &str = "fabbench-push-";

/// Serves the one session named `session` on standard input and output.
///
/// Standard output afterwards leads to standard error, so that a stray print cannot corrupt the
/// protocol.
///
/// # Errors
/// When the descriptors cannot be taken over.
pub fn serve_stdio(session: &str, runner: Arc<dyn CaseRunner>) -> io::Result<Ended> {
    let (input, output) = take_over()?;
    let reader = FrameReader::new(input, CONTROL_LIMIT)?;
    let writer = FrameWriter::new(output, CONTROL_LIMIT)?;
    Ok(serve(reader, writer, session, runner))
}

/// Removes this process's executable and its directory, if that is one made for it by `--push`.
///
/// # Errors
/// When the file is not in such a directory or cannot be removed.
pub fn remove_self() -> io::Result<()> {
    let executable = std::fs::read_link("/proc/self/exe")?;
    remove_pushed(&executable)
}

fn remove_pushed(executable: &Path) -> io::Result<()> {
    let directory = executable.parent().unwrap_or(Path::new("/"));
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.starts_with(PUSH_PREFIX) {
        let text = format!("{} was not copied by --push", executable.display());
        return Err(io::Error::other(text));
    }
    std::fs::remove_file(executable)?;
    std::fs::remove_dir(directory)
}

/// Private copies of standard input and output; the numbers 0 and 1 lead elsewhere afterwards.
fn take_over() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pushed_copy_removes_itself() {
        let place = tempfile::tempdir().unwrap();
        let pushed = place.path().join(format!("{PUSH_PREFIX}abc"));
        let installed = place.path().join("bin");
        for directory in [&pushed, &installed] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("fabbench"), "x").unwrap();
        }
        remove_pushed(&pushed.join("fabbench")).unwrap();
        assert!(!pushed.exists());
        let error = remove_pushed(&installed.join("fabbench")).unwrap_err().to_string();
        assert!(error.contains("was not copied by --push"), "{error}");
        assert!(installed.join("fabbench").exists());
    }
}
