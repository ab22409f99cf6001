//! Writes multistatus answers entry by entry, so that a listing of any length streams.
//!
//! The shape is the one that all grid clients read: the prefix `D:` everywhere (XRootD's client
//! compares names as text), a `propstat` with status 200 first in each response, and the collection
//! itself first. Properties that were asked for by name and are not there follow with status 404.
//!
//! Everything is appended to one buffer as it is: a directory of ten thousand files is ten thousand
//! times this, and strings in between were most of what a listing cost.

use types::{Checksum, LogicalPath, encode_path};

use super::dead::{DeadProperties, PropertyName};
use super::lock::SUPPORTED_LOCKS;
use super::propfind::{Property, PropfindRequest, Tags, unknown_text};
use super::{DAV_NAMESPACE, DCACHE_NAMESPACE};
use crate::date::DateWriter;
use crate::number::push_number;
use crate::xml::escape;

/// Where something that is listed is.
#[derive(Clone, Copy, Debug)]
pub enum EntryPath<'a> {
    /// At a path of its own, as clients see it.
    At(&'a LogicalPath),
    /// In a directory, under this name.
    In(&'a Href, &'a str),
}

/// The path of a directory as it is written in front of the names in it.
#[derive(Clone, Debug)]
pub struct Href(String);

impl Href {
    /// That of `directory`.
    #[must_use]
    pub fn of(directory: &LogicalPath) -> Self {
        let path = directory.to_url_path();
        let slash = if path.ends_with('/') { "" } else { "/" };
        Self(format!("{}{slash}", escape(path.as_str())))
    }
}

/// Used and available space below a directory (RFC 4331 §3, §4).
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// Used, in bytes.
    pub used_bytes: u64,
    /// Available, in bytes.
    pub available_bytes: u64,
}

/// A file or directory as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Where it is.
    pub place: EntryPath<'a>,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Size in bytes; not written for directories.
    pub size_bytes: u64,
    /// Time of the last change, in seconds since the epoch.
    pub modified_s: i64,
    /// Time of creation, in seconds since the epoch, where it is known.
    pub created_s: Option<i64>,
    /// The entity tag with its quotes.
    pub etag: Option<&'a str>,
    /// Used and available space; written for directories only.
    pub quota: Option<Quota>,
    /// The checksums that are known.
    pub checksums: &'a [Checksum],
    /// The locks that it is under, as [`super::lock_discovery`] writes them; `None` to leave them
    /// out.
    pub locks: Option<&'a str>,
    /// The dead properties, where they were looked for and there are any.
    pub dead: Option<&'a DeadProperties>,
}

/// Writes an answer to one PROPFIND into buffers that the caller sends on.
#[derive(Clone, Debug)]
pub struct MultistatusWriter {
    /// What is asked for, in the order in which it is written.
    wanted: Vec<Property>,
    names_only: bool,
    /// What is asked for by name and not known here, with the empty elements for it; `None` where
    /// nothing is asked for by name.
    unknown: Option<(Vec<PropertyName>, String)>,
    dates: DateWriter,
}

impl MultistatusWriter {
    /// A writer for what was asked.
    #[must_use]
    pub fn new(request: &PropfindRequest) -> Self {
        let wanted = Property::ALL.into_iter().filter(|property| request.includes(*property));
        Self {
            wanted: wanted.collect(),
            unknown: match request {
                PropfindRequest::Properties { unknown, .. } => Some((unknown.clone(), unknown_text(unknown))),
                _ => None,
            },
            names_only: *request == PropfindRequest::Names,
            dates: DateWriter::new(),
        }
    }

    /// Whether this is asked for.
    #[must_use]
    pub fn wants(&self, property: Property) -> bool {
        self.wanted.contains(&property)
    }

    /// Writes what comes before the first entry.
    pub fn begin(&self, out: &mut Vec<u8>) {
        for part in [
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"",
            DAV_NAMESPACE,
            "\" xmlns:C=\"",
            DCACHE_NAMESPACE,
            "\">\n",
        ] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Writes one entry. The thing that was asked about comes first.
    pub fn entry(&mut self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        let name = Name::of(entry.place);
        out.extend_from_slice(b"<D:response><D:href>");
        push_href(out, entry, name);
        out.extend_from_slice(b"</D:href><D:propstat><D:prop>");
        for property in &self.wanted {
            if !has(*property, entry) {
                continue;
            }
            if self.names_only {
                out.extend_from_slice(property.tags().empty.as_bytes());
            } else {
                push_property(out, *property, entry, name, &mut self.dates);
            }
        }
        match (entry.dead, &self.unknown) {
            (Some(dead), Some((names, _))) => dead.push_named(out, names),
            (Some(dead), None) => dead.push_all(out, self.names_only),
            (None, _) => {}
        }
        out.extend_from_slice(b"</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>");
        match (entry.dead, &self.unknown) {
            (Some(dead), Some((names, _))) => self.push_missing(out, entry, &dead.missing(names)),
            (None, Some((_, missing))) => self.push_missing(out, entry, missing),
            (_, None) => {}
        }
        out.extend_from_slice(b"</D:response>\n");
    }

    /// What is asked for by name and is not there (RFC 4918 §9.1.1).
    fn push_missing(&self, out: &mut Vec<u8>, entry: &Entry<'_>, unknown: &str) {
        let mut missing = self.wanted.iter().filter(|property| !has(**property, entry)).peekable();
        if unknown.is_empty() && missing.peek().is_none() {
            return;
        }
        out.extend_from_slice(b"<D:propstat><D:prop>");
        for property in missing {
            out.extend_from_slice(property.tags().empty.as_bytes());
        }
        out.extend_from_slice(unknown.as_bytes());
        out.extend_from_slice(b"</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>");
    }

    /// Writes what is to be said about the whole (RFC 4918 §14.25), behind the last entry.
    pub fn description(&self, out: &mut Vec<u8>, text: &str) {
        let text = escape(text);
        for part in ["<D:responsedescription>", &text, "</D:responsedescription>\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Writes what comes behind the last entry, or behind the description.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"</D:multistatus>\n");
    }
}

/// The last name of an entry, looked at once for the two places where it is written.
#[derive(Clone, Copy)]
struct Name<'a> {
    text: &'a str,
    is_plain: bool,
}

impl<'a> Name<'a> {
    fn of(place: EntryPath<'a>) -> Self {
        let text = match place {
            EntryPath::At(path) => path.name().unwrap_or("/"),
            EntryPath::In(_, name) => name,
        };
        let is_plain = is_plain(text);
        Self { text, is_plain }
    }
}

fn push_href(out: &mut Vec<u8>, entry: &Entry<'_>, name: Name<'_>) {
    match entry.place {
        EntryPath::At(path) if path.as_str().split('/').all(is_plain) => {
            out.extend_from_slice(path.as_str().as_bytes())
        }
        EntryPath::At(path) => push_escaped(out, &path.to_url_path()),
        EntryPath::In(directory, _) => {
            out.extend_from_slice(directory.0.as_bytes());
            if name.is_plain {
                out.extend_from_slice(name.text.as_bytes());
            } else {
                push_escaped(out, &encode_path(name.text));
            }
        }
    }
    if entry.is_directory && out.last() != Some(&b'/') {
        out.push(b'/');
    }
}

/// Which bytes stand in URLs and in XML for themselves.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < plain.len() {
        plain[byte] = matches!(
            byte as u8,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'+' | b'=' | b'@' | b':' | b','
        );
        byte += 1;
    }
    plain
};

/// Whether a name stands in URLs and in XML for itself.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| PLAIN[usize::from(byte)])
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(escape(text).as_bytes());
}

/// Whether the entry has such a property.
fn has(property: Property, entry: &Entry<'_>) -> bool {
    let file = !entry.is_directory;
    match property {
        Property::DisplayName | Property::ResourceType | Property::LastModified => true,
        Property::ContentLength | Property::ContentType => file,
        Property::CreationDate => entry.created_s.is_some(),
        Property::Etag => entry.etag.is_some(),
        Property::QuotaUsed | Property::QuotaAvailable => !file && entry.quota.is_some(),
        Property::Checksums => !entry.checksums.is_empty(),
        Property::LockDiscovery | Property::SupportedLock => entry.locks.is_some(),
    }
}

/// A property that the entry has, with its value. Each has its tags before the compiler's eyes,
/// which so copies them without a call.
fn push_property(out: &mut Vec<u8>, property: Property, entry: &Entry<'_>, name: Name<'_>, dates: &mut DateWriter) {
    use Property as P;
    let quota = entry.quota.unwrap_or_default();
    match property {
        P::DisplayName if name.is_plain => {
            around(out, P::DisplayName.tags(), |out| {
                out.extend_from_slice(name.text.as_bytes())
            });
        }
        P::DisplayName => around(out, P::DisplayName.tags(), |out| push_escaped(out, name.text)),
        P::ResourceType if entry.is_directory => {
            around(out, P::ResourceType.tags(), |out| {
                out.extend_from_slice(b"<D:collection/>")
            });
        }
        P::ResourceType => out.extend_from_slice(P::ResourceType.tags().empty.as_bytes()),
        P::ContentLength => around(out, P::ContentLength.tags(), |out| push_number(out, entry.size_bytes)),
        P::LastModified => around(out, P::LastModified.tags(), |out| {
            dates.push_date(out, entry.modified_s)
        }),
        P::CreationDate => around(out, P::CreationDate.tags(), |out| {
            dates.push_iso_date(out, entry.created_s.unwrap_or_default());
        }),
        P::Etag => around(out, P::Etag.tags(), |out| push_tag(out, entry.etag.unwrap_or_default())),
        P::ContentType => around(out, P::ContentType.tags(), |out| {
            out.extend_from_slice(b"application/octet-stream");
        }),
        P::QuotaUsed => around(out, P::QuotaUsed.tags(), |out| push_number(out, quota.used_bytes)),
        P::QuotaAvailable => around(out, P::QuotaAvailable.tags(), |out| {
            push_number(out, quota.available_bytes)
        }),
        P::Checksums => around(out, P::Checksums.tags(), |out| push_checksums(out, entry.checksums)),
        P::LockDiscovery => around(out, P::LockDiscovery.tags(), |out| {
            out.extend_from_slice(entry.locks.unwrap_or_default().as_bytes());
        }),
        P::SupportedLock => around(out, P::SupportedLock.tags(), |out| {
            out.extend_from_slice(SUPPORTED_LOCKS.as_bytes());
        }),
    }
}

/// A value between its tags.
#[inline]
fn around(out: &mut Vec<u8>, tags: Tags, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(tags.open.as_bytes());
    value(out);
    out.extend_from_slice(tags.close.as_bytes());
}

fn push_checksums(out: &mut Vec<u8>, checksums: &[Checksum]) {
    for (index, sum) in checksums.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let text = format!("{comma}{}={}", sum.algorithm(), sum.to_hex());
        out.extend_from_slice(text.as_bytes());
    }
}

/// An entity tag: only its quotes are anything to XML, where it is one of ours.
fn push_tag(out: &mut Vec<u8>, tag: &str) {
    let inner = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner.filter(|inner| is_plain(inner)) {
        Some(inner) => {
            out.extend_from_slice(b"&quot;");
            out.extend_from_slice(inner.as_bytes());
            out.extend_from_slice(b"&quot;");
        }
        None => push_escaped(out, tag),
    }
}
