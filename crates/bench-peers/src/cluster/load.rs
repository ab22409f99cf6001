//! What is asked of a cluster.

use std::thread;
use std::time::{Duration, Instant};

use testkit::Result;

use super::http::HttpClient;
use super::root::RootClient;
use super::site::{NODES, Site};
use super::{Figure, NEW_NAMES, Place, Protocol, READERS, SMALL_BYTES};
use crate::floor::{Answers, Asked};
use crate::root::failed;
use crate::server::Lab;
use crate::summary::Summary;
use crate::workload::Sample;

/// Connections that ask for redirections, and the threads that do it: each asks on all of its
/// connections before it reads the answers, so that the clients cost little.
pub(crate) const CONNECTIONS: usize = 16;
pub(crate) const THREADS: usize = 2;
/// Most names of a sample that do not exist.
const MISSING_MAX: usize = 100_000;
/// Large files that are stored each way in one sample.
const UPLOADS: usize = 2;

/// A client of either protocol.
enum Client {
    Root(Box<RootClient>),
    Http(HttpClient),
}

impl Client {
    fn new(protocol: Protocol, port: u16) -> Result<Self> {
        Ok(match protocol {
            Protocol::Root => Self::Root(Box::new(RootClient::connect(port)?)),
            Protocol::Http => Self::Http(HttpClient::new(port)),
        })
    }

    /// Asks the redirector for a file that exists.
    fn find(&mut self, path: &str) -> Result<Place> {
        match self {
            Self::Root(client) => client
                .find(path)?
                .ok_or_else(|| failed(format!("{path} was not found"))),
            Self::Http(client) => client.find(path),
        }
    }

    fn read(&mut self, place: &Place) -> Result<()> {
        match self {
            Self::Root(client) => client.read(place, SMALL_BYTES),
            Self::Http(client) => client.read(place, SMALL_BYTES),
        }
    }

    fn send(&mut self, path: &str) -> Result<()> {
        match self {
            Self::Root(client) => client.send(path),
            Self::Http(client) => client.send(path),
        }
    }

    fn receive(&mut self) -> Result<()> {
        match self {
            Self::Root(client) => client.receive(),
            Self::Http(client) => client.receive(),
        }
    }

    fn place_new(&mut self, path: &str, size_bytes: u64) -> Result<Place> {
        match self {
            Self::Root(client) => client.place_new(path),
            Self::Http(client) => client.place_new(path, size_bytes),
        }
    }

    fn store(&mut self, place: &Place, source: &std::path::Path) -> Result<()> {
        match self {
            Self::Root(client) => client.store(place, source),
            Self::Http(client) => client.store(place, source),
        }
    }
}

/// A client, and what it asks in a redirector's place.
struct Beside {
    client: Client,
    asked: Asked,
}

/// A cluster under load.
pub(super) struct Load<'a> {
    pub(super) lab: &'a mut Lab,
    pub(super) site: &'a mut Site,
    /// How long is asked.
    pub(super) seconds: u32,
}

impl Load<'_> {
    /// Measures; `size_bytes` is the size of the largest file.
    pub(super) fn measure(mut self, figure: Figure, size_bytes: u64) -> Result<Sample> {
        match figure {
            Figure::KnownRedirect => self.known(false),
            Figure::KnownOpen => self.known(true),
            Figure::NewRedirect => self.new_names(false),
            Figure::NewOpen => self.new_names(true),
            Figure::Missing => self.missing(),
            Figure::Redirects(protocol) => self.redirects(protocol),
            Figure::Reads(protocol) => self.reads(protocol),
            Figure::Upload(protocol) => self.uploads(protocol, size_bytes),
            Figure::Memory => Err(failed("memory is that of a fresh cluster")),
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// A client that has sessions with all, and files that the redirector knows.
    fn warm(&mut self) -> Result<(RootClient, Vec<String>)> {
        let paths = self.site.small_files(self.lab)?;
        let mut client = RootClient::connect(self.site.port())?;
        for path in &paths {
            let place = client.find(path)?;
            client.open_and_close(&place.ok_or_else(|| failed(format!("{path} was not found")))?)?;
        }
        Ok((client, paths))
    }

    fn known(&mut self, opens: bool) -> Result<Sample> {
        let (client, paths) = self.warm()?;
        self.one_by_one(client, paths.iter().cycle(), opens)
    }

    fn new_names(&mut self, opens: bool) -> Result<Sample> {
        let (client, _) = self.warm()?;
        let paths = self.site.plant(self.lab, NEW_NAMES, SMALL_BYTES)?;
        self.one_by_one(client, paths.iter(), opens)
    }

    /// Asks for files, one after the other, and opens them at the nodes too if `opens`.
    fn one_by_one<'p>(
        &mut self,
        mut client: RootClient,
        paths: impl Iterator<Item = &'p String>,
        opens: bool,
    ) -> Result<Sample> {
        let before = self.site.cpu_seconds()?;
        let times = timed(self.duration(), paths, |path| {
            let place = client.find(path)?;
            let place = place.ok_or_else(|| failed(format!("{path} was not found")))?;
            if opens { client.open_and_close(&place) } else { Ok(()) }
        })?;
        let used = self.site.cpu_seconds()? - before;
        sample(&times, used * 1e3 / times.len() as f64)
    }

    /// Names that do not exist: one after the other for the time, and many at once for the
    /// processor time, because one alone takes XRootD seconds.
    fn missing(&mut self) -> Result<Sample> {
        let (mut client, _) = self.warm()?;
        let name = format!("/data/{}", self.site.fresh("none"));
        let paths: Vec<String> = (0..MISSING_MAX).map(|number| format!("{name}-{number}")).collect();
        let times = timed(self.duration(), paths.iter(), |path| match client.find(path)? {
            None => Ok(()),
            Some(place) => Err(failed(format!("{path} does not exist, but is at {place:?}"))),
        })?;
        let paths: Vec<String> = (0..NEW_NAMES).map(|number| format!("{name}-other-{number}")).collect();
        let before = self.site.cpu_seconds()?;
        let found = find_all(self.site, &paths)?;
        let used = self.site.cpu_seconds()? - before;
        match found {
            0 => sample(&times, used * 1e3 / paths.len() as f64),
            _ => Err(failed(format!("{found} files exist that were never made"))),
        }
    }

    /// Redirections on many connections, which the clients do not follow.
    fn redirects(&mut self, protocol: Protocol) -> Result<Sample> {
        let paths = self.site.small_files(self.lab)?;
        let mut clients = self.clients(protocol, CONNECTIONS, &paths)?;
        let end = Instant::now() + self.duration();
        let before = self.site.cpu_seconds()?;
        let began = Instant::now();
        let counts = together(clients.chunks_mut(CONNECTIONS / THREADS), |clients| {
            let mut count = 0;
            while Instant::now() < end {
                for client in clients.iter_mut() {
                    client.send(&paths[count % paths.len()])?;
                    count += 1;
                }
                clients.iter_mut().try_for_each(Client::receive)?;
            }
            Ok(count)
        })?;
        let (count, seconds) = (counts as f64, began.elapsed().as_secs_f64());
        let used = self.site.cpu_seconds()? - before;
        Ok(Sample {
            first: count / seconds,
            second: used * 1e3 / count,
        })
    }

    /// Clients that have connections with all servers, and a redirector that knows the files.
    fn clients(&mut self, protocol: Protocol, count: usize, paths: &[String]) -> Result<Vec<Client>> {
        let port = self.site.port();
        let mut clients: Vec<Client> = (0..count).map(|_| Client::new(protocol, port)).collect::<Result<_>>()?;
        for client in &mut clients {
            for path in paths {
                let place = client.find(path)?;
                client.read(&place)?;
            }
        }
        Ok(clients)
    }

    /// Small files through the redirector and directly, in turns of a second.
    fn reads(&mut self, protocol: Protocol) -> Result<Sample> {
        let (paths, places) = self.places()?;
        let mut clients = self.clients(protocol, READERS, &paths)?;
        let (mut through, mut directly, mut used) = (0, 0, 0.0);
        for _ in 0..self.seconds {
            let before = self.site.cpu_seconds()?;
            through += reading(&mut clients, &paths, |client, path| {
                let place = client.find(path)?;
                client.read(&place)
            })?;
            used += self.site.cpu_seconds()? - before;
            directly += reading(&mut clients, &places, Client::read)?;
        }
        Ok(Sample {
            first: through as f64 / directly as f64,
            second: used * 1e3 / through as f64,
        })
    }

    /// The same, with what only sends an answer as long as a redirector's in its place.
    pub(super) fn reads_behind(&mut self, protocol: Protocol, answers: Answers) -> Result<Sample> {
        let (paths, places) = self.places()?;
        let clients = self.clients(protocol, READERS, &paths)?.into_iter();
        let mut clients: Vec<Beside> = clients
            .map(|client| {
                let asked = answers.start()?;
                Ok(Beside { client, asked })
            })
            .collect::<Result<_>>()?;
        let (mut through, mut directly) = (0, 0);
        for _ in 0..self.seconds {
            through += reading(&mut clients, &places, |clients, place| {
                clients.asked.ask()?;
                clients.client.read(place)
            })?;
            directly += reading(&mut clients, &places, |clients, place| clients.client.read(place))?;
        }
        let used = clients
            .into_iter()
            .map(|clients| clients.asked.end())
            .sum::<Result<f64>>()?;
        Ok(Sample {
            first: through as f64 / directly as f64,
            second: used * 1e3 / through as f64,
        })
    }

    /// Small files by their paths, and where they are.
    fn places(&mut self) -> Result<(Vec<String>, Vec<Place>)> {
        let paths = self.site.small_files(self.lab)?;
        let place = |(number, path): (usize, &String)| Place {
            port: self.site.node_port(number % NODES),
            target: path.clone(),
        };
        let places = paths.iter().enumerate().map(place).collect();
        Ok((paths, places))
    }

    /// Large files through the redirector and directly, in turns.
    fn uploads(&mut self, protocol: Protocol, size_bytes: u64) -> Result<Sample> {
        let (source, checksum) = self.lab.source(size_bytes)?;
        let (mut through, mut directly) = (0.0, 0.0);
        let mut client = Client::new(protocol, self.site.port())?;
        for turn in 0..2 * UPLOADS {
            let name = self.site.fresh("upload");
            let path = format!("/data/{name}");
            let node = self.site.node_port(turn % NODES);
            let began = Instant::now();
            // Who comes first changes from pair to pair.
            let is_through = matches!(turn % 4, 0 | 3);
            let place = match is_through {
                true => client.place_new(&path, size_bytes)?,
                false => Place {
                    port: node,
                    target: path,
                },
            };
            let stored = client.store(&place, &source);
            let seconds = began.elapsed().as_secs_f64();
            *if is_through { &mut through } else { &mut directly } += seconds;
            let checked = self.site.take_away(&name, checksum);
            stored?;
            checked?;
        }
        Ok(Sample {
            first: directly / through,
            second: (UPLOADS as u64 * size_bytes) as f64 * 8e-9 / through,
        })
    }
}

/// Asks for all of `paths` at once, on many connections. Returns how many exist.
pub(super) fn find_all(site: &Site, paths: &[String]) -> Result<usize> {
    let port = site.port();
    let parts = paths.chunks(paths.len().div_ceil(CONNECTIONS));
    together(parts, |part| RootClient::connect(port)?.find_all(part))
}

/// Lets the clients read files for a second. Returns how many they have read.
fn reading<C: Send, T: Sync>(
    clients: &mut [C],
    files: &[T],
    read: impl Fn(&mut C, &T) -> Result<()> + Sync,
) -> Result<usize> {
    let end = Instant::now() + Duration::from_secs(1);
    let share = files.len() / clients.len();
    together(clients.iter_mut().enumerate(), |(number, client)| {
        let mut count = 0;
        while Instant::now() < end {
            read(client, &files[(number * share + count) % files.len()])?;
            count += 1;
        }
        Ok(count)
    })
}

/// Does `work` with each of `parts`, in threads, and adds what they count.
fn together<P: Send>(parts: impl Iterator<Item = P>, work: impl Fn(P) -> Result<usize> + Sync) -> Result<usize> {
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        // Every thread is waited for, whatever became of the others.
        let ends: Vec<Result<usize>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(failed("a client failed"))))
            .collect();
        ends.into_iter().sum()
    })
}

/// The time that `ask` takes for each of `paths` in ms; it ends with them, or after `during`.
fn timed<'p>(
    during: Duration,
    paths: impl Iterator<Item = &'p String>,
    mut ask: impl FnMut(&str) -> Result<()>,
) -> Result<Vec<f64>> {
    let end = Instant::now() + during;
    let mut times = Vec::new();
    for path in paths {
        let began = Instant::now();
        ask(path)?;
        let now = Instant::now();
        times.push((now - began).as_secs_f64() * 1e3);
        if now >= end {
            break;
        }
    }
    Ok(times)
}

fn sample(times: &[f64], second: f64) -> Result<Sample> {
    let times = Summary::of(times).ok_or_else(|| failed("nothing was asked"))?;
    Ok(Sample {
        first: times.median,
        second,
    })
}
