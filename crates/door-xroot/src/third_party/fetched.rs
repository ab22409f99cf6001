//! The file that a copy fetches: where it is, and what its server is shown.
//!
//! That is the first of these that there is: the proxy that the client has delegated, a token for
//! the source, the rendezvous key. With a proxy the file is opened as the user would open it, so
//! the source knows nothing of a copy (TPC Lite).

use endpoint::PeerCredential;
use identity::ShownBy;
use identity::delegation::Delegator;
use net::tls::ClientIdentity;
use policy::rendezvous::Origin;
use remote::{Access, Client, Direction, Resource};
use transfer::route::check_peer;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Secret, Side};
use xroot_wire::{Cgi, CgiBuilder, ThirdParty, unpack_source_cgi};

use crate::copying::CopySource;
use crate::exchange::Exchange;
use crate::failure::{Failure, Result};
use crate::limits::TPC_DELEGATION_LEFT_MIN;

/// The file to fetch.
pub(super) struct Fetched {
    /// As the copy opens it. With a rendezvous key, that is valid for one open.
    pub(super) opened: CopySource,
    /// Without a key.
    pub(super) plain: Resource,
}

impl Fetched {
    /// Reads the parameters about the source, and chooses what it is shown.
    pub(super) async fn new(exchange: &mut Exchange<'_>, path: &LogicalPath, copy: &ThirdParty<'_>) -> Result<Self> {
        let client = exchange.connection.door.settings.site.client.clone();
        let place = Place::new(&client, path, copy)?;
        let proxy = delegated_proxy(exchange, place.shown_by());
        let proxy = proxy.filter(|_| copy.delegates() && place.sees_certificates());
        if let Some(proxy) = proxy {
            let mut plain = place.for_delegation(&client, copy)?.plain()?;
            plain.access.identity = Some(proxy);
            return Ok(Self::without_key(plain, Some(PeerCredential::DelegatedProxy)));
        }
        let plain = place.plain()?;
        // The client registers its key by opening the file at the source.
        let knows_keys = client.abilities(&place.server).opens_passive;
        match (copy.key, &plain.access.bearer) {
            (Some(key), _) if knows_keys => {
                let origins = super::origins(exchange).await?;
                let keyed = |origin: &Origin| place.location(&place.keyed(key, origin));
                let mut file = place.resource(keyed(&origins.first)?);
                file.access.respelled = origins.second.as_ref().map(keyed).transpose()?;
                let shown = Some(PeerCredential::Key);
                Ok(Self {
                    opened: CopySource { file, shown, tag: None },
                    plain,
                })
            }
            (_, Some(_)) => Ok(Self::without_key(plain, Some(PeerCredential::Token))),
            (Some(_), None) => Ok(Self::without_key(plain, None)),
            (None, None) => {
                let missing = Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
                let missing = missing.with_detail("no delegated credentials for tpc");
                Err(missing.with_subject(path).into())
            }
        }
    }

    fn without_key(plain: Resource, shown: Option<PeerCredential>) -> Self {
        let file = plain.clone();
        Self {
            opened: CopySource { file, shown, tag: None },
            plain,
        }
    }

    /// Makes all requests about it part of a trace.
    pub(super) fn trace(&mut self, traceparent: String) {
        self.plain.access.traceparent = Some(traceparent.clone());
        self.opened.file.access.traceparent = Some(traceparent);
    }

    /// Labels the flow: the source gets the same number, and can tell of its side.
    pub(super) fn label(&mut self, tag: Option<u16>) {
        self.opened.tag = tag;
        self.plain.access.scitag = tag;
        self.opened.file.access.scitag = tag;
    }

    /// Whether the client has sent a token for it.
    pub(super) fn has_token(&self) -> bool {
        self.plain.access.bearer.is_some()
    }
}

/// The proxy that the session's client has delegated, if it lasts for a copy and can be shown in
/// this way.
pub(crate) fn delegated_proxy(exchange: &Exchange<'_>, shown_by: ShownBy) -> Option<ClientIdentity> {
    let connection = &exchange.connection;
    let delegations = connection.door.settings.delegations.as_ref()?;
    let owner = Delegator::of(&connection.session.as_ref()?.credential)?;
    delegations.identity(&owner, TPC_DELEGATION_LEFT_MIN, shown_by)
}

pub(super) fn bad_request(why: &str) -> Failure {
    Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open)
        .with_detail(why)
        .into()
}

/// Where the source is.
#[derive(Clone)]
struct Place {
    /// Its server.
    server: Location,
    /// The path there, in the form that URLs of the scheme have.
    path: String,
    cgi: String,
    bearer: Option<Secret>,
}

impl Place {
    fn new(client: &Client, path: &LogicalPath, copy: &ThirdParty<'_>) -> Result<Self> {
        let host = copy.source.filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| bad_request("tpc source not specified"))?;
        let server = server_of(client, host, copy)?;
        let there = copy.source_path.unwrap_or(path.as_str());
        if !there.starts_with('/') || there.contains('?') {
            return Err(bad_request("tpc.lfn is not an absolute path"));
        }
        let cgi = copy.source_cgi.map(unpack_source_cgi).unwrap_or_default();
        Ok(Self {
            path: server.escaped(there),
            server,
            bearer: Cgi::new(&cgi).token(),
            cgi,
        })
    }

    /// The same file where delegated credentials are to be used.
    fn for_delegation(&self, client: &Client, copy: &ThirdParty<'_>) -> Result<Self> {
        let host = copy.delegation_source.filter(|host| !host.is_empty());
        let server = host.map(|host| server_of(client, host, copy)).transpose()?;
        Ok(Self {
            server: server.unwrap_or_else(|| self.server.clone()),
            ..self.clone()
        })
    }

    /// Whether its protocol lets us show a certificate.
    fn sees_certificates(&self) -> bool {
        self.server.is_encrypted() || self.server.is_xrootd()
    }

    /// How its server is shown a certificate.
    fn shown_by(&self) -> ShownBy {
        match self.server.is_xrootd() {
            true => ShownBy::Gsi,
            false => ShownBy::Tls,
        }
    }

    /// The path with the CGI of the client alone.
    fn target(&self) -> CgiBuilder {
        CgiBuilder::for_path(&self.path).raw(&self.cgi)
    }

    fn keyed(&self, key: &str, origin: &Origin) -> String {
        let ours = ThirdParty {
            key: Some(key),
            origin: Some(&origin.to_string()),
            ..ThirdParty::default()
        };
        self.target().third_party(&ours).build()
    }

    fn location(&self, target: &str) -> Result<Location> {
        Ok(Location::parse(&self.server.wire_of(target))?)
    }

    fn plain(&self) -> Result<Resource> {
        Ok(self.resource(self.location(&self.target().build())?))
    }

    fn resource(&self, location: Location) -> Resource {
        Resource {
            location,
            access: Access {
                bearer: self.bearer.clone(),
                ..Access::default()
            },
            side: Side::Source,
        }
    }
}

/// The server with the file to fetch, if this server can fetch from it.
fn server_of(client: &Client, host: &str, copy: &ThirdParty<'_>) -> Result<Location> {
    if host.contains(['/', '?', '#', '@', '\\']) {
        return Err(bad_request("tpc.src or tpc.dlg is not host:port"));
    }
    let scheme = copy.source_protocol.unwrap_or("root");
    if scheme.contains([':', '/']) {
        return Err(bad_request("tpc.spr is not a scheme"));
    }
    let server = Location::parse(&format!("{scheme}://{host}/"))?;
    check_peer(client, Direction::Pull, &server)?;
    Ok(server)
}
