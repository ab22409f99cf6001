//! A store as doors and the engine hold it: asynchronous, whatever is behind it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use types::{Checksum, ErrorCode, LogicalPath, Phase, Result, Unlisted};

use crate::api::{Entry, Overwrite, Replacing, Space, Stat, TreeFailure, UploadOptions, VoUsage};
use crate::fault::fault;
use crate::handle::{ReadHandle, WriteHandle};
use crate::links::LinkUse;
use crate::owner::Owner;

/// What a call gives when it is awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Kept alive by the calls of a store: see [`Store::holding`].
pub type Held = Arc<dyn Any + Send + Sync>;

/// Replaces the dead properties: see [`Store::change_dead_properties`].
pub type ChangeProperties = Box<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send>;

/// Finds out for whom a store acts.
pub trait FindOwner: Send + Sync {
    /// Looks the owner up. Asked before the first call of the store, and again before each one after it failed.
    fn find(&self) -> Answer<'_, Owner>;
}

/// A directory being read, a batch at a time.
pub trait DirectoryReader: Send {
    /// The next entries in no particular order; empty at the end. After an error the end is reached.
    fn next_batch(&mut self) -> Answer<'_, Vec<Entry>>;

    /// Names that were left out, once the end has been reached. Hidden names are not among them.
    fn unlisted(&self) -> Unlisted;
}

/// The files of one export.
///
/// The calls do what those of the same name in [`Storage`](crate::Storage) do, with the same
/// errors. When the future of a call is dropped, what it began may go on to its end. What has a
/// default here is optional: the default answers `not_implemented`, or that there is nothing.
pub trait Store: Send + Sync + 'static {
    /// The same files as their owner may use them; `None`: as the server itself may. Replaces an owner given before.
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store>;

    /// The same files, whose calls keep `held` until their work ends, even if nobody awaits it any more. Replaces what was
    /// held before.
    fn holding(&self, held: Held) -> Arc<dyn Store>;

    /// What each virtual organisation takes that has a quota.
    fn usage(&self) -> Vec<VoUsage> {
        Vec::new()
    }

    /// Whether what a name leads to over symbolic links may be used so.
    fn check_links<'a>(&'a self, _path: &'a LogicalPath, _used: LinkUse<'static>) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// What stands at a name.
    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat>;

    /// Begins to read a directory.
    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>>;

    /// Opens a file for reading.
    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn ReadHandle>>;

    /// Begins an upload. Space and quota are asked here, before the first byte.
    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn WriteHandle>>;

    /// Opens a file to be changed where it lies.
    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn WriteHandle>> {
        not_offered(path)
    }

    /// Makes a directory, with its parents where asked.
    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()>;

    /// Removes a file or an empty directory.
    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()>;

    /// Renames; whether something was replaced.
    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool>;

    /// Copies a file within the store, without moving bytes where the file system can share them.
    fn copy<'a>(&'a self, _from: &'a LogicalPath, to: &'a LogicalPath, _overwrite: Overwrite) -> Answer<'a, Stat> {
        not_offered(to)
    }

    /// Removes a directory with everything in it.
    fn remove_tree<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Option<TreeFailure>> {
        not_offered(path)
    }

    /// Copies a file or a directory; whether something was replaced.
    fn copy_tree<'a>(
        &'a self,
        _from: &'a LogicalPath,
        to: &'a LogicalPath,
        _members: bool,
        _replacing: Replacing,
    ) -> Answer<'a, bool> {
        not_offered(to)
    }

    /// Gives something the name of what may be a directory; whether something was replaced.
    fn move_over<'a>(&'a self, _from: &'a LogicalPath, to: &'a LogicalPath, _replacing: Replacing) -> Answer<'a, bool> {
        not_offered(to)
    }

    /// Changes permission bits.
    fn set_mode<'a>(&'a self, path: &'a LogicalPath, _mode: u32) -> Answer<'a, ()> {
        not_offered(path)
    }

    /// The names of the attributes that clients gave.
    fn attributes<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<String>> {
        not_offered(path)
    }

    /// The value of an attribute.
    fn attribute<'a>(&'a self, path: &'a LogicalPath, _name: &'a str) -> Answer<'a, Option<Vec<u8>>> {
        not_offered(path)
    }

    /// Gives an attribute.
    fn set_attribute<'a>(
        &'a self,
        path: &'a LogicalPath,
        _name: &'a str,
        _value: &'a [u8],
        _overwrite: Overwrite,
    ) -> Answer<'a, ()> {
        not_offered(path)
    }

    /// Takes an attribute away; whether there was one.
    fn remove_attribute<'a>(&'a self, path: &'a LogicalPath, _name: &'a str) -> Answer<'a, bool> {
        not_offered(path)
    }

    /// The dead properties that WebDAV clients gave.
    fn dead_properties<'a>(&'a self, _path: &'a LogicalPath) -> Answer<'a, Vec<u8>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The same of names in a directory, in their order.
    fn dead_properties_in<'a>(&'a self, _directory: &'a LogicalPath, names: &'a [String]) -> Answer<'a, Vec<Vec<u8>>> {
        Box::pin(async { Ok(vec![Vec::new(); names.len()]) })
    }

    /// Replaces them by what `change` makes of them.
    fn change_dead_properties<'a>(&'a self, path: &'a LogicalPath, _change: ChangeProperties) -> Answer<'a, ()> {
        not_offered(path)
    }

    /// Space of the export.
    fn space(&self) -> Answer<'_, Space>;

    /// Space at a place: of the quota of the virtual organisation for which this acts, if it has one there.
    fn space_at<'a>(&'a self, _path: &'a LogicalPath) -> Answer<'a, Space> {
        self.space()
    }

    /// The checksums kept with a file, at once.
    fn stored_checksums<'a>(&'a self, _path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Keeps checksums that were computed while `seen` was read.
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
        let error = fault(ErrorCode::NotImplemented, Phase::Open).with_detail("this store does not offer it");
        Err(error.with_subject(path))
    })
}
