//! A store as the doors and the engine use it: the back end, and the lane that decides on which
//! thread its calls run.

use std::sync::Arc;

use storage::{
    CommitFacts, Entry, FileReader, Lane, LinkJudge, LinkUse, Listing, Overwrite, Owner, Space, Stat, Storage, Upload,
    UploadOptions, VoUsage,
};
use tokio::sync::OnceCell;
use types::limits::SMALL_COMMIT_BYTES;
use types::{Checksum, ChecksumAlgorithm, LogicalPath, Result, Unlisted};

use crate::checksums::{ChecksumAsker, Checksums, Subject};
use crate::fair_share::{ClientId, FairShare};
use crate::links::BothEnds;
use crate::locks::Changing;
use crate::shown::ShownNames;
use crate::users::Users;

/// For whom a store acts, by name, until it is used for the first time.
struct Behalf {
    users: Option<Users>,
    user: Option<Arc<str>>,
    vo: Option<Arc<str>>,
    /// Who judges what is reached over symbolic links.
    links: Option<Arc<dyn LinkJudge>>,
    storage: OnceCell<Arc<dyn Storage>>,
}

/// The files of one export. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    storage: Arc<dyn Storage>,
    /// For whom it acts; `None`: for the server itself.
    behalf: Option<Arc<Behalf>>,
    lane: Lane,
    pub(crate) checksums: Checksums,
    /// The changes that its calls make: they end with the calls, even if nobody waits for these any more.
    changing: Changing,
}

impl Store {
    /// Uses `storage`.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            behalf: None,
            // Who asks for little goes before those who wait for a disk.
            lane: Lane::starting_commit_threads(net::background::give_way),
            checksums: Checksums::new(FairShare::default()),
            changing: Changing::default(),
        }
    }

    /// The same, of whose checksums no client has more than its share under way.
    #[must_use]
    pub fn sharing(self, fair_share: FairShare) -> Self {
        Self {
            checksums: Checksums::new(fair_share),
            ..self
        }
    }

    /// The same, whose calls make these changes.
    #[must_use]
    pub fn during(&self, changing: &Changing) -> Self {
        Self {
            changing: changing.clone(),
            ..self.clone()
        }
    }

    /// The same files for somebody: with the rights of the local user whom a decision names (or the
    /// default one), to whom what is stored belongs, and against the quota of its VO. Without `users`
    /// nobody is acted as. `links` judges what is reached over symbolic links. The user is looked up when this is used first, and each use fails
    /// while that does: `user_unknown`, `user_refused`, `users_unavailable`.
    #[must_use]
    pub fn acting_for(
        &self,
        users: Option<&Users>,
        user: Option<&Arc<str>>,
        vo: Option<&Arc<str>>,
        links: Option<Arc<dyn LinkJudge>>,
    ) -> Self {
        let has_default = users.is_some_and(|users| users.settings().default_user.is_some());
        let user = user.filter(|_| users.is_some()).cloned();
        let changes = user.is_some() || vo.is_some() || has_default || links.is_some();
        let behalf = changes.then(|| {
            Arc::new(Behalf {
                users: users.cloned(),
                user,
                vo: vo.cloned(),
                links,
                storage: OnceCell::new(),
            })
        });
        Self { behalf, ..self.clone() }
    }

    /// The same files for the server itself, whoever it acted for before.
    #[must_use]
    pub fn for_itself(&self) -> Self {
        Self {
            behalf: None,
            ..self.clone()
        }
    }

    /// The same files for whom this acts, where what is read over symbolic links is judged as `reader` has it: a copy
    /// within a store has one asker at each end.
    #[must_use]
    pub fn reading_as(&self, reader: &Self) -> Self {
        let [reader, writer] = [reader, self].map(|end| end.behalf.as_ref().and_then(|behalf| behalf.links.clone()));
        if reader.is_none() && writer.is_none() {
            return self.clone();
        }
        let links: Arc<dyn LinkJudge> = Arc::new(BothEnds { reader, writer });
        let own = self.behalf.as_deref();
        let behalf = Behalf {
            users: own.and_then(|own| own.users.clone()),
            user: own.and_then(|own| own.user.clone()),
            vo: own.and_then(|own| own.vo.clone()),
            links: Some(links),
            storage: OnceCell::new(),
        };
        let behalf = Some(Arc::new(behalf));
        Self { behalf, ..self.clone() }
    }

    /// The same, where nothing that is reached over symbolic links is judged: for what was judged before.
    fn without_links(&self) -> Self {
        let behalf = self.behalf.as_ref().map(|own| {
            Arc::new(Behalf {
                users: own.users.clone(),
                user: own.user.clone(),
                vo: own.vo.clone(),
                links: None,
                storage: OnceCell::new(),
            })
        });
        Self { behalf, ..self.clone() }
    }

    /// Whether what is reached over symbolic links has to be judged here.
    #[must_use]
    pub fn judges_links(&self) -> bool {
        self.behalf.as_ref().is_some_and(|behalf| behalf.links.is_some())
    }

    /// Whether virtual organisations have quotas here, so that it matters whose files are.
    #[must_use]
    pub fn has_vo_quotas(&self) -> bool {
        !self.storage.usage().is_empty()
    }

    /// What each virtual organisation takes that has a quota.
    #[must_use]
    pub fn usage(&self) -> Vec<VoUsage> {
        self.storage.usage()
    }

    /// The back end as whom this acts for may use it.
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        let Some(behalf) = &self.behalf else {
            return Ok(self.storage.clone());
        };
        let found = behalf.storage.get_or_try_init(|| async {
            let user = match &behalf.users {
                Some(users) => users.find(behalf.user.as_deref()).await?,
                None => None,
            };
            let vo = behalf.vo.clone();
            let links = behalf.links.clone();
            let acting = self.storage.acting_for(&Owner { user, vo, links });
            Ok(acting.unwrap_or_else(|| self.storage.clone()))
        });
        found.await.cloned()
    }

    /// A call bound to the storage, during which the changes that it makes are under way.
    async fn bound<T>(
        &self,
        call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static,
    ) -> Result<impl FnOnce() -> Result<T> + Send + 'static> {
        let (storage, changing) = (self.storage().await?, self.changing.clone());
        Ok(move || {
            let _until_done = changing;
            call(storage.as_ref())
        })
    }

    /// Runs a call on the storage where it belongs: here while the storage is fast, on the blocking
    /// pool while it is slow.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let call = self.bound(call).await?;
        self.lane.run(call).await
    }

    /// Runs a call that certainly waits for the disk.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let call = self.bound(call).await?;
        self.lane.run_blocking(call).await
    }

    /// Runs a call that makes something durable.
    async fn run_commit<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let call = self.bound(call).await?;
        self.lane.run_commit(call).await
    }

    /// Decides on which thread a call on an open file runs.
    #[must_use]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Whether what a name leads to over symbolic links may be used so.
    ///
    /// # Errors
    /// As [`Storage::check_links`].
    pub async fn check_links(&self, path: &LogicalPath, used: LinkUse<'static>) -> Result<()> {
        if !self.judges_links() {
            return Ok(());
        }
        let path = path.clone();
        self.run(move |storage| storage.check_links(&path, used)).await
    }

    /// What stands at `path`.
    ///
    /// # Errors
    /// As [`Storage::stat`].
    pub async fn stat(&self, path: &LogicalPath) -> Result<Stat> {
        let path = path.clone();
        self.run(move |storage| storage.stat(&path)).await
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub async fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>> {
        let path = path.clone();
        self.run(move |storage| storage.open(&path)).await
    }

    /// Begins an upload. Space and quota are asked here, before the first byte.
    ///
    /// # Errors
    /// As [`Storage::create`].
    pub async fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>> {
        let (path, options) = (path.clone(), options.clone());
        self.run(move |storage| storage.create(&path, &options)).await
    }

    /// Publishes an upload: durable, verified, renamed over the final name.
    ///
    /// # Errors
    /// As [`Upload::commit`]; the old file, if any, is then still there.
    pub async fn commit(&self, upload: &Arc<dyn Upload>, facts: CommitFacts) -> Result<Stat> {
        let (upload, is_small) = (upload.clone(), facts.size_bytes <= SMALL_COMMIT_BYTES);
        let changing = self.changing.clone();
        let commit = move || {
            let _until_done = changing;
            upload.commit(&facts)
        };
        match is_small {
            true => self.lane.run_small_commit(commit).await,
            false => self.lane.run_commit(commit).await,
        }
    }

    /// Lists a directory batch by batch.
    ///
    /// # Errors
    /// As [`Storage::list`].
    pub async fn list(&self, path: &LogicalPath) -> Result<Pages> {
        let path = path.clone();
        let listing = self.run(move |storage| storage.list(&path)).await?;
        Ok(Pages {
            store: self.clone(),
            listing: Some(listing),
            shown: None,
            unlisted: Unlisted::default(),
        })
    }

    /// Makes a directory, with its parents where asked.
    ///
    /// # Errors
    /// As [`Storage::make_directory`].
    pub async fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()> {
        let path = path.clone();
        self.run(move |storage| storage.make_directory(&path, parents)).await
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// As [`Storage::remove`].
    pub async fn remove(&self, path: &LogicalPath) -> Result<()> {
        let path = path.clone();
        // What a large file held has to be freed, which takes as long with everything in memory.
        self.run_blocking(move |storage| storage.remove(&path)).await
    }

    /// Renames; tells whether something was replaced.
    ///
    /// # Errors
    /// As [`Storage::rename`].
    pub async fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool> {
        let (from, to) = (from.clone(), to.clone());
        // The new name is made durable.
        self.run_commit(move |storage| storage.rename(&from, &to, overwrite))
            .await
    }

    /// Copies a file within the store, without moving bytes where the file system can share them.
    ///
    /// # Errors
    /// As [`Storage::copy`].
    pub async fn copy(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<Stat> {
        let (from, to) = (from.clone(), to.clone());
        self.run_commit(move |storage| storage.copy(&from, &to, overwrite))
            .await
    }

    /// Opens a file to be changed where it lies.
    ///
    /// # Errors
    /// As [`Storage::open_update`].
    pub async fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        let path = path.clone();
        self.run(move |storage| storage.open_update(&path)).await
    }

    /// Changes permission bits.
    ///
    /// # Errors
    /// As [`Storage::set_mode`].
    pub async fn set_mode(&self, path: &LogicalPath, mode: u32) -> Result<()> {
        let path = path.clone();
        self.run(move |storage| storage.set_mode(&path, mode)).await
    }

    /// The names of the attributes that clients gave.
    ///
    /// # Errors
    /// As [`Storage::attributes`].
    pub async fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        let path = path.clone();
        self.run(move |storage| storage.attributes(&path)).await
    }

    /// The value of such an attribute.
    ///
    /// # Errors
    /// As [`Storage::attribute`].
    pub async fn attribute(&self, path: &LogicalPath, name: &str) -> Result<Option<Vec<u8>>> {
        let (path, name) = (path.clone(), name.to_owned());
        self.run(move |storage| storage.attribute(&path, &name)).await
    }

    /// Gives an attribute.
    ///
    /// # Errors
    /// As [`Storage::set_attribute`].
    pub async fn set_attribute(
        &self,
        path: &LogicalPath,
        name: &str,
        value: &[u8],
        overwrite: Overwrite,
    ) -> Result<()> {
        let (path, name, value) = (path.clone(), name.to_owned(), value.to_vec());
        self.run(move |storage| storage.set_attribute(&path, &name, &value, overwrite))
            .await
    }

    /// Takes an attribute away.
    ///
    /// # Errors
    /// As [`Storage::remove_attribute`].
    pub async fn remove_attribute(&self, path: &LogicalPath, name: &str) -> Result<bool> {
        let (path, name) = (path.clone(), name.to_owned());
        self.run(move |storage| storage.remove_attribute(&path, &name)).await
    }

    /// The dead properties that WebDAV clients gave.
    ///
    /// # Errors
    /// As [`Storage::dead_properties`].
    pub async fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        let path = path.clone();
        self.run(move |storage| storage.dead_properties(&path)).await
    }

    /// The same of names in a directory, in their order.
    ///
    /// # Errors
    /// As [`Storage::dead_properties_in`].
    pub async fn dead_properties_in(&self, directory: &LogicalPath, names: Vec<String>) -> Result<Vec<Vec<u8>>> {
        let at = directory.clone();
        self.run(move |storage| storage.dead_properties_in(&at, &names)).await
    }

    /// Replaces them by what `change` makes of them.
    ///
    /// # Errors
    /// As [`Storage::change_dead_properties`].
    pub async fn change_dead_properties(
        &self,
        path: &LogicalPath,
        change: impl Fn(&[u8]) -> Result<Vec<u8>> + Send + 'static,
    ) -> Result<()> {
        let path = path.clone();
        self.run_commit(move |storage| storage.change_dead_properties(&path, &change))
            .await
    }

    /// Cuts or extends a file that is being written.
    ///
    /// # Errors
    /// Those of [`Upload::set_length`].
    pub async fn set_length(&self, upload: &Arc<dyn Upload>, size_bytes: u64) -> Result<()> {
        let upload = upload.clone();
        self.lane().run(move || upload.set_length(size_bytes)).await
    }

    /// Makes durable what was written to a file that is changed where it lies.
    ///
    /// # Errors
    /// As [`Upload::sync`].
    pub async fn sync(&self, upload: &Arc<dyn Upload>) -> Result<()> {
        let upload = upload.clone();
        self.run_commit(move |_| upload.sync()).await
    }

    /// Space of the export.
    ///
    /// # Errors
    /// As [`Storage::space`].
    pub async fn space(&self) -> Result<Space> {
        self.run(|storage| storage.space()).await
    }

    /// Space at a place: of the quota of the virtual organisation for which this acts, if it has one there.
    ///
    /// # Errors
    /// As [`Storage::space_at`].
    pub async fn space_at(&self, path: &LogicalPath) -> Result<Space> {
        let path = path.clone();
        self.run(move |storage| storage.space_at(&path)).await
    }

    /// The checksums kept with a file, at once.
    ///
    /// # Errors
    /// As [`Storage::stored_checksums`].
    pub async fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>> {
        let path = path.clone();
        self.run(move |storage| storage.stored_checksums(&path)).await
    }

    /// The checksum of this kind that is kept with a file, at once.
    ///
    /// # Errors
    /// As [`Storage::stored_checksums`].
    pub async fn stored_checksum(&self, path: &LogicalPath, algorithm: ChecksumAlgorithm) -> Result<Option<Checksum>> {
        let known = self.stored_checksums(path).await?;
        Ok(known.into_iter().find(|known| known.algorithm() == algorithm))
    }

    /// Asks for the checksum of a file, which has to be computed because none is kept. Whoever asks for the same meanwhile
    /// gets the same one.
    ///
    /// # Errors
    /// `overloaded` and `share_used_up`: too many are being computed, or too many for this client.
    pub fn ask_checksum(
        &self,
        path: &LogicalPath,
        algorithm: ChecksumAlgorithm,
        client: &ClientId,
    ) -> Result<ChecksumAsker> {
        let subject = Subject {
            user: self.behalf.as_ref().and_then(|behalf| behalf.user.clone()),
            path: path.clone(),
            algorithm,
        };
        // Whoever may look at a file may know its checksum, and who asks first asks for others too.
        self.checksums.ask(&self.without_links(), subject, client)
    }

    /// The checksum of a file: the kept one, or else computed now and kept.
    ///
    /// # Errors
    /// When the file cannot be read, or changes meanwhile; as [`Store::ask_checksum`]. That it cannot be kept is not an error.
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

    /// Keeps checksums that were computed while `seen` was read. Not being able to is no error.
    pub async fn keep_checksums(&self, path: &LogicalPath, seen: &Stat, checksums: &[Checksum]) {
        let (path, seen, checksums) = (path.clone(), seen.clone(), checksums.to_vec());
        let kept = self.run(move |storage| {
            checksums
                .iter()
                .try_for_each(|checksum| storage.store_checksum(&path, &seen, checksum))
        });
        let _ = kept.await;
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Store")
    }
}

/// A directory listing that is read page by page.
pub struct Pages {
    store: Store,
    listing: Option<Box<dyn Listing>>,
    /// Which names are seen; `None`: all.
    shown: Option<ShownNames>,
    unlisted: Unlisted,
}

impl Pages {
    /// With these names only.
    pub(crate) fn showing(self, shown: Option<ShownNames>) -> Self {
        Self { shown, ..self }
    }

    /// The next entries; empty at the end.
    ///
    /// # Errors
    /// As [`Listing::next_batch`].
    pub async fn next(&mut self) -> Result<Vec<Entry>> {
        loop {
            let mut page = self.next_of_store().await?;
            let Some(shown) = self.shown.as_ref().filter(|_| !page.is_empty()) else {
                return Ok(page);
            };
            page.retain(|entry| shown.shows(&entry.name));
            if !page.is_empty() {
                return Ok(page);
            }
        }
    }

    async fn next_of_store(&mut self) -> Result<Vec<Entry>> {
        let Some(mut listing) = self.listing.take() else {
            return Ok(Vec::new());
        };
        let (page, listing) = self
            .store
            .run(move |_| {
                let page = listing.next_batch()?;
                Ok((page, listing))
            })
            .await?;
        if page.is_empty() {
            self.unlisted = listing.unlisted();
        } else {
            self.listing = Some(listing);
        }
        Ok(page)
    }

    /// What was left out, once the end has been reached; `None` where nothing was.
    #[must_use]
    pub fn unlisted(&self) -> Option<&Unlisted> {
        Some(&self.unlisted).filter(|unlisted| unlisted.count > 0)
    }
}
