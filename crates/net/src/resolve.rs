//! The addresses of hosts to connect to.
//!
//! The system's look-up blocks a thread until name servers answer, for up to half a minute. So
//! look-ups have threads of their own, not those that wait for disks, and not many; names that
//! answered lately do not wait behind others, and a name is asked for once at a time. A stranger
//! who names hosts that resolve slowly delays only names that were not used lately.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{OnceCell, Semaphore, oneshot};

use crate::limits::{DIAL_ADDRESSES_MAX, DIAL_LOOKUPS_MAX, PROVEN_NAME_TIME, PROVEN_NAMES_MAX, QUICK_LOOKUP};

/// What a look-up gives to all who wait for it.
type Answer = Arc<Result<Vec<SocketAddr>, (io::ErrorKind, String)>>;
/// Asks the name service.
type Ask = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Looks up hosts to connect to. Clones are the same.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<Inner>);

struct Inner {
    ask: Box<Ask>,
    /// Places for names that answered quickly, and for all others.
    proven: Arc<Semaphore>,
    others: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Look-ups that are under way.
    current: HashMap<String, Arc<OnceCell<Answer>>>,
    /// When names last answered quickly.
    proven: HashMap<String, Instant>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(|host| {
            let found = (host, 0).to_socket_addrs()?;
            Ok(found.take(DIAL_ADDRESSES_MAX).collect())
        })
    }
}

impl Resolver {
    fn new(ask: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            ask: Box::new(ask),
            proven: Arc::new(Semaphore::new(DIAL_LOOKUPS_MAX)),
            others: Arc::new(Semaphore::new(DIAL_LOOKUPS_MAX)),
            state: Mutex::default(),
        }))
    }

    /// The addresses of a host, in the order of the name service, with port 0. May be dropped: the
    /// look-up goes on, and keeps its place.
    pub(crate) async fn addresses(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        let cell = self.state().current.entry(host.to_owned()).or_default().clone();
        let answer = cell.get_or_init(|| self.look_up(host)).await.clone();
        let mut state = self.state();
        if state
            .current
            .get(host)
            .is_some_and(|current| Arc::ptr_eq(current, &cell))
        {
            state.current.remove(host);
        }
        drop(state);
        match &*answer {
            Ok(addresses) => Ok(addresses.clone()),
            Err((kind, words)) => Err(io::Error::new(*kind, words.clone())),
        }
    }

    async fn look_up(&self, host: &str) -> Answer {
        let found = self.ask(host).await;
        Arc::new(found.map_err(|error| (error.kind(), error.to_string())))
    }

    async fn ask(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        let places = match self.is_proven(host) {
            true => &self.0.proven,
            false => &self.0.others,
        };
        let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
        let (this, name) = (self.clone(), host.to_owned());
        let (answer, answered) = oneshot::channel();
        execution::start_thread("names", move || {
            let begun = Instant::now();
            let found = (this.0.ask)(&name);
            this.note(name, found.is_ok() && begun.elapsed() <= QUICK_LOOKUP);
            drop(place);
            // The one who asked may have gone.
            let _ = answer.send(found);
        })?;
        answered.await.map_err(io::Error::other)?
    }

    fn is_proven(&self, host: &str) -> bool {
        let state = self.state();
        state.proven.get(host).is_some_and(|at| at.elapsed() < PROVEN_NAME_TIME)
    }

    fn note(&self, host: String, is_quick: bool) {
        let mut state = self.state();
        if !is_quick {
            state.proven.remove(&host);
            return;
        }
        if state.proven.len() >= PROVEN_NAMES_MAX && !state.proven.contains_key(&host) {
            state.proven.retain(|_, at| at.elapsed() < PROVEN_NAME_TIME);
            if state.proven.len() >= PROVEN_NAMES_MAX {
                return;
            }
        }
        state.proven.insert(host, Instant::now());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    /// One whose look-ups of names that begin with `slow` wait until the sender is dropped.
    fn resolver() -> (Resolver, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (end, ended) = mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let resolver = Resolver::new(move |host| {
            counted.fetch_add(1, Ordering::SeqCst);
            if host.starts_with("slow") {
                let _ = ended.lock().unwrap().recv();
                return Err(io::Error::other("late"));
            }
            Ok(vec![HERE])
        });
        (resolver, end, asked)
    }

    #[tokio::test]
    async fn names_that_resolve_slowly_do_not_delay_known_ones() {
        let (resolver, end, _) = resolver();
        assert_eq!(resolver.addresses("known").await.unwrap(), [HERE]);
        let slow: Vec<_> = (0..2 * DIAL_LOOKUPS_MAX)
            .map(|number| {
                let resolver = resolver.clone();
                tokio::spawn(async move { resolver.addresses(&format!("slow{number}")).await })
            })
            .collect();
        while resolver.0.others.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(resolver.addresses("known").await.unwrap(), [HERE]);
        drop(end);
        for one in slow {
            assert!(one.await.unwrap().is_err());
        }
        assert_eq!(resolver.addresses("new").await.unwrap(), [HERE]);
        assert!(resolver.state().current.is_empty());
    }

    #[tokio::test]
    async fn a_name_is_asked_for_once_at_a_time() {
        let (resolver, end, asked) = resolver();
        let many: Vec<_> = (0..100)
            .map(|_| {
                let resolver = resolver.clone();
                tokio::spawn(async move { resolver.addresses("slow").await })
            })
            .collect();
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        drop(end);
        for one in many {
            assert!(one.await.unwrap().is_err());
        }
        // Some may have come after the answer.
        assert!(asked.load(Ordering::SeqCst) < 100);
    }
}
