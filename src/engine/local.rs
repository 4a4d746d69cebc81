//! A [`Peer`] within one process: both ends of a case in two threads.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::engine::{Note, Peer};
use crate::transport::{Failure, FailureKind, Result};

/// One end of a link within this process.
#[derive(Debug)]
pub struct LocalPeer {
    tell: Sender<Note>,
    hear: Receiver<Note>,
}

/// Both ends of a link within this process.
pub fn link() -> (LocalPeer, LocalPeer) {
    let (to_b, from_a) = channel();
    let (to_a, from_b) = channel();
    (LocalPeer { tell: to_b, hear: from_b }, LocalPeer { tell: to_a, hear: from_a })
}

impl Peer for LocalPeer {
    fn tell(&mut self, note: &Note) -> Result<()> {
        self.tell.send(note.clone()).map_err(|_| closed("tell"))
    }

    fn hear(&mut self, wait: Duration) -> Result<Option<Note>> {
        if wait.is_zero() {
            return match self.hear.try_recv() {
                Ok(note) => Ok(Some(note)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(closed("hear")),
            };
        }
        match self.hear.recv_timeout(wait) {
            Ok(note) => Ok(Some(note)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(closed("hear")),
        }
    }
}

fn closed(operation: &str) -> Failure {
    Failure::new(FailureKind::PeerLost, operation, "local peer", "the other end has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_arrive_in_order_and_an_ended_peer_is_lost() {
        let (mut a, mut b) = link();
        a.tell(&Note::Ping).unwrap();
        a.tell(&Note::Ready { repeat: 3 }).unwrap();
        assert_eq!(b.hear(Duration::ZERO).unwrap(), Some(Note::Ping));
        drop(a);
        assert_eq!(b.hear(Duration::from_secs(1)).unwrap(), Some(Note::Ready { repeat: 3 }));
        assert_eq!(b.hear(Duration::ZERO).unwrap_err().kind, FailureKind::PeerLost);
        assert_eq!(b.tell(&Note::Ping).unwrap_err().kind, FailureKind::PeerLost);
    }
}
