//! What was typed. No meaning yet: commands and the plan give it one.

pub mod advise;
pub mod allreduce;
pub mod case;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use advise::AdviseArgs;
use allreduce::AllreduceArgs;
pub use case::CaseArgs;
use fabbench_harness::plan::Op;
use fabbench_harness::topology::stand_in;

/// Is this cluster's network as fast as its hardware allows?
#[derive(Debug, Parser)]
#[command(name = "fabbench", version = crate::VERSION_LINE, about, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 pass or warn; 1 fail; 2 wrong usage or unreadable input; \
3 incomplete (not all that was asked could be measured); 130 interrupted.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Acceptance run between two hosts: every rail, both directions, next to TCP
    Pair(Box<PairArgs>),
    /// Latency between two hosts, one case with every knob
    Lat(Box<CaseArgs>),
    /// Bandwidth between two hosts, one case with every knob
    Bw(Box<CaseArgs>),
    /// Small messages per second between two hosts, in total and of each queue pair
    Rate(Box<CaseArgs>),
    /// Host and configuration checks alone, each with its remedy; nothing is measured
    Check(Box<CheckArgs>),
    /// Collectives between ranks on N hosts: time, algbw, busbw, wrong elements
    Allreduce(Box<AllreduceArgs>),
    /// What can be tested: devices, ports, rates, GIDs
    Devices(DevicesArgs),
    /// Is this job bound by the network, now and at the target; does RDMA pay
    Advise(Box<AdviseArgs>),
    /// Does every HCA share a PCIe switch with the GPUs it serves? Live or from a capture
    Topo(TopoArgs),
    /// What a link, its headers, MTU and PCIe allow: the sum, term by term
    Ceiling(CeilingArgs),
    /// The fabbench command that measures what a command of perftest does, and what differs
    ExplainPerftest(ExplainPerftestArgs),
    /// Print a saved report, or judge it again
    Report(ReportArgs),
    /// Reports from before against reports from after: what got worse, what changed beside it
    Compare(CompareArgs),
    /// Reports kept per pair or cluster, to hold later runs against
    Baseline(BaselineArgs),
    /// Figures over many runs: table, small bars, plots
    Trend(TrendArgs),
    /// Create, remove or show Soft-RoCE devices on this host
    Softroce(SoftroceArgs),
    /// The node side; started by hand for hosts given as tcp://host:port
    Agent(AgentArgs),
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff)
    Man,
}

/// How hosts are reached.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Reaching the hosts")]
pub struct LaunchArgs {
    /// ssh command with its options [default: ssh]
    #[arg(long, value_name = "CMD", env = "FABBENCH_SSH")]
    pub ssh: Option<String>,
    /// fabbench on the remote hosts [default: PATH, ~/.cargo/bin, /usr/local/bin]
    #[arg(long, value_name = "PATH")]
    pub agent_path: Option<String>,
    /// Copy this binary to the remote hosts for the length of the run
    #[arg(long, conflicts_with = "agent_path")]
    pub push: bool,
    /// File with the token that agents given as tcp://host:port ask for
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Which devices take part.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Choosing devices and paths")]
pub struct DeviceArgs {
    /// Devices on both hosts; ^DEV leaves one out
    #[arg(long, value_name = "DEV[:PORT]", value_delimiter = ',', allow_hyphen_values = false)]
    pub device: Vec<String>,
    /// Devices on the first host
    #[arg(long, value_name = "DEV[:PORT]", value_delimiter = ',')]
    pub device_a: Vec<String>,
    /// Devices on the second host
    #[arg(long, value_name = "DEV[:PORT]", value_delimiter = ',')]
    pub device_b: Vec<String>,
    /// File with one pair of ports a line: which HCA of A belongs to which of B
    #[arg(long, value_name = "FILE")]
    pub rails: Option<PathBuf>,
    /// GID index on both hosts [default: chosen for the pair, and said why]
    #[arg(long, value_name = "N")]
    pub gid_index: Option<u32>,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096 [default: the smaller active MTU]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
    /// Service level
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..16))]
    pub sl: u8,
    /// Traffic class byte of the global route header (DSCP in its upper six bits)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub traffic_class: u8,
}

/// What results are held against.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Judging")]
pub struct JudgeArgs {
    /// auto, strict, a name as ndr or roce-400g, or a file
    #[arg(long, default_value = "auto", value_name = "PROFILE")]
    pub profile: String,
    /// Rate of a port's way as you declare it, headers included: host-a/rxe0=100Mb/s
    #[arg(long, value_name = "HOST/DEV=RATE", value_delimiter = ',')]
    pub declare_rate: Vec<String>,
    /// Hold the run against one from before: a report, a directory of reports, a name that fabbench
    /// baseline list shows, or auto for the one of these hosts and this suite; a regression fails
    #[arg(long, value_name = "FILE|DIR|NAME|auto")]
    pub baseline: Option<String>,
    /// Where baselines are kept
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Where baselines are kept.
#[derive(Debug, Clone, Default, Args)]
pub struct StoreArgs {
    /// Directory of baselines [default: $XDG_DATA_HOME/fabbench/baselines, else
    /// ~/.local/share/fabbench/baselines]
    #[arg(long, value_name = "DIR", env = "FABBENCH_STORE")]
    pub store: Option<PathBuf>,
}

/// `fabbench baseline`
#[derive(Debug, Args)]
pub struct BaselineArgs {
    /// What to do
    #[command(subcommand)]
    pub action: BaselineAction,
}

/// Actions on the store of baselines.
#[derive(Debug, Subcommand)]
pub enum BaselineAction {
    /// Keep reports; three or more runs of the same hosts, suite and profile make a firm baseline
    Add {
        /// Reports, or directories of them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Name [default: from hosts, suite and profile]
        #[arg(long)]
        name: Option<String>,
        /// Store.
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show what is kept
    List {
        /// Store.
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show the runs of a baseline and their figures
    Show {
        /// Name as fabbench baseline list shows it
        name: String,
        /// List every value
        #[arg(long)]
        explain: bool,
        /// Store.
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// `fabbench trend`
#[derive(Debug, Args)]
pub struct TrendArgs {
    /// Reports, or directories of them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write as JSON; without a file: to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write one HTML file with a plot a figure
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub html: Option<PathBuf>,
    /// List every value
    #[arg(long)]
    pub explain: bool,
    /// Replace host names, users, addresses, GUIDs and serials
    #[arg(long)]
    pub redact: bool,
    /// Colour
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// `fabbench report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Report as --json=FILE or --out DIR wrote it; with --merge several, or directories of them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Several reports as one view of all their hosts
    #[arg(long)]
    pub merge: bool,
    /// Judge again: auto, strict, a name as ndr or roce-400g, or a file [default: as it was judged]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where results go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Write the report as JSON; without a file: to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write one HTML file, readable in any browser without network or scripts
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub html: Option<PathBuf>,
    /// Write JUnit XML, for continuous integration
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub junit: Option<PathBuf>,
    /// Write Markdown, for tickets and merge requests
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub markdown: Option<PathBuf>,
    /// Write CSV, a row a measurement; without a file: to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub csv: Option<PathBuf>,
    /// Write metrics for node_exporter's textfile collector (name it *.prom)
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub prometheus: Option<PathBuf>,
    /// Write every form of the report into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// One line
    #[arg(short, long)]
    pub quiet: bool,
    /// One line with performance data, and Nagios' exit codes: 0 OK, 1 warning, 2 critical, 3 unknown
    #[arg(long, conflicts_with_all = ["quiet", "explain"])]
    pub nagios: bool,
    /// Replace host names, users, addresses, GUIDs and serials, so that it can be handed on
    #[arg(long)]
    pub redact: bool,
    /// Say more about what happens (messages of remote hosts, parameters)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Add method and parameters to the text
    #[arg(long)]
    pub explain: bool,
    /// Draw the distribution of each latency into the text
    #[arg(long)]
    pub histogram: bool,
    /// Colour
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// Exit 1 also on these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub fail_on: Vec<FailOn>,
}

/// When to colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What besides a failure makes the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A warning
    Warn,
    /// A part that was not judged
    Unjudged,
}

/// How bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TransportArg {
    /// The verbs transports of the suite
    Rdma,
    /// Verbs, reliable connected
    Rc,
    /// Verbs, unreliable connected: what is lost is counted
    Uc,
    /// Verbs, unreliable datagrams of at most one packet: likewise
    Ud,
    /// Verbs, extended reliable connected: refused with the reason
    Xrc,
    /// Sockets
    Tcp,
}

/// `fabbench pair`
#[derive(Debug, Args)]
pub struct PairArgs {
    /// First host: [user@]host[,addr=DATA_ADDRESS], local, or tcp://host:port
    pub a: String,
    /// Second host
    pub b: String,
    /// quick, standard, operations, or a file
    #[arg(long, default_value = "quick", value_name = "SUITE")]
    pub suite: String,
    /// Transports [default: the suite's]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "T")]
    pub transport: Vec<TransportArg>,
    /// Repeats of each case [default: the suite's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Measured window of each repeat, e.g. 2s or 500ms [default: the suite's]
    #[arg(long, value_name = "T", value_parser = duration)]
    pub duration: Option<std::time::Duration>,
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

/// What a single case does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OpArg {
    /// SEND into a posted receive
    Send,
    /// SEND with immediate data
    #[value(name = "send_imm", alias = "send-imm")]
    SendImm,
    /// RDMA WRITE
    Write,
    /// RDMA WRITE with immediate data, which takes a posted receive
    #[value(name = "write_imm", alias = "write-imm")]
    WriteImm,
    /// RDMA READ
    Read,
    /// Atomic fetch-and-add of 8 bytes
    #[value(name = "fetch_add", alias = "fetch-add")]
    FetchAdd,
    /// Atomic compare-and-swap of 8 bytes
    #[value(name = "cmp_swap", alias = "cmp-swap")]
    CmpSwap,
}

impl OpArg {
    /// As a plan has it.
    pub fn op(self) -> Op {
        match self {
            OpArg::Send => Op::Send,
            OpArg::SendImm => Op::SendImm,
            OpArg::Write => Op::Write,
            OpArg::WriteImm => Op::WriteImm,
            OpArg::Read => Op::Read,
            OpArg::FetchAdd => Op::FetchAdd,
            OpArg::CmpSwap => Op::CmpSwap,
        }
    }
}

/// Whose payload moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// From A to B
    #[value(name = "a-b", alias = "ab")]
    AB,
    /// From B to A
    #[value(name = "b-a", alias = "ba")]
    BA,
    /// Both at once
    Both,
}

/// `fabbench check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Hosts [default: local]
    #[arg(conflicts_with = "sysroot")]
    pub hosts: Vec<String>,
    /// Look at a captured tree instead of a host: a directory that stands for /, or a file of
    /// fabbench devices --capture; once for each host
    #[arg(long, value_name = "DIR")]
    pub sysroot: Vec<PathBuf>,
    /// Hosts.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `fabbench devices`
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Hosts [default: local]
    pub hosts: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// Write everything that the agent saw of the host (one host) as JSON, for a bug report or a
    /// test; look through it before you hand it on
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Say more about what happens
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Hosts.
    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// What `fabbench topo` insists on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Require {
    /// Each GPU behind the same PCIe switch as its HCA: PHB and NODE fail
    SameSwitch,
}

/// `fabbench topo`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TopoArgs {
    /// What else to do.
    #[command(subcommand)]
    pub action: Option<TopoAction>,
    /// Host [default: local]
    #[arg(conflicts_with = "from")]
    pub host: Option<String>,
    /// Read a capture instead: NCCL or RCCL topology XML, hwloc XML, a tar of /sys or a directory
    /// that holds one, text of lspci -tv or nvidia-smi topo -m, JSON of rdma_topo dump, what fabbench
    /// topo dump or fabbench devices --capture wrote
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Fail what is only worth a warning otherwise
    #[arg(long, value_enum, value_name = "WHAT")]
    pub require: Option<Require>,
    /// Print as JSON
    #[arg(long, conflicts_with_all = ["tree", "matrix", "explain"])]
    pub json: bool,
    /// Draw the PCIe tree with GPUs and HCAs in their places
    #[arg(long, conflicts_with_all = ["matrix", "explain"])]
    pub tree: bool,
    /// Print distances like nvidia-smi topo -m
    #[arg(long, conflicts_with = "explain")]
    pub matrix: bool,
    /// All that is known of one GPU's paths, by name or PCI address
    #[arg(long, value_name = "GPU")]
    pub explain: Option<String>,
    /// Write the PCIe tree as a picture
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub svg: Option<PathBuf>,
    /// Fail what is not as expected: GPUs and HCAs on each switch (1:1, 2:1), or a file with [pairs]
    /// as GPU0 = "mlx5_0" or GPU0 = { hca = "mlx5_0", path = "PIX" }
    #[arg(long, value_name = "GPUS:HCAS|FILE")]
    pub expect: Option<String>,
    /// What differs between two machines: hosts, or captures; exit 1 when anything does
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    #[arg(conflicts_with_all = ["host", "from", "tree", "matrix", "explain", "svg", "expect"])]
    pub compare: Vec<String>,
    /// Rehearse where there is no GPU: take PCI functions with this vendor and device for GPUs, and
    /// Soft-RoCE devices for HCAs at the place of their network interface
    #[arg(long, value_name = "VENDOR:DEVICE", value_delimiter = ',')]
    pub treat_as_gpu: Vec<stand_in::Id>,
    /// Say more about what happens
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Hosts.
    #[command(flatten)]
    pub launch: LaunchArgs,
}

/// Actions beside judging.
#[derive(Debug, Subcommand)]
pub enum TopoAction {
    /// Write what topology is read from as an archive for --from, without serial numbers, GUIDs,
    /// addresses and host names
    Dump {
        /// Host [default: local]
        host: Option<String>,
        /// File to write
        #[arg(long, value_name = "FILE", default_value = "topology.tar.gz")]
        out: PathBuf,
        /// Say more about what happens
        #[arg(short, long, action = clap::ArgAction::Count)]
        verbose: u8,
        /// Hosts.
        #[command(flatten)]
        launch: LaunchArgs,
    },
}

/// How packets travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FabricArg {
    /// InfiniBand
    Ib,
    /// InfiniBand with global route headers (between subnets)
    IbGrh,
    /// RoCE v1
    RoceV1,
    /// RoCE v2 over IPv4
    #[value(name = "roce-v2-ipv4")]
    RoceV2Ipv4,
    /// RoCE v2 over IPv6
    #[value(name = "roce-v2-ipv6")]
    RoceV2Ipv6,
    /// TCP over IPv4 with timestamps
    Tcp,
}

/// `fabbench ceiling`
#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// Lanes and speed ('4x ndr', hdr100) or a rate of Ethernet (400GbE)
    #[arg(long, value_name = "LINK")]
    pub link: String,
    /// How packets travel [default: ib for lanes and speed, roce-v2-ipv4 for Ethernet]
    #[arg(long, value_enum, value_name = "FABRIC")]
    pub fabric: Option<FabricArg>,
    /// Path MTU in bytes; of TCP the interface's [default: 4096; TCP: 9000]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
    /// Message size
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    pub size: String,
    /// Operation
    #[arg(long, value_enum, default_value_t = OpArg::Write)]
    pub op: OpArg,
    /// Frames carry a VLAN tag
    #[arg(long)]
    pub vlan: bool,
    /// Narrowest PCIe link between adapter and root complex, e.g. gen5x16
    #[arg(long, value_name = "GENxLANES")]
    pub pcie: Option<String>,
    /// PCIe payload size in bytes [default: unknown, 128 to 512]
    #[arg(long, value_name = "BYTES", requires = "pcie")]
    pub mps: Option<u32>,
    /// Ports that load this PCIe link at once
    #[arg(long, value_name = "N", requires = "pcie", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub ports: u32,
    /// Link of the peer [default: the same]
    #[arg(long, value_name = "LINK")]
    pub peer_link: Option<String>,
    /// PCIe of the peer [default: not looked at]
    #[arg(long, value_name = "GENxLANES")]
    pub peer_pcie: Option<String>,
    /// PCIe payload size of the peer
    #[arg(long, value_name = "BYTES", requires = "peer_pcie")]
    pub peer_mps: Option<u32>,
    /// The reverse direction is loaded too, with an acknowledgement every N packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub acks: Option<u64>,
    /// Rate of the way as you declare it, headers included, e.g. 100Gb/s
    #[arg(long, value_name = "RATE")]
    pub declare_rate: Option<String>,
    /// The fabric carries 1/N of what all ports together could send
    #[arg(long, value_name = "N")]
    pub oversubscription: Option<f64>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `fabbench explain-perftest`
#[derive(Debug, Args)]
pub struct ExplainPerftestArgs {
    /// As typed for perftest: ib_write_bw -d mlx5_0 -x 3 -q 4 host-b
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "PERFTEST COMMAND")]
    pub command: Vec<String>,
}

/// `fabbench compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Report from before, or a directory of reports (three or more make a firm verdict)
    pub before: PathBuf,
    /// Report from after, or a directory of reports
    pub after: PathBuf,
    /// Further reports from after
    pub more: Vec<PathBuf>,
    /// Worse by so many per cent is a warning [default: 3; software devices: 25]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub warn: Option<f64>,
    /// Worse by so many per cent is a failure [default: 5; software devices: 25]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail: Option<f64>,
    /// Output.
    #[command(flatten)]
    pub output: CompareOutputArgs,
}

/// Where a comparison goes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct CompareOutputArgs {
    /// Write as JSON; without a file: to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write one HTML file, readable in any browser without network or scripts
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub html: Option<PathBuf>,
    /// Write JUnit XML, for continuous integration
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub junit: Option<PathBuf>,
    /// Write Markdown, for tickets and merge requests
    #[arg(long, value_name = "FILE", require_equals = true)]
    pub markdown: Option<PathBuf>,
    /// One line
    #[arg(short, long)]
    pub quiet: bool,
    /// One line with performance data, and Nagios' exit codes: 0 OK, 1 warning, 2 critical, 3 unknown
    #[arg(long, conflicts_with_all = ["quiet", "explain"])]
    pub nagios: bool,
    /// Replace host names, users, addresses, GUIDs and serials, so that it can be handed on
    #[arg(long)]
    pub redact: bool,
    /// List also what is the same
    #[arg(long)]
    pub explain: bool,
    /// Colour
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// `fabbench softroce`
#[derive(Debug, Args)]
pub struct SoftroceArgs {
    /// What to do
    #[command(subcommand)]
    pub action: SoftroceAction,
}

/// Actions on Soft-RoCE devices.
#[derive(Debug, Subcommand)]
pub enum SoftroceAction {
    /// Create a device on a network interface (needs root)
    Up {
        /// Interface [default: that of the default route]
        netdev: Option<String>,
        /// Name of the device [default: the first free rxeN]
        #[arg(long)]
        name: Option<String>,
    },
    /// Remove a device, or all Soft-RoCE devices (needs root)
    Down {
        /// Device or interface [default: all]
        name: Option<String>,
    },
    /// Show the devices
    Status,
}

/// `fabbench agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Address and port to listen on; port 0 takes a free one and prints it
    #[arg(
        long,
        value_name = "ADDR:PORT",
        required_unless_present = "stdio",
        requires = "token_file"
    )]
    pub listen: Option<std::net::SocketAddr>,
    /// File with the token that a coordinator must prove to know
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Speak on standard input and output (how a coordinator starts it)
    #[arg(long, hide = true)]
    pub stdio: bool,
    /// Name of the session
    #[arg(long, hide = true, default_value = "")]
    pub session: String,
    /// Remove this executable and its directory at once
    #[arg(long, hide = true)]
    pub remove_self: bool,
}

/// More than 0 and less than 100.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value < 100.0 => Ok(value),
        _ => Err("not a number of per cent between 0 and 100 (try 3)".into()),
    }
}

/// A duration of at least 10 ms and at most a day.
fn duration(text: &str) -> Result<std::time::Duration, String> {
    let value = humantime::parse_duration(text).map_err(|e| format!("{e} (try 2s or 500ms)"))?;
    match value.as_millis() {
        0..10 => Err("shorter than 10 ms: nothing can be measured in that time".into()),
        10..=86_400_000 => Ok(value),
        _ => Err("longer than a day".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn zero_duration_is_refused() {
        for text in ["0", "0s", "0ms", "9ms", "25h", "x"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration("500ms"), Ok(std::time::Duration::from_millis(500)));
    }

    #[test]
    fn bare_json_means_stdout() {
        let cli = Cli::try_parse_from(["fabbench", "pair", "a", "b", "--json"]).unwrap();
        let Command::Pair(pair) = cli.command else { panic!("not pair") };
        assert_eq!(pair.output.json, Some(PathBuf::from("-")));
        assert_eq!((pair.a.as_str(), pair.b.as_str()), ("a", "b"));
    }

    #[test]
    fn an_agent_that_listens_needs_a_token() {
        assert!(Cli::try_parse_from(["fabbench", "agent", "--listen", "127.0.0.1:0"]).is_err());
        assert!(Cli::try_parse_from(["fabbench", "agent"]).is_err());
    }
}
