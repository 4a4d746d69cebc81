//! perftest's programs and options, as data.

use serde::Deserialize;

/// The table, beside this file.
const TABLE: &str = include_str!("options.toml");

/// perftest's programs that fabbench has a command for: name, command, operation.
const PROGRAMS: [(&str, Test, &str); 8] = [
    ("ib_send_lat", Test::Latency, "send"),
    ("ib_send_bw", Test::Bandwidth, "send"),
    ("ib_write_lat", Test::Latency, "write"),
    ("ib_write_bw", Test::Bandwidth, "write"),
    ("ib_read_lat", Test::Latency, "read"),
    ("ib_read_bw", Test::Bandwidth, "read"),
    ("ib_atomic_lat", Test::Latency, "fetch_add"),
    ("ib_atomic_bw", Test::Bandwidth, "fetch_add"),
];

/// What a program of perftest measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Time of one message.
    Latency,
    /// Payload per second.
    Bandwidth,
}

impl Test {
    /// The command of fabbench.
    pub fn command(self) -> &'static str {
        match self {
            Test::Latency => "lat",
            Test::Bandwidth => "bw",
        }
    }
}

/// A program of perftest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// As typed, without its directory.
    pub name: &'static str,
    /// What it measures.
    pub test: Test,
    /// Its operation as `--op` of fabbench takes it.
    pub op: &'static str,
}

impl Program {
    /// The program of this name or path.
    pub fn named(typed: &str) -> Option<Program> {
        let base = base_name(typed);
        PROGRAMS.into_iter().find(|(name, ..)| *name == base).map(|(name, test, op)| Program {
            name,
            test,
            op,
        })
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        PROGRAMS.iter().map(|(name, ..)| *name).collect()
    }

    /// Whether the option is one of this program's.
    pub fn has(&self, entry: &Entry) -> bool {
        let words = || self.name.split('_');
        let tests = |word: &&String| ["lat", "bw"].contains(&word.as_str());
        let (tests, ops): (Vec<_>, Vec<_>) = entry.only.iter().partition(tests);
        let fits = |wanted: &[&String]| {
            wanted.is_empty() || wanted.iter().any(|w| words().any(|word| word == w.as_str()))
        };
        fits(&tests) && fits(&ops)
    }
}

/// The last part of a path.
pub fn base_name(typed: &str) -> &str {
    typed.rsplit('/').next().unwrap_or(typed)
}

/// One or several options that fabbench answers alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// As typed, with their dashes.
    pub names: Vec<String>,
    /// Takes a value.
    #[serde(default)]
    pub value: bool,
    /// Words of the programs that know it (`lat`, `read`); none: all.
    #[serde(default)]
    pub only: Vec<String>,
    /// What it is in fabbench.
    pub kind: Kind,
    /// The flag that does it.
    pub flag: Option<String>,
    /// How the flag's value comes about.
    #[serde(default)]
    pub how: How,
    /// With it no command of fabbench measures the same.
    #[serde(default)]
    pub stops: bool,
    /// A sentence; of a flag what differs nevertheless.
    pub because: Option<String>,
}

/// What an option of perftest is in fabbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A flag does it.
    Flag,
    /// So anyway.
    Same,
    /// Otherwise.
    Differs,
    /// Nothing.
    None,
}

/// How the value of a flag comes about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// As typed.
    #[default]
    Text,
    /// None.
    Switch,
    /// As typed, after an equals sign.
    Joined,
    /// Always this.
    Fixed(String),
    /// Name of a device, to which a port may come.
    Device,
    /// Port of the device.
    Port,
    /// Transport of perftest's name.
    Connection,
    /// Atomic operation of perftest's name.
    Atomic,
    /// Bytes with K or M.
    Size,
    /// Every size.
    All,
    /// Seconds, of which margins are cut off.
    Duration,
    /// Seconds cut off at both ends.
    Margin,
    /// The other direction.
    Reversed,
    /// A rate in units of its own.
    Rate,
    /// Those units.
    RateUnits,
}

/// The options of perftest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    option: Vec<Entry>,
}

impl Table {
    /// The table of this program; the error is a defect of its own.
    pub fn own() -> Result<Table, toml::de::Error> {
        toml::from_str(TABLE)
    }

    /// All options.
    #[cfg(test)]
    pub fn entries(&self) -> &[Entry] {
        &self.option
    }

    /// The option of this short name.
    pub fn short(&self, letter: char) -> Option<&Entry> {
        let wanted = format!("-{letter}");
        self.option.iter().find(|e| e.names.contains(&wanted))
    }

    /// The option of this long name (without dashes) with the name in full; as getopt has it, the
    /// beginning is enough when no other option begins so.
    pub fn long(&self, typed: &str) -> Option<(&Entry, &str)> {
        let wanted = format!("--{typed}");
        let all = || self.option.iter().flat_map(|e| e.names.iter().map(move |n| (e, n.as_str())));
        if let Some(exact) = all().find(|(_, name)| *name == wanted) {
            return Some(exact);
        }
        let begun: Vec<_> = all().filter(|(_, name)| name.starts_with(&wanted)).collect();
        let (first, name) = *begun.first()?;
        begun.iter().all(|(e, _)| std::ptr::eq(*e, first)).then_some((first, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_says_what_its_kind_needs() {
        for entry in Table::own().unwrap().entries() {
            let names = &entry.names;
            assert_eq!(entry.flag.is_some(), entry.kind == Kind::Flag, "{names:?}");
            assert!(entry.kind == Kind::Flag || entry.because.is_some(), "{names:?}");
            let sentence = entry.because.as_deref().unwrap_or("x.");
            assert!(sentence.ends_with('.') && sentence.len() < 180, "{names:?}: {sentence}");
            let is_text = entry.how == How::Text;
            assert!(!(entry.kind == Kind::Flag && is_text) || entry.value, "{names:?}: no value");
        }
    }

    #[test]
    fn no_name_stands_twice() {
        let table = Table::own().unwrap();
        let mut names: Vec<_> = table.entries().iter().flat_map(|e| &e.names).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_beginning_of_a_long_name_is_enough_unless_two_begin_so() {
        let table = Table::own().unwrap();
        let long = |typed| table.long(typed).map(|(_, name)| name);
        assert_eq!(long("report_gb"), Some("--report_gbits"));
        assert_eq!(long("mtu"), Some("--mtu"));
        assert_eq!(long("out_json"), Some("--out_json"));
        assert_eq!(long("report-hist"), Some("--report-histogram"));
        assert_eq!(long("rate"), None);
        assert_eq!(long("nonsense"), None);
    }

    #[test]
    fn options_belong_to_programs() {
        let table = Table::own().unwrap();
        let has =
            |program, letter| Program::named(program).unwrap().has(table.short(letter).unwrap());
        assert!(has("/usr/bin/ib_read_bw", 'o') && !has("ib_write_bw", 'o'));
        assert!(has("ib_send_lat", 'H') && !has("ib_send_bw", 'H'));
        assert!(has("ib_write_lat", 'd'));
    }
}
