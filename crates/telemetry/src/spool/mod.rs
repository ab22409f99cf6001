//! Packets on disk until their receiver has confirmed them, in the order in which they came.
//!
//! The directory has files of packets, by number, and the file `confirmed`: up to where the
//! receiver has them. A packet has its length, a checksum and its bytes. A file that an earlier
//! process began is only read: its last packet may be torn. At the limit, the oldest file goes.
//!
//! Others may remove or damage files while they are used. That costs the packets in question, which
//! are counted, and none before or behind them.

mod records;

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use records::{HEAD_BYTES, Piece, piece, record};

/// Least and most bytes of a file.
const FILE_BYTES_MIN: u64 = 64 * 1024;
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Files of a full spool.
const FILES: u64 = 16;
/// Bytes that are read at once. At least one packet fits.
const READ_BYTES_MAX: u64 = 128 * 1024;
/// How often a file is tried that cannot be read, before it is put aside.
pub const SPOOL_READ_TRIES: u32 = 20;
/// The greatest number of a file: there is always a next one.
const NUMBER_MAX: u64 = u64::MAX / 2;
/// The end of a file's name.
const ENDING: &str = ".packets";
/// The same of one that was put aside.
const ASIDE: &str = "unreadable";
/// The file that keeps other processes out, and the one with the place.
const LOCK: &str = "lock";
const CONFIRMED: &str = "confirmed";
/// Number and offset of a place, and their checksum.
const PLACE_BYTES: usize = 20;
/// Owner only: packets may name users.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A place between two packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: u64,
    offset_bytes: u64,
}

/// A file of packets.
#[derive(Clone, Copy, Debug)]
struct Part {
    number: u64,
    /// Without what is torn at its end, if this process writes it.
    bytes: u64,
    /// Packets that were not confirmed, if this process wrote the file.
    unconfirmed: Option<u64>,
}

/// The oldest packets that were not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// In order.
    pub packets: Vec<Vec<u8>>,
    begin: Place,
}

/// Packets that wait on disk.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_bytes: u64,
    /// The oldest first.
    parts: VecDeque<Part>,
    /// The last of them, if this process began it.
    open: Option<File>,
    /// The file `confirmed`.
    place_file: File,
    place: Place,
    lost: u64,
    is_unsynced: bool,
    /// How often the oldest file could not be read.
    failed_reads: u32,
    /// The last loss on disk, in words, until it is taken.
    damage: Option<String>,
    /// Keeps other processes out.
    lock: File,
}

impl Spool {
    /// Opens the spool in a directory, which is made if it is missing. It never takes more than
    /// `limit_bytes`.
    ///
    /// # Errors
    /// The directory cannot be used, or another process uses it.
    pub fn open(directory: &Path, limit_bytes: u64) -> io::Result<Self> {
        make(directory)?;
        let lock = locked(directory)?;
        let place_file = owned(&directory.join(CONFIRMED))?;
        let place = read_place(&place_file);
        // A full disk then has its bytes already. If it is full now, places are lost, and no
        // packet.
        let _ = write_place(&place_file, place);
        let mut spool = Self {
            directory: directory.to_owned(),
            limit_bytes,
            parts: parts(directory)?.into(),
            open: None,
            place_file,
            place,
            lost: 0,
            is_unsynced: false,
            failed_reads: 0,
            damage: None,
            lock,
        };
        // Those that could not be removed before, too.
        spool.free_confirmed();
        Ok(spool)
    }

    /// Appends a packet. The oldest ones make room for it.
    ///
    /// # Errors
    /// It cannot be written, and is lost.
    pub fn append(&mut self, packet: &[u8]) -> io::Result<()> {
        let appended = self.try_append(packet);
        self.lost += u64::from(appended.is_err());
        appended
    }

    fn try_append(&mut self, packet: &[u8]) -> io::Result<()> {
        let record = record(packet)?;
        match self.write(&record) {
            // What was confirmed may take the last bytes of a full disk.
            Err(_) if self.free_confirmed() => self.write(&record),
            written => written,
        }
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        let added = record.len() as u64;
        while self.held_bytes() + added > self.limit_bytes && !self.parts.is_empty() {
            self.drop_oldest();
        }
        self.leave_changed();
        let is_full = |part: &Part| part.bytes + added > self.part_bytes_max();
        if self.open.is_none() || self.parts.back().is_none_or(is_full) {
            self.begin_part()?;
        }
        let (Some(file), Some(part)) = (&mut self.open, self.parts.back_mut()) else {
            return Err(io::Error::other("there is no file to write to"));
        };
        if let Err(cause) = file.write_all(record) {
            // What cannot be cut off is torn, as after a crash: nothing may follow it.
            if file.set_len(part.bytes).is_err() {
                self.open = None;
            }
            return Err(cause);
        }
        part.bytes += added;
        part.unconfirmed = part.unconfirmed.map(|count| count + 1);
        self.is_unsynced = true;
        Ok(())
    }

    /// Leaves the file that is written if others have removed, replaced or changed it: packets in
    /// it would not be found again.
    fn leave_changed(&mut self) {
        if let (Some(file), Some(part)) = (&self.open, self.parts.back()) {
            let there = std::fs::symlink_metadata(path(&self.directory, part.number));
            if !there.is_ok_and(|there| there.len() == part.bytes && is_same(file, &there)) {
                self.open = None;
            }
        }
    }

    fn part_bytes_max(&self) -> u64 {
        (self.limit_bytes / FILES).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX)
    }

    fn begin_part(&mut self) -> io::Result<()> {
        self.sync()?;
        self.open = None;
        self.restore()?;
        let mut number = self.parts.back().map_or(self.place.file, |part| part.number);
        let file = loop {
            number = number.saturating_add(1);
            let mut options = OpenOptions::new();
            options.append(true).create_new(true).mode(FILE_MODE);
            match options.open(path(&self.directory, number)) {
                // Something of others that has the name of a file.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && number < u64::MAX => {}
                opened => break opened?,
            }
        };
        self.parts.push_back(Part {
            number,
            bytes: 0,
            unconfirmed: Some(0),
        });
        self.open = Some(file);
        Ok(())
    }

    /// Makes the directory and its small files again where others have removed them.
    fn restore(&mut self) -> io::Result<()> {
        make(&self.directory)?;
        if !is_at(&self.lock, &self.directory.join(LOCK)) {
            self.lock = locked(&self.directory)?;
        }
        let place_path = self.directory.join(CONFIRMED);
        if !is_at(&self.place_file, &place_path) {
            self.place_file = owned(&place_path)?;
            let _ = write_place(&self.place_file, self.place);
        }
        Ok(())
    }

    /// Makes what was appended outlive the machine.
    ///
    /// # Errors
    /// The disk fails.
    pub fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_unsynced)
            && let Some(file) = &self.open
        {
            file.sync_data()?;
        }
        Ok(())
    }

    /// The oldest packets that were not confirmed; `None` if there are none.
    ///
    /// # Errors
    /// A file cannot be read. After [`SPOOL_READ_TRIES`] it is put aside, and the next one follows.
    pub fn oldest(&mut self) -> io::Result<Option<Spooled>> {
        while let Some(part) = self.parts.front().copied() {
            let from = self.confirmed_of(part);
            if from >= part.bytes {
                if self.parts.len() == 1 {
                    return Ok(None);
                }
                self.remove_oldest();
                continue;
            }
            let Some(bytes) = self.read_oldest(part, from)? else {
                continue;
            };
            match piece(&bytes, is_last(part, from, &bytes)) {
                Piece::Packets(packets) => {
                    let file = part.number;
                    let begin = Place {
                        file,
                        offset_bytes: from,
                    };
                    return Ok(Some(Spooled { packets, begin }));
                }
                // A torn packet, at which the file ends, or one that was changed on disk.
                Piece::Damage { bytes, packets } => {
                    self.lose(part, from + bytes, packets, &format!("is damaged at byte {from}"));
                }
            }
        }
        Ok(None)
    }

    /// Reads the oldest file from an offset on; `None`: the rest of it is lost.
    fn read_oldest(&mut self, part: Part, from: u64) -> io::Result<Option<Vec<u8>>> {
        let path = path(&self.directory, part.number);
        let why = match read(&path, from, part.bytes) {
            Ok(bytes) if bytes.is_empty() => "was cut off by another program".to_owned(),
            Ok(bytes) => {
                self.failed_reads = 0;
                return Ok(Some(bytes));
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => "was removed by another program".to_owned(),
            Err(cause) => {
                self.failed_reads += 1;
                if self.failed_reads < SPOOL_READ_TRIES {
                    return Err(cause);
                }
                let _ = std::fs::rename(&path, path.with_extension(ASIDE));
                format!("cannot be read and was put aside ({cause})")
            }
        };
        self.failed_reads = 0;
        self.lose(part, part.bytes, part.unconfirmed.unwrap_or(1), &why);
        Ok(None)
    }

    /// Gives up packets of the oldest file, up to an offset.
    fn lose(&mut self, part: Part, to: u64, packets: u64, why: &str) {
        self.lost += packets;
        let name = name(part.number);
        self.damage = Some(format!("{name} {why}; packets lost: at least {packets}"));
        self.advance(part.number, to, packets);
    }

    /// The receiver has the first `count` of these packets, and all before them.
    ///
    /// # Errors
    /// This cannot be noted: after the next start they are sent again.
    pub fn confirm(&mut self, spooled: &Spooled, count: usize) -> io::Result<()> {
        let (mut end, mut packets) = (spooled.begin, 0);
        for packet in spooled.packets.iter().take(count) {
            end.offset_bytes += (HEAD_BYTES + packet.len()) as u64;
            packets += u64::from(end > self.place);
        }
        // They may have made room for others meanwhile.
        if packets == 0 {
            return Ok(());
        }
        self.advance(end.file, end.offset_bytes, packets);
        let restored = match is_at(&self.place_file, &self.directory.join(CONFIRMED)) {
            true => Ok(()),
            false => self.restore(),
        };
        let written = restored.and_then(|()| write_place(&self.place_file, self.place));
        let first = self.parts.front().copied();
        if first.is_some_and(|part| self.parts.len() > 1 && self.confirmed_of(part) >= part.bytes) {
            self.remove_oldest();
        }
        written
    }

    /// Moves the place on, over so many packets.
    fn advance(&mut self, file: u64, offset_bytes: u64, packets: u64) {
        self.place = Place { file, offset_bytes };
        if let Some(part) = self.parts.iter_mut().find(|part| part.number == file) {
            part.unconfirmed = part.unconfirmed.map(|count| count.saturating_sub(packets));
        }
    }

    /// Bytes that wait.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        let confirmed = self.parts.front().map_or(0, |part| self.confirmed_of(*part));
        self.held_bytes().saturating_sub(confirmed)
    }

    /// Packets that were lost: they had to make room, could not be written, or were damaged.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What was lost on disk since the last call, in words: a file that was removed or damaged.
    #[must_use]
    pub fn take_damage(&mut self) -> Option<String> {
        self.damage.take()
    }

    /// Bytes on disk.
    fn held_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Bytes of a file that were confirmed.
    fn confirmed_of(&self, part: Part) -> u64 {
        match part.number.cmp(&self.place.file) {
            std::cmp::Ordering::Less => part.bytes,
            std::cmp::Ordering::Equal => self.place.offset_bytes.min(part.bytes),
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// Removes files that are confirmed wholly, even the one that is written. Whether they had
    /// bytes.
    fn free_confirmed(&mut self) -> bool {
        let mut has_freed = false;
        while let Some(part) = self.parts.front().copied()
            && self.confirmed_of(part) >= part.bytes
        {
            has_freed |= part.bytes > 0;
            self.remove_oldest();
        }
        has_freed
    }

    /// Removes the oldest file, and counts what was not confirmed.
    fn drop_oldest(&mut self) {
        if let Some(part) = self.parts.front().copied() {
            self.lost += part.unconfirmed.unwrap_or_else(|| self.count_unconfirmed(part));
            self.place = self.place.max(Place {
                file: part.number,
                offset_bytes: part.bytes,
            });
        }
        self.remove_oldest();
    }

    fn count_unconfirmed(&self, part: Part) -> u64 {
        let (mut count, mut from) = (0, self.confirmed_of(part));
        while from < part.bytes {
            let bytes = read(&path(&self.directory, part.number), from, part.bytes).unwrap_or_default();
            if bytes.is_empty() {
                return count + 1;
            }
            let (packets, used) = match piece(&bytes, is_last(part, from, &bytes)) {
                Piece::Packets(packets) => {
                    let used = packets.iter().map(|packet| HEAD_BYTES + packet.len()).sum::<usize>();
                    (packets.len() as u64, used as u64)
                }
                Piece::Damage { bytes, packets } => (packets, bytes),
            };
            count += packets;
            from += used;
        }
        count
    }

    fn remove_oldest(&mut self) {
        if let Some(part) = self.parts.pop_front() {
            // One that stays is removed at the next start: it lies before the place.
            let _ = std::fs::remove_file(path(&self.directory, part.number));
            self.failed_reads = 0;
        }
        if self.parts.is_empty() {
            self.open = None;
        }
    }
}

fn name(number: u64) -> String {
    format!("{number:020}{ENDING}")
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(name(number))
}

fn make(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE).create(directory)
}

/// The file that keeps other processes out of a directory.
fn locked(directory: &Path) -> io::Result<File> {
    let lock = owned(&directory.join(LOCK))?;
    lock.try_lock().map_err(|cause| match cause {
        TryLockError::WouldBlock => io::Error::other("another process uses it; give each server its own"),
        TryLockError::Error(cause) => cause,
    })?;
    Ok(lock)
}

/// Whether an open file still is the one of this name.
fn is_at(file: &File, path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| is_same(file, &there))
}

fn is_same(file: &File, there: &Metadata) -> bool {
    let here = file.metadata();
    here.is_ok_and(|here| (here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// A file for its owner only, made if it is missing.
fn owned(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(FILE_MODE).open(path)
}

/// The files of packets in a directory, the oldest first.
fn parts(directory: &Path) -> io::Result<Vec<Part>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let there = entry.metadata()?;
        let number = entry.file_name().to_str().and_then(number);
        // A directory or link of this name is none of ours.
        if let Some(number) = number.filter(|_| there.is_file()) {
            found.push(Part {
                number,
                bytes: there.len(),
                unconfirmed: None,
            });
        }
    }
    found.sort_by_key(|part| part.number);
    Ok(found)
}

/// The number of a file of this name, if we make such names.
fn number(file: &str) -> Option<u64> {
    let number: u64 = file.strip_suffix(ENDING)?.parse().ok()?;
    (number <= NUMBER_MAX && name(number) == file).then_some(number)
}

/// What is in a file from one place to another, as much as is read at once.
fn read(path: &Path, from: u64, to: u64) -> io::Result<Vec<u8>> {
    // A pipe would keep us waiting for ever.
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    let count = to.saturating_sub(from).min(READ_BYTES_MAX);
    file.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether these bytes of a file, from an offset on, are its last ones. It may have become shorter.
fn is_last(part: Part, from: u64, bytes: &[u8]) -> bool {
    let count = bytes.len() as u64;
    count < READ_BYTES_MAX || from + count >= part.bytes
}

/// The place of a file; the beginning if it cannot be read: what was confirmed is sent again.
fn read_place(file: &File) -> Place {
    let mut bytes = [0; PLACE_BYTES];
    let read = file.read_exact_at(&mut bytes, 0);
    let numbers = bytes.split_first_chunk::<8>().and_then(|(number, rest)| {
        let (offset, sum) = rest.split_first_chunk::<8>()?;
        let is_whole = crc_fast::crc32_iscsi(&bytes[..16]).to_be_bytes() == *sum;
        is_whole.then(|| (u64::from_be_bytes(*number), u64::from_be_bytes(*offset)))
    });
    match (read, numbers) {
        (Ok(()), Some((file, offset_bytes))) => Place { file, offset_bytes },
        _ => Place::default(),
    }
}

/// In its place: a full disk has these bytes already.
fn write_place(file: &File, place: Place) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(PLACE_BYTES);
    bytes.extend(place.file.to_be_bytes());
    bytes.extend(place.offset_bytes.to_be_bytes());
    bytes.extend(crc_fast::crc32_iscsi(&bytes).to_be_bytes());
    file.write_all_at(&bytes, 0)
}
