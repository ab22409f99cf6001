//! The floor of a path: the least that a server on this machine can spend on it with the system
//! calls that everybody has. A thread for each connection, with no protocol and no errors to speak
//! of, moves what the path moves: the same copies, the same ciphers and the same checksums, in
//! batches that stay in the processor's cache and lie where they are copied fast.
//!
//! It is measured in the same turns as the servers, so that it stands beside their figures of the
//! same minutes. What no loop here does (mapping files, a cipher in the kernel) is no part of the
//! floor.

use std::fs::{self, File};
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use ::records::{Algorithm, Cipher, NONCE_BYTES};
use net::room::Room;
use rustix::time::{ClockId, clock_gettime};
use testkit::{Error, Result};
use xroot_wire::limits::{PAGE_BYTES, PAGE_CHECKSUM_BYTES};
use xroot_wire::pages::checksum;

use crate::server::Lab;
use crate::workload::Sample;

mod answers;
mod copies;
mod greetings;
mod names;
mod pass;
mod pieces;

pub(crate) use answers::{Answers, Asked};
pub(crate) use copies::{Copies, Tls};
pub(crate) use greetings::Greetings;
pub(crate) use names::Names;
pub(crate) use pass::Pass;
pub(crate) use pieces::Pieces;

/// Payload that is taken through all steps at once.
const BATCH_BYTES: usize = 256 << 10;
/// Payload of a TLS record, and what stands around it (RFC 8446 §5.2).
const RECORD_BYTES: usize = 16 << 10;
const RECORD_HEADER: [u8; 5] = [23, 3, 3, 0x40, 0x11];
const RECORD_TAIL_BYTES: usize = 17;
const RECORD_WIRE_BYTES: usize = RECORD_HEADER.len() + RECORD_BYTES + RECORD_TAIL_BYTES;
/// Of every record: nothing here is secret.
const NONCE: [u8; NONCE_BYTES] = [0; NONCE_BYTES];
/// A page behind its checksum.
const PAGE_WIRE_BYTES: usize = PAGE_CHECKSUM_BYTES + PAGE_BYTES;

/// What one side of a connection does with each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    /// Sends the file without touching it.
    Send,
    /// Reads the file, makes the checksum of each page, and sends both.
    SendPages,
    /// Reads the file, seals it, and sends the records.
    SendSealed,
    /// Receives, makes the file's checksum, and writes.
    Take,
    /// Receives pages, compares their checksums, makes the file's, and writes.
    TakePages,
    /// Receives records, opens them, makes the file's checksum, and writes.
    TakeSealed,
}

/// What the servers of a path cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Floor {
    /// A loop on so many connections, each with a client of its own.
    Connections(Loop, u64),
    /// One loop sends to another, as one server does to another.
    Copies(Copies),
    /// Many pieces of a file for each request.
    Pieces(Pieces),
    /// The names in a directory.
    Names(Names),
    /// TLS connections from their beginning to their end.
    Greetings(Greetings),
    /// Requests that are answered with a few bytes.
    Answers(Answers),
    /// From one server to another connection.
    Pass(Pass),
}

impl Floor {
    /// Measures it over a file of `size_bytes`, beside which files are made.
    pub(crate) fn measure(self, lab: &mut Lab, size_bytes: u64) -> Result<Sample> {
        let (source, _) = lab.source(size_bytes)?;
        match self {
            Self::Connections(one, connections) => one.measure(connections, &source),
            Self::Copies(copies) => copies.measure(&source, &lab.tls()?),
            Self::Pieces(pieces) => pieces.measure(&source),
            Self::Names(names) => names.measure(&lab.many()?),
            Self::Answers(answers) => answers.measure(),
            Self::Pass(pass) => pass.measure(&source),
            Self::Greetings(greetings) => greetings.measure(&lab.tls()?.server, &lab.ca_file()),
        }
    }
}

impl Loop {
    /// As many bytes as the file has, spread over the connections, each with a thread of its own on
    /// both sides.
    fn measure(self, connections: u64, source: &Path) -> Result<Sample> {
        let batches = batches(source.metadata()?.len() / connections);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let began = Instant::now();
        let used = thread::scope(|scope| {
            let mut servers = Vec::new();
            let mut clients = Vec::new();
            for index in 0..connections {
                clients.push(scope.spawn(move || self.other_side(port, batches)));
                let (stream, _) = listener.accept()?;
                let part = (index * batches)..((index + 1) * batches);
                servers.push(scope.spawn(move || self.run(&stream, source, index, part)));
            }
            let used = servers.into_iter().map(joined).sum::<Result<f64>>()?;
            clients.into_iter().try_for_each(joined)?;
            Ok::<f64, Error>(used)
        });
        let elapsed = began.elapsed();
        remove_targets(source, connections);
        let moved = connections * batches * BATCH_BYTES as u64;
        Ok(Sample::of_data(used?, moved, elapsed))
    }

    /// `part` says which batches of the file go: each connection has others, as files that are
    /// served lie in memory and not in the processor's cache. What is taken is written to a file of
    /// the connection's own, beside the other, which stays, as those of the servers do. Returns the
    /// processor time.
    fn run(self, stream: &TcpStream, source: &Path, index: u64, part: Range<u64>) -> Result<f64> {
        stream.set_nodelay(true)?;
        match self {
            Self::Send => clocked(|| send(stream, &File::open(source)?, part)),
            Self::SendPages => clocked(|| send_pages(stream, &File::open(source)?, part)),
            Self::SendSealed => clocked(|| send_sealed(stream, &File::open(source)?, part)),
            Self::Take | Self::TakePages | Self::TakeSealed => {
                let file = File::create_new(target(source, index))?;
                clocked(|| self.take(stream, &file, part.end - part.start))
            }
        }
    }

    /// Room for a batch as it is on the wire, filled with something.
    fn wire_batch(self) -> Room {
        let wire_bytes = match self {
            Self::Send | Self::Take => BATCH_BYTES,
            Self::SendPages | Self::TakePages => BATCH_BYTES / PAGE_BYTES * PAGE_WIRE_BYTES,
            Self::SendSealed | Self::TakeSealed => BATCH_BYTES / RECORD_BYTES * RECORD_WIRE_BYTES,
        };
        let mut wire = Room::new(wire_bytes);
        wire.fill(0x5A);
        wire
    }

    /// The client, who does with each byte what a client cannot do without either: it takes its
    /// share of a processor whose cores are not independent.
    fn other_side(self, port: u16, batches: u64) -> Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        let mut wire = self.wire_batch();
        let key = key()?;
        for _ in 0..batches {
            match self {
                Self::Send => stream.read_exact(&mut wire)?,
                Self::SendPages => {
                    stream.read_exact(&mut wire)?;
                    wire.chunks_exact(PAGE_WIRE_BYTES)
                        .try_for_each(|unit| sound_page(unit).map(drop))?;
                }
                Self::SendSealed => read_records(&mut stream, &key, &mut wire)?,
                Self::Take => stream.write_all(&wire)?,
                Self::TakePages => {
                    wire.chunks_exact_mut(PAGE_WIRE_BYTES).for_each(protect);
                    stream.write_all(&wire)?;
                }
                Self::TakeSealed => {
                    wire.chunks_exact_mut(RECORD_WIRE_BYTES)
                        .try_for_each(|record| seal(&key, record))?;
                    stream.write_all(&wire)?;
                }
            }
        }
        Ok(())
    }

    fn take(self, mut stream: &TcpStream, mut target: &File, batches: u64) -> Result<()> {
        let mut wire = self.wire_batch();
        let key = key()?;
        let mut adler = storage::Adler32::new();
        for _ in 0..batches {
            stream.read_exact(&mut wire)?;
            let mut parts: Vec<IoSlice<'_>> = match self {
                Self::TakePages => wire
                    .chunks_exact(PAGE_WIRE_BYTES)
                    .map(sound_page)
                    .collect::<Result<_>>()?,
                Self::TakeSealed => {
                    let records = wire.chunks_exact_mut(RECORD_WIRE_BYTES);
                    records.map(|record| opened(&key, record)).collect::<Result<_>>()?
                }
                _ => vec![IoSlice::new(&wire)],
            };
            parts.iter().for_each(|part| adler.update(part));
            let mut parts = &mut parts[..];
            while !parts.is_empty() {
                let count = target.write_vectored(parts)?;
                IoSlice::advance_slices(&mut parts, count);
            }
        }
        std::hint::black_box(adler.finish());
        Ok(())
    }
}

fn send(stream: &TcpStream, file: &File, part: Range<u64>) -> Result<()> {
    let mut left = (part.end - part.start) as usize * BATCH_BYTES;
    let mut offset = part.start * BATCH_BYTES as u64;
    while left > 0 {
        match rustix::fs::sendfile(stream, file, Some(&mut offset), left).map_err(std::io::Error::from)? {
            0 => return Err(Error::Failed("the floor's file has become shorter".to_owned())),
            count => left -= count,
        }
    }
    Ok(())
}

fn send_pages(mut stream: &TcpStream, file: &File, part: Range<u64>) -> Result<()> {
    let mut wire = Room::new(BATCH_BYTES / PAGE_BYTES * PAGE_WIRE_BYTES);
    for batch in part {
        let pages = wire
            .chunks_exact_mut(PAGE_WIRE_BYTES)
            .map(|unit| &mut unit[PAGE_CHECKSUM_BYTES..]);
        read_into(file, batch, pages)?;
        wire.chunks_exact_mut(PAGE_WIRE_BYTES).for_each(protect);
        stream.write_all(&wire)?;
    }
    Ok(())
}

fn send_sealed(stream: &TcpStream, file: &File, part: Range<u64>) -> Result<()> {
    let key = key()?;
    let mut wire = sealed_batch();
    for batch in part {
        let records = wire.chunks_exact_mut(RECORD_WIRE_BYTES);
        read_into(
            file,
            batch,
            records.map(|record| &mut record[RECORD_HEADER.len()..][..RECORD_BYTES]),
        )?;
        send_records(stream, &key, &mut wire)?;
    }
    Ok(())
}

/// Room for a batch in records.
fn sealed_batch() -> Room {
    Room::new(BATCH_BYTES / RECORD_BYTES * RECORD_WIRE_BYTES)
}

/// Seals records whose payload lies in its place, and sends them.
fn send_records(mut stream: &TcpStream, key: &Cipher, wire: &mut [u8]) -> Result<()> {
    wire.chunks_exact_mut(RECORD_WIRE_BYTES)
        .try_for_each(|record| seal(key, record))?;
    Ok(stream.write_all(wire)?)
}

/// Receives records until `wire` is full of them, and opens them.
fn read_records(stream: &mut TcpStream, key: &Cipher, wire: &mut [u8]) -> Result<()> {
    stream.read_exact(wire)?;
    wire.chunks_exact_mut(RECORD_WIRE_BYTES)
        .try_for_each(|record| opened(key, record).map(drop))
}

/// Reads a batch of the file into `gaps`, with one call.
fn read_into<'a>(file: &File, batch: u64, gaps: impl Iterator<Item = &'a mut [u8]>) -> Result<()> {
    let mut gaps: Vec<_> = gaps.map(std::io::IoSliceMut::new).collect();
    let offset = batch * BATCH_BYTES as u64;
    match rustix::io::preadv(file, &mut gaps, offset).map_err(std::io::Error::from)? {
        BATCH_BYTES => Ok(()),
        _ => Err(Error::Failed("the floor's file was read in part".to_owned())),
    }
}

/// Puts the checksum in front of a page.
fn protect(unit: &mut [u8]) {
    let (sum, page) = unit.split_at_mut(PAGE_CHECKSUM_BYTES);
    sum.copy_from_slice(&checksum(page).to_be_bytes());
}

/// The page of a unit, whose checksum must be right.
fn sound_page(unit: &[u8]) -> Result<IoSlice<'_>> {
    let (sum, page) = unit.split_at(PAGE_CHECKSUM_BYTES);
    match checksum(page).to_be_bytes() == sum {
        true => Ok(IoSlice::new(page)),
        false => Err(Error::Failed("a page of the floor's is damaged".to_owned())),
    }
}

fn key() -> Result<Cipher> {
    Cipher::new(Algorithm::Aes128Gcm, &[7; 16]).ok_or_else(|| Error::Failed("no AES-128-GCM".to_owned()))
}

/// Seals the payload that lies in a record's place.
fn seal(key: &Cipher, record: &mut [u8]) -> Result<()> {
    let (header, rest) = record.split_at_mut(RECORD_HEADER.len());
    header.copy_from_slice(&RECORD_HEADER);
    let (inner, tag) = rest.split_at_mut(RECORD_BYTES + 1);
    inner[RECORD_BYTES] = RECORD_HEADER[0];
    let sealed = key.seal(NONCE, &RECORD_HEADER, inner);
    let sealed = sealed.map_err(|_| Error::Failed("a record of the floor's cannot be sealed".to_owned()))?;
    tag.copy_from_slice(&sealed);
    Ok(())
}

/// The payload of a sealed record.
fn opened<'a>(key: &Cipher, record: &'a mut [u8]) -> Result<IoSlice<'a>> {
    let inner = &mut record[RECORD_HEADER.len()..];
    let payload = key.open(NONCE, &RECORD_HEADER, inner);
    let payload = payload.map_err(|_| Error::Failed("a record of the floor's cannot be opened".to_owned()))?;
    Ok(IoSlice::new(&payload[..RECORD_BYTES]))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let outcome = thread.join();
    outcome.map_err(|_| Error::Failed("a thread of the floor panicked".to_owned()))?
}

/// Where the connection of this number writes what it takes.
fn target(source: &Path, index: u64) -> PathBuf {
    source.with_extension(format!("floor-{index}"))
}

/// Removes what so many connections wrote, if they wrote anything.
fn remove_targets(source: &Path, connections: u64) {
    for index in 0..connections {
        let _ = fs::remove_file(target(source, index));
    }
}

/// Whole batches in so many bytes.
fn batches(size_bytes: u64) -> u64 {
    (size_bytes / BATCH_BYTES as u64).max(1)
}

/// The processor time that `work` takes in this thread.
fn clocked(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = processor_seconds();
    work().map(|()| processor_seconds() - before)
}

/// Processor time of this thread so far.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use testkit::Scratch;

    use super::*;

    const ALL: [Loop; 6] = [
        Loop::Send,
        Loop::SendPages,
        Loop::SendSealed,
        Loop::Take,
        Loop::TakePages,
        Loop::TakeSealed,
    ];

    #[test]
    fn every_loop_moves_all_and_leaves_nothing() {
        let scratch = Scratch::in_memory("floor").expect("scratch");
        let source = scratch.join("source");
        fs::write(&source, vec![1; 3 * BATCH_BYTES]).expect("written");
        for one in ALL {
            for connections in [1, 3] {
                let sample = one.measure(connections, &source).expect("measured");
                assert!(sample.first > 0.0 && sample.second > 0.0, "{one:?}: {sample:?}");
            }
        }
        assert_eq!(fs::read_dir(scratch.path()).expect("listed").count(), 1);
    }

    #[test]
    fn what_is_taken_is_what_lies_in_the_file() {
        let scratch = Scratch::in_memory("floor-taken").expect("scratch");
        for (index, one) in [Loop::Take, Loop::TakePages, Loop::TakeSealed].into_iter().enumerate() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
            let port = listener.local_addr().expect("bound").port();
            let client = thread::spawn(move || one.other_side(port, 2));
            let stream = listener.accept().expect("connected").0;
            let path = scratch.join(&index.to_string());
            one.take(&stream, &File::create_new(&path).expect("new"), 2)
                .expect("taken");
            client.join().expect("ended").expect("sent");
            let taken = fs::read(&path).expect("read");
            // What is sealed in place is another payload the next time.
            assert_eq!(taken.len(), 2 * BATCH_BYTES);
            assert!(taken[..BATCH_BYTES] == [0x5A; BATCH_BYTES], "{one:?}");
        }
    }

    #[test]
    fn damage_is_noticed() {
        let (mut unit, mut record, key) = ([1; PAGE_WIRE_BYTES], [2; RECORD_WIRE_BYTES], key().expect("key"));
        protect(&mut unit);
        seal(&key, &mut record).expect("sealed");
        let mut again = record;
        assert!(sound_page(&unit).is_ok() && opened(&key, &mut again).is_ok());
        unit[100] ^= 1;
        record[100] ^= 1;
        assert!(sound_page(&unit).is_err() && opened(&key, &mut record).is_err());
    }
}
