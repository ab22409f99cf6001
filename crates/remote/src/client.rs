//! The one front of all protocols: a client for any number of peers. What a file's URL says decides
//! who is asked; whoever uses a [`Client`] need not know.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use credentials::Activities;
use http_wire::Method;
use net::address::AddressPolicy;
use net::tls::ClientTls;
use types::{ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Secret};

use crate::copying::{self, Copying};
use crate::download::{self, Download};
use crate::listing::{self, Listing};
use crate::opened::Opened;
use crate::options::{CopyOrder, GetOptions, PutOptions};
use crate::outlet::{self, Outlet};
use crate::ranges::{self, Ranges};
use crate::resource::{Access, Facts, Resource};
use crate::{Entry, Space, http, root};

/// How peers are reached.
#[derive(Clone)]
pub struct ClientOptions {
    /// Whose certificates are believed.
    pub tls: ClientTls,
    /// Which addresses may be connected to; checked at every redirect too.
    pub addresses: AddressPolicy,
    /// Time to connect, and again for the TLS handshake.
    pub connect: Duration,
    /// Time to the head of an answer, from the end of the request.
    pub first_byte: Duration,
    /// Longest time in which a body moves no byte.
    pub stall: Duration,
    /// Our name and version, as peers see it.
    pub user_agent: String,
}

/// A client for any number of peers. Cheap to clone; clones share their idle connections.
#[derive(Clone)]
pub struct Client {
    options: Arc<ClientOptions>,
    http: http::Client,
    root: root::Client,
}

/// The one address at which a host is reached.
#[derive(Clone)]
pub(crate) struct Pin {
    host: String,
    address: String,
}

impl Pin {
    /// What is dialled for a host.
    pub(crate) fn dialled<'a>(pin: Option<&'a Self>, host: &'a str) -> &'a str {
        pin.filter(|pin| pin.host.eq_ignore_ascii_case(host))
            .map_or(host, |pin| &pin.address)
    }
}

/// Who speaks with a peer. What a transfer asks is held in memory of its own as long as it is asked: the room for connecting
/// and for all refusals is 7 KiB, which every transfer would otherwise hold to its end.
enum Speaker<'a> {
    Http(&'a http::Client),
    Root(&'a root::Client),
}

impl Client {
    /// A client without connections.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let options = Arc::new(options);
        Self {
            http: http::Client::new(Arc::clone(&options)),
            root: root::Client::new(Arc::clone(&options)),
            options,
        }
    }

    /// A client that reaches `host` at this one address, whatever the name service says, and shares no
    /// connection with the others: certificates are still compared with the name.
    #[must_use]
    pub fn pinned(&self, host: &str, address: IpAddr) -> Self {
        let pin = Pin {
            host: host.to_owned(),
            address: address.to_string(),
        };
        Self {
            http: http::Client::pinned(Arc::clone(&self.options), pin.clone()),
            root: root::Client::pinned(Arc::clone(&self.options), pin),
            options: Arc::clone(&self.options),
        }
    }

    fn speaker(&self, file: &Resource) -> Result<Speaker<'_>> {
        if file.location.is_http() {
            Ok(Speaker::Http(&self.http))
        } else if file.location.is_root() {
            root::check_path(file.location.path()).map_err(|error| file.blame(error))?;
            Ok(Speaker::Root(&self.root))
        } else {
            let error = file.error(ErrorCode::BadUrl, Phase::Open);
            Err(error.with_detail("the scheme is not one of http, https, dav, davs, root, roots"))
        }
    }

    /// Whether the server of a file may be connected to at all; it is not connected to.
    ///
    /// # Errors
    /// `peer_unresolved`, `peer_address_refused`, `peer_connect_timeout`; `bad_url` for a scheme that
    /// nobody here speaks.
    pub async fn check_address(&self, file: &Resource) -> Result<()> {
        self.speaker(file)?;
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

    /// Asks what a file is, checksums included where `wanted` names some. A peer that is still
    /// computing them is waited for, for some minutes.
    ///
    /// # Errors
    /// The peer's refusal, or no understandable answer.
    pub async fn head(&self, file: &Resource, wanted: &[ChecksumAlgorithm]) -> Result<Facts> {
        match self.speaker(file)? {
            Speaker::Http(http) => Box::pin(http.head(file, wanted)).await,
            Speaker::Root(root) => Box::pin(root.head(file, wanted)).await,
        }
    }

    /// Begins to read a file, or a part of it: exactly what was asked for comes.
    ///
    /// # Errors
    /// The peer's refusal; `source_changed` when the validator no longer holds; `peer_misbehaved`
    /// when something else than what was asked for would come.
    pub async fn get(&self, file: &Resource, options: &GetOptions) -> Result<Download> {
        match self.speaker(file)? {
            Speaker::Http(http) => {
                let download = Box::pin(http.get(file, options)).await?;
                Ok(Download(download::Way::Http(Box::new(download))))
            }
            Speaker::Root(root) => {
                let download = Box::pin(root.get(file, options)).await?;
                Ok(Download(download::Way::Root(Box::new(download))))
            }
        }
    }

    /// Opens a file that is to be read over one connection or several and may be opened only once.
    ///
    /// # Errors
    /// The peer's refusal; `peer_unsupported` for protocols in which every connection asks for the file.
    pub async fn open(&self, file: &Resource) -> Result<Opened> {
        match self.speaker(file)? {
            Speaker::Http(_) => Err(unsupported(file)),
            Speaker::Root(root) => Box::pin(root.open(file)).await.map(Opened),
        }
    }

    /// Opens a file for reading many small ranges of it.
    ///
    /// # Errors
    /// The peer's refusal.
    pub async fn open_ranges(&self, file: &Resource) -> Result<Ranges> {
        match self.speaker(file)? {
            Speaker::Http(http) => Ok(Ranges(ranges::Way::Http(Box::new(http.open_ranges(file).await?)))),
            Speaker::Root(root) => Ok(Ranges(ranges::Way::Root(Box::new(root.open_ranges(file).await?)))),
        }
    }

    /// What a server of the XRootD protocol says of its configuration: the value of each key, `None` for
    /// what it does not know or offer. The file only names the server.
    ///
    /// # Errors
    /// The peer's refusal; `peer_unsupported` for other protocols.
    pub async fn configuration(&self, file: &Resource, keys: &[&str]) -> Result<Vec<Option<String>>> {
        match self.speaker(file)? {
            Speaker::Http(_) => Err(unsupported(file)),
            Speaker::Root(root) => root.configuration(file, keys).await,
        }
    }

    /// The space behind a path, as a server of the XRootD protocol counts it.
    ///
    /// # Errors
    /// The peer's refusal; `peer_unsupported` for other protocols.
    pub async fn space(&self, file: &Resource) -> Result<Space> {
        match self.speaker(file)? {
            Speaker::Http(_) => Err(unsupported(file)),
            Speaker::Root(root) => root.space(file).await,
        }
    }

    /// Asks to store a file, and returns once the peer is ready for its content. Refusals come
    /// before a byte is sent.
    ///
    /// # Errors
    /// The peer's refusal; `peer_exists` when the file is there and must not be replaced.
    pub async fn put(&self, file: &Resource, options: &PutOptions) -> Result<Outlet> {
        match self.speaker(file)? {
            Speaker::Http(http) => {
                let outlet = Box::pin(http.put(file, options)).await?;
                Ok(Outlet(outlet::Way::Http(Box::new(outlet))))
            }
            Speaker::Root(root) => {
                let outlet = Box::pin(root.put(file, options)).await?;
                Ok(Outlet(outlet::Way::Root(Box::new(outlet))))
            }
        }
    }

    /// Removes a file, or a directory with what is in it as far as the peer does so.
    ///
    /// # Errors
    /// The peer's refusal.
    pub async fn delete(&self, file: &Resource) -> Result<()> {
        match self.speaker(file)? {
            Speaker::Http(http) => Box::pin(http.delete(file)).await,
            Speaker::Root(root) => Box::pin(root.delete(file)).await,
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `peer_exists` when there is something of that name, `parent_missing`, or another refusal.
    pub async fn make_directory(&self, file: &Resource) -> Result<()> {
        match self.speaker(file)? {
            Speaker::Http(http) => http.make_directory(file).await,
            Speaker::Root(root) => root.make_directory(file).await,
        }
    }

    /// Renames a file or directory within its server.
    ///
    /// # Errors
    /// `peer_exists` when the new name is taken and may not be replaced, or another refusal.
    pub async fn rename(&self, file: &Resource, destination: &Location, overwrite: bool) -> Result<()> {
        match self.speaker(file)? {
            Speaker::Http(http) => http.rename(file, destination, overwrite).await,
            Speaker::Root(root) => root.rename(file, destination, overwrite).await,
        }
    }

    /// The HTTP methods that a peer offers for a file.
    ///
    /// # Errors
    /// The peer's refusal; `peer_unsupported` for other protocols.
    pub async fn options(&self, file: &Resource) -> Result<Vec<Method>> {
        match self.speaker(file)? {
            Speaker::Http(http) => http.options(file).await,
            Speaker::Root(_) => Err(unsupported(file)),
        }
    }

    /// What a name stands for. A peer that speaks plain HTTP cannot tell directories from files.
    ///
    /// # Errors
    /// `peer_not_found`, or another refusal.
    pub async fn stat(&self, file: &Resource) -> Result<Entry> {
        match self.speaker(file)? {
            Speaker::Http(http) => http.stat(file).await,
            Speaker::Root(root) => root.stat(file).await,
        }
    }

    /// What many names of one server stand for, in their order, all asked for together on one connection.
    ///
    /// # Errors
    /// The server's first refusal; `peer_unsupported` for protocols in which one question waits for the other.
    pub async fn stat_many(&self, files: &[Resource]) -> Result<Vec<Entry>> {
        match files.first() {
            None => Ok(Vec::new()),
            Some(first) => match self.speaker(first)? {
                Speaker::Http(_) => Err(unsupported(first)),
                Speaker::Root(root) => root.stat_many(files).await,
            },
        }
    }

    /// The entries of a directory, a batch at a time.
    ///
    /// # Errors
    /// The peer's refusal; `not_directory` may come with the first batch only.
    pub async fn list(&self, file: &Resource) -> Result<Listing> {
        match self.speaker(file)? {
            Speaker::Http(http) => Ok(Listing(listing::Way::Http(Box::new(http.list(file).await?)))),
            Speaker::Root(root) => Ok(Listing(listing::Way::Root(Box::new(root.list(file).await?)))),
        }
    }

    /// Asks `active` to make a copy. The copy runs as long as the answer is read.
    ///
    /// # Errors
    /// What the server answers before it begins: its own refusal, or what it met at the other side;
    /// `peer_unsupported` when its protocol knows no such order.
    pub async fn copy(&self, active: &Resource, order: &CopyOrder) -> Result<Copying> {
        let passive = Resource {
            location: order.peer.clone(),
            access: Access::default(),
            side: order.direction.peer_side(),
        };
        // A name that the other side's protocol cannot express would be that of another file there.
        self.speaker(&passive)?;
        match self.speaker(active)? {
            Speaker::Http(http) => Ok(Copying(copying::Way::Http(Box::new(http.copy(active, order).await?)))),
            Speaker::Root(root) => Ok(Copying(copying::Way::Root(Box::new(root.copy(active, order).await?)))),
        }
    }

    /// Asks for a macaroon that allows `activities` on this file (the request form of dCache and
    /// XRootD over HTTP), valid for about `validity_s` seconds: whole minutes are asked for, rounded up.
    ///
    /// # Errors
    /// `no_macaroons` when the peer has none to give; its refusal; an answer without a macaroon; `peer_unsupported` for
    /// other protocols.
    pub async fn request_macaroon(&self, file: &Resource, activities: Activities, validity_s: u64) -> Result<Secret> {
        match self.speaker(file)? {
            Speaker::Http(http) => http.request_macaroon(file, activities, validity_s).await,
            Speaker::Root(_) => Err(unsupported(file)),
        }
    }
}

/// The protocol of this file has no such request.
fn unsupported(file: &Resource) -> Error {
    let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
    error.with_detail("its protocol knows no such request")
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
    use super::*;

    #[test]
    fn a_pin_is_for_one_host_only() {
        let pin = Pin {
            host: "se.example.org".to_owned(),
            address: "192.0.2.1".to_owned(),
        };
        assert_eq!(Pin::dialled(Some(&pin), "SE.example.org"), "192.0.2.1");
        assert_eq!(Pin::dialled(Some(&pin), "disk.example.org"), "disk.example.org");
        assert_eq!(Pin::dialled(None, "se.example.org"), "se.example.org");
    }
}
