//! What a node tells of itself each second, as JSON: small, and readable with `nats sub`.

use serde::{Deserialize, Serialize};
use types::LogicalPath;

use super::filter::{BLOCK_BYTES, Generation};
use super::limits::{
    ANNOUNCED_MAX, ANNOUNCEMENT_BYTES_MAX, FILTER_BITS, FILTER_NAMES_MAX, FILTER_SPARE, OPEN_TREES_MAX,
};
use super::message::FORMAT;
use crate::node::Status;

/// An announcement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Announcement {
    /// The version of the format; others are not read.
    pub format: u8,
    /// The program's version.
    pub version: String,
    /// A random number of the process, in hexadecimal digits.
    pub instance: String,
    /// URLs of its doors.
    pub doors: Vec<String>,
    /// The trees that it exports.
    pub exports: Vec<String>,
    /// Load, room and drain.
    pub status: Status,
    /// Its names.
    pub names: NamesFacts,
    /// It stops now.
    pub is_leaving: bool,
}

/// What a node says about its filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamesFacts {
    /// The build, in hexadecimal digits; empty before the first one is complete.
    pub generation: String,
    /// The last message of changes since that build.
    pub sequence: u64,
    /// Blocks of 64 bytes.
    pub blocks: u32,
    /// Names, about.
    pub count: u64,
    /// Trees for which it is asked about every name.
    pub open: Vec<String>,
}

impl NamesFacts {
    /// The build of the filter; `None` if there is none.
    #[must_use]
    pub fn build(&self) -> Option<Generation> {
        let is_sound = self.blocks > 0 && self.blocks as usize <= blocks_max();
        let generation = u64::from_str_radix(&self.generation, 16).ok()?;
        is_sound.then_some(Generation(generation))
    }

    /// Trees for which the node is asked about every name. A tree that is not a path is left out,
    /// and cannot be asked for anyway.
    #[must_use]
    pub fn open_trees(&self) -> Vec<LogicalPath> {
        let trees = self.open.iter().take(OPEN_TREES_MAX);
        trees.filter_map(|tree| LogicalPath::parse(tree).ok()).collect()
    }
}

/// Blocks of the largest filter.
fn blocks_max() -> usize {
    let names = FILTER_NAMES_MAX as f64 * (1.0 + FILTER_SPARE);
    (names as usize * FILTER_BITS).div_ceil(BLOCK_BYTES * 8)
}

impl Announcement {
    /// Its bytes. What does not fit is left out: it has at most [`ANNOUNCED_MAX`] exports
    /// and doors.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut sent = self.clone();
        sent.format = FORMAT;
        sent.doors.truncate(ANNOUNCED_MAX);
        sent.exports.truncate(ANNOUNCED_MAX);
        loop {
            // Numbers, texts and lists can always be written.
            let bytes = serde_json::to_vec(&sent).unwrap_or_default();
            if bytes.len() <= ANNOUNCEMENT_BYTES_MAX || !sent.shorten() {
                return bytes;
            }
        }
    }

    /// Halves the longer of its lists; answers whether there was anything to halve. Open trees are
    /// never left out, because names in them would then count as absent: they become one, the root.
    fn shorten(&mut self) -> bool {
        if self.names.open.len() > 1 {
            self.names.open = vec![LogicalPath::root().as_str().to_owned()];
            return true;
        }
        let list = match self.doors.len() > self.exports.len() {
            true => &mut self.doors,
            false => &mut self.exports,
        };
        list.truncate(list.len() / 2);
        !(self.doors.is_empty() && self.exports.is_empty())
    }

    /// Reads one; `None` if it is malformed, too large, or of another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= ANNOUNCEMENT_BYTES_MAX).then_some(())?;
        let read: Self = serde_json::from_slice(bytes).ok()?;
        let is_bounded = read.doors.len() <= ANNOUNCED_MAX
            && read.exports.len() <= ANNOUNCED_MAX
            && read.names.open.len() <= OPEN_TREES_MAX;
        (read.format == FORMAT && is_bounded).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement() -> Announcement {
        Announcement {
            format: FORMAT,
            version: "0.1.0".to_owned(),
            instance: "2a".to_owned(),
            doors: vec!["https://d1:1094".to_owned()],
            exports: vec!["/data".to_owned()],
            status: Status {
                transfers: 3,
                total_bytes: 10,
                ..Status::default()
            },
            names: NamesFacts {
                generation: "1f".to_owned(),
                blocks: 4,
                ..NamesFacts::default()
            },
            is_leaving: false,
        }
    }

    #[test]
    fn an_announcement_comes_out_as_it_went_in() {
        let sent = announcement();
        let read = Announcement::decode(&sent.encode()).unwrap();
        assert_eq!(read, sent);
        assert_eq!(read.names.build(), Some(Generation(31)));
    }

    #[test]
    fn other_versions_and_huge_ones_are_not_read() {
        let text = |format: u8, more: &str| format!("{{\"format\":{format}{more}}}");
        assert!(Announcement::decode(text(1, "").as_bytes()).is_some());
        assert!(Announcement::decode(text(1, ",\"later\":[1]").as_bytes()).is_some());
        let huge = format!(",\"version\":\"{}\"", "x".repeat(ANNOUNCEMENT_BYTES_MAX));
        for wrong in [text(2, ""), text(1, &huge), text(1, ",\"status\":1"), String::new()] {
            assert_eq!(Announcement::decode(wrong.as_bytes()), None);
        }
        let without = NamesFacts {
            blocks: u32::MAX,
            generation: "1".to_owned(),
            ..NamesFacts::default()
        };
        assert_eq!(without.build(), None);
    }

    #[test]
    fn a_long_one_is_shortened_without_losing_open_trees() {
        let mut sent = announcement();
        sent.exports = (0..200)
            .map(|number| format!("/{number}/{}", "x".repeat(300)))
            .collect();
        sent.names.open = sent.exports[..50].to_vec();
        let read = Announcement::decode(&sent.encode()).unwrap();
        assert_eq!(read.names.open, ["/"]);
        assert!(read.exports.len() < 200);
    }
}
