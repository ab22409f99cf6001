//! The places that a command works on: arguments, and lines of a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;

/// Places on the command line and in a file.
#[derive(Clone, Debug, Args)]
pub(crate) struct Places {
    /// Files or directories: URLs or local paths
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

/// The lines of a file, or of standard input for `-`. Empty lines and lines that begin with `#` are
/// skipped.
///
/// # Errors
/// The file cannot be opened or read.
pub(crate) fn lines_of(file: &Path) -> Result<impl Iterator<Item = Result<String, Failure>> + use<>, Failure> {
    let name = file.display().to_string();
    let failed = move |cause: io::Error| Failure::system(&name, &cause);
    let reader: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(file).map_err(&failed)?)),
    };
    let lines = reader.lines().map(move |line| match line {
        Ok(line) => Ok(line.trim().to_owned()),
        Err(cause) => Err(failed(cause)),
    });
    Ok(lines.filter(|line| !matches!(line, Ok(line) if line.is_empty() || line.starts_with('#'))))
}
