//! What time brings: retries that are due, files that have waited too long, workers that are gone,
//! and tokens that are renewed. Nothing here takes long, however many files there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::limits::SWEEP_FILES_MAX;
use catalog::{Advance, ExpiredFile, Lost, LostFile, Problem, WaitingFile};
use schedule::{FileEvent, FileId, FileState};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::liveness::Liveness;
use super::{Inner, Service, until_stopped};
use crate::clock::{ClockWatch, milliseconds, now_ms};
use crate::copy::problem;
use crate::limits::{PREPARED_MAX, PREPARED_PAGES_MAX, RETRY_DELAY_MAX, SWEEP_PERIOD, TOKEN_LEFT_MIN};

/// Sweeps until the service stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut rounds = Rounds::new(std::time::Instant::now(), now_ms());
    let mut looked_at = FileId(0);
    let mut giving_up: Option<JoinHandle<()>> = None;
    loop {
        // The next round tries again what fails.
        let swept = sweep(&inner, &mut rounds).await;
        inner.note(Work::Sweep, &swept);
        let expired = swept.unwrap_or_default();
        // To find out what each of them has waited for takes long.
        if !expired.is_empty() && giving_up.as_ref().is_none_or(JoinHandle::is_finished) {
            let all = give_up_all(inner.clone(), expired);
            giving_up = Some(tokio::spawn(until_stopped(inner.clone(), all)));
        }
        let prepared = prepare(&inner, &mut looked_at).await;
        inner.note(Work::Tokens, &prepared);
        tokio::time::sleep(SWEEP_PERIOD).await;
    }
}

/// What one round leaves to the next.
struct Rounds {
    liveness: Liveness,
    clock: ClockWatch,
    /// The clock was set back, and what waited then is still to be released.
    releases: bool,
}

impl Rounds {
    fn new(now: std::time::Instant, now_ms: i64) -> Self {
        Self {
            liveness: Liveness::default(),
            clock: ClockWatch::new(now, now_ms),
            releases: false,
        }
    }

    /// The latest time for which something may wait, as things are now.
    fn horizon_ms(&mut self, now: std::time::Instant, now_ms: i64) -> i64 {
        self.releases |= self.clock.was_set_back(now, now_ms);
        match self.releases {
            true => now_ms,
            false => now_ms.saturating_add(milliseconds(RETRY_DELAY_MAX)),
        }
    }
}

/// Returns files that have waited too long.
async fn sweep(inner: &Arc<Inner>, rounds: &mut Rounds) -> Result<Vec<ExpiredFile>> {
    let now = now_ms();
    let horizon_ms = rounds.horizon_ms(std::time::Instant::now(), now);
    if rounds.releases {
        inner.outlook().release_all();
    }
    let due = inner.catalog.due(now, horizon_ms).await?;
    // If there is more than one round takes, the next goes on.
    rounds.releases &= due.requeued >= SWEEP_FILES_MAX;
    let is_shared = inner.catalog.is_shared();
    let silent = rounds
        .liveness
        .silent(due.leases, &inner.settings.worker, is_shared, Instant::now());
    let left = match silent.is_empty() {
        true => Lost::default(),
        false => inner.catalog.lose_workers(silent, now_ms()).await?,
    };
    let events: Vec<Advance> = left.files.into_iter().map(lost).collect();
    if !events.is_empty() {
        inner.catalog.advance(events, now_ms()).await?;
    }
    if due.requeued + left.requeued > 0 {
        inner.wake.notify_one();
    }
    Ok(due.expired)
}

/// Takes files on whose tokens can be used. Others wait until their tokens, which end at once, are
/// renewed. A round looks at a part of the files and the next one goes on behind `looked_at`, so
/// that those whose issuer does not answer delay no others for long.
async fn prepare(inner: &Inner, looked_at: &mut FileId) -> Result<()> {
    let state = FileState::TokenPreparation;
    for _ in 0..PREPARED_PAGES_MAX {
        let page = inner
            .catalog
            .waiting_files(state, None, *looked_at, PREPARED_MAX, now_ms())
            .await?;
        let ready = ready(inner, &page).await?;
        if !ready.is_empty() {
            inner.catalog.advance(ready, now_ms()).await?;
        }
        // From the beginning again behind the last one.
        *looked_at = match page.last() {
            Some(last) if page.len() == PREPARED_MAX => last.file.id,
            _ => FileId(0),
        };
        if *looked_at == FileId(0) {
            break;
        }
    }
    Ok(())
}

/// Those of some files whose tokens can be used.
async fn ready(inner: &Inner, page: &[WaitingFile]) -> Result<Vec<Advance>> {
    let names = |waiting: &WaitingFile| {
        let options = &waiting.file.options;
        [options.source_token.clone(), options.destination_token.clone()]
            .into_iter()
            .flatten()
    };
    let all: BTreeSet<String> = page.iter().flat_map(names).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let now_ms = now_ms();
    let until_ms = now_ms.saturating_add(milliseconds(TOKEN_LEFT_MIN));
    let unready = inner.catalog.unready_tokens(&all, now_ms, until_ms).await?;
    let ready = page
        .iter()
        .filter(|waiting| !names(waiting).any(|name| unready.contains(&name)));
    let advance = |waiting: &WaitingFile| {
        let options = &waiting.job.options;
        let is_on_tape = options.bring_online_s.is_some() || options.pin_lifetime_s.is_some();
        Advance::new(waiting.file.id, FileEvent::TokensReady { is_on_tape })
    };
    Ok(ready.map(advance).collect())
}

/// A file whose worker was lost is queued again. The next attempt first looks at what the lost one
/// has written.
fn lost(file: LostFile) -> Advance {
    let error = Error::new(ErrorCode::OutcomeUnknown, Side::Queue, Phase::Transfer);
    let words = "the worker that copied it was lost; the next attempt looks at what the destination has";
    Advance {
        problem: Some(problem(&error.with_detail(words))),
        worker: Some(file.worker),
        ..Advance::new(file.file, FileEvent::WorkerLost)
    }
}

async fn give_up_all(inner: Arc<Inner>, expired: Vec<ExpiredFile>) {
    let given_up = async {
        let mut events = Vec::with_capacity(expired.len());
        for file in expired {
            events.push(give_up(&inner, file).await?);
        }
        inner.catalog.advance(events, now_ms()).await
    };
    inner.note(Work::Expiry, &given_up.await);
}

/// A file whose time is over fails, and its reason says what it waited for.
async fn give_up(inner: &Arc<Inner>, expired: ExpiredFile) -> Result<Advance> {
    let why = Service(inner.clone()).why_file(expired.file).await?;
    let reasons = why.map(|why| why.reasons).unwrap_or_default();
    let words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let error = Error::new(ErrorCode::QueueExpired, Side::Queue, Phase::Queued).with_detail(words.join("; "));
    let event = FileEvent::Failed {
        is_recoverable: false,
        has_attempts: false,
        is_expired: true,
    };
    let problem: Problem = problem(&error);
    Ok(Advance {
        problem: Some(problem),
        ..Advance::new(expired.file, event)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_waits_is_released_when_the_clock_was_set_back() {
        let (start, hour_ms) = (std::time::Instant::now(), 3_600_000);
        let longest_ms = milliseconds(RETRY_DELAY_MAX);
        let mut rounds = Rounds::new(start, 9 * hour_ms);
        let mut horizon_ms = |seconds, now_ms| rounds.horizon_ms(start + Duration::from_secs(seconds), now_ms);
        assert_eq!(horizon_ms(1, 9 * hour_ms + 1000), 9 * hour_ms + 1000 + longest_ms);
        // Whatever lies ahead is due, in further rounds too if one was not enough.
        assert_eq!(horizon_ms(2, 7 * hour_ms), 7 * hour_ms);
        assert_eq!(horizon_ms(3, 7 * hour_ms + 1000), 7 * hour_ms + 1000);
        rounds.releases = false;
        let now_ms = 7 * hour_ms + 2000;
        assert_eq!(
            rounds.horizon_ms(start + Duration::from_secs(4), now_ms),
            now_ms + longest_ms
        );
    }
}
