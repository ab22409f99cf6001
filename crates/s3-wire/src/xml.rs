//! Reads XML answers: elements with their texts. Only local names count, since servers differ in
//! namespaces.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};
use types::{Error, ErrorCode, Phase, Side};

use crate::limits::{ANSWER_BYTES_MAX, XML_DEPTH_MAX};

/// Takes what an answer says.
pub(crate) trait Visit {
    /// An element begins; `path` ends with its name.
    fn begin(&mut self, _path: &[String]) {}

    /// An element ends; `text` is what stood directly in it, since its last child.
    fn end(&mut self, path: &[String], text: &str);
}

/// An error for an answer that cannot be understood.
pub(crate) fn misbehaved(words: &str) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Active, Phase::Open).with_detail(words)
}

/// Reads a whole answer. Spaces in front of it are ignored: servers send them to keep a connection
/// alive.
///
/// # Errors
/// `peer_misbehaved` for what is not XML, is incomplete, is too long or nested too deeply, or has a
/// document type.
pub(crate) fn read(bytes: &[u8], visitor: &mut impl Visit) -> Result<(), Error> {
    if bytes.len() > ANSWER_BYTES_MAX {
        return Err(misbehaved("the answer is too long"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| misbehaved("the answer is not UTF-8"))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}').trim_start());
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut text, mut is_whole) = (Vec::<String>::new(), String::new(), false);
    loop {
        match reader
            .read_event()
            .map_err(|_| misbehaved("the answer is not well-formed XML"))?
        {
            Event::Start(element) => {
                path.push(element.local_name().into_inner().to_owned());
                if path.len() > XML_DEPTH_MAX {
                    return Err(misbehaved("the answer is nested too deeply"));
                }
                text.clear();
                visitor.begin(&path);
            }
            Event::End(_) => {
                visitor.end(&path, &std::mem::take(&mut text));
                path.pop();
                is_whole |= path.is_empty();
            }
            Event::Text(piece) => text.push_str(&piece),
            Event::CData(piece) => text.push_str(&piece),
            Event::GeneralRef(name) => text.push(resolve(&name)?),
            Event::DocType(_) => return Err(misbehaved("a document type in the answer")),
            Event::Eof if is_whole && path.is_empty() => return Ok(()),
            Event::Eof => return Err(misbehaved("the answer is incomplete")),
            _ => {}
        }
    }
}

/// The five entities of XML, and characters by number.
fn resolve(reference: &BytesRef<'_>) -> Result<char, Error> {
    let unknown = || misbehaved("an unknown entity in the answer");
    if let Some(character) = reference.resolve_char_ref().map_err(|_| unknown())? {
        return Ok(character);
    }
    let predefined = resolve_xml_entity(reference).and_then(|text| text.chars().next());
    predefined.ok_or_else(unknown)
}

/// The texts of some leaves of a document with a known root.
pub(crate) struct Leaves<'a, const N: usize> {
    root: &'a str,
    names: [&'a str; N],
    /// The root that was found.
    pub(crate) found: String,
    /// The text of each leaf.
    pub(crate) texts: [Option<String>; N],
}

impl<'a, const N: usize> Leaves<'a, N> {
    /// Reads the leaves with these names directly below the root.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn read(bytes: &[u8], root: &'a str, names: [&'a str; N]) -> Result<Self, Error> {
        let mut leaves = Self {
            root,
            names,
            found: String::new(),
            texts: std::array::from_fn(|_| None),
        };
        read(bytes, &mut leaves)?;
        Ok(leaves)
    }

    /// Whether the root has the expected name.
    pub(crate) fn is_expected(&self) -> bool {
        self.found == self.root
    }
}

impl<const N: usize> Visit for Leaves<'_, N> {
    fn begin(&mut self, path: &[String]) {
        if let [root] = path {
            self.found.clone_from(root);
        }
    }

    fn end(&mut self, path: &[String], text: &str) {
        let [root, name] = path else { return };
        if root == self.root
            && let Some(at) = self.names.iter().position(|known| known == name)
        {
            self.texts[at].get_or_insert_with(|| text.trim().to_owned());
        }
    }
}
