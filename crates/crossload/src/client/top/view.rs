//! Frames: what was seen as lines, and what keys change about them. No terminal is touched here.

use std::time::Duration;

use serde_json::Value;
use types::binary_size;
use unicode_width::UnicodeWidthChar as _;

use super::looks::{Kind, Seen};
use super::screen::{Key, Size};
use crate::client::show::rough_time;
use crate::output;
use crate::table::Table;

/// Longest text of the filter, in characters.
const FILTER_CHARACTERS_MAX: usize = 100;
/// In which order copies are shown, as the page has it.
const SORTS: [&str; 4] = ["trouble", "rate", "moved", "age"];
/// Lines around the rows: the head, its table, and the last one.
const LINES_AROUND: usize = 5;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Quit,
    Draw,
    Look,
}

/// What is shown, and how.
pub(super) struct View {
    kinds: Vec<Kind>,
    shown: usize,
    filter: String,
    /// The filter while it is typed.
    typed: Option<String>,
    sort: usize,
    top: usize,
    rows: usize,
    is_paused: bool,
}

impl View {
    /// The first of some kinds; at least one.
    pub(super) fn new(kinds: Vec<Kind>, filter: &str) -> Self {
        Self {
            kinds,
            shown: 0,
            filter: filter.to_owned(),
            typed: None,
            sort: 0,
            top: 0,
            rows: 1,
            is_paused: false,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kinds[self.shown]
    }

    /// Shows this kind, if the server has it.
    pub(super) fn show(&mut self, kind: Kind) {
        self.shown = self.kinds.iter().position(|one| *one == kind).unwrap_or(self.shown);
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn sort(&self) -> Option<&'static str> {
        (self.kind() == Kind::Copies).then_some(SORTS[self.sort])
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn press(&mut self, key: Key) -> Act {
        if let Some(typed) = self.typed.take() {
            return self.type_filter(typed, key);
        }
        match key {
            Key::Character('q') => Act::Quit,
            Key::Character('\t') => {
                self.shown = (self.shown + 1) % self.kinds.len();
                self.top = 0;
                Act::Look
            }
            Key::Character('/') => {
                self.typed = Some(self.filter.clone());
                Act::Draw
            }
            Key::Character('s') if self.kind() == Kind::Copies => {
                self.sort = (self.sort + 1) % SORTS.len();
                Act::Look
            }
            Key::Character(' ') => {
                self.is_paused = !self.is_paused;
                Act::Look
            }
            Key::Up | Key::Character('k') => self.scroll(|top, _| top.saturating_sub(1)),
            Key::Down | Key::Character('j') => self.scroll(|top, _| top + 1),
            Key::PageUp => self.scroll(usize::saturating_sub),
            Key::PageDown => self.scroll(|top, rows| top + rows),
            Key::Character(_) | Key::Enter | Key::Escape | Key::Backspace => Act::Draw,
        }
    }

    fn scroll(&mut self, moved: impl Fn(usize, usize) -> usize) -> Act {
        self.top = moved(self.top, self.rows);
        Act::Draw
    }

    fn type_filter(&mut self, mut typed: String, key: Key) -> Act {
        match key {
            Key::Enter => {
                self.filter = typed;
                self.top = 0;
                return Act::Look;
            }
            Key::Escape => return Act::Draw,
            Key::Backspace => drop(typed.pop()),
            Key::Character(character) if typed.chars().count() < FILTER_CHARACTERS_MAX && !character.is_control() => {
                typed.push(character);
            }
            _ => {}
        }
        self.typed = Some(typed);
        Act::Draw
    }

    /// The lines of a frame; without a size all of them, in full length.
    pub(super) fn frame(&mut self, server: &str, seen: &Seen, size: Option<Size>) -> Vec<String> {
        let (sums, table) = match self.kind() {
            Kind::Copies => copies(seen.document()),
            Kind::Links => links(seen.document(), &self.filter),
            Kind::Jobs => jobs(seen.document(), &self.filter),
            Kind::Cluster => nodes(seen.document(), &self.filter),
        };
        let mut lines = vec![format!("{server}  {}: {sums}", self.kind().word())];
        let mut rows = table.into_iter();
        let head = rows.next();
        let rows: Vec<String> = rows.collect();
        let Some(size) = size else {
            lines.extend(head.filter(|_| !rows.is_empty()));
            lines.extend(rows);
            return lines;
        };
        self.rows = size.rows.saturating_sub(LINES_AROUND).max(1);
        self.top = self.top.min(rows.len().saturating_sub(self.rows));
        let below = rows.len().saturating_sub(self.top + self.rows);
        lines.push(
            seen.fault()
                .map_or_else(String::new, |fault| format!("! no answer: {}", output::name(fault))),
        );
        lines.extend(head);
        lines.extend(rows.into_iter().skip(self.top).take(self.rows));
        if below > 0 {
            lines.push(format!("and {below} more"));
        }
        lines.resize(size.rows.saturating_sub(1).max(1), String::new());
        lines.push(self.last_line());
        // Whatever a name brings along, no line gives the terminal orders.
        lines
            .iter()
            .map(|line| cut(&output::name(line), size.columns))
            .collect()
    }

    fn last_line(&self) -> String {
        if let Some(typed) = &self.typed {
            return format!("filter: {typed}_   (Enter, Escape)");
        }
        let mut words = "q quit  Tab view  / filter  Space pause".to_owned();
        if let Some(sort) = self.sort() {
            words.push_str(&format!("  s sort: {sort}"));
        }
        if !self.filter.is_empty() {
            words.push_str(&format!("  filter: {}", self.filter));
        }
        if self.is_paused {
            words.push_str("  PAUSED");
        }
        words
    }
}

/// The beginning of a line, at most so many columns wide.
fn cut(line: &str, columns: usize) -> String {
    let mut width = 0;
    let fits = |character: &char| {
        width += character.width().unwrap_or(0);
        width <= columns
    };
    line.chars().take_while(fits).collect()
}

fn text(value: &Value) -> String {
    output::name(value.as_str().unwrap_or_default()).into_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
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

/// The sums of the copies, and their table.
fn copies(document: &Value) -> (String, Vec<String>) {
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
    let mut table = Table::new(["STAGE", "MOVED", "%", "RATE", "AGE", "MODE", "WHO", "FROM", "TO"]);
    for copy in list(&document["copies"]) {
        let (bytes, total) = (number(&copy["bytes"]), copy["total_bytes"].as_u64());
        let percent = total
            .filter(|total| *total > 0)
            .map(|total| bytes.saturating_mul(100) / total);
        table.add([
            text(&copy["stage"]).replace('_', " "),
            binary_size(bytes),
            percent.map(|percent| percent.min(100).to_string()).unwrap_or_default(),
            rate(&copy["bytes_per_s"]),
            rough_time(Duration::from_millis(number(&copy["age_ms"]))),
            text(&copy["mode"]),
            text(&copy["who"]),
            text(&copy["from"]),
            text(&copy["to"]),
        ]);
    }
    let mut lines = table.lines();
    let more = number(&document["more"]);
    if more > 0 {
        lines.push(format!("and {more} more at the server"));
    }
    (sums, lines)
}

fn links(document: &Value, filter: &str) -> (String, Vec<String>) {
    let all = list(&document["links"]);
    let sum = |key: &str| all.iter().map(|link| number(&link[key])).sum::<u64>();
    let bytes_per_s: u64 = sum("bytes_per_s");
    let sums = format!(
        "{} copies, {} wait, {} wait for a retry, {}/s",
        sum("active"),
        sum("waiting"),
        sum("delayed"),
        binary_size(bytes_per_s)
    );
    let mut table = Table::new(["ACTIVE", "LIMIT", "WAIT", "RETRY", "RATE", "VO", "FROM", "TO", "WHY"]);
    for link in all {
        let held = &link["held"]["detail"];
        let held = held.is_string().then(|| format!("stands still: {}", text(held)));
        let paused = (link["is_paused"] == true).then(|| "paused".to_owned());
        let why = paused.or(held).unwrap_or_else(|| text(&link["reasons"][0]));
        let row = [
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
        if has(&row, filter) {
            table.add(row);
        }
    }
    (sums, table.lines())
}

fn jobs(document: &Value, filter: &str) -> (String, Vec<String>) {
    let workers = list(&document["workers"]);
    let draining = workers.iter().filter(|worker| worker["is_draining"] == true).count();
    let sums = format!("the newest; {} workers, {draining} draining", workers.len());
    let mut table = Table::new([
        "STATE", "DONE", "FAILED", "OF", "VO", "USER", "JOB", "FROM", "TO", "REASON",
    ]);
    for job in list(&document["jobs"]) {
        let files = &job["files"];
        let row = [
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
        if has(&row, filter) {
            table.add(row);
        }
    }
    (sums, table.lines())
}

fn nodes(document: &Value, filter: &str) -> (String, Vec<String>) {
    let all = list(&document["nodes"]);
    let count = |is: fn(&Value) -> bool| all.iter().filter(|node| is(node)).count();
    let sums = format!(
        "{} of {} nodes answer, {} drained",
        count(|node| node["is_present"] == true),
        all.len(),
        count(|node| node["drain"] != "active")
    );
    let mut table = Table::new(["STATE", "BUSY", "COPIES", "IN", "OUT", "FREE", "SENT", "NODE", "SAYS"]);
    for node in all {
        let load = &node["load"];
        let of_load = |written: &dyn Fn(&Value) -> String, key: &str| match load.is_object() {
            true => written(&load[key]),
            false => String::new(),
        };
        let row = [
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
        if has(&row, filter) {
            table.add(row);
        }
    }
    (sums, table.lines())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        let copy = |number: u64| {
            json!({"transfer_id": format!("t{number}"), "mode": "pull", "who": "jane\u{1b}[2J", "from": "https://a/f",
                "to": format!("/data/f{number}"), "bytes": 1024, "total_bytes": 4096, "bytes_per_s": 2048,
                "age_ms": 61_000, "stage": "first_byte"})
        };
        json!({"totals": {"running": 30, "stalled": 1, "bytes_per_s": 2048}, "copies": (0..30).map(copy).collect::<Vec<_>>(),
            "more": 0, "shares": {"connections": {"in_use": 3, "limit": 10}, "locks": {"in_use": 0, "limit": 5}}})
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let size = Size { columns: 60, rows: 12 };
        let mut view = View::new(vec![Kind::Copies], "");
        let seen = Seen::Fresh(document());
        let lines = view.frame("http://localhost:1", &seen, Some(size));
        assert_eq!(lines.len(), 12);
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() <= 60 && !line.contains('\u{1b}')),
            "{lines:#?}"
        );
        assert!(lines[0].contains("30 running, 1 stalled, 2.0 KiB/s; con"), "{lines:#?}");
        assert!(
            lines[2].starts_with("STAGE") && lines[3].starts_with("first byte"),
            "{lines:#?}"
        );
        assert_eq!(lines[10], "and 23 more");
        for _ in 0..9 {
            view.press(Key::PageDown);
            view.frame("http://localhost:1", &seen, Some(size));
        }
        let wide = Size { columns: 200, rows: 12 };
        let lines = view.frame("http://localhost:1", &seen, Some(wide));
        assert!(lines[9].ends_with("/data/f29") && lines[10].is_empty(), "{lines:#?}");
    }

    #[test]
    fn without_a_terminal_everything_is_there() {
        let mut view = View::new(vec![Kind::Copies], "");
        let lines = view.frame("http://localhost:1", &Seen::Fresh(document()), None);
        assert_eq!(lines.len(), 32);
    }

    #[test]
    fn keys_change_what_is_shown() {
        let mut view = View::new(vec![Kind::Links, Kind::Jobs], "");
        assert_eq!(view.press(Key::Character('\t')), Act::Look);
        assert_eq!(view.kind(), Kind::Jobs);
        assert_eq!(view.press(Key::Character('/')), Act::Draw);
        for key in ['x', 'q', 'y'] {
            assert_eq!(view.press(Key::Character(key)), Act::Draw, "q is text here");
        }
        assert_eq!(view.press(Key::Backspace), Act::Draw);
        assert_eq!(view.press(Key::Enter), Act::Look);
        assert_eq!(view.filter(), "xq");
        view.press(Key::Character('/'));
        view.press(Key::Character('z'));
        view.press(Key::Escape);
        assert_eq!(view.filter(), "xq", "nothing was changed");
        assert_eq!(view.press(Key::Character('q')), Act::Quit);
    }

    #[test]
    fn rows_are_filtered_and_faults_are_said() {
        let link = |source: &str| {
            json!({"source": source, "destination": "d", "vo": "v", "active": 1, "waiting": 2,
            "delayed": 3, "limit": 4, "bytes_per_s": 5, "is_paused": false, "reasons": ["the limit is reached"]})
        };
        let document = json!({"links": [link("one"), link("two")]});
        let mut view = View::new(vec![Kind::Links], "TWO");
        let seen = Seen::Stale(document, "no connection".to_owned());
        let lines = view.frame("s", &seen, Some(Size { columns: 100, rows: 10 }));
        assert!(lines[0].contains("2 copies, 4 wait, 6 wait for a retry"), "{lines:#?}");
        assert_eq!(lines[1], "! no answer: no connection");
        assert!(
            lines[3].contains("two") && lines[3].ends_with("the limit is reached"),
            "{lines:#?}"
        );
        assert!(!lines.iter().any(|line| line.contains("one")), "{lines:#?}");
    }

    #[test]
    fn reasons_of_storages_give_the_terminal_no_orders() {
        let held = json!({"until_ms": 1, "detail": "no space\u{1b}[2J\u{202e}"});
        let document = json!({"links": [{"source": "a", "destination": "b", "held": held}]});
        let mut view = View::new(vec![Kind::Links], "");
        let size = Size { columns: 200, rows: 10 };
        let lines = view.frame("s", &Seen::Fresh(document), Some(size));
        assert!(
            lines[3].ends_with("stands still: no space\\x1b[2J\\u{202e}"),
            "{lines:#?}"
        );
    }
}
