//! The arguments of a copy: sources from the command line, then from a list that is read as it is
//! needed.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::command_line::{CopyOptions, line_in};
use crate::failure::Failure;
use crate::limits::LIST_LINE_BYTES_MAX;

/// The sources and the destination.
pub(super) struct Arguments {
    named: std::vec::IntoIter<String>,
    list: Option<List>,
    /// `None`: each line of the list has its own.
    pub(super) destination: Option<String>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) source: String,
    /// The destination in the line of a list.
    pub(super) destination: Option<String>,
}

/// A list of sources.
struct List {
    name: String,
    reader: Box<dyn AsyncBufRead + Send + Unpin>,
}

impl List {
    /// The next line.
    ///
    /// # Errors
    /// The list cannot be read, or the line is too long.
    async fn next_line(&mut self) -> std::io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.reader).take(LIST_LINE_BYTES_MAX + 1);
        limited.read_until(b'\n', &mut bytes).await?;
        line_in(bytes)
    }
}

impl Arguments {
    /// Reads the command line, and opens the list.
    ///
    /// # Errors
    /// A missing argument, or a list that cannot be opened.
    pub(super) async fn read(options: &CopyOptions) -> Result<Self, Failure> {
        let mut named = options.places.clone();
        let destination = named.pop();
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
                    reader: opened,
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

    /// One source.
    pub(super) fn one(source: &str) -> Self {
        Self {
            named: vec![source.to_owned()].into_iter(),
            list: None,
            destination: None,
        }
    }

    /// Whether there may be more than one source.
    pub(super) fn may_be_several(&self) -> bool {
        self.list.is_some() || self.named.len() > 1
    }

    /// The next source.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<Named>, Failure> {
        if let Some(source) = self.named.next() {
            return Ok(Some(Named {
                source,
                destination: None,
            }));
        }
        let Some(list) = &mut self.list else { return Ok(None) };
        loop {
            let read = list.next_line().await;
            let line = read.map_err(|cause| Failure::system(&list.name, &cause))?;
            let Some(line) = line else { return Ok(None) };
            if let Some(named) = named_in(&line) {
                return Ok(Some(named));
            }
        }
    }
}

/// What a line of a list names. Names may contain spaces, those in root URLs too: a space ends a
/// URL only before another URL or an absolute path.
fn named_in(line: &str) -> Option<Named> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let spaces = line.match_indices(' ').filter(|_| is_url(line));
    let mut splits = spaces.map(|(at, _)| (&line[..at], line[at..].trim_start()));
    let parts = match line.split_once('\t') {
        Some(parts) => Some(parts),
        None => splits.find(|(_, rest)| rest.starts_with('/') || is_url(rest)),
    };
    let (source, destination) = match parts {
        Some((source, destination)) => (source.trim_end(), Some(destination.trim_start().to_owned())),
        None => (line, None),
    };
    Some(Named {
        source: source.to_owned(),
        destination,
    })
}

/// Whether it begins with a scheme (RFC 3986 §3.1) and `://`.
fn is_url(text: &str) -> bool {
    let is_scheme = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_scheme)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_of_a_list_has_a_limit() {
        let longest = "x".repeat(LIST_LINE_BYTES_MAX as usize - 1);
        let mut list = List {
            name: "list".to_owned(),
            reader: Box::new(std::io::Cursor::new(format!("{longest}\n{longest}xy"))),
        };
        assert_eq!(list.next_line().await.unwrap(), Some(longest));
        assert!(list.next_line().await.is_err());
    }

    #[test]
    fn a_line_names_a_source_and_perhaps_its_destination() {
        for (line, wanted) in [
            ("", None),
            ("  # https://a/b", None),
            ("  https://a/b ", Some(("https://a/b", None))),
            ("https://a/b  /tmp/c d", Some(("https://a/b", Some("/tmp/c d")))),
            ("root://a//b c", Some(("root://a//b c", None))),
            ("root://a//b c /tmp/d", Some(("root://a//b c", Some("/tmp/d")))),
            (
                "root://a//b root://e//f g",
                Some(("root://a//b", Some("root://e//f g"))),
            ),
            ("root://a//b c\td", Some(("root://a//b c", Some("d")))),
            ("/tmp/c d", Some(("/tmp/c d", None))),
            ("/tmp/c d\troot://e//f", Some(("/tmp/c d", Some("root://e//f")))),
            ("./odd://x y", Some(("./odd://x y", None))),
        ] {
            let named = named_in(line);
            let found = named
                .as_ref()
                .map(|named| (named.source.as_str(), named.destination.as_deref()));
            assert_eq!(found, wanted, "{line}");
        }
    }
}
