//! Reasons for waiting, as data and as sentences.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::WaitingFile;
use super::estimate::Estimate;
use crate::limits::{CREDENTIAL_WARNING_MS, SHARE_MAX, SHARE_MIN};
use crate::scheduler::{BanNotice, Binding, Decision, Hold, Inputs};
use crate::state::FileState;

/// One reason for which a file waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WaitingReason {
    /// Its tokens are prepared.
    Tokens,
    /// It is asked from tape soon.
    StagingQueued,
    /// The tape system brings it online.
    Staging,
    /// Another replica or an earlier hop comes first.
    NotUsed,
    /// A ban of one of its storages holds it.
    Ban(BanNotice),
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
    Hold(Hold),
    /// Operators have paused its link.
    Paused,
    /// The source sends as many copies as it may.
    Outbound {
        /// The storage.
        storage: String,
        /// Copies out of it.
        active: u64,
        /// Its limit.
        limit: u32,
    },
    /// The destination receives as many copies as it may.
    Inbound {
        /// The storage.
        storage: String,
        /// Copies into it.
        active: u64,
        /// Its limit.
        limit: u32,
    },
    /// The last slot of a storage is kept for a link that has waited for too long.
    Reserved {
        /// The storage.
        storage: String,
        /// The source of that link.
        for_source: String,
        /// The destination of that link.
        for_destination: String,
    },
    /// Its link has as many copies as it may.
    Link {
        /// Its copies.
        active: u64,
        /// Its limit.
        limit: u32,
        /// Whether the optimizer set the limit.
        by_optimizer: bool,
    },
    /// Its virtual organisation has as many copies as it may.
    VoLimit {
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
    Places,
    /// Files of its queue go first.
    Behind {
        /// How many.
        files: u64,
    },
    /// Nothing keeps it: the next decision starts it.
    NextDecision,
    /// Its credential expires before it starts, or soon.
    Credential {
        /// When, in milliseconds since 1970.
        expires_ms: i64,
        /// Minutes until then; negative: since then.
        in_minutes: i64,
        /// Whether that is before its expected start.
        before_start: bool,
    },
}

impl fmt::Display for WaitingReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens => to.write_str("its tokens are being prepared"),
            Self::StagingQueued => to.write_str("waits to be requested from tape"),
            Self::Staging => to.write_str("the tape system brings it online"),
            Self::NotUsed => to.write_str("another replica or an earlier hop comes first"),
            Self::Ban(ban) => write!(to, "{} is banned by {}: {}", ban.storage, ban.by, ban.message),
            Self::BanEnded => to.write_str("the ban has ended and the file is about to be released"),
            Self::Retry { in_ms, last_error, .. } => {
                write!(to, "next attempt in {} s", in_ms / 1000)?;
                last_error
                    .as_ref()
                    .map_or(Ok(()), |error| write!(to, "; the last one failed: {error}"))
            }
            Self::Hold(hold) => write!(to, "{} is full or down: {}", hold.storage, hold.message),
            Self::Paused => to.write_str("operators have paused the link"),
            Self::Outbound { storage, active, limit } => {
                write!(to, "outbound limit of {storage} reached: {active} of {limit} copies")
            }
            Self::Inbound { storage, active, limit } => {
                write!(to, "inbound limit of {storage} reached: {active} of {limit} copies")
            }
            Self::VoLimit { vo, active, limit } => write!(to, "limit of {vo} reached: {active} of {limit} copies"),
            _ => self.fmt_rest(to),
        }
    }
}

impl WaitingReason {
    fn fmt_rest(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved {
                storage,
                for_source,
                for_destination,
            } => write!(
                to,
                "the free slot of {storage} is kept for {for_source} to {for_destination}, which waits for longer"
            ),
            Self::Link {
                active,
                limit,
                by_optimizer,
            } => {
                let whose = if *by_optimizer { "optimizer's limit" } else { "limit" };
                write!(to, "{whose} of the link reached: {active} of {limit} copies")
            }
            Self::VoShare {
                vo,
                used_percent,
                share_percent,
            } => write!(
                to,
                "{vo} has {used_percent} % of the copies on the link; its share is {share_percent} %"
            ),
            Self::Places => to.write_str("the worker runs as many copies as it can"),
            Self::Behind { files } => write!(to, "{files} files of the same queue go first"),
            Self::Credential {
                in_minutes,
                before_start,
                ..
            } => {
                let start = if *before_start {
                    ", before the expected start"
                } else {
                    ""
                };
                match in_minutes {
                    ..=0 => write!(to, "its credential has expired{start}"),
                    _ => write!(to, "its credential expires in {in_minutes} minutes{start}"),
                }
            }
            _ => to.write_str("starts with the next decision"),
        }
    }
}

/// Reasons of the state; `None` if a file in this state does not wait.
pub(super) fn of_state(file: &WaitingFile) -> Option<Vec<WaitingReason>> {
    match file.state {
        FileState::TokenPreparation => Some(vec![WaitingReason::Tokens]),
        FileState::Staging => Some(vec![WaitingReason::StagingQueued]),
        FileState::StagingStarted => Some(vec![WaitingReason::Staging]),
        FileState::NotUsed => Some(vec![WaitingReason::NotUsed]),
        FileState::Submitted | FileState::OnHold | FileState::OnHoldStaging => Some(Vec::new()),
        FileState::Ready | FileState::Active | FileState::Archiving => None,
        FileState::Finished | FileState::Failed | FileState::Canceled => None,
    }
}

/// A retry that is not due yet.
pub(super) fn of_retry(inputs: &Inputs<'_>, file: &WaitingFile, reasons: &mut Vec<WaitingReason>) {
    if let Some(at_ms) = file.retry_ms.filter(|at| *at > inputs.now_ms) {
        reasons.push(WaitingReason::Retry {
            at_ms,
            in_ms: at_ms - inputs.now_ms,
            last_error: file.last_error.clone(),
        });
    }
}

/// What keeps the file's queue.
pub(super) fn of_queue(
    inputs: &Inputs<'_>,
    decision: &Decision,
    queue: usize,
    ahead: u64,
    reasons: &mut Vec<WaitingReason>,
) {
    let Some(entry) = inputs.queues.get(queue) else { return };
    let bans = [entry.source, entry.destination].map(|storage| inputs.policy.ban(storage, entry.vo));
    reasons.extend(bans.into_iter().flatten().map(WaitingReason::Ban));
    let grant = decision.grants.iter().find(|grant| grant.queue == queue);
    if grant.is_some_and(|grant| ahead < u64::from(grant.count)) {
        return;
    }
    let Some(short) = decision.shortfalls.iter().find(|short| short.queue == queue) else {
        return;
    };
    let reason = match short.binding.clone() {
        Binding::Banned(_) => None,
        Binding::Paused => Some(WaitingReason::Paused),
        Binding::Held(hold) => Some(WaitingReason::Hold(hold)),
        Binding::Outbound { storage, active, limit } => Some(WaitingReason::Outbound { storage, active, limit }),
        Binding::Inbound { storage, active, limit } => Some(WaitingReason::Inbound { storage, active, limit }),
        Binding::Places => Some(WaitingReason::Places),
        Binding::Reserved {
            storage,
            for_source,
            for_destination,
        } => Some(WaitingReason::Reserved {
            storage,
            for_source,
            for_destination,
        }),
        Binding::Link {
            active,
            limit,
            by_optimizer,
        } => Some(WaitingReason::Link {
            active,
            limit,
            by_optimizer,
        }),
        Binding::Vo { active, limit } => Some(WaitingReason::VoLimit {
            vo: entry.vo.to_owned(),
            active,
            limit,
        }),
    };
    let is_limit = !matches!(short.binding, Binding::Banned(_) | Binding::Paused | Binding::Held(_));
    reasons.extend(reason);
    if is_limit {
        reasons.extend(share_of_vo(inputs, decision, queue));
    }
}

/// A virtual organisation that has its share of the link or more, beside others that want slots.
fn share_of_vo(inputs: &Inputs<'_>, decision: &Decision, queue: usize) -> Option<WaitingReason> {
    let own = &inputs.queues[queue];
    let mut copies: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for (index, other) in inputs.queues.iter().enumerate() {
        if other.source == own.source && other.destination == own.destination {
            let grants = decision.grants.binary_search_by_key(&index, |grant| grant.queue);
            let granted = grants.map_or(0, |at| decision.grants[at].count);
            let (active, is_waiting) = copies.entry(other.vo).or_default();
            *active += other.active + u64::from(granted);
            *is_waiting |= other.waiting > 0;
        }
    }
    copies.retain(|_, (active, is_waiting)| *is_waiting || *active > 0);
    let share = |vo: &str| {
        inputs
            .policy
            .vo_share(own.source, own.destination, vo)
            .clamp(SHARE_MIN, SHARE_MAX)
    };
    let all: u64 = copies.values().map(|(active, _)| active).sum();
    let shares: f64 = copies.keys().map(|vo| share(vo)).sum();
    let used = copies.get(own.vo)?.0;
    let used_percent = (100.0 * used as f64 / all.max(1) as f64).round();
    let share_percent = (100.0 * share(own.vo) / shares).round();
    let is_reached = copies.len() > 1 && used > 0 && used_percent >= share_percent;
    is_reached.then(|| WaitingReason::VoShare {
        vo: own.vo.to_owned(),
        used_percent: used_percent as u32,
        share_percent: share_percent as u32,
    })
}

/// A credential that expires before the file starts, or soon.
pub(super) fn of_credential(
    now_ms: i64,
    file: &WaitingFile,
    estimate: Option<&Estimate>,
    reasons: &mut Vec<WaitingReason>,
) {
    let Some(expires_ms) = file.credential_expires_ms else {
        return;
    };
    let before_start = expires_ms <= now_ms || estimate.is_some_and(|estimate| expires_ms < estimate.start_ms);
    if before_start || expires_ms - now_ms < CREDENTIAL_WARNING_MS {
        reasons.push(WaitingReason::Credential {
            expires_ms,
            in_minutes: (expires_ms - now_ms).div_euclid(60_000),
            before_start,
        });
    }
}
