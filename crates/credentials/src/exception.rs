//! Where a macaroon does not allow all that it names: its requester had no right to that there.

use std::fmt;

use types::{LogicalPath, decode_percent, encode_path};

use crate::activity::Activities;

/// Activities that are not granted in a part of what a macaroon reaches.
///
/// It is a caveat of ours, `except:ACTIVITIES:PATH`, and not a part of the identifier: a server
/// that does not know it refuses the macaroon, where it would else allow more than the requester
/// had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// What is not granted.
    pub activities: Activities,
    place: String,
    /// Whether every path counts that begins with the text, or the path and everything below it.
    is_beginning: bool,
}

impl Exception {
    /// Not on this path and everything below it.
    #[must_use]
    pub fn below(activities: Activities, path: &LogicalPath) -> Self {
        Self {
            activities,
            place: path.as_str().to_owned(),
            is_beginning: false,
        }
    }

    /// Not on any path that begins with this text.
    #[must_use]
    pub fn beginning_with(activities: Activities, text: &str) -> Self {
        Self {
            activities,
            place: text.to_owned(),
            is_beginning: true,
        }
    }

    /// Reads `ACTIVITIES:PATH`, the path percent-encoded, and with a star at its end when it is
    /// only the beginning.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let (activities, place) = value.split_once(':')?;
        let activities = Activities::parse(activities)?;
        let (encoded, is_beginning) = match place.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (place, false),
        };
        let place = decode_percent(encoded)?;
        let plain = LogicalPath::parse(&place).ok()?;
        let is_plain = plain.as_str() == place || is_beginning && place.strip_suffix('/') == Some(plain.as_str());
        (is_plain || place == "/").then_some(Self {
            activities,
            place,
            is_beginning,
        })
    }

    /// Whether a path, in its plain form, lies there.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        let place = if self.place == "/" { "" } else { self.place.as_str() };
        path.strip_prefix(place)
            .is_some_and(|rest| self.is_beginning || rest.is_empty() || rest.starts_with('/'))
    }

    /// The first path that lies there, as a text that need not be the path of anything that can
    /// exist.
    #[must_use]
    pub fn edge(&self) -> String {
        match self.is_beginning {
            true => format!("{}\0", self.place),
            false => self.place.clone(),
        }
    }

    /// Whether another says nothing that this one does not say.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.activities.contains(other.activities) && self.holds(&other.edge())
    }
}

/// As [`Exception::parse`] reads it.
impl fmt::Display for Exception {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = encode_path(&self.place).replace('*', "%2A");
        let star = if self.is_beginning { "*" } else { "" };
        write!(out, "{}:{place}{star}", self.activities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Activity;

    #[test]
    fn exceptions_hold_where_they_say_and_are_read_back() {
        let activities = Activities::of(&[Activity::Download]);
        let path = LogicalPath::parse("/a/x: *,%").unwrap();
        for (exception, inside, outside) in [
            (Exception::below(activities, &path), "/a/x: *,%/y", "/a/x: *,%y"),
            (Exception::beginning_with(activities, "/a/x"), "/a/xy", "/a/y"),
            (Exception::beginning_with(activities, "/a/"), "/a/y", "/a"),
        ] {
            assert!(exception.holds(inside) && !exception.holds(outside), "{exception}");
            let text = exception.to_string();
            assert_eq!(Exception::parse(&text), Some(exception.clone()), "{text}");
            assert!(exception.covers(&exception));
        }
        for bad in [
            "",
            "DOWNLOAD",
            "DOWNLOAD:",
            "DOWNLOAD:a",
            "FLY:/a",
            "DOWNLOAD:/a/../b",
            "DOWNLOAD:/a//b",
        ] {
            assert_eq!(Exception::parse(bad), None, "{bad}");
        }
    }
}
