//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

use std::time::Duration;

/// Longest chain of certificates that a client may show in a TLS handshake, in bytes. The
/// attributes of VOMS in a proxy take some kilobytes; a message of the handshake can have 64 KiB.
pub const CERTIFICATE_CHAIN_BYTES_MAX: usize = 48 * 1024;
/// How long a client may resume a TLS session.
pub const TLS_SESSION_LIFETIME: Duration = Duration::from_secs(3600);
/// Tickets kept of one server, each for one connection of ours: as many as copies from it may well
/// begin at once. One takes some 300 bytes; the server's certificates are kept once for all that
/// came of one full handshake.
pub const TLS_SERVER_TICKETS_MAX: usize = 256;
/// Servers whose session tickets are kept, per client identity.
pub const TLS_TICKET_SERVERS_MAX: usize = 64;
/// Head start of one address over the next when dialling (RFC 8305 §8).
pub const DIAL_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried.
pub const DIAL_ADDRESSES_MAX: usize = 16;
/// Payload buffers kept for reuse; what is above is given back to the system.
pub const BUFFERS_KEPT_MAX: usize = 64;
/// Least bytes of a small body that must come per stall time, unless the rest is shorter. A peer
/// that sends a byte now and then would otherwise hold a connection for days.
pub const BODY_BYTES_PER_STALL: usize = 64 * 1024;
/// Payload in one TLS record (RFC 8446 §5.1).
pub const TLS_RECORD_BYTES: usize = 16 * 1024;
/// TLS records without payload that may follow each other: tickets, changes of keys and empty
/// records are rare, and a peer that sends nothing else would keep a processor busy for nothing.
pub const TLS_EMPTY_RECORDS_MAX: u32 = 64;
/// Turns of a megabyte after which a task moves to the background, until it waits for the next
/// request.
pub const FOREGROUND_TURNS: u32 = 4;
/// Bytes of a payload that a fast sender must have sent before its reader wakes: a little less
/// than a buffer holds, so that what arrives meanwhile still fits.
pub const GATHERED_BYTES: usize = 224 * 1024;
/// How long a sender may take for [`GATHERED_BYTES`]. A slower one is read whenever data arrives.
pub const GATHER_WAIT: Duration = Duration::from_millis(20);
/// Names and addresses that are looked up for strangers at the same time: a name service that does
/// not answer must not hold all threads that wait for disks.
pub const NAME_LOOKUPS_MAX: usize = 16;
/// Names of hosts to connect to that are looked up at the same time: so many that answered lately,
/// and so many others.
pub const DIAL_LOOKUPS_MAX: usize = 32;
/// Time within which a name service answers that works.
pub const QUICK_LOOKUP: Duration = Duration::from_secs(2);
/// How long it is remembered that a name answered quickly.
pub const PROVEN_NAME_TIME: Duration = Duration::from_secs(3600);
/// Most names that are remembered as having answered.
pub const PROVEN_NAMES_MAX: usize = 4096;
