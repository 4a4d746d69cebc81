//! What collectives say over their sizes.

use maud::{Markup, html};

use super::{Table, cell, section};
use crate::units::{ByteRate, Share, Size, Time};
use crate::view::View;
use crate::words::count;

/// α, β and γ of each collective.
pub(super) fn section_of(view: &View) -> Markup {
    let all = &view.report.fits;
    if all.is_empty() {
        return html! {};
    }
    let mut table = Table::new(&[
        "operation",
        "algorithm",
        "transport",
        "ranks",
        "sizes",
        "#α, a step",
        "#1/β",
        "#1/γ",
        "γ by",
        "#residual",
        "#worst",
        "why not",
    ]);
    // 1 byte a ns is 8 Gb/s.
    let rate = |ns: Option<f64>| ns.map(|ns| ByteRate(8e9 / ns).to_string()).unwrap_or_default();
    let share = |share: Option<f64>| share.map(|s| Share(s).to_string()).unwrap_or_default();
    for fit in all {
        let wire = if fit.reduced { "" } else { ", nothing reduced" };
        let ends =
            |p: &crate::model::FitPiece| format!("{}–{}", Size(p.from_bytes), Size(p.to_bytes));
        table.row(vec![
            cell(format!("{} {}{wire}", fit.op, fit.data_type)),
            cell(&fit.algorithm),
            cell(fit.transport.to_uppercase()),
            cell(count(fit.ranks as usize, "rank")),
            cell(fit.pieces.iter().map(ends).collect::<Vec<_>>().join(", ")),
            cell(fit.alpha_ns.map(|ns| Time(ns).to_string()).unwrap_or_default()),
            cell(rate(fit.wire_ns_per_byte)),
            cell(rate(fit.reduce_ns_per_byte)),
            cell(&fit.reduce_from),
            cell(share(fit.residual)),
            cell(share(fit.worst_residual)),
            cell(&fit.refused),
        ]);
    }
    let body = html! {
        p class="faint" {
            "Time = steps · α + bytes on the wire · β + bytes reduced · γ, by straight lines over the "
            "sizes named; no figure where the sizes do not show it. It says nothing of other sizes."
        }
        (table.draw())
    };
    section("Collectives: α, β, γ", body)
}
