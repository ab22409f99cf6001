//! May this be done? Every verb asks here, with the final path, and policy decides.

use http_wire::{RequestHead, Validators, Verdict};
use policy::{Explanation, Operation, Request, decide};
use storage::Stat;
use types::{ErrorCode, LogicalPath, Result};

use crate::exchange::Exchange;
use transfer::chance::{now_s, unix_s};
use transfer::{Place, Spot, refusal};

impl Exchange<'_> {
    /// Asks policy. Gives the limit on the size of an upload; why something is refused is kept under the
    /// name of the request.
    pub(crate) fn authorize(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Result<Option<u64>> {
        let request = Request {
            operation,
            path: path.clone(),
            client_address: self.peer.ip().to_canonical(),
            now_s: now_s(),
            size_bytes,
        };
        let decision = decide(self.exports.rules(), self.credential.as_deref(), &request);
        self.note_credential();
        if !decision.is_allowed() {
            let explanation = Explanation::new(&request, &decision);
            self.door.settings.refusals.keep(&self.record.request_id, explanation);
        }
        let max_upload_bytes = decision.max_upload_bytes;
        decision.into_result().map_err(|error| error.with_subject(path))?;
        Ok(max_upload_bytes)
    }

    /// As [`Exchange::authorize`], for the path of the request.
    pub(crate) fn authorize_here(&mut self, operation: Operation) -> Result<()> {
        let path = self.path.clone();
        self.authorize(operation, &path, None).map(drop)
    }

    /// Whether an upload may replace what stands under its name when it ends. Where nothing stood when
    /// it began only the right to create was asked for, which is none to somebody else's file.
    pub(crate) fn may_replace(&mut self, exists: bool, size_bytes: Option<u64>) -> bool {
        let path = self.path.clone();
        exists || self.authorize(Operation::Overwrite, &path, size_bytes).is_ok()
    }

    fn note_credential(&mut self) {
        self.record.authorized_us = Some(self.elapsed_us());
        match &self.credential {
            Ok(credential) => {
                let identity = credential.identity();
                self.record.credential = identity.kind.name();
                self.record.subject = identity.subject;
                self.record.token_id = identity.token_id;
            }
            Err(_) => self.record.credential = "invalid",
        }
    }

    /// The export that the request is about. Above all exports nothing can be changed, and what is
    /// asked there is refused with `above`.
    pub(crate) fn spot(&mut self, above: ErrorCode) -> Result<Spot> {
        match self.exports.place(&self.path) {
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
