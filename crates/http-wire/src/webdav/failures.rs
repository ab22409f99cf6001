//! Multistatus answers that name what could not be done within a collection (RFC 4918 §9.6.1,
//! §9.8.5, §14.24).

use types::LogicalPath;

use super::DAV_NAMESPACE;
use crate::status::reason_phrase;
use crate::xml::escape;

/// The status of what was not done because something else could not be (RFC 4918 §11.4).
const FAILED_DEPENDENCY: u16 = 424;

/// A body that names resources, each with the status that it would have been answered with.
#[derive(Clone, Copy, Debug)]
pub struct Failures;

impl Failures {
    /// Names the member that prevented the operation, and the resource of the request, which
    /// depends on it (RFC 4918 §9.10.6, §11.4).
    #[must_use]
    pub fn because_of_member(top: &LogicalPath, member: &LogicalPath, status: u16, description: &str) -> String {
        let one = Self::one(member, status, description);
        let href = top.to_url_path();
        let own = format!(
            "<D:response><D:href>{}</D:href><D:status>HTTP/1.1 {FAILED_DEPENDENCY} {}</D:status></D:response></D:multistatus>",
            escape(href.as_str()),
            reason_phrase(FAILED_DEPENDENCY),
        );
        one.replace("</D:multistatus>", &own)
    }

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
