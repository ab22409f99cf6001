//! An ordered list of header fields, kept as one text and the positions in it, because a head is
//! parsed for every request and an allocation per header would be most of the cost.

use std::fmt;
use std::ops::Range;

use zeroize::Zeroize;

/// Header fields in the order in which they came. Names compare without regard to case
/// (RFC 9110 §5.1); a value has no blanks around it and holds neither CR, LF nor NUL (§5.5).
#[derive(Clone, Default)]
pub struct Headers {
    text: String,
    fields: Vec<Field>,
}

/// Where one field's name and value lie in the text.
#[derive(Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
}

/// A part of the text.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }
}

impl Headers {
    /// No fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over the lines of a head; fields are then named by [`Headers::push_span`].
    pub(crate) fn with_text(text: String, count: usize) -> Self {
        Self {
            text,
            fields: Vec::with_capacity(count),
        }
    }

    /// Adds a field that already lies in the text. The spans are at character boundaries.
    pub(crate) fn push_span(&mut self, name: Range<usize>, value: Range<usize>) {
        self.fields.push(Field {
            name: name.into(),
            value: value.into(),
        });
    }

    /// The text in which the fields lie: what [`Headers::with_text`] took over.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Overwrites all that is there, and leaves nothing.
    pub(crate) fn wipe(&mut self) {
        self.fields.clear();
        self.text.zeroize();
    }

    fn span(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The first field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(present, _)| present.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// All fields of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter(move |(present, _)| present.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The comma-separated elements of all fields of this name (RFC 9110 §5.6.1), without blanks
    /// and without empty elements. Not for values that may hold quoted commas.
    pub fn elements<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.all(name)
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|element| !element.is_empty())
    }

    /// Whether there is a field of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Name and value of every field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields
            .iter()
            .map(|field| (self.span(field.name), self.span(field.value)))
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Adds a field behind the others. Control characters in the value become blanks, so that no
    /// value can end its line; returns false, and adds nothing, when the name is not a token.
    pub fn append(&mut self, name: &str, value: &str) -> bool {
        if !is_token(name) {
            return false;
        }
        let name_start = self.text.len();
        self.text.push_str(name);
        let value_start = self.text.len();
        push_value(&mut self.text, value);
        self.push_span(name_start..value_start, value_start..self.text.len());
        true
    }

    /// Sets a field: others of the same name go. Otherwise as [`Headers::append`].
    pub fn insert(&mut self, name: &str, value: &str) -> bool {
        if !is_token(name) {
            return false;
        }
        let text = &self.text;
        self.fields
            .retain(|field| !text[field.name.start as usize..field.name.end as usize].eq_ignore_ascii_case(name));
        self.append(name, value)
    }
}

/// Only the names: values may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_list()
            .entries(self.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Whether the text is a token (RFC 9110 §5.6.2), as header names and methods are.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Writes a header value: control characters become blanks, blanks around it go.
pub(crate) fn push_value(out: &mut String, value: &str) {
    let value = value.trim();
    if value.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        out.extend(
            value
                .chars()
                .map(|character| if character.is_ascii_control() { ' ' } else { character }),
        );
    } else {
        out.push_str(value);
    }
}

/// The same as bytes.
pub(crate) fn push_value_bytes(out: &mut Vec<u8>, value: &str) {
    let value = value.trim();
    let start = out.len();
    out.extend_from_slice(value.as_bytes());
    for byte in &mut out[start..] {
        if byte.is_ascii_control() {
            *byte = b' ';
        }
    }
}

/// Writes one header line.
pub(crate) fn push_field(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str(": ");
    push_value(out, value);
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case_and_order_is_kept() {
        let mut headers = Headers::new();
        assert!(headers.append("Allow", "GET") && headers.append("X", "") && headers.append("allow", " PUT "));
        assert_eq!(headers.all("ALLOW").collect::<Vec<_>>(), ["GET", "PUT"]);
        assert_eq!(headers.get("x"), Some(""));
        assert!(headers.insert("ALLOW", "HEAD"));
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("X", ""), ("ALLOW", "HEAD")]);
    }

    #[test]
    fn no_value_can_end_its_line_and_no_name_can_hold_one() {
        let mut headers = Headers::new();
        assert!(headers.append("A", "x\r\nB: y\0"));
        assert_eq!(headers.get("A"), Some("x  B: y "));
        for bad in ["", "A B", "A:", "A\r\nB", "ä"] {
            assert!(!headers.append(bad, "x") && !headers.insert(bad, "x"), "{bad}");
        }
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn printing_headers_shows_no_values() {
        let mut headers = Headers::new();
        headers.append("Authorization", "Bearer hunter2");
        assert_eq!(format!("{headers:?}"), "[\"Authorization\"]");
    }
}
