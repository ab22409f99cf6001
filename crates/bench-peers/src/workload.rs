//! One workload at a time: what is asked of a server, and what it costs.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use testkit::{Error, Result};

use crate::client::{Client, CopyRequest};
use crate::clients;
use crate::cluster::Clusters;
use crate::queue::{Database, Figures, Sizes};
use crate::server::{Kind, Lab, Scheme, Server, adler32};
use crate::stores::Stores;
use crate::summary::Summary;

pub(crate) const GB: f64 = 1e9;
/// Listings that are asked for, for each second that a load is to last. With ten of them, which
/// took a quarter of a second in all, our figure was up to half as large again in one run and not
/// in the next.
const LISTINGS_PER_SECOND: usize = 60;
/// Files of the largest size that a sample of GET reads in clear text. A server takes 40 ms of
/// processor time for a GB, and the system counts in ticks of 10 ms: with four files one tick was a
/// twentieth of the figure.
pub(crate) const CLEAR_FILES: u64 = 16;
/// As many bytes as in so many of them are read at once, from one file by everybody.
const FILES_AT_ONCE: u64 = 4;
/// Files of the largest size that a sample of GET reads over TLS, and that a sample of PUT writes.
pub(crate) const SEALED_FILES: u64 = 2;
/// Turns of new files and files written over in one sample: memory that was used a moment ago takes
/// less time than other memory, which would decide if all new files came first.
pub(crate) const OVERWRITE_TURNS: u64 = 8;
pub(crate) const MIB: f64 = (1 << 20) as f64;

/// The two figures of one measurement, as [`crate::metric::Metric`] says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) first: f64,
    pub(crate) second: f64,
}

impl Sample {
    /// Of payload that was moved: processor seconds for each GB, and Gbit/s.
    pub(crate) fn of_data(used_seconds: f64, moved_bytes: u64, elapsed: Duration) -> Self {
        let gigabytes = moved_bytes as f64 / GB;
        Self {
            first: used_seconds / gigabytes,
            second: gigabytes * 8.0 / elapsed.as_secs_f64(),
        }
    }
}

/// Everything that a workload needs.
pub(crate) struct Bench {
    pub(crate) lab: Lab,
    pub(crate) client: Client,
    /// Size of the largest file.
    pub(crate) size_bytes: u64,
    /// How long requests for metadata are repeated.
    pub(crate) load_seconds: u32,
    /// Groups of third-party copies so far: their keys must differ.
    pub(crate) copies_begun: u32,
    /// Servers that want logins by gsi.
    pub(crate) guarded: BTreeMap<Kind, Pair>,
    /// Clusters that run.
    pub(crate) clusters: Clusters,
    /// How large the courses of the transfer queue are.
    pub(crate) queue_sizes: Sizes,
    /// What the courses of the transfer queue have found so far.
    pub(crate) queue: BTreeMap<Database, Figures>,
    /// How large the trees of clients are.
    pub(crate) client_sizes: clients::Sizes,
    /// The servers that clients copy from and to, once they are needed.
    pub(crate) site: Option<clients::Site>,
    /// Servers with stores on other servers.
    pub(crate) stores: Stores,
}

/// The servers of one kind: the second is the passive party of copies.
pub(crate) struct Pair {
    pub(crate) first: Server,
    pub(crate) second: Option<Server>,
}

/// Who is active in a third-party copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pull,
    Push,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

/// How a fixed number of bytes is spread over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) file_bytes: u64,
    pub(crate) files_per_connection: u64,
}

impl Spread {
    /// `total_bytes` over `connections`, in files of at most `size_bytes`, the same number on each
    /// connection.
    pub(crate) fn new(total_bytes: u64, connections: u64, size_bytes: u64) -> Self {
        let per_connection = total_bytes / connections;
        let files_per_connection = per_connection.div_ceil(size_bytes).max(1);
        Self {
            file_bytes: per_connection / files_per_connection,
            files_per_connection,
        }
    }

    /// A list of names for each connection.
    fn names(self, connections: u64, name: impl Fn(u64, u64) -> String) -> Vec<Vec<String>> {
        (0..connections)
            .map(|c| (0..self.files_per_connection).map(|f| name(c, f)).collect())
            .collect()
    }
}

impl Bench {
    /// Bytes per run of GET and PUT. In clear text a server needs so little time that more bytes
    /// are needed for a figure.
    pub(crate) fn total_bytes(&self, scheme: Scheme) -> u64 {
        let files = match scheme {
            Scheme::Http => CLEAR_FILES,
            Scheme::Https => SEALED_FILES,
        };
        self.size_bytes * files
    }

    /// Starts the servers of `kind`.
    pub(crate) fn start(&mut self, kind: Kind) -> Result<Pair> {
        let first = self.lab.start(kind)?;
        let second = if kind.is_storage() {
            Some(self.lab.start(kind)?)
        } else {
            None
        };
        Ok(Pair { first, second })
    }

    /// GET on `connections` at once.
    pub(crate) fn get(&mut self, pair: &mut Pair, scheme: Scheme, connections: u64) -> Result<Sample> {
        // Several files one after the other on each of many connections in clear text, too.
        let largest_bytes = self.size_bytes.min(FILES_AT_ONCE * self.size_bytes / connections);
        let spread = Spread::new(self.total_bytes(scheme), connections, largest_bytes);
        let file = format!("get-{}", spread.file_bytes);
        self.lab.plant(&pair.first, &file, spread.file_bytes)?;
        let url = pair.first.url(scheme, &file);
        let urls = spread.names(connections, |_, _| url.clone());
        let expected = spread.file_bytes * spread.files_per_connection * connections;
        let client = &self.client;
        measured(&mut [&mut pair.first], expected, || client.download(&urls))
    }

    /// PUT on `connections` at once, each file under a new name, all removed afterwards.
    pub(crate) fn put(&mut self, pair: &mut Pair, scheme: Scheme, connections: u64) -> Result<Sample> {
        // Everything that is written stays in memory until the run ends: no more than of GET over
        // TLS.
        let spread = Spread::new(self.total_bytes(Scheme::Https), connections, self.size_bytes);
        let (source, checksum) = self.lab.source(spread.file_bytes)?;
        let names = spread.names(connections, |c, f| format!("put-{c}-{f}"));
        let urls: Vec<Vec<String>> = names
            .iter()
            .map(|list| list.iter().map(|name| pair.first.url(scheme, name)).collect())
            .collect();
        let expected = spread.file_bytes * spread.files_per_connection * connections;
        let client = &self.client;
        let sample = measured(&mut [&mut pair.first], expected, || client.upload(&source, &urls));
        let checked = take_away(&pair.first, &names.concat(), checksum);
        sample.and_then(|sample| checked.map(|()| sample))
    }

    /// `count` third-party copies at once over TLS between the two servers, which say nothing about
    /// streams, as FTS' do. The processor time is that of both sides.
    pub(crate) fn copies(&mut self, pair: &mut Pair, scheme: Scheme, mode: Mode, count: u64) -> Result<Sample> {
        let file_bytes = copy_bytes(self.size_bytes, count);
        let Pair {
            first: active,
            second: Some(passive),
        } = pair
        else {
            return Err(Error::Failed("copies need two servers".to_owned()));
        };
        let files = Copies {
            scheme,
            mode,
            count,
            streams: 0,
            file_bytes,
        };
        self.copy_files(active, passive, files)
    }

    /// One pull over TLS on `streams` streams. The processor time is that of both sides.
    pub(crate) fn streams(&mut self, pair: &mut Pair, streams: u32) -> Result<Sample> {
        let file_bytes = self.size_bytes;
        let Pair {
            first: active,
            second: Some(passive),
        } = pair
        else {
            return Err(Error::Failed("copies need two servers".to_owned()));
        };
        let files = Copies {
            scheme: Scheme::Https,
            mode: Mode::Pull,
            count: 1,
            streams,
            file_bytes,
        };
        self.copy_files(active, passive, files)
    }

    /// Uploads to existing files on `connections` at once, set against uploads of the same files
    /// under new names, which went before: the rate divided by the other rate (the median of
    /// turns), and the processor time of all turns divided by the other one.
    pub(crate) fn overwrite(&mut self, pair: &mut Pair, connections: u64) -> Result<Sample> {
        let total_bytes = self.total_bytes(Scheme::Https) / OVERWRITE_TURNS;
        let spread = Spread::new(total_bytes, connections, self.size_bytes / 8);
        let (source, checksum) = self.lab.source(spread.file_bytes)?;
        let (mut rates, mut new_cpu, mut again_cpu) = (Vec::new(), 0.0, 0.0);
        for turn in 0..OVERWRITE_TURNS {
            let names = spread.names(connections, |c, f| format!("again-{turn}-{c}-{f}"));
            let urls: Vec<Vec<String>> = names
                .iter()
                .map(|list| list.iter().map(|name| pair.first.url(Scheme::Https, name)).collect())
                .collect();
            let expected = spread.file_bytes * spread.files_per_connection * connections;
            let client = &self.client;
            let mut once = || measured(&mut [&mut pair.first], expected, || client.upload(&source, &urls));
            let samples = once().and_then(|new| once().map(|again| (new, again)));
            let checked = take_away(&pair.first, &names.concat(), checksum);
            let (new, again) = samples?;
            checked?;
            rates.push(again.second / new.second);
            new_cpu += new.first;
            again_cpu += again.first;
        }
        Ok(Sample {
            first: Summary::of(&rates).map_or(f64::NAN, |rates| rates.median),
            second: again_cpu / new_cpu,
        })
    }

    /// The highest resident memory of two fresh servers after 100 copies at once, each long enough
    /// that they overlap.
    pub(crate) fn memory(&mut self, kind: Kind, mode: Mode) -> Result<Sample> {
        let files = Copies {
            scheme: Scheme::Https,
            mode,
            count: 100,
            streams: 0,
            file_bytes: self.size_bytes / 32,
        };
        self.peaks(kind, files)
    }

    /// The highest resident memory of two fresh servers after one pull on `streams` streams.
    pub(crate) fn streams_memory(&mut self, kind: Kind, streams: u32) -> Result<Sample> {
        let files = Copies {
            scheme: Scheme::Https,
            mode: Mode::Pull,
            count: 1,
            streams,
            file_bytes: self.size_bytes,
        };
        self.peaks(kind, files)
    }

    fn peaks(&mut self, kind: Kind, files: Copies) -> Result<Sample> {
        let (mut active, mut passive) = (self.lab.start(kind)?, self.lab.start(kind)?);
        self.copy_files(&mut active, &mut passive, files)?;
        let peak = |server: &mut Server| server.process().memory().map(|memory| memory.peak_bytes as f64 / MIB);
        Ok(Sample {
            first: peak(&mut active)?,
            second: peak(&mut passive)?,
        })
    }

    fn copy_files(&mut self, active: &mut Server, passive: &mut Server, files: Copies) -> Result<Sample> {
        let Copies {
            scheme,
            mode,
            count,
            streams,
            file_bytes,
        } = files;
        let source = format!("source-{file_bytes}");
        let names: Vec<String> = (0..count).map(|index| format!("copy-{index}")).collect();
        let giver = if mode == Mode::Pull { &*passive } else { &*active };
        let checksum = self.lab.plant(giver, &source, file_bytes)?;
        let requests: Vec<CopyRequest> = names
            .iter()
            .map(|name| match mode {
                Mode::Pull => CopyRequest {
                    url: active.url(scheme, name),
                    header: format!("Source: {}", passive.url(scheme, &source)),
                    streams,
                },
                Mode::Push => CopyRequest {
                    url: active.url(scheme, &source),
                    header: format!("Destination: {}", passive.url(scheme, name)),
                    streams,
                },
            })
            .collect();
        let client = &self.client;
        let total = file_bytes * count;
        let sample = measured(&mut [active, passive], total, || client.copy(&requests).map(|()| total));
        let taker = if mode == Mode::Pull { active } else { passive };
        let checked = take_away(taker, &names, checksum);
        sample.and_then(|sample| checked.map(|()| sample))
    }

    /// PROPFIND of depth 1 of a directory with many files, one after the other on one connection.
    pub(crate) fn listing(&mut self, pair: &mut Pair, scheme: Scheme) -> Result<Sample> {
        let entries = self.plant_many(&pair.first)?.len() + 1;
        let server = &mut pair.first;
        let url = server.url(scheme, "many/");
        let times = LISTINGS_PER_SECOND * self.load_seconds as usize;
        self.client.list(&url, 1, entries)?;
        let before = server.process().cpu_seconds()?;
        let began = Instant::now();
        self.client.list(&url, times, entries)?;
        let seconds = began.elapsed().as_secs_f64();
        let used = server.process().cpu_seconds()? - before;
        Ok(Sample {
            first: used * 1e3 / times as f64,
            second: times as f64 / seconds,
        })
    }

    /// `method` on so many connections. The answer to HEAD is of an empty file: wrk would wait for
    /// an announced body.
    pub(crate) fn metadata(
        &mut self,
        pair: &mut Pair,
        scheme: Scheme,
        method: &str,
        connections: u64,
    ) -> Result<Sample> {
        let size_bytes = if method == "HEAD" { 0 } else { 12_345 };
        let name = format!("metadata-{size_bytes}");
        self.lab.plant(&pair.first, &name, size_bytes)?;
        let url = pair.first.url(scheme, &name);
        let before = pair.first.process().cpu_seconds()?;
        let load = self.client.load(method, &url, connections, self.load_seconds)?;
        let used = pair.first.process().cpu_seconds()? - before;
        Ok(Sample {
            first: load.requests_per_second,
            second: used * 1e6 / load.requests as f64,
        })
    }
}

/// Third-party copies that are made at once.
#[derive(Clone, Copy)]
struct Copies {
    scheme: Scheme,
    mode: Mode,
    count: u64,
    /// 0 says nothing about streams.
    streams: u32,
    file_bytes: u64,
}

/// The length of each of `count` copies: one is of the largest size, several are together twice
/// that, so that what each connection costs does not hide what each byte costs.
pub(crate) fn copy_bytes(size_bytes: u64, count: u64) -> u64 {
    if count == 1 { size_bytes } else { 2 * size_bytes / count }
}

/// Runs `work`, which moves `expected` bytes, and sets the processor time of `servers` against
/// them.
pub(crate) fn measured(
    servers: &mut [&mut Server],
    expected: u64,
    work: impl FnOnce() -> Result<u64>,
) -> Result<Sample> {
    let mut used = 0.0;
    for server in servers.iter_mut() {
        used -= server.process().cpu_seconds()?;
    }
    let started = Instant::now();
    let moved = work()?;
    let elapsed = started.elapsed();
    for server in servers.iter_mut() {
        used += server.process().cpu_seconds()?;
    }
    if moved != expected {
        return Err(Error::Failed(format!("{moved} bytes were moved instead of {expected}")));
    }
    Ok(Sample::of_data(used, moved, elapsed))
}

/// Removes the files `names` of `server`, and complains of the first that was missing or had
/// another checksum.
pub(crate) fn take_away(server: &Server, names: &[String], checksum: u32) -> Result<()> {
    let mut outcome = Ok(());
    for name in names {
        let path = server.file(name);
        let found = adler32(&path);
        if found.is_ok() {
            fs::remove_file(&path)?;
        }
        if outcome.is_ok() && found != Ok(checksum) {
            outcome = Err(Error::Failed(format!(
                "{name} has adler32 {found:08x?} instead of {checksum:08x}"
            )));
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_total_is_the_same_for_any_number_of_connections() {
        for connections in [1, 4, 16] {
            let spread = Spread::new(4 * GIB, connections, GIB);
            assert_eq!(spread.file_bytes * spread.files_per_connection * connections, 4 * GIB);
            assert!(spread.file_bytes <= GIB);
        }
        assert_eq!(
            Spread::new(2 * GIB, 1, GIB),
            Spread {
                file_bytes: GIB,
                files_per_connection: 2
            }
        );
        assert_eq!(
            Spread::new(2 * GIB, 16, GIB),
            Spread {
                file_bytes: GIB / 8,
                files_per_connection: 1
            }
        );
    }

    #[test]
    fn several_copies_are_together_twice_as_long_as_one() {
        assert_eq!(
            [1, 10, 100].map(|count| copy_bytes(1000, count) * count),
            [1000, 2000, 2000]
        );
    }

    #[test]
    fn every_file_has_a_name_of_its_own() {
        let spread = Spread {
            file_bytes: 1,
            files_per_connection: 2,
        };
        let names = spread.names(3, |c, f| format!("{c}-{f}")).concat();
        assert_eq!(names, ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]);
    }
}
