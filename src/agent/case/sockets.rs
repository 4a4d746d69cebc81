//! Ends of cases over TCP sockets.

use std::net::TcpStream;

use fabbench_harness::plan::{Poll, Test};
use socket2::SockRef;

use super::{CaseEnd, Door};
use crate::engine::verify;
use crate::measure::clock::Clock;
use crate::session::peer::PeerLink;
use crate::transport::tcp::{Polling, TcpLanes};
use crate::transport::{Failure, FailureKind, Result};

/// Socket buffers bound what is under way: the depth of a socket is not limited by fabbench.
const DEPTH: u32 = 128;

impl CaseEnd<'_> {
    /// Runs the case between two sockets or more; retransmitted segments are counted around it.
    pub(super) fn over_sockets(&mut self, mut door: Door, link: &mut PeerLink) -> Result<()> {
        let test = self.prepare.test;
        let stream = matches!(test, Test::Bandwidth | Test::MessageRate);
        let lanes = if stream { self.lanes_by_thread() } else { vec![1] };
        let cpus = crate::host::calls::allowed_cpus().len();
        let polling = match self.prepare.knobs.tuning.poll {
            Some(Poll::Busy) => Polling::Busy(u32::MAX),
            Some(Poll::Event) => Polling::Events,
            None if test == Test::Latency => Polling::for_cpus(cpus),
            None => Polling::Events,
        };
        let count = u32::try_from(lanes.iter().sum::<usize>()).unwrap_or(u32::MAX);
        let mut sockets = door.data_sockets(count, self.context.abort())?;
        drop(door);
        self.mark(&sockets)?;
        if let Some(local) = sockets.first().and_then(|socket| socket.local_addr().ok()) {
            self.side.effective.insert("local_address".into(), local.ip().to_string().into());
        }
        let mut ends = Vec::new();
        for &count in &lanes {
            let own = sockets.drain(..count.min(sockets.len())).collect();
            ends.push(TcpLanes::new(own, self.prepare.size_bytes, polling)?);
        }
        self.note_sockets(&lanes, &ends, polling);
        let before = retransmits(&ends);
        let measured = self.socket_case(&mut ends, link);
        if let (Some(before), Some(after)) = (before, retransmits(&ends)) {
            let grown = i64::try_from(after.saturating_sub(before)).unwrap_or(i64::MAX);
            self.side.counters.insert("tcp/retransmitted_segments".into(), grown);
        }
        measured
    }

    /// Has the packets of these sockets carry the traffic class that was asked for.
    fn mark(&mut self, sockets: &[TcpStream]) -> Result<()> {
        let Some(class) = self.prepare.knobs.tuning.traffic_class else { return Ok(()) };
        for socket in sockets {
            let options = SockRef::from(socket);
            let set = match socket.local_addr() {
                Ok(address) if address.is_ipv6() => options.set_tclass_v6(class.into()),
                _ => options.set_tos_v4(class.into()),
            };
            set.map_err(|error| {
                let (kind, object) = (FailureKind::Refused, self.prepare.name.clone());
                Failure::new(kind, "set the traffic class", object, error.to_string())
            })?;
        }
        self.side.effective.insert("traffic_class".into(), class.into());
        Ok(())
    }

    /// The loop that belongs to this test.
    fn socket_case(&mut self, ends: &mut [TcpLanes], link: &mut PeerLink) -> Result<()> {
        let object = self.prepare.name.clone();
        match self.prepare.test {
            Test::Integrity => {
                let verify::Plan { volume_bytes, seed, sends, receives, .. } = self.verify_plan(0);
                let plan = verify::sockets::Plan { volume_bytes, seed, sends, receives };
                let end = &mut ends[0];
                self.verify(&object, |e| verify::sockets::run(e, end, link, &Clock, &plan))
            }
            Test::Latency => self.ping_pong(&object, &mut ends[0], link),
            Test::Bandwidth | Test::MessageRate => self.stream(&object, ends, link, DEPTH, None),
        }
    }

    /// Knobs as they took effect.
    fn note_sockets(&mut self, lanes: &[usize], ends: &[TcpLanes], polling: Polling) {
        let effective = &mut self.side.effective;
        effective.insert("qps".into(), lanes.iter().sum::<usize>().into());
        effective.insert("threads".into(), lanes.len().into());
        effective.insert("arrival".into(), "bytes".into());
        effective.insert("polling".into(), polling.word().into());
        effective.insert("nodelay".into(), true.into());
        self.side.working_set_bytes = ends.iter().map(TcpLanes::working_set).sum();
    }
}

/// Retransmitted segments over all sockets; none where the kernel does not tell.
fn retransmits(ends: &[TcpLanes]) -> Option<u64> {
    ends.iter().map(|end| end.retransmits().ok()).sum()
}
