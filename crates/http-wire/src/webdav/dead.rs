//! Dead properties (RFC 4918 §4): what clients keep with a file or directory, which the server
//! neither makes nor understands. All of one resource are one text in the store, so that a change
//! of several happens at once.

use crate::limits::{DEAD_PROPERTIES_BYTES_MAX, DEAD_PROPERTIES_MAX};
use types::limits::DEAD_PROPERTY_BYTES_MAX;

use super::{DAV_NAMESPACE, DCACHE_NAMESPACE};
use crate::xml::escape;

/// The name of a property.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PropertyName {
    namespace: String,
    local: String,
}

impl PropertyName {
    /// A name in a namespace (empty: in none); `None` when `local` is no name of XML, which could
    /// not be written again.
    #[must_use]
    pub fn new(namespace: &str, local: &str) -> Option<Self> {
        is_name(local).then(|| Self {
            namespace: namespace.to_owned(),
            local: local.to_owned(),
        })
    }

    /// The namespace; empty for none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether it is in a namespace whose properties the server gives values to: WebDAV's own, and
    /// that of dCache's checksums.
    #[must_use]
    pub fn is_davs_own(&self) -> bool {
        self.namespace == DAV_NAMESPACE || self.namespace == DCACHE_NAMESPACE
    }

    /// Writes it as an empty element, where `D` stands for WebDAV's own namespace and nothing for a
    /// default one.
    pub(super) fn push_empty(&self, out: &mut String) {
        let local = &self.local;
        match self.namespace.as_str() {
            DAV_NAMESPACE => out.push_str(&format!("<D:{local}/>")),
            "" => out.push_str(&format!("<{local}/>")),
            other => out.push_str(&format!("<X:{local} xmlns:X=\"{}\"/>", escape(other))),
        }
    }
}

/// Whether a text is a name of XML without a prefix.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "-._".contains(character);
    let begins_well = text.starts_with(|character: char| character.is_alphabetic() || character == '_');
    begins_well && text.chars().all(is_part)
}

/// A dead property.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeadProperty {
    name: PropertyName,
    /// The whole element, which declares every prefix that it uses.
    element: String,
}

/// A change that a PROPPATCH asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyChange {
    /// Gives a property this value, in place of the one that it has.
    Set {
        /// Its name.
        name: PropertyName,
        /// The whole element, which declares every prefix that it uses.
        element: String,
    },
    /// Takes a property away, if there is one.
    Remove {
        /// Its name.
        name: PropertyName,
    },
}

impl PropertyChange {
    /// The property that is changed.
    #[must_use]
    pub fn name(&self) -> &PropertyName {
        match self {
            Self::Set { name, .. } | Self::Remove { name } => name,
        }
    }
}

/// The dead properties of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadProperties(Vec<DeadProperty>);

impl DeadProperties {
    /// Reads what [`DeadProperties::encode`] has made. What is not of that form has no properties.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let mut list = Vec::new();
        let Ok(mut rest) = std::str::from_utf8(bytes) else {
            return Self::default();
        };
        while !rest.is_empty() && list.len() < DEAD_PROPERTIES_MAX {
            let Some((property, behind)) = decode_one(rest) else {
                break;
            };
            list.push(property);
            rest = behind;
        }
        Self(list)
    }

    /// As it is stored: of each property a line with the lengths of its namespace, local name and
    /// element, in bytes, and behind it these three.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = String::new();
        for DeadProperty { name, element } in &self.0 {
            let PropertyName { namespace, local } = name;
            out.push_str(&format!("{} {} {}\n", namespace.len(), local.len(), element.len()));
            for part in [namespace, local, element] {
                out.push_str(part);
            }
        }
        out.into_bytes()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes a change; false when there is no room for it ([`DEAD_PROPERTIES_MAX`],
    /// [`DEAD_PROPERTY_BYTES_MAX`], [`DEAD_PROPERTIES_BYTES_MAX`]).
    #[must_use]
    pub fn change(&mut self, change: &PropertyChange) -> bool {
        let at = self.0.iter().position(|known| known.name == *change.name());
        match change {
            PropertyChange::Remove { .. } => {
                if let Some(at) = at {
                    self.0.remove(at);
                }
                true
            }
            PropertyChange::Set { name, element } => {
                let property = DeadProperty {
                    name: name.clone(),
                    element: element.clone(),
                };
                match at {
                    Some(at) => self.0[at] = property,
                    None => self.0.push(property),
                }
                element.len() <= DEAD_PROPERTY_BYTES_MAX
                    && self.0.len() <= DEAD_PROPERTIES_MAX
                    && self.encode().len() <= DEAD_PROPERTIES_BYTES_MAX
            }
        }
    }

    fn find(&self, name: &PropertyName) -> Option<&DeadProperty> {
        self.0.iter().find(|known| known.name == *name)
    }

    /// Writes all of them, or their names only.
    pub(super) fn push_all(&self, out: &mut Vec<u8>, names_only: bool) {
        for property in &self.0 {
            match names_only {
                true => {
                    let mut empty = String::new();
                    property.name.push_empty(&mut empty);
                    out.extend_from_slice(empty.as_bytes());
                }
                false => out.extend_from_slice(property.element.as_bytes()),
            }
        }
    }

    /// Writes those of these names.
    pub(super) fn push_named(&self, out: &mut Vec<u8>, names: &[PropertyName]) {
        for property in names.iter().filter_map(|name| self.find(name)) {
            out.extend_from_slice(property.element.as_bytes());
        }
    }

    /// Those of these names that are missing, as empty elements.
    pub(super) fn missing(&self, names: &[PropertyName]) -> String {
        let mut out = String::new();
        for name in names.iter().filter(|name| self.find(name).is_none()) {
            name.push_empty(&mut out);
        }
        out
    }
}

fn decode_one(text: &str) -> Option<(DeadProperty, &str)> {
    let (line, mut rest) = text.split_once('\n')?;
    let mut lengths = line.split(' ').map(|digits| digits.parse::<usize>().ok());
    let mut take = || {
        let (part, behind) = rest.split_at_checked(lengths.next()??)?;
        rest = behind;
        Some(part)
    };
    let (namespace, local, element) = (take()?, take()?, take()?);
    let name = PropertyName::new(namespace, local)?;
    let element = element.to_owned();
    Some((DeadProperty { name, element }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(namespace: &str, local: &str, element: &str) -> PropertyChange {
        PropertyChange::Set {
            name: PropertyName::new(namespace, local).unwrap(),
            element: element.to_owned(),
        }
    }

    #[test]
    fn what_is_stored_is_read_again_and_rubbish_is_nothing() {
        let mut properties = DeadProperties::default();
        assert!(properties.change(&set("urn:x", "a", "<X:a xmlns:X=\"urn:x\">1\n2 ü</X:a>")));
        assert!(properties.change(&set("", "b", "<b/>")));
        assert!(properties.change(&set("urn:x", "a", "<a xmlns=\"urn:x\"/>")));
        let stored = properties.encode();
        assert_eq!(DeadProperties::decode(&stored), properties);
        assert_eq!(properties.0.len(), 2);
        assert!(properties.change(&PropertyChange::Remove {
            name: PropertyName::new("", "b").unwrap()
        }));
        assert_eq!(properties.0.len(), 1);
        for end in 0..stored.len() {
            assert!(DeadProperties::decode(&stored[..end]).0.len() < 2);
        }
        for rubbish in [&b"\xff"[..], b"1", b"9 9 9\n", b"-1 0 0\n", b"0 1 0\n<"] {
            assert!(DeadProperties::decode(rubbish).is_empty(), "{rubbish:?}");
        }
    }

    #[test]
    fn there_is_a_limit_to_number_and_size() {
        let mut properties = DeadProperties::default();
        for number in 0..DEAD_PROPERTIES_MAX {
            assert!(properties.change(&set("urn:x", &format!("p{number}"), "<x/>")));
        }
        assert!(!properties.clone().change(&set("urn:x", "one-more", "<x/>")));
        assert!(properties.change(&set("urn:x", "p1", "<another/>")));
        let long = "x".repeat(DEAD_PROPERTY_BYTES_MAX + 1);
        assert!(!properties.change(&set("urn:x", "p1", &long)));
        let mut large = DeadProperties::default();
        let fits = (0..DEAD_PROPERTIES_MAX)
            .take_while(|number| large.change(&set("urn:x", &format!("p{number}"), &long[1..])))
            .count();
        assert_eq!(fits, DEAD_PROPERTIES_BYTES_MAX / DEAD_PROPERTY_BYTES_MAX - 1);
    }
}
