//! What keeps a file: its state, a retry, the limits of its queue, its credential.

use std::collections::BTreeMap;

use super::WaitingFile;
use super::estimate::Estimate;
use crate::limits::{CREDENTIAL_WARNING_MS, SHARE_MAX, SHARE_MIN};
use crate::reason::{CredentialEnd, Reason};
use crate::scheduler::{Decision, Inputs};
use crate::state::FileState;

/// Reasons of the state; `None` if a file in this state does not wait.
pub(super) fn of_state(state: FileState) -> Option<Vec<Reason>> {
    match state {
        FileState::TokenPreparation => Some(vec![Reason::Tokens]),
        FileState::Staging => Some(vec![Reason::StagingQueued]),
        FileState::StagingStarted => Some(vec![Reason::Staging]),
        FileState::NotUsed => Some(vec![Reason::NotUsed]),
        FileState::Submitted | FileState::OnHold | FileState::OnHoldStaging => Some(Vec::new()),
        FileState::Ready | FileState::Active | FileState::Archiving => None,
        FileState::Finished | FileState::Failed | FileState::Canceled => None,
    }
}

/// A retry that is not due yet.
pub(super) fn of_retry(now_ms: i64, file: &WaitingFile) -> Option<Reason> {
    let at_ms = file.retry_ms.filter(|at| *at > now_ms)?;
    Some(Reason::Retry {
        at_ms,
        in_ms: at_ms - now_ms,
        last_error: file.last_error.clone(),
    })
}

/// What keeps the file's queue.
pub(super) fn of_queue(inputs: &Inputs<'_>, decision: &Decision, queue: usize, ahead: u64) -> Vec<Reason> {
    if ahead < decision.granted(queue) {
        return Vec::new();
    }
    let found = decision.shortfalls.binary_search_by_key(&queue, |short| short.queue);
    let Ok(found) = found else {
        return of_gates(inputs, queue);
    };
    let mut reasons = decision.shortfalls[found].reasons.clone();
    if reasons.iter().any(Reason::is_limit) {
        reasons.extend(share_of_vo(inputs, decision, queue));
    }
    reasons
}

/// Why no file of a queue may start, whatever runs.
pub(super) fn of_gates(inputs: &Inputs<'_>, queue: usize) -> Vec<Reason> {
    let Some(entry) = inputs.queues.get(queue) else {
        return Vec::new();
    };
    let bans = [entry.source, entry.destination].map(|storage| inputs.policy.ban(storage, entry.vo));
    let link = inputs.policy.link(entry.source, entry.destination);
    let hold = link.hold.filter(|hold| hold.until_ms > inputs.now_ms);
    let gates = bans.into_iter().flatten().map(Reason::Banned);
    let gates = gates.chain(link.is_paused.then_some(Reason::LinkPaused));
    gates.chain(hold.map(Reason::LinkHeld)).collect()
}

/// A virtual organisation that has its share of the link or more, beside others that want slots.
fn share_of_vo(inputs: &Inputs<'_>, decision: &Decision, queue: usize) -> Option<Reason> {
    let own = &inputs.queues[queue];
    let mut copies: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for (index, other) in inputs.queues.iter().enumerate() {
        if other.source == own.source && other.destination == own.destination {
            let (active, is_waiting) = copies.entry(other.vo).or_default();
            *active += other.active + decision.granted(index);
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
    is_reached.then(|| Reason::VoShare {
        vo: own.vo.to_owned(),
        used_percent: used_percent as u32,
        share_percent: share_percent as u32,
    })
}

/// A credential that expires before the file starts, or soon.
pub(super) fn of_credential(now_ms: i64, file: &WaitingFile, estimate: Option<&Estimate>, reasons: &mut Vec<Reason>) {
    let Some(CredentialEnd { credential, expires_ms }) = file.credential else {
        return;
    };
    let before_start = expires_ms <= now_ms || estimate.is_some_and(|estimate| expires_ms < estimate.start_ms);
    if before_start || expires_ms - now_ms < CREDENTIAL_WARNING_MS {
        reasons.push(Reason::Credential {
            expires_ms,
            in_minutes: (expires_ms - now_ms).div_euclid(60_000),
            in_s: (expires_ms - now_ms).div_euclid(1000),
            credential,
            before_start,
        });
    }
}
