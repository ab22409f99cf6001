//! Whether the upstream servers of exports can be used. Each is looked at once when the server
//! starts, and again after requests have failed because of it, until it can be used. One that works
//! gets no further questions.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use door_admin::{Check, Part, PartFuture};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::json;
use storage_remote::Upstream;
use tokio::sync::Notify;
use tokio::time::timeout;
use types::{LogicalPath, Side};

use super::admin_parts::encoded;
use super::log::Log;
use super::subsystem::Current;
use super::upstream::UpstreamKey;
use crate::limits::{UPSTREAM_FAILURES_PERIOD, UPSTREAM_TRIAL_PAUSE_MAX, UPSTREAM_TRIAL_PAUSE_MIN};
use crate::upstream_fault::UpstreamFault;

/// How a look ended: nothing is wrong, or this.
type Verdict = Result<(), UpstreamFault>;

/// An upstream server, and whether it can be used.
pub(super) struct TriedUpstream {
    key: UpstreamKey,
    upstream: Upstream,
    trial: Mutex<Trial>,
    /// A reload may have brought what it needs.
    reloaded: Arc<Notify>,
}

#[derive(Clone, Default)]
struct Trial {
    /// The exports whose files it has.
    exports: Vec<LogicalPath>,
    /// `None`: it was not looked at yet.
    verdict: Option<Verdict>,
    is_watched: bool,
}

impl Trial {
    /// Whether no request can succeed.
    fn is_broken(&self) -> bool {
        matches!(&self.verdict, Some(Err(fault)) if fault.breaks_export)
    }

    fn says(&self, url: &str) -> String {
        match &self.verdict {
            None => format!("Its upstream server {url} was not asked yet."),
            Some(Ok(())) => format!("Its upstream server {url} can be used."),
            Some(Err(fault)) => format!("It fails: {}. Next: {}.", fault.says, fault.change),
        }
    }
}

impl TriedUpstream {
    pub(super) fn new(key: UpstreamKey, upstream: Upstream) -> Self {
        Self {
            key,
            upstream,
            trial: Mutex::default(),
            reloaded: Arc::default(),
        }
    }

    /// Says which exports it serves, and begins to look at it.
    pub(super) fn serve(self: &Arc<Self>, exports: Vec<LogicalPath>, log: &Log) {
        let mut trial = self.trial();
        trial.exports = exports;
        match std::mem::replace(&mut trial.is_watched, true) {
            true => self.reloaded.notify_one(),
            false => drop(tokio::spawn(watch(Arc::downgrade(self), log.clone()))),
        }
    }

    fn trial(&self) -> MutexGuard<'_, Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_good(&self) -> bool {
        matches!(self.trial().verdict, Some(Ok(())))
    }

    fn failures(&self) -> u64 {
        self.upstream.counts().failures.load(Ordering::Relaxed)
    }

    /// Tries what an S3 storage offers.
    async fn try_offers(&self, log: &Log) -> Verdict {
        let url = self.upstream.root().to_string();
        let offers = self.upstream.offers().await;
        let offers = offers.map_err(|error| self.key.fault(&error))?;
        log.write(
            "upstream_offers",
            &json!({"url": url, "creates_only": offers.creates_only, "tags": offers.keeps_tags}),
        );
        Ok(())
    }

    /// Notes how a look ended, and logs it for each export if it is news.
    fn note(&self, verdict: Verdict, log: &Log) {
        let code = |verdict: &Verdict| verdict.as_ref().err().map(|fault| fault.code);
        let mut trial = self.trial();
        let before = trial.verdict.as_ref().and_then(code);
        let now = code(&verdict);
        trial.verdict = Some(verdict.clone());
        let exports = trial.exports.clone();
        drop(trial);
        if before == now {
            return;
        }
        for export in exports {
            let (export, url) = (export.as_str(), self.key.configured_url());
            match &verdict {
                Ok(()) => log.write("upstream_usable", &json!({"export": export, "url": url})),
                Err(fault) => log.write(
                    "upstream_unusable",
                    &json!({"export": export, "url": url, "side": Side::Upstream.name(), "code": fault.code,
                        "error": fault.says, "next": fault.change}),
                ),
            }
        }
    }
}

/// Looks at an upstream server as long as a store uses it: while it fails, with growing pauses;
/// while it works, only after requests have failed because of it.
async fn watch(upstream: Weak<TriedUpstream>, log: Log) {
    let (mut failures, mut wants_offers) = (0, true);
    let mut pause = UPSTREAM_TRIAL_PAUSE_MIN;
    loop {
        let Some(tried) = upstream.upgrade() else { return };
        if !tried.is_good() || tried.failures() != failures {
            let mut verdict = tried.key.look(&tried.upstream).await.map(drop);
            if verdict.is_ok() && wants_offers && tried.key.is_writable_s3() {
                verdict = tried.try_offers(&log).await;
                wants_offers = verdict.is_err();
            }
            tried.note(verdict, &log);
            failures = tried.failures();
        }
        let wait = match tried.is_good() {
            true => UPSTREAM_FAILURES_PERIOD,
            false => pause,
        };
        pause = match tried.is_good() {
            true => UPSTREAM_TRIAL_PAUSE_MIN,
            false => (pause * 2).min(UPSTREAM_TRIAL_PAUSE_MAX),
        };
        let reloaded = tried.reloaded.clone();
        drop(tried);
        if timeout(wait, reloaded.notified()).await.is_ok() {
            pause = UPSTREAM_TRIAL_PAUSE_MIN;
        }
    }
}

/// What monitoring learns of them.
pub(super) struct TrialsPart {
    pub(super) upstreams: Current<Vec<Arc<TriedUpstream>>>,
    /// Whether there are exports that need no upstream server.
    pub(super) has_others: Box<dyn Fn() -> bool + Send + Sync>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    export: String,
    upstream: String,
}

impl Part for TrialsPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { metrics(&self.upstreams.get()) })
    }

    /// What the last looks found; no server is asked. An upstream server that cannot be used makes
    /// its own exports fail and no other, so the server is unready only when no export works.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let upstreams = self.upstreams.get();
            let trials: Vec<_> = upstreams.iter().map(|one| (one, one.trial().clone())).collect();
            let needed = !(self.has_others)() && trials.iter().all(|(_, trial)| trial.is_broken());
            let each = trials.iter().flat_map(|(upstream, trial)| {
                trial.exports.iter().map(move |export| Check {
                    name: format!("export {export}"),
                    ok: !matches!(trial.verdict, Some(Err(_))),
                    needed,
                    says: trial.says(&upstream.key.configured_url()),
                })
            });
            each.collect()
        })
    }
}

fn metrics(upstreams: &[Arc<TriedUpstream>]) -> String {
    if upstreams.is_empty() {
        return String::new();
    }
    let usable = Family::<Labels, Gauge>::default();
    for one in upstreams {
        let trial = one.trial().clone();
        let Some(verdict) = trial.verdict else { continue };
        for export in trial.exports {
            let labels = Labels {
                export: export.to_string(),
                upstream: one.upstream.root().to_string(),
            };
            usable.get_or_create(&labels).set(verdict.is_ok().into());
        }
    }
    let mut registry = Registry::with_prefix("crossload_upstream");
    registry.register("usable", "Whether the upstream server of an export can be used", usable);
    encoded(&registry)
}
