//! The files of an export as doors and engine use them: a [`storage::Store`], the user it acts for,
//! and the checksums that are being computed.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use storage::{
    Answer, BlockingStore, ClientCredential, CommitFacts, DirectoryReader, Entry, FindOwner, Held, LinkChecker,
    LinkUse, Owner, Stat, Storage, WriteHandle,
};
use types::{Checksum, ChecksumAlgorithm, LogicalPath, Result, Unlisted};

use crate::checksums::{ChecksumRequester, Checksums, Subject};
use crate::elsewhere::Elsewhere;
use crate::fair_share::{ClientId, FairShare};
use crate::links::BothEnds;
use crate::locks::Changing;
use crate::upstream::UpstreamIdentity;
use crate::users::Users;
use crate::visible::VisibleNames;

/// The user and VO that a store acts for, by name.
#[derive(Clone)]
struct NamedOwner {
    users: Option<Users>,
    user: Option<Arc<str>>,
    vo: Option<Arc<str>>,
    /// Decides about paths behind symbolic links.
    links: Option<Arc<dyn LinkChecker>>,
    /// What another server is shown of the client, or why there is nothing to show.
    client: Option<Result<Arc<ClientCredential>>>,
}

impl FindOwner for NamedOwner {
    fn find(&self) -> Answer<'_, Owner> {
        Box::pin(async {
            let user = match &self.users {
                Some(users) => users.find(self.user.as_deref()).await?,
                None => None,
            };
            Ok(Owner {
                user,
                vo: self.vo.clone(),
                links: self.links.clone(),
                client: self.client.clone().transpose()?,
            })
        })
    }

    fn rights(&self) -> Option<Arc<dyn LinkChecker>> {
        self.links.clone()
    }
}

/// The files of one export, with the calls of [`storage::Store`]. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    files: Arc<dyn storage::Store>,
    /// Whom it acts for; `None`: the server itself.
    named_owner: Option<Arc<NamedOwner>>,
    pub(crate) checksums: Checksums,
    /// The changes that its calls make. They end with the calls, even if no caller waits any
    /// longer.
    pub(crate) changing: Changing,
    /// The same, for the calls to hold.
    held: Option<Held>,
    /// The servers that have the files, if this one does not.
    elsewhere: Option<Elsewhere>,
    /// What another server, which has the files, is shown of clients.
    upstream: Option<Arc<dyn UpstreamIdentity>>,
}

impl Deref for Store {
    type Target = dyn storage::Store;

    fn deref(&self) -> &Self::Target {
        self.files.as_ref()
    }
}

impl Store {
    /// A store over a storage whose calls block.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self::of(Arc::new(BlockingStore::new(storage)))
    }

    /// A store over these files.
    #[must_use]
    pub fn of(files: Arc<dyn storage::Store>) -> Self {
        Self {
            files,
            named_owner: None,
            checksums: Checksums::new(FairShare::default()),
            changing: Changing::default(),
            held: None,
            elsewhere: None,
            upstream: None,
        }
    }

    /// The same store with a layer in front of its files, such as a cache.
    #[must_use]
    pub fn behind(self, layer: impl FnOnce(Arc<dyn storage::Store>) -> Arc<dyn storage::Store>) -> Self {
        Self {
            files: layer(self.files),
            ..self
        }
    }

    /// The same store, whose files are on other servers: clients that read or write are sent there.
    #[must_use]
    pub fn at(self, elsewhere: Elsewhere) -> Self {
        Self {
            elsewhere: Some(elsewhere),
            ..self
        }
    }

    /// The servers that have the files, if this one does not.
    #[must_use]
    pub fn elsewhere(&self) -> Option<&Elsewhere> {
        self.elsewhere.as_ref()
    }

    /// The same store, whose files are on another server, which is shown this of clients.
    #[must_use]
    pub fn identified_by(self, upstream: Arc<dyn UpstreamIdentity>) -> Self {
        Self {
            upstream: Some(upstream),
            ..self
        }
    }

    /// Whether another server has the files, and this one passes requests on.
    #[must_use]
    pub fn has_upstream(&self) -> bool {
        self.upstream.is_some()
    }

    /// What another server is shown of clients, if it has the files.
    pub(crate) fn upstream(&self) -> Option<&dyn UpstreamIdentity> {
        self.upstream.as_deref()
    }

    /// The same files, used with what the other server is shown of the client. That a client is
    /// anonymous there makes a difference, too: a cache must ask for it.
    #[must_use]
    pub(crate) fn with_client(&self, client: Option<Result<Arc<ClientCredential>>>) -> Self {
        let own = self.named_owner.as_deref();
        self.on_behalf(Some(NamedOwner {
            users: own.and_then(|own| own.users.clone()),
            user: own.and_then(|own| own.user.clone()),
            vo: own.and_then(|own| own.vo.clone()),
            links: own.and_then(|own| own.links.clone()),
            client,
        }))
    }

    /// The same store, with checksum computations limited to each client's fair share.
    #[must_use]
    pub fn sharing(self, fair_share: FairShare) -> Self {
        Self {
            checksums: Checksums::new(fair_share),
            ..self
        }
    }

    /// The same store, whose calls make these changes.
    #[must_use]
    pub fn during(&self, changing: &Changing) -> Self {
        let held: Held = Arc::new(changing.clone());
        Self {
            files: self.files.holding(held.clone()),
            changing: changing.clone(),
            held: Some(held),
            ..self.clone()
        }
    }

    /// The same files, used for a client: with the rights of the local user that a decision names
    /// (or the default one), who owns what is stored, and against the quota of its VO. Without
    /// `users` the server's account is used. `links` decides about paths behind symbolic links. The
    /// user is looked up at the first use, and each use fails while the look-up does:
    /// `user_unknown`, `user_refused`, `users_unavailable`.
    #[must_use]
    pub fn acting_for(
        &self,
        users: Option<&Users>,
        user: Option<&Arc<str>>,
        vo: Option<&Arc<str>>,
        links: Option<Arc<dyn LinkChecker>>,
    ) -> Self {
        let has_default = users.is_some_and(|users| users.settings().default_user.is_some());
        let user = user.filter(|_| users.is_some()).cloned();
        let changes = user.is_some() || vo.is_some() || has_default || links.is_some();
        self.on_behalf(changes.then(|| NamedOwner {
            users: users.cloned(),
            user,
            vo: vo.cloned(),
            links,
            client: None,
        }))
    }

    fn on_behalf(&self, named_owner: Option<NamedOwner>) -> Self {
        if named_owner.is_none() && self.named_owner.is_none() {
            return self.clone();
        }
        let named_owner = named_owner.map(Arc::new);
        let owner = named_owner.clone().map(|named_owner| named_owner as Arc<dyn FindOwner>);
        Self {
            files: self.files.acting_for(owner),
            named_owner,
            ..self.clone()
        }
    }

    /// The same files, used for the server itself.
    #[must_use]
    pub fn for_itself(&self) -> Self {
        self.on_behalf(None)
    }

    /// The same files for the same user, with `reader`'s decisions about what is read over symbolic
    /// links: a copy within a store has separate rights at each end.
    #[must_use]
    pub fn reading_as(&self, reader: &Self) -> Self {
        let [reader, writer] = [reader, self].map(|end| {
            end.named_owner
                .as_ref()
                .and_then(|named_owner| named_owner.links.clone())
        });
        if reader.is_none() && writer.is_none() {
            return self.clone();
        }
        self.with_link_checker(Some(Arc::new(BothEnds { reader, writer })))
    }

    /// Whether there is a cache, and the same files for a reader who wants their state of at most
    /// `max_age` ago.
    #[must_use]
    pub fn checked_within(&self, max_age: Duration) -> Option<Self> {
        let files = self.files.checked_within(max_age)?;
        Some(Self { files, ..self.clone() })
    }

    /// What decides about symbolic links.
    pub(crate) fn link_checker(&self) -> Option<Arc<dyn LinkChecker>> {
        self.named_owner.as_ref()?.links.clone()
    }

    /// The same files for the same user, with this decision about symbolic links.
    pub(crate) fn with_link_checker(&self, links: Option<Arc<dyn LinkChecker>>) -> Self {
        let own = self.named_owner.as_deref();
        self.on_behalf(Some(NamedOwner {
            users: own.and_then(|own| own.users.clone()),
            user: own.and_then(|own| own.user.clone()),
            vo: own.and_then(|own| own.vo.clone()),
            links,
            client: own.and_then(|own| own.client.clone()),
        }))
    }

    /// The same without checks of symbolic links, for paths that were checked before. What another
    /// server redirects to is checked each time.
    fn without_links(&self) -> Self {
        match self.checks_links() && self.upstream.is_none() {
            true => self.with_link_checker(None),
            false => self.clone(),
        }
    }

    /// Whether paths behind symbolic links are checked here.
    #[must_use]
    pub fn checks_links(&self) -> bool {
        self.named_owner
            .as_ref()
            .is_some_and(|named_owner| named_owner.links.is_some())
    }

    /// Whether virtual organisations have quotas here, so that the owner of a file matters.
    #[must_use]
    pub fn has_vo_quotas(&self) -> bool {
        !self.usage().is_empty()
    }

    /// Whether the target of symbolic links in a path may be used in this way.
    ///
    /// # Errors
    /// As [`storage::Storage::check_links`].
    pub async fn check_links(&self, path: &LogicalPath, used: LinkUse<'static>) -> Result<()> {
        match self.checks_links() {
            true => self.files.check_links(path, used).await,
            false => Ok(()),
        }
    }

    /// Commits an upload: durable, verified, renamed to its final name. On an error an old file
    /// still exists.
    ///
    /// # Errors
    /// As [`storage::Upload::commit`].
    pub async fn commit(&self, upload: &Arc<dyn WriteHandle>, facts: CommitFacts) -> Result<Stat> {
        upload.commit(facts, self.held.clone()).await
    }

    /// Truncates or extends a file that is being written.
    ///
    /// # Errors
    /// As [`storage::Upload::set_length`].
    pub async fn set_length(&self, upload: &Arc<dyn WriteHandle>, size_bytes: u64) -> Result<()> {
        upload.set_length(size_bytes, self.held.clone()).await
    }

    /// Makes durable what was written to a file that is changed in place.
    ///
    /// # Errors
    /// As [`storage::Upload::sync`].
    pub async fn sync(&self, upload: &Arc<dyn WriteHandle>) -> Result<()> {
        upload.sync(self.held.clone()).await
    }

    /// Lists a directory in batches.
    ///
    /// # Errors
    /// As [`storage::Storage::list`].
    pub async fn list(&self, path: &LogicalPath) -> Result<Pages> {
        Ok(Pages {
            directory: self.files.list(path).await?,
            has_begun: false,
            shown: None,
            unlisted: None,
        })
    }

    /// The stored checksum of this kind, at once.
    ///
    /// # Errors
    /// As [`Storage::stored_checksums`].
    pub async fn stored_checksum(&self, path: &LogicalPath, algorithm: ChecksumAlgorithm) -> Result<Option<Checksum>> {
        let known = self.stored_checksums(path).await?;
        Ok(known.into_iter().find(|known| known.algorithm() == algorithm))
    }

    /// Asks for a checksum that is not stored and has to be computed. Clients that ask for the same
    /// one share the computation.
    ///
    /// # Errors
    /// `overloaded` and `share_used_up`: too many are being computed, for all clients or for this
    /// one.
    pub fn ask_checksum(
        &self,
        path: &LogicalPath,
        algorithm: ChecksumAlgorithm,
        client: &ClientId,
    ) -> Result<ChecksumRequester> {
        let subject = Subject {
            user: self
                .named_owner
                .as_ref()
                .and_then(|named_owner| named_owner.user.clone()),
            client: self
                .named_owner
                .as_ref()
                .and_then(|named_owner| named_owner.client.clone()?.ok()),
            path: path.clone(),
            algorithm,
        };
        // A client that may stat a file may know its checksum, so the first request can compute it
        // for all.
        self.checksums.ask(&self.without_links().files, subject, client)
    }

    /// The checksum of a file: the stored one, or else computed now and stored.
    ///
    /// # Errors
    /// When the file cannot be read, or changes meanwhile; as [`Store::ask_checksum`]. A failure to
    /// store it is not an error.
    pub async fn checksum(
        &self,
        path: &LogicalPath,
        algorithm: ChecksumAlgorithm,
        client: &ClientId,
    ) -> Result<Checksum> {
        match self.stored_checksum(path, algorithm).await? {
            Some(checksum) => Ok(checksum),
            None => self.ask_checksum(path, algorithm, client)?.wait().await,
        }
    }

    /// Stores checksums that were computed while `seen` was read. A failure to store them is
    /// ignored.
    pub async fn keep_checksums(&self, path: &LogicalPath, seen: &Stat, checksums: &[Checksum]) {
        let _ = self.store_checksums(path, seen, checksums).await;
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Store")
    }
}

/// A directory listing, read page by page.
pub struct Pages {
    directory: Box<dyn DirectoryReader>,
    /// Whether entries have been returned.
    has_begun: bool,
    /// The names to return; `None`: all.
    shown: Option<VisibleNames>,
    /// What was left out; `None` before the end, or if nothing was.
    unlisted: Option<Unlisted>,
}

impl Pages {
    /// With these names only.
    pub(crate) fn showing(self, shown: Option<VisibleNames>) -> Self {
        Self { shown, ..self }
    }

    /// The next entries; empty at the end.
    ///
    /// # Errors
    /// As [`storage::Listing::next_batch`].
    pub async fn next(&mut self) -> Result<Vec<Entry>> {
        loop {
            let mut page = self.directory.next_batch().await?;
            let has_ended = self.note_batch(page.is_empty()).await;
            if let Some(shown) = &self.shown {
                page.retain(|entry| shown.shows(&entry.name));
            }
            if has_ended || !page.is_empty() {
                return Ok(page);
            }
        }
    }

    /// The names of the next entries, whose properties are not asked for; empty at the end.
    ///
    /// # Errors
    /// As [`storage::Listing::next_batch`].
    pub async fn next_names(&mut self) -> Result<Vec<String>> {
        loop {
            let mut page = self.directory.next_names().await?;
            let has_ended = self.note_batch(page.is_empty()).await;
            if let Some(shown) = &self.shown {
                page.retain(|name| shown.shows(name));
            }
            if has_ended || !page.is_empty() {
                return Ok(page);
            }
        }
    }

    /// Notes that a batch has been read; returns whether it was the empty one at the end.
    async fn note_batch(&mut self, has_ended: bool) -> bool {
        if has_ended {
            self.unlisted = Some(self.directory.unlisted()).filter(|unlisted| !unlisted.is_empty());
        } else if std::mem::replace(&mut self.has_begun, true) {
            // A batch of a fast store is read on this thread. Other tasks run before the next one.
            tokio::task::yield_now().await;
        }
        has_ended
    }

    /// What was left out, after the end; `None` if nothing was.
    #[must_use]
    pub fn unlisted(&self) -> Option<&Unlisted> {
        self.unlisted.as_ref()
    }
}
