//! What the figures of rows are, and the sections of the document that rows belong to.

/// The part of the document that a row belongs to. Each is of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// HTTP beside XRootD and nginx.
    Http,
    /// The XRootD protocol, and what of HTTP is to be compared with it.
    Root,
    /// TLS connections, and what it takes to know who is there.
    Identity,
    /// Clusters: a redirector in front of data servers.
    Cluster,
    /// The transfer queue.
    Queue,
    /// Clients.
    Clients,
    /// Stores on other servers.
    Stores,
}

impl Section {
    pub(crate) const ALL: [Self; 7] = [
        Self::Http,
        Self::Root,
        Self::Identity,
        Self::Cluster,
        Self::Queue,
        Self::Clients,
        Self::Stores,
    ];

    /// What its markers are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Root => "root",
            Self::Identity => "identity",
            Self::Cluster => "cluster",
            Self::Queue => "queue",
            Self::Clients => "clients",
            Self::Stores => "stores",
        }
    }
}

/// What a row's two figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Server processor seconds per GB (10⁹ bytes), and Gbit/s.
    Data,
    /// MB/s (10⁶ bytes) of pieces of files, and server processor seconds per GB.
    Pieces,
    /// The rate over existing files divided by that of new ones, and the same of the processor
    /// time.
    Again,
    /// Highest resident MiB of the active and of the passive server.
    Memory,
    /// Requests per second, and server processor microseconds per request.
    Requests,
    /// Connections per second, and server processor microseconds per connection.
    Connections,
    /// Server processor milliseconds per listing of a directory, and listings per second.
    Listing,
    /// KiB of an idle connection, and resident MiB with all of them.
    Idle,
    /// Requests per second without a token divided by those with one, and server processor time of
    /// a request with one divided by that without.
    Token,
    /// Server processor time with all monitoring on divided by that without, and the first in
    /// seconds per GB, or in microseconds per request.
    Sinks,
    /// Server processor time of a copy with a delegated proxy divided by that of one by key, and
    /// the first in seconds per GB.
    Lite,
    /// Server processor milliseconds per login, and logins per second.
    Logins,
    /// Milliseconds until a cluster has answered, and processor seconds of its redirector per 1000
    /// requests.
    ClusterTime,
    /// Redirections per second, and processor seconds of the redirector per 1000.
    ClusterRedirects,
    /// The rate through the redirector divided by that directly at the nodes, and processor seconds
    /// of the redirector per 1000 requests.
    ClusterShare,
    /// The rate of an upload through the redirector divided by that directly to a node, and the
    /// first in Gbit/s.
    ClusterUpload,
    /// Resident MiB of the redirector that knows many files, and before it knew them.
    ClusterMemory,
    /// Files per second, and that divided by what FTS finishes world-wide.
    QueueRate,
    /// Processor milliseconds of the queue's process per file, and the files.
    QueueCost,
    /// Highest resident MiB of the queue, and at the end.
    QueueMemory,
    /// Milliseconds of an answer, and of the slowest.
    QueueTime,
    /// Processor time in percent of a core, and resident MiB.
    QueueIdle,
    /// Files per second of a client, and processor milliseconds of its process per file.
    ClientFiles,
    /// MB/s (10⁶ bytes) of a client, and processor seconds of its process per GB.
    ClientData,
    /// Milliseconds of a command, and those of the processor.
    ClientStart,
    /// Processor seconds of the server in between per GB, and Gbit/s.
    StoreData,
    /// Processor seconds of the server behind per GB, and those of the client.
    StoreOthers,
    /// MiB that each transfer adds, and resident MiB before.
    StoreMemory,
    /// MB/s (10⁶ bytes) of a client between two S3 servers, and its processor seconds per GB.
    StoreCopy,
    /// Time of a range from the cache divided by that from a server that has the file, and the
    /// first in milliseconds.
    StoreRange,
    /// Bytes from the server behind divided by the size of the file, and Gbit/s of all readers.
    StoreReaders,
    /// The rate divided by what the window allows, and MB/s (10⁶ bytes).
    StoreFar,
}

impl Metric {
    pub(crate) const ALL: [Self; 32] = [
        Self::Data,
        Self::Again,
        Self::Pieces,
        Self::Requests,
        Self::Listing,
        Self::Memory,
        Self::Connections,
        Self::Idle,
        Self::Token,
        Self::Sinks,
        Self::Logins,
        Self::Lite,
        Self::ClusterTime,
        Self::ClusterRedirects,
        Self::ClusterShare,
        Self::ClusterUpload,
        Self::ClusterMemory,
        Self::QueueRate,
        Self::QueueCost,
        Self::QueueMemory,
        Self::QueueTime,
        Self::QueueIdle,
        Self::ClientFiles,
        Self::ClientData,
        Self::ClientStart,
        Self::StoreData,
        Self::StoreOthers,
        Self::StoreMemory,
        Self::StoreCopy,
        Self::StoreRange,
        Self::StoreReaders,
        Self::StoreFar,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Data => "Data: server CPU seconds per GB, median (min to max); less is better",
            Self::Again => {
                "Overwriting: rate over existing files ÷ rate of new ones, median (min to max); more is better"
            }
            Self::Pieces => "Pieces of 4 to 64 KiB: MB/s, median (min to max); more is better",
            Self::Memory => "Memory: highest resident MiB of the active server, median (min to max); less is better",
            Self::Connections => "TLS connections per second, median (min to max); more is better",
            Self::Idle => "Memory: KiB of an idle connection, median (min to max); less is better",
            Self::Token => {
                "Tokens: requests per second without one ÷ requests with one, median (min to max); less is better"
            }
            Self::Sinks => "Monitoring: server CPU with all of it on ÷ without, median (min to max); less is better",
            Self::Lite => {
                "TPC Lite: server CPU with a delegated proxy ÷ by a rendezvous key, median (min to max); less is better"
            }
            Self::Logins => "Logins: server CPU milliseconds for each, median (min to max); less is better",
            Self::Listing => "Listings: server CPU milliseconds for each, median (min to max); less is better",
            Self::Requests => "Metadata: requests per second, median (min to max); more is better",
            Self::ClusterTime => "Clusters: milliseconds of an answer, median (min to max); less is better",
            Self::ClusterRedirects => {
                "Clusters: redirections per second, 16 connections, median (min to max); more is better"
            }
            Self::ClusterShare => {
                "Clusters: rate through the redirector ÷ rate directly, median (min to max); more is better"
            }
            Self::ClusterUpload => {
                "Clusters: rate of an upload through the redirector ÷ directly, median (min to max); more is better"
            }
            Self::ClusterMemory => "Clusters: resident MiB of the redirector, median (min to max); less is better",
            Self::QueueRate => "Transfer queue: files per second; more is better",
            Self::QueueCost => "Transfer queue: CPU milliseconds of its process per file; less is better",
            Self::QueueMemory => "Transfer queue: highest resident MiB; less is better",
            Self::QueueTime => "Transfer queue: milliseconds of an answer, median; less is better",
            Self::QueueIdle => "Transfer queue without work: % of a core; less is better",
            Self::ClientFiles => "Clients, trees: files per second, median (min to max); more is better",
            Self::ClientData => "Clients, trees of large files: MB/s, median (min to max); more is better",
            Self::ClientStart => "Clients: milliseconds of a command, median (min to max); less is better",
            Self::StoreData => {
                "Stores: CPU seconds per GB of the server in between, median (min to max); less is better"
            }
            Self::StoreOthers => "Stores: CPU seconds per GB of the server behind, median (min to max); less is better",
            Self::StoreMemory => "Stores: MiB that each transfer adds, median (min to max); less is better",
            Self::StoreCopy => "Stores, copies between S3 servers: MB/s, median (min to max); more is better",
            Self::StoreRange => "Stores: median time of a range, cached ÷ direct, median (min to max); less is better",
            Self::StoreReaders => {
                "Stores: bytes from the server behind ÷ size of the file, median (min to max); less is better"
            }
            Self::StoreFar => "Stores far away: rate ÷ what the window allows, median (min to max); more is better",
        }
    }

    /// What the second figure is.
    pub(crate) fn second_title(self) -> &'static str {
        match self {
            Self::Data => "Gbit/s",
            Self::Again => "CPU ÷ CPU",
            Self::Pieces => "CPU s/GB",
            Self::Memory => "passive MiB",
            Self::Requests => "CPU µs per request",
            Self::Connections => "CPU µs per connection",
            Self::Listing => "listings per second",
            Self::Lite => "CPU s/GB with a proxy",
            Self::Logins => "logins per second",
            Self::Idle => "MiB in all",
            Self::Token => "CPU of a request, with ÷ without",
            Self::Sinks => "CPU s/GB, or µs per request",
            Self::ClusterTime | Self::ClusterRedirects | Self::ClusterShare => "redirector's CPU s per 1000 requests",
            Self::ClusterUpload => "Gbit/s through it",
            Self::ClusterMemory => "idle MiB",
            Self::QueueRate => "÷ FTS world-wide",
            Self::QueueCost => "files",
            Self::QueueMemory => "MiB at the end",
            Self::QueueTime => "slowest",
            Self::QueueIdle => "resident MiB",
            Self::ClientFiles => "CPU ms per file",
            Self::ClientData => "CPU s/GB",
            Self::ClientStart => "CPU ms",
            Self::StoreData | Self::StoreReaders => "Gbit/s",
            Self::StoreOthers => "CPU s/GB of the client",
            Self::StoreMemory => "MiB before",
            Self::StoreCopy => "CPU s/GB",
            Self::StoreRange => "cached, ms",
            Self::StoreFar => "MB/s",
        }
    }

    /// What JSON calls the two figures.
    pub(crate) fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Data => ("cpu_seconds_per_gb", "gbit_per_second"),
            Self::Again => ("rate_ratio", "cpu_ratio"),
            Self::Pieces => ("mb_per_second", "cpu_seconds_per_gb"),
            Self::Memory => ("active_peak_mib", "passive_peak_mib"),
            Self::Requests => ("requests_per_second", "cpu_microseconds_per_request"),
            Self::Connections => ("connections_per_second", "cpu_microseconds_per_connection"),
            Self::Lite => ("cpu_ratio", "cpu_seconds_per_gb"),
            Self::Logins => ("cpu_milliseconds_per_login", "logins_per_second"),
            Self::Listing => ("cpu_milliseconds_per_listing", "listings_per_second"),
            Self::Idle => ("kib_per_connection", "resident_mib"),
            Self::Token => ("rate_ratio", "cpu_ratio"),
            Self::Sinks => ("cpu_ratio", "cpu_of_one"),
            Self::ClusterTime => ("milliseconds", "cpu_seconds_per_1000_requests"),
            Self::ClusterRedirects => ("redirections_per_second", "cpu_seconds_per_1000_requests"),
            Self::ClusterShare => ("rate_ratio", "cpu_seconds_per_1000_requests"),
            Self::ClusterUpload => ("rate_ratio", "gbit_per_second"),
            Self::ClusterMemory => ("resident_mib", "idle_mib"),
            Self::QueueRate => ("files_per_second", "ratio_to_world"),
            Self::QueueCost => ("cpu_milliseconds_per_file", "files"),
            Self::QueueMemory => ("peak_mib", "resident_mib"),
            Self::QueueTime => ("milliseconds", "slowest_milliseconds"),
            Self::QueueIdle => ("percent_of_a_core", "resident_mib"),
            Self::ClientFiles => ("files_per_second", "cpu_milliseconds_per_file"),
            Self::ClientData => ("mb_per_second", "cpu_seconds_per_gb"),
            Self::ClientStart => ("milliseconds", "cpu_milliseconds"),
            Self::StoreData => ("cpu_seconds_per_gb", "gbit_per_second"),
            Self::StoreOthers => ("behind_cpu_seconds_per_gb", "client_cpu_seconds_per_gb"),
            Self::StoreMemory => ("mib_per_transfer", "resident_mib"),
            Self::StoreCopy => ("mb_per_second", "cpu_seconds_per_gb"),
            Self::StoreRange => ("time_ratio", "cached_milliseconds"),
            Self::StoreReaders => ("fetched_ratio", "gbit_per_second"),
            Self::StoreFar => ("share_of_window", "mb_per_second"),
        }
    }

    pub(crate) fn more_is_better(self) -> bool {
        let in_clusters = matches!(self, Self::ClusterRedirects | Self::ClusterShare | Self::ClusterUpload);
        let elsewhere = matches!(self, Self::Requests | Self::Pieces | Self::Connections | Self::Again);
        let of_clients = matches!(self, Self::ClientFiles | Self::ClientData);
        let of_stores = matches!(self, Self::StoreCopy | Self::StoreFar);
        in_clusters || elsewhere || of_clients || of_stores || self == Self::QueueRate
    }

    pub(crate) fn more_is_better_second(self) -> bool {
        let of_stores = matches!(self, Self::StoreData | Self::StoreReaders | Self::StoreFar);
        of_stores || matches!(self, Self::Data | Self::Listing | Self::Logins | Self::ClusterUpload)
    }

    /// Digits after the point of the two figures.
    pub(crate) fn digits(self) -> (usize, usize) {
        match self {
            Self::Data => (3, 1),
            Self::Again => (2, 2),
            Self::Pieces => (0, 3),
            Self::Memory => (0, 0),
            Self::Requests => (0, 1),
            Self::Connections => (0, 0),
            Self::Listing => (1, 1),
            Self::Lite => (2, 3),
            Self::Logins => (1, 0),
            Self::Idle => (1, 0),
            Self::Token => (2, 2),
            Self::Sinks => (3, 2),
            Self::ClusterTime => (3, 3),
            Self::ClusterRedirects => (0, 3),
            Self::ClusterShare => (2, 3),
            Self::ClusterUpload => (3, 1),
            Self::ClusterMemory => (1, 1),
            Self::QueueRate => (0, 0),
            Self::QueueCost => (3, 0),
            Self::QueueMemory => (0, 0),
            Self::QueueTime => (1, 1),
            Self::QueueIdle => (2, 0),
            Self::ClientFiles => (0, 2),
            Self::ClientData => (0, 2),
            Self::ClientStart => (1, 1),
            Self::StoreData => (3, 1),
            Self::StoreOthers => (3, 3),
            Self::StoreMemory => (1, 0),
            Self::StoreCopy => (0, 2),
            Self::StoreRange => (2, 2),
            Self::StoreReaders => (3, 1),
            Self::StoreFar => (2, 0),
        }
    }

    /// Whether the goal is for the server's own figure and not for its ratio to a peer's: where
    /// that compares the server with itself, or is a size that counts by itself.
    pub(crate) fn is_judged_alone(self) -> bool {
        let alone = matches!(
            self,
            Self::Again | Self::Token | Self::Sinks | Self::Idle | Self::Lite | Self::ClientStart
        );
        alone || self.is_of_cluster() || self.is_of_queue() || self.is_alone_of_stores()
    }

    fn is_alone_of_stores(self) -> bool {
        let ratios = matches!(self, Self::StoreRange | Self::StoreReaders | Self::StoreFar);
        ratios || self == Self::StoreMemory
    }

    /// Whether it is a figure of clients, whose second figure has a goal against all of them.
    pub(crate) fn is_of_clients(self) -> bool {
        let of_trees = matches!(self, Self::ClientFiles | Self::ClientData | Self::ClientStart);
        of_trees || self == Self::StoreCopy
    }

    /// Digits after the point of a goal.
    pub(crate) fn goal_digits(self) -> usize {
        if self.is_of_queue() || self == Self::ClusterRedirects {
            0
        } else {
            2
        }
    }

    /// Whether it is a figure of clusters, for which the goals are what users notice.
    fn is_of_cluster(self) -> bool {
        let rates = matches!(self, Self::ClusterRedirects | Self::ClusterShare | Self::ClusterUpload);
        rates || matches!(self, Self::ClusterTime | Self::ClusterMemory)
    }

    /// Whether it is a figure of the transfer queue, which is measured once and has no peer.
    pub(crate) fn is_of_queue(self) -> bool {
        let alone = matches!(self, Self::QueueMemory | Self::QueueTime | Self::QueueIdle);
        alone || matches!(self, Self::QueueRate | Self::QueueCost)
    }
}
