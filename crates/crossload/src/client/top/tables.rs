//! Tables of what was seen: a row for each copy, link, job, worker or node.

use std::time::Duration;

use serde_json::Value;
use types::binary_size;

use super::looks::Kind;
use crate::client::show::rough_time;
use crate::output;
use crate::table::Table;

/// What a view shows of a document.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Sums of everything, for the first line.
    pub(super) sums: String,
    /// The head of the table.
    pub(super) head: String,
    /// Its rows, in order.
    pub(super) rows: Vec<Row>,
    /// How many rows the server has left out, if it has.
    pub(super) left_out: Option<String>,
}

/// A row of a table.
#[derive(Debug)]
pub(super) struct Row {
    /// What it shows.
    pub(super) subject: Subject,
    pub(super) line: String,
}

/// What a row shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// By this a row is known again after the next look: no other row of the view should have it.
    /// Empty: the server gives none.
    pub(super) name: String,
    /// Whether it is a worker that takes no new files.
    pub(super) is_draining: bool,
}

impl Subject {
    fn named(name: &Value) -> Self {
        Self {
            name: name.as_str().unwrap_or_default().to_owned(),
            is_draining: false,
        }
    }
}

/// A table while its rows are gathered.
struct Rows<const COLUMNS: usize> {
    subjects: Vec<Subject>,
    table: Table<COLUMNS>,
}

impl<const COLUMNS: usize> Rows<COLUMNS> {
    fn new(heads: [&str; COLUMNS]) -> Self {
        Self {
            subjects: Vec::new(),
            table: Table::new(heads),
        }
    }

    fn add(&mut self, subject: Subject, cells: [String; COLUMNS]) {
        self.subjects.push(subject);
        self.table.add(cells);
    }

    /// As [`Self::add`], if a cell has the filter in it.
    fn add_if(&mut self, filter: &str, subject: Subject, cells: [String; COLUMNS]) {
        if has(&cells, filter) {
            self.add(subject, cells);
        }
    }

    fn listing(self, sums: String) -> Listing {
        let mut lines = self.table.lines().into_iter();
        let head = lines.next().unwrap_or_default();
        let rows = self.subjects.into_iter().zip(lines);
        Listing {
            sums,
            head,
            rows: rows.map(|(subject, line)| Row { subject, line }).collect(),
            left_out: None,
        }
    }
}

/// What a view of this kind shows of a document. The server has filtered copies already.
pub(super) fn listing(kind: Kind, document: &Value, filter: &str) -> Listing {
    match kind {
        Kind::Copies => copies(document),
        Kind::Links => links(document, filter),
        Kind::Jobs => jobs(document, filter),
        Kind::Workers => workers(document, filter),
        Kind::Cluster => nodes(document, filter),
    }
}

fn text(value: &Value) -> String {
    output::name(value.as_str().unwrap_or_default()).into_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// The sum of figures that a server says; it may say anything.
fn sum(all: &[Value], key: &str) -> u64 {
    all.iter().map(|one| number(&one[key])).fold(0, u64::saturating_add)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn rate(value: &Value) -> String {
    format!("{}/s", binary_size(number(value)))
}

fn has(row: &[String], filter: &str) -> bool {
    let filter = filter.to_lowercase();
    row.iter().any(|cell| cell.to_lowercase().contains(&filter))
}

fn copies(document: &Value) -> Listing {
    let totals = &document["totals"];
    let shares = document["shares"].as_object().into_iter().flatten();
    let shares: Vec<String> = shares
        .filter(|(_, share)| number(&share["in_use"]) > 0)
        .map(|(name, share)| format!("{name} {}/{}", number(&share["in_use"]), number(&share["limit"])))
        .collect();
    let mut sums = format!(
        "{} running, {} stalled, {}",
        number(&totals["running"]),
        number(&totals["stalled"]),
        rate(&totals["bytes_per_s"])
    );
    if !shares.is_empty() {
        sums.push_str(&format!("; {}", shares.join(", ")));
    }
    let mut rows = Rows::new(["STAGE", "MOVED", "%", "RATE", "AGE", "MODE", "WHO", "FROM", "TO"]);
    for copy in list(&document["copies"]) {
        let (bytes, total) = (number(&copy["bytes"]), copy["total_bytes"].as_u64());
        let percent = total
            .filter(|total| *total > 0)
            .map(|total| bytes.saturating_mul(100) / total);
        let cells = [
            text(&copy["stage"]).replace('_', " "),
            binary_size(bytes),
            percent.map(|percent| percent.min(100).to_string()).unwrap_or_default(),
            rate(&copy["bytes_per_s"]),
            rough_time(Duration::from_millis(number(&copy["age_ms"]))),
            text(&copy["mode"]),
            text(&copy["who"]),
            text(&copy["from"]),
            text(&copy["to"]),
        ];
        rows.add(Subject::named(&copy["transfer_id"]), cells);
    }
    let more = number(&document["more"]);
    Listing {
        left_out: (more > 0).then(|| format!("and {more} more at the server")),
        ..rows.listing(sums)
    }
}

fn links(document: &Value, filter: &str) -> Listing {
    let all = list(&document["links"]);
    let sums = format!(
        "{} copies, {} wait, {} wait for a retry, {}/s",
        sum(all, "active"),
        sum(all, "waiting"),
        sum(all, "delayed"),
        binary_size(sum(all, "bytes_per_s"))
    );
    let mut rows = Rows::new(["ACTIVE", "LIMIT", "WAIT", "RETRY", "RATE", "VO", "FROM", "TO", "WHY"]);
    for link in all {
        let held = &link["held"]["detail"];
        let held = held.is_string().then(|| format!("stands still: {}", text(held)));
        let paused = (link["is_paused"] == true).then(|| "paused".to_owned());
        let why = paused.or(held).unwrap_or_else(|| text(&link["reasons"][0]));
        let ends = [&link["source"], &link["destination"], &link["vo"]];
        let subject = Subject {
            name: ends.map(|end| end.as_str().unwrap_or_default()).join("\n"),
            is_draining: false,
        };
        let cells = [
            number(&link["active"]).to_string(),
            link["limit"]
                .as_u64()
                .map(|limit| limit.to_string())
                .unwrap_or_default(),
            number(&link["waiting"]).to_string(),
            number(&link["delayed"]).to_string(),
            rate(&link["bytes_per_s"]),
            text(&link["vo"]),
            text(&link["source"]),
            text(&link["destination"]),
            why,
        ];
        rows.add_if(filter, subject, cells);
    }
    rows.listing(sums)
}

fn jobs(document: &Value, filter: &str) -> Listing {
    let workers = list(&document["workers"]);
    let draining = workers.iter().filter(|worker| worker["is_draining"] == true).count();
    let sums = format!("the newest; {} workers, {draining} draining", workers.len());
    let mut rows = Rows::new([
        "STATE", "DONE", "FAILED", "OF", "VO", "USER", "JOB", "FROM", "TO", "REASON",
    ]);
    for job in list(&document["jobs"]) {
        let files = &job["files"];
        let cells = [
            text(&job["state"]),
            number(&files["finished"]).to_string(),
            number(&files["failed"]).to_string(),
            number(&files["total"]).to_string(),
            text(&job["vo"]),
            text(&job["user"]),
            text(&job["job_id"]),
            text(&job["source"]),
            text(&job["destination"]),
            text(&job["reason"]),
        ];
        rows.add_if(filter, Subject::named(&job["job_id"]), cells);
    }
    rows.listing(sums)
}

fn workers(document: &Value, filter: &str) -> Listing {
    let all = list(&document["workers"]);
    let count = |key: &str| all.iter().filter(|worker| worker[key] == true).count();
    let sums = format!(
        "{} with {} copies, {} draining, {} lost",
        all.len(),
        sum(all, "active"),
        count("is_draining"),
        count("is_lost")
    );
    let mut rows = Rows::new(["STATE", "COPIES", "WORKER"]);
    for worker in all {
        let is_draining = worker["is_draining"] == true;
        let state = match (worker["is_lost"] == true, is_draining) {
            (true, true) => "lost, draining",
            (true, false) => "lost",
            (false, true) => "draining",
            (false, false) => "works",
        };
        let subject = Subject {
            is_draining,
            ..Subject::named(&worker["name"])
        };
        let cells = [
            state.to_owned(),
            number(&worker["active"]).to_string(),
            text(&worker["name"]),
        ];
        rows.add_if(filter, subject, cells);
    }
    rows.listing(sums)
}

fn nodes(document: &Value, filter: &str) -> Listing {
    let all = list(&document["nodes"]);
    let count = |is: fn(&Value) -> bool| all.iter().filter(|node| is(node)).count();
    let sums = format!(
        "{} of {} nodes answer, {} drained",
        count(|node| node["is_present"] == true),
        all.len(),
        count(|node| node["drain"] != "active")
    );
    let mut rows = Rows::new(["STATE", "BUSY", "COPIES", "IN", "OUT", "FREE", "SENT", "NODE", "SAYS"]);
    for node in all {
        let load = &node["load"];
        let of_load = |written: &dyn Fn(&Value) -> String, key: &str| match load.is_object() {
            true => written(&load[key]),
            false => String::new(),
        };
        let cells = [
            match (node["is_present"] == true, node["is_well"] == true) {
                (true, true) => "well".to_owned(),
                (true, false) => "trouble".to_owned(),
                (false, _) => "away".to_owned(),
            },
            format!("{:.0} %", node["busy"].as_f64().unwrap_or_default() * 100.0),
            of_load(&|value| number(value).to_string(), "transfers"),
            of_load(&rate, "in_bytes_per_s"),
            of_load(&rate, "out_bytes_per_s"),
            of_load(&|value| binary_size(number(value)), "free_bytes"),
            number(&node["sent"]).to_string(),
            text(&node["name"]),
            text(&node["says"]),
        ];
        rows.add_if(filter, Subject::named(&node["name"]), cells);
    }
    rows.listing(sums)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_figure_of_a_server_is_too_large() {
        let most = u64::MAX;
        let link = json!({"active": most, "waiting": most, "delayed": most, "limit": most, "bytes_per_s": most});
        let copy = json!({"bytes": most, "total_bytes": most, "bytes_per_s": most, "age_ms": most});
        let load = json!({"transfers": most, "in_bytes_per_s": most, "out_bytes_per_s": most, "free_bytes": most});
        let files = json!({"finished": most, "failed": most, "total": most});
        let worker = json!({"name": "w", "active": most});
        let node = json!({"name": "n", "load": load, "sent": most, "busy": 1e308});
        let document = json!({
            "totals": {"running": most, "stalled": most, "bytes_per_s": most}, "copies": [copy, copy], "more": most,
            "links": [link, link], "jobs": [{"files": files}, {"files": files}], "workers": [worker, worker],
            "nodes": [node, node],
        });
        for kind in [Kind::Copies, Kind::Links, Kind::Jobs, Kind::Workers, Kind::Cluster] {
            assert_eq!(listing(kind, &document, "").rows.len(), 2, "{kind:?}");
        }
        let sums = listing(Kind::Links, &document, "").sums;
        assert!(sums.starts_with(&format!("{most} copies, {most} wait")), "{sums}");
    }

    #[test]
    fn each_row_has_the_name_that_the_server_gives_it() {
        let hostile = "w\u{1b}[2J";
        let document = json!({
            "copies": [{"transfer_id": "t1"}, {"transfer_id": "t2"}, {}],
            "links": [{"source": "a", "destination": "b", "vo": "v"}],
            "jobs": [{"job_id": "j1", "state": "active"}],
            "workers": [
                {"name": hostile, "active": 2, "is_draining": true, "is_lost": false},
                {"name": "w2", "active": 1, "is_draining": false, "is_lost": true},
            ],
            "nodes": [{"name": "n1", "drain": "active"}],
        });
        let names = |kind: Kind| {
            let rows = listing(kind, &document, "").rows;
            rows.into_iter().map(|row| row.subject.name).collect::<Vec<_>>()
        };
        assert_eq!(names(Kind::Copies), ["t1", "t2", ""]);
        assert_eq!(names(Kind::Links), ["a\nb\nv"]);
        assert_eq!(names(Kind::Jobs), ["j1"]);
        assert_eq!(names(Kind::Workers), [hostile, "w2"]);
        assert_eq!(names(Kind::Cluster), ["n1"]);
        let workers = listing(Kind::Workers, &document, "");
        assert_eq!(workers.sums, "2 with 3 copies, 1 draining, 1 lost");
        let draining: Vec<bool> = workers.rows.iter().map(|row| row.subject.is_draining).collect();
        assert_eq!(draining, [true, false]);
        assert!(
            workers.rows[0].line.starts_with("draining") && workers.rows[0].line.ends_with("w\\x1b[2J"),
            "{workers:?}"
        );
        let filtered = listing(Kind::Workers, &document, "W2").rows;
        assert_eq!(filtered.len(), 1);
        assert_eq!(filtered[0].subject.name, "w2", "names stay with their lines");
    }
}
