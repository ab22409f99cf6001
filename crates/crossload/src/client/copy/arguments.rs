//! The arguments of a copy: sources from the command line, then from a list that is read as it is
//! needed.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader, Lines};

use crate::command_line::CopyOptions;
use crate::failure::Failure;

/// The sources and the destination.
pub(super) struct Arguments {
    named: std::vec::IntoIter<String>,
    list: Option<List>,
    pub(super) destination: String,
}

/// A list of sources.
struct List {
    name: String,
    lines: Lines<Box<dyn AsyncBufRead + Send + Unpin>>,
}

impl Arguments {
    /// Reads the command line, and opens the list.
    ///
    /// # Errors
    /// A missing argument, or a list that cannot be opened.
    pub(super) async fn read(options: &CopyOptions) -> Result<Self, Failure> {
        let mut named = options.places.clone();
        let destination = named.pop().unwrap_or_default();
        let list = match &options.from_file {
            None => None,
            Some(file) => {
                let opened: Box<dyn AsyncBufRead + Send + Unpin> = if file.as_os_str() == "-" {
                    Box::new(BufReader::new(tokio::io::stdin()))
                } else {
                    let opened = tokio::fs::File::open(file).await;
                    Box::new(BufReader::new(
                        opened.map_err(|cause| Failure::system(file.display(), &cause))?,
                    ))
                };
                Some(List {
                    name: file.display().to_string(),
                    lines: opened.lines(),
                })
            }
        };
        if named.is_empty() && list.is_none() {
            return Err(Failure::invalid("give a source and a destination"));
        }
        Ok(Self {
            named: named.into_iter(),
            list,
            destination,
        })
    }

    /// Whether there may be more than one source.
    pub(super) fn may_be_several(&self) -> bool {
        self.list.is_some() || self.named.len() > 1
    }

    /// The next source. Empty lines of a list, and those that begin with `#`, are none.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        if let Some(named) = self.named.next() {
            return Ok(Some(named));
        }
        let Some(list) = &mut self.list else { return Ok(None) };
        loop {
            let read = list.lines.next_line().await;
            match read.map_err(|cause| Failure::system(&list.name, &cause))? {
                None => return Ok(None),
                Some(line) if line.trim().is_empty() || line.trim().starts_with('#') => {}
                Some(line) => return Ok(Some(line.trim().to_owned())),
            }
        }
    }
}
