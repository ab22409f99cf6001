//! The page is well-formed, loads and runs nothing, leads only to places that exist, and is small.

use std::collections::BTreeSet;

use history::{CountedFailure, LinkRun, LinkSeries, Outcome, RatePoint, Run};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;
use testkit::mesh_run;

/// Elements with their attributes; panics where the page is no XML.
fn elements(page: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(page);
    reader.config_mut().check_end_names = true;
    let mut found = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    (attribute.key.as_ref().to_owned(), attribute.value.to_string())
                });
                found.push((element.name().as_ref().to_owned(), attributes.collect()));
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

fn values<'a>(elements: &'a [(String, Vec<(String, String)>)], name: &str) -> Vec<&'a str> {
    let attributes = elements.iter().flat_map(|(_, attributes)| attributes);
    attributes
        .filter(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
        .collect()
}

#[test]
fn every_place_that_is_linked_exists_once() {
    let run = mesh_run(12);
    let page = write(&View::new(&run));
    assert!(
        page.contains("<li>SE-02.example.org fails as a destination for everyone"),
        "{page}"
    );
    let elements = elements(&page);
    assert_eq!(elements.iter().filter(|(name, _)| name == "main").count(), 1);
    let places = values(&elements, "id");
    let known: BTreeSet<&str> = places.iter().copied().collect();
    assert_eq!(known.len(), places.len());
    let links = values(&elements, "href");
    let inner: Vec<&str> = links.iter().filter_map(|link| link.strip_prefix('#')).collect();
    for link in &inner {
        assert!(known.contains(link), "{link}");
    }
    // Each cell is linked from its matrix, each pair from the overview, failures from their group.
    assert!(inner.len() >= 528 + 132 + 98, "{}", inner.len());
    let jobs = links
        .iter()
        .filter(|link| link.starts_with("https://queue.example.org/ui/job/"))
        .count();
    assert_eq!(jobs, 110);
    assert_eq!(
        elements.iter().filter(|(name, _)| name == "table").count(),
        1 + 4 + 1 + 132
    );
}

#[test]
fn matrices_alone_lead_to_the_whole_page() {
    let run = mesh_run(4);
    let view = View::new(&run);
    let alone = matrix(&view, "/mesh/runs/7");
    let (whole, found) = (write(&view), elements(&alone));
    let places = values(&found, "href");
    assert!(!places.is_empty() && !alone.contains("href=\"#"), "{alone}");
    for place in places {
        let id = place.strip_prefix("/mesh/runs/7#").unwrap();
        assert!(whole.contains(&format!("id=\"{id}\"")), "{place}");
    }
}

#[test]
fn nothing_comes_from_elsewhere_and_nothing_runs() {
    let mut run = mesh_run(4);
    let odd = "\"><script>alert(1)</script><img src='x' onerror='alert(1)'>\u{202e}";
    run.title = odd.to_owned();
    run.program = odd.to_owned();
    run.endpoints[0].software = Some(odd.to_owned());
    run.endpoints[0].tags = vec![odd.to_owned()];
    run.endpoints[3].downtime.as_mut().unwrap().reason = odd.to_owned();
    for cell in &mut run.cells {
        cell.link.source = format!("{odd}{}", cell.link.source);
        cell.job_url = Some("javascript:alert(1)".to_owned());
        cell.steps.iter_mut().for_each(|step| step.name = odd.to_owned());
        if let Outcome::Failed(failure) = &mut cell.outcome {
            failure.code = odd.to_owned();
            failure.says = odd.to_owned();
            failure.server_words = Some(odd.to_owned());
            failure.reproduce = vec![odd.to_owned()];
        }
    }
    let page = write(&View::new(&run));
    let elements = elements(&page);
    assert!(elements.iter().all(|(name, _)| name != "script" && name != "img"));
    let attributes = elements.iter().flat_map(|(_, attributes)| attributes);
    assert!(
        attributes
            .into_iter()
            .all(|(name, _)| !name.starts_with("on") && name != "src" && name != "style")
    );
    assert!(values(&elements, "href").iter().all(|link| link.starts_with('#')));
    assert!(!page.contains('\u{202e}'));
    let policy = format!("content=\"{}\"", security_policy().replace('\'', "&#39;"));
    assert!(
        page.contains(&policy) && policy.contains("default-src &#39;none&#39;"),
        "{page}"
    );
}

#[test]
fn a_page_of_3480_cells_is_small_even_if_all_fail() {
    let mut run = mesh_run(30);
    assert_eq!(run.cells.len(), 3480);
    let page = write(&View::new(&run));
    assert!(page.len() < 3_000_000, "{}", page.len());
    let failure = run
        .cells
        .iter()
        .find_map(|cell| cell.outcome.failure())
        .unwrap()
        .clone();
    for cell in &mut run.cells {
        cell.outcome = Outcome::Failed(Box::new(failure.clone()));
    }
    let page = write(&View::new(&run).with_trends(trends(&run, 24)));
    assert!(page.len() < 3_000_000, "{}", page.len());
}

/// The same runs of each link: every fifth failed.
fn trends(run: &Run, count: u64) -> Vec<LinkSeries<LinkRun>> {
    let point = |at: u64| {
        let has_failed = at % 5 == 1;
        let run = LinkRun {
            failed_share: if has_failed { 1.0 } else { 0.0 },
            copy_ms: (!has_failed).then_some(100 + at),
        };
        (at, run)
    };
    let series = |link: &history::Link| LinkSeries {
        link: link.clone(),
        points: (0..count).map(point).collect(),
    };
    run.cells.iter().map(|cell| series(&cell.link)).collect()
}

#[test]
fn links_have_a_bar_for_each_run() {
    let run = mesh_run(3);
    let page = write(&View::new(&run).with_trends(trends(&run, 3)));
    elements(&page);
    let bars = "<svg class=\"runs\" viewBox=\"0 0 12 20\" width=\"12\"><path class=\"p\" d=\"M2 20v-14M10 20v-14\"/>\
                <path class=\"f\" d=\"M6 20v-20\"/></svg> failed in 1 of 3 runs";
    assert_eq!(page.matches(bars).count(), run.cells.len(), "{page}");
    assert!(!write(&View::new(&run)).contains("newest runs"));
}

#[test]
fn many_copies_have_rates_and_all_their_failures() {
    let mut run = mesh_run(3);
    let failure = run.cells[0].outcome.failure().unwrap().clone();
    let cell = &mut run.cells[0];
    (cell.copies, cell.copies_failed, cell.bytes, cell.copy_ms) = (250, 3, 1_000_000_000, 10_000);
    cell.rates = [(0, 0), (1_000, 50_000_000), (2_000, 100_000_000)]
        .map(|(at_ms, bytes)| RatePoint { at_ms, bytes })
        .to_vec();
    let counted = |count| CountedFailure {
        failure: failure.clone(),
        count,
    };
    cell.failures = vec![counted(2), counted(1)];
    let page = write(&View::new(&run));
    assert!(page.contains("3 of 250 copies failed, 800 Mb/s"), "{page}");
    assert!(page.contains("<polyline points=\"0.0,10.0 100.0,0.0 \"/>"), "{page}");
    assert!(page.contains("<li>2 × source transfer peer_truncated"), "{page}");
}
