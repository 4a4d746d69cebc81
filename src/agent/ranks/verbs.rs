//! A rank over verbs: queue pairs to each peer over one registered buffer.

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use fabbench_harness::plan::Poll;

use super::{PATIENCE, Rank};
use crate::agent::case::place::keep_to;
use crate::engine::collective::carrier::Carrier;
use crate::engine::collective::messages::{OverMemory, Standing};
use crate::engine::collective::sweep;
use crate::host::counters::{PortCounters, delta};
use crate::measure::clock::Clock;
use crate::session::frame::{FrameError, FrameReader, FrameWriter};
use crate::session::protocol::{PortPath, ToCoordinator, VerbsPart};
use crate::transport::verbs::rc::{AddressedSpec, EndAddress, PreparedAddressed, RcAddressed};
use crate::transport::{Failure, FailureKind, Result};

/// How long a peer may take to build its queue pairs, and at the end to be done with them.
const MEET: Duration = Duration::from_secs(20);

/// Largest frame between two ranks, bytes.
const FRAME: usize = 1 << 16;

/// Bytes that are carried inside a request: more makes work queue entries large on common adapters.
const INLINE: u32 = 220;

/// CPUs that a rank needs to look for completions all the time.
const CPUS_TO_LOOK: usize = 2;

/// The socket to a peer, used before and after.
struct Link {
    peer: usize,
    reader: FrameReader,
    writer: FrameWriter,
}

impl Rank<'_> {
    /// Sweeps over queue pairs; the port's counters are read around it.
    pub(super) fn over_verbs(
        &mut self,
        verbs: &VerbsPart,
        peers: &[usize],
        sockets: Vec<TcpStream>,
    ) -> Result<()> {
        let port = self.port(verbs);
        let cpus = &port.tuning.cpu_set;
        if !cpus.is_empty() {
            keep_to(cpus).map_err(|error| {
                let object = format!("CPUs {cpus:?}");
                Failure::new(FailureKind::Refused, "pin threads", object, error.to_string())
            })?;
        }
        let mut links = self.links(peers, sockets)?;
        let mut wires = self.wires(verbs, &port, &mut links)?;
        let settings = wires.settings().clone();
        self.side.effective.extend(settings);
        let mut counters = PortCounters::new(Path::new("/"), &port.device, port.port);
        let before = verbs.counts.then(|| counters.read_settled());
        let swept = self.sweep_over(verbs, peers, &mut wires, &mut links);
        if let Some(before) = before {
            for (name, change) in delta(&before, &counters.read_settled()) {
                self.side.counters.insert(format!("{}:{}/{name}", port.device, port.port), change);
            }
        }
        swept
    }

    /// The port as this host can use it: ranks that share CPUs sleep rather than take them from
    /// each other.
    fn port(&self, verbs: &VerbsPart) -> PortPath {
        let mut port = verbs.port.clone();
        if self.cpus() < CPUS_TO_LOOK {
            port.tuning.poll = port.tuning.poll.or(Some(Poll::Event));
        }
        port
    }

    fn links(&self, peers: &[usize], sockets: Vec<TcpStream>) -> Result<Vec<Link>> {
        let link = |(&peer, socket): (&usize, TcpStream)| -> std::io::Result<Link> {
            let mut reader = FrameReader::new(socket.try_clone()?, FRAME)?;
            reader.cancel_with(Some(self.context.abort().clone()));
            Ok(Link { peer, reader, writer: FrameWriter::new(socket, FRAME)? })
        };
        let links: std::io::Result<Vec<Link>> = peers.iter().zip(sockets).map(link).collect();
        links.map_err(|error| {
            let name = self.part.name.clone();
            Failure::new(FailureKind::Refused, "prepare", name, error.to_string())
        })
    }

    /// Builds the queue pairs and connects them with those of each peer.
    fn wires(&self, verbs: &VerbsPart, port: &PortPath, links: &mut [Link]) -> Result<RcAddressed> {
        let shape = &verbs.shape;
        let prepared = PreparedAddressed::new(&AddressedSpec {
            port: port.clone(),
            lanes: links.len() * shape.channels,
            tx_depth: shape.sends(),
            rx_depth: shape.receives(),
            buffer_len: shape.buffer_len(links.len()),
            inline: INLINE,
        })?;
        let count = links.len();
        for (index, link) in links.iter_mut().enumerate() {
            let own = prepared.address_for(index, count);
            let told = link.writer.send(&own, Instant::now() + MEET);
            told.map_err(|error| self.lost(link.peer, &error))?;
        }
        let theirs = links.iter_mut().map(|link| {
            let heard: std::result::Result<EndAddress, _> = link.reader.next(Instant::now() + MEET);
            heard.map_err(|error| self.lost(link.peer, &error))
        });
        prepared.connect_each(&theirs.collect::<Result<Vec<_>>>()?)
    }

    fn sweep_over(
        &mut self,
        verbs: &VerbsPart,
        peers: &[usize],
        wires: &mut RcAddressed,
        links: &mut [Link],
    ) -> Result<()> {
        let part = self.part;
        let (rank, ranks) = (part.sweep.rank, part.sweep.hosts.len());
        let standing = Standing {
            collective: part.sweep.collective,
            ranks,
            peers: peers
                .iter()
                .map(|&peer| Ok((peer, self.place_at(peer)?)))
                .collect::<Result<Vec<_>>>()?,
        };
        let end = self.end();
        let mut carrier = OverMemory::new(&end, wires, &Clock, verbs.shape, standing)?;
        self.context.emit(&ToCoordinator::Ready { case: part.case });
        self.context.wait_for_go(PATIENCE)?;
        self.setup.set(None);
        let mut tell = |row| {
            self.context.emit(&ToCoordinator::Row { case: part.case, row: Box::new(row) });
        };
        sweep::run(&end, &mut carrier, &Clock, &part.sweep, &mut tell)?;
        carrier.barrier(rank, ranks)?;
        carrier.close()?;
        self.farewell(links)
    }

    /// Which of a peer's own peers this rank is.
    fn place_at(&self, peer: usize) -> Result<usize> {
        let sweep = sweep::Sweep { rank: peer, ..self.part.sweep.clone() };
        let theirs = sweep.peers().map_err(|why| self.internal(&why))?;
        let place = theirs.binary_search(&self.part.sweep.rank);
        place.map_err(|_| self.internal(&format!("rank {peer} knows nothing of this one")))
    }

    /// Waits until every peer is done as well: a queue pair that goes takes with it what the peer
    /// has not yet had acknowledged.
    fn farewell(&self, links: &mut [Link]) -> Result<()> {
        let deadline = Instant::now() + MEET;
        for link in links.iter_mut() {
            let told = link.writer.send(&(), deadline);
            told.map_err(|error| self.lost(link.peer, &error))?;
        }
        for link in links.iter_mut() {
            let heard: std::result::Result<(), _> = link.reader.next(deadline);
            heard.map_err(|error| self.lost(link.peer, &error))?;
        }
        Ok(())
    }

    fn lost(&self, peer: usize, error: &FrameError) -> Failure {
        let kind = match self.context.abort().load(std::sync::atomic::Ordering::Relaxed) {
            true => FailureKind::Stopped,
            false => FailureKind::PeerLost,
        };
        let object = format!("{} -> rank {peer}", self.part.name);
        Failure::new(kind, "exchange queue pairs", object, error.to_string())
    }
}
