//! Counts by the formulas of the algorithms; that schedules fit each other is proved by running
//! them.

use super::build::cut;
use super::*;

/// Bytes that every count of ranks up to 8 divides into whole cache lines.
const BYTES: usize = 840 * 64;
/// Elements of four bytes.
const ELEMENTS: usize = BYTES / 4;

fn schedules(collective: Collective, algorithm: Algorithm, hosts: &[usize]) -> Vec<Schedule> {
    let one = |rank| {
        Schedule::new(&Scope {
            collective,
            algorithm,
            rank,
            hosts,
            elements: ELEMENTS,
            align: 16,
            root: 0,
        })
        .unwrap()
    };
    (0..hosts.len()).map(one).collect()
}

/// Messages and bytes that each rank sends.
fn sent(collective: Collective, algorithm: Algorithm, hosts: &[usize]) -> Vec<(usize, usize)> {
    let all = schedules(collective, algorithm, hosts);
    all.iter().map(|s| s.sent()).map(|(count, elements)| (count, 4 * elements)).collect()
}

fn alone(ranks: usize) -> Vec<usize> {
    (0..ranks).collect()
}

#[test]
fn ring_and_direct_send_twice_n_minus_one_chunks() {
    for n in 2..=8 {
        let want = vec![(2 * (n - 1), 2 * (n - 1) * BYTES / n); n];
        assert_eq!(sent(Collective::AllReduce, Algorithm::Ring, &alone(n)), want);
        assert_eq!(sent(Collective::AllReduce, Algorithm::Direct, &alone(n)), want);
    }
}

#[test]
fn halving_and_doubling_sends_twice_log_n_messages_and_folds_the_rest() {
    for n in 2..=8_usize {
        let core = 1 << n.ilog2();
        let (messages, bytes) = (2 * n.ilog2() as usize, 2 * (core - 1) * BYTES / core);
        let extra = n - core;
        for (rank, got) in sent(Collective::AllReduce, Algorithm::Rhd, &alone(n)).iter().enumerate()
        {
            let want = match rank {
                _ if rank >= 2 * extra => (messages, bytes),
                _ if rank % 2 == 0 => (1, BYTES),
                _ => (messages + 1, bytes + BYTES),
            };
            assert_eq!(*got, want, "rank {rank} of {n}");
        }
    }
}

#[test]
fn a_double_tree_sends_at_most_twice_the_vector() {
    for n in 2..=64 {
        let all = sent(Collective::AllReduce, Algorithm::Tree, &alone(n));
        assert!(all.iter().all(|(_, bytes)| *bytes <= 2 * BYTES), "{n}: {all:?}");
        let sum: usize = all.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, 2 * (n - 1) * BYTES, "every edge of both trees, twice half the vector");
        let steps = schedules(Collective::AllReduce, Algorithm::Tree, &alone(n))[0].steps;
        assert!(steps <= 2 * (n.ilog2() + 1), "{n}: {steps} steps");
    }
}

#[test]
fn no_rank_has_more_than_two_children_over_both_trees() {
    for n in 2..=33 {
        for schedule in schedules(Collective::AllReduce, Algorithm::Tree, &alone(n)) {
            let reduces = schedule.moves.iter().filter(|m| matches!(m.action, Action::Reduce(_)));
            assert!(reduces.count() <= 2, "{n}: {schedule:?}");
        }
    }
}

#[test]
fn rail_sends_between_hosts_only_its_shard() {
    for (k, g) in [(2, 2), (2, 4), (3, 2), (4, 1), (1, 4)] {
        let hosts: Vec<usize> = (0..k * g).map(|rank| rank / g).collect();
        for (rank, schedule) in
            schedules(Collective::AllReduce, Algorithm::Rail, &hosts).iter().enumerate()
        {
            let outside = |m: &&Move| m.is_send() && hosts[m.peer] != hosts[rank];
            let between: usize = schedule.moves.iter().filter(outside).map(|m| m.range.len()).sum();
            assert_eq!(between * 4, 2 * (k - 1) * (BYTES / g) / k, "{k} hosts, {g} rails");
            assert_eq!(schedule.sent().0, 2 * (g - 1) + 2 * (k - 1));
        }
    }
}

#[test]
fn the_other_collectives_send_what_nccl_tests_counts() {
    for n in 2..=8 {
        let chunks = vec![(n - 1, (n - 1) * BYTES / n); n];
        for algorithm in [Algorithm::Ring, Algorithm::Direct] {
            assert_eq!(sent(Collective::AllGather, algorithm, &alone(n)), chunks);
            assert_eq!(sent(Collective::ReduceScatter, algorithm, &alone(n)), chunks);
        }
        assert_eq!(sent(Collective::AllToAll, Algorithm::Direct, &alone(n)), chunks);
        assert_eq!(sent(Collective::SendRecv, Algorithm::Ring, &alone(n)), vec![(1, BYTES); n]);
        for algorithm in [Algorithm::Ring, Algorithm::Tree] {
            let all = sent(Collective::Broadcast, algorithm, &alone(n));
            let sum = all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            assert_eq!(sum, (n - 1, (n - 1) * BYTES), "{n}: everybody but the root gets it once");
        }
    }
}

#[test]
fn bus_factors_are_those_of_nccl_tests() {
    let of = |collective: Collective, n| collective.bus_factor(n);
    assert_eq!([2, 4, 8, 16].map(|n| of(Collective::AllReduce, n)), [1.0, 1.5, 1.75, 1.875]);
    assert_eq!(of(Collective::AllGather, 4), 0.75);
    assert_eq!(of(Collective::AllToAll, 8), 0.875);
    assert_eq!(of(Collective::SendRecv, 8), 1.0);
    assert_eq!(of(Collective::AllReduce, 1), 1.0);
}

#[test]
fn cutting_keeps_every_element_and_the_alignment() {
    for len in [0, 1, 15, 16, 17, 100, 4096] {
        for count in 1..9 {
            let chunks = cut(10..10 + len, count, 16);
            assert_eq!((chunks[0].start, chunks[count - 1].end), (10, 10 + len));
            assert!(chunks.windows(2).all(|w| w[0].end == w[1].start));
            assert!(chunks.windows(2).all(|w| (w[0].end - 10) % 16 == 0));
        }
    }
}

#[test]
fn what_cannot_be_done_is_said_with_what_can() {
    let scope = |collective, algorithm, hosts| Scope {
        collective,
        algorithm,
        rank: 0,
        hosts,
        elements: 8,
        align: 1,
        root: 0,
    };
    let refusal = check(&scope(Collective::AllGather, Algorithm::Tree, &[0, 1])).unwrap_err();
    assert_eq!(refusal, "all_gather is not done by tree: choose from ring, direct");
    let refusal = check(&scope(Collective::AllReduce, Algorithm::Rail, &[0, 0, 1])).unwrap_err();
    assert!(refusal.contains("as many ranks on every host"), "{refusal}");
    let root = Scope { root: 2, ..scope(Collective::Broadcast, Algorithm::Ring, &[0, 1]) };
    assert_eq!(check(&root).unwrap_err(), "root 2: ranks are 0 to 1");
    for collective in Collective::ALL {
        for &algorithm in collective.algorithms() {
            let one = Schedule::new(&scope(collective, algorithm, &[0])).unwrap();
            assert_eq!((one.moves.len(), one.keeps), (0, 0..8), "one rank copies");
        }
    }
}
