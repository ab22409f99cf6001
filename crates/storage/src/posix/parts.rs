//! Where parts of uploads are kept, and how those of dead servers are removed.
//!
//! Each running server has a directory `.crossload/uploads/<instance>` and holds a lock on its file
//! `lock`. If the lock can be taken, the server is dead, and everything in its directory is
//! removed, including trees that it was removing or creating. Parts of local users belong to them
//! and are in a separate subdirectory. A part that has to be elsewhere, on another file system
//! below the same export, is first recorded in a journal entry here, so that it is found too. So is
//! the name of a copy that is to replace something.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use types::limits::PATH_BYTES_MAX;
use types::{LogicalPath, Phase, Result};

use super::identity::Acting;
use super::is_directory;
use super::resolve::{HIDDEN_DIRECTORY, Root, beside_name, is_part_beside};
use super::tree::unlink_tree;
use crate::aside::COPIED;
use crate::fault::from_errno;

const LOCK: &str = "lock";
/// The subdirectory for parts of local users.
const USERS: &str = "users";
const JOURNAL_SUFFIX: &str = ".elsewhere";

/// What start-up found and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Dead servers on this file system.
    pub instances: u64,
    /// Parts that they left.
    pub parts: u64,
    /// What could not be removed, for lack of rights for example. It stays hidden until the next
    /// start-up tries again.
    pub failed: u64,
}

/// The hidden file that an upload writes to.
pub(crate) struct Part {
    pub(crate) file: File,
    instance: Arc<Instance>,
    id: String,
    name: String,
    home: Home,
}

/// The directory that contains a part.
enum Home {
    /// The instance's own.
    Instance,
    /// Its subdirectory for parts of local users.
    Users,
    /// A directory on another file system or mount.
    Elsewhere(OwnedFd),
}

impl Part {
    /// Creates a part on the file system of the instance. `by_user`: this thread acts as a local
    /// user, and [`Instance::make_users_directory`] has been called.
    pub(crate) fn make_at_home(instance: &Arc<Instance>, by_user: bool) -> Result<Self, Errno> {
        let id = fresh_id();
        let name = format!("{id}.part");
        let home = if by_user { Home::Users } else { Home::Instance };
        let file = open_new(instance.directory_of(&home), &name)?;
        Ok(Self {
            file,
            instance: Arc::clone(instance),
            id,
            name,
            home,
        })
    }

    /// Creates a part in `directory`, whose path is `place`, because the instance is on another
    /// file system or mount. The journal entry comes first.
    pub(crate) fn make_elsewhere(
        instance: &Arc<Instance>,
        directory: OwnedFd,
        place: &LogicalPath,
        acting: &mut Acting<'_>,
    ) -> Result<Result<Self, Errno>> {
        let id = fresh_id();
        let name = beside_name(&id);
        // The journal belongs to the server, the part to the user.
        if let Err(errno) = acting.suspended(|| instance.note_elsewhere(&id, place, &name))? {
            return Ok(Err(errno));
        }
        let file = match open_new(directory.as_fd(), &name) {
            Ok(file) => file,
            Err(errno) => {
                acting.suspended(|| instance.forget_elsewhere(&id))?;
                return Ok(Err(errno));
            }
        };
        Ok(Ok(Self {
            file,
            instance: Arc::clone(instance),
            id,
            name,
            home: Home::Elsewhere(directory),
        }))
    }

    /// Its directory, and its name there.
    pub(crate) fn place(&self) -> (BorrowedFd<'_>, &str) {
        (self.instance.directory_of(&self.home), &self.name)
    }

    /// Whether it is on another file system or mount than the instance.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.home, Home::Elsewhere(_))
    }

    /// Removes the part, if its name still refers to the opened file.
    pub(crate) fn unlink(&self) {
        let (directory, name) = self.place();
        let ours = fs::fstat(&self.file);
        let there = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(ours), Ok(there)) = (ours, there)
            && (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
        {
            // If this fails, the next start-up removes it.
            let _ = fs::unlinkat(directory, name, AtFlags::empty());
        }
    }

    /// The part has its final name or is gone, so the journal entry (which belongs to the server)
    /// is removed.
    pub(crate) fn forget(&self) {
        if self.is_elsewhere() {
            self.instance.forget_elsewhere(&self.id);
        }
    }
}

/// A name in the same directories for something that is not a part.
pub(crate) struct HiddenName {
    id: String,
    name: String,
    home: Home,
}

fn open_new(directory: BorrowedFd<'_>, name: &str) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(directory, name, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

/// This server's directory for parts.
pub(crate) struct Instance {
    uploads: OwnedFd,
    directory: OwnedFd,
    /// The directory for parts of local users, once needed.
    users: OnceLock<OwnedFd>,
    name: String,
    _lock: OwnedFd,
}

fn open_directory(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, name, flags, Mode::empty())
}

fn make_and_open(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    match fs::mkdirat(at, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open_directory(at, name),
        Err(errno) => Err(errno),
    }
}

fn open_lock(at: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, LOCK, flags, Mode::RUSR | Mode::WUSR)
}

/// A name that no other upload or server has. The system would refuse a collision anyway.
fn fresh_id() -> String {
    // Each `RandomState` of a process has keys of its own.
    let process = std::process::id();
    let random = RandomState::new().hash_one((process, std::time::SystemTime::now()));
    format!("{process:x}-{random:016x}")
}

impl Instance {
    /// Removes what dead servers left, and creates a directory for this one. Servers that start at
    /// the same time do this one after another.
    pub(crate) fn start(root: &Root) -> Result<(Self, Cleaned)> {
        Self::start_raw(root).map_err(|errno| from_errno(errno, Phase::Cleanup))
    }

    fn start_raw(root: &Root) -> Result<(Self, Cleaned), Errno> {
        let hidden = make_and_open(root.fd(), HIDDEN_DIRECTORY)?;
        let uploads = make_and_open(hidden.as_fd(), "uploads")?;
        let start_up = open_lock(hidden.as_fd())?;
        fs::flock(&start_up, FlockOperation::LockExclusive)?;
        let cleaned = clean_dead(root, uploads.as_fd())?;
        let name = fresh_id();
        fs::mkdirat(&uploads, name.as_str(), Mode::RWXU)?;
        let directory = open_directory(uploads.as_fd(), &name)?;
        let lock = open_lock(directory.as_fd())?;
        fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok((
            Self {
                uploads,
                directory,
                users: OnceLock::new(),
                name,
                _lock: lock,
            },
            cleaned,
        ))
    }

    /// Whether its directory was removed, so that no part can be created there.
    pub(crate) fn is_gone(&self) -> bool {
        fs::fstat(&self.directory).is_ok_and(|raw| raw.st_nlink == 0)
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    fn directory_of<'a>(&'a self, home: &'a Home) -> BorrowedFd<'a> {
        match home {
            Home::Instance => self.directory(),
            Home::Users => self.users.get().map_or(self.directory(), |users| users.as_fd()),
            Home::Elsewhere(directory) => directory.as_fd(),
        }
    }

    /// An unused name on the file system of the instance. `by_user`: for a local user.
    pub(crate) fn name_at_home(&self, by_user: bool) -> Result<HiddenName, Errno> {
        if by_user {
            self.make_users_directory()?;
        }
        let id = fresh_id();
        Ok(HiddenName {
            name: format!("{id}.tree"),
            home: if by_user { Home::Users } else { Home::Instance },
            id,
        })
    }

    /// A hidden name in `directory`, whose path is `place`, on another file system or mount. It is
    /// recorded in the journal.
    pub(crate) fn name_elsewhere(&self, directory: OwnedFd, place: &LogicalPath) -> Result<HiddenName, Errno> {
        let id = fresh_id();
        let name = beside_name(&id);
        self.note_elsewhere(&id, place, &name)?;
        let home = Home::Elsewhere(directory);
        Ok(HiddenName { id, name, home })
    }

    /// Directory and name of a hidden name.
    pub(crate) fn place_of<'a>(&'a self, hidden: &'a HiddenName) -> (BorrowedFd<'a>, &'a str) {
        (self.directory_of(&hidden.home), &hidden.name)
    }

    /// Call when nothing has that name any longer, as the server.
    pub(crate) fn forget_name(&self, hidden: &HiddenName) {
        if matches!(hidden.home, Home::Elsewhere(_)) {
            self.forget_elsewhere(&hidden.id);
        }
    }

    /// Creates the directory for parts of local users; call this as the server. Each user may
    /// create files there and rename its own. It is reachable only through the descriptor, because
    /// the directory above belongs to the server alone.
    pub(crate) fn make_users_directory(&self) -> Result<(), Errno> {
        if self.users.get().is_some() {
            return Ok(());
        }
        let users = make_and_open(self.directory(), USERS)?;
        // Restore what the umask removed; the sticky bit protects the files of others.
        fs::fchmod(&users, Mode::from_raw_mode(0o1777))?;
        // Two callers at once have opened the same directory.
        let _ = self.users.set(users);
        Ok(())
    }

    /// Records that a copy is about to be made in `directory`, under a name that begins with
    /// [`COPIED`]. Returns the entry, for [`Instance::forget_elsewhere`].
    pub(crate) fn note_copy(&self, directory: &LogicalPath, name: &str) -> Result<String, Errno> {
        let id = fresh_id();
        self.note_elsewhere(&id, directory, name).map(|()| id)
    }

    /// Records that the part `part_name` is about to be created in `directory`.
    fn note_elsewhere(&self, id: &str, directory: &LogicalPath, part_name: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let name = format!("{id}{JOURNAL_SUFFIX}");
        let mut file = File::from(fs::openat(
            &self.directory,
            name.as_str(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )?);
        let text = format!("{directory}\n{part_name}");
        file.write_all(text.as_bytes())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        fs::fsync(&file)?;
        fs::fsync(&self.directory)
    }

    pub(crate) fn forget_elsewhere(&self, id: &str) {
        // A stale entry names a part that is gone; start-up ignores it.
        let _ = fs::unlinkat(&self.directory, format!("{id}{JOURNAL_SUFFIX}"), AtFlags::empty());
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Fails while parts are left; they wait for the next start-up, as after a crash.
        if self.users.get().is_some() {
            let _ = fs::unlinkat(&self.directory, USERS, AtFlags::REMOVEDIR);
        }
        let _ = fs::unlinkat(&self.directory, LOCK, AtFlags::empty());
        let _ = fs::unlinkat(&self.uploads, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

fn names_in(directory: BorrowedFd<'_>) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        if let Ok(name) = entry?.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Removes the directories of dead servers. A server that is just ending removes its own at the
/// same time, and leftovers that cannot be removed must not prevent a start: neither is an error.
fn clean_dead(root: &Root, uploads: BorrowedFd<'_>) -> Result<Cleaned, Errno> {
    let mut cleaned = Cleaned::default();
    for name in names_in(uploads)? {
        match clean_instance(root, uploads, &name, &mut cleaned) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => cleaned.failed += 1,
        }
    }
    Ok(cleaned)
}

fn clean_instance(root: &Root, uploads: BorrowedFd<'_>, name: &str, cleaned: &mut Cleaned) -> Result<(), Errno> {
    let directory = open_directory(uploads, name)?;
    let lock = open_lock(directory.as_fd())?;
    match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(()),
        locked => locked?,
    }
    for entry in names_in(directory.as_fd())? {
        if entry == USERS {
            cleaned.parts += clean_users(directory.as_fd())?;
            continue;
        }
        if entry.ends_with(JOURNAL_SUFFIX) {
            cleaned.parts += u64::from(remove_elsewhere(root, directory.as_fd(), &entry)?);
        } else if entry != LOCK {
            cleaned.parts += 1;
        }
        unlink_any(directory.as_fd(), &entry)?;
    }
    gone_is_fine(fs::unlinkat(uploads, name, AtFlags::REMOVEDIR))?;
    cleaned.instances += 1;
    Ok(())
}

/// Removes the parts of local users and their directory; returns how many there were.
fn clean_users(instance: BorrowedFd<'_>) -> Result<u64, Errno> {
    let users = open_directory(instance, USERS)?;
    let mut parts = 0;
    for entry in names_in(users.as_fd())? {
        unlink_any(users.as_fd(), &entry)?;
        parts += 1;
    }
    gone_is_fine(fs::unlinkat(instance, USERS, AtFlags::REMOVEDIR))?;
    Ok(parts)
}

/// Removes a part, or a tree that a server was removing or creating when it died.
fn unlink_any(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) if is_directory_in(directory, name) => unlink_tree(directory, name),
        removed => gone_is_fine(removed),
    }
}

fn is_directory_in(directory: BorrowedFd<'_>, name: &str) -> bool {
    fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|raw| is_directory(&raw))
}

fn gone_is_fine(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Whether the server has noted such a name before something got it.
fn is_noted(name: &str) -> bool {
    is_part_beside(name) || name.starts_with(COPIED)
}

/// Removes the part that a journal entry names; returns whether there was one. An unreadable entry
/// was cut short by the crash, before its part was created. If the part exists and cannot be
/// removed, that is an error, so that the entry is kept.
fn remove_elsewhere(root: &Root, directory: BorrowedFd<'_>, entry: &str) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(directory, entry, flags, Mode::empty())?;
    let mut text = String::new();
    let limit = PATH_BYTES_MAX as u64 * 2;
    if File::from(file).take(limit).read_to_string(&mut text).is_err() {
        return Ok(false);
    }
    let Some((place, part_name)) = text.rsplit_once('\n').filter(|(_, name)| is_noted(name)) else {
        return Ok(false);
    };
    let Ok(place) = LogicalPath::parse(place) else {
        return Ok(false);
    };
    let place = root.open_beneath(&place, OFlags::RDONLY | OFlags::DIRECTORY);
    let Ok(place) = place.and_then(|found| found.unchecked(&LogicalPath::root())) else {
        return Ok(false);
    };
    match fs::statat(&place, part_name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(false),
        _ => unlink_any(place.as_fd(), part_name).map(|()| true),
    }
}
