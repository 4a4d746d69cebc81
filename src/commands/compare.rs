//! `fabbench compare BEFORE AFTER`: did it get better or worse, and what else changed?

use std::path::{Path, PathBuf};

use fabbench_harness::compare::{Limits, compare};
use fabbench_reports::comparison::Comparison;
use fabbench_reports::model::{Report, Status};
use fabbench_reports::{html, junit, markdown, text};

use super::files::{Place, is_special, refuse_directory};
use super::run::text_options;
use super::saved::{Saved, borrowed, redact, reports};
use super::{CommandError, ExitCode, nagios, print_page};
use crate::cli::{CompareArgs, CompareOutputArgs, OutputArgs};

/// Prints the comparison and writes it in every form asked for. Exit 1 where something became worse
/// beyond what is allowed, 3 where nothing could be compared.
pub fn run(args: &CompareArgs) -> Result<ExitCode, CommandError> {
    let mut before = reports(std::slice::from_ref(&args.before))?;
    let mut after = reports(&[vec![args.after.clone()], args.more.clone()].concat())?;
    let targets = targets(&args.output)?;
    if args.output.redact {
        redact(before.iter_mut().chain(&mut after))?;
    }
    let comparison = compare(&borrowed(&before), &borrowed(&after), &limits(args, &before, &after));
    let written = targets.into_iter().try_for_each(|target| target.write(&comparison));
    print_page(page(&comparison, &args.output)?.trim_end())?;
    written?;
    let code = exit_code(&comparison);
    let nagios = args.output.nagios;
    Ok(if nagios { ExitCode(nagios::state(comparison.status, code).code()) } else { code })
}

/// 0 pass or warn, 1 fail, 3 where nothing could be compared.
pub fn exit_code(comparison: &Comparison) -> ExitCode {
    match comparison.status {
        Status::Fail => ExitCode::FAIL,
        Status::Incomplete => ExitCode::INCOMPLETE,
        _ => ExitCode::PASS,
    }
}

/// What goes to stdout.
fn page(comparison: &Comparison, args: &CompareOutputArgs) -> Result<String, CommandError> {
    if args.json.as_deref() == Some(Path::new("-")) && !args.nagios {
        return as_json(comparison);
    }
    if args.nagios {
        let state = nagios::state(comparison.status, exit_code(comparison));
        return Ok(fabbench_reports::nagios::comparison(comparison, state));
    }
    if args.quiet {
        return Ok(format!("{}: {}", comparison.status, text::comparison_line(comparison)));
    }
    Ok(text::comparison(comparison, &layout(args)))
}

/// How text looks on this stdout.
pub fn layout(args: &CompareOutputArgs) -> text::Options {
    text_options(&OutputArgs { explain: args.explain, color: args.color, ..OutputArgs::default() })
}

fn as_json(comparison: &Comparison) -> Result<String, CommandError> {
    let text = serde_json::to_string_pretty(comparison);
    text.map(|text| text + "\n")
        .map_err(|e| CommandError::incomplete(format!("write comparison: {e}")))
}

/// A form of the comparison on its way to a file.
struct Target<'a> {
    path: &'a Path,
    place: Place,
    render: fn(&Comparison) -> Result<String, CommandError>,
}

impl Target<'_> {
    fn write(self, comparison: &Comparison) -> Result<(), CommandError> {
        let text = (self.render)(comparison)?;
        self.place.fill(self.path, &text)
    }
}

/// Every file that was named, opened before anything is compared.
fn targets(args: &CompareOutputArgs) -> Result<Vec<Target<'_>>, CommandError> {
    type Render = fn(&Comparison) -> Result<String, CommandError>;
    let named: [(&str, &Option<PathBuf>, Render); 4] = [
        ("--json", &args.json, as_json),
        ("--html", &args.html, |c| Ok(html::comparison(c))),
        ("--junit", &args.junit, |c| Ok(junit::comparison(c))),
        ("--markdown", &args.markdown, |c| Ok(markdown::comparison(c))),
    ];
    let mut targets: Vec<Target> = Vec::new();
    for (option, path, render) in named {
        let Some(path) = path.as_deref().filter(|path| *path != Path::new("-")) else { continue };
        refuse_directory(option, path)?;
        if targets.iter().any(|target| target.path == path) && !is_special(path) {
            let path = path.display();
            return Err(CommandError::usage(format!(
                "{path}: named for two forms of the comparison; give each its own file"
            )));
        }
        targets.push(Target { path, place: Place::open(path)?, render });
    }
    Ok(targets)
}

/// What was typed, over what fits the reports.
fn limits(args: &CompareArgs, before: &[Saved], after: &[Saved]) -> Limits {
    let all: Vec<&Report> = before.iter().chain(after).map(|(_, report)| report).collect();
    let fitting = Limits::fitting(&all);
    let fail = args.fail.map(|percent| percent / 100.0);
    let warn = args.warn.map(|percent| percent / 100.0).unwrap_or(fitting.warn);
    // Who sets one of the two beyond the other's default means both.
    let fail = fail.unwrap_or(fitting.fail.max(warn));
    Limits { warn: warn.min(fail), fail, ..fitting }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fabbench_reports::json;

    use super::*;

    const SAMPLE: &str = include_str!("../../reports/samples/hardware-unjudged.json");

    fn args(before: &Path, after: &Path) -> CompareArgs {
        CompareArgs {
            before: before.into(),
            after: after.into(),
            more: vec![],
            warn: None,
            fail: None,
            output: CompareOutputArgs { quiet: true, ..CompareOutputArgs::default() },
        }
    }

    #[test]
    fn a_report_is_the_same_as_itself_and_a_slower_one_is_a_regression() {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = (dir.path().join("before"), dir.path().join("after.json"));
        fs::create_dir(&before).unwrap();
        for run in ["1.json", "2.json", "3.json"] {
            fs::write(before.join(run), SAMPLE).unwrap();
        }
        fs::write(before.join("other.json"), "{}").unwrap();
        fs::write(&after, SAMPLE).unwrap();
        assert_eq!(run(&args(&before, &after)).unwrap(), ExitCode::PASS);
        let mut slower = json::read(SAMPLE).unwrap();
        for repeat in slower.measurements.iter_mut().flat_map(|m| &mut m.repeats) {
            repeat.received_bps = repeat.received_bps.map(|bps| bps * 0.6);
        }
        fs::write(&after, json::write(&slower).unwrap()).unwrap();
        assert_eq!(run(&args(&before, &after)).unwrap(), ExitCode::FAIL);
    }

    #[test]
    fn what_is_no_report_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let cut = dir.path().join("cut.json");
        fs::write(&cut, &SAMPLE[..SAMPLE.len() / 2]).unwrap();
        let error = run(&args(&cut, &cut)).unwrap_err();
        assert_eq!(error.code, ExitCode::USAGE);
        assert!(error.message.contains("cut.json") && error.message.contains("line"), "{error}");
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let error = run(&args(&empty, &empty)).unwrap_err();
        assert!(error.message.contains("holds no report"), "{error}");
    }

    #[test]
    fn one_limit_typed_never_crosses_the_other() {
        let typed = CompareArgs { warn: Some(10.0), ..args(Path::new("a"), Path::new("b")) };
        let found = limits(&typed, &[], &[]);
        assert_eq!((found.warn, found.fail), (0.1, 0.1));
        let typed = CompareArgs { fail: Some(2.0), ..args(Path::new("a"), Path::new("b")) };
        let found = limits(&typed, &[], &[]);
        assert_eq!((found.warn, found.fail), (0.02, 0.02));
    }
}
