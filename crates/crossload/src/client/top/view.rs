//! Frames: what was seen as lines, and what keys change about them. No terminal is touched here.

use super::fit::{fitting, wrapped};
use super::looks::{Kind, Seen};
use super::orders::{Question, Target};
use super::screen::{Frame, Key, Size};
use super::tables::{Listing, Row, Subject, listing};
use crate::output;

/// Longest text of the filter, in characters.
const FILTER_CHARACTERS_MAX: usize = 100;
/// In which order copies are shown, as the page has it.
const SORTS: [&str; 4] = ["trouble", "rate", "moved", "age"];
/// Lines above the rows: sums, a fault, the head of the table.
const LINES_ABOVE: usize = 3;
/// Most lines of a question or an answer below the rows.
const LINES_SAID_MAX: usize = 6;
/// What keys do.
const KEYS: [&str; 9] = [
    "Tab                    the next view",
    "Up, Down, k, j         select a row; Page Up and Page Down go further",
    "c                      end the selected copy, or cancel the selected job",
    "d                      drain the selected worker, or use it again",
    "/                      show only what has a text in a name",
    "s                      the next order of copies",
    "Space                  stop the screen, and let it go on",
    "q                      quit",
    "c and d ask first. They need the credential of an operator: [web] operators of the server.",
];

/// What a key asks for.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Quit,
    Draw,
    Look,
    /// Asks the server about an order.
    Ask(Target),
    /// Gives an order that was confirmed.
    Order(Question),
}

/// What is shown, and how.
pub(super) struct View {
    kinds: Vec<Kind>,
    shown: usize,
    filter: String,
    /// The filter while it is typed.
    typed: Option<String>,
    sort: usize,
    /// What the rows of the last frame show.
    rows: Vec<Subject>,
    selected: Option<Selected>,
    /// Where the selected row stands, or stood.
    place: usize,
    /// The first row on the screen, and how many fit.
    top: usize,
    height: usize,
    /// The order that waits for a yes.
    asked: Option<Question>,
    /// What has become of the last order, until the next key.
    said: Option<String>,
    shows_keys: bool,
    is_paused: bool,
}

/// The selected row.
#[derive(Clone, Debug)]
struct Selected {
    name: String,
    /// How many rows of this name stand before it: a server may give a name twice, or none.
    twins_before: usize,
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
            rows: Vec::new(),
            selected: None,
            place: 0,
            top: 0,
            height: 1,
            asked: None,
            said: None,
            shows_keys: false,
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

    /// Says something until the next key.
    pub(super) fn say(&mut self, words: String) {
        self.said = Some(words);
    }

    /// Asks for a yes, or says why there is no question.
    pub(super) fn ask(&mut self, question: Result<Question, String>) {
        self.said = None;
        match question {
            Ok(question) => self.asked = Some(question),
            Err(words) => self.say(words),
        }
    }

    pub(super) fn press(&mut self, key: Key) -> Act {
        self.said = None;
        if let Some(question) = self.asked.take() {
            return self.answer(question, key);
        }
        if let Some(typed) = self.typed.take() {
            return self.type_filter(typed, key);
        }
        if std::mem::take(&mut self.shows_keys) {
            return Act::Draw;
        }
        match key {
            Key::Character('q') => Act::Quit,
            Key::Character('?') => {
                self.shows_keys = true;
                Act::Draw
            }
            Key::Character('\t') => {
                self.shown = (self.shown + 1) % self.kinds.len();
                self.begin_again();
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
            Key::Character(key @ ('c' | 'd')) => self.order(key),
            Key::Up | Key::Character('k') => self.step(|place| place.saturating_sub(1)),
            Key::Down | Key::Character('j') => self.step(|place| place + 1),
            Key::PageUp => self.select(self.place.saturating_sub(self.height)),
            Key::PageDown => self.select(self.place + self.height),
            Key::Character(_) | Key::Enter | Key::Escape | Key::Backspace => Act::Draw,
        }
    }

    /// Any key but a yes leaves everything as it is.
    fn answer(&mut self, question: Question, key: Key) -> Act {
        match key {
            Key::Character('y' | 'Y') => Act::Order(question),
            _ => {
                self.say("Nothing was done".to_owned());
                Act::Draw
            }
        }
    }

    fn order(&mut self, key: char) -> Act {
        let selected = self.selected.as_ref().and_then(|_| self.rows.get(self.place));
        match Target::of_key(key, self.kind(), selected) {
            Ok(target) => Act::Ask(target),
            Err(words) => {
                self.say(words);
                Act::Draw
            }
        }
    }

    /// From the selected row to another; without one, to the row where it stood.
    fn step(&mut self, moved: impl Fn(usize) -> usize) -> Act {
        match self.selected {
            Some(_) => self.select(moved(self.place)),
            None => self.select(self.place),
        }
    }

    fn select(&mut self, place: usize) -> Act {
        let place = place.min(self.rows.len().saturating_sub(1));
        if let Some(row) = self.rows.get(place) {
            self.selected = Some(Selected {
                name: row.name.clone(),
                twins_before: self.rows[..place].iter().filter(|other| other.name == row.name).count(),
            });
            self.place = place;
        }
        Act::Draw
    }

    /// Other rows are shown.
    fn begin_again(&mut self) {
        (self.rows, self.selected) = (Vec::new(), None);
        (self.place, self.top) = (0, 0);
    }

    fn type_filter(&mut self, mut typed: String, key: Key) -> Act {
        match key {
            Key::Enter => {
                self.filter = typed;
                self.begin_again();
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

    /// Everything, in full length.
    pub(super) fn print(&self, server: &str, seen: &Seen) -> Vec<String> {
        let found = listing(self.kind(), seen.document(), &self.filter);
        let mut lines = vec![self.first_line(server, &found)];
        if !found.rows.is_empty() {
            lines.push(found.head);
        }
        lines.extend(found.rows.into_iter().map(|row| row.line));
        lines.extend(found.left_out);
        lines
    }

    /// A frame for a terminal of this size.
    pub(super) fn frame(&mut self, server: &str, seen: &Seen, size: Size) -> Frame {
        let found = listing(self.kind(), seen.document(), &self.filter);
        self.follow_selected(&found.rows);
        let below = self.below(size);
        self.height = size.rows.saturating_sub(LINES_ABOVE + 1 + below.len()).max(1);
        self.scroll(found.rows.len());
        let fault = seen.fault();
        let mut lines = vec![
            self.first_line(server, &found),
            fault.map_or_else(String::new, |fault| format!("! no answer: {fault}")),
        ];
        let mut selected = None;
        if self.shows_keys {
            lines.extend(KEYS.map(str::to_owned));
        } else {
            let hidden = found.rows.len().saturating_sub(self.top + self.height);
            selected = self.selected.as_ref().map(|_| LINES_ABOVE + self.place - self.top);
            lines.push(found.head);
            let rows = found.rows.into_iter().skip(self.top).take(self.height);
            lines.extend(rows.map(|row| row.line));
            match hidden {
                0 => lines.extend(found.left_out),
                hidden => lines.push(format!("and {hidden} more")),
            }
        }
        lines.resize(size.rows.saturating_sub(below.len()).max(1), String::new());
        let selected = selected.filter(|line| *line < lines.len());
        lines.extend(below);
        // Whatever a name brings along, no line gives the terminal orders.
        let lines = lines
            .iter()
            .map(|line| fitting(output::name(line).chars(), size.columns));
        Frame {
            lines: lines.collect(),
            selected,
        }
    }

    fn first_line(&self, server: &str, found: &Listing) -> String {
        format!("{server}  {}: {}", self.kind().word(), found.sums)
    }

    /// Finds the selected row among new ones. If it is gone, no other takes its place: an order is
    /// for a row that the operator has chosen.
    fn follow_selected(&mut self, rows: &[Row]) {
        self.rows = rows.iter().map(|row| row.subject.clone()).collect();
        let Some(selected) = &self.selected else { return };
        let places = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.name == selected.name);
        match places.map(|(place, _)| place).take(selected.twins_before + 1).last() {
            Some(place) => self.place = place,
            None => {
                self.selected = None;
                self.said
                    .get_or_insert_with(|| "The selected row is no longer in this list".to_owned());
            }
        }
    }

    /// Scrolls to the selected row, or where it stood.
    fn scroll(&mut self, rows: usize) {
        self.place = self.place.min(rows.saturating_sub(1));
        if self.place < self.top {
            self.top = self.place;
        }
        if self.place >= self.top + self.height {
            self.top = self.place + 1 - self.height;
        }
        self.top = self.top.min(rows.saturating_sub(self.height));
    }

    /// The lines below the rows: a question, what was said, or the keys.
    fn below(&self, size: Size) -> Vec<String> {
        let lines_max = (size.rows / 2).clamp(1, LINES_SAID_MAX);
        let words = match (&self.typed, &self.asked, &self.said) {
            (Some(typed), _, _) => format!("filter: {typed}_   (Enter, Escape)"),
            (_, Some(question), _) => question.words(size.columns.saturating_mul(lines_max)),
            (_, _, Some(said)) => said.clone(),
            _ => return vec![self.last_line()],
        };
        let mut lines = wrapped(&output::name(&words), size.columns);
        lines.truncate(lines_max);
        lines
    }

    fn last_line(&self) -> String {
        let mut words = "? keys  q quit  Tab view".to_owned();
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::orders::tests::about_copy;
    use super::*;

    /// Copies by their numbers, in this order.
    fn copies(numbers: &[u64]) -> Seen {
        let copy = |number: &u64| {
            json!({"transfer_id": format!("t{number}"), "mode": "pull", "who": "jane\u{1b}[2J", "from": "https://a/f",
                "to": format!("/data/f{number}"), "bytes": 1024, "total_bytes": 4096, "bytes_per_s": 2048,
                "age_ms": 61_000, "stage": "first_byte"})
        };
        Seen::Fresh(json!({"totals": {"running": 30, "stalled": 1, "bytes_per_s": 2048},
            "copies": numbers.iter().map(copy).collect::<Vec<_>>(), "more": 0,
            "shares": {"connections": {"in_use": 3, "limit": 10}, "locks": {"in_use": 0, "limit": 5}}}))
    }

    fn thirty() -> Seen {
        copies(&(0..30).collect::<Vec<_>>())
    }

    const SIZE: Size = Size { columns: 60, rows: 12 };
    const WIDE: Size = Size { columns: 200, rows: 12 };

    fn frame_of(view: &mut View, seen: &Seen, size: Size) -> Frame {
        let frame = view.frame("http://localhost:1", seen, size);
        assert_eq!(frame.lines.len(), size.rows, "{frame:#?}");
        let fits = |line: &String| line.chars().count() <= size.columns && !line.contains('\u{1b}');
        assert!(frame.lines.iter().all(fits), "{frame:#?}");
        frame
    }

    /// The line of the selected row.
    fn selected(frame: &Frame) -> &str {
        frame.selected.map_or("", |line| &frame.lines[line])
    }

    fn target(act: Act) -> Target {
        match act {
            Act::Ask(target) => target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let mut view = View::new(vec![Kind::Copies], "");
        let seen = thirty();
        let lines = frame_of(&mut view, &seen, SIZE).lines;
        assert!(lines[0].ends_with("30 running, 1 stalled, 2.0 KiB/s"), "{lines:#?}");
        assert!(
            lines[2].starts_with("STAGE") && lines[3].starts_with("first byte"),
            "{lines:#?}"
        );
        assert_eq!(lines[10], "and 23 more");
        for _ in 0..9 {
            view.press(Key::PageDown);
            frame_of(&mut view, &seen, SIZE);
        }
        let last = frame_of(&mut view, &seen, WIDE);
        assert!(
            last.lines[9].ends_with("/data/f29") && last.lines[10].is_empty(),
            "{last:#?}"
        );
        assert_eq!(last.selected, Some(9));
        for rows in 1..6 {
            view.press(Key::Character('?'));
            let frame = view.frame("s", &seen, Size { columns: 9, rows });
            assert!(frame.lines.len() <= rows.max(2), "{frame:#?}");
        }
    }

    #[test]
    fn without_a_terminal_everything_is_there() {
        let view = View::new(vec![Kind::Copies], "");
        let lines = view.print("http://localhost:1", &thirty());
        assert_eq!(lines.len(), 32);
    }

    #[test]
    fn keys_change_what_is_shown() {
        let mut view = View::new(vec![Kind::Links, Kind::Jobs], "");
        assert!(matches!(view.press(Key::Character('\t')), Act::Look));
        assert_eq!(view.kind(), Kind::Jobs);
        assert!(matches!(view.press(Key::Character('/')), Act::Draw));
        for key in ['x', 'q', 'c', 'y', '?'] {
            let act = view.press(Key::Character(key));
            assert!(matches!(act, Act::Draw), "{key} is text here");
        }
        for _ in 0..3 {
            assert!(matches!(view.press(Key::Backspace), Act::Draw));
        }
        assert!(matches!(view.press(Key::Enter), Act::Look));
        assert_eq!(view.filter(), "xq");
        view.press(Key::Character('/'));
        view.press(Key::Character('z'));
        view.press(Key::Escape);
        assert_eq!(view.filter(), "xq", "nothing was changed");
        view.press(Key::Character('?'));
        let lines = view.frame("s", &thirty(), WIDE).lines;
        assert!(lines.iter().any(|line| line.starts_with("c  ")), "{lines:#?}");
        assert!(
            matches!(view.press(Key::Character('q')), Act::Draw),
            "it hides the keys"
        );
        assert!(matches!(view.press(Key::Character('q')), Act::Quit));
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
        let lines = view.frame("s", &seen, Size { columns: 100, rows: 10 }).lines;
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
        let lines = frame_of(&mut view, &Seen::Fresh(document), WIDE).lines;
        assert!(
            lines[3].ends_with("stands still: no space\\x1b[2J\\u{202e}"),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_selection_follows_its_row() {
        let mut view = View::new(vec![Kind::Copies], "");
        assert_eq!(frame_of(&mut view, &copies(&[1, 2, 3]), WIDE).selected, None);
        view.press(Key::Down);
        view.press(Key::Character('j'));
        assert!(selected(&frame_of(&mut view, &copies(&[1, 2, 3]), WIDE)).ends_with("/data/f2"));
        // Others end before it, begin before it, and change places with it.
        for others in [&[2, 3][..], &[9, 8, 7, 2], &[3, 2, 1]] {
            let frame = frame_of(&mut view, &copies(others), WIDE);
            assert!(selected(&frame).ends_with("/data/f2"), "{frame:#?}");
            let act = view.press(Key::Character('c'));
            assert_eq!(target(act), Target::Copy("t2".to_owned()));
        }
        // Far down, the screen goes with it.
        let far: Vec<u64> = (10..40).chain([2]).collect();
        assert!(selected(&frame_of(&mut view, &copies(&far), WIDE)).ends_with("/data/f2"));
        // Once it is gone no other row is selected in its place.
        let frame = frame_of(&mut view, &copies(&[1, 3]), WIDE);
        assert_eq!(frame.selected, None, "{frame:#?}");
        assert!(
            frame.lines.iter().any(|line| line.contains("no longer in this list")),
            "{frame:#?}"
        );
        assert!(matches!(view.press(Key::Character('c')), Act::Draw));
        let frame = frame_of(&mut view, &copies(&[1, 3]), WIDE);
        assert!(
            frame.lines.iter().any(|line| line.contains("Select a row first")),
            "{frame:#?}"
        );
        view.press(Key::Up);
        assert!(selected(&frame_of(&mut view, &copies(&[1, 3]), WIDE)).ends_with("/data/f3"));
        view.press(Key::Up);
        view.press(Key::Up);
        assert!(selected(&frame_of(&mut view, &copies(&[1, 3]), WIDE)).ends_with("/data/f1"));
        view.press(Key::Down);
        frame_of(&mut view, &copies(&[]), WIDE);
        view.press(Key::Down);
        assert_eq!(frame_of(&mut view, &copies(&[]), WIDE).selected, None);
    }

    #[test]
    fn rows_of_one_name_are_selected_one_after_the_other() {
        let mut view = View::new(vec![Kind::Copies], "");
        let copy = |id: &str, to: &str| json!({"transfer_id": id, "to": to});
        let seen = |copies: &[Value]| Seen::Fresh(json!({ "copies": copies }));
        let all = [copy("t1", "/a"), copy("t1", "/b"), copy("", "/c"), copy("", "/d")];
        frame_of(&mut view, &seen(&all), WIDE);
        for expected in ["/a", "/b", "/c", "/d"] {
            view.press(Key::Down);
            for _ in 0..2 {
                let frame = frame_of(&mut view, &seen(&all), WIDE);
                assert!(selected(&frame).ends_with(expected), "{expected}: {frame:#?}");
            }
        }
        // One of two ends; the other keeps the selection.
        assert!(selected(&frame_of(&mut view, &seen(&all[..3]), WIDE)).ends_with("/c"));
        view.press(Key::Up);
        let frame = frame_of(&mut view, &seen(&all[..3]), WIDE);
        assert!(selected(&frame).ends_with("/b"), "{frame:#?}");
    }

    #[test]
    fn an_order_needs_a_yes_and_is_for_the_row_that_was_asked_about() {
        let mut view = View::new(vec![Kind::Copies], "");
        let seen = copies(&[1, 2]);
        frame_of(&mut view, &seen, SIZE);
        view.press(Key::Down);
        for refused in [
            Key::Character('n'),
            Key::Character('q'),
            Key::Escape,
            Key::Enter,
            Key::Down,
        ] {
            assert_eq!(target(view.press(Key::Character('c'))), Target::Copy("t1".to_owned()));
            view.ask(Ok(about_copy("t1", "https://far/f")));
            let lines = frame_of(&mut view, &seen, SIZE).lines.concat();
            assert!(lines.contains("End the copy t1? (y/n) ordered by jane"), "{lines}");
            assert!(lines.ends_with("to /data/f"), "all of it is there: {lines}");
            assert!(matches!(view.press(refused), Act::Draw), "{refused:?}");
            let last = frame_of(&mut view, &seen, SIZE).lines.pop();
            assert_eq!(last.as_deref(), Some("Nothing was done"));
        }
        view.ask(Ok(about_copy("t1", "https://far/f")));
        // Its row ends meanwhile, and another stands there.
        let lines = frame_of(&mut view, &copies(&[2]), SIZE).lines.concat();
        assert!(lines.contains("End the copy t1?"), "{lines}");
        match view.press(Key::Character('y')) {
            Act::Order(question) => assert!(question.words(500).contains("End the copy t1?")),
            other => panic!("{other:?}"),
        }
        view.ask(Err("Refused: \u{1b}[2J".to_owned()));
        let last = frame_of(&mut view, &seen, SIZE).lines.pop();
        assert_eq!(last.as_deref(), Some("Refused: \\x1b[2J"));
        assert!(
            matches!(view.press(Key::Character('y')), Act::Draw),
            "there is no question"
        );
    }

    #[test]
    fn a_worker_is_drained_or_used_again() {
        let worker = |is_draining: bool| -> Value {
            json!({"workers": [{"name": "w", "active": 1, "is_draining": is_draining, "is_lost": false}]})
        };
        let mut view = View::new(vec![Kind::Workers], "");
        view.frame("s", &Seen::Fresh(worker(false)), WIDE);
        view.press(Key::Down);
        for is_draining in [false, true] {
            view.frame("s", &Seen::Fresh(worker(is_draining)), WIDE);
            let (name, drains) = ("w".to_owned(), !is_draining);
            let found = target(view.press(Key::Character('d')));
            assert_eq!(found, Target::Worker { name, drains });
        }
    }
}
