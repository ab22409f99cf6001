//! A store as doors and the engine hold it: asynchronous, whatever is behind it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use execution::Lane;
use types::{Checksum, LogicalPath, Result, Unlisted};

use crate::api::{
    CommitFacts, Entry, FileReader, Overwrite, Replacing, Space, Stat, TreeFailure, Upload, UploadOptions, VoUsage,
};
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
/// The calls do what those of the same name in [`Storage`](crate::Storage) do, with the same errors; those on an upload,
/// what the calls of [`Upload`] do. When the future of a call is dropped, what it began may go on to its end.
pub trait Store: Send + Sync + 'static {
    /// The same files as their owner may use them; `None`: as the server itself may. Replaces an owner given before.
    fn acting_for(&self, owner: Option<Arc<dyn FindOwner>>) -> Arc<dyn Store>;

    /// The same files, whose calls keep `held` until their work ends, even if nobody awaits it any more. Replaces what was
    /// held before.
    fn holding(&self, held: Held) -> Arc<dyn Store>;

    /// Decides on which thread calls on open files run.
    fn lane(&self) -> &Lane;

    /// What each virtual organisation takes that has a quota.
    fn usage(&self) -> Vec<VoUsage>;

    /// Whether what a name leads to over symbolic links may be used so.
    fn check_links<'a>(&'a self, path: &'a LogicalPath, used: LinkUse<'static>) -> Answer<'a, ()>;

    /// What stands at a name.
    fn stat<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Stat>;

    /// Begins to read a directory.
    fn list<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Box<dyn DirectoryReader>>;

    /// Opens a file for reading.
    fn open<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn FileReader>>;

    /// Begins an upload. Space and quota are asked here, before the first byte.
    fn create<'a>(&'a self, path: &'a LogicalPath, options: &'a UploadOptions) -> Answer<'a, Arc<dyn Upload>>;

    /// Opens a file to be changed where it lies.
    fn open_update<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Arc<dyn Upload>>;

    /// Publishes an upload: durable, verified, renamed over the final name. On an error the old file, if any, is still there.
    fn commit<'a>(&'a self, upload: &'a Arc<dyn Upload>, facts: CommitFacts) -> Answer<'a, Stat>;

    /// Cuts or extends a file that is being written.
    fn set_length<'a>(&'a self, upload: &'a Arc<dyn Upload>, size_bytes: u64) -> Answer<'a, ()>;

    /// Makes durable what was written to a file that is changed where it lies.
    fn sync<'a>(&'a self, upload: &'a Arc<dyn Upload>) -> Answer<'a, ()>;

    /// Makes a directory, with its parents where asked.
    fn make_directory<'a>(&'a self, path: &'a LogicalPath, parents: bool) -> Answer<'a, ()>;

    /// Removes a file or an empty directory.
    fn remove<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, ()>;

    /// Renames; whether something was replaced.
    fn rename<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, bool>;

    /// Copies a file within the store, without moving bytes where the file system can share them.
    fn copy<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, overwrite: Overwrite) -> Answer<'a, Stat>;

    /// Removes a directory with everything in it.
    fn remove_tree<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Option<TreeFailure>>;

    /// Copies a file or a directory; whether something was replaced.
    fn copy_tree<'a>(
        &'a self,
        from: &'a LogicalPath,
        to: &'a LogicalPath,
        members: bool,
        replacing: Replacing,
    ) -> Answer<'a, bool>;

    /// Gives something the name of what may be a directory; whether something was replaced.
    fn move_over<'a>(&'a self, from: &'a LogicalPath, to: &'a LogicalPath, replacing: Replacing) -> Answer<'a, bool>;

    /// Changes permission bits.
    fn set_mode<'a>(&'a self, path: &'a LogicalPath, mode: u32) -> Answer<'a, ()>;

    /// The names of the attributes that clients gave.
    fn attributes<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<String>>;

    /// The value of an attribute.
    fn attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, Option<Vec<u8>>>;

    /// Gives an attribute.
    fn set_attribute<'a>(
        &'a self,
        path: &'a LogicalPath,
        name: &'a str,
        value: &'a [u8],
        overwrite: Overwrite,
    ) -> Answer<'a, ()>;

    /// Takes an attribute away; whether there was one.
    fn remove_attribute<'a>(&'a self, path: &'a LogicalPath, name: &'a str) -> Answer<'a, bool>;

    /// The dead properties that WebDAV clients gave.
    fn dead_properties<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<u8>>;

    /// The same of names in a directory, in their order.
    fn dead_properties_in<'a>(&'a self, directory: &'a LogicalPath, names: &'a [String]) -> Answer<'a, Vec<Vec<u8>>>;

    /// Replaces them by what `change` makes of them.
    fn change_dead_properties<'a>(&'a self, path: &'a LogicalPath, change: ChangeProperties) -> Answer<'a, ()>;

    /// Space of the export.
    fn space(&self) -> Answer<'_, Space>;

    /// Space at a place: of the quota of the virtual organisation for which this acts, if it has one there.
    fn space_at<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Space>;

    /// The checksums kept with a file, at once.
    fn stored_checksums<'a>(&'a self, path: &'a LogicalPath) -> Answer<'a, Vec<Checksum>>;

    /// Keeps checksums that were computed while `seen` was read.
    fn store_checksums<'a>(
        &'a self,
        path: &'a LogicalPath,
        seen: &'a Stat,
        checksums: &'a [Checksum],
    ) -> Answer<'a, ()>;
}
