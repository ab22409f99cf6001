//! May this be done? The one place where every door asks, with the final path; policy decides.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use policy::{Decision, Explanation, InTheNameOf, Operation, Request, decide, in_the_name_of};
use types::{LogicalPath, Result};

use crate::clock::now_s;
use crate::exports::{Exports, Spot};
use crate::found::Found;
use crate::refusals::Refusals;

/// Who asks: what was made of what the client showed, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The credential, or why it is of no use.
    pub credential: &'a Result<Arc<Credential>>,
    /// The client's address.
    pub address: IpAddr,
}

/// What is granted, and how it is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// An upload above this many bytes is broken off.
    pub max_upload_bytes: Option<u64>,
    /// The local user in whose name it is done.
    pub user: Option<Arc<str>>,
    /// The virtual organisation whose quota it counts against.
    pub vo: Option<Arc<str>>,
}

/// What the log says of whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The kind of credential, or `invalid`.
    pub credential: &'static str,
    /// For whom it was issued.
    pub subject: Option<String>,
    /// Who issued it.
    pub issuer: Option<String>,
    /// The first of the virtual organisations that vouch for its holder.
    pub vo: Option<String>,
    /// Its own name.
    pub token_id: Option<String>,
    /// Why attributes of VOMS in it were left out, if some were.
    pub attribute_faults: Option<String>,
}

impl Holder {
    /// What is known of whoever showed this.
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
    /// Whether an operation on a path is allowed; `size_bytes` is how long an upload says that it is. Why it is
    /// refused is kept in `refusals`, under the name of the request.
    ///
    /// # Errors
    /// The refusal.
    pub fn authorize<'n>(
        &self,
        asker: Asker<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        refusals: &Refusals,
        request_id: impl FnOnce() -> &'n str,
    ) -> Result<Granted> {
        let (request, decision) = self.decide(asker, operation, path, size_bytes);
        if !decision.is_allowed() {
            refusals.keep(request_id(), Explanation::new(&request, &decision));
        }
        let granted = Granted {
            max_upload_bytes: decision.max_upload_bytes,
            user: decision.user.clone(),
            vo: decision.vo.clone(),
        };
        decision.into_result().map_err(|error| error.with_subject(path))?;
        Ok(granted)
    }

    /// Whether an operation would be allowed. It is not an answer to the client, so nothing is kept of it.
    #[must_use]
    pub fn would_allow(
        &self,
        asker: Asker<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> bool {
        self.decide(asker, operation, path, size_bytes).1.is_allowed()
    }

    /// What stands under a name, to an asker who may look at it. To anybody else nothing does, and the store is not
    /// asked: a refusal then says and takes the same whatever is there.
    pub async fn look(&self, asker: Asker<'_>, spot: &Spot, path: &LogicalPath) -> Found {
        match self.would_allow(asker, Operation::Stat, path, None) {
            true => Found::at(spot).await,
            false => Found::Nothing,
        }
    }

    /// Why whoever asks may do something, or not, in words for him alone.
    #[must_use]
    pub fn explain_to_asker(
        &self,
        asker: Asker<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Explanation {
        let request = request(asker, operation, path, size_bytes);
        let credential = asker.credential.as_ref().map(Arc::as_ref);
        let decision = policy::explain(self.policy(), credential, &request);
        Explanation::for_asker(&request, &decision)
    }

    fn decide(
        &self,
        asker: Asker<'_>,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> (Request, Decision) {
        let request = request(asker, operation, path, size_bytes);
        let credential = asker.credential.as_ref().map(Arc::as_ref);
        let decision = decide(self.policy(), credential, &request);
        (request, decision)
    }

    /// In whose name an asker does anything with a path.
    pub(crate) fn owner(&self, asker: Asker<'_>, path: &LogicalPath) -> InTheNameOf {
        let request = request(asker, Operation::Stat, path, None);
        let credential = asker.credential.as_ref().map(Arc::as_ref);
        in_the_name_of(self.policy(), credential, &request)
    }
}

pub(crate) fn request(asker: Asker<'_>, operation: Operation, path: &LogicalPath, size_bytes: Option<u64>) -> Request {
    Request {
        operation,
        path: path.clone(),
        client_address: asker.address.to_canonical(),
        now_s: now_s(),
        size_bytes,
    }
}
