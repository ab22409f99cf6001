//! The bar that shows on a terminal how far a copy is.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use transfer::Progress;
use types::binary_size;

use super::show::{binary_rate, rough_time};
use super::totals::Snapshot;

/// How long a file is copied before its rate is shown.
const RATE_SHOWN_AFTER: Duration = Duration::from_secs(1);
/// The width of the bar is what the words leave of the line.
const TEMPLATE: &str = "{prefix} {wide_bar} {msg}";

/// The bar of one file, or of all files of a command.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// It is drawn with the first words.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Begins again, after an end.
    pub(crate) fn begin(&self) {
        self.0.reset();
    }

    /// Wipes the bar away.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }

    /// Wipes the bar away while something is printed.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Shows how far one file is.
    pub(crate) fn show_file(&self, progress: &Progress) {
        self.draw(file_words(progress), progress.moved_bytes(), progress.total_bytes());
    }

    /// Shows how far all files are.
    pub(crate) fn show_total(&self, now: &Snapshot) {
        self.draw(total_words(now), now.moved_bytes, Some(now.found_bytes));
    }

    fn draw(&self, words: AroundBar, moved_bytes: u64, total_bytes: Option<u64>) {
        self.0.set_prefix(words.before);
        self.0.set_message(words.behind);
        if let Some(total) = total_bytes {
            self.0.set_length(total);
        }
        self.0.set_position(moved_bytes);
    }
}

/// What stands around a bar.
struct AroundBar {
    before: String,
    behind: String,
}

/// How far one file is. Neither its rate nor the time left is known at the beginning.
fn file_words(progress: &Progress) -> AroundBar {
    let (moved, total, elapsed) = (progress.moved_bytes(), progress.total_bytes(), progress.elapsed());
    let mut behind = binary_size(moved);
    if let Some(total) = total {
        behind.push_str(&format!(" of {}", binary_size(total)));
    }
    if moved > 0 && elapsed >= RATE_SHOWN_AFTER {
        behind.push_str(&format!(", {}", binary_rate(moved, elapsed)));
        if let Some(total) = total {
            let left = elapsed.mul_f64(total.saturating_sub(moved) as f64 / moved as f64);
            behind.push_str(&format!(", {} left", rough_time(left)));
        }
    }
    AroundBar {
        before: progress.phase().name().to_owned(),
        behind,
    }
}

/// How far all files are. While directories are still being listed, what is known says so.
fn total_words(now: &Snapshot) -> AroundBar {
    let more = if now.is_search_over { "" } else { "+" };
    let (ended, files) = (now.ended_files(), now.found_files);
    let noun = if files == 1 && now.is_search_over {
        "file"
    } else {
        "files"
    };
    let (moved, found) = (binary_size(now.moved_bytes), binary_size(now.found_bytes));
    let mut behind = format!("{moved} of {found}{more}");
    if now.moved_bytes > 0 {
        behind.push_str(&format!(", {}", binary_rate(now.moved_bytes, now.copying)));
    }
    match now.left() {
        Some(left) => behind.push_str(&format!(", {} left", rough_time(left))),
        None if !now.is_search_over => behind.push_str(", listing"),
        None => {}
    }
    AroundBar {
        before: format!("{ended} of {files}{more} {noun}"),
        behind,
    }
}

#[cfg(test)]
mod tests {
    use super::super::totals::Totals;
    use super::*;

    #[test]
    fn totals_say_whether_more_may_come() {
        let totals = Totals::default();
        let around = || {
            let AroundBar { before, behind } = total_words(&totals.snapshot());
            (before, behind)
        };
        let pair = |before: &str, behind: &str| (before.to_owned(), behind.to_owned());
        totals.count_found(Some(1_300_000));
        assert_eq!(around(), pair("0 of 1+ files", "0 B of 1.2 MiB+, listing"));
        totals.end_search();
        assert_eq!(around(), pair("0 of 1 file", "0 B of 1.2 MiB"));
        totals.skip(Some(1_300_000), false);
        assert_eq!(around(), pair("1 of 1 file", "0 B of 0 B"));
    }

    #[test]
    fn a_file_of_unknown_size_has_no_time_left() {
        let progress = Progress::new();
        progress.add_moved(1536);
        assert_eq!(file_words(&progress).behind, "1.5 KiB");
        progress.set_total(3072);
        assert_eq!(
            file_words(&progress).behind,
            "1.5 KiB of 3.0 KiB",
            "too early for a rate"
        );
    }
}
