//! Puts restored files in their places: first beside them, then all of them by renames, which are
//! undone if one fails.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, fchown, lchown};
use std::path::{Path, PathBuf};

use catalog::prepare_restored_file;
use nix::unistd::{Group, User};
use tempfile::NamedTempFile;

use super::archive::{ContentKind, Entry, Opened, copied, damaged};
use crate::failure::Failure;
use crate::output;

/// What is appended to the names of files that were replaced.
pub(super) const BEFORE: &str = ".before-restore";
/// The files that belong to a database of SQLite.
const DATABASE_FILES: [&str; 3] = ["", "-wal", "-shm"];
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Something that is restored, and its place.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) entry: Entry,
    pub(super) path: PathBuf,
    pub(super) now: Now,
}

/// What is at a place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    Nothing,
    /// What the backup has.
    Same,
    Other,
}

/// A file beside its place.
pub(super) struct Staged {
    pub(super) target: Target,
    pub(super) file: NamedTempFile,
}

/// A path with this at its end.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Writes everything that is not there yet beside its place. Until [`put`] nothing else is changed,
/// except that missing directories are made.
///
/// # Errors
/// A file or directory cannot be made; the backup has changed meanwhile.
pub(super) fn stage(opened: &Opened, targets: &[Target]) -> Result<Vec<Staged>, Failure> {
    let mut staged = Vec::new();
    opened.read(|entry, content| {
        let target = targets.iter().find(|target| target.entry.role == entry.role);
        match target.filter(|target| target.now != Now::Same) {
            None => copied(content, &mut io::sink()).map_err(|_| damaged(Path::new(&entry.path), "the archive")),
            Some(target) => {
                let (one, measured) = stage_one(target, content)?;
                staged.push(one);
                Ok(measured)
            }
        }
    })?;
    for one in &staged {
        if one.target.entry.content == ContentKind::Sqlite {
            prepare_restored_file(one.file.path())?;
            let synced = one.file.as_file().sync_all();
            synced.map_err(|cause| Failure::system(one.target.path.display(), &cause))?;
        }
    }
    Ok(staged)
}

fn stage_one(target: &Target, content: &mut dyn Read) -> Result<(Staged, (u64, String)), Failure> {
    let system = |cause: io::Error| Failure::system(format!("cannot write {}", target.path.display()), &cause);
    let entry = &target.entry;
    let owner = owner_of(entry);
    let mut file = match entry.content {
        ContentKind::Postgres => NamedTempFile::new().map_err(system)?,
        _ => {
            let directory = target.path.parent().unwrap_or(Path::new("/"));
            make_directory(directory, entry, owner).map_err(system)?;
            NamedTempFile::new_in(directory).map_err(system)?
        }
    };
    let measured = copied(content, file.as_file_mut()).map_err(system)?;
    if entry.content != ContentKind::Postgres {
        let mode = Permissions::from_mode(entry.mode & 0o777);
        file.as_file().set_permissions(mode).map_err(system)?;
        owner.give(file.as_file()).map_err(system)?;
    }
    file.as_file().sync_all().map_err(system)?;
    let target = target.clone();
    Ok((Staged { target, file }, measured))
}

/// Who gets a file: only root can give one away.
#[derive(Clone, Copy, Default)]
struct Owner {
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Owner {
    fn give(self, file: &File) -> io::Result<()> {
        match (self.uid, self.gid) {
            (None, None) => Ok(()),
            (uid, gid) => fchown(file, uid, gid),
        }
    }

    fn give_directory(self, path: &Path) -> io::Result<()> {
        match (self.uid, self.gid) {
            (None, None) => Ok(()),
            (uid, gid) => lchown(path, uid, gid),
        }
    }
}

/// The owner that a file had, by name: numbers differ between machines.
fn owner_of(entry: &Entry) -> Owner {
    if !rustix::process::geteuid().is_root() {
        return Owner::default();
    }
    let user = entry.user.as_deref().and_then(|name| User::from_name(name).ok()?);
    let group = entry.group.as_deref().and_then(|name| Group::from_name(name).ok()?);
    if let (Some(name), None) = (&entry.user, &user) {
        output::complain(&format!(
            "notice: there is no user {name} here: {} will belong to root",
            entry.path
        ));
    }
    Owner {
        uid: user.map(|user| user.uid.as_raw()),
        gid: group.map(|group| group.gid.as_raw()),
    }
}

/// Makes the missing directories above a file, closed to others if the file is.
fn make_directory(directory: &Path, entry: &Entry, owner: Owner) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|above| !above.exists()).collect();
    let mode = if entry.mode & OTHERS == 0 { 0o700 } else { 0o755 };
    for above in missing.into_iter().rev() {
        DirBuilder::new().mode(mode).create(above)?;
        owner.give_directory(above)?;
    }
    Ok(())
}

/// What was done so far.
#[derive(Default)]
struct Done {
    /// From where to where.
    moved: Vec<(PathBuf, PathBuf)>,
    placed: Vec<PathBuf>,
}

impl Done {
    fn undo(self) {
        for path in &self.placed {
            let _ = std::fs::remove_file(path);
        }
        for (from, to) in self.moved.iter().rev() {
            let _ = std::fs::rename(to, from);
        }
    }
}

/// Renames everything to its place.
///
/// # Errors
/// One cannot be renamed; then the others are as they were.
pub(super) fn put(staged: Vec<Staged>) -> Result<(), Failure> {
    let mut done = Done::default();
    let files = staged
        .into_iter()
        .filter(|one| one.target.entry.content != ContentKind::Postgres);
    for one in files {
        let path = one.target.path.clone();
        if let Err(cause) = put_one(one, &mut done) {
            done.undo();
            let words = format!("cannot replace {}; everything was put back", path.display());
            return Err(Failure::system(words, &cause));
        }
    }
    for path in &done.placed {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|cause| Failure::system(directory.display(), &cause))?;
    }
    Ok(())
}

fn put_one(one: Staged, done: &mut Done) -> io::Result<()> {
    let path = one.target.path;
    let suffixes = match one.target.entry.content {
        ContentKind::File | ContentKind::Postgres => &DATABASE_FILES[..1],
        ContentKind::Sqlite | ContentKind::History => &DATABASE_FILES[..],
    };
    for suffix in suffixes {
        let (from, to) = (beside(&path, suffix), beside(&beside(&path, BEFORE), suffix));
        match std::fs::rename(&from, &to) {
            Ok(()) => done.moved.push((from, to)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(cause),
        }
    }
    one.file.persist_noclobber(&path).map_err(|error| error.error)?;
    done.placed.push(path);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &Path) -> Target {
        Target {
            entry: Entry {
                role: "r".to_owned(),
                path: path.display().to_string(),
                what: "a secret".to_owned(),
                content: ContentKind::File,
                tables_version: None,
                mode: 0o600,
                user: None,
                group: None,
                size_bytes: 3,
                sha256: String::new(),
            },
            path: path.to_owned(),
            now: Now::Other,
        }
    }

    #[test]
    fn a_rename_that_fails_undoes_those_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let staged = |name: &str| stage_one(&target(&at(name)), &mut b"new".as_slice()).unwrap().0;
        std::fs::write(at("one"), "old").unwrap();
        std::fs::write(at("two"), "old").unwrap();
        // The old file cannot get this name.
        std::fs::create_dir_all(at("two.before-restore/x")).unwrap();
        let failure = put(vec![staged("one"), staged("two")]).unwrap_err();
        assert!(failure.words.contains("everything was put back"), "{}", failure.words);
        for name in ["one", "two"] {
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), "old", "{name}");
        }
        put(vec![staged("one"), staged("made/three")]).unwrap();
        for (name, content) in [("one", "new"), ("one.before-restore", "old"), ("made/three", "new")] {
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), content, "{name}");
        }
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("one"), mode("made")), (0o600, 0o700));
    }
}
