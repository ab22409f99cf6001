//! LOCK, and PROPFIND and PROPPATCH with their multistatus answers (RFC 4918 §9.1, §9.2, §9.10,
//! §13): the requests' bodies, the answers as a server writes them, and the answers of other
//! servers as a client reads them.
//!
//! XML from outside is read without document types and without entities but the five of XML itself,
//! to a limited depth.

use quick_xml::events::BytesStart;

mod dead;
mod failures;
mod lock;
mod propfind;
mod proppatch;
mod reader;
mod writer;

pub use dead::{DeadProperties, PropertyChange, PropertyName};
pub use failures::Failures;
pub use lock::{ActiveLock, LockFault, LockRequest, lock_answer, lock_discovery, lock_error, parse_lock};
pub use propfind::{LastPropfind, Property, PropfindRequest, parse_propfind, propfind_body};
pub use proppatch::{parse_proppatch, proppatch_answer};
pub(crate) use reader::resolve;
pub use reader::{MultistatusParser, RemoteEntry, parse_multistatus};
pub use writer::{Entry, EntryPath, Href, MultistatusWriter, Quota};

/// The body of a refusal to list everything below a directory (RFC 4918 §9.1, §16).
pub const FINITE_DEPTH_ERROR: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

/// The namespace of WebDAV's own names.
const DAV_NAMESPACE: &str = "DAV:";
/// The namespace in which dCache publishes checksums.
const DCACHE_NAMESPACE: &str = "http://www.dcache.org/2013/webdav";

/// Whether the attributes of an element stand apart, with white space in front of each (XML 1.0
/// §3.1). The parser does not look.
fn are_attributes_apart(element: &BytesStart<'_>) -> bool {
    let (mut quote, mut is_behind_value) = (None, false);
    for character in element.attributes_raw().chars() {
        match quote {
            Some(open) if character == open => (quote, is_behind_value) = (None, true),
            Some(_) => {}
            None if is_behind_value && !matches!(character, ' ' | '\t' | '\r' | '\n') => return false,
            None => {
                is_behind_value = false;
                quote = Some(character).filter(|character| matches!(character, '"' | '\''));
            }
        }
    }
    true
}

/// Whether a namespace is one of XML's own, which no declaration may name (Namespaces in XML 1.0
/// §3): written anew under another prefix it would make the whole answer unreadable.
fn is_reserved(namespace: &str) -> bool {
    matches!(
        namespace,
        "http://www.w3.org/XML/1998/namespace" | "http://www.w3.org/2000/xmlns/"
    )
}
