//! May this be done? Every verb asks here, with the final path, and policy decides.

use http_wire::{RequestHead, Validators, Verdict};
use policy::{Explanation, Operation};
use storage::Stat;
use types::{ErrorCode, LogicalPath, Result};

use crate::exchange::Exchange;
use crate::hand_over;
use endpoint::clock::unix_s;
use endpoint::{Asker, Found, Granted, Holder, Permit, Place, Spot, refusal};

impl Exchange<'_> {
    /// Asks policy. Why something is refused is kept under the name of the request.
    pub(crate) fn authorize(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Result<Granted> {
        if let Some(redeemed) = &self.capability {
            self.record.authorized_us = Some(self.elapsed_us());
            // The export may have been closed since the capability was issued.
            policy::allows_at_most(self.exports.policy(), &operation, path)
                .map_err(|error| error.with_subject(path))?;
            return hand_over::allow(&redeemed.capability, operation, path, size_bytes);
        }
        self.note_credential();
        let (refusals, request_id) = (&self.door.settings.site.refusals, &self.record.request_id);
        let name = || request_id.as_str();
        self.exports
            .authorize(self.asker(), operation, path, size_bytes, refusals, name)
    }

    /// Why whoever asks may do something, or not, in words for him alone.
    pub(crate) fn explain_to_asker(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Explanation {
        self.note_credential();
        self.exports.explain_to_asker(self.asker(), operation, path, size_bytes)
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            credential: &self.credential,
            address: self.peer.ip(),
        }
    }

    /// What stands under a name, to whoever may look at it.
    pub(crate) async fn look(&self, spot: &Spot, path: &LogicalPath) -> Found {
        match &self.capability {
            Some(_) => Found::at(spot).await,
            None => self.exports.look(self.asker(), spot, path).await,
        }
    }

    /// Remembers whose file this is.
    pub(crate) fn note_upload(&self, path: &LogicalPath, stat: &Stat) {
        self.exports.note_upload(self.asker(), path, stat);
    }

    /// What a path stands for, to whoever asks.
    pub(crate) fn place(&self, path: &LogicalPath) -> Place {
        match &self.capability {
            Some(_) => self.exports.place_by_capability(self.asker(), path),
            None => self.exports.place(self.asker(), path),
        }
    }

    /// As [`Exchange::authorize`], for the path of the request.
    pub(crate) fn authorize_here(&mut self, operation: Operation) -> Result<()> {
        let path = self.path.clone();
        self.authorize(operation, &path, None).map(drop)
    }

    /// Whether an upload may replace what stands under its name when it ends. Where nothing stood when
    /// it began only the right to create was asked for, which is none to somebody else's file.
    pub(crate) fn may_replace(&self, exists: bool, size_bytes: Option<u64>) -> bool {
        let would_allow = |operation| {
            self.exports
                .would_allow(self.asker(), operation, &self.path, size_bytes)
        };
        match &self.capability {
            Some(redeemed) => {
                let policy = self.exports.policy();
                redeemed.capability.may_replace
                    && policy::allows_at_most(policy, &Operation::Overwrite, &self.path).is_ok()
            }
            None => exists || would_allow(Operation::Overwrite),
        }
    }

    /// The right to store a file under the path of the request, to be asked again before it has that name.
    pub(crate) fn permit(&self) -> Permit {
        let credential = self.capability.is_none().then_some(&self.credential);
        let exports = &self.door.settings.site.exports;
        let permit = Permit::new(exports, &self.exports, credential, self.peer.ip(), &self.path);
        permit.holding(self.lock_keys())
    }

    fn note_credential(&mut self) {
        self.note(Holder::of(&self.credential));
    }

    /// For the log: the request was made by whoever the connection's certificate names.
    pub(crate) fn note_visitor(&mut self) {
        self.note(Holder::of(&Ok(self.visitor.clone())));
    }

    fn note(&mut self, holder: Holder) {
        self.record.authorized_us = Some(self.elapsed_us());
        self.record.note_holder(holder);
    }

    /// The export that the request is about. Above all exports nothing can be changed, and what is
    /// asked there is refused with `above`.
    pub(crate) fn spot(&mut self, above: ErrorCode) -> Result<Spot> {
        match self.place(&self.path) {
            Place::Stored(spot) => Ok(spot),
            Place::Above(_) => Err(refusal(above, &self.path)),
            Place::Nowhere => {
                // Policy knows whether the token, if there is one, is of any use at all.
                self.authorize_here(Operation::Stat)?;
                Err(refusal(ErrorCode::NotFound, &self.path))
            }
        }
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
