//! The URLs of a submission: what they must have, their storage, and `copy_mode`.

use catalog::CopyMode;
use types::Location;

use crate::fts::FtsError;
use crate::limits::URL_BYTES_MAX;

/// The parameter of a URL by which Rucio and gfal fix the way of a copy.
const COPY_MODE: &str = "copy_mode";
/// Parameters that hold a signature over all others of the query (AWS Signature Version 4, and
/// Google's V4).
const SIGNATURES: [&str; 2] = ["X-Amz-Signature", "X-Goog-Signature"];

/// The URL of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileUrl {
    /// The URL, without `copy_mode`.
    pub(super) text: String,
    /// `scheme://host:port` in lower case.
    pub(super) storage: String,
    /// The only way that a copy from here may take.
    pub(super) copy_mode: Option<CopyMode>,
}

impl FileUrl {
    /// Reads a source.
    ///
    /// # Errors
    /// 400 with the part that is missing, in FTS's words; for a way that does not exist.
    pub(super) fn source(text: &str) -> Result<Self, FtsError> {
        let mut url = Self::destination(text)?;
        if let Some(found) = CopyModeInQuery::find(&url.text) {
            let mode = found
                .mode
                .ok_or_else(|| FtsError::invalid("copy_mode is none of pull, push, streamed"))?;
            url.copy_mode = Some(mode);
            if !found.is_signed {
                url.text = found.without;
            }
        }
        Ok(url)
    }

    /// Reads a destination.
    ///
    /// # Errors
    /// 400 with the part that is missing, in FTS's words.
    pub(super) fn destination(text: &str) -> Result<Self, FtsError> {
        let text = text.trim();
        // A query may hold a secret.
        let shown = shown(text);
        let missing = |what: &str| Err(FtsError::invalid(format!("Missing {what} ({shown})")));
        if text.len() > URL_BYTES_MAX {
            return Err(FtsError::invalid(format!("a URL has more than {URL_BYTES_MAX} bytes")));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return missing("scheme");
        };
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" {
            return Err(FtsError::invalid(format!("Can not transfer local files ({shown})")));
        }
        let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if matches!(&rest[host_end..], "" | "/") {
            return missing("path");
        }
        if host_end == 0 {
            return missing("host");
        }
        if rest[..host_end].contains('@') {
            return Err(FtsError::invalid("a URL may not contain a user name or password"));
        }
        let location = Location::parse(text).map_err(|error| {
            let why = error.detail().unwrap_or_default();
            FtsError::invalid(format!("{why} ({shown})"))
        })?;
        Ok(Self {
            storage: format!(
                "{scheme}://{}:{}",
                // The dot of a name that is whole (RFC 1034 §3.1) names the same host.
                location.host().to_ascii_lowercase().trim_end_matches('.'),
                location.port()
            ),
            text: match location.is_http() || location.is_s3() {
                // No server gets it, and it may hold a secret.
                true => text.split('#').next().unwrap_or_default().to_owned(),
                false => text.to_owned(),
            },
            copy_mode: None,
        })
    }
}

/// A URL without its query and fragment, for errors.
fn shown(text: &str) -> &str {
    let whole = text.split(['?', '#']).next().unwrap_or_default();
    match whole.char_indices().nth(256) {
        Some((end, _)) => &whole[..end],
        None => whole,
    }
}

/// Where `copy_mode` stands in a URL.
struct CopyModeInQuery {
    /// `None`: a way that does not exist.
    mode: Option<CopyMode>,
    /// Whether it belongs to what was signed: it then must stay.
    is_signed: bool,
    /// The URL without it.
    without: String,
}

impl CopyModeInQuery {
    fn find(text: &str) -> Option<Self> {
        let (before, query) = text.split_once('?')?;
        let parameters: Vec<&str> = query.split('&').collect();
        let position = parameters
            .iter()
            .position(|parameter| value_of(parameter, COPY_MODE).is_some())?;
        // A signature is appended last, so a parameter behind it was added later.
        let is_signed = parameters[position..]
            .iter()
            .any(|parameter| SIGNATURES.iter().any(|name| value_of(parameter, name).is_some()));
        let others: Vec<&str> = parameters
            .iter()
            .copied()
            .filter(|parameter| value_of(parameter, COPY_MODE).is_none())
            .collect();
        let without = match others.is_empty() {
            true => before.to_owned(),
            false => format!("{before}?{}", others.join("&")),
        };
        let mode = match value_of(parameters[position], COPY_MODE)? {
            "pull" => Some(CopyMode::Pull),
            "push" => Some(CopyMode::Push),
            "streamed" => Some(CopyMode::Streamed),
            _ => None,
        };
        Some(Self {
            mode,
            is_signed,
            without,
        })
    }
}

fn value_of<'p>(parameter: &'p str, name: &str) -> Option<&'p str> {
    parameter.strip_prefix(name)?.strip_prefix('=')
}

/// A source as its client wrote it: with `copy_mode` again, where it was taken out. Rucio compares
/// it with what it sent.
#[must_use]
pub fn source_as_given(source: &str, mode: Option<CopyMode>) -> String {
    let Some(mode) = mode else { return source.to_owned() };
    if CopyModeInQuery::find(source).is_some() {
        return source.to_owned();
    }
    let word = match mode {
        CopyMode::Pull => "pull",
        CopyMode::Push => "push",
        CopyMode::Streamed => "streamed",
    };
    let separator = if source.contains('?') { '&' } else { '?' };
    format!("{source}{separator}{COPY_MODE}={word}")
}

/// A storage as FTS names it: without its port.
#[must_use]
pub fn storage_without_port(storage: &str) -> &str {
    let authority = storage.find("://").map_or(0, |end| end + 3);
    match storage.rfind(':') {
        Some(colon) if colon >= authority && !storage[colon..].contains(']') => &storage[..colon],
        _ => storage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_has_its_port_and_fts_does_not_see_it() {
        for (text, storage, fts) in [
            (
                "davs://A.example.org/x",
                "davs://a.example.org:443",
                "davs://a.example.org",
            ),
            ("https://a.example.:443/x", "https://a.example:443", "https://a.example"),
            ("root://h:1095//x", "root://h:1095", "root://h"),
            ("root://h//x", "root://h:1094", "root://h"),
            ("HTTP://h/x?y", "http://h:80", "http://h"),
            ("https://[::1]:8443/x", "https://[::1]:8443", "https://[::1]"),
        ] {
            let url = FileUrl::destination(text).unwrap();
            assert_eq!(url.storage, storage);
            assert_eq!(storage_without_port(&url.storage), fts);
        }
        assert_eq!(storage_without_port("davs://a.x"), "davs://a.x");
        assert_eq!(storage_without_port("https://[::1]"), "https://[::1]");
    }

    #[test]
    fn a_fragment_is_not_kept() {
        let url = FileUrl::destination("https://a/p#authz=secret").unwrap();
        assert_eq!(url.text, "https://a/p");
        // The XRootD protocol has none.
        assert_eq!(FileUrl::destination("root://a//p#1").unwrap().text, "root://a//p#1");
    }

    #[test]
    fn the_missing_part_is_named_as_fts_does() {
        for (text, message) in [
            ("https://a", "Missing path (https://a)"),
            ("https://a/", "Missing path (https://a/)"),
            ("/a/b", "Missing scheme (/a/b)"),
            ("https:///b", "Missing host (https:///b)"),
            ("file:///a/1", "Can not transfer local files (file:///a/1)"),
            ("ftp://a/b?authz=s", "unknown scheme \"ftp\" (ftp://a/b)"),
            ("https://u:p@a/b", "a URL may not contain a user name or password"),
        ] {
            let error = FileUrl::source(text).unwrap_err();
            assert_eq!(error, FtsError::invalid(message), "{text}");
        }
        assert!(FileUrl::source(&format!("https://a/{}", "x".repeat(URL_BYTES_MAX))).is_err());
    }

    #[test]
    fn copy_mode_is_taken_out_unless_it_was_signed() {
        for (text, mode, stripped) in [
            ("davs://a/p?copy_mode=push", CopyMode::Push, "davs://a/p"),
            ("davs://a/p?x=1&copy_mode=pull", CopyMode::Pull, "davs://a/p?x=1"),
            (
                "https://a/p?X-Amz-Signature=ff&copy_mode=push",
                CopyMode::Push,
                "https://a/p?X-Amz-Signature=ff",
            ),
            (
                "https://a/p?copy_mode=streamed&X-Amz-Signature=ff",
                CopyMode::Streamed,
                "https://a/p?copy_mode=streamed&X-Amz-Signature=ff",
            ),
        ] {
            let url = FileUrl::source(text).unwrap();
            assert_eq!((url.copy_mode, url.text.as_str()), (Some(mode), stripped));
            assert_eq!(source_as_given(&url.text, url.copy_mode), text);
        }
        assert_eq!(
            FileUrl::destination("davs://a/p?copy_mode=push").unwrap().copy_mode,
            None
        );
        assert!(FileUrl::source("davs://a/p?copy_mode=sideways").is_err());
        assert_eq!(FileUrl::source("davs://a/p?no_copy_mode=1").unwrap().copy_mode, None);
    }
}
