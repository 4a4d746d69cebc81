//! `fabbench advise`: is this job bound by the network on this fabric, now and at the target?

mod fabric;
mod question;

use std::path::Path;

use fabbench_harness::advise::{self, AdviseError, library};
use fabbench_reports::advice::{ADVICE_SCHEMA, Advice};
use fabbench_reports::{html, text};
use serde::Serialize;

use super::files::Place;
use super::run::text_options;
use super::saved;
use super::{CommandError, ExitCode, print_page};
use crate::cli::OutputArgs;
use crate::cli::advise::{AdviseArgs, AdviseOutput};

/// Answers, or asks what there is to find out. Exit 0; 2 for input that cannot be or is missing.
pub fn run(args: &AdviseArgs) -> Result<ExitCode, CommandError> {
    let bare = AdviseArgs { output: args.output.clone(), ..AdviseArgs::default() };
    if *args == bare {
        if args.output.html.is_some() {
            let message = "advise: --html: there is no answer to write: describe a job";
            return Err(CommandError::usage(message.into()));
        }
        let (json, page) = questions(args)?;
        return print(args, &json, &page);
    }
    let html =
        args.output.html.as_deref().map(|path| Ok((path, Place::open(path)?))).transpose()?;
    let advice = advice(args)?;
    if let Some((path, place)) = html {
        place.fill(path, &page_of(args, &advice)?)?;
    }
    print(args, &to_json(&advice)?, &text::advice(&advice, &options(&args.output)))
}

/// The answer, as a part of the report's page where it stands on one.
fn page_of(args: &AdviseArgs, advice: &Advice) -> Result<String, CommandError> {
    Ok(match &args.fabric.report {
        Some(file) => html::report_and_advice(&saved::read(file)?.1, advice),
        None => html::advice(advice),
    })
}

fn print(args: &AdviseArgs, json: &str, page: &str) -> Result<ExitCode, CommandError> {
    match &args.output.json {
        Some(path) if path.as_path() == Path::new("-") => print_page(json.trim_end())?,
        Some(path) => {
            write_file(path, json)?;
            print_page(page.trim_end())?;
        }
        None => print_page(page.trim_end())?,
    }
    Ok(ExitCode::PASS)
}

fn advice(args: &AdviseArgs) -> Result<Advice, CommandError> {
    let question = question::question(args).map_err(usage)?;
    advise::advise(&question).map_err(usage)
}

/// The questions to answer before buying.
fn questions(args: &AdviseArgs) -> Result<(String, String), CommandError> {
    let asked = advise::questions();
    let names = |names: Vec<String>| names.join(", ");
    let models = library::models().map_err(usage)?.into_iter().map(|one| one.name).collect();
    let gpus = library::gpus().map_err(usage)?.into_iter().map(|one| one.name).collect();
    let fabrics = library::fabrics().map_err(usage)?.into_iter().map(|one| one.name).collect();
    let known = [("--model", names(models)), ("--gpu", names(gpus)), ("--fabric", names(fabrics))];
    let json = to_json(&serde_json::json!({ "schema": ADVICE_SCHEMA, "questions": asked }))?;
    Ok((json, text::questions(&asked, &known, &options(&args.output))))
}

fn options(output: &AdviseOutput) -> text::Options {
    let color = output.color.unwrap_or_default();
    text_options(&OutputArgs { color, ..OutputArgs::default() })
}

fn to_json(value: &impl Serialize) -> Result<String, CommandError> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|e| CommandError::incomplete(format!("write JSON: {e}")))
}

fn write_file(path: &Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(path, text).map_err(|e| {
        CommandError::usage(format!("write advice: {}: {e}; give another path", path.display()))
    })
}

fn usage(error: AdviseError) -> CommandError {
    CommandError::usage(format!("advise: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(typed: &str) -> Box<AdviseArgs> {
        let words = ["fabbench", "advise"].into_iter().chain(typed.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Advise(args) => args,
            other => panic!("not advise: {other:?}"),
        }
    }

    fn answered(typed: &str) -> (Advice, String) {
        let args = parsed(typed);
        let advice = advice(&args).unwrap();
        let page = text::advice(&advice, &options(&args.output));
        (advice, page)
    }

    fn refused(typed: &str) -> String {
        let error = advice(&parsed(typed)).unwrap_err();
        assert_eq!(error.code, ExitCode::USAGE);
        error.message
    }

    const JOB: &str = "--model 7b --tokens-per-gpu 8192 --gpu h100 --gpus-per-node 8 --nodes 8";
    const SAMPLE: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/reports/samples/soft-roce-pair.json");

    #[test]
    fn the_example_of_the_questions_is_answered() {
        let (_, page) = questions(&AdviseArgs::default()).unwrap();
        let example = page.split("fabbench advise").last().unwrap();
        let (advice, page) = answered(example);
        assert_eq!((advice.now[0].nodes, advice.target[0].nodes), (8, 64));
        assert_eq!((advice.now[0].nics_per_node, advice.now[1].nics_per_node), (8, 1));
        for part in ["RoCE or InfiniBand pays", "As nodes grow", "█", "Assumptions", "6. Are"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_report_is_an_input_and_a_named_fabric_takes_its_place() {
        let (advice, page) = answered(&format!("{JOB} --report {SAMPLE}"));
        assert!(advice.now.iter().all(|side| side.fabric == SAMPLE && side.nics_per_node == 2));
        assert!(page.contains("software devices"), "{page}");
        let (advice, _) = answered(&format!("{JOB} --report {SAMPLE} --fabric ndr"));
        assert_eq!(advice.now[0].fabric, "ndr");
        assert_eq!(advice.now[1].fabric, SAMPLE);
    }

    #[test]
    fn one_fabric_brings_its_counterpart() {
        let (advice, _) = answered(&format!("{JOB} --nics-per-node 4 --fabric roce-100g"));
        let names: Vec<&str> = advice.now.iter().map(|side| side.fabric.as_str()).collect();
        assert_eq!(names, ["roce-100g", "tcp-100g"]);
        assert!(advice.now.iter().all(|side| side.nics_per_node == 4));
        let (advice, _) = answered(&format!("{JOB} --nics-per-node 8 --fabric hdr"));
        assert_eq!((advice.now[1].fabric.as_str(), advice.now[1].nics_per_node), ("tcp-25g", 1));
    }

    #[test]
    fn own_figures_replace_those_of_a_fabric() {
        let own = "--nics-per-node 8 --rdma-bandwidth 50GB/s --rdma-latency 2us \
                   --tcp-bandwidth 20Gb/s --tcp-latency 40us";
        let (advice, _) = answered(&format!("{JOB} {own}"));
        assert!((advice.now[0].bandwidth_bps_per_gpu - 400e9).abs() < 1.0);
        assert!((advice.now[1].latency_ns - 40e3).abs() < 1e-6);
        let (advice, _) =
            answered(&format!("{JOB} --nics-per-node 1 --fabric ndr --tcp-latency 9us"));
        assert!((advice.now[1].latency_ns - 9e3).abs() < 1e-6);
    }

    #[test]
    fn what_if_rows_and_calibration_are_printed() {
        let typed = format!(
            "{JOB} --nics-per-node 8 --fabric ndr --what-if fabric=tcp-100g,nodes=128 \
             --what-if oversubscription=3:1,tokens=1024 --observed-step 2s"
        );
        let (advice, page) = answered(&typed);
        assert_eq!(advice.what_if[0].fabrics, ["ndr", "tcp-100g"]);
        assert_eq!((advice.what_if[0].nodes, advice.what_if[1].nodes), (128, 8));
        assert!(advice.calibration.is_some());
        for part in ["What if", "fabric=tcp-100g,nodes=128", "Observed against the model"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let unknown = refused(&format!("{JOB} --nics-per-node 8 --fabric ndr --what-if speed=3"));
        assert!(unknown.contains("speed") && unknown.contains("fabric="), "{unknown}");
    }

    #[test]
    fn what_is_missing_is_asked_for_by_its_flags_and_nothing_else() {
        let all = refused("--nodes 4");
        for flag in ["--model", "--tokens-per-gpu", "--gpu", "--gpus-per-node", "--fabric"] {
            assert!(all.contains(flag), "{flag}: {all}");
        }
        assert!(!all.contains("--nodes"), "{all}");
        let nics = refused(&format!("{JOB} --fabric ndr"));
        assert!(nics.contains("--nics-per-node") && !nics.contains("--model"), "{nics}");
        let batch = refused(
            "--model 7b --task infer --gpu h100 --gpus-per-node 8 --nodes 2 \
             --nics-per-node 1 --fabric ndr",
        );
        assert!(batch.contains("--batch") && !batch.contains("--tokens"), "{batch}");
        let storage =
            refused(&format!("{JOB} --nics-per-node 8 --fabric ndr --storage-rate 2GB/s"));
        assert!(storage.contains("--storage shared"), "{storage}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_flag() {
        let job = format!("{JOB} --nics-per-node 8 --fabric ndr");
        let all = [
            ("--model 9z", "70b"),
            ("--fabric myrinet", "roce-400g"),
            ("--gpu abacus", "--flops"),
            ("--report /nowhere.json", "/nowhere.json"),
            ("--tokens-per-gpu -5", "above 0"),
            ("--tp 3", "64 GPUs"),
            ("--batch 3", "--task infer"),
        ];
        for (typed, part) in all {
            // A flag given twice is refused by the parser: take the first one out.
            let flag = typed.split(' ').next().unwrap();
            let mut words: Vec<&str> = job.split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == flag) {
                words.drain(at..at + 2);
            }
            let sentence = refused(&format!("{} {typed}", words.join(" ")));
            assert!(sentence.contains(part) && sentence.contains(flag), "{typed}: {sentence}");
        }
    }

    #[test]
    fn a_mixture_and_inference_are_described_by_flags() {
        let (advice, _) = answered(
            "--parameters 47B --active-parameters 13B --layers 32 --hidden 4096 --sequence 8192 \
             --experts 8 --top-k 2 --ep 16 --tokens-per-step 2e6 --scheme zero1 --flops 400 \
             --gpus-per-node 8 --nodes 4 --nics-per-node 8 --fabric ndr",
        );
        assert!(advice.now[0].flows.iter().any(|flow| flow.name == "expert dispatch"));
        let (advice, _) = answered(
            "--model 70b --task infer --batch 32 --tp 16 --gpu h100 --gpus-per-node 8 --nodes 2 \
             --nics-per-node 8 --fabric ndr",
        );
        assert!(advice.recommendations.iter().any(|one| one.what.contains("inside the node")));
    }
}
