//! A node of ours as it tells of itself: its load each second, and names as they change, one JSON
//! value a line.

use remote::{Download, GetOptions};
use serde::Deserialize;
use serde::de::IgnoredAny;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::announcement::Announcement;
use crate::limits::STATUS_BYTES_MAX;

/// What a line says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// How the node is.
    Status(Box<Announcement>),
    /// Names that were stored, removed or renamed, with everything below.
    Changed(Vec<String>),
    /// Names were left out.
    Missed(IgnoredAny),
}

impl Line {
    /// The names of a change that are names.
    pub(crate) fn paths(names: &[String]) -> impl Iterator<Item = LogicalPath> + '_ {
        names.iter().filter_map(|name| LogicalPath::parse(name).ok())
    }
}

/// The lines that a node sends.
pub(crate) struct Lines {
    download: Download,
    /// What came behind the last whole line.
    rest: Vec<u8>,
}

impl Lines {
    /// The options under which lines are read: they do not end, and each is waited for separately.
    pub(crate) fn options() -> GetOptions {
        GetOptions::default()
    }

    /// The lines of an answer.
    pub(crate) fn new(download: Download) -> Self {
        Self {
            download,
            rest: Vec::new(),
        }
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// The connection is lost, or what comes is no line of a node.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>> {
        loop {
            if let Some(line) = self.take()? {
                return Ok(Some(line));
            }
            let Some(batch) = self.download.next().await? else {
                return Ok(None);
            };
            self.rest.extend(batch.slices().flatten());
        }
    }

    fn take(&mut self) -> Result<Option<Line>> {
        let wrong = || Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Transfer);
        let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') else {
            return match self.rest.len() > STATUS_BYTES_MAX {
                true => Err(wrong().with_detail("a line about the node is too long")),
                false => Ok(None),
            };
        };
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        let read = serde_json::from_slice(&line);
        read.map(Some)
            .map_err(|_| wrong().with_detail("a line about the node cannot be understood"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_other_names_are_passed_over() {
        let read = |text: &str| serde_json::from_str::<Line>(text).unwrap();
        assert!(
            matches!(read(r#"{"status": {"transfers": 3, "new": 1}}"#), Line::Status(told) if told.status.transfers == 3)
        );
        assert!(matches!(read(r#"{"missed": 7}"#), Line::Missed(_)));
        let Line::Changed(names) = read(r#"{"changed": ["/a/b", "no path", "/a/../c"]}"#) else {
            panic!("it tells of changes");
        };
        let paths: Vec<String> = Line::paths(&names).map(|path| path.as_str().to_owned()).collect();
        assert_eq!(paths, ["/a/b"]);
        assert!(serde_json::from_str::<Line>(r#"{"colour": "red"}"#).is_err());
    }
}
