//! The endpoints of a page: software, tags, downtime, and how they did in both roles.

use std::collections::HashMap;
use std::fmt::Write as _;

use history::EndpointSeen;
use markup::Escaped;

use crate::view::{Tally, View};
use crate::words::moment;

/// How the cells of an endpoint ended.
#[derive(Default)]
struct Roles {
    source: Tally,
    destination: Tally,
}

/// The table of all endpoints.
pub(super) fn write(out: &mut String, view: &View<'_>) {
    let mut roles: HashMap<&str, Roles> = HashMap::new();
    for cell in &view.run.cells {
        let link = &cell.link;
        roles.entry(&link.source).or_default().source.add(&cell.outcome);
        roles
            .entry(&link.destination)
            .or_default()
            .destination
            .add(&cell.outcome);
    }
    out.push_str(
        "<section id=\"endpoints\">\n<h2>Endpoints</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Endpoints\">\n<table class=\"endpoints\">\
         <thead><tr><th scope=\"col\">endpoint</th><th scope=\"col\">as source</th>\
         <th scope=\"col\">as destination</th><th scope=\"col\">software</th><th scope=\"col\">tags</th></tr></thead>\n<tbody>\n",
    );
    let none = Roles::default();
    for name in &view.names {
        let seen = view.run.endpoints.iter().find(|endpoint| endpoint.name == *name);
        row(out, name, seen, roles.get(name).unwrap_or(&none));
    }
    out.push_str("</tbody></table></div>\n</section>\n");
}

fn row(out: &mut String, name: &str, seen: Option<&EndpointSeen>, roles: &Roles) {
    let _ = write!(out, "<tr><th scope=\"row\">{}", Escaped(name));
    if let Some(downtime) = seen.and_then(|seen| seen.downtime.as_ref()) {
        let _ = write!(
            out,
            "<span class=\"warning\">in downtime until {}: {}</span>",
            moment(downtime.until_ms),
            Escaped(&downtime.reason)
        );
    }
    out.push_str("</th>");
    role(out, roles.source);
    role(out, roles.destination);
    let software = seen.and_then(|seen| seen.software.as_deref()).unwrap_or("not known");
    let tags = seen.map(|seen| seen.tags.join(", ")).unwrap_or_default();
    let _ = writeln!(out, "<td>{}</td><td>{}</td></tr>", Escaped(software), Escaped(&tags));
}

fn role(out: &mut String, tally: Tally) {
    let _ = match (tally.failed, tally.tried()) {
        (_, 0) => write!(out, "<td class=\"s\">–</td>"),
        (0, tried) => write!(out, "<td class=\"p\">✓\u{a0}{tried} passed</td>"),
        (failed, tried) => write!(out, "<td class=\"f\">✕\u{a0}{failed} of {tried} failed</td>"),
    };
}
