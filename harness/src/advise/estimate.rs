//! Time, overlap, efficiency and verdict of a job on one fabric.

use fabbench_reports::advice::{Band, Brief, Dominant, Estimate, FlowTime, NetworkVerdict};

use super::AdviseError;
use super::flows::{Collective, Flow, compute_time, flows};
use super::job::{Job, Layout, Task};
use super::link::{Corner, Link};

/// Below this share of the step, without overlap, the network does not bind.
const NOT_BOUND_SHARE: f64 = 0.05;
/// From this efficiency on it is hidden.
const HIDDEN: f64 = 0.98;
/// From this efficiency on it is marginal, below it bound.
const MARGINAL: f64 = 0.90;
/// What a double binary tree reaches of the bandwidth.
const TREE_BANDWIDTH: f64 = 0.92;
/// One more switch tier on the way, there and back in a step: s.
const HOP: (f64, f64, f64) = (1e-6, 1.5e-6, 2e-6);
/// Storage leaves the job at least this part of the NICs in the model.
const LEAST_LEFT: f64 = 0.01;

/// What lies between the nodes beside their NICs, and how the job uses it.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Node bandwidth into a leaf / out of it; at least 1.
    pub oversubscription: f64,
    /// Nodes of a leaf; none: oversubscription holds between any two nodes, hops are not added.
    pub leaf: Option<u32>,
    /// Storage traffic on the same NICs, bytes/s of each node; 0 when its plane is separate.
    pub storage: f64,
    /// Time between checkpoints on the same NICs, s.
    pub checkpoint: Option<f64>,
    /// Part of the overlap window that is really used, 0 to 1.
    pub overlap: f64,
    /// Count the last bucket or layer, which nothing can hide.
    pub tail: bool,
    /// All-reduce algorithm.
    pub algorithm: Algorithm,
    /// Time that the collective's software adds to a step, s.
    pub step_overhead: f64,
    /// Standard deviation of a node's step time, as part of it.
    pub jitter: f64,
}

impl Default for Path {
    fn default() -> Self {
        Path {
            oversubscription: 1.0,
            leaf: None,
            storage: 0.0,
            checkpoint: None,
            overlap: 1.0,
            tail: true,
            algorithm: Algorithm::Auto,
            step_overhead: 0.0,
            jitter: 0.0,
        }
    }
}

/// How an all-reduce goes between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Whichever is faster, as collective libraries choose.
    Auto,
    /// Ring: 2(k−1) steps.
    Ring,
    /// Double binary tree: 2·log2 k steps at 0.92 of the bandwidth.
    Tree,
}

/// Rates and shares of one corner.
struct Corners {
    compute: f64,
    network: f64,
    exposed_full: f64,
    exposed_none: f64,
    exposed: f64,
}

impl Corners {
    fn efficiency(&self, exposed: f64) -> f64 {
        self.compute / (self.compute + exposed)
    }
}

/// The verdict of a step.
pub fn verdict(compute: f64, network: f64, exposed: f64) -> NetworkVerdict {
    if network / (compute + network) < NOT_BOUND_SHARE {
        return NetworkVerdict::NotBound;
    }
    match compute / (compute + exposed) {
        efficient if efficient >= HIDDEN => NetworkVerdict::Hidden,
        efficient if efficient >= MARGINAL => NetworkVerdict::Marginal,
        _ => NetworkVerdict::Bound,
    }
}

/// What stays in the open when each flow hides behind its window, used to a part of `overlap`, and
/// one NIC serves them all. Windows lie within each other (backward pass in the step), so those up
/// to any length have to fit into it.
pub fn exposed(flows: &[(f64, f64)], overlap: f64) -> f64 {
    let beyond = |window: f64| {
        let inside = flows.iter().filter(|(_, other)| *other <= window);
        inside.map(|(time, _)| time).sum::<f64>() - overlap * window
    };
    flows.iter().map(|(_, window)| beyond(*window)).fold(0.0, f64::max)
}

/// Time of one flow: (all, latency alone), s.
pub fn flow_time(flow: &Flow, latency: f64, rate: f64, algorithm: Algorithm) -> (f64, f64) {
    let k = f64::from(flow.nodes);
    let others = 1.0 - 1.0 / k;
    let time = |steps: f64, volume: f64| {
        let waits = flow.calls * steps * latency;
        (waits + volume * flow.payload / rate, waits)
    };
    let ring = time(2.0 * (k - 1.0), 2.0 * others);
    let tree = time(2.0 * k.log2().ceil(), 2.0 / TREE_BANDWIDTH);
    match (flow.collective, algorithm) {
        (Collective::AllReduce, Algorithm::Ring) => ring,
        (Collective::AllReduce, Algorithm::Tree) => tree,
        (Collective::AllReduce, Algorithm::Auto) => {
            if tree.0 < ring.0 {
                tree
            } else {
                ring
            }
        }
        (Collective::ReduceScatter | Collective::AllGather, _) => time(k - 1.0, others),
        (Collective::AllToAll, _) => time(1.0, others),
        (Collective::PointToPoint, _) => time(1.0, 1.0),
    }
}

/// Bytes that a GPU's share of the NICs sends for a flow.
fn sent(flow: &Flow) -> f64 {
    let others = 1.0 - 1.0 / f64::from(flow.nodes);
    flow.payload
        * match flow.collective {
            Collective::AllReduce => 2.0 * others,
            Collective::ReduceScatter | Collective::AllGather | Collective::AllToAll => others,
            Collective::PointToPoint => 1.0,
        }
}

/// A job on a fabric, for any number of nodes.
pub struct Model<'a> {
    /// The job.
    pub job: &'a Job,
    /// The fabric.
    pub link: &'a Link,
    /// What is between.
    pub path: &'a Path,
}

impl Model<'_> {
    /// The full estimate.
    ///
    /// # Errors
    ///
    /// When the job cannot be spread over so many nodes.
    pub fn estimate(&self, nodes: u32) -> Result<Estimate, AdviseError> {
        let layout = self.job.layout(nodes)?;
        let parts = flows(self.job, layout);
        let corner = self.corner(layout, &parts, Corner::Nominal);
        let (band, step) = self.bands(layout, &parts);
        let times = self.flow_times(layout, &parts, Corner::Nominal);
        let largest = parts.iter().map(message).fold(0.0, f64::max);
        // A sum of nothing is −0.
        let network_latency = times.iter().fold(0.0, |sum, (_, latency)| sum + latency);
        let span = parts.iter().map(|flow| flow.span).max().unwrap_or(1);
        let shown = if largest > 0.0 { largest } else { f64::INFINITY };
        Ok(Estimate {
            transport: self.link.transport,
            fabric: self.link.name.clone(),
            nodes,
            gpus: layout.gpus(),
            nics_per_node: self.link.nics,
            latency_ns: ns(self.latency(span, Corner::Nominal)),
            bandwidth_bps_per_gpu: 8.0 * self.rate(layout, shown, span, Corner::Nominal),
            compute_ns: ns(corner.compute),
            network_ns: ns(corner.network),
            network_latency_ns: ns(network_latency),
            exposed_ns: ns(corner.exposed),
            network_share: corner.network / (corner.compute + corner.network),
            efficiency: corner.efficiency(corner.exposed),
            efficiency_band: band,
            step_ns: step,
            verdict: verdict(corner.compute, corner.network, corner.exposed),
            verdict_without_overlap: verdict(corner.compute, corner.network, corner.exposed_none),
            critical_tokens_per_gpu: self.critical_tokens(layout, &parts),
            needed_bps_per_gpu: self.needed(layout, &parts, shown, span),
            dominated_by: dominant(&parts, &times),
            flows: parts.iter().zip(&times).map(|(flow, time)| shown_flow(flow, *time)).collect(),
        })
    }

    /// The short form.
    ///
    /// # Errors
    ///
    /// When the job cannot be spread over so many nodes.
    pub fn brief(&self, nodes: u32) -> Result<Brief, AdviseError> {
        let layout = self.job.layout(nodes)?;
        let parts = flows(self.job, layout);
        let corner = self.corner(layout, &parts, Corner::Nominal);
        let (efficiency_band, step_ns) = self.bands(layout, &parts);
        Ok(Brief {
            transport: self.link.transport,
            network_share: corner.network / (corner.compute + corner.network),
            efficiency: corner.efficiency(corner.exposed),
            efficiency_band,
            step_ns,
            calibrated_step_ns: None,
            verdict: verdict(corner.compute, corner.network, corner.exposed),
        })
    }

    /// Efficiency and step time from no overlap on the worst figures to full overlap on the best.
    fn bands(&self, layout: Layout, parts: &[Flow]) -> (Band, Band) {
        let best = self.corner(layout, parts, Corner::Best);
        let worst = self.corner(layout, parts, Corner::Worst);
        let band = Band {
            worst: worst.efficiency(worst.exposed_none),
            best: best.efficiency(best.exposed_full),
        };
        let nodes = f64::from(layout.nodes);
        // E[max of N] ≈ μ + σ·sqrt(2 ln N).
        let waiting = best.compute * self.path.jitter * (2.0 * nodes.ln()).sqrt();
        let step = Band {
            worst: ns(worst.compute + worst.exposed_none + waiting),
            best: ns(best.compute + best.exposed_full + waiting),
        };
        (band, step)
    }

    fn corner(&self, layout: Layout, parts: &[Flow], corner: Corner) -> Corners {
        let times = self.flow_times(layout, parts, corner);
        let network = times.iter().fold(0.0, |sum, (time, _)| sum + time);
        let windows: Vec<(f64, f64)> =
            parts.iter().zip(&times).map(|(flow, (time, _))| (*time, flow.window)).collect();
        let tail = if self.path.tail { tail(parts, &times) } else { 0.0 };
        let open = |overlap: f64| (exposed(&windows, overlap) + tail).min(network);
        Corners {
            compute: compute_time(self.job, layout),
            network,
            exposed_full: open(1.0),
            exposed_none: open(0.0),
            exposed: open(self.path.overlap),
        }
    }

    fn flow_times(&self, layout: Layout, parts: &[Flow], corner: Corner) -> Vec<(f64, f64)> {
        let time = |flow: &Flow| {
            let latency = self.latency(flow.span, corner);
            let rate = self.rate(layout, message(flow), flow.span, corner);
            flow_time(flow, latency, rate, self.path.algorithm)
        };
        parts.iter().map(time).collect()
    }

    /// One step between nodes that lie across `span` nodes, s.
    fn latency(&self, span: u32, corner: Corner) -> f64 {
        let hop = match corner {
            Corner::Best => HOP.0,
            Corner::Nominal => HOP.1,
            Corner::Worst => HOP.2,
        };
        let leaf = f64::from(self.path.leaf.unwrap_or(u32::MAX));
        let span = f64::from(span);
        let tiers = [leaf, leaf * leaf].into_iter().filter(|reach| span > *reach).count();
        self.link.latency.at(corner) + self.path.step_overhead + tiers as f64 * hop
    }

    /// One GPU's share of its node's NICs, bytes/s.
    fn rate(&self, layout: Layout, message: f64, span: u32, corner: Corner) -> f64 {
        let node = f64::from(self.link.nics) * self.link.rate(message, corner);
        let full = f64::from(self.link.nics) * self.link.rate(f64::INFINITY, corner);
        let left = (1.0 - self.storage(layout) / full).max(LEAST_LEFT);
        let crosses = self.path.leaf.is_none_or(|leaf| span > leaf);
        let spine = if crosses { self.path.oversubscription } else { 1.0 };
        node * left / spine / f64::from(layout.gpus_per_node)
    }

    /// Storage and checkpoint traffic of a node on the same NICs, bytes/s: a checkpoint writes 14
    /// bytes a parameter.
    pub fn storage(&self, layout: Layout) -> f64 {
        let checkpoint = 14.0 * self.job.model.parameters / f64::from(layout.nodes);
        self.path.storage + self.path.checkpoint.map_or(0.0, |interval| checkpoint / interval)
    }

    /// Tokens per GPU at which data-parallel traffic just fits its window. The traffic does not
    /// depend on the tokens and the window grows with them, so it is T · t / window.
    fn critical_tokens(&self, layout: Layout, parts: &[Flow]) -> Option<f64> {
        let Task::Train(train) = &self.job.task else { return None };
        let times = self.flow_times(layout, parts, Corner::Nominal);
        let shared = || parts.iter().zip(&times).filter(|(flow, _)| flow.data_parallel);
        let hideable = || shared().filter(|(flow, _)| flow.window > 0.0);
        let time: f64 = hideable().map(|(_, (time, _))| time).sum();
        let window = hideable().map(|(flow, _)| flow.window).fold(0.0, f64::max);
        (window > 0.0).then(|| train.tokens_per_gpu(layout) * time / window)
    }

    /// Bandwidth per GPU at which the traffic is hidden; where some of it cannot overlap, at which
    /// the efficiency is 0.98.
    fn needed(&self, layout: Layout, parts: &[Flow], size: f64, span: u32) -> Option<f64> {
        if parts.is_empty() {
            return None;
        }
        let hideable = parts.iter().all(|flow| flow.window > 0.0);
        let enough = |factor: f64| {
            let link = self.link.scaled(factor);
            let path =
                Path { tail: self.path.tail && !hideable, storage: 0.0, ..self.path.clone() };
            let path = Path { checkpoint: None, ..path };
            let model = Model { link: &link, path: &path, job: self.job };
            let corner = model.corner(layout, parts, Corner::Nominal);
            let open = corner.exposed;
            if hideable { open <= corner.compute * 1e-9 } else { corner.efficiency(open) >= HIDDEN }
        };
        let (mut low, mut high) = (1e-6, 1e6);
        if !enough(high) {
            return None;
        }
        for _ in 0..60 {
            let middle = f64::sqrt(low * high);
            *(if enough(middle) { &mut high } else { &mut low }) = middle;
        }
        let path =
            Path { storage: 0.0, checkpoint: None, oversubscription: 1.0, ..self.path.clone() };
        let bare = Model { path: &path, job: self.job, link: self.link };
        Some(8.0 * high * bare.rate(layout, size, span, Corner::Nominal))
    }
}

/// One call's share on one GPU, bytes.
fn message(flow: &Flow) -> f64 {
    flow.payload / flow.calls.max(1.0)
}

/// The longest single call among those that can hide: the last bucket or layer.
fn tail(parts: &[Flow], times: &[(f64, f64)]) -> f64 {
    let hideable = parts.iter().zip(times).filter(|(flow, _)| flow.window > 0.0);
    let data = hideable.filter(|(flow, _)| flow.data_parallel);
    data.map(|(flow, (time, _))| time / flow.calls.max(1.0)).fold(0.0, f64::max)
}

fn dominant(parts: &[Flow], times: &[(f64, f64)]) -> Option<Dominant> {
    let (flow, (time, latency)) =
        parts.iter().zip(times).max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))?;
    let part = if *latency > time / 2.0 { "latency" } else { "bandwidth" };
    Some(Dominant { flow: flow.name.to_owned(), part: part.to_owned() })
}

fn shown_flow(flow: &Flow, (time, latency): (f64, f64)) -> FlowTime {
    FlowTime {
        name: flow.name.to_owned(),
        collective: flow.collective.word().to_owned(),
        calls: flow.calls,
        bytes_per_gpu: sent(flow),
        message_bytes: message(flow),
        time_ns: ns(time),
        latency_ns: ns(latency),
        window_ns: ns(flow.window),
    }
}

fn ns(seconds: f64) -> f64 {
    seconds * 1e9
}
