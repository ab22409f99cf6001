//! The matrices of a page: all ways to copy in one, and one for each.

use std::fmt::Write as _;

use history::{Cell, Outcome};
use markup::Escaped;

use super::links::pair_id;
use crate::text::key_of;
use crate::view::{Pair, Plane, Tally, View};
use crate::words::rate;

/// All matrices. What they lead to is on this page; empty: on the same one.
pub(super) fn write(out: &mut String, view: &View<'_>, page: &str) {
    out.push_str("<section id=\"matrix\">\n<h2>Matrix</h2>\n");
    if view.is_of_single_endpoints() {
        out.push_str("<p class=\"sub\">requests to single endpoints</p>\n");
        single_endpoints(out, view, page);
        out.push_str("</section>\n");
        return;
    }
    let _ = writeln!(
        out,
        "<p class=\"sub\">Rows are sources, columns are destinations. ✕ failed, ✓ passed, – skipped, · not applicable. {}</p>",
        match view.planes.len() {
            1 => "",
            _ => "The number counts the ways to copy that failed, else those that passed.",
        }
    );
    if view.planes.len() > 1 {
        table(out, view, "all ways to copy", &|pair| overview(view, page, pair));
    }
    for plane in &view.planes {
        let open = if plane.tally.failed > 0 || view.planes.len() == 1 {
            " open=\"open\""
        } else {
            ""
        };
        let name = plane.name();
        let _ = writeln!(
            out,
            "<details class=\"plane\"{open}><summary><h3>{}</h3> <span>{}</span></summary>\n<p class=\"sub\">{}</p>",
            Escaped(&name),
            plane.tally.words(),
            match view.has_rates() {
                true => "✕ with the key of its failure, ✓ with the rate in Mb/s",
                false => "✕ with the key of its failure, ✓ with the seconds of the copy",
            }
        );
        table(out, view, &name, &|pair| in_plane(view, page, plane, pair));
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

fn table(out: &mut String, view: &View<'_>, name: &str, cell: &dyn Fn(Pair) -> String) {
    let (sources, destinations) = (view.sources(), view.destinations());
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Matrix of {}\">\n<table class=\"matrix\"><thead><tr><td></td>",
        Escaped(name)
    );
    for at in &destinations {
        let _ = write!(out, "<th scope=\"col\"><span>{}</span></th>", Escaped(view.names[*at]));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for source in sources {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Escaped(view.names[source]));
        for destination in &destinations {
            out.push_str(&cell(Pair {
                source,
                destination: *destination,
            }));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn overview(view: &View<'_>, page: &str, pair: Pair) -> String {
    let cells = view.between(pair);
    let id = pair_id(pair);
    let tally = Tally::of(cells.iter().map(|at| &view.run.cells[*at]));
    let (class, shape, count) = match tally {
        Tally { failed: 1.., .. } => ("f", "✕", tally.failed),
        Tally { passed: 1.., .. } => ("p", "✓", tally.passed),
        Tally { skipped: 1.., .. } => ("s", "–", tally.skipped),
        Tally {
            not_applicable: 1.., ..
        } => return "<td class=\"n\">·</td>".to_owned(),
        _ => return "<td></td>".to_owned(),
    };
    format!("<td class=\"{class}\"><a href=\"{page}#{id}\">{count}{shape}</a></td>")
}

fn in_plane(view: &View<'_>, page: &str, plane: &Plane, pair: Pair) -> String {
    let Some(at) = plane.cells.get(&pair) else {
        return "<td></td>".to_owned();
    };
    let cell = &view.run.cells[*at];
    let (class, shown) = match &cell.outcome {
        Outcome::Passed => ("p", format!("✓{}", number(view, cell))),
        Outcome::Failed(_) => {
            let key = view.group_of.get(at).map_or('+', |group| key_of(*group));
            ("f", format!("✕{key}"))
        }
        Outcome::Skipped { .. } => ("s", "–".to_owned()),
        Outcome::NotApplicable { .. } => ("n", "·".to_owned()),
    };
    format!("<td class=\"{class}\"><a href=\"{page}#c{at}\">{shown}</a></td>")
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn number(view: &View<'_>, cell: &Cell) -> String {
    match view.has_rates() {
        true => cell.rate_mbps().map_or_else(|| "0".to_owned(), rate),
        false => format!("{:.1}", cell.copy_ms as f64 / 1000.0),
    }
}

/// A row for each endpoint, and a column for each protocol and credential.
fn single_endpoints(out: &mut String, view: &View<'_>, page: &str) {
    out.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Endpoints\">\n");
    out.push_str("<table class=\"matrix\"><thead><tr><td></td>");
    for plane in &view.planes {
        let _ = write!(out, "<th scope=\"col\"><span>{}</span></th>", Escaped(&plane.name()));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for at in view.sources() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Escaped(view.names[at]));
        for plane in &view.planes {
            out.push_str(&in_plane(
                view,
                page,
                plane,
                Pair {
                    source: at,
                    destination: at,
                },
            ));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
