//! The matrix has a shape for each outcome, and failures are grouped by what is broken.

use history::{Instrument, Mode, Outcome};

use super::*;
use testkit::{mesh_endpoint, mesh_run};

const WIDE: Terminal = Terminal {
    columns: 120,
    has_colour: false,
};

#[test]
fn planted_faults_are_named_once_each() {
    let run = mesh_run(12);
    let view = View::new(&run);
    let about: Vec<String> = view
        .groups
        .iter()
        .map(|group| format!("{} {}", subject(group), group.code))
        .collect();
    // Of each way, the source has 10 partners that are not in downtime; the destination one less,
    // since the broken source is among them.
    let wanted = [
        "SE-01.example.org as source, 40 cells peer_truncated",
        "SE-02.example.org as destination, 36 cells no_space",
        "SE-03.example.org as destination, 18 cells checksum_unavailable",
        "SE-04.example.org to SE-05.example.org, 4 cells stalled",
    ];
    assert_eq!(about, wanted);
    let text = write(&view, WIDE);
    let at_fault = "
At fault:
    SE-01.example.org fails as a source for everyone (34 of 34 copies): peer_truncated in transfer
    SE-02.example.org fails as a destination for everyone (36 of 36 copies): no_space in open
    SE-03.example.org fails as a destination for everyone over roots (18 of 18 copies): checksum_unavailable in checksum
    the link SE-04.example.org → SE-05.example.org fails (4 of 4 copies): stalled in transfer
";
    assert!(text.contains(at_fault), "{text}");
    assert!(
        text.contains("\nX2  SE-02.example.org as destination, 36 cells: destination open no_space\n"),
        "{text}"
    );
    assert!(
        text.contains("the server said 507: \"Insufficient Storage: <no room> & \"nothing\"\""),
        "{text}"
    );
    assert!(
        text.contains("    $ crossload copy --token-file \"$TOKEN_FILE\" https://SE-01.example.org"),
        "{text}"
    );
    let members = "    from SE-02.example.org, SE-04.example.org, SE-05.example.org, SE-06.example.org, SE-07.example.org, \
                   SE-08.example.org, 3 more; roots rendezvous, token; roots lite, token\n";
    assert!(text.contains(members), "{text}");
    assert!(text.contains(", 4 more; in all ways to copy\n"), "{text}");
    assert!(
        text.contains("skipped: 88 cells: SE-12.example.org is in downtime"),
        "{text}"
    );
}

#[test]
fn a_matrix_of_thirty_fits_in_120_columns_and_folds_in_80() {
    let run = mesh_run(30);
    let view = View::new(&run);
    for columns in [120, 80] {
        let text = write(&view, Terminal { columns, ..WIDE });
        let matrix: Vec<&str> = text.lines().filter(|line| !line.starts_with("    ")).collect();
        let rows = matrix.iter().filter(|line| line.starts_with(" 4 SE-04")).count();
        // The overview and four ways, each in one block or two.
        assert_eq!(rows, if columns == 120 { 5 } else { 10 }, "{text}");
        for line in text
            .lines()
            .filter(|line| line.contains(" o ") || line.contains(" X1 "))
        {
            assert!(line.chars().count() <= columns, "{line}");
        }
    }
    let text = write(&view, WIDE);
    let row = text
        .lines()
        .filter(|line| line.starts_with(" 4 SE-04.example.org"))
        .nth(1)
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
    let mut wanted = vec!["o", "X2", "o", "X4"];
    wanted.resize(28, "o");
    wanted.push("-");
    assert_eq!(cells, wanted, "{text}");
}

#[test]
fn colour_repeats_the_shape_and_is_left_out_on_request() {
    let run = mesh_run(12);
    let view = View::new(&run);
    let plain = write(&view, WIDE);
    assert!(!plain.contains('\u{1b}'));
    let coloured = write(
        &view,
        Terminal {
            has_colour: true,
            ..WIDE
        },
    );
    assert!(coloured.contains("\u{1b}[1;31mX2\u{1b}[0m"), "{coloured}");
    let mut stripped = coloured;
    for code in ["[0m", "[32m", "[33m", "[1;31m"] {
        stripped = stripped.replace(&format!("\u{1b}{code}"), "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn names_and_words_stay_text() {
    let mut run = mesh_run(3);
    let odd = "\u{1b}[2J\u{202e}evil\n";
    run.title = odd.to_owned();
    run.endpoints[0].name = odd.to_owned();
    for cell in &mut run.cells {
        if cell.link.source == mesh_endpoint(1) {
            cell.link.source = odd.to_owned();
        }
        cell.link.credential = odd.to_owned();
        if let Outcome::Failed(failure) = &mut cell.outcome {
            failure.code = odd.to_owned();
            failure.says = odd.to_owned();
            failure.server_words = Some(odd.to_owned());
            failure.reproduce = vec![odd.to_owned()];
        }
        if let Outcome::Skipped { why } = &mut cell.outcome {
            *why = odd.to_owned();
        }
    }
    let text = write(&View::new(&run), WIDE);
    assert!(text.contains(r"\x1b[2J\u{202e}evil"), "{text}");
    let obeyed = text
        .chars()
        .find(|character| *character != '\n' && markup::is_obeyed(*character));
    assert_eq!(obeyed, None, "{text}");
}

#[test]
fn a_stress_shows_rates_and_a_smoke_shows_endpoints() {
    let mut run = mesh_run(4);
    run.instrument = Instrument::Stress;
    for cell in &mut run.cells {
        (cell.copies, cell.bytes, cell.copy_ms) = (250, 1_000_000_000, 10_000);
    }
    let text = write(&View::new(&run), WIDE);
    assert!(text.contains("(Mb/s)") && text.contains("o 800"), "{text}");
    run.instrument = Instrument::Smoke;
    run.cells.retain(|cell| cell.link.source == mesh_endpoint(3));
    run.cells.truncate(1);
    run.cells[0].link.destination = mesh_endpoint(3);
    run.cells[0].link.mode = Mode::Probe;
    let text = write(&View::new(&run), WIDE);
    assert!(text.contains("https probe, token"), "{text}");
    assert!(!text.contains("Rows are sources"), "{text}");
}

#[test]
fn a_run_that_ended_early_says_why_in_every_form() {
    let mut run = mesh_run(4);
    run.is_complete = false;
    let unknown = write(&View::new(&run), WIDE);
    assert!(
        unknown.contains("This run ended early: these are the results"),
        "{unknown}"
    );
    run.ended_by = Some("the limit of bytes is reached\u{1b}[31m<b>".to_owned());
    let view = View::new(&run);
    let words = "ended early (the limit of bytes is reached\\x1b[31m";
    let digest = crate::digest::of_all(&view, None);
    let plain = [write(&view, WIDE), digest.text];
    for text in plain {
        assert!(text.contains(&format!("{words}<b>): these are the results")), "{text}");
    }
    for text in [crate::html::write(&view), crate::junit::write(&view), digest.html] {
        assert!(text.contains(&format!("{words}&lt;b&gt;): these")), "{text}");
    }
    assert!(crate::json::summary(&view).contains("\"ended_by\":\"the limit of bytes"));
    run.is_complete = true;
    assert!(!crate::junit::write(&View::new(&run)).contains("early"));
}
