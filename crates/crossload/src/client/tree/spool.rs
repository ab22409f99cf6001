//! A list of any length in bounded memory: what exceeds a limit goes to a temporary file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Lines, Seek as _, Write as _};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A list that is filled first, and then read once in the same order.
///
/// Calls that exceed the limit write to a file in the system's directory for temporary files. They
/// do so on the calling thread: the pages go to the cache, and a command has little else to do.
#[derive(Debug)]
pub(crate) struct Spool<T> {
    held: VecDeque<T>,
    held_max: usize,
    rest: Option<BufWriter<File>>,
}

impl<T: Serialize + DeserializeOwned> Spool<T> {
    /// An empty list that holds up to `held_max` items in memory.
    pub(crate) fn new(held_max: usize) -> Self {
        Self {
            held: VecDeque::new(),
            held_max,
            rest: None,
        }
    }

    /// Appends an item.
    ///
    /// # Errors
    /// The temporary file cannot be made or written.
    pub(crate) fn push(&mut self, item: T) -> io::Result<()> {
        if self.held.len() < self.held_max {
            self.held.push_back(item);
            return Ok(());
        }
        let rest = match &mut self.rest {
            Some(rest) => rest,
            none => none.insert(BufWriter::new(tempfile::tempfile()?)),
        };
        serde_json::to_writer(&mut *rest, &item)?;
        rest.write_all(b"\n")
    }

    /// Reads the list.
    ///
    /// # Errors
    /// The temporary file cannot be written to its end.
    pub(crate) fn read(self) -> io::Result<Spooled<T>> {
        let lines = match self.rest {
            None => None,
            Some(rest) => {
                let mut file = rest.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                Some(BufReader::new(file).lines())
            }
        };
        Ok(Spooled { held: self.held, lines })
    }
}

/// The items of a [`Spool`].
#[derive(Debug)]
pub(crate) struct Spooled<T> {
    held: VecDeque<T>,
    lines: Option<Lines<BufReader<File>>>,
}

impl<T: DeserializeOwned> Iterator for Spooled<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(item) = self.held.pop_front() {
            return Some(Ok(item));
        }
        let line = self.lines.as_mut()?.next()?;
        Some(line.and_then(|line| Ok(serde_json::from_str(&line)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_limit_comes_back_in_order_and_is_not_held() {
        let mut spool = Spool::new(3);
        let names: Vec<String> = (0..1000).map(|number| format!("name {number}\n\"")).collect();
        for name in &names {
            spool.push(name.clone()).unwrap();
        }
        assert_eq!(spool.held.len(), 3);
        let read: Vec<String> = spool.read().unwrap().map(Result::unwrap).collect();
        assert_eq!(read, names);
    }
}
