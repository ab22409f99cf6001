//! Answers to questions.

use types::{Checksum, ChecksumAlgorithm, Error, LeftOut, Unlisted};

use crate::bytes::text_bytes;
use crate::refusal::misbehaved;

/// The answer about a file's checksum: algorithm and value in hexadecimal, without a NUL.
#[must_use]
pub fn checksum_answer(checksum: &Checksum) -> String {
    format!("{} {}", checksum.algorithm().name(), checksum.to_hex())
}

/// Reads the answer about a file's checksum; `None` for an algorithm that this house does not know.
///
/// # Errors
/// `peer_misbehaved` for anything but two words, and for a value that is none of the algorithm.
pub fn parse_checksum(body: &[u8]) -> Result<Option<Checksum>, Error> {
    let wrong = || misbehaved("the answer about a checksum cannot be understood");
    let text = std::str::from_utf8(text_bytes(body)).map_err(|_| wrong())?;
    let mut words = text.split_ascii_whitespace();
    let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else {
        return Err(wrong());
    };
    match ChecksumAlgorithm::from_name(name) {
        Some(algorithm) => Checksum::from_hex(algorithm, value).map(Some).ok_or_else(wrong),
        None => Ok(None),
    }
}

/// Builds the answer about the configuration: a line for each key, without a NUL. A key without an
/// answer is its own answer, which means "not offered".
#[must_use]
pub fn config_answer<'k>(keys: impl Iterator<Item = &'k str>, value: impl Fn(&str) -> Option<String>) -> String {
    let mut answer = String::new();
    for key in keys {
        answer.push_str(&value(key).unwrap_or_else(|| key.to_owned()));
        answer.push('\n');
    }
    answer
}

/// The answer about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAnswer<'a>(Vec<&'a str>);

impl<'a> ConfigAnswer<'a> {
    /// Reads the answer: a line for each key that was asked for.
    ///
    /// # Errors
    /// `peer_misbehaved` when it is not UTF-8.
    pub fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let text = std::str::from_utf8(text_bytes(body));
        let text = text.map_err(|_| misbehaved("the answer about the configuration is not UTF-8"))?;
        Ok(Self(text.lines().collect()))
    }

    /// The answer to the key at this place of the question; `None` when the server did not answer
    /// it, or only echoed it.
    #[must_use]
    pub fn value(&self, place: usize, key: &str) -> Option<&'a str> {
        self.0
            .get(place)
            .copied()
            .filter(|value| *value != key && !value.is_empty())
    }

    /// Whether the server takes part in third-party copies, by the answer to `tpc` at this place.
    #[must_use]
    pub fn offers_third_party(&self, place: usize) -> bool {
        let value = self.value(place, "tpc").unwrap_or_default();
        let digits = value.strip_prefix('+').unwrap_or(value);
        digits.parse::<u32>().is_ok_and(|number| number > 0)
    }
}

/// Builds the answer about what a listing leaves out: how many names of each kind, without a NUL.
#[must_use]
pub fn unlisted_answer(unlisted: &Unlisted) -> String {
    let (names, links, nodes) = (&unlisted.names, &unlisted.links, &unlisted.nodes);
    let counts = format!("names={}&links={}", names.count, links.count);
    match nodes.count {
        0 => counts,
        count => format!("{counts}&nodes={count}"),
    }
}

/// Reads the answer about what a listing leaves out. Kinds that are not known here are passed over.
///
/// # Errors
/// `peer_misbehaved` when a count is missing or no number.
pub fn parse_unlisted(body: &[u8]) -> Result<Unlisted, Error> {
    let wrong = || misbehaved("the answer about unlisted names cannot be understood");
    let text = std::str::from_utf8(text_bytes(body)).map_err(|_| wrong())?;
    let cgi = crate::Cgi::new(text);
    let count = |key: &str| cgi.value(key).and_then(|value| value.parse().ok()).ok_or_else(wrong);
    Ok(Unlisted {
        remark: None,
        names: LeftOut::of(count("names")?),
        links: LeftOut::of(count("links")?),
        nodes: LeftOut::of(cgi.value("nodes").map_or(Ok(0), |_| count("nodes"))?),
    })
}

/// The space of an export, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Name of the space.
    pub name: String,
    /// All there is.
    pub total_bytes: u64,
    /// What is free.
    pub free_bytes: u64,
    /// The largest free piece.
    pub largest_free_bytes: u64,
    /// What is used.
    pub used_bytes: u64,
    /// The quota; `None` = without.
    pub quota_bytes: Option<u64>,
}

impl SpaceUsage {
    /// The text, without a NUL.
    #[must_use]
    pub fn to_text(&self) -> String {
        let quota = self.quota_bytes.map_or("-1".to_owned(), |bytes| bytes.to_string());
        format!(
            "oss.cgroup={}&oss.space={}&oss.free={}&oss.maxf={}&oss.used={}&oss.quota={quota}",
            self.name, self.total_bytes, self.free_bytes, self.largest_free_bytes, self.used_bytes
        )
    }

    /// Reads the text.
    ///
    /// # Errors
    /// `peer_misbehaved` when a number is missing or none.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let wrong = || misbehaved("the answer about space cannot be understood");
        let text = std::str::from_utf8(text_bytes(body)).map_err(|_| wrong())?;
        let cgi = crate::Cgi::new(text);
        let number = |key: &str| cgi.value(key).and_then(|value| value.parse().ok()).ok_or_else(wrong);
        Ok(Self {
            name: cgi.value("oss.cgroup").unwrap_or_default().to_owned(),
            total_bytes: number("oss.space")?,
            free_bytes: number("oss.free")?,
            largest_free_bytes: number("oss.maxf")?,
            used_bytes: number("oss.used")?,
            quota_bytes: cgi.value("oss.quota").and_then(|value| value.parse().ok()),
        })
    }
}
