//! One agent as both ends of a case: a port against itself.

use std::time::Duration;

use super::group::Agents;
use crate::session::protocol::{CaseId, ToAgent, ToCoordinator};
use crate::session::{Event, HostFailure, Wait};

/// Set in the number that the second end of a case has at the agent, which tells them apart by it.
const SECOND: CaseId = 1 << 31;

/// Stands for two agents towards a group, and talks to one.
pub struct Folded<'a> {
    /// All agents of the run.
    pub agents: &'a dyn Agents,
    /// The host whose agent is both.
    pub host: usize,
}

impl Agents for Folded<'_> {
    fn send(&self, end: usize, message: &ToAgent) -> Result<(), HostFailure> {
        match (end, message) {
            // It tells of both ends at once.
            (1, ToAgent::Look) => Ok(()),
            (1, message) => self.agents.send(self.host, &numbered(message.clone())),
            _ => self.agents.send(self.host, message),
        }
    }

    fn wait(&self, patience: Duration) -> Wait {
        self.by_end(self.agents.wait(patience))
    }

    fn wait_on(&self, patience: Duration) -> Wait {
        self.by_end(self.agents.wait_on(patience))
    }
}

impl Folded<'_> {
    /// What the agent says, as said by the end that it is about.
    fn by_end(&self, wait: Wait) -> Wait {
        match wait {
            Wait::Event(host, Event::Message(mut message)) if host == self.host => {
                let end = end_of(&mut message);
                Wait::Event(end, Event::Message(message))
            }
            Wait::Event(host, event) if host == self.host => Wait::Event(0, event),
            // The other host takes no part; that it is gone is seen before the next group.
            Wait::Event(..) => Wait::TimedOut,
            other => other,
        }
    }
}

/// A message about the second end, as the agent numbers it.
fn numbered(mut message: ToAgent) -> ToAgent {
    match &mut message {
        ToAgent::Prepare(prepare) => prepare.case |= SECOND,
        ToAgent::Go(ids) => ids.iter_mut().for_each(|id| *id |= SECOND),
        ToAgent::Stop(id) => *id |= SECOND,
        _ => {}
    }
    message
}

/// Which end a message is about; the number becomes that of the case.
fn end_of(message: &mut ToCoordinator) -> usize {
    let case = match message {
        ToCoordinator::Listening { case, .. }
        | ToCoordinator::Ready { case }
        | ToCoordinator::Tick { case, .. }
        | ToCoordinator::Progress { case, .. }
        | ToCoordinator::Row { case, .. }
        | ToCoordinator::Done { case, .. }
        | ToCoordinator::Failed { case, .. } => case,
        ToCoordinator::Hello(_) | ToCoordinator::Facts(_) | ToCoordinator::Heartbeat => return 0,
    };
    let end = usize::from(*case & SECOND != 0);
    *case &= !SECOND;
    end
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Keeps what it is sent; its waits end with what was put in.
    #[derive(Default)]
    struct One {
        sent: RefCell<Vec<(usize, String)>>,
        waits: RefCell<Vec<Wait>>,
    }

    impl Agents for One {
        fn send(&self, host: usize, message: &ToAgent) -> Result<(), HostFailure> {
            self.sent.borrow_mut().push((host, format!("{message:?}")));
            Ok(())
        }

        fn wait(&self, _: Duration) -> Wait {
            self.waits.borrow_mut().pop().unwrap_or(Wait::TimedOut)
        }

        fn wait_on(&self, patience: Duration) -> Wait {
            self.wait(patience)
        }
    }

    #[test]
    fn both_ends_have_numbers_of_their_own_at_one_agent() {
        let one = One::default();
        let folded = Folded { agents: &one, host: 1 };
        for end in [0, 1] {
            folded.send(end, &ToAgent::Go(vec![7])).unwrap();
            folded.send(end, &ToAgent::Look).unwrap();
        }
        let go = |id: CaseId| (1, format!("Go([{id}])"));
        assert_eq!(*one.sent.borrow(), [go(7), (1, "Look".into()), go(7 | SECOND)]);
    }

    #[test]
    fn answers_come_back_from_the_end_that_they_are_about() {
        let one = One::default();
        let folded = Folded { agents: &one, host: 1 };
        for (host, number, end) in [(1, 7, Some(0)), (1, 7 | SECOND, Some(1)), (0, 7, None)] {
            let ready = Event::Message(ToCoordinator::Ready { case: number });
            one.waits.borrow_mut().push(Wait::Event(host, ready));
            let heard = match folded.wait(Duration::ZERO) {
                Wait::Event(end, Event::Message(ToCoordinator::Ready { case: 7 })) => Some(end),
                _ => None,
            };
            assert_eq!(heard, end);
        }
    }
}
