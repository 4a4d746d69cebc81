//! `fabbench allreduce` as mpirun, srun and torchrun start it: one process a rank.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use fabbench_reports::json;

use crate::support::{Run, alone, end_of, fabbench, finish, signal};

/// A command line for a rank, with what its launcher tells it.
fn rank(typed: &str, env: &[(&str, String)], meet: Option<&Path>) -> Command {
    let typed: Vec<&str> = ["allreduce"].into_iter().chain(typed.split_whitespace()).collect();
    let mut command = fabbench(&typed);
    for foreign in ["MASTER_ADDR", "MASTER_PORT", "FABBENCH_TOKEN", "FABBENCH_RENDEZVOUS", "HOME"] {
        command.env_remove(foreign);
    }
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.envs(meet.map(|directory| ("FABBENCH_RENDEZVOUS", directory)));
    command
}

fn open_mpi(rank: usize, size: usize) -> Vec<(&'static str, String)> {
    vec![
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", size.to_string()),
        ("PMIX_NAMESPACE", format!("prterun-{}@1", std::process::id())),
    ]
}

/// Starts ranks 1 and up, then runs rank 0; all must end well.
fn all(size: usize, one: impl Fn(usize) -> Command) -> Run {
    let _alone = alone();
    let mut others: Vec<Child> = (1..size).map(|rank| one(rank).spawn().unwrap()).collect();
    let first = finish(&mut one(0));
    for (index, other) in others.iter_mut().enumerate() {
        let status = end_of(other);
        assert_eq!(status.code(), Some(0), "rank {}; rank 0: {}", index + 1, first.stderr);
    }
    first
}

const SWEEP: &str = "-b 8 -e 4KiB -f 8 -n 3 -w 1 --json";

#[test]
fn ranks_of_mpirun_meet_by_a_file_and_measure() {
    let place = tempfile::tempdir().unwrap();
    let ran = all(3, |index| rank(SWEEP, &open_mpi(index, 3), Some(place.path())));
    ran.expect(0, &[]);
    let report = json::read(&ran.stdout).unwrap();
    assert_eq!(report.measurements.len(), 4 * 2);
    for m in &report.measurements {
        assert_eq!((m.ranks.len(), m.elements_wrong), (3, Some(0)), "{}", m.data_errors);
    }
    assert_eq!(report.hosts.len(), 3);
    assert_eq!(report.measurements[0].method.requested["rank_order"], "given");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "the file is gone");
}

#[test]
fn ranks_of_srun_and_torchrun_meet_by_address_and_token() {
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let token = [("FABBENCH_TOKEN", "0123456789abcdef0123".to_owned())];
    let master = [("MASTER_ADDR", "127.0.0.1".to_owned()), ("MASTER_PORT", port().to_string())];
    let slurm = |index: usize| {
        let step = [
            ("SLURM_PROCID", index.to_string()),
            ("SLURM_NTASKS", "2".into()),
            ("SLURM_STEP_ID", "0".into()),
            ("SLURM_JOB_ID", "4711".into()),
            ("SLURM_STEP_NUM_NODES", "2".into()),
            ("SLURM_STEP_NODELIST", "gpu[07-08]".into()),
        ];
        rank(SWEEP, &[&step[..], &master[..], &token[..]].concat(), None)
    };
    all(2, slurm).expect(0, &[]);
    let torch = |index: usize| {
        let own = [("RANK", index.to_string()), ("WORLD_SIZE", "2".into())];
        rank(SWEEP, &[&own[..], &master[..], &token[..]].concat(), None)
    };
    let ran = all(2, torch);
    let report = json::read(&ran.stdout).unwrap();
    assert!(report.measurements.iter().all(|m| m.ranks.len() == 2));
}

#[test]
fn what_cannot_be_meant_inside_a_job_is_refused_by_every_rank() {
    for (typed, sentence) in [
        ("local local", "Open MPI started 2 processes, and each would measure the hosts given"),
        ("-t 2", "Open MPI decides how many ranks a host has"),
        ("-b 6", "not a whole number of f32 elements"),
    ] {
        let first = finish(&mut rank(typed, &open_mpi(0, 2), None));
        first.expect(2, &[sentence]);
        finish(&mut rank(typed, &open_mpi(1, 2), None)).expect(2, &["rank 1: as rank 0 says"]);
    }
    finish(&mut rank("", &open_mpi(0, 2), None)).expect(2, &["FABBENCH_RENDEZVOUS"]);
    finish(&mut rank("", &open_mpi(5, 2), None)).expect(2, &["start all ranks by one Open MPI"]);
    let weak = [&open_mpi(0, 2)[..], &[("FABBENCH_TOKEN", "short".into())]].concat();
    finish(&mut rank("", &weak, None)).expect(2, &["FABBENCH_TOKEN: a token needs at least 16"]);
}

#[test]
fn a_rank_of_a_job_that_dies_is_named_and_ends_all() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let typed = "-b 1MiB -e 1MiB -n 1000000 -w 0";
    let start = |index| rank(typed, &open_mpi(index, 3), Some(place.path())).spawn().unwrap();
    let (mut first, mut second, mut third) = (start(0), start(1), start(2));
    std::thread::sleep(Duration::from_secs(3));
    let hit = Instant::now();
    signal(i64::from(third.id()), "-KILL");
    let _ = third.wait();
    assert_eq!(end_of(&mut first).code(), Some(3));
    assert_eq!(end_of(&mut second).code(), Some(0), "it served until rank 0 said goodbye");
    assert!(hit.elapsed() < Duration::from_secs(15), "{:?}", hit.elapsed());
    let said = first.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("(rank 2)") && said.contains("was then at step"), "{said}");
}
