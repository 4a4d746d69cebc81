//! What was typed for one case: `fabbench lat`, `bw` and `rate`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fabbench_harness::numbers::{LOWEST_UDP_SPORT, parse_numbers};
use fabbench_harness::rate::parse_rate;
use fabbench_harness::size::parse_size;

use super::{
    DeviceArgs, DirectionArg, JudgeArgs, LaunchArgs, OpArg, OutputArgs, TransportArg, duration,
};

/// `fabbench lat`, `fabbench bw`, `fabbench rate`
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// First host: [user@]host[,addr=DATA_ADDRESS], local, or tcp://host:port
    pub a: String,
    /// Second host
    pub b: String,
    /// Transport
    #[arg(long, value_enum, default_value_t = TransportArg::Rc, value_name = "T")]
    pub transport: TransportArg,
    /// Operation; TCP has one of its own
    #[arg(long, value_enum, default_value_t = OpArg::Write)]
    pub op: OpArg,
    /// Message sizes: 8, 64KiB,1MiB, 2..8MiB (powers of two), around-mtu (one less, the path MTU,
    /// one more) [default: 8 for lat and rate, 64KiB for bw]
    #[arg(long, value_delimiter = ',', value_name = "SIZE", allow_negative_numbers = true)]
    pub size: Vec<String>,
    /// Whose payload moves
    #[arg(long, value_enum, default_value_t = DirectionArg::AB, value_name = "WAY")]
    pub direction: DirectionArg,
    /// Queue pairs (sockets on TCP)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub qps: Option<u32>,
    /// Threads on each side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Sends outstanding per QP
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub tx_depth: Option<u32>,
    /// Receives posted per QP
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub rx_depth: Option<u32>,
    /// Payload carried in the work request up to this size; 0 for never [default: as granted]
    #[arg(long, value_name = "BYTES")]
    pub inline: Option<u32>,
    /// Ask for a completion every N sends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub signal_every: Option<u32>,
    /// Start at most N messages by one call [default: as many as there is room for, up to 32; a
    /// TCP rate: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub post_list: Option<u32>,
    /// Repeats
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 3)]
    pub repeats: u32,
    /// Measured window of each repeat [default: 1s; with --iterations at most 60s]
    #[arg(long, value_name = "T", value_parser = duration)]
    pub duration: Option<Duration>,
    /// End each repeat after N messages of each queue pair (round trips for lat), if before its time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub iterations: Option<u64>,
    /// Warm-up before each repeat
    #[arg(long, value_name = "T", value_parser = humantime::parse_duration, default_value = "300ms")]
    pub warmup: Duration,
    /// Print a line so often while a case runs, e.g. 10s (SIGUSR1 prints the state at any time)
    #[arg(long, value_name = "T", value_parser = duration)]
    pub every: Option<Duration>,
    /// Latency while a stream loads the same path: probes on a fixed schedule, each timed from when
    /// it was due; before it the same without load
    #[arg(long)]
    pub under_load: bool,
    /// Send no more payload than this in each direction, e.g. 10Gb/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate_limit: Option<u64>,
    /// Queue pairs.
    #[command(flatten)]
    pub pairs: PairArgs,
    /// Threads and buffers.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Hosts.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// Devices.
    #[command(flatten)]
    pub devices: DeviceArgs,
    /// Judging.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How queue pairs are set up.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Setting up queue pairs")]
pub struct PairArgs {
    /// DSCP, the upper six bits of the traffic class
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..64), conflicts_with = "traffic_class")]
    pub dscp: Option<u8>,
    /// Index into the partition key table [default: 0]
    #[arg(long, value_name = "N")]
    pub pkey_index: Option<u16>,
    /// UDP source ports of RoCE v2, one queue pair after the other: 49152, or 49152-49159
    #[arg(long, value_name = "LIST", value_parser = udp_sports, conflicts_with = "flow_label")]
    pub udp_sport: Option<Numbers>,
    /// Flow labels of the global route header, likewise
    #[arg(long, value_name = "LIST", value_parser = flow_labels)]
    pub flow_label: Option<Numbers>,
    /// READs outstanding per queue pair [default: as many as both devices can]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub outstanding_reads: Option<u8>,
    /// Retries after a time-out [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub retry_count: Option<u8>,
    /// Retries where the peer had no receive; 7 is for ever [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub rnr_retry: Option<u8>,
    /// Acknowledge time-out of 4.096 µs · 2^N; 0 is for ever [default: 16; slow or soft links: 18]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub timeout: Option<u8>,
    /// Post by ibv_post_send and poll whole completions, or by ibv_wr_* and read them field by field
    #[arg(long, value_enum, value_name = "API", default_value_t = VerbsArg::Classic)]
    pub verbs: VerbsArg,
    /// Let the queue pairs of a thread take their receives from one shared queue: send and
    /// send_imm, over rc and ud
    #[arg(long)]
    pub srq: bool,
    /// Let the device reorder its writes; both: one case with, one without [default: on where that
    /// is sound]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub relaxed_ordering: Option<Relaxed>,
    /// How completions are waited for [default: busy; TCP and soft devices as suits them]
    #[arg(long, value_enum, value_name = "HOW")]
    pub poll: Option<PollArg>,
}

/// Where threads and buffers are.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Placing threads and buffers")]
pub struct PlaceArgs {
    /// CPUs on both hosts, one for each measuring thread in turn: 4, or 4-7,12 [default: those of
    /// the adapter's NUMA node]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpu: Option<Numbers>,
    /// NUMA node of threads and buffers on both hosts [default: the adapter's]
    #[arg(long, value_name = "N")]
    pub numa_node: Option<u32>,
    /// Buffers in huge pages of 2 MiB
    #[arg(long)]
    pub huge_pages: bool,
    /// Cycle through so many bytes on each side, e.g. 1GiB, beyond the last-level cache [default: few
    /// enough to stay in it]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub working_set: Option<u64>,
}

/// A list of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

/// Relaxed ordering as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Relaxed {
    /// With
    On,
    /// Without
    Off,
    /// One case with, one without
    Both,
}

/// Verbs of a post and a poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum VerbsArg {
    /// ibv_post_send, ibv_poll_cq
    #[default]
    Classic,
    /// ibv_wr_*, extended completion queue
    Extended,
}

/// Ways to wait for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PollArg {
    /// Looking again and again
    Busy,
    /// Asleep until the device tells of one
    Event,
}

fn udp_sports(text: &str) -> Result<Numbers, String> {
    let ports = parse_numbers(text, LOWEST_UDP_SPORT, 0xffff);
    ports.map(Numbers).map_err(|e| format!("{e} (RoCE v2 sends from 49152 to 65535)"))
}

fn flow_labels(text: &str) -> Result<Numbers, String> {
    parse_numbers(text, 0, 0xf_ffff).map(Numbers).map_err(|e| e.to_string())
}

fn rate(text: &str) -> Result<u64, String> {
    parse_rate(text).map(|bps| bps as u64).map_err(|e| e.to_string())
}

fn cpus(text: &str) -> Result<Numbers, String> {
    parse_numbers(text, 0, 65_535).map(Numbers).map_err(|e| e.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|e| e.to_string())? {
        0 => Err("a working set holds at least one message".into()),
        bytes => Ok(bytes),
    }
}
