//! The body of a PROPFIND request (RFC 4918 §9.1, §14.20).

use std::sync::Arc;

use crate::limits::{LAST_PROPFIND_BYTES_MAX, PROPFIND_PROPERTIES_MAX, PROPFIND_UNKNOWN_BYTES_MAX, XML_DEPTH_MAX};
use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;
use quick_xml::name::{Namespace, ResolveResult};
use types::Error;
use types::limits::PROPFIND_BODY_BYTES_MAX;

use super::dead::PropertyName;
use super::{DAV_NAMESPACE, DCACHE_NAMESPACE, are_attributes_apart, is_reserved};
use crate::fault::bad_request;

/// An element as it is written: whole texts, so that one copy of a known length puts each into an
/// answer.
#[derive(Clone, Copy)]
pub(super) struct Tags {
    /// The name with its prefix.
    pub(super) name: &'static str,
    /// In front of the value.
    pub(super) open: &'static str,
    /// Behind the value.
    pub(super) close: &'static str,
    /// In place of all three, when there is no value.
    pub(super) empty: &'static str,
}

macro_rules! tags {
    ($name:literal) => {
        Tags {
            name: $name,
            open: concat!("<", $name, ">"),
            close: concat!("</", $name, ">"),
            empty: concat!("<", $name, "/>"),
        }
    };
}

/// The properties that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// The last name of the path (RFC 4918 §15.2).
    DisplayName,
    /// Whether it is a directory (§15.9).
    ResourceType,
    /// Size in bytes (§15.4); files only.
    ContentLength,
    /// Time of the last change (§15.7).
    LastModified,
    /// Time of creation (§15.1).
    CreationDate,
    /// The entity tag (§15.6).
    Etag,
    /// The media type (§15.5).
    ContentType,
    /// Bytes used (RFC 4331 §4); directories only.
    QuotaUsed,
    /// Bytes left (RFC 4331 §3); directories only.
    QuotaAvailable,
    /// Checksums as dCache lists them.
    Checksums,
    /// The locks that it is under (RFC 4918 §15.8).
    LockDiscovery,
    /// The kinds of locks that are offered (§15.10).
    SupportedLock,
}

impl Property {
    /// All, in the order in which they are written.
    pub const ALL: [Self; 12] = [
        Self::DisplayName,
        Self::ResourceType,
        Self::ContentLength,
        Self::LastModified,
        Self::CreationDate,
        Self::Etag,
        Self::ContentType,
        Self::QuotaUsed,
        Self::QuotaAvailable,
        Self::Checksums,
        Self::LockDiscovery,
        Self::SupportedLock,
    ];

    /// The element's name with the prefix under which the writer knows its namespace.
    pub(super) fn element(self) -> &'static str {
        self.tags().name
    }

    /// The tags of the element.
    pub(super) const fn tags(self) -> Tags {
        match self {
            Self::DisplayName => tags!("D:displayname"),
            Self::ResourceType => tags!("D:resourcetype"),
            Self::ContentLength => tags!("D:getcontentlength"),
            Self::LastModified => tags!("D:getlastmodified"),
            Self::CreationDate => tags!("D:creationdate"),
            Self::Etag => tags!("D:getetag"),
            Self::ContentType => tags!("D:getcontenttype"),
            Self::QuotaUsed => tags!("D:quota-used-bytes"),
            Self::QuotaAvailable => tags!("D:quota-available-bytes"),
            Self::Checksums => tags!("C:Checksums"),
            Self::LockDiscovery => tags!("D:lockdiscovery"),
            Self::SupportedLock => tags!("D:supportedlock"),
        }
    }

    fn from_name(namespace: &str, local: &str) -> Option<Self> {
        let prefix = match namespace {
            DAV_NAMESPACE => "D:",
            DCACHE_NAMESPACE => "C:",
            _ => return None,
        };
        Self::ALL
            .into_iter()
            .find(|property| property.element().strip_prefix(prefix) == Some(local))
    }
}

/// What a PROPFIND asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropfindRequest {
    /// All properties; also meant by an empty body.
    AllProperties,
    /// The names of the properties, without values.
    Names,
    /// These properties.
    Properties {
        /// Those that are known here, each once.
        known: Vec<Property>,
        /// The others: dead properties, where there are such.
        unknown: Vec<PropertyName>,
    },
}

impl PropfindRequest {
    /// Whether the answer may hold dead properties, so that these have to be looked for. WebDAV's
    /// own names are none.
    #[must_use]
    pub fn wants_dead(&self) -> bool {
        match self {
            Self::AllProperties | Self::Names => true,
            Self::Properties { unknown, .. } => unknown.iter().any(|name| !name.is_davs_own()),
        }
    }

    /// Whether the answer holds this property.
    #[must_use]
    pub fn includes(&self, property: Property) -> bool {
        match self {
            Self::AllProperties | Self::Names => true,
            Self::Properties { known, .. } => known.contains(&property),
        }
    }
}

/// The body of a connection's last PROPFIND, and what it asked for. A client asks for the same
/// properties of file after file: comparing the bytes costs less than reading XML.
#[derive(Debug, Default)]
pub struct LastPropfind(Option<(Box<[u8]>, Arc<PropfindRequest>)>);

impl LastPropfind {
    /// As [`parse_propfind`]. A body of up to [`LAST_PROPFIND_BYTES_MAX`] is known when it comes
    /// again at once.
    ///
    /// # Errors
    /// As [`parse_propfind`]; what was known stays known.
    pub fn parse(&mut self, body: &[u8]) -> Result<Arc<PropfindRequest>, Error> {
        if let Some((_, request)) = self.0.as_ref().filter(|(last, _)| **last == *body) {
            return Ok(request.clone());
        }
        let request = Arc::new(parse_propfind(body)?);
        if body.len() <= LAST_PROPFIND_BYTES_MAX {
            self.0 = Some((body.into(), request.clone()));
        }
        Ok(request)
    }
}

/// Reads the body of a PROPFIND.
///
/// # Errors
/// `bad_request` for what is not well-formed XML, not a `propfind`, has a document type or foreign
/// entities, or goes beyond [`PROPFIND_BODY_BYTES_MAX`], [`XML_DEPTH_MAX`],
/// [`PROPFIND_PROPERTIES_MAX`] or [`PROPFIND_UNKNOWN_BYTES_MAX`].
pub fn parse_propfind(body: &[u8]) -> Result<PropfindRequest, Error> {
    if body.len() > PROPFIND_BODY_BYTES_MAX {
        return Err(bad_request("the PROPFIND body is too long"));
    }
    let text = std::str::from_utf8(body).map_err(|_| bad_request("the PROPFIND body is not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(PropfindRequest::AllProperties);
    }
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut state = Reading::default();
    loop {
        let (resolved, event) = reader
            .read_resolved_event()
            .map_err(|_| bad_request("the PROPFIND body is not well-formed XML"))?;
        match event {
            Event::Start(element) => {
                if !are_attributes_apart(&element) {
                    return Err(bad_request("the PROPFIND body is not well-formed XML"));
                }
                let namespace = match resolved {
                    // A prefix stands for a namespace, and never for none (Namespaces in XML 1.0
                    // §2.2).
                    ResolveResult::Bound(Namespace("")) if element.name().prefix().is_some() => {
                        return Err(bad_request("a prefix in the PROPFIND body is declared as nothing"));
                    }
                    ResolveResult::Unknown(_) => {
                        return Err(bad_request("a prefix in the PROPFIND body is not declared"));
                    }
                    ResolveResult::Bound(Namespace(name)) => name,
                    ResolveResult::Unbound => "",
                };
                let is_legal = unescape(namespace).is_ok_and(|namespace| !is_reserved(&namespace));
                if !is_legal {
                    return Err(bad_request("a namespace in the PROPFIND body is none for properties"));
                }
                state.start(namespace, element.local_name().into_inner())?;
            }
            Event::End(_) => state.depth = state.depth.saturating_sub(1),
            Event::DocType(_) | Event::GeneralRef(_) => {
                return Err(bad_request("a document type or entity in the PROPFIND body"));
            }
            Event::Eof => return state.finish(),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Reading {
    depth: usize,
    named: usize,
    in_prop: bool,
    found: Option<PropfindRequest>,
}

impl Reading {
    fn start(&mut self, namespace: &str, local: &str) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > XML_DEPTH_MAX {
            return Err(bad_request("the PROPFIND body is nested too deeply"));
        }
        match self.depth {
            1 if namespace != DAV_NAMESPACE || local != "propfind" => {
                Err(bad_request("the body is not a DAV: propfind"))
            }
            2 if namespace == DAV_NAMESPACE => {
                self.in_prop = local == "prop";
                match local {
                    "allprop" => self.found = Some(PropfindRequest::AllProperties),
                    "propname" => self.found = Some(PropfindRequest::Names),
                    "prop" if self.found.is_none() => {
                        self.found = Some(PropfindRequest::Properties {
                            known: Vec::new(),
                            unknown: Vec::new(),
                        });
                    }
                    _ => {}
                }
                Ok(())
            }
            2 => {
                self.in_prop = false;
                Ok(())
            }
            3 if self.in_prop => self.name(namespace, local),
            _ => Ok(()),
        }
    }

    fn name(&mut self, namespace: &str, local: &str) -> Result<(), Error> {
        self.named += 1;
        if self.named > PROPFIND_PROPERTIES_MAX {
            return Err(bad_request(format!(
                "the limit is {PROPFIND_PROPERTIES_MAX} properties"
            )));
        }
        let Some(PropfindRequest::Properties { known, unknown }) = &mut self.found else {
            return Ok(());
        };
        match Property::from_name(namespace, local) {
            Some(property) if known.contains(&property) => {}
            Some(property) => known.push(property),
            None => push_unknown(unknown, namespace, local)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<PropfindRequest, Error> {
        if self.depth > 0 {
            return Err(bad_request("the PROPFIND body ends too early"));
        }
        self.found
            .ok_or_else(|| bad_request("the propfind names neither prop, allprop nor propname"))
    }
}

/// Notes a property that is not known here. Each entry of an answer repeats it, so what a namespace
/// declared once could do with many names has a limit.
fn push_unknown(unknown: &mut Vec<PropertyName>, namespace: &str, local: &str) -> Result<(), Error> {
    // It comes as it was written, with references to characters.
    let namespace = unescape(namespace).map_err(|_| bad_request("an unknown entity in the PROPFIND body"))?;
    let name = PropertyName::new(&namespace, local)
        .ok_or_else(|| bad_request("the name of a property in the PROPFIND body is not one of XML"))?;
    if !unknown.contains(&name) {
        unknown.push(name);
    }
    if unknown_text(unknown).len() > PROPFIND_UNKNOWN_BYTES_MAX {
        return Err(bad_request(
            "the names of the properties in the PROPFIND body are too long",
        ));
    }
    Ok(())
}

/// As empty elements, with which an answer names what is missing.
pub(super) fn unknown_text(unknown: &[PropertyName]) -> String {
    let mut text = String::new();
    unknown.iter().for_each(|name| name.push_empty(&mut text));
    text
}

/// The body with which a client asks for these properties.
#[must_use]
pub fn propfind_body(properties: &[Property]) -> String {
    let mut body = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"{DAV_NAMESPACE}\" xmlns:C=\"{DCACHE_NAMESPACE}\"><D:prop>"
    );
    for property in properties {
        body.push_str(&format!("<{}/>", property.element()));
    }
    body.push_str("</D:prop></D:propfind>");
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ErrorCode;

    fn properties(known: &[Property], unknown: &[(&str, &str)]) -> PropfindRequest {
        let names = unknown
            .iter()
            .map(|(namespace, local)| PropertyName::new(namespace, local));
        PropfindRequest::Properties {
            known: known.to_vec(),
            unknown: names.map(Option::unwrap).collect(),
        }
    }

    #[test]
    fn the_bodies_of_real_clients_are_read() {
        let davix = "<D:propfind xmlns:D=\"DAV:\" xmlns:L=\"LCGDM:\"><D:prop><D:displayname/><D:getlastmodified/><D:creationdate/>\
                     <D:getcontentlength/><D:quota-used-bytes/><D:resourcetype><D:collection/></D:resourcetype><L:mode/>\
                     <D:owner></D:owner><D:group></D:group></D:prop></D:propfind>";
        let PropfindRequest::Properties { known: list, unknown } = parse_propfind(davix.as_bytes()).unwrap() else {
            panic!("a list")
        };
        let unknown = unknown_text(&unknown);
        assert_eq!(unknown, "<X:mode xmlns:X=\"LCGDM:\"/><D:owner/><D:group/>");
        assert_eq!(list.len(), 6);
        assert!(list.contains(&Property::QuotaUsed) && list.contains(&Property::ResourceType));
        for empty in ["", "  \r\n", "\u{feff}"] {
            assert_eq!(
                parse_propfind(empty.as_bytes()).unwrap(),
                PropfindRequest::AllProperties
            );
        }
        let other_prefix = "<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><propname/></propfind>";
        assert_eq!(parse_propfind(other_prefix.as_bytes()).unwrap(), PropfindRequest::Names);
        let all = propfind_body(&Property::ALL);
        assert_eq!(parse_propfind(all.as_bytes()).unwrap(), properties(&Property::ALL, &[]));
    }

    #[test]
    fn a_body_that_comes_again_is_known_and_another_is_read() {
        let (one, other) = (propfind_body(&[Property::Etag]), propfind_body(&[Property::Checksums]));
        let mut last = LastPropfind::default();
        let first = last.parse(one.as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&first, &last.parse(one.as_bytes()).unwrap()));
        // As long, and something else.
        let altered = one.replace("getetag", "getetaG");
        assert_eq!(
            *last.parse(altered.as_bytes()).unwrap(),
            properties(&[], &[("DAV:", "getetaG")])
        );
        assert_eq!(*last.parse(one.as_bytes()).unwrap(), *first);
        assert!(last.parse(&one.as_bytes()[..one.len() - 1]).is_err());
        assert_eq!(
            *last.parse(other.as_bytes()).unwrap(),
            properties(&[Property::Checksums], &[])
        );
        // One that is too long to be kept forgets nothing.
        let long = format!("{one}{}", " ".repeat(LAST_PROPFIND_BYTES_MAX));
        assert_eq!(*last.parse(long.as_bytes()).unwrap(), *first);
        let again = last.parse(other.as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&again, &last.parse(other.as_bytes()).unwrap()));
        assert_eq!(*last.parse(b"").unwrap(), PropfindRequest::AllProperties);
    }

    #[test]
    fn names_of_other_namespaces_are_not_ours() {
        let body = "<a:propfind xmlns:a='DAV:' xmlns:b='urn:x'><a:prop><b:getetag/><a:getetag/></a:prop></a:propfind>";
        assert_eq!(
            parse_propfind(body.as_bytes()).unwrap(),
            properties(&[Property::Etag], &[("urn:x", "getetag")])
        );
        let escaped = "<propfind xmlns='DAV:'><prop><b:c xmlns:b='urn:&amp;&#x22;'/></prop></propfind>";
        assert_eq!(
            parse_propfind(escaped.as_bytes()).unwrap(),
            properties(&[], &[("urn:&\"", "c")])
        );
    }

    #[test]
    fn dangerous_or_broken_bodies_are_refused() {
        let deep = format!("<D:propfind xmlns:D=\"DAV:\">{}", "<x>".repeat(XML_DEPTH_MAX + 1));
        let many = format!(
            "<p xmlns=\"DAV:\"><prop>{}</prop></p>",
            "<x/>".repeat(PROPFIND_PROPERTIES_MAX + 1)
        )
        .replace("p>", "propfind>")
        .replacen("<p ", "<propfind ", 1);
        let long = format!(
            "<propfind xmlns=\"DAV:\" xmlns:x=\"{}\"><prop>{}</prop></propfind>",
            "n".repeat(PROPFIND_UNKNOWN_BYTES_MAX / 4),
            "<x:a/><x:b/><x:c/><x:d/>"
        );
        let bad = [
            "<!DOCTYPE x [<!ENTITY a \"b\">]><propfind xmlns=\"DAV:\"><allprop/></propfind>",
            "<propfind xmlns=\"DAV:\"><prop>&a;</prop></propfind>",
            "<propfind xmlns=\"DAV:\"><prop>",
            "<propfind xmlns=\"DAV:\"><prop></x></propfind>",
            "<propfind><allprop/></propfind>",
            "<propfind xmlns=\"DAV:\"/>",
            "hello",
            "<propfind xmlns=\"DAV:\"><prop><1x/></prop></propfind>",
            "<propfind xmlns=\"DAV:\"><prop><a:x/></prop></propfind>",
            "<propfind xmlns=\"DAV:\"><prop><a:x xmlns:a=\"\"/></prop></propfind>",
            &deep,
            &many,
            &long,
        ];
        for body in bad {
            assert_eq!(
                parse_propfind(body.as_bytes()).unwrap_err().code(),
                ErrorCode::BadRequest,
                "{body}"
            );
        }
        assert!(parse_propfind(&vec![b' '; PROPFIND_BODY_BYTES_MAX + 1]).is_err());
        assert!(parse_propfind(b"\xff").is_err());
    }
}
