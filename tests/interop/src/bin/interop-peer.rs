//! One end of a SEND ping-pong, over fabbench's binding or over the crate `ibverbs`.
//!
//! The ends meet over TCP and tell each other a line of JSON: number and packet sequence number of
//! the queue pair, LID and GID (the device's first IPv4 one). Then each round sends a message with a pattern of its own to and
//! fro, and both ends compare every byte. Exits 0 when all were right.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use fabbench::session::protocol::PortPath;
use fabbench::transport::verbs::device::Context;
use fabbench::transport::verbs::rc::{AddressedSpec, EndAddress, PreparedAddressed, RcAddressed};
use fabbench::transport::{Addressed, Completion, Operation, Request, Span};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Longest time to wait for the other end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Retransmission after 1.07 s: safe on a soft device.
const TIMEOUT: u8 = 18;

#[derive(Parser)]
struct Arguments {
    /// Which binding this end uses.
    #[arg(long, value_enum)]
    side: Side,
    /// Wait for the other end at this address.
    #[arg(long, conflicts_with = "connect", required_unless_present = "connect")]
    listen: Option<String>,
    /// Go to the other end at this address.
    #[arg(long)]
    connect: Option<String>,
    #[arg(long)]
    device: String,
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Bytes of a message.
    #[arg(long, default_value_t = 10_000)]
    size: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Side {
    Fabbench,
    Ibverbs,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    match arguments.side {
        Side::Fabbench => over_fabbench(&arguments)?,
        Side::Ibverbs => over_ibverbs(&arguments)?,
    }
    let Arguments { rounds, size, side, .. } = arguments;
    let took = begin.elapsed();
    println!("{side:?}: {rounds} rounds of {size} bytes, every byte right, in {took:.2?}");
    Ok(())
}

/// A queue pair that exchanges messages, whatever it is made with.
trait End {
    /// Offers the buffer to the next message.
    fn offer(&mut self) -> Result<()>;
    /// Sends `message` and waits until it has left.
    fn send(&mut self, message: &[u8]) -> Result<()>;
    /// Waits for the next message and compares it.
    fn expect(&mut self, message: &[u8]) -> Result<()>;
}

/// Plays all rounds. A receive is always offered before the message that makes the peer send.
fn play(end: &mut impl End, link: &mut Link, arguments: &Arguments) -> Result<()> {
    let first = arguments.connect.is_some();
    end.offer()?;
    link.meet()?;
    for round in 0..arguments.rounds {
        let ping = pattern(arguments.size, round, 0);
        let pong = pattern(arguments.size, round, 1);
        if first {
            end.send(&ping)?;
            end.expect(&pong)?;
            end.offer()?;
        } else {
            end.expect(&ping)?;
            end.offer()?;
            end.send(&pong)?;
        }
    }
    // Nobody takes a queue pair down that the other may still want an acknowledgement from.
    link.meet()
}

/// Bytes that depend on place, round and direction.
fn pattern(size: usize, round: u32, direction: u32) -> Vec<u8> {
    let seed = round.wrapping_mul(2).wrapping_add(direction).wrapping_mul(0x9e37_79b9);
    (0..size as u32).map(|at| (at.wrapping_mul(31).wrapping_add(seed) >> 3) as u8).collect()
}

fn compare(found: &[u8], wanted: &[u8]) -> Result<()> {
    match found.iter().zip(wanted).position(|(found, wanted)| found != wanted) {
        None if found.len() == wanted.len() => Ok(()),
        None => Err(format!("{} bytes came, not {}", found.len(), wanted.len()).into()),
        Some(at) => Err(format!("byte {at} is {:#x}, not {:#x}", found[at], wanted[at]).into()),
    }
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(found) = look()? {
            return Ok(found);
        }
        std::thread::yield_now();
    }
    Err(format!("waited {PATIENCE:?} for {what}").into())
}

struct Fabbench {
    end: RcAddressed,
    size: usize,
    received: u32,
    sent: bool,
}

fn over_fabbench(arguments: &Arguments) -> Result<()> {
    let context = Context::open(&arguments.device)?;
    let gids = context.gids(1)?;
    let gid = gids.iter().find(|gid| gid.gid.to_ipv4_mapped().is_some()).ok_or("no IPv4 GID")?;
    let prepared = PreparedAddressed::new(&AddressedSpec {
        port: PortPath {
            device: arguments.device.clone(),
            port: 1,
            gid_index: gid.index,
            gid_kind: gid.kind,
            grh: true,
            mtu: 128 << context.query_port(1)?.active_mtu,
            sl: 0,
            traffic_class: 0,
            timeout: TIMEOUT,
            max_in_flight_bytes: None,
            tuning: Default::default(),
        },
        lanes: 1,
        tx_depth: 1,
        rx_depth: 1,
        // The message to send, then room for the one to receive.
        buffer_len: 2 * arguments.size,
        inline: 0,
    })?;
    let mut link = Link::new(arguments)?;
    let own = prepared.address();
    link.tell(&Introduction {
        qp: own.lanes[0].0,
        psn: own.lanes[0].1,
        lid: own.lid,
        gid: own.gid,
    })?;
    let peer = link.hear()?;
    let end = prepared.connect(&EndAddress {
        lid: peer.lid,
        gid: peer.gid,
        lanes: vec![(peer.qp, peer.psn)],
        rd_atomic_in: 1,
        // SEND only: nothing is addressed.
        address: 0,
        len: 0,
        key: 0,
        slots: 0,
        receives: 0,
    })?;
    let mut end = Fabbench { end, size: arguments.size, received: 0, sent: false };
    play(&mut end, &mut link, arguments)
}

impl Fabbench {
    fn poll(&mut self) -> Result<()> {
        let mut done = [Completion::default(); 2];
        let count = self.end.poll(&mut done)?;
        for done in &done[..count] {
            if done.arrival {
                self.received = done.len;
            } else {
                self.sent = true;
            }
        }
        Ok(())
    }
}

impl End for Fabbench {
    fn offer(&mut self) -> Result<()> {
        let span = Span { offset: self.size as u64, len: self.size as u32 };
        match self.end.post_receive(0, span, 2)? {
            true => Ok(()),
            false => Err("no room for a receive".into()),
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.end.memory()[..self.size].copy_from_slice(message);
        let local = Span { offset: 0, len: self.size as u32 };
        let operation = Operation::Send;
        let request = Request { operation, local, signal: true, id: 1, ..Request::default() };
        if !self.end.post(&request)? {
            return Err("no room for a send".into());
        }
        wait("the send to complete", || {
            self.poll()?;
            Ok(std::mem::take(&mut self.sent).then_some(()))
        })
    }

    fn expect(&mut self, message: &[u8]) -> Result<()> {
        let len = wait("a message", || {
            self.poll()?;
            Ok(Some(std::mem::take(&mut self.received)).filter(|len| *len > 0))
        })?;
        let (size, len) = (self.size, len as usize);
        compare(&self.end.memory()[size..size + len], message)
    }
}

struct Ibverbs<'a> {
    pair: ibverbs::QueuePair<'a>,
    queue: &'a ibverbs::CompletionQueue<'a>,
    to_send: ibverbs::MemoryRegion<u8>,
    to_receive: ibverbs::MemoryRegion<u8>,
    received: bool,
    sent: bool,
}

fn over_ibverbs(arguments: &Arguments) -> Result<()> {
    let devices = ibverbs::devices()?;
    let named = |device: &ibverbs::Device| {
        device.name().is_some_and(|name| name.to_bytes() == arguments.device.as_bytes())
    };
    let context = devices.iter().find(named).ok_or("no such device")?.open()?;
    let queue = context.create_cq(16, 0)?;
    let domain = context.alloc_pd()?;
    let mut link = Link::new(arguments)?;
    let peer = link.hear()?;
    let mapped = |entry: &&ibverbs::GidEntry| {
        entry.gid.subnet_prefix() == 0 && entry.gid.interface_id() >> 32 == 0xffff
    };
    let entry = context.gid_table().iter().find(mapped).ok_or("no IPv4 GID")?;
    let pair = domain
        .create_qp(&queue, &queue, ibverbs::ibv_qp_type::IBV_QPT_RC)
        .set_gid_index(entry.gid_index)
        .set_timeout(TIMEOUT)
        .set_rq_psn(peer.psn)
        .set_max_send_wr(2)
        .set_max_recv_wr(2)
        .build()?;
    let own = pair.endpoint();
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&entry.gid.subnet_prefix().to_be_bytes());
    gid[8..].copy_from_slice(&entry.gid.interface_id().to_be_bytes());
    // The crate always begins at packet sequence number 0.
    link.tell(&Introduction { qp: own.num, psn: 0, lid: own.lid, gid: gid.into() })?;
    let gid = serde_json::from_value(serde_json::json!({ "raw": peer.gid.octets() }))?;
    let there = ibverbs::QueuePairEndpoint { num: peer.qp, lid: peer.lid, gid: Some(gid) };
    let mut end = Ibverbs {
        pair: pair.handshake(there)?,
        queue: &queue,
        to_send: domain.allocate(arguments.size)?,
        to_receive: domain.allocate(arguments.size)?,
        received: false,
        sent: false,
    };
    play(&mut end, &mut link, arguments)
}

impl Ibverbs<'_> {
    fn poll(&mut self) -> Result<()> {
        let mut done = [ibverbs::ibv_wc::default(); 2];
        for done in self.queue.poll(&mut done)? {
            if let Some((status, vendor_error)) = done.error() {
                return Err(format!("completion {status:?}, vendor error {vendor_error:#x}").into());
            }
            match done.wr_id() {
                1 => self.sent = true,
                _ => self.received = true,
            }
        }
        Ok(())
    }
}

impl End for Ibverbs<'_> {
    fn offer(&mut self) -> Result<()> {
        // SAFETY: the region lives as long as the queue pair and is read after the completion only.
        Ok(unsafe { self.pair.post_receive(&mut self.to_receive, .., 2) }?)
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.to_send.copy_from_slice(message);
        // SAFETY: the region lives as long as the queue pair and is written after the completion.
        unsafe { self.pair.post_send(&mut self.to_send, .., 1) }?;
        wait("the send to complete", || {
            self.poll()?;
            Ok(std::mem::take(&mut self.sent).then_some(()))
        })
    }

    fn expect(&mut self, message: &[u8]) -> Result<()> {
        wait("a message", || {
            self.poll()?;
            Ok(std::mem::take(&mut self.received).then_some(()))
        })?;
        compare(&self.to_receive, message)
    }
}

/// What the ends tell each other.
struct Introduction {
    qp: u32,
    psn: u32,
    lid: u16,
    gid: Ipv6Addr,
}

/// The TCP connection over which the ends meet.
struct Link(BufReader<TcpStream>);

impl Link {
    fn new(arguments: &Arguments) -> Result<Link> {
        let stream = match (&arguments.listen, &arguments.connect) {
            (Some(address), _) => TcpListener::bind(address)?.accept()?.0,
            (None, Some(address)) => {
                wait("the other end to listen", || Ok(TcpStream::connect(address).ok()))?
            }
            (None, None) => return Err("neither --listen nor --connect".into()),
        };
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        Ok(Link(BufReader::new(stream)))
    }

    fn tell(&mut self, own: &Introduction) -> Result<()> {
        let Introduction { qp, psn, lid, gid } = own;
        let line = serde_json::json!({ "qp": qp, "psn": psn, "lid": lid, "gid": gid.to_string() });
        Ok(self.0.get_mut().write_all(format!("{line}\n").as_bytes())?)
    }

    fn hear(&mut self) -> Result<Introduction> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let value: serde_json::Value = serde_json::from_str(&line)?;
        let number = |name: &str| value[name].as_u64().ok_or(format!("no {name} in {line}"));
        Ok(Introduction {
            qp: number("qp")?.try_into()?,
            psn: number("psn")?.try_into()?,
            lid: number("lid")?.try_into()?,
            gid: value["gid"].as_str().ok_or("no gid")?.parse()?,
        })
    }

    /// Returns when the other end is here too.
    fn meet(&mut self) -> Result<()> {
        self.0.get_mut().write_all(b"here\n")?;
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err("the other end has gone".into()),
            _ => Ok(()),
        }
    }
}
