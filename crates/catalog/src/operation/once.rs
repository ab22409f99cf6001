//! Submissions that a client may repeat: its key is stored with the job.

use std::sync::Arc;

use schedule::{FileId, JobId};
use types::{Error, ErrorCode, Result};

use super::secrets::{SealedSecret, SecretKind, put_secrets};
use super::submit::{check, submit};
use crate::Catalog;
use crate::job::{Login, NewJob, Owner};
use crate::limits::{CHANGED_FILES_MAX, OWNER_GRANTS_MAX};
use crate::store::{Row, Transaction, Value, failure};

/// What makes two submissions of one user the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmissionKey {
    /// The client's name for the submission, unique for each user.
    pub name: String,
    /// A digest of what was submitted.
    pub digest: Vec<u8>,
}

/// A submission that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastSubmission {
    /// Its job.
    pub job: JobId,
    /// The digest of what was submitted.
    pub digest: Vec<u8>,
}

/// Secrets that come with a job.
#[derive(Clone, Debug, Default)]
pub struct JobSecrets {
    /// The tokens that its files name.
    pub stored: Vec<SealedSecret>,
    /// Names of the grants that renew them, stored already or later.
    pub grants: Vec<String>,
}

/// What became of a submission with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is stored, with these files.
    New(Vec<FileId>),
    /// The key is taken, and nothing was stored.
    Past(PastSubmission),
}

impl Catalog {
    /// Stores a job with its key, unless its user has used the key before. A key is kept as long
    /// as its job.
    ///
    /// # Errors
    /// As [`Catalog::submit`].
    pub async fn submit_once(&self, job: NewJob, key: SubmissionKey) -> Result<Submitted> {
        self.submit_with_secrets(job, JobSecrets::default(), Some(key)).await
    }

    /// Stores a job with the secrets that its files name and with its key, or nothing of them. A
    /// secret that is stored already is replaced. A large job is stored in several transactions: it
    /// is seen, and its files run, when all of it is stored.
    ///
    /// # Errors
    /// As [`Catalog::submit`]; `share_used_up` if its owner would have more than
    /// [`OWNER_GRANTS_MAX`] grants.
    pub async fn submit_with_secrets(
        &self,
        job: NewJob,
        mut secrets: JobSecrets,
        key: Option<SubmissionKey>,
    ) -> Result<Submitted> {
        check(&job)?;
        secrets.grants.sort();
        secrets.grants.dedup();
        if secrets.grants.len() > OWNER_GRANTS_MAX {
            return Err(too_many_grants());
        }
        // Others that store the same ones lock them in the same order.
        secrets.stored.sort_by(|one, other| one.name.cmp(&other.name));
        if job.files.len() > CHANGED_FILES_MAX || secrets.stored.len() > CHANGED_FILES_MAX {
            return self.submit_large(job, secrets, key).await;
        }
        let arguments = Arc::new((job, secrets, key));
        self.write(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move {
                let (job, secrets, key) = &*arguments;
                if let Some(past) = take_key(transaction, job, key.as_ref()).await? {
                    return Ok(Submitted::Past(past));
                }
                // First, so that they are locked before their use becomes visible.
                put_secrets(transaction, &secrets.stored, job.submitted_ms).await?;
                put_grants(transaction, job, &secrets.grants).await?;
                // The error takes key and secrets back with the transaction.
                let files = submit(transaction, job, &secrets.grants).await?;
                files
                    .map(Submitted::New)
                    .ok_or_else(|| failure(ErrorCode::JobExists).with_subject(job.id))
            })
        })
        .await
    }

    /// What a user has submitted with a key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn past_submission(&self, owner: &Owner, name: &str) -> Result<Option<PastSubmission>> {
        let arguments = Arc::new((submitter(owner), name.to_owned()));
        self.read(move |transaction| {
            let arguments = Arc::clone(&arguments);
            Box::pin(async move { past(transaction, &arguments.0, &arguments.1).await })
        })
        .await
    }
}

/// Makes rows for grants that have none yet. They have no content until the grants are first used.
pub(super) async fn put_grants(transaction: &mut dyn Transaction, job: &NewJob, grants: &[String]) -> Result<()> {
    let (kind, owner) = (SecretKind::RefreshToken.name(), job.owner.unique_name());
    let sql = "INSERT INTO secret (kind, name, sealed, owner, stored_ms) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (kind, name) DO NOTHING";
    let empty = || Value::Bytes(Vec::new());
    let row = |grant: &String| {
        let (grant, owner) = (grant.as_str(), owner.as_str());
        vec![
            kind.into(),
            grant.into(),
            empty(),
            owner.into(),
            job.submitted_ms.into(),
        ]
    };
    let sets: Vec<Vec<Value>> = grants.iter().map(row).collect();
    let made = transaction.execute_each(sql, &sets).await?;
    if made.into_iter().sum::<u64>() == 0 {
        return Ok(());
    }
    let sql = "SELECT COUNT(*) FROM secret WHERE kind = $1 AND owner = $2";
    let mut rows = transaction.query(sql, &[kind.into(), owner.as_str().into()]).await?;
    let count: usize = rows.first_mut().map_or(Ok(0), Row::number)?;
    match count > OWNER_GRANTS_MAX {
        true => Err(too_many_grants()),
        false => Ok(()),
    }
}

fn too_many_grants() -> Error {
    failure(ErrorCode::ShareUsedUp).with_detail(format!(
        "the tokens of your jobs would need more than {OWNER_GRANTS_MAX} renewals; tokens with the same subject, \
         scopes and audience share one, and those of jobs with unmanaged_tokens need none"
    ))
}

/// Who a key belongs to. The subject of a token is unique together with its issuer only, and the
/// name of the delegation is made of both.
fn submitter(owner: &Owner) -> String {
    match owner.login {
        Login::Certificate => format!("certificate {}", owner.user),
        Login::Token => format!("token {}", owner.delegation_id),
        Login::Anonymous => "anonymous".to_owned(),
    }
}

/// Takes a key for a job; what it was used for if it is taken.
pub(super) async fn take_key(
    transaction: &mut dyn Transaction,
    job: &NewJob,
    key: Option<&SubmissionKey>,
) -> Result<Option<PastSubmission>> {
    let Some(key) = key else { return Ok(None) };
    let owner = submitter(&job.owner);
    let parameters = [
        owner.as_str().into(),
        key.name.as_str().into(),
        Value::Bytes(key.digest.clone()),
        job.id.into(),
    ];
    let sql = "INSERT INTO submission_key (owner, name, digest, job) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (owner, name) DO NOTHING";
    if transaction.execute(sql, &parameters).await? > 0 {
        return Ok(None);
    }
    let known = past(transaction, &owner, &key.name).await?;
    let missing = || failure(ErrorCode::JobExists).with_subject(job.id);
    known.map(Some).ok_or_else(missing)
}

/// What the owner of a job has submitted with a key.
pub(super) async fn past_of(
    transaction: &mut dyn Transaction,
    owner: &Owner,
    name: &str,
) -> Result<Option<PastSubmission>> {
    past(transaction, &submitter(owner), name).await
}

async fn past(transaction: &mut dyn Transaction, owner: &str, name: &str) -> Result<Option<PastSubmission>> {
    let sql = "SELECT job, digest FROM submission_key WHERE owner = $1 AND name = $2";
    let mut rows = transaction.query(sql, &[owner.into(), name.into()]).await?;
    let read = |row: &mut Row| {
        Ok(PastSubmission {
            job: row.job_id()?,
            digest: row.bytes()?,
        })
    };
    rows.first_mut().map(read).transpose()
}
