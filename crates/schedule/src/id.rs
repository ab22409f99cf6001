//! Identifiers of jobs and files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A job: a UUID, written in lower case with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub [u8; 16]);

/// A file of a job: a number that is unique in the queue. FTS clients read it as an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub i64);

/// The text is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUuid;

impl fmt::Display for NoUuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no UUID")
    }
}

impl std::error::Error for NoUuid {}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", u128::from_be_bytes(self.0));
        let groups = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        formatter.write_str(&groups.join("-"))
    }
}

impl FromStr for JobId {
    type Err = NoUuid;

    /// Accepts the form with hyphens only, in either case.
    fn from_str(text: &str) -> Result<Self, NoUuid> {
        let groups: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        let is_hexadecimal = groups
            .iter()
            .all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if lengths != [8, 4, 4, 4, 12] || !is_hexadecimal {
            return Err(NoUuid);
        }
        let number = u128::from_str_radix(&groups.concat(), 16).map_err(|_| NoUuid)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_written_and_read_as_a_uuid() {
        let text = "01874efb-4735-4595-bc9c-591aef8240c9";
        let id: JobId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        for bad in [
            "",
            "nope",
            "01874efb47354595bc9c591aef8240c9",
            "01874efb-4735-4595-bc9c-591aef8240cg",
            "01874efb-4735-4595-bc9c-591aef8240c",
            "+1874efb-4735-4595-bc9c-591aef8240c9",
        ] {
            assert_eq!(bad.parse::<JobId>(), Err(NoUuid), "{bad}");
        }
    }
}
