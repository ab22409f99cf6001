//! Decides which files are copied now, claims them, and begins their copies.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Claimed, Ending, Grant, Outcome};
use schedule::{FileId, JobKind};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use transfer::Progress;
use types::{ErrorCode, Result};

use super::counters::Counters;
use super::course::course;
use super::faults::Work;
use super::liveness::answer_time;
use super::outlook::Hold;
use super::pace::Flow;
use super::renew::silent;
use super::rules::Rules;
use super::{CopyResult, Inner, Roles, link, public};
use crate::clock::{milliseconds, now_ms};
use crate::limits::{
    CATALOG_PAUSE, DECISION_PAUSE, DECISION_PAUSE_MAX, DECISION_PERIOD, GRANTS_MAX, HOLD_TIME, RETRIES_MAX,
    RETRY_DELAY_MAX, STOPPED_CLEANUP_TIME, TURNS_MAX,
};

/// Decides whenever something has changed.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut changes = inner.catalog.changes();
    loop {
        let begun = Instant::now();
        let decided = decide(&inner).await;
        inner.note(Work::Decide, &decided);
        match decided {
            // There may be more to hand out.
            Ok(count) if count == GRANTS_MAX as usize => continue,
            Ok(_) => {}
            Err(_) => tokio::time::sleep(CATALOG_PAUSE).await,
        }
        let pause = begun.elapsed().clamp(DECISION_PAUSE, DECISION_PAUSE_MAX);
        tokio::select! {
            () = changes.wait() => {}
            () = inner.wake.notified() => {}
            () = tokio::time::sleep(DECISION_PERIOD) => {}
        }
        tokio::time::sleep(pause).await;
    }
}

/// One decision; how many files it claimed. If another worker has claimed files meanwhile, it is
/// made again, so that limits hold for all workers together.
async fn decide(inner: &Arc<Inner>) -> Result<usize> {
    for _ in 0..TURNS_MAX {
        if let Some(count) = decide_in_turn(inner).await? {
            return Ok(count);
        }
    }
    Ok(0)
}

/// `None`: another worker was first.
async fn decide_in_turn(inner: &Arc<Inner>) -> Result<Option<usize>> {
    let places = inner.places().min(GRANTS_MAX);
    if places == 0 {
        return Ok(Some(0));
    }
    let counters = inner.counters(Duration::ZERO).await?;
    let grants = inner.decide(&counters, places);
    if grants.is_empty() {
        return Ok(Some(0));
    }
    let began = Instant::now();
    // Later the files might be others'. What the catalog has given us then is given back.
    let claimed = timeout(answer_time(inner.settings.lease), claim(inner, &grants, counters.turn)).await;
    let claim = claimed.unwrap_or_else(|_| Err(silent()))?;
    inner.has_signed(began);
    inner.counters.forget().await;
    let Some(claim) = claim else { return Ok(None) };
    let begin = |claimed| begin(inner, claimed, claim.started_ms);
    claim.started.into_iter().for_each(begin);
    Ok(Some(claim.count))
}

/// Files that this worker has now.
struct Claim {
    /// How many there are.
    count: usize,
    /// Those that it may copy.
    started: Vec<Claimed>,
    started_ms: i64,
}

async fn claim(inner: &Inner, grants: &[Grant], turn: i64) -> Result<Option<Claim>> {
    let (worker, now_ms) = (&inner.settings.worker, now_ms());
    let lease_ms = now_ms + inner.settings.lease_ms();
    let mut claimed = match inner.catalog.is_shared() {
        true => match inner
            .catalog
            .claim_in_turn(turn, grants, worker, now_ms, lease_ms)
            .await?
        {
            Some(claimed) => claimed,
            None => return Ok(None),
        },
        false => inner.catalog.claim(grants, worker, now_ms, lease_ms).await?,
    };
    let ids: Vec<FileId> = claimed.iter().map(|claimed| claimed.file.id).collect();
    let started_ms = super::now_ms();
    let started = inner.catalog.start(&ids, worker, started_ms).await?;
    let started: HashSet<FileId> = started.into_iter().collect();
    claimed.retain(|claimed| started.contains(&claimed.file.id));
    Ok(Some(Claim {
        count: ids.len(),
        started: claimed,
        started_ms,
    }))
}

impl Inner {
    /// What may be claimed now.
    fn decide(&self, counters: &Counters, places: u32) -> Vec<Grant> {
        let mut outlook = self.outlook();
        outlook.release(now_ms());
        let queues = self.queues(counters);
        let rules = Rules {
            outlook: &outlook,
            tuning: &self.tuning(),
        };
        let inputs = rules.inputs(now_ms(), &queues, places);
        counters.grants(&self.scheduler().decide(&inputs))
    }
}

impl Inner {
    /// What operators say of a copy that begins.
    fn roles(&self, claimed: &Claimed) -> Roles {
        let hop = self.hop_for(claimed);
        let mut outlook = self.outlook();
        let file = &claimed.file;
        let rates = outlook.rates(&file.source_storage, &file.destination_storage);
        Roles {
            rates,
            hop,
            ..outlook.roles(file)
        }
    }
}

/// Begins the copy of a claimed file.
fn begin(inner: &Arc<Inner>, claimed: Claimed, started_ms: i64) {
    let (file, link) = (claimed.file.id, link::of_file(&claimed.file));
    let progress = Arc::new(Progress::new());
    let (stop, stopped) = oneshot::channel();
    let mut running = inner.running();
    // `Service::stop` says so before it takes the table: no copy begins after that.
    if inner.is_stopping() {
        return;
    }
    inner.paces().begin(now_ms(), Flow::of_file(&claimed.file));
    // Under the lock, so that a copy that ends at once is in the table before it leaves it.
    let task = tokio::spawn(copy(inner.clone(), claimed, started_ms, progress.clone(), stopped));
    running.begin(file, link, progress, stop, task);
}

async fn copy(
    inner: Arc<Inner>,
    claimed: Claimed,
    started_ms: i64,
    progress: Arc<Progress>,
    stopped: oneshot::Receiver<()>,
) {
    let file = claimed.file.id;
    let roles = inner.roles(&claimed);
    let copied = async {
        match inner.wait_before_hop(&claimed).await {
            Some(waits) => waits,
            None => inner.copier.copy(&claimed, roles, &progress).await,
        }
    };
    let result = tokio::select! {
        result = copied => Some(result),
        _ = stopped => None,
    };
    match result {
        Some(result) => {
            let ending = ending(&inner, &claimed, &progress, started_ms, result);
            inner.running().has_result(file);
            // It fails only when the service stops.
            let _ = inner.endings.send(ending).await;
        }
        // A copy that was stopped has no result. If it is made again, it must not meet its part.
        None => {
            let cleaning = inner.copier.clean_up(&claimed, inner.roles(&claimed), &progress);
            let _ = timeout(STOPPED_CLEANUP_TIME, cleaning).await;
        }
    }
    inner.running().end(file);
    inner.wake.notify_one();
}

/// The end of an attempt, for the catalog; the optimizer and the estimates learn of it.
fn ending(inner: &Inner, claimed: &Claimed, progress: &Progress, started_ms: i64, result: CopyResult) -> Ending {
    let (file, moved_bytes) = (claimed.file.id, progress.moved_bytes());
    let limits = inner.outlook().roles(&claimed.file).limits;
    let facts = course(claimed, progress, started_ms, inner.settings.retries, &limits);
    let (link, end) = (link::of_file(&claimed.file), result.for_optimizer());
    let duration_ms = facts.whole.length_ms();
    inner.hour().count(now_ms(), &link, &result);
    if let Some(end) = end {
        inner
            .tuning()
            .end(now_ms(), file, link, moved_bytes, end, duration_ms.unsigned_abs());
    }
    if copied_bytes(&result).is_some() {
        inner.paces().end(now_ms(), Flow::of_file(&claimed.file), duration_ms);
    }
    Ending {
        file,
        moved_bytes,
        outcome: outcome(inner, claimed, result),
        facts,
    }
}

/// The size of a file that has arrived at the end of the link.
fn copied_bytes(result: &CopyResult) -> Option<u64> {
    match result {
        CopyResult::Finished { size_bytes, .. } => Some(*size_bytes),
        CopyResult::Hop { copied_bytes, .. } => *copied_bytes,
        _ => None,
    }
}

/// How an attempt ended.
fn outcome(inner: &Inner, claimed: &Claimed, result: CopyResult) -> Outcome {
    if let Some(size_bytes) = copied_bytes(&result) {
        inner.paces().copied(now_ms(), Flow::of_file(&claimed.file), size_bytes);
    }
    match result {
        CopyResult::Finished { size_bytes, way } if claimed.job.options.archive_timeout_s.is_some() => {
            Outcome::Archiving { size_bytes, way }
        }
        CopyResult::Finished { size_bytes, way } => Outcome::Finished { size_bytes, way },
        CopyResult::Found { size_bytes, note } => Outcome::Found {
            size_bytes,
            note,
            archives: claimed.job.options.archive_timeout_s.is_some(),
        },
        CopyResult::Failed { problem, report, .. } => {
            let retry_ms = problem.is_recoverable.then(|| retry_ms(inner, claimed)).flatten();
            Outcome::Failed {
                problem,
                retry_ms,
                report,
            }
        }
        CopyResult::Hold { problem, after, .. } => {
            let (wait, link) = (after.unwrap_or(HOLD_TIME), link::of_file(&claimed.file));
            // A quota is of one user or organisation: only the file waits.
            if problem.code == ErrorCode::QuotaExceeded.name() {
                let user = claimed.job.owner.unique_name();
                let until_ms = inner.quotas().until_ms(link, user, now_ms(), wait);
                return Outcome::Held { until_ms, problem };
            }
            let until_ms = now_ms() + milliseconds(wait);
            let hold = Hold {
                until_ms,
                problem: public::general(&problem),
                detail: problem.reason.clone(),
            };
            inner.outlook().hold(link, hold);
            Outcome::Held { until_ms, problem }
        }
        CopyResult::Wait { problem, until_ms } => Outcome::Held { until_ms, problem },
        CopyResult::Remains {
            problem,
            until_ms,
            looks,
        } => Outcome::Remains {
            until_ms,
            problem,
            looks,
        },
        CopyResult::Hop { hop, .. } => Outcome::Hop(*hop),
    }
}

/// When the file is tried again. Replicas and hops are not, as in FTS: the next replica is tried,
/// and a chain fails.
fn retry_ms(inner: &Inner, claimed: &Claimed) -> Option<i64> {
    let (settings, options) = (&inner.settings, &claimed.job.options);
    let is_single = !matches!(claimed.job.kind, JobKind::MultiSource | JobKind::Multihop);
    let retries = options.retries.unwrap_or(settings.retries);
    let delay = options
        .retry_delay_s
        .map_or(settings.retry_delay, |seconds| Duration::from_secs(seconds.into()));
    let pause = is_single.then(|| pause_before_retry(claimed.file.attempts.into(), retries.into(), delay))?;
    pause.map(|pause| now_ms() + milliseconds(pause))
}

/// The pause before a retry: `delay` at first, twice as long after each further failure. `None`:
/// no retry is left.
fn pause_before_retry(attempts: u32, retries: u32, delay: Duration) -> Option<Duration> {
    let pause = delay.saturating_mul(1 << attempts.min(20)).min(RETRY_DELAY_MAX);
    (attempts < retries.min(RETRIES_MAX)).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_attempts_grow_and_retries_end() {
        let second = Duration::from_secs(1);
        let pause = |attempts| pause_before_retry(attempts, u16::MAX.into(), second);
        assert_eq!([0, 1, 4].map(pause), [1, 2, 16].map(|times| Some(second * times)));
        assert_eq!(pause(RETRIES_MAX - 1), Some(RETRY_DELAY_MAX));
        assert_eq!(pause(RETRIES_MAX), None);
        assert_eq!(pause_before_retry(3, 3, second), None);
    }
}
