//! The doors of a server: the current one for new connections, and older ones that finish theirs.

use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::OLD_DOOR_GRACE;
use config::{AuthenticationMethod, Configuration};
use execution::Rota;
use net::listen::Acceptor;
use serde_json::json;

use super::accept::Dispatcher;
use super::assemble::Assembly;
use super::log::Log;
use super::subsystem::{Change, Current, Renewal, Subsystem};
use crate::descriptors;
use crate::failure::Failure;

/// What doors are built on.
pub(crate) struct DoorSetup {
    pub(crate) assembly: Arc<Assembly>,
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) rota: Rota,
}

/// The current door, and older ones with open connections.
pub(crate) struct Dispatchers {
    setup: Arc<DoorSetup>,
    /// The newest first.
    open: Current<Vec<Dispatcher>>,
}

impl Subsystem for Dispatchers {
    type Ground = Arc<DoorSetup>;

    fn build(setup: &Arc<DoorSetup>, configuration: &Configuration) -> Result<Self, Failure> {
        let this = Self {
            setup: setup.clone(),
            open: Current::new(Vec::new()),
        };
        this.open_door(configuration, this.own_listeners()?);
        Ok(this)
    }

    /// New connections go to a door with the new settings; the old door finishes its own.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        if !need_new_one(change) {
            return Ok(Box::new(|| {}));
        }
        let (listeners, fresh) = (self.own_listeners()?, change.fresh);
        Ok(Box::new(move || {
            let old = self.open.get().first().cloned();
            self.open_door(fresh, listeners);
            if let Some(old) = old {
                tokio::spawn(async move { old.shut_down(OLD_DOOR_GRACE).await });
            }
        }))
    }

    fn drain(&self, grace: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let open = self.open.get();
        Box::pin(async move {
            let mut closing = tokio::task::JoinSet::new();
            for door in open {
                closing.spawn(async move { door.shut_down(grace).await });
            }
            while closing.join_next().await.is_some() {}
        })
    }
}

impl Dispatchers {
    /// A handle on each listener, for each worker.
    fn own_listeners(&self) -> Result<Vec<TcpListener>, Failure> {
        let cloned = self.setup.listeners.iter().flat_map(|listener| {
            let workers = self.setup.rota.runtimes();
            workers.map(|_| listener.try_clone())
        });
        cloned
            .collect::<Result<_, _>>()
            .map_err(|cause| Failure::system("listening", &cause))
    }

    /// Opens a door with this configuration.
    fn open_door(&self, configuration: &Configuration, listeners: Vec<TcpListener>) {
        let ground = &self.setup.assembly.ground;
        let doors = self.setup.assembly.doors(configuration);
        let idle = configuration.limits.idle_timeout;
        let end = descriptors::clients_end(descriptors::limit());
        let door = Dispatcher::new(
            doors,
            ground.fair_share.clone(),
            end,
            idle,
            ground.observer.clone(),
            self.setup.rota.clone(),
        );
        let workers = self.setup.listeners.iter().flat_map(|_| self.setup.rota.runtimes());
        for ((worker, runtime), listener) in workers.zip(listeners) {
            runtime.spawn(accept(door.clone(), listener, worker, ground.log.clone()));
        }
        let mut open = self.open.get();
        open.insert(0, door);
        self.open.set(open);
    }

    /// The connections of all doors.
    pub(crate) fn connections(&self) -> usize {
        self.open.get().iter().map(Dispatcher::connections).sum()
    }

    /// Drops doors without connections.
    pub(crate) fn prune(&self) {
        let mut open = self.open.get();
        let mut index = 0;
        open.retain(|door| {
            index += 1;
            index == 1 || door.connections() > 0
        });
        self.open.set(open);
    }
}

/// Whether new connections need a new door: a key or secret that doors copy has changed, or a value
/// that they derive from several keys.
pub(crate) fn need_new_one(change: &Change<'_>) -> bool {
    change.keys.need_new_door() || facts(change.old) != facts(change.fresh)
}

/// The values that a door derives from several keys.
fn facts(configuration: &Configuration) -> (bool, Vec<AuthenticationMethod>) {
    (
        configuration.server.certificate.is_some(),
        configuration.authentication(),
    )
}

/// Runs the accept loop of a door until the door closes. Restarts it after a panic.
async fn accept(door: Dispatcher, listener: TcpListener, worker: usize, log: Log) {
    loop {
        let Ok(own) = listener.try_clone().and_then(Acceptor::new) else {
            log.write("listener_failed", &json!({"listen": listener.local_addr().ok()}));
            return;
        };
        let door = door.clone();
        if tokio::spawn(async move { door.accept_loop(own, worker).await })
            .await
            .is_ok()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn authentication_methods_follow_the_new_configuration() {
        let parse = |text: &str| {
            let text = format!("[server]\ncertificate = \"c\"\nkey = \"k\"\n{text}");
            Configuration::parse(&text, Path::new("/etc"), "test").unwrap()
        };
        let (without, with) = (parse(""), parse("[[issuer]]\nurl = \"https://iam\"\n"));
        assert_ne!(facts(&without), facts(&with));
        assert_ne!(facts(&without), facts(&Configuration::defaults()));
    }
}
