//! The page is well-formed, safe, and shows what it should.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;
use crate::report::tests::sample;
use crate::report::{Better, Curve, Parameters, Table, Value};

/// Names of all elements; panics where the page is no XML.
fn elements(page: &str) -> Vec<String> {
    let mut reader = Reader::from_str(page);
    reader.config_mut().check_end_names = true;
    let mut names = Vec::new();
    let mut depth = 0;
    loop {
        let event = reader
            .read_event()
            .unwrap_or_else(|cause| panic!("{cause} at {}: {page}", reader.buffer_position()));
        match event {
            Event::Start(element) => {
                depth += 1;
                names.push(element.name().as_ref().to_owned());
                element.attributes().for_each(|attribute| drop(attribute.unwrap()));
            }
            Event::Empty(element) => {
                names.push(element.name().as_ref().to_owned());
                element.attributes().for_each(|attribute| drop(attribute.unwrap()));
            }
            Event::End(_) => depth -= 1,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    names
}

fn count(names: &[String], name: &str) -> usize {
    names.iter().filter(|known| *known == name).count()
}

#[test]
fn the_page_is_well_formed_and_has_a_plot_for_each_table_and_chart() {
    let report = sample();
    let page = write(&View::new(&report, None));
    let names = elements(&page);
    assert_eq!(count(&names, "table"), 2);
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 3);
    // One line for each target, and the curve.
    assert_eq!(count(&names, "polyline"), 3);
    // A bar for each figure and for each target in the legend; what failed says so instead.
    assert_eq!(count(&names, "rect"), 4);
    assert!(page.contains(">failed</text>"));
}

#[test]
fn nothing_comes_from_elsewhere_and_nothing_runs() {
    let mut report = sample();
    report.notes.push("<script>alert(1)</script>".to_owned());
    report.targets[0].name = "\"><script>".to_owned();
    report.tables[0].rows[0].target = "\"><script>".to_owned();
    let page = write(&View::new(&report, None));
    assert_eq!(count(&elements(&page), "script"), 0);
    for word in ["src=", "href=", "url(", "@import", "onload"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("GET https &lt;&amp;&quot;&#39;&gt;"), "{page}");
}

#[test]
fn an_earlier_run_is_drawn_with_dashes_and_ratios_are_coloured() {
    let earlier = sample();
    let mut report = sample();
    for sample in report.tables[1].rows.iter_mut().flat_map(|row| &mut row.samples) {
        *sample *= 2.0;
    }
    let page = write(&View::new(&report, Some(&earlier)));
    elements(&page);
    assert!(page.contains("<td class=\"better\">2.00</td>"), "{page}");
    assert!(page.contains("<g class=\"c0 dashed\"><polyline"), "{page}");
}

#[test]
fn many_labels_get_plots_of_their_own() {
    let mut report = sample();
    let mut table = Table::new("Throughput", "Gbit/s", Better::More).against("connections", "", true);
    for label in ["a", "b", "c", "d", "e"] {
        for (target, connections) in [("ours", 1.0), ("ours", 2.0), ("theirs", 1.0), ("theirs", 2.0)] {
            let parameters = Parameters::from([("connections".to_owned(), Value::from(connections))]);
            table.row(target, label, &parameters).add(connections);
        }
    }
    report.tables = vec![table];
    report.curves.clear();
    let page = write(&View::new(&report, None));
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 5);
}

#[test]
fn a_report_of_nothing_is_still_a_page() {
    let report = Report {
        tables: Vec::new(),
        curves: Vec::new(),
        interrupted: true,
        ..sample()
    };
    let page = write(&View::new(&report, None));
    assert_eq!(count(&elements(&page), "table"), 0);
    assert!(page.contains("interrupted"), "{page}");
}

/// The report with these cases instead of its own, each at 1 and at 4 connections, in the order
/// they are given.
fn with_cases(tables: &[(&str, &[(&str, &str)])]) -> Report {
    let table = |(title, cases): &(&str, &[(&str, &str)])| {
        let mut table = Table::new(title, "Gbit/s", Better::More).against("connections", "", true);
        for (target, label) in *cases {
            for connections in [1.0, 4.0] {
                let parameters = Parameters::from([("connections".to_owned(), Value::from(connections))]);
                table.row(target, label, &parameters).add(connections);
            }
        }
        table
    };
    Report {
        tables: tables.iter().map(table).collect(),
        curves: Vec::new(),
        ..sample()
    }
}

/// The style's name of the colour that a legend gives to this entry, each time it stands on the
/// page.
fn colours_of(page: &str, name: &str) -> Vec<String> {
    let colour = |before: &str| {
        let begun = before.rfind("<span><svg class=\"")? + "<span><svg class=\"".len();
        Some(before[begun..].split('"').next()?.to_owned())
    };
    let entry = format!("</svg>{name}</span>");
    let ends = page.match_indices(&entry).map(|(at, _)| at);
    ends.filter_map(|at| colour(&page[..at])).collect()
}

#[test]
fn a_line_has_the_same_colour_in_each_plot() {
    // Processor time is not known of all cases, and is known of some of them earlier than of
    // others.
    let mut report = with_cases(&[
        ("Rate", &[("ours", "GET"), ("theirs", "GET"), ("ours", "PUT")]),
        ("Time", &[("ours", "PUT"), ("theirs", "GET")]),
    ]);
    report.curves = vec![Curve {
        label: "PUT".to_owned(),
        ..sample().curves.remove(0)
    }];
    let page = write(&View::new(&report, None));
    assert_eq!(colours_of(&page, "ours: PUT"), ["c2", "c2"]);
    assert_eq!(colours_of(&page, "theirs: GET"), ["c1", "c1"]);
    assert_eq!(colours_of(&page, "PUT"), ["c2"]);
}

#[test]
fn an_earlier_rate_over_time_has_the_colour_of_what_it_is_compared_with() {
    let (earlier, report) = (sample(), sample());
    let page = write(&View::new(&report, Some(&earlier)));
    assert_eq!(colours_of(&page, "pull, 10 concurrent"), ["c0"]);
    assert_eq!(colours_of(&page, "pull, 10 concurrent, earlier"), ["c0 dashed"]);
}

#[test]
fn plots_beside_each_other_have_one_scale_where_all_can_be_read_on_it() {
    let labels = ["a", "b", "c", "d", "e"];
    let cases: Vec<(&str, &str)> = labels
        .iter()
        .flat_map(|label| [("ours", *label), ("theirs", *label)])
        .collect();
    let mut report = with_cases(&[("Throughput", &cases)]);
    let marks = |report: &Report| write(&View::new(report, None)).matches(">8</text>").count();
    report.tables[0].rows[0].samples = vec![8.0];
    assert_eq!(marks(&report), 5);
    // A 4 beside an 80 would be illegible.
    report.tables[0].rows[0].samples = vec![80.0];
    assert_eq!(marks(&report), 0);
}

#[test]
fn lines_of_one_label_have_it_as_their_head() {
    let report = with_cases(&[("Rate", &[("ours", "GET"), ("theirs", "GET"), ("ours", "PUT")])]);
    let page = write(&View::new(&report, None));
    assert_eq!(
        page.matches("<tr class=\"group\"><th colspan=\"4\"").count(),
        2,
        "{page}"
    );
    assert!(page.contains("<tr><td class=\"what\">4</td>"), "{page}");
    let alone = with_cases(&[("Rate", &[("ours", "GET")])]);
    assert!(write(&View::new(&alone, None)).contains("<table class=\"few\">"));
}

#[test]
fn uncertain_ratios_and_an_early_end_are_told_in_words() {
    let mut report = sample();
    let page = write(&View::new(&report, None));
    assert!(
        page.contains("0.750\u{a0}?") && page.contains("question mark"),
        "{page}"
    );
    assert!(!page.contains("class=\"noise"), "{page}");
    report.interrupted = true;
    let page = write(&View::new(&report, None));
    assert!(
        page.contains("<section class=\"noise noisy\">\n<p>This run was ended"),
        "{page}"
    );
}
