//! The workloads of the XRootD protocol, each beside the same work over HTTP where there is such.

mod gsi;
mod logins;
mod session;
mod stat;
mod third_party;
mod vector;
mod xrdcp;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::{Process, Result};

use crate::handshake::{Beginning, config};
use crate::line::Door;
use crate::server::{Kind, Scheme, Server};
use crate::workload::{Bench, MIB, Pair, Sample, copy_bytes, measured, take_away};

pub(crate) use self::gsi::{User, Users};
pub(crate) use self::logins::{LITE_TURNS, LOGIN_CLIENTS, LoginKind, lite_bytes};
pub(crate) use self::session::{Reply, XrootSession, failed, opening};
use self::third_party::{Copy, Way};
use self::vector::Reading;
pub(crate) use self::vector::{Piece, PieceMethod, pieces};
pub(crate) use self::xrdcp::{Security, Xrdcp};

/// Files that are asked for in the tests of metadata.
pub(crate) const STAT_FILES: usize = 10_000;
/// Connections in the tests of metadata.
const STAT_CONNECTIONS: usize = 16;
/// How often each file is asked for, for each second of [`Bench::load_seconds`].
const STAT_ROUNDS: u32 = 10;
/// Connections that read pieces, each with one request under way.
pub(crate) const PIECE_CONNECTIONS: u64 = 4;
/// Files one after the other in one run. Plain reads cost a server so little that more are needed
/// for a figure.
pub(crate) const FILES: u64 = 2;
const PLAIN_FILES: u64 = 4;
/// Third-party copies at once when memory is looked at.
pub(crate) const MEMORY_COPIES: u64 = 40;
/// Between two looks at memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);

/// Requests for `count` pieces each on one of [`PIECE_CONNECTIONS`]: together they ask for twice as
/// much as the file is long.
pub(crate) fn piece_requests(size_bytes: u64, count: u64) -> u64 {
    let one: u64 = pieces(size_bytes, count, 0).iter().map(|piece| piece.length).sum();
    (2 * size_bytes / one / PIECE_CONNECTIONS).max(1)
}

impl Bench {
    /// Downloads with xrdcp: with page checksums in clear text, plain ones over TLS.
    pub(crate) fn root_get(&mut self, pair: &mut Pair, security: Security, streams: u32) -> Result<Sample> {
        self.download(pair, FILES, &Xrdcp::new(&self.lab, security, streams)?)
    }

    /// Downloads with xrdcp without page checksums, in clear text.
    pub(crate) fn root_read(&mut self, pair: &mut Pair) -> Result<Sample> {
        self.download(
            pair,
            PLAIN_FILES,
            &Xrdcp::new(&self.lab, Security::Clear, 1)?.without_pages(),
        )
    }

    fn download(&mut self, pair: &mut Pair, files: u64, xrdcp: &Xrdcp) -> Result<Sample> {
        let name = format!("get-{}", self.size_bytes);
        self.lab.plant(&pair.first, &name, self.size_bytes)?;
        let url = xrdcp.url(&pair.first, &name)?;
        let total = self.size_bytes * files;
        measured(&mut [&mut pair.first], total, || {
            (0..files).try_for_each(|_| xrdcp.copy(&url, "/dev/null"))?;
            Ok(total)
        })
    }

    /// Uploads with xrdcp under new names, all removed afterwards.
    pub(crate) fn root_put(&mut self, pair: &mut Pair, security: Security, streams: u32) -> Result<Sample> {
        let xrdcp = Xrdcp::new(&self.lab, security, streams)?;
        let (source, checksum) = self.lab.source(self.size_bytes)?;
        let names: Vec<String> = (0..FILES).map(|index| format!("root-put-{index}")).collect();
        let urls: Vec<String> = names
            .iter()
            .map(|name| xrdcp.url(&pair.first, name))
            .collect::<Result<_>>()?;
        let source = source.to_string_lossy();
        let total = self.size_bytes * FILES;
        let sample = measured(&mut [&mut pair.first], total, || {
            urls.iter().try_for_each(|url| xrdcp.copy(&source, url))?;
            Ok(total)
        });
        let checked = take_away(&pair.first, &names, checksum);
        sample.and_then(|sample| checked.map(|()| sample))
    }

    /// `count` pieces in each request. As much is moved as a file is long, or twice that for the
    /// smaller requests.
    pub(crate) fn pieces(
        &mut self,
        pair: &mut Pair,
        security: Security,
        method: PieceMethod,
        count: u64,
    ) -> Result<Sample> {
        let name = format!("get-{}", self.size_bytes);
        self.lab.plant(&pair.first, &name, self.size_bytes)?;
        let reading = Reading {
            method,
            door: Door {
                port: match (method, security) {
                    (PieceMethod::Vector, _) => pair.first.root_port()?,
                    (PieceMethod::Ranges, Security::Clear) => pair.first.http_port(Scheme::Http)?,
                    (PieceMethod::Ranges, Security::Tls) => pair.first.http_port(Scheme::Https)?,
                },
                tls: match security {
                    Security::Clear => None,
                    Security::Tls => Some(config(&self.lab.ca_file(), Beginning::Full)?),
                },
            },
            path: &format!("/data/{name}"),
            size_bytes: self.size_bytes,
            count,
            connections: PIECE_CONNECTIONS,
            requests: piece_requests(self.size_bytes, count),
        };
        let mut moved = 0;
        let sample = measured_some(&mut pair.first, || {
            moved = reading.run()?;
            Ok(moved)
        })?;
        Ok(Sample {
            // From Gbit/s to MB/s.
            first: sample.second * 125.0,
            second: sample.first,
        })
    }

    /// Questions about 10 000 files, on 16 connections, each sending all of its own before it reads
    /// the answers.
    pub(crate) fn stat(&mut self, pair: &mut Pair) -> Result<Sample> {
        let paths = self.plant_many(&pair.first)?;
        let rounds = STAT_ROUNDS * self.load_seconds;
        let port = pair.first.root_port()?;
        let before = pair.first.process().cpu_seconds()?;
        let asked = stat::ask(port, &paths, STAT_CONNECTIONS, rounds)?;
        let used = pair.first.process().cpu_seconds()? - before;
        Ok(Sample {
            first: asked.requests as f64 / asked.seconds,
            second: used * 1e6 / asked.requests as f64,
        })
    }

    /// `method` of the same files over HTTP in clear text, on as many connections.
    pub(crate) fn metadata_of_many(&mut self, pair: &mut Pair, method: &str) -> Result<Sample> {
        let paths = self.plant_many(&pair.first)?;
        let url = pair.first.url(Scheme::Http, "");
        let before = pair.first.process().cpu_seconds()?;
        let load = self.client.load_many(method, &url, &paths, self.load_seconds)?;
        let used = pair.first.process().cpu_seconds()? - before;
        Ok(Sample {
            first: load.requests_per_second,
            second: used * 1e6 / load.requests as f64,
        })
    }

    /// Makes the files for questions, all empty, where they are not there yet. Returns their paths.
    pub(crate) fn plant_many(&mut self, server: &Server) -> Result<Vec<String>> {
        make_many(&server.file("many"))?;
        Ok(names_of_many().map(|name| format!("/data/many/{name}")).collect())
    }

    /// `count` third-party copies at once in clear text. The processor time is that of both
    /// servers.
    pub(crate) fn root_copies(&mut self, pair: &mut Pair, count: u64) -> Result<Sample> {
        let Pair {
            first: destination,
            second: Some(source),
        } = pair
        else {
            return Err(failed("copies need two servers"));
        };
        let file_bytes = copy_bytes(self.size_bytes, count);
        let (copies, names, checksum) = self.prepare_copies(destination, source, count, file_bytes)?;
        let total = file_bytes * count;
        let sample = measured(&mut [destination, source], total, || {
            third_party::copy_all(&copies).map(|()| total)
        });
        let checked = take_away(destination, &names, checksum);
        sample.and_then(|sample| checked.map(|()| sample))
    }

    /// The highest resident memory of two fresh servers and their children while 40 copies run at
    /// once.
    pub(crate) fn root_memory(&mut self, kind: Kind) -> Result<Sample> {
        let (mut destination, mut source) = (self.lab.start(kind)?, self.lab.start(kind)?);
        let file_bytes = self.size_bytes / 32;
        let (copies, names, checksum) = self.prepare_copies(&destination, &source, MEMORY_COPIES, file_bytes)?;
        let watched = [&*destination.process(), &*source.process()];
        let (outcome, peaks) = watch_memory(watched, || third_party::copy_all(&copies));
        outcome?;
        take_away(&destination, &names, checksum)?;
        Ok(Sample {
            first: peaks[0],
            second: peaks[1],
        })
    }

    fn prepare_copies(
        &mut self,
        destination: &Server,
        source: &Server,
        count: u64,
        file_bytes: u64,
    ) -> Result<(Vec<Copy>, Vec<String>, u32)> {
        let name = format!("source-{file_bytes}");
        let checksum = self.lab.plant(source, &name, file_bytes)?;
        self.copies_begun += 1;
        let names: Vec<String> = (0..count).map(|index| format!("root-copy-{index}")).collect();
        let (source_port, destination_port) = (source.root_port()?, destination.root_port()?);
        let copies = names
            .iter()
            .enumerate()
            .map(|(index, target)| Copy {
                source_port,
                source_path: format!("/data/{name}"),
                destination_port,
                destination_path: format!("/data/{target}"),
                size_bytes: file_bytes,
                key: format!("{:08x}{:08x}{index:08x}", std::process::id(), self.copies_begun),
                way: Way::Key,
            })
            .collect();
        Ok((copies, names, checksum))
    }
}

/// Makes `directory` with [`STAT_FILES`] empty files, if it is not there yet.
pub(crate) fn make_many(directory: &Path) -> Result<()> {
    if directory.exists() {
        return Ok(());
    }
    fs::create_dir(directory)?;
    for name in names_of_many() {
        fs::write(directory.join(name), [])?;
    }
    Ok(())
}

fn names_of_many() -> impl Iterator<Item = String> {
    (0..STAT_FILES).map(|index| format!("{index:05}"))
}

/// Like [`measured`], for work that says itself how much it moved.
fn measured_some(server: &mut Server, work: impl FnOnce() -> Result<u64>) -> Result<Sample> {
    let before = server.process().cpu_seconds()?;
    let started = std::time::Instant::now();
    let moved = work()? as f64 / 1e9;
    let seconds = started.elapsed().as_secs_f64();
    let used = server.process().cpu_seconds()? - before;
    Ok(Sample {
        first: used / moved,
        second: moved * 8.0 / seconds,
    })
}

/// Does `work`, and looks at the memory of `processes` and their children meanwhile. Returns the
/// highest of each, in MiB.
fn watch_memory<T>(processes: [&Process; 2], work: impl FnOnce() -> T) -> (T, [f64; 2]) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peaks = [0.0_f64; 2];
            loop {
                let is_last = done.load(Ordering::Acquire);
                for (peak, process) in peaks.iter_mut().zip(processes) {
                    let now = process.memory().map_or(0, |memory| memory.resident_bytes);
                    *peak = peak.max(now as f64 / MIB);
                }
                if is_last {
                    return peaks;
                }
                thread::sleep(MEMORY_INTERVAL);
            }
        });
        let outcome = work();
        done.store(true, Ordering::Release);
        (outcome, watcher.join().unwrap_or([f64::NAN; 2]))
    })
}
