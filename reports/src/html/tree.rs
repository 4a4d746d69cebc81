//! The PCIe tree of a host with GPUs and HCAs in their places, as a picture.

use maud::{Markup, PreEscaped, html};

use crate::clean;
use crate::model::{HostTopology, TopologyNode};

/// Sizes in the units of the drawing.
const ROW: usize = 22;
const INDENT: usize = 18;
const WIDTH: usize = 480;
/// Letters of a label at the left edge; each step to the right costs some.
const LETTERS: usize = 62;
/// A machine has less; a damaged report may hold anything.
const MOST_ROWS: usize = 400;

/// Colours of a picture that stands alone.
const STYLE: &str = "svg { font: 13px system-ui, sans-serif; background: #fff; } \
    .wire { stroke: #57606a; fill: none; } text { fill: #1b1f24; } .node { fill: #57606a; } \
    .gpu { fill: #dafbe1; } .hca { fill: #ddeeff; } .gpu, .hca { stroke: #57606a; }";

/// The picture as a file of its own.
pub fn topology_svg(host: &HostTopology) -> String {
    let text = drawing(host, true).into_string();
    clean::page(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}\n"))
}

/// The picture in a page; nothing where the report holds no tree.
pub(super) fn figure(host: &HostTopology) -> Markup {
    if host.graph.nodes.is_empty() {
        return html! {};
    }
    html! {
        figure class="tree" {
            figcaption { "PCIe tree of " (host.host) }
            (drawing(host, false))
        }
    }
}

fn drawing(host: &HostTopology, alone: bool) -> Markup {
    let rows = rows(host);
    let height = rows.len() * ROW + 8;
    let title = format!("PCIe tree of {}", host.host);
    html! {
        svg class="plot" xmlns=[alone.then_some("http://www.w3.org/2000/svg")]
            viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            title { (title) }
            desc { (described(host)) }
            @if alone { style { (PreEscaped(STYLE)) } }
            @for (index, row) in rows.iter().enumerate() {
                (wire(&rows, index))
                (label(row, index))
            }
        }
    }
}

/// A node where it is drawn.
struct Row {
    depth: usize,
    parent: Option<usize>,
    kind: &'static str,
    text: String,
}

/// Depth first, so that each subtree stands together.
fn rows(host: &HostTopology) -> Vec<Row> {
    let nodes = &host.graph.nodes;
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut open = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        // A parent stands before its children: whatever says otherwise is drawn as a root.
        match node.parent.filter(|parent| *parent < index) {
            Some(parent) => children[parent].push(index),
            None => open.push((index, 0, None)),
        }
    }
    open.reverse();
    let mut rows: Vec<Row> = Vec::new();
    while let Some((index, depth, parent)) = open.pop() {
        if rows.len() == MOST_ROWS {
            break;
        }
        let kind = match nodes[index].kind.as_str() {
            "gpu" => "gpu",
            "hca" => "hca",
            _ => "node",
        };
        let here = rows.len();
        rows.push(Row { depth, parent, kind, text: words(host, &nodes[index]) });
        open.extend(children[index].iter().rev().map(|child| (*child, depth + 1, Some(here))));
    }
    rows
}

/// `GPU0 0000:18:00.0, Gen5 x16, PIX to mlx5_0`.
fn words(host: &HostTopology, node: &TopologyNode) -> String {
    let name = if node.name.is_empty() { &node.kind } else { &node.name };
    let mut text = name.clone();
    if let Some(pci) = &node.pci {
        text.push_str(&format!(" {pci}"));
    }
    if !node.link.is_empty() {
        text.push_str(&format!(", {}", node.link));
    }
    if let (None, Some(numa)) = (node.parent, node.numa_node) {
        text.push_str(&format!(", NUMA node {numa}"));
    }
    let gpu = host.gpus.iter().find(|gpu| node.kind == "gpu" && gpu.name == node.name);
    if let Some(gpu) = gpu {
        match gpu.hcas.first() {
            Some(hca) => text.push_str(&format!(", {} to {hca}", gpu.path)),
            None => text.push_str(", no HCA"),
        }
    }
    text
}

fn described(host: &HostTopology) -> String {
    let pair = |gpu: &crate::model::TopologyGpu| {
        let hca = gpu.hcas.first().map_or("no HCA", String::as_str);
        format!("{} with {hca}: {}, {}", gpu.name, gpu.path, gpu.status)
    };
    host.gpus.iter().map(pair).collect::<Vec<_>>().join("; ")
}

fn middle(index: usize) -> usize {
    index * ROW + ROW / 2 + 4
}

fn across(depth: usize) -> usize {
    8 + depth.min(14) * INDENT
}

/// From the parent down and to the right.
fn wire(rows: &[Row], index: usize) -> Markup {
    let row = &rows[index];
    let Some(parent) = row.parent else { return html! {} };
    let (x, from) = (across(rows[parent].depth) + 4, middle(parent) + 5);
    let (to, y) = (across(row.depth), middle(index));
    html! { path class="wire" d={ "M" (x) " " (from) "V" (y) "H" (to) } {} }
}

fn label(row: &Row, index: usize) -> Markup {
    let (x, y) = (across(row.depth), middle(index));
    let room = LETTERS - row.depth.min(14) * 5 / 2;
    let text: String = match row.text.chars().count() > room {
        true => row.text.chars().take(room - 1).chain(['…']).collect(),
        false => row.text.clone(),
    };
    html! {
        @if row.kind == "node" {
            circle class="node" cx=(x + 4) cy=(y) r="3" {}
            text x=(x + 12) y=(y + 5) { (text) }
        } @else {
            rect class=(row.kind) x=(x) y=(y - 9) width=(WIDTH - x - 4) height="18" rx="4" {}
            text x=(x + 6) y=(y + 5) { (text) }
        }
    }
}
