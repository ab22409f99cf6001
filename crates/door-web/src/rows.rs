//! The rows of the page *Now*: figures for people, and the changes from one moment to the next.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use serde::Serialize;
use types::binary_size;

use crate::actions::cancel_copy_place;
use crate::copies::{CopyFacts, CopyNow};
use crate::figures::{age, rate};
use crate::view::{Selection, Totals};

/// What changes in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cells {
    /// Bytes that have moved, of how many.
    bytes: String,
    /// The share that has moved, in percent; `None` if the size is not known.
    percent: Option<u64>,
    rate: String,
    age: String,
    phase: &'static str,
    /// How far the copy is, in words, and the class of their colour.
    stage: &'static str,
    class: &'static str,
    stalled: bool,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    facts: Arc<CopyFacts>,
    cells: Cells,
    /// Where an operator ends the copy.
    cancel: Option<String>,
}

#[derive(Template)]
#[template(path = "row.html")]
struct RowTemplate<'a> {
    row: &'a Row,
}

impl Row {
    fn of(copy: &CopyNow, for_operator: bool) -> Self {
        let total = copy.total_bytes.filter(|total| *total > 0);
        let of_total = copy.total_bytes.map(|total| format!(" of {}", binary_size(total)));
        Self {
            facts: copy.facts.clone(),
            cancel: for_operator.then(|| cancel_copy_place(&copy.facts.id)),
            cells: Cells {
                bytes: format!("{}{}", binary_size(copy.bytes), of_total.unwrap_or_default()),
                percent: total.map(|total| (u128::from(copy.bytes) * 100 / u128::from(total)).min(100) as u64),
                rate: rate(copy.bytes_per_s),
                age: age(copy.age),
                phase: copy.phase,
                stage: copy.stage.label(),
                class: copy.stage.class(),
                stalled: copy.is_stalled(),
            },
        }
    }

    /// The row as HTML.
    ///
    /// # Errors
    /// Those of the template.
    pub(crate) fn html(&self) -> askama::Result<String> {
        RowTemplate { row: self }.render()
    }

    fn id(&self) -> &str {
        self.facts.id.raw()
    }
}

/// The figures above the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) running: usize,
    pub(crate) pulls: usize,
    pub(crate) pushes: usize,
    pub(crate) stalled: usize,
    pub(crate) rate: String,
    /// Further copies that the view does not show.
    pub(crate) more: usize,
}

/// The table at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) counts: Counts,
    pub(crate) rows: Vec<Row>,
}

/// A row that a page does not have yet.
#[derive(Serialize)]
struct NewRow<'a> {
    id: &'a str,
    html: String,
}

#[derive(Serialize)]
struct ChangedRow<'a> {
    id: &'a str,
    #[serde(flatten)]
    cells: &'a Cells,
}

/// An event of a page: everything, or what has changed.
#[derive(Serialize)]
struct Change<'a> {
    counts: &'a Counts,
    /// All rows that are shown; absent if neither they nor their order have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Vec<&'a str>>,
    new: Vec<NewRow<'a>>,
    changed: Vec<ChangedRow<'a>>,
}

impl Table {
    /// The table of a selection.
    pub(crate) fn of(selection: &Selection) -> Self {
        let Totals {
            running,
            pulls,
            pushes,
            stalled,
            bytes_per_s,
        } = selection.totals;
        let row = |copy| Row::of(copy, selection.for_operator);
        let rows = selection.copies.iter().map(row);
        Self {
            counts: Counts {
                running,
                pulls,
                pushes,
                stalled,
                rate: rate(bytes_per_s),
                more: selection.more,
            },
            rows: rows.collect(),
        }
    }

    /// The whole table as an event: one line of JSON.
    pub(crate) fn whole(&self) -> String {
        self.since(&HashMap::new(), true)
    }

    /// What has changed since `before`; `None`: nothing.
    pub(crate) fn change_since(&self, before: &Self) -> Option<String> {
        let known: HashMap<&str, &Cells> = before.rows.iter().map(|row| (row.id(), &row.cells)).collect();
        let has_moved = self.rows.len() != before.rows.len()
            || self
                .rows
                .iter()
                .zip(&before.rows)
                .any(|(now, then)| now.id() != then.id());
        let is_same = !has_moved
            && self.counts == before.counts
            && self
                .rows
                .iter()
                .zip(&before.rows)
                .all(|(now, then)| now.cells == then.cells);
        (!is_same).then(|| self.since(&known, has_moved))
    }

    fn since(&self, known: &HashMap<&str, &Cells>, has_moved: bool) -> String {
        let (mut new, mut changed) = (Vec::new(), Vec::new());
        for row in &self.rows {
            match known.get(row.id()) {
                Some(cells) if **cells == row.cells => {}
                Some(_) => changed.push(ChangedRow {
                    id: row.id(),
                    cells: &row.cells,
                }),
                // A template of texts and numbers does not fail.
                None => new.extend(row.html().map(|html| NewRow { id: row.id(), html })),
            }
        }
        let change = Change {
            counts: &self.counts,
            order: has_moved.then(|| self.rows.iter().map(Row::id).collect()),
            new,
            changed,
        };
        // It has only texts and numbers, so that this cannot fail. JSON has no line breaks in it.
        serde_json::to_string(&change).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use transfer::Progress;

    use super::*;
    use crate::copies::RunningCopies;
    use crate::copies::tests::start;
    use crate::view::View;

    fn table(running: &RunningCopies) -> Table {
        Table::of(&Selection::of(running, &View::read(Some("sort=to"))))
    }

    fn change(table: &Table, before: &Table) -> Value {
        serde_json::from_str(&table.change_since(before).expect("a change")).unwrap()
    }

    #[test]
    fn only_what_changed_is_said() {
        let (running, progress) = (RunningCopies::default(), Arc::new(Progress::new()));
        running.begin(&start("2", "/b"), &progress);
        let first = table(&running);
        let whole: Value = serde_json::from_str(&first.whole()).unwrap();
        assert_eq!(whole["order"], serde_json::json!(["2"]));
        assert!(whole["new"][0]["html"].as_str().unwrap().contains("<tr"));
        assert!(first.change_since(&table(&running)).is_none(), "nothing has changed");
        progress.set_total(4096);
        progress.add_moved(1024);
        let second = table(&running);
        let said = change(&second, &first);
        assert!(
            said.get("order").is_none() && said["new"].as_array().unwrap().is_empty(),
            "{said}"
        );
        assert_eq!(said["changed"][0]["bytes"], "1.0 KiB of 4.0 KiB");
        assert_eq!(said["changed"][0]["percent"], 25);
        running.begin(&start("1", "/a"), &Arc::default());
        let third = table(&running);
        let said = change(&third, &second);
        assert_eq!(said["order"], serde_json::json!(["1", "2"]));
        assert_eq!(
            (said["new"][0]["id"].as_str(), said["counts"]["running"].as_u64()),
            (Some("1"), Some(2))
        );
        running.end("1");
        running.end("2");
        assert_eq!(change(&table(&running), &third)["order"], serde_json::json!([]));
    }

    #[test]
    fn names_stay_text() {
        let running = RunningCopies::default();
        let name = "/d/</td><script>alert(1)</script>\"onmouseover=\"x\ndata: y\u{0}\u{202e}";
        running.begin(&start("a\"b\nc", name), &Arc::default());
        let table = table(&running);
        let html = table.rows[0].html().unwrap();
        assert!(!html.contains("<script") && !html.contains("\"onmouseover"), "{html}");
        for shown in ["\\x0adata: y\\x00\\u{202e}", "&#60;script&#62;"] {
            assert!(html.contains(shown), "{shown}\n{html}");
        }
        assert!(!html.contains(['\u{0}', '\u{202e}']), "{html}");
        let event = table.whole();
        assert!(!event.contains(['\n', '\r']), "{event}");
    }
}
