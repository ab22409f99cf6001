//! A cluster of each kind: one redirector and three data servers, with their files in memory.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Crossload, CrossloadOptions, Error, Process, Result, XrootdCluster, XrootdClusterOptions, XrootdNode};

use super::root::RootClient;
use super::{SMALL_BYTES, SMALL_FILES};
use crate::server::{Kind, Lab, adler32};
use crate::workload::MIB;

/// Data servers of a cluster.
pub(super) const NODES: usize = 3;
/// How long a cluster may take to answer: XRootD's manager takes 90 s.
const START_TIME_MAX: Duration = Duration::from_secs(180);
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// A file on each node that shows that the redirector answers.
const SIGN: &str = "sign";

/// How fast a cluster is to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// As it starts by default.
    Default,
    /// Without XRootD's delays.
    Soon,
}

/// What runs; it ends when this is dropped.
enum Servers {
    Crossload {
        redirector: Crossload,
        _nodes: Vec<Crossload>,
    },
    Xrootd(XrootdCluster),
}

/// A data server.
struct Node {
    /// Its port, of both protocols.
    port: u16,
    /// The directory behind `/data`.
    data: PathBuf,
}

/// A running cluster.
pub(crate) struct Site {
    servers: Servers,
    port: u16,
    nodes: Vec<Node>,
    directory: PathBuf,
    started: Instant,
    /// Counts what gets a name of its own.
    named: u64,
    small_files: Vec<String>,
}

impl Site {
    /// Starts the servers; [`Site::wait`] waits until they answer.
    pub(super) fn start(lab: &mut Lab, kind: Kind, start: Start) -> Result<Self> {
        let (name, directory) = lab.place_in_memory("c");
        let site = match kind {
            Kind::Crossload => Self::ours(lab, &name, directory)?,
            Kind::Xrootd(version) => Self::xrootd(XrootdClusterOptions {
                version,
                directory,
                servers: NODES,
                default_delays: start == Start::Default,
                http: true,
            })?,
            Kind::Nginx | Kind::Client(_) | Kind::Floor => {
                return Err(Error::Failed(format!("{} has no clusters", kind.name())));
            }
        };
        for (number, node) in site.nodes.iter().enumerate() {
            fs::write(node.data.join(format!("{SIGN}-{number}")), [])?;
        }
        Ok(site)
    }

    /// Nodes and a redirector in clear text, whose nodes are listed in its configuration.
    fn ours(lab: &Lab, name: &str, directory: PathBuf) -> Result<Self> {
        let options = |part: &str| {
            let own = directory.join(part);
            let (name, data) = (format!("{name}{part}"), own.join("data"));
            let mut options = CrossloadOptions::open(&name, &own, &data, &lab.host_certificate(), &lab.ca_file());
            options.certificate = None;
            options.macaroons = false;
            options
        };
        let nodes: Vec<Crossload> = (1..=NODES)
            .map(|node| Crossload::start(options(&format!("s{node}"))))
            .collect::<Result<_>>()?;
        let urls: Vec<String> = nodes.iter().map(|node| node.clear_url("")).collect();
        let started = Instant::now();
        let redirector = Crossload::start(options("m").redirecting_to(&urls))?;
        let fact = |node: &Crossload| Node {
            port: node.port(),
            data: node.data().to_owned(),
        };
        Ok(Self {
            port: redirector.port(),
            nodes: nodes.iter().map(fact).collect(),
            servers: Servers::Crossload {
                redirector,
                _nodes: nodes,
            },
            directory,
            started,
            named: 0,
            small_files: Vec::new(),
        })
    }

    fn xrootd(options: XrootdClusterOptions) -> Result<Self> {
        let (directory, started) = (options.directory.clone(), Instant::now());
        let mut cluster = XrootdCluster::start_with(options)?;
        let fact = |node: &XrootdNode| Node {
            port: node.root_port(),
            data: node.data().to_owned(),
        };
        Ok(Self {
            port: cluster.manager().root_port(),
            nodes: cluster.servers().iter().map(fact).collect(),
            servers: Servers::Xrootd(cluster),
            directory,
            started,
            named: 0,
            small_files: Vec::new(),
        })
    }

    /// Waits until the redirector sends clients to all nodes. Returns the time since the start.
    pub(super) fn wait(&self) -> Result<Duration> {
        let mut client = RootClient::connect(self.port())?;
        for node in 0..NODES {
            while !client.is_found_now(&format!("/data/{SIGN}-{node}"))? {
                if self.started.elapsed() > START_TIME_MAX {
                    return Err(Error::Failed(format!("no answer after {START_TIME_MAX:?}")));
                }
                thread::sleep(LOOK_PERIOD);
            }
        }
        Ok(self.started.elapsed())
    }

    /// The redirector's port, of both protocols.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// A node's port, of both protocols.
    pub(super) fn node_port(&self, node: usize) -> u16 {
        self.nodes[node].port
    }

    /// The processes that are the redirector.
    fn redirector(&self) -> Vec<&Process> {
        match &self.servers {
            Servers::Crossload { redirector, .. } => vec![redirector.log()],
            Servers::Xrootd(cluster) => cluster.manager_processes().to_vec(),
        }
    }

    /// Processor time that the redirector has used, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.redirector().into_iter().map(Process::cpu_seconds).sum()
    }

    /// Memory of the redirector, in MiB.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        let one = |process: &Process| Ok(process.memory()?.resident_bytes as f64 / MIB);
        self.redirector().into_iter().map(one).sum()
    }

    /// Small files that are read over and over, the first on the first node, the next on the next.
    /// Made once.
    pub(super) fn small_files(&mut self, lab: &mut Lab) -> Result<Vec<String>> {
        if self.small_files.is_empty() {
            self.small_files = self.plant(lab, SMALL_FILES, SMALL_BYTES)?;
        }
        Ok(self.small_files.clone())
    }

    /// A name that was never used here.
    pub(super) fn fresh(&mut self, what: &str) -> String {
        self.named += 1;
        format!("{what}-{}", self.named)
    }

    /// Puts `count` files of `size_bytes` on the disks of the nodes, the first on the first node,
    /// the next on the next, all under new names. Returns their paths.
    pub(super) fn plant(&mut self, lab: &mut Lab, count: usize, size_bytes: u64) -> Result<Vec<String>> {
        const PER_DIRECTORY: usize = 1000;
        let (source, _) = lab.source(size_bytes)?;
        let name = self.fresh("files");
        let mut paths = Vec::with_capacity(count);
        for number in 0..count {
            let directory = format!("{name}/{:03}", number / PER_DIRECTORY);
            let node = &self.nodes[number % NODES].data;
            if number % PER_DIRECTORY < NODES {
                fs::create_dir_all(node.join(&directory))?;
            }
            let path = format!("{directory}/bench.file-{number:06}.root");
            fs::hard_link(&source, node.join(&path))?;
            paths.push(format!("/data/{path}"));
        }
        Ok(paths)
    }

    /// Removes a file, which must be on one node, with this checksum.
    pub(super) fn take_away(&self, name: &str, checksum: u32) -> Result<()> {
        let files: Vec<PathBuf> = self.nodes.iter().map(|node| node.data.join(name)).collect();
        let found: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
        let sums: Vec<u32> = found.iter().map(|path| adler32(path)).collect::<Result<_>>()?;
        found.into_iter().try_for_each(fs::remove_file)?;
        match sums.as_slice() {
            [sum] if *sum == checksum => Ok(()),
            _ => Err(Error::Failed(format!(
                "{name} is on {} nodes, adler32 {sums:08x?} instead of {checksum:08x}",
                sums.len()
            ))),
        }
    }

    /// Ends it, and removes its files.
    pub(super) fn end(self) -> Result<()> {
        drop(self.servers);
        Ok(fs::remove_dir_all(&self.directory)?)
    }
}
