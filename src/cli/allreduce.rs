//! `fabbench allreduce` as typed.

use clap::{Args, ValueEnum};

use super::{LaunchArgs, OutputArgs, TransportArg};

/// What the ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CollectiveArg {
    /// Everybody gets the reduction of all vectors
    #[value(alias = "all_reduce", alias = "allreduce")]
    AllReduce,
    /// Everybody gets everybody's chunk
    #[value(alias = "all_gather", alias = "allgather")]
    AllGather,
    /// Each gets its chunk of the reduction
    #[value(alias = "reduce_scatter")]
    ReduceScatter,
    /// Chunk j of rank i becomes chunk i of rank j
    #[value(alias = "all_to_all", alias = "alltoall")]
    AllToAll,
    /// Everybody gets the root's vector
    Broadcast,
    /// Each gets the vector of its left neighbour
    #[value(alias = "send_recv", alias = "sendrecv")]
    SendRecv,
}

/// How it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmArg {
    /// Neighbours in a circle
    Ring,
    /// Recursive halving and doubling
    Rhd,
    /// Double binary tree
    Tree,
    /// Everybody with everybody at once
    Direct,
    /// Within hosts, then between them rank by rank, then within again
    Rail,
}

/// Element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataTypeArg {
    /// binary32
    #[value(alias = "float")]
    F32,
    /// binary64
    #[value(alias = "double")]
    F64,
    /// Upper half of a binary32
    #[value(alias = "bfloat16")]
    Bf16,
    /// binary16
    #[value(alias = "half")]
    F16,
    /// Signed 32 bits
    #[value(alias = "int32")]
    I32,
}

/// How two elements become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReductionArg {
    /// Their sum
    Sum,
    /// The larger one
    Max,
}

/// Which host has which rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RankOrderArg {
    /// As the hosts are given, ranks of one host one after the other
    Given,
    /// Shuffled by --seed
    Random,
    /// Hosts of one leaf switch one after the other: --leaves
    ByLeaf,
}

/// `fabbench allreduce`
#[derive(Debug, Args)]
pub struct AllreduceArgs {
    /// Hosts: [user@]host[,addr=DATA_ADDRESS], local, or tcp://host:port; none where mpirun, srun or
    /// torchrun starts this command once a rank
    pub hosts: Vec<String>,
    /// What the ranks do together
    #[arg(long, value_enum, default_value_t = CollectiveArg::AllReduce, value_name = "OP")]
    pub op: CollectiveArg,
    /// How, one after the other [default: the operation's first]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "A")]
    pub algo: Vec<AlgorithmArg>,
    /// Transports, one after the other: rc (or rdma), tcp [default: rc where every host has RDMA,
    /// else tcp]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "T", hide_possible_values = true)]
    pub transport: Vec<TransportArg>,
    /// Devices on all hosts; with several, the ranks of a host take them in turns [default: the
    /// first that reaches the other hosts]
    #[arg(long, value_name = "DEV[:PORT]", value_delimiter = ',')]
    pub device: Vec<String>,
    /// Queue pairs to each peer, over which messages take turns [default: one, on faster links one
    /// for each 100 Gb/s up to four]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub channels: Option<u32>,
    /// Smallest vector
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "8")]
    pub min_bytes: String,
    /// Largest vector
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "32MiB")]
    pub max_bytes: String,
    /// Each size is so many times the one before
    #[arg(short = 'f', long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub step_factor: u64,
    /// Element type
    #[arg(short = 'd', long = "type", value_enum, default_value_t = DataTypeArg::F32)]
    #[arg(value_name = "TYPE")]
    pub data_type: DataTypeArg,
    /// Reduction
    #[arg(short = 'o', long, value_enum, default_value_t = ReductionArg::Sum, value_name = "OP")]
    pub redop: ReductionArg,
    /// Timed runs of each size
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub iters: u32,
    /// Untimed runs before
    #[arg(short = 'w', long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub warmup_iters: u32,
    /// Ranks on each host
    #[arg(short = 't', long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub ranks_per_host: u32,
    /// Which host has which rank
    #[arg(long, value_enum, default_value_t = RankOrderArg::Given, value_name = "ORDER")]
    pub rank_order: RankOrderArg,
    /// Which hosts hang on which leaf switch: lines as `leaf1: host-a host-b`, or Slurm's
    /// topology.conf
    #[arg(long, value_name = "FILE")]
    pub leaves: Option<std::path::PathBuf>,
    /// Of the random order and of the numbers that are reduced
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Broadcast: the rank whose vector everybody gets
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    pub root: usize,
    /// Move the bytes and reduce nothing: what the wire alone does; nothing is verified
    #[arg(long)]
    pub no_reduce: bool,
    /// Hosts.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
}
