//! Writes multistatus answers entry by entry, so that a listing of any length streams.
//!
//! The shape is the one that all grid clients read: the prefix `D:` everywhere (XRootD's client
//! compares names as text), one `propstat` with status 200 per response (davix takes each for an
//! entry), and the collection itself first. Properties that were asked for but are not known are
//! left out rather than listed with status 404.

use quick_xml::escape::escape;
use types::{Checksum, LogicalPath};

use super::propfind::{Property, PropfindRequest};
use super::{DAV_NAMESPACE, DCACHE_NAMESPACE};
use crate::date::{format_date, format_iso_date};

/// A file or directory as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its path as clients see it.
    pub path: &'a LogicalPath,
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
    request: PropfindRequest,
}

impl MultistatusWriter {
    /// A writer for what was asked.
    #[must_use]
    pub fn new(request: PropfindRequest) -> Self {
        Self { request }
    }

    /// Writes what comes before the first entry.
    pub fn begin(&self, out: &mut Vec<u8>) {
        let root = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"{DAV_NAMESPACE}\" xmlns:C=\"{DCACHE_NAMESPACE}\">\n"
        );
        out.extend_from_slice(root.as_bytes());
    }

    /// Writes one entry. The thing that was asked about comes first.
    pub fn entry(&self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        let mut href = entry.path.to_url_path();
        if entry.is_directory && !href.ends_with('/') {
            href.push('/');
        }
        out.extend_from_slice(b"<D:response><D:href>");
        out.extend_from_slice(escape(href.as_str()).as_bytes());
        out.extend_from_slice(b"</D:href><D:propstat><D:prop>");
        for property in Property::ALL {
            if self.request.includes(property) {
                self.property(out, property, entry);
            }
        }
        out.extend_from_slice(b"</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n");
    }

    /// Writes what comes behind the last entry.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"</D:multistatus>\n");
    }

    fn property(&self, out: &mut Vec<u8>, property: Property, entry: &Entry<'_>) {
        let Some(value) = value_of(property, entry) else { return };
        let name = property.element();
        let element = if self.request == PropfindRequest::Names || value.is_empty() {
            format!("<{name}/>")
        } else {
            format!("<{name}>{value}</{name}>")
        };
        out.extend_from_slice(element.as_bytes());
    }
}

/// The property as XML; `None` where the entry does not have it.
fn value_of(property: Property, entry: &Entry<'_>) -> Option<String> {
    let file = !entry.is_directory;
    match property {
        Property::DisplayName => Some(escape(entry.path.name().unwrap_or("/")).into_owned()),
        Property::ResourceType => Some(if file {
            String::new()
        } else {
            "<D:collection/>".to_owned()
        }),
        Property::ContentLength => file.then(|| entry.size_bytes.to_string()),
        Property::LastModified => Some(format_date(entry.modified_s)),
        Property::CreationDate => entry.created_s.map(format_iso_date),
        Property::Etag => entry.etag.map(|tag| escape(tag).into_owned()),
        Property::ContentType => file.then(|| "application/octet-stream".to_owned()),
        Property::QuotaUsed => entry.quota_bytes.filter(|_| !file).map(|(used, _)| used.to_string()),
        Property::QuotaAvailable => entry
            .quota_bytes
            .filter(|_| !file)
            .map(|(_, available)| available.to_string()),
        Property::Checksums => {
            let list: Vec<String> = entry
                .checksums
                .iter()
                .map(|sum| format!("{}={}", sum.algorithm(), sum.to_hex()))
                .collect();
            (!list.is_empty()).then(|| list.join(","))
        }
    }
}
