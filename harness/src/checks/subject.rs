//! How a check is written down: what it is about, what was read, what that means.

use fabbench_reports::model::{Check, Device, Port, Status};

use crate::facts::view::View;
use crate::rails::Party;
use crate::snapshot::{HostFacts, ToolFact};

/// One host, to be looked at.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub party: Party<'a>,
    pub view: View<'a>,
}

impl<'a> Subject<'a> {
    pub fn new(party: &Party<'a>) -> Self {
        Subject { party: *party, view: View::new(&party.facts.snapshot) }
    }

    pub fn facts(&self) -> &'a HostFacts {
        self.party.facts
    }

    /// The name typed.
    pub fn name(&self) -> &'a str {
        &self.party.host.name
    }

    /// A check of the host as a whole.
    pub fn of_host(&self, id: &str, wanted: &str) -> Draft {
        self.about(id, self.name().to_owned(), wanted)
    }

    /// A check of an adapter.
    pub fn of_device(&self, id: &str, device: &Device, wanted: &str) -> Draft {
        self.about(id, format!("{}/{}", self.name(), device.name), wanted)
    }

    /// A check of a port.
    pub fn of_port(&self, id: &str, device: &Device, port: &Port, wanted: &str) -> Draft {
        self.about(id, format!("{}/{}:{}", self.name(), device.name, port.port), wanted)
    }

    fn about(&self, id: &str, object: String, wanted: &str) -> Draft {
        let (host, wanted) = (self.name().to_owned(), wanted.to_owned());
        Draft(Check {
            id: id.to_owned(),
            host,
            object,
            status: Status::Unknown,
            found: String::new(),
            wanted,
            remedy: String::new(),
        })
    }

    /// Text of a file, or why there is none.
    pub fn read(&self, path: &str) -> Result<&'a str, String> {
        match (self.view.text(path), self.view.errno(path)) {
            (Some(text), _) => Ok(text),
            (None, Some(1 | 13)) => Err(format!("{path} cannot be read: needs root")),
            (None, Some(errno)) => Err(format!("{path} cannot be read: errno {errno}")),
            (None, None) => Err(format!("{path} is not there")),
        }
    }

    /// Number in a file, or why there is none.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Result<T, String> {
        let text = self.read(path)?;
        let first = text.split_whitespace().next().unwrap_or_default();
        first.parse().map_err(|_| format!("{path} holds {}", quoted(text)))
    }

    /// What a tool printed, or why it did not.
    pub fn tool(&self, command: &str) -> Result<&'a str, String> {
        let name = command.split_whitespace().next().unwrap_or_default();
        match self.facts().tools.get(command) {
            Some(ToolFact::Output(text)) => Ok(text),
            Some(ToolFact::Absent) => Err(format!("{name} is not installed")),
            Some(ToolFact::Failed(why)) => Err(format!("{command}: {}", quoted(why))),
            None => Err(format!("{command} was not run")),
        }
    }

    /// Whether an agent ran on the host; a captured tree of files answers no calls.
    pub fn was_asked(&self) -> bool {
        !self.facts().calls.kernel.is_empty()
    }
}

/// The first words of a text that nobody expected.
fn quoted(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    format!("{short:?}")
}

/// A check without its verdict.
pub(super) struct Draft(Check);

impl Draft {
    fn end(self, status: Status, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { status, found: found.into(), remedy: remedy.into(), ..self.0 }
    }

    /// As it should be.
    pub fn pass(self, found: impl Into<String>) -> Check {
        self.end(Status::Pass, found, "")
    }

    /// Worth a look.
    pub fn warn(self, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        self.end(Status::Warn, found, remedy)
    }

    /// Not as it should be.
    pub fn fail(self, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        self.end(Status::Fail, found, remedy)
    }

    /// Could not be seen.
    pub fn unknown(self, why: impl Into<String>) -> Check {
        self.end(Status::Unknown, why, "")
    }

    /// Seen, and nothing is expected of it.
    pub fn told(self, found: impl Into<String>) -> Check {
        self.end(Status::Unjudged, found, "")
    }

    /// Does not concern this object.
    pub fn beside(self, why: impl Into<String>) -> Check {
        self.end(Status::NotApplicable, why, "")
    }

    /// With another wish than it was begun with.
    pub fn wanting(mut self, wanted: String) -> Draft {
        self.0.wanted = wanted;
        self
    }
}
