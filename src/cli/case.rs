//! What was typed for one case: `fabbench lat`, `bw` and `rate`.

use std::time::Duration;

use clap::Args;

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
