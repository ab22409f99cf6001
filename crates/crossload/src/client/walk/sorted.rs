//! The entries of a directory in an order, in bounded memory: of a long listing, sorted pieces lie
//! in temporary files and are merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Lines, Seek as _, Write as _};

use serde::{Deserialize, Serialize};
use storage::local::Unfit;

use super::Compare;
use crate::client::session::Info;

/// What an entry can be that is neither a file nor a directory.
const UNFITS: [Unfit; 9] = [
    Unfit::Link,
    Unfit::LinkOut,
    Unfit::DeadLink,
    Unfit::Pipe,
    Unfit::Socket,
    Unfit::Device,
    Unfit::Special,
    Unfit::Name,
    Unfit::Loop,
];

/// An entry in a temporary file.
#[derive(Serialize, Deserialize)]
struct Record {
    info: Info,
    unfit: Option<String>,
}

/// Entries that are still coming.
pub(super) struct Sorting {
    compare: Compare,
    held: Vec<Info>,
    held_max: usize,
    files: Vec<File>,
}

impl Sorting {
    /// Holds up to `held_max` entries in memory.
    pub(super) fn new(compare: Compare, held_max: usize) -> Self {
        Self {
            compare,
            held: Vec::new(),
            held_max,
            files: Vec::new(),
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// A temporary file cannot be made or written.
    pub(super) fn push(&mut self, info: Info) -> io::Result<()> {
        if self.held.len() == self.held_max {
            self.set_aside()?;
        }
        self.held.push(info);
        Ok(())
    }

    /// Writes what is held to a file.
    fn set_aside(&mut self) -> io::Result<()> {
        self.held.sort_by(self.compare);
        let mut writer = BufWriter::new(tempfile::tempfile()?);
        for info in self.held.drain(..) {
            let unfit = info.unfit.map(|unfit| unfit.name().to_owned());
            serde_json::to_writer(&mut writer, &Record { info, unfit })?;
            writer.write_all(b"\n")?;
        }
        let mut file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.files.push(file);
        Ok(())
    }

    /// All entries, in order.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub(super) fn finish(mut self) -> io::Result<Sorted> {
        self.held.sort_by(self.compare);
        let files = self.files.into_iter();
        let runs = files.map(|file| Run::File(BufReader::new(file).lines()));
        let mut sorted = Sorted {
            compare: self.compare,
            heads: BinaryHeap::new(),
        };
        for run in runs.chain([Run::Held(self.held.into_iter())]) {
            sorted.advance(run)?;
        }
        Ok(sorted)
    }
}

/// Entries in order.
pub(super) struct Sorted {
    compare: Compare,
    heads: BinaryHeap<Head>,
}

impl Sorted {
    /// Whether all have been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The next entry.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Info>> {
        let Some(Head { info, run, .. }) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(run)?;
        Ok(Some(info))
    }

    fn advance(&mut self, mut run: Run) -> io::Result<()> {
        if let Some(info) = run.next()? {
            let compare = self.compare;
            self.heads.push(Head { info, run, compare });
        }
        Ok(())
    }
}

/// A sorted piece of the entries.
enum Run {
    Held(std::vec::IntoIter<Info>),
    File(Lines<BufReader<File>>),
}

impl Run {
    fn next(&mut self) -> io::Result<Option<Info>> {
        let lines = match self {
            Self::Held(entries) => return Ok(entries.next()),
            Self::File(lines) => lines,
        };
        let Some(line) = lines.next() else { return Ok(None) };
        let Record { info, unfit } = serde_json::from_str(&line?)?;
        let unfit = unfit.and_then(|name| UNFITS.into_iter().find(|unfit| unfit.name() == name));
        Ok(Some(Info { unfit, ..info }))
    }
}

/// The first entry of a piece, and the rest.
struct Head {
    info: Info,
    run: Run,
    compare: Compare,
}

impl Ord for Head {
    /// The greatest of a heap is taken first.
    fn cmp(&self, other: &Self) -> Ordering {
        (self.compare)(&other.info, &self.info)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::listing::by_name;

    #[test]
    fn long_listings_are_sorted_and_not_held() {
        for count in [0, 5, 10, 11, 1000_u32] {
            let mut sorting = Sorting::new(by_name, 10);
            let mut names = Vec::new();
            for number in 0..count {
                let name = format!("{:03}\n", number * 7 % 1009);
                names.push(name.clone());
                let unfit = number.is_multiple_of(3).then_some(Unfit::Link);
                sorting
                    .push(Info {
                        name,
                        unfit,
                        ..Info::default()
                    })
                    .unwrap();
                assert!(sorting.held.len() <= 10);
            }
            names.sort();
            let mut sorted = sorting.finish().unwrap();
            let mut links = 0;
            for name in names {
                assert!(!sorted.is_empty());
                let info = sorted.next().unwrap().unwrap();
                assert_eq!(info.name, name);
                links += u32::from(info.unfit == Some(Unfit::Link));
            }
            assert!(sorted.is_empty() && sorted.next().unwrap().is_none());
            assert_eq!(links, count.div_ceil(3));
        }
    }
}
