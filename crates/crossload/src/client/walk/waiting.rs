//! The directories that a walk enters later, in order. Long queues lie in a temporary file.

use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};

use tempfile::SpooledTempFile;

use crate::limits::WALK_WAITING_BYTES_MAX;

/// A directory that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) modified_s: Option<i64>,
}

/// A queue that is first filled and then emptied. A record is the time, a slash, the name and a
/// NUL: names have neither of the two.
pub(super) enum Waiting {
    Filling(SpooledTempFile),
    Emptying(BufReader<SpooledTempFile>),
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self::Filling(SpooledTempFile::new(WALK_WAITING_BYTES_MAX))
    }

    /// Adds a directory at the end.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn push(&mut self, directory: &Name) -> io::Result<()> {
        let Self::Filling(file) = self else {
            return Err(io::Error::other("the directory was listed before"));
        };
        let time = directory.modified_s.map(|time| time.to_string()).unwrap_or_default();
        file.write_all(format!("{time}/{}\0", directory.name).as_bytes())
    }

    /// Takes the first directory; `None` when there are no more.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub(super) fn pop(&mut self) -> io::Result<Option<Name>> {
        if let Self::Filling(file) = self {
            file.rewind()?;
            let file = std::mem::replace(file, SpooledTempFile::new(0));
            *self = Self::Emptying(BufReader::new(file));
        }
        let Self::Emptying(reader) = self else {
            return Ok(None);
        };
        let mut record = Vec::new();
        if reader.read_until(0, &mut record)? == 0 {
            return Ok(None);
        }
        record.pop();
        let record = String::from_utf8(record).map_err(io::Error::other)?;
        let (time, name) = record.split_once('/').unwrap_or_default();
        Ok(Some(Name {
            name: name.to_owned(),
            modified_s: time.parse().ok(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_back_in_order_from_memory_and_from_a_file() {
        for count in [0, 3, 100_000_i64] {
            let all = (0..count).map(|number| Name {
                name: format!("d\n{number}"),
                modified_s: (number % 2 == 0).then_some(number - 5),
            });
            let mut waiting = Waiting::new();
            for directory in all.clone() {
                waiting.push(&directory).unwrap();
            }
            let on_disk = matches!(&waiting, Waiting::Filling(file) if file.is_rolled());
            assert_eq!(on_disk, count > 3, "beyond the limit, memory is bounded");
            for directory in all {
                assert_eq!(waiting.pop().unwrap(), Some(directory));
            }
            assert_eq!(waiting.pop().unwrap(), None);
        }
    }
}
