//! The keys of the token issuers that a site trusts.
//!
//! No request waits for an issuer whose keys are cached, however old. A request that has to wait
//! has a time limit, and an unreachable issuer is not asked again for a while.

mod fetch;
mod keeper;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credentials::KeySet;
use types::{Error, Result};

pub use fetch::{FetchedKeys, KeyFetcher};
use keeper::Keeper;
pub use state::{StoredKeys, stored_keys};

/// What has become of an issuer's keys, for the log.
#[derive(Debug)]
pub enum IssuerEvent {
    /// They were fetched.
    Fetched(Arc<KeySet>),
    /// They could not be fetched; the old ones stay in use.
    Failed(Error),
    /// They were fetched, and could not be written to disk.
    NotStored(std::io::Error),
}

/// Told of an issuer (its name) what has happened.
pub type TellIssuerEvent = Arc<dyn Fn(&str, &IssuerEvent) + Send + Sync>;

/// How keys are fetched and kept.
#[derive(Clone)]
pub struct IssuerSettings {
    /// How issuers are asked.
    pub fetcher: KeyFetcher,
    /// How long a request waits for keys when there are none at hand that can be used.
    pub wait: Duration,
    /// After what time keys are fetched again in the background.
    pub refresh: Duration,
    /// How long keys are used whose issuer cannot be reached any more.
    pub expiry: Duration,
    /// Where keys are kept over a restart.
    pub state_directory: Option<PathBuf>,
    /// Where events go.
    pub tell: TellIssuerEvent,
}

impl IssuerSettings {
    /// Whether keepers need not know of the change.
    fn is_same(&self, other: &Self) -> bool {
        self.values() == other.values()
    }

    /// All that can be compared and shown.
    fn values(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let directory = self.state_directory.clone();
        (self.fetcher.timeout, self.wait, self.refresh, self.expiry, directory)
    }
}

/// What is known of one issuer, for reports.
#[derive(Clone, Debug)]
pub struct IssuerStatus {
    /// Its name.
    pub url: String,
    /// How many keys are known.
    pub keys: usize,
    /// When they were fetched, in seconds since 1970; `None` when they were not, or are from a
    /// file.
    pub fetched_s: Option<i64>,
    /// Why the last fetch failed, if it did.
    pub failure: Option<Error>,
}

/// The keys of all issuers. Clones share them; the background tasks end with the last one.
#[derive(Clone, Default)]
pub struct Issuers(Arc<HashMap<String, Arc<Keeper>>>);

impl std::fmt::Debug for Issuers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.0.iter().map(|(url, keeper)| (url, keeper.settings.values()));
        // In an order that is the same each time: what is shown is compared.
        formatter
            .debug_map()
            .entries(shown.collect::<BTreeMap<_, _>>())
            .finish()
    }
}

impl Issuers {
    /// Keeps the keys of these issuers: of each its name, and its keys if they are not to be
    /// fetched but were given by the site. What `previous` knows of them is taken over. Within a
    /// Tokio runtime all are fetched at once, in the background; without, there are only the keys
    /// that were given or are on disk.
    #[must_use]
    pub fn new<'a>(
        issuers: impl IntoIterator<Item = (&'a str, Option<Arc<KeySet>>)>,
        settings: &IssuerSettings,
        previous: &Self,
    ) -> Self {
        let keep = |(url, fixed): (&str, Option<Arc<KeySet>>)| {
            let keeper = match previous.0.get(url) {
                Some(keeper) if keeper.serves(fixed.as_ref(), settings) => keeper.clone(),
                known => Keeper::start(url, fixed, settings, known.map(|keeper| &**keeper)),
            };
            (url.to_owned(), keeper)
        };
        Self(Arc::new(issuers.into_iter().map(keep).collect()))
    }

    /// The keys of an issuer if there are some that can be used, without asking or waiting.
    #[must_use]
    pub fn at_hand(&self, issuer: &str) -> Option<Arc<KeySet>> {
        self.0.get(issuer)?.at_hand()
    }

    /// The keys of an issuer. Waits, up to the time limit, only when there is no usable key.
    ///
    /// # Errors
    /// `token_issuer_unreachable`.
    pub async fn keys(&self, issuer: &str) -> Result<Arc<KeySet>> {
        match self.0.get(issuer) {
            Some(keeper) => keeper.keys().await,
            None => Err(Error::new(
                types::ErrorCode::TokenIssuerUnknown,
                types::Side::Client,
                types::Phase::Authenticate,
            )),
        }
    }

    /// Keys of an issuer that differ from `known`, because a token names one that is not among
    /// these. The issuer is asked at most once a minute.
    pub async fn fresher(&self, issuer: &str, known: &Arc<KeySet>) -> Option<Arc<KeySet>> {
        self.0.get(issuer)?.fresher(known).await
    }

    /// What is known of each issuer.
    #[must_use]
    pub fn status(&self) -> Vec<IssuerStatus> {
        let mut all: Vec<IssuerStatus> = self.0.values().map(|keeper| keeper.status()).collect();
        all.sort_by(|one, other| one.url.cmp(&other.url));
        all
    }
}
