//! The keys of one issuer over time: fetched in the background before they get old, kept while the
//! issuer is down, fetched once more for a key that is not known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::limits::ISSUER_RETRY;
use credentials::KeySet;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::fetch::FetchedKeys;
use super::state::{self, stored_keys};
use super::{IssuerEvent, IssuerSettings, IssuerStatus};
use crate::clock::now_s;

/// What is known of one issuer's keys.
pub(super) struct Keeper {
    pub(super) url: String,
    /// Keys from a file of the site: no request is ever made.
    fixed: Option<Arc<KeySet>>,
    pub(super) settings: IssuerSettings,
    state: Mutex<State>,
    /// How many fetches have ended, for those who wait for one.
    ended: watch::Sender<u64>,
    /// The background task, and the fetch in progress.
    tasks: Mutex<[Option<AbortHandle>; 2]>,
}

#[derive(Clone, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// When the keys came, in seconds since 1970.
    fetched_s: i64,
    /// When the last fetch ended, and why it failed if it did.
    ended: Option<(Instant, Option<Error>)>,
    /// When keys were last fetched for the sake of one that is not known.
    forced: Option<Instant>,
    running: bool,
    /// Fetches that failed one after the other.
    failures: u32,
}

impl Keeper {
    /// Begins to keep the keys of an issuer; those that `previous` has are taken over, else those
    /// on disk. Within a Tokio runtime the keys are fetched and refreshed in the background.
    pub(super) fn start(
        url: &str,
        fixed: Option<Arc<KeySet>>,
        settings: &IssuerSettings,
        previous: Option<&Self>,
    ) -> Arc<Self> {
        let state = match previous.filter(|_| fixed.is_none()) {
            Some(previous) => State {
                running: false,
                ..previous.state().clone()
            },
            None => State::default(),
        };
        let keeper = Arc::new(Self {
            url: url.to_owned(),
            fixed,
            settings: settings.clone(),
            state: Mutex::new(state),
            ended: watch::Sender::new(0),
            tasks: Mutex::default(),
        });
        keeper.read_disk();
        if keeper.fixed.is_none()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let task = runtime.spawn(keep_fresh(Arc::downgrade(&keeper)));
            keeper.tasks()[0] = Some(task.abort_handle());
        }
        keeper
    }

    /// Whether this one can go on as it is.
    pub(super) fn serves(&self, fixed: Option<&Arc<KeySet>>, settings: &IssuerSettings) -> bool {
        self.fixed.as_ref() == fixed && self.settings.is_same(settings)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, [Option<AbortHandle>; 2]> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_disk(&self) {
        let Some(directory) = self
            .settings
            .state_directory
            .as_deref()
            .filter(|_| self.fixed.is_none())
        else {
            return;
        };
        if self.state().keys.is_some() {
            return;
        }
        if let Some(stored) = stored_keys(directory, &self.url) {
            let mut state = self.state();
            state.keys = Some(Arc::new(stored.keys));
            // A clock that was ahead then must not make the keys last for ever.
            state.fetched_s = stored.fetched_s.min(now_s());
        }
    }

    /// The keys, if there are some that have not become too old.
    pub(super) fn at_hand(&self) -> Option<Arc<KeySet>> {
        if let Some(fixed) = &self.fixed {
            return Some(fixed.clone());
        }
        let state = self.state();
        let age_s = now_s().saturating_sub(state.fetched_s);
        let expiry_s = i64::try_from(self.settings.expiry.as_secs()).unwrap_or(i64::MAX);
        state.keys.clone().filter(|_| age_s < expiry_s)
    }

    /// The keys; when there are none, a fetch is waited for, but not long, and not again soon after
    /// one that failed.
    pub(super) async fn keys(self: &Arc<Self>) -> Result<Arc<KeySet>> {
        if let Some(keys) = self.at_hand() {
            return Ok(keys);
        }
        if let Some(failure) = self.recent_failure() {
            return Err(failure);
        }
        self.wait_for_fetch().await;
        match self.at_hand() {
            Some(keys) => Ok(keys),
            None => Err(self.recent_failure().unwrap_or_else(|| self.late())),
        }
    }

    /// Fresher keys than `known`, for a token that names a key which is not among these; `None`
    /// when there are none, or when they were asked for just before.
    pub(super) async fn fresher(self: &Arc<Self>, known: &Arc<KeySet>) -> Option<Arc<KeySet>> {
        if self.fixed.is_some() {
            return None;
        }
        let differs = |keys: &Arc<KeySet>| !Arc::ptr_eq(keys, known);
        if let Some(keys) = self.at_hand().filter(differs) {
            return Some(keys);
        }
        let may_ask = {
            let mut state = self.state();
            let recent = state.forced.is_some_and(|forced| forced.elapsed() < ISSUER_RETRY);
            if !recent {
                state.forced = Some(Instant::now());
            }
            // Requests that come while the answer is on its way wait for it too.
            !recent || state.running
        };
        if may_ask {
            self.wait_for_fetch().await;
        }
        self.at_hand().filter(differs)
    }

    fn recent_failure(&self) -> Option<Error> {
        let state = self.state();
        let (when, failure) = state.ended.as_ref()?;
        failure
            .clone()
            .filter(|_| when.elapsed() < ISSUER_RETRY && !state.running)
    }

    fn late(&self) -> Error {
        let words = format!(
            "{} has not answered within {} ms; its keys are still being fetched",
            self.url,
            self.settings.wait.as_millis()
        );
        Error::new(ErrorCode::TokenIssuerUnreachable, Side::Client, Phase::Authenticate).with_detail(words)
    }

    async fn wait_for_fetch(self: &Arc<Self>) {
        let mut ended = self.ended.subscribe();
        self.fetch();
        let _ = tokio::time::timeout(self.settings.wait, ended.changed()).await;
    }

    /// Starts a fetch, unless one is under way.
    fn fetch(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().running, true) {
            return;
        }
        let (keeper, fetcher, url) = (Arc::downgrade(self), self.settings.fetcher.clone(), self.url.clone());
        let task = tokio::spawn(async move {
            let outcome = fetcher.fetch(&url).await;
            if let Some(keeper) = keeper.upgrade() {
                keeper.end(outcome).await;
            }
        });
        self.tasks()[1] = Some(task.abort_handle());
    }

    async fn end(&self, outcome: Result<FetchedKeys>) {
        let (event, fetched) = {
            let mut state = self.state();
            state.running = false;
            match outcome {
                Ok(fetched) => {
                    state.failures = 0;
                    state.fetched_s = now_s();
                    state.ended = Some((Instant::now(), None));
                    let keys = Arc::new(fetched.keys.clone());
                    // Keys that are the same stay the same, for those who compare.
                    if state.keys.as_ref() != Some(&keys) {
                        state.keys = Some(keys.clone());
                    }
                    (IssuerEvent::Fetched(keys), Some(fetched))
                }
                Err(error) => {
                    state.failures = state.failures.saturating_add(1);
                    state.ended = Some((Instant::now(), Some(error.clone())));
                    (IssuerEvent::Failed(error), None)
                }
            }
        };
        self.ended.send_modify(|count| *count += 1);
        (self.settings.tell)(&self.url, &event);
        if let (Some(fetched), Some(directory)) = (fetched, self.settings.state_directory.clone()) {
            let url = self.url.clone();
            let written = execution::blocking(move || state::store(&directory, &url, &fetched, now_s())).await;
            if let Ok(Err(cause)) = written {
                (self.settings.tell)(&self.url, &IssuerEvent::NotStored(cause));
            }
        }
    }

    /// When the next fetch in the background is due.
    fn due_in(&self) -> Duration {
        let state = self.state();
        if state.failures > 0 {
            return (ISSUER_RETRY * 2_u32.saturating_pow(state.failures.min(16) - 1)).min(self.settings.refresh);
        }
        if state.keys.is_none() {
            return Duration::ZERO;
        }
        let age_s = u64::try_from(now_s().saturating_sub(state.fetched_s)).unwrap_or(0);
        self.settings.refresh.saturating_sub(Duration::from_secs(age_s))
    }

    pub(super) fn status(&self) -> IssuerStatus {
        let state = self.state();
        let keys = self.fixed.as_ref().or(state.keys.as_ref());
        IssuerStatus {
            url: self.url.clone(),
            keys: keys.map_or(0, |keys| keys.count()),
            fetched_s: (self.fixed.is_none() && state.keys.is_some()).then_some(state.fetched_s),
            failure: state.ended.as_ref().and_then(|(_, failure)| failure.clone()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for task in self
            .tasks
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .flatten()
        {
            task.abort();
        }
    }
}

/// Fetches the keys whenever they are due, for as long as anybody has the keeper.
async fn keep_fresh(keeper: Weak<Keeper>) {
    loop {
        let due_in = match keeper.upgrade() {
            Some(keeper) => keeper.due_in(),
            None => return,
        };
        tokio::time::sleep(due_in).await;
        let mut ended = match keeper.upgrade() {
            // It may have been fetched for a request meanwhile.
            Some(keeper) if keeper.due_in().is_zero() || keeper.state().failures > 0 => {
                let ended = keeper.ended.subscribe();
                keeper.fetch();
                ended
            }
            Some(_) => continue,
            None => return,
        };
        if ended.changed().await.is_err() {
            return;
        }
    }
}
