//! The floor of a listing: the names in a directory are read, each is asked about, and an answer of
//! as many bytes as ours is sent.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

use rustix::fs::{AtFlags, RawDir, statat};
use testkit::{Error, Result};

use super::{
    BATCH_BYTES, RECORD_BYTES, RECORD_WIRE_BYTES, clocked, joined, key, read_records, sealed_batch, send_records,
};
use crate::server::Scheme;
use crate::workload::Sample;

/// What is said about a file whose name has five letters, with all properties.
const ENTRY_BYTES: usize = 470;
/// Room for the names that are read with one call, as large as the endpoint's.
const NAMES_BYTES: usize = 12 << 10;
/// Listings for a sample.
const LISTINGS: u32 = 100;

/// A directory is listed over and over on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) scheme: Scheme,
    /// How many are in the directory.
    pub(crate) entries: usize,
}

impl Names {
    /// Processor milliseconds of the server for each listing, and listings per second.
    pub(super) fn measure(self, directory: &Path) -> Result<Sample> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let far = TcpStream::connect(listener.local_addr()?)?;
        let (near, _) = listener.accept()?;
        let began = Instant::now();
        let used = thread::scope(|scope| {
            let client = scope.spawn(move || self.ask(far));
            let server = scope.spawn(move || clocked(|| self.serve(&near, directory)));
            let used = joined(server)?;
            joined(client).map(|()| used)
        })?;
        Ok(Sample {
            first: used * 1e3 / f64::from(LISTINGS),
            second: f64::from(LISTINGS) / began.elapsed().as_secs_f64(),
        })
    }

    /// Records of an answer, whole ones.
    fn records(self) -> usize {
        (self.entries * ENTRY_BYTES).div_ceil(RECORD_BYTES)
    }

    /// The client: asks, and reads what comes.
    fn ask(self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let (key, mut wire) = (key()?, sealed_batch());
        for _ in 0..LISTINGS {
            stream.write_all(b"?")?;
            let mut left = self.records();
            while left > 0 {
                let some = left.min(BATCH_BYTES / RECORD_BYTES);
                match self.scheme {
                    Scheme::Http => stream.read_exact(&mut wire[..some * RECORD_BYTES])?,
                    Scheme::Https => read_records(&mut stream, &key, &mut wire[..some * RECORD_WIRE_BYTES])?,
                }
                left -= some;
            }
        }
        Ok(())
    }

    /// Answers what the client asks.
    fn serve(self, mut stream: &TcpStream, directory: &Path) -> Result<()> {
        let (key, mut wire) = (key()?, sealed_batch());
        let mut reader = stream;
        let mut send = |records: usize| match self.scheme {
            Scheme::Http => Ok(stream.write_all(&wire[..records * RECORD_BYTES])?),
            Scheme::Https => send_records(stream, &key, &mut wire[..records * RECORD_WIRE_BYTES]),
        };
        (0..LISTINGS).try_for_each(|_| {
            reader.read_exact(&mut [0])?;
            self.list(directory, &mut send)
        })
    }

    /// Reads the names, asks about each, and has whole records sent with `send`.
    fn list(self, directory: &Path, send: &mut impl FnMut(usize) -> Result<()>) -> Result<()> {
        let directory = File::open(directory)?;
        let mut room = [const { MaybeUninit::uninit() }; NAMES_BYTES];
        let mut names = RawDir::new(&directory, &mut room);
        let (mut found, mut unsent_bytes) = (0, 0);
        while let Some(name) = names.next() {
            let name = name.map_err(std::io::Error::from)?;
            if matches!(name.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let about = statat(&directory, name.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            std::hint::black_box(about.map_err(std::io::Error::from)?);
            found += 1;
            unsent_bytes += ENTRY_BYTES;
            if unsent_bytes >= BATCH_BYTES {
                send(BATCH_BYTES / RECORD_BYTES)?;
                unsent_bytes -= BATCH_BYTES;
            }
        }
        send(unsent_bytes.div_ceil(RECORD_BYTES))?;
        match found == self.entries {
            true => Ok(()),
            false => Err(Error::Failed(format!(
                "the floor's directory has {found} names and not {}",
                self.entries
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::Scratch;

    use super::*;

    #[test]
    fn every_name_is_asked_about_and_all_of_the_answer_comes() {
        let scratch = Scratch::in_memory("floor-names").expect("scratch");
        for name in 0..1200 {
            fs::write(scratch.join(&format!("{name:05}")), []).expect("written");
        }
        for scheme in Scheme::BOTH {
            let names = Names { scheme, entries: 1200 };
            let sample = names.measure(scratch.path()).expect("measured");
            assert!(sample.first > 0.0 && sample.second > 0.0, "{scheme:?}: {sample:?}");
        }
    }

    #[test]
    fn a_directory_with_other_files_is_noticed() {
        let scratch = Scratch::in_memory("floor-fewer").expect("scratch");
        fs::write(scratch.join("00000"), []).expect("written");
        let names = Names {
            scheme: Scheme::Http,
            entries: 2,
        };
        assert!(names.list(scratch.path(), &mut |_| Ok(())).is_err());
    }
}
