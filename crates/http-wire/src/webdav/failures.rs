//! Multistatus answers that name what could not be done within a collection (RFC 4918 §9.6.1,
//! §9.8.5, §14.24).

use quick_xml::escape::escape;
use types::LogicalPath;

use super::DAV_NAMESPACE;
use crate::status::reason_phrase;

/// A body that names resources, each with the status that it would have been answered with.
#[derive(Clone, Copy, Debug)]
pub struct Failures;

impl Failures {
    /// Names one resource, with a sentence for people.
    #[must_use]
    pub fn one(path: &LogicalPath, status: u16, description: &str) -> String {
        let href = path.to_url_path();
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"{DAV_NAMESPACE}\"><D:response>\
             <D:href>{}</D:href><D:status>HTTP/1.1 {status} {}</D:status><D:responsedescription>{}\
             </D:responsedescription></D:response></D:multistatus>\n",
            escape(href.as_str()),
            reason_phrase(status),
            escape(description),
        )
    }
}
