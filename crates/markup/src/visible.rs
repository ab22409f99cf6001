//! Text of others made visible.

use std::borrow::Cow;

/// Whether terminals and mail programs act on a character: a control character, the separators of
/// lines and paragraphs, or one that turns the direction of text (Unicode Standard Annex 9 §2), so
/// that a line seems to say something else.
#[must_use]
pub fn is_obeyed(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || turns
}

/// How such a character is shown: `\x` and two digits, or `\u{…}`.
#[must_use]
pub fn hexadecimal(character: char) -> String {
    match u32::from(character) {
        code @ ..=0xff => format!("\\x{code:02x}"),
        code => format!("\\u{{{code:x}}}"),
    }
}

/// Text that is safe within a line: characters that would be obeyed are shown instead.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_obeyed(character) {
            true => shown.push_str(&hexadecimal(character)),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(visible("a b ä 日本"), "a b ä 日本");
        assert_eq!(visible("\u{1b}[31m\r\n\u{9b}"), r"\x1b[31m\x0d\x0a\x9b");
        assert_eq!(visible("to \u{202e}evil\u{2028}"), r"to \u{202e}evil\u{2028}");
    }
}
