//! One rank of a collective: finds its peers, then sweeps.

mod verbs;

use std::cell::Cell;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::CaseContext;
use crate::engine::collective::carrier::OverSockets;
use crate::engine::collective::sweep;
use crate::engine::{End, StageCell, stall_limit};
use crate::measure::clock::Clock;
use crate::session::peer::{Listener, dial_data};
use crate::session::protocol::{RankPart, Role, SideResult, ToCoordinator};
use crate::transport::tcp::{Polling, TcpLanes};
use crate::transport::{Failure, FailureKind, Result};

/// How long all ranks may take to listen, and how long they may take to find each other.
const CONNECT: Duration = Duration::from_secs(20);

/// How long a rank waits for the start: the last one may be slow to connect.
const PATIENCE: Duration = Duration::from_secs(60);

/// Slowest transfer that does not count as stalled, bytes/s.
const SLOWEST: u64 = 100_000_000;

/// CPUs that a rank needs to spin without keeping others, or the kernel, from running.
const CPUS_TO_SPIN: usize = 4;

/// Runs one rank to its end and says how it went.
pub(super) fn run(part: &RankPart, context: &CaseContext) {
    let case = part.case;
    let mut rank = Rank {
        part,
        context,
        side: SideResult::default(),
        setup: Cell::new(Some("connect")),
        stage: StageCell::new(),
    };
    let result = rank.conduct();
    let stage = rank.setup.get().unwrap_or_else(|| rank.stage.get().word()).to_string();
    let side = Box::new(rank.side);
    context.emit(&match result {
        Ok(()) => ToCoordinator::Done { case, side },
        Err(failure) => ToCoordinator::Failed { case, stage, failure, side },
    });
}

struct Rank<'a> {
    part: &'a RankPart,
    context: &'a CaseContext,
    side: SideResult,
    /// Stage before the sweep runs; none once it does.
    setup: Cell<Option<&'static str>>,
    stage: StageCell,
}

impl Rank<'_> {
    fn conduct(&mut self) -> Result<()> {
        let part = self.part;
        let peers = part.sweep.peers().map_err(|why| self.internal(&why))?;
        let sockets = self.connect(&peers)?;
        self.setup.set(Some("prepare"));
        match &part.verbs {
            Some(verbs) if !peers.is_empty() => self.over_verbs(verbs, &peers, sockets),
            _ => self.over_sockets(peers, sockets),
        }
    }

    fn over_sockets(&mut self, peers: Vec<usize>, sockets: Vec<TcpStream>) -> Result<()> {
        let part = self.part;
        let mut lanes = TcpLanes::new(sockets, 1, self.polling())?;
        self.context.emit(&ToCoordinator::Ready { case: part.case });
        self.context.wait_for_go(PATIENCE)?;
        self.setup.set(None);
        let mut tell = |row| {
            self.context.emit(&ToCoordinator::Row { case: part.case, row: Box::new(row) });
        };
        let before = lanes.retransmits().ok();
        let end = self.end();
        let largest = part.sweep.largest();
        let mut carrier = OverSockets::new(&end, &mut lanes, &Clock, peers, largest)?;
        sweep::run(&end, &mut carrier, &Clock, &part.sweep, &mut tell)?;
        if let (Some(before), Ok(after)) = (before, lanes.retransmits()) {
            let grown = i64::try_from(after.saturating_sub(before)).unwrap_or(i64::MAX);
            self.side.counters.insert("tcp/retransmitted_segments".into(), grown);
        }
        Ok(())
    }

    /// What the engine has to know of this rank.
    fn end(&self) -> End<'_> {
        let sweep = &self.part.sweep;
        let steps = 2 * sweep.hosts.len() as u64;
        let largest = sweep.largest() as u64;
        let predicted = largest.saturating_mul(1_000_000_000 / SLOWEST).saturating_mul(steps);
        End {
            role: Role::Initiator,
            object: &self.part.name,
            abort: self.context.abort(),
            stage: &self.stage,
            patience: PATIENCE,
            stall: stall_limit(Duration::from_nanos(predicted) / 50),
        }
    }

    /// A socket to each of `peers`: a rank dials those above it and lets in those below.
    fn connect(&self, peers: &[usize]) -> Result<Vec<TcpStream>> {
        let part = self.part;
        let mut listener = Listener::bind(&part.addresses, &part.token)?;
        let addresses = listener.addresses().to_vec();
        self.context.emit(&ToCoordinator::Listening { case: part.case, addresses });
        let ranks = self.context.wait_for_ranks(CONNECT)?;
        let me = part.sweep.rank;
        let (below, above): (Vec<usize>, Vec<usize>) = peers.iter().partition(|peer| **peer < me);
        let dialled = above
            .iter()
            .map(|&peer| self.dial(peer, ranks.get(peer).map_or(&[][..], Vec::as_slice)))
            .collect::<Result<Vec<_>>>()?;
        let lanes: Vec<u32> = below.iter().map(|&peer| peer as u32).collect();
        let mut sockets = listener.accept_lanes(&lanes, CONNECT, self.context.abort())?;
        sockets.extend(dialled);
        Ok(sockets)
    }

    fn dial(&self, peer: usize, addresses: &[SocketAddr]) -> Result<TcpStream> {
        let part = self.part;
        let lane = part.sweep.rank as u32;
        let way = (addresses, &part.bind[..]);
        dial_data(way, &part.token, lane, CONNECT, self.context.abort()).map_err(|failure| {
            let object = format!("{} -> rank {peer}", part.name);
            Failure { object, ..failure }
        })
    }

    /// Spins where this host has enough CPUs for all of its ranks.
    fn polling(&self) -> Polling {
        let cpus = self.cpus();
        Polling::for_cpus(if cpus >= CPUS_TO_SPIN { cpus } else { 0 })
    }

    /// CPUs for each rank of this host.
    fn cpus(&self) -> usize {
        let hosts = &self.part.sweep.hosts;
        let own = hosts.get(self.part.sweep.rank);
        let ranks = hosts.iter().filter(|host| Some(*host) == own).count().max(1);
        crate::host::calls::allowed_cpus().len() / ranks
    }

    fn internal(&self, cause: &str) -> Failure {
        Failure::new(FailureKind::Internal, "prepare", self.part.name.clone(), cause)
    }
}
