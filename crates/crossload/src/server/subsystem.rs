//! The life of a part of the server: start, reload, stop.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::{Changes, Configuration};
use endpoint::FairShare;
use identity::Authenticator;
use net::tls::ClientTls;

use super::events::Observer;
use super::log::Log;
use crate::failure::Failure;

/// A part of the server that follows the configuration.
pub(crate) trait Subsystem {
    /// What it is built on.
    type Ground
    where
        Self: Sized;

    /// Starts it.
    ///
    /// # Errors
    /// A file or directory that cannot be opened or read.
    fn build(ground: &Self::Ground, configuration: &Configuration) -> Result<Self, Failure>
    where
        Self: Sized;

    /// Prepares a new configuration. It does everything that can fail, and changes nothing. The
    /// returned closure activates it, after all parts are prepared.
    ///
    /// # Errors
    /// A file or directory that cannot be opened or read.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure>;

    /// Ends running work within `grace`.
    fn drain(&self, _grace: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Activates a prepared change. It cannot fail.
pub(crate) type Renewal<'a> = Box<dyn FnOnce() + 'a>;

/// A change from one configuration to another.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Configuration,
    pub(crate) fresh: &'a Configuration,
    pub(crate) keys: &'a Changes,
}

/// What all parts share for the server's lifetime.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) log: Log,
    pub(crate) observer: Arc<Observer>,
    /// The listening addresses.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The fair share of each client, over all doors.
    pub(crate) fair_share: FairShare,
    /// The authorities trusted when this server connects to peers.
    pub(crate) trust: ClientTls,
    /// Verifies clients' credentials.
    pub(crate) authenticator: Authenticator,
}

/// Renews all parts, or none.
///
/// # Errors
/// That of the first part that cannot be prepared. Nothing has changed then.
pub(crate) fn renew<'a>(
    parts: impl IntoIterator<Item = &'a dyn Subsystem>,
    change: &Change<'a>,
) -> Result<(), Failure> {
    let prepared = parts.into_iter().map(|part| part.renew(change));
    let prepared: Vec<Renewal<'a>> = prepared.collect::<Result<_, _>>()?;
    prepared.into_iter().for_each(|renewal| renewal());
    Ok(())
}

/// A value that can be replaced. Clones share it.
pub(crate) struct Current<T>(Arc<Mutex<T>>);

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Current<T> {
    /// Starts with this value.
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// The current value.
    pub(crate) fn get(&self) -> T {
        self.lock().clone()
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        *self.lock() = value;
    }

    /// A renewal that replaces the value.
    pub(crate) fn becomes<'a>(&self, value: T) -> Renewal<'a>
    where
        T: 'a,
    {
        let this = self.clone();
        Box::new(move || this.set(value))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
