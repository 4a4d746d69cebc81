//! What a person sees while it runs, on stderr: a live line on a terminal, a line per finished
//! case in a log. Written only between cases and repeats, never on a timer, so that nothing is
//! drawn inside a timed window that this host takes part in.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use fabbench_reports::text::printable;

/// Progress of a run.
pub struct Progress {
    live: bool,
    shown: bool,
    silent: bool,
    total: usize,
    finished: usize,
    estimate: Duration,
    began: Instant,
}

impl Progress {
    /// Progress over `total` cases that take about `estimate`; `silent` shows warnings alone.
    pub fn new(total: usize, estimate: Duration, silent: bool) -> Progress {
        let live = std::io::stderr().is_terminal() && !silent;
        Progress { live, shown: false, silent, total, finished: 0, estimate, began: Instant::now() }
    }

    /// A line that stays.
    pub fn say(&mut self, text: &str) {
        if !self.silent {
            self.print_line(text);
        }
    }

    /// A warning: stays, also when silent.
    pub fn warn(&mut self, text: &str) {
        self.print_line(&format!("warning: {text}"));
    }

    /// A line that the user has asked for: stays, also when silent.
    pub fn answer(&mut self, text: &str) {
        self.print_line(text);
    }

    /// What is being measured now, and what remains; replaces itself on a terminal.
    pub fn now(&mut self, what: &str) {
        if self.live {
            let left = self.estimate.saturating_sub(self.began.elapsed()).as_secs();
            let line = format!("[{}/{}] {what}, about {left} s left", self.finished, self.total);
            let width = terminal_width();
            let line: String = printable(&line).chars().take(width.saturating_sub(1)).collect();
            eprint!("\r\x1b[2K{line}");
            let _ = std::io::stderr().flush();
            self.shown = true;
        }
    }

    /// A result, with how many cases were over before its group.
    pub fn result(&mut self, result: &str) {
        let line = format!("[{}/{}] {result}", self.finished + 1, self.total);
        self.say(&line);
    }

    /// So many more cases than were planned.
    pub fn more(&mut self, count: usize) {
        self.total += count;
    }

    /// So many more cases are over.
    pub fn cases_over(&mut self, count: usize) {
        self.finished += count;
    }

    /// Removes the live line.
    pub fn clear(&mut self) {
        if self.shown {
            eprint!("\r\x1b[2K");
            let _ = std::io::stderr().flush();
            self.shown = false;
        }
    }

    /// Clears the live line and prints `text` above the next.
    fn print_line(&mut self, text: &str) {
        self.clear();
        eprintln!("{}", printable(text));
    }
}

/// Columns of the terminal at stderr; 80 when unknown.
pub fn terminal_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|&columns| columns > 0)
        .unwrap_or(80)
}
