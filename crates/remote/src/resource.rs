//! A file on a server, our credentials for it, and what the server says of it.

use std::sync::Arc;

use http_wire::ForwardedHeaders;
use net::address::AddressPolicy;
use net::dial::check;
use net::tls::ClientIdentity;
use s3_wire::Account;
use types::{AllowedHosts, Checksum, Error, ErrorCode, Location, PeerStatus, Phase, Result, Secret, Side};
use xroot_wire::ErrorNumber;

use crate::activity::ActivityNote;
use crate::client::ClientOptions;
use crate::options::Delegation;
use crate::packet_mark::PacketMark;
use crate::steps::Steps;
use crate::trace::Trace;

/// The words of our servers for a peer that they may not connect to, in lower case.
pub(crate) const ADDRESS_REFUSED_WORDS: &str = "address is not allowed for transfers";
/// What an error says of a server that answers the XRootD protocol in HTTP.
pub const ANSWERS_IN_HTTP: &str = "it answers in HTTP";
/// The detail of an error about a path that the server serves to no client.
pub const PATH_NOT_EXPORTED: &str = "the server does not export this path";

/// Why a change fails where clients name the host.
const CHANGE_REDIRECTED: &str = "changes follow no redirect to another server; name that one in the path";

/// Whether a server says in its own words that a credential ended which we had delegated to it. The
/// status beside them is that with which the other side refused it.
pub(crate) fn says_delegation_expired(words: &str) -> bool {
    words.contains(ErrorCode::DelegationExpired.meaning())
}

/// Whether XRootD refuses the path to every client, whatever the credential: "Stating path '/x' is
/// disallowed." (`vpEmsg` in XrdXrootdXeq.cc; over HTTP the quotes are escaped).
pub(crate) fn says_not_exported(words: &str) -> bool {
    let words = words.trim_end().trim_end_matches('.');
    words.ends_with("is disallowed") && words.contains("path ")
}

/// Judges where a redirect leads, where clients name the host.
pub trait JudgeRedirect: std::fmt::Debug + Send + Sync {
    /// Whether the client could have named this place.
    ///
    /// # Errors
    /// The refusal.
    fn check(&self, to: &Location) -> Result<()>;
}

/// Credentials and other headers for requests to one server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The token for this server.
    pub bearer: Option<Secret>,
    /// The token allows more than this file, and is not of the user whose file it is: no other
    /// server gets it. In a third-party copy the active server gets a macaroon for the file, or
    /// nothing.
    pub keeps_bearer: bool,
    /// Whose connections these are, where each client has its own: tokens of one client may share a
    /// connection, and no other client uses it.
    pub connections_of: Option<Arc<str>>,
    /// No credential follows a redirect to another server, over any protocol.
    pub stays_at_origin: bool,
    /// The host and port whose redirect led here, the first one of several; set by redirects.
    pub led_from: Option<(String, u16)>,
    /// The certificate that we show when the server asks for one. Unlike a token it follows
    /// redirects: a server that sees it cannot use it, and data servers are expected to ask for it
    /// again. It does not where clients name the host ([`Access::hosts`]).
    pub identity: Option<ClientIdentity>,
    /// Whether the server gets a proxy of this identity: for the active server of a copy, and no
    /// other request.
    pub delegation: Delegation,
    /// Our user name where no proof is required (the login of the XRootD protocol and its `unix`
    /// authentication).
    pub user_name: Option<String>,
    /// Headers that a client gave for this server (WLCG HTTP-TPC).
    pub forwarded: ForwardedHeaders,
    /// The client's description of its job, as `key=value;…`.
    pub client_info: Option<String>,
    /// How far symbolic links may lead: a path, or another word for no link at all. Our servers
    /// honour it.
    pub link_limit: Option<String>,
    /// The trace of the request (W3C Trace Context). In the XRootD protocol only our servers read
    /// it.
    pub traceparent: Option<String>,
    /// The flow's tag (SciTags), which goes to the server.
    pub scitag: Option<u16>,
    /// The mark of packets over IPv6.
    pub packets: Option<PacketMark>,
    /// The same location with the client of a third-party copy in another spelling (`tpc.org`).
    /// Some servers compare it as text, and each spells an address as its own socket does. Both are
    /// tried if the first is not accepted at once.
    pub respelled: Option<Location>,
    /// When the server puts a request off (429 and 503 with Retry-After), the caller gets this
    /// answer at once, and waits itself.
    pub returns_delays: bool,
    /// A client waits for the answer: a server of the XRootD protocol may put a request off only
    /// for as long as its answer may take to begin, instead of half an hour.
    pub is_awaited: bool,
    /// Redirects to another host, and to these ports of the same one unless it is the server's own,
    /// are refused: the server is trusted with its own files only, and must not make us act on
    /// others with our address and identity.
    pub stays_at_host: Option<Arc<[u16]>>,
    /// The hosts that may be asked, also by a redirect, where clients name the host. A client's
    /// rights are for the host that it names: a redirect to another one takes no credential along,
    /// and a change does not follow it.
    pub hosts: Option<Arc<AllowedHosts>>,
    /// Judges each place to which a redirect leads, besides the list.
    pub redirects: Option<Arc<dyn JudgeRedirect>>,
    /// The name of a file that is ours by its name. A change follows a redirect to another server
    /// only if the last component of the path there contains this name: data servers keep it, and
    /// no other file has it.
    pub own_name: Option<Arc<str>>,
    /// Our account at an S3 storage, for URLs of that protocol and no other request.
    pub account: Option<Arc<Account>>,
    /// The object for which the URL was signed, if it was: errors and facts are about this one. The
    /// URL is good for one server, so no redirect is followed.
    pub signed_for: Option<Arc<Location>>,
    /// Hears the requests and their answers.
    pub trace: Trace,
    /// Notes what is being done with the resource.
    pub activity: ActivityNote,
    /// Notes the steps of the connections that it needs.
    pub steps: Steps,
}

impl Access {
    /// Whether nothing says who we are.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.bearer.is_none() && self.identity.is_none() && self.account.is_none()
    }

    /// The token, for an order to another server.
    pub(crate) fn bearer_to_show(&self) -> Option<&Secret> {
        self.bearer.as_ref().filter(|_| !self.keeps_bearer)
    }

    /// Whose connections these are: those of one client, or of one token.
    pub(crate) fn connection_owner(&self) -> Option<Secret> {
        let owner = self.connections_of.as_deref().map(Secret::new);
        owner.or_else(|| self.bearer.clone())
    }

    /// Whether the server gets a proxy when it asks for one.
    pub(crate) fn delegates(&self) -> bool {
        self.delegation.is_wanted() && self.identity.is_some()
    }

    /// Whether a redirect may be followed.
    fn may_follow(&self, from: &Location, to: &Location) -> bool {
        let Some(closed) = &self.stays_at_host else { return true };
        let is_open = from.port() == to.port() || !closed.contains(&to.port());
        is_open && from.host().eq_ignore_ascii_case(to.host())
    }

    /// Whether a change may follow a redirect: within its server, or to a file with our name.
    fn may_change(&self, from: &Location, to: &Location) -> bool {
        let is_ours = |name: &Arc<str>| to.file_name().contains(&**name);
        from.same_origin(to) || self.own_name.as_ref().is_none_or(is_ours)
    }

    /// Whether a redirect over the XRootD protocol takes our credentials along.
    pub(crate) fn takes_along(&self) -> bool {
        !self.stays_at_origin && self.hosts.is_none()
    }

    /// What may be sent after a redirect. Credentials stay with their origin (scheme, host and
    /// port): a server that redirects to another one puts what is needed there into the URL.
    #[must_use]
    pub(crate) fn redirected(self, from: &Location, to: &Location) -> Self {
        if from.same_origin(to) {
            return self;
        }
        let keeps_identity = self.takes_along();
        let this = self.led(from, to);
        Self {
            bearer: None,
            // Sessions of this owner may be logged in with its token.
            connections_of: None,
            // A header of any name may hold a key.
            forwarded: ForwardedHeaders::default(),
            respelled: None,
            identity: this.identity.filter(|_| keeps_identity),
            ..this
        }
    }

    /// The same after a redirect that may bring everything along.
    #[must_use]
    pub(crate) fn led(self, from: &Location, to: &Location) -> Self {
        let is_other = !from.same_origin(to);
        let place = || is_other.then(|| (from.host().to_owned(), from.port()));
        let led_from = self.led_from.or_else(place);
        Self { led_from, ..self }
    }
}

impl Resource {
    /// The addresses that this may be at. The configuration names an upstream server wherever it
    /// is, but its redirects lead to this machine only if it is on it: an outside server could
    /// otherwise show its clients what only this machine can reach.
    ///
    /// Where clients name the host, private networks are allowed if the configuration names it,
    /// too, and this machine if it names the address.
    pub(crate) async fn addresses(&self, options: &ClientOptions) -> AddressPolicy {
        if let Some(hosts) = &self.access.hosts {
            return AddressPolicy {
                local: hosts.names_address(&self.location),
                private: hosts.names(&self.location),
            };
        }
        let Some((host, port)) = self.access.led_from.as_ref().filter(|_| self.side == Side::Upstream) else {
            return options.addresses;
        };
        let elsewhere = AddressPolicy {
            local: false,
            ..options.addresses
        };
        match check(host, *port, elsewhere, options.connect, self.side).await {
            Ok(()) => elsewhere,
            Err(_) => options.addresses,
        }
    }
}

/// A file on a server, our credentials for it, and its side of the transfer (for errors).
#[derive(Clone, Debug)]
pub struct Resource {
    /// Where it is.
    pub location: Location,
    /// Our credentials there.
    pub access: Access,
    /// Which side of the transfer it is.
    pub side: Side,
}

impl Resource {
    /// An error that blames this side.
    pub(crate) fn error(&self, code: ErrorCode, phase: Phase) -> Error {
        Error::new(code, self.side, phase).with_subject(self.named())
    }

    /// Refuses a redirect that must not be followed by a request that `changes` something, or by
    /// one that only reads.
    ///
    /// # Errors
    /// `peer_misbehaved`; where clients name the host also `host_not_allowed`, and the refusal of
    /// [`JudgeRedirect`].
    pub(crate) fn check_redirect(&self, to: &Location, changes: bool) -> Result<()> {
        if !self.access.may_follow(&self.location, to) {
            let error = self.error(ErrorCode::PeerMisbehaved, Phase::Open);
            return Err(error.with_detail(format!("the redirect leads to another host, {}", to.host())));
        }
        if changes && !self.access.may_change(&self.location, to) {
            let error = self.error(ErrorCode::PeerMisbehaved, Phase::Open);
            return Err(error.with_detail(format!("the redirect leads to a file that is not ours, {to}")));
        }
        let Some(hosts) = &self.access.hosts else { return Ok(()) };
        hosts
            .check(to)
            .map_err(|error| error.at_side(self.side).with_subject(to))?;
        if changes && !self.location.same_origin(to) {
            let error = Error::new(ErrorCode::HostNotAllowed, self.side, Phase::Open).with_subject(to);
            return Err(error.with_detail(CHANGE_REDIRECTED));
        }
        match &self.access.redirects {
            Some(judge) => judge.check(to).map_err(|error| error.with_subject(to)),
            None => Ok(()),
        }
    }

    /// The location as the caller knows it.
    pub(crate) fn named(&self) -> &Location {
        self.access.signed_for.as_deref().unwrap_or(&self.location)
    }

    /// The same file, whose server gets a proxy when it asks for one, or none.
    pub(crate) fn delegating(&self, delegation: Delegation) -> Self {
        let access = Access {
            delegation,
            ..self.access.clone()
        };
        Self { access, ..self.clone() }
    }

    /// The same error, of this side and about this file.
    pub(crate) fn blame(&self, error: Error) -> Error {
        error.at_side(self.side).with_subject(self.named())
    }
}

/// What identifies a version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validator {
    /// A strong entity tag with its quotes (RFC 9110 §8.8.3).
    Tag(String),
    /// The time of the last change, as the server wrote it (RFC 9110 §8.8.2).
    Modified(String),
    /// That time, and a weak entity tag. The tag may stay when the content changes, but another tag
    /// shows another version.
    Weak {
        /// The tag, which begins with `W/`.
        tag: String,
        /// The time of the last change.
        modified: String,
    },
}

impl Validator {
    /// The text of `If-Range` (RFC 9110 §13.1.5).
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Tag(text) | Self::Modified(text) | Self::Weak { modified: text, .. } => text,
        }
    }

    /// Whether the facts are of another version of the file. A missing validator is no
    /// contradiction.
    pub(crate) fn contradicts(&self, facts: &Facts) -> bool {
        let is_other_tag = |tag: &String| facts.etag.as_ref().is_some_and(|now| now != tag);
        let is_other_time = |date: &String| facts.last_modified.as_ref().is_some_and(|now| now != date);
        match self {
            Self::Tag(tag) => is_other_tag(tag),
            Self::Modified(date) => is_other_time(date),
            Self::Weak { tag, modified } => is_other_tag(tag) || is_other_time(modified),
        }
    }

    /// Whether the facts are of this version of the file.
    pub(crate) fn confirmed_by(&self, facts: &Facts) -> bool {
        facts.validator().as_ref() == Some(self)
    }
}

/// What a server says of a file.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where the file is after all redirects.
    pub location: Location,
    /// Size of the whole file, in bytes.
    pub size_bytes: Option<u64>,
    /// The entity tag with its quotes; a weak one begins with `W/`.
    pub etag: Option<String>,
    /// The time of the last change, as the server wrote it.
    pub last_modified: Option<String>,
    /// How long ago that was when the server answered, in seconds by its own clock; HTTP only. Both
    /// times are whole seconds, so it is off by less than one.
    pub age_s: Option<i64>,
    /// How long ago a cache that has the file asked its origin, in seconds; HTTP only. `None`
    /// without such a cache.
    pub cached_s: Option<u64>,
    /// Checksums of the whole file, each algorithm at most once.
    pub checksums: Vec<Checksum>,
    /// Why a server of the XRootD protocol gave none of the wanted checksums, when it said so. That
    /// it computes none is the common reason.
    pub checksum_refusal: Option<Error>,
    /// Whether ranges are served; `None` when the server does not say.
    pub accepts_ranges: Option<bool>,
    /// Which file it is, where the protocol names files by more than their path.
    pub identity: Option<FileIdentity>,
    /// The server compares a checksum behind the content of an upload, in a trailer, before it
    /// replaces a file. Ours do.
    pub compares_trailers: bool,
}

/// Which file has a name at a server. The identifier stays while the file is written to, and while
/// another client replaces its content in place; of a removed file it can be given to a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// The server that says so. Another server of a cluster has other identifiers.
    pub server: Location,
    /// The identifier, such as device and inode.
    pub id: u64,
    /// When it was last written to, in seconds since 1970, by the server's clock.
    pub modified_s: i64,
    /// It is being stored and was not closed: the server removes it when its session ends, or some
    /// time later.
    pub is_unclosed: bool,
}

impl FileIdentity {
    /// Whether it is the same file; `None` if the two servers cannot be compared.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> Option<bool> {
        self.server.same_origin(&other.server).then_some(self.id == other.id)
    }
}

impl Facts {
    /// The strong entity tag, else the time of the last change, with the weak tag if there is one.
    #[must_use]
    pub fn validator(&self) -> Option<Validator> {
        match (&self.etag, &self.last_modified) {
            (Some(tag), _) if tag.starts_with('"') => Some(Validator::Tag(tag.clone())),
            (Some(tag), Some(date)) => Some(Validator::Weak {
                tag: tag.clone(),
                modified: date.clone(),
            }),
            (None, Some(date)) => Some(Validator::Modified(date.clone())),
            (_, None) => None,
        }
    }
}

/// Whether a server refuses because the file is open elsewhere or locked, so that the same request
/// may succeed later.
#[must_use]
pub fn is_in_use(error: &Error) -> bool {
    let (locked, in_progress) = (ErrorNumber::FILE_LOCKED.0, ErrorNumber::IN_PROGRESS.0);
    match error.peer_status() {
        Some(PeerStatus::Xrootd(number)) => number == locked || number == in_progress,
        Some(PeerStatus::Http(status)) => status == 423,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use net::tls::{ClientTls, Trust};

    use super::*;

    fn place(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn options() -> ClientOptions {
        let wait = Duration::from_secs(20);
        ClientOptions {
            tls: ClientTls::load(&Trust::default()).unwrap().0,
            addresses: AddressPolicy::ANY,
            connect: wait,
            first_byte: wait,
            stall: wait,
            user_agent: String::new(),
        }
    }

    fn access() -> Access {
        let mut forwarded = ForwardedHeaders::default();
        forwarded.push("Authorization", "Bearer theirs").unwrap();
        forwarded.push("X-Other", "stays").unwrap();
        Access {
            bearer: Some(Secret::new("ours")),
            forwarded,
            ..Access::default()
        }
    }

    #[tokio::test]
    async fn an_upstream_server_elsewhere_does_not_lead_to_this_machine() {
        let options = options();
        let at = |side| Resource {
            location: Location::parse("http://203.0.113.9/f").unwrap(),
            access: Access::default(),
            side,
        };
        let led = |side, from: &str| {
            let from = Location::parse(from).unwrap();
            let file = at(side);
            let access = file.access.clone().redirected(&from, &file.location);
            Resource { access, ..file }
        };
        let may_be_here = async |file: Resource| file.addresses(&options).await.local;
        assert!(may_be_here(at(Side::Upstream)).await, "named by the configuration");
        assert!(!may_be_here(led(Side::Upstream, "http://203.0.113.8/f")).await);
        assert!(may_be_here(led(Side::Upstream, "http://127.0.0.1/f")).await);
        assert!(
            may_be_here(led(Side::Source, "http://203.0.113.8/f")).await,
            "a person's client"
        );
    }

    #[test]
    fn a_changed_weak_tag_shows_another_version() {
        let facts = |tag: &str, date: &str| Facts {
            location: place("https://a/f"),
            size_bytes: Some(1),
            etag: Some(tag.to_owned()),
            last_modified: Some(date.to_owned()),
            age_s: None,
            cached_s: None,
            checksums: Vec::new(),
            checksum_refusal: None,
            accepts_ranges: None,
            identity: None,
            compares_trailers: false,
        };
        let first = facts("W/\"1\"", "Sun, 06 Nov 1994 08:49:37 GMT");
        let validator = first.validator().unwrap();
        assert_eq!(validator.text(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(!validator.contradicts(&first));
        for other in [
            facts("W/\"2\"", "Sun, 06 Nov 1994 08:49:37 GMT"),
            facts("W/\"1\"", "Sun, 06 Nov 1994 08:49:38 GMT"),
        ] {
            assert!(validator.contradicts(&other), "{other:?}");
        }
    }

    #[test]
    fn a_server_may_be_kept_to_its_host() {
        let home = place("https://a:8443/f");
        let kept = Access {
            stays_at_host: Some([1094, 8444].into()),
            ..access()
        };
        for near in ["https://A/f", "http://a:8080/g"] {
            assert!(kept.may_follow(&home, &place(near)), "{near}");
        }
        for other in ["https://b:8443/f", "https://a:8444/f", "http://a:1094/f"] {
            assert!(!kept.may_follow(&home, &place(other)), "{other}");
        }
        assert!(access().may_follow(&home, &place("https://b:8443/f")));
    }

    #[test]
    fn a_change_of_our_file_follows_a_redirect_to_our_file_only() {
        let file = |own_name: Option<&str>| Resource {
            location: place("https://a/d/mark-1"),
            access: Access {
                own_name: own_name.map(Arc::from),
                ..access()
            },
            side: Side::Destination,
        };
        let ours = file(Some("mark-1"));
        for node in [
            "https://b/d/mark-1?cap=x",
            "http://c:8001/pool/mark-1.7.0",
            "https://a/other",
        ] {
            assert!(ours.check_redirect(&place(node), true).is_ok(), "{node}");
        }
        let precious = place("https://b/d/precious");
        let refused = ours.check_redirect(&precious, true).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::PeerMisbehaved);
        assert!(
            refused
                .detail()
                .is_some_and(|words| words.contains("https://b/d/precious"))
        );
        assert!(ours.check_redirect(&precious, false).is_ok(), "reading");
        assert!(file(None).check_redirect(&precious, true).is_ok(), "a person's command");
        // A directory with our name is not our file.
        assert!(ours.check_redirect(&place("https://b/mark-1/precious"), true).is_err());
    }

    #[tokio::test]
    async fn where_clients_name_the_host_the_list_decides() {
        let hosts = AllowedHosts::parse(&["a.example.org", "*.example.org", "127.0.0.1:1095"]).unwrap();
        let at = |url: &str| Resource {
            location: place(url),
            access: Access {
                hosts: Some(Arc::new(hosts.clone())),
                ..access()
            },
            side: Side::Upstream,
        };
        let named = at("root://a.example.org//f");
        for near in [
            "root://b.example.org//f",
            "http://a.example.org/f",
            "root://127.0.0.1:1095//f",
        ] {
            assert!(named.check_redirect(&place(near), false).is_ok(), "{near}");
            let refused = named.check_redirect(&place(near), true).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::HostNotAllowed, "{near}");
        }
        for (other, code) in [
            ("root://b.example.com//f", ErrorCode::HostNotAllowed),
            ("root://a.example.org:1095//f", ErrorCode::HostNotAllowed),
            ("root://127.0.0.1//f", ErrorCode::HostNotAllowed),
            ("root://b.example.org//root://c//f", ErrorCode::PathRefused),
        ] {
            let refused = named.check_redirect(&place(other), false).unwrap_err();
            assert_eq!((refused.code(), refused.side()), (code, Side::Upstream), "{other}");
        }
        // A server changes its own files, and no credential goes to another one.
        assert!(named.check_redirect(&place("root://A.example.org//g"), true).is_ok());
        assert!(!named.access.takes_along());
        let options = options();
        for (url, local, private) in [
            ("root://127.0.0.1:1095//f", true, true),
            ("root://a.example.org//f", false, true),
            ("root://b.example.org//f", false, false),
        ] {
            let policy = at(url).addresses(&options).await;
            assert_eq!(policy, AddressPolicy { local, private }, "{url}");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let home = place("https://a:8443/f");
        let same = access().redirected(&home, &place("https://A:8443/other"));
        assert!(same.bearer.is_some() && same.forwarded.has_authorization());
        for elsewhere in ["https://a:8444/f", "http://a:8443/f", "https://b:8443/f"] {
            let moved = access().redirected(&home, &place(elsewhere));
            assert!(
                moved.bearer.is_none() && !moved.forwarded.has_authorization(),
                "{elsewhere}"
            );
            assert_eq!(moved.forwarded.iter().count(), 0, "an API key may have any name");
        }
    }

    #[test]
    fn the_strong_tag_is_preferred_to_the_date() {
        let mut facts = Facts {
            location: place("http://a/f"),
            size_bytes: None,
            etag: Some("\"x\"".into()),
            last_modified: Some("Mon".into()),
            age_s: None,
            checksums: Vec::new(),
            cached_s: None,
            checksum_refusal: None,
            accepts_ranges: None,
            identity: None,
            compares_trailers: false,
        };
        assert_eq!(facts.validator(), Some(Validator::Tag("\"x\"".into())));
        facts.etag = None;
        assert_eq!(facts.validator(), Some(Validator::Modified("Mon".into())));
        facts.etag = Some("W/\"x\"".into());
        let weak = Validator::Weak {
            tag: "W/\"x\"".into(),
            modified: "Mon".into(),
        };
        assert_eq!(facts.validator(), Some(weak));
        assert!(Validator::Modified("Tue".into()).contradicts(&facts));
        facts.last_modified = None;
        assert_eq!(facts.validator(), None);
        assert!(!Validator::Modified("Tue".into()).contradicts(&facts));
    }
}
