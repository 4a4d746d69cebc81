//! Exit codes as Nagios reads them, when `--nagios` is given.

use std::ffi::OsStr;

use fabbench_reports::model::Status;
use fabbench_reports::nagios::{self, State};

use super::{CommandError, ExitCode};

/// Whether Nagios is to read what happens; asked of the bare words, since they may be wrong.
pub fn asked() -> bool {
    std::env::args_os().any(|word| word == OsStr::new("--nagios"))
}

/// What a verdict, and the exit code that people get for it, is to Nagios.
pub fn state(status: Status, code: ExitCode) -> State {
    match code {
        ExitCode::PASS if status == Status::Warn => State::Warning,
        ExitCode::PASS => State::Ok,
        ExitCode::FAIL => State::Critical,
        _ => State::Unknown,
    }
}

/// Tells why there is no result, on stdout, which is all that Nagios reads.
pub fn tell(error: &CommandError) -> ExitCode {
    println!("{}", nagios::error(&error.message));
    ExitCode(State::Unknown.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_never_ok() {
        assert_eq!(state(Status::Pass, ExitCode::PASS).code(), 0);
        assert_eq!(state(Status::Warn, ExitCode::PASS).code(), 1);
        assert_eq!(state(Status::Warn, ExitCode::FAIL).code(), 2, "--fail-on warn");
        assert_eq!(state(Status::Fail, ExitCode::FAIL).code(), 2);
        assert_eq!(state(Status::Incomplete, ExitCode::INCOMPLETE).code(), 3);
        assert_eq!(state(Status::Pass, ExitCode::INTERRUPTED).code(), 3);
    }
}
