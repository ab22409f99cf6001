//! Text that fits into the columns of a terminal.

use reports::words::columns;
use unicode_width::UnicodeWidthChar as _;

/// Text of at most so many columns: beginning and end of what is longer.
pub(super) fn without_middle(text: &str, columns_max: usize) -> String {
    if columns(text) <= columns_max {
        return text.to_owned();
    }
    let room = columns_max.saturating_sub(1);
    let front = fitting(text.chars(), room / 2);
    let back: String = fitting(text.chars().rev(), room - room / 2).chars().rev().collect();
    format!("{front}…{back}")
}

/// The first characters that fit into so many columns.
pub(super) fn fitting(characters: impl Iterator<Item = char>, columns_max: usize) -> String {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += character.width().unwrap_or(0);
        taken <= columns_max
    };
    characters.take_while(fits).collect()
}

/// The text in lines of at most so many columns; at least one.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut line, mut width) = (Vec::new(), String::new(), 0);
    for character in text.chars() {
        let own = character.width().unwrap_or(0);
        if width > 0 && width + own > columns {
            lines.push(std::mem::take(&mut line));
            width = 0;
        }
        width += own;
        line.push(character);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shortened_and_wrapped_by_columns() {
        assert_eq!(without_middle("0123456789", 10), "0123456789");
        assert_eq!(without_middle("0123456789a", 10), "0123…6789a");
        assert_eq!(without_middle("0123456789a", 0), "…");
        // Each of these takes two columns.
        assert_eq!(
            without_middle("\u{8868}\u{8868}\u{8868}\u{8868}", 6),
            "\u{8868}…\u{8868}"
        );
        assert_eq!(fitting("\u{8868}\u{8868}".chars(), 3), "\u{8868}");
        assert_eq!(wrapped("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrapped("a\u{8868}b", 2), ["a", "\u{8868}", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
