//! The file of a backup: a tar archive that begins with a list of what is in it, with checksums,
//! and ends with the checksum of that list.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};
use zeroize::Zeroizing;

use super::STANDARD;
use super::plan::LeftOut;
use crate::failure::Failure;
use crate::limits::{BACKUP_FILE_BYTES_MAX, BACKUP_FILES_MAX, BACKUP_LIST_BYTES_MAX};

/// What the list says that the file is.
const FORMAT: &str = "crossload backup";
/// The version of the format. Programs read it and all before it.
const VERSION: u64 = 1;
/// The name of the list in the archive.
const LIST: &str = "backup.json";
/// The name of its checksum, which comes last: what has it was written to the end.
const LIST_SUM: &str = "backup.json.sha256";
const SUM_BYTES: u64 = 64;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
const PIECE_BYTES: usize = 64 * 1024;

/// What the list of any version begins with.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

/// The list of what is in a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct List {
    format: String,
    version: u64,
    /// The version of the program that made it.
    pub(super) program: String,
    /// When, in seconds since 1970.
    pub(super) made_s: i64,
    /// The machine.
    pub(super) host: String,
    /// The configuration file.
    pub(super) configuration: String,
    pub(super) entries: Vec<Entry>,
    pub(super) left_out: Vec<LeftOut>,
}

/// An entry with its content.
pub(super) type Kept = (Entry, Zeroizing<Vec<u8>>);

/// Something in a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// What it is for the configuration.
    pub(super) role: String,
    /// Where it was.
    pub(super) path: String,
    /// What to call it.
    pub(super) what: String,
    pub(super) content: ContentKind,
    /// The version of the tables of a queue's database.
    pub(super) tables_version: Option<usize>,
    pub(super) mode: u32,
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) size_bytes: u64,
    pub(super) sha256: String,
}

/// What the bytes of an entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ContentKind {
    /// Those of a file.
    File,
    /// The database of a queue in SQLite.
    Sqlite,
    /// What `pg_dump` writes.
    Postgres,
    /// A history of tests.
    History,
}

/// The bytes of an entry.
pub(super) enum Content {
    Bytes(Zeroizing<Vec<u8>>),
    File(PathBuf),
}

impl List {
    /// A list of what is made now.
    pub(super) fn new(configuration: &Path, host: String, made_s: i64) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            made_s,
            host,
            configuration: configuration.display().to_string(),
            entries: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Reads the list at the beginning of an archive.
    fn parse(file: &Path, text: &[u8]) -> Result<Self, Failure> {
        let head: Head = serde_json::from_slice(text).map_err(|_| no_backup(file))?;
        if head.format != FORMAT {
            return Err(no_backup(file));
        }
        if head.version > VERSION {
            return Err(Failure::invalid(format!(
                "{}: a later release has made this backup: its version is {}, ours is {VERSION}; restore it with that \
                 release",
                file.display(),
                head.version
            )));
        }
        let list: Self = serde_json::from_slice(text).map_err(|_| damaged(file, LIST))?;
        match list.entries.len() > BACKUP_FILES_MAX {
            true => Err(damaged(file, LIST)),
            false => Ok(list),
        }
    }
}

impl Content {
    /// Length and checksum.
    pub(super) fn measure(&self) -> io::Result<(u64, String)> {
        match self {
            Self::Bytes(bytes) => Ok((bytes.len() as u64, sum_of(bytes))),
            Self::File(path) => copied(&mut File::open(path)?, &mut io::sink()),
        }
    }
}

/// The checksum of bytes.
pub(super) fn sum_of(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    hexadecimal(context)
}

fn hexadecimal(context: Context) -> String {
    let sum = context.finish();
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies everything; its length and checksum.
pub(super) fn copied(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<(u64, String)> {
    let (mut context, mut length) = (Context::new(&SHA256), 0);
    let mut piece = Zeroizing::new(vec![0_u8; PIECE_BYTES]);
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok((length, hexadecimal(context)));
        }
        context.update(&piece[..count]);
        to.write_all(&piece[..count])?;
        length += count as u64;
    }
}

/// Writes the list and all contents, in its order.
pub(super) fn write(target: &File, list: &List, contents: &[Content]) -> io::Result<()> {
    let mut archive = Builder::new(target);
    let mut append = |name: &str, length: u64, content: &mut dyn Read| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(list.made_s).unwrap_or_default());
        header.set_size(length);
        archive.append_data(&mut header, name, content)
    };
    let text = serde_json::to_vec_pretty(list)?;
    append(LIST, text.len() as u64, &mut text.as_slice())?;
    for (number, (entry, content)) in list.entries.iter().zip(contents).enumerate() {
        let name = name_of(number, entry);
        match content {
            Content::Bytes(bytes) => append(&name, entry.size_bytes, &mut bytes.as_slice())?,
            Content::File(path) => append(&name, entry.size_bytes, &mut File::open(path)?)?,
        }
    }
    append(LIST_SUM, SUM_BYTES, &mut sum_of(&text).as_bytes())?;
    archive.finish()?;
    drop(archive);
    target.sync_all()
}

/// The name of an entry in the archive. People read it; programs go by the order.
fn name_of(number: usize, entry: &Entry) -> String {
    let name = Path::new(&entry.path).file_name().unwrap_or_default();
    format!("{number:04}/{}", name.to_string_lossy())
}

/// An open archive, which only we may read.
pub(super) struct Opened {
    path: PathBuf,
    file: File,
}

impl Opened {
    /// Opens an archive; `-` is standard input.
    ///
    /// # Errors
    /// It cannot be read, or belongs to another user, or others may read or change it.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let system = |cause: io::Error| Failure::system(path.display(), &cause);
        if path.as_os_str() == STANDARD {
            // It is read twice. This file has no name.
            let mut file = tempfile::tempfile().map_err(system)?;
            io::copy(&mut io::stdin().lock(), &mut file).map_err(system)?;
            let path = PathBuf::from("standard input");
            return Ok(Self { path, file });
        }
        let file = File::open(path).map_err(system)?;
        let facts = file.metadata().map_err(system)?;
        let own = rustix::process::geteuid().as_raw();
        if facts.uid() != own && facts.uid() != 0 {
            return Err(Failure::invalid(format!(
                "{}: it belongs to user {}, who may have changed it; if you trust it, make it yours by chown",
                path.display(),
                facts.uid()
            )));
        }
        if facts.mode() & OTHERS != 0 {
            return Err(Failure::invalid(format!(
                "{}: others may read or change it (mode {:o}), and it has secrets; run chmod 600",
                path.display(),
                facts.mode() & 0o777
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Reads all of it: `each` gets the bytes of each entry, which are compared afterwards.
    ///
    /// # Errors
    /// It is no backup, that of a later release, or damaged; those of `each`.
    pub(super) fn read(
        &self,
        mut each: impl FnMut(&Entry, &mut dyn Read) -> Result<(u64, String), Failure>,
    ) -> Result<List, Failure> {
        let broken = |_| damaged(&self.path, "the archive");
        (&self.file)
            .seek(SeekFrom::Start(0))
            .map_err(|cause| Failure::system(self.path.display(), &cause))?;
        let mut archive = Archive::new(&self.file);
        let mut members = archive.entries().map_err(|_| no_backup(&self.path))?;
        let mut first = match members.next() {
            Some(Ok(first)) if first.path_bytes().as_ref() == LIST.as_bytes() => first,
            _ => return Err(no_backup(&self.path)),
        };
        let mut text = Vec::new();
        let taken = (&mut first).take(BACKUP_LIST_BYTES_MAX).read_to_end(&mut text);
        taken.map_err(broken)?;
        let list = List::parse(&self.path, &text)?;
        for (number, entry) in list.entries.iter().enumerate() {
            let is_damaged = || damaged(&self.path, &entry.path);
            let mut member = members.next().ok_or_else(is_damaged)?.map_err(|_| is_damaged())?;
            let is_meant = member.path_bytes().as_ref() == name_of(number, entry).as_bytes();
            if !is_meant || member.size() != entry.size_bytes {
                return Err(is_damaged());
            }
            let (length, sum) = each(entry, &mut member)?;
            if (length, &sum) != (entry.size_bytes, &entry.sha256) {
                return Err(is_damaged());
            }
        }
        let is_cut = || damaged(&self.path, "its end");
        let mut last = members.next().ok_or_else(is_cut)?.map_err(|_| is_cut())?;
        let mut sum = String::new();
        (&mut last)
            .take(SUM_BYTES)
            .read_to_string(&mut sum)
            .map_err(|_| is_cut())?;
        match last.path_bytes().as_ref() == LIST_SUM.as_bytes() && sum == sum_of(&text) {
            true => Ok(list),
            false => Err(damaged(&self.path, LIST)),
        }
    }

    /// Reads all of it and compares checksums; the contents of the entries that `wanted` says.
    ///
    /// # Errors
    /// As [`Opened::read`].
    pub(super) fn verify(&self, wanted: impl Fn(&Entry) -> bool) -> Result<(List, Vec<Kept>), Failure> {
        let mut kept = Vec::new();
        let broken = |entry: &Entry| damaged(&self.path, &entry.path);
        let list = self.read(|entry, content| {
            if !wanted(entry) {
                return copied(content, &mut io::sink()).map_err(|_| broken(entry));
            }
            if entry.size_bytes > BACKUP_FILE_BYTES_MAX {
                return Err(broken(entry));
            }
            let mut bytes = Zeroizing::new(Vec::new());
            let measured = copied(content, &mut *bytes).map_err(|_| broken(entry))?;
            kept.push((entry.clone(), bytes));
            Ok(measured)
        })?;
        Ok((list, kept))
    }
}

fn no_backup(file: &Path) -> Failure {
    let words = format!("{}: it is no backup that crossload backup has made", file.display());
    Failure::invalid(words)
}

/// Something in a backup is not what was written.
pub(super) fn damaged(file: &Path, what: &str) -> Failure {
    Failure::invalid(format!(
        "{}: the backup is damaged: {what} is not what was written; use another backup",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn entry(role: &str, content: &Content) -> Entry {
        let (size_bytes, sha256) = content.measure().unwrap();
        Entry {
            role: role.to_owned(),
            path: format!("/var/{role}"),
            what: "a secret".to_owned(),
            content: ContentKind::File,
            tables_version: None,
            mode: 0o600,
            user: None,
            group: None,
            size_bytes,
            sha256,
        }
    }

    fn made(directory: &Path, change: impl FnOnce(&mut List)) -> PathBuf {
        let path = directory.join("backup");
        let contents = [b"one".to_vec(), vec![7; 100_000]].map(|bytes| Content::Bytes(Zeroizing::new(bytes)));
        let mut list = List::new(Path::new("/etc/x.toml"), "host".to_owned(), 5);
        list.entries = ["a", "b"]
            .iter()
            .zip(&contents)
            .map(|(role, content)| entry(role, content))
            .collect();
        change(&mut list);
        let file = File::create(&path).unwrap();
        write(&file, &list, &contents).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn refused(path: &Path) -> String {
        let read = Opened::open(path).and_then(|opened| opened.verify(|_| true).map(drop));
        read.unwrap_err().words
    }

    #[test]
    fn a_backup_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = made(directory.path(), |_| ());
        let (list, kept) = Opened::open(&path).unwrap().verify(|entry| entry.role == "b").unwrap();
        assert_eq!((list.host.as_str(), list.entries.len()), ("host", 2));
        assert_eq!(
            (kept.len(), kept[0].0.role.as_str(), kept[0].1.len()),
            (1, "b", 100_000)
        );
    }

    #[test]
    fn a_byte_that_was_changed_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = made(directory.path(), |_| ());
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len() - 1024).step_by(97) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            // Padding and unused fields of headers may be anything; what is read must be right.
            let read = Opened::open(&path).and_then(|opened| opened.verify(|_| true));
            if let Ok((list, kept)) = read {
                assert!(
                    kept[0].1.as_slice() == b"one" && kept[1].1.as_slice() == [7; 100_000],
                    "{at}"
                );
                assert_eq!(list.entries.len(), 2, "{at}");
            }
        }
        for length in (0..whole.len() - 1024).step_by(997) {
            std::fs::write(&path, &whole[..length]).unwrap();
            refused(&path);
        }
    }

    #[test]
    fn backups_of_later_releases_and_of_others_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let later = made(directory.path(), |list| list.version = VERSION + 1);
        let words = refused(&later);
        assert!(words.contains("its version is 2, ours is 1"), "{words}");
        let other = made(directory.path(), |list| list.format = "other".to_owned());
        assert!(refused(&other).contains("no backup"));
        let path = made(directory.path(), |_| ());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(refused(&path).contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "words").unwrap();
        assert!(refused(&path).contains("no backup"));
    }
}
