//! Requests at tape systems: which files each one names, as long as something is left to do.

use std::sync::Arc;

use schedule::{FileEvent, FileId, FileState};
use serde::{Deserialize, Serialize};
use types::Result;

use super::advance::{Advance, advance};
use super::words::word_id;
use crate::Catalog;
use crate::limits::STAGE_REQUESTS_MAX;
use crate::store::{Row, Transaction, Value};
use crate::work::file_state;

/// A file of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageMember {
    /// The file.
    pub file: FileId,
    /// Its name at the tape system.
    pub path: String,
    /// When it is given up if it is not on disk by then.
    pub expires_ms: i64,
    /// Whether it is only brought online, and not copied.
    pub is_last_step: bool,
}

/// A user with files at a storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageUser {
    /// The storage.
    pub storage: String,
    /// The user, as [`crate::Owner::unique_name`] has it; empty for files of an early release.
    pub user: String,
}

/// A request at a tape system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRequest {
    /// Its number in the catalog.
    pub number: i64,
    /// The storage that was asked.
    pub storage: String,
    /// Its name there.
    pub request: String,
    /// When it was asked.
    pub asked_ms: i64,
    /// Its files.
    pub members: Vec<StageMember>,
}

impl Catalog {
    /// A tape system was asked for files that were [`FileState::Staging`]; they are
    /// [`FileState::StagingStarted`]. Files that were canceled meanwhile are kept in the request,
    /// because the tape system has them: cancel them there.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn stage_asked(
        &self,
        storage: &str,
        request: &str,
        members: Vec<StageMember>,
        now_ms: i64,
    ) -> Result<StageRequest> {
        let asked = Arc::new(StageRequest {
            number: 0,
            storage: storage.to_owned(),
            request: request.to_owned(),
            asked_ms: now_ms,
            members,
        });
        self.write(move |transaction| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { stage_asked(transaction, &asked).await })
        })
        .await
    }

    /// The requests that are open, the oldest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn stage_requests(&self) -> Result<Vec<StageRequest>> {
        self.read(|transaction| Box::pin(stage_requests(transaction))).await
    }

    /// Nothing is left to do for a request.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn end_stage_request(&self, number: i64) -> Result<()> {
        self.write(move |transaction| {
            Box::pin(async move {
                let sql = "DELETE FROM stage_request WHERE id = $1";
                transaction.execute(sql, &[number.into()]).await?;
                Ok(())
            })
        })
        .await
    }

    /// The states of files, those in the history too, in their order; `None` for those that do not
    /// exist any longer.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn file_states(&self, ids: &[FileId]) -> Result<Vec<Option<FileState>>> {
        let ids: Arc<[FileId]> = ids.into();
        self.read(move |transaction| {
            let ids = Arc::clone(&ids);
            Box::pin(async move { file_states(transaction, &ids).await })
        })
        .await
    }

    /// The users with files in a state of waiting for tape, at the sources of the files, or with
    /// [`FileState::Archiving`] at their destinations.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn waiting_users(&self, state: FileState) -> Result<Vec<StorageUser>> {
        self.read(move |transaction| Box::pin(waiting_users(transaction, state)))
            .await
    }
}

async fn stage_asked(transaction: &mut dyn Transaction, asked: &StageRequest) -> Result<StageRequest> {
    let storage = word_id(transaction, &asked.storage).await?;
    let events: Vec<Advance> = asked
        .members
        .iter()
        .map(|member| Advance {
            request: Some(asked.request.clone()),
            ..Advance::new(member.file, FileEvent::StagingAsked)
        })
        .collect();
    // Those that were canceled meanwhile stay in the list: the request at the tape system has them.
    advance(transaction, &events, asked.asked_ms).await?;
    let sql = "INSERT INTO stage_request (storage, request, asked_ms, members) VALUES ($1, $2, $3, $4) RETURNING id";
    let parameters = [
        storage.into(),
        asked.request.as_str().into(),
        asked.asked_ms.into(),
        Value::json(&asked.members)?,
    ];
    let mut rows = transaction.query(sql, &parameters).await?;
    let number = rows.first_mut().map_or(Ok(0), Row::integer)?;
    Ok(StageRequest {
        number,
        ..asked.clone()
    })
}

async fn stage_requests(transaction: &mut dyn Transaction) -> Result<Vec<StageRequest>> {
    let sql = "SELECT r.id, s.text, r.request, r.asked_ms, r.members FROM stage_request r \
        JOIN word s ON s.id = r.storage ORDER BY r.id LIMIT $1";
    let limit = Value::from(STAGE_REQUESTS_MAX as i64);
    let mut rows = transaction.query(sql, &[limit]).await?;
    let read = |row: &mut Row| {
        Ok(StageRequest {
            number: row.integer()?,
            storage: row.text()?,
            request: row.text()?,
            asked_ms: row.integer()?,
            members: row.json()?,
        })
    };
    rows.iter_mut().map(read).collect()
}

async fn file_states(transaction: &mut dyn Transaction, ids: &[FileId]) -> Result<Vec<Option<FileState>>> {
    let sets: Vec<Vec<Value>> = ids.iter().map(|id| vec![(*id).into()]).collect();
    let sql = "SELECT state FROM file WHERE id = $1 UNION ALL SELECT state FROM file_history WHERE id = $1";
    let found = transaction.query_each(sql, &sets).await?;
    let state = |mut rows: Vec<Row>| rows.first_mut().map(file_state).transpose();
    found.into_iter().map(state).collect()
}

/// Goes from queue to queue by the index, because a queue may have a million such files.
async fn waiting_users(transaction: &mut dyn Transaction, state: FileState) -> Result<Vec<StorageUser>> {
    let side = match state {
        FileState::Archiving => "destination",
        _ => "source",
    };
    let next = "SELECT MIN(f.queue) FROM file f WHERE f.state IN (1, 2, 3, 10) AND f.state = $1";
    let sql = format!(
        "WITH RECURSIVE found(queue) AS ({next} UNION ALL SELECT ({next} AND f.queue > found.queue) \
        FROM found WHERE found.queue IS NOT NULL) \
        SELECT DISTINCT s.text, u.text FROM found JOIN queue q ON q.id = found.queue \
        JOIN word s ON s.id = q.{side} JOIN word u ON u.id = q.user_name ORDER BY s.text, u.text"
    );
    let mut rows = transaction.query(&sql, &[state.number().into()]).await?;
    let read = |row: &mut Row| {
        Ok(StorageUser {
            storage: row.text()?,
            user: row.text()?,
        })
    };
    rows.iter_mut().map(read).collect()
}
