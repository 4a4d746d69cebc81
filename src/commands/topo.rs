//! `fabbench topo [HOST]`, `--from FILE`: does every HCA share a PCIe switch with the GPUs it serves?

use std::path::Path;

use fabbench_harness::snapshot::HostFacts;
use fabbench_harness::topology::expect::Expectation;
use fabbench_harness::topology::model::Topology;
use fabbench_harness::topology::{
    self, Assessment, Rules, capture, changes, nvml, report, stand_in, view, visible,
};
use fabbench_reports::comparison::Change;
use fabbench_reports::html::topology_svg;
use fabbench_reports::model::{HostTopology, Status};
use fabbench_reports::text::printable;

use super::files::Place;
use super::run::{all_facts, install_interrupt, launch, start};
use super::{CommandError, ExitCode, print_page};
use crate::cli::{LaunchArgs, Require, TopoAction, TopoArgs};
use crate::host::snapshot;
use crate::session::parse_hosts;

/// Reads, judges, prints. Exit 1 when the verdict is FAIL or something is not as expected, 3 when it
/// cannot be told.
pub fn run(args: &TopoArgs) -> Result<ExitCode, CommandError> {
    if let Some(TopoAction::Dump { host, out, verbose, launch }) = &args.action {
        return dump(host.as_deref().unwrap_or("local"), out, *verbose, launch);
    }
    if let [a, b] = args.compare.as_slice() {
        return compare(args, a, b);
    }
    let expected = args.expect.as_deref().map(expectation).transpose()?;
    let svg = args.svg.as_deref().map(|path| Ok((path, Place::open(path)?))).transpose()?;
    let Seen { name, source, topology } = match &args.from {
        Some(path) => from_capture(path, &args.treat_as_gpu)?,
        None => live(args.host.as_deref().unwrap_or("local"), args)?,
    };
    let assessment = topology::judge(&topology, rules(args));
    let mut page = page(args, &name, &source, &topology, &assessment)?;
    let differences = expected.map(|e| e.differences(&assessment)).unwrap_or_default();
    if !args.json {
        page.extend(differences.iter().map(|line| format!("not as expected: {line}\n")));
    }
    print_page(&printable(page.trim_end()))?;
    if let Some((path, place)) = svg {
        let report = report::report(&name, &source, &topology, &assessment);
        place.fill(path, &topology_svg(&report))?;
    }
    if !differences.is_empty() {
        if args.json {
            differences.iter().for_each(|line| eprintln!("not as expected: {}", printable(line)));
        }
        return Ok(ExitCode::FAIL);
    }
    Ok(match assessment.status {
        Status::Fail | Status::Error => ExitCode::FAIL,
        Status::Unknown | Status::Incomplete => ExitCode::INCOMPLETE,
        Status::Pass | Status::Warn | Status::NotApplicable | Status::Unjudged => ExitCode::PASS,
    })
}

fn rules(args: &TopoArgs) -> Rules {
    Rules { same_switch: args.require == Some(Require::SameSwitch) }
}

/// `1:1`, else a file of pairs.
fn expectation(text: &str) -> Result<Expectation, CommandError> {
    if let Some(shape) = Expectation::shape(text) {
        return Ok(shape);
    }
    let content = std::fs::read_to_string(text).map_err(|e| {
        CommandError::usage(format!("--expect: neither GPUS:HCAS nor a file: {text}: {e}"))
    })?;
    Expectation::pairs(&content).map_err(|e| CommandError::usage(format!("--expect: {text}: {e}")))
}

/// What differs between two machines.
fn compare(args: &TopoArgs, a: &str, b: &str) -> Result<ExitCode, CommandError> {
    let host = |typed: &str| -> Result<HostTopology, CommandError> {
        let path = Path::new(typed);
        let seen = if path.exists() {
            from_capture(path, &args.treat_as_gpu)?
        } else {
            live(typed, args)?
        };
        let assessment = topology::judge(&seen.topology, rules(args));
        Ok(report::report(typed, &seen.source, &seen.topology, &assessment))
    };
    let (a, b) = (host(a)?, host(b)?);
    let changes = changes::between(&a, &b);
    let page = if args.json {
        serde_json::to_string_pretty(&changes)
            .map_err(|e| CommandError::incomplete(format!("write differences: {e}")))?
    } else {
        differences(&a.host, &b.host, &changes)
    };
    print_page(&printable(&page))?;
    Ok(if changes.is_empty() { ExitCode::PASS } else { ExitCode::FAIL })
}

fn differences(a: &str, b: &str, changes: &[Change]) -> String {
    if changes.is_empty() {
        return format!("{a} and {b}: alike");
    }
    let line = |c: &Change| format!("{} {}: {a} {}, {b} {}", c.object, c.what, c.before, c.after);
    changes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Writes what topology is read from, without what names its owner.
fn dump(
    host: &str,
    out: &Path,
    verbose: u8,
    launch: &LaunchArgs,
) -> Result<ExitCode, CommandError> {
    let failed = |e: &dyn std::fmt::Display| {
        CommandError::incomplete(format!("write topology: {}: {e}", out.display()))
    };
    let (_, facts) = facts(host, verbose, launch)?;
    let safe = capture::anonymised(&facts.snapshot);
    let packed = capture::pack(&safe).map_err(|e| failed(&e))?;
    std::fs::write(out, packed).map_err(|e| failed(&e))?;
    let path = out.display();
    print_page(&format!(
        "{path}: {} files of {host}; look through it before you hand it on: tar tzf {path}; read it by \
         fabbench topo --from {path}",
        safe.entries.len()
    ))?;
    Ok(ExitCode::PASS)
}

/// A topology and where it is from.
struct Seen {
    name: String,
    source: String,
    topology: Topology,
}

fn page(
    args: &TopoArgs,
    name: &str,
    source: &str,
    topology: &Topology,
    assessment: &Assessment,
) -> Result<String, CommandError> {
    if args.json {
        let report = report::report(name, source, topology, assessment);
        return serde_json::to_string_pretty(&report)
            .map_err(|e| CommandError::incomplete(format!("write topology as JSON: {e}")));
    }
    if let Some(gpu) = &args.explain {
        return view::explain(topology, assessment, gpu).ok_or_else(|| {
            let gpus: Vec<_> = assessment.scene.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
            let there = if gpus.is_empty() { "none".into() } else { gpus.join(", ") };
            CommandError::usage(format!("--explain {gpu}: no such GPU on {name}; there: {there}"))
        });
    }
    Ok(match (args.tree, args.matrix) {
        (true, _) => view::tree(topology, assessment),
        (_, true) => view::matrix(assessment),
        _ => view::table(topology, assessment, source),
    })
}

/// A capture: a file of any format that is read, or a directory that holds a `/sys`.
fn from_capture(path: &Path, stand_ins: &[stand_in::Id]) -> Result<Seen, CommandError> {
    let mut seen = read_capture(path)?;
    admit(&mut seen.topology, stand_ins, &seen.name)?;
    Ok(seen)
}

fn admit(
    topology: &mut Topology,
    stand_ins: &[stand_in::Id],
    name: &str,
) -> Result<(), CommandError> {
    stand_in::admit(topology, stand_ins).map_err(|id| {
        CommandError::usage(format!(
            "--treat-as-gpu {id}: no such PCI function on {name}: lspci -n lists what there is"
        ))
    })
}

fn read_capture(path: &Path) -> Result<Seen, CommandError> {
    let name = path.display().to_string();
    let unreadable = |error: &dyn std::fmt::Display| {
        CommandError::usage(format!("read topology: {name}: {error}"))
    };
    let metadata = std::fs::metadata(path).map_err(|e| unreadable(&e))?;
    if metadata.is_dir() {
        let taken = snapshot::take(path, &[]);
        let topology = topology::read_snapshot(&taken).map_err(|what| {
            unreadable(&format!("{what}; give the directory that holds sys/, or a file"))
        })?;
        return Ok(Seen { source: format!("{name}/sys"), name, topology });
    }
    if metadata.len() > topology::INPUT_LIMIT as u64 {
        return Err(unreadable(&"larger than 64 MiB, no capture of one machine"));
    }
    let bytes = std::fs::read(path).map_err(|e| unreadable(&e))?;
    let topology = topology::read(&name, &bytes)
        .map_err(|e| CommandError::usage(format!("read topology: {e}")))?;
    let source = format!("{name} ({})", topology.source.name());
    Ok(Seen { source, name, topology })
}

/// The machine of an agent; of this one with the filters that its jobs are started under.
fn live(typed: &str, args: &TopoArgs) -> Result<Seen, CommandError> {
    let (name, facts) = facts(typed, args.verbose, &args.launch)?;
    let mut topology = topology::read_snapshot(&facts.snapshot)
        .map_err(|what| CommandError::incomplete(format!("{typed}: read topology: {what}")))?;
    nvml::merge(&mut topology, facts.calls.nvml.as_ref());
    admit(&mut topology, &args.treat_as_gpu, &name)?;
    if typed == "local" {
        let variable = |name: &str| std::env::var(name).ok();
        let (cuda, order) = (variable("CUDA_VISIBLE_DEVICES"), variable("CUDA_DEVICE_ORDER"));
        let nccl = variable("NCCL_IB_HCA");
        let filters = visible::Filters {
            cuda: cuda.as_deref(),
            cuda_order: order.as_deref(),
            nccl: nccl.as_deref(),
        };
        visible::restrict(&mut topology, filters);
    }
    Ok(Seen { name, source: report::live_source(&topology), topology })
}

fn facts(
    typed: &str,
    verbose: u8,
    launching: &LaunchArgs,
) -> Result<(String, HostFacts), CommandError> {
    let specs = parse_hosts(&[typed]).map_err(|e| CommandError::usage(e.to_string()))?;
    let launch = launch(launching, verbose)?;
    let interrupt = install_interrupt()?;
    let mut session = start(&specs, &launch, &interrupt)?;
    let all = all_facts(&mut session, &interrupt)?;
    session.close();
    match (specs.first(), all.into_iter().next()) {
        (Some(spec), Some(facts)) => Ok((spec.name.clone(), facts)),
        _ => Err(CommandError::incomplete(format!("{typed}: no answer; try again with -v"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str) -> Result<Seen, CommandError> {
        from_capture(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path), &[])
    }

    #[test]
    fn a_capture_is_read_whatever_its_format() {
        let folder = "harness/tests/topologies";
        let graph = seen(&format!("{folder}/cloud/azure-ncv4-graph.xml")).err().unwrap();
        assert_eq!(graph.code, ExitCode::USAGE);
        assert!(graph.message.contains("NCCL graph file"), "{}", graph.message);
        let absent = seen("no/such/file").err().unwrap();
        assert!(absent.message.contains("no/such/file"), "{}", absent.message);
        let h100 = seen(&format!("{folder}/cloud/oci-H100-topology.xml")).unwrap();
        assert!(h100.source.ends_with("(NCCL topology XML)"));
        let judged = topology::judge(&h100.topology, Rules::default());
        assert_eq!(judged.status, Status::Pass);
    }

    #[test]
    fn a_directory_is_read_like_the_live_machine() {
        let root = tempfile::tempdir().unwrap();
        let complex = root.path().join("sys/devices/pci0000:00");
        let devices = root.path().join("sys/bus/pci/devices");
        std::fs::create_dir_all(&devices).unwrap();
        let function = |path: &str, class: &str, vendor: &str| {
            let place = complex.join(path);
            std::fs::create_dir_all(&place).unwrap();
            for (file, text) in [("class", class), ("vendor", vendor), ("device", "0x2335")] {
                std::fs::write(place.join(file), format!("{text}\n")).unwrap();
            }
            let name = path.rsplit('/').next().unwrap();
            let target = format!("../../../devices/pci0000:00/{path}");
            std::os::unix::fs::symlink(target, devices.join(name)).unwrap();
        };
        let (port, up) = ("0000:00:01.0", "0000:00:01.0/0000:01:00.0");
        function(port, "0x060400", "0x8086");
        function(up, "0x060400", "0x1000");
        for (down, leaf) in [("0000:02:00.0", "0000:03:00.0"), ("0000:02:01.0", "0000:04:00.0")] {
            function(&format!("{up}/{down}"), "0x060400", "0x1000");
            let gpu = leaf.starts_with("0000:03");
            let (class, vendor) = if gpu { ("0x030200", "0x10de") } else { ("0x020700", "0x15b3") };
            function(&format!("{up}/{down}/{leaf}"), class, vendor);
        }
        let adapter = complex.join(format!("{up}/0000:02:01.0/0000:04:00.0/infiniband/mlx5_0"));
        std::fs::create_dir_all(adapter.join("ports/1")).unwrap();
        std::fs::write(adapter.join("ports/1/state"), "4: ACTIVE\n").unwrap();
        std::fs::write(adapter.join("ports/1/rate"), "400 Gb/sec (4X NDR)\n").unwrap();
        let class = root.path().join("sys/class/infiniband");
        std::fs::create_dir_all(&class).unwrap();
        let target = "../../devices/pci0000:00/".to_owned()
            + adapter.strip_prefix(&complex).unwrap().to_str().unwrap();
        std::os::unix::fs::symlink(target, class.join("mlx5_0")).unwrap();
        let seen = from_capture(root.path(), &[]).unwrap();
        let judged = topology::judge(&seen.topology, Rules::default());
        assert_eq!(judged.gpus[0].class.word(), "PIX");
        assert_eq!(judged.scene.adapters[0].name, "mlx5_0");
        assert_eq!(judged.scene.adapters[0].rate_mbps, Some(400_000));
        assert!(view::table(&seen.topology, &judged, "test").contains("switch 0000:01:00.0"));
    }
}
