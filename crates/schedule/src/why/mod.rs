//! Why a file waits, who is ahead, and when it may start: from the inputs of the last decision.
//!
//! Every waiting file has at least one reason. An estimate says what it is based on; there is none
//! while nothing has been copied, or while a wait has no known end.

mod estimate;
mod reason;

#[cfg(test)]
mod tests;

pub use estimate::{Estimate, EstimateBasis, Pace};
pub use reason::WaitingReason;

use serde::Serialize;

use crate::scheduler::{Decision, Inputs};
use crate::state::FileState;

/// What is known about a waiting file beside its queue.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingFile {
    /// Its state.
    pub state: FileState,
    /// Files ahead of it in its queue.
    pub ahead: u64,
    /// When it is tried again, in milliseconds since 1970.
    pub retry_ms: Option<i64>,
    /// Why its last attempt failed.
    pub last_error: Option<String>,
    /// When its credential expires, in milliseconds since 1970.
    pub credential_expires_ms: Option<i64>,
}

/// Why a file waits, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// The most important first; never empty.
    pub reasons: Vec<WaitingReason>,
    /// Files ahead of it in its queue.
    pub ahead: u64,
    /// When it may start and end.
    pub estimate: Option<Estimate>,
}

/// Explains why a file of queue `queue` (its position in [`Inputs::queues`]) waits. `None`: it does
/// not wait, because a worker has it or because it has ended.
///
/// `decision` is the last one made from `inputs`. `pace` is how fast the queue moved lately.
#[must_use]
pub fn explain(
    inputs: &Inputs<'_>,
    decision: &Decision,
    queue: usize,
    file: &WaitingFile,
    pace: Option<&Pace>,
) -> Option<Waiting> {
    let mut reasons = reason::of_state(file)?;
    reason::of_retry(inputs, file, &mut reasons);
    if matches!(
        file.state,
        FileState::Submitted | FileState::OnHold | FileState::OnHoldStaging
    ) {
        reason::of_queue(inputs, decision, queue, file.ahead, &mut reasons);
    }
    if file.ahead > 0 {
        reasons.push(WaitingReason::Behind { files: file.ahead });
    }
    if reasons.is_empty() {
        let is_held = matches!(file.state, FileState::OnHold | FileState::OnHoldStaging);
        reasons.push(if is_held {
            WaitingReason::BanEnded
        } else {
            WaitingReason::NextDecision
        });
    }
    let estimate = estimate::of(inputs.now_ms, file, &reasons, pace);
    reason::of_credential(inputs.now_ms, file, estimate.as_ref(), &mut reasons);
    Some(Waiting {
        reasons,
        ahead: file.ahead,
        estimate,
    })
}
