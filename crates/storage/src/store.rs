//! The asynchronous store that doors and engine use, whatever the back end.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use types::{Checksum, ChecksumAlgorithm, ErrorCode, LogicalPath, Phase, Result, Unlisted};

use crate::api::{Entry, Overwrite, Replacing, Space, Stat, TreeFailure, UploadOptions, VoUsage};
use crate::aside::{Beside, COPIED, name_aside};
use crate::fault::fault;
use crate::handle::{ReadHandle, WriteHandle};
use crate::links::{LinkChecker, LinkUse};
use crate::owner::Owner;

/// The future that a call returns.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Kept alive by running calls: see [`Store::holding`].
pub type Held = Arc<dyn Any + Send + Sync>;

/// The last question before something is replaced: see [`Store::replace`].
pub type Check<'a> = Answer<'a, ()>;

/// Computes new dead properties: see [`Store::change_dead_properties`].
pub type ChangeProperties = Box<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send>;

/// Looks up whom a store acts for.
pub trait FindOwner: Send + Sync {
    /// Looks up the owner: before the first call of the store, and after a failure before the next
    /// one.
    fn find(&self) -> Answer<'_, Owner>;

    /// Knows the rights of the client in the store; `None` if they are the same everywhere.
    fn rights(&self) -> Option<Arc<dyn LinkChecker>> {
        None
    }
}

/// A directory that is read in batches.
pub trait DirectoryReader: Send {
    /// The next entries in no particular order; empty at the end and after an error.
    fn next_batch(&mut self) -> Answer<'_, Vec<Entry>>;

    /// The names of the next entries, for callers that need no properties.
    fn next_names(&mut self) -> Answer<'_, Vec<String>> {
        let batch = self.next_batch();
        Box::pin(async move { Ok(batch.await?.into_iter().map(|entry| entry.name).collect()) })
    }

    /// Names that were left out, known at the end. Hidden names are not included.
    fn unlisted(&self) -> Unlisted;
}

/// The files of one export.
///
/// The calls do the same as those in [`Storage`](crate::Storage), with the same errors. If the
/// future of a call is dropped, its work may continue to the end. Calls with a default are
/// optional: the default answers `not_implemented`, or that nothing exists.
pub trait Store: Send + Sync + 'static {
    /// The same files with the rights of an owner; `None`: of the server. Replaces an earlier
    /// owner.
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store>;

    /// The same files, whose calls hold `held` until their work ends, even if no caller waits any
    /// longer. Replaces what was held before.
    fn holding(&self, held: Held) -> Arc<dyn Store>;

    /// The usage of each virtual organisation that has a quota.
    fn usage(&self) -> Vec<VoUsage> {
        Vec::new()
    }

    /// Whether the target of symbolic links in a path may be used in this way.
    fn check_links<'a>(&'a self, _path: &'a LogicalPath, _used: LinkUse<'static>) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Whether files and directories can be renamed.
    fn renames(&self) -> bool {
        true
    }

    /// The same files, for a reader who wants their state of at most `age` ago. `None`: this store
    /// has no cache, and reads are always of the present.
    fn checked_within(&self, _age: Duration) -> Option<Arc<dyn Store>> {
        None
    }

    /// How long ago the origin was asked about a file that its cache has as a whole, in this
    /// version. `None`: some of it is not cached, or there is no cache.
    fn cached_age<'a>(&'a self, _path: &'a LogicalPath, _version: &'a Stat) -> Answer<'a, Option<Duration>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether uploads take files of the operating system as they are
    /// ([`WriteHandle::copy_system_file`]).
    fn copies_system_files(&self) -> bool {
        false
    }

    /// The properties of a name.
    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat>;

    /// Starts reading a directory.
    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>>;

    /// Opens a file for reading.
    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>>;

    /// Starts an upload. Space and quota are checked here, before the first byte.
    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>>;

    /// Opens a file for changes in place.
    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn WriteHandle>> {
        not_offered(path)
    }

    /// Creates a directory, and on request its parents.
    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()>;

    /// Removes a file or an empty directory.
    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()>;

    /// Renames; returns whether something was replaced.
    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool>;

    /// Copies a file within the store, sharing blocks where the file system can.
    fn copy<'a>(&'a self, _from: &'a LogicalPath, to: &'a LogicalPath, _overwrite: Overwrite) -> Answer<'a, Stat> {
        not_offered(to)
    }

    /// Removes a directory with everything in it.
    fn remove_tree<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Option<TreeFailure>> {
        not_offered(path)
    }

    /// Copies a file or a directory; returns whether something was replaced.
    fn copy_tree<'a>(
        &'a self,
        _from: &'a LogicalPath,
        to: &'a LogicalPath,
        _members: bool,
        _replacing: Replacing,
    ) -> Answer<'a, bool> {
        not_offered(to)
    }

    /// A new name beside another one, for what is to replace it. If this process ends first, what
    /// has it is removed later, where the store can. So it is after the result is dropped.
    fn beside<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Beside> {
        Box::pin(async move {
            let path = name_aside(path, COPIED)?;
            Ok(Beside { path, held: None })
        })
    }

    /// As [`Store::move_over`], if `check` agrees. Where the store can, it asks while the old one
    /// has another name already: then `check` sees what else goes with it.
    fn replace<'a>(
        &'a self,
        from: &'a LogicalPath,
        to: &'a LogicalPath,
        replacing: Replacing,
        check: Check<'a>,
    ) -> Answer<'a, bool> {
        Box::pin(async move {
            check.await?;
            self.move_over(from, to, replacing).await
        })
    }

    /// Renames over a name that may be a directory; returns whether something was replaced.
    fn move_over<'a>(&'a self, _from: &'a LogicalPath, to: &'a LogicalPath, _replacing: Replacing) -> Answer<'a, bool> {
        not_offered(to)
    }

    /// Changes permission bits.
    fn set_mode<'a>(&'a self, path: &'a LogicalPath, _mode: u32) -> Answer<'a, ()> {
        not_offered(path)
    }

    /// The names of the attributes that clients set.
    fn attributes<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<String>> {
        not_offered(path)
    }

    /// The value of an attribute.
    fn attribute<'a>(&'a self, path: &'a LogicalPath, _name: &'a str) -> Answer<'a, Option<Vec<u8>>> {
        not_offered(path)
    }

    /// Sets an attribute.
    fn set_attribute<'a>(
        &'a self,
        path: &'a LogicalPath,
        _name: &'a str,
        _value: &'a [u8],
        _overwrite: Overwrite,
    ) -> Answer<'a, ()> {
        not_offered(path)
    }

    /// Removes an attribute; returns whether it existed.
    fn remove_attribute<'a>(&'a self, path: &'a LogicalPath, _name: &'a str) -> Answer<'a, bool> {
        not_offered(path)
    }

    /// The dead properties that WebDAV clients set.
    fn dead_properties<'a>(&'a self, _path: &'a LogicalPath) -> Answer<'a, Vec<u8>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The dead properties of names in a directory, in their order.
    fn dead_properties_in<'a>(&'a self, _directory: &'a LogicalPath, names: &'a [String]) -> Answer<'a, Vec<Vec<u8>>> {
        Box::pin(async { Ok(vec![Vec::new(); names.len()]) })
    }

    /// Replaces the dead properties by the result of `change`.
    fn change_dead_properties<'a>(&'a self, path: &'a LogicalPath, _change: ChangeProperties) -> Answer<'a, ()> {
        not_offered(path)
    }

    /// The space of the export.
    fn space(&self) -> Answer<'_, Space>;

    /// The space at a path: within the owner's VO quota, if it has one there.
    fn space_at<'a>(&'a self, _path: &'a LogicalPath) -> Answer<'a, Space> {
        self.space()
    }

    /// The stored checksums of a file, at once.
    fn stored_checksums<'a>(&'a self, _path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The checksum of a file, from the server that has it: a store that reads its files over a
    /// network need not read them for that. `None`: it has to be computed here.
    fn origin_checksum<'a>(
        &'a self,
        _path: &'a LogicalPath,
        _algorithm: ChecksumAlgorithm,
    ) -> Answer<'a, Option<Checksum>> {
        Box::pin(async { Ok(None) })
    }

    /// Stores checksums that were computed while `seen` was read.
    fn store_checksums<'a>(
        &'a self,
        _path: &'a LogicalPath,
        _seen: &'a Stat,
        _checksums: &'a [Checksum],
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn not_offered<'a, T: 'a>(path: &'a LogicalPath) -> Answer<'a, T> {
    Box::pin(async move {
        let error = fault(ErrorCode::NotImplemented, Phase::Open).with_detail("this store does not support it");
        Err(error.with_subject(path))
    })
}
