//! The server behind a store, and the identity that we show it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use credentials::Activities;
use net::tls::ClientIdentity;
use remote::{Abilities, Access, Account, Client, Journal, Resource, StoreOffers};
use storage::{ClientCredential, ClientToken, LinkChecker};
use tokio::sync::{Mutex, OnceCell};
use types::{AllowedHosts, Error, ErrorCode, Location, LogicalPath, Phase, Result, Secret, Side};

use crate::fault::{ShownCredential, is_of_hop, of_proxy, redirected_to, translate};
use crate::judge::{Judge, is_judged};
use crate::minter::{LOOK, Minter};
use crate::readable::ReadableFiles;
use crate::stale::StaleChecksums;
use crate::unfinished::of_root;

/// Audiences that mean every server (WLCG Common JWT Profiles; SciTokens 2).
const ANY_AUDIENCES: [&str; 2] = ["https://wlcg.cern.ch/jwt/v1/any", "ANY"];

/// A credential of this server, which can be renewed. Clones share it.
#[derive(Clone, Default)]
pub struct Credential(Arc<RwLock<Shown>>);

/// What a credential is made of.
#[derive(Clone, Default)]
struct Shown {
    token: Option<Secret>,
    identity: Option<ClientIdentity>,
    account: Option<Arc<Account>>,
}

impl Credential {
    /// The keys of an account at an S3 storage.
    #[must_use]
    pub fn of_account(account: Account) -> Self {
        Self::of(Shown {
            account: Some(Arc::new(account)),
            ..Shown::default()
        })
    }

    /// With this token and this certificate; without both the server is anonymous upstream.
    #[must_use]
    pub fn new(token: Option<Secret>, identity: Option<ClientIdentity>) -> Self {
        Self::of(Shown {
            token,
            identity,
            account: None,
        })
    }

    fn of(shown: Shown) -> Self {
        Self(Arc::new(RwLock::new(shown)))
    }

    /// Takes over what another one shows now. Connections that have shown another certificate are
    /// not used again; those of an equal one are.
    pub fn renew(&self, fresh: &Self) {
        let fresh = fresh.shown();
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // An equal identity is kept with its TLS sessions.
        if shown.identity != fresh.identity {
            shown.identity = fresh.identity;
        }
        (shown.token, shown.account) = (fresh.token, fresh.account);
    }

    /// The same without keeping it alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakCredential {
        WeakCredential(Arc::downgrade(&self.0))
    }

    fn shown(&self) -> Shown {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn access(&self) -> Access {
        let Shown {
            token,
            identity,
            account,
        } = self.shown();
        Access {
            bearer: token,
            keeps_bearer: true,
            identity,
            // Few clients come back after the 503 with which an S3 storage slows down all others.
            returns_delays: account.is_none(),
            account,
            is_awaited: true,
            ..Access::default()
        }
    }
}

/// A credential that is in use as long as a store has it.
pub struct WeakCredential(Weak<RwLock<Shown>>);

impl WeakCredential {
    /// The credential, if a store still has it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Credential> {
        self.0.upgrade().map(Credential)
    }
}

/// Who we are at the other server.
#[derive(Clone)]
pub enum Identity {
    /// This server, for all clients.
    Service(Credential),
    /// Each client, by its own token, if the token is for the other server. A client without a
    /// token is anonymous there.
    Client,
    /// Each client, by the proxy that it has delegated to this server. There is no other way.
    Delegated,
    /// Each client, by a token that is minted for each of its requests.
    Minted(Arc<Minter>),
}

impl Identity {
    /// The credential of this server, unless each client has an identity of its own there.
    pub(crate) fn credential(&self) -> Option<&Credential> {
        match self {
            Self::Service(credential) => Some(credential),
            Self::Client | Self::Delegated | Self::Minted(_) => None,
        }
    }
}

/// A directory on another server. Cheap to clone.
#[derive(Clone)]
pub struct Upstream {
    pub(crate) client: Client,
    root: Location,
    pub(crate) identity: Identity,
    /// What is shown of the client, unless the identity is [`Identity::Service`].
    shown: Option<Arc<ClientCredential>>,
    counts: Arc<Counts>,
    /// What a server of objects offers, once it was tried.
    pub(crate) offers: Arc<OnceCell<StoreOffers>>,
    pub(crate) is_read_only: bool,
    /// Whether pages come with checksums, in the XRootD protocol in clear text.
    pub(crate) page_checksums: bool,
    pub(crate) stale: Arc<StaleChecksums>,
    pub(crate) readable: Arc<ReadableFiles>,
    /// The hosts that may be asked, where clients name the host.
    hosts: Option<Arc<AllowedHosts>>,
    /// The rights of the client, where clients name the host.
    rights: Option<Arc<dyn LinkChecker>>,
    /// Notes changes of names that take several requests.
    pub(crate) journal: Option<Arc<Journal>>,
    /// Held while those that were left half done are ended.
    pub(crate) settling: Arc<Mutex<()>>,
}

/// What an upstream server was asked since it was opened.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests of clients that were passed on: names, files opened, downloads and uploads begun.
    pub requests: AtomicU64,
    /// Those that failed because of the server or of the way to it.
    pub failures: AtomicU64,
    /// Payload bytes that came from it.
    pub received_bytes: AtomicU64,
    /// Payload bytes that were sent to it.
    pub sent_bytes: AtomicU64,
}

impl Upstream {
    /// The directory `root`, which is asked for by `client`.
    #[must_use]
    pub fn new(client: Client, root: Location, identity: Identity) -> Self {
        Self {
            client,
            root,
            identity,
            shown: None,
            counts: Arc::default(),
            offers: Arc::default(),
            is_read_only: false,
            page_checksums: true,
            stale: Arc::default(),
            readable: Arc::default(),
            hosts: None,
            rights: None,
            journal: None,
            settling: Arc::default(),
        }
    }

    /// A server that a client named, one of these hosts.
    pub(crate) fn named(client: &Client, root: Location, identity: Identity, hosts: Arc<AllowedHosts>) -> Self {
        Self {
            hosts: Some(hosts),
            ..Self::new(client.clone(), root, identity)
        }
    }

    /// The same for a client with these rights, which hold for what the server redirects to, too.
    pub(crate) fn within_rights(self, rights: Option<Arc<dyn LinkChecker>>) -> Self {
        Self { rights, ..self }
    }

    /// The same, counted there.
    pub(crate) fn counted_in(self, counts: Arc<Counts>) -> Self {
        Self { counts, ..self }
    }

    /// The same with this path in it as the directory.
    pub(crate) fn within(&self, path: &LogicalPath) -> Self {
        let root = self.resource(path).location;
        Self { root, ..self.clone() }
    }

    /// The same, in which nothing is changed: no checksums are kept beside its files either.
    #[must_use]
    pub fn read_only(self, is_read_only: bool) -> Self {
        Self { is_read_only, ..self }
    }

    /// The same, whose pages come with checksums or without, in the XRootD protocol in clear text.
    #[must_use]
    pub fn page_checksums(self, page_checksums: bool) -> Self {
        Self { page_checksums, ..self }
    }

    /// The same, which notes changes of names in files in a directory, and ends those that killed
    /// processes have noted there.
    #[must_use]
    pub fn noting_in(self, directory: &Path) -> Self {
        Self {
            journal: Some(Arc::new(Journal::new(&directory.join(of_root(&self.root)), "renames"))),
            ..self
        }
    }

    /// Whether each client has an identity of its own there.
    pub(crate) fn is_clients(&self) -> bool {
        !matches!(self.identity, Identity::Service(_))
    }

    /// What is shown of the client.
    pub(crate) fn shown(&self) -> Option<&ClientCredential> {
        self.shown.as_deref()
    }

    /// The same for this client.
    ///
    /// # Errors
    /// `token_audience`: the client's token is not for that server. `delegation_missing`: there is
    /// nothing that could be shown.
    pub(crate) fn showing(&self, shown: Option<Arc<ClientCredential>>) -> Result<Self> {
        let refused = |code, words: &str| {
            let words = format!("{words} the upstream server {}", self.root.authority());
            Err(Error::new(code, Side::Client, Phase::Authenticate).with_detail(words))
        };
        // Where clients name the server, they choose the protocol, too.
        let shown = shown.filter(|_| self.hosts.is_none() || self.root.is_encrypted());
        match (&self.identity, shown.as_deref()) {
            (Identity::Service(_), _) => return Ok(self.clone()),
            (Identity::Client, Some(ClientCredential::Token(token))) if !self.is_meant_for(token) => {
                return refused(ErrorCode::TokenAudience, "the token is not for");
            }
            (Identity::Client, None | Some(ClientCredential::Token(_)))
            | (Identity::Delegated, Some(ClientCredential::Proxy(_)))
            | (Identity::Minted(_), Some(ClientCredential::Name(_))) => {}
            // The server itself, for instance, is no client.
            _ => return refused(ErrorCode::DelegationMissing, "no client's credential can be shown to"),
        }
        Ok(Self { shown, ..self.clone() })
    }

    /// Whether a client's token may be shown to the server. If the client named the server, and
    /// only its domain is listed, a token for every server is not shown.
    fn is_meant_for(&self, token: &ClientToken) -> bool {
        match &self.hosts {
            Some(hosts) => is_shown_to(&token.audiences, &self.root, hosts),
            None => is_for(&token.audiences, &self.root),
        }
    }

    /// What this server shows of itself. Where clients name the host, that is only for hosts that
    /// the configuration names, and a token only for encrypted connections.
    fn own_access(&self, credential: &Credential) -> Access {
        let access = credential.access();
        let Some(hosts) = &self.hosts else { return access };
        let is_named = hosts.names(&self.root);
        Access {
            hosts: Some(hosts.clone()),
            bearer: access.bearer.filter(|_| is_named && self.root.is_encrypted()),
            identity: access.identity.filter(|_| is_named),
            ..access
        }
    }

    /// What is shown for a request that needs these rights in a directory or at a file of the
    /// server.
    fn access(&self, place: Option<&LogicalPath>, needed: Activities) -> Access {
        Access {
            redirects: Judge::of(self.rights.as_ref(), needed),
            ..self.shown_access(place, needed)
        }
    }

    fn shown_access(&self, place: Option<&LogicalPath>, needed: Activities) -> Access {
        let own = Access {
            keeps_bearer: true,
            stays_at_origin: true,
            returns_delays: true,
            is_awaited: true,
            hosts: self.hosts.clone(),
            ..Access::default()
        };
        match (&self.identity, self.shown.as_deref()) {
            (Identity::Service(credential), _) => self.own_access(credential),
            (Identity::Client, Some(ClientCredential::Token(token))) => Access {
                bearer: Some(token.text.clone()),
                ..own
            },
            (Identity::Delegated, Some(ClientCredential::Proxy(identity))) => Access {
                identity: Some(identity.clone()),
                ..own
            },
            (Identity::Minted(minter), Some(ClientCredential::Name(name))) => Access {
                bearer: place.and_then(|place| minter.mint(name, needed, place)),
                connections_of: Some(name.key.clone()),
                ..own
            },
            _ => own,
        }
    }

    /// The credential of this server, unless each client has an identity of its own there.
    #[must_use]
    pub fn credential(&self) -> Option<&Credential> {
        self.identity.credential()
    }

    /// How it is asked.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What it was asked so far.
    #[must_use]
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Location {
        &self.root
    }

    /// What its protocol can do.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        self.client.abilities(&self.root)
    }

    /// A file or directory in it, with our credential, to look at.
    #[must_use]
    pub fn resource(&self, path: &LogicalPath) -> Resource {
        self.resource_for(path, LOOK)
    }

    /// The same for a request that needs these rights.
    pub(crate) fn resource_for(&self, path: &LogicalPath, needed: Activities) -> Resource {
        self.resource_within(path, path, needed)
    }

    /// The same with these rights in a directory above it, for a request that is about another name
    /// in the directory, too.
    pub(crate) fn resource_within(&self, path: &LogicalPath, scope: &LogicalPath, needed: Activities) -> Resource {
        let base = self.root.path().trim_end_matches('/');
        let path = match path.is_root() {
            true => self.root.path().to_owned(),
            false => format!("{base}{}", self.root.escaped(path.as_str())),
        };
        Resource {
            location: self.root.with_path(&path),
            access: self.access(self.there(scope).as_ref(), needed),
            side: Side::Upstream,
        }
    }

    /// A path as the other server names it.
    fn there(&self, path: &LogicalPath) -> Option<LogicalPath> {
        let base = match self.root.is_http() {
            true => LogicalPath::parse_url_path(self.root.path()),
            false => LogicalPath::parse(self.root.path()),
        };
        path.components()
            .try_fold(base.ok()?, |base, name| base.join(name).ok())
    }

    /// What the server was shown that answers with this error.
    fn was_shown(&self, error: &Error) -> ShownCredential {
        if self.hosts.is_some() && redirected_to(error, &self.root).is_some() {
            return ShownCredential::Nothing;
        }
        match &self.identity {
            Identity::Client | Identity::Delegated => ShownCredential::Clients,
            // A minted token that is not accepted is no fault of the client.
            Identity::Minted(_) => ShownCredential::Own,
            Identity::Service(credential) => match self.own_access(credential).is_anonymous() {
                true => ShownCredential::Nothing,
                false => ShownCredential::Own,
            },
        }
    }

    /// The error as a store has it, about the name that clients know.
    pub(crate) fn blame(&self, error: &Error, path: &LogicalPath) -> Error {
        if is_judged(error) {
            return error.clone().at_side(Side::Client).with_subject(path);
        }
        let shown = self.was_shown(error);
        let error = match &self.hosts {
            Some(_) => translate(&of_proxy(error), &self.root, shown),
            None => translate(error, &self.root, shown),
        };
        if is_of_hop(error.code()) {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
        }
        error.with_subject(path)
    }
}

/// Whether a token is for a server: it names the server, as a host or by a URL, or every server.
#[must_use]
pub fn is_for(audiences: &[String], server: &Location) -> bool {
    is_for_any(audiences) || names_server(audiences, server)
}

/// Whether a token is shown to a server of these hosts that a client named: it names the server, or
/// it is for every server and the list names the host.
#[must_use]
pub fn is_shown_to(audiences: &[String], server: &Location, hosts: &AllowedHosts) -> bool {
    names_server(audiences, server) || (is_for_any(audiences) && hosts.names(server))
}

fn is_for_any(audiences: &[String]) -> bool {
    audiences
        .iter()
        .any(|audience| ANY_AUDIENCES.contains(&audience.as_str()))
}

fn names_server(audiences: &[String], server: &Location) -> bool {
    let (host, port) = (server.host(), server.port());
    let names = [host.to_owned(), format!("{host}:{port}"), server.authority()];
    audiences.iter().any(|audience| {
        let schemes = ["https://", "roots://", "root://"];
        let name = schemes.iter().find_map(|scheme| audience.strip_prefix(scheme));
        let name = name.unwrap_or(audience).trim_end_matches('/');
        names.iter().any(|own| own.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use net::address::AddressPolicy;
    use net::tls::{ClientTls, Trust};
    use remote::ClientOptions;
    use std::time::Duration;

    use super::*;

    fn upstream(root: &str, credential: Credential) -> Upstream {
        let wait = Duration::from_secs(1);
        let client = Client::new(ClientOptions {
            tls: ClientTls::load(&Trust::default()).unwrap().0,
            addresses: AddressPolicy::ANY,
            connect: wait,
            first_byte: wait,
            stall: wait,
            user_agent: "test".to_owned(),
        });
        Upstream::new(client, Location::parse(root).unwrap(), Identity::Service(credential))
    }

    fn place(root: &str, path: &str) -> String {
        let upstream = upstream(root, Credential::default());
        upstream.resource(&LogicalPath::parse(path).unwrap()).location.to_wire()
    }

    #[test]
    fn names_are_written_as_the_protocol_of_the_server_wants_them() {
        assert_eq!(place("https://a/data/", "/x/a b%"), "https://a/data/x/a%20b%25");
        assert_eq!(place("https://a", "/x"), "https://a/x");
        assert_eq!(place("https://a/data/", "/"), "https://a/data/");
        assert_eq!(place("root://a//data", "/x/a b%"), "root://a//data/x/a b%");
    }

    #[test]
    fn a_renewed_credential_is_shown_with_the_next_request() {
        let account = |secret: &str| Account {
            key_id: "id".to_owned(),
            secret: Secret::new(secret),
            token: None,
            region: None,
            addressing: None,
        };
        let upstream = upstream("s3://a/bucket", Credential::of_account(account("old")));
        let shown = || upstream.resource(&LogicalPath::root()).access;
        let followed = upstream.credential().unwrap().downgrade();
        assert_eq!(shown().account.unwrap().secret.expose(), "old");
        let credential = followed.upgrade().unwrap();
        credential.renew(&Credential::of_account(account("new")));
        assert_eq!(shown().account.unwrap().secret.expose(), "new");
        drop((upstream, credential));
        assert!(followed.upgrade().is_none());
    }

    #[test]
    fn a_host_that_clients_name_sees_only_what_is_meant_for_it() {
        let hosts = Arc::new(AllowedHosts::parse(&["named.example.org", "*.example.org"]).unwrap());
        let client = upstream("https://a", Credential::default()).client;
        let at = |url: &str, identity: Identity| {
            let root = Location::parse(url).unwrap();
            Upstream::named(&client, root, identity, hosts.clone())
        };
        let own = Credential::new(Some(Secret::new("own")), None);
        let shown = |upstream: &Upstream| upstream.resource(&LogicalPath::root()).access.bearer.is_some();
        for (url, is_shown) in [
            ("https://named.example.org", true),
            ("roots://named.example.org", true),
            ("root://named.example.org", false),
            ("http://named.example.org", false),
            ("https://other.example.org", false),
        ] {
            assert_eq!(shown(&at(url, Identity::Service(own.clone()))), is_shown, "{url}");
        }
        let clients = |url: &str, audience: &str| {
            let token = ClientCredential::Token(ClientToken {
                text: Secret::new("theirs"),
                audiences: vec![audience.to_owned()],
            });
            let upstream = at(url, Identity::Client).showing(Some(Arc::new(token)));
            upstream.map(|upstream| shown(&upstream)).map_err(|error| error.code())
        };
        let refused = Err(ErrorCode::TokenAudience);
        assert_eq!(clients("https://named.example.org", "ANY"), Ok(true));
        assert_eq!(clients("https://other.example.org", "ANY"), refused);
        assert_eq!(clients("https://other.example.org", "other.example.org"), Ok(true));
        assert_eq!(clients("https://named.example.org", "other.example.org"), refused);
        assert_eq!(clients("root://named.example.org", "ANY"), Ok(false));
    }

    #[test]
    fn a_token_is_for_a_server_that_it_names_or_for_every_server() {
        let server = Location::parse("https://disk.example.org:8443/data").unwrap();
        let is_for = |audience: &str| is_for(&[audience.to_owned()], &server);
        for good in [
            "https://disk.example.org:8443",
            "https://DISK.example.org:8443/",
            "disk.example.org",
            "roots://disk.example.org:8443",
            "https://wlcg.cern.ch/jwt/v1/any",
            "ANY",
        ] {
            assert!(is_for(good), "{good}");
        }
        for other in [
            "https://disk.example.org:8444",
            "https://disk.example.org.evil:8443",
            "http://disk.example.org:8443/x",
            "https://se.example.org",
            "any",
            "",
        ] {
            assert!(!is_for(other), "{other}");
        }
        assert!(!super::is_for(&[], &server));
    }
}
