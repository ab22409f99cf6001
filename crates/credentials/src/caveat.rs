//! The caveats that this server understands, each read into a type.
//!
//! The words are those of XRootD and dCache (WLCG macaroon practice). As in libmacaroons, a caveat
//! that no verifier understands makes the whole token invalid: it restricts in a way that cannot
//! be honoured. dCache's `root:` and `home:` belong to that kind here.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use types::{Error, LogicalPath};

use crate::activity::Activities;
use crate::address::AddressRange;
use crate::exception::Exception;
use crate::invalid_token;

/// One first-party caveat, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// `activity:` only these activities.
    Activity(Activities),
    /// `path:` only this path and what is below it; absolute (as in XRootD, not relative to an
    /// earlier one as in dCache: the narrower of the two readings).
    Path(LogicalPath),
    /// `before:` only before this time, in seconds since 1970; a fraction is dropped.
    Before(i64),
    /// `ip:` only from one of these addresses.
    Address(Vec<AddressRange>),
    /// `max-upload:` no single upload above this many bytes.
    MaxUpload(u64),
    /// `except:` not these activities in that part of the tree; ours.
    Except(Exception),
    /// `name:` the user for whom it was issued.
    Name(String),
    /// `id:` the user for whom it was issued, dCache's form `uid;gid[,gid…];username`.
    Id(String),
    /// `iid:` the number of the issuing act, dCache's.
    IssueId(String),
}

impl Caveat {
    /// Reads `key:value`.
    ///
    /// # Errors
    /// `invalid_token` for a key that is not known and for a value that cannot be read.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (key, value) = text
            .split_once(':')
            .ok_or_else(|| invalid_token("the macaroon holds a caveat without a key"))?;
        let caveat = match key {
            "activity" => Activities::parse(value).map(Self::Activity),
            "path" => LogicalPath::parse(value).ok().map(Self::Path),
            "before" => parse_time_s(value).map(Self::Before),
            "ip" => parse_addresses(value).map(Self::Address),
            "max-upload" => parse_bytes(value).map(Self::MaxUpload),
            "except" => Exception::parse(value).map(Self::Except),
            "name" => parse_word(value).map(Self::Name),
            "id" => parse_word(value).map(Self::Id),
            "iid" => parse_word(value).map(Self::IssueId),
            "root" | "home" => {
                return Err(invalid_token(format!(
                    "the macaroon's caveat \"{key}\" moves the holder to another root, which only dCache does"
                )));
            }
            _ => return Err(invalid_token("the macaroon holds a caveat that is not known here")),
        };
        caveat.ok_or_else(|| invalid_token(format!("the macaroon's caveat \"{key}\" cannot be read")))
    }

    /// Whether it says who the bearer is rather than what may be done.
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Id(_) | Self::IssueId(_))
    }
}

/// The caveat as it is written into a macaroon.
impl std::fmt::Display for Caveat {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Activity(activities) => write!(formatter, "activity:{activities}"),
            Self::Path(path) => write!(formatter, "path:{path}"),
            Self::Before(time_s) => write!(formatter, "before:{}", format_time(*time_s)),
            Self::Address(ranges) => {
                let list: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                write!(formatter, "ip:{}", list.join(","))
            }
            Self::MaxUpload(size_bytes) => write!(formatter, "max-upload:{size_bytes}"),
            Self::Except(exception) => write!(formatter, "except:{exception}"),
            Self::Name(name) => write!(formatter, "name:{name}"),
            Self::Id(id) => write!(formatter, "id:{id}"),
            Self::IssueId(id) => write!(formatter, "iid:{id}"),
        }
    }
}

/// `YYYY-MM-DDThh:mm:ss[.fff]Z` (RFC 3339 §5.6, in UTC only, as both peers write it), to seconds
/// since 1970, rounded down.
fn parse_time_s(text: &str) -> Option<i64> {
    if !text.ends_with('Z') || text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    OffsetDateTime::parse(text, &Rfc3339)
        .ok()
        .map(OffsetDateTime::unix_timestamp)
}

/// A time in seconds since 1970 as the peers write it, `2026-11-21T19:31:25Z`. Beyond the years
/// that the format can name, the nearest it can.
#[must_use]
pub fn format_time(time_s: i64) -> String {
    /// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
    const NAMEABLE_S: (i64, i64) = (-62_167_219_200, 253_402_300_799);
    let time_s = time_s.clamp(NAMEABLE_S.0, NAMEABLE_S.1);
    OffsetDateTime::from_unix_timestamp(time_s)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}

fn parse_addresses(list: &str) -> Option<Vec<AddressRange>> {
    list.split(',').map(|item| AddressRange::parse(item.trim())).collect()
}

fn parse_bytes(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

fn parse_word(text: &str) -> Option<String> {
    let plain = !text.is_empty() && !text.chars().any(char::is_control);
    plain.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ErrorCode;

    #[test]
    fn each_caveat_is_read_and_written_back() {
        for text in [
            "activity:LIST,DOWNLOAD",
            "path:/data/a b",
            "before:2026-11-21T19:31:25Z",
            "ip:192.0.2.0/24,2001:db8::1",
            "max-upload:1048576",
            "except:LIST,DOWNLOAD:/data/a%20b",
            "except:DELETE:/data/x*",
            "name:jdoe",
            "id:1000;1000,20;jdoe",
            "iid:b7aF",
        ] {
            assert_eq!(Caveat::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn times_with_fractions_are_cut_and_blanks_in_lists_dropped() {
        assert_eq!(
            Caveat::parse("before:1970-01-01T00:01:00.999Z").unwrap(),
            Caveat::Before(60)
        );
        assert_eq!(
            Caveat::parse("ip:192.0.2.1, 192.0.2.2").unwrap().to_string(),
            "ip:192.0.2.1,192.0.2.2"
        );
    }

    #[test]
    fn what_is_not_understood_makes_the_token_invalid() {
        for bad in [
            "",
            "activity",
            "activity:",
            "activity:FLY",
            "Activity:LIST",
            "path:",
            "path:data",
            "path:/a/../b",
            "path:/a\0",
            "before:",
            "before:tomorrow",
            "before:2026-11-21",
            "before:2026-11-21T19:31:25+01:00",
            "before:2026-13-21T19:31:25Z",
            "before:2026-11-21 19:31:25Z",
            "ip:",
            "ip:here",
            "ip:1.2.3.4,",
            "max-upload:",
            "max-upload:-1",
            "max-upload:1k",
            "max-upload:99999999999999999999",
            "name:",
            "name:a\nb",
            "root:/",
            "home:/h",
            "time < 2030",
            " path:/a",
        ] {
            assert_eq!(Caveat::parse(bad).unwrap_err().code(), ErrorCode::InvalidToken, "{bad}");
        }
    }

    #[test]
    fn a_time_beyond_the_format_is_written_as_its_last() {
        assert_eq!(Caveat::Before(i64::MAX).to_string(), "before:9999-12-31T23:59:59Z");
    }
}
