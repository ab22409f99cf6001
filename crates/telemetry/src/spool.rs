//! Packets on disk until their receiver has confirmed them, in the order in which they came.
//!
//! The directory has files of packets, by number, and the file `confirmed`: up to where the
//! receiver has them. A packet has its length, a checksum and its bytes. A file that an earlier
//! process began is only read: its last packet may be torn. At the limit, the oldest file goes.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The longest packet: more than a datagram holds.
const PACKET_BYTES_MAX: usize = 64 * 1024;
/// Length and checksum of a packet.
const HEAD_BYTES: usize = 8;
/// Least and most bytes of a file.
const FILE_BYTES_MIN: u64 = 64 * 1024;
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Files of a full spool.
const FILES: u64 = 16;
/// Bytes that are read at once. At least one packet fits.
const READ_BYTES_MAX: u64 = 128 * 1024;
/// The end of a file's name.
const ENDING: &str = ".packets";
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
}

/// The oldest packets that were not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// In order.
    pub packets: Vec<Vec<u8>>,
    end: Place,
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
    /// Keeps other processes out.
    _lock: File,
}

impl Spool {
    /// Opens the spool in a directory, which is made if it is missing. It never takes more than
    /// `limit_bytes`.
    ///
    /// # Errors
    /// The directory cannot be used, or another process uses it.
    pub fn open(directory: &Path, limit_bytes: u64) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)?;
        let lock = owned(&directory.join("lock"))?;
        lock.try_lock().map_err(|cause| match cause {
            TryLockError::WouldBlock => io::Error::other("another process uses it; give each server its own"),
            TryLockError::Error(cause) => cause,
        })?;
        let place_file = owned(&directory.join("confirmed"))?;
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
            _lock: lock,
        };
        // Files that were confirmed, and could not be removed then.
        while spool.parts.front().is_some_and(|part| part.number < place.file) {
            spool.remove_oldest();
        }
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
        let added = record.len() as u64;
        while self.held_bytes() + added > self.limit_bytes && !self.parts.is_empty() {
            self.drop_oldest();
        }
        let is_full = |part: &Part| part.bytes + added > self.part_bytes_max();
        if self.open.is_none() || self.parts.back().is_none_or(is_full) {
            self.begin_part()?;
        }
        let (Some(file), Some(part)) = (&mut self.open, self.parts.back_mut()) else {
            return Err(io::Error::other("there is no file to write to"));
        };
        if let Err(cause) = file.write_all(&record) {
            // What cannot be cut off is torn, as after a crash: nothing may follow it.
            if file.set_len(part.bytes).is_err() {
                self.open = None;
            }
            return Err(cause);
        }
        part.bytes += added;
        self.is_unsynced = true;
        Ok(())
    }

    fn part_bytes_max(&self) -> u64 {
        (self.limit_bytes / FILES).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX)
    }

    fn begin_part(&mut self) -> io::Result<()> {
        self.sync()?;
        self.open = None;
        let last = self.parts.back().map_or(self.place.file, |part| part.number);
        let number = last.saturating_add(1);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(path(&self.directory, number))?;
        self.parts.push_back(Part { number, bytes: 0 });
        self.open = Some(file);
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
    /// A file cannot be read.
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
            let bytes = match read(&path(&self.directory, part.number), from, part.bytes) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                read => read.unwrap_or_default(),
            };
            let (packets, used) = packets(&bytes);
            if packets.is_empty() {
                // A torn packet, at which the file ends, or one that was changed on disk.
                self.lost += 1;
                self.place = Place {
                    file: part.number,
                    offset_bytes: part.bytes,
                };
                continue;
            }
            let end = Place {
                file: part.number,
                offset_bytes: from + used,
            };
            return Ok(Some(Spooled { packets, end }));
        }
        Ok(None)
    }

    /// The receiver has these packets, and all before them.
    ///
    /// # Errors
    /// This cannot be noted: after the next start they are sent again.
    pub fn confirm(&mut self, spooled: &Spooled) -> io::Result<()> {
        // They may have made room for others meanwhile.
        if spooled.end <= self.place {
            return Ok(());
        }
        self.place = spooled.end;
        let written = write_place(&self.place_file, self.place);
        let first = self.parts.front().copied();
        if first.is_some_and(|part| self.parts.len() > 1 && self.confirmed_of(part) >= part.bytes) {
            self.remove_oldest();
        }
        written
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

    /// Removes the oldest file, and counts what was not confirmed.
    fn drop_oldest(&mut self) {
        if let Some(part) = self.parts.front().copied() {
            let mut from = self.confirmed_of(part);
            while from < part.bytes {
                let bytes = read(&path(&self.directory, part.number), from, part.bytes).unwrap_or_default();
                let (packets, used) = packets(&bytes);
                self.lost += packets.len().max(1) as u64;
                from = if packets.is_empty() { part.bytes } else { from + used };
            }
            self.place = self.place.max(Place {
                file: part.number,
                offset_bytes: part.bytes,
            });
        }
        self.remove_oldest();
    }

    fn remove_oldest(&mut self) {
        if let Some(part) = self.parts.pop_front() {
            // One that stays is removed at the next start: it lies before the place.
            let _ = std::fs::remove_file(path(&self.directory, part.number));
        }
        if self.parts.is_empty() {
            self.open = None;
        }
    }
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:020}{ENDING}"))
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
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(ENDING)?.parse().ok());
        if let Some(number) = number {
            let bytes = entry.metadata()?.len();
            found.push(Part { number, bytes });
        }
    }
    found.sort_by_key(|part| part.number);
    Ok(found)
}

/// What is in a file from one place to another, as much as is read at once.
fn read(path: &Path, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    let count = to.saturating_sub(from).min(READ_BYTES_MAX);
    file.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn record(packet: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(packet.len()).ok().filter(|length| *length > 0);
    let length = length.filter(|_| packet.len() <= PACKET_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("the packet is empty or too long"))?;
    let mut record = Vec::with_capacity(HEAD_BYTES + packet.len());
    record.extend(length.to_be_bytes());
    record.extend(crc_fast::crc32_iscsi(packet).to_be_bytes());
    record.extend(packet);
    Ok(record)
}

/// The whole packets at the beginning of some bytes, and how many bytes they take.
fn packets(bytes: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some((length, after)) = rest.split_first_chunk::<4>()
        && let Some((sum, after)) = after.split_first_chunk::<4>()
        && let Ok(length) = usize::try_from(u32::from_be_bytes(*length))
        && let Some((packet, after)) = after.split_at_checked(length)
        && (1..=PACKET_BYTES_MAX).contains(&length)
        && crc_fast::crc32_iscsi(packet) == u32::from_be_bytes(*sum)
    {
        found.push(packet.to_vec());
        rest = after;
    }
    (found, (bytes.len() - rest.len()) as u64)
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
