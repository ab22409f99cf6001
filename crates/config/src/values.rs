//! The kinds of values in the configuration file: how each is parsed, checked and written.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use credentials::AddressRange;
use credentials::x509::Revocation;
use policy::{AnonymousAccess, Drain};
use toml::de::DeValue;
use types::{ChecksumAlgorithm, LogicalPath};

use crate::tokens::Counts;
use crate::users::{Switch, UserGroups};

/// A kind of value.
pub trait Setting: Sized {
    /// Its name in the manual.
    const KIND: &'static str;
    /// Whether it names files or directories.
    const NAMES_FILES: bool = false;

    /// Parses a value; relative file names start from `base`, the directory of the configuration
    /// file.
    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String>;

    /// Writes a value as TOML; `None` if it is not set.
    fn write(&self) -> Option<String>;

    /// The files and directories that it names.
    fn paths(&self) -> Vec<&Path> {
        Vec::new()
    }
}

/// Where credentials are accepted in clear text, in which anyone on the path can steal them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearText {
    /// Nowhere.
    Never,
    /// From loopback addresses.
    Loopback,
    /// From everywhere.
    Always,
}

/// Whether clients are asked for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// No.
    Off,
    /// Yes, but they need not have one.
    Optional,
}

/// Who this server is at the upstream server of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamIdentity {
    /// Itself.
    Service,
    /// Its client, by its own token.
    Client,
    /// Its client, by the proxy that it has delegated to this server.
    Delegated,
    /// Its client, by tokens that this server mints.
    Minted,
}

/// Whether the checksums of both sides of a copy are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Always: the copy fails if the other side has no checksum.
    Required,
    /// If the other side has a checksum.
    WhenAvailable,
    /// Never.
    Never,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    Auto,
    /// An object of JSON per line.
    Json,
    /// For people.
    Text,
    /// Entries of systemd's journal.
    Journald,
}

/// What shares of a queue are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareCount {
    /// The time that copies hold slots.
    Slots,
    /// Bytes of the files.
    Bytes,
}

/// How an XRootD session authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationMethod {
    /// By a bearer token.
    Token,
    /// By a certificate or proxy.
    Gsi,
    /// By the client's user name.
    Unix,
    /// By the client's address.
    Host,
}

/// When the XRootD protocol is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XrootTls {
    /// Never.
    None,
    /// If the client asks for it.
    Optional,
    /// Before the login.
    Login,
    /// After the login.
    Session,
    /// Before the login, and on all streams.
    Data,
}

/// Nice increment of the threads for long transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Niceness {
    /// As the control group suggests.
    Auto,
    /// This many steps.
    Steps(u8),
}

/// A number of bytes, written as a number or with a unit (`"64MiB"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses `64MiB`, `10 GB`, `4096`. Units are those of IEC 80000-13 and SI, in any case.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let factor = match unit {
        "" => 1,
        _ => SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

const TIME_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Parses `30s`, `5m`, `500ms`, `2h`, `1d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let factor_ms = TIME_UNITS.iter().find(|(name, _)| *name == unit)?.1;
    Some(Duration::from_millis(
        digits.trim().parse::<u64>().ok()?.checked_mul(factor_ms)?,
    ))
}

fn expected<T>(what: &str, value: &DeValue<'_>) -> Result<T, String> {
    Err(format!("expected {what}, found {}", value.type_str()))
}

pub(crate) fn read_integer(value: &DeValue<'_>) -> Option<Result<u64, String>> {
    let integer = value.as_integer()?;
    let parsed = u64::from_str_radix(integer.as_str(), integer.radix());
    Some(parsed.map_err(|_| format!("{integer} is out of range")))
}

fn read_text<'a>(what: &str, value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().map_or_else(|| expected(what, value), Ok)
}

pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The largest increment of nice(1).
const NICENESS_MAX: u64 = 19;

impl Setting for Niceness {
    const KIND: &'static str = "\"auto\" or a number from 0 to 19";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        if value.as_str() == Some("auto") {
            return Ok(Self::Auto);
        }
        let number = read_integer(value).unwrap_or_else(|| expected(Self::KIND, value))?;
        let steps = u8::try_from(number).ok().filter(|_| number <= NICENESS_MAX);
        steps
            .map(Self::Steps)
            .ok_or_else(|| format!("expected {}, found {number}", Self::KIND))
    }

    fn write(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quoted("auto"),
            Self::Steps(steps) => steps.to_string(),
        })
    }
}

impl Setting for bool {
    const KIND: &'static str = "true or false";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        value.as_bool().map_or_else(|| expected(Self::KIND, value), Ok)
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for u32 {
    const KIND: &'static str = "number";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let number = read_integer(value).unwrap_or_else(|| expected("a number", value))?;
        Self::try_from(number).map_err(|_| format!("{number} is too large"))
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for Bytes {
    const KIND: &'static str = "size";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        if let Some(number) = read_integer(value) {
            return number.map(Self);
        }
        let text = read_text("a size such as \"64MiB\"", value)?;
        let size = parse_size(text).ok_or_else(|| format!("\"{text}\" is not a size such as \"64MiB\""))?;
        Ok(Self(size))
    }

    fn write(&self) -> Option<String> {
        let unit = SIZE_UNITS[..4]
            .iter()
            .find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        Some(match unit {
            Some((name, factor)) => format!("\"{}{name}\"", self.0 / factor),
            None => self.0.to_string(),
        })
    }
}

impl Setting for Duration {
    const KIND: &'static str = "duration";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let text = read_text("a duration such as \"30s\" or \"5m\"", value)?;
        parse_duration(text).ok_or_else(|| format!("\"{text}\" is not a duration such as \"30s\" or \"5m\""))
    }

    fn write(&self) -> Option<String> {
        let ms = self.as_millis() as u64;
        let (name, factor) = match ms {
            _ if !ms.is_multiple_of(1_000) => TIME_UNITS[0],
            _ if ms > 0 && ms.is_multiple_of(86_400_000) => TIME_UNITS[4],
            _ if ms > 0 && ms.is_multiple_of(3_600_000) => TIME_UNITS[3],
            _ if ms > 0 && ms.is_multiple_of(60_000) => TIME_UNITS[2],
            _ => TIME_UNITS[1],
        };
        Some(format!("\"{}{name}\"", ms / factor))
    }
}

impl Setting for String {
    const KIND: &'static str = "text";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        read_text("text", value).map(str::to_owned)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Setting for PathBuf {
    const KIND: &'static str = "file name";
    const NAMES_FILES: bool = true;

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        match read_text("a file name", value)? {
            "" => Err("the file name is empty".to_owned()),
            name => Ok(base.join(name)),
        }
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string_lossy()))
    }

    fn paths(&self) -> Vec<&Path> {
        vec![self]
    }
}

impl Setting for SocketAddr {
    const KIND: &'static str = "address:port";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let text = read_text("an address with a port", value)?;
        let why = || format!("\"{text}\" is not an address with a port, such as \"127.0.0.1:8080\" or \"[::]:443\"");
        text.parse().map_err(|_| why())
    }

    fn write(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl Setting for AddressRange {
    const KIND: &'static str = "network";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let text = read_text("an address or a network", value)?;
        let why =
            || format!("\"{text}\" is not an address or a network, such as \"192.0.2.0/24\" or \"2001:db8::/32\"");
        Self::parse(text).ok_or_else(why)
    }

    fn write(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl Setting for LogicalPath {
    const KIND: &'static str = "URL path";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let text = read_text("a path such as \"/data\"", value)?;
        Self::parse(text).map_err(|error| format!("\"{text}\" cannot be used as a path: {}", error.public()))
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self.as_str()))
    }
}

impl Setting for ChecksumAlgorithm {
    const KIND: &'static str = "checksum algorithm";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let text = read_text("the name of a checksum algorithm", value)?;
        let why = || format!("\"{text}\" is not one of adler32, crc32c, md5, sha-256");
        Self::from_name(text).ok_or_else(why)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self.name()))
    }
}

impl<T: Setting> Setting for Option<T> {
    const KIND: &'static str = T::KIND;
    const NAMES_FILES: bool = T::NAMES_FILES;

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        T::read(value, base).map(Some)
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(Setting::write)
    }

    fn paths(&self) -> Vec<&Path> {
        self.iter().flat_map(Setting::paths).collect()
    }
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: &'static str = "list";
    const NAMES_FILES: bool = T::NAMES_FILES;

    fn read(value: &DeValue<'_>, base: &Path) -> Result<Self, String> {
        let Some(list) = value.as_array() else {
            return expected(&format!("a list; each item: {}", T::KIND), value);
        };
        list.iter().map(|item| T::read(item.get_ref(), base)).collect()
    }

    fn write(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(Setting::write).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn paths(&self) -> Vec<&Path> {
        self.iter().flat_map(Setting::paths).collect()
    }
}

/// The words for the values of an enumeration.
macro_rules! words {
    ($type:ty, $kind:literal, $($word:literal => $value:expr),+) => {
        impl Setting for $type {
            const KIND: &'static str = $kind;

            fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
                match read_text($kind, value)? {
                    $($word => Ok($value),)+
                    other => Err(format!("\"{other}\" is not one of {}", $kind)),
                }
            }

            fn write(&self) -> Option<String> {
                [$(($word, $value)),+].iter().find(|(_, value)| value == self).map(|(word, _)| format!("\"{word}\""))
            }
        }
    };
}

words!(AnonymousAccess, "\"none\", \"read\", \"write\"",
    "none" => AnonymousAccess::None, "read" => AnonymousAccess::Read, "write" => AnonymousAccess::Write);
words!(Switch, "\"auto\", \"never\", \"required\"",
    "auto" => Switch::Auto, "never" => Switch::Never, "required" => Switch::Required);
words!(UserGroups, "\"all\", \"primary\"", "all" => UserGroups::All, "primary" => UserGroups::Primary);
words!(Counts, "\"capability\", \"group\", \"mapping\"",
    "capability" => Counts::Capability, "group" => Counts::Group, "mapping" => Counts::Mapping);
words!(UpstreamIdentity, "\"service\", \"client\", \"delegated\", \"minted\"",
    "service" => UpstreamIdentity::Service, "client" => UpstreamIdentity::Client,
    "delegated" => UpstreamIdentity::Delegated, "minted" => UpstreamIdentity::Minted);
words!(ClientCertificates, "\"off\", \"optional\"",
    "off" => ClientCertificates::Off, "optional" => ClientCertificates::Optional);
words!(Revocation, "\"required\", \"if-present\", \"off\"",
    "required" => Revocation::Required, "if-present" => Revocation::IfPresent, "off" => Revocation::Off);
words!(ClearText, "\"never\", \"loopback\", \"always\"",
    "never" => ClearText::Never, "loopback" => ClearText::Loopback, "always" => ClearText::Always);
words!(XrootTls, "\"none\", \"optional\", \"login\", \"session\", \"data\"",
    "none" => XrootTls::None, "optional" => XrootTls::Optional, "login" => XrootTls::Login,
    "session" => XrootTls::Session, "data" => XrootTls::Data);
words!(AuthenticationMethod, "\"token\" (or \"ztn\"), \"gsi\", \"unix\", \"host\"",
    "token" => AuthenticationMethod::Token, "ztn" => AuthenticationMethod::Token, "gsi" => AuthenticationMethod::Gsi,
    "unix" => AuthenticationMethod::Unix, "host" => AuthenticationMethod::Host);
words!(Drain, "\"active\", \"no_writes\", \"no_reads\"",
    "active" => Drain::Active, "no_writes" => Drain::NoWrites, "no_reads" => Drain::NoReads);
words!(ShareCount, "\"slots\", \"bytes\"", "slots" => ShareCount::Slots, "bytes" => ShareCount::Bytes);
words!(LogFormat, "\"auto\", \"json\", \"text\", \"journald\"",
    "auto" => LogFormat::Auto, "json" => LogFormat::Json, "text" => LogFormat::Text,
    "journald" => LogFormat::Journald);
words!(Verification, "\"required\", \"when-available\", \"never\"",
    "required" => Verification::Required, "when-available" => Verification::WhenAvailable, "never" => Verification::Never);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_with_their_units() {
        for (text, bytes) in [("4096", 4096), ("64MiB", 64 << 20), ("1 gb", 1_000_000_000), ("0", 0)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5GiB", "1XB", "99999999999TiB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
        for (text, ms) in [("30s", 30_000), ("5m", 300_000), ("500ms", 500), ("2h", 7_200_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "30", "s", "1.5s", "5 minutes", "-1s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for bytes in [0, 1, 1000, 1024, 3 << 20, 5 << 40] {
            let text = Bytes(bytes).write().unwrap();
            assert_eq!(parse_size(text.trim_matches('"')), Some(bytes), "{text}");
        }
        for ms in [0, 1, 999, 1000, 90_000, 3_600_000, 86_400_000] {
            let text = Duration::from_millis(ms).write().unwrap();
            assert_eq!(
                parse_duration(text.trim_matches('"')),
                Some(Duration::from_millis(ms)),
                "{text}"
            );
        }
    }
}
