//! A view of the running copies: which of them, and in which order.

use std::cmp::{Ordering, Reverse};

use serde::Serialize;

use crate::copies::{CopyNow, RunningCopies};
use crate::limits::{FILTER_CHARACTERS_MAX, ROWS_SHOWN_MAX};
use crate::words::Words;

/// In which order copies are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Sort {
    /// Those that stand still first, then the oldest.
    #[default]
    Trouble,
    /// The oldest first.
    Age,
    /// The fastest first.
    Rate,
    /// The slowest first.
    Slow,
    /// What has moved most first.
    Moved,
    Who,
    From,
    To,
}

impl Sort {
    pub(crate) const ALL: [Self; 8] = [
        Self::Trouble,
        Self::Age,
        Self::Rate,
        Self::Slow,
        Self::Moved,
        Self::Who,
        Self::From,
        Self::To,
    ];

    /// The word in URLs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Age => "age",
            Self::Rate => "rate",
            Self::Slow => "slow",
            Self::Moved => "moved",
            Self::Who => "who",
            Self::From => "from",
            Self::To => "to",
        }
    }

    /// The words on the page.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Trouble => "stalled first, then oldest",
            Self::Age => "oldest first",
            Self::Rate => "fastest first",
            Self::Slow => "slowest first",
            Self::Moved => "most bytes first",
            Self::Who => "who",
            Self::From => "from",
            Self::To => "to",
        }
    }

    fn compare(self, one: &CopyNow, other: &CopyNow) -> Ordering {
        let oldest = other.age.cmp(&one.age);
        let order = match self {
            Self::Trouble => Reverse(one.is_stalled()).cmp(&Reverse(other.is_stalled())),
            Self::Age => Ordering::Equal,
            Self::Rate => other.bytes_per_s.cmp(&one.bytes_per_s),
            Self::Slow => one.bytes_per_s.cmp(&other.bytes_per_s),
            Self::Moved => other.bytes.cmp(&one.bytes),
            Self::Who => one.facts.who.cmp(&other.facts.who),
            Self::From => one.facts.from.cmp(&other.facts.from),
            Self::To => one.facts.to.cmp(&other.facts.to),
        };
        order.then(oldest).then_with(|| one.facts.id.cmp(&other.facts.id))
    }
}

/// What a page shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct View {
    /// As it was typed.
    pub(crate) filter: Words,
    pub(crate) sort: Sort,
    /// Whether copies can be canceled from it.
    pub(crate) for_operator: bool,
}

impl View {
    /// The same for a client that is an operator or not.
    pub(crate) fn for_operator(self, is_operator: bool) -> Self {
        Self {
            for_operator: is_operator,
            ..self
        }
    }

    /// Reads the query of a page: `q` and `sort`. What is not understood has no effect.
    pub(crate) fn read(query: Option<&str>) -> Self {
        let mut view = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match name.as_ref() {
                "q" => {
                    let text: String = value.trim().chars().take(FILTER_CHARACTERS_MAX).collect();
                    view.filter = text.into();
                }
                "sort" => {
                    let known = Sort::ALL.into_iter().find(|sort| sort.word() == value);
                    view.sort = known.unwrap_or_default();
                }
                _ => {}
            }
        }
        view
    }

    /// The query of this view.
    pub(crate) fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("q", self.filter.raw());
        query.append_pair("sort", self.sort.word());
        query.finish()
    }
}

/// Sums over all copies, whatever the view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) running: usize,
    pub(crate) pulls: usize,
    pub(crate) pushes: usize,
    pub(crate) stalled: usize,
    pub(crate) bytes_per_s: u64,
}

/// The copies that a view shows, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) totals: Totals,
    pub(crate) copies: Vec<CopyNow>,
    /// Further copies that the filter lets through.
    pub(crate) more: usize,
    /// Whether copies can be canceled from it.
    pub(crate) for_operator: bool,
}

impl Selection {
    /// Looks at the copies.
    pub(crate) fn of(running: &RunningCopies, view: &View) -> Self {
        let filter = view.filter.raw().to_lowercase();
        let (mut totals, mut copies) = (Totals::default(), Vec::new());
        running.each(|copy| {
            totals.running += 1;
            totals.pulls += usize::from(copy.facts.mode == "pull");
            totals.pushes += usize::from(copy.facts.mode == "push");
            totals.stalled += usize::from(copy.is_stalled());
            totals.bytes_per_s = totals.bytes_per_s.saturating_add(copy.bytes_per_s);
            if filter.is_empty() || copy.facts.has(&filter) {
                copies.push(copy);
            }
        });
        let unlisted = running.unlisted();
        totals.running += unlisted;
        let compare = |one: &CopyNow, other: &CopyNow| view.sort.compare(one, other);
        let found = copies.len();
        if found > ROWS_SHOWN_MAX {
            copies.select_nth_unstable_by(ROWS_SHOWN_MAX, compare);
            copies.truncate(ROWS_SHOWN_MAX);
        }
        copies.sort_unstable_by(compare);
        Self {
            totals,
            more: found - copies.len() + if filter.is_empty() { unlisted } else { 0 },
            copies,
            for_operator: view.for_operator,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use transfer::Progress;

    use super::*;
    use crate::copies::tests::start;

    fn ids(selection: &Selection) -> Vec<&str> {
        selection.copies.iter().map(|copy| copy.facts.id.raw()).collect()
    }

    #[test]
    fn filter_and_order_are_those_of_the_query() {
        let running = RunningCopies::default();
        for (id, path, moved) in [("1", "/a/Blue", 5), ("2", "/b/red", 9), ("3", "/c/blue", 7)] {
            let progress = Arc::new(Progress::new());
            progress.add_moved(moved);
            running.begin(&start(id, path), &progress);
        }
        let select = |query: &str| Selection::of(&running, &View::read(Some(query)));
        assert_eq!(ids(&select("sort=moved")), ["2", "3", "1"]);
        assert_eq!(ids(&select("sort=to")), ["1", "2", "3"]);
        assert_eq!(ids(&select("q=+BLUE+&sort=moved")), ["3", "1"]);
        let none = select("q=green&sort=nonsense");
        assert!(none.copies.is_empty() && none.more == 0);
        assert_eq!(none.totals.running, 3);
    }

    #[test]
    fn only_so_many_are_shown_and_the_rest_is_counted() {
        let (running, progress) = (RunningCopies::default(), Arc::default());
        for number in 0..ROWS_SHOWN_MAX + 7 {
            running.begin(&start(&format!("{number:05}"), &format!("/f/{number:05}")), &progress);
        }
        let selection = Selection::of(&running, &View::read(Some("sort=to")));
        assert_eq!((selection.copies.len(), selection.more), (ROWS_SHOWN_MAX, 7));
        assert_eq!(ids(&selection)[..2], ["00000", "00001"]);
    }

    #[test]
    fn a_view_reads_its_own_query() {
        let view = View::read(Some("q=a%26b%0Ac&sort=slow&other=1"));
        assert_eq!(view.filter.raw(), "a&b\nc");
        assert_eq!(View::read(Some(&view.query())), view);
        let long = format!("q={}", "x".repeat(FILTER_CHARACTERS_MAX + 1));
        assert_eq!(View::read(Some(&long)).filter.raw().len(), FILTER_CHARACTERS_MAX);
    }
}
