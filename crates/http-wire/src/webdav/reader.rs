//! Reads multistatus answers (RFC 4918 §14.16) of any server, entry by entry as they come.
//!
//! Only local names count, whatever their prefix. Servers differ in the rest: paths encoded or not,
//! URLs or paths, directories with or without a trailing slash, `collection` or `iscollection`.

use crate::limits::{MULTISTATUS_DESCRIPTION_CHARS_MAX, MULTISTATUS_ENTRY_BYTES_MAX, XML_DEPTH_MAX};
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::Event;
use types::{Checksum, Error, decode_percent};

use crate::date::parse_date;
use crate::fault::misbehaved;

/// One entry of a server's listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteEntry {
    /// The path, percent-decoded, without a trailing slash (`/` for the root).
    pub path: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is neither a file nor a directory. Only the XRootD protocol tells.
    pub is_special: bool,
    /// Whether it is an upload that was never closed: the server removes it, unless its client goes
    /// on. Only the XRootD protocol tells.
    pub is_unclosed: bool,
    /// Size in bytes, if given.
    pub size_bytes: Option<u64>,
    /// Time of the last change, in seconds since the epoch, if given.
    pub modified_s: Option<i64>,
    /// The entity tag with its quotes.
    pub etag: Option<String>,
    /// The given checksums.
    pub checksums: Vec<Checksum>,
    /// Bytes used below (RFC 4331).
    pub quota_used_bytes: Option<u64>,
    /// Bytes left below (RFC 4331).
    pub quota_available_bytes: Option<u64>,
}

impl RemoteEntry {
    /// The last name of the path; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Reads an answer piece by piece; holds no more than one entry.
#[derive(Clone, Debug, Default)]
pub struct MultistatusParser {
    buffer: Vec<u8>,
    /// How far the buffer was searched for an entry's end.
    searched: usize,
    description: Option<String>,
    /// The first entry that the server names and does not describe.
    omitted: Option<String>,
    ended: bool,
    /// The server calls itself XRootD.
    is_from_xrootd: bool,
}

impl MultistatusParser {
    /// A parser at the start of a body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for a server that calls itself XRootD: paths in listings of XRootD's own form are
    /// not encoded (5.5.3, 6.2.1), so a `%` in them is one. Other programs under its name have
    /// listings of another form, with encoded paths.
    #[must_use]
    pub fn of_xrootd(is_from_xrootd: bool) -> Self {
        Self {
            is_from_xrootd,
            ..Self::default()
        }
    }

    /// Takes the next bytes and returns the entries that they complete. Entries without a
    /// successful `propstat` are left out; [`MultistatusParser::description`] names the first.
    ///
    /// # Errors
    /// `peer_misbehaved` for what is not XML, has a document type or foreign entities, or holds an
    /// entry of more than [`MULTISTATUS_ENTRY_BYTES_MAX`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<RemoteEntry>, Error> {
        self.buffer.extend_from_slice(bytes);
        let mut entries = Vec::new();
        let mut start = 0;
        while let Some(close) = self.next_close() {
            if close.name == "response" {
                match parse_entry(&self.buffer[start..close.end], self.is_from_xrootd)? {
                    Response::Entry(entry) => entries.push(entry),
                    Response::Gone => {}
                    Response::Omitted(words) => {
                        self.omitted.get_or_insert(words);
                    }
                }
                start = close.end;
            } else if close.name == "multistatus" {
                self.description = description(&self.buffer[start..close.end]);
                self.ended = true;
            }
        }
        self.buffer.drain(..start);
        self.searched -= start;
        if self.buffer.len() > MULTISTATUS_ENTRY_BYTES_MAX {
            return Err(misbehaved("an entry of the listing is too long"));
        }
        Ok(entries)
    }

    /// Reads a whole answer.
    ///
    /// # Errors
    /// As [`MultistatusParser::feed`] and [`MultistatusParser::finish`].
    pub fn read_whole(mut self, body: &[u8]) -> Result<Vec<RemoteEntry>, Error> {
        let mut entries = Vec::new();
        // In pieces, since the parser holds no more than an entry at a time.
        for piece in body.chunks(MULTISTATUS_ENTRY_BYTES_MAX / 4) {
            entries.extend(self.feed(piece)?);
        }
        self.finish()?;
        Ok(entries)
    }

    /// What the server says about the whole (RFC 4918 §14.25), once the body has ended, or the
    /// first entry without properties, such as one with a status of its own (RFC 4918 §13); at most
    /// [`MULTISTATUS_DESCRIPTION_CHARS_MAX`] characters. Either means an incomplete listing.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref().or(self.omitted.as_deref())
    }

    /// To be asked when the body has ended.
    ///
    /// # Errors
    /// `peer_misbehaved` when the listing was not complete.
    pub fn finish(&self) -> Result<(), Error> {
        if self.ended {
            Ok(())
        } else {
            Err(misbehaved("the listing ends too early or is not a multistatus"))
        }
    }

    /// The next closing tag that is complete; an empty root counts as closed.
    fn next_close(&mut self) -> Option<Close> {
        loop {
            let open = self.searched + memchr::memchr(b'<', &self.buffer[self.searched..])?;
            let end = open + memchr::memchr(b'>', &self.buffer[open..])? + 1;
            self.searched = end;
            let tag = std::str::from_utf8(&self.buffer[open + 1..end - 1]).unwrap_or_default();
            let name = match tag.strip_prefix('/') {
                Some(name) => name,
                None if tag.ends_with('/') => tag.split([' ', '\t', '\r', '\n', '/']).next().unwrap_or_default(),
                None => continue,
            };
            let name = match local(name.trim_end()) {
                "response" if tag.starts_with('/') => "response",
                "multistatus" => "multistatus",
                _ => continue,
            };
            return Some(Close { name, end });
        }
    }
}

struct Close {
    name: &'static str,
    end: usize,
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or_default()
}

/// The text of the `responsedescription` behind the last entry. One that cannot be read is none.
fn description(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = &text[..text.rfind("responsedescription>")?];
    let text = &text[..text.rfind("</")?];
    let text = unescape(&text[text.rfind('>')? + 1..]).ok()?;
    let shown = printable(text.trim());
    (!shown.is_empty()).then_some(shown)
}

/// The first characters of a server's words, without control characters.
fn printable(text: &str) -> String {
    let plain = text.chars().filter(|character| !character.is_control());
    plain.take(MULTISTATUS_DESCRIPTION_CHARS_MAX).collect()
}

/// Reads a whole answer.
///
/// # Errors
/// As [`MultistatusParser::feed`] and [`MultistatusParser::finish`].
pub fn parse_multistatus(body: &[u8]) -> Result<Vec<RemoteEntry>, Error> {
    MultistatusParser::new().read_whole(body)
}

/// What one `response` of a multistatus says.
enum Response {
    Entry(RemoteEntry),
    /// The name no longer exists (404 or 410).
    Gone,
    /// A name without properties that can be used, with the server's words.
    Omitted(String),
}

/// Reads one `response`. What stands in front of it, such as the root's opening tag, is passed
/// over.
fn parse_entry(bytes: &[u8], is_from_xrootd: bool) -> Result<Response, Error> {
    let broken = |_| misbehaved("the listing is not well-formed XML");
    let text = std::str::from_utf8(bytes).map_err(|_| misbehaved("the listing is not UTF-8"))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let mut reading = Reading::default();
    loop {
        match reader.read_event().map_err(broken)? {
            Event::Start(element) => {
                reading.has_plain_path |= is_from_xrootd && element.attributes_raw().contains(XROOTD_NAMESPACE);
                reading.start(element.local_name().into_inner())?;
            }
            Event::End(element) => reading.end(element.local_name().into_inner()),
            Event::Text(text) => reading.text.push_str(&text),
            Event::CData(text) => reading.text.push_str(&text),
            Event::GeneralRef(name) => reading.text.push(resolve(&name)?),
            Event::DocType(_) => return Err(misbehaved("a document type in the listing")),
            Event::Eof => return Ok(reading.finish()),
            _ => {}
        }
    }
}

/// The five entities of XML, and characters by number.
pub(crate) fn resolve(reference: &quick_xml::events::BytesRef<'_>) -> Result<char, Error> {
    let unknown = || misbehaved("an unknown entity in the listing");
    if let Some(character) = reference.resolve_char_ref().map_err(|_| unknown())? {
        return Ok(character);
    }
    let predefined = resolve_xml_entity(reference).and_then(|text| text.chars().next());
    predefined.ok_or_else(unknown)
}

/// A namespace that XRootD declares with each entry.
const XROOTD_NAMESPACE: &str = "\"LCGDM:\"";

#[derive(Default)]
struct Reading {
    depth: usize,
    /// The path is not encoded.
    has_plain_path: bool,
    text: String,
    href: Option<String>,
    /// What the current `propstat` says; kept when its status is a success.
    pending: RemoteEntry,
    failed: bool,
    entry: Option<RemoteEntry>,
    /// The status line of the whole response, if it has one.
    status: String,
}

impl Reading {
    fn start(&mut self, name: &str) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > XML_DEPTH_MAX {
            return Err(misbehaved("the listing is nested too deeply"));
        }
        self.text.clear();
        if name == "propstat" {
            self.pending = RemoteEntry::default();
            self.failed = false;
        }
        Ok(())
    }

    fn end(&mut self, name: &str) {
        self.depth = self.depth.saturating_sub(1);
        let whole = std::mem::take(&mut self.text);
        let text = whole.trim();
        let pending = &mut self.pending;
        match name {
            "href" if self.href.is_none() => self.href = Some(href_of(&whole).to_owned()),
            "collection" => pending.is_directory = true,
            "iscollection" if text == "1" => pending.is_directory = true,
            "getcontentlength" => pending.size_bytes = text.parse().ok(),
            "getlastmodified" => pending.modified_s = parse_date(text),
            "getetag" if !text.is_empty() => pending.etag = Some(text.to_owned()),
            "quota-used-bytes" => pending.quota_used_bytes = text.parse().ok(),
            "quota-available-bytes" => pending.quota_available_bytes = text.parse().ok(),
            "Checksums" | "checksums" | "checksum" => {
                let list = text
                    .split([',', ' '])
                    .filter_map(|pair| crate::digest::parse_digest(pair).next());
                pending.checksums.extend(list.flatten());
                // ownCloud and nextCloud write `SHA1:… MD5:…`.
                pending.checksums.extend(
                    text.split(' ')
                        .filter(|pair| !pair.contains('='))
                        .filter_map(Checksum::from_pair),
                );
            }
            "status" => {
                text.clone_into(&mut self.status);
                self.failed = !self.status_code().starts_with('2');
            }
            "propstat" => {
                self.status.clear();
                if !self.failed && self.entry.is_none() {
                    self.entry = Some(std::mem::take(&mut self.pending));
                }
            }
            _ => {}
        }
    }

    fn status_code(&self) -> &str {
        self.status.split(' ').nth(1).unwrap_or_default()
    }

    fn finish(self) -> Response {
        let is_gone = matches!(self.status_code(), "404" | "410");
        let href = self.href.unwrap_or_default();
        match (decode_href(&href, self.has_plain_path), self.entry) {
            (Some(path), Some(entry)) => Response::Entry(RemoteEntry { path, ..entry }),
            (Some(_), None) if is_gone => Response::Gone,
            _ => Response::Omitted(printable(&format!("no properties of {href} ({})", self.status))),
        }
    }
}

/// The text of an href without its indentation. A space at the end of its line belongs to a name
/// that was not encoded.
fn href_of(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.trim_end().len();
    let line_end = text[end..].find(['\r', '\n']);
    line_end.map_or(text, |cut| &text[..end + cut])
}

/// The path of an href, decoded unless it is plain. Some servers do not encode paths, so a text
/// that does not decode is taken as it stands.
fn decode_href(href: &str, is_plain: bool) -> Option<String> {
    let path = match href.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("/", |cut| &rest[cut..]),
        _ => href,
    };
    if !path.starts_with('/') {
        return None;
    }
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Some("/".to_owned());
    }
    let decoded = decode_percent(path).filter(|decoded| !is_plain && has_same_names(path, decoded));
    Some(decoded.unwrap_or_else(|| path.to_owned()))
}

/// Whether a path has as many names decoded as before: no name has a slash in it.
fn has_same_names(path: &str, decoded: &str) -> bool {
    path.matches('/').count() == decoded.matches('/').count()
}
