//! The page is well-formed, safe, and shows what it should.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;
use crate::report::tests::sample;
use crate::report::{Better, Parameters, Table, Value};

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
    // A bar for each figure; what failed says so instead.
    assert_eq!(count(&names, "rect"), 2);
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
