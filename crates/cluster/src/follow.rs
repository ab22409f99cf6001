//! Follows a node of ours over one connection: its status each second, and its changed names at
//! once.

use std::time::Duration;

use remote::{Client, Download, GetOptions, Resource};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::announcement::Announcement;
use crate::limits::NODE_LINE_BYTES_MAX;

/// The query that asks a node for its changes.
pub const CHANGES_QUERY: &str = "?changes=1";

/// One line of a node that is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeEvent {
    /// How it is now.
    Status(Box<Announcement>),
    /// Names have changed.
    Changed(ChangedNames),
    /// What is known about its names may be wrong, for this reason.
    Forget(String),
}

/// Changed names of a node, by what is there now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedNames {
    /// Files.
    pub files: Vec<String>,
    /// Directories.
    pub directories: Vec<String>,
    /// Nothing any more.
    pub gone: Vec<String>,
}

impl ChangedNames {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.files.len() + self.directories.len() + self.gone.len()
    }
}

/// How many names are noted in a second: a node that tells more has to wait.
pub(crate) struct Pace {
    most: usize,
    taken: usize,
    second: Instant,
}

impl Pace {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            taken: 0,
            second: Instant::now(),
        }
    }

    /// Takes so many; waits for the next second if this one is full.
    pub(crate) async fn take(&mut self, count: usize) {
        if self.taken >= self.most {
            sleep_until(self.second + Duration::from_secs(1)).await;
        }
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.taken, self.second) = (0, Instant::now());
        }
        self.taken += count;
    }
}

/// A node that is followed.
pub struct Follower {
    download: Download,
    /// What came and was not read.
    rest: Lines,
}

impl Follower {
    /// Begins. Changes are noticed from the first event on.
    ///
    /// # Errors
    /// No connection; the node's refusal.
    pub async fn begin(client: &Client, node: &Resource) -> Result<Self> {
        let options = GetOptions {
            is_asked: true,
            ..GetOptions::default()
        };
        let download = client.get(node, &options).await?;
        Ok(Self {
            download,
            rest: Lines::default(),
        })
    }

    /// The next event; `None` when the node has ended the stream.
    ///
    /// # Errors
    /// `peer_misbehaved` if a line is something else; a lost connection.
    pub async fn next(&mut self) -> Result<Option<NodeEvent>> {
        loop {
            if let Some(line) = self.rest.take() {
                let event = serde_json::from_slice(line).map_err(|_| misbehaved("a line is no event of a node"))?;
                return Ok(Some(event));
            }
            if self.rest.len() > NODE_LINE_BYTES_MAX {
                return Err(misbehaved("a line of a node is too long"));
            }
            match self.download.next().await? {
                Some(batch) => self.rest.add(batch.slices()),
                None => return Ok(None),
            }
        }
    }
}

/// Bytes that are read line by line. Each byte is looked at and moved once.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Where the first line that was not taken begins.
    begin: usize,
    /// There is no end of a line before.
    looked: usize,
}

impl Lines {
    fn add<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>) {
        self.bytes.drain(..self.begin);
        self.looked = self.bytes.len();
        self.begin = 0;
        slices.for_each(|slice| self.bytes.extend_from_slice(slice));
    }

    fn take(&mut self) -> Option<&[u8]> {
        let from = self.looked.max(self.begin);
        let Some(length) = self.bytes[from..].iter().position(|byte| *byte == b'\n') else {
            self.looked = self.bytes.len();
            return None;
        };
        let begin = std::mem::replace(&mut self.begin, from + length + 1);
        Some(&self.bytes[begin..self.begin])
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.begin
    }
}

fn misbehaved(why: &str) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Transfer).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_whole() {
        let mut lines = Lines::default();
        let add = |lines: &mut Lines, parts: &[&str]| lines.add(parts.iter().map(|part| part.as_bytes()));
        add(&mut lines, &["one\ntw", "o\nthr"]);
        assert_eq!(lines.take(), Some(&b"one\n"[..]));
        assert_eq!(lines.take(), Some(&b"two\n"[..]));
        assert_eq!(lines.take(), None);
        assert_eq!(lines.len(), 3);
        add(&mut lines, &["e", "e\n\n"]);
        assert_eq!(lines.take(), Some(&b"three\n"[..]));
        assert_eq!(lines.take(), Some(&b"\n"[..]));
        assert_eq!(lines.take(), None);
        assert_eq!(lines.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_tells_too_much_waits() {
        let mut pace = Pace::new(10);
        let began = Instant::now();
        for _ in 0..10 {
            pace.take(1).await;
        }
        assert!(began.elapsed() < Duration::from_millis(1));
        for _ in 0..11 {
            pace.take(1).await;
        }
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn events_are_read_as_nodes_write_them() {
        let read = |line: &str| serde_json::from_str::<NodeEvent>(line);
        let NodeEvent::Status(told) = read("{\"status\":{\"transfers\":2,\"drain\":\"no_reads\"}}").unwrap() else {
            panic!("no status");
        };
        assert_eq!(told.status.transfers, 2);
        let changed = NodeEvent::Changed(ChangedNames {
            files: vec!["/f".to_owned()],
            gone: vec!["/g".to_owned()],
            ..ChangedNames::default()
        });
        assert_eq!(
            read("{\"changed\":{\"files\":[\"/f\"],\"gone\":[\"/g\"]}}").unwrap(),
            changed
        );
        assert_eq!(
            read("{\"forget\":\"7 missed\"}").unwrap(),
            NodeEvent::Forget("7 missed".to_owned())
        );
        assert!(read("{\"colour\":1}").is_err() && read("").is_err());
    }
}
