//! A line in the log for each attempt to copy a file.

use std::sync::Arc;
use std::time::Instant;

use catalog::Claimed;
use queue::{CleanUp, Copier, CopyResult, CopyTime, ExpiryLookup, HopRemoval, Roles, TokenGaps};
use serde_json::{Value, json};
use transfer::Progress;

use crate::server::log::Log;

/// A copier whose attempts are in the log.
pub(super) struct LoggedCopier {
    copier: Arc<dyn Copier>,
    log: Log,
}

impl LoggedCopier {
    pub(super) fn new(copier: Arc<dyn Copier>, log: Log) -> Self {
        Self { copier, log }
    }
}

impl Copier for LoggedCopier {
    fn copy<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CopyTime<'a> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = self.copier.copy(claimed, roles, progress).await;
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.log.write("copy", &line(claimed, &result, duration_ms));
            result
        })
    }

    fn clean_up<'a>(&'a self, claimed: &'a Claimed, roles: Roles, progress: &'a Progress) -> CleanUp<'a> {
        self.copier.clean_up(claimed, roles, progress)
    }

    fn credential_end<'a>(&'a self, claimed: &'a Claimed) -> ExpiryLookup<'a> {
        self.copier.credential_end(claimed)
    }

    fn token_gaps<'a>(&'a self, claimed: &'a Claimed) -> TokenGaps<'a> {
        self.copier.token_gaps(claimed)
    }

    fn remove_hop<'a>(&'a self, claimed: &'a Claimed, url: &'a str) -> HopRemoval<'a> {
        self.copier.remove_hop(claimed, url)
    }
}

/// What happened to a file. Its URLs are stored without what may be secret.
fn line(claimed: &Claimed, result: &CopyResult, duration_ms: u64) -> Value {
    let file = &claimed.file;
    let mut line = json!({
        "job": file.job,
        "file": file.id,
        "attempt": file.attempts.saturating_add(1),
        "source": file.source,
        "destination": file.destination,
        "vo": file.vo,
        "activity": file.activity,
        "duration_ms": duration_ms,
    });
    let (outcome, problem) = match result {
        CopyResult::Finished { size_bytes, way } => {
            line["bytes"] = (*size_bytes).into();
            line["way"] = way.as_deref().into();
            ("copied", None)
        }
        // A worker that was lost had copied it.
        CopyResult::Found { size_bytes, note } => {
            line["bytes"] = (*size_bytes).into();
            line["note"] = note.reason.as_str().into();
            ("found", None)
        }
        CopyResult::Hop { hop, copied_bytes } => {
            line["bytes"] = (*copied_bytes).into();
            line["hop"] = hop.incoming.url.as_str().into();
            line["part"] = json!(hop.part);
            ("hop", None)
        }
        CopyResult::Failed { problem, .. } => ("failed", Some(problem)),
        CopyResult::Hold { problem, .. } | CopyResult::Wait { problem, .. } | CopyResult::Remains { problem, .. } => {
            ("held", Some(problem))
        }
    };
    line["outcome"] = outcome.into();
    if let Some(problem) = problem {
        line["error"] = json!({
            "code": problem.code, "side": problem.side, "phase": problem.phase, "message": problem.reason,
        });
    }
    line
}
