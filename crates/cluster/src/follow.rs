//! Follows a node of ours over one connection: its status each second, and its changed names at
//! once.

use remote::{Client, Download, GetOptions, Resource};
use serde::{Deserialize, Serialize};
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

/// A node that is followed.
pub struct Follower {
    download: Download,
    /// What came behind the last whole line.
    rest: Vec<u8>,
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
            rest: Vec::new(),
        })
    }

    /// The next event; `None` when the node has ended the stream.
    ///
    /// # Errors
    /// `peer_misbehaved` if a line is something else; a lost connection.
    pub async fn next(&mut self) -> Result<Option<NodeEvent>> {
        loop {
            if let Some(line) = take_line(&mut self.rest) {
                let event = serde_json::from_slice(&line).map_err(|_| misbehaved("a line is no event of a node"))?;
                return Ok(Some(event));
            }
            if self.rest.len() > NODE_LINE_BYTES_MAX {
                return Err(misbehaved("a line of a node is too long"));
            }
            match self.download.next().await? {
                Some(batch) => self.rest.extend(batch.slices().flatten()),
                None => return Ok(None),
            }
        }
    }
}

fn take_line(rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let behind = rest.split_off(end + 1);
    Some(std::mem::replace(rest, behind))
}

fn misbehaved(why: &str) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Transfer).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_whole() {
        let mut rest = b"one\ntwo\nthr".to_vec();
        assert_eq!(take_line(&mut rest).unwrap(), b"one\n");
        assert_eq!(take_line(&mut rest).unwrap(), b"two\n");
        assert_eq!(take_line(&mut rest), None);
        assert_eq!(rest, b"thr");
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
