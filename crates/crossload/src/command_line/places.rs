//! The places that a command works on: arguments, and lines of a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::limits::LIST_LINE_BYTES_MAX;

/// Places on the command line and in a file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Places {
    /// Files or directories: URLs (http, dav, root, s3), NAME:PATH in named remotes, local paths
    #[arg(required_unless_present = "from_file", value_name = "PLACE")]
    places: Vec<String>,
    /// Read further places from this file, one per line; - is standard input
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
}

impl Places {
    /// These places, and those in the file.
    pub(super) fn new(places: Vec<String>, from_file: Option<PathBuf>) -> Self {
        Self { places, from_file }
    }

    /// Whether there is one place only.
    pub(crate) fn is_one(&self) -> bool {
        self.places.len() == 1 && self.from_file.is_none()
    }

    /// Writes the places that are arguments in another way.
    ///
    /// # Errors
    /// Those of `change`.
    pub(crate) fn change(&mut self, change: impl Fn(&str) -> Result<String, Failure>) -> Result<(), Failure> {
        for place in &mut self.places {
            *place = change(place)?;
        }
        Ok(())
    }

    /// All places. Those of the file are read as they are needed.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub(crate) fn all(&self) -> Result<impl Iterator<Item = Result<String, Failure>>, Failure> {
        let lines = self.from_file.as_deref().map(lines_of).transpose()?;
        let named = self.places.iter().cloned().map(Ok);
        Ok(named.chain(lines.into_iter().flatten()))
    }
}

/// Whether a word of a command line is, or may have as its value, standard input or output.
pub(crate) fn names_stdio(word: &str) -> bool {
    word.starts_with('-') && word.ends_with('-') && word != "--"
}

/// The lines of a file, or of standard input for `-`. Empty lines and lines that begin with `#` are
/// skipped.
///
/// # Errors
/// The file cannot be opened or read, or has a line of more than [`LIST_LINE_BYTES_MAX`].
pub(crate) fn lines_of(file: &Path) -> Result<impl Iterator<Item = Result<String, Failure>> + use<>, Failure> {
    let name = file.display().to_string();
    let failed = move |cause: io::Error| Failure::system(&name, &cause);
    let mut reader: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(file).map_err(&failed)?)),
    };
    let lines = std::iter::from_fn(move || {
        let mut bytes = Vec::new();
        let read = reader
            .by_ref()
            .take(LIST_LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut bytes);
        let line = read.and_then(|_| line_in(bytes)).map_err(&failed);
        line.transpose()
    });
    Ok(lines.filter(|line| !matches!(line, Ok(line) if line.is_empty() || line.starts_with('#'))))
}

/// The text of a line, read up to one byte beyond the limit; `None` at the end of the list.
///
/// # Errors
/// The line is longer than [`LIST_LINE_BYTES_MAX`], or not UTF-8.
pub(crate) fn line_in(bytes: Vec<u8>) -> io::Result<Option<String>> {
    let invalid = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words);
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() as u64 > LIST_LINE_BYTES_MAX {
        return Err(invalid("a line is too long"));
    }
    let line = String::from_utf8(bytes).map_err(|_| invalid("a line is not UTF-8"))?;
    Ok(Some(line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_list_has_a_limit() {
        let list = tempfile::NamedTempFile::new().unwrap();
        let longest = "x".repeat(LIST_LINE_BYTES_MAX as usize - 1);
        std::fs::write(list.path(), format!("\n# one\n a b\r\n{longest}\nlast")).unwrap();
        let lines: Vec<_> = lines_of(list.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(lines, ["a b", &longest, "last"]);
        std::fs::write(list.path(), format!("{longest}xy")).unwrap();
        assert!(lines_of(list.path()).unwrap().next().unwrap().is_err());
        std::fs::write(list.path(), b"\xff\n").unwrap();
        assert!(lines_of(list.path()).unwrap().next().unwrap().is_err());
    }
}
