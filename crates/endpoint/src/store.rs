//! The files of an export as the doors and the engine use them: a [`storage::Store`], for whom it acts, and the checksums of its
//! files that are being computed.

use std::ops::Deref;
use std::sync::Arc;

use storage::{Answer, BlockingStore, DirectoryReader, Entry, FindOwner, LinkJudge, LinkUse, Owner, Stat, Storage};
use types::{Checksum, ChecksumAlgorithm, LogicalPath, Result, Unlisted};

use crate::checksums::{ChecksumAsker, Checksums, Subject};
use crate::fair_share::{ClientId, FairShare};
use crate::links::BothEnds;
use crate::locks::Changing;
use crate::shown::ShownNames;
use crate::users::Users;

/// For whom a store acts, by name.
#[derive(Clone)]
struct Behalf {
    users: Option<Users>,
    user: Option<Arc<str>>,
    vo: Option<Arc<str>>,
    /// Who judges what is reached over symbolic links.
    links: Option<Arc<dyn LinkJudge>>,
}

impl FindOwner for Behalf {
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
            })
        })
    }
}

/// The files of one export, with the calls of [`storage::Store`]. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    files: Arc<dyn storage::Store>,
    /// For whom it acts; `None`: for the server itself.
    behalf: Option<Arc<Behalf>>,
    pub(crate) checksums: Checksums,
    /// The changes that its calls make: they end with the calls, even if nobody waits for these any more.
    pub(crate) changing: Changing,
}

impl Deref for Store {
    type Target = dyn storage::Store;

    fn deref(&self) -> &Self::Target {
        self.files.as_ref()
    }
}

impl Store {
    /// Uses a storage whose calls block.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self::of(Arc::new(BlockingStore::new(storage)))
    }

    /// Uses these files.
    #[must_use]
    pub fn of(files: Arc<dyn storage::Store>) -> Self {
        Self {
            files,
            behalf: None,
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
            files: self.files.holding(Arc::new(changing.clone())),
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
        self.on_behalf(changes.then(|| Behalf {
            users: users.cloned(),
            user,
            vo: vo.cloned(),
            links,
        }))
    }

    fn on_behalf(&self, behalf: Option<Behalf>) -> Self {
        if behalf.is_none() && self.behalf.is_none() {
            return self.clone();
        }
        let behalf = behalf.map(Arc::new);
        let owner = behalf.clone().map(|behalf| behalf as Arc<dyn FindOwner>);
        Self {
            files: self.files.acting_for(owner),
            behalf,
            ..self.clone()
        }
    }

    /// The same files for the server itself, whoever it acted for before.
    #[must_use]
    pub fn for_itself(&self) -> Self {
        self.on_behalf(None)
    }

    /// The same files for whom this acts, where what is read over symbolic links is judged as `reader` has it: a copy
    /// within a store has one asker at each end.
    #[must_use]
    pub fn reading_as(&self, reader: &Self) -> Self {
        let [reader, writer] = [reader, self].map(|end| end.behalf.as_ref().and_then(|behalf| behalf.links.clone()));
        if reader.is_none() && writer.is_none() {
            return self.clone();
        }
        self.judging(Some(Arc::new(BothEnds { reader, writer })))
    }

    /// The same files for whom this acts, where this judges what is reached over symbolic links.
    fn judging(&self, links: Option<Arc<dyn LinkJudge>>) -> Self {
        let own = self.behalf.as_deref();
        self.on_behalf(Some(Behalf {
            users: own.and_then(|own| own.users.clone()),
            user: own.and_then(|own| own.user.clone()),
            vo: own.and_then(|own| own.vo.clone()),
            links,
        }))
    }

    /// The same, where nothing that is reached over symbolic links is judged: for what was judged before.
    fn without_links(&self) -> Self {
        match self.judges_links() {
            true => self.judging(None),
            false => self.clone(),
        }
    }

    /// Whether what is reached over symbolic links has to be judged here.
    #[must_use]
    pub fn judges_links(&self) -> bool {
        self.behalf.as_ref().is_some_and(|behalf| behalf.links.is_some())
    }

    /// Whether virtual organisations have quotas here, so that it matters whose files are.
    #[must_use]
    pub fn has_vo_quotas(&self) -> bool {
        !self.usage().is_empty()
    }

    /// Whether what a name leads to over symbolic links may be used so.
    ///
    /// # Errors
    /// As [`storage::Storage::check_links`].
    pub async fn check_links(&self, path: &LogicalPath, used: LinkUse<'static>) -> Result<()> {
        match self.judges_links() {
            true => self.files.check_links(path, used).await,
            false => Ok(()),
        }
    }

    /// Lists a directory batch by batch.
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
        let _ = self.store_checksums(path, seen, checksums).await;
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Store")
    }
}

/// A directory listing that is read page by page.
pub struct Pages {
    directory: Box<dyn DirectoryReader>,
    /// Whether entries have come.
    has_begun: bool,
    /// Which names are seen; `None`: all.
    shown: Option<ShownNames>,
    /// What was left out; `None` before the end, and where nothing was.
    unlisted: Option<Unlisted>,
}

impl Pages {
    /// With these names only.
    pub(crate) fn showing(self, shown: Option<ShownNames>) -> Self {
        Self { shown, ..self }
    }

    /// The next entries; empty at the end.
    ///
    /// # Errors
    /// As [`storage::Listing::next_batch`].
    pub async fn next(&mut self) -> Result<Vec<Entry>> {
        loop {
            let mut page = self.directory.next_batch().await?;
            if std::mem::replace(&mut self.has_begun, true) && !page.is_empty() {
                // A batch of a quick store is read here. Others get their turn before the next one.
                tokio::task::yield_now().await;
            }
            if page.is_empty() {
                self.unlisted = Some(self.directory.unlisted()).filter(|unlisted| !unlisted.is_empty());
                return Ok(page);
            }
            if let Some(shown) = &self.shown {
                page.retain(|entry| shown.shows(&entry.name));
            }
            if !page.is_empty() {
                return Ok(page);
            }
        }
    }

    /// What was left out, once the end has been reached; `None` where nothing was.
    #[must_use]
    pub fn unlisted(&self) -> Option<&Unlisted> {
        self.unlisted.as_ref()
    }
}
