//! What a launcher of parallel jobs tells each process that it starts: mpirun, srun, torchrun.

use fabbench_harness::leaves;

/// One process of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// Own number, from 0.
    pub rank: u16,
    /// Number of processes.
    pub size: u16,
    /// Who started them, for messages.
    pub launcher: &'static str,
    /// Name that all processes of this job know and those of others do not, fit for a file.
    pub job: String,
    /// All of them run on one machine.
    pub together: bool,
    /// Where rank 0 listens, as far as the launcher tells.
    pub root: Option<(String, u16)>,
}

/// Names under which a launcher tells rank, number of ranks and number of ranks on this host.
struct Family {
    launcher: &'static str,
    rank: &'static str,
    size: &'static str,
    here: &'static str,
}

/// mpirun goes before srun: in a Slurm allocation its processes also see what Slurm told the daemons
/// that started them.
const FAMILIES: [Family; 4] = [
    Family {
        launcher: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        here: "OMPI_COMM_WORLD_LOCAL_SIZE",
    },
    Family { launcher: "mpiexec", rank: "PMI_RANK", size: "PMI_SIZE", here: "MPI_LOCALNRANKS" },
    Family { launcher: "srun", rank: "SLURM_PROCID", size: "SLURM_NTASKS", here: "" },
    Family { launcher: "torchrun", rank: "RANK", size: "WORLD_SIZE", here: "LOCAL_WORLD_SIZE" },
];

/// What tells jobs apart, likeliest first.
const JOBS: [&str; 6] = [
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "PMI_JOBID",
    "TORCHELASTIC_RUN_ID",
    "PBS_JOBID",
    "LSB_JOBID",
];

/// First port that is derived from the name of a job, and how many there are: below the ports that
/// Linux gives to outgoing connections.
const PORTS: (u16, u16) = (20_000, 10_000);

/// A variable of the environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The job that this process is part of; none when it was started by itself. A shell inside a Slurm
/// allocation, which is no step of it, was.
///
/// # Errors
/// A sentence when a launcher's variables contradict each other.
pub fn detect(variable: Variable) -> Result<Option<World>, String> {
    for family in &FAMILIES {
        let told = variable(family.rank).zip(variable(family.size));
        let by_step = family.launcher != "srun" || variable("SLURM_STEP_ID").is_some();
        if let Some((rank, size)) = told.filter(|_| by_step) {
            return world(family, &rank, &size, variable).map(Some);
        }
    }
    Ok(None)
}

fn world(family: &Family, rank: &str, size: &str, variable: Variable) -> Result<World, String> {
    let numbers = rank.parse::<u16>().ok().zip(size.parse::<u16>().ok());
    let Some((rank, size)) = numbers.filter(|(rank, size)| rank < size) else {
        let (of_rank, of_size) = (family.rank, family.size);
        return Err(format!(
            "{of_rank}={rank} and {of_size}={size} are no rank and number of ranks: start all \
             ranks by one {}, or unset both",
            family.launcher
        ));
    };
    let job = job(variable);
    let together = size == 1 || on_one_host(family, size, variable);
    let root = root(&job, together, variable)?;
    Ok(World { rank, size, launcher: family.launcher, job, together, root })
}

/// Whether all ranks are on this host.
fn on_one_host(family: &Family, size: u16, variable: Variable) -> bool {
    let is = |name: &str, number: u16| variable(name).is_some_and(|v| v == number.to_string());
    match family.launcher {
        "srun" => is("SLURM_STEP_NUM_NODES", 1),
        _ => is(family.here, size),
    }
}

fn job(variable: Variable) -> String {
    let slurm = || {
        let (job, step) = (variable("SLURM_JOB_ID")?, variable("SLURM_STEP_ID")?);
        Some(format!("slurm-{job}.{step}"))
    };
    let own = JOBS.iter().find_map(|name| variable(name));
    let name = own.or_else(slurm).unwrap_or_else(|| "job".to_owned());
    let safe = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    name.chars().take(100).map(safe).collect()
}

/// `MASTER_ADDR` and `MASTER_PORT` go first; torchrun listens on that port itself, so the next one
/// is taken. Slurm names its hosts in the order of ranks. `SLURM_LAUNCH_NODE_IPADDR` is where srun
/// was typed, which need not be a host of the step.
fn root(job: &str, together: bool, variable: Variable) -> Result<Option<(String, u16)>, String> {
    let torch = variable("TORCHELASTIC_RUN_ID").is_some();
    let port = match variable("MASTER_PORT") {
        None => derived_port(job),
        Some(text) => {
            let port = text.trim().parse::<u16>().ok().filter(|port| *port > 0);
            let port = port.and_then(|port| port.checked_add(u16::from(torch)));
            port.ok_or_else(|| format!("MASTER_PORT={text} is no port: give 1 to 65535"))?
        }
    };
    if together && variable("MASTER_ADDR").is_none() {
        return Ok(Some(("127.0.0.1".to_owned(), port)));
    }
    let of_slurm = || {
        let list = variable("SLURM_STEP_NODELIST")?;
        leaves::hosts(&list).ok()?.into_iter().next()
    };
    let host = variable("MASTER_ADDR").filter(|host| !host.is_empty()).or_else(of_slurm);
    Ok(host.map(|host| (host, port)))
}

/// The same for every process of a job (FNV-1a).
fn derived_port(job: &str) -> u16 {
    let mixed = job
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    PORTS.0 + (mixed % u32::from(PORTS.1)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(all: &[(&str, &str)]) -> Result<Option<World>, String> {
        detect(&|name| {
            let found = all.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn world(all: &[(&str, &str)]) -> World {
        seen(all).unwrap().unwrap()
    }

    #[test]
    fn mpirun_on_one_host_and_on_many() {
        let mut env = vec![
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
            ("PMIX_NAMESPACE", "prterun-host/77@1"),
            // Of the daemon that mpirun started in a Slurm allocation.
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_STEP_ID", "0"),
        ];
        let one = world(&env);
        assert_eq!((one.rank, one.size, one.launcher, one.together), (3, 4, "Open MPI", true));
        assert_eq!(one.job, "prterun-host_77_1");
        let (host, port) = one.root.unwrap();
        assert_eq!(host, "127.0.0.1");
        assert!((20_000..30_000).contains(&port), "{port}");
        env[2].1 = "2";
        let many = world(&env);
        assert_eq!((many.together, many.root), (false, None), "mpirun tells no address");
        env.push(("MASTER_ADDR", "node-a"));
        env.push(("MASTER_PORT", "29500"));
        assert_eq!(world(&env).root, Some(("node-a".into(), 29_500)));
    }

    #[test]
    fn srun_names_its_hosts_in_the_order_of_ranks() {
        let env = [
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_NODES", "4"),
            ("SLURM_STEP_NODELIST", "gpu[07-09,12]"),
            ("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"),
        ];
        let one = world(&env);
        assert_eq!((one.launcher, one.job.as_str(), one.together), ("srun", "slurm-4711.0", false));
        assert_eq!(one.root.unwrap().0, "gpu07");
        let batch: Vec<_> = env.into_iter().filter(|(name, _)| *name != "SLURM_STEP_ID").collect();
        assert_eq!(seen(&batch), Ok(None), "a batch script is no step");
    }

    #[test]
    fn torchrun_keeps_its_port_for_itself() {
        let env = [
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("LOCAL_WORLD_SIZE", "1"),
            ("MASTER_ADDR", "10.1.1.1"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_RUN_ID", "none"),
        ];
        assert_eq!(world(&env).root, Some(("10.1.1.1".into(), 29_501)));
        assert_eq!(world(&env[..5]).root, Some(("10.1.1.1".into(), 29_500)));
    }

    #[test]
    fn pmi_alone_and_nothing_at_all() {
        let one = world(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")]);
        assert_eq!((one.rank, one.size, one.together), (0, 2, true));
        assert_eq!(seen(&[("PATH", "/bin"), ("RANK", "1")]), Ok(None));
    }

    #[test]
    fn contradictions_are_told_with_the_next_step() {
        for (rank, size) in [("4", "4"), ("x", "4"), ("0", "0"), ("-1", "2"), ("0", "99999")] {
            let why = seen(&[("PMI_RANK", rank), ("PMI_SIZE", size)]).unwrap_err();
            assert!(why.contains("start all ranks by one mpiexec"), "{why}");
        }
        let wrong = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "0")];
        assert!(seen(&wrong).unwrap_err().contains("MASTER_PORT=0 is no port"));
    }
}
