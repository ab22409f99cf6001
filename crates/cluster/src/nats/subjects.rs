//! Subjects on the bus, and the names of nodes in them.
//!
//! | subject | from | for |
//! |---|---|---|
//! | `P.from.NODE.state` | the node | announcements |
//! | `P.from.NODE.changes` | the node | created, removed and renamed names |
//! | `P.from.REDIRECTOR.placed` | the redirector | names that come soon |
//! | `P.from.NODE.to.REDIRECTOR` | the node | answers, and pieces of its filter |
//! | `P.to.NODE` | redirectors | questions and requests for its filter |
//! | `P.all.hello` | redirectors | every node announces itself |
//! | `P.all.who.EXPORT` | redirectors | questions to all nodes with this export |
//! | `P.from.REDIRECTOR.state` | that redirector | it hears itself: the bus works |
//!
//! A node may publish below `P.from.NODE` only. The server of the bus enforces that by the
//! permissions of its user, so the subject of a message says who sent it.

use std::fmt;

use super::limits::{BUS_NAME_BYTES_MAX, PREFIX_BYTES_MAX};

/// The name of a node on the bus: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BusName(String);

impl BusName {
    /// Reads a name. `None` if it is empty, longer than
    /// [`BUS_NAME_BYTES_MAX`] or has other characters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_valid = !text.is_empty() && text.len() <= BUS_NAME_BYTES_MAX && text.bytes().all(is_sound);
        is_valid.then(|| Self(text.to_owned()))
    }

    /// The name of a node that is configured under a URL: host and port, with `_` for each
    /// character that a name cannot have. `https://d1.example.org:1094` is `d1_example_org_1094`.
    #[must_use]
    pub fn of_url(url: &str) -> Option<Self> {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let sound = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
            true => c.to_ascii_lowercase(),
            false => '_',
        };
        Self::parse(&host.chars().map(sound).collect::<String>())
    }

    /// A new name of a redirector: each process has another one.
    #[must_use]
    pub fn of_redirector() -> Self {
        Self(format!("{REDIRECTOR_PREFIX}{:016x}", fastrand::u64(..)))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How the names of redirectors begin; 16 hexadecimal digits follow.
const REDIRECTOR_PREFIX: &str = "r-";

/// Whether a redirector has this name. Users of nodes may publish under the node's own name only.
#[must_use]
pub fn is_redirector(name: &str) -> bool {
    let digits = name.strip_prefix(REDIRECTOR_PREFIX);
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for BusName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// All subjects of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    prefix: String,
}

impl Default for Subjects {
    fn default() -> Self {
        Self {
            prefix: "crossload".to_owned(),
        }
    }
}

/// What a node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromNode<'a> {
    /// An announcement.
    State,
    /// Changed names.
    Changes,
    /// Names that clients were sent away with: of a redirector.
    Placed,
    /// Something for this redirector.
    To(&'a str),
}

impl Subjects {
    /// The subjects below a prefix: names that are separated by dots. `None` if it is not of that
    /// form.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Option<Self> {
        let is_valid = prefix.len() <= PREFIX_BYTES_MAX && prefix.split('.').all(|part| BusName::parse(part).is_some());
        is_valid.then(|| Self {
            prefix: prefix.to_owned(),
        })
    }

    /// Where a node announces itself.
    #[must_use]
    pub fn state_of(&self, node: &str) -> String {
        format!("{}.from.{node}.state", self.prefix)
    }

    /// Where a node tells of changed names.
    #[must_use]
    pub fn changes_of(&self, node: &str) -> String {
        format!("{}.from.{node}.changes", self.prefix)
    }

    /// Where a redirector tells the others of names that come soon.
    #[must_use]
    pub fn placed_of(&self, redirector: &str) -> String {
        format!("{}.from.{redirector}.placed", self.prefix)
    }

    /// Where a node answers a redirector.
    #[must_use]
    pub fn answers_of(&self, node: &str, redirector: &str) -> String {
        format!("{}.from.{node}.to.{redirector}", self.prefix)
    }

    /// Where a node is asked.
    #[must_use]
    pub fn to(&self, node: &str) -> String {
        format!("{}.to.{node}", self.prefix)
    }

    /// Where all nodes are greeted.
    #[must_use]
    pub fn hello(&self) -> String {
        format!("{}.all.hello", self.prefix)
    }

    /// Where all nodes with an export are asked.
    #[must_use]
    pub fn who(&self, export: &str) -> String {
        format!("{}.all.who.{:016x}", self.prefix, super::filter::fixed_hash(export))
    }

    /// Announcements and changed names of all nodes.
    #[must_use]
    pub fn all_news(&self) -> String {
        format!("{}.from.*.*", self.prefix)
    }

    /// What all nodes send to a redirector.
    #[must_use]
    pub fn all_answers(&self, redirector: &str) -> String {
        format!("{}.from.*.to.{redirector}", self.prefix)
    }

    /// The node that a message comes from, and what it is; `None` for any other subject.
    #[must_use]
    pub fn sender<'a>(&self, subject: &'a str) -> Option<Sent<'a>> {
        let rest = subject.strip_prefix(self.prefix.as_str())?.strip_prefix(".from.")?;
        let mut parts = rest.split('.');
        let node = parts.next()?;
        let kind = match (parts.next()?, parts.next(), parts.next()) {
            ("state", None, _) => FromNode::State,
            ("changes", None, _) => FromNode::Changes,
            ("placed", None, _) => FromNode::Placed,
            ("to", Some(redirector), None) => FromNode::To(redirector),
            _ => return None,
        };
        Some(Sent { node, kind })
    }
}

/// Who sent a message, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// The node's name on the bus.
    pub node: &'a str,
    /// What it sent.
    pub kind: FromNode<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_urls_and_have_no_wildcards() {
        let of = |url| BusName::of_url(url).map(|name| name.to_string());
        assert_eq!(of("https://D1.example.org:1094/x"), Some("d1_example_org_1094".into()));
        assert_eq!(of("root://[::1]:1094"), Some("___1__1094".into()));
        assert_eq!(of(""), None);
        for wrong in ["", "a.b", "*", ">", "a b", "é", &"x".repeat(65)] {
            assert_eq!(BusName::parse(wrong), None, "{wrong}");
        }
        assert!(Subjects::with_prefix("a.b-1").is_some());
        for wrong in ["", ".", "a..b", "a.*", ">", "a b"] {
            assert_eq!(Subjects::with_prefix(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_subject_says_who_sent_a_message() {
        let subjects = Subjects::default();
        let sent = |kind| Some(Sent { node: "d1", kind });
        assert_eq!(subjects.sender(&subjects.state_of("d1")), sent(FromNode::State));
        assert_eq!(subjects.sender(&subjects.changes_of("d1")), sent(FromNode::Changes));
        assert_eq!(
            subjects.sender(&subjects.answers_of("d1", "r")),
            sent(FromNode::To("r"))
        );
        let foreign = [
            "other.from.d1.state",
            "crossload.from",
            "crossload.from.d1",
            "crossload.from.d1.to",
            "crossload.from.d1.state.more",
            "crossload.to.d1",
        ];
        assert!(is_redirector(BusName::of_redirector().as_str()));
        assert!(
            ["d1", "r-", "r-0123456789abcdex", "localhost_8081"]
                .iter()
                .all(|name| !is_redirector(name))
        );
        assert!(foreign.iter().all(|subject| subjects.sender(subject).is_none()));
    }
}
