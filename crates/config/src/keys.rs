//! Every key of the configuration file: its type, its default and its description.
//!
//! Keys are described only here; `crossload config docs` prints this.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use credentials::Lifetimes;
use policy::{AnonymousAccess, Area};
use types::{ChecksumAlgorithm, LogicalPath, limits};

use crate::logged::{LogFilter, LoggedRequests};
use crate::rules::{AllowedRights, DeniedRights, RuleSubjects};
use crate::section;
use crate::section::{LIVE, NEW_DOOR, Purpose, RESTART};
use crate::values::{
    AuthenticationMethod, Bytes, ClearText, LogFormat, Niceness, UpstreamIdentity, Verification, XrootTls,
};

section! {
    /// Settings of the server as a whole.
    "server" false Server {
        /// Addresses to listen on, for both TLS and clear text. Port 0 picks a free port; `[::]`
        /// serves IPv4 too.
        listen: Vec<SocketAddr> = Some(vec![SocketAddr::from(([127, 0, 0, 1], 8080))]) => RESTART;
        /// Certificate chain in PEM, the server's own certificate first. The file is read again
        /// when it changes. Without it the server speaks clear text only.
        certificate: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the certificate");
        /// Private key of the certificate, in PEM. The file is read again when it changes.
        key: Option<PathBuf> = Some(None) => LIVE.file(Purpose::PrivateKey, "the private key");
        /// Address for metrics, health, explanations and the log's last lines about a transfer
        /// (`/trace/ID`, with names of people and files), in clear text. Keep it reachable for
        /// administrators only. A loopback address answers to names of this machine only. Not
        /// opened when not set.
        admin_listen: Option<SocketAddr> = Some(None) => RESTART;
        /// URL under which clients know this server, such as `https://se.example.org`. Macaroons
        /// carry it.
        name: Option<String> = Some(None) => NEW_DOOR;
        /// Checksums to compute and keep for every stored file. Clients that ask for no particular
        /// algorithm get the first one.
        checksums: Vec<ChecksumAlgorithm> = Some(vec![ChecksumAlgorithm::Adler32]) => NEW_DOOR;
        /// Threads that serve connections; 0 means one for each core, but at least two. As many
        /// again run third-party copies, and as many again run long transfers at a lower priority.
        worker_threads: u32 = Some(0) => RESTART;
        /// Most threads that wait for disks on behalf of the threads that serve connections.
        /// Third-party copies and long transfers may each use as many again. Commits of uploads
        /// have separate threads, up to 256 for each export.
        blocking_threads: u32 = Some(128) => RESTART;
        /// Nice increment of the threads for long transfers, so that short requests go first.
        /// `"auto"` means 10 where the server has its control group to itself, and 0 elsewhere,
        /// such as in a container with other processes.
        bulk_niceness: Niceness = Some(Niceness::Auto) => RESTART;
        /// Allow core dumps, and debuggers of the same user. The memory of the process holds keys,
        /// tokens and delegated credentials.
        core_dumps: bool = Some(false) => RESTART;
        /// Accept bearer tokens and macaroons in clear text: nowhere, from loopback addresses, or
        /// from everywhere. This also covers macaroon requests and tokens for the other side of a
        /// copy. When not set: `"loopback"` with a certificate, `"always"` without one, since a
        /// proxy in front may have ended TLS.
        clear_text_tokens: Option<ClearText> = Some(None) => LIVE;
        /// Time that requests and transfers in progress get when the server stops. A second signal
        /// ends them at once.
        grace_time: Duration = Some(Duration::from_secs(20)) => LIVE;
    }
}

section! {
    /// A directory that is served below a URL path: of this machine, or of another server (see
    /// upstream.md). Repeat the section for several; the longest matching path wins.
    "export" true Export {
        /// URL path of the export.
        path: LogicalPath = Some(LogicalPath::root()) => LIVE;
        /// Directory to serve. It must exist; the server keeps unfinished uploads in a hidden
        /// directory in it. Give this key, `remote`,
        /// `remote_hosts` or `s3`.
        directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Payload, "the export");
        /// URL of a directory on another server, which is served instead of one of this machine:
        /// `https`, `http`, `root` or `roots`. Clients talk to this server only.
        remote: Option<String> = Some(None) => LIVE;
        /// Hosts that clients may name in the path, as in `root://proxy//root://HOST:PORT//PATH`: a
        /// forwarding proxy (see upstream.md). `"disk.example.org"` means the default port of each
        /// protocol, `"disk.example.org:1095"` this port, `"disk.example.org:*"` any;
        /// `"*.example.org"` means all hosts of a domain.
        remote_hosts: Vec<String> = Some(Vec::new()) => LIVE;
        /// Which identity the server of `remote` sees: that of this server (`"service"`), or that
        /// of each client, by its token (`"client"`), its delegated proxy (`"delegated"`) or a
        /// macaroon that this server mints (`"minted"`). All but `"service"` need `https` or
        /// `roots`. See upstream.md.
        remote_identity: UpstreamIdentity = Some(UpstreamIdentity::Service) => LIVE;
        /// File with the token that this server shows to that of `remote`. It is read again every
        /// 10 s, so that it can be renewed.
        remote_token_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the token for the upstream server");
        /// Certificate that this server shows to that of `remote`, or a proxy, in PEM. It is read
        /// again every 10 s, so that it can be renewed.
        remote_certificate: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the certificate for the upstream server");
        /// Private key of `remote_certificate`. When not set: it is in the same file.
        remote_key: Option<PathBuf> = Some(None) => LIVE.file(Purpose::PrivateKey, "the private key for the upstream server");
        /// File with the macaroon secret of the server of `remote`, for `"minted"`: base64,
        /// readable for its owner only. Not that of `[macaroons]`: clients hold macaroons of that
        /// one.
        remote_macaroon_secret_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::OldSecret, "the macaroon secret of the upstream server");
        /// Read from `root` with a checksum for each page of 4 KiB, as XRootD's client does; XRootD
        /// takes about a second of processor time for each GB of them. `roots` has none.
        remote_page_checksums: bool = Some(true) => LIVE;
        /// URL of a bucket of an S3 storage, or of a prefix in it, whose objects are served as
        /// files: `https`, or `http` within a machine. See s3-export.md.
        s3: Option<String> = Some(None) => LIVE;
        /// Access key of the storage of `s3`.
        s3_access_key_id: Option<String> = Some(None) => LIVE;
        /// File with the secret key of the storage of `s3`. It is read again every 10 s.
        s3_secret_key_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the secret key of the S3 storage");
        /// Region of the storage of `s3`. When not set: `us-east-1`, or the one that the storage
        /// names.
        s3_region: Option<String> = Some(None) => LIVE;
        /// Where the bucket is in URLs of the storage of `s3`: `"path"` or `"host"`. When not set:
        /// in the path, and at Amazon in the host.
        s3_addressing: Option<String> = Some(None) => LIVE;
        /// What clients without a credential may do: nothing, read, or also write and delete.
        anonymous: AnonymousAccess = Some(AnonymousAccess::None) => LIVE;
        /// Refuse every change, whatever the credential allows. When not set: `true` with
        /// `remote_hosts`, else `false`.
        read_only: Option<bool> = Some(None) => LIVE;
        /// Let WebDAV clients lock files and directories (class 2), which Windows, macOS and davfs2
        /// need for writing. Locks bind XRootD clients too; they end after an hour unless
        /// refreshed, and when the server stops. No effect with `read_only`.
        locks: bool = Some(true) => LIVE;
        /// The most that any client may do in this export, in the words of a rule's `may`. With
        /// `["read", "create"]`, for example, no client can replace or delete anything.
        ceiling: AllowedRights = Some(AllowedRights::everything()) => LIVE;
        /// Let HTTP clients delete or replace a directory with everything in it. When off, only
        /// empty directories. `crossload serve DIRECTORY --write` turns it on.
        recursive_delete: bool = Some(false) => LIVE;
        /// Most bytes that all files of the export may take together. 0 means no limit. Not with
        /// `remote` and `s3`.
        quota_bytes: Bytes = Some(Bytes(0)) => LIVE;
        /// Free space that uploads must leave in the file system. No effect with `remote` and `s3`.
        reserve_bytes: Bytes = Some(Bytes(limits::SPACE_RESERVE_BYTES)) => LIVE;
        /// Directory on a fast disk for a cache of the files of this export (see cache.md); exports
        /// may share it. No cache when not set.
        cache_directory: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Private, "the cache");
        /// Most bytes that the cache may take; exports that share a cache need the same value.
        cache_size_bytes: Bytes = Some(Bytes(10 << 30)) => LIVE;
        /// How long the cache relies on what it last heard about a file before it asks again
        /// whether the file has changed. Changes made through this server count at once.
        cache_revalidate_after: Duration = Some(Duration::from_secs(60)) => LIVE;
        /// Files never change once they are written: the cache asks once, until the next start.
        cache_immutable: bool = Some(false) => LIVE;
        /// Blocks of 1 MiB that the cache fetches ahead of a client that reads a file in order; 0
        /// means none.
        cache_prefetch_blocks: u32 = Some(8) => LIVE;
    }
}

section! {
    /// A rule says who may do what, and where. Rights from the export, the token and all matching
    /// rules add up. A right that any rule takes away is gone, and the export's ceiling applies to
    /// everyone. Tokens with scopes and macaroons are limited to what they say, and of the rules
    /// they benefit only from those for `anyone`. See policy.md.
    "rule" true Rule {
        /// Who the rule is about: one word, or a list of words that must all hold. `anyone`,
        /// `authenticated`, `dn:/C=...`, `vo:atlas`, `fqan:/atlas/Role=production` (`*` matches one
        /// component, a final `/*` one or more), `role:production`, `group:/wlcg/x`,
        /// `issuer:https://...`, `subject:...` (with `issuer:`), `user:ann`,
        /// `address:192.0.2.0/24`.
        who: RuleSubjects = None => LIVE;
        /// Where the rule applies: a path and everything below it. `/data/*` means only what is
        /// inside, `/data/x*` every path that begins so, and `{user}` stands for the name of the
        /// local user.
        path: Area = Some(Area::everything()) => LIVE;
        /// Paths below `path` where the rule does not apply.
        except: Vec<Area> = Some(Vec::new()) => LIVE;
        /// Rights that the rule gives: `stat`, `list`, `read`, `create`, `write`, `delete`,
        /// `manage`, `stage`, `all`, or activities such as `DOWNLOAD`.
        may: AllowedRights = Some(AllowedRights::default()) => LIVE;
        /// Rights that the rule takes away, wherever they came from; the same words.
        may_not: DeniedRights = Some(DeniedRights::default()) => LIVE;
        /// Local user who owns the files and opens them. The first matching rule that names one
        /// decides.
        user: Option<String> = Some(None) => LIVE;
        /// Virtual organisation whose quota new files count against. The first matching rule that
        /// names one decides.
        vo: Option<String> = Some(None) => LIVE;
        /// Accept `group:` from every configured issuer, as an XRootD `authdb` does. Otherwise a
        /// group counts only if the issuer's `vo` is the first part of its name, or if the rule
        /// names the issuer by `issuer:`.
        any_issuer: bool = Some(false) => LIVE;
        /// Skip all later rules for clients that match this one.
        last: bool = Some(false) => LIVE;
    }
}

section! {
    /// Rules from other files.
    "policy" false PolicyFiles {
        /// XRootD `authdb`, whose records come after the rules of this file. The file is read again
        /// when it changes; a record without an equivalent is refused with its line.
        /// `crossload config import-authdb FILE` prints the records as rules.
        authdb_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the authdb");
    }
}

section! {
    /// Macaroons: tokens that this server issues, and that clients can pass on with fewer rights.
    "macaroons" false Macaroons {
        /// File with the secret: base64 of at least 32 random bytes, readable for its owner only.
        /// Created if missing; without this key there are no macaroons. Servers with the same
        /// secret, XRootD included, accept each other's macaroons.
        secret_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::Secret, "the macaroon secret");
        /// Files with earlier secrets, whose macaroons are still accepted.
        old_secret_files: Vec<PathBuf> = Some(Vec::new()) => LIVE.file(Purpose::OldSecret, "the old macaroon secret");
        /// Lifetime of a macaroon when the client asks for none.
        default_lifetime: Duration = Some(Duration::from_secs(Lifetimes::default().default_s)) => NEW_DOOR;
        /// Longest lifetime that a client can ask for.
        maximum_lifetime: Duration = Some(Duration::from_secs(Lifetimes::default().max_s)) => NEW_DOOR;
    }
}

section! {
    /// The XRootD protocol, on the same addresses as HTTP: `root://`, and `roots://` with a
    /// certificate.
    "xroot" false Xroot {
        /// Serve the XRootD protocol.
        enabled: bool = Some(true) => NEW_DOOR;
        /// When TLS is offered and required. `"none"`: never; `"optional"`: for clients that ask;
        /// `"login"`: before the login; `"session"`: after the login; `"data"`: like `"login"`, and
        /// also on all further streams of the session. Without a certificate there is no TLS.
        tls: XrootTls = Some(XrootTls::Optional) => NEW_DOOR;
        /// How sessions authenticate, in the order in which clients try the methods; with an empty
        /// list sessions do not authenticate. `"token"` (or `"ztn"`): bearer token, over TLS only;
        /// `"gsi"`: certificate or proxy, needs an RSA key on this server; `"unix"` and `"host"`:
        /// the client's user name or address, which give no rights and are logged. When not set:
        /// `"token"` with TLS and issuers or macaroons, `"gsi"` with a certificate and a trust
        /// directory, then `"unix"` for anonymous clients (see gsi.md).
        authentication: Option<Vec<AuthenticationMethod>> = Some(None) => NEW_DOOR;
        /// Most files that one session may have open at the same time.
        handles: u32 = Some(limits::XROOT_HANDLES_MAX as u32) => NEW_DOOR;
    }
}

section! {
    /// Third-party copies, over HTTP and over the XRootD protocol.
    "tpc" false ThirdPartyCopy {
        /// Connect to loopback and link-local addresses, and to those of this machine's interfaces.
        /// Leave it off if others can reach the server: they could make it talk to local services.
        allow_local_peers: bool = Some(false) => NEW_DOOR;
        /// Connect to private networks (RFC 1918, RFC 4193, RFC 6598).
        allow_private_peers: bool = Some(true) => NEW_DOOR;
        /// Whether to compare the checksums of both sides when the request does not say.
        verify: Verification = Some(Verification::WhenAvailable) => NEW_DOOR;
        /// Most streams of a copy whose client asks for no number; 1 means always one. A copy
        /// begins with one stream, or with as many as copies from the same server used in the last
        /// ten minutes, and adds streams while they make it faster.
        chosen_streams: u32 = Some(limits::CHOSEN_STREAMS_MAX) => NEW_DOOR;
        /// Servers that make third-party copies in place of this one, such as
        /// `["https://tpc.example.org:8443"]`. Clients are redirected there, to the same path. One
        /// `http` or `https` URL covers both protocols; add a `root` URL when the other server has
        /// XRootD on another port.
        forward_to: Vec<String> = Some(Vec::new()) => NEW_DOOR;
        /// Lifetime of a key of an XRootD third-party copy when its client gives none: from its
        /// registration at the source until the destination connects.
        key_lifetime: Duration = Some(limits::TPC_KEY_LIFETIME) => NEW_DOOR;
        /// Longest lifetime of a key that a client can ask for.
        key_lifetime_max: Duration = Some(limits::TPC_KEY_LIFETIME_MAX) => NEW_DOOR;
        /// Hosts that get the client's own bearer token if it sent none for the other side
        /// (`TransferHeaderAuthorization`), over HTTPS only. Such a host can use the token for
        /// everything that the client may do, also here: list only hosts you operate.
        pass_token_to: Vec<String> = Some(Vec::new()) => NEW_DOOR;
    }
}

section! {
    /// Authorities to trust when this server connects to others. Files are read again when they
    /// change.
    "trust" false Trust {
        /// Files of authorities, in PEM.
        ca_files: Vec<PathBuf> = Some(Vec::new()) => LIVE.file(Purpose::Authorities, "the authorities");
        /// Directories of authorities, as grid sites keep them. Missing directories are skipped.
        ca_directories: Vec<PathBuf> = Some(vec![PathBuf::from("/etc/grid-security/certificates")])
            => LIVE.file(Purpose::AuthorityDirectory, "the authorities");
        /// Trust the operating system's authorities too.
        system: bool = Some(true) => LIVE;
    }
}

section! {
    /// Limits that keep the server alive under load.
    "limits" false Limits {
        /// Most connections at the same time. The one that has been idle longest is closed for a
        /// further one, which is refused if none is idle; for a client with its share, its own. At
        /// most a quarter of the process's limit on open files (`ulimit -n`, `LimitNOFILE=`).
        connections: u32 = Some(limits::CONNECTIONS_MAX as u32) => LIVE;
        /// Most third-party copies at the same time; further ones are refused as overloaded. The
        /// limit on open files can reduce it.
        transfers: u32 = Some(limits::TRANSFERS_MAX as u32) => LIVE;
        /// Most files that all XRootD sessions may have open, beyond the first of each. 0 means as
        /// many as the process's limit on open files leaves. At three quarters of the limit, idle
        /// sessions with open files are ended after a minute.
        open_files: u32 = Some(0) => LIVE;
        /// Percentage of `connections`, `transfers`, `open_files`, keys of XRootD copies and
        /// checksums in progress that one client may take when it is alone; at 50, each of several
        /// may have as many as are still free. A client is an address (in IPv6 a network of 64
        /// bits) and an identity. 100 turns shares off, for clients that share one gateway.
        client_share_percent: u32 = Some(limits::CLIENT_SHARE_PERCENT) => LIVE;
        /// Most streams of one transfer; a larger number is cut to this.
        streams: u32 = Some(limits::STREAMS_MAX as u32) => NEW_DOOR;
        /// Longest head of a request.
        head_bytes: Bytes = Some(Bytes(limits::HEAD_BYTES_MAX as u64)) => NEW_DOOR;
        /// Most header lines of a request.
        header_count: u32 = Some(limits::HEADER_COUNT_MAX as u32) => NEW_DOOR;
        /// Time for a request head to arrive, from its first byte.
        head_timeout: Duration = Some(limits::HEAD_TIMEOUT) => NEW_DOOR;
        /// Time for a TLS handshake.
        tls_handshake_timeout: Duration = Some(limits::TLS_HANDSHAKE_TIMEOUT) => NEW_DOOR;
        /// Memory for TLS sessions that clients may resume; a session takes about 600 bytes and the
        /// certificates of its client. When it is used up the oldest sessions are dropped, and
        /// their clients make a full handshake.
        tls_session_bytes: Bytes = Some(Bytes(limits::TLS_SESSIONS_BYTES_MAX as u64)) => LIVE;
        /// How long an idle connection is kept.
        idle_timeout: Duration = Some(limits::IDLE_TIMEOUT) => NEW_DOOR;
        /// Abort a transfer that moves no byte for this long, in either direction.
        stall_timeout: Duration = Some(limits::STALL_TIMEOUT) => NEW_DOOR;
        /// Time to connect to a peer, over all its addresses.
        connect_timeout: Duration = Some(limits::CONNECT_TIMEOUT) => NEW_DOOR;
        /// Time for the first byte of a peer's answer.
        first_byte_timeout: Duration = Some(limits::FIRST_BYTE_TIMEOUT) => NEW_DOOR;
        /// How long an HTTP request waits for a checksum that has to be computed. After that HEAD
        /// answers 503 with Retry-After, and GET sends the file without the checksum; the
        /// computation continues for a minute.
        checksum_wait: Duration = Some(limits::CHECKSUM_WAIT) => NEW_DOOR;
        /// Interval of the progress markers of a third-party copy.
        marker_period: Duration = Some(limits::MARKER_PERIOD) => NEW_DOOR;
        /// Attempts of a transfer that breaks without moving a byte, including the first.
        attempts: u32 = Some(limits::ATTEMPTS_MAX) => NEW_DOOR;
    }
}

section! {
    /// The log: one JSON object per line, described in logging.md.
    "log" false Log {
        /// File to append to, reopened on SIGHUP. Standard error when not set.
        file: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the log");
        /// How lines are written: `"json"`, `"text"` for people, or `"journald"`, which gives
        /// systemd's journal a field for each of ours. `"auto"`: text on a terminal, else JSON.
        format: LogFormat = Some(LogFormat::Auto) => RESTART;
        /// Log each request (`true`), those that failed (`"failed"`), or none (`false`). Transfers
        /// and events of the server are always logged.
        requests: LoggedRequests = Some(LoggedRequests::All) => LIVE;
        /// Log these requests in any case: `"subject:NAME"`, `"vo:NAME"`, `"address:NETWORK"`,
        /// `"path:/PATH"`, `"transfer:ID"` (see logging.md). At most 64.
        follow: Vec<LogFilter> = Some(Vec::new()) => LIVE;
        /// Log the names of people: subjects of certificates and tokens. Otherwise each name is
        /// replaced by a hash that stays the same until the server restarts.
        personal_names: bool = Some(true) => LIVE;
    }
}
