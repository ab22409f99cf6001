//! Why a file is where it is: a stable code with its data, and one sentence. The scheduler, the
//! answers to "why" and the lists of files use the same type.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A link waits, because one of its storages is full or down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The storage that caused it.
    pub storage: String,
    /// When it is tried again, in milliseconds since 1970.
    pub until_ms: i64,
    /// The storage's words.
    pub message: String,
}

/// A ban, for those who wait because of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanNotice {
    /// The storage.
    pub storage: String,
    /// Who banned it.
    pub by: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Why.
    pub message: String,
}

/// Copies that run at a storage, and how many may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageFull {
    /// The storage, or the host if the limit is for all its ports.
    pub storage: String,
    /// Copies that run.
    pub active: u64,
    /// Its limit.
    pub limit: u32,
}

/// One reason. Serialized with its code as `code`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum Reason {
    /// Its tokens are prepared.
    Tokens,
    /// It is asked from tape soon.
    StagingQueued,
    /// The tape system brings it online.
    Staging,
    /// Another replica or an earlier hop comes first.
    NotUsed,
    /// A ban of one of its storages holds it.
    Banned(BanNotice),
    /// A ban that is no longer in force holds it; it is released at once.
    BanEnded,
    /// It is tried again later.
    Retry {
        /// When, in milliseconds since 1970.
        at_ms: i64,
        /// How long that is from now.
        in_ms: i64,
        /// Why the last attempt failed.
        last_error: Option<String>,
    },
    /// A storage of its link is full or down.
    LinkHeld(Hold),
    /// Operators have paused its link.
    LinkPaused,
    /// The source sends as many copies as it may.
    SourceFull(StorageFull),
    /// The destination receives as many copies as it may.
    DestinationFull(StorageFull),
    /// The last slot of a storage is kept for a link that has waited longer than its share implies.
    SlotReserved {
        /// The storage.
        storage: String,
        /// The source of that link.
        for_source: String,
        /// The destination of that link.
        for_destination: String,
    },
    /// Its link has as many copies as it may.
    LinkFull {
        /// Its copies.
        active: u64,
        /// Its limit.
        limit: u32,
        /// Whether the optimizer set the limit.
        by_optimizer: bool,
    },
    /// Its virtual organisation has as many copies as it may.
    VoFull {
        /// The virtual organisation.
        vo: String,
        /// Its copies.
        active: u64,
        /// Its limit.
        limit: u32,
    },
    /// Its virtual organisation uses its share of the link.
    VoShare {
        /// The virtual organisation.
        vo: String,
        /// Its part of the copies on the link, in percent.
        used_percent: u32,
        /// Its share, in percent.
        share_percent: u32,
    },
    /// The worker runs as many copies as it can.
    WorkerFull,
    /// The worker is draining: it starts no copies.
    WorkerDraining,
    /// Files of its queue go first.
    Position {
        /// How many.
        files: u64,
    },
    /// Nothing keeps it: the next decision starts it.
    Next,
    /// Its credential expires before it starts, or soon.
    Credential {
        /// When, in milliseconds since 1970.
        expires_ms: i64,
        /// Minutes until then; negative: since then.
        in_minutes: i64,
        /// Seconds until then; negative: since then.
        in_s: i64,
        /// Which one it is.
        credential: CredentialKind,
        /// Whether that is before its expected start.
        before_start: bool,
    },
    /// One of its tokens is for other servers, or its scopes may not cover it.
    TokenScope {
        /// Which token, and what its scopes are.
        message: String,
    },
    /// A worker is about to begin.
    Starting,
    /// It is being copied.
    Active {
        /// Bytes copied.
        moved_bytes: u64,
        /// All bytes, where known.
        size_bytes: Option<u64>,
    },
    /// It is copied, and waits to be written to tape.
    Archiving,
    /// It is done.
    Finished,
    /// It failed.
    Failed {
        /// Why.
        message: String,
    },
    /// It was canceled.
    Canceled {
        /// Why.
        message: String,
    },
}

/// A credential of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// The proxy that the user has delegated.
    Proxy,
    /// The token for the source.
    SourceToken,
    /// The token for the destination.
    DestinationToken,
}

impl CredentialKind {
    /// Its name in sentences.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::SourceToken => "token for the source",
            Self::DestinationToken => "token for the destination",
        }
    }
}

/// The credential of a copy that ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialEnd {
    /// Which one it is.
    pub credential: CredentialKind,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl Reason {
    /// Its stable code, as in JSON.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::StagingQueued => "staging_queued",
            Self::Staging => "staging",
            Self::NotUsed => "not_used",
            Self::Banned(_) => "banned",
            Self::BanEnded => "ban_ended",
            Self::Retry { .. } => "retry",
            Self::LinkHeld(_) => "link_held",
            Self::LinkPaused => "link_paused",
            Self::SourceFull(_) => "source_full",
            Self::DestinationFull(_) => "destination_full",
            Self::SlotReserved { .. } => "slot_reserved",
            Self::LinkFull { .. } => "link_full",
            Self::VoFull { .. } => "vo_full",
            Self::VoShare { .. } => "vo_share",
            Self::WorkerFull => "worker_full",
            Self::WorkerDraining => "worker_draining",
            Self::Position { .. } => "position",
            Self::Next => "next",
            Self::Credential { .. } => "credential",
            Self::TokenScope { .. } => "token_scope",
            Self::Starting => "starting",
            Self::Active { .. } => "active",
            Self::Archiving => "archiving",
            Self::Finished => "finished",
            Self::Failed { .. } => "failed",
            Self::Canceled { .. } => "canceled",
        }
    }

    /// Whether slots are taken by others: then shares say who gets the next one.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::SourceFull(_)
                | Self::DestinationFull(_)
                | Self::SlotReserved { .. }
                | Self::LinkFull { .. }
                | Self::VoFull { .. }
                | Self::WorkerFull
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens => to.write_str("its tokens are being prepared"),
            Self::StagingQueued => to.write_str("waits to be requested from tape"),
            Self::Staging => to.write_str("the tape system brings it online"),
            Self::NotUsed => to.write_str("another replica or an earlier hop comes first"),
            Self::Banned(ban) => ban.fmt(to),
            Self::BanEnded => to.write_str("the ban has ended and the file is about to be released"),
            Self::Retry { in_ms, last_error, .. } => {
                write!(to, "next attempt in {} s", in_ms / 1000)?;
                let last = last_error.as_deref();
                last.map_or(Ok(()), |error| write!(to, "; the last one failed: {error}"))
            }
            Self::LinkHeld(hold) => write!(to, "{} is full or down: {}", hold.storage, hold.message),
            Self::LinkPaused => to.write_str("operators have paused the link"),
            Self::SourceFull(full) => full.describe(to, "outbound"),
            Self::DestinationFull(full) => full.describe(to, "inbound"),
            Self::LinkFull {
                limit: 0,
                by_optimizer: true,
                ..
            } => to.write_str("the optimizer has given the link no copies yet"),
            Self::LinkFull { limit: 0, .. } => to.write_str("the limit of the link is 0"),
            Self::LinkFull {
                active,
                limit,
                by_optimizer,
            } => {
                let whose = if *by_optimizer { "optimizer's limit" } else { "limit" };
                write!(to, "{whose} of the link reached: {active} of {limit} copies")
            }
            Self::VoFull { vo, active, limit } => write!(to, "limit of {vo} reached: {active} of {limit} copies"),
            Self::WorkerFull => to.write_str("the worker runs as many copies as it can"),
            Self::WorkerDraining => to.write_str("the worker is draining and starts no copies"),
            Self::Position { files: 1 } => to.write_str("one file of the same queue goes first"),
            Self::Position { files } => write!(to, "{files} files of the same queue go first"),
            _ => self.describe_rest(to),
        }
    }
}

impl Reason {
    fn describe_rest(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlotReserved {
                storage,
                for_source,
                for_destination,
            } => write!(
                to,
                "the free slot of {storage} is kept for {for_source} to {for_destination}, which waits longer"
            ),
            Self::VoShare {
                vo,
                used_percent,
                share_percent,
            } => write!(
                to,
                "{vo} has {used_percent} % of the copies on the link; its share is {share_percent} %"
            ),
            Self::Credential {
                in_minutes,
                in_s,
                credential,
                before_start,
                ..
            } => {
                let credential = credential.words();
                match in_s {
                    ..=0 => write!(to, "its {credential} has expired")?,
                    1..120 => write!(to, "its {credential} expires in {in_s} s")?,
                    _ => write!(to, "its {credential} expires in {in_minutes} minutes")?,
                }
                let start = if *before_start && *in_s > 0 {
                    ", before the expected start"
                } else {
                    ""
                };
                to.write_str(start)
            }
            Self::Starting => to.write_str("a worker is about to begin"),
            Self::Active {
                moved_bytes,
                size_bytes,
            } => match size_bytes {
                Some(size_bytes) => write!(to, "is being copied: {moved_bytes} of {size_bytes} bytes"),
                None => write!(to, "is being copied: {moved_bytes} bytes so far"),
            },
            Self::Archiving => to.write_str("is copied, and waits to be written to tape"),
            Self::Finished => to.write_str("has been copied"),
            Self::TokenScope { message } | Self::Failed { message } | Self::Canceled { message } => {
                to.write_str(message)
            }
            _ => to.write_str("starts with the next decision"),
        }
    }
}

impl fmt::Display for BanNotice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} is banned by {}", self.storage, self.by)?;
        match self.message.is_empty() {
            true => Ok(()),
            false => write!(to, ": {}", self.message),
        }
    }
}

impl StorageFull {
    fn describe(&self, to: &mut fmt::Formatter<'_>, direction: &str) -> fmt::Result {
        let Self { storage, active, limit } = self;
        match limit {
            0 => write!(to, "the {direction} limit of {storage} is 0"),
            _ => write!(to, "{direction} limit of {storage} reached: {active} of {limit} copies"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_json() {
        let hold = Hold {
            storage: "https://d:443".to_owned(),
            until_ms: 1,
            message: "507".to_owned(),
        };
        let full = || StorageFull {
            storage: "https://d:443".to_owned(),
            active: 0,
            limit: 0,
        };
        let last_error = None;
        let all = [
            Reason::Tokens,
            Reason::StagingQueued,
            Reason::Staging,
            Reason::NotUsed,
            Reason::BanEnded,
            Reason::LinkHeld(hold),
            Reason::LinkPaused,
            Reason::SourceFull(full()),
            Reason::DestinationFull(full()),
            Reason::WorkerFull,
            Reason::WorkerDraining,
            Reason::Position { files: 2 },
            Reason::Next,
            Reason::Starting,
            Reason::Archiving,
            Reason::Finished,
            Reason::Retry {
                at_ms: 9,
                in_ms: 8,
                last_error,
            },
        ];
        for reason in all {
            let json = serde_json::to_value(&reason).unwrap();
            assert_eq!(json["code"], reason.code());
            assert_eq!(serde_json::from_value::<Reason>(json).unwrap(), reason);
            assert!(!reason.to_string().is_empty());
        }
        assert_eq!(
            Reason::DestinationFull(full()).to_string(),
            "the inbound limit of https://d:443 is 0"
        );
    }

    #[test]
    fn the_manual_explains_each_code() {
        let own = include_str!("reason.rs").split("fn code(&self)").nth(1).unwrap();
        let arms = own.split("\n    }").next().unwrap();
        let codes: Vec<&str> = arms.split('"').skip(1).step_by(2).collect();
        assert!(codes.contains(&"tokens") && codes.contains(&"canceled"), "{codes:?}");
        let manual = include_str!("../../../docs/queue.md");
        let table = manual.split("### Why a file waits").nth(1).unwrap();
        let table = table.split("\n## ").next().unwrap();
        for code in codes {
            assert!(table.contains(&format!("`{code}`")), "{code}");
        }
    }
}
