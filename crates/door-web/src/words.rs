//! Text that others may have written.

use std::fmt;

use markup::visible;
use serde::{Serialize, Serializer};

use crate::limits::NAME_SHOWN_CHARACTERS_MAX;

/// A text for pages: characters that would be obeyed (control characters, line breaks, marks that
/// turn the direction of text) are shown by their numbers. Templates escape the rest. As JSON it is
/// the text itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Words(String);

impl Words {
    /// The text itself, for comparisons.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> From<T> for Words {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&visible(&self.0))
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A name of any length, as it is logged and shown.
pub(crate) fn cut(name: &str) -> String {
    name.chars().take(NAME_SHOWN_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed_and_json_is_exact() {
        let words = Words::from("a\nb\u{0}\u{202e}<c>");
        assert_eq!(words.to_string(), "a\\x0ab\\x00\\u{202e}<c>");
        let json = serde_json::to_string(&words).unwrap();
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "a\nb\u{0}\u{202e}<c>");
    }
}
