//! The body of a PROPPATCH request and its answer (RFC 4918 §9.2, §14.19).
//!
//! A value is taken in as it is written, elements, attributes and text, and written anew, so that
//! nothing that is not well-formed gets into the listings of others. Its element declares the
//! prefixes that were in scope where it stood, and the language that held there (§4.3). Comments
//! and processing instructions are left out.

use crate::limits::{PROPPATCH_CHANGES_MAX, PROPPATCH_SCOPE_MAX, PROPPATCH_VALUES_BYTES_MAX, XML_DEPTH_MAX};
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesEnd, BytesStart, Event};
use types::limits::PROPPATCH_BODY_BYTES_MAX;
use types::{Error, LogicalPath};

use super::dead::{PropertyChange, PropertyName, is_name};
use super::reader::resolve;
use super::{DAV_NAMESPACE, are_attributes_apart, is_reserved};
use crate::fault::bad_request;
use crate::status::reason_phrase;
use crate::xml::{escape, is_legal};

/// Where the elements of properties stand: `propertyupdate`, `set` or `remove`, `prop`, property.
const PROPERTY_DEPTH: usize = 4;

/// Reads the body of a PROPPATCH: the changes in their order (§9.2).
///
/// # Errors
/// `bad_request` for what is not well-formed XML, not a `propertyupdate`, changes nothing, has a
/// document type or foreign entities, or goes beyond [`PROPPATCH_BODY_BYTES_MAX`],
/// [`PROPPATCH_CHANGES_MAX`], [`PROPPATCH_VALUES_BYTES_MAX`], [`PROPPATCH_SCOPE_MAX`] or
/// [`XML_DEPTH_MAX`].
pub fn parse_proppatch(body: &[u8]) -> Result<Vec<PropertyChange>, Error> {
    if body.len() > PROPPATCH_BODY_BYTES_MAX {
        return Err(bad_request("the PROPPATCH body is too long"));
    }
    let text = std::str::from_utf8(body).map_err(|_| bad_request("the PROPPATCH body is not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.chars().all(is_legal) {
        return Err(malformed());
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    reader.config_mut().check_comments = true;
    let mut state = Reading::default();
    loop {
        match reader.read_event().map_err(|_| malformed())? {
            Event::Start(element) => state.start(&element)?,
            Event::End(element) => state.end(&element)?,
            Event::Text(text) if text.contains("]]>") => return Err(malformed()),
            Event::Text(text) => state.text(&text)?,
            Event::CData(text) => state.text(&text)?,
            Event::GeneralRef(reference) => {
                let character = resolve(&reference).map_err(|_| entity())?;
                if !is_legal(character) {
                    return Err(malformed());
                }
                state.text(character.encode_utf8(&mut [0; 4]))?;
            }
            Event::DocType(_) => return Err(entity()),
            Event::Eof => return state.finish(),
            // None is empty, since they are expanded.
            Event::Comment(_) | Event::PI(_) | Event::Decl(_) | Event::Empty(_) => {}
        }
    }
}

fn malformed() -> Error {
    bad_request("the PROPPATCH body is not well-formed XML")
}

fn entity() -> Error {
    bad_request("a document type or entity in the PROPPATCH body")
}

/// A prefix, or the default namespace without one, as it was declared.
struct Binding {
    depth: usize,
    prefix: Option<String>,
    namespace: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Set,
    Remove,
}

#[derive(Default)]
struct Reading {
    depth: usize,
    bindings: Vec<Binding>,
    /// Languages with the depth where each begins to hold.
    languages: Vec<(usize, String)>,
    is_update: bool,
    action: Option<Action>,
    in_prop: bool,
    /// The property that is being read.
    open: Option<(PropertyName, String)>,
    changes: Vec<PropertyChange>,
    /// How long the elements of all changes are together.
    value_bytes: usize,
}

impl Reading {
    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > XML_DEPTH_MAX || (self.depth == 1 && self.is_update) {
            return Err(bad_request("the PROPPATCH body is nested too deeply or has two roots"));
        }
        let attributes = self.attributes(element)?;
        let raw = element.name().into_inner();
        let (prefix, local) = split(raw)?;
        let namespace = self.namespace_of(prefix)?.to_owned();
        if is_reserved(&namespace) {
            return Err(reserved());
        }
        let is_davs = namespace == DAV_NAMESPACE;
        match self.depth {
            1 if !is_davs || local != "propertyupdate" => {
                return Err(bad_request("the body is not a DAV: propertyupdate"));
            }
            1 => self.is_update = true,
            2 => {
                self.action = match local {
                    "set" if is_davs => Some(Action::Set),
                    "remove" if is_davs => Some(Action::Remove),
                    _ => None,
                };
            }
            3 => self.in_prop = is_davs && local == "prop",
            PROPERTY_DEPTH if self.in_prop && self.action.is_some() => {
                let name = PropertyName::new(&namespace, local).ok_or_else(malformed)?;
                let mut out = format!("<{raw}");
                self.push_scope(&mut out, &attributes);
                push_attributes(&mut out, &attributes);
                self.open = Some((name, out));
            }
            _ => {
                if let Some((_, out)) = &mut self.open {
                    out.push_str(&format!("<{raw}"));
                    push_attributes(out, &attributes);
                }
            }
        }
        Ok(())
    }

    /// Reads the attributes of an element and what they declare.
    fn attributes(&mut self, element: &BytesStart<'_>) -> Result<Vec<(String, String)>, Error> {
        if !are_attributes_apart(element) {
            return Err(malformed());
        }
        let mut list = Vec::new();
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|_| malformed())?;
            let key = attribute.key.into_inner();
            let value = unescape(&attribute.value).map_err(|_| entity())?;
            if attribute.value.contains('<') || !value.chars().all(is_legal) {
                return Err(malformed());
            }
            self.declare(key, &value)?;
            list.push((key.to_owned(), value.into_owned()));
        }
        let mut names = Vec::new();
        for (key, _) in &list {
            let (prefix, local) = split(key)?;
            if prefix.is_some_and(|prefix| prefix != "xmlns") {
                let name = (self.namespace_of(prefix)?, local);
                // Two prefixes may stand for one namespace (Namespaces in XML 1.0 §6.3).
                if names.contains(&name) {
                    return Err(malformed());
                }
                names.push(name);
            }
        }
        Ok(list)
    }

    fn declare(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let prefix = match (key, key.strip_prefix("xmlns:")) {
            ("xmlns", _) => None,
            // A prefix stands for a namespace, and never for none (Namespaces in XML 1.0 §2.2).
            (_, Some(prefix)) if value.is_empty() || matches!(prefix, "xml" | "xmlns") => return Err(malformed()),
            (_, Some(prefix)) => Some(prefix.to_owned()),
            ("xml:lang", None) => {
                self.languages.push((self.depth, value.to_owned()));
                return Ok(());
            }
            _ => return Ok(()),
        };
        if is_reserved(value) {
            return Err(reserved());
        }
        self.bindings.push(Binding {
            depth: self.depth,
            prefix,
            namespace: value.to_owned(),
        });
        match self.bindings.len() > PROPPATCH_SCOPE_MAX {
            true => Err(bad_request("the PROPPATCH body declares too many prefixes")),
            false => Ok(()),
        }
    }

    fn namespace_of(&self, prefix: Option<&str>) -> Result<&str, Error> {
        if prefix == Some("xml") {
            return Ok("http://www.w3.org/XML/1998/namespace");
        }
        let mut latest = self.bindings.iter().rev();
        match (latest.find(|binding| binding.prefix.as_deref() == prefix), prefix) {
            (Some(binding), _) => Ok(&binding.namespace),
            (None, None) => Ok(""),
            (None, Some(_)) => Err(bad_request("a prefix in the PROPPATCH body is not declared")),
        }
    }

    /// Writes the declarations and the language that hold where a property stands and are not its
    /// own.
    fn push_scope(&self, out: &mut String, own: &[(String, String)]) {
        let mut written: Vec<Option<&str>> = Vec::new();
        for Binding {
            depth,
            prefix,
            namespace,
        } in self.bindings.iter().rev()
        {
            let prefix = prefix.as_deref();
            if written.contains(&prefix) {
                continue;
            }
            written.push(prefix);
            if *depth == self.depth {
                continue;
            }
            match prefix {
                Some(prefix) => out.push_str(&format!(" xmlns:{prefix}=\"{}\"", attribute_text(namespace))),
                None if namespace.is_empty() => {}
                None => out.push_str(&format!(" xmlns=\"{}\"", attribute_text(namespace))),
            }
        }
        let has_own = own.iter().any(|(key, _)| key == "xml:lang");
        if let Some((_, language)) = self.languages.last().filter(|_| !has_own) {
            out.push_str(&format!(" xml:lang=\"{}\"", escape(language.as_str())));
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        match &mut self.open {
            Some((_, out)) => out.push_str(&escape(text)),
            None if text.trim().is_empty() => {}
            None => return Err(malformed()),
        }
        Ok(())
    }

    fn end(&mut self, element: &BytesEnd<'_>) -> Result<(), Error> {
        if let Some((_, out)) = &mut self.open {
            out.push_str(&format!("</{}>", element.name().into_inner()));
        }
        if self.depth == PROPERTY_DEPTH
            && let Some((name, element)) = self.open.take()
        {
            // What is declared once may come with each value.
            self.value_bytes += element.len();
            if self.changes.len() >= PROPPATCH_CHANGES_MAX || self.value_bytes > PROPPATCH_VALUES_BYTES_MAX {
                return Err(bad_request(format!(
                    "the limits are {PROPPATCH_CHANGES_MAX} changes and {PROPPATCH_VALUES_BYTES_MAX} bytes of values"
                )));
            }
            self.changes.push(match self.action {
                Some(Action::Remove) => PropertyChange::Remove { name },
                _ => PropertyChange::Set { name, element },
            });
        }
        let depth = self.depth;
        self.bindings.retain(|binding| binding.depth < depth);
        self.languages.retain(|(at, _)| *at < depth);
        self.depth = depth.saturating_sub(1);
        Ok(())
    }

    fn finish(self) -> Result<Vec<PropertyChange>, Error> {
        if self.depth > 0 {
            return Err(bad_request("the PROPPATCH body ends too early"));
        }
        match self.changes.is_empty() {
            true => Err(bad_request("the propertyupdate sets and removes nothing")),
            false => Ok(self.changes),
        }
    }
}

/// The prefix and the local part of a name; both must be names of XML.
fn split(raw: &str) -> Result<(Option<&str>, &str), Error> {
    let (prefix, local) = match raw.split_once(':') {
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, raw),
    };
    match is_name(local) && prefix.is_none_or(is_name) {
        true => Ok((prefix, local)),
        false => Err(malformed()),
    }
}

fn reserved() -> Error {
    bad_request("the PROPPATCH body uses a namespace that is reserved for XML itself")
}

/// The value of an attribute; line ends and tabs would be read as blanks (XML 1.0 §3.3.3).
fn attribute_text(value: &str) -> String {
    let escaped = escape(value);
    escaped.replace('\n', "&#10;").replace('\t', "&#9;")
}

fn push_attributes(out: &mut String, attributes: &[(String, String)]) {
    for (key, value) in attributes {
        out.push_str(&format!(" {key}=\"{}\"", attribute_text(value)));
    }
    out.push('>');
}

/// The answer to a PROPPATCH: the outcome of each change (§9.2.1); protected properties say so
/// (§16).
#[must_use]
pub fn proppatch_answer(path: &LogicalPath, is_directory: bool, outcomes: &[(&PropertyName, u16)]) -> String {
    let url = path.to_url_path();
    let slash = if is_directory && !url.ends_with('/') { "/" } else { "" };
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"{DAV_NAMESPACE}\"><D:response><D:href>{}{slash}\
         </D:href>",
        escape(url.as_str())
    );
    let mut statuses: Vec<u16> = outcomes.iter().map(|(_, status)| *status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        out.push_str("<D:propstat><D:prop>");
        let mut written: Vec<&PropertyName> = Vec::new();
        for (name, _) in outcomes.iter().filter(|(_, outcome)| *outcome == status) {
            if !written.contains(name) {
                name.push_empty(&mut out);
                written.push(name);
            }
        }
        out.push_str(&format!(
            "</D:prop><D:status>HTTP/1.1 {status} {}</D:status>",
            reason_phrase(status)
        ));
        if status == 403 {
            out.push_str("<D:error><D:cannot-modify-protected-property/></D:error>");
        }
        out.push_str("</D:propstat>");
    }
    out.push_str("</D:response></D:multistatus>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ErrorCode;

    fn changes(body: &str) -> Vec<PropertyChange> {
        parse_proppatch(body.as_bytes()).unwrap()
    }

    fn element(body: &str) -> String {
        match changes(body).remove(0) {
            PropertyChange::Set { element, .. } => element,
            PropertyChange::Remove { .. } => panic!("a value"),
        }
    }

    #[test]
    fn what_windows_explorer_sets_is_read() {
        let body = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:propertyupdate xmlns:D=\"DAV:\" \
                    xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop><Z:Win32CreationTime>Tue, 05 May 2026 \
                    08:00:00 GMT</Z:Win32CreationTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop>\
                    </D:set></D:propertyupdate>";
        let changes = changes(body);
        assert_eq!(changes.len(), 2);
        assert_eq!(
            *changes[1].name(),
            PropertyName::new("urn:schemas-microsoft-com:", "Win32FileAttributes").unwrap()
        );
        assert!(element(body).contains(">Tue, 05 May 2026 08:00:00 GMT</Z:Win32CreationTime>"));
    }

    #[test]
    fn a_value_keeps_its_markup_prefixes_and_language_wherever_it_is_written() {
        let body = "<propertyupdate xmlns='DAV:' xmlns:q='urn:q' xml:lang='en'><set><prop xmlns:a='urn:a'>\
                    <a:title b='1&lt;2'>some <i>mixed &amp; <![CDATA[<raw>]]></i> q:name<!-- gone --></a:title>\
                    </prop></set><remove><prop><a:x xmlns:a='urn:b' xml:lang='de'/></prop></remove></propertyupdate>";
        assert_eq!(
            element(body),
            "<a:title xmlns:a=\"urn:a\" xmlns:q=\"urn:q\" xmlns=\"DAV:\" xml:lang=\"en\" b=\"1&lt;2\">some <i>mixed \
             &amp; &lt;raw&gt;</i> q:name</a:title>"
        );
        let name = PropertyName::new("urn:b", "x").unwrap();
        assert_eq!(changes(body)[1], PropertyChange::Remove { name });
        let own = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x xmlns='urn:x' xml:lang='fr'>\u{1f680}</x></D:prop>\
                   </D:set></D:propertyupdate>";
        assert_eq!(
            element(own),
            "<x xmlns:D=\"DAV:\" xmlns=\"urn:x\" xml:lang=\"fr\">\u{1f680}</x>"
        );
    }

    #[test]
    fn dangerous_or_broken_bodies_are_refused() {
        let update = |inner: &str| format!("<p:propertyupdate xmlns:p='DAV:'>{inner}</p:propertyupdate>");
        let value = |inner: &str| update(&format!("<p:set><p:prop>{inner}</p:prop></p:set>"));
        let deep = format!("{}{}", "<x>".repeat(XML_DEPTH_MAX), "</x>".repeat(XML_DEPTH_MAX));
        let many = "<x/>".repeat(PROPPATCH_CHANGES_MAX + 1);
        let bad = [
            String::new(),
            update(""),
            update("<p:set><p:prop/></p:set>"),
            update("<p:set>text</p:set>"),
            value("<x>&nbsp;</x>"),
            value("<x>&#0;</x>"),
            value("<x>\u{1}</x>"),
            value("<x>]]></x>"),
            value("<x a='1' a='2'/>"),
            value("<x a='<'/>"),
            value("<x a='&b;'/>"),
            value("<x a=1/>"),
            value("<a:x/>"),
            value("<x a:b='1'/>"),
            value("<a:x xmlns:a=''/>"),
            // What would make the listings of others unreadable.
            value("<a xmlns='u:'><b xmlns:p='n' xmlns:q='n' p:b='1' q:b='2'/></a>"),
            value("<a xmlns='u:' xmlns:p='n' xmlns:q='n' p:b='1' q:b='2'/>"),
            value("<a xmlns='u:' xmlns:p='http://www.w3.org/2000/xmlns/'/>"),
            value("<a xmlns='u:' xmlns:p='http://www.w3.org/XML/1998/namespace'/>"),
            value("<a xmlns='http://www.w3.org/2000/xmlns/'>v</a>"),
            value("<a xmlns='http://www.w3.org/2000/xmlns&#47;'>v</a>"),
            value("<xml:a>v</xml:a>"),
            value("<a xmlns='u:'><xml:a/></a>"),
            value("<1x/>"),
            value("<x><y></x></y>"),
            value("<x><!-- a -- b --></x>"),
            value(&deep),
            value(&many),
            value("<x/>") + "<y/>",
            format!("<!DOCTYPE x>{}", value("<x/>")),
            "<propertyupdate><set><prop><x/></prop></set></propertyupdate>".to_owned(),
            value("<x>").replace("</p:prop>", ""),
        ];
        for body in bad {
            let refused = parse_proppatch(body.as_bytes());
            assert_eq!(refused.unwrap_err().code(), ErrorCode::BadRequest, "{body}");
        }
    }
}
