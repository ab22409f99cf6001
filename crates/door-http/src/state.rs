//! The `If` header of a request, and whether locks allow its changes (RFC 4918 §7, §10.4).
//!
//! Both are checked after policy and before the change: a client without the right learns nothing
//! about locks.

use endpoint::{Change, Changing, ExportPath, Found, PathTarget, refusal};
use http_wire::{RequestHead, ResourceState, StateConditions};
use policy::Operation;
use types::{ErrorCode, Location, LogicalPath, Result};

use crate::access::etag;
use crate::authority::is_ours;
use crate::exchange::FileExchange;

/// A change of a path, as locks are asked about it.
#[derive(Clone, Copy)]
pub(crate) struct PathChange<'a> {
    export_path: &'a ExportPath,
    path: &'a LogicalPath,
    change: Change,
}

impl<'a> PathChange<'a> {
    pub(crate) fn new(export_path: &'a ExportPath, path: &'a LogicalPath, change: Change) -> Self {
        Self {
            export_path,
            path,
            change,
        }
    }
}

impl FileExchange<'_, '_> {
    /// Evaluates the `If` header, and keeps the lock tokens that it submits.
    ///
    /// # Errors
    /// `precondition_failed` when it is false.
    pub(crate) async fn check_state(&mut self, head: &RequestHead) -> Result<()> {
        match head.state_conditions()? {
            None => Ok(()),
            Some(conditions) => Box::pin(self.weigh(head, &conditions)).await,
        }
    }

    async fn weigh(&mut self, head: &RequestHead, conditions: &StateConditions) -> Result<()> {
        let mut holds = false;
        let mut known: Option<(&Option<String>, ResourceState)> = None;
        for list in &conditions.lists {
            // Lists about the same resource are adjacent.
            let state = match known.take() {
                Some((resource, state)) if *resource == list.resource => state,
                _ => self.state_of(head, list.resource.as_deref()).await,
            };
            holds |= list.holds(&state);
            known = Some((&list.resource, state));
        }
        if !holds {
            return Err(refusal(ErrorCode::PreconditionFailed, &self.http.path));
        }
        self.submitted = conditions.tokens().map(str::to_owned).collect();
        Ok(())
    }

    /// The state of a resource that the client may look at; empty for all others.
    async fn state_of(&self, head: &RequestHead, resource: Option<&str>) -> ResourceState {
        let path = match resource {
            None => self.http.path.clone(),
            Some(resource) => match self.path_of(head, resource) {
                Some(path) => path,
                None => return ResourceState::default(),
            },
        };
        let PathTarget::Stored(export_path) = self.place(&path) else {
            return ResourceState::default();
        };
        if !self.exports.would_allow(self.requester(), Operation::Stat, &path, None) && self.capability.is_none() {
            return ResourceState::default();
        }
        let locks = self.exports.locks_over(&path);
        ResourceState {
            tokens: locks.iter().map(|lock| lock.token.to_string()).collect(),
            tag: match self.lookup(&export_path, &path).await {
                Found::Something(stat) if !stat.is_directory() => Some(etag(&stat)),
                _ => None,
            },
        }
    }

    /// The path that a URL or an absolute path names on this server.
    fn path_of(&self, head: &RequestHead, resource: &str) -> Option<LogicalPath> {
        let path = match resource.starts_with('/') {
            true => LogicalPath::parse_url_path(resource),
            false => {
                let place = Location::parse(resource).ok()?;
                let is_here = is_ours(self, head, &place.authority(), place.is_encrypted());
                is_here.then(|| LogicalPath::parse_url_path(place.path()))?
            }
        };
        path.ok().map(|path| self.exports.respelled(&path).unwrap_or(path))
    }

    /// Evaluates the `If` header, and checks whether locks allow these changes.
    ///
    /// # Errors
    /// `precondition_failed`, `locked`.
    pub(crate) async fn check_changes(&mut self, head: &RequestHead, changes: &[PathChange<'_>]) -> Result<()> {
        self.check_state(head).await?;
        if self.exports.locks().is_empty() {
            return Ok(());
        }
        let keys = self.lock_keys();
        for PathChange {
            export_path,
            path,
            change,
        } in changes
        {
            let requester = self.requester();
            self.exports
                .check_locks(requester, export_path, path, *change, &keys)
                .await?;
        }
        Ok(())
    }

    /// The same for changes that are made now: as long as the returned value exists, no lock is
    /// granted that forbids them.
    ///
    /// # Errors
    /// As [`FileExchange::check_changes`].
    pub(crate) async fn begin_changes(&mut self, head: &RequestHead, changes: &[PathChange<'_>]) -> Result<Changing> {
        self.check_state(head).await?;
        let (keys, mut begun) = (self.lock_keys(), Changing::default());
        for PathChange {
            export_path,
            path,
            change,
        } in changes
        {
            let requester = self.requester();
            let changing = self
                .exports
                .begin_change_by(requester, export_path, path, *change, &keys);
            begun = begun.and(changing.await?);
        }
        Ok(begun)
    }
}
