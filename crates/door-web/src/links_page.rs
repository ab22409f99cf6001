//! The page *Links*: how copies between storages ended within the last hour, and who is at fault.

use std::cmp::Reverse;
use std::collections::HashMap;

use askama::Template;
use serde::Serialize;
use types::ErrorCode;
use url::form_urlencoded;

use crate::figures::{moment_ms, rate};
use crate::limits::{FAILING_LINKS_SHOWN_MAX, FAULTS_SHOWN_MAX, MATRIX_STORAGES_MAX};
use crate::queue_facts::{FailureCount, Fault, LastHour, LinkHour, Suspect};
use crate::queue_words::Shown;
use crate::shell::Shell;
use crate::words::Words;

#[derive(Template)]
#[template(path = "links.html")]
pub(crate) struct LinksPage<'a> {
    shell: Shell,
    from: String,
    at: String,
    sums: Sums,
    faults: &'a [Fault],
    more_faults: usize,
    matrix: Matrix<'a>,
    failing: Vec<Failing<'a>>,
    more_failing: usize,
}

/// The page for programs.
#[derive(Serialize)]
pub(crate) struct LinksDocument<'a> {
    #[serde(flatten)]
    pub(crate) hour: &'a LastHour,
}

/// Sums of all links.
struct Sums {
    copied: u64,
    failed: u64,
    rate: String,
}

/// Sources and destinations with most copies.
struct Matrix<'a> {
    destinations: Vec<Head<'a>>,
    rows: Vec<Row<'a>>,
    /// Storages that are not shown.
    more_sources: usize,
    more_destinations: usize,
    /// Copies and attempts on links that are not shown.
    left_out: u64,
}

/// The head of a row or column.
struct Head<'a> {
    storage: &'a Words,
    /// What is found about it; empty: nothing.
    blame: &'static str,
}

struct Row<'a> {
    head: Head<'a>,
    /// One for each destination.
    cells: Vec<Option<Square>>,
}

/// A cell of the matrix.
struct Square {
    state: Shown,
    /// Copies that succeeded, of all.
    copies: String,
    rate: String,
    /// The code of most failures.
    code: Option<Words>,
    /// What is found about the link itself.
    blame: &'static str,
    /// The query of its jobs.
    jobs: String,
}

/// A link with failures.
struct Failing<'a> {
    link: &'a LinkHour,
    state: Shown,
    rate: String,
    most: Option<Most<'a>>,
    jobs: String,
}

/// Most failures of a link.
struct Most<'a> {
    kind: &'a FailureCount,
    /// What the code means.
    meaning: &'static str,
}

impl<'a> LinksPage<'a> {
    pub(crate) fn new(shell: Shell, hour: &'a LastHour) -> Self {
        let passed_ms = u64::try_from(hour.to_ms.saturating_sub(hour.from_ms)).unwrap_or_default();
        let mut failing: Vec<&LinkHour> = hour.links.iter().filter(|link| link.failed > 0).collect();
        failing.sort_by_key(|link| {
            let link: &'a LinkHour = link;
            (Reverse(link.failed), &link.source, &link.destination)
        });
        let shown = failing.iter().take(FAILING_LINKS_SHOWN_MAX);
        let shown: Vec<_> = shown.map(|link| Failing::new(link, passed_ms)).collect();
        let faults = &hour.faults[..hour.faults.len().min(FAULTS_SHOWN_MAX)];
        Self {
            shell,
            from: moment_ms(hour.from_ms),
            at: moment_ms(hour.to_ms),
            sums: Sums {
                copied: hour.links.iter().map(|link| link.copied).sum(),
                failed: hour.links.iter().map(|link| link.failed).sum(),
                rate: mean_rate(
                    hour.links.iter().map(|link| link.bytes).fold(0, u64::saturating_add),
                    passed_ms,
                ),
            },
            faults,
            more_faults: hour.faults.len() - faults.len(),
            matrix: Matrix::new(hour, passed_ms),
            more_failing: failing.len() - shown.len(),
            failing: shown,
        }
    }
}

impl<'a> Matrix<'a> {
    fn new(hour: &'a LastHour, passed_ms: u64) -> Self {
        let (sources, more_sources) = busiest(&hour.links, |link| &link.source);
        let (destinations, more_destinations) = busiest(&hour.links, |link| &link.destination);
        let place = |all: &[&'a Words]| -> HashMap<&'a Words, usize> {
            all.iter().enumerate().map(|(at, storage)| (*storage, at)).collect()
        };
        let (row_of, column_of) = (place(&sources), place(&destinations));
        let mut left_out = hour.unlisted;
        let mut rows: Vec<Row<'_>> = sources
            .iter()
            .map(|storage| Row {
                head: Head {
                    storage,
                    blame: blame_of(&hour.faults, &Suspect::Source((*storage).clone())),
                },
                cells: destinations.iter().map(|_| None).collect(),
            })
            .collect();
        for link in &hour.links {
            match (row_of.get(&link.source), column_of.get(&link.destination)) {
                (Some(row), Some(column)) => {
                    rows[*row].cells[*column] = Some(Square::new(link, &hour.faults, passed_ms));
                }
                _ => left_out = left_out.saturating_add(ends(link)),
            }
        }
        Self {
            destinations: destinations
                .iter()
                .map(|storage| Head {
                    storage,
                    blame: blame_of(&hour.faults, &Suspect::Destination((*storage).clone())),
                })
                .collect(),
            rows,
            more_sources,
            more_destinations,
            left_out,
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The storages with most copies, by name, and how many more there are.
fn busiest(links: &[LinkHour], end: fn(&LinkHour) -> &Words) -> (Vec<&Words>, usize) {
    let mut counts: HashMap<&Words, u64> = HashMap::new();
    for link in links {
        let count = counts.entry(end(link)).or_default();
        *count = count.saturating_add(ends(link));
    }
    let mut sorted: Vec<(&Words, u64)> = counts.into_iter().collect();
    sorted.sort_unstable_by_key(|(storage, count)| (Reverse(*count), *storage));
    let more = sorted.len().saturating_sub(MATRIX_STORAGES_MAX);
    sorted.truncate(MATRIX_STORAGES_MAX);
    let mut names: Vec<&Words> = sorted.into_iter().map(|(storage, _)| storage).collect();
    names.sort_unstable();
    (names, more)
}

/// Copies of a link that ended, failed attempts included.
fn ends(link: &LinkHour) -> u64 {
    link.copied.saturating_add(link.failed)
}

/// What is found about a storage as one end, or about a link.
fn blame_of(faults: &[Fault], suspect: &Suspect) -> &'static str {
    let concerns = |known: &Suspect| match (known, suspect) {
        (Suspect::Storage(storage), Suspect::Source(other) | Suspect::Destination(other)) => storage == other,
        (known, suspect) => known == suspect,
    };
    let mut found = faults.iter().filter(|fault| fault.suspects.iter().any(concerns));
    match found.clone().any(|fault| fault.is_certain) {
        true => "at fault",
        false if found.next().is_some() => "perhaps at fault",
        false => "",
    }
}

impl Square {
    fn new(link: &LinkHour, faults: &[Fault], passed_ms: u64) -> Self {
        let suspect = Suspect::Link {
            source: link.source.clone(),
            destination: link.destination.clone(),
        };
        Self {
            state: state_of(link),
            copies: copies(link),
            rate: mean_rate(link.bytes, passed_ms),
            code: link.failures.first().map(|most| most.code.clone()),
            blame: blame_of(faults, &suspect),
            jobs: jobs(link),
        }
    }
}

impl<'a> Failing<'a> {
    fn new(link: &'a LinkHour, passed_ms: u64) -> Self {
        let most = link.failures.first().map(|kind| Most {
            kind,
            meaning: meaning(kind.code.raw()),
        });
        Self {
            link,
            state: state_of(link),
            rate: mean_rate(link.bytes, passed_ms),
            most,
            jobs: jobs(link),
        }
    }
}

/// How copies of a link ended: a shape, so that colour is not needed.
fn state_of(link: &LinkHour) -> Shown {
    match (link.copied, link.failed) {
        (_, 0) => Shown {
            class: "good",
            words: "✓",
        },
        (0, _) => Shown {
            class: "bad",
            words: "✕",
        },
        _ => Shown {
            class: "soon",
            words: "!",
        },
    }
}

/// The share of copies that succeeded, and their number. All of them are 100 %, and no others.
fn copies(link: &LinkHour) -> String {
    let all = ends(link);
    let percent = u128::from(link.copied) * 100 / u128::from(all.max(1));
    format!("{percent} %, {} of {all}", link.copied)
}

/// Bytes over the time in which copies were counted.
fn mean_rate(bytes: u64, passed_ms: u64) -> String {
    let bytes_per_s = u128::from(bytes) * 1000 / u128::from(passed_ms.max(1));
    rate(u64::try_from(bytes_per_s).unwrap_or(u64::MAX))
}

/// The query of the jobs on a link.
fn jobs(link: &LinkHour) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair("source", link.source.raw())
        .append_pair("destination", link.destination.raw())
        .finish()
}

/// What a code means; empty if it is not one of ours.
fn meaning(code: &str) -> &'static str {
    let known = ErrorCode::ALL.iter().find(|known| known.name() == code);
    known.map(|known| known.meaning()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(source: usize, destination: usize, copied: u64, failed: u64) -> LinkHour {
        LinkHour {
            source: format!("davs://s{source:03}:443").into(),
            destination: format!("davs://d{destination:03}:443").into(),
            copied,
            failed,
            bytes: copied * 1000,
            failures: Vec::new(),
        }
    }

    #[test]
    fn the_storages_with_most_copies_are_shown_and_the_rest_is_counted() {
        let all = (0..MATRIX_STORAGES_MAX + 2).map(|number| link(number, 0, 10 + number as u64, 0));
        let hour = LastHour {
            to_ms: 1000,
            links: all.collect(),
            unlisted: 5,
            ..LastHour::default()
        };
        let matrix = Matrix::new(&hour, 1000);
        assert_eq!((matrix.rows.len(), matrix.more_sources), (MATRIX_STORAGES_MAX, 2));
        assert_eq!((matrix.destinations.len(), matrix.more_destinations), (1, 0));
        assert_eq!(matrix.left_out, 10 + 11 + 5);
        assert_eq!(matrix.rows[0].head.storage.raw(), "davs://s002:443");
        let square = matrix.rows[0].cells[0].as_ref().unwrap();
        assert_eq!(
            (square.copies.as_str(), square.rate.as_str()),
            ("100 %, 12 of 12", "11.7 KiB/s")
        );
        assert!(square.jobs.starts_with("source=davs%3A%2F%2Fs002%3A443&destination="));
    }

    #[test]
    fn shapes_tell_whole_partial_and_no_success() {
        let words = |copied, failed| state_of(&link(0, 0, copied, failed)).words;
        assert_eq!([words(3, 0), words(3, 1), words(0, 1)], ["✓", "!", "✕"]);
        assert_eq!(copies(&link(0, 0, 999_999, 1)), "99 %, 999999 of 1000000");
    }

    #[test]
    fn a_storage_is_at_fault_in_its_role() {
        let fault = |suspects: Vec<Suspect>, is_certain| Fault {
            says: "x".into(),
            is_certain,
            suspects,
        };
        let faults = [
            fault(vec![Suspect::Source("a".into())], true),
            fault(
                vec![Suspect::Storage("b".into()), Suspect::Destination("c".into())],
                false,
            ),
        ];
        let of = |suspect| blame_of(&faults, &suspect);
        assert_eq!(of(Suspect::Source("a".into())), "at fault");
        assert_eq!(of(Suspect::Destination("a".into())), "");
        assert_eq!(of(Suspect::Destination("b".into())), "perhaps at fault");
        assert_eq!(of(Suspect::Source("c".into())), "");
    }
}
