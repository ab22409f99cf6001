//! One request for this door: the exchange that every HTTP door has, and what files add to it.

use std::sync::Arc;

use credentials::capability::Redeemed;
use endpoint::{Exports, LinkLimit, Pages};
use http_server::Exchange;
use http_wire::webdav::{LastPropfind, LockFault};
use telemetry::{Opening, Used};
use types::Error;

use crate::shared::Shared;

/// One request for this door, and its answer.
pub(crate) struct FileExchange<'x, 'c> {
    pub(crate) door: &'x Shared,
    pub(crate) http: &'x mut Exchange<'c>,
    pub(crate) last_propfind: &'x mut LastPropfind,
    /// The exports as they were when the request came.
    pub(crate) exports: Arc<Exports>,
    /// The decision that came with the request, by hand-over.
    pub(crate) capability: Option<Redeemed>,
    /// An upload has begun: a capability counts as used, whatever comes.
    pub(crate) has_begun: bool,
    /// How far symbolic links may lead, if the client limits that.
    pub(crate) link_limit: Option<LinkLimit>,
    /// Size of the file when the requested range lies outside of it, in bytes.
    pub(crate) unsatisfied_size: Option<u64>,
    /// Only what a cache has is wanted.
    pub(crate) cached_only: bool,
    /// The path as it was sent, when a browser waits for a page about an error.
    pub(crate) page_at: Option<String>,
    /// The tokens of locks that the request submits.
    pub(crate) submitted: Vec<String>,
    /// What WebDAV calls the error about locks that comes next.
    pub(crate) lock_fault: Option<LockFault>,
}

impl<'x, 'c> FileExchange<'x, 'c> {
    pub(crate) fn begin(door: &'x Shared, http: &'x mut Exchange<'c>, last_propfind: &'x mut LastPropfind) -> Self {
        let exports = door.settings.site.exports.current();
        if let Some(path) = exports.respelled(&http.path) {
            path.as_str().clone_into(&mut http.record.path);
            http.path = path;
        }
        Self {
            door,
            http,
            last_propfind,
            exports,
            capability: None,
            has_begun: false,
            link_limit: None,
            unsatisfied_size: None,
            cached_only: false,
            page_at: None,
            submitted: Vec::new(),
            lock_fault: None,
        }
    }

    /// Remembers what WebDAV calls an error about locks.
    pub(crate) fn because(&mut self, fault: LockFault, error: Error) -> Error {
        self.lock_fault = Some(fault);
        error
    }

    /// Tells those who watch that the file of this request is used.
    pub(crate) fn used(&self, size_bytes: u64, is_written: bool) -> Used {
        let record = &self.http.record;
        let telemetry = &self.door.settings.site.telemetry;
        let opening = Opening {
            path: self.http.path.as_str(),
            size_bytes,
            is_written,
            tag: record.scitag,
            carries: true,
        };
        telemetry.open(|| record.client(self.http.connection.stream.local_address()), &opening)
    }

    /// Logs what a listing left out, and returns the words for the client.
    pub(crate) fn note_unlisted(&self, pages: &Pages) -> Option<String> {
        let unlisted = pages.unlisted()?;
        self.door.settings.site.events.names_unlisted(&self.http.path, unlisted);
        Some(unlisted.to_string())
    }
}
