//! Authorisation: all doors ask here, with the final path, and policy decides.

use std::sync::Arc;

use credentials::Credential;
use policy::{Decision, Explanation, InTheNameOf, Operation, Request, decide, in_the_name_of};
use storage::Stat;
use types::{LogicalPath, Result};

use crate::export_path::ExportPath;
use crate::exports::Exports;
use crate::found::Found;
use crate::own_uploads::holder_of;
use crate::refusals::Refusals;
use crate::requester::{Requester, request};

/// The conditions under which an operation is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Longest upload, in bytes; a longer one is aborted.
    pub max_upload_bytes: Option<u64>,
    /// The local user as whom the operation runs.
    pub user: Option<Arc<str>>,
    /// The virtual organisation whose quota it counts against.
    pub vo: Option<Arc<str>>,
}

/// The client in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The kind of credential, or `invalid`.
    pub credential: &'static str,
    /// The subject of the credential.
    pub subject: Option<String>,
    /// The issuer of the credential.
    pub issuer: Option<String>,
    /// The first virtual organisation that the credential names.
    pub vo: Option<String>,
    /// The identifier of the token.
    pub token_id: Option<String>,
    /// Why some VOMS attributes of the certificate were ignored.
    pub attribute_faults: Option<String>,
}

impl Holder {
    /// What the log records about this credential.
    #[must_use]
    pub fn of(credential: &Result<Arc<Credential>>) -> Self {
        match credential {
            Ok(credential) => {
                let identity = credential.identity();
                Self {
                    credential: identity.kind.name(),
                    subject: identity.subject,
                    issuer: identity.issuer,
                    vo: credential.principal().and_then(|holder| holder.vos.first().cloned()),
                    token_id: identity.token_id,
                    attribute_faults: faults_of(credential),
                }
            }
            Err(_) => Self {
                credential: "invalid",
                subject: None,
                issuer: None,
                vo: None,
                token_id: None,
                attribute_faults: None,
            },
        }
    }
}

fn faults_of(credential: &Credential) -> Option<String> {
    match credential {
        Credential::Certificate(certificate) if !certificate.attribute_faults.is_empty() => {
            Some(certificate.attribute_faults.join("; "))
        }
        _ => None,
    }
}

impl Exports {
    /// Whether an operation on a path is allowed. `size_bytes` is the announced length of an
    /// upload. The reason for a refusal is kept in `refusals`, under the request's ID.
    ///
    /// # Errors
    /// The refusal; `draining` if the server is.
    pub fn authorize<'n>(
        &self,
        requester: Requester<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        refusals: &Refusals,
        request_id: impl FnOnce() -> &'n str,
    ) -> Result<Granted> {
        let drained = self.drain_gate.check(&operation);
        let (request, decision) = self.decide(requester, operation, path, size_bytes);
        if !decision.is_allowed() {
            refusals.keep(request_id(), Explanation::new(&request, &decision));
        }
        let granted = Granted {
            max_upload_bytes: decision.max_upload_bytes,
            user: decision.user.clone(),
            vo: decision.vo.clone(),
        };
        // A client without the right learns nothing about the server's state.
        let allowed = decision.into_result().and(drained);
        allowed.map_err(|error| error.with_subject(path))?;
        Ok(granted)
    }

    /// Whether an operation would be allowed. The client does not get this answer, so no
    /// explanation is kept.
    #[must_use]
    pub fn would_allow(
        &self,
        requester: Requester<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> bool {
        self.decide(requester, operation, path, size_bytes).1.is_allowed()
    }

    /// What exists under a name, if the client may stat it. Otherwise nothing does, and the store
    /// is not asked: refusals then have the same text and take the same time whatever exists.
    pub async fn lookup(&self, requester: Requester<'_>, export_path: &ExportPath, path: &LogicalPath) -> Found {
        match self.would_allow(requester, Operation::Stat, path, None) {
            true => Found::at(export_path).await,
            false => Found::Nothing,
        }
    }

    /// A tree around a path in which the client has the same rights everywhere; `None` if there is
    /// none.
    #[must_use]
    pub fn same_rights_around(&self, requester: Requester<'_>, path: &LogicalPath) -> Option<LogicalPath> {
        let credential = requester.credential.as_ref().ok()?;
        self.policy().same_rights_around(credential.grant(), path)
    }

    /// Why the client may or may not do something; the explanation is for this client only.
    #[must_use]
    pub fn explain_to_requester(
        &self,
        requester: Requester<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Explanation {
        let request = request(requester, operation, path, size_bytes);
        let credential = requester.credential.as_ref().map(Arc::as_ref);
        let decision = policy::explain(self.policy(), credential, &request);
        self.explained(requester, path, Explanation::for_requester(&request, &decision))
    }

    fn decide(
        &self,
        requester: Requester<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> (Request, Decision) {
        let request = request(requester, operation, path, size_bytes);
        let credential = requester.credential.as_ref().map(Arc::as_ref);
        let decision = decide(self.policy(), credential, &request);
        (request, decision)
    }

    /// Records who stored a file, if that will matter: a client that may delete it may move it
    /// anyway.
    pub fn note_upload(&self, requester: Requester<'_>, path: &LogicalPath, stat: &Stat) {
        let Some(holder) = holder_of(requester.credential) else {
            return;
        };
        if !self.would_allow(requester, Operation::Delete, path, None) {
            self.own_uploads.note(path, holder, stat.inode);
        }
    }

    /// Whether the client stored this very file recently.
    #[must_use]
    pub fn is_own_upload(&self, requester: Requester<'_>, path: &LogicalPath, stat: &Stat) -> bool {
        self.own_uploads.is_own(requester.credential, path, stat.inode)
    }

    /// The user and VO for which the client uses a path.
    pub(crate) fn owner(&self, requester: Requester<'_>, path: &LogicalPath) -> InTheNameOf {
        let request = request(requester, Operation::Stat, path, None);
        let credential = requester.credential.as_ref().map(Arc::as_ref);
        in_the_name_of(self.policy(), credential, &request)
    }
}
