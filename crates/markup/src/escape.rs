//! Text that others wrote, made safe for markup.

use std::fmt;

use crate::visible::{hexadecimal, is_obeyed};

/// Shows text so that nothing in it is taken for markup, inside of elements and of quoted
/// attributes. Characters that XML cannot hold become U+FFFD, and those that turn the direction of
/// text are shown by their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for character in self.0.chars() {
            match character {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                '\n' | '\t' => formatter.write_char(' ')?,
                // XML 1.0 §2.2 has no other control characters, nor these two.
                hidden if hidden.is_control() || matches!(hidden, '\u{fffe}' | '\u{ffff}') => {
                    formatter.write_char(char::REPLACEMENT_CHARACTER)?;
                }
                turning if is_obeyed(turning) => formatter.write_str(&hexadecimal(turning))?,
                plain => formatter.write_char(plain)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_markup() {
        let text = "a<b>&\"c'\nd\u{0}\u{ffff}é\u{202e}";
        assert_eq!(
            Escaped(text).to_string(),
            "a&lt;b&gt;&amp;&quot;c&#39; d\u{fffd}\u{fffd}é\\u{202e}"
        );
    }
}
