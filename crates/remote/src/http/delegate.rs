//! Delegation to a server that asks for a credential before it makes a copy. The server names a
//! GridSite service, and we sign a proxy there for its key, as davix does.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits::DELEGATED_LIFETIME;
use aws_lc_rs::rand;
use gsi_wire::delegation::{CertificateRequest, ProxyDraft};
use gsi_wire::{Certificate, ProxyPolicy, pem_blocks, to_pem};
use http_wire::{DelegationAnswer, DelegationRequest, Method, RequestBuilder};
use net::tls::ClientIdentity;
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result};

use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use crate::resource::Resource;

/// The name under which a server keeps our delegation.
const NAME: &str = "crossload";
/// A proxy is valid from this many seconds ago, since clocks differ.
const CLOCK_SKEW_S: i64 = 300;

impl Client {
    /// Delegates the identity of `file` to the service at `place`, a URL or a path.
    ///
    /// # Errors
    /// The service's refusal, or an answer that cannot be understood.
    pub(super) async fn delegate(&self, file: &Resource, place: &str) -> Result<()> {
        let identity = file.access.identity.clone();
        let identity = identity.ok_or_else(|| file.error(ErrorCode::PeerDenied, Phase::Authenticate))?;
        let mut service = file.redirected(place)?;
        service.access.bearer = None;
        if !service.location.is_encrypted() {
            let error = file.error(ErrorCode::PeerMisbehaved, Phase::Authenticate);
            return Err(error.with_detail("it asks for a credential in clear text"));
        }
        let id = || NAME.to_owned();
        let asked = DelegationRequest::ProxyRequest { id: id() };
        let DelegationAnswer::ProxyRequest(request) = self.ask_service(&service, &asked).await? else {
            return Err(file.error(ErrorCode::Internal, Phase::Authenticate));
        };
        let chain = sign(&identity, &request).map_err(|why| {
            let error = service.error(ErrorCode::PeerMisbehaved, Phase::Authenticate);
            error.with_detail(why)
        })?;
        let put = DelegationRequest::PutProxy { id: id(), chain };
        self.ask_service(&service, &put).await.map(drop)
    }

    async fn ask_service(&self, service: &Resource, request: &DelegationRequest) -> Result<DelegationAnswer> {
        let body = request.to_body();
        let headers = |builder: RequestBuilder, _: &Hop<'_>| builder.accept_anything().soap(body.as_bytes());
        let ask = Ask {
            method: Method::Post,
            headers: &headers,
            body: Body::Small(body.as_bytes()),
        };
        let mut answer = self.ask(service, &ask).await?;
        // A SOAP fault has status 500, and its words in the body.
        if !answer.is_success() && answer.head.status != 500 {
            answer.success().await?;
            return Err(service.error(ErrorCode::PeerFailed, Phase::Authenticate));
        }
        let text = answer.collect(DELEGATION_BODY_BYTES_MAX).await?;
        answer.release();
        request.parse_answer(&text).map_err(|error| service.blame(error))
    }
}

/// Signs a proxy for the key of a request in PEM, limited if its issuer is. Returns it with its
/// chain.
fn sign(identity: &ClientIdentity, request: &str) -> std::result::Result<String, String> {
    let blocks = pem_blocks(request.as_bytes()).map_err(|why| why.to_string())?;
    let request = blocks.first().ok_or("there is no request for a proxy")?;
    let request = CertificateRequest::parse(&request.der).map_err(|why| why.to_string())?;
    let leaf = identity.chain().first().ok_or("there is no certificate")?;
    let issuer = Certificate::parse(leaf).map_err(|why| why.to_string())?;
    let info = issuer.proxy_info().map_err(|why| why.to_string())?;
    let is_limited = info.is_some_and(|info| info.policy == ProxyPolicy::Limited);
    let mut number = [0; 8];
    rand::fill(&mut number).map_err(|_| "there are no random bytes")?;
    number[0] &= 0x7f;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0));
    let lifetime_s = i64::try_from(DELEGATED_LIFETIME.as_secs()).unwrap_or(0);
    let draft = ProxyDraft {
        issuer: issuer.subject().der,
        common_name: &u64::from_be_bytes(number).to_string(),
        serial: &number,
        public_key_info: request.public_key_info,
        not_before_s: now_s - CLOCK_SKEW_S,
        not_after_s: (now_s + lifetime_s).min(identity.expires_s()),
        policy: if is_limited {
            ProxyPolicy::Limited
        } else {
            ProxyPolicy::Full
        },
        path_length: None,
        extensions: Vec::new(),
    };
    // The kind of a signature is known only from a signature.
    let (kind, _) = identity.sign(&[]).map_err(|error| error.public())?;
    let signed = draft.encode(kind, |content| {
        let (_, signature) = identity.sign(content)?;
        Ok::<_, Unsigned>(signature)
    });
    let proxy = signed.map_err(|Unsigned(why)| why)?;
    let chain = std::iter::once(&proxy[..]).chain(identity.chain().iter().map(|certificate| &certificate[..]));
    Ok(chain.map(|der| to_pem("CERTIFICATE", der)).collect())
}

/// Why a proxy was not signed.
struct Unsigned(String);

impl From<Error> for Unsigned {
    fn from(error: Error) -> Self {
        Self(error.public())
    }
}

impl From<gsi_wire::Malformed> for Unsigned {
    fn from(why: gsi_wire::Malformed) -> Self {
        Self(why.to_string())
    }
}
