//! Where results go: checked before the run, written as they come, completed at the end.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use fabbench_reports::model::{Measurement, Report};
use fabbench_reports::text::{self, Options};
use fabbench_reports::{csv, html, junit, markdown, prometheus};
use serde::Serialize;

use crate::cli::OutputArgs;
use crate::commands::CommandError;
use crate::commands::files::{Place, is_special, refuse_directory, unwritable};

/// Open targets of one run.
pub struct Outputs {
    files: Vec<Target>,
    alone: Option<Form>,
    journal: Option<Journal>,
}

/// One form of the report on its way to a path.
struct Target {
    path: PathBuf,
    form: Form,
    place: Place,
}

/// What a target holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Machine-readable, all there is.
    Json,
    /// As on a terminal, with every parameter.
    Text,
    /// For a browser.
    Html,
    /// For tickets.
    Markdown,
    /// A row a measurement.
    Csv,
    /// For continuous integration.
    Junit,
    /// For a textfile collector.
    Prometheus,
}

impl Form {
    /// What `--out` writes.
    const ALL: [Form; 7] = [
        Form::Json,
        Form::Text,
        Form::Html,
        Form::Markdown,
        Form::Csv,
        Form::Junit,
        Form::Prometheus,
    ];

    /// Its name in the directory of `--out`.
    fn file_name(self) -> &'static str {
        match self {
            Form::Json => "report.json",
            Form::Text => "report.txt",
            Form::Html => "report.html",
            Form::Markdown => "report.md",
            Form::Csv => "report.csv",
            Form::Junit => "report.junit.xml",
            Form::Prometheus => "report.prom",
        }
    }

    /// The report in this form.
    pub fn render(self, report: &Report) -> Result<String, CommandError> {
        Ok(match self {
            Form::Json => fabbench_reports::json::write(report)
                .map_err(|e| CommandError::incomplete(format!("write report: {e}")))?,
            Form::Text => text::report(report, &Options { explain: true, ..Options::default() }),
            Form::Html => html::report(report),
            Form::Markdown => markdown::report(report),
            Form::Csv => csv::report(report),
            Form::Junit => junit::report(report),
            Form::Prometheus => prometheus::report(report),
        })
    }
}

/// The options that name one file each.
fn named(args: &OutputArgs) -> [(&'static str, Option<&PathBuf>, Form); 6] {
    [
        ("--json", args.json.as_ref(), Form::Json),
        ("--html", args.html.as_ref(), Form::Html),
        ("--markdown", args.markdown.as_ref(), Form::Markdown),
        ("--csv", args.csv.as_ref(), Form::Csv),
        ("--junit", args.junit.as_ref(), Form::Junit),
        ("--prometheus", args.prometheus.as_ref(), Form::Prometheus),
    ]
}

/// Measurements so far, one JSON document a line.
struct Journal {
    path: PathBuf,
    file: File,
    keep: bool,
    failed: bool,
    empty: bool,
}

impl Drop for Journal {
    /// A run that measured nothing leaves no empty file.
    fn drop(&mut self) {
        if self.empty {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Outputs {
    /// Creates directories and temporary files next to every target, so that an unwritable path is
    /// told before anything is measured.
    pub fn prepare(args: &OutputArgs) -> Result<Outputs, CommandError> {
        Outputs::open(args, true)
    }

    /// Likewise for a report that was measured before: the journal of that run, which may stand in
    /// the same directory, is left alone.
    pub fn of_saved(args: &OutputArgs) -> Result<Outputs, CommandError> {
        Outputs::open(args, false)
    }

    fn open(args: &OutputArgs, journalled: bool) -> Result<Outputs, CommandError> {
        let bare = |path: Option<&PathBuf>| path.is_some_and(|path| path == Path::new("-"));
        let (json, csv) = (bare(args.json.as_ref()), bare(args.csv.as_ref()));
        let alone = match (json, csv) {
            (true, true) => {
                let text = "--json and --csv: only one of them goes to stdout; name a file for \
                            the other, as --csv=FILE";
                return Err(CommandError::usage(text.into()));
            }
            (true, false) => Some(Form::Json),
            (false, true) => Some(Form::Csv),
            (false, false) => None,
        };
        if let Some(form) = alone.filter(|_| args.nagios) {
            let option = if form == Form::Json { "--json" } else { "--csv" };
            let message = format!("--nagios and bare {option} both want stdout: use {option}=FILE");
            return Err(CommandError::usage(message));
        }
        let mut wanted: Vec<(PathBuf, Form)> = Vec::new();
        for (option, path, form) in named(args) {
            let Some(path) = path else { continue };
            if alone == Some(form) {
                continue;
            }
            refuse_directory(option, path)?;
            wanted.push((path.clone(), form));
        }
        let json = wanted.iter().find(|(path, form)| *form == Form::Json && !is_special(path));
        let mut journal = json.map(|(path, _)| (sibling(path, ".journal.jsonl"), false));
        if let Some(dir) = &args.out {
            fs::create_dir_all(dir).map_err(|e| unwritable("create directory", dir, &e))?;
            wanted.extend(Form::ALL.map(|form| (dir.join(form.file_name()), form)));
            // The journal names what a redacted report does not.
            journal = Some((dir.join("journal.jsonl"), !args.redact));
        }
        refuse_twins(&wanted)?;
        let files = wanted
            .into_iter()
            .map(|(path, form)| Ok(Target { place: Place::open(&path)?, path, form }))
            .collect::<Result<_, CommandError>>()?;
        let journal = journal.filter(|_| journalled);
        let journal = journal.map(|(path, keep)| Journal::create(path, keep)).transpose()?;
        Ok(Outputs { files, alone, journal })
    }

    /// The form that stdout must hold and nothing else.
    pub fn alone_on_stdout(&self) -> Option<Form> {
        self.alone
    }

    /// Appends a measurement to the journal. A full disk is told once and does not end the run.
    pub fn note(&mut self, measurement: &Measurement) {
        if let Some(journal) = &mut self.journal {
            journal.append(measurement);
        }
    }

    /// Writes every target under a temporary name and renames it; the journal of a single JSON
    /// file is removed once that file is complete.
    pub fn complete(mut self, report: &Report) -> Result<(), CommandError> {
        let mut first_error = None;
        for target in self.files.drain(..) {
            if let Err(error) = target.write(report) {
                first_error.get_or_insert(error);
            }
        }
        match (first_error, self.journal) {
            (None, Some(journal)) if !journal.keep => {
                let _ = fs::remove_file(&journal.path);
                Ok(())
            }
            (None, _) => Ok(()),
            (Some(error), Some(journal)) => {
                let path = journal.path.display();
                let all = if journal.failed {
                    "as many measurements as fitted"
                } else {
                    "the measurements"
                };
                Err(CommandError::incomplete(format!("{error}; {all} are in {path}")))
            }
            (Some(error), None) => Err(error),
        }
    }
}

impl Target {
    /// Renders, writes, renames.
    fn write(self, report: &Report) -> Result<(), CommandError> {
        let text = self.form.render(report)?;
        self.place.fill(&self.path, &text)
    }
}

impl Journal {
    /// Starts an empty journal.
    fn create(path: PathBuf, keep: bool) -> Result<Journal, CommandError> {
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| unwritable("create journal", &path, &e))?;
        Ok(Journal { path, file, keep, failed: false, empty: true })
    }

    /// Appends one document as a line.
    fn append(&mut self, document: &impl Serialize) {
        let Ok(mut line) = serde_json::to_string(document) else { return };
        line.push('\n');
        self.empty = false;
        if let (Err(error), false) = (self.file.write_all(line.as_bytes()), self.failed) {
            self.failed = true;
            eprintln!(
                "fabbench: append to journal: {}: {error}; measuring goes on, make room before the \
                 report is written",
                self.path.display()
            );
        }
    }
}

/// `path` with something added to its name.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Two forms under one name: the second would replace the first.
fn refuse_twins(wanted: &[(PathBuf, Form)]) -> Result<(), CommandError> {
    for (index, (path, form)) in wanted.iter().enumerate() {
        if wanted[..index]
            .iter()
            .any(|(other, other_form)| other == path && other_form != form && !is_special(path))
        {
            return Err(CommandError::usage(format!(
                "{}: named for two forms of the report; give each its own file",
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(args: OutputArgs) -> Result<Outputs, CommandError> {
        Outputs::prepare(&args)
    }

    #[test]
    fn a_path_that_cannot_be_written_is_told_before_anything_is_measured() {
        let missing = |args| prepared(args).err().map(|error| error.to_string()).unwrap();
        let path = Some(PathBuf::from("/nonexistent/report"));
        for args in [
            OutputArgs { html: path.clone(), ..OutputArgs::default() },
            OutputArgs { junit: path.clone(), ..OutputArgs::default() },
            OutputArgs { markdown: path.clone(), ..OutputArgs::default() },
            OutputArgs { csv: path.clone(), ..OutputArgs::default() },
            OutputArgs { prometheus: path.clone(), ..OutputArgs::default() },
        ] {
            let message = missing(args);
            assert!(message.contains("/nonexistent/report") && message.contains("nothing was"));
        }
        let directory = tempfile::tempdir().unwrap();
        let junit = Some(directory.path().to_path_buf());
        let message = missing(OutputArgs { junit, ..OutputArgs::default() });
        assert!(message.starts_with("--junit=") && message.contains("is a directory"), "{message}");
    }

    #[test]
    fn one_file_cannot_hold_two_forms() {
        let directory = tempfile::tempdir().unwrap();
        let path = Some(directory.path().join("x"));
        let args = OutputArgs { csv: path.clone(), junit: path, ..OutputArgs::default() };
        assert!(prepared(args).err().unwrap().to_string().contains("two forms"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_directory_gets_every_form_under_its_final_name_only() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("new/results");
        let args = OutputArgs { out: Some(out.clone()), ..OutputArgs::default() };
        let sample = include_str!("../../../reports/samples/soft-roce-pair.json");
        let report = fabbench_reports::json::read(sample).unwrap();
        let mut outputs = prepared(args).unwrap();
        outputs.note(&report.measurements[0]);
        for form in Form::ALL {
            assert!(!out.join(form.file_name()).exists());
        }
        outputs.complete(&report).unwrap();
        let mut names: Vec<String> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut wanted: Vec<String> = Form::ALL.map(|f| f.file_name().to_owned()).to_vec();
        wanted.push("journal.jsonl".to_owned());
        wanted.sort();
        assert_eq!(names, wanted);
        let markdown = fs::read_to_string(out.join("report.md")).unwrap();
        assert!(markdown.starts_with("## fabbench pair"));
    }
}
