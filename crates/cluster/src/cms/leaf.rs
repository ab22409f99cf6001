//! The sessions of one server with all of its managers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use endpoint::NameChanges;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::address::ManagerAddress;
use super::limits::MANAGERS_MAX;
use super::link::{Link, LinkView, SharedView, keep};
use super::server::{Exported, Server};

/// What managers learn about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The managers; at most [`MANAGERS_MAX`] are used. All of them know the server at once.
    pub managers: Vec<ManagerAddress>,
    /// What the server exports.
    pub exports: Vec<Exported>,
    /// The port of its XRootD door, for clients.
    pub data_port: u16,
    /// Its name.
    pub host: String,
    /// Free space below which it takes no new files, in bytes.
    pub minimum_free_bytes: u64,
}

/// Whether managers may send clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Serving,
    Suspended,
    Stopping,
}

/// One generation of sessions, with the same settings.
struct Generation {
    settings: Option<Settings>,
    standing: watch::Sender<Standing>,
    views: Vec<SharedView>,
    task: Option<JoinHandle<()>>,
}

/// A server in the clusters of its managers. The sessions end when this is dropped.
pub struct Leaf<S> {
    server: Arc<S>,
    names: NameChanges,
    generation: Mutex<Generation>,
}

impl<S: Server> Leaf<S> {
    /// Without managers. `names` gives notice of new and removed files.
    #[must_use]
    pub fn new(server: Arc<S>, names: NameChanges) -> Self {
        let generation = Generation {
            settings: None,
            standing: watch::Sender::new(Standing::Serving),
            views: Vec::new(),
            task: None,
        };
        Self {
            server,
            names,
            generation: Mutex::new(generation),
        }
    }

    /// Uses these settings from now on; `None`: no managers. If they are new, all sessions end, and
    /// others begin once that is done. It must be called within a runtime.
    pub fn configure(&self, settings: Option<Settings>) {
        let settings = settings.filter(|settings| !settings.managers.is_empty());
        let mut generation = self.lock();
        if generation.settings == settings {
            return;
        }
        let standing = *generation.standing.borrow();
        generation.standing.send_replace(Standing::Stopping);
        let before = generation.task.take();
        *generation = self.begin(settings, standing, before);
    }

    fn begin(&self, settings: Option<Settings>, standing: Standing, before: Option<JoinHandle<()>>) -> Generation {
        let sender = watch::Sender::new(standing);
        let shared = settings.clone().map(Arc::new);
        let managers = shared
            .iter()
            .flat_map(|shared| shared.managers.iter().take(MANAGERS_MAX));
        let links: Vec<Link<S>> = managers
            .map(|manager| Link {
                manager: manager.clone(),
                settings: shared.clone().expect("managers come from settings"),
                server: self.server.clone(),
                names: self.names.clone(),
                standing: sender.subscribe(),
                view: SharedView::new(manager.clone()),
            })
            .collect();
        let views = links.iter().map(|link| link.view.clone()).collect();
        let task = tokio::spawn(async move {
            // A manager refuses a server whose earlier session has not ended.
            if let Some(before) = before {
                let _ = before.await;
            }
            let mut tasks: JoinSet<()> = links.into_iter().map(keep).collect();
            while tasks.join_next().await.is_some() {}
        });
        Generation {
            settings,
            standing: sender,
            views,
            task: Some(task),
        }
    }

    /// Asks managers to send no clients (`true`), or to send them again.
    pub fn suspend(&self, is_suspended: bool) {
        let wanted = match is_suspended {
            true => Standing::Suspended,
            false => Standing::Serving,
        };
        self.lock().standing.send_if_modified(|standing| {
            let changes = *standing != Standing::Stopping && *standing != wanted;
            if changes {
                *standing = wanted;
            }
            changes
        });
    }

    /// The state of each session.
    #[must_use]
    pub fn views(&self) -> Vec<LinkView> {
        let views = self.lock().views.clone();
        views.iter().map(SharedView::get).collect()
    }

    /// Ends all sessions in order, and waits for that no longer than `limit`.
    pub async fn stop(&self, limit: Duration) {
        let task = {
            let mut generation = self.lock();
            generation.standing.send_replace(Standing::Stopping);
            generation.task.take()
        };
        if let Some(task) = task {
            let _ = tokio::time::timeout(limit, task).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generation> {
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> std::fmt::Debug for Leaf<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Leaf")
    }
}
