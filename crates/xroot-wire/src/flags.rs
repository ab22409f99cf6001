//! The sets of flags. Bits without a name here are kept, so that what is read can be written again.

use bitflags::bitflags;

bitflags! {
    /// What a client can do or wants, in its `protocol` request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ProtocolOptions: u8 {
        /// Send me the record of signing requirements.
        const SECURITY_RECORD = 0x01;
        /// I can do TLS.
        const CAN_TLS = 0x02;
        /// Switch to TLS now.
        const WANTS_TLS = 0x04;
        /// Send me the record of interfaces to bind to.
        const BIND_RECORD = 0x08;
    }

    /// What a server is and offers, in its answer to `protocol`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ServerFlags: u32 {
        /// It has files of its own.
        const SERVER = 0x0000_0001;
        /// It redirects.
        const MANAGER = 0x0000_0002;
        /// It is a cache of attributes.
        const CACHE = 0x0000_0080;
        /// It is a manager of managers.
        const META_MANAGER = 0x0000_0100;
        /// It stands in front of other servers.
        const PROXY = 0x0000_0200;
        /// It is a manager below a manager.
        const SUPERVISOR = 0x0000_0400;
        /// It redirects without files of its own behind it.
        const VIRTUAL_REDIRECTOR = 0x0000_0800;
        /// Broken writes can be recovered.
        const RECOVERS_WRITES = 0x0000_1000;
        /// Redirections may be collapsed.
        const COLLAPSES_REDIRECTS = 0x0000_2000;
        /// It redirects erasure coded files.
        const REDIRECTS_ERASURE_CODED = 0x0000_4000;
        /// A file that is not closed properly disappears when that is asked for.
        const PERSIST_ON_CLOSE = 0x0010_0000;
        /// It knows page reads and writes.
        const PAGES = 0x0020_0000;
        /// It knows whole-file transfers.
        const WHOLE_FILES = 0x0040_0000;
        /// It knows anonymous whole-file transfers.
        const WHOLE_FILES_ANONYMOUS = 0x0080_0000;
        /// Bound streams need TLS.
        const TLS_FOR_DATA = 0x0100_0000;
        /// Whole-file transfers need TLS.
        const TLS_FOR_WHOLE_FILES = 0x0200_0000;
        /// TLS is needed before the login.
        const TLS_FOR_LOGIN = 0x0400_0000;
        /// TLS begins after login and authentication.
        const TLS_FOR_SESSION = 0x0800_0000;
        /// Third-party copies need TLS.
        const TLS_FOR_THIRD_PARTY = 0x1000_0000;
        /// Anonymous whole-file transfers need TLS.
        const TLS_FOR_WHOLE_FILES_ANONYMOUS = 0x2000_0000;
        /// The TLS handshake begins right behind this answer.
        const GO_TO_TLS = 0x4000_0000;
        /// It can do TLS.
        const HAS_TLS = 0x8000_0000;
    }

    /// What a client can do, in its login.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LoginAbilities: u8 {
        /// It understands a URL in a redirection.
        const FULL_URL = 0x01;
        /// It understands a redirection to another protocol. Clients set it together with
        /// `FULL_URL`.
        const OTHER_PROTOCOLS = 0x02;
        /// It understands a redirection of a read.
        const READ_REDIRECT = 0x04;
        /// It has IPv6 beside IPv4.
        const DUAL_STACK = 0x08;
        /// It has only a private IPv4 address.
        const ONLY_PRIVATE_V4 = 0x10;
        /// It has only a private IPv6 address.
        const ONLY_PRIVATE_V6 = 0x20;
        /// It can read a local file that it is redirected to.
        const LOCAL_FILES = 0x40;
        /// It understands flags in a redirection.
        const REDIRECT_FLAGS = 0x80;
    }

    /// How a file is to be opened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenOptions: u16 {
        /// Accepts compressed data, which no server sends.
        const COMPRESSED = 0x0001;
        /// Create it, or cut it to nothing.
        const TRUNCATE = 0x0002;
        /// Other clients that have it open do not matter.
        const FORCE = 0x0004;
        /// Create it; it must not exist. Wins over `TRUNCATE`.
        const NEW = 0x0008;
        /// For reading.
        const READ = 0x0010;
        /// For reading and writing.
        const UPDATE = 0x0020;
        /// The answer may come late; in an upload also: create missing directories.
        const ASYNCHRONOUS = 0x0040;
        /// Forget what is remembered of its location.
        const REFRESH = 0x0080;
        /// Create missing directories.
        const MAKE_PATH = 0x0100;
        /// For appending.
        const APPEND = 0x0200;
        /// Put the file's stat text into the answer.
        const RETURN_STAT = 0x0400;
        /// It becomes a replica of a file elsewhere.
        const REPLICA = 0x0800;
        /// It lasts only if it is closed properly.
        const PERSIST_ON_CLOSE = 0x1000;
        /// Fail rather than wait for a file that is not online.
        const NO_WAIT = 0x2000;
        /// It will be read from front to back.
        const SEQUENTIAL = 0x4000;
        /// For writing only.
        const WRITE_ONLY = 0x8000;
    }

    /// How a file is to be opened, since version 5.2 of the protocol.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenExtraOptions: u16 {
        /// It is a second handle of the file that the template handle names.
        const DUPLICATE = 0x0001;
        /// It must lie in the file system of the file that the template handle names.
        const SAME_FILE_SYSTEM = 0x0002;
        /// Put the extended stat text into the answer.
        const RETURN_STAT_EXTENDED = 0x0004;
        /// Without the system's cache.
        const DIRECT = 0x0008;
    }

    /// What a file is, in a stat text.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StatFlags: u32 {
        /// It can be executed, or the directory searched.
        const EXECUTABLE = 1;
        /// It is a directory.
        const DIRECTORY = 2;
        /// It is neither a file nor a directory.
        const OTHER = 4;
        /// It must be brought online first.
        const OFFLINE = 8;
        /// It can be read.
        const READABLE = 16;
        /// It can be written.
        const WRITABLE = 32;
        /// It disappears if it is not closed properly.
        const PERSIST_PENDING = 64;
        /// There is a copy of it on tape.
        const BACKED_UP = 128;
        /// It is in the cache.
        const CACHED = 512;
    }

    /// What to tell of a directory's entries.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ListOptions: u8 {
        /// Only those that are online.
        const ONLINE = 1;
        /// Their stat texts.
        const STAT = 2;
        /// Their checksums, and stat texts too.
        const CHECKSUM = 4;
        /// Their extended stat texts.
        const STAT_EXTENDED = 8;
    }

    /// How to look for a file's location.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LocateOptions: u16 {
        /// Each host once.
        const UNIQUE = 0x0001;
        /// Do not wait for those that take long.
        const FORCE = 0x0004;
        /// Forget what is remembered.
        const REFRESH = 0x0080;
        /// Names rather than addresses.
        const PREFER_NAMES = 0x0100;
        /// The directory is going to be listed.
        const FOR_LISTING = 0x0400;
        /// Do not wait.
        const NO_WAIT = 0x2000;
    }

    /// What to prepare, and how.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PrepareOptions: u8 {
        /// Give up the request that the payload names.
        const CANCEL = 1;
        /// Tell me when it is done.
        const NOTIFY = 2;
        /// Do not tell of errors.
        const NO_ERRORS = 4;
        /// Bring the files online.
        const STAGE = 8;
        /// The files are going to be written.
        const WRITE_MODE = 16;
        /// Keep the files together.
        const TOGETHER = 32;
        /// Touch the files.
        const FRESH = 64;
        /// Tell me by TCP.
        const USE_TCP = 128;
    }

    /// More of what to prepare.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PrepareExtraOptions: u16 {
        /// The files may be removed from disk.
        const EVICT = 1;
    }

    /// How attributes are set and listed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AttributeOptions: u8 {
        /// The attribute must not exist yet.
        const NEW = 0x01;
        /// List values beside names.
        const WITH_VALUES = 0x10;
    }

    /// Whether a page is sent or asked for again.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PageFlags: u8 {
        /// The page's checksum was wrong before.
        const RETRY = 1;
    }
}
