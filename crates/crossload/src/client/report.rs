//! Output of `copy`: a bar on a terminal, lines elsewhere, JSON for programs.

use std::collections::HashSet;
use std::future::Future;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use transfer::Progress;
use transfer::limits::LEARNED_SERVERS_MAX;
use transfer::route::{Attempted, Plan, Way};
use types::{Error, Location, binary_size};

use super::bar::Bar;
use super::copy::{NotCompared, Reason};
use super::place::Place;
use super::show::{binary_rate, counted};
use super::totals::{Count, Snapshot, Totals};
use crate::command_line::Common;
use crate::failure::{Failure, Reader, describe};
use crate::output;
use storage::local::Unfit;

/// Interval at which a bar is redrawn.
const BAR_PERIOD: Duration = Duration::from_millis(200);
/// Interval of progress events in JSON.
const JSON_PERIOD: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Bar,
    Lines,
    Json,
    Quiet,
}

/// Prints the progress and results of one command.
pub(crate) struct Report {
    style: Style,
    is_payload_on_stdout: bool,
    verbose: bool,
    /// There may be several files, so their names and the totals are shown.
    is_batch: bool,
    /// The bar of the file, or of all files, on a terminal.
    bar: Option<Bar>,
    /// Failures of ways that the user has read.
    read_failures: Mutex<HashSet<String>>,
    /// What takes the events in JSON; without it, they are printed.
    listener: Option<Listener>,
}

/// Takes the events of a copy. It may block the thread, so that a slow reader slows the copy.
pub(crate) type Listener = Arc<dyn Fn(Value) + Send + Sync>;

/// Where a file comes from, and where it goes.
pub(crate) struct Places<'a> {
    pub(crate) source: &'a Place,
    pub(crate) destination: &'a Place,
}

/// A successful copy.
pub(crate) struct Done<'a> {
    pub(crate) source: &'a Place,
    pub(crate) destination: &'a Place,
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    pub(crate) way: Way,
    /// The checksum that both sides have, or why none was compared.
    pub(crate) verified: Result<String, NotCompared>,
}

impl Report {
    /// Chooses the style. Nothing is printed on standard output when the payload goes there, or
    /// with `--quiet`.
    pub(crate) fn new(common: &Common, quiet: bool, payload_on_stdout: bool, is_batch: bool) -> Self {
        let style = match (payload_on_stdout || quiet, common.json) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Json,
            (false, false) if std::io::stderr().is_terminal() && std::io::stdout().is_terminal() => Style::Bar,
            (false, false) => Style::Lines,
        };
        Self {
            style,
            is_payload_on_stdout: payload_on_stdout,
            verbose: common.verbose > 0,
            is_batch,
            bar: (style == Style::Bar).then(Bar::new),
            read_failures: Mutex::default(),
            listener: None,
        }
    }

    /// The same, whose events in JSON go to the listener, if there is one.
    pub(crate) fn heard_by(self, listener: Option<&Listener>) -> Self {
        Self {
            listener: listener.cloned(),
            ..self
        }
    }

    fn event(&self, name: &str, mut body: Value) {
        body["event"] = name.into();
        match &self.listener {
            Some(listener) => listener(body),
            None => output::json(&body),
        }
    }

    /// Prints a line on standard output, above the bar.
    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::line(text)),
            None => output::line(text),
        }
    }

    /// Prints a line on standard error, above the bar.
    pub(crate) fn complain(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::complain(text)),
            None => output::complain(text),
        }
    }

    /// A copy begins; its requests belong to this trace.
    pub(crate) fn start(&self, source: &Place, destination: &Place, bytes: Option<u64>, trace: &str) {
        match self.style {
            Style::Json => {
                let (source, destination) = (source.to_string(), destination.to_string());
                self.event(
                    "start",
                    json!({"source": source, "destination": destination, "bytes": bytes, "trace": trace}),
                );
            }
            // A bar shows all files.
            Style::Bar if self.is_batch => {}
            Style::Lines | Style::Bar => {
                let size = bytes.map_or_else(|| "? bytes".to_owned(), |bytes| counted(bytes, "byte", "bytes"));
                self.line(&format!("Copying {size} {source} => {destination}"));
            }
            Style::Quiet => {}
        }
    }

    /// Runs a copy and shows its progress, unless that of all files is shown.
    pub(crate) async fn watch<T>(&self, progress: &Progress, copy: impl Future<Output = T>) -> T {
        if self.is_batch {
            return copy.await;
        }
        if let Some(bar) = &self.bar {
            bar.begin();
        }
        let result = self.regularly(copy, || self.show(progress)).await;
        self.end_bar();
        result
    }

    fn end_bar(&self) {
        if let Some(bar) = &self.bar {
            bar.end();
        }
    }

    /// Runs all copies and shows their progress, if there may be several.
    pub(crate) async fn watch_all<T>(&self, totals: &Totals, copies: impl Future<Output = T>) -> T {
        if !self.is_batch {
            return copies.await;
        }
        let result = self.regularly(copies, || self.show_all(&totals.snapshot())).await;
        self.end_bar();
        result
    }

    /// Runs `work`, and calls `show` from time to time.
    async fn regularly<T>(&self, work: impl Future<Output = T>, show: impl Fn()) -> T {
        let period = match self.style {
            Style::Bar => BAR_PERIOD,
            _ => JSON_PERIOD,
        };
        let mut clock = tokio::time::interval(period);
        clock.tick().await;
        tokio::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = clock.tick() => show(),
            }
        }
    }

    fn show_all(&self, now: &Snapshot) {
        let (found_files, found_bytes) = (now.found_files, now.found_bytes);
        if let Some(bar) = &self.bar {
            bar.show_total(now);
        } else if self.style == Style::Json {
            self.event(
                "total",
                json!({"files": now.count.files, "failed": now.count.failed, "skipped": now.count.skipped, "left_out": now.count.left_out,
                    "bytes": now.moved_bytes, "found_files": found_files, "found_bytes": found_bytes,
                    "search_over": now.is_search_over, "seconds": now.elapsed.as_secs_f64(),
                    "bytes_per_s": now.bytes_per_s(), "left_s": now.left().map(|left| left.as_secs())}),
            );
        }
    }

    fn show(&self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.show_file(progress);
        } else if self.style == Style::Json {
            self.event(
                "progress",
                json!({"bytes": progress.moved_bytes(), "total": progress.total_bytes(),
                "phase": progress.phase().name()}),
            );
        }
    }

    /// One way between the servers of a file failed; `next` is tried now. The same failure between
    /// the same servers is printed once.
    pub(crate) fn mode_failed(&self, file: &Places<'_>, way: Way, error: &Error, next: Way) {
        let (mode, next) = (way.name(), next.name());
        match self.style {
            Style::Json => self.event(
                "mode_failed",
                json!({"source": file.source.to_string(), "mode": mode, "next": next, "error": error_json(error)}),
            ),
            Style::Quiet => {}
            Style::Bar | Style::Lines => {
                let kind = [mode, error.code().name(), error.side().name()].join(" ");
                let is_new = self.is_new(file, &kind);
                let others = match self.is_batch && is_new {
                    true => " (further failures of this kind are not shown)",
                    false => "",
                };
                let words = format!("{mode} failed: {}; trying {next}{others}", error.public());
                match is_new {
                    true => self.complain(&words),
                    false => self.note(&words),
                }
            }
        }
    }

    /// Whether this kind of failure is new between the servers of a file.
    fn is_new(&self, file: &Places<'_>, kind: &str) -> bool {
        self.is_new_failure([file.source.server(), file.destination.server(), kind.to_owned()].join(" "))
    }

    fn is_new_failure(&self, kind: String) -> bool {
        let mut read = self.read_failures.lock().unwrap_or_else(PoisonError::into_inner);
        read.len() < LEARNED_SERVERS_MAX && read.insert(kind)
    }

    /// The server that made a copy was lost, but the destination has the whole file.
    pub(crate) fn found_whole(&self, destination: &Location, lost: &Error) {
        match self.style {
            Style::Json => self.event(
                "found_whole",
                json!({"destination": destination.to_string(), "error": error_json(lost)}),
            ),
            Style::Quiet => {}
            Style::Bar | Style::Lines => self.complain(&format!(
                "{}; {destination} has the whole file, with the source's checksum",
                lost.public()
            )),
        }
    }

    /// The active server got no proxy although the user asked to delegate one.
    pub(crate) fn without_proxy(&self, source: &Place, why: &str) {
        match self.style {
            Style::Json => self.event("not_delegated", json!({"source": source.to_string(), "message": why})),
            Style::Bar | Style::Lines if self.is_new_failure(why.to_owned()) => self.complain(why),
            Style::Bar | Style::Lines | Style::Quiet => {}
        }
    }

    /// A copy has succeeded.
    pub(crate) fn done(&self, done: &Done<'_>) {
        let seconds = done.elapsed.as_secs_f64();
        match self.style {
            Style::Bar if self.is_batch => {}
            Style::Json => self.event(
                "done",
                json!({"source": done.source.to_string(), "destination": done.destination.to_string(),
                    "bytes": done.bytes, "seconds": seconds, "mode": done.way.name(),
                    "verified": done.verified.as_ref().ok(),
                    "unverified": done.verified.as_ref().err().map(|why| why.name())}),
            ),
            Style::Lines | Style::Bar => {
                let rate = binary_rate(done.bytes, done.elapsed);
                let verified = match &done.verified {
                    Ok(sum) => format!(", {sum}"),
                    Err(why) => format!(", checksum not compared: {}", why.words()),
                };
                // Lines of files that are copied at the same time are mixed.
                let name = match self.is_batch {
                    true => format!("{}: ", done.destination),
                    false => String::new(),
                };
                self.line(&format!(
                    "[DONE] {name}{} in {seconds:.1} s, {rate}, {}{verified}",
                    counted(done.bytes, "byte", "bytes"),
                    done.way.name()
                ));
            }
            Style::Quiet => {}
        }
    }

    /// No checksum of a file was compared. Only the first of several with this reason is named.
    pub(crate) fn unverified(&self, destination: &Place, why: NotCompared) {
        let others = if self.is_batch { ", and perhaps of others," } else { "" };
        if matches!(self.style, Style::Lines | Style::Bar) {
            let words = why.words();
            self.complain(&format!(
                "no checksum of {destination}{others} was compared: {words}; --verify required makes this an error"
            ));
        }
    }

    /// Files were skipped by size and time alone. The option copies them.
    pub(crate) fn skipped_unverified(&self, count: u64, option: &str) {
        if count > 0 && matches!(self.style, Style::Lines | Style::Bar) {
            let (files, them) = match count {
                1 => ("1 file was".to_owned(), "it"),
                _ => (format!("{count} files were"), "them"),
            };
            self.complain(&format!(
                "{files} skipped by size and time alone, since no checksum could be compared; {option} copies {them}"
            ));
        }
    }

    /// A copy has failed.
    pub(crate) fn failed(&self, source: &str, error: &Error) {
        if self.is_payload_on_stdout && !output::has_reader() {
            return;
        }
        if self.style == Style::Json {
            self.event("failed", json!({"source": source, "error": error_json(error)}));
        } else if self.style != Style::Quiet {
            self.line(&format!("[FAILED] {}", output::name(source)));
        }
        if self.listener.is_none() {
            self.complain(&format!("crossload copy error: {}", describe(error)));
        }
    }

    /// The command was stopped for a reason while it copied a file.
    pub(crate) fn stopped(&self, source: &Place, error: &Error, reason: &Failure) {
        match self.style {
            Style::Json => self.event(
                "failed",
                json!({"source": source.to_string(), "error": stopped_json(error, reason)}),
            ),
            Style::Lines => self.line(&format!("[CANCELED] {}", output::name(&source.to_string()))),
            Style::Bar | Style::Quiet => {}
        }
    }

    /// The command failed before it found anything. In words, the caller prints the error.
    pub(crate) fn not_begun(&self, source: &str, error: &Error, is_dry: bool) {
        if self.style == Style::Json {
            self.event("failed", json!({"source": source, "error": error_json(error)}));
            let totals = Totals::default();
            totals.add(|count| count.failed += 1);
            self.summary(&totals.snapshot(), is_dry);
        }
    }

    /// A symbolic link was copied.
    pub(crate) fn linked(&self, source: &Place, destination: &Place) {
        match self.style {
            Style::Json => self.event(
                "link",
                json!({"source": source.to_string(), "destination": destination.to_string()}),
            ),
            Style::Lines => self.line(&format!("[DONE] {destination}: symbolic link")),
            Style::Bar | Style::Quiet => {}
        }
    }

    /// An entry of the destination was deleted, or would be.
    pub(crate) fn deleted(&self, place: &Place, is_dry: bool) {
        let (name, words) = match is_dry {
            true => ("would_delete", "Would delete"),
            false => ("deleted", "[DELETED]"),
        };
        match self.style {
            Style::Json => self.event(name, json!({"destination": place.to_string()})),
            Style::Bar | Style::Quiet if !is_dry => {}
            _ => self.line(&format!("{words} {place}")),
        }
    }

    /// A file has failed, and is copied again after a pause.
    pub(crate) fn retried(&self, source: &Place, error: &Error, pause: Duration) {
        let seconds = pause.as_secs();
        match self.style {
            Style::Json => self.event(
                "retry",
                json!({"source": source.to_string(), "error": error_json(error), "pause_s": seconds}),
            ),
            Style::Quiet => {}
            Style::Bar | Style::Lines => {
                self.complain(&format!("{source} failed: {}; again in {seconds} s", error.public()));
            }
        }
    }

    /// A file is at the destination already, and is not copied.
    pub(crate) fn skipped(&self, source: &Place, destination: &Place, why: Reason) {
        match self.style {
            Style::Json => self.event(
                "skipped",
                json!({"source": source.to_string(), "destination": destination.to_string(), "reason": why.name()}),
            ),
            _ => self.note(&format!("skipped {destination}: {}", why.words())),
        }
    }

    /// An entry of a tree is not copied.
    pub(crate) fn left_out(&self, source: &str, why: Unfit) {
        if self.style == Style::Json {
            let message = why.words();
            self.event(
                "left_out",
                json!({"source": source, "reason": why.name(), "message": message}),
            );
        }
        self.complain(&format!("left out {}: {}", output::name(source), why.words()));
    }

    /// A detail, printed with `--verbose`.
    pub(crate) fn note(&self, words: &str) {
        if self.verbose {
            self.complain(words);
        }
    }

    /// What would be done without `--dry-run`, and by which way.
    pub(crate) fn would(&self, what: &str, source: &Place, destination: &Place, plan: Option<&Plan>) {
        match self.style {
            Style::Json => self.event(
                "would",
                json!({"what": what, "source": source.to_string(), "destination": destination.to_string(),
                    "plan": plan}),
            ),
            _ => {
                let by = plan.map_or_else(String::new, |plan| format!(" by {plan}"));
                self.line(&format!("Would {what} {source} => {destination}{by}"));
            }
        }
    }

    /// The ways that were tried for a failed file, if there was more than one.
    pub(crate) fn tried(&self, source: &Place, plan: &Plan) {
        let attempted = plan.attempted();
        if attempted.len() < 2 {
            return;
        }
        if self.style == Style::Json {
            self.event("tried", json!({"source": source.to_string(), "attempts": attempted}));
            return;
        }
        let each: Vec<String> = attempted
            .iter()
            .map(|Attempted { way, error }| {
                format!("{} ({} at the {})", way.name(), error.code.name(), error.side.name())
            })
            .collect();
        self.complain(&format!("tried {}", each.join(", then ")));
    }

    /// The totals at the end; with `is_dry`, of what would have been done.
    pub(crate) fn summary(&self, end: &Snapshot, is_dry: bool) {
        let Count {
            files,
            failed,
            skipped,
            skipped_unverified,
            left_out,
            deleted,
            unverified,
            bytes,
        } = end.count;
        match self.style {
            Style::Json => {
                let seconds = end.elapsed.as_secs_f64();
                self.event(
                    "summary",
                    json!({"files": files, "failed": failed, "skipped": skipped,
                        "skipped_unverified": skipped_unverified, "left_out": left_out, "deleted": deleted,
                        "unverified": unverified, "bytes": bytes, "seconds": seconds}),
                );
            }
            // Nothing else says that the only file was skipped.
            Style::Lines | Style::Bar if skipped == 1 || files + failed + skipped + left_out + deleted > 1 => {
                let copied = counted(files, "file", "files");
                let (mut line, deletions) = match is_dry {
                    true => (format!("{copied} would be copied, {failed} failed"), "would be deleted"),
                    false => {
                        let size = binary_size(bytes);
                        (format!("{copied} copied ({size}), {failed} failed"), "deleted")
                    }
                };
                for (count, what) in [
                    (skipped, "skipped"),
                    (left_out, "left out"),
                    (deleted, deletions),
                    (unverified, "without a checksum to compare"),
                ] {
                    if count > 0 {
                        line.push_str(&format!(", {count} {what}"));
                    }
                }
                self.line(&line);
            }
            _ => {}
        }
    }
}

/// A failure, as JSON.
pub(crate) fn error_json(error: &Error) -> Value {
    let failure = Failure::from(error.clone());
    json!({"code": error.code().name(), "exit_code": failure.exit_code, "side": error.side().name(),
        "phase": error.phase().name(), "message": error.public(), "next": failure.next(Reader::User),
        "retry": error.retry()})
}

/// The end of a copy by Ctrl-C or `--timeout`, as JSON: what the command itself says of it.
fn stopped_json(error: &Error, reason: &Failure) -> Value {
    let words = reason
        .words
        .split_once(" - ")
        .map_or(&*reason.words, |(_, words)| words);
    let mut body = error_json(error);
    body["exit_code"] = reason.exit_code.into();
    body["message"] = words.into();
    body["next"] = reason.next(Reader::User).into();
    body
}
