//! Rights: each verb asks here whether the client may do what it wants, with the final path. Policy
//! decides.

use http_wire::{RequestHead, Validators, Verdict};
use policy::{Explanation, Operation};
use storage::Stat;
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::exchange::FileExchange;
use endpoint::clock::unix_s;
use endpoint::{
    ExportPath, Found, Granted, LinkLimit, LockHolder, LockKeys, PathTarget, Permit, Requester, allow_by_capability,
    is_missing, refusal,
};

impl FileExchange<'_, '_> {
    /// Asks policy. The reason of a refusal is kept under the name of the request.
    pub(crate) fn authorize(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Result<Granted> {
        let holder = self.capability.as_ref().map(|redeemed| &redeemed.capability.holder);
        if let Some(facts) = self.exports.upstream_facts(self.requester(), holder, path) {
            self.http.record.note_upstream(facts);
        }
        if let Some(redeemed) = &self.capability {
            self.http.record.authorized_us = Some(self.http.elapsed_us());
            // The export may have been closed since the capability was issued.
            let allowed = policy::allows_at_most(self.exports.policy(), &operation, path);
            let allowed = allowed.and_then(|()| self.exports.drain_gate().check(&operation));
            allowed.map_err(|error| error.with_subject(path))?;
            return allow_by_capability(&redeemed.capability, operation, path, size_bytes);
        }
        self.http.note_credential();
        let (refusals, request_id) = (&self.door.settings.site.refusals, &self.http.record.request_id);
        let name = || request_id.as_str();
        self.exports
            .authorize(self.requester(), operation, path, size_bytes, refusals, name)
    }

    /// Why the client may do something, or not, in words for this client only.
    pub(crate) fn explain_to_requester(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Explanation {
        self.http.note_credential();
        self.exports
            .explain_to_requester(self.requester(), operation, path, size_bytes)
    }

    pub(crate) fn requester(&self) -> Requester<'_> {
        Requester {
            credential: &self.http.credential,
            address: self.http.peer.ip(),
        }
    }

    /// What exists under a name, if the client may see it.
    pub(crate) async fn lookup(&self, export_path: &ExportPath, path: &LogicalPath) -> Found {
        match &self.capability {
            Some(_) => Found::at(export_path).await,
            None => self.exports.lookup(self.requester(), export_path, path).await,
        }
    }

    /// Remembers that this client stored the file.
    pub(crate) fn note_upload(&self, path: &LogicalPath, stat: &Stat) {
        self.exports.note_upload(self.requester(), path, stat);
    }

    /// What a path stands for, for this client.
    pub(crate) fn place(&self, path: &LogicalPath) -> PathTarget {
        let target = match &self.capability {
            Some(redeemed) => {
                let holder = &redeemed.capability.holder;
                self.exports.place_by_capability(self.requester(), holder, path)
            }
            None => self.exports.place(self.requester(), path),
        };
        target.limiting_links(self.link_limit())
    }

    /// How far links may lead, if another server has judged the request or is the client.
    fn link_limit(&self) -> Option<&LinkLimit> {
        let judged_elsewhere = self.capability.as_ref().map(|redeemed| redeemed.capability.audience);
        match judged_elsewhere {
            Some(audience) if !audience.follows_links() => Some(&LinkLimit::Nowhere),
            _ => self.link_limit.as_ref(),
        }
    }

    /// As [`FileExchange::authorize`], for the path of the request.
    pub(crate) fn authorize_here(&mut self, operation: Operation) -> Result<()> {
        let path = self.http.path.clone();
        self.authorize(operation, &path, None).map(drop)
    }

    /// Whether an upload may replace what exists under its name when it ends. Where nothing existed
    /// when it began, the client had to show only the right to create, which is no right to replace
    /// a file of another client.
    pub(crate) fn may_replace(&self, exists: bool, size_bytes: Option<u64>) -> bool {
        let would_allow = |operation| {
            self.exports
                .would_allow(self.requester(), operation, &self.http.path, size_bytes)
        };
        match &self.capability {
            Some(redeemed) => {
                let policy = self.exports.policy();
                redeemed.capability.may_replace
                    && policy::allows_at_most(policy, &Operation::Overwrite, &self.http.path).is_ok()
            }
            None => exists || would_allow(Operation::Overwrite),
        }
    }

    /// The right to store a file under the path of the request. It is checked once more before the
    /// file gets that name.
    pub(crate) fn permit(&self) -> Permit {
        let credential = self.capability.is_none().then_some(&self.http.credential);
        let exports = &self.door.settings.site.exports;
        let permit = Permit::new(exports, &self.exports, credential, self.http.peer.ip(), &self.http.path);
        permit.holding(self.lock_keys())
    }

    /// The export of the request's path. Above all exports nothing can be changed; such requests
    /// are refused with `above`.
    pub(crate) fn export_path(&mut self, above: ErrorCode) -> Result<ExportPath> {
        match self.place(&self.http.path) {
            PathTarget::Stored(export_path) => Ok(export_path),
            PathTarget::Above(_) => Err(refusal(above, &self.http.path)),
            PathTarget::Nowhere => {
                // Policy reports a token that is not valid for anything.
                self.authorize_here(Operation::Stat)?;
                Err(refusal(ErrorCode::NotFound, &self.http.path))
            }
        }
    }

    /// Whether locks can be taken at the path of the request; above all exports, whether they can
    /// in any of them.
    pub(crate) fn has_locks(&self) -> bool {
        match self.place(&self.http.path) {
            PathTarget::Stored(export_path) => export_path.has_locks,
            // Windows and macOS ask here before they look at a path below.
            PathTarget::Above(_) => self.exports.list().iter().any(|export| export.rules.has_locks()),
            PathTarget::Nowhere => false,
        }
    }

    /// The keys that the request has for locks.
    pub(crate) fn lock_keys(&self) -> LockKeys {
        if self.submitted.is_empty() {
            // Without a lock token no lock opens, so the holder does not matter.
            return LockKeys::default();
        }
        LockKeys {
            holder: LockHolder::of(&self.http.credential),
            tokens: self.submitted.clone(),
        }
    }
}

/// Refuses a name in a directory that is missing (RFC 4918 §9.8.5, §9.9.4). Stores of this machine
/// do so by themselves; other servers may make the directory, and object stores always do.
pub(crate) async fn check_directory(to: &ExportPath, path: &LogicalPath) -> Result<()> {
    let parent = to.path.parent().filter(|parent| !parent.is_root());
    let Some(parent) = parent.filter(|_| to.store.has_upstream()) else {
        return Ok(());
    };
    match to.store.stat(&parent).await {
        Err(error) if is_missing(&error) => {
            Err(Error::new(ErrorCode::ParentMissing, error.side(), error.phase()).with_subject(path))
        }
        // A server may not let us look at directories.
        _ => Ok(()),
    }
}

/// The entity tag of a file, with its quotes.
pub(crate) fn etag(stat: &Stat) -> String {
    format!("\"{}\"", stat.etag())
}

/// Whether the conditions of a request that changes something hold (RFC 9110 §13).
pub(crate) fn check_conditions(head: &RequestHead, stat: Option<&Stat>, path: &LogicalPath) -> Result<()> {
    if !head.has_conditions() {
        return Ok(());
    }
    let tag = stat.map(etag);
    let validators = stat.zip(tag.as_deref()).map(|(stat, etag)| Validators {
        etag,
        modified_s: unix_s(stat.modified),
    });
    match head.check_conditions(validators) {
        Verdict::Proceed => Ok(()),
        _ if head.must_not_exist() => Err(refusal(ErrorCode::Exists, path)),
        _ => Err(refusal(ErrorCode::PreconditionFailed, path)),
    }
}
