//! An asynchronous [`Store`] over a blocking [`Storage`]: a [`Lane`] decides on which thread each
//! call runs.

use std::sync::Arc;

use execution::Lane;
use tokio::sync::OnceCell;
use types::{Checksum, LogicalPath, Result, Unlisted};

use crate::api::{
    Entry, Listing, Overwrite, Replacing, Space, Stat, Storage, TreeFailure, Upload, UploadOptions, VoUsage,
};
use crate::aside::Beside;
use crate::blocking_handle::{BlockingReader, BlockingWriter, keeping};
use crate::handle::{ReadHandle, WriteHandle};
use crate::links::LinkUse;
use crate::store::{Answer, ChangeProperties, DirectoryReader, FindOwner, Held, Store};

/// An owner, and the storage with that owner's rights once it has been looked up.
struct Acting {
    owner: Arc<dyn FindOwner>,
    storage: OnceCell<Arc<dyn Storage>>,
}

/// A blocking storage as an asynchronous store. Cheap to clone; clones share the lane's
/// measurements.
#[derive(Clone)]
pub struct BlockingStore {
    storage: Arc<dyn Storage>,
    /// Whom it acts for; `None`: the server itself.
    acting: Option<Arc<Acting>>,
    lane: Arc<Lane>,
    held: Option<Held>,
}

impl BlockingStore {
    /// A store that runs the calls of `storage` on a lane of its own.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            acting: None,
            lane: Arc::default(),
            held: None,
        }
    }

    /// The storage with the owner's rights.
    async fn storage(&self) -> Result<Arc<dyn Storage>> {
        let Some(acting) = &self.acting else {
            return Ok(self.storage.clone());
        };
        let found = acting.storage.get_or_try_init(|| async {
            let owner = acting.owner.find().await?;
            let storage = self.storage.acting_for(&owner);
            Ok(storage.unwrap_or_else(|| self.storage.clone()))
        });
        found.await.cloned()
    }

    async fn bound<T>(
        &self,
        call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static,
    ) -> Result<impl FnOnce() -> Result<T> + Send + 'static> {
        let storage = self.storage().await?;
        Ok(keeping(self.held.clone(), move || call(storage.as_ref())))
    }

    fn writer(&self, upload: Arc<dyn Upload>) -> Arc<dyn WriteHandle> {
        Arc::new(BlockingWriter::on(&self.lane, upload))
    }

    /// Runs a call on this thread while the storage is fast, on the blocking pool while it is slow.
    async fn run<T: Send + 'static>(&self, call: impl FnOnce(&dyn Storage) -> Result<T> + Send + 'static) -> Result<T> {
        let call = self.bound(call).await?;
        self.lane.run(call).await
    }

    /// Runs a call that always waits for the disk.
    async fn run_blocking<T: Send + 'static>(
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
}

/// Defines calls of the storage that only have to run in the right place: the place, the call with
/// its borrowed arguments, and after a semicolon the arguments passed by value.
macro_rules! on_lane {
    ($($place:ident: $call:ident(
        $($argument:ident: &$borrowed:ty),* $(; $($value:ident: $type:ty),+)?
    ) -> $answer:ty;)+) => {$(
        fn $call<'a>(&'a self, $($argument: &'a $borrowed,)* $($($value: $type),+)?) -> Answer<'a, $answer> {
            Box::pin(async move {
                $(let $argument = $argument.to_owned();)*
                self.$place(move |storage| storage.$call($(&$argument,)* $($($value),+)?)).await
            })
        }
    )+};
}

impl Store for BlockingStore {
    on_lane! {
        run: check_links(path: &LogicalPath; used: LinkUse<'static>) -> ();
        run: stat(path: &LogicalPath) -> Stat;
        run: make_directory(path: &LogicalPath; parents: bool) -> ();
        run: set_mode(path: &LogicalPath; mode: u32) -> ();
        run: attributes(path: &LogicalPath) -> Vec<String>;
        run: attribute(path: &LogicalPath, name: &str) -> Option<Vec<u8>>;
        run: set_attribute(path: &LogicalPath, name: &str, value: &[u8]; overwrite: Overwrite) -> ();
        run: remove_attribute(path: &LogicalPath, name: &str) -> bool;
        run: dead_properties(path: &LogicalPath) -> Vec<u8>;
        run: dead_properties_in(directory: &LogicalPath, names: &[String]) -> Vec<Vec<u8>>;
        run: space() -> Space;
        run: space_at(path: &LogicalPath) -> Space;
        run: stored_checksums(path: &LogicalPath) -> Vec<Checksum>;
        // Freeing the blocks of a large file takes long even with everything in memory.
        run_blocking: remove(path: &LogicalPath) -> ();
        run_blocking: remove_tree(path: &LogicalPath) -> Option<TreeFailure>;
        run_blocking: copy_tree(from: &LogicalPath, to: &LogicalPath; members: bool, replacing: Replacing) -> bool;
        run_blocking: move_over(from: &LogicalPath, to: &LogicalPath; replacing: Replacing) -> bool;
        // These make the new name durable.
        run_commit: rename(from: &LogicalPath, to: &LogicalPath; overwrite: Overwrite) -> bool;
        run_commit: copy(from: &LogicalPath, to: &LogicalPath; overwrite: Overwrite) -> Stat;
        run_commit: beside(path: &LogicalPath) -> Beside;
    }

    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store> {
        let acting = owner.map(|owner| {
            Arc::new(Acting {
                owner,
                storage: OnceCell::new(),
            })
        });
        Arc::new(Self { acting, ..self.clone() })
    }

    fn holding(&self, held: Held) -> Arc<dyn Store> {
        let held = Some(held);
        Arc::new(Self { held, ..self.clone() })
    }

    fn copies_system_files(&self) -> bool {
        true
    }

    fn usage(&self) -> Vec<VoUsage> {
        self.storage.usage()
    }

    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>> {
        Box::pin(async move {
            let path = path.clone();
            let listing = self.run(move |storage| storage.list(&path)).await?;
            let reader = BlockingDirectory {
                store: self.clone(),
                listing: Some(listing),
                unlisted: Unlisted::default(),
            };
            Ok(Box::new(reader) as Box<dyn DirectoryReader>)
        })
    }

    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>> {
        Box::pin(async move {
            let path = path.clone();
            let reader = self.run(move |storage| storage.open(&path)).await?;
            Ok(Arc::new(BlockingReader::on(&self.lane, reader)) as Arc<dyn ReadHandle>)
        })
    }

    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let (path, options) = (path.clone(), options.clone());
            let upload = self.run(move |storage| storage.create(&path, &options)).await?;
            Ok(self.writer(upload))
        })
    }

    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn WriteHandle>> {
        Box::pin(async move {
            let path = path.clone();
            let upload = self.run(move |storage| storage.open_update(&path)).await?;
            Ok(self.writer(upload))
        })
    }

    fn change_dead_properties<'a>(&'a self, path: &'a LogicalPath, change: ChangeProperties) -> Answer<'a, ()> {
        let path = path.clone();
        Box::pin(self.run_commit(move |storage| storage.change_dead_properties(&path, &change)))
    }

    fn store_checksums<'a>(
        &'a self,
        path: &'a LogicalPath,
        seen: &'a Stat,
        checksums: &'a [Checksum],
    ) -> Answer<'a, ()> {
        let (path, seen, checksums) = (path.clone(), seen.clone(), checksums.to_vec());
        Box::pin(self.run(move |storage| {
            let mut checksums = checksums.iter();
            checksums.try_for_each(|checksum| storage.store_checksum(&path, &seen, checksum))
        }))
    }
}

/// A directory of a blocking storage.
struct BlockingDirectory {
    store: BlockingStore,
    /// `None` at the end.
    listing: Option<Box<dyn Listing>>,
    unlisted: Unlisted,
}

impl BlockingDirectory {
    async fn read<T: Send + 'static>(
        &mut self,
        read: impl FnOnce(&mut dyn Listing) -> Result<Vec<T>> + Send + 'static,
    ) -> Result<Vec<T>> {
        let Some(mut listing) = self.listing.take() else {
            return Ok(Vec::new());
        };
        let read = self.store.run(move |_| Ok((read(listing.as_mut())?, listing)));
        let (batch, listing) = read.await?;
        if batch.is_empty() {
            self.unlisted = listing.unlisted();
        } else {
            self.listing = Some(listing);
        }
        Ok(batch)
    }
}

impl DirectoryReader for BlockingDirectory {
    fn next_batch(&mut self) -> Answer<'_, Vec<Entry>> {
        Box::pin(self.read(|listing| listing.next_batch()))
    }

    fn next_names(&mut self) -> Answer<'_, Vec<String>> {
        Box::pin(self.read(|listing| listing.next_names()))
    }

    fn unlisted(&self) -> Unlisted {
        self.unlisted.clone()
    }
}
