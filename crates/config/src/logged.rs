//! Which requests the log has: values of `[log] requests` and `follow`.

use std::path::Path;

use credentials::AddressRange;
use toml::de::DeValue;
use types::{LogicalPath, is_traceparent};

use crate::values::{Setting, quoted};

/// Filters of `follow`: each request that is not logged otherwise is compared with all of them.
pub(crate) const LOG_FILTERS_MAX: usize = 64;
/// Length of the identifier of a transfer, in bytes.
const ID_BYTES: std::ops::RangeInclusive<usize> = 8..=64;
/// Digits between the hyphens of a UUID (RFC 9562 §4), as a job has them.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// How many of the requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedRequests {
    /// Each.
    All,
    /// Those that failed.
    Failed,
    /// None.
    None,
}

impl Setting for LoggedRequests {
    const KIND: &'static str = "true, \"failed\" or false";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        match (value.as_bool(), value.as_str()) {
            (Some(true), _) => Ok(Self::All),
            (Some(false), _) => Ok(Self::None),
            (None, Some("failed")) => Ok(Self::Failed),
            (None, Some(other)) => Err(format!("\"{other}\" is not one of {}", Self::KIND)),
            (None, None) => Err(format!("expected {}, found {}", Self::KIND, value.type_str())),
        }
    }

    fn write(&self) -> Option<String> {
        Some(match self {
            Self::All => true.to_string(),
            Self::Failed => quoted("failed"),
            Self::None => false.to_string(),
        })
    }
}

/// Requests that are logged whatever `requests` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFilter {
    /// Of clients whose credential has this subject.
    Subject(String),
    /// Of members of this virtual organisation.
    Vo(String),
    /// From these addresses.
    Address(AddressRange),
    /// For this file or directory, and for what is below it.
    Path(LogicalPath),
    /// Of the copy, trace or job with this identifier, in lower case.
    Transfer(String),
}

impl Setting for LogFilter {
    const KIND: &'static str = "a filter such as \"subject:jane\"";

    fn read(value: &DeValue<'_>, _base: &Path) -> Result<Self, String> {
        let kinds = "the kinds are subject:, vo:, address:, path: and transfer:";
        let text = value
            .as_str()
            .ok_or_else(|| format!("expected {}, found {}", Self::KIND, value.type_str()))?;
        let why = || format!("\"{text}\" is not {}; {kinds}", Self::KIND);
        let (kind, what) = text.split_once(':').ok_or_else(why)?;
        // A filter that can never apply would leave its author without lines, and without a reason.
        if what.is_empty() || what.trim() != what {
            return Err(format!(
                "\"{text}\": write what to look for behind the colon, without blanks around it"
            ));
        }
        match kind {
            "subject" => Ok(Self::Subject(what.to_owned())),
            "vo" => Ok(Self::Vo(what.to_owned())),
            "address" => AddressRange::parse(what)
                .map(Self::Address)
                .ok_or_else(|| format!("\"{what}\" is not an address or a network, such as 192.0.2.0/24")),
            "path" => LogicalPath::parse(what)
                .map(Self::Path)
                .map_err(|error| format!("\"{what}\" cannot be used as a path: {}", error.public())),
            "transfer" => identifier(what).map(Self::Transfer).ok_or_else(|| {
                format!("\"{what}\" is no identifier: write a transfer_id, a traceparent, or the job of a queue")
            }),
            _ => Err(why()),
        }
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&match self {
            Self::Subject(name) => format!("subject:{name}"),
            Self::Vo(name) => format!("vo:{name}"),
            Self::Address(range) => format!("address:{range}"),
            Self::Path(path) => format!("path:{}", path.as_str()),
            Self::Transfer(id) => format!("transfer:{id}"),
        }))
    }
}

/// The identifier that a filter names, in lower case: of a traceparent, the trace.
fn identifier(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    if is_traceparent(&text) {
        return text.split('-').nth(1).map(str::to_owned);
    }
    let digits: Vec<&str> = text.split('-').collect();
    let is_plain = digits
        .iter()
        .all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    // Only jobs have hyphens.
    let has_form = digits.len() == 1 || digits.iter().map(|part| part.len()).eq(UUID_PARTS);
    (is_plain && has_form && ID_BYTES.contains(&text.len())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Configuration;

    fn read(lines: &str) -> Result<crate::Log, String> {
        let text = format!("[log]\n{lines}\n");
        let read = Configuration::parse(&text, Path::new("/"), "test");
        read.map(|read| read.log).map_err(|faults| faults.to_string())
    }

    #[test]
    fn requests_are_all_failed_or_none() {
        for (lines, wanted) in [
            ("", LoggedRequests::All),
            ("requests = true", LoggedRequests::All),
            ("requests = \"failed\"", LoggedRequests::Failed),
            ("requests = false", LoggedRequests::None),
        ] {
            let found = read(lines).unwrap().requests;
            assert_eq!(found, wanted, "{lines}");
            let written = found.write().unwrap();
            assert_eq!(read(&format!("requests = {written}")).unwrap().requests, wanted);
        }
        for wrong in ["requests = \"fail\"", "requests = 1", "requests = []"] {
            let says = read(wrong).unwrap_err();
            assert!(says.contains("true, \"failed\" or false"), "{says}");
        }
    }

    #[test]
    fn filters_are_read_as_they_are_written() {
        let filters = [
            "subject:/DC=org/O=Example: Physics/CN=Jane",
            "vo:atlas",
            "address:192.0.2.0/24",
            "address:2001:db8::/32",
            "path:/data/a b",
            "transfer:0af76519-16cd-43dd-8448-eb211c80319c",
        ];
        let found = read(&format!("follow = {filters:?}")).unwrap().follow;
        assert_eq!(
            found[0],
            LogFilter::Subject("/DC=org/O=Example: Physics/CN=Jane".to_owned())
        );
        let written: Vec<String> = found.iter().filter_map(Setting::write).collect();
        assert_eq!(written, filters.map(|filter| format!("{filter:?}")));
        let upper = read("follow = [\"transfer:0AF7651916CD\"]").unwrap().follow;
        assert_eq!(upper, [LogFilter::Transfer("0af7651916cd".to_owned())]);
        // The trace of a traceparent: another request has another span.
        let whole = "transfer:00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01";
        let found = read(&format!("follow = [{whole:?}]")).unwrap().follow;
        let trace = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(found, [LogFilter::Transfer(trace.to_owned())]);
    }

    #[test]
    fn filters_that_never_apply_and_too_many_are_refused() {
        for wrong in [
            "jane",
            "user:jane",
            "subject:",
            "subject: jane",
            "vo:atlas ",
            "address:x",
            "address:192.0.2.0/33",
            "path:data",
            "path:/data/../x",
            "transfer:0af7",
            "transfer:not-hexadecimal",
            "transfer:--------",
            "transfer:0af76519-16cd",
            "transfer:01-0af7651916cd43dd8448eb211c80319c",
            "transfer:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        ] {
            let says = read(&format!("follow = [{wrong:?}]")).unwrap_err();
            assert!(says.contains("follow"), "{wrong}: {says}");
        }
        let many = |count: usize| read(&format!("follow = {:?}", vec!["vo:x"; count]));
        assert_eq!(many(LOG_FILTERS_MAX).unwrap().follow.len(), LOG_FILTERS_MAX);
        let says = many(LOG_FILTERS_MAX + 1).unwrap_err();
        assert!(says.contains("at most 64"), "{says}");
    }
}
