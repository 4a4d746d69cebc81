//! The hop that a collective waits for.

use fabbench_reports::model::{Collective, Measurement, RankWait};
use fabbench_reports::units::{Share, Size, Time};

use super::Cause;
use super::scene::Scene;

/// Below this part of the time a hop holds nobody up.
const HELD_UP: f64 = 0.2;
/// So many times as long as at any other hop.
const STANDS_OUT: f64 = 2.0;

pub(super) fn causes(scene: &Scene) -> Vec<Cause> {
    let all = scene.report.measurements.iter().filter(|m| m.test == "collective");
    let largest = all.filter(|m| m.ranks.len() > 2).max_by_key(|m| m.size_bytes);
    largest.and_then(slow_hop).into_iter().collect()
}

/// A slow hop makes every rank wait, each for the one before. It is where the receiver waits while
/// the sender has something for it that finds no room.
fn slow_hop(m: &Measurement) -> Option<Cause> {
    let detail = m.collective.as_ref()?;
    let mut hops: Vec<(f64, &RankWait)> = detail.waits.iter().filter_map(stuck).collect();
    hops.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (stuck, hop) = *hops.first()?;
    let next = hops.get(1).map_or(0.0, |hop| hop.0);
    let stands_out = stuck >= HELD_UP * detail.time_ns.avg && stuck >= STANDS_OUT * next;
    stands_out.then(|| cause(m, detail, hop, next))
}

fn stuck(wait: &RankWait) -> Option<(f64, &RankWait)> {
    Some((wait.ns.min(wait.sender_blocked_ns?), wait))
}

fn cause(m: &Measurement, detail: &Collective, hop: &RankWait, next: f64) -> Cause {
    let host = |rank: u32| m.ranks.get(rank as usize).map_or("?", String::as_str);
    let (from, to) = (hop.waits_for, hop.rank);
    let (sender, receiver) = (host(from), host(to));
    let blocked = hop.sender_blocked_ns.unwrap_or(0.0);
    Cause::new(
        60,
        "a collective waits for one hop",
        format!("rank {from} ({sender}) to rank {to} ({receiver})"),
    )
    .seen(format!(
        "{} {} {}: rank {to} waited {} of {} a run for rank {from}, which had something for it \
         and found no room for {}; at no other hop both took more than {}",
        m.op,
        m.algorithm,
        Size(m.size_bytes),
        Time(hop.ns),
        Time(detail.time_ns.avg),
        Time(blocked),
        Share(next / detail.time_ns.avg)
    ))
    .remedy(format!("measure it alone: fabbench pair {sender} {receiver}"))
}

#[cfg(test)]
mod tests {
    use fabbench_reports::model::RankTime;

    use super::*;

    /// Four ranks in a ring: what each waits for the one before, and what that one was blocked.
    fn ring(waits: [(f64, f64); 4]) -> Measurement {
        let wait = |(rank, (ns, blocked)): (usize, &(f64, f64))| RankWait {
            rank: rank as u32,
            waits_for: (rank as u32 + 3) % 4,
            ns: *ns,
            sender_blocked_ns: Some(*blocked),
        };
        Measurement {
            test: "collective".into(),
            op: "all_reduce".into(),
            algorithm: "ring".into(),
            ranks: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            size_bytes: 1 << 25,
            collective: Some(Collective {
                time_ns: RankTime { avg: 1e6, ..RankTime::default() },
                waits: waits.iter().enumerate().map(wait).collect(),
                ..Collective::default()
            }),
            ..Measurement::default()
        }
    }

    #[test]
    fn the_slow_hop_is_where_the_sender_finds_no_room_and_the_receiver_waits() {
        // All wait alike, since all are paced by the slow hop from b to c.
        let slow = slow_hop(&ring([(6e5, 1e4), (6e5, 2e4), (6e5, 5e5), (6e5, 0.0)])).unwrap();
        assert_eq!(slow.object, "rank 1 (b) to rank 2 (c)");
        assert_eq!(slow.remedy, "measure it alone: fabbench pair b c");
        assert!(slow.evidence[0].contains("2.0 %"), "{:?}", slow.evidence);
    }

    #[test]
    fn where_all_hops_are_alike_none_is_named() {
        assert_eq!(slow_hop(&ring([(6e5, 3e5), (5e5, 3e5), (6e5, 4e5), (5e5, 3e5)])), None);
        let short = ring([(1e5, 0.0), (1e5, 0.0), (1e5, 1e5), (1e5, 0.0)]);
        assert_eq!(slow_hop(&short), None, "a tenth of the time holds nobody up");
        let mut unseen = ring([(6e5, 0.0); 4]);
        for wait in &mut unseen.collective.as_mut().unwrap().waits {
            wait.sender_blocked_ns = None;
        }
        assert_eq!(slow_hop(&unseen), None);
    }
}
