//! What the service shows of itself: links with work, and why they stand still.

use std::collections::BTreeMap;

use catalog::ThirdPartyRole;
use schedule::optimizer::Link;
use types::Result;

use super::Service;
use crate::limits::COUNTERS_AGE;

/// The work of one virtual organisation on a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkView {
    /// The source's storage.
    pub source: String,
    /// The destination's storage.
    pub destination: String,
    /// The virtual organisation.
    pub vo: String,
    /// Copies that run, of all organisations' processes.
    pub active: u64,
    /// Files that wait for their turn.
    pub waiting: u64,
    /// When the job of the first of them was submitted, in milliseconds since 1970.
    pub oldest_ms: Option<i64>,
    /// Files that wait for a retry, or for a storage.
    pub delayed: u64,
    /// Files that a ban holds.
    pub banned: u64,
    /// Copies that may run on the link at once, as the optimizer has found within its limit.
    pub limit: u32,
    /// Copies that may run on it at once by the limit of operators.
    pub limit_max: u32,
    /// Whether operators have paused the link.
    pub is_paused: bool,
    /// Bytes per second, all copies of this process on the link together.
    pub goodput_bytes_s: f64,
    /// Why the optimizer has chosen its number.
    pub rationale: Option<String>,
    /// Why the link waits, and until when in milliseconds since 1970.
    pub hold: Option<HoldView>,
}

impl LinkView {
    /// Its limit; `None`: there is none yet.
    #[must_use]
    pub fn decided_limit(&self) -> Option<u32> {
        let is_idle = self.active == 0 && self.waiting == 0;
        decided(self.limit, self.limit_max, self.rationale.is_some(), is_idle)
    }
}

/// A number of the optimizer that is a limit. It looks at links that can copy, so 0 is none before
/// its first decision, nor on a link without files that wait for a turn or run.
pub(super) fn decided(limit: u32, limit_max: u32, has_rationale: bool, is_idle: bool) -> Option<u32> {
    let says_something = limit > 0 || limit_max == 0 || has_rationale && !is_idle;
    says_something.then_some(limit)
}

/// Why a link waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldView {
    /// The end of the wait.
    pub until_ms: i64,
    /// What the storage cannot do, without the names of files.
    pub reason: String,
    /// The same with the storage's words and the file's URL: only for those who may read all jobs.
    pub detail: String,
}

impl Service {
    /// What operators say of a storage: by the API, else in the configuration.
    #[must_use]
    pub fn role(&self, storage: &str) -> Option<ThirdPartyRole> {
        self.0.outlook().role(storage)
    }

    /// All links with files that have not ended.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn links(&self) -> Result<Vec<LinkView>> {
        let counters = self.0.counters(COUNTERS_AGE).await?;
        let (outlook, tuning) = (self.0.outlook(), self.0.tuning());
        let rationales = tuning.rationales();
        let mut links: BTreeMap<(Link, String), LinkView> = BTreeMap::new();
        for (link, count) in counters.with_links() {
            let (link, vo) = (link.clone(), count.key.vo.clone());
            let view = links.entry((link, vo)).or_insert_with_key(|(link, vo)| LinkView {
                source: link.source.clone(),
                destination: link.destination.clone(),
                vo: vo.clone(),
                active: 0,
                waiting: 0,
                oldest_ms: None,
                delayed: 0,
                banned: 0,
                limit: outlook.link_max(link).min(tuning.target(link)),
                limit_max: outlook.link_max(link),
                goodput_bytes_s: tuning.goodput(link),
                rationale: rationales.get(link).map(|words| (*words).to_owned()),
                is_paused: outlook.is_paused(link),
                hold: outlook.held(link).map(|hold| HoldView {
                    until_ms: hold.until_ms,
                    reason: hold.problem.reason.clone(),
                    detail: hold.detail.clone(),
                }),
            });
            view.active += count.active;
            view.waiting += count.waiting;
            view.oldest_ms = [view.oldest_ms, count.oldest_ms].into_iter().flatten().min();
            view.delayed += count.delayed;
            view.banned += count.held;
        }
        Ok(links.into_values().collect())
    }
}
