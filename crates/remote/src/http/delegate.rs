//! Delegation to a server that asks for a credential before it makes a copy. The server names a
//! GridSite service, and we sign a proxy there for its key, as davix does.

use credentials::x509::{Naming, Unsigned};
use gsi_wire::to_pem;
use http_wire::{DelegationAnswer, DelegationRequest, Method, RequestBuilder};
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{ErrorCode, Phase, Result};

use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use crate::delegate::{refusal, sign_proxy};
use crate::resource::Resource;

/// The name under which a server keeps our delegation.
const NAME: &str = "crossload";

impl Client {
    /// Delegates the identity of `file` to the service at `place`, a URL or a path.
    ///
    /// # Errors
    /// The service's refusal, an answer that cannot be understood, or why no proxy is signed.
    pub(super) async fn delegate(&self, file: &Resource, place: &str) -> Result<()> {
        let identity = file.access.identity.clone();
        let identity = identity.ok_or_else(|| file.error(ErrorCode::PeerDenied, Phase::Authenticate))?;
        // The service is no file of ours.
        let mut door = file.clone();
        door.access.own_name = None;
        let mut service = door.redirected(place, true)?;
        service.access.bearer = None;
        if !service.location.is_encrypted() {
            let error = file.error(ErrorCode::PeerMisbehaved, Phase::Authenticate);
            return Err(error.with_detail("it asks for a credential in clear text"));
        }
        if !self.options.tls.is_verifying() {
            let why = Unsigned::Own("the server's certificate is not verified".to_owned());
            return Err(refusal(&service, &why));
        }
        let id = || NAME.to_owned();
        let asked = DelegationRequest::ProxyRequest { id: id() };
        let DelegationAnswer::ProxyRequest(request) = self.ask_service(&service, &asked).await? else {
            return Err(file.error(ErrorCode::Internal, Phase::Authenticate));
        };
        let signed = sign_proxy(&identity, request.as_bytes(), Naming::Free);
        let proxy = signed.map_err(|why| refusal(&service, &why))?.pem;
        let own = identity.chain().iter().map(|der| to_pem("CERTIFICATE", der));
        let chain = std::iter::once(proxy).chain(own).collect();
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
