//! When a waiting file may start and end.

use serde::Serialize;

use super::WaitingFile;
use crate::reason::Reason;

/// How fast a queue moved lately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Files that started.
    pub started: u32,
    /// In this time, in milliseconds.
    pub window_ms: i64,
    /// Mean duration of a copy, in milliseconds.
    pub copy_ms: Option<i64>,
}

/// When a file may start and end, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The start.
    pub start_ms: i64,
    /// The end; `None`: no copy of the queue has ended lately.
    pub end_ms: Option<i64>,
    /// What it is based on.
    pub basis: EstimateBasis,
}

/// What an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EstimateBasis {
    /// The rate of starts of its queue.
    Pace {
        /// Files that started.
        started: u32,
        /// In this time, in milliseconds.
        window_ms: i64,
    },
    /// Nothing keeps it.
    NextDecision,
}

/// The estimate; `None` if a wait has no known end or the queue did not move.
pub(super) fn of(now_ms: i64, file: &WaitingFile, reasons: &[Reason], pace: Option<&Pace>) -> Option<Estimate> {
    let mut begin_ms = now_ms;
    for reason in reasons {
        match reason {
            Reason::Retry { at_ms, .. } => begin_ms = begin_ms.max(*at_ms),
            // It is tried again then, and may be held again.
            Reason::LinkHeld(_) => return None,
            Reason::SourceFull(full) | Reason::DestinationFull(full) if full.limit == 0 => return None,
            Reason::LinkFull { limit: 0, .. } | Reason::VoFull { limit: 0, .. } => return None,
            Reason::Tokens | Reason::StagingQueued | Reason::Staging => return None,
            Reason::NotUsed | Reason::Banned(_) | Reason::LinkPaused => return None,
            _ => {}
        }
    }
    let copy_ms = pace.and_then(|pace| pace.copy_ms);
    let (start_ms, basis) = if reasons.contains(&Reason::Next) {
        (begin_ms, EstimateBasis::NextDecision)
    } else {
        let pace = pace.filter(|pace| pace.started > 0 && pace.window_ms > 0)?;
        let ahead = file.ahead as f64 + 1.0;
        let wait_ms = ahead * pace.window_ms as f64 / f64::from(pace.started);
        let basis = EstimateBasis::Pace {
            started: pace.started,
            window_ms: pace.window_ms,
        };
        (begin_ms.saturating_add(wait_ms as i64), basis)
    };
    Some(Estimate {
        start_ms,
        end_ms: copy_ms.map(|copy| start_ms.saturating_add(copy)),
        basis,
    })
}
