//! The right to commit an upload, checked again at the end: a reload may have brought rules that
//! forbid the file.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use credentials::capability::Holder;
use policy::{Operation, Request, allows_at_most, decide};
use storage::LinkUse;
use types::{LogicalPath, Result};

use crate::clock::now_s;
use crate::export_path::StoredPath;
use crate::exports::{Exports, PathTarget, SharedExports};
use crate::found::is_missing;
use crate::locks::{Change, Changing, LockKeys};
use crate::requester::Requester;
use crate::store::Store;

/// The right to store a file, as granted when the upload began.
#[derive(Clone, Debug)]
pub struct Permit {
    exports: SharedExports,
    began_with: Arc<Exports>,
    /// `None`: a capability grants it, and only the export limits it further.
    credential: Option<Result<Arc<Credential>>>,
    address: IpAddr,
    path: LogicalPath,
    began_s: i64,
    /// What the client submitted to get past locks.
    keys: LockKeys,
}

impl Permit {
    /// A right granted now, by `began_with`, for a credential and an address.
    #[must_use]
    pub fn new(
        exports: &SharedExports,
        began_with: &Arc<Exports>,
        credential: Option<&Result<Arc<Credential>>>,
        address: IpAddr,
        path: &LogicalPath,
    ) -> Self {
        Self {
            exports: exports.clone(),
            began_with: began_with.clone(),
            credential: credential.cloned(),
            address,
            path: path.clone(),
            began_s: now_s(),
            keys: LockKeys::default(),
        }
    }

    /// The same for a client that holds locks.
    #[must_use]
    pub fn holding(self, keys: LockKeys) -> Self {
        Self { keys, ..self }
    }

    /// Whether the file, which `store` knows as `inner`, may still be stored. Only new rules and
    /// locks can change that: a token that expired during the upload was valid when it began, which
    /// suffices. No conflicting lock is granted until the returned value is dropped.
    ///
    /// # Errors
    /// The refusal.
    pub async fn check(&self, store: &Store, inner: &LogicalPath) -> Result<Changing> {
        let current = self.exports.current();
        self.check_rules(&current, store, inner).await?;
        let (stored, keys) = (StoredPath { store, inner }, &self.keys);
        // All generations of exports share the locks.
        self.began_with
            .begin_change(stored, &self.path, Change::Store, keys)
            .await
    }

    /// Whether the rules have changed since it was granted. Costs next to nothing.
    #[must_use]
    pub fn may_have_changed(&self) -> bool {
        !Arc::ptr_eq(&self.exports.current(), &self.began_with)
    }

    async fn check_rules(&self, current: &Arc<Exports>, store: &Store, inner: &LogicalPath) -> Result<()> {
        if Arc::ptr_eq(current, &self.began_with) {
            return Ok(());
        }
        let operation = match store.stat(inner).await {
            Err(error) if is_missing(&error) => Operation::Create,
            _ => Operation::Overwrite,
        };
        let used = match operation {
            Operation::Create => LinkUse::Create,
            _ => LinkUse::Overwrite,
        };
        let decided = match &self.credential {
            None => allows_at_most(current.policy(), &operation, &self.path),
            Some(credential) => {
                let request = Request {
                    operation,
                    path: self.path.clone(),
                    client_address: self.address.to_canonical(),
                    now_s: self.began_s,
                    size_bytes: None,
                };
                let credential = credential.as_ref().map(Arc::as_ref);
                decide(current.policy(), credential, &request).into_result().map(drop)
            }
        };
        decided.map_err(|error| error.with_subject(&self.path))?;
        self.check_links(current, used).await
    }

    /// Whether the new rules allow storing it where symbolic links lead.
    async fn check_links(&self, current: &Exports, used: LinkUse<'static>) -> Result<()> {
        let nobody = Ok(Arc::new(Credential::Anonymous));
        let requester = Requester {
            credential: self.credential.as_ref().unwrap_or(&nobody),
            address: self.address,
        };
        let place = match self.credential {
            Some(_) => current.place(requester, &self.path),
            None => current.place_by_capability(requester, &Holder::default(), &self.path),
        };
        let PathTarget::Stored(export_path) = place else {
            return Ok(());
        };
        export_path.store.check_links(&export_path.path, used).await
    }
}
