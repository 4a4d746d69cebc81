//! `fabbench explain-perftest`: for people who come from perftest.

mod table;
mod translate;
mod typed;

use clap::Parser;

use self::table::{Kind, Program, Table, base_name};
use self::translate::{Translation, translate};
use self::typed::Typed;
use super::{CommandError, ExitCode, print_page};
use crate::cli::{Cli, ExplainPerftestArgs};

/// Prints the command of fabbench that measures what a command of perftest does, and what differs.
pub fn run(args: &ExplainPerftestArgs) -> Result<ExitCode, CommandError> {
    let words = words(&args.command)?;
    let Some((name, rest)) = words.split_first() else { return Err(no_program("nothing")) };
    if base_name(name).starts_with("raw_ethernet_") {
        print_page(&raw_ethernet(base_name(name)))?;
        return Ok(ExitCode::INCOMPLETE);
    }
    let program = Program::named(name).ok_or_else(|| no_program(name))?;
    let table = Table::own().map_err(|e| CommandError::incomplete(format!("own table: {e}")))?;
    let typed =
        typed::read(&table, program, rest).map_err(|e| CommandError::usage(e.to_string()))?;
    let translation = translate(&typed)?;
    if let Some(command) = &translation.command {
        check(command)?;
    }
    print_page(&page(&words, &typed, &translation))?;
    Ok(if translation.command.is_some() { ExitCode::PASS } else { ExitCode::INCOMPLETE })
}

/// Several words as they are; a single one may be a whole quoted line.
fn words(typed: &[String]) -> Result<Vec<String>, CommandError> {
    match typed {
        [line] => shell_words::split(line)
            .map_err(|e| CommandError::usage(format!("explain-perftest: {line}: {e}"))),
        words => Ok(words.to_vec()),
    }
}

fn no_program(name: &str) -> CommandError {
    let known = Program::names().join(", ");
    CommandError::usage(format!("explain-perftest: {name} is no program of perftest: give {known}"))
}

fn raw_ethernet(name: &str) -> String {
    format!(
        "{name} is not covered: it sends Ethernet frames of its own making, without RDMA.\n\
         fabbench bw local HOST --transport tcp measures what sockets carry on the same interface."
    )
}

/// Values that fabbench would refuse are refused here already.
fn check(command: &[String]) -> Result<(), CommandError> {
    Cli::try_parse_from(command).map(drop).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let line = shell_words::join(command);
        CommandError::usage(format!("explain-perftest: fabbench would refuse {line}: {first}"))
    })
}

/// What people read.
fn page(words: &[String], typed: &Typed, found: &Translation) -> String {
    let mut lines = vec![format!("perftest  {}", shell_words::join(words))];
    lines.push(match &found.command {
        Some(command) => format!("fabbench  {}", shell_words::join(command)),
        None => "fabbench  no command measures the same".to_owned(),
    });
    let headings = [
        (Kind::Flag, "What differs in what has a flag"),
        (Kind::Differs, "What differs"),
        (Kind::None, "Without counterpart"),
        (Kind::Same, "Done anyway"),
    ];
    for (kind, heading) in headings {
        let of_kind = found.remarks.iter().filter(|(of, ..)| *of == kind);
        let remarks: Vec<_> =
            of_kind.map(|(_, option, because)| (option.as_str(), because.as_str())).collect();
        section(&mut lines, heading, &remarks);
    }
    let always: Vec<_> = found.always.iter().map(|said| ("", said.as_str())).collect();
    section(&mut lines, &format!("Whatever the options of {}", typed.program.name), &always);
    lines.join("\n")
}

fn section(lines: &mut Vec<String>, heading: &str, remarks: &[(&str, &str)]) {
    if remarks.is_empty() {
        return;
    }
    lines.extend([String::new(), heading.to_owned()]);
    let width = remarks.iter().map(|(option, _)| option.chars().count()).max().unwrap_or(0);
    for (option, because) in remarks {
        match width {
            0 => lines.push(format!("  {because}")),
            _ => lines.push(format!("  {option:width$}  {because}")),
        }
    }
}

#[cfg(test)]
mod tests;
