//! Admission: who sends the requests of a connection, and whether that client may hold another one.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use endpoint::{FairShare, Share, ShareKind};
use http_wire::{Authorization, RequestHead};
use identity::{Authenticator, LastShown};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::server::Server;

/// The client of one connection: its certificate, and what its latest request showed.
pub(crate) struct Admission {
    /// The holder of the connection's certificate.
    certificate_holder: Arc<Credential>,
    last_shown: LastShown,
    /// The identity for which the connection is counted, in addition to its address.
    counted: Option<(Arc<Credential>, Option<Share>)>,
}

impl Admission {
    /// For a connection whose certificate belongs to `certificate_holder`.
    pub(crate) fn new(certificate_holder: Arc<Credential>) -> Self {
        Self {
            certificate_holder,
            last_shown: LastShown::default(),
            counted: None,
        }
    }

    /// The holder of the connection's certificate.
    pub(crate) fn certificate_holder(&self) -> &Arc<Credential> {
        &self.certificate_holder
    }

    /// The credential of a request: its token, or the certificate of the connection without one.
    /// The connection is counted for that identity from now on. `clear_from` is the address of a
    /// client that speaks in clear text.
    ///
    /// # Errors
    /// `bad_request`, `invalid_token` and the other errors of tokens; `tls_required` for a token in
    /// clear text; `share_used_up`.
    pub(crate) async fn admit(
        &mut self,
        server: &Server,
        head: &RequestHead,
        clear_from: Option<IpAddr>,
    ) -> Result<Arc<Credential>> {
        let credential = self.credential_of(&server.authenticator, head, clear_from).await?;
        self.count(&server.fair_share, &credential)?;
        Ok(credential)
    }

    async fn credential_of(
        &mut self,
        authenticator: &Authenticator,
        head: &RequestHead,
        clear_from: Option<IpAddr>,
    ) -> Result<Arc<Credential>> {
        let field = head.authorization_field();
        if let Some(peer) = clear_from.filter(|_| !matches!(head.authorization(), Authorization::Absent)) {
            authenticator.admits_in_clear_text(peer)?;
        }
        if let Some(credential) = field.and_then(|field| authenticator.again(field, &self.last_shown)) {
            return Ok(credential);
        }
        match head.authorization() {
            Authorization::Absent => Ok(self.certificate_holder.clone()),
            // A token without a field came in the query. The future is boxed because it is large
            // and rarely needed: most requests repeat the last token.
            Authorization::Bearer(token) => {
                Box::pin(authenticator.bearer_in(field, token.expose(), &mut self.last_shown)).await
            }
            Authorization::Unsupported => {
                let error = Error::new(ErrorCode::InvalidToken, Side::Client, Phase::Authenticate);
                Err(error.with_detail("the only scheme is Bearer, with a token behind it"))
            }
            Authorization::Contradictory => {
                let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Authenticate);
                Err(error.with_detail("two different Authorization headers"))
            }
        }
    }

    /// Counts the connection for the identity of its latest request.
    fn count(&mut self, fair_share: &FairShare, credential: &Arc<Credential>) -> Result<()> {
        let is_counted = |(counted, _): &(Arc<Credential>, _)| Arc::ptr_eq(counted, credential);
        if !self.counted.as_ref().is_some_and(is_counted) {
            self.counted = None;
            let share = fair_share.identify(ShareKind::Connections, credential)?;
            self.counted = Some((credential.clone(), share));
        }
        Ok(())
    }
}
