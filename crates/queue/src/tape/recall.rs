//! Brings files online before their copies.
//!
//! One loop owns the open requests. Calls to tape systems are tasks beside it, whose turn is
//! decided in [`super::turns`]; their answers come back to the loop, which writes them into the
//! catalog.

mod ask;
mod question;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use catalog::{Changes, StageMember, StageRequest, StorageUser};
use schedule::{FileId, FileState};
use tokio::task::JoinSet;
use types::Result;

use super::Inner;
use super::batch::{Batch, Question};
use super::turns::{Call, Outcome, Purpose, Turns};
use crate::clock::now_ms;
use crate::limits::{
    CATALOG_PAUSE, STAGE_REQUESTS_PER_FREE, STAGED_AT_ONCE_MAX, STORAGE_STAGE_REQUESTS_MAX, TAPE_EVENTS_MAX,
    TAPE_TURN_PAUSE, TAPE_TURN_PERIOD, TRIED_AT_ONCE_MAX,
};
use ask::Asked;
use question::Answer;

/// The end of a task.
enum Told {
    /// Files were asked for.
    Asked(Call, Asked),
    /// A question about a request has its answer.
    Answered {
        call: Call,
        number: i64,
        question: Question,
        answer: Result<Answer>,
    },
}

/// What a call is to ask.
enum Wanted {
    /// For files.
    Files,
    /// About this request, since a time.
    States { since_ms: i64, number: i64 },
}

/// The requests of this process.
struct Recall {
    inner: Arc<Inner>,
    batches: BTreeMap<i64, Batch>,
    batch_of: HashMap<FileId, i64>,
    turns: Turns,
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
            turns: Turns::new(inner.settings.pace),
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
        let user = question::user(&self.inner, &request.members).await?;
        let batch = Batch::new(request, user, &states, self.inner.settings.pace);
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
            self.end_if_done(number).await?;
        }
        let mut wanted = self.questions(now_ms);
        wanted.extend(self.wanted_files().await?);
        self.turns.sort(&mut wanted);
        for (call, wanted) in wanted {
            self.begin(call, &wanted, now_ms);
        }
        Ok(())
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

    /// What is to be asked about requests, the longest wait first.
    fn questions(&self, now_ms: i64) -> Vec<(Call, Wanted)> {
        let mut wanted: Vec<(Call, Wanted)> = Vec::new();
        for (number, batch) in &self.batches {
            if let Some(since_ms) = batch.asks_since_ms(now_ms) {
                let call = Call {
                    whose: batch.whose(),
                    purpose: Purpose::States,
                };
                let number = *number;
                wanted.push((call, Wanted::States { since_ms, number }));
            }
        }
        wanted.sort_by_key(|(_, wanted)| match wanted {
            Wanted::States { since_ms, .. } => *since_ms,
            Wanted::Files => i64::MAX,
        });
        wanted
    }

    /// The users with files that wait.
    async fn wanted_files(&self) -> Result<Vec<(Call, Wanted)>> {
        let waiting = self.inner.catalog.waiting_users(FileState::Staging).await?;
        let call = |whose| Call {
            whose,
            purpose: Purpose::Files,
        };
        let with_room = waiting.into_iter().filter(|whose| self.has_room(whose));
        Ok(with_room.map(|whose| (call(whose), Wanted::Files)).collect())
    }

    /// Begins a call, if it is its turn.
    fn begin(&mut self, call: Call, wanted: &Wanted, now_ms: i64) {
        if !self.turns.begin(&call, now_ms) {
            return;
        }
        let inner = self.inner.clone();
        match *wanted {
            Wanted::Files => {
                let count = match self.turns.answers(&call.whose.storage) {
                    true => STAGED_AT_ONCE_MAX,
                    false => TRIED_AT_ONCE_MAX,
                };
                self.tasks.spawn(async move {
                    let asked = ask::ask(&inner, &call.whose, count).await;
                    Told::Asked(call, asked)
                });
            }
            Wanted::States { number, .. } => {
                let batch = self.batches.get_mut(&number);
                let Some((request, question)) =
                    batch.and_then(|batch| Some((batch.request.request.clone(), batch.question(now_ms)?)))
                else {
                    return self.turns.end(&call);
                };
                self.tasks.spawn(async move {
                    let answer = question::put(&inner, &request, &question).await;
                    Told::Answered {
                        call,
                        number,
                        question,
                        answer,
                    }
                });
            }
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

    /// Whether a user may have further requests at a storage.
    fn has_room(&self, whose: &StorageUser) -> bool {
        let has_share = |places: usize, is_counted: &dyn Fn(&&Batch) -> bool| {
            let (mut all, mut own) = (0, 0);
            for batch in self.batches.values().filter(is_counted) {
                all += 1;
                own += usize::from(batch.user == whose.user);
            }
            own < places.saturating_sub(all) * STAGE_REQUESTS_PER_FREE
        };
        has_share(catalog::limits::STAGE_REQUESTS_MAX, &|_| true)
            && has_share(STORAGE_STAGE_REQUESTS_MAX, &|batch| {
                batch.request.storage == whose.storage
            })
    }

    async fn take(&mut self, told: Told) -> Result<()> {
        match told {
            Told::Asked(call, asked) => {
                self.turns.end(&call);
                if asked.is_answered {
                    self.turns.note(&call, Outcome::Answered, now_ms());
                }
                if let Some(error) = &asked.failure {
                    self.turns.note(&call, Outcome::of(error), now_ms());
                }
                for request in asked.requests {
                    self.follow(request).await?;
                }
                Ok(())
            }
            Told::Answered {
                call,
                number,
                question,
                answer,
            } => {
                let outcome = match &answer {
                    Err(error) if error.retry() || error.peer_status().is_none() => Outcome::of(error),
                    // Its files fail for it, or are asked about again at their time.
                    _ => Outcome::Answered,
                };
                self.turns.end(&call);
                self.turns.note(&call, outcome, now_ms());
                self.take_answer(number, &question, answer).await
            }
        }
    }

    async fn take_answer(&mut self, number: i64, question: &Question, answer: Result<Answer>) -> Result<()> {
        let Some(batch) = self.batches.get_mut(&number) else {
            return Ok(());
        };
        match (question, answer) {
            (Question::States(members), answer) => {
                question::take_states(&self.inner, batch, members, answer).await?;
                batch.answered(self.inner.settings.pace, now_ms());
            }
            (farewell, answer) => batch.told(farewell, answer.is_ok()),
        }
        Ok(())
    }
}

/// The names of files at the tape system.
fn paths(members: &[StageMember]) -> Vec<String> {
    members.iter().map(|member| member.path.clone()).collect()
}
