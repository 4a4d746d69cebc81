//! A command line of perftest, read as getopt reads it.

use super::table::{Entry, Program, Table};

/// A command line, understood.
#[derive(Debug)]
pub struct Typed<'t> {
    /// The program.
    pub program: Program,
    /// Options in the order given.
    pub options: Vec<Given<'t>>,
    /// The host that the client connects to; none on the server's side.
    pub host: Option<String>,
}

/// An option as given.
#[derive(Debug)]
pub struct Given<'t> {
    /// What it is.
    pub entry: &'t Entry,
    /// Its name as people write it, in full.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
}

impl Given<'_> {
    /// As typed, for a line of its own.
    pub fn text(&self) -> String {
        match &self.value {
            Some(value) if self.name.starts_with("--") => format!("{}={value}", self.name),
            Some(value) => format!("{} {value}", self.name),
            None => self.name.clone(),
        }
    }

    /// The value; options that take one have it.
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Why a command line of perftest cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypedError {
    /// Not in the table.
    #[error("{program} has no option {name} that fabbench knows of (perftest 6.06 to 6.29)")]
    Unknown {
        /// Program.
        program: &'static str,
        /// As typed.
        name: String,
    },
    /// Of another program.
    #[error("{program} has no option {name}: it belongs to {only} tests")]
    Elsewhere {
        /// Program.
        program: &'static str,
        /// As typed.
        name: String,
        /// Words of the programs.
        only: String,
    },
    /// The value is missing.
    #[error("{program}: {name} needs a value")]
    NoValue {
        /// Program.
        program: &'static str,
        /// As typed.
        name: String,
    },
    /// A value where none belongs.
    #[error("{program}: {name} takes no value")]
    Value {
        /// Program.
        program: &'static str,
        /// As typed.
        name: String,
    },
    /// A second host.
    #[error("{program}: {second:?} after the host {first:?}: perftest takes one host")]
    Hosts {
        /// Program.
        program: &'static str,
        /// Host.
        first: String,
        /// What follows.
        second: String,
    },
}

/// Reads the words after the program's name: short options may be combined (`-ab`, `-q4`), values
/// follow or are joined (`--qp=4`), hosts stand anywhere, and nothing after `--` is an option.
pub fn read<'t>(
    table: &'t Table,
    program: Program,
    words: &[String],
) -> Result<Typed<'t>, TypedError> {
    let mut reader = Reader { table, program, options: Vec::new(), host: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("--") {
            Some("") => {
                for rest in words.by_ref() {
                    reader.host(rest)?;
                }
            }
            Some(long) => reader.long(long, &mut words)?,
            None if word.len() > 1 && word.starts_with('-') => {
                reader.short(&word[1..], &mut words)?;
            }
            None => reader.host(word)?,
        }
    }
    Ok(Typed { program, options: reader.options, host: reader.host })
}

struct Reader<'t> {
    table: &'t Table,
    program: Program,
    options: Vec<Given<'t>>,
    host: Option<String>,
}

type Words<'w> = std::slice::Iter<'w, String>;

impl<'t> Reader<'t> {
    fn host(&mut self, word: &str) -> Result<(), TypedError> {
        let program = self.program.name;
        match self.host.replace(word.to_owned()) {
            None => Ok(()),
            Some(first) => Err(TypedError::Hosts { program, first, second: word.to_owned() }),
        }
    }

    /// `name` or `name=value`.
    fn long(&mut self, typed: &str, words: &mut Words) -> Result<(), TypedError> {
        let (name, joined) = match typed.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (typed, None),
        };
        let known = self.table.long(name);
        let (entry, name) = known.ok_or_else(|| self.unknown(format!("--{name}")))?;
        let value = match (entry.value, joined) {
            (true, None) => Some(self.next(name, words)?),
            (true, joined) => joined,
            (false, None) => None,
            (false, Some(_)) => {
                let program = self.program.name;
                return Err(TypedError::Value { program, name: name.to_owned() });
            }
        };
        self.push(entry, name.to_owned(), value)
    }

    /// One or more letters; the first that takes a value ends the word.
    fn short(&mut self, letters: &str, words: &mut Words) -> Result<(), TypedError> {
        for (at, letter) in letters.char_indices() {
            let name = format!("-{letter}");
            let known = self.table.short(letter);
            let entry = known.ok_or_else(|| self.unknown(name.clone()))?;
            if !entry.value {
                self.push(entry, name, None)?;
                continue;
            }
            let rest = &letters[at + letter.len_utf8()..];
            let value = match rest {
                "" => self.next(&name, words)?,
                rest => rest.to_owned(),
            };
            return self.push(entry, name, Some(value));
        }
        Ok(())
    }

    fn next(&self, name: &str, words: &mut Words) -> Result<String, TypedError> {
        let program = self.program.name;
        words.next().cloned().ok_or(TypedError::NoValue { program, name: name.to_owned() })
    }

    fn unknown(&self, name: String) -> TypedError {
        TypedError::Unknown { program: self.program.name, name }
    }

    fn push(
        &mut self,
        entry: &'t Entry,
        name: String,
        value: Option<String>,
    ) -> Result<(), TypedError> {
        if !self.program.has(entry) {
            let (program, only) = (self.program.name, entry.only.join(" and "));
            return Err(TypedError::Elsewhere { program, name, only });
        }
        self.options.push(Given { entry, name, value });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typed: &str) -> Result<(Vec<String>, Option<String>), TypedError> {
        let table = Table::own().unwrap();
        let mut words = typed.split(' ').map(str::to_owned);
        let program = Program::named(&words.next().unwrap()).unwrap();
        let words: Vec<String> = words.collect();
        read(&table, program, &words)
            .map(|typed| (typed.options.iter().map(Given::text).collect(), typed.host))
    }

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        let (options, host) =
            line("ib_write_bw host-b -abFq4 -x 3 --size=64K --tx-depth 16 -- ").unwrap_or_default();
        assert!(options.is_empty() && host.is_none(), "an empty word is a second host");
        let (options, host) =
            line("ib_write_bw -abFq4 -x 3 host-b --siz=64K --tx-depth 16").unwrap();
        let wanted = ["-a", "-b", "-F", "-q 4", "-x 3", "--size=64K", "--tx-depth=16"];
        assert_eq!((options, host), (wanted.map(String::from).to_vec(), Some("host-b".into())));
        assert_eq!(line("ib_send_lat -- -x").unwrap().1, Some("-x".into()));
    }

    #[test]
    fn what_perftest_would_refuse_is_refused_by_name() {
        let refused = [
            ("ib_write_bw -J 1", "no option -J"),
            ("ib_write_bw --qqq=1", "no option --qqq"),
            ("ib_write_bw -H", "belongs to lat tests"),
            ("ib_write_bw -o 4", "belongs to read and atomic tests"),
            ("ib_write_bw -q", "-q needs a value"),
            ("ib_write_bw --report_gbits=1", "--report_gbits takes no value"),
            ("ib_write_bw a b", "takes one host"),
        ];
        for (typed, words) in refused {
            let error = line(typed).unwrap_err().to_string();
            assert!(error.contains(words), "{typed}: {error}");
        }
    }
}
