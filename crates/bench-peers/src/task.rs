//! The rows of the table: what each is called, which goal it has, and how it is measured.

use std::collections::BTreeMap;

use testkit::{Error, Result};

use crate::arguments::{Arguments, Part};
use crate::clients::Program;
use crate::floor::{Copies, Floor, Greetings, Loop, Names, Pieces};
use crate::handshake::{Beginning, IDLE_CONNECTIONS, Idle};
use crate::metric::{Metric, Section};
use crate::queue::{Database, Figure, decision};
use crate::report::{Against, Cell, Goal, Row};
use crate::root::{
    FILES, LoginKind, MEMORY_COPIES, PIECE_CONNECTIONS, PieceMethod, STAT_FILES, Security, lite_bytes, piece_requests,
};
use crate::server::{Kind, Scheme};
use crate::sinks::Load;
use crate::summary::Summary;
use crate::token::Beside;
use crate::workload::{Bench, Mode, OVERWRITE_TURNS, Pair, Sample, copy_bytes};
use crate::{clients, cluster, interrupt, progress, stores};

/// What one row measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Task {
    Get(Scheme, u64),
    Put(Scheme, u64),
    Copies(Scheme, Mode, u64),
    Memory(Mode),
    Streams(u32),
    StreamsMemory(u32),
    Overwrite(u64),
    Metadata(Scheme, &'static str, u64),
    RootGet(Security, u32),
    RootPut(Security, u32),
    RootRead,
    Pieces(Security, PieceMethod, u64),
    Stat,
    MetadataOfMany(&'static str),
    Listing(Scheme),
    RootCopies(u64),
    RootMemory,
    Lite,
    Handshakes(Beginning),
    IdleMemory(Idle),
    Token(Beside),
    Sinks(Load),
    Logins(LoginKind),
    Cluster(cluster::Figure),
    Queue(Database, Figure),
    Decision,
    Client(clients::Figure),
    Store(stores::Figure),
}

/// The rows that are wanted, in the order of the table.
pub(crate) fn plan(arguments: &Arguments) -> Vec<Task> {
    let mut tasks = all();
    tasks.retain(|task| arguments.wants(*task));
    tasks
}

/// All rows in the order of the table.
pub(crate) fn all() -> Vec<Task> {
    let mut tasks = Vec::new();
    tasks.extend([1, 4, 16, 64].map(|connections| Task::Get(Scheme::Https, connections)));
    tasks.extend([1, 4, 16].map(|connections| Task::Get(Scheme::Http, connections)));
    for scheme in Scheme::BOTH {
        tasks.extend([1, 4, 16].map(|connections| Task::Put(scheme, connections)));
    }
    for mode in [Mode::Pull, Mode::Push] {
        tasks.extend([1, 10, 100].map(|count| Task::Copies(Scheme::Https, mode, count)));
    }
    tasks.extend([1, 10].map(|count| Task::Copies(Scheme::Http, Mode::Pull, count)));
    tasks.extend([1, 4, 10].map(Task::Streams));
    tasks.extend([1, 4, 10].map(Task::StreamsMemory));
    tasks.extend([1, 4].map(Task::Overwrite));
    for (scheme, connections) in [(Scheme::Https, 64), (Scheme::Http, 16)] {
        tasks.extend(["HEAD", "PROPFIND"].map(|method| Task::Metadata(scheme, method, connections)));
    }
    tasks.extend(Scheme::BOTH.map(Task::Listing));
    tasks.extend([Mode::Pull, Mode::Push].map(Task::Memory));
    tasks.extend(root_plan());
    tasks.extend(Beginning::BOTH.map(Task::Handshakes));
    tasks.extend(Idle::BOTH.map(Task::IdleMemory));
    tasks.extend([Beside::Nothing, Beside::HeaderAsLong].map(Task::Token));
    tasks.extend(Load::ALL.map(Task::Sinks));
    tasks.extend(LoginKind::BOTH.map(Task::Logins));
    for database in Database::BOTH {
        tasks.extend(Figure::ALL.map(|figure| Task::Queue(database, figure)));
    }
    tasks.push(Task::Decision);
    tasks.extend(clients::Figure::all().into_iter().map(Task::Client));
    tasks.extend(stores::Figure::all().into_iter().map(Task::Store));
    // Last, because clusters go on running.
    tasks.extend(cluster::Figure::all().into_iter().map(Task::Cluster));
    tasks
}

/// The rows of the XRootD protocol, and those of HTTP that are to be compared with them.
fn root_plan() -> Vec<Task> {
    let mut tasks = Vec::new();
    for security in Security::BOTH {
        tasks.extend([1, 4].map(|streams| Task::RootGet(security, streams)));
    }
    tasks.push(Task::RootRead);
    for security in Security::BOTH {
        tasks.extend([1, 4].map(|streams| Task::RootPut(security, streams)));
    }
    tasks.extend([1, 10, 40].map(Task::RootCopies));
    for security in Security::BOTH {
        for method in [PieceMethod::Vector, PieceMethod::Ranges] {
            tasks.extend([16, 128, 512].map(|count| Task::Pieces(security, method, count)));
        }
    }
    tasks.push(Task::Stat);
    tasks.extend(["HEAD", "PROPFIND"].map(Task::MetadataOfMany));
    tasks.extend([Task::RootMemory, Task::Lite]);
    tasks
}

impl Task {
    pub(crate) fn part(self) -> Part {
        match self {
            Self::Get(..) => Part::Get,
            Self::Put(..) => Part::Put,
            Self::Copies(_, Mode::Pull, _) => Part::Pull,
            Self::Copies(_, Mode::Push, _) => Part::Push,
            Self::Memory(_) => Part::Memory,
            Self::Streams(_) | Self::StreamsMemory(_) => Part::Streams,
            Self::Overwrite(_) => Part::Overwrite,
            Self::Metadata(..) => Part::Metadata,
            Self::Listing(_) => Part::Listing,
            Self::RootGet(..) => Part::RootGet,
            Self::RootPut(..) => Part::RootPut,
            Self::RootRead => Part::RootRead,
            Self::Pieces(..) => Part::Readv,
            Self::Stat | Self::MetadataOfMany(_) => Part::Stat,
            Self::RootCopies(_) | Self::RootMemory => Part::RootTpc,
            Self::Handshakes(_) | Self::IdleMemory(_) => Part::Tls,
            Self::Lite => Part::TpcLite,
            Self::Token(_) => Part::Token,
            Self::Sinks(_) => Part::Sinks,
            Self::Logins(_) => Part::Gsi,
            Self::Cluster(_) => Part::Cluster,
            Self::Queue(..) | Self::Decision => Part::Queue,
            Self::Client(_) => Part::Client,
            Self::Store(_) => Part::Stores,
        }
    }

    pub(crate) fn section(self) -> Section {
        match self.part() {
            Part::Get | Part::Put | Part::Pull | Part::Push | Part::Memory | Part::Metadata => Section::Http,
            Part::Streams | Part::Overwrite | Part::Listing => Section::Http,
            Part::Tls | Part::Token | Part::Gsi | Part::Sinks => Section::Identity,
            Part::Cluster => Section::Cluster,
            Part::Queue => Section::Queue,
            Part::Client => Section::Clients,
            Part::Stores => Section::Stores,
            Part::RootTpc | Part::TpcLite => Section::Root,
            Part::RootGet | Part::RootPut | Part::RootRead | Part::Readv | Part::Stat => Section::Root,
        }
    }

    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Memory(_) | Self::StreamsMemory(_) | Self::RootMemory => Metric::Memory,
            Self::Overwrite(_) => Metric::Again,
            Self::Metadata(..) | Self::Stat | Self::MetadataOfMany(_) => Metric::Requests,
            Self::Pieces(..) => Metric::Pieces,
            Self::Handshakes(_) => Metric::Connections,
            Self::Listing(_) => Metric::Listing,
            Self::IdleMemory(_) => Metric::Idle,
            Self::Token(_) => Metric::Token,
            Self::Sinks(_) => Metric::Sinks,
            Self::Lite => Metric::Lite,
            Self::Logins(_) => Metric::Logins,
            Self::Cluster(figure) => figure.metric(),
            Self::Queue(_, figure) => figure.metric(),
            Self::Decision => Metric::QueueTime,
            Self::Client(figure) => figure.metric(),
            Self::Store(figure) => figure.metric(),
            _ => Metric::Data,
        }
    }

    pub(crate) fn name(self) -> String {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let streams = |n: u32| format!("{n} stream{}", plural(n.into()));
        match self {
            Self::Get(scheme, n) => format!("GET {}, {n} connection{}", scheme.name(), plural(n)),
            Self::Put(scheme, n) => format!("PUT {}, {n} connection{}", scheme.name(), plural(n)),
            Self::Copies(scheme, mode, n) => {
                format!("{} {}, {n} transfer{}", mode.name(), scheme.name(), plural(n))
            }
            Self::Memory(mode) => format!("{} https, 100 transfers", mode.name()),
            Self::Streams(n) | Self::StreamsMemory(n) => format!("pull https, 1 transfer on {}", streams(n)),
            Self::Overwrite(n) => format!("PUT https over existing files, {n} connection{}", plural(n)),
            Self::Metadata(scheme, method, n) => format!("{method} {}, {n} connections", scheme.name()),
            Self::RootGet(security, n) => format!("xrdcp download {}, {}", security.scheme(), streams(n)),
            Self::RootPut(security, n) => format!("xrdcp upload {}, {}", security.scheme(), streams(n)),
            Self::RootRead => "xrdcp download root, no page checksums".to_owned(),
            Self::Pieces(security, PieceMethod::Vector, n) => {
                let scheme = security.scheme();
                format!("vector read {scheme}, {n} pieces, {PIECE_CONNECTIONS} connections")
            }
            Self::Pieces(Security::Clear, PieceMethod::Ranges, n) => {
                format!("GET http, {n} ranges, {PIECE_CONNECTIONS} connections")
            }
            Self::Pieces(Security::Tls, PieceMethod::Ranges, n) => {
                format!("GET https, {n} ranges, {PIECE_CONNECTIONS} connections")
            }
            Self::Stat => format!("stat root, {STAT_FILES} files, 16 connections, pipelined"),
            Self::MetadataOfMany(method) => format!("{method} http, {STAT_FILES} files, 16 connections"),
            Self::Listing(scheme) => format!("PROPFIND depth 1 {}, {STAT_FILES} files", scheme.name()),
            Self::RootCopies(n) => format!("TPC root, {n} transfer{}", plural(n)),
            Self::Handshakes(beginning) => format!("{} handshake and HEAD", beginning.name()),
            Self::IdleMemory(over) => format!("{IDLE_CONNECTIONS} idle connections, {}", over.name()),
            Self::Sinks(load) => format!("{}, all monitoring on", load.name()),
            Self::Token(beside) => format!("HEAD https with a verified token, beside {}", beside.name()),
            Self::Lite => "TPC root, with a delegated proxy beside a key".to_owned(),
            Self::Logins(LoginKind::Plain) => "login by gsi".to_owned(),
            Self::Logins(LoginKind::Delegating) => "login by gsi, a proxy delegated".to_owned(),
            Self::Cluster(figure) => figure.name(),
            Self::Queue(database, figure) => figure.name(database),
            Self::Decision => decision::name(),
            Self::Client(figure) => figure.name(),
            Self::Store(figure) => figure.name(),
            Self::RootMemory => format!("TPC root, {MEMORY_COPIES} transfers"),
        }
    }

    /// What is good enough, set against the better of the peers where none is named.
    fn goal(self) -> Goal {
        let ratio = |first| Goal {
            first: Some(first),
            ..Goal::default()
        };
        let with_rate = |first, second| Goal {
            second: Some(second),
            ..ratio(first)
        };
        match self {
            Self::Get(Scheme::Https, _) | Self::Put(Scheme::Https, _) | Self::Copies(_, Mode::Push, _) => ratio(0.45),
            Self::Get(Scheme::Http, _) | Self::RootRead | Self::Stat => ratio(1.00),
            Self::Copies(Scheme::Https, Mode::Pull, _) => with_rate(0.55, 1.80),
            Self::Copies(Scheme::Http, Mode::Pull, _) => ratio(0.90),
            Self::Memory(Mode::Pull) => ratio(0.30),
            Self::StreamsMemory(4..) => ratio(0.05),
            Self::Listing(_) => ratio(0.50),
            Self::RootGet(Security::Clear, _) => ratio(0.35),
            Self::RootGet(Security::Tls, _) => ratio(0.45),
            Self::RootPut(Security::Tls, _) => ratio(0.60),
            Self::RootPut(Security::Clear, _) => ratio(0.65),
            Self::RootCopies(_) => with_rate(0.35, 2.50),
            Self::Metadata(Scheme::Https, "HEAD", _) => ratio(1.00),
            Self::Metadata(Scheme::Https, _, _) => ratio(1.50),
            Self::Pieces(Security::Clear, ..) => ratio(1.00),
            Self::Pieces(Security::Tls, PieceMethod::Ranges, _) => ratio(1.30),
            Self::Pieces(Security::Tls, PieceMethod::Vector, _) => ratio(1.50),
            Self::Handshakes(Beginning::Full) => Goal {
                against: Against::Xrootd,
                ..ratio(1.50)
            },
            Self::Handshakes(Beginning::Resumed) => ratio(1.00),
            Self::Overwrite(_) => ratio(0.95),
            Self::IdleMemory(Idle::Https) => ratio(16.0),
            Self::IdleMemory(Idle::Root) => ratio(6.0),
            Self::Token(Beside::Nothing) | Self::Lite => ratio(1.05),
            Self::Sinks(_) => ratio(1.02),
            Self::Logins(_) => ratio(1.00),
            Self::Cluster(figure) => figure.goal(),
            Self::Queue(database, figure) => figure.goal(database),
            Self::Decision => ratio(decision::GOAL_MS),
            Self::Client(figure) => figure.goal(),
            Self::Store(figure) => figure.goal(),
            _ => Goal::default(),
        }
    }

    /// What the servers cannot do without; nothing where no such loop would say anything.
    fn floor(self, bench: &Bench) -> Option<Floor> {
        let sealed = |count, streams| {
            Floor::Copies(Copies {
                from: Loop::SendSealed,
                to: Loop::TakeSealed,
                count,
                streams,
            })
        };
        let clear = |count| {
            Floor::Copies(Copies {
                from: Loop::Send,
                to: Loop::Take,
                count,
                streams: 1,
            })
        };
        Some(match self {
            Self::Get(Scheme::Https, n) => Floor::Connections(Loop::SendSealed, n),
            Self::Get(Scheme::Http, n) => Floor::Connections(Loop::Send, n),
            Self::Put(Scheme::Https, n) => Floor::Connections(Loop::TakeSealed, n),
            Self::Put(Scheme::Http, n) => Floor::Connections(Loop::Take, n),
            Self::RootGet(Security::Clear, _) => Floor::Connections(Loop::SendPages, 1),
            Self::RootGet(Security::Tls, _) => Floor::Connections(Loop::SendSealed, 1),
            Self::RootRead => Floor::Connections(Loop::Send, 1),
            Self::RootPut(Security::Clear, _) => Floor::Connections(Loop::TakePages, 1),
            Self::RootPut(Security::Tls, _) => Floor::Connections(Loop::TakeSealed, 1),
            Self::Copies(Scheme::Https, _, n) => sealed(n, 1),
            Self::Streams(n) => sealed(1, n.into()),
            Self::Copies(Scheme::Http, _, n) | Self::RootCopies(n) => clear(n),
            Self::Pieces(Security::Tls, PieceMethod::Vector, count) => Floor::Pieces(Pieces {
                count,
                connections: PIECE_CONNECTIONS,
                requests: piece_requests(bench.size_bytes, count),
            }),
            Self::Listing(scheme) => Floor::Names(Names {
                scheme,
                entries: STAT_FILES,
            }),
            Self::Handshakes(beginning) => Floor::Greetings(Greetings {
                beginning,
                seconds: bench.load_seconds,
            }),
            Self::Cluster(figure) => return figure.floor(bench.load_seconds),
            Self::Store(figure) => return figure.floor(),
            _ => return None,
        })
    }

    fn concerns(self, kind: Kind) -> bool {
        match self {
            Self::Get(..)
            | Self::Put(..)
            | Self::Overwrite(_)
            | Self::Metadata(_, "HEAD", _)
            | Self::MetadataOfMany("HEAD")
            | Self::Pieces(_, PieceMethod::Ranges, _)
            | Self::Handshakes(Beginning::Full)
            | Self::IdleMemory(Idle::Https) => kind.is_server(),
            // By default XRootD does not resume sessions, since they lack the identity.
            Self::Handshakes(Beginning::Resumed) => kind.is_server() && !matches!(kind, Kind::Xrootd(_)),
            Self::Token(_) | Self::Sinks(_) | Self::Queue(..) | Self::Decision => kind == Kind::Crossload,
            Self::Client(figure) => figure.concerns(kind),
            Self::Store(figure) => figure.concerns(kind),
            _ => kind.is_storage(),
        }
    }

    /// What the files that a sample makes take in memory at once.
    pub(crate) fn written_bytes(self, bench: &Bench) -> u64 {
        let size_bytes = bench.size_bytes;
        match self {
            Self::Put(..) => bench.total_bytes(Scheme::Https),
            Self::Copies(_, _, count) | Self::RootCopies(count) => copy_bytes(size_bytes, count) * count,
            Self::Streams(_) => size_bytes,
            Self::Lite => lite_bytes(size_bytes),
            Self::RootPut(..) => size_bytes * FILES,
            Self::Cluster(figure) => figure.written_bytes(size_bytes),
            Self::Store(figure) => figure.written_bytes(size_bytes),
            // What is there, and what takes its place.
            Self::Overwrite(_) => 2 * bench.total_bytes(Scheme::Https) / OVERWRITE_TURNS,
            _ => 0,
        }
    }

    fn once(self, bench: &mut Bench, kind: Kind, pair: &mut Pair) -> Result<Sample> {
        match self {
            Self::Get(scheme, connections) => bench.get(pair, scheme, connections),
            Self::Put(scheme, connections) => bench.put(pair, scheme, connections),
            Self::Copies(scheme, mode, count) => bench.copies(pair, scheme, mode, count),
            Self::Memory(mode) => bench.memory(kind, mode),
            Self::Streams(streams) => bench.streams(pair, streams),
            Self::StreamsMemory(streams) => bench.streams_memory(kind, streams),
            Self::Overwrite(connections) => bench.overwrite(pair, connections),
            Self::Metadata(scheme, method, n) => bench.metadata(pair, scheme, method, n),
            Self::RootGet(security, streams) => bench.root_get(pair, security, streams),
            Self::RootPut(security, streams) => bench.root_put(pair, security, streams),
            Self::RootRead => bench.root_read(pair),
            Self::Pieces(security, method, count) => bench.pieces(pair, security, method, count),
            Self::Stat => bench.stat(pair),
            Self::MetadataOfMany(method) => bench.metadata_of_many(pair, method),
            Self::Listing(scheme) => bench.listing(pair, scheme),
            Self::RootCopies(count) => bench.root_copies(pair, count),
            Self::RootMemory => bench.root_memory(kind),
            Self::Handshakes(beginning) => bench.handshakes(pair, beginning),
            Self::IdleMemory(over) => bench.idle_memory(kind, over),
            Self::Token(beside) => bench.token(beside),
            Self::Sinks(load) => bench.sinks(load),
            Self::Lite => bench.lite(kind),
            Self::Logins(login) => bench.logins(kind, login),
            Self::Cluster(figure) => bench.cluster(kind, figure),
            Self::Queue(database, figure) => bench.queue(database, figure),
            Self::Decision => Ok(decision::measure()),
            Self::Client(figure) => bench.client(kind, figure),
            Self::Store(figure) => bench.store(kind, figure, Some(pair)),
        }
    }

    /// The floor beside them, where there is one.
    fn floor_once(self, bench: &mut Bench) -> Result<Option<Sample>> {
        if let Self::Cluster(figure) = self
            && let Some(outcome) = bench.cluster_floor(figure)
        {
            return outcome.map(Some);
        }
        self.floor(bench)
            .map(|floor| floor.measure(&mut bench.lab, bench.size_bytes))
            .transpose()
    }

    /// Measures a server, or without one the floor.
    fn sample(self, bench: &mut Bench, kind: Kind, pair: Option<&mut Pair>) -> Result<Option<Sample>> {
        if let (Self::Client(figure), true) = (self, kind != Kind::Floor) {
            return bench.client(kind, figure).map(Some);
        }
        if let (Self::Store(figure), true) = (self, kind != Kind::Floor) {
            return match bench.store(kind, figure, pair) {
                // A peer without this role has no figure.
                Err(Error::Missing(_)) => Ok(None),
                outcome => outcome.map(Some),
            };
        }
        match pair {
            Some(pair) => match self.once(bench, kind, pair) {
                // A queue without this database has no figure, and is no failure.
                Err(Error::Missing(_)) if matches!(self, Self::Queue(..)) => Ok(None),
                outcome => outcome.map(Some),
            },
            None => self.floor_once(bench),
        }
    }

    /// Measures all servers and the floor in turn, `runs` times. A server that fails is left out of
    /// the rest of the row. `None` when the row was interrupted: with fewer repetitions than it
    /// says it would be no row.
    pub(crate) fn measure(self, bench: &mut Bench, pairs: &mut BTreeMap<Kind, Pair>, runs: u32) -> Option<Row> {
        progress(&self.name());
        let mut samples: BTreeMap<Kind, Vec<Sample>> = BTreeMap::new();
        let mut failed: BTreeMap<Kind, String> = BTreeMap::new();
        // Clients are no servers that were started.
        let clients = Program::PEERS.into_iter().filter(|program| program.path().is_ok());
        let kinds = pairs.keys().copied().chain(clients.map(Kind::Client));
        let mut kinds: Vec<Kind> = kinds.filter(|kind| self.concerns(*kind)).collect();
        if self.part() == Part::Cluster {
            bench.start_clusters(&kinds);
        }
        kinds.push(Kind::Floor);
        for _ in 0..runs {
            for kind in &kinds {
                if failed.contains_key(kind) {
                    continue;
                }
                if interrupt::is_set().is_some() {
                    return None;
                }
                let sample = self.sample(bench, *kind, pairs.get_mut(kind));
                match sample {
                    Ok(sample) => samples.entry(*kind).or_default().extend(sample),
                    Err(_) if interrupt::settle().is_some() => return None,
                    Err(error) => {
                        progress(&format!("  {} failed: {error}", kind.name()));
                        failed.insert(*kind, format!("{}: {error}", kind.name()));
                    }
                }
            }
            // Who comes first finds other memory than who comes after a run that has just freed
            // some.
            kinds.rotate_left(1);
        }
        samples.retain(|kind, _| !failed.contains_key(kind));
        Some(Row {
            section: self.section(),
            metric: self.metric(),
            name: self.name(),
            goal: self.goal(),
            cells: samples
                .iter()
                .filter_map(|(kind, samples)| cell(*kind, samples))
                .collect(),
            failures: failed.into_values().collect(),
        })
    }
}

fn cell(kind: Kind, samples: &[Sample]) -> Option<Cell> {
    let first: Vec<f64> = samples.iter().map(|sample| sample.first).collect();
    let second: Vec<f64> = samples.iter().map(|sample| sample.second).collect();
    Some(Cell {
        kind,
        first: Summary::of(&first)?,
        second: Summary::of(&second)?,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_plan_has_every_row_once_and_parts_select() {
        let all = plan(&Arguments::parse_from(["bench"]));
        assert_eq!(
            all.len(),
            7 + 6
                + 8
                + 6
                + 2
                + 4
                + 2
                + 2
                + 4
                + 1
                + 4
                + 3
                + 12
                + 3
                + 1
                + 6
                + 1
                + 2
                + 12
                + 2 * Figure::ALL.len()
                + 1
                + 10
                + stores::Figure::all().len()
                + Load::ALL.len()
        );
        let mut names: Vec<String> = all
            .iter()
            .map(|task| format!("{:?} {}", task.metric(), task.name()))
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let some = plan(&Arguments::parse_from(["bench", "--only", "pull,metadata"]));
        assert_eq!(some.len(), 3 + 2 + 4);
        let some = plan(&Arguments::parse_from([
            "bench",
            "--only",
            "root-get,root-put,root-read,readv,stat,root-tpc,tpc-lite",
        ]));
        assert_eq!(some, root_plan());
        assert!(some.iter().all(|task| task.section() == Section::Root));
    }

    #[test]
    fn nginx_is_no_storage() {
        assert!(Task::Get(Scheme::Https, 1).concerns(Kind::Nginx));
        assert!(Task::Metadata(Scheme::Http, "HEAD", 16).concerns(Kind::Nginx));
        assert!(Task::Pieces(Security::Tls, PieceMethod::Ranges, 16).concerns(Kind::Nginx));
        assert!(!Task::Metadata(Scheme::Http, "PROPFIND", 16).concerns(Kind::Nginx));
        assert!(!Task::Copies(Scheme::Https, Mode::Pull, 1).concerns(Kind::Nginx));
        assert!(!Task::Stat.concerns(Kind::Nginx));
        assert!(!Task::Lite.concerns(Kind::Nginx));
        assert!(!Task::Logins(LoginKind::Plain).concerns(Kind::Nginx));
        assert!(!Task::Listing(Scheme::Https).concerns(Kind::Nginx));
        assert!(!Task::Cluster(cluster::Figure::Memory).concerns(Kind::Nginx));
    }
}
