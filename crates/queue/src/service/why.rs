//! Why a file waits: the reasons of one moment, in words.

use catalog::{FileRecord, QueueCount};
use schedule::{FileId, FileState, JobId};
use serde::Serialize;
use types::Result;

use super::{Service, link, now_ms};

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Its stable code.
    pub code: &'static str,
    /// One sentence.
    pub words: String,
}

/// Why a file is where it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// The file.
    pub file_id: FileId,
    /// Its job.
    pub job_id: JobId,
    /// Its state.
    pub state: FileState,
    /// The reasons, the binding one first. A file that waits has at least one.
    pub reasons: Vec<Reason>,
    /// Files ahead of it in its queue.
    pub ahead: Option<u64>,
}

impl Service {
    /// Why a file waits, or did not go well; `None` if it does not exist.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn why_file(&self, id: FileId) -> Result<Option<Why>> {
        let Some(file) = self.0.catalog.file(id).await? else {
            return Ok(None);
        };
        self.why(file).await.map(Some)
    }

    /// The same for the files of a job that have not ended, or if all have, for all.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn why_job(&self, id: JobId) -> Result<Vec<Why>> {
        let files = self.0.catalog.files(id).await?;
        let some_live = files.iter().any(|file| !file.state.is_terminal());
        let mut all = Vec::new();
        for file in files {
            if !some_live || !file.state.is_terminal() {
                all.push(self.why(file).await?);
            }
        }
        Ok(all)
    }

    async fn why(&self, file: FileRecord) -> Result<Why> {
        let ahead = match file.state {
            FileState::Submitted => self.0.catalog.position(file.id).await?,
            _ => None,
        };
        let reasons = match file.state {
            FileState::Submitted => self.waits(&file, ahead).await?,
            _ => vec![in_state(&file)],
        };
        Ok(Why {
            file_id: file.id,
            job_id: file.job,
            state: file.state,
            reasons,
            ahead,
        })
    }

    /// Why a file waits for its turn.
    async fn waits(&self, file: &FileRecord, ahead: Option<u64>) -> Result<Vec<Reason>> {
        let mut reasons = Vec::new();
        if let Some(retry_ms) = file.times.retry_ms {
            let last = file.problem.as_ref().map_or("", |problem| problem.reason.as_str());
            let words = format!("It is tried again in {} s: {last}", seconds_until(retry_ms));
            reasons.push(reason("retry", words));
        }
        let counts = self.0.catalog.queues().await?;
        self.limits_reached(file, &counts, &mut reasons);
        if let Some(ahead) = ahead.filter(|ahead| *ahead > 0) {
            let words = format!("{ahead} files of the same queue are ahead of it.");
            reasons.push(reason("position", words));
        }
        if self.0.running().len() >= self.0.settings.copies as usize {
            let words = format!("All {} places of this worker are taken.", self.0.settings.copies);
            reasons.push(reason("worker_full", words));
        }
        if reasons.is_empty() {
            reasons.push(reason(
                "next",
                "Nothing is in its way: it begins within seconds.".to_owned(),
            ));
        }
        Ok(reasons)
    }

    fn limits_reached(&self, file: &FileRecord, counts: &[QueueCount], reasons: &mut Vec<Reason>) {
        let outlook = self.0.outlook();
        let link = link::of_file(file);
        if let Some(hold) = outlook.held(&link) {
            let (until, problem) = (seconds_until(hold.until_ms), &hold.problem);
            let words = format!(
                "The link waits for another {until} s, because the {} cannot take part now: {}",
                problem.side, problem.reason
            );
            reasons.push(reason("link_held", words));
        } else if outlook.is_paused(&link) {
            reasons.push(reason("link_paused", "Operators have paused the link.".to_owned()));
        }
        let active = |of: &dyn Fn(&QueueCount) -> bool| -> u64 {
            counts.iter().filter(|count| of(count)).map(|count| count.active).sum()
        };
        let out = active(&|count| count.key.source == link.source);
        let into = active(&|count| count.key.destination == link.destination);
        let on_link = active(&|count| link::of_queue(&count.key) == link);
        let places = [
            ("source_full", "out of the source", out, outlook.outbound(&link.source)),
            (
                "destination_full",
                "into the destination",
                into,
                outlook.inbound(&link.destination),
            ),
            (
                "link_full",
                "on the link",
                on_link,
                outlook.link_max(&link).min(self.0.tuning().target(&link)),
            ),
        ];
        for (code, place, taken, limit) in places {
            if limit > 0 && taken >= u64::from(limit) {
                let words = format!("{taken} of {limit} copies {place} run.");
                reasons.push(reason(code, words));
            }
        }
    }
}

fn reason(code: &'static str, words: String) -> Reason {
    Reason { code, words }
}

fn seconds_until(time_ms: i64) -> i64 {
    (time_ms - now_ms()).max(0).div_euclid(1000)
}

/// What a file does that does not wait for its turn.
fn in_state(file: &FileRecord) -> Reason {
    let problem = || {
        file.problem
            .as_ref()
            .map_or(String::new(), |problem| problem.reason.clone())
    };
    match file.state {
        FileState::TokenPreparation => reason("tokens", "Its tokens are being prepared.".to_owned()),
        FileState::Staging => reason("staging", "It waits to be brought online from tape.".to_owned()),
        FileState::StagingStarted => reason("staging", "The tape system has been asked for it.".to_owned()),
        FileState::OnHold | FileState::OnHoldStaging => reason(
            "banned",
            "Operators have banned one of its storages for now.".to_owned(),
        ),
        FileState::NotUsed => reason(
            "not_used",
            "A spare replica or a later hop: another file goes first.".to_owned(),
        ),
        FileState::Ready => reason("starting", "A worker is about to begin.".to_owned()),
        FileState::Active => {
            let size = file.size_bytes.or(file.given_size_bytes);
            let of = size.map_or(String::new(), |size| format!(" of {size}"));
            reason(
                "active",
                format!("It is being copied: {}{of} bytes so far.", file.moved_bytes),
            )
        }
        FileState::Archiving => reason("archiving", "It is copied, and waits to be written to tape.".to_owned()),
        FileState::Finished => reason("finished", "It is done.".to_owned()),
        FileState::Failed => reason("failed", problem()),
        FileState::Canceled => reason("canceled", problem()),
        FileState::Submitted => reason("waiting", "It waits for its turn.".to_owned()),
    }
}
