//! What a part of the server does when it is started, when the configuration changes, and when the server stops.

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
    /// What it stands on.
    type Ground
    where
        Self: Sized;

    /// Starts it.
    ///
    /// # Errors
    /// What cannot be opened or read.
    fn build(ground: &Self::Ground, configuration: &Configuration) -> Result<Self, Failure>
    where
        Self: Sized;

    /// Prepares for another configuration. Whatever can fail is done here and changes nothing; what is returned makes the
    /// new configuration count, once all parts are prepared.
    ///
    /// # Errors
    /// What cannot be opened or read.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure>;

    /// Ends what is under way, within `grace`.
    fn drain(&self, _grace: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Makes a change count. It cannot fail.
pub(crate) type Renewal<'a> = Box<dyn FnOnce() + 'a>;

/// One configuration after another.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) old: &'a Configuration,
    pub(crate) fresh: &'a Configuration,
    pub(crate) keys: &'a Changes,
}

/// What the parts of a server have in common, and keep while it runs.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) log: Log,
    pub(crate) observer: Arc<Observer>,
    /// The addresses that are listened on.
    pub(crate) addresses: Vec<SocketAddr>,
    /// What each client may hold, over all doors.
    pub(crate) fair_share: FairShare,
    /// Whose certificates are believed when this server connects to others.
    pub(crate) trust: ClientTls,
    /// Who checks what clients show; it outlives the doors.
    pub(crate) authenticator: Authenticator,
}

/// Renews all parts, or none.
///
/// # Errors
/// The first that cannot be prepared; nothing has changed then.
pub(crate) fn renew<'a>(
    parts: impl IntoIterator<Item = &'a dyn Subsystem>,
    change: &Change<'a>,
) -> Result<(), Failure> {
    let prepared = parts.into_iter().map(|part| part.renew(change));
    let prepared: Vec<Renewal<'a>> = prepared.collect::<Result<_, _>>()?;
    prepared.into_iter().for_each(|renewal| renewal());
    Ok(())
}

/// The value of the moment. Clones share it.
pub(crate) struct Current<T>(Arc<Mutex<T>>);

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Current<T> {
    /// Begins with this value.
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// The value.
    pub(crate) fn get(&self) -> T {
        self.lock().clone()
    }

    /// Another value from now on.
    pub(crate) fn set(&self, value: T) {
        *self.lock() = value;
    }

    /// Takes a value that was prepared.
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
