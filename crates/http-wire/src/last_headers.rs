//! The header lines that came last on one connection: a client that keeps its connection says the
//! same with each request, except in the first line.

use std::sync::Arc;

use crate::limits::LAST_HEADERS_BYTES_MAX;

use crate::head::{RequestHead, Version};
use crate::headers::Headers;
use crate::names::AUTHORIZATION;

/// The header fields of the last request on a connection, to be known again. Kept for as long as
/// the connection lasts, and wiped afterwards where they hold a credential.
#[derive(Default)]
pub struct LastHeaders(Option<(Arc<Headers>, Version)>);

impl LastHeaders {
    /// The fields, when `rest` begins with their lines, the empty one at the end included, and they
    /// are at most so many; and the version of the protocol in which they were allowed.
    pub(crate) fn find(&self, rest: &[u8], header_count: usize) -> Option<(&Arc<Headers>, Version)> {
        let (headers, version) = self.0.as_ref()?;
        let lines = headers.text().as_bytes();
        let found = rest.get(..lines.len())?;
        (headers.len() <= header_count && types::is_same(found, lines)).then_some((headers, *version))
    }

    /// Keeps the fields of a request, in place of those before.
    pub(crate) fn keep(&mut self, head: &RequestHead) {
        self.wipe();
        let is_short = head.headers.text().len() <= LAST_HEADERS_BYTES_MAX;
        self.0 = is_short.then(|| (head.headers.clone(), head.version));
    }

    fn wipe(&mut self) {
        let Some((mut headers, _)) = self.0.take() else { return };
        // Also the one for the other side of a copy.
        let holds_secret = headers.iter().any(|(name, _)| {
            let tail = name.len().checked_sub(AUTHORIZATION.len());
            tail.and_then(|tail| name.get(tail..))
                .is_some_and(|tail| tail.eq_ignore_ascii_case(AUTHORIZATION))
        });
        if holds_secret && let Some(headers) = Arc::get_mut(&mut headers) {
            headers.wipe();
        }
    }
}

impl Drop for LastHeaders {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Only the names: values may be secrets.
impl std::fmt::Debug for LastHeaders {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("LastHeaders")
            .field(&self.0.as_ref().map(|(headers, _)| headers))
            .finish()
    }
}
