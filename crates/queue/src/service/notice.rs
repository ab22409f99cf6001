//! The warning at a submission: a credential that may end before the copies begin.
//!
//! Only the job's own link is looked at, because every submission asks: the whole decision, which
//! answers to "why" are made from, grows with the number of queues.

use catalog::{Claimed, FileRecord};
use schedule::scheduler::{Decision, Queue};
use schedule::why::{WaitingFile, explain};
use schedule::{CredentialEnd, JobId, Reason};
use types::Result;

use super::pace::Flow;
use super::rules::Rules;
use super::{Inner, Service};
use crate::clock::now_ms;

impl Service {
    /// The sentence about the credential of a job's first file, if it expires soon, or before the
    /// copy may start.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn credential_notice(&self, job: JobId) -> Result<Option<String>> {
        let inner = &self.0;
        let Some(record) = inner.catalog.job(job).await? else {
            return Ok(None);
        };
        let first = inner.catalog.page_files(job, None, 1).await?.items.pop();
        let Some(file) = first.filter(|file| !file.state.is_terminal()) else {
            return Ok(None);
        };
        let claimed = Claimed {
            file,
            job: record.into(),
        };
        let Some(end) = inner.copier.credential_end(&claimed).await else {
            return Ok(None);
        };
        let ahead = match inner.has_pace(&claimed.file) {
            true => inner.catalog.position(claimed.file.id).await?.unwrap_or_default(),
            // Without it there is no estimate of the start.
            false => 0,
        };
        Ok(inner.notice(&claimed.file, ahead, end))
    }
}

impl Inner {
    fn has_pace(&self, file: &FileRecord) -> bool {
        self.paces().pace(now_ms(), &Flow::of_file(file)).is_some()
    }

    fn notice(&self, file: &FileRecord, ahead: u64, end: CredentialEnd) -> Option<String> {
        let (flow, now_ms) = (Flow::of_file(file), now_ms());
        let pace = self.paces().pace(now_ms, &flow);
        let queue = [Queue {
            source: &flow.link.source,
            destination: &flow.link.destination,
            vo: &flow.vo,
            activity: &flow.activity,
            user: &flow.user,
            priority: file.priority,
            waiting: ahead + 1,
            active: 0,
            oldest_ms: None,
            average_bytes: None,
        }];
        let waiting = WaitingFile {
            state: file.state,
            ahead,
            retry_ms: file.times.retry_ms,
            last_error: None,
            credential: Some(end),
        };
        let (outlook, tuning) = (self.outlook(), self.tuning());
        let rules = Rules {
            outlook: &outlook,
            tuning: &tuning,
        };
        let inputs = rules.inputs(now_ms, &queue, 0);
        let found = explain(&inputs, &Decision::default(), 0, &waiting, pace.as_ref())?;
        let mut reasons = found.reasons.iter();
        let about = reasons.find(|reason| matches!(reason, Reason::Credential { .. }));
        about.map(|reason| format!("file {}: {reason}", file.id))
    }
}
