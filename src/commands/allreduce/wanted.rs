//! From flags to a sweep; what cannot be measured is refused before any agent starts.

use std::path::PathBuf;

use fabbench_harness::leaves::{Leaves, LeavesError};
use fabbench_harness::plan::Transport;
use fabbench_harness::rails::DeviceFilter;
use fabbench_harness::size::{parse_size, size_text};

use crate::cli::TransportArg;
use crate::cli::allreduce::{
    AlgorithmArg, AllreduceArgs, CollectiveArg, DataTypeArg, RankOrderArg, ReductionArg,
};
use crate::engine::collective::schedule::check;
use crate::engine::collective::values::Values;
use crate::engine::collective::{Algorithm, Collective, DataType, Reduction, Scope, Sweep};
use crate::session::HostSpec;

/// Most ranks of one run.
const MOST_RANKS: usize = 64;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// As rank 0 sees it.
    sweep: Sweep,
    order: RankOrderArg,
    /// Where it stands which hosts hang on which leaf.
    leaves: Option<PathBuf>,
    /// As typed, each once.
    transports: Vec<Transport>,
    /// As typed.
    devices: Option<DeviceFilter>,
    /// Queue pairs to each peer as typed.
    channels: Option<u32>,
}

impl Wanted {
    /// Understands what was typed for so many hosts.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn new(args: &AllreduceArgs, hosts: usize) -> Result<Wanted, String> {
        let collective = collective(args.op);
        let kind = kind(args.data_type);
        let ranks = hosts * args.ranks_per_host as usize;
        if ranks > MOST_RANKS {
            return Err(format!(
                "{ranks} ranks are too many: at most {MOST_RANKS}; give fewer hosts or a smaller \
                 --ranks-per-host"
            ));
        }
        Values::check(kind, ranks)?;
        if args.no_reduce && !collective.reduces() {
            return Err(format!("--no-reduce: {} reduces nothing", collective.word()));
        }
        let sweep = Sweep {
            collective,
            algorithms: algorithms(&args.algo, collective),
            kind,
            reduction: match args.redop {
                ReductionArg::Sum => Reduction::Sum,
                ReductionArg::Max => Reduction::Max,
            },
            hosts: order(args, hosts),
            rank: 0,
            root: args.root,
            sizes: sizes(args, collective, kind, ranks)?,
            iterations: args.iters,
            warmups: args.warmup_iters,
            reduces: !args.no_reduce,
            seed: args.seed,
        };
        for &algorithm in &sweep.algorithms {
            let hosts = &sweep.hosts;
            let (rank, elements, align, root) = (0, 0, 1, sweep.root);
            check(&Scope { collective, algorithm, rank, hosts, elements, align, root })?;
        }
        let (order, leaves) = (args.rank_order, args.leaves.clone());
        let (transports, channels) = (transports(&args.transport)?, args.channels);
        let devices = match args.device.is_empty() {
            true => None,
            false => {
                let filter = args.device.join(",").parse();
                Some(filter.map_err(|e| format!("--device: {e}"))?)
            }
        };
        match (order, &leaves) {
            (RankOrderArg::ByLeaf, None) => Err("--rank-order by-leaf: which hosts hang on one \
                                                 leaf switch cannot be seen from here: give \
                                                 --leaves FILE with lines as `leaf1: host-a \
                                                 host-b`, or Slurm's topology.conf"
                .into()),
            (RankOrderArg::ByLeaf, Some(_)) | (_, None) => {
                Ok(Wanted { sweep, order, leaves, transports, devices, channels })
            }
            (_, Some(_)) => Err("--leaves is for --rank-order by-leaf: give both or none".into()),
        }
    }

    /// The leaves of the hosts, where ranks are to stand by them.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn leaves(&self) -> Result<Option<Leaves>, String> {
        let Some(path) = &self.leaves else { return Ok(None) };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("--leaves {shown}: {e}"))?;
        Leaves::parse(&text).map(Some).map_err(|e| format!("--leaves {shown}: {e}"))
    }

    /// Ranks of hosts of one leaf stand together.
    ///
    /// # Errors
    /// [`LeavesError::Missing`].
    pub fn stand_by_leaf(&mut self, leaves: &Leaves, names: &[&str]) -> Result<(), LeavesError> {
        let each = self.sweep.hosts.len() / names.len().max(1);
        let order = leaves.order(names)?;
        self.sweep.hosts =
            order.into_iter().flat_map(|host| std::iter::repeat_n(host, each)).collect();
        Ok(())
    }

    /// The order of ranks as typed.
    pub fn order(&self) -> &'static str {
        match self.order {
            RankOrderArg::Given => "given",
            RankOrderArg::Random => "random",
            RankOrderArg::ByLeaf => "by-leaf",
        }
    }

    /// What a rank is told.
    pub fn sweep(&self, rank: usize) -> Sweep {
        Sweep { rank, ..self.sweep.clone() }
    }

    /// What is swept.
    pub fn common(&self) -> &Sweep {
        &self.sweep
    }

    /// Index of the host of each rank.
    pub fn hosts(&self) -> &[usize] {
        &self.sweep.hosts
    }

    /// Transports as typed; empty for whichever is there.
    pub fn transports(&self) -> &[Transport] {
        &self.transports
    }

    /// Devices as typed.
    pub fn devices(&self) -> Option<&DeviceFilter> {
        self.devices.as_ref()
    }

    /// Queue pairs to each peer, as typed or as links of this rate need, bit/s.
    pub fn channels(&self, rate_bps: Option<u64>) -> usize {
        let by_rate = rate_bps.unwrap_or(0).div_ceil(100_000_000_000).clamp(1, 4);
        self.channels.unwrap_or(by_rate as u32) as usize
    }

    /// Results to come over each transport.
    pub fn rows(&self) -> usize {
        let places = if self.sweep.collective.has_in_place() { 2 } else { 1 };
        self.sweep.algorithms.len() * self.sweep.sizes.len() * places
    }

    /// What is measured, in short.
    pub fn title(&self, transport: Transport) -> String {
        let Sweep { collective, kind, reduction, hosts, .. } = &self.sweep;
        let reduction = if collective.reduces() { reduction.word() } else { "no reduction" };
        let (what, kind) = (collective.word(), kind.word());
        let wire = transport.word().to_uppercase();
        format!("{what} {kind} {reduction}, {} ranks over {wire}", hosts.len())
    }

    /// What is going to happen, in a sentence.
    pub fn announcement(&self, specs: &[HostSpec], transport: Transport) -> String {
        let sizes = &self.sweep.sizes;
        let range = match (sizes.first(), sizes.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{} to {}", size_text(*first), size_text(*last))
            }
            (Some(only), _) => size_text(*only),
            _ => String::new(),
        };
        let order = match self.order {
            RankOrderArg::Given => "",
            RankOrderArg::Random => ", ranks in random order",
            RankOrderArg::ByLeaf => ", ranks by leaf",
        };
        let hosts = specs.len();
        format!("{} on {hosts} agents, {range}{order}", self.title(transport))
    }
}

/// Each once; what may lose is refused.
fn transports(args: &[TransportArg]) -> Result<Vec<Transport>, String> {
    let mut all = Vec::new();
    for arg in args {
        let transport = match arg {
            TransportArg::Rc | TransportArg::Rdma => Transport::Rc,
            TransportArg::Tcp => Transport::Tcp,
            TransportArg::Xrc => {
                return Err("--transport xrc: collectives run over rc: choose from rc, tcp".into());
            }
            TransportArg::Uc | TransportArg::Ud => {
                return Err("--transport: a collective cannot do without a message that is lost: \
                            choose from rc, tcp"
                    .into());
            }
        };
        if !all.contains(&transport) {
            all.push(transport);
        }
    }
    Ok(all)
}

fn collective(arg: CollectiveArg) -> Collective {
    match arg {
        CollectiveArg::AllReduce => Collective::AllReduce,
        CollectiveArg::AllGather => Collective::AllGather,
        CollectiveArg::ReduceScatter => Collective::ReduceScatter,
        CollectiveArg::AllToAll => Collective::AllToAll,
        CollectiveArg::Broadcast => Collective::Broadcast,
        CollectiveArg::SendRecv => Collective::SendRecv,
    }
}

fn kind(arg: DataTypeArg) -> DataType {
    match arg {
        DataTypeArg::F32 => DataType::F32,
        DataTypeArg::F64 => DataType::F64,
        DataTypeArg::Bf16 => DataType::Bf16,
        DataTypeArg::F16 => DataType::F16,
        DataTypeArg::I32 => DataType::I32,
    }
}

/// Those typed, each once; else the operation's first.
fn algorithms(args: &[AlgorithmArg], collective: Collective) -> Vec<Algorithm> {
    let one = |arg: &AlgorithmArg| match arg {
        AlgorithmArg::Ring => Algorithm::Ring,
        AlgorithmArg::Rhd => Algorithm::Rhd,
        AlgorithmArg::Tree => Algorithm::Tree,
        AlgorithmArg::Direct => Algorithm::Direct,
        AlgorithmArg::Rail => Algorithm::Rail,
    };
    let mut all: Vec<Algorithm> = Vec::new();
    for algorithm in args.iter().map(one) {
        if !all.contains(&algorithm) {
            all.push(algorithm);
        }
    }
    if all.is_empty() { collective.algorithms()[..1].to_vec() } else { all }
}

/// Index of the host of each rank.
fn order(args: &AllreduceArgs, hosts: usize) -> Vec<usize> {
    let each = args.ranks_per_host as usize;
    let mut order: Vec<usize> = (0..hosts * each).map(|rank| rank / each).collect();
    if args.rank_order == RankOrderArg::Random {
        let mut state = args.seed;
        for last in (1..order.len()).rev() {
            order.swap(last, (draw(&mut state) % (last as u64 + 1)) as usize);
        }
    }
    order
}

/// The next number of a sequence (splitmix64).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// From the smallest by the factor up to the largest; of what is cut into chunks, whole elements
/// for every rank.
fn sizes(
    args: &AllreduceArgs,
    collective: Collective,
    kind: DataType,
    ranks: usize,
) -> Result<Vec<u64>, String> {
    let read = |flag: &str, text: &str| parse_size(text).map_err(|e| format!("{flag}: {e}"));
    let (first, last) = (read("-b", &args.min_bytes)?, read("-e", &args.max_bytes)?);
    let element = kind.bytes() as u64;
    if first == 0 || !first.is_multiple_of(element) {
        return Err(format!(
            "-b {}: not a whole number of {} elements, which have {element} bytes each: give {}",
            args.min_bytes,
            kind.word(),
            size_text(first.next_multiple_of(element).max(element))
        ));
    }
    if first > last {
        return Err(format!(
            "-b {} is more than -e {}: nothing would be measured",
            args.min_bytes, args.max_bytes
        ));
    }
    let unit = if collective.is_chunked() { element * ranks as u64 } else { element };
    if last < unit {
        return Err(format!(
            "-e {}: {} cuts the vector into a chunk for each of {ranks} ranks: give at least {}",
            args.max_bytes,
            collective.word(),
            size_text(unit)
        ));
    }
    let steps = std::iter::successors(Some(first), |size| size.checked_mul(args.step_factor));
    let mut sizes: Vec<u64> = steps.take_while(|size| *size <= last).collect();
    for size in &mut sizes {
        *size = (*size / unit).max(1) * unit;
    }
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn wanted(more: &str, hosts: usize) -> Result<Wanted, String> {
        let typed = ["fabbench", "allreduce"].into_iter().chain(vec!["local"; hosts]);
        let cli = Cli::try_parse_from(typed.chain(more.split_whitespace())).unwrap();
        let Command::Allreduce(args) = cli.command else { panic!("not allreduce") };
        Wanted::new(&args, hosts)
    }

    fn sizes_of(more: &str, hosts: usize) -> Vec<u64> {
        wanted(more, hosts).unwrap().sweep.sizes
    }

    #[test]
    fn sizes_grow_by_the_factor_and_chunks_are_whole() {
        assert_eq!(sizes_of("-b 8 -e 1MiB -f 4", 2).len(), 9);
        assert_eq!(sizes_of("-b 8 -e 100", 2), [8, 16, 32, 64]);
        assert_eq!(sizes_of("-b 64KiB -e 64KiB", 3), [65_536]);
        assert_eq!(sizes_of("-b 8 -e 64 --op all-gather", 3), [12, 24, 60]);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_what_can() {
        for (typed, sentence) in [
            ("-b 6", "-b 6: not a whole number of f32 elements, which have 4 bytes each: give 8 B"),
            ("-b 0", "not a whole number of f32 elements, which have 4 bytes each: give 4 B"),
            ("-b 1MiB -e 8", "-b 1MiB is more than -e 8"),
            ("-b 4 -e 4 --op all-to-all", "a chunk for each of 3 ranks: give at least 12 B"),
            ("--op all-gather --algo rhd", "all_gather is not done by rhd: choose from ring"),
            ("--op broadcast --no-reduce", "--no-reduce: broadcast reduces nothing"),
            ("--op broadcast --root 3", "root 3: ranks are 0 to 2"),
            ("--ranks-per-host 40", "120 ranks are too many: at most 64"),
            ("--max-bytes 2GiB", "-e: 2GiB is too large"),
            ("--rank-order by-leaf", "give --leaves FILE with lines as `leaf1: host-a host-b`"),
            ("--leaves x", "--leaves is for --rank-order by-leaf"),
        ] {
            let refusal = wanted(typed, 3).unwrap_err();
            assert!(refusal.contains(sentence), "{typed}: {refusal}");
        }
    }

    #[test]
    fn ranks_of_one_leaf_stand_together() {
        let mut all = wanted("-t 2 --rank-order by-leaf --leaves x", 3).unwrap();
        let leaves = Leaves::parse("l1: a c\nl2: b\n").unwrap();
        all.stand_by_leaf(&leaves, &["a", "b", "c"]).unwrap();
        assert_eq!(all.hosts(), [0, 0, 2, 2, 1, 1]);
        assert!(all.stand_by_leaf(&leaves, &["a", "b", "z"]).is_err());
        assert!(all.leaves().unwrap_err().starts_with("--leaves x: No such file"));
    }

    #[test]
    fn ranks_stand_by_host_or_in_an_order_that_the_seed_gives() {
        let hosts = |more: &str| wanted(more, 3).unwrap().sweep.hosts;
        assert_eq!(hosts("-t 2"), [0, 0, 1, 1, 2, 2]);
        let random = hosts("-t 4 --rank-order random --seed 5");
        assert_eq!(random, hosts("-t 4 --rank-order random --seed 5"));
        assert_ne!(random, hosts("-t 4 --rank-order random --seed 6"));
        assert!((0..3).all(|host| random.iter().filter(|h| **h == host).count() == 4));
    }
}
