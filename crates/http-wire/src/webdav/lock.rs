//! LOCK (RFC 4918 §9.10, §14): the request's body, the description of locks, and the bodies of
//! refusals.

use crate::limits::{LOCK_OWNER_BYTES_MAX, XML_DEPTH_MAX};
use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};
use types::limits::LOCK_BODY_BYTES_MAX;
use types::{Error, LogicalPath};

use super::{DAV_NAMESPACE, are_attributes_apart, is_reserved, resolve};
use crate::fault::bad_request;
use crate::xml::escape;

/// What a LOCK asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockRequest {
    /// Whether others may lock it too.
    pub is_shared: bool,
    /// What the client says about its user: the content of the owner element as XML in which the
    /// prefix `D:` stands for WebDAV's namespace. Attributes are left out.
    pub owner: String,
}

/// A lock as answers describe it.
#[derive(Clone, Copy, Debug)]
pub struct ActiveLock<'a> {
    /// Where it begins.
    pub root: &'a LogicalPath,
    /// Whether it holds for everything below too.
    pub is_deep: bool,
    /// Whether others may lock it too.
    pub is_shared: bool,
    /// As in [`LockRequest::owner`].
    pub owner: &'a str,
    /// How long it lasts from now on, in seconds.
    pub timeout_s: u64,
    /// Its token.
    pub token: &'a str,
}

/// The kinds of locks that are offered (RFC 4918 §15.10), as the value of `supportedlock`.
pub(super) const SUPPORTED_LOCKS: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockentry>\
    <D:lockentry><D:lockscope><D:shared/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockentry>";

/// Why a request about locks is refused (RFC 4918 §16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFault {
    /// The token of a lock has to be submitted.
    TokenNeeded,
    /// Another lock is in the way of a new one.
    Conflict,
    /// The token is of no lock on what the request names.
    TokenMismatch,
}

impl LockFault {
    fn element(self) -> &'static str {
        match self {
            Self::TokenNeeded => "D:lock-token-submitted",
            Self::Conflict => "D:no-conflicting-lock",
            Self::TokenMismatch => "D:lock-token-matches-request-uri",
        }
    }
}

/// Writes locks as the value of `lockdiscovery` (RFC 4918 §15.8).
#[must_use]
pub fn lock_discovery<'a>(locks: impl IntoIterator<Item = ActiveLock<'a>>) -> String {
    let mut out = String::new();
    for lock in locks {
        let scope = if lock.is_shared { "shared" } else { "exclusive" };
        let depth = if lock.is_deep { "infinity" } else { "0" };
        out.push_str(&format!(
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>"
        ));
        if !lock.owner.is_empty() {
            out.push_str(&format!("<D:owner>{}</D:owner>", lock.owner));
        }
        let (seconds, token) = (lock.timeout_s, escape(lock.token));
        let root = lock.root.to_url_path();
        out.push_str(&format!(
            "<D:timeout>Second-{seconds}</D:timeout><D:locktoken><D:href>{token}</D:href></D:locktoken>\
             <D:lockroot><D:href>{}</D:href></D:lockroot></D:activelock>",
            escape(root.as_str())
        ));
    }
    out
}

/// The body of the answer to a LOCK, with the value of `lockdiscovery` (RFC 4918 §9.10.1).
#[must_use]
pub fn lock_answer(discovery: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"{DAV_NAMESPACE}\">\
         <D:lockdiscovery>{discovery}</D:lockdiscovery></D:prop>\n"
    )
}

/// The body of a refusal because of a lock, which `at` names, with words for people.
#[must_use]
pub fn lock_error(fault: LockFault, at: Option<&LogicalPath>, words: &str) -> String {
    let element = fault.element();
    let condition = match at.map(LogicalPath::to_url_path) {
        Some(path) => format!("<{element}><D:href>{}</D:href></{element}>", escape(path.as_str())),
        None => format!("<{element}/>"),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"{DAV_NAMESPACE}\">{condition}\
         <D:responsedescription>{}</D:responsedescription></D:error>\n",
        escape(words)
    )
}

/// Reads the body of a LOCK that asks for a new lock (RFC 4918 §14.11).
///
/// # Errors
/// `bad_request` when it is not a well-formed `lockinfo` for a write lock, has a document type or
/// foreign entities, or exceeds [`LOCK_BODY_BYTES_MAX`], [`LOCK_OWNER_BYTES_MAX`] or
/// [`XML_DEPTH_MAX`].
pub fn parse_lock(body: &[u8]) -> Result<LockRequest, Error> {
    if body.len() > LOCK_BODY_BYTES_MAX {
        return Err(bad_request("the LOCK body is too long"));
    }
    let text = std::str::from_utf8(body).map_err(|_| bad_request("the LOCK body is not UTF-8"))?;
    let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}').trim());
    reader.config_mut().expand_empty_elements = true;
    let mut reading = Reading::default();
    loop {
        let (resolved, event) = reader
            .read_resolved_event()
            .map_err(|_| bad_request("the LOCK body is not well-formed XML"))?;
        match event {
            Event::Start(element) => {
                if !are_attributes_apart(&element) {
                    return Err(bad_request("the LOCK body is not well-formed XML"));
                }
                let namespace = match resolved {
                    ResolveResult::Bound(Namespace("")) | ResolveResult::Unknown(_)
                        if element.name().prefix().is_some() =>
                    {
                        return Err(bad_request("a prefix in the LOCK body is not declared"));
                    }
                    ResolveResult::Bound(Namespace(name)) => name,
                    _ => "",
                };
                reading.start(namespace, element.local_name().into_inner())?;
            }
            Event::End(_) => reading.end()?,
            Event::Text(text) => reading.text(&text)?,
            Event::CData(text) => reading.text(&text)?,
            Event::GeneralRef(name) => {
                let character = resolve(&name).map_err(|_| bad_request("an unknown entity in the LOCK body"))?;
                reading.text(character.encode_utf8(&mut [0; 4]))?;
            }
            Event::DocType(_) => return Err(bad_request("a document type in the LOCK body")),
            Event::Eof => return reading.finish(),
            _ => {}
        }
    }
}

/// What the second level of the body is about.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Other,
    Scope,
    Type,
    Owner,
}

#[derive(Default)]
struct Reading {
    depth: usize,
    part: Part,
    scope: Option<bool>,
    is_write: bool,
    owner: String,
    /// The elements of the owner that are open, as they were written.
    open: Vec<String>,
}

impl Reading {
    fn start(&mut self, namespace: &str, local: &str) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > XML_DEPTH_MAX {
            return Err(bad_request("the LOCK body is nested too deeply"));
        }
        let is_dav = namespace == DAV_NAMESPACE;
        match (self.depth, self.part) {
            (1, _) if !is_dav || local != "lockinfo" => return Err(bad_request("the body is not a DAV: lockinfo")),
            (2, _) => {
                self.part = match local {
                    "lockscope" if is_dav => Part::Scope,
                    "locktype" if is_dav => Part::Type,
                    "owner" if is_dav => Part::Owner,
                    _ => Part::Other,
                }
            }
            (3, Part::Scope) if is_dav && local == "exclusive" => self.scope = Some(false),
            (3, Part::Scope) if is_dav && local == "shared" => self.scope = Some(true),
            (3, Part::Type) => self.is_write = is_dav && local == "write",
            (3.., Part::Owner) => self.open_owner(namespace, local)?,
            _ => {}
        }
        Ok(())
    }

    fn open_owner(&mut self, namespace: &str, local: &str) -> Result<(), Error> {
        let is_name = |character: char| character.is_alphanumeric() || "-._".contains(character);
        if !local.chars().all(is_name) || !local.starts_with(|first: char| first.is_alphabetic() || first == '_') {
            return Err(bad_request("the name of an element in the LOCK body is not one of XML"));
        }
        let (name, declared) = match namespace {
            DAV_NAMESPACE => (format!("D:{local}"), String::new()),
            "" => (local.to_owned(), String::new()),
            other => {
                // It comes as it was written, with references to characters.
                let name = unescape(other).map_err(|_| bad_request("an unknown entity in the LOCK body"))?;
                if is_reserved(&name) {
                    return Err(bad_request(
                        "the owner uses a namespace that is reserved for XML itself",
                    ));
                }
                (format!("X:{local}"), format!(" xmlns:X=\"{}\"", escape(&name)))
            }
        };
        self.push(&format!("<{name}{declared}>"))?;
        self.open.push(name);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.depth = self.depth.saturating_sub(1);
        match self.open.pop() {
            Some(name) => self.push(&format!("</{name}>")),
            None => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        match self.part == Part::Owner && self.depth >= 2 {
            true => self.push(&escape(text)),
            false => Ok(()),
        }
    }

    fn push(&mut self, text: &str) -> Result<(), Error> {
        if self.owner.len() + text.len() > LOCK_OWNER_BYTES_MAX {
            let detail = format!("the owner of a lock has at most {LOCK_OWNER_BYTES_MAX} bytes");
            return Err(bad_request(detail));
        }
        self.owner.push_str(text);
        Ok(())
    }

    fn finish(self) -> Result<LockRequest, Error> {
        if self.depth > 0 {
            return Err(bad_request("the LOCK body ends too early"));
        }
        match (self.scope, self.is_write) {
            (Some(is_shared), true) => Ok(LockRequest {
                is_shared,
                owner: self.owner.trim().to_owned(),
            }),
            _ => Err(bad_request(
                "the lockinfo names no exclusive or shared scope, or not the type write",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ErrorCode;

    fn read(body: &str) -> LockRequest {
        parse_lock(body.as_bytes()).unwrap()
    }

    #[test]
    fn the_bodies_of_real_clients_are_read() {
        let neon = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<lockinfo xmlns='DAV:'>\n <lockscope><exclusive/></lockscope>\n\
                    <locktype><write/></locktype><owner>litmus test suite</owner>\n</lockinfo>\n";
        assert_eq!(
            read(neon),
            LockRequest {
                is_shared: false,
                owner: "litmus test suite".into()
            }
        );
        let windows = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/>\
                       </D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>HOST\\ann</D:href></D:owner></D:lockinfo>";
        assert_eq!(read(windows).owner, "<D:href>HOST\\ann</D:href>");
        let shared = "<a:lockinfo xmlns:a='DAV:' xmlns:b='urn:x'><a:lockscope><a:shared/></a:lockscope><a:owner b:c='d'>\
                      &lt;a &#65;<b:e/><f/></a:owner><a:locktype><a:write/></a:locktype></a:lockinfo>";
        assert_eq!(
            read(shared),
            LockRequest {
                is_shared: true,
                owner: "&lt;a A<X:e xmlns:X=\"urn:x\"></X:e><f></f>".into()
            }
        );
    }

    #[test]
    fn dangerous_or_broken_bodies_are_refused() {
        let inside = |owner: &str| {
            format!(
                "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner>{owner}</owner></lockinfo>"
            )
        };
        let (long, deep) = (
            inside(&"x".repeat(LOCK_OWNER_BYTES_MAX + 1)),
            inside(&"<x>".repeat(XML_DEPTH_MAX)),
        );
        for bad in [
            "",
            "hello",
            "<lockinfo/>",
            &inside("<xml:a/>"),
            &inside("<c xmlns='http://www.w3.org/2000/xmlns/'/>"),
            &inside("<c xmlns='http://www.w3.org/2000/xmlns&#x2f;'/>"),
            "<lockinfo xmlns=\"DAV:\"/>",
            "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope></lockinfo>",
            "<lockinfo xmlns=\"DAV:\"><locktype><write/></locktype></lockinfo>",
            "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><read/></locktype></lockinfo>",
            "<!DOCTYPE x><lockinfo xmlns=\"DAV:\"/>",
            &inside("&evil;"),
            &inside("<a:b/>"),
            &inside("<a b='1'c='2'/>"),
            "<lockinfo xmlns='DAV:'xmlns:x='y'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>",
            &long,
            &deep,
        ] {
            assert_eq!(
                parse_lock(bad.as_bytes()).unwrap_err().code(),
                ErrorCode::BadRequest,
                "{bad}"
            );
        }
        assert!(parse_lock(&vec![b' '; LOCK_BODY_BYTES_MAX + 1]).is_err());
        assert!(parse_lock(inside(&"x".repeat(LOCK_OWNER_BYTES_MAX)).as_bytes()).is_ok());
        assert!(parse_lock(inside("<a b='\"'\n c = \"'x\" />").as_bytes()).is_ok());
    }

    #[test]
    fn a_lock_is_told_with_all_that_it_is() {
        let root = LogicalPath::parse("/a b/<&>").unwrap();
        let lock = ActiveLock {
            root: &root,
            is_deep: true,
            is_shared: false,
            owner: "<D:href>ann</D:href>",
            timeout_s: 600,
            token: "urn:uuid:1",
        };
        let text = lock_answer(&lock_discovery([lock]));
        for part in [
            "<D:lockdiscovery><D:activelock>",
            "<D:lockscope><D:exclusive/></D:lockscope>",
            "<D:depth>infinity</D:depth>",
            "<D:owner><D:href>ann</D:href></D:owner>",
            "<D:timeout>Second-600</D:timeout>",
            "<D:locktoken><D:href>urn:uuid:1</D:href></D:locktoken>",
            "<D:lockroot><D:href>/a%20b/%3C%26%3E</D:href></D:lockroot>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let refused = lock_error(LockFault::TokenNeeded, Some(&root), "a < b");
        assert!(refused.contains("<D:lock-token-submitted><D:href>/a%20b/%3C%26%3E</D:href></D:lock-token-submitted>"));
        assert!(refused.contains("a &lt; b"));
    }
}
