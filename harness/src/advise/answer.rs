//! From a question to the whole answer.

use fabbench_reports::advice::{
    ADVICE_SCHEMA, Advice, Band, BoundAt, Brief, Calibration, Estimate, Growth, NetworkVerdict,
    Transport, WhatIf,
};

use super::estimate::{Model, Path};
use super::flows::flows;
use super::job::{Job, Task, Tokens};
use super::link::Link;
use super::{AdviseError, positive, recommend};

/// Nodes up to which every number is looked at.
const EACH: u32 = 32;
/// Rows of the growth table before the target.
const MOST_ROWS: usize = 24;

/// All that is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The job.
    pub job: Job,
    /// RDMA and TCP.
    pub links: [Link; 2],
    /// What lies between the nodes.
    pub path: Path,
    /// Nodes now.
    pub nodes: u32,
    /// Nodes in a year.
    pub target: Option<u32>,
    /// A step time seen at the nodes of now.
    pub observed: Option<Observed>,
    /// Rows beside.
    pub changes: Vec<Change>,
    /// Storage has NICs of its own; none when not said.
    pub storage_separate: Option<bool>,
}

/// A step that was observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// On which fabric.
    pub transport: Transport,
    /// Its length, s.
    pub step: f64,
}

/// Inputs changed for one row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// As typed.
    pub text: String,
    /// Another fabric in the place of the one of its kind.
    pub link: Option<Link>,
    /// Other nodes.
    pub nodes: Option<u32>,
    /// NICs of a node, RDMA.
    pub nics: Option<u32>,
    /// Another oversubscription.
    pub oversubscription: Option<f64>,
    /// Other tokens per GPU.
    pub tokens: Option<f64>,
}

/// Answers a question.
///
/// # Errors
///
/// What cannot be, in a sentence that says what would do.
pub fn advise(question: &Question) -> Result<Advice, AdviseError> {
    check(question)?;
    let now = sides(question, question.nodes)?;
    let target = question.target.map(|nodes| sides(question, nodes)).transpose()?;
    let calibration = calibrate(question, &now);
    let growth = growth(question, calibration.as_ref());
    let what_if = question.changes.iter().map(|change| what_if(question, change));
    let mut advice = Advice {
        schema: ADVICE_SCHEMA.to_owned(),
        inputs: recommend::inputs(question),
        now,
        target: target.unwrap_or_default(),
        growth,
        bound_at: bound_at(question),
        what_if: what_if.collect::<Result<_, _>>()?,
        calibration,
        recommendations: Vec::new(),
        assumptions: recommend::assumptions(question),
        questions: Vec::new(),
    };
    advice.recommendations = recommend::recommendations(question, &advice)?;
    advice.questions = recommend::answered(question, &advice);
    Ok(advice)
}

fn check(question: &Question) -> Result<(), AdviseError> {
    question.job.check()?;
    positive("--nodes", f64::from(question.nodes))?;
    if let Some(target) = question.target {
        positive("--target-nodes", f64::from(target))?;
    }
    if let Some(observed) = question.observed {
        positive("--observed-step", observed.step)?;
    }
    for link in &question.links {
        check_link(link)?;
    }
    let path = &question.path;
    let wrong = |reason: String| Err(AdviseError::Wrong(reason));
    if !(path.oversubscription.is_finite() && path.oversubscription >= 1.0) {
        let found = path.oversubscription;
        return wrong(format!("--oversubscription {found}: at least 1 (3 for 3:1)"));
    }
    if !(0.0..=1.0).contains(&path.overlap) {
        return wrong(format!("--overlap {}: 0 (none) to 1 (full)", path.overlap));
    }
    if let Some(leaf) = path.leaf {
        positive("--leaf", f64::from(leaf))?;
    }
    if let Some(interval) = path.checkpoint {
        positive("--checkpoint-interval", interval)?;
    }
    let at_least_zero = [
        ("--storage-rate", path.storage),
        ("--jitter", path.jitter),
        ("--step-overhead", path.step_overhead),
    ];
    match at_least_zero.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
        Some((flag, value)) => wrong(format!("{flag} {value}: give 0 or more")),
        None => Ok(()),
    }
}

fn check_link(link: &Link) -> Result<(), AdviseError> {
    let (nics, rate, wait) = match link.transport {
        Transport::Rdma => ("--nics-per-node", "--rdma-bandwidth", "--rdma-latency"),
        Transport::Tcp => ("--tcp-nics", "--tcp-bandwidth", "--tcp-latency"),
    };
    positive(nics, f64::from(link.nics))?;
    positive(wait, link.latency.nominal)?;
    link.points.iter().try_for_each(|point| positive(rate, point.rate.nominal))
}

fn models<'a>(question: &'a Question, job: &'a Job) -> [Model<'a>; 2] {
    let [rdma, tcp] = &question.links;
    [rdma, tcp].map(|link| Model { job, link, path: &question.path })
}

fn sides(question: &Question, nodes: u32) -> Result<Vec<Estimate>, AdviseError> {
    models(question, &question.job).iter().map(|model| model.estimate(nodes)).collect()
}

fn briefs(question: &Question, nodes: u32) -> Result<Vec<Brief>, AdviseError> {
    models(question, &question.job).iter().map(|model| model.brief(nodes)).collect()
}

/// Powers of two from one node to four times the nodes of now or to the target, with both of them;
/// numbers that the job cannot be spread over are left out.
fn growth(question: &Question, calibration: Option<&Calibration>) -> Vec<Growth> {
    let last = question.target.unwrap_or(0).max(question.nodes.saturating_mul(4));
    let powers = std::iter::successors(Some(1_u32), |nodes| nodes.checked_mul(2));
    let mut nodes: Vec<u32> = powers.take_while(|nodes| *nodes <= last).collect();
    nodes.extend([question.nodes].into_iter().chain(question.target));
    nodes.sort_unstable();
    nodes.dedup();
    // A fixed --dp holds at one size only: the table then grows it.
    let mut job = question.job.clone();
    job.parallel.dp = None;
    let question = Question { job, ..question.clone() };
    let row = |nodes: u32| {
        let mut estimates = briefs(&question, nodes).ok()?;
        for brief in &mut estimates {
            let of_it = calibration.filter(|one| one.transport == brief.transport);
            brief.calibrated_step_ns = of_it.map(|one| times(brief.step_ns, one.factor));
        }
        Some(Growth { nodes, estimates })
    };
    nodes.into_iter().filter_map(row).take(MOST_ROWS).collect()
}

/// The first number of nodes at which each fabric binds the job: every number is looked at up to
/// [`EACH`], then powers of two, and between the last that is not bound and the first that is by
/// halves.
fn bound_at(question: &Question) -> Vec<BoundAt> {
    let last = question.target.unwrap_or(0).max(question.nodes.saturating_mul(4));
    let mut job = question.job.clone();
    job.parallel.dp = None;
    let of = |model: &Model| {
        let bound = |nodes: u32| {
            model.brief(nodes).is_ok_and(|brief| brief.verdict == NetworkVerdict::Bound)
        };
        let transport = model.link.transport;
        BoundAt { transport, nodes: first_bound(last, bound), looked_to: last }
    };
    models(question, &job).iter().map(of).collect()
}

fn first_bound(last: u32, bound: impl Fn(u32) -> bool) -> Option<u32> {
    if let Some(nodes) = (1..=last.min(EACH)).find(|nodes| bound(*nodes)) {
        return Some(nodes);
    }
    let powers = std::iter::successors(Some(EACH), |nodes| nodes.checked_mul(2));
    let powers = powers.skip(1).take_while(|nodes| *nodes < last).chain([last]);
    let (mut free, mut found) = (EACH, None);
    for nodes in powers.filter(|nodes| *nodes > EACH) {
        if bound(nodes) {
            found = Some(nodes);
            break;
        }
        free = nodes;
    }
    let mut first = found?;
    while first - free > 1 {
        let middle = free + (first - free) / 2;
        *(if bound(middle) { &mut first } else { &mut free }) = middle;
    }
    Some(first)
}

fn calibrate(question: &Question, now: &[Estimate]) -> Option<Calibration> {
    let observed = question.observed?;
    let estimate = now.iter().find(|one| one.transport == observed.transport)?;
    let step = observed.step * 1e9;
    let predicted = estimate.step_ns;
    Some(Calibration {
        transport: observed.transport,
        observed_step_ns: step,
        predicted_step_ns: predicted,
        factor: Band { worst: step / predicted.worst, best: step / predicted.best },
    })
}

fn times(band: Band, factor: Band) -> Band {
    // The factors belong to the ends: at the nodes of now both give the step that was observed.
    let (a, b) = (band.worst * factor.worst, band.best * factor.best);
    Band { worst: a.max(b), best: a.min(b) }
}

fn what_if(question: &Question, change: &Change) -> Result<WhatIf, AdviseError> {
    let mut changed = question.clone();
    if change.nodes.is_some() {
        changed.job.parallel.dp = None;
    }
    if let Some(link) = &change.link {
        let index = if link.transport == Transport::Rdma { 0 } else { 1 };
        changed.links[index] = link.clone();
    }
    if let Some(nics) = change.nics {
        changed.links[0].nics = nics;
    }
    if let Some(oversubscription) = change.oversubscription {
        changed.path.oversubscription = oversubscription;
    }
    if let (Some(tokens), Task::Train(train)) = (change.tokens, &mut changed.job.task) {
        train.tokens = Tokens::PerGpu(tokens);
    }
    let wrong =
        |error: AdviseError| AdviseError::Wrong(format!("--what-if {}: {error}", change.text));
    check(&changed).map_err(wrong)?;
    let nodes = change.nodes.unwrap_or(question.nodes);
    Ok(WhatIf {
        change: change.text.clone(),
        nodes,
        fabrics: changed.links.iter().map(|link| link.name.clone()).collect(),
        estimates: briefs(&changed, nodes).map_err(wrong)?,
    })
}

impl Question {
    /// The same question with another path, for one estimate.
    pub(super) fn with_path(&self, path: Path, nodes: u32) -> Result<Vec<Estimate>, AdviseError> {
        sides(&Question { path, ..self.clone() }, nodes)
    }

    /// Nodes that the answer looks at most: the target, or those of now.
    pub(super) fn horizon(&self) -> u32 {
        self.target.unwrap_or(self.nodes)
    }

    /// Message sizes that lie outside what was measured of a link.
    pub(super) fn beyond_measured(&self, link: &Link) -> Vec<f64> {
        let Ok(layout) = self.job.layout(self.nodes) else { return Vec::new() };
        let sizes = flows(&self.job, layout);
        let sizes = sizes.iter().map(|flow| flow.payload / flow.calls.max(1.0));
        sizes.filter(|size| link.extrapolates(*size)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bound_number_is_exact() {
        for first in [1, 2, 31, 32, 33, 47, 64, 65, 127, 1000, 4096] {
            assert_eq!(first_bound(4096, |nodes| nodes >= first), Some(first));
        }
        assert_eq!(first_bound(4096, |_| false), None);
        assert_eq!(first_bound(8, |nodes| nodes >= 9), None);
    }
}
