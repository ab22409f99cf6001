//! One client for servers of every protocol: the scheme of a file's URL chooses who is asked.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credentials::Activities;
use net::address::AddressPolicy;
use net::tls::ClientTls;
use types::{ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Secret, Side};

use crate::activity::Activity;
use crate::attributes::{Attribute, AttributeCall};
use crate::options::{
    CopiedWithin, CopyAbilities, CopyOrder, Direction, GetOptions, LoginOffer, Offers, PutOptions, WithinOptions,
};
use crate::protocol::{Abilities, Protocol};
use crate::resource::{Access, Facts, Resource, Validator};
use crate::unfinished::UnfinishedUploads;
use crate::{Copying, Download, Entry, Listing, Opened, Outlet, Parts, Ranges, Space, http, root, s3};

/// How servers are reached.
#[derive(Clone)]
pub struct ClientOptions {
    /// Which certificates are trusted.
    pub tls: ClientTls,
    /// Which addresses may be connected to; checked after each redirect too.
    pub addresses: AddressPolicy,
    /// Time to connect, and again for the TLS handshake.
    pub connect: Duration,
    /// Time from the end of a request to the head of its answer.
    pub first_byte: Duration,
    /// Longest time without a byte while a body is on its way.
    pub stall: Duration,
    /// Our name and version, as servers see it.
    pub user_agent: String,
}

/// A client for any number of servers. Cheap to clone; clones share their idle connections.
#[derive(Clone)]
pub struct Client {
    options: Arc<ClientOptions>,
    protocols: Arc<[Arc<dyn Protocol>]>,
}

/// The protocols of every client. The first that speaks to a location is asked.
fn protocols(options: &Arc<ClientOptions>) -> [Arc<dyn Protocol>; 2] {
    [
        Arc::new(http::Client::new(Arc::clone(options))),
        Arc::new(root::Client::new(Arc::clone(options))),
    ]
}

/// The only address at which a host is reached.
#[derive(Clone, Debug)]
pub struct PinnedHost {
    host: String,
    address: String,
}

impl PinnedHost {
    /// Reaches `host` at `address`.
    #[must_use]
    pub fn new(host: &str, address: IpAddr) -> Self {
        Self {
            host: host.to_owned(),
            address: address.to_string(),
        }
    }

    /// The name or address to dial for a host.
    pub(crate) fn dialled<'a>(pin: Option<&'a Self>, host: &'a str) -> &'a str {
        pin.filter(|pin| pin.host.eq_ignore_ascii_case(host))
            .map_or(host, |pin| &pin.address)
    }
}

impl Client {
    /// The proxy that a service asks for by `request` (PEM), with the chain of the identity of
    /// `service`, as PEM. The private key stays here.
    ///
    /// # Errors
    /// `certificate_unusable` without an identity or without verified TLS; a request that is none.
    pub fn sign_delegation(&self, service: &Resource, request: &str) -> Result<String> {
        crate::delegate::sign_chain(service, request, self.options.tls.is_verifying())
    }

    /// A client without connections.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let options = Arc::new(options);
        Self {
            protocols: Arc::new(protocols(&options)),
            options,
        }
    }

    /// The same, which speaks one protocol more.
    #[must_use]
    pub fn with_protocol(&self, protocol: Arc<dyn Protocol>) -> Self {
        let known = self.protocols.iter().cloned();
        Self {
            protocols: known.chain([protocol]).collect(),
            options: Arc::clone(&self.options),
        }
    }

    /// The same, which speaks S3 too. Doors make no copies with it by themselves: their clients
    /// have no account.
    #[must_use]
    pub fn with_s3(&self) -> Self {
        self.with_protocol(Arc::new(s3::Client::new(Arc::clone(&self.options))))
    }

    /// As [`Client::with_s3`], which notes the uploads in parts that it begins in files in
    /// `directory`. What processes have noted there that were killed is removed when the bucket is
    /// used again, with the credentials of that use.
    #[must_use]
    pub fn with_s3_noted_in(&self, directory: &Path) -> Self {
        let client = s3::Client::new(Arc::clone(&self.options)).with_journal(directory);
        self.with_protocol(Arc::new(client))
    }

    /// A client that reaches `host` only at this address, whatever the name service says, and
    /// shares no connection with the others. Certificates are still compared with the name.
    #[must_use]
    pub fn pinned(&self, host: &str, address: IpAddr) -> Self {
        let pin = PinnedHost::new(host, address);
        let protocols = self.protocols.iter();
        Self {
            protocols: protocols.map(|protocol| protocol.pinned(pin.clone())).collect(),
            options: Arc::clone(&self.options),
        }
    }

    /// What the protocol of a location can do; nothing where no protocol speaks to it.
    #[must_use]
    pub fn abilities(&self, location: &Location) -> Abilities {
        let found = self.find(location);
        found.map_or_else(|_| Abilities::default(), |protocol| protocol.abilities(location))
    }

    /// The schemes of its protocols.
    #[must_use]
    pub fn schemes(&self) -> Vec<&'static str> {
        let schemes = self.protocols.iter().flat_map(|protocol| protocol.schemes());
        schemes.copied().collect()
    }

    /// Whether a protocol of this client speaks to `location`.
    ///
    /// # Errors
    /// `bad_url` with the schemes that it speaks.
    pub fn check_scheme(&self, location: &Location) -> Result<()> {
        self.find(location).map(drop)
    }

    fn find(&self, location: &Location) -> Result<&dyn Protocol> {
        let mut protocols = self.protocols.iter().map(Arc::as_ref);
        protocols.find(|protocol| protocol.speaks(location)).ok_or_else(|| {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open);
            error.with_detail(format!("the scheme is not one of {}", self.schemes().join(", ")))
        })
    }

    pub(crate) fn protocol(&self, file: &Resource) -> Result<&dyn Protocol> {
        let protocol = self.find(&file.location).map_err(|error| file.blame(error))?;
        protocol.check_name(&file.location).map_err(|error| file.blame(error))?;
        file.access.activity.begin(Activity::Ask);
        Ok(protocol)
    }

    /// As [`Client::protocol`], to do more than ask.
    fn begin(&self, file: &Resource, activity: Activity) -> Result<&dyn Protocol> {
        let protocol = self.protocol(file)?;
        file.access.activity.begin(activity);
        Ok(protocol)
    }

    /// Notes that the server is ready to transfer data.
    fn ready<T>(file: &Resource, begun: Result<T>) -> Result<T> {
        begun.inspect(|_| file.access.activity.begin(Activity::Transfer))
    }

    /// Whether the server of a file may be connected to; no connection is made.
    ///
    /// # Errors
    /// `peer_unresolved`, `peer_address_refused`, `peer_connect_timeout`; `bad_url` for a scheme
    /// that no protocol of this client has.
    pub async fn check_address(&self, file: &Resource) -> Result<()> {
        self.protocol(file)?;
        let (place, options) = (&file.location, &self.options);
        net::dial::check(
            place.host(),
            place.port(),
            options.addresses,
            options.connect,
            file.side,
        )
        .await
    }

    /// Asks the server of a file something that it can answer at once, to see whether it answers.
    ///
    /// # Errors
    /// No connection, no answer, or a refusal.
    pub async fn ping(&self, file: &Resource) -> Result<()> {
        self.protocol(file)?.ping(file).await
    }

    /// Asks how clients can authenticate at the server of a file, without any credential. Only the
    /// XRootD protocol says it.
    ///
    /// # Errors
    /// No connection, no answer, or `peer_unsupported`.
    pub async fn login_offer(&self, file: &Resource) -> Result<LoginOffer> {
        self.protocol(file)?.login_offer(file).await
    }

    /// Asks what a file is, with the checksums that `wanted` names. Waits some minutes for a server
    /// that still computes them.
    ///
    /// # Errors
    /// The server's refusal, or an answer that cannot be understood.
    pub async fn head(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Facts> {
        let activity = match wanted.is_empty() {
            true => Activity::Ask,
            false => Activity::Checksum,
        };
        self.begin(file, activity)?.head(file, wanted).await
    }

    /// Begins to read a file, or a part of it. Exactly the requested bytes come.
    ///
    /// # Errors
    /// The server's refusal; `source_changed` when the validator no longer holds; `peer_misbehaved`
    /// when the server would send anything else.
    pub async fn get(&self, file: &Resource, options: &GetOptions) -> Result<Download> {
        Self::ready(file, self.protocol(file)?.get(file, options).await)
    }

    /// Opens a file that may be opened only once, to read it over one connection or several.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` without [`Abilities::opens_once`].
    pub async fn open(&self, file: &Resource) -> Result<Opened> {
        Self::ready(file, self.protocol(file)?.open(file).await)
    }

    /// Opens a file to read many small ranges of it.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn open_ranges(&self, file: &Resource) -> Result<Ranges> {
        Self::ready(file, self.protocol(file)?.open_ranges(file).await)
    }

    /// Configuration values of an XRootD server, one for each key; `None` for those that it does
    /// not know or offer. The file only names the server.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for other protocols.
    pub async fn configuration(&self, file: &Resource, keys: &[&str]) -> Result<Vec<Option<String>>> {
        self.protocol(file)?.configuration(file, keys).await
    }

    /// The space behind a path, as an XRootD server counts it.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for other protocols.
    pub async fn space(&self, file: &Resource) -> Result<Space> {
        self.protocol(file)?.space(file).await
    }

    /// Asks to store a file, and returns once the server is ready for its content. Refusals come
    /// before a byte is sent.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists` when the file exists and must not be replaced.
    pub async fn put(&self, file: &Resource, options: &PutOptions) -> Result<Outlet> {
        Self::ready(file, self.protocol(file)?.put(file, options).await)
    }

    /// Begins to store a file in parts, in any order, where [`Abilities::stores_parts_above`] says
    /// so.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists`; `peer_unsupported` for other protocols.
    pub async fn put_in_parts(&self, file: &Resource, size_bytes: u64, options: &PutOptions) -> Result<Parts> {
        Self::ready(file, self.protocol(file)?.put_in_parts(file, size_bytes, options).await)
    }

    /// Removes a file or an empty directory. Some servers remove directories with their content.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn delete(&self, file: &Resource) -> Result<()> {
        let protocol = self.begin(file, Activity::Remove)?;
        let answer = protocol.delete(file).await;
        self.removed(file, answer, protocol.delete(file)).await
    }

    /// Removes a directory that is empty. Servers of others that remove directories over HTTP with
    /// all that is in them may do so here.
    ///
    /// # Errors
    /// `not_empty`, or another refusal.
    pub async fn remove_directory(&self, directory: &Resource) -> Result<()> {
        let protocol = self.begin(directory, Activity::Remove)?;
        let answer = protocol.remove_directory(directory).await;
        self.removed(directory, answer, protocol.remove_directory(directory))
            .await
    }

    /// Removes a file if it is still this version. Servers that know no such condition remove any
    /// version: HTTP has it for strong entity tags (`If-Match`, RFC 9110 §13.1.1), which not every
    /// server respects; the XRootD protocol has none.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn delete_version(&self, file: &Resource, version: Option<&Validator>) -> Result<()> {
        self.begin(file, Activity::Remove)?.delete_version(file, version).await
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `peer_exists` when the name is taken, `parent_missing`, or another refusal.
    pub async fn make_directory(&self, file: &Resource) -> Result<()> {
        let answer = self.protocol(file)?.make_directory(file).await;
        self.made(file, answer).await
    }

    /// Sets the permission bits of a file or directory.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for HTTP, which has no such request.
    pub async fn set_mode(&self, file: &Resource, mode: u16) -> Result<()> {
        self.protocol(file)?.set_mode(file, mode).await
    }

    /// Lists, reads, sets or removes extended attributes of a file. What was read or listed comes
    /// back.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for HTTP.
    pub async fn attributes(&self, file: &Resource, call: AttributeCall<'_>) -> Result<Vec<Attribute>> {
        self.protocol(file)?.attributes(file, call).await
    }

    /// Whether one server has both files and can copy one to the other by itself, for the client
    /// that has access to them.
    #[must_use]
    pub fn copies_within(&self, source: &Resource, destination: &Resource) -> bool {
        match (self.find(&source.location), self.find(&destination.location)) {
            (Ok(of_source), Ok(of_destination)) => {
                std::ptr::addr_eq(of_source, of_destination) && of_source.copies_within(source, destination)
            }
            _ => false,
        }
    }

    /// Lets a server copy a file to another name that it has, and asks it what both are then.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists`; `peer_unsupported` without [`Client::copies_within`].
    pub async fn copy_within(
        &self,
        source: &Resource,
        destination: &Resource,
        options: &WithinOptions,
    ) -> Result<CopiedWithin> {
        self.begin(destination, Activity::Transfer)?
            .copy_within(source, destination, options)
            .await
    }

    /// The uploads to a storage that have not ended, of objects at a place or below it, as they
    /// come. They may be under way, and other programs may have begun them.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for protocols without such uploads.
    pub async fn unfinished_uploads(&self, place: &Resource) -> Result<UnfinishedUploads> {
        self.protocol(place)?.unfinished_uploads(place).await
    }

    /// Removes what was stored of an upload that has not ended. One that is not there is removed.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for protocols without such uploads.
    pub async fn remove_upload(&self, file: &Resource, id: &str) -> Result<()> {
        self.begin(file, Activity::Remove)?.remove_upload(file, id).await
    }

    /// What an HTTP server offers for a file, and what it calls itself.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for other protocols.
    pub async fn options(&self, file: &Resource) -> Result<Offers> {
        self.protocol(file)?.options(file).await
    }

    /// What a name stands for. A server of plain HTTP cannot distinguish directories from files.
    ///
    /// # Errors
    /// `peer_not_found`, or another refusal.
    pub async fn stat(&self, file: &Resource) -> Result<Entry> {
        self.protocol(file)?.stat(file).await
    }

    /// What many names of one server stand for, in their order. All are asked for together on one
    /// connection.
    ///
    /// # Errors
    /// The server's first refusal; `peer_unsupported` for protocols that answer one request at a
    /// time.
    pub async fn stat_many(&self, files: &[Resource]) -> Result<Vec<Entry>> {
        match files.first() {
            None => Ok(Vec::new()),
            Some(first) => self.protocol(first)?.stat_many(first, files).await,
        }
    }

    /// The entries of a directory, a batch at a time.
    ///
    /// # Errors
    /// The server's refusal; `not_directory` may come with the first batch only.
    pub async fn list(&self, file: &Resource) -> Result<Listing> {
        self.protocol(file)?.list(file).await
    }

    /// Asks `active` to make a copy. The copy runs as long as its answer is read.
    ///
    /// # Errors
    /// Why it did not begin: the server's own refusal, or what happened between it and the other
    /// server; `peer_unsupported` when its protocol has no such order; `outcome_unknown` when it
    /// got the order and did not answer.
    pub async fn copy(&self, active: &Resource, order: &CopyOrder) -> Result<Copying> {
        let passive = Resource {
            location: order.peer.clone(),
            access: Access::default(),
            side: order.direction.peer_side(),
        };
        // A name that the other side's protocol cannot express would be that of another file there.
        self.protocol(&passive)?;
        self.begin(active, Activity::Transfer)?.copy(active, order).await
    }

    /// A URL with which the active server of a copy reads (`Pull`) or stores (`Push`) this file,
    /// where [`Abilities::needs_signed_urls`] says so. It is good for this file and one method. Its
    /// query is a secret.
    ///
    /// # Errors
    /// `peer_unsupported` for a file that no signed URL can store.
    pub async fn signed(&self, file: &Resource, direction: Direction, size_bytes: Option<u64>) -> Result<Location> {
        self.protocol(file)?.signed(file, direction, size_bytes).await
    }

    /// Waits, for a limited time, until what failed requests left at servers is removed. Call it
    /// before the runtime ends.
    pub async fn settle(&self) {
        for protocol in self.protocols.iter() {
            protocol.settle().await;
        }
    }

    /// What `active` says of the copies that it makes with servers of the kind of `other`, and of
    /// delegated proxies if the client `delegates` one. Nothing is asked where only the attempt can
    /// show it, and nothing is delegated yet.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn copy_abilities(&self, active: &Resource, other: &Location, delegates: bool) -> Result<CopyAbilities> {
        self.protocol(active)?.copy_abilities(active, other, delegates).await
    }

    /// Asks for a macaroon that allows `activities` on this file (the request form of dCache and
    /// XRootD over HTTP). It is valid for `validity_s` seconds, rounded up to whole minutes.
    ///
    /// # Errors
    /// `no_macaroons` when the server issues none; its refusal; an answer without a macaroon;
    /// `peer_unsupported` without [`Abilities::gives_macaroons`].
    pub async fn request_macaroon(&self, file: &Resource, activities: Activities, validity_s: u64) -> Result<Secret> {
        self.protocol(file)?
            .request_macaroon(file, activities, validity_s)
            .await
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ClientOptions {
            tls: _,
            addresses,
            connect,
            first_byte,
            stall,
            user_agent,
        } = &*self.options;
        let times = (connect, first_byte, stall);
        write!(formatter, "Client({user_agent}, {addresses:?}, {times:?})")
    }
}

#[cfg(test)]
mod tests {
    use net::tls::Trust;

    use super::*;

    fn client() -> Client {
        let wait = Duration::from_secs(1);
        Client::new(ClientOptions {
            tls: ClientTls::load(&Trust::default()).unwrap().0,
            addresses: AddressPolicy::ANY,
            connect: wait,
            first_byte: wait,
            stall: wait,
            user_agent: "test".to_owned(),
        })
    }

    fn abilities(url: &str) -> Abilities {
        client().abilities(&Location::parse(url).unwrap())
    }

    #[test]
    fn each_protocol_says_what_it_can_do() {
        for url in ["http://a/f", "dav://a/f", "https://a/f", "davs://a/f"] {
            let http = abilities(url);
            assert!(
                http.pulls && http.pushes && http.gives_macaroons && !http.opens_once,
                "{url}"
            );
            assert!(!http.prefers_checksum_first && !http.opens_passive, "{url}");
        }
        for url in ["root://a//f", "xroot://a//f", "roots://a//f", "xroots://a//f"] {
            let xrootd = abilities(url);
            assert!(xrootd.pulls && xrootd.opens_once && xrootd.opens_passive, "{url}");
            assert!(!xrootd.pushes && !xrootd.gives_macaroons, "servers of it only fetch");
            assert_eq!(xrootd.prefers_checksum_first, !xrootd.is_encrypted, "{url}");
        }
        assert_eq!(abilities("s3://a/f"), Abilities::default());
        for url in ["s3://a/b/f", "s3s://a/b/f"] {
            let s3 = client().with_s3().abilities(&Location::parse(url).unwrap());
            assert!(!s3.pulls && !s3.pushes && !s3.leaves_remains, "{url}");
            assert_eq!(s3.is_encrypted, url.starts_with("s3s"), "{url}");
        }
    }

    #[test]
    fn a_refused_head_is_no_last_word_over_http_only() {
        let refusal = |code| Error::new(code, Side::Source, Phase::Open);
        for code in [ErrorCode::PeerForbidden, ErrorCode::PeerUnsupported] {
            assert!(abilities("https://a/f").may_read_after(&refusal(code)));
            assert!(!abilities("root://a//f").may_read_after(&refusal(code)));
        }
        assert!(!abilities("https://a/f").may_read_after(&refusal(ErrorCode::PeerNotFound)));
    }

    #[tokio::test]
    async fn a_scheme_without_a_protocol_is_refused_with_those_that_have_one() {
        let file = Resource {
            location: Location::parse("s3://a/f").unwrap(),
            access: Access::default(),
            side: Side::Source,
        };
        let error = client().head(&file, &[]).await.unwrap_err();
        let known = "the scheme is not one of http, https, dav, davs, root, roots";
        assert_eq!((error.code(), error.detail()), (ErrorCode::BadUrl, Some(known)));
        // Doors ask before they have a file there, and get the same words.
        let error = client().check_scheme(&file.location).unwrap_err();
        assert_eq!((error.code(), error.detail()), (ErrorCode::BadUrl, Some(known)));
    }

    #[test]
    fn a_pin_is_for_one_host_only() {
        let pin = PinnedHost::new("se.example.org", IpAddr::from([192, 0, 2, 1]));
        assert_eq!(PinnedHost::dialled(Some(&pin), "SE.example.org"), "192.0.2.1");
        assert_eq!(PinnedHost::dialled(Some(&pin), "disk.example.org"), "disk.example.org");
        assert_eq!(PinnedHost::dialled(None, "se.example.org"), "se.example.org");
    }
}
