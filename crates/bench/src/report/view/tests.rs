//! What stands beside what, in which order, and what is left out.

use super::*;
use crate::report::tests::sample;

#[test]
fn targets_stand_side_by_side_with_their_ratio() {
    let report = sample();
    let view = View::new(&report, None);
    let sheet = &view.sheets[0];
    let names: Vec<String> = sheet.series.iter().map(Series::name).collect();
    assert_eq!(names, ["ours", "theirs"]);
    assert_eq!(sheet.ratios, [Ratio { of: 1, to: 0 }]);
    let (ratio, verdict) = sheet.ratio(sheet.ratios[0], &sheet.lines[0]).unwrap();
    assert!((ratio - 0.75).abs() < 1e-9, "{ratio}");
    assert_eq!(verdict, Verdict::Unclear);
    assert_eq!(sheet.ratio(sheet.ratios[0], &sheet.lines[1]), None);
    assert_eq!(sheet.lines[1].cells[0], None);
    assert_eq!(sheet.lines[1].cells[1].as_ref().unwrap().words(), "failed");
    assert_eq!(sheet.lines[0].cells[0].as_ref().unwrap().words(), "12.0 (11.0 to 13.0)");
    assert_eq!(view.failures().len(), 1);
}

#[test]
fn targets_that_share_no_line_have_no_ratio() {
    let mut report = sample();
    for row in report.tables[0].rows.iter_mut().filter(|row| row.target == "theirs") {
        row.label.push_str(", otherwise");
    }
    let sheet = &View::new(&report, None).sheets[0];
    assert_eq!((sheet.series.len(), sheet.ratios.len()), (2, 0));
}

#[test]
fn rows_of_an_axis_are_lines_of_their_own() {
    let report = sample();
    let view = View::new(&report, None);
    let at: Vec<Option<f64>> = view.sheets[1].lines.iter().map(|line| line.at).collect();
    assert_eq!(at, [Some(1.0), Some(4.0), Some(16.0)]);
}

#[test]
fn an_earlier_run_stands_beside_this_one_and_says_better_or_worse() {
    let earlier = sample();
    let mut report = sample();
    report.targets.pop();
    for table in &mut report.tables {
        table.rows.retain(|row| row.target == "ours");
        for sample in table.rows.iter_mut().flat_map(|row| &mut row.samples) {
            *sample *= 1.5;
        }
    }
    let view = View::new(&report, Some(&earlier));
    let sheet = &view.sheets[1];
    let names: Vec<String> = sheet.series.iter().map(Series::name).collect();
    assert_eq!(names, ["ours", "ours, earlier", "theirs, earlier"]);
    assert_eq!(sheet.ratio_name(sheet.ratios[0]), "ours: now ÷ earlier");
    let (ratio, verdict) = sheet.ratio(sheet.ratios[0], &sheet.lines[0]).unwrap();
    assert!((ratio - 1.5).abs() < 1e-9 && verdict == Verdict::Better);
    // What was measured earlier only is left out.
    assert_eq!(view.sheets[0].lines.len(), 1);
    let chart = &view.charts[0];
    let names: Vec<String> = chart.lines.iter().map(|line| chart.name(line)).collect();
    assert_eq!(names, ["pull, 10 concurrent", "pull, 10 concurrent, earlier"]);
}

#[test]
fn an_earlier_curve_without_its_like_is_left_out() {
    let (mut earlier, report) = (sample(), sample());
    earlier.curves[0].label = "push, 10 concurrent".to_owned();
    assert_eq!(View::new(&report, Some(&earlier)).charts[0].lines.len(), 1);
}

#[test]
fn a_rate_of_nothing_is_not_drawn() {
    let mut report = sample();
    report.curves[0].points = vec![(0.0, 0.0), (1.0, 0.0)];
    assert_eq!(View::new(&report, None).charts, []);
}

#[test]
fn all_tables_have_their_lines_in_the_same_order() {
    let mut report = sample();
    let mut tables = ["Rate", "Time"].map(|title| Table::new(title, "s", Better::Less).against("n", "", false));
    let turns = [("GET", 1.0), ("PUT", 1.0), ("GET", 4.0), ("PUT", 4.0)];
    for (table, turns) in tables.iter_mut().zip([turns, [turns[3], turns[2], turns[1], turns[0]]]) {
        for (label, n) in turns {
            let parameters = super::super::Parameters::from([("n".to_owned(), n.into())]);
            table.row("se", label, &parameters).add(1.0);
        }
    }
    report.tables = tables.into();
    for sheet in &View::new(&report, None).sheets {
        let lines: Vec<_> = sheet.lines.iter().map(|line| (line.label.as_str(), line.at)).collect();
        let one_order = [("GET", 1.0), ("GET", 4.0), ("PUT", 1.0), ("PUT", 4.0)];
        assert_eq!(lines, one_order.map(|(label, at)| (label, Some(at))), "{}", sheet.title);
    }
}

#[test]
fn what_failed_in_the_same_way_is_told_once() {
    let mut report = sample();
    report.tables.truncate(1);
    let row = report.tables[0].row("theirs", "PUT root", &super::super::Parameters::new());
    for words in [
        "the server, \"se\", said no",
        "no room for copy-1",
        "no room for copy-2",
    ] {
        row.fail(Failure::new("PUT", words, "ask its owner"));
    }
    // The same row in a second table is no second failure.
    report.tables.push(report.tables[0].clone());
    let failures = View::new(&report, None).failures();
    let told: Vec<_> = failures
        .iter()
        .map(|failed| (failed.label(), failed.failure.count))
        .collect();
    assert_eq!(
        told,
        [("PUT https; PUT root".to_owned(), 1), ("PUT root".to_owned(), 2)]
    );
}

#[test]
fn another_endpoint_is_compared_with_the_first_of_the_earlier_run() {
    let earlier = sample();
    let mut report = sample();
    for row in report.tables.iter_mut().flat_map(|table| &mut table.rows) {
        row.target = row.target.replace("ours", "new").replace("theirs", "newer");
    }
    let view = View::new(&report, Some(&earlier));
    let sheet = &view.sheets[1];
    let names: Vec<String> = sheet.ratios.iter().map(|ratio| sheet.ratio_name(*ratio)).collect();
    assert_eq!(names, ["newer ÷ new", "new ÷ ours, earlier", "newer ÷ ours, earlier"]);
}

#[test]
fn less_may_be_better_and_nearly_the_same_is_the_same() {
    let mut table = Table::new("CPU", "s/GB", Better::Less);
    for (target, sample) in [("a", 1.0), ("b", 0.5), ("c", 1.02), ("d", 2.0)] {
        table.row(target, "GET", &super::super::Parameters::new()).add(sample);
    }
    let sheet = sheet(&table, None);
    let verdicts: Vec<Verdict> = sheet
        .ratios
        .iter()
        .map(|ratio| sheet.ratio(*ratio, &sheet.lines[0]).unwrap().1)
        .collect();
    assert_eq!(verdicts, [Verdict::Better, Verdict::Same, Verdict::Worse]);
}

#[test]
fn figures_have_three_digits_that_count() {
    let words: Vec<String> = [0.0, 1234.5, 12.34, 1.234, 0.1234, 0.001_234].map(figure).into();
    assert_eq!(words, ["0", "1234", "12.3", "1.23", "0.123", "0.00123"]);
}
