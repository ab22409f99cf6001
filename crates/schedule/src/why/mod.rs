//! Why a file waits, who is ahead, and when it may start: from the inputs of the last decision.
//!
//! Every waiting file has at least one reason. An estimate says what it is based on; there is none
//! while nothing has been copied, or while a wait has no known end.

mod contender;
mod estimate;
mod reasons;

#[cfg(test)]
mod tests;

pub use contender::Contender;
pub use estimate::{Estimate, EstimateBasis, Pace};

use serde::{Serialize, Serializer};

use crate::reason::{CredentialEnd, Reason};
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
    /// The credential of its copy that ends first.
    pub credential: Option<CredentialEnd>,
}

/// Why a file waits, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Waiting {
    /// The most important first; never empty.
    #[serde(serialize_with = "with_words")]
    pub reasons: Vec<Reason>,
    /// Files ahead of it in its queue.
    pub ahead: u64,
    /// Who has the slots that it waits for, most copies first.
    pub contenders: Vec<Contender>,
    /// When it may start and end.
    pub estimate: Option<Estimate>,
}

/// Reasons as JSON: each with its code, its sentence and its data.
///
/// # Errors
/// Those of the serializer.
pub fn with_words<S: Serializer>(reasons: &[Reason], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Worded<'a> {
        words: String,
        #[serde(flatten)]
        reason: &'a Reason,
    }
    serializer.collect_seq(reasons.iter().map(|reason| Worded {
        words: reason.to_string(),
        reason,
    }))
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
    let mut reasons = reasons::of_state(file.state)?;
    let is_held = matches!(file.state, FileState::OnHold | FileState::OnHoldStaging);
    let retry = reasons::of_retry(inputs.now_ms, file);
    if retry.is_some() || is_held {
        reasons.extend(reasons::of_gates(inputs, queue));
    } else if file.state == FileState::Submitted {
        reasons.extend(reasons::of_queue(inputs, decision, queue, file.ahead));
    }
    reasons.extend(retry);
    if file.ahead > 0 {
        reasons.push(Reason::Position { files: file.ahead });
    }
    if reasons.is_empty() {
        reasons.push(if is_held { Reason::BanEnded } else { Reason::Next });
    }
    let estimate = estimate::of(inputs.now_ms, file, &reasons, pace);
    reasons::of_credential(inputs.now_ms, file, estimate.as_ref(), &mut reasons);
    let contenders = contender::of(inputs, decision, queue, &reasons);
    Some(Waiting {
        reasons,
        ahead: file.ahead,
        contenders,
        estimate,
    })
}
