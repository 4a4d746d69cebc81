//! Ends of cases over verbs.

use std::path::Path;
use std::time::Duration;

use fabbench_harness::plan::{Op, Test};

use super::{CaseEnd, VERIFY_DEPTH, operation};
use crate::engine::stream::fit_depth;
use crate::engine::{Note, Peer, round_trip, verify};
use crate::host::counters::{PortCounters, delta};
use crate::measure::clock::Clock;
use crate::session::peer::PeerLink;
use crate::session::protocol::PortPath;
use crate::transport::verbs::rc::{
    AddressedSpec, EndAddress, PreparedAddressed, PreparedStream, RcAddressed, RcStream,
    StreamSpec, service,
};
use crate::transport::{Failure, FailureKind, Request, Result, Span};

/// How long the peer may take to build its queue pairs.
const ADDRESS: Duration = Duration::from_secs(20);

/// Buffer of the integrity phase at each end, bytes.
const VERIFY_BUFFER: usize = 4 << 20;

impl CaseEnd<'_> {
    /// Runs the case between two queue pairs or more; counters are read around it.
    pub(super) fn over_verbs(&mut self, link: &mut PeerLink) -> Result<()> {
        let port = self
            .prepare
            .port
            .clone()
            .ok_or_else(|| self.internal("the coordinator named no port for a verbs case"))?;
        let mut counters = PortCounters::new(Path::new("/"), &port.device, port.port);
        let before = counters.read_settled();
        let measured = self.verbs_case(&port, link);
        let after = counters.read_settled();
        for (name, change) in delta(&before, &after) {
            self.side.counters.insert(format!("{}:{}/{name}", port.device, port.port), change);
        }
        measured
    }

    /// The loop that belongs to this test and operation.
    fn verbs_case(&mut self, port: &PortPath, link: &mut PeerLink) -> Result<()> {
        let object = format!("{}:{}", port.device, port.port);
        match (self.prepare.test, self.prepare.op) {
            (Test::Integrity, _) => {
                let plan = self.verify_plan(port.mtu);
                let mut end = self.addressed(port, VERIFY_BUFFER, link)?;
                self.verify(&object, |e| verify::run(e, &mut end, link, &Clock, &plan))?;
                let guards = end.guard_bytes_wrong();
                if let Some(found) = &mut self.side.integrity {
                    found.guard_bytes_wrong += guards;
                }
                Ok(())
            }
            (Test::Latency, op) if op.fetches() => {
                let len = u32::try_from(self.prepare.size_bytes)
                    .map_err(|_| self.internal("a READ of 4 GiB or more"))?;
                let mut end = self.addressed(port, len.max(1) as usize, link)?;
                let timing = self.timing();
                // FETCH_ADD counts; CMP_SWAP finds the zero that it expects.
                let request = Request {
                    operation: operation(op),
                    local: Span { offset: 0, len },
                    add_or_compare: u64::from(op == Op::FetchAdd),
                    ..Request::default()
                };
                self.repeats(&object, self.prepare.knobs.repeats, |e, repeat| {
                    round_trip::repeat(e, &mut end, link, &Clock, &timing, &request, repeat)
                })
            }
            (Test::Latency, _) => {
                let signal_every = self.prepare.knobs.signal_every.max(1);
                // One message is under way at a time; those whose completion nobody asked for
                // still hold a place.
                let depth = if signal_every == 1 { 1 } else { 2 * signal_every };
                let plan = StreamPlan { lanes: vec![1], depth, signal_every };
                let mut ends = self.streams(port, &plan, link)?;
                self.ping_pong(&object, &mut ends[0], link)
            }
            (Test::Bandwidth | Test::MessageRate, _) => {
                let knobs = &self.prepare.knobs;
                let (size, most) = (self.prepare.size_bytes, port.max_in_flight_bytes);
                let fit = fit_depth(knobs.tx_depth, knobs.signal_every, size, knobs.qps, most);
                let plan = StreamPlan {
                    lanes: self.lanes_by_thread(),
                    depth: fit.depth,
                    signal_every: fit.signal_every,
                };
                let mut ends = self.streams(port, &plan, link)?;
                self.stream(&object, &mut ends, link, fit.depth, fit.in_flight)
            }
        }
    }

    /// Stream endpoints, connected to the peer's, and their knobs as they took effect.
    fn streams(
        &mut self,
        port: &PortPath,
        plan: &StreamPlan,
        link: &mut PeerLink,
    ) -> Result<Vec<RcStream>> {
        let mut port = port.clone();
        let prepared = plan
            .lanes
            .iter()
            .map(|&lanes| {
                let mut spec = StreamSpec::of(self.prepare, &port, lanes);
                let (all, own) = (u64::from(self.prepare.knobs.qps.max(1)), lanes as u64);
                let working_set = &mut spec.port.tuning.working_set_bytes;
                *working_set = working_set.map(|bytes| bytes * own / all);
                spec.tx_depth = plan.depth;
                spec.signal_every = plan.signal_every;
                // The next thread's queue pairs go on where this one's stopped.
                let labels = &mut port.tuning.flow_labels;
                if !labels.is_empty() {
                    let turn = lanes % labels.len();
                    labels.rotate_left(turn);
                }
                PreparedStream::new(&spec)
            })
            .collect::<Result<Vec<_>>>();
        let prepared = tell_failure(link, prepared)?;
        let own = prepared.iter().map(|p| p.address().clone()).collect();
        let theirs = self.exchange(own, link)?;
        let connected: Result<Vec<RcStream>> =
            prepared.into_iter().zip(&theirs).map(|(p, peer)| p.connect(peer)).collect();
        let streams = tell_failure(link, connected)?;
        self.barrier(link)?;
        if let Some(first) = streams.first() {
            self.side.effective = first.effective();
            self.side.effective.insert("qps".into(), plan.lanes.iter().sum::<usize>().into());
            self.side.effective.insert("threads".into(), plan.lanes.len().into());
            self.side.working_set_bytes = streams.iter().map(RcStream::working_set_bytes).sum();
        }
        Ok(streams)
    }

    /// An addressed endpoint, connected to the peer's.
    fn addressed(
        &mut self,
        port: &PortPath,
        buffer_len: usize,
        link: &mut PeerLink,
    ) -> Result<RcAddressed> {
        let spec = AddressedSpec {
            port: port.clone(),
            lanes: 1,
            tx_depth: VERIFY_DEPTH,
            rx_depth: VERIFY_DEPTH,
            buffer_len,
            inline: 0,
        };
        let prepared =
            tell_failure(link, PreparedAddressed::over(&spec, service(self.prepare.transport)))?;
        let theirs = self.exchange(vec![prepared.address().clone()], link)?;
        let connected = tell_failure(link, prepared.connect(&theirs[0]))?;
        self.barrier(link)?;
        self.side.effective.insert("qps".into(), 1.into());
        self.side.effective.insert("mtu".into(), port.mtu.into());
        self.side.effective.extend(connected.settings().clone());
        self.side.working_set_bytes = buffer_len as u64;
        Ok(connected)
    }

    /// Tells the peer where this end's queue pairs are, and hears where its are.
    fn exchange(&mut self, own: Vec<EndAddress>, link: &mut PeerLink) -> Result<Vec<EndAddress>> {
        let count = own.len();
        link.tell(&Note::Addresses(own))?;
        match self.heard(link, "the peer's queue pairs")? {
            Note::Addresses(theirs) if theirs.len() == count => Ok(theirs),
            note => Err(self.internal(&format!("the peer's queue pairs were due, not {note:?}"))),
        }
    }

    /// Both ends have connected: only now may anything be sent.
    fn barrier(&mut self, link: &mut PeerLink) -> Result<()> {
        link.tell(&Note::Connected)?;
        match self.heard(link, "the peer to connect its queue pairs")? {
            Note::Connected => Ok(()),
            note => Err(self.internal(&format!("the peer's connection was due, not {note:?}"))),
        }
    }

    /// The peer's next note; its failure when it tells of one.
    fn heard(&self, link: &mut PeerLink, awaited: &str) -> Result<Note> {
        match link.hear(ADDRESS)? {
            Some(Note::Failed(failure)) => Err(failure),
            Some(note) => Ok(note),
            None => Err(Failure::new(
                FailureKind::Stalled,
                "prepare",
                self.prepare.name.clone(),
                format!("waited {} s for {awaited}", ADDRESS.as_secs()),
            )),
        }
    }
}

/// How a stream's queue pairs are laid out.
struct StreamPlan {
    /// Queue pairs of each thread.
    lanes: Vec<usize>,
    /// Sends outstanding per queue pair.
    depth: u32,
    /// A completion every so many sends.
    signal_every: u32,
}

/// Lets the peer know at once that this end has failed, so that it need not wait.
fn tell_failure<T>(link: &mut PeerLink, result: Result<T>) -> Result<T> {
    if let Err(failure) = &result {
        // The link may be what failed: then there is nobody to tell.
        let _ = link.tell(&Note::Failed(failure.clone()));
    }
    result
}
