//! Whether a job is bound by the network, as a page of HTML or as a part of a report's.

use maud::{Markup, html};

use super::{Table, cell, class, page, section};
use crate::advice::{Advice, Brief, Estimate, NetworkVerdict};
use crate::advised::{FIGURES, shares};
use crate::model::Status;
use crate::svg::{Axis, Plot, Series};
use crate::units::{Share, Size, Time};
use crate::words::count;

/// An answer as a page of its own.
pub fn advice(advice: &Advice) -> String {
    page(
        "fabbench advise",
        html! {
            h1 { "fabbench advise: is this job bound by the network?" }
            (within(advice))
        },
    )
}

/// An answer as parts of a page.
pub(super) fn within(advice: &Advice) -> Markup {
    html! {
        (answer(advice))
        (inputs(advice))
        (sides("RDMA and TCP, now", &advice.now))
        (sides("RDMA and TCP, at the target", &advice.target))
        (traffic(advice))
        (growth(advice))
        (what_if(advice))
        (section("Assumptions", html! { ul { @for one in &advice.assumptions { li { (one) } } } }))
        (questions(advice))
    }
}

fn answer(advice: &Advice) -> Markup {
    let body = html! {
        ul { @for one in &advice.recommendations {
            li { strong { (one.what) } ": " (one.because) }
        } }
    };
    section("Is this job bound by the network?", body)
}

fn inputs(advice: &Advice) -> Markup {
    let body = html! {
        dl { @for one in &advice.inputs { dt { (one.name) } dd { (one.value) } } }
    };
    section("Inputs", body)
}

fn sides(title: &str, sides: &[Estimate]) -> Markup {
    let Some(first) = sides.first() else { return html! {} };
    let (nodes, gpus) = (count(first.nodes as usize, "node"), count(first.gpus as usize, "GPU"));
    let name = |one: &Estimate| if one.transport.to_string() == "TCP" { "#TCP" } else { "#RDMA" };
    let head: Vec<&str> = std::iter::once("per step").chain(sides.iter().map(name)).collect();
    let mut table = Table::new(&head);
    for (what, value) in FIGURES {
        table.row(
            std::iter::once(cell(what)).chain(sides.iter().map(|one| cell(value(one)))).collect(),
        );
    }
    let verdicts = sides.iter().map(|one| verdict(one.verdict));
    table.row(std::iter::once(cell("verdict")).chain(verdicts).collect());
    section(&format!("{title}: {nodes}, {gpus}"), table.draw())
}

fn traffic(advice: &Advice) -> Markup {
    let Some(rdma) = advice.now.first().filter(|side| !side.flows.is_empty()) else {
        return html! {};
    };
    let columns =
        ["what", "how", "#calls", "#bytes", "#message", "#RDMA", "#TCP", "#can hide behind"];
    let mut table = Table::new(&columns);
    for (index, flow) in rdma.flows.iter().enumerate() {
        let tcp = advice.now.get(1).and_then(|side| side.flows.get(index));
        let window = flow.window_ns > 0.0;
        table.row(vec![
            cell(&flow.name),
            cell(&flow.collective),
            cell(format!("{:.0}", flow.calls)),
            cell(Size(flow.bytes_per_gpu as u64).to_string()),
            cell(Size(flow.message_bytes as u64).to_string()),
            cell(Time(flow.time_ns).to_string()),
            cell(tcp.map(|flow| Time(flow.time_ns).to_string()).unwrap_or_default()),
            cell(if window { Time(flow.window_ns).to_string() } else { "nothing".into() }),
        ]);
    }
    section("Traffic of a step between nodes, per GPU", table.draw())
}

fn growth(advice: &Advice) -> Markup {
    if advice.growth.is_empty() {
        return html! {};
    }
    let columns = ["#nodes", "over", "#share", "#efficiency", "#none to full overlap", "verdict"];
    let mut table = Table::new(&columns);
    for row in &advice.growth {
        for brief in &row.estimates {
            table.row(vec![
                cell(row.nodes.to_string()),
                cell(brief.transport.to_string()),
                cell(Share(brief.network_share).to_string()),
                cell(Share(brief.efficiency).to_string()),
                cell(shares(brief.efficiency_band)),
                verdict(brief.verdict),
            ]);
        }
    }
    let body = html! {
        ul { @for one in &advice.bound_at { li { (one.sentence()) } } }
        div class="plots" { (efficiency(advice)) }
        details { summary { "Figures" } (table.draw()) }
    };
    section("As nodes grow", body)
}

/// One of the efficiencies of a row.
type Part = fn(&Brief) -> f64;

/// Efficiency over nodes, with the ends of its band dashed.
fn efficiency(advice: &Advice) -> Markup {
    let mut series = Vec::new();
    for side in 0..2 {
        let points = |value: Part| -> Vec<(f64, f64)> {
            let of_row = |row: &crate::advice::Growth| {
                Some((f64::from(row.nodes), value(row.estimates.get(side)?)))
            };
            advice.growth.iter().filter_map(of_row).collect()
        };
        let name = advice.now.get(side).map(|one| one.transport.to_string()).unwrap_or_default();
        let kinds: [(&str, bool, Part); 3] = [
            ("", false, |brief| brief.efficiency),
            (", full overlap", true, |brief| brief.efficiency_band.best),
            (", no overlap", true, |brief| brief.efficiency_band.worst),
        ];
        for (what, dashed, value) in kinds {
            let name = format!("{name}{what}");
            series.push(Series { name, dashed, points: points(value), marked: Vec::new() });
        }
    }
    let nodes = advice.growth.iter().map(|row| f64::from(row.nodes));
    let Some(mut x) = Axis::log("nodes", nodes, |v| format!("{v:.0}")) else { return html! {} };
    x.ticks.retain(|(value, _)| *value >= 1.0);
    let ticks = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0].map(|v| (v, Share(v).to_string())).to_vec();
    let y = Axis { title: "efficiency".into(), from: 0.0, to: 1.0, log: false, ticks };
    Plot {
        title: "Efficiency as nodes grow".into(),
        description: advice.bound_at.iter().map(|b| b.sentence()).collect::<Vec<_>>().join("; "),
        x,
        y,
        series,
    }
    .draw()
}

fn what_if(advice: &Advice) -> Markup {
    if advice.what_if.is_empty() {
        return html! {};
    }
    let mut table = Table::new(&["change", "#nodes", "over", "#share", "#efficiency", "verdict"]);
    for row in &advice.what_if {
        for (brief, fabric) in row.estimates.iter().zip(&row.fabrics) {
            table.row(vec![
                cell(&row.change),
                cell(row.nodes.to_string()),
                cell(format!("{} ({fabric})", brief.transport)),
                cell(Share(brief.network_share).to_string()),
                cell(format!("{} ({})", Share(brief.efficiency), shares(brief.efficiency_band))),
                verdict(brief.verdict),
            ]);
        }
    }
    section("What if", table.draw())
}

fn questions(advice: &Advice) -> Markup {
    let body = html! {
        ol { @for one in &advice.questions { li { strong { (one.question) } " " (one.answer) } } }
    };
    section("Questions to answer before buying", body)
}

fn verdict(verdict: NetworkVerdict) -> Markup {
    let status = match verdict {
        NetworkVerdict::NotBound | NetworkVerdict::Hidden => Status::Pass,
        NetworkVerdict::Marginal => Status::Warn,
        NetworkVerdict::Bound => Status::Fail,
    };
    html! { span class={ "chip " (class(status)) } { (verdict.to_string()) } }
}
