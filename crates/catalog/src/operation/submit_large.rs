//! Submission of large jobs, in several transactions.
//!
//! First the files are stored, which is most of the work. There is no job yet, so they are not
//! seen. Then one transaction stores the job with its key: from here on it is there, complete.
//! Then its files are admitted to their queues. After the end of the process in between, the files
//! are removed or admitted as [`LongChange`] says.

use std::sync::Arc;
use std::time::Instant;

use schedule::FileId;
use types::{ErrorCode, Result};

use super::long_change::{LongChange, LongChangeKind, NOT_ADMITTED_MS, note, turn_into};
use super::once::{JobSecrets, PastSubmission, SubmissionKey, Submitted, past_of, put_grants, take_key};
use super::secrets::put_secrets;
use super::submit::{Placed, insert_files, insert_job, is_known, place, settle, used_secrets};
use crate::Catalog;
use crate::job::NewJob;
use crate::limits::CHANGED_FILES_MAX;
use crate::store::{Transaction, Value, failure};

/// A submission whose files are being stored.
struct Arrival {
    job: NewJob,
    key: Option<SubmissionKey>,
    placed: Placed,
    /// The number that the job will have.
    number: i64,
    started: Instant,
}

impl Arrival {
    fn change(&self) -> LongChange {
        LongChange {
            job: self.number,
            kind: LongChangeKind::Arrival,
        }
    }

    /// Says that it goes on.
    ///
    /// # Errors
    /// `catalog_unavailable` if it was given up meanwhile.
    async fn goes_on(&self, transaction: &mut dyn Transaction, kind: LongChangeKind) -> Result<()> {
        let now_ms = time_ms(&self.job, self.started);
        let given_up = || failure(ErrorCode::CatalogUnavailable).with_detail("storing the job took too long");
        match turn_into(transaction, self.change(), kind, now_ms).await? {
            true => Ok(()),
            false => Err(given_up()),
        }
    }

    async fn store_secrets(
        &self,
        transaction: &mut dyn Transaction,
        secrets: &JobSecrets,
        used: &[String],
    ) -> Result<()> {
        self.goes_on(transaction, LongChangeKind::Arrival).await?;
        // First, so that they are locked before their use becomes visible.
        put_secrets(transaction, &secrets.stored, self.job.submitted_ms).await?;
        put_grants(transaction, &self.job, &secrets.grants).await?;
        let stored = secrets.stored.iter().map(|secret| &secret.name);
        let names = stored.chain(&secrets.grants).chain(used);
        let sets: Vec<Vec<Value>> = names
            .map(|name| vec![name.as_str().into(), self.number.into()])
            .collect();
        let sql = "INSERT INTO secret_use (name, job) VALUES ($1, $2) ON CONFLICT (name, job) DO NOTHING";
        transaction.execute_each(sql, &sets).await?;
        Ok(())
    }

    async fn store_files(&self, transaction: &mut dyn Transaction, first: usize) -> Result<Vec<FileId>> {
        self.goes_on(transaction, LongChangeKind::Arrival).await?;
        let part = first..self.job.files.len().min(first + CHANGED_FILES_MAX);
        let (files, queues) = (&self.job.files[part.clone()], &self.placed.queues[part]);
        let due_ms = Some(NOT_ADMITTED_MS);
        insert_files(transaction, self.number, self.job.priority, files, queues, due_ms).await
    }

    /// Stores the job. What its key was used for if it is taken.
    async fn store_job(&self, transaction: &mut dyn Transaction) -> Result<Option<PastSubmission>> {
        if let Some(past) = take_key(transaction, &self.job, self.key.as_ref()).await? {
            return Ok(Some(past));
        }
        let exists = || failure(ErrorCode::JobExists).with_subject(self.job.id);
        if is_known(transaction, &self.job).await? {
            return Err(exists());
        }
        let number = insert_job(transaction, &self.job, &self.placed, Some(self.number)).await?;
        number.ok_or_else(exists)?;
        settle(transaction, &self.job, &self.placed, Some(NOT_ADMITTED_MS)).await?;
        self.goes_on(transaction, LongChangeKind::Admission).await?;
        Ok(None)
    }
}

impl Catalog {
    /// As [`Catalog::submit_with_secrets`], for jobs of any size.
    pub(super) async fn submit_large(
        &self,
        job: NewJob,
        secrets: JobSecrets,
        key: Option<SubmissionKey>,
    ) -> Result<Submitted> {
        let (arguments, started) = (Arc::new((job, key)), Instant::now());
        let begun = Arc::clone(&arguments);
        let begun = self.in_turn(move |transaction| {
            let arguments = Arc::clone(&begun);
            Box::pin(async move { begin(transaction, &arguments.0, arguments.1.as_ref(), started).await })
        });
        let (number, placed) = match begun.await? {
            Begun::Past(past) => return Ok(Submitted::Past(past)),
            Begun::Arrival(number, placed) => (number, placed),
        };
        let (job, key) = Arc::unwrap_or_clone(arguments);
        let arrival = Arc::new(Arrival {
            job,
            key,
            placed,
            number,
            started,
        });
        let stored = self.store(&arrival, secrets).await;
        match stored {
            Ok(Submitted::New(files)) => {
                // The job is stored. If this fails, it is made up for as after a crash.
                let admission = LongChange {
                    job: number,
                    kind: LongChangeKind::Admission,
                };
                let now_ms = time_ms(&arrival.job, arrival.started);
                let _ = self.complete(admission, now_ms).await;
                Ok(Submitted::New(files))
            }
            other => {
                // Likewise.
                let _ = self.resume_change(arrival.change(), arrival.job.submitted_ms).await;
                other
            }
        }
    }

    async fn store(&self, arrival: &Arc<Arrival>, secrets: JobSecrets) -> Result<Submitted> {
        let mut used = used_secrets(&arrival.job, &[]);
        for name in secrets.stored.iter().map(|stored| &stored.name).chain(&secrets.grants) {
            used.remove(name);
        }
        let used: Vec<String> = used.into_iter().collect();
        let stored = secrets
            .stored
            .chunks(CHANGED_FILES_MAX)
            .map(|part| (part, &[][..], &[][..]));
        let grants = secrets
            .grants
            .chunks(CHANGED_FILES_MAX)
            .map(|part| (&[][..], part, &[][..]));
        let used = used.chunks(CHANGED_FILES_MAX).map(|part| (&[][..], &[][..], part));
        for (stored, grants, used) in stored.chain(grants).chain(used) {
            let secrets = JobSecrets {
                stored: stored.to_vec(),
                grants: grants.to_vec(),
            };
            self.store_secrets(arrival, secrets, used.to_vec()).await?;
        }
        let mut ids = Vec::with_capacity(arrival.job.files.len());
        for first in (0..arrival.job.files.len()).step_by(CHANGED_FILES_MAX) {
            let arrival = Arc::clone(arrival);
            let part = self.in_turn(move |transaction| {
                let arrival = Arc::clone(&arrival);
                Box::pin(async move { arrival.store_files(transaction, first).await })
            });
            ids.extend(part.await?);
        }
        let arrival = Arc::clone(arrival);
        let past = self.in_turn(move |transaction| {
            let arrival = Arc::clone(&arrival);
            Box::pin(async move { arrival.store_job(transaction).await })
        });
        Ok(past.await?.map_or(Submitted::New(ids), Submitted::Past))
    }

    async fn store_secrets(&self, arrival: &Arc<Arrival>, secrets: JobSecrets, used: Vec<String>) -> Result<()> {
        let arguments = Arc::new((Arc::clone(arrival), secrets, used));
        self.in_turn(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (arrival, secrets, used) = &*arguments;
                arrival.store_secrets(transaction, secrets, used).await
            })
        })
        .await
    }
}

enum Begun {
    Past(PastSubmission),
    /// The number that the job will have, and its place.
    Arrival(i64, Placed),
}

/// The time, which goes on from that of the submission: it may have waited long for its turn.
fn time_ms(job: &NewJob, started: Instant) -> i64 {
    let passed = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
    job.submitted_ms.saturating_add(passed)
}

/// Takes a number for the job, and notes that its files are coming.
async fn begin(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    key: Option<&SubmissionKey>,
    started: Instant,
) -> Result<Begun> {
    if let Some(key) = key
        && let Some(past) = past_of(transaction, &job.owner, &key.name).await?
    {
        return Ok(Begun::Past(past));
    }
    let exists = || failure(ErrorCode::JobExists).with_subject(job.id);
    if is_known(transaction, job).await? {
        return Err(exists());
    }
    let placed = place(transaction, job).await?;
    // The row only takes the number: no other job gets it afterwards.
    let number = insert_job(transaction, job, &placed, None).await?.ok_or_else(exists)?;
    for sql in ["DELETE FROM job_body WHERE job = $1", "DELETE FROM job WHERE id = $1"] {
        transaction.execute(sql, &[number.into()]).await?;
    }
    let arrival = LongChange {
        job: number,
        kind: LongChangeKind::Arrival,
    };
    note(transaction, arrival, "", time_ms(job, started)).await?;
    Ok(Begun::Arrival(number, placed))
}
