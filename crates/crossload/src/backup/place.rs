//! Puts restored files in their places: first beside them, then all of them by renames, which are
//! undone if one fails.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown, lchown};
use std::path::{Path, PathBuf};

use catalog::prepare_restored_file;
use nix::unistd::{Group, User};
use rustix::fs::{Mode, OFlags, open};
use tempfile::NamedTempFile;

use super::archive::{ContentKind, Entry, Opened, copied, damaged};
use crate::failure::Failure;
use crate::kept_files::{DATABASE_FILES, beside, free_name, rename_to_free};
use crate::output;

/// What is appended to the names of files that were replaced, with a number from the second on.
pub(super) const BEFORE: &str = ".before-restore";
/// How the names of files begin that are not in their places yet.
const UNFINISHED: &str = ".crossload-restore-";
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

/// Whether a file has this content. A database with a log has more than is in its file.
///
/// # Errors
/// It cannot be read.
pub(super) fn has_content(target: &Target, size_bytes: u64, sha256: &str) -> io::Result<bool> {
    let path = &target.path;
    if target.entry.content != ContentKind::File && beside(path, "-wal").exists() {
        return Ok(false);
    }
    let is_candidate = |facts: &Metadata| facts.is_file() && facts.len() == size_bytes;
    let facts = match path.metadata() {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(false),
        facts => facts?,
    };
    if !is_candidate(&facts) {
        return Ok(false);
    }
    // It may have become a pipe meanwhile, or grow.
    let file = File::from(open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let is_same_file = is_candidate(&file.metadata()?);
    Ok(is_same_file && copied(&mut file.take(size_bytes), &mut io::sink())?.1 == sha256)
}

/// Refuses a directory to which a link of another user leads: we would write where that user wants.
///
/// # Errors
/// There is such a link.
pub(super) fn refuse_links(path: &Path) -> Result<(), Failure> {
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = |facts: &Metadata| facts.is_symlink() && facts.uid() != 0 && facts.uid() != own;
    for directory in path.ancestors().skip(1) {
        if let Ok(facts) = directory.symlink_metadata()
            && is_foreign(&facts)
        {
            return Err(Failure::invalid(format!(
                "{} is a link of user {}, which a restore does not follow; name the directory itself in the \
                 configuration, or make the link yours by chown -h",
                directory.display(),
                facts.uid()
            )));
        }
    }
    Ok(())
}

/// Writes everything that is not there yet beside its place. Until [`put`] nothing else is changed,
/// except that missing directories are made. Databases that an earlier run has put in their places
/// are found here.
///
/// # Errors
/// A file or directory cannot be made; the backup has changed meanwhile.
pub(super) fn stage(opened: &Opened, targets: &mut [Target]) -> Result<Vec<Staged>, Failure> {
    remove_unfinished(targets)?;
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
    let mut wanted = Vec::new();
    for one in staged {
        if one.target.entry.content == ContentKind::Sqlite && is_in_place(&one)? {
            let same = targets.iter_mut().filter(|target| target.path == one.target.path);
            same.for_each(|target| target.now = Now::Same);
        } else {
            wanted.push(one);
        }
    }
    Ok(wanted)
}

/// Removes what a run that was killed has left: it may be secrets.
fn remove_unfinished(targets: &[Target]) -> Result<(), Failure> {
    let files = targets
        .iter()
        .filter(|target| target.entry.content != ContentKind::Postgres);
    let directories: BTreeSet<&Path> = files.filter_map(|target| target.path.parent()).collect();
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(directory) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                let removed = std::fs::remove_file(entry.path());
                removed.map_err(|cause| Failure::system(entry.path().display(), &cause))?;
            }
        }
    }
    Ok(())
}

/// Prepares the database of a queue, which is changed by this in the same way each time; whether
/// the result is in its place already.
fn is_in_place(one: &Staged) -> Result<bool, Failure> {
    let system = |cause: io::Error| Failure::system(one.target.path.display(), &cause);
    prepare_restored_file(one.file.path())?;
    one.file.as_file().sync_all().map_err(system)?;
    let mut prepared = one.file.reopen().map_err(system)?;
    let (size_bytes, sha256) = copied(&mut prepared, &mut io::sink()).map_err(system)?;
    has_content(&one.target, size_bytes, &sha256).map_err(system)
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
            let mut unfinished = tempfile::Builder::new();
            unfinished.prefix(UNFINISHED).tempfile_in(directory).map_err(system)?
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

/// A file that was replaced.
pub(super) struct Replaced {
    /// Where it was.
    pub(super) from: PathBuf,
    /// Where it is kept.
    pub(super) to: PathBuf,
}

/// What was done so far.
#[derive(Default)]
pub(super) struct Done {
    pub(super) replaced: Vec<Replaced>,
    placed: Vec<PathBuf>,
}

impl Done {
    /// Puts everything back; what to say of that.
    pub(super) fn undo(self) -> String {
        let mut is_undone = true;
        for path in &self.placed {
            is_undone &= std::fs::remove_file(path).is_ok();
        }
        for one in self.replaced.iter().rev() {
            is_undone &= rename_to_free(&one.to, &one.from).is_ok();
        }
        match is_undone {
            true => "everything was put back".to_owned(),
            false => format!("not everything could be put back: look for names with {BEFORE}"),
        }
    }
}

/// Renames files to their places.
///
/// # Errors
/// One cannot be renamed; then the others are as they were.
pub(super) fn put(files: Vec<Staged>) -> Result<Done, Failure> {
    let mut done = Done::default();
    for one in files {
        let path = one.target.path.clone();
        if let Err(cause) = put_one(one, &mut done) {
            let words = format!("cannot replace {}; {}", path.display(), done.undo());
            return Err(Failure::system(words, &cause));
        }
    }
    for path in &done.placed {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|cause| Failure::system(directory.display(), &cause))?;
    }
    Ok(done)
}

fn put_one(one: Staged, done: &mut Done) -> io::Result<()> {
    let path = one.target.path;
    let suffixes = match one.target.entry.content {
        ContentKind::File | ContentKind::Postgres => &DATABASE_FILES[..1],
        ContentKind::Sqlite | ContentKind::History => &DATABASE_FILES[..],
    };
    let kept = free_name(&path, BEFORE, suffixes)?;
    for suffix in suffixes {
        let (from, to) = (beside(&path, suffix), beside(&kept, suffix));
        match rename_to_free(&from, &to) {
            Ok(()) => done.replaced.push(Replaced { from, to }),
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

    fn staged(path: &Path) -> Staged {
        stage_one(&target(path), &mut b"new".as_slice()).unwrap().0
    }

    #[test]
    fn a_rename_that_fails_undoes_those_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("one"), "old").unwrap();
        std::fs::write(at("two"), "old").unwrap();
        let lost = staged(&at("two"));
        std::fs::remove_file(lost.file.path()).unwrap();
        let failure = put(vec![staged(&at("one")), lost]).err().unwrap();
        assert!(failure.words.contains("everything was put back"), "{}", failure.words);
        for name in ["one", "two"] {
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), "old", "{name}");
        }
        put(vec![staged(&at("one")), staged(&at("made/three"))]).unwrap();
        for (name, content) in [("one", "new"), ("one.before-restore", "old"), ("made/three", "new")] {
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), content, "{name}");
        }
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("one"), mode("made")), (0o600, 0o700));
    }

    #[test]
    fn a_file_that_was_kept_is_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (number, kept) in ["db.before-restore", "db.before-restore.2"].into_iter().enumerate() {
            std::fs::write(at("db"), number.to_string()).unwrap();
            let mut database = staged(&at("db"));
            database.target.entry.content = ContentKind::History;
            let done = put(vec![database]).unwrap();
            assert_eq!(done.replaced[0].to, at(kept));
        }
        // A log without its database takes a name too.
        std::fs::write(at("db.before-restore.3-wal"), "log").unwrap();
        std::fs::write(at("db-wal"), "2").unwrap();
        let mut database = staged(&at("db"));
        database.target.entry.content = ContentKind::History;
        put(vec![database]).unwrap();
        for (name, content) in [
            ("db", "new"),
            ("db.before-restore", "0"),
            ("db.before-restore.2", "1"),
            ("db.before-restore.3-wal", "log"),
            ("db.before-restore.4", "new"),
            ("db.before-restore.4-wal", "2"),
        ] {
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), content, "{name}");
        }
        // Nor by an undo.
        assert!(rename_to_free(&at("db"), &at("db.before-restore")).is_err());
    }
}
