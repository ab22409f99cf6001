//! Text of others in our XML.

use std::borrow::Cow;

/// Whether XML can hold this character (XML 1.0 §2.2), even by its number.
pub(crate) fn is_legal(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Text for an element or a quoted attribute. Characters that XML cannot hold become U+FFFD: with
/// one of them the whole document could not be read.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    match text.chars().all(is_legal) {
        true => quick_xml::escape::escape(text),
        false => {
            let text = text.replace(|character: char| !is_legal(character), "\u{fffd}");
            Cow::Owned(quick_xml::escape::escape(text).into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_that_xml_cannot_hold() {
        assert_eq!(
            escape("a<b>&\"'\t日本\u{10ffff}"),
            "a&lt;b&gt;&amp;&quot;&apos;\t日本\u{10ffff}"
        );
        assert_eq!(
            escape("<\u{0}\u{1f}\u{fffe}\u{ffff}\u{fffd}"),
            "&lt;\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
    }
}
