//! More bandwidth never hurts, more oversubscription never helps: over random jobs.

use super::*;
use crate::advise::estimate::{self, exposed};

/// A small generator of its own, so that a failing case can be run again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len() as u64) as usize]
    }
}

fn any_job(dice: &mut Dice) -> Job {
    if dice.roll(4) == 0 {
        return infer("70b", dice.of(&[1, 32, 256]), dice.of(&[1, 8, 16]), dice.of(&[1, 2, 4]), 8);
    }
    let scheme = dice.of(&[Scheme::Ddp, Scheme::Zero1, Scheme::Zero2, Scheme::Zero3, Scheme::Hsdp]);
    let mut job = train(dice.of(&["7b", "70b", "deepseek-v3"]), scheme, 1.0, 8);
    job.parallel = Parallel {
        dp: None,
        tp: dice.of(&[1, 8, 16]),
        pp: dice.of(&[1, 2]),
        cp: dice.of(&[1, 2]),
        ep: 1,
    };
    if job.model.moe.is_some() {
        job.parallel.ep = dice.of(&[1, 2]);
    }
    let Task::Train(train) = &mut job.task else { panic!("not training") };
    train.tokens = Tokens::PerGpu(dice.of(&[256.0, 4096.0, 65536.0]));
    train.accumulate = dice.of(&[1, 4]);
    train.trainable = dice.of(&[1.0, 0.01]);
    train.prefetch = dice.roll(2) == 0;
    job
}

fn any_path(dice: &mut Dice) -> Path {
    Path {
        oversubscription: dice.of(&[1.0, 2.0]),
        leaf: dice.of(&[None, Some(4)]),
        storage: dice.of(&[0.0, 1e9]),
        checkpoint: dice.of(&[None, Some(1800.0)]),
        overlap: dice.of(&[0.0, 0.5, 1.0]),
        tail: dice.roll(2) == 0,
        algorithm: dice.of(&[Algorithm::Auto, Algorithm::Ring, Algorithm::Tree]),
        step_overhead: dice.of(&[0.0, 5e-6]),
        jitter: dice.of(&[0.0, 0.02]),
    }
}

#[test]
fn more_bandwidth_never_hurts_and_more_oversubscription_never_helps() {
    let mut dice = Dice(7);
    let mut moved = 0;
    for _ in 0..600 {
        let (job, path) = (any_job(&mut dice), any_path(&mut dice));
        let nodes = dice.of(&[8_u32, 16, 64]);
        let link = rdma(dice.of(&[1, 8]), dice.of(&[2e-6, 50e-6]), dice.of(&[1e9, 12e9, 45e9]));
        let at = |link: &Link, path: &Path| {
            estimate::Model { job: &job, link, path }.estimate(nodes).unwrap()
        };
        let here = at(&link, &path);
        let faster = at(&link.scaled(1.0 + dice.roll(40) as f64 / 10.0), &path);
        let more = path.oversubscription * (1.0 + dice.roll(40) as f64 / 10.0);
        let crowded = at(&link, &Path { oversubscription: more, ..path.clone() });
        for (better, worse) in [(&faster, &here), (&here, &crowded)] {
            let least = |a: f64, b: f64| a >= b - 1e-12;
            assert!(least(better.efficiency, worse.efficiency), "{job:?} {path:?} {link:?}");
            assert!(least(better.efficiency_band.best, worse.efficiency_band.best));
            assert!(least(better.efficiency_band.worst, worse.efficiency_band.worst));
            assert!(better.verdict <= worse.verdict && better.network_ns <= worse.network_ns);
            assert!(better.critical_tokens_per_gpu <= worse.critical_tokens_per_gpu);
            moved += u32::from(better.efficiency > worse.efficiency);
        }
        let band = here.efficiency_band;
        assert!(band.worst <= here.efficiency + 1e-12 && here.efficiency <= band.best + 1e-12);
        assert!(here.step_ns.best <= here.step_ns.worst);
    }
    assert!(moved > 300, "the jobs must feel the network: {moved}");
}

#[test]
fn flows_share_the_time_there_is_to_hide_behind() {
    // One flow alone hides; two of the same window do not fit into it together.
    assert_eq!(exposed(&[(3.0, 4.0)], 1.0), 0.0);
    assert_eq!(exposed(&[(3.0, 4.0), (3.0, 4.0)], 1.0), 2.0);
    // What holds computing up is open in full; what hides beside it does not pay for it.
    assert_eq!(exposed(&[(5.0, 0.0), (6.0, 10.0)], 1.0), 5.0);
    assert_eq!(exposed(&[(5.0, 0.0), (12.0, 10.0)], 1.0), 7.0);
    // A short window inside a long one.
    assert_eq!(exposed(&[(4.0, 2.0), (3.0, 6.0)], 1.0), 2.0);
    assert_eq!(exposed(&[(4.0, 2.0), (3.0, 6.0)], 0.0), 7.0);
    assert_eq!(exposed(&[(3.0, 4.0)], 0.5), 1.0);
    assert_eq!(exposed(&[], 1.0), 0.0);
}
