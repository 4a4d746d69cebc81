//! The sending end of a control connection, shared by several threads.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::HEARTBEAT;
use super::frame::{FrameError, FrameWriter};

/// How long the other side may take no message before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A shared writer of messages.
#[derive(Debug)]
pub struct Outlet(Mutex<Option<FrameWriter>>);

impl Outlet {
    /// Shares `writer`.
    pub fn new(writer: FrameWriter) -> Self {
        Outlet(Mutex::new(Some(writer)))
    }

    /// Sends a message within 5 s.
    ///
    /// # Errors
    /// As [`FrameWriter::send`]; the connection is of no use then.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), FrameError> {
        // A writer that failed half-way knows that it is broken.
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match writer.as_mut() {
            Some(writer) => writer.send(message, Instant::now() + PATIENCE),
            None => Err(FrameError::Closed),
        }
    }

    /// Closes the sending end: the other side reads what was sent, then the end of the stream.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Sends `heartbeat` every two seconds until what this returns is dropped.
pub fn beat<T: Serialize + Send + 'static>(outlet: Arc<Outlet>, heartbeat: T) -> Sender<()> {
    let (stop, stopped) = channel();
    std::thread::spawn(move || {
        while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
            if outlet.send(&heartbeat).is_err() {
                return;
            }
        }
    });
    stop
}
