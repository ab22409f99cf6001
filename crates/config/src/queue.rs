//! Keys of the transfer queue.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::hop::{self, QueueHop};
use crate::section;
use crate::section::{Purpose, RESTART};
use crate::storage_role::QueueStorage;
use crate::values::{Bytes, ShareCount};

/// The port of FTS's REST API.
const QUEUE_PORT: u16 = 8446;
/// A storage notices by its next marker that a copy has lost its client, which is 5 s at most for
/// most of them; and some signs of life, one a second, may come late.
const LEASE_MIN: Duration = Duration::from_secs(10);
/// Servers report how far a copy is each 5 s or so.
const RATE_WINDOW_MIN: Duration = Duration::from_secs(60);
/// Files of a dead process wait so long.
const LEASE_MAX: Duration = Duration::from_secs(3600);

section! {
    /// The transfer queue, `crossload queue serve`: it takes requests by the REST API of FTS3, and
    /// orders the copies from the servers. Certificate and key are those of `[server]`, clients are
    /// verified as `[x509]`, `[tokens]` and `[[issuer]]` say, and `[tpc]`, `[trust]`, `[limits]`
    /// and `[log]` apply too. `crossload serve` ignores this section.
    "queue" false Queue {
        /// Addresses for clients: FTS's API and ours.
        listen: Vec<SocketAddr> = Some(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, QUEUE_PORT))]) => RESTART;
        /// Directory for the database and the keys. Created if missing, accessible to its owner
        /// only. When not set: `/var/lib/crossload/queue` for root and in the packages' unit, else
        /// `~/.local/state/crossload/queue`.
        state_directory: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the state directory of the queue");
        /// Database that several queues share, such as `"postgres://user@host/name"`. When not set:
        /// a SQLite file in `state_directory`.
        database: Option<String> = Some(None) => RESTART;
        /// File with the password of `database`, readable for its owner only. When not set: the URL
        /// has it, or none is needed.
        database_password_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the password of the queue's database");
        /// File with the key that encrypts tokens and secrets in the database: base64 of at least
        /// 32 random bytes, readable for its owner only. Created if missing. Queues that share a
        /// database need the same key. When not set: `key` in `state_directory`.
        key_file: Option<PathBuf> = Some(None) => RESTART.file(Purpose::SealingKey, "the key of the queue");
        /// File with the queue's names and secrets at token issuers: a line for each,
        /// `ISSUER NAME SECRET [TOKEN_ENDPOINT]`, readable for its owner only. Tokens of these
        /// issuers are renewed while their files wait; without the endpoint, the issuer is asked
        /// for it. When not set: tokens are used as they come.
        token_clients_file: Option<PathBuf> = Some(None)
            => RESTART.file(Purpose::Private, "the queue's secrets at token issuers");
        /// Name of this process among those that share a database. When not set: the name of the
        /// machine.
        worker: Option<String> = Some(None) => RESTART;
        /// Copies that this process runs at once. A copy between two servers costs one connection.
        copies: u32 = Some(2000) => RESTART;
        /// Copies into a storage at once, and out of it, where operators have set no other limit.
        storage_copies: u32 = Some(200) => RESTART;
        /// Copies on a link at once, where operators have set no other limit. The optimizer finds
        /// the best number below it.
        link_copies: u32 = Some(130) => RESTART;
        /// Copies on a link at once that the optimizer keeps at least.
        link_copies_minimum: u32 = Some(2) => RESTART;
        /// What shares of virtual organisations and activities are counted in: the time that copies
        /// hold slots, or the bytes of the files.
        shares_by: ShareCount = Some(ShareCount::Slots) => RESTART;
        /// Attempts after the first, for jobs that give no number.
        retries: u32 = Some(3) => RESTART;
        /// Pause before the first retry, for jobs that give none. It doubles for each further one,
        /// up to 6 h.
        retry_delay: Duration = Some(Duration::from_secs(120)) => RESTART;
        /// The longest time of a copy, also if its job or the size of its source allow more.
        copy_time_maximum: Duration = Some(Duration::from_secs(4 * 86_400)) => RESTART;
        /// Bytes per second that a copy has to move in the mean of each `copy_rate_window`. One
        /// that moves less is ended and tried again. 0: no such limit.
        copy_rate_minimum: Bytes = Some(Bytes(10 << 10)) => RESTART;
        /// The time over which the rate of a copy is measured, at least 1 min.
        copy_rate_window: Duration = Some(Duration::from_secs(600)) => RESTART;
        /// Storages that files may pass on their way, where source and destination cannot make the
        /// copy: tables `[[queue.hops]]` with `urls`, `sources`, `destinations` and `token_file`
        /// ([queue.md](queue.md#hops)). The first that fits is taken.
        hops: Vec<QueueHop> = Some(Vec::new()) => RESTART.file(Purpose::Private, "the queue's token for a hop");
        /// What storages can do in third-party copies: tables `[[queue.storages]]` with `name` and
        /// `third_party` ([queue.md](queue.md#what-storages-can-do)). What operators set by the API
        /// counts before it.
        storages: Vec<QueueStorage> = Some(Vec::new()) => RESTART;
        /// How long finished jobs are kept. Clients such as Rucio ask for them after they ended.
        history: Duration = Some(Duration::from_secs(30 * 86_400)) => RESTART;
        /// How long other processes leave the files of this one alone after its last sign of life,
        /// from 10 s to 1 h. They then copy them. A process that cannot reach the database stops
        /// its copies after two thirds of it.
        lease: Duration = Some(Duration::from_secs(60)) => RESTART;
        /// Users who may change settings and see all jobs: names of certificates
        /// (`"/DC=org/CN=Jane"`), attributes of VOMS (`"/atlas/Role=production"`), `subject@issuer`
        /// or groups of tokens. With `"*"` everyone may.
        operators: Vec<String> = Some(Vec::new()) => RESTART;
        /// Users who may do the same within their virtual organisation: see and cancel its jobs,
        /// ban storages for it, and change its settings and shares. Names as in `operators`.
        vo_operators: Vec<String> = Some(Vec::new()) => RESTART;
        /// Serve clients without credentials too, for tests. Their jobs belong to `anonymous`.
        anonymous: bool = Some(false) => RESTART;
    }
}

impl Queue {
    /// Mistakes that involve several keys.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.listen.is_empty() {
            faults.push("listen: needs at least one address; write one such as \"[::]:8446\"".to_owned());
        }
        if self.link_copies_minimum == 0 || self.link_copies_minimum > self.link_copies {
            faults.push("link_copies_minimum: must be from 1 to link_copies".to_owned());
        }
        for (name, count) in [("copies", self.copies), ("storage_copies", self.storage_copies)] {
            if count == 0 {
                faults.push(format!("{name}: must be at least 1"));
            }
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            faults.push("lease: must be from 10s to 1h".to_owned());
        }
        if self.copy_time_maximum.is_zero() {
            faults.push("copy_time_maximum: must be more than 0".to_owned());
        }
        if self.copy_rate_window < RATE_WINDOW_MIN {
            faults.push("copy_rate_window: must be at least 1m".to_owned());
        }
        faults.extend(hop::fault(&self.hops));
        faults
    }
}
