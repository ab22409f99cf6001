//! The messages of FTS 3.14 about copies and links, as JSON: what its daemon publishes, and what
//! Rucio's receiver and the monitoring of experiments read.
//!
//! Names and types are those of FTS's `msg-ifce.cpp`. Fields of SRM and GridFTP stay, with the
//! values that FTS gives for other protocols. Apart from the feed, which reads
//! the catalog, everything here follows from its arguments.

mod complete;
mod failure;
mod feed;
mod link;
pub mod push;
mod state;
#[cfg(test)]
mod tests;

use catalog::{FileRecord, JobRecord, Login};
use schedule::JobKind;
use serde_json::{Map, Value, json};
use types::Location;

pub use complete::complete;
pub use feed::{Batch, Feed, FeedSettings, Message};
pub use link::{LinkFacts, link};
pub use state::state;

/// The kinds of messages, each with a topic of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A copy begins.
    Start,
    /// A copy has ended.
    Complete,
    /// A file has another state.
    State,
    /// What the optimizer has decided about a link.
    QueueState,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Start, Self::Complete, Self::State, Self::QueueState];

    /// The name of its topic: the default of FTS.
    #[must_use]
    pub fn topic(self) -> &'static str {
        match self {
            Self::Start => "transfer.fts_monitoring_start",
            Self::Complete => "transfer.fts_monitoring_complete",
            Self::State => "transfer.fts_monitoring_state",
            Self::QueueState => "transfer.fts_monitoring_queue_state",
        }
    }
}

/// What all messages say of the queue that sends them.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The name under which clients know the queue: FTS's `endpnt`.
    pub endpoint: &'a str,
    /// The site of the source, if operators have named it.
    pub source_site: Option<&'a str>,
    /// The site of the destination, if operators have named it.
    pub destination_site: Option<&'a str>,
    /// Whether messages name the user (`show_user_dn`).
    pub names_user: bool,
}

/// A copy begins, at `at_ms`.
#[must_use]
pub fn start(file: &FileRecord, job: &JobRecord, sender: &Sender<'_>, at_ms: i64) -> Value {
    let mut message = ends(file, sender);
    message.extend(fields(json!({
        "transfer_id": transfer_id(file, at_ms),
        "timestamp": at_ms,
        "vo": file.vo,
        "srm_space_token_src": job.options.source_space_token,
        "srm_space_token_dst": job.options.destination_space_token,
        "is_archiving": is_archiving(job),
    })));
    message.extend(identity(file, job, sender));
    Value::Object(message)
}

/// The members of an object that was just written.
fn fields(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The two ends, in both forms.
fn ends(file: &FileRecord, sender: &Sender<'_>) -> Map<String, Value> {
    let (source, destination) = (host(&file.source), host(&file.destination));
    let [from, to] = file.storages();
    fields(json!({
        "endpnt": sender.endpoint,
        "src_srm_v": "",
        "dest_srm_v": "",
        "src_url": file.source,
        "dst_url": file.destination,
        "src_hostname": source,
        "dst_hostname": destination,
        "src_site_name": sender.source_site.unwrap_or_default(),
        "dst_site_name": sender.destination_site.unwrap_or_default(),
        "t_channel": format!(
            "{}__{}",
            without_port(from),
            without_port(to)
        ),
    }))
}

/// What identifies the file and its user. Absent metadata is `null` since FTS 3.14 (FTS-2183).
fn identity(file: &FileRecord, job: &JobRecord, sender: &Sender<'_>) -> Map<String, Value> {
    fields(json!({
        "job_id": job.id.to_string(),
        "file_id": file.id.0,
        "user_dn": if sender.names_user { job.owner.user.as_str() } else { "" },
        "file_metadata": file.options.metadata,
        "job_metadata": job.metadata,
    }))
}

/// `2026-11-28-0435__a.example__b.example__17__01874efb-…`. Rucio takes the job's identifier from
/// its end.
#[must_use]
pub fn transfer_id(file: &FileRecord, started_ms: i64) -> String {
    let minute = minute_of(started_ms);
    let (source, destination) = (host(&file.source), host(&file.destination));
    format!("{minute}__{source}__{destination}__{}__{}", file.id, file.job)
}

/// A time as `YYYY-MM-DD-HHMM`, in UTC.
fn minute_of(at_ms: i64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1000));
    let time = time.unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let (date, month) = (time.date(), u8::from(time.month()));
    format!(
        "{:04}-{month:02}-{:02}-{:02}{:02}",
        date.year(),
        date.day(),
        time.hour(),
        time.minute()
    )
}

/// The host of a URL; empty for what is none.
fn host(url: &str) -> String {
    Location::parse(url).map_or_else(|_| String::new(), |location| location.host().to_owned())
}

/// A storage as FTS names it: without its port.
fn without_port(storage: &str) -> &str {
    let scheme = storage.find("://").map_or(0, |at| at + 3);
    match storage[scheme..].rfind(':') {
        // The colons of an address in brackets belong to it.
        Some(at) if !storage[scheme + at..].contains(']') => &storage[..scheme + at],
        _ => storage,
    }
}

fn is_archiving(job: &JobRecord) -> bool {
    job.options.archive_timeout_s.is_some_and(|seconds| seconds > 0)
}

fn is_multihop(job: &JobRecord) -> bool {
    job.kind == JobKind::Multihop
}

/// Whether the file is the last hop of a chain, or belongs to none.
fn is_last_hop(file: &FileRecord, job: &JobRecord) -> bool {
    !is_multihop(job) || file.index + 1 >= job.files
}

fn login_word(login: Login) -> &'static str {
    match login {
        Login::Certificate | Login::Anonymous => "certificate",
        Login::Token => "oauth2",
    }
}
