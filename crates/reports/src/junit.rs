//! A report as JUnit XML, for systems that show results of tests: a suite for each way to copy, and
//! a case for each cell.
//!
//! The form has no standard; this is what Jenkins and GitLab read: `testsuites`, `testsuite`,
//! `testcase` with `failure` or `skipped`.

use std::fmt::Write as _;

use history::{Cell, Failure, Outcome};
use markup::Escaped;

use crate::view::{Plane, Tally, View};
use crate::words::timestamp;

/// The whole document.
#[must_use]
pub fn write(view: &View<'_>) -> String {
    let run = view.run;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = format!("{} {}", run.instrument.name(), run.title);
    let _ = writeln!(
        out,
        "<testsuites name=\"{}\" {} time=\"{}\">",
        Escaped(&name),
        counts(view.tally),
        seconds(run.ended_ms.saturating_sub(run.started_ms))
    );
    for plane in &view.planes {
        suite(&mut out, view, plane);
    }
    out.push_str("</testsuites>\n");
    out
}

fn counts(tally: Tally) -> String {
    let skipped = tally.skipped + tally.not_applicable;
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{skipped}\"",
        tally.all(),
        tally.failed
    )
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

fn suite(out: &mut String, view: &View<'_>, plane: &Plane) {
    let cells = || plane.cells.values().map(|at| &view.run.cells[*at]);
    let name = plane.name();
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" timestamp=\"{}\" {} time=\"{}\">",
        Escaped(&name),
        timestamp(view.run.started_ms),
        counts(plane.tally),
        seconds(cells().map(took_ms).fold(0, u64::saturating_add))
    );
    if let Some(words) = view.early_end() {
        let _ = writeln!(
            out,
            "<properties><property name=\"incomplete\" value=\"{}\"/></properties>",
            Escaped(&words)
        );
    }
    for cell in cells() {
        case(out, &name, cell);
    }
    out.push_str("</testsuite>\n");
}

fn took_ms(cell: &Cell) -> u64 {
    cell.steps
        .iter()
        .fold(0, |sum: u64, step| sum.saturating_add(step.took_ms))
        .max(cell.copy_ms)
}

fn case(out: &mut String, plane: &str, cell: &Cell) {
    let link = &cell.link;
    let name = match link.source == link.destination {
        true => link.source.clone(),
        false => format!("{} to {}", link.source, link.destination),
    };
    let _ = write!(
        out,
        "<testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
        Escaped(plane),
        Escaped(&name),
        seconds(took_ms(cell))
    );
    match &cell.outcome {
        Outcome::Passed => out.push_str("/>\n"),
        Outcome::Failed(failure) => {
            out.push_str(">\n");
            write_failure(out, failure);
            out.push_str("</testcase>\n");
        }
        Outcome::Skipped { why } => skipped(out, why),
        Outcome::NotApplicable { why } => skipped(out, &format!("not applicable: {why}")),
    }
}

fn skipped(out: &mut String, why: &str) {
    let _ = writeln!(out, "><skipped message=\"{}\"/></testcase>", Escaped(why));
}

fn write_failure(out: &mut String, failure: &Failure) {
    let kind = format!("{} {} {}", failure.side.name(), failure.phase.name(), failure.code);
    let _ = writeln!(
        out,
        "<failure type=\"{}\" message=\"{}: {}\">",
        Escaped(&failure.code),
        Escaped(&kind),
        Escaped(&failure.says)
    );
    if let Some(status) = failure.server_status {
        let _ = writeln!(out, "The server said {status}.");
    }
    if let Some(words) = &failure.server_words {
        let _ = writeln!(out, "Its words: {}", Escaped(words));
    }
    for line in &failure.reproduce {
        let _ = writeln!(out, "$ {}", Escaped(line));
    }
    out.push_str("</failure>\n");
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;
    use testkit::mesh_run;

    /// How often each element stands in a document; panics where it is no XML.
    fn count(document: &str, wanted: &str) -> usize {
        let mut reader = Reader::from_str(document);
        let mut count = 0;
        loop {
            match reader.read_event().unwrap() {
                Event::Start(element) | Event::Empty(element) => {
                    element.attributes().for_each(|attribute| drop(attribute.unwrap()));
                    count += usize::from(element.name().as_ref() == wanted);
                }
                Event::Eof => return count,
                _ => {}
            }
        }
    }

    #[test]
    fn every_cell_is_a_case_of_its_suite() {
        let mut run = mesh_run(12);
        run.cells[0].link.credential = "\u{1b}<\"&\u{202e}".to_owned();
        let view = View::new(&run);
        let document = write(&view);
        assert_eq!(count(&document, "testsuite"), 5, "{document}");
        assert_eq!(count(&document, "testcase"), run.cells.len());
        assert_eq!(count(&document, "failure"), 98);
        assert_eq!(count(&document, "skipped"), 88);
        let wanted = "<testsuites name=\"mesh sample sites\" tests=\"528\" failures=\"98\" errors=\"0\" skipped=\"88\" time=\"412.000\">";
        assert!(document.contains(wanted), "{document}");
        let wanted = "<testcase classname=\"https pull, token\" name=\"SE-03.example.org to SE-04.example.org\" time=\"0.339\"/>";
        assert!(document.contains(wanted), "{document}");
        let wanted =
            "<failure type=\"no_space\" message=\"destination open no_space: the destination has no space left\">";
        assert!(document.contains(wanted), "{document}");
        assert!(
            document.contains("https pull, \u{fffd}&lt;&quot;&amp;\\u{202e}"),
            "{document}"
        );
    }
}
