//! Looks into the directory of a cache, of a running server too.
//!
//! Nothing is locked: what is read is checked by its checksums, and a file that is removed loses
//! only its name. A running server notices that at the next open of the file.

use std::fs::ReadDir;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use types::{ByteRange, LogicalPath};

use crate::file::{BlockFile, Found};
use crate::key::{Key, SHELVES, shelf};
use crate::limits::{BLOCK_BYTES, PART_BYTES};
use crate::origins;

/// A cached file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// The name of the origin.
    pub origin: String,
    /// The path there.
    pub path: String,
    /// The size of the whole file.
    pub size_bytes: u64,
    /// What is stored of it.
    pub stored_bytes: u64,
    /// When the file was modified at the origin.
    pub modified: SystemTime,
    /// When it was last used, to within the time that it was open.
    pub used: SystemTime,
    /// Where it is.
    pub file: PathBuf,
}

/// What [`verify`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks whose checksums are right.
    pub good_blocks: u64,
    /// Blocks with a wrong checksum.
    pub bad_blocks: u64,
}

/// All cached files, one shelf after another. What is no cached file is left out.
///
/// # Errors
/// The directory is no cache.
pub fn files(directory: &Path) -> io::Result<impl Iterator<Item = CachedFile>> {
    std::fs::metadata(directory.join("lock"))?;
    let directory = directory.to_owned();
    let shelves = (0..SHELVES).filter_map(move |number| std::fs::read_dir(shelf(&directory, number)).ok());
    Ok(shelves
        .flat_map(ReadDir::flatten)
        .filter_map(|entry| look(&entry.path())))
}

/// The cached files with this path: of each origin at most one.
///
/// # Errors
/// The directory is no cache.
pub fn find(directory: &Path, path: &LogicalPath) -> io::Result<Vec<CachedFile>> {
    std::fs::metadata(directory.join("lock"))?;
    let places = origins::all(directory)
        .into_iter()
        .map(|origin| Key::of(&origin, path).file(directory));
    Ok(places.filter_map(|file| look(&file)).collect())
}

fn look(path: &Path) -> Option<CachedFile> {
    let file = BlockFile::open_to_read(path).ok()??;
    let facts = std::fs::metadata(path).ok()?;
    let used_s = u64::try_from(facts.atime().max(facts.mtime())).unwrap_or(0);
    Some(CachedFile {
        size_bytes: file.header.version.size_bytes,
        stored_bytes: file.stored_bytes().ok()?,
        modified: file.header.version.modified,
        used: UNIX_EPOCH + Duration::from_secs(used_s),
        file: path.to_owned(),
        origin: file.header.origin,
        path: file.header.path,
    })
}

/// Reads all blocks of a cached file and compares their checksums. With `repair`, bad blocks are
/// removed, so that they are fetched again.
///
/// # Errors
/// The file cannot be read.
pub fn verify(cached: &CachedFile, repair: bool) -> io::Result<Verified> {
    let opened = match repair {
        true => BlockFile::open(&cached.file)?,
        false => BlockFile::open_to_read(&cached.file)?,
    };
    let mut verified = Verified::default();
    let Some(file) = opened else { return Ok(verified) };
    let mut buffer = vec![0; PART_BYTES];
    for block in 0..file.places.blocks() {
        // A block that a server is just replacing is whole at the second look.
        let found = match check_block(&file, block, &mut buffer)? {
            Some(false) => check_block(&file, block, &mut buffer)?,
            found => found,
        };
        match found {
            Some(true) => verified.good_blocks += 1,
            Some(false) => {
                verified.bad_blocks += 1;
                if repair {
                    file.clear(block)?;
                }
            }
            None => {}
        }
    }
    Ok(verified)
}

/// Whether a block is whole; `None` if it is not stored.
fn check_block(file: &BlockFile, block: u64, buffer: &mut [u8]) -> io::Result<Option<bool>> {
    let start = block * BLOCK_BYTES;
    let mut left = ByteRange::new(start, start + file.places.block_bytes(block));
    while !left.is_empty() {
        match file.read(left, buffer)? {
            Found::Data(place) => left.take_front(place.len() as u64),
            Found::Absent => return Ok(None),
            Found::Damaged => return Ok(Some(false)),
        };
    }
    Ok(Some(true))
}

/// Removes a cached file. Clients that are reading it get the rest.
///
/// # Errors
/// It cannot be removed; that it is gone already is no error.
pub fn evict(cached: &CachedFile) -> io::Result<()> {
    match std::fs::remove_file(&cached.file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
