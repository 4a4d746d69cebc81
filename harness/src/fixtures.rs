//! Hosts from `tests/fixtures` and `tests/hosts`, for the unit tests.

use crate::snapshot::{Entry, HostFacts, ToolFact};

/// The host in `tests/fixtures/NAME.json`.
pub(crate) fn read(name: &str) -> HostFacts {
    let text = file(&format!("tests/fixtures/{name}.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The host in `tests/hosts/NAME.tree`, as a captured tree: no agent was asked.
pub(crate) fn tree(name: &str) -> HostFacts {
    let mut facts = HostFacts::default();
    for line in file(&format!("tests/hosts/{name}.tree")).lines() {
        edit(&mut facts, line);
    }
    facts
}

/// The same, with an agent that may use every processor.
pub(crate) fn asked(name: &str) -> HostFacts {
    let mut facts = tree(name);
    facts.calls.kernel = "5.15.0".into();
    facts.calls.hostname = "gpu01".into();
    facts.calls.cpus = vec![0, 1, 2, 3];
    facts
}

/// Applies one line of a tree; `tests/hosts/README.md` has its forms.
pub(crate) fn edit(facts: &mut HostFacts, line: &str) {
    let entries = &mut facts.snapshot.entries;
    let text = |text: &str| text.replace("; ", "\n") + "\n";
    if let Some(name) = line.strip_prefix("from ") {
        *facts = tree(name);
    } else if let Some(prefix) = line.strip_prefix("- tool ") {
        facts.tools.retain(|command, _| !command.starts_with(prefix));
    } else if let Some(prefix) = line.strip_prefix("- ") {
        entries.retain(|path, _| !path.starts_with(prefix));
    } else if let Some((command, output)) =
        line.strip_prefix("tool ").and_then(|l| l.split_once(" = "))
    {
        facts.tools.insert(command.to_owned(), ToolFact::Output(text(output)));
    } else if let Some((path, target)) = line.split_once(" -> ") {
        entries.insert(path.to_owned(), Entry::Link(target.to_owned()));
    } else if let Some((path, errno)) = line.split_once(" ! ") {
        entries.insert(path.to_owned(), Entry::Error(errno.parse().unwrap()));
    } else if let Some((path, content)) = line.split_once(" = ") {
        entries.insert(path.to_owned(), Entry::Text(text(content)));
    } else if let Some((path, names)) = line.split_once(" /") {
        let names = names.split_whitespace().map(str::to_owned).collect();
        entries.insert(path.to_owned(), Entry::Dir(names));
    } else {
        assert!(line.is_empty() || line.starts_with('#'), "no form of a tree: {line}");
    }
}

fn file(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
