//! Writes multistatus answers entry by entry, so that a listing of any length streams.
//!
//! The shape is the one that all grid clients read: the prefix `D:` everywhere (XRootD's client
//! compares names as text), one `propstat` with status 200 per response (davix takes each for an
//! entry), and the collection itself first. Properties that were asked for but are not known are
//! left out rather than listed with status 404.

//!
//! Everything is appended to one buffer as it is: a directory of ten thousand files is ten thousand
//! times this, and strings in between were most of what a listing cost.

use quick_xml::escape::escape;
use types::{Checksum, LogicalPath, encode_path};

use super::propfind::{Property, PropfindRequest};
use super::{DAV_NAMESPACE, DCACHE_NAMESPACE};
use crate::date::DateWriter;
use crate::number::push_number;

/// Where something that is listed is.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
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

/// A file or directory as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Where it is.
    pub place: Place<'a>,
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
    /// Bytes used and bytes left below; written for directories only.
    pub quota_bytes: Option<(u64, u64)>,
    /// The checksums that are known.
    pub checksums: &'a [Checksum],
}

/// Writes an answer to one PROPFIND into buffers that the caller sends on.
#[derive(Clone, Debug)]
pub struct MultistatusWriter {
    /// What is asked for, in the order in which it is written.
    wanted: Vec<Property>,
    names_only: bool,
    dates: DateWriter,
}

impl MultistatusWriter {
    /// A writer for what was asked.
    #[must_use]
    pub fn new(request: &PropfindRequest) -> Self {
        let wanted = Property::ALL.into_iter().filter(|property| request.includes(*property));
        Self {
            wanted: wanted.collect(),
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
        out.extend_from_slice(b"<D:response><D:href>");
        push_href(out, entry);
        out.extend_from_slice(b"</D:href><D:propstat><D:prop>");
        for property in &self.wanted {
            let dates = (!self.names_only).then_some(&mut self.dates);
            push_property(out, *property, entry, dates);
        }
        out.extend_from_slice(b"</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n");
    }

    /// Writes what comes behind the last entry.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"</D:multistatus>\n");
    }
}

/// A property, if the entry has it; without dates to write with, no more than its name.
fn push_property(out: &mut Vec<u8>, property: Property, entry: &Entry<'_>, dates: Option<&mut DateWriter>) {
    if !has(property, entry) {
        return;
    }
    let name = property.element().as_bytes();
    out.push(b'<');
    out.extend_from_slice(name);
    out.push(b'>');
    let value_at = out.len();
    if let Some(dates) = dates {
        push_value(out, property, entry, dates);
    }
    if out.len() == value_at {
        // Nothing came: an empty element.
        out.truncate(value_at - 1);
        out.extend_from_slice(b"/>");
        return;
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(name);
    out.push(b'>');
}

fn push_href(out: &mut Vec<u8>, entry: &Entry<'_>) {
    match entry.place {
        Place::At(path) if path.as_str().split('/').all(is_plain) => out.extend_from_slice(path.as_str().as_bytes()),
        Place::At(path) => push_escaped(out, &path.to_url_path()),
        Place::In(directory, name) => {
            out.extend_from_slice(directory.0.as_bytes());
            if is_plain(name) {
                out.extend_from_slice(name.as_bytes());
            } else {
                push_escaped(out, &encode_path(name));
            }
        }
    }
    if entry.is_directory && out.last() != Some(&b'/') {
        out.push(b'/');
    }
}

/// Whether a name stands in URLs and in XML for itself.
fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+=@:,".contains(&byte))
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(escape(text).as_bytes());
}

fn display_name(place: Place<'_>) -> &str {
    match place {
        Place::At(path) => path.name().unwrap_or("/"),
        Place::In(_, name) => name,
    }
}

/// Whether the entry has such a property.
fn has(property: Property, entry: &Entry<'_>) -> bool {
    let file = !entry.is_directory;
    match property {
        Property::DisplayName | Property::ResourceType | Property::LastModified => true,
        Property::ContentLength | Property::ContentType => file,
        Property::CreationDate => entry.created_s.is_some(),
        Property::Etag => entry.etag.is_some(),
        Property::QuotaUsed | Property::QuotaAvailable => !file && entry.quota_bytes.is_some(),
        Property::Checksums => !entry.checksums.is_empty(),
    }
}

/// The value of a property that the entry has, as XML.
fn push_value(out: &mut Vec<u8>, property: Property, entry: &Entry<'_>, dates: &mut DateWriter) {
    let (used, available) = entry.quota_bytes.unwrap_or_default();
    match property {
        Property::DisplayName => match display_name(entry.place) {
            name if is_plain(name) => out.extend_from_slice(name.as_bytes()),
            name => push_escaped(out, name),
        },
        Property::ResourceType if entry.is_directory => out.extend_from_slice(b"<D:collection/>"),
        Property::ResourceType => {}
        Property::ContentLength => push_number(out, entry.size_bytes),
        Property::LastModified => dates.push_date(out, entry.modified_s),
        Property::CreationDate => dates.push_iso_date(out, entry.created_s.unwrap_or_default()),
        Property::Etag => push_tag(out, entry.etag.unwrap_or_default()),
        Property::ContentType => out.extend_from_slice(b"application/octet-stream"),
        Property::QuotaUsed => push_number(out, used),
        Property::QuotaAvailable => push_number(out, available),
        Property::Checksums => {
            for (index, sum) in entry.checksums.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let text = format!("{comma}{}={}", sum.algorithm(), sum.to_hex());
                out.extend_from_slice(text.as_bytes());
            }
        }
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
