//! The rows that a document has from earlier runs: a run of some parts keeps the others, and says
//! that they are older.

use crate::metric::Metric;
use crate::report::{Line, Row};
use crate::server::Kind;

/// What the remark of a row of an earlier run says, before the run's number.
const MARK: &str = "earlier run ";
/// What the list of earlier runs begins its items with, before the number.
const ITEM: &str = "- earlier run ";
/// The columns between those of the servers and the second figures.
const BETWEEN: usize = 4;

/// A row of an earlier run, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OlderRow {
    pub(crate) metric: Metric,
    name: String,
    /// The first and the second figure of each server.
    cells: Vec<(Kind, String, String)>,
    /// Ratios, goal and remark; the remark without the mark.
    between: [String; BETWEEN],
    /// The number of its run; none for the newest run of the document.
    run: Option<u32>,
}

impl OlderRow {
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.cells.iter().any(|(found, ..)| *found == kind)
    }

    /// As [`Row::columns`], with the run in the remark.
    pub(crate) fn columns(&self, kinds: &[Kind]) -> Vec<String> {
        let cell = |kind: &Kind, second: bool| {
            let found = self.cells.iter().find(|(found, ..)| found == kind);
            found.map_or("-", |(_, first, other)| if second { other } else { first })
        };
        let [ratio, to_best, goal, remark] = &self.between;
        let mark = self.run.map(|run| format!("{MARK}{run}"));
        let remark: Vec<&str> = [Some(remark.as_str()).filter(|words| !words.is_empty()), mark.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        let mut columns = vec![self.name.clone()];
        columns.extend(kinds.iter().map(|kind| cell(kind, false).to_owned()));
        columns.extend([ratio.clone(), to_best.clone(), goal.clone(), remark.join(", ")]);
        let second: Vec<&str> = kinds.iter().map(|kind| cell(kind, true)).collect();
        columns.push(second.join(" / "));
        columns
    }

    /// Reads a line of a table whose servers are `kinds`.
    fn read(metric: Metric, kinds: &[Kind], line: &str) -> Option<Self> {
        let columns = cells(line);
        if columns.len() != kinds.len() + BETWEEN + 2 {
            return None;
        }
        let seconds: Vec<&str> = columns.last()?.split(" / ").collect();
        if seconds.len() != kinds.len() {
            return None;
        }
        let cells = kinds
            .iter()
            .zip(&columns[1..])
            .zip(&seconds)
            .map(|((kind, first), second)| (*kind, (*first).to_owned(), (*second).to_owned()))
            .collect();
        let between = &columns[kinds.len() + 1..][..BETWEEN];
        let (remark, run) = unmarked(between[3]);
        Some(Self {
            metric,
            name: columns[0].to_owned(),
            cells,
            between: [between[0], between[1], between[2], &remark].map(str::to_owned),
            run,
        })
    }
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// A remark without its mark, and the number of the run that it names.
fn unmarked(remark: &str) -> (String, Option<u32>) {
    let run = |word: &str| word.strip_prefix(MARK)?.parse().ok();
    let words = remark.split(", ").filter(|word| run(word).is_none());
    (words.collect::<Vec<_>>().join(", "), remark.split(", ").find_map(run))
}

/// What a document says between the markers of a section.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// What the newest run says of itself.
    words: Vec<String>,
    /// The runs before it, by their numbers.
    runs: Vec<(u32, String)>,
    rows: Vec<OlderRow>,
}

impl Block {
    /// Reads what [`merged`] or a complete run wrote. Tables of figures that are not known are left
    /// out.
    pub(crate) fn read(text: &str) -> Self {
        let mut block = Self::default();
        let (mut metric, mut kinds) = (None, Vec::new());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(found) = Metric::ALL.into_iter().find(|metric| metric.title() == line.trim()) {
                metric = Some(found);
            } else if let Some(item) = line.strip_prefix(ITEM) {
                let item = item.split_once(": ");
                block
                    .runs
                    .extend(item.and_then(|(run, words)| Some((run.parse().ok()?, words.to_owned()))));
            } else if line.starts_with("| workload |") {
                let named = |kind: &Kind| cells(line).contains(&kind.name());
                kinds = Kind::ALL.into_iter().filter(named).collect();
            } else if let (Some(metric), true) = (metric, line.starts_with("| ")) {
                block.rows.extend(OlderRow::read(metric, &kinds, line));
            } else if metric.is_none() && block.runs.is_empty() {
                block.words.push(line.trim().to_owned());
            }
        }
        block
    }

    /// Gives the newest run a number.
    fn grow_older(&mut self) {
        let number = self.runs.iter().map(|(number, _)| *number).max().unwrap_or(0) + 1;
        for row in self.rows.iter_mut().filter(|row| row.run.is_none()) {
            row.run = Some(number);
        }
        self.runs.push((number, self.words.join(" ")));
    }
}

/// A section of the document in which `rows` take the places of older ones, in the `order` of
/// metrics and names; what the order does not name is left out. `words` are what the run of `rows`
/// says of itself.
pub(crate) fn merged(mut older: Block, words: &str, rows: &[&Row], order: &[(Metric, String)]) -> String {
    older.grow_older();
    let line = |(metric, name): &(Metric, String)| {
        let measured = rows.iter().find(|row| row.metric == *metric && row.name == *name);
        let before = || older.rows.iter().find(|row| row.metric == *metric && row.name == *name);
        measured
            .map(|row| Line::Measured(row))
            .or_else(|| before().map(Line::Older))
    };
    let lines: Vec<Line<'_>> = order.iter().filter_map(line).collect();
    let is_shown = |run: u32| {
        let is_of = |line: &Line<'_>| matches!(line, Line::Older(row) if row.run == Some(run));
        lines.iter().any(is_of)
    };
    let runs: Vec<String> = older
        .runs
        .iter()
        .filter(|(run, _)| is_shown(*run))
        .map(|(run, words)| format!("{ITEM}{run}: {words}\n"))
        .collect();
    let runs = match runs.concat() {
        none if none.is_empty() => none,
        some => format!("\n{some}"),
    };
    format!("{words}\n{runs}\n{}", crate::report::markdown(&lines))
}

#[cfg(test)]
mod tests {
    use testkit::XrootdVersion;

    use super::*;
    use crate::metric::Section;
    use crate::report::{Cell, Goal, markdown};
    use crate::summary::Summary;

    const SERVERS: [Kind; 3] = [Kind::Crossload, Kind::Xrootd(XrootdVersion::V5), Kind::Nginx];
    const WITH_FLOOR: [Kind; 4] = [SERVERS[0], SERVERS[1], SERVERS[2], Kind::Floor];

    fn row(metric: Metric, name: &str, first: f64, kinds: &[Kind]) -> Row {
        let of = |value| Summary::of(&[value]).expect("a value");
        let cells = kinds.iter().map(|kind| Cell {
            kind: *kind,
            first: of(first),
            second: of(7.0),
        });
        Row {
            section: Section::Http,
            metric,
            name: name.to_owned(),
            goal: Goal {
                first: Some(0.45),
                ..Goal::default()
            },
            cells: cells.collect(),
            failures: Vec::new(),
        }
    }

    fn order() -> Vec<(Metric, String)> {
        [(Metric::Data, "GET"), (Metric::Data, "pull"), (Metric::Memory, "pull")]
            .map(|(metric, name)| (metric, name.to_owned()))
            .to_vec()
    }

    fn first_run() -> String {
        let rows = [
            row(Metric::Data, "GET", 1.0, &SERVERS),
            row(Metric::Data, "pull", 2.0, &SERVERS[..2]),
            row(Metric::Data, "no longer measured", 3.0, &SERVERS),
            row(Metric::Memory, "pull", 40.0, &SERVERS[..2]),
        ];
        let lines: Vec<Line<'_>> = rows.iter().map(Line::Measured).collect();
        format!("2 cores.\nmedian of 5 runs.\n\n{}", markdown(&lines))
    }

    fn line_of<'a>(text: &'a str, start: &str) -> &'a str {
        let mut lines = text.lines().filter(|line| line.starts_with(start));
        lines.next().unwrap_or_else(|| panic!("no {start} in {text}"))
    }

    #[test]
    fn a_run_of_some_parts_replaces_its_rows_and_marks_the_others() {
        let pull = row(Metric::Data, "pull", 9.0, &SERVERS[..2]);
        let text = merged(
            Block::read(&first_run()),
            "4 cores.\nmedian of 1 run.",
            &[&pull],
            &order(),
        );
        let expected = "4 cores.\nmedian of 1 run.\n\n- earlier run 1: 2 cores. median of 5 runs.\n\nData:";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(
            line_of(&text, "| GET"),
            "| GET | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) | 1.00 | 1.00 (XRootD 5.5.3) | \
             ≤ 0.45 | missed, earlier run 1 | 7.0 / 7.0 / 7.0 |"
        );
        assert!(line_of(&text, "| pull | 9.000").ends_with("| missed | 7.0 / 7.0 / - |"));
        assert!(line_of(&text, "| pull | 40").contains("| missed, earlier run 1 |"));
        assert!(
            !text.contains("no longer measured"),
            "a workload that is gone leaves: {text}"
        );
    }

    #[test]
    fn runs_keep_their_numbers_and_go_with_their_last_row() {
        let (get, pull) = (
            row(Metric::Data, "GET", 8.0, &SERVERS),
            row(Metric::Data, "pull", 9.0, &SERVERS[..2]),
        );
        let second = merged(Block::read(&first_run()), "second", &[&pull], &order());
        let third = merged(Block::read(&second), "third", &[&get], &order());
        assert!(third.contains("- earlier run 1: 2 cores. median of 5 runs.\n- earlier run 2: second\n"));
        assert!(line_of(&third, "| pull | 9.000").contains("| missed, earlier run 2 |"));
        assert!(line_of(&third, "| pull | 40").contains("| missed, earlier run 1 |"));
        assert!(line_of(&third, "| GET").contains("| missed | 7.0"));
        let memory = row(Metric::Memory, "pull", 41.0, &SERVERS[..2]);
        let fourth = merged(Block::read(&third), "fourth", &[&memory], &order());
        assert!(fourth.starts_with("fourth\n\n- earlier run 2: second\n- earlier run 3: third\n\nData"));
    }

    #[test]
    fn a_server_that_only_the_older_or_the_newer_rows_have_keeps_its_column() {
        let get = row(Metric::Data, "GET", 5.0, &SERVERS[..1]);
        let text = merged(Block::read(&first_run()), "w", &[&get], &order()[..1]);
        assert!(
            line_of(&text, "| workload").contains("| Crossload | ÷ XRootD"),
            "{text}"
        );
        let pull = row(Metric::Data, "pull", 9.0, &SERVERS[..2]);
        let text = merged(Block::read(&text), "w", &[&pull], &order());
        assert!(line_of(&text, "| workload").contains("| Crossload | XRootD 5.5.3 | ÷ XRootD"));
        let get = line_of(&text, "| GET");
        assert!(get.starts_with("| GET | 5.000 (5.000 to 5.000) | - | - |"), "{get}");
        assert!(get.ends_with("| earlier run 1 | 7.0 / - |"), "{get}");
    }

    #[test]
    fn the_floor_has_a_column_that_older_rows_need_not_have() {
        let pull = row(Metric::Data, "pull", 9.0, &WITH_FLOOR);
        let text = merged(Block::read(&first_run()), "w", &[&pull], &order());
        let head = "| workload | Crossload | XRootD 5.5.3 | nginx | floor | ÷ XRootD |";
        assert!(line_of(&text, "| workload").starts_with(head), "{text}");
        let again = merged(Block::read(&text), "w", &[], &order());
        assert!(line_of(&again, "| GET").ends_with("| 7.0 / 7.0 / 7.0 / - |"), "{again}");
        assert!(
            line_of(&again, "| pull").ends_with("| 7.0 / 7.0 / 7.0 / 7.0 |"),
            "{again}"
        );
        assert!(line_of(&again, "| pull").contains("| missed (floor 1.00: below it), earlier run 2 |"));
    }

    #[test]
    fn nothing_before_is_a_block_of_the_new_rows() {
        let get = row(Metric::Data, "GET", 5.0, &SERVERS);
        let text = merged(Block::read(""), "words", &[&get], &order());
        assert_eq!(text, format!("words\n\n{}", markdown(&[Line::Measured(&get)])));
    }
}
