//! The traits that a blocking back end implements, and the values that they exchange.
//!
//! All calls block; a [`Lane`](execution::Lane) decides where, so a back end knows no runtime.

mod listing;
mod reader;
mod space;
mod stat;
mod tree;
mod upload;

use std::sync::Arc;

use types::{Checksum, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::aside::{Beside, COPIED, name_aside};
use crate::links::LinkUse;
use crate::owner::Owner;

pub use listing::{Entry, Listing};
pub(crate) use reader::check_unchanged;
pub use reader::{FileReader, Patience};
pub use space::{Space, VoUsage};
pub(crate) use stat::seconds_and_nanoseconds;
pub use stat::{Kind, Stat};
pub use tree::{Replacing, TreeFailure};
pub(crate) use upload::copy_bytes;
pub use upload::{CommitFacts, OldFile, Overwrite, Upload, UploadOptions};

/// The files of one export. All calls block.
pub trait Storage: Send + Sync + 'static {
    /// The same files with the rights of an owner: for opening, listing, changing and removing; new
    /// files belong to that user. `None` for a store without users and VOs.
    fn acting_for(&self, _owner: &Owner) -> Option<Arc<dyn Storage>> {
        None
    }

    /// Whether the owner's link checker allows this use of a name's target behind links. For
    /// [`LinkUse::Create`] and [`LinkUse::Overwrite`] the directory counts. A missing target is no
    /// refusal.
    ///
    /// # Errors
    /// The refusal; as [`Storage::stat`].
    fn check_links(&self, _path: &LogicalPath, _used: LinkUse<'_>) -> Result<()> {
        Ok(())
    }

    /// The properties of a name. Symbolic links are followed while they stay within the export.
    ///
    /// # Errors
    /// `not_found`, `not_directory`, `symlink_escapes`, `forbidden`, `path_refused` if it is
    /// neither file nor directory, `storage_failed`.
    fn stat(&self, path: &LogicalPath) -> Result<Stat>;

    /// Starts reading a directory. Behind a link, the owner must be allowed to look at it as well.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `not_directory` for a file.
    fn list(&self, path: &LogicalPath) -> Result<Box<dyn Listing>>;

    /// Opens a file for reading. The reader keeps this file even if the name is overwritten.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `is_directory` for a directory.
    fn open(&self, path: &LogicalPath) -> Result<Arc<dyn FileReader>>;

    /// Starts an upload. Nothing is visible under the name before [`Upload::commit`].
    ///
    /// # Errors
    /// `no_space` and `quota_exceeded` before the first byte, `exists` when overwriting is refused,
    /// `is_directory`, `parent_missing`, `not_directory`, `path_refused`, `read_only`, `forbidden`.
    fn create(&self, path: &LogicalPath, options: &UploadOptions) -> Result<Arc<dyn Upload>>;

    /// Creates a directory, and with `parents` its missing parents.
    ///
    /// # Errors
    /// `directory_exists`, `exists` for a file, `parent_missing`, `not_directory`, `read_only`.
    fn make_directory(&self, path: &LogicalPath, parents: bool) -> Result<()>;

    /// Removes a file or an empty directory. A symbolic link itself is removed, not its target.
    ///
    /// # Errors
    /// `not_found`, `not_empty`, `forbidden` for the root, `read_only`.
    fn remove(&self, path: &LogicalPath) -> Result<()>;

    /// Removes a directory with everything in it; never follows links. The name disappears in one
    /// step first. What cannot be removed reappears under it; one example is returned.
    ///
    /// # Errors
    /// As [`Storage::remove`], before anything is removed. `not_empty` if it contains names that no
    /// path can hold, which no listing shows. `path_refused` if the path leads through a symbolic
    /// link; `busy` if another file system is mounted below; `forbidden` if something below may not
    /// be removed, or another export begins there; `not_implemented` for a store that cannot do it.
    fn remove_tree(&self, path: &LogicalPath) -> Result<Option<TreeFailure>> {
        Err(not_offered(path))
    }

    /// Copies a file, or a directory and with `members` everything in it; visible in one step when
    /// complete. Copies links as links; leaves out pipes and the like. Returns whether it replaced
    /// something.
    ///
    /// # Errors
    /// As [`Storage::copy`], before anything is visible; `exists` and `not_empty`, depending on
    /// `replacing`; `forbidden` into itself; `path_refused` through a link; `cross_export` across a
    /// quota; as [`Storage::remove_tree`] for what is replaced.
    fn copy_tree(&self, _from: &LogicalPath, to: &LogicalPath, _members: bool, _replacing: Replacing) -> Result<bool> {
        Err(not_offered(to))
    }

    /// A new name beside another one, for a copy that is to replace it. If the server dies, the
    /// next start removes what has it.
    ///
    /// # Errors
    /// `read_only`; `storage_failed`.
    fn beside(&self, path: &LogicalPath) -> Result<Beside> {
        let path = name_aside(path, COPIED)?;
        Ok(Beside { path, held: None })
    }

    /// Renames a file or directory over another name, which may be a directory and is then removed.
    ///
    /// # Errors
    /// As [`Storage::rename`] and [`Storage::copy_tree`].
    fn move_over(&self, _from: &LogicalPath, to: &LogicalPath, _replacing: Replacing) -> Result<bool> {
        Err(not_offered(to))
    }

    /// Renames a file or directory; returns whether an old file was replaced.
    ///
    /// # Errors
    /// `not_found`, `exists` when overwriting is refused, `is_directory` if the target is a
    /// directory, `parent_missing`, `forbidden` for the root or into itself, `cross_export`.
    fn rename(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<bool>;

    /// Copies a file and its stored checksums, sharing blocks where the file system can.
    ///
    /// # Errors
    /// Those of [`Storage::open`], [`Storage::create`] and [`Upload::commit`]; `source_changed`.
    fn copy(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<Stat> {
        let source = self.open(from)?;
        let size_bytes = source.stat().size_bytes;
        let checksums = self.stored_checksums(from)?;
        let unchanged = self.stat(from)?.same_content(source.stat());
        let options = UploadOptions {
            size_bytes: Some(size_bytes),
            overwrite,
            ..UploadOptions::default()
        };
        let upload = self.create(to, &options)?;
        upload
            .copy_from(source.as_ref())
            .map_err(|error| match error.side() == Side::Source {
                true => error.with_subject(from),
                false => error,
            })?;
        let checksums = if unchanged { checksums } else { Vec::new() };
        upload.commit(&CommitFacts {
            size_bytes,
            checksums,
            modified: None,
            mode: None,
        })
    }

    /// The stored checksums of a file that are still valid; often none.
    ///
    /// # Errors
    /// As [`Storage::open`].
    fn stored_checksums(&self, path: &LogicalPath) -> Result<Vec<Checksum>>;

    /// Stores a checksum computed over the file in state `seen`; does nothing if that is
    /// unsupported.
    ///
    /// # Errors
    /// As [`Storage::open`]; `source_changed` when the file has changed since.
    fn store_checksum(&self, path: &LogicalPath, seen: &Stat, checksum: &Checksum) -> Result<()>;

    /// The space of the export.
    ///
    /// # Errors
    /// `storage_failed`.
    fn space(&self) -> Result<Space>;

    /// The space at a path for the owner: within its VO's quota, if it has one there.
    ///
    /// # Errors
    /// `storage_failed`.
    fn space_at(&self, _path: &LogicalPath) -> Result<Space> {
        self.space()
    }

    /// The usage of each VO that has a quota.
    fn usage(&self) -> Vec<VoUsage> {
        Vec::new()
    }

    /// Opens an existing file for changes in place, as XRootD's open for update asks. This breaks
    /// all promises about uploads: writes are visible at once, [`Upload::abort`] undoes nothing,
    /// and [`Upload::commit`] only makes the data durable. The first change removes stored
    /// checksums.
    ///
    /// # Errors
    /// As [`Storage::open`]; `read_only`; `not_implemented` for a store that cannot do it.
    fn open_update(&self, path: &LogicalPath) -> Result<Arc<dyn Upload>> {
        Err(not_offered(path))
    }

    /// Changes the permission bits (`0o777` and below), also of an unreadable file.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `forbidden` for the root; `read_only`; `not_implemented` without
    /// modes.
    fn set_mode(&self, path: &LogicalPath, _mode: u32) -> Result<()> {
        Err(not_offered(path))
    }

    /// The names of the attributes that clients set on a file or directory, in no particular order.
    ///
    /// # Errors
    /// As [`Storage::stat`]; `not_implemented` for a store without attributes.
    fn attributes(&self, path: &LogicalPath) -> Result<Vec<String>> {
        Err(not_offered(path))
    }

    /// The value of an attribute; `None` if there is none with this name.
    ///
    /// # Errors
    /// As [`Storage::attributes`].
    fn attribute(&self, path: &LogicalPath, _name: &str) -> Result<Option<Vec<u8>>> {
        Err(not_offered(path))
    }

    /// Sets an attribute of a file or directory.
    ///
    /// # Errors
    /// As [`Storage::attributes`]; `exists` if it exists and may not be replaced; `name_too_long`,
    /// `no_space` (file systems limit them), `read_only`.
    fn set_attribute(&self, path: &LogicalPath, _name: &str, _value: &[u8], _overwrite: Overwrite) -> Result<()> {
        Err(not_offered(path))
    }

    /// The dead properties that WebDAV clients set on a file or directory, in the door's encoding;
    /// empty if there are none. They are not among the [`Storage::attributes`].
    ///
    /// # Errors
    /// As [`Storage::stat`].
    fn dead_properties(&self, path: &LogicalPath) -> Result<Vec<u8>> {
        self.stat(path).map(|_| Vec::new())
    }

    /// The dead properties of some names in a directory, in their order; empty for unreadable ones.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    fn dead_properties_in(&self, directory: &LogicalPath, names: &[String]) -> Result<Vec<Vec<u8>>> {
        let read = |name: &String| self.dead_properties(&directory.join(name)?);
        Ok(names.iter().map(|name| read(name).unwrap_or_default()).collect())
    }

    /// Replaces the dead properties by the result of `change`, atomically.
    ///
    /// # Errors
    /// Those of `change`; as [`Storage::set_attribute`].
    fn change_dead_properties(&self, path: &LogicalPath, _change: &dyn Fn(&[u8]) -> Result<Vec<u8>>) -> Result<()> {
        Err(not_offered(path))
    }

    /// Removes an attribute; returns whether it existed.
    ///
    /// # Errors
    /// As [`Storage::attributes`]; `read_only`.
    fn remove_attribute(&self, path: &LogicalPath, _name: &str) -> Result<bool> {
        Err(not_offered(path))
    }
}

fn not_offered(path: &LogicalPath) -> Error {
    crate::fault::fault(ErrorCode::NotImplemented, Phase::Open)
        .with_detail("this store does not support it")
        .with_subject(path)
}
