//! What a queue takes over from a changed configuration while it runs, and when it stops.

use std::sync::{Arc, Mutex, PoisonError};

use config::{Changes, Configuration, KeyPath};
use door_admin::{Metrics, Reload};
use policy::Rule;
use serde_json::json;

use super::{Parts, state};
use crate::command_line::QueueServeOptions;
use crate::failure::{Failure, Reader};
use crate::limits::FILE_WATCH_PERIOD;
use crate::server::pages;
use crate::server::signals::{Asked, Signals};
use crate::server::subsystem::{self, Change, Current, Subsystem};
use crate::server::watch::Watch;
use crate::server::watch_named;
use crate::token::now_s;

/// Sections that are read again. All other keys, but for [`KEYS`], need a restart.
const SECTIONS: [&str; 5] = ["trust", "x509", "tokens", "issuer", "macaroons"];
/// Keys of other sections that are read again.
const KEYS: [&str; 8] = [
    "server.certificate",
    "server.key",
    "limits.tls_session_bytes",
    "log.requests",
    "log.follow",
    "log.personal_names",
    "web.viewers",
    "web.operators",
];

/// What follows the configuration beside certificates and identities.
pub(super) struct Followed {
    /// Who may look at the pages.
    pub(super) viewers: Current<Vec<Rule>>,
    /// Who may change what runs.
    pub(super) operators: Current<Vec<Rule>>,
    /// How reloads went.
    pub(super) state: Arc<Mutex<Reload>>,
}

impl Followed {
    pub(super) fn new(configuration: &Configuration) -> Self {
        Self {
            viewers: Current::new(pages::viewers(configuration)),
            operators: Current::new(pages::operators(configuration)),
            state: Arc::new(Mutex::new(Reload {
                fault: None,
                loaded_s: now_s(),
            })),
        }
    }

    /// For the admin door.
    pub(super) fn last(&self) -> impl Fn() -> Option<Reload> + Send + Sync + 'static {
        let state = self.state.clone();
        move || Some(state.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A queue that runs, and the configuration that it uses.
struct Running<'a> {
    options: &'a QueueServeOptions,
    configuration: Configuration,
    parts: &'a Parts,
    metrics: &'a Metrics,
    watch: Watch,
}

/// Takes over what changes until a signal ends the queue.
pub(super) async fn until_stopped(
    options: &QueueServeOptions,
    configuration: &Configuration,
    parts: &Parts,
    metrics: &Metrics,
    mut signals: Signals,
) {
    parts.service_manager.ready(&parts.status());
    let log = &parts.ground.log;
    let mut running = Running {
        options,
        configuration: configuration.clone(),
        parts,
        metrics,
        watch: Watch::default(),
    };
    options
        .config
        .iter()
        .for_each(|file| running.watch.add_configuration(file));
    watch_named(&mut running.watch, configuration);
    let mut clock = tokio::time::interval(FILE_WATCH_PERIOD);
    loop {
        tokio::select! {
            asked = signals.next() => match asked {
                Asked::Stop => return,
                Asked::Reload => {
                    log.reopen();
                    running.reload("signal");
                }
            },
            _ = clock.tick() => {
                parts.certificate.tell_expiry(log);
                if running.watch.changed() {
                    running.reload("file changed");
                }
            }
        }
    }
}

impl Running<'_> {
    fn reload(&mut self, why: &str) {
        let service_manager = &self.parts.service_manager;
        service_manager.reloading();
        let outcome = self.try_reload();
        let log = &self.parts.ground.log;
        let mut state = self.parts.followed.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = outcome.err().map(|failure| failure.message(Reader::Administrator));
        match &fault {
            None => {
                state.loaded_s = now_s();
                let read = &self.configuration.read_from;
                log.write("reloaded", &json!({"why": why, "configuration": read}));
                service_manager.ready(&self.parts.status());
            }
            Some(error) => {
                self.metrics.reload_failed();
                let kept = "the old configuration stays in use";
                service_manager.ready(&format!("the last reload failed, and {kept}: {error}"));
                log.write("reload_failed", &json!({"why": why, "error": error, "kept": kept}));
            }
        }
        state.fault = fault;
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        // Made before reading, so that the next check notices changes during the reload.
        let mut watch = Watch::default();
        self.options
            .config
            .iter()
            .for_each(|file| watch.add_configuration(file));
        let mut fresh = state::read(self.options)?;
        watch_named(&mut watch, &fresh);
        let changes = Changes::new(&self.configuration, &fresh, &self.watch.touched());
        let has_tls = |configuration: &Configuration| configuration.server.certificate.is_some();
        let turns_tls = has_tls(&fresh) != has_tls(&self.configuration);
        if turns_tls {
            let (server, old) = (&mut fresh.server, &self.configuration.server);
            server.certificate.clone_from(&old.certificate);
            server.key.clone_from(&old.key);
        }
        let change = Change {
            old: &self.configuration,
            fresh: &fresh,
            keys: &changes,
        };
        let own: [&dyn Subsystem; 3] = [&self.parts.certificate, &self.parts.identities, &self.parts.trust_files];
        subsystem::renew(own, &change)?;
        self.parts.followed.viewers.set(pages::viewers(&fresh));
        self.parts.followed.operators.set(pages::operators(&fresh));
        self.parts.ground.observer.set_logged(&fresh.log);
        let is_ignored = |place: &&KeyPath| !is_live(place) || turns_tls && place.section == "server";
        for place in changes.places().filter(is_ignored) {
            let fields = json!({"key": place.name(), "says": "this key needs a restart"});
            self.parts.ground.log.write("reload_ignored", &fields);
        }
        (self.watch, self.configuration) = (watch, fresh);
        Ok(())
    }
}

fn is_live(place: &KeyPath) -> bool {
    SECTIONS.contains(&place.section) || KEYS.contains(&place.name().as_str())
}
