//! Every key of the configuration file: its type, its default and its words in the manual.
//!
//! This is the only place where a key is described. `crossload config docs` prints it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use credentials::Lifetimes;
use policy::{AnonymousAccess, Area};
use types::{ChecksumAlgorithm, LogicalPath, limits};

use crate::rules::{Given, People, Taken};
use crate::section;
use crate::section::{LIVE, NEW_DOOR, Purpose, RESTART};
use crate::values::{AuthenticationMethod, Bytes, ClearText, Niceness, Verification, XrootTls};

section! {
    /// The server as a whole.
    "server" false Server {
        /// Addresses to listen on. TLS and clear text are answered on the same port; port 0 takes any free one.
        /// `[::]` serves IPv4 too.
        listen: Vec<SocketAddr> = Some(vec![SocketAddr::from(([127, 0, 0, 1], 8080))]) => RESTART;
        /// The server's certificate chain in PEM, its own certificate first. Read again when the file changes.
        /// Without it only clear text is spoken.
        certificate: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Certificate, "the certificate");
        /// The private key that belongs to the certificate, in PEM. Read again when the file changes.
        key: Option<PathBuf> = Some(None) => LIVE.file(Purpose::PrivateKey, "the private key");
        /// Where metrics and health are shown, in clear text: keep it to yourself. Not shown when not set.
        admin_listen: Option<SocketAddr> = Some(None) => RESTART;
        /// The URL under which clients know this server, such as `https://se.example.org`. Macaroons name it.
        name: Option<String> = Some(None) => NEW_DOOR;
        /// Checksums that are computed and kept for every stored file; the first is told to clients that do not ask
        /// for a certain one.
        checksums: Vec<ChecksumAlgorithm> = Some(vec![ChecksumAlgorithm::Adler32]) => NEW_DOOR;
        /// Threads that serve connections, each its own; 0 takes one for each core, but two at least. As many again make
        /// third-party copies, and as many, which let the others go first, work on long transfers.
        worker_threads: u32 = Some(0) => RESTART;
        /// Threads at the most that wait for disks, which those that serve connections share evenly; as many again for
        /// third-party copies, and as many for long transfers. Uploads are made durable on threads of their own, up to 256
        /// for each export.
        blocking_threads: u32 = Some(128) => RESTART;
        /// Nice increment of the threads that work on long transfers, so that short requests go first: `"auto"`, or 0 to
        /// 19 steps. `"auto"` takes 10 where no other program shares the server's control group, and 0 elsewhere, such as
        /// in a container with other processes.
        bulk_niceness: Niceness = Some(Niceness::Auto) => RESTART;
        /// Whether the process may leave a core dump and be looked into by others of the same user: it holds keys,
        /// tokens and delegated credentials.
        core_dumps: bool = Some(false) => RESTART;
        /// Where bearer tokens and macaroons, requests for macaroons, and tokens for the other side of a copy are taken
        /// in clear text: nowhere, from loopback addresses only, or from everywhere. When not set it is `"loopback"`
        /// where there is a certificate, and `"always"` elsewhere, since something in front may have ended TLS.
        clear_text_tokens: Option<ClearText> = Some(None) => LIVE;
        /// How long requests and transfers in progress may go on when the server is told to stop. A second signal ends
        /// them at once.
        grace_time: Duration = Some(Duration::from_secs(20)) => LIVE;
    }
}

section! {
    /// A directory shown under a URL path. There may be several; the deepest one that holds a path is used.
    "export" true Export {
        /// The URL path.
        path: LogicalPath = Some(LogicalPath::root()) => LIVE;
        /// The directory. It is made by you; the server keeps unfinished uploads in a hidden directory in it.
        directory: PathBuf = None => LIVE.file(Purpose::Payload, "the export");
        /// What everybody may do without a credential: nothing, read, or also write and delete.
        anonymous: AnonymousAccess = Some(AnonymousAccess::None) => LIVE;
        /// Refuse every change, whatever a credential allows.
        read_only: bool = Some(false) => LIVE;
        /// Let WebDAV clients lock files and directories (class 2), which Windows, macOS and davfs2 need to write. Locks hold
        /// for XRootD clients too, end after an hour unless refreshed, and with the server. Default: true; without effect
        /// with `read_only`.
        locks: bool = Some(true) => LIVE;
        /// What nobody may exceed here, whatever a credential or a rule allows, in the words of a rule's `may`:
        /// `["read", "create"]` is a place where nobody replaces or deletes anything.
        ceiling: Given = Some(Given::everything()) => LIVE;
        /// Let HTTP clients remove, or replace, a directory with everything in it. When off, a directory must be empty.
        /// Default: false; `crossload serve DIRECTORY --write` turns it on.
        recursive_delete: bool = Some(false) => LIVE;
        /// How much all files of the export together may take; 0 is no limit of our own.
        quota_bytes: Bytes = Some(Bytes(0)) => LIVE;
        /// Free space in the file system that uploads must leave.
        reserve_bytes: Bytes = Some(Bytes(limits::SPACE_RESERVE_BYTES)) => LIVE;
    }
}

section! {
    /// A rule: who may do what where. There may be any number. What the export gives to everybody, what a token
    /// grants and what all rules about its holder give add up; what any rule takes is gone; the ceiling of the export
    /// binds everybody. A token that says by scopes what it may be used for, and a macaroon, allow just that: rules
    /// give their holders only what they give to `anyone`. See policy.md.
    "rule" true Rule {
        /// Whom it is about: a word, or a list of words that must all hold. `anyone`, `authenticated`, `dn:/C=...`,
        /// `vo:atlas`, `fqan:/atlas/Role=production` (`*` stands for one component, `/*` at the end for one or more),
        /// `role:production`, `group:/wlcg/x`, `issuer:https://...`, `subject:...` (with `issuer:`), `user:ann`,
        /// `address:192.0.2.0/24`.
        who: People = None => LIVE;
        /// Where it holds: a path with everything below it, `/data/*` for what is inside only, `/data/x*` for what
        /// begins so, `/users/{user}` with the name of the local user.
        path: Area = Some(Area::everything()) => LIVE;
        /// Where it does not hold after all.
        except: Vec<Area> = Some(Vec::new()) => LIVE;
        /// What it gives: `stat`, `list`, `read`, `create`, `write`, `delete`, `manage`, `stage`, `all`, or activities
        /// such as `DOWNLOAD`.
        may: Given = Some(Given::default()) => LIVE;
        /// What it takes, whatever gave it, in the same words.
        may_not: Taken = Some(Taken::default()) => LIVE;
        /// The local user in whose name it is done; of several rules the first that names one counts.
        user: Option<String> = Some(None) => LIVE;
        /// The virtual organisation whose quota new files count against; the first that is named counts.
        vo: Option<String> = Some(None) => LIVE;
        /// Whether a token's `group:` counts whichever configured issuer says so, as in an XRootD `authdb`. Otherwise it
        /// counts only from an issuer whose `vo` is the group's first name, or which the rule names by `issuer:`.
        any_issuer: bool = Some(false) => LIVE;
        /// Whether the rules below do not hold for whom this one is about, where it holds.
        last: bool = Some(false) => LIVE;
    }
}

section! {
    /// Rules from elsewhere.
    "policy" false PolicyFiles {
        /// An XRootD `authdb`, whose records hold behind the rules of this file. A record that cannot be expressed is
        /// refused with its line. `crossload config import-authdb FILE` prints it as rules. Read again when it changes.
        authdb_file: Option<PathBuf> = Some(None) => LIVE.file(Purpose::Rights, "the authdb");
    }
}

section! {
    /// Macaroons: tokens that this server gives out, which a client can hand on to others.
    "macaroons" false Macaroons {
        /// The file with the secret: base64 of 32 random bytes or more, as XRootD has it (servers that share it
        /// accept each other's macaroons). Made when it is missing; only its owner may read it. Without this
        /// key there are no macaroons.
        secret_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::Secret, "the macaroon secret");
        /// Earlier secrets, whose macaroons are still accepted.
        old_secret_files: Vec<PathBuf> = Some(Vec::new()) => LIVE.file(Purpose::OldSecret, "the old macaroon secret");
        /// Lifetime of a macaroon when none is asked for.
        default_lifetime: Duration = Some(Duration::from_secs(Lifetimes::default().default_s)) => NEW_DOOR;
        /// Longest lifetime that can be had.
        maximum_lifetime: Duration = Some(Duration::from_secs(Lifetimes::default().max_s)) => NEW_DOOR;
    }
}

section! {
    /// The XRootD protocol, on the same addresses as HTTP: `root://`, and with a certificate `roots://`.
    "xroot" false Xroot {
        /// Whether it is spoken at all.
        enabled: bool = Some(true) => NEW_DOOR;
        /// When TLS is offered and demanded: never, to whoever asks for it, from before the login on, from behind
        /// it on, or from before the login on and also on the further streams of a session. Without a certificate
        /// there is none.
        tls: XrootTls = Some(XrootTls::Optional) => NEW_DOOR;
        /// How sessions say who they are, in the order in which clients are to try. Default: `"token"` where there are
        /// issuers or macaroons and TLS is offered, `"gsi"` where there are a certificate and a trust directory, and then
        /// `"unix"`, so that others come in as anonymous; empty where there is neither. With an empty list sessions say
        /// nothing. A request can bring a token of its own in any case, and over TLS a certificate counts unasked.
        /// See gsi.md. Values: `"token"` or `"ztn"`, a bearer token, over TLS only (clients that can switch to TLS are
        /// made to); `"gsi"`, a certificate or proxy, in clear text too (this server's own key must be RSA); `"unix"`,
        /// the name of the client's user, which gives no rights and appears in the log; `"host"`, the client's address,
        /// which gives no rights either.
        authentication: Option<Vec<AuthenticationMethod>> = Some(None) => NEW_DOOR;
        /// Files that one session may have open at the same time.
        handles: u32 = Some(limits::XROOT_HANDLES_MAX as u32) => NEW_DOOR;
    }
}

section! {
    /// Third-party copies, over HTTP and over the XRootD protocol.
    "tpc" false ThirdPartyCopy {
        /// Whether this server may be sent to loopback and link-local addresses, and to those of this machine's
        /// interfaces. Leave it off on a server that
        /// others reach: they could use it to talk to its local services.
        allow_local_peers: bool = Some(false) => NEW_DOOR;
        /// Whether this server may be sent to private networks (RFC 1918, RFC 4193, RFC 6598).
        allow_private_peers: bool = Some(true) => NEW_DOOR;
        /// Whether the checksums of the two sides are compared when the request does not say.
        verify: Verification = Some(Verification::WhenAvailable) => NEW_DOOR;
        /// Streams that a copy may take when its client asks for no number. It begins with one, or with what a copy
        /// from the same server has settled on in the last ten minutes, and takes more while they make it faster,
        /// which they do on long lines, and over TLS where processors are idle. 1 leaves it at one.
        chosen_streams: u32 = Some(limits::CHOSEN_STREAMS_MAX) => NEW_DOOR;
        /// Servers that take part in third-party copies in this one's stead, such as
        /// `["https://tpc.example.org:8443"]`: clients that ask for one are sent there, for the same path. One
        /// `http` or `https` URL stands for both protocols, since servers like this one speak both on one port; add
        /// a `root` URL when the XRootD protocol is spoken elsewhere. Without any, this server takes part itself.
        forward_to: Vec<String> = Some(Vec::new()) => NEW_DOOR;
        /// How long a key of the XRootD protocol's third-party copy holds when its client does not say: the time
        /// from its registration here, at the source, to the destination's coming.
        key_lifetime: Duration = Some(limits::TPC_KEY_LIFETIME) => NEW_DOOR;
        /// Longest time that a client can have for a key.
        key_lifetime_max: Duration = Some(limits::TPC_KEY_LIFETIME_MAX) => NEW_DOOR;
        /// Hosts to which the client's own bearer token is shown when it has sent none for the other side
        /// (`TransferHeaderAuthorization`), over HTTPS only. Every host on the list can do with the token whatever
        /// its bearer may, here too: list none but your own.
        pass_token_to: Vec<String> = Some(Vec::new()) => NEW_DOOR;
    }
}

section! {
    /// Whose certificates are believed when this server connects to others. Files are read again when they change.
    "trust" false Trust {
        /// PEM files of authorities.
        ca_files: Vec<PathBuf> = Some(Vec::new()) => LIVE.file(Purpose::Authorities, "the authorities");
        /// Directories of authorities as grid sites keep them; missing ones are passed over.
        ca_directories: Vec<PathBuf> = Some(vec![PathBuf::from("/etc/grid-security/certificates")])
            => LIVE.file(Purpose::AuthorityDirectory, "the authorities");
        /// The operating system's authorities too.
        system: bool = Some(true) => LIVE;
    }
}

section! {
    /// Limits that keep a server alive when somebody asks too much of it.
    "limits" false Limits {
        /// Connections at the same time; more are turned away. Fewer where the process may not open enough files: a
        /// quarter of its limit (`ulimit -n`, `LimitNOFILE=`) at the most.
        connections: u32 = Some(limits::CONNECTIONS_MAX as u32) => LIVE;
        /// Transfers as active party at the same time; more are refused as overloaded. Fewer where the process may not
        /// open enough files, as with `connections`.
        transfers: u32 = Some(limits::TRANSFERS_MAX as u32) => LIVE;
        /// Files that sessions of the XRootD protocol may have open, all together, beside the first of each. 0 takes what
        /// the process's limit leaves for them. From three quarters on, idle sessions with open files are ended after a minute.
        open_files: u32 = Some(0) => LIVE;
        /// How much of `connections`, `transfers`, `open_files`, of the keys of XRootD third-party copies and of
        /// checksums under way one client may have when it is alone, in percent. With several, each may have as many
        /// as are still free (at 50). A client is an address, or an IPv6 network of 64 bits, and an identity. 100 switches
        /// shares off; raise it where all clients come through one gateway.
        client_share_percent: u32 = Some(limits::CLIENT_SHARE_PERCENT) => LIVE;
        /// Streams of one transfer; more asked for is cut to this.
        streams: u32 = Some(limits::STREAMS_MAX as u32) => NEW_DOOR;
        /// Longest head of a request.
        head_bytes: Bytes = Some(Bytes(limits::HEAD_BYTES_MAX as u64)) => NEW_DOOR;
        /// Most header lines of a request.
        header_count: u32 = Some(limits::HEADER_COUNT_MAX as u32) => NEW_DOOR;
        /// Time in which the head of a request must arrive, from its first byte.
        head_timeout: Duration = Some(limits::HEAD_TIMEOUT) => NEW_DOOR;
        /// Time in which a TLS handshake must be done.
        tls_handshake_timeout: Duration = Some(limits::TLS_HANDSHAKE_TIMEOUT) => NEW_DOOR;
        /// How long a connection without a request is kept.
        idle_timeout: Duration = Some(limits::IDLE_TIMEOUT) => NEW_DOOR;
        /// A body, ours or a peer's, that moves no byte for this long is given up.
        stall_timeout: Duration = Some(limits::STALL_TIMEOUT) => NEW_DOOR;
        /// Time to connect to a peer, all its addresses together.
        connect_timeout: Duration = Some(limits::CONNECT_TIMEOUT) => NEW_DOOR;
        /// Time to the first byte of a peer's answer.
        first_byte_timeout: Duration = Some(limits::FIRST_BYTE_TIMEOUT) => NEW_DOOR;
        /// How long an HTTP request waits for a checksum that is not kept and has to be computed. Then HEAD answers 503 with
        /// Retry-After, and GET sends the file without it; the computation goes on for a minute.
        checksum_wait: Duration = Some(limits::CHECKSUM_WAIT) => NEW_DOOR;
        /// Time between two progress markers of a third-party copy.
        marker_period: Duration = Some(limits::MARKER_PERIOD) => NEW_DOOR;
        /// Attempts of a transfer that breaks without moving a byte, the first one included.
        attempts: u32 = Some(limits::ATTEMPTS_MAX) => NEW_DOOR;
    }
}

section! {
    /// The log: one JSON object in each line, described in logging.md.
    "log" false Log {
        /// The file to append to; it is opened again on SIGHUP. Standard error when not set.
        file: Option<PathBuf> = Some(None) => RESTART.file(Purpose::Private, "the log");
        /// Whether each request has its line. Transfers and events of the server always have.
        requests: bool = Some(true) => LIVE;
        /// Whether names of people stand in the log: those of certificates, and the subjects of tokens. Otherwise each
        /// is replaced by a hash, which is the same for the same name until the server is restarted.
        personal_names: bool = Some(true) => LIVE;
    }
}
