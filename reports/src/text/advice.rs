//! Advice as people read it: the answer first, then the figures, what they stand on, what is open.

use super::Options;
use super::layout::{Column, Page, Table};
use crate::advice::{Advice, Brief, Estimate, Growth, NetworkVerdict, Question, Transport};
use crate::advised::{FIGURES, shares, times};
use crate::model::Status;
use crate::units::{Factor, Share, Size, Time};
use crate::words::count;

/// Width of a full bar of the plot.
const BAR: usize = 30;

/// The whole answer.
pub fn advice(advice: &Advice, options: &Options) -> String {
    super::harmless(advice, options, whole)
}

fn whole(advice: &Advice, options: &Options) -> String {
    let mut page = Page::new(options);
    inputs(advice, &mut page);
    page.title("Answer");
    for one in &advice.recommendations {
        page.item(&format!("{}: {}", one.what, one.because));
    }
    side_by_side("Now, RDMA and TCP side by side", &advice.now, &mut page);
    if !advice.target.is_empty() {
        side_by_side("At the target", &advice.target, &mut page);
    }
    traffic(advice, &mut page);
    growth(advice, &mut page);
    what_if(advice, &mut page);
    calibration(advice, &mut page);
    page.title("Assumptions");
    for one in &advice.assumptions {
        page.item(one);
    }
    asked(&advice.questions, &mut page);
    page.finish()
}

/// The questions to answer before buying, and the names that fabbench knows.
pub fn questions(questions: &[Question], known: &[(&str, String)], options: &Options) -> String {
    let mut page = Page::new(options);
    asked(questions, &mut page);
    page.title("Names known");
    for (flag, names) in known {
        page.paragraph(&format!("{flag}: {names}"));
    }
    page.title("Example");
    page.paragraph(
        "fabbench advise --model 7b --tokens-per-gpu 8192 --gpu h100 --gpus-per-node 8 \
         --nics-per-node 8 --nodes 8 --target-nodes 64 --fabric ndr,tcp-25g",
    );
    page.finish()
}

fn asked(questions: &[Question], page: &mut Page) {
    page.title("Questions to answer before buying");
    for (index, one) in questions.iter().enumerate() {
        page.wrapped(&format!("{}. {}", index + 1, one.question), "  ", "     ");
        page.wrapped(&one.answer, "     ", "     ");
    }
}

fn inputs(advice: &Advice, page: &mut Page) {
    page.title("fabbench advise: is this job bound by the network?");
    let mut table = Table::new(vec![Column::key("input"), Column::text("as understood")]);
    for one in &advice.inputs {
        table.row(vec![one.name.clone(), one.value.clone()]);
    }
    page.table(table);
}

/// One row for each figure, one column for each fabric.
fn side_by_side(title: &str, sides: &[Estimate], page: &mut Page) {
    let Some(first) = sides.first() else { return };
    page.title(&format!(
        "{title}: {}, {}",
        count(first.nodes as usize, "node"),
        count(first.gpus as usize, "GPU")
    ));
    let columns = [Column::key(""), Column::word("RDMA"), Column::word("TCP")];
    let mut table = Table::new(columns.to_vec());
    for (name, figure) in FIGURES {
        let cells = sides.iter().map(figure);
        table.row(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    let verdicts = sides.iter().map(|side| {
        let word = side.verdict.to_string();
        page.painted_as(&word, color(side.verdict))
    });
    table.row(std::iter::once("verdict".to_owned()).chain(verdicts).collect());
    page.table(table);
}

fn traffic(advice: &Advice, page: &mut Page) {
    let Some(rdma) = advice.now.first().filter(|side| !side.flows.is_empty()) else { return };
    page.title("Traffic of a step between nodes, per GPU");
    let mut table = Table::new(vec![
        Column::key("what"),
        Column::word("how"),
        Column::number("calls"),
        Column::number("bytes"),
        Column::number("message"),
        Column::number("RDMA"),
        Column::number("TCP"),
        Column::number("can hide behind"),
    ]);
    for (index, flow) in rdma.flows.iter().enumerate() {
        let tcp = advice.now.get(1).and_then(|side| side.flows.get(index));
        table.row(vec![
            flow.name.clone(),
            flow.collective.clone(),
            format!("{:.0}", flow.calls),
            Size(flow.bytes_per_gpu as u64).to_string(),
            Size(flow.message_bytes as u64).to_string(),
            Time(flow.time_ns).to_string(),
            tcp.map_or(String::new(), |flow| Time(flow.time_ns).to_string()),
            if flow.window_ns > 0.0 { Time(flow.window_ns).to_string() } else { "nothing".into() },
        ]);
    }
    page.table(table);
}

/// The table of nodes, and efficiency as bars.
fn growth(advice: &Advice, page: &mut Page) {
    if advice.growth.is_empty() {
        return;
    }
    page.title("As nodes grow");
    let mut table = Table::new(vec![
        Column::key("nodes"),
        Column::key("over"),
        Column::number("share"),
        Column::number("efficiency"),
        Column::number("none to full overlap"),
        Column::number("calibrated step"),
        Column::word("verdict"),
    ]);
    for row in &advice.growth {
        for brief in &row.estimates {
            table.row(growth_row(row, brief, page));
        }
    }
    page.table(table);
    for one in &advice.bound_at {
        page.paragraph(&one.sentence());
    }
    page.title("Efficiency as nodes grow");
    let columns = [Column::number("nodes"), Column::word("RDMA"), Column::word("TCP")];
    let mut plot = Table::new(columns.to_vec());
    for row in &advice.growth {
        let bars = row.estimates.iter().map(|brief| bar(brief.efficiency));
        plot.row(std::iter::once(row.nodes.to_string()).chain(bars).collect());
    }
    page.table(plot);
}

fn growth_row(row: &Growth, brief: &Brief, page: &Page) -> Vec<String> {
    let word = brief.verdict.to_string();
    vec![
        row.nodes.to_string(),
        brief.transport.to_string(),
        Share(brief.network_share).to_string(),
        Share(brief.efficiency).to_string(),
        shares(brief.efficiency_band),
        brief.calibrated_step_ns.map_or(String::new(), times),
        page.painted_as(&word, color(brief.verdict)),
    ]
}

fn bar(part: f64) -> String {
    let full = (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "·".repeat(BAR - full))
}

fn what_if(advice: &Advice, page: &mut Page) {
    if advice.what_if.is_empty() {
        return;
    }
    page.title("What if");
    let mut table = Table::new(vec![
        Column::key("change"),
        Column::number("nodes"),
        Column::word("over"),
        Column::number("share"),
        Column::number("efficiency"),
        Column::number("none to full overlap"),
        Column::word("verdict"),
    ]);
    for row in &advice.what_if {
        for (brief, fabric) in row.estimates.iter().zip(&row.fabrics) {
            let word = brief.verdict.to_string();
            table.row(vec![
                row.change.clone(),
                row.nodes.to_string(),
                over(brief.transport, fabric),
                Share(brief.network_share).to_string(),
                Share(brief.efficiency).to_string(),
                shares(brief.efficiency_band),
                page.painted_as(&word, color(brief.verdict)),
            ]);
        }
    }
    page.table(table);
}

fn over(transport: Transport, fabric: &str) -> String {
    format!("{transport} ({fabric})")
}

fn calibration(advice: &Advice, page: &mut Page) {
    let Some(one) = &advice.calibration else { return };
    page.title("Observed against the model");
    page.paragraph(&format!(
        "a step of {} was observed on {}; predicted {} (full to no overlap): {} to {} as long; the \
         table above scales its steps by that",
        Time(one.observed_step_ns),
        one.transport,
        times(one.predicted_step_ns),
        Factor(one.factor.worst),
        Factor(one.factor.best)
    ));
}

fn color(verdict: NetworkVerdict) -> Status {
    match verdict {
        NetworkVerdict::NotBound | NetworkVerdict::Hidden => Status::Pass,
        NetworkVerdict::Marginal => Status::Warn,
        NetworkVerdict::Bound => Status::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_of_one_length() {
        assert_eq!(bar(0.0), "·".repeat(BAR));
        assert_eq!(bar(1.0), "█".repeat(BAR));
        assert_eq!(bar(0.5).chars().filter(|c| *c == '█').count(), BAR / 2);
        assert_eq!(bar(1.7).chars().count(), BAR);
    }
}
