//! Each administrator learns of their own endpoints, and of new problems first.

use history::Outcome;

use super::*;
use testkit::{mesh_endpoint, mesh_run};

fn of<'a>(digests: &'a [Digest], address: &str) -> &'a Digest {
    digests.iter().find(|digest| digest.address == address).unwrap()
}

#[test]
fn administrators_learn_of_their_own_endpoints_only() {
    let run = mesh_run(12);
    let digests = digests(&View::new(&run), None);
    let addresses: Vec<&str> = digests.iter().map(|digest| digest.address.as_str()).collect();
    assert_eq!(
        addresses,
        ["admin-0@example.org", "admin-1@example.org", "admin-2@example.org"]
    );
    // Of admin-0 are 3, 6, 9 and 12.
    let digest = of(&digests, "admin-0@example.org");
    assert_eq!(
        digest.subject,
        "mesh of sample sites: 1 with problems, 1 in downtime, 2 without problems"
    );
    let heads: Vec<&str> = digest.text.lines().filter(|line| line.starts_with("SE-")).collect();
    assert_eq!(
        heads,
        [
            "SE-03.example.org: 1 PROBLEM",
            "SE-12.example.org: in downtime until 2026-11-30 12:00 UTC: new disks",
            "SE-06.example.org: no problems",
            "SE-09.example.org: no problems",
        ]
    );
    assert!(digest.text.contains("  dCache 3.2.1; "), "{}", digest.text);
    // The broken source and the full destination are not the fault of 6.
    assert!(
        digest
            .text
            .contains("  10 cells failed that have another endpoint in common\n"),
        "{}",
        digest.text
    );
    assert!(!digest.text.contains("no_space"), "{}", digest.text);
    // Both ends of a bad link learn of it.
    for address in ["admin-1@example.org", "admin-2@example.org"] {
        assert!(
            of(&digests, address)
                .text
                .contains("SE-04.example.org to SE-05.example.org, 4 cells")
        );
    }
}

#[test]
fn problems_that_an_earlier_run_lacks_are_new_and_come_first() {
    let run = mesh_run(12);
    let mut earlier = mesh_run(12);
    for cell in &mut earlier.cells {
        if cell.link.source == mesh_endpoint(1) && cell.outcome.failure().is_some() {
            cell.outcome = Outcome::Passed;
        }
    }
    let (view, before) = (View::new(&run), View::new(&earlier));
    let digests = digests(&view, Some(&before));
    let digest = of(&digests, "admin-1@example.org");
    assert_eq!(
        digest.subject,
        "mesh of sample sites: 1 with new problems, 1 with problems, 2 without problems"
    );
    let heads: Vec<&str> = digest.text.lines().filter(|line| line.starts_with("SE-")).collect();
    assert_eq!(
        heads[..2],
        ["SE-01.example.org: 1 NEW PROBLEM", "SE-04.example.org: 1 PROBLEM"]
    );
    assert!(
        digest.text.contains("\n  NEW: SE-01.example.org as source, 40 cells"),
        "{}",
        digest.text
    );
    assert!(
        digest
            .html
            .contains("<b>NEW: SE-01.example.org as source, 40 cells</b>"),
        "{}",
        digest.html
    );
}

#[test]
fn several_problems_are_counted() {
    let mut run = mesh_run(12);
    let is_bad =
        |cell: &&mut history::Cell| cell.link.source == mesh_endpoint(4) && cell.link.destination == mesh_endpoint(5);
    let bad = run.cells.iter_mut().find(is_bad).unwrap();
    let Outcome::Failed(failure) = &mut bad.outcome else {
        unreachable!()
    };
    failure.code = "peer_failed".to_owned();
    let mut earlier = run.clone();
    for cell in &mut earlier.cells {
        cell.outcome = Outcome::Passed;
    }
    let (view, before) = (View::new(&run), View::new(&earlier));
    let known = of_all(&view, None).text;
    assert!(known.contains("\nSE-04.example.org: 2 PROBLEMS\n"), "{known}");
    let new = of_all(&view, Some(&before)).text;
    assert!(new.contains("\nSE-04.example.org: 2 NEW PROBLEMS\n"), "{new}");
}

#[test]
fn a_problem_says_since_when_it_lasts() {
    use history::{LinkRun, LinkSeries};
    let run = mesh_run(12);
    let hour = |ago: u64| run.started_ms - ago * 3_600_000;
    // What fails now failed in two runs before, and passed in those before these.
    let series = |runs: u64| {
        let series = run.cells.iter().map(|cell| {
            let failed_now = cell.outcome.failure().is_some();
            let point = |ago: u64| {
                let has_failed = failed_now && ago < 3;
                let run = LinkRun {
                    failed_share: f64::from(u8::from(has_failed)),
                    copy_ms: None,
                };
                (hour(ago), run)
            };
            LinkSeries {
                link: cell.link.clone(),
                points: (0..runs).rev().map(point).collect(),
            }
        });
        series.collect::<Vec<_>>()
    };
    let lasts = |runs: u64| {
        let view = View::new(&run).with_trends(series(runs));
        let digests = digests(&view, None);
        let digest = of(&digests, "admin-0@example.org");
        let text = digest.text.lines().find(|line| line.contains("fails since"));
        let text = text.unwrap_or_default().trim().to_owned();
        assert!(digest.html.contains(&format!("<br/>{text}")), "{}", digest.html);
        text
    };
    let minute = |ago| history::minute(hour(ago));
    assert_eq!(
        lasts(9),
        format!("fails since {} in 3 runs; last good {}", minute(2), minute(3))
    );
    assert_eq!(
        lasts(2),
        format!("fails since {} in 2 runs; no good run is known", minute(1))
    );
    assert_eq!(lasts(1), format!("fails since {}; no good run is known", minute(0)));
    assert!(!digests(&View::new(&run), None)[0].text.contains("fails since"));
}

#[test]
fn names_stay_text_in_a_mail() {
    let mut run = mesh_run(3);
    let odd = "SE\r\nBcc: everyone@example.org\u{202e}<b>";
    run.title = odd.to_owned();
    run.endpoints[0].name = odd.to_owned();
    for cell in run.cells.iter_mut().filter(|cell| cell.link.source == mesh_endpoint(1)) {
        cell.link.source = odd.to_owned();
    }
    let digests = digests(&View::new(&run), None);
    let digest = of(&digests, "admin-1@example.org");
    assert!(!digest.subject.contains(['\r', '\n', '\u{202e}']), "{}", digest.subject);
    assert!(
        digest
            .text
            .contains(r"SE\x0d\x0aBcc: everyone@example.org\u{202e}<b>: "),
        "{}",
        digest.text
    );
    assert!(
        !digest.html.contains(['\r', '\u{202e}']) && !digest.html.contains("<b>:"),
        "{}",
        digest.html
    );
}
