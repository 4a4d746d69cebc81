//! Ctrl-C and its like, as a flag.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Set once the user (SIGINT) or the system (SIGTERM, SIGHUP) wants an end.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches the signals from now on. The first one sets the flag; a second one ends the process
    /// at once with status 130: agents then end by themselves, since their connection closes.
    ///
    /// # Errors
    /// When the system does not let signals be watched.
    pub fn install() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order counts: the flag is still clear when the first signal passes here.
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Interrupt(flag))
    }

    /// True once a signal came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Behaves as if a signal had come.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself, for loops that look at one.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// A flag that SIGUSR1 sets: the user wants to know how far things are.
///
/// # Errors
/// When the system does not let the signal be watched.
pub fn state_wanted() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, flag.clone())?;
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_only_noted() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.is_set());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(interrupt.is_set());
    }
}
