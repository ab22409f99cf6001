//! Hops: which one a file may take, and the removal of what files have left there.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Claimed, Hop, HopPart, PastHop};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::faults::Work;
use super::{CopyResult, Inner, link};
use crate::clock::{milliseconds, now_ms};
use crate::copy::problem;
use crate::hop::HopSite;
use crate::limits::{
    COUNTERS_AGE, HOP_LINK_FILES_MAX, HOP_PAUSE, HOP_PAUSE_MAX, HOP_PERIOD, HOP_REMOVALS_MAX, HOP_REMOVALS_TRIED_MAX,
    HOP_WAIT,
};

impl Inner {
    /// The hop that a file may take: of those for its storages the first that is not banned, and
    /// preferably one whose links are not held.
    pub(super) fn hop_for(&self, claimed: &Claimed) -> Option<Box<Hop>> {
        let file = &claimed.file;
        if file.hop.is_some() {
            return None;
        }
        let sites = ordered(&self.settings.hops, &claimed.job.options.hops);
        let hops: Vec<Hop> = sites.into_iter().filter_map(|site| site.hop_of(file)).collect();
        let outlook = self.outlook();
        let is_banned = |hop: &&Hop| {
            let storages = [&hop.incoming.storage, &hop.outgoing.storage];
            storages.iter().any(|storage| outlook.ban(storage, &file.vo).is_some())
        };
        let is_open = |hop: &&Hop| {
            let outgoing = link::between(&hop.outgoing.storage, &hop.destination_storage);
            let incoming = link::between(&hop.source_storage, &hop.incoming.storage);
            outlook.is_open(&incoming) && outlook.is_open(&outgoing)
        };
        let usable = || hops.iter().filter(|hop| !is_banned(hop));
        let found = usable().find(is_open).or_else(|| usable().next());
        found.cloned().map(Box::new)
    }
}

impl Inner {
    /// Why a file stays where it is instead of going to its hop now: it could not go on from there,
    /// and would only fill the hop.
    pub(super) async fn wait_before_hop(&self, claimed: &Claimed) -> Option<CopyResult> {
        let hop = claimed.file.hop.as_ref();
        let hop = hop.filter(|hop| hop.part == HopPart::Incoming)?;
        let outgoing = link::between(&hop.outgoing.storage, &hop.destination_storage);
        let later = |until_ms: i64| until_ms + milliseconds(HOP_WAIT);
        if let Some(held) = self.outlook().held(&outgoing) {
            return Some(CopyResult::Wait {
                problem: held.problem.clone(),
                until_ms: later(held.until_ms),
            });
        }
        let is_paused = !self.outlook().is_open(&outgoing);
        let words = match is_paused {
            true => "the link from the hop to the destination is paused".to_owned(),
            false => {
                // Without the counters it is copied: they say no more than this worker knows.
                let counters = self.counters(COUNTERS_AGE).await.ok()?;
                let at_hop = counters
                    .with_links()
                    .filter(|(link, count)| **link == outgoing && count.key.vo == claimed.file.vo);
                let kept: u64 = at_hop.map(|(_, count)| count.waiting + count.delayed).sum();
                if kept < HOP_LINK_FILES_MAX {
                    return None;
                }
                format!("{kept} files wait at the hop for this destination")
            }
        };
        let error = Error::new(ErrorCode::Overloaded, Side::Queue, Phase::Queued).with_detail(words);
        Some(CopyResult::Wait {
            problem: problem(&error),
            until_ms: later(now_ms()),
        })
    }
}

/// The hops that a job names, in its order; all if it names none.
fn ordered<'a>(sites: &'a [HopSite], named: &[String]) -> Vec<&'a HopSite> {
    if named.is_empty() {
        return sites.iter().collect();
    }
    let at = |name: &String| sites.iter().filter(|site| site.is_at(name)).collect::<Vec<_>>();
    named.iter().flat_map(at).collect()
}

/// Removes what is due, until the service stops.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        let removed = remove_due(&inner).await;
        inner.note(Work::Sweep, &removed);
        // There may be more.
        if !matches!(removed, Ok(HOP_REMOVALS_MAX)) {
            tokio::time::sleep(HOP_PERIOD).await;
        }
    }
}

/// Removes some; how many it tried.
async fn remove_due(inner: &Arc<Inner>) -> Result<usize> {
    let now = now_ms();
    let until_ms = now + milliseconds(HOP_PAUSE);
    let due = inner.catalog.take_past_hops(HOP_REMOVALS_MAX, now, until_ms).await?;
    let count = due.len();
    let removals: Vec<_> = due
        .into_iter()
        .map(|hop| {
            let inner = inner.clone();
            tokio::spawn(async move { remove(&inner, &hop).await })
        })
        .collect();
    for removal in removals {
        // One that panics is due again.
        if let Ok(removed) = removal.await {
            removed?;
        }
    }
    Ok(count)
}

async fn remove(inner: &Inner, hop: &PastHop) -> Result<()> {
    let (file, job) = match inner.catalog.file(hop.file).await? {
        Some(file) => {
            let job = inner.catalog.job(file.job).await?;
            (file, job)
        }
        None => return inner.catalog.forget_hop(&hop.url).await,
    };
    let Some(job) = job.map(Arc::new) else {
        return inner.catalog.forget_hop(&hop.url).await;
    };
    let removed = inner.copier.remove_hop(&Claimed { file, job }, &hop.url).await;
    let is_gone = match removed {
        Ok(()) => true,
        // A copy that a lost worker ordered may still bring it: one more look.
        Err(error) => error.code() == ErrorCode::PeerNotFound && hop.tries > 0,
    };
    if is_gone || hop.tries >= HOP_REMOVALS_TRIED_MAX {
        return inner.catalog.forget_hop(&hop.url).await;
    }
    let due_ms = now_ms() + milliseconds(pause(hop.tries));
    inner.catalog.put_off_past_hop(&hop.url, due_ms).await
}

fn pause(tries: u32) -> Duration {
    let factor = 1_u32.checked_shl(tries.min(16)).unwrap_or(u32::MAX);
    HOP_PAUSE.saturating_mul(factor).min(HOP_PAUSE_MAX)
}
