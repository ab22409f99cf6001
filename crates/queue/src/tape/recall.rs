//! Brings files online before their copies.
//!
//! One loop owns the open requests. Questions to tape systems are tasks beside it, so that a slow
//! one delays no other; their answers come back to the loop, which writes them into the catalog.

mod ask;
mod question;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use catalog::{Changes, StageMember, StageRequest};
use schedule::{FileId, FileState};
use tokio::task::JoinSet;
use types::{Error, Result};

use super::batch::{Batch, Question};
use super::{Inner, milliseconds, now_ms};
use crate::limits::{
    CATALOG_PAUSE, STORAGE_STAGE_REQUESTS_MAX, TAPE_CALLS_MAX, TAPE_EVENTS_MAX, TAPE_HOLD_TIME, TAPE_TURN_PAUSE,
    TAPE_TURN_PERIOD,
};
use ask::Asked;
use question::Answer;

/// The end of a task.
enum Told {
    /// Files of a storage were asked for.
    Asked(Asked),
    /// A question about a request has its answer.
    Answered {
        number: i64,
        question: Question,
        answer: Result<Answer>,
    },
}

/// The requests of this process.
struct Recall {
    inner: Arc<Inner>,
    batches: BTreeMap<i64, Batch>,
    batch_of: HashMap<FileId, i64>,
    /// Storages that are being asked for files.
    asking: HashSet<String>,
    /// Until when storages are left alone that did not answer, in milliseconds since 1970.
    holds: HashMap<String, i64>,
    /// Until when storages are asked for no further files that refused those of a user. Questions
    /// about open requests go on.
    refusals: HashMap<String, i64>,
    tasks: JoinSet<Told>,
    /// The last event that was read.
    seen: i64,
}

/// Works while this process leads; begins anew whenever it leads again.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        if matches!(inner.catalog.try_lead().await, Ok(true)) {
            // The catalog has failed, or another process leads.
            let _ = lead(&inner).await;
        }
        tokio::time::sleep(CATALOG_PAUSE).await;
    }
}

/// Works until the catalog fails, or another process leads.
async fn lead(inner: &Arc<Inner>) -> Result<()> {
    let mut changes = inner.catalog.changes();
    let mut recall = Recall::load(inner.clone()).await?;
    while inner.catalog.try_lead().await? {
        recall.turn().await?;
        recall.rest(&mut changes).await?;
    }
    Ok(())
}

impl Recall {
    /// Finds the requests that are open.
    async fn load(inner: Arc<Inner>) -> Result<Self> {
        let mut this = Self {
            batches: BTreeMap::new(),
            batch_of: HashMap::new(),
            asking: HashSet::new(),
            holds: HashMap::new(),
            refusals: HashMap::new(),
            tasks: JoinSet::new(),
            // Before the states: an event that comes in between is read again.
            seen: inner.catalog.last_event().await?,
            inner,
        };
        for request in this.inner.catalog.stage_requests().await? {
            this.follow(request).await?;
        }
        Ok(this)
    }

    /// Follows a request from now on.
    async fn follow(&mut self, request: StageRequest) -> Result<()> {
        let files: Vec<FileId> = request.members.iter().map(|member| member.file).collect();
        let states = self.inner.catalog.file_states(&files).await?;
        let batch = Batch::new(request, &states, self.inner.settings.pace);
        let number = batch.request.number;
        self.batch_of.extend(files.into_iter().map(|file| (file, number)));
        self.batches.insert(number, batch);
        Ok(())
    }

    async fn turn(&mut self) -> Result<()> {
        self.read_events().await?;
        let now_ms = now_ms();
        let numbers: Vec<i64> = self.batches.keys().copied().collect();
        for number in numbers {
            self.expire(number, now_ms).await?;
            self.question(number, now_ms);
            self.end_if_done(number).await?;
        }
        self.ask_for_files(now_ms).await
    }

    /// Waits for the next thing to do.
    async fn rest(&mut self, changes: &mut Changes) -> Result<()> {
        let next_ms = self.batches.values().filter_map(Batch::next_ms).min();
        let wait_ms = next_ms.map_or(i64::MAX, |next_ms| (next_ms - now_ms()).max(0));
        let wait = Duration::from_millis(wait_ms.unsigned_abs()).min(TAPE_TURN_PERIOD);
        tokio::select! {
            Some(told) = self.tasks.join_next() => {
                if let Ok(told) = told {
                    self.take(told).await?;
                }
            }
            () = changes.wait() => tokio::time::sleep(TAPE_TURN_PAUSE).await,
            () = tokio::time::sleep(wait.max(TAPE_TURN_PAUSE)) => {}
        }
        Ok(())
    }

    /// Learns what has become of files: canceled, copied.
    async fn read_events(&mut self) -> Result<()> {
        if self.batches.is_empty() {
            self.seen = self.inner.catalog.last_event().await?;
            return Ok(());
        }
        loop {
            let events = self.inner.catalog.events_after(self.seen, TAPE_EVENTS_MAX).await?;
            let count = events.len();
            for event in events {
                self.seen = event.sequence;
                let batch = event.file.and_then(|file| self.batch_of.get(&file));
                let batch = batch.and_then(|number| self.batches.get_mut(number));
                if let (Some(batch), Some(file), Some(state)) = (batch, event.file, event.file_state) {
                    batch.note(file, state);
                }
            }
            if count < TAPE_EVENTS_MAX {
                return Ok(());
            }
        }
    }

    async fn expire(&mut self, number: i64, now_ms: i64) -> Result<()> {
        let Some(batch) = self.batches.get_mut(&number) else {
            return Ok(());
        };
        let late = batch.expired(now_ms);
        if late.is_empty() {
            return Ok(());
        }
        question::give_up(&self.inner, batch, &late).await
    }

    /// Asks what is to be asked about a request.
    fn question(&mut self, number: i64, now_ms: i64) {
        if self.tasks.len() >= TAPE_CALLS_MAX {
            return;
        }
        let Some(batch) = self.batches.get_mut(&number) else {
            return;
        };
        if self
            .holds
            .get(&batch.request.storage)
            .is_some_and(|until_ms| *until_ms > now_ms)
        {
            return;
        }
        if let Some(question) = batch.question(now_ms) {
            let (inner, request) = (self.inner.clone(), batch.request.request.clone());
            self.tasks.spawn(async move {
                let answer = question::put(&inner, &request, &question).await;
                Told::Answered {
                    number,
                    question,
                    answer,
                }
            });
        }
    }

    async fn end_if_done(&mut self, number: i64) -> Result<()> {
        if !self.batches.get(&number).is_some_and(Batch::is_done) {
            return Ok(());
        }
        self.inner.catalog.end_stage_request(number).await?;
        if let Some(batch) = self.batches.remove(&number) {
            for file in batch.files() {
                // It may be in a later request.
                if self.batch_of.get(&file) == Some(&number) {
                    self.batch_of.remove(&file);
                }
            }
        }
        Ok(())
    }

    /// Asks storages for files that wait.
    async fn ask_for_files(&mut self, now_ms: i64) -> Result<()> {
        for holds in [&mut self.holds, &mut self.refusals] {
            holds.retain(|_, until_ms| *until_ms > now_ms);
        }
        for storage in self.inner.catalog.waiting_storages(FileState::Staging).await? {
            let is_held = self.asking.contains(&storage)
                || self.holds.contains_key(&storage)
                || self.refusals.contains_key(&storage);
            if !is_held && self.tasks.len() < TAPE_CALLS_MAX && self.has_room(&storage) {
                let inner = self.inner.clone();
                self.asking.insert(storage.clone());
                self.tasks
                    .spawn(async move { Told::Asked(ask::ask(&inner, storage).await) });
            }
        }
        Ok(())
    }

    /// Whether a storage may have further requests.
    fn has_room(&self, storage: &str) -> bool {
        let open = self
            .batches
            .values()
            .filter(|batch| batch.request.storage == storage)
            .count();
        open < STORAGE_STAGE_REQUESTS_MAX && self.batches.len() < catalog::limits::STAGE_REQUESTS_MAX
    }

    async fn take(&mut self, told: Told) -> Result<()> {
        match told {
            Told::Asked(asked) => {
                self.asking.remove(&asked.storage);
                for request in asked.requests {
                    self.follow(request).await?;
                }
                if let Some(error) = asked.failure {
                    let until_ms = self.hold_end_ms();
                    match error.peer_status() {
                        Some(_) => self.refusals.insert(asked.storage, until_ms),
                        None => self.holds.insert(asked.storage, until_ms),
                    };
                }
                Ok(())
            }
            Told::Answered {
                number,
                question,
                answer,
            } => self.take_answer(number, &question, answer).await,
        }
    }

    async fn take_answer(&mut self, number: i64, question: &Question, answer: Result<Answer>) -> Result<()> {
        let Some(batch) = self.batches.get_mut(&number) else {
            return Ok(());
        };
        let is_down = answer.as_ref().is_err_and(Error::retry);
        let storage = batch.request.storage.clone();
        match (question, answer) {
            (Question::States(members), answer) => {
                question::take_states(&self.inner, batch, members, answer).await?;
                batch.answered(self.inner.settings.pace, now_ms());
            }
            (farewell, answer) => batch.told(farewell, answer.is_ok()),
        }
        if is_down {
            let until_ms = self.hold_end_ms();
            self.holds.insert(storage, until_ms);
        }
        Ok(())
    }

    /// Until when a storage is left alone that fails now.
    fn hold_end_ms(&self) -> i64 {
        now_ms() + milliseconds(TAPE_HOLD_TIME.min(self.inner.settings.pace.longest))
    }
}

/// The names of files at the tape system.
fn paths(members: &[StageMember]) -> Vec<String> {
    members.iter().map(|member| member.path.clone()).collect()
}
