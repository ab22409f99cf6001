//! Many servers as one store, where clients name the server in the path: a forwarding proxy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use remote::Client;
use storage::{
    Answer, Check, DirectoryReader, FindOwner, Held, Overwrite, ReadHandle, Replacing, Space, Stat, Store, TreeFailure,
    UploadOptions, WriteHandle,
};
use types::{
    AllowedHosts, Checksum, ChecksumAlgorithm, Error, ErrorCode, ForwardedPath, Location, LogicalPath, Phase, Result,
    Side,
};

use crate::limits::FORWARDED_HOSTS_MAX;
use crate::store::{RemoteStore, UNKNOWN, root};
use crate::upstream::{Counts, Credential, Identity, Upstream};

/// The servers that clients may name.
pub struct Forwarding {
    client: Client,
    identity: Identity,
    hosts: Arc<AllowedHosts>,
    counts: Arc<Counts>,
    /// What is known of each server.
    known: Mutex<HashMap<Location, Upstream>>,
}

impl Forwarding {
    /// These hosts, which are asked by `client`.
    #[must_use]
    pub fn new(client: Client, identity: Identity, hosts: Arc<AllowedHosts>) -> Self {
        Self {
            client,
            identity,
            hosts,
            counts: Arc::default(),
            known: Mutex::default(),
        }
    }

    /// What all of them were asked so far.
    #[must_use]
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// The credential of this server.
    #[must_use]
    pub fn credential(&self) -> Option<&Credential> {
        self.identity.credential()
    }

    fn server(&self, server: Location) -> Upstream {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FORWARDED_HOSTS_MAX && !known.contains_key(&server) {
            known.clear();
        }
        let new = || Upstream::named(&self.client, server.clone(), self.identity.clone(), self.hosts.clone());
        let new = || new().counted_in(self.counts.clone());
        known.entry(server.clone()).or_insert_with(new).clone()
    }
}

/// The files of the servers that clients may name. Cheap to clone.
#[derive(Clone)]
pub struct ForwardingStore {
    servers: Arc<Forwarding>,
    owner: Option<Arc<dyn FindOwner>>,
}

/// A name at a server.
struct At {
    store: Arc<dyn Store>,
    path: ForwardedPath,
}

impl ForwardingStore {
    /// The files of these servers.
    #[must_use]
    pub fn new(servers: Arc<Forwarding>) -> Self {
        Self { servers, owner: None }
    }

    /// The store of the server that a path names, and the path there.
    fn at(&self, path: &LogicalPath) -> Result<At> {
        let named = allowed(&self.servers.hosts, path)?;
        let rights = self.owner.as_ref().and_then(|owner| owner.rights());
        let store = RemoteStore::new(self.servers.server(named.server.clone()).within_rights(rights));
        Ok(At {
            store: store.acting_for(self.owner.clone()),
            path: named,
        })
    }

    /// The same for a second name, which must be at the same server.
    fn at_both(&self, from: &LogicalPath, to: &LogicalPath) -> Result<(At, LogicalPath)> {
        let (source, target) = (self.at(from)?, self.at(to)?);
        match source.path.server == target.path.server {
            true => Ok((source, target.path.inner)),
            false => {
                let error = Error::new(ErrorCode::CrossExport, Side::Client, Phase::Open);
                Err(error.with_detail("the names are at two servers").with_subject(to))
            }
        }
    }
}

/// The server that a path names, if it may be asked.
///
/// # Errors
/// `host_not_allowed`; `path_refused` for a path that names no host, or not as rules and tokens do.
pub fn allowed(hosts: &AllowedHosts, path: &LogicalPath) -> Result<ForwardedPath> {
    let named = ForwardedPath::parse(path)?;
    hosts.check(&named.server).map_err(|error| error.with_subject(path))?;
    let canonical = named.canonical();
    if canonical == *path {
        return Ok(named);
    }
    // One rule is enough for a file, and one scope of a token.
    let words = format!("write the path as {canonical}");
    let error = Error::new(ErrorCode::PathRefused, Side::Client, Phase::Open);
    Err(error.with_detail(words).with_subject(path))
}

/// The error about the name that the client knows.
fn told<T>(answer: Result<T>, path: &LogicalPath) -> Result<T> {
    answer.map_err(|error| error.with_subject(path))
}

impl Store for ForwardingStore {
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store> {
        Arc::new(Self { owner, ..self.clone() })
    }

    /// The work of a call ends with its future, which the caller has.
    fn holding(&self, _held: Held) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat> {
        Box::pin(async move {
            // Clients look at the directories above a file before they store it.
            if ForwardedPath::is_above(path) {
                return Ok(root());
            }
            let at = self.at(path)?;
            told(at.store.stat(&at.path.inner).await, path)
        })
    }

    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.list(&at.path.inner).await, path)
        })
    }

    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.open(&at.path.inner).await, path)
        })
    }

    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.create(&at.path.inner, options).await, path)
        })
    }

    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.open_update(&at.path.inner).await, path)
        })
    }

    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.make_directory(&at.path.inner, parents).await, path)
        })
    }

    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.remove(&at.path.inner).await, path)
        })
    }

    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool> {
        Box::pin(async move {
            let (at, target) = self.at_both(from, to)?;
            told(at.store.rename(&at.path.inner, &target, overwrite).await, from)
        })
    }

    fn remove_tree<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Option<TreeFailure>> {
        Box::pin(async move {
            let at = self.at(path)?;
            let failure = told(at.store.remove_tree(&at.path.inner).await, path)?;
            Ok(failure.map(|failure| {
                let there = ForwardedPath {
                    inner: failure.path,
                    ..at.path
                };
                let path = there.canonical();
                let error = failure.error.with_subject(&path);
                TreeFailure { path, error }
            }))
        })
    }

    fn replace<'a>(
        &'a self,
        from: &'a LogicalPath,
        to: &'a LogicalPath,
        replacing: Replacing,
        check: Check<'a>,
    ) -> Answer<'a, bool> {
        Box::pin(async move {
            let (at, target) = self.at_both(from, to)?;
            told(at.store.replace(&at.path.inner, &target, replacing, check).await, from)
        })
    }

    fn move_over<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, replacing: Replacing) -> Answer<'a, bool> {
        Box::pin(async move {
            let (at, target) = self.at_both(from, to)?;
            told(at.store.move_over(&at.path.inner, &target, replacing).await, from)
        })
    }

    fn set_mode<'a>(&'a self, path: &'a LogicalPath, mode: u32) -> Answer<'a, ()> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.set_mode(&at.path.inner, mode).await, path)
        })
    }

    fn attributes<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.attributes(&at.path.inner).await, path)
        })
    }

    fn attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.attribute(&at.path.inner, name).await, path)
        })
    }

    fn set_attribute<'a>(
        &'a self,
        path: &'a LogicalPath,
        name: &'a str,
        value: &'a [u8],
        overwrite: Overwrite,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(
                at.store.set_attribute(&at.path.inner, name, value, overwrite).await,
                path,
            )
        })
    }

    fn remove_attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.remove_attribute(&at.path.inner, name).await, path)
        })
    }

    /// Each server has its own.
    fn space(&self) -> Answer<'_, Space> {
        Box::pin(async { Ok(UNKNOWN) })
    }

    fn space_at<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Space> {
        Box::pin(async move {
            if ForwardedPath::is_above(path) {
                return Ok(UNKNOWN);
            }
            let named = allowed(&self.servers.hosts, path)?;
            let there = self.servers.server(named.server).within(&named.inner);
            let store = RemoteStore::new(there).acting_for(self.owner.clone());
            // A server that does not tell is no reason to refuse an upload.
            Ok(store.space().await.unwrap_or(UNKNOWN))
        })
    }

    fn stored_checksums<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.stored_checksums(&at.path.inner).await, path)
        })
    }

    fn origin_checksum<'a>(
        &'a self,
        path: &'a LogicalPath,
        algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Option<Checksum>> {
        Box::pin(async move {
            let at = self.at(path)?;
            told(at.store.origin_checksum(&at.path.inner, algorithm).await, path)
        })
    }
}
