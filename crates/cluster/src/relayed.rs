//! Uploads that pass through a redirector: of clients that would not follow it to a node.
//!
//! Go's HTTP client, and so rclone, repeats no body that it reads from a stream. The content goes
//! on to the node as it comes. Its last piece is held back until the upload is committed, because
//! the node stores the file as soon as it is complete.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use endpoint::{ClientId, FairShare, Relayed, Share, ShareKind, ShareLimits};
use net::Batch;
use remote::{Client, Outlet, PutOptions, Resource};
use storage::{Answer, CommitFacts, Held, Kind, Overwrite, Stat, UploadOptions, WriteHandle, WriteOrder};
use tokio::sync::Mutex;
use tokio::time::Instant;
use types::limits::CLIENT_SHARE_PERCENT;
use types::{Error, ErrorCode, Location, LogicalPath, Phase, Result, Side};

use crate::director::Director;
use crate::limits::{NODE_RELAYS_MAX, STILL_EXPECTED_EVERY_MS};
use crate::node::NodeId;
use storage_remote::{FILE_MODE, stat};

/// The file with the client's own rights: `own` may have a token with which the redirector looks
/// for files, and that is not for clients. One without a token is anonymous there.
///
/// # Errors
/// A URL that cannot be used.
pub(crate) fn for_client(own: &Resource, relayed: &Relayed<'_>) -> Result<Resource> {
    let mut file = own.clone();
    if let Some(url) = &relayed.url {
        file.location = Location::parse(url.expose())?;
    }
    file.access.bearer = relayed.bearer.clone().filter(|_| !relayed.is_judged);
    Ok(file)
}

/// The limit for one node.
const PLACES: ShareLimits = ShareLimits {
    connections: 0,
    open_files: 0,
    tpc_keys: 0,
    transfers: NODE_RELAYS_MAX,
    checksums: 0,
    trees: 0,
    locks: 0,
    bodies: 0,
    client_percent: CLIENT_SHARE_PERCENT,
};

/// Places for the uploads passed through to each node, shared fairly among clients.
#[derive(Clone)]
pub(crate) struct RelayPlaces(Arc<[FairShare]>);

impl RelayPlaces {
    /// Places for so many nodes.
    pub(crate) fn of(nodes: usize) -> Self {
        Self((0..nodes).map(|_| FairShare::new(&PLACES, None)).collect())
    }

    /// Takes one for the client at this address.
    ///
    /// # Errors
    /// `share_used_up` if the client has its share; `overloaded`.
    pub(crate) fn take(&self, node: NodeId, address: IpAddr) -> Result<Option<Share>> {
        let places = self.0.get(usize::from(node.0));
        let take = |places: &FairShare| places.take(ShareKind::Transfers, &ClientId::at(address));
        places.map(take).transpose()
    }
}

/// Where an upload goes.
pub(crate) struct Destination {
    pub(crate) client: Client,
    /// The file with what the client may do there, which may be good for this upload only.
    pub(crate) file: Resource,
    /// The same with the redirector's own rights.
    pub(crate) own: Resource,
    pub(crate) director: Arc<Director>,
    pub(crate) node: NodeId,
    pub(crate) path: LogicalPath,
    /// The client's place among the uploads that pass through to this node.
    pub(crate) _place: Option<Share>,
}

/// An upload on its way to a node.
pub(crate) struct RelayedUpload {
    to: Announced,
    way: Mutex<Way>,
    received_bytes: AtomicU64,
    began: SystemTime,
}

/// An upload for which room is kept as long as it may come.
struct Announced {
    to: Destination,
    is_stored: AtomicBool,
}

impl std::ops::Deref for Announced {
    type Target = Destination;

    fn deref(&self) -> &Destination {
        &self.to
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Another client may be sent with the name by now.
        if !self.is_stored.load(Ordering::Relaxed) {
            self.to.director.given_up(&self.to.path, self.to.node);
        }
    }
}

struct Way {
    /// None after a failure, or after the commit.
    outlet: Option<Outlet>,
    /// What has come and was not sent.
    held_back: Option<Batch>,
    /// When the director heard last that the file is on its way.
    told: Instant,
}

impl RelayedUpload {
    /// Begins an upload.
    ///
    /// # Errors
    /// The node's refusal.
    pub(crate) async fn begin(to: Destination, options: &UploadOptions) -> Result<Self> {
        let put = PutOptions {
            size_bytes: options.size_bytes,
            overwrite: options.overwrite == Overwrite::Allow,
            is_absent: false,
            declared: Vec::new(),
            compares_trailers_at: None,
            modified: None,
        };
        let to = Announced {
            to,
            is_stored: AtomicBool::new(false),
        };
        let outlet = to.client.put(&to.file, &put).await?;
        Ok(Self {
            to,
            way: Mutex::new(Way {
                outlet: Some(outlet),
                held_back: None,
                told: Instant::now(),
            }),
            received_bytes: AtomicU64::new(0),
            began: SystemTime::now(),
        })
    }

    async fn take(&self, batch: Batch, offset: u64) -> Result<()> {
        let mut way = self.way.lock().await;
        if offset != self.received_bytes.load(Ordering::Relaxed) {
            let error = Error::new(ErrorCode::NotImplemented, Side::Active, Phase::Transfer);
            return Err(error.with_detail("what passes through a redirector comes in order"));
        }
        self.received_bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if way.told.elapsed() >= Duration::from_millis(STILL_EXPECTED_EVERY_MS) {
            way.told = Instant::now();
            self.to.director.still_expect(&self.to.path, self.to.node);
        }
        let before = way.held_back.replace(batch);
        way.send(before).await
    }

    /// What is known of the file here.
    fn facts(&self) -> Stat {
        Stat {
            kind: Kind::File,
            size_bytes: self.received_bytes.load(Ordering::Relaxed),
            modified: self.began,
            mode: FILE_MODE,
            inode: 1,
        }
    }

    async fn store(&self) -> Result<Stat> {
        let mut way = self.way.lock().await;
        let last = way.held_back.take();
        way.send(last).await?;
        let outlet = way.outlet.take().ok_or_else(broken)?;
        outlet.finish().await?;
        self.to.is_stored.store(true, Ordering::Relaxed);
        self.to.director.created(&self.to.path, self.to.node);
        // The file is stored, whatever comes now.
        let known = self.to.client.stat(&self.to.own).await.ok();
        Ok(known.map_or_else(|| self.facts(), |entry| stat(&entry)))
    }
}

impl Way {
    async fn send(&mut self, batch: Option<Batch>) -> Result<()> {
        let Some(mut batch) = batch else { return Ok(()) };
        // After a failure, or if the caller leaves meanwhile, the node must not get the rest.
        let mut outlet = self.outlet.take().ok_or_else(broken)?;
        while !batch.is_empty() {
            let mut room = outlet.outgoing().await?;
            let filled = room.fill_from(&mut batch);
            outlet.send(room, filled).await?;
        }
        self.outlet = Some(outlet);
        Ok(())
    }
}

fn broken() -> Error {
    Error::new(ErrorCode::BodyIncomplete, Side::Active, Phase::Transfer)
}

impl WriteHandle for RelayedUpload {
    fn write(&self, batch: Batch, offset: u64) -> Answer<'_, ()> {
        Box::pin(self.take(batch, offset))
    }

    fn order(&self) -> WriteOrder {
        WriteOrder::FrontToBack
    }

    fn is_readable(&self) -> bool {
        false
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.facts())
    }

    fn commit(&self, _facts: CommitFacts, _held: Option<Held>) -> Answer<'_, Stat> {
        Box::pin(self.store())
    }
}

#[cfg(test)]
mod tests {
    use endpoint::{Purpose, Spoken, Target, Wanted};
    use remote::Access;
    use types::Secret;

    use super::*;

    /// The token that the node gets with an upload.
    fn shown(bearer: Option<&str>, is_judged: bool) -> Option<String> {
        let path = LogicalPath::parse("/data/f").unwrap();
        let location = Location::parse("https://d1.example.org/data/f").unwrap();
        let own = Resource {
            location: location.clone(),
            access: Access {
                bearer: Some(Secret::new("the redirector's")),
                ..Access::default()
            },
            side: Side::Active,
        };
        let relayed = Relayed {
            wanted: &Wanted {
                path: &path,
                purpose: Purpose::Store {
                    size_bytes: None,
                    is_new: false,
                },
                spoken: Spoken::Http,
                address: "192.0.2.7".parse().unwrap(),
                tried: &[],
                refresh: false,
            },
            target: &Target {
                exists: false,
                endpoint: Box::new(location.clone()),
                location,
                is_ours: true,
                number: 0,
                node: "d1".into(),
            },
            url: None,
            is_judged,
            bearer: bearer.map(Secret::new),
            same_rights: None,
            options: &UploadOptions {
                size_bytes: None,
                overwrite: Overwrite::Allow,
                create_parents: true,
                ..UploadOptions::default()
            },
        };
        let bearer = for_client(&own, &relayed).unwrap().access.bearer;
        bearer.map(|token| token.expose().to_owned())
    }

    #[test]
    fn a_client_never_gets_the_rights_of_the_redirector() {
        assert_eq!(shown(Some("the client's"), false).as_deref(), Some("the client's"));
        assert_eq!(shown(None, false), None);
        assert_eq!(shown(Some("the client's"), true), None, "the URL says it all");
        assert_eq!(shown(None, true), None);
    }

    #[test]
    fn slow_clients_leave_places_at_a_node() {
        let places = RelayPlaces::of(2);
        let (client, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let take = |client| places.take(NodeId(0), client);
        let held: Vec<Share> = std::iter::from_fn(|| take(client).ok().flatten()).collect();
        assert_eq!(held.len(), NODE_RELAYS_MAX / 2);
        assert_eq!(take(client).unwrap_err().code(), ErrorCode::ShareUsedUp);
        assert!(take(other).is_ok() && places.take(NodeId(1), client).is_ok());
        drop(held);
        assert!(take(client).is_ok());
    }
}
