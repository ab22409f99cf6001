//! The command line of the benchmark.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use testkit::XrootdVersion;

use crate::clients;
use crate::queue::Sizes;
use crate::server::Kind;
use crate::task::Task;

const MIB: u64 = 1 << 20;

/// Measures Crossload against XRootD and nginx on this machine, over loopback, with files
/// in memory.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench-peers")]
pub(crate) struct Arguments {
    /// How often each measurement is repeated; the median counts [default: 5, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: Option<u32>,
    /// Size of the largest file, in MiB [default: 1024, with --quick 256]
    #[arg(long = "size", value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=2048))]
    pub(crate) size_mib: Option<u64>,
    /// Only these parts, separated by commas
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) only: Vec<Part>,
    /// Only these rows of the parts `client` and `stores`, separated by commas
    #[arg(long = "row", value_name = "ROW", value_delimiter = ',', value_enum)]
    pub(crate) rows: Vec<Row>,
    /// Smaller files and fewer runs: a look, not a result
    #[arg(long)]
    pub(crate) quick: bool,
    /// The TCP congestion control of all servers and clients, in a network namespace of their own
    /// (as root) [default: the machine's]
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion_control: Option<String>,
    /// Only these peers, separated by commas [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) peers: Vec<Peer>,
    /// Measure the peers only
    #[arg(long)]
    pub(crate) without_crossload: bool,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Refresh the tables between the markers of this file; rows of other parts stay, marked as
    /// older
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// What Crossload is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Debian's XRootD
    #[value(name = "5.5.3")]
    Xrootd5,
    /// The newest XRootD, which ./dev builds
    #[value(name = "6.2.1")]
    Xrootd6,
    /// nginx
    Nginx,
}

impl Peer {
    fn kind(self) -> Kind {
        match self {
            Self::Xrootd5 => Kind::Xrootd(XrootdVersion::V5),
            Self::Xrootd6 => Kind::Xrootd(XrootdVersion::V6),
            Self::Nginx => Kind::Nginx,
        }
    }
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Downloads
    Get,
    /// Uploads
    Put,
    /// Third-party copies, the destination active
    Pull,
    /// Third-party copies, the source active
    Push,
    /// One pull on 1, 4 and 10 streams, and the memory that it takes
    Streams,
    /// Uploads over existing files against uploads under new names
    Overwrite,
    /// Memory at 100 third-party copies
    Memory,
    /// HEAD and PROPFIND
    Metadata,
    /// PROPFIND of a directory with 10 000 files
    Listing,
    /// Downloads with xrdcp
    RootGet,
    /// Uploads with xrdcp
    RootPut,
    /// Downloads with xrdcp, without page checksums
    RootRead,
    /// Vector reads, and several ranges in one GET
    Readv,
    /// stat, HEAD and PROPFIND of 10 000 files
    Stat,
    /// Third-party copies of the XRootD protocol, and memory at 40
    RootTpc,
    /// Third-party copies of the XRootD protocol with a delegated proxy, beside those by key
    TpcLite,
    /// TLS handshakes, and memory of idle connections
    Tls,
    /// Requests with a token beside requests without
    Token,
    /// Processor time with all monitoring on beside that without
    Sinks,
    /// Logins by gsi, with a proxy delegated and without
    Gsi,
    /// Clusters: redirections, names that do not exist, small files, uploads, memory
    Cluster,
    /// The transfer queue: submission, copies, memory, questions
    Queue,
    /// Clients: trees of small and large files beside gfal-copy, xrdcp and rclone; --row chooses
    Client,
    /// Stores on other servers: S3, proxies and caches; --row chooses among them
    Stores,
}

/// Rows that can be measured by themselves (`--row`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// Client: download of small files
    SmallGet,
    /// Client: the same with 50 ms to the server
    SmallGetFar,
    /// Client: upload of small files
    SmallPut,
    /// Client: the same with 50 ms to the server
    SmallPutFar,
    /// Client: download of large files
    LargeGet,
    /// Client: the same with 50 ms to the server
    LargeGetFar,
    /// Client: upload of large files
    LargePut,
    /// Client: the same with 50 ms to the server
    LargePutFar,
    /// Client: third-party copies
    ThirdParty,
    /// Client: how long the shortest command takes
    Start,
    /// Stores: GET through an export of an S3 bucket
    S3Get,
    /// Stores: PUT through an export of an S3 bucket
    S3Put,
    /// Stores: copies between two S3 servers by a client
    S3Copy,
    /// Stores: GET and xrdcp through an export of another server
    Dtn,
    /// Stores: GET from a warm cache
    Cache,
    /// Stores: ranges of 1 MiB from a warm cache
    Range,
    /// Stores: many readers of a file that is not cached yet
    Readers,
    /// Stores: GET with 100 ms to the other server
    Far,
}

impl Arguments {
    /// Repetitions of each measurement.
    pub(crate) fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 3 } else { 5 })
    }

    /// Size of the largest file, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_mib.unwrap_or(if self.quick { 256 } else { 1024 }) * MIB
    }

    /// How large the courses of the transfer queue are.
    pub(crate) fn queue_sizes(&self) -> Sizes {
        if self.quick { Sizes::QUICK } else { Sizes::FULL }
    }

    /// How large the trees of clients are.
    pub(crate) fn client_sizes(&self) -> clients::Sizes {
        if self.quick {
            clients::Sizes::QUICK
        } else {
            clients::Sizes::FULL
        }
    }

    /// The option that chose the parts, with a space before it; nothing when all are wanted.
    pub(crate) fn only_words(&self) -> String {
        list_words("--only", &self.only)
    }

    /// The option that chose the rows, with a space before it; nothing without.
    pub(crate) fn rows_words(&self) -> String {
        list_words("--row", &self.rows)
    }

    /// The option that chose the peers, with a space before it; nothing without.
    pub(crate) fn peers_words(&self) -> String {
        list_words("--peers", &self.peers)
    }

    /// The servers that are wanted, in the order of the tables.
    pub(crate) fn servers(&self) -> Vec<Kind> {
        let chosen: Vec<Kind> = self.peers.iter().map(|peer| peer.kind()).collect();
        let is_wanted = |kind: &Kind| match kind {
            Kind::Crossload => !self.without_crossload,
            // The queue has no peer here, and clients are none of servers.
            _ if matches!(self.only[..], [Part::Queue | Part::Client]) => false,
            Kind::Nginx if matches!(self.only[..], [Part::Cluster | Part::Stores]) => false,
            kind => kind.is_server() && kind.is_peer() && (chosen.is_empty() || chosen.contains(kind)),
        };
        Kind::ALL.into_iter().filter(is_wanted).collect()
    }

    /// The option that chose the congestion control, with a space before it; nothing without.
    pub(crate) fn congestion_words(&self) -> String {
        let words = |name: &String| format!(" --congestion-control {name}");
        self.congestion_control.as_ref().map(words).unwrap_or_default()
    }

    /// Whether `task` is wanted.
    pub(crate) fn wants(&self, task: Task) -> bool {
        let row = row_of(task);
        let is_chosen = row.is_none_or(|row| self.rows.is_empty() || self.rows.contains(&row));
        is_chosen && self.wants_part(task.part())
    }

    fn wants_part(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// What `--row` calls the row, if it can be chosen.
fn row_of(task: Task) -> Option<Row> {
    match task {
        Task::Client(figure) => Some(figure.row()),
        Task::Store(figure) => Some(figure.row()),
        _ => None,
    }
}

fn list_words(option: &str, values: &[impl ValueEnum]) -> String {
    let names: Vec<String> = values
        .iter()
        .filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" {option} {}", names.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores;

    fn parse(words: &[&str]) -> Arguments {
        Arguments::try_parse_from([&["bench"], words].concat()).expect("valid arguments")
    }

    #[test]
    fn defaults_are_those_of_a_full_run() {
        let full = parse(&[]);
        assert_eq!((full.runs(), full.size_bytes()), (5, 1 << 30));
        assert!(full.wants_part(Part::Memory));
        let quick = parse(&["--quick", "--only", "get,push"]);
        assert_eq!((quick.runs(), quick.size_bytes()), (3, 256 << 20));
        assert!(quick.wants_part(Part::Push) && !quick.wants_part(Part::Put));
        assert_eq!(
            (quick.only_words().as_str(), full.only_words().as_str()),
            (" --only get,push", "")
        );
        assert_eq!(
            parse(&["--quick", "--runs", "1", "--size", "64"]).size_bytes(),
            64 << 20
        );
    }

    #[test]
    fn peers_are_chosen_by_their_versions() {
        let (old, new) = (Kind::Xrootd(XrootdVersion::V5), Kind::Xrootd(XrootdVersion::V6));
        let all = parse(&[]);
        assert_eq!(all.servers(), [Kind::Crossload, old, new, Kind::Nginx]);
        assert_eq!(all.peers_words(), "");
        let both = parse(&["--peers", "6.2.1,5.5.3"]);
        assert_eq!(both.servers(), [Kind::Crossload, old, new]);
        assert_eq!(both.peers_words(), " --peers 6.2.1,5.5.3");
        let one = parse(&["--peers", "nginx", "--without-crossload"]);
        assert_eq!(one.servers(), [Kind::Nginx]);
    }

    #[test]
    fn rows_are_chosen() {
        let far = parse(&["--only", "stores", "--row", "far,s3-copy"]);
        let (wanted, other) = (stores::Figure::Copy, stores::Figure::Range);
        let large = clients::Figure::all().into_iter().map(Task::Client);
        let arguments = parse(&["--only", "client", "--row", "large-get-far"]);
        let names: Vec<String> = large
            .filter(|task| arguments.wants(*task))
            .map(|task| task.name())
            .collect();
        assert_eq!(names, ["download https, files of 100 MB, 50 ms"]);
        assert!(far.wants(Task::Store(wanted)) && !far.wants(Task::Store(other)));
        assert!(parse(&["--only", "stores"]).wants(Task::Store(other)));
        assert_eq!(far.rows_words(), " --row far,s3-copy");
        let all = crate::task::all();
        for row in Row::value_variants() {
            assert!(all.iter().any(|task| row_of(*task) == Some(*row)), "{row:?}");
        }
        assert!(!far.servers().contains(&Kind::Nginx));
    }

    #[test]
    fn zero_runs_are_refused() {
        assert!(Arguments::try_parse_from(["bench", "--runs", "0"]).is_err());
    }
}
