//! Range requests (RFC 9110 §14) and the multipart answers to them, laid out so that davix reads
//! them too.

use types::ByteRange;
use types::limits::RANGE_COUNT_MAX;

use crate::head::plain_number;

/// What a `Range` header comes to for a file of known size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole file: no range was asked, or the header is to be ignored.
    Whole,
    /// Send these parts, in the order asked for; none is empty, each lies within the file.
    Parts(Vec<ByteRange>),
    /// No byte of the file was asked for.
    Unsatisfiable,
}

/// Reads a `Range` value for a file of `size_bytes`.
///
/// What is not understood is ignored (§14.2): another unit, broken syntax, more than
/// [`RANGE_COUNT_MAX`] ranges, and overlapping ranges that add up to more than twice the file,
/// which only an attack asks for (§17.15).
pub(crate) fn parse_ranges(value: &str, size_bytes: u64) -> Ranges {
    let Some((unit, list)) = value.split_once('=') else {
        return Ranges::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Ranges::Whole;
    }
    let mut parts = Vec::new();
    let mut total: u128 = 0;
    let mut named = 0;
    for element in list.split(',').map(str::trim).filter(|element| !element.is_empty()) {
        named += 1;
        let Some(part) = parse_one(element, size_bytes) else {
            return Ranges::Whole;
        };
        if named > RANGE_COUNT_MAX {
            return Ranges::Whole;
        }
        if !part.is_empty() {
            total += u128::from(part.len());
            parts.push(part);
        }
    }
    match (named, parts.len()) {
        (0, _) => Ranges::Whole,
        (_, 0) => Ranges::Unsatisfiable,
        (_, 1) => Ranges::Parts(parts),
        _ if total > 2 * u128::from(size_bytes) => Ranges::Whole,
        _ => Ranges::Parts(parts),
    }
}

/// One range, cut to the file; empty when it lies outside. `None` for broken syntax.
fn parse_one(text: &str, size_bytes: u64) -> Option<ByteRange> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        let count = saturating_number(last)?;
        return Some(ByteRange::new(size_bytes.saturating_sub(count), size_bytes));
    }
    let start = saturating_number(first)?;
    let end = if last.is_empty() {
        size_bytes
    } else {
        saturating_number(last)?.saturating_add(1)
    };
    if !last.is_empty() && end <= start {
        return None;
    }
    Some(if start >= size_bytes {
        ByteRange::new(0, 0)
    } else {
        ByteRange::new(start, end.min(size_bytes))
    })
}

/// Digits only; what does not fit is as good as the largest number.
fn saturating_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// What a `Content-Range` header says (RFC 9110 §14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// Which bytes are in the body; `None` when the range was unsatisfiable (`bytes */size`).
    pub range: Option<ByteRange>,
    /// Size of the whole file; `None` when the sender does not know (`bytes a-b/*`).
    pub size_bytes: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes a-b/size`, `bytes a-b/*` or `bytes */size`. `None` for anything else, such as
    /// the inverted ranges that some servers send for a range behind the end.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, rest) = value.trim().split_once([' ', '='])?;
        let (range, size) = rest.split_once('/')?;
        let (range, size) = (range.trim(), size.trim());
        let size_bytes = if size == "*" { None } else { Some(plain_number(size)?) };
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        if range == "*" {
            return size_bytes.map(|size| Self {
                range: None,
                size_bytes: Some(size),
            });
        }
        let (first, last) = range.split_once('-')?;
        let (start, end) = (plain_number(first)?, plain_number(last)?.checked_add(1)?);
        let fits = start < end && size_bytes.is_none_or(|size| end <= size);
        fits.then(|| Self {
            range: Some(ByteRange::new(start, end)),
            size_bytes,
        })
    }
}

/// The value of `Content-Range` for a part that is not empty.
pub(crate) fn content_range_value(range: ByteRange, size_bytes: u64) -> String {
    format!("bytes {}-{}/{size_bytes}", range.start, range.end.saturating_sub(1))
}

/// A `multipart/byteranges` body (RFC 9110 §14.6) in the layout that davix needs: an empty line in
/// front of each boundary, Content-Type first and Content-Range last in each part.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    size_bytes: u64,
}

impl Multipart {
    /// Parts of a file of `size_bytes`. The boundary is the caller's, to be unpredictable: 1 to 70
    /// letters and digits; others are left out.
    #[must_use]
    pub fn new(boundary: &str, size_bytes: u64) -> Self {
        let boundary: String = boundary.chars().filter(char::is_ascii_alphanumeric).take(70).collect();
        Self { boundary, size_bytes }
    }

    /// The boundary as it is used.
    #[must_use]
    pub fn boundary(&self) -> &str {
        &self.boundary
    }

    /// What goes in front of the bytes of one part.
    #[must_use]
    pub fn part_head(&self, range: ByteRange) -> String {
        format!(
            "\r\n--{}\r\nContent-Type: application/octet-stream\r\nContent-Range: {}\r\n\r\n",
            self.boundary,
            content_range_value(range, self.size_bytes)
        )
    }

    /// What goes behind the last part.
    #[must_use]
    pub fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }

    /// Length of the whole body with these parts, in bytes.
    #[must_use]
    pub fn length(&self, parts: &[ByteRange]) -> u64 {
        let part = |range: &ByteRange| self.part_head(*range).len() as u64 + range.len();
        parts.iter().map(part).sum::<u64>() + self.end().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Parts(ranges.iter().map(|(start, end)| ByteRange::new(*start, *end)).collect())
    }

    #[test]
    fn satisfiable_ranges_are_cut_to_the_file() {
        let table = [
            ("bytes=0-3", parts(&[(0, 4)])),
            ("Bytes=5-", parts(&[(5, 100)])),
            ("bytes=-10", parts(&[(90, 100)])),
            ("bytes=-1000", parts(&[(0, 100)])),
            ("bytes=90-18446744073709551615", parts(&[(90, 100)])),
            ("bytes=0-99999999999999999999999", parts(&[(0, 100)])),
            ("bytes= 0-3 , ,10-12", parts(&[(0, 4), (10, 13)])),
            ("bytes=10-12,0-3,200-300", parts(&[(10, 13), (0, 4)])),
            ("bytes=100-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
        ];
        for (value, expected) in table {
            assert_eq!(parse_ranges(value, 100), expected, "{value}");
        }
        assert_eq!(parse_ranges("bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges("bytes=-5", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=5",
            "bytes=5-3",
            "bytes=a-b",
            "bytes=-",
            "bytes=+1-2",
            "lines=1-2",
            "bytes=0-1,x",
        ] {
            assert_eq!(parse_ranges(value, 100), Ranges::Whole, "{value}");
        }
    }

    #[test]
    fn storms_of_ranges_get_the_whole_file() {
        let many = |count: usize| format!("bytes={}", vec!["0-0"; count].join(","));
        assert_eq!(parse_ranges(&many(RANGE_COUNT_MAX + 1), 1 << 40), Ranges::Whole);
        assert!(
            matches!(parse_ranges(&many(RANGE_COUNT_MAX), 1 << 40), Ranges::Parts(list) if list.len() == RANGE_COUNT_MAX)
        );
        assert_eq!(parse_ranges("bytes=0-,0-,0-", 100), Ranges::Whole);
        assert_eq!(parse_ranges("bytes=0-,0-", 100), parts(&[(0, 100), (0, 100)]));
    }

    #[test]
    fn content_ranges_are_read_and_inverted_ones_refused() {
        let read = ContentRange::parse;
        let range = Some(ByteRange::new(0, 4));
        assert_eq!(
            read("bytes 0-3/12813"),
            Some(ContentRange {
                range,
                size_bytes: Some(12813)
            })
        );
        assert_eq!(
            read("bytes 0-3/*"),
            Some(ContentRange {
                range,
                size_bytes: None
            })
        );
        assert_eq!(
            read("bytes */100"),
            Some(ContentRange {
                range: None,
                size_bytes: Some(100)
            })
        );
        for bad in [
            "bytes 99999999--1/12813",
            "bytes 5-3/10",
            "bytes 0-10/10",
            "bytes */*",
            "bytes 0-3",
            "x 0-3/9",
            "bytes 0-18446744073709551615/*",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_length_of_a_multipart_body_is_known_in_advance() {
        let multipart = Multipart::new("12--34\r\n56", 12813);
        let ranges = [ByteRange::new(0, 4), ByteRange::new(10, 13)];
        let mut body = String::new();
        for range in ranges {
            body.push_str(&multipart.part_head(range));
            body.push_str(&"x".repeat(range.len() as usize));
        }
        body.push_str(&multipart.end());
        assert_eq!(multipart.length(&ranges), body.len() as u64);
        assert!(body.starts_with("\r\n--123456\r\nContent-Type: "), "{body}");
        assert!(
            body.contains("\r\nContent-Range: bytes 0-3/12813\r\n\r\nxxxx\r\n--123456\r\n"),
            "{body}"
        );
        assert!(body.ends_with("\r\n--123456--\r\n"));
    }
}
