//! What the upstream server of an export is shown of each client.

use std::sync::Arc;
use std::time::Duration;

use config::UpstreamIdentity;
use credentials::{Credential, format_time};
use endpoint::{UpstreamClient, UpstreamFacts, UpstreamIdentity as _};
use identity::ShownBy;
use identity::delegation::{Delegations, Delegator};
use storage::{ClientCredential, ClientName, ClientToken};
use storage_remote::{allowed, is_for, is_shown_to};
use types::{AllowedHosts, Error, ErrorCode, ForwardedPath, Location, LogicalPath, Phase, Result, Side};

use super::subsystem::Current;

/// How long a delegated proxy must last, to be shown.
const DELEGATION_LEFT_MIN: Duration = Duration::from_secs(60);
/// The name of all clients that have none, for minted tokens.
const ANONYMOUS: &str = "anonymous";

/// The servers that have the files of an export.
pub(crate) enum Servers {
    One(Location),
    /// Those that clients name, if they are among these.
    Named(Arc<AllowedHosts>),
}

impl Servers {
    /// The server of a path of the store.
    fn of(&self, path: &LogicalPath) -> Result<Location> {
        match self {
            Self::One(server) => Ok(server.clone()),
            Self::Named(hosts) => allowed(hosts, path).map(|named| named.server),
        }
    }

    /// Whether a client's token may be shown to a server.
    fn may_see(&self, token: &ClientToken, server: &Location) -> bool {
        match self {
            Self::One(_) => is_for(&token.audiences, server),
            Self::Named(hosts) => is_shown_to(&token.audiences, server, hosts),
        }
    }
}

/// What an upstream server is shown.
pub(crate) struct ShownUpstream {
    pub(super) servers: Servers,
    pub(super) identity: UpstreamIdentity,
    /// What is shown of this server itself.
    pub(super) own: &'static str,
    /// Whether there is a token of this server, and a certificate.
    pub(super) own_token: bool,
    pub(super) own_certificate: bool,
    /// The delegated proxies; `None` if they are not known here.
    pub(super) delegations: Option<Current<Option<Delegations>>>,
}

impl ShownUpstream {
    /// The word for it in the configuration and the log.
    pub(super) fn word(&self) -> &'static str {
        match self.identity {
            UpstreamIdentity::Service => "service",
            UpstreamIdentity::Client => "client",
            UpstreamIdentity::Delegated => "delegated",
            UpstreamIdentity::Minted => "minted",
        }
    }

    /// The proxy that the client delegated.
    fn proxy(&self, client: &UpstreamClient<'_>) -> Result<ClientCredential> {
        let server = match &self.servers {
            Servers::One(server) => Some(server),
            Servers::Named(_) => None,
        };
        let shown_by = match server.is_some_and(Location::is_xrootd) {
            true => ShownBy::Gsi,
            false => ShownBy::Tls,
        };
        let found = || {
            server?;
            let owner = Delegator::of(client.credential?)?;
            self.delegations
                .as_ref()?
                .get()?
                .identity(&owner, DELEGATION_LEFT_MIN, shown_by)
        };
        found().map(ClientCredential::Proxy).ok_or_else(|| {
            let words = format!(
                "the upstream server {} is shown the proxy that you delegate to this server, and {}",
                server.map(Location::authority).unwrap_or_default(),
                why_no_proxy(client.credential, shown_by)
            );
            Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate).with_detail(words)
        })
    }
}

impl endpoint::UpstreamIdentity for ShownUpstream {
    fn depends_on_client(&self) -> bool {
        self.identity != UpstreamIdentity::Service
    }

    fn credential(&self, client: &UpstreamClient<'_>) -> Result<Option<ClientCredential>> {
        match self.identity {
            UpstreamIdentity::Service => Ok(None),
            UpstreamIdentity::Client => Ok(token(client)),
            UpstreamIdentity::Delegated => self.proxy(client).map(Some),
            UpstreamIdentity::Minted => Ok(Some(name(client))),
        }
    }

    fn plain_path(&self, path: &LogicalPath) -> Option<LogicalPath> {
        match &self.servers {
            Servers::One(_) => None,
            Servers::Named(_) => Some(ForwardedPath::parse(path).ok()?.canonical()),
        }
    }

    fn facts(&self, client: &UpstreamClient<'_>, path: &LogicalPath) -> Option<UpstreamFacts> {
        let server = self.servers.of(path).ok()?;
        let shown = self.shown_to(&server, client).ok()?;
        let identity = match (self.identity, shown) {
            (UpstreamIdentity::Client, None) => ANONYMOUS,
            (UpstreamIdentity::Service, _) if self.withholds_own(&server) => ANONYMOUS,
            (UpstreamIdentity::Client, Some(ClientCredential::Token(token)))
                if !self.servers.may_see(&token, &server) =>
            {
                return None;
            }
            _ => self.word(),
        };
        Some(UpstreamFacts {
            server: server.authority(),
            identity,
        })
    }

    fn words(&self, client: &UpstreamClient<'_>, path: &LogicalPath) -> Vec<String> {
        let server = match self.servers.of(path) {
            Ok(server) => server,
            Err(error) => return vec![error.public()],
        };
        // As the configuration writes it, which names no identity for it.
        let place = match server.to_string().strip_prefix("s3") {
            Some(rest) => format!("the files are in the S3 storage http{rest}"),
            None => format!("the files are at {server}, by remote_identity = \"{}\"", self.word()),
        };
        vec![place, format!("it is shown {}", self.shown_words(&server, client))]
    }

    fn refusal(&self, client: &UpstreamClient<'_>, path: &LogicalPath) -> Option<Error> {
        // Which proxies were delegated is only known to the running server.
        if self.identity == UpstreamIdentity::Delegated && self.delegations.is_none() {
            return None;
        }
        let server = match self.servers.of(path) {
            Ok(server) => server,
            Err(error) => return Some(error),
        };
        match self.shown_to(&server, client) {
            Err(error) => Some(error),
            Ok(Some(ClientCredential::Token(token))) if !self.servers.may_see(&token, &server) => {
                let words = format!("the token is not for the upstream server {}", server.authority());
                let error = Error::new(ErrorCode::TokenAudience, Side::Client, Phase::Authenticate);
                Some(error.with_detail(words))
            }
            Ok(_) => None,
        }
    }
}

impl ShownUpstream {
    /// What a server is shown of this client. One that clients name is shown nothing in clear text.
    fn shown_to(&self, server: &Location, client: &UpstreamClient<'_>) -> Result<Option<ClientCredential>> {
        let is_seen = matches!(self.servers, Servers::One(_)) || server.is_encrypted();
        Ok(self.credential(client)?.filter(|_| is_seen))
    }

    /// Whether a server that clients name is not shown our credential: only its domain is listed,
    /// or the token would go in clear text.
    fn withholds_own(&self, server: &Location) -> bool {
        let Servers::Named(hosts) = &self.servers else {
            return false;
        };
        let is_shown = self.own_certificate || (self.own_token && server.is_encrypted());
        (self.own_token || self.own_certificate) && !(is_shown && hosts.names(server))
    }

    /// What the server is shown of this client.
    fn shown_words(&self, server: &Location, client: &UpstreamClient<'_>) -> String {
        match (self.identity, self.shown_to(server, client)) {
            (UpstreamIdentity::Service, _) if self.withholds_own(server) => {
                "nothing: the credential of this server is for listed hosts, not for domains, and a token for https \
                 and roots"
                    .to_owned()
            }
            (UpstreamIdentity::Service, _) => self.own.to_owned(),
            (UpstreamIdentity::Delegated, _) if self.delegations.is_none() => {
                "the proxy that the client has delegated to the server, if there is one".to_owned()
            }
            (_, Ok(Some(ClientCredential::Token(token)))) => match self.servers.may_see(&token, server) {
                true => "the token of the client, which is for it".to_owned(),
                false => format!("nothing: the token of the client is for {}", token.audiences.join(", ")),
            },
            (_, Ok(Some(ClientCredential::Proxy(identity)))) => {
                let end = format_time(identity.expires_s());
                format!(
                    "the proxy that the client has delegated, {}, until {end}",
                    identity.subject()
                )
            }
            (_, Ok(Some(ClientCredential::Name(name)))) => {
                let named = |what: &str, name: &Option<Arc<str>>| {
                    name.as_ref()
                        .map_or(String::new(), |name| format!(" of the {what} {name}"))
                };
                let (user, vo) = (named("user", &name.user), named("VO", &name.vo));
                format!("a macaroon{user}{vo} for this request alone")
            }
            (_, Ok(None)) if !server.is_encrypted() => "nothing: the connection is in clear text".to_owned(),
            (_, Ok(None)) => "nothing: the client has no token of an issuer, and is anonymous there".to_owned(),
            (_, Err(_)) => "nothing: the client has delegated no proxy".to_owned(),
        }
    }
}

/// Why no proxy is found for a client, and what helps.
fn why_no_proxy(credential: Option<&Credential>, shown_by: ShownBy) -> &'static str {
    match credential {
        Some(Credential::Macaroon(_)) => {
            "it is found by your certificate: the request shows a macaroon, so send it without"
        }
        Some(Credential::Token(_)) => "it is found by your certificate: the request shows a token, so send it without",
        Some(Credential::RefusedCertificate(_)) => "the certificate of the request was refused",
        Some(Credential::Certificate(certificate)) if !certificate.allows_proxies => {
            "the certificate of the request allows no further proxy"
        }
        Some(Credential::Certificate(_)) => match shown_by {
            ShownBy::Gsi => "there is none: delegate by GridSite's protocol at /delegation, or in a login by gsi",
            ShownBy::Tls => {
                "there is none that is signed with SHA-256: delegate by GridSite's protocol at /delegation, or in a \
                 login by gsi of a client that signs so"
            }
        },
        Some(Credential::Anonymous) | None => {
            "the request shows no certificate: use one, and delegate at /delegation, or in a login by gsi"
        }
    }
}

/// The client's token of an issuer, with the servers that it is for.
fn token(client: &UpstreamClient<'_>) -> Option<ClientCredential> {
    let Some(Credential::Token(token)) = client.credential else {
        return None;
    };
    Some(ClientCredential::Token(ClientToken {
        text: token.text.clone()?,
        audiences: token.audiences.clone(),
    }))
}

/// For whom tokens are minted.
fn name(client: &UpstreamClient<'_>) -> ClientCredential {
    let of = |name: &Option<Arc<str>>| name.as_deref().unwrap_or_default().to_owned();
    let key = client.key.as_deref().unwrap_or(ANONYMOUS);
    ClientCredential::Name(ClientName {
        key: format!("{key} {} {}", of(&client.user), of(&client.vo)).into(),
        user: client.user.clone(),
        vo: client.vo.clone(),
        expires_s: client.credential.and_then(Credential::expires_s),
    })
}
