//! One end of a case, from what is asked to what was measured.

pub(super) mod place;
mod sockets;
mod verbs;

use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::agent::{CaseContext, CaseRunner};
use crate::engine::ping_pong::Timing;
use crate::engine::stream::{Flow, POST_LIST};
use crate::engine::{End, Ran, stall_limit, verify};
use crate::measure::clock::Clock;
use crate::session::peer::{Dialer, Listener, PeerLink};
use crate::session::protocol::{
    IntegrityResult, Prepare, RankPart, Role, SideResult, ToCoordinator,
};
use crate::transport::{Failure, FailureKind, Operation, Result, Stream};
use fabbench_harness::plan::{Op, Test, Transport};

/// How long the two ends may take to find each other.
const CONNECT: Duration = Duration::from_secs(20);

/// How long an end waits for the other outside the windows: the coordinator holds all cases of a
/// group until the last one is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Operations and receives under way in the integrity phase.
const VERIFY_DEPTH: u32 = 64;

/// On a transport that may lose: how long a message is waited for, ns.
const LOST_AFTER_NS: u64 = 500_000_000;

/// Slowest transfer that does not count as stalled, bytes/s.
const SLOWEST: u64 = 100_000_000;

/// How long one message may be expected to take.
fn predicted(size_bytes: u64) -> Duration {
    Duration::from_nanos(size_bytes.saturating_mul(1_000_000_000 / SLOWEST))
}

/// What an addressed endpoint does for an operation of the plan; sockets send.
fn operation(op: Op) -> Operation {
    match op {
        Op::Send | Op::RequestResponse | Op::Stream => Operation::Send,
        Op::SendImm => Operation::SendImm,
        Op::Write => Operation::Write,
        Op::WriteImm => Operation::WriteImm,
        Op::Read => Operation::Read,
        Op::FetchAdd => Operation::FetchAdd,
        Op::CmpSwap => Operation::CmpSwap,
    }
}

/// Runs cases over the transports of this build.
pub struct Cases;

impl CaseRunner for Cases {
    fn run(&self, prepare: Prepare, context: &CaseContext) {
        let case = prepare.case;
        let mut end = CaseEnd {
            prepare: &prepare,
            context,
            side: SideResult::default(),
            setup: Some("connect"),
        };
        let result = end.conduct();
        let stage = end.setup.unwrap_or_else(|| end.context.stage().get().word()).to_string();
        let side = Box::new(end.side);
        context.emit(&match result {
            Ok(()) => ToCoordinator::Done { case, side },
            Err(failure) => ToCoordinator::Failed { case, stage, failure, side },
        });
    }

    fn run_rank(&self, part: RankPart, context: &CaseContext) {
        super::ranks::run(&part, context);
    }
}

/// Where the link between the ends came in, and further sockets do.
enum Door {
    /// The responder's.
    Inside(Listener),
    /// The initiator's.
    Outside(Dialer),
}

impl Door {
    /// Data sockets of this case, the same ones in the same order at both ends.
    fn data_sockets(&mut self, count: u32, abort: &AtomicBool) -> Result<Vec<TcpStream>> {
        match self {
            Door::Inside(listener) => listener.accept_data(count, CONNECT, abort),
            Door::Outside(dialer) => dialer.connect_data(count, CONNECT),
        }
    }
}

/// An end under way.
struct CaseEnd<'a> {
    prepare: &'a Prepare,
    context: &'a CaseContext,
    side: SideResult,
    /// Stage before the engine runs; none once it does.
    setup: Option<&'static str>,
}

impl CaseEnd<'_> {
    /// Finds the peer, builds the endpoints, measures.
    fn conduct(&mut self) -> Result<()> {
        let (door, mut link) = self.connect()?;
        let measured = self.measure(door, &mut link);
        match (measured, link.loss()) {
            (Ok(()), _) => {
                link.finish();
                Ok(())
            }
            // A broken link stops the loops: the reason is what the link knows.
            (Err(failure), Some(loss)) if failure.kind == FailureKind::Stopped => Err(loss),
            (Err(failure), _) => Err(failure),
        }
    }

    /// Builds the endpoints of the transport asked for and measures over them. The door is closed
    /// before that: whoever waits at it would wake up inside the windows.
    fn measure(&mut self, door: Door, link: &mut PeerLink) -> Result<()> {
        self.setup = Some("prepare");
        self.pin()?;
        match self.prepare.transport {
            Transport::Rc | Transport::Uc | Transport::Ud => {
                drop(door);
                self.over_verbs(link)
            }
            Transport::Tcp => self.over_sockets(door, link),
            Transport::Null => {
                Err(self.internal("the null transport has no peer: it is for benchmarks of loops"))
            }
        }
    }

    /// Listens for the initiator, or connects to the responder.
    fn connect(&mut self) -> Result<(Door, PeerLink)> {
        let prepare = self.prepare;
        let abort = self.context.abort();
        match prepare.role {
            Role::Responder => {
                let mut listener = Listener::bind(&prepare.addresses, &prepare.token)?;
                let addresses = listener.addresses().to_vec();
                self.context.emit(&ToCoordinator::Listening { case: prepare.case, addresses });
                let link = listener.accept_peer(CONNECT, abort)?;
                Ok((Door::Inside(listener), link))
            }
            Role::Initiator => {
                let (addresses, bind) = (&prepare.addresses, &prepare.bind);
                let (dialer, link) =
                    Dialer::connect(addresses, bind, &prepare.token, CONNECT, abort)?;
                Ok((Door::Outside(dialer), link))
            }
        }
    }

    /// A contradiction of fabbench's own.
    fn internal(&self, cause: &str) -> Failure {
        Failure::new(FailureKind::Internal, "prepare", self.prepare.name.clone(), cause)
    }

    /// Runs `one` for each repeat: each begins when the coordinator lets all cases of the group go.
    fn repeats(
        &mut self,
        object: &str,
        count: u32,
        mut one: impl FnMut(&End, u32) -> Result<Ran>,
    ) -> Result<()> {
        let initiator = self.prepare.role == Role::Initiator;
        if initiator {
            self.context.emit(&ToCoordinator::Ready { case: self.prepare.case });
        }
        self.setup = None;
        for repeat in 0..count {
            if initiator {
                self.context.wait_for_go(PATIENCE)?;
            }
            let abort: &AtomicBool = self.context.abort();
            let end = End {
                role: self.prepare.role,
                object,
                abort,
                stage: self.context.stage(),
                patience: PATIENCE,
                stall: stall_limit(predicted(self.prepare.size_bytes)),
            };
            let ran = one(&end, repeat)?;
            self.side.cpu_ns.0 += ran.cpu_ns.0;
            self.side.cpu_ns.1 += ran.cpu_ns.1;
            self.side.repeats.push(ran.repeat);
            if initiator {
                let done = repeat + 1;
                self.context.emit(&ToCoordinator::Progress { case: self.prepare.case, done });
            }
        }
        Ok(())
    }

    /// Ping-pong over lane 0.
    fn ping_pong<S: Stream>(
        &mut self,
        object: &str,
        endpoint: &mut S,
        link: &mut PeerLink,
    ) -> Result<()> {
        let timing = self.timing();
        self.repeats(object, self.prepare.knobs.repeats, |end, repeat| {
            crate::engine::ping_pong::repeat(end, endpoint, link, &Clock, &timing, repeat)
        })
    }

    /// Bandwidth over all endpoints, a thread for each.
    fn stream<S: Stream + Send>(
        &mut self,
        object: &str,
        endpoints: &mut [S],
        link: &mut PeerLink,
        depth: u32,
        in_flight: Option<u64>,
    ) -> Result<()> {
        let flow = self.flow(depth, in_flight);
        let cpus = self.prepare.knobs.tuning.cpus.clone();
        self.side.effective.insert("post_list".into(), flow.post_list.into());
        self.repeats(object, self.prepare.knobs.repeats, |end, repeat| {
            let on_thread = |index: usize| place::pin_thread(&cpus, index);
            crate::engine::stream::repeat(end, endpoints, link, &Clock, &flow, repeat, &on_thread)
        })
    }

    /// Compares bytes; what was found is kept, right or wrong.
    fn verify(
        &mut self,
        object: &str,
        mut one: impl FnMut(&End) -> Result<Option<IntegrityResult>>,
    ) -> Result<()> {
        let mut found = None;
        self.repeats(object, 1, |end, _| {
            found = one(end)?;
            Ok(Ran::default())
        })?;
        self.side.integrity = found;
        Ok(())
    }

    /// What the integrity phase moves. `sends` and `receives` of the case say which end starts
    /// operations; the payload of a READ or an atomic goes the other way.
    fn verify_plan(&self, mtu: u32) -> verify::Plan {
        let fetches = self.prepare.op.fetches();
        let (starts, answers) = (self.prepare.sends, self.prepare.receives);
        verify::Plan {
            operation: operation(self.prepare.op),
            size: self.prepare.size_bytes,
            mtu,
            largest: (self.prepare.transport == Transport::Ud).then_some(mtu as usize),
            lossy: !self.prepare.transport.is_reliable(),
            ordered: self.prepare.transport != Transport::Ud,
            volume_bytes: self.prepare.knobs.volume_bytes,
            receives_per_lane: VERIFY_DEPTH,
            buffer_bytes: None,
            seed: self.seed(),
            sends: if fetches { answers } else { starts },
            receives: if fetches { starts } else { answers },
        }
    }

    /// How a latency repeat is timed: half round trips for messages, whole ones otherwise.
    fn timing(&self) -> Timing {
        let knobs = &self.prepare.knobs;
        let schedule_ns = knobs.tuning.schedule_ns;
        // A wait for the round before is no part of either way: it cannot be halved.
        let halved = self.prepare.op.is_message() && schedule_ns.is_none();
        let divisor = if halved { 2 } else { 1 };
        Timing {
            warmup_ns: knobs.warmup_ns,
            window_ns: knobs.window_ns,
            rounds: knobs.rounds,
            divisor,
            schedule_ns,
            lost_after_ns: (!self.prepare.transport.is_reliable()).then_some(LOST_AFTER_NS),
        }
    }

    /// What this end does in a bandwidth repeat.
    fn flow(&self, depth: u32, in_flight: Option<u64>) -> Flow {
        let knobs = &self.prepare.knobs;
        let fetches = self.prepare.op.fetches();
        Flow {
            starts: self.prepare.sends,
            collects: self.prepare.receives && !fetches,
            fetches: self.prepare.sends && fetches,
            warmup_ns: knobs.warmup_ns,
            window_ns: knobs.window_ns,
            interval_ns: knobs.interval_ns,
            depth,
            in_flight,
            post_list: self.post_list(),
            iterations: knobs.tuning.iterations,
            pace_ps: knobs.tuning.rate_limit_bps.map(|bps| self.pace_ps(bps)),
            grace_ns: (!self.prepare.transport.is_reliable()).then_some(LOST_AFTER_NS),
        }
    }

    /// Time of one message at so many bit/s of payload.
    fn pace_ps(&self, bps: u64) -> u64 {
        let bits = u128::from(self.prepare.size_bytes) * 8;
        u64::try_from(bits * 1_000_000_000_000 / u128::from(bps.max(1))).unwrap_or(u64::MAX).max(1)
    }

    /// Most messages started by one call. A rate of messages over sockets means one call each.
    fn post_list(&self) -> u32 {
        let by_number =
            self.prepare.transport == Transport::Tcp && self.prepare.test == Test::MessageRate;
        let default = if by_number { 1 } else { POST_LIST };
        self.prepare.knobs.tuning.post_list.unwrap_or(default).max(1)
    }

    /// Lanes of each thread's endpoint: all of them, spread evenly.
    fn lanes_by_thread(&self) -> Vec<usize> {
        let knobs = &self.prepare.knobs;
        let (qps, threads) = (knobs.qps.max(1) as usize, knobs.threads.max(1) as usize);
        let threads = threads.min(qps);
        (0..threads).map(|i| qps / threads + usize::from(i < qps % threads)).collect()
    }

    /// Seed of the integrity patterns: the same at both ends, another for each case.
    fn seed(&self) -> u64 {
        let digits = self.prepare.token.get(..16).unwrap_or_default();
        u64::from_str_radix(digits, 16).unwrap_or(u64::from(self.prepare.case))
    }
}
