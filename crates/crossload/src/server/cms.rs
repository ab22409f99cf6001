//! Membership in an XRootD cluster: what managers learn about this server, and what the log and
//! the metrics say about the managers.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cluster::cms::{
    Event, Exported, Fault, Leaf, LinkState, LinkView, ManagerAddress, Presence, Server, Settings, Vitals,
};
use config::Configuration;
use door_admin::{Check, Part, PartFuture};
use endpoint::SharedExports;
use policy::Drain;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;
use types::LogicalPath;

use super::admin_parts::encoded;
use super::exported::is_writable;
use super::log::Log;
use super::node::NodeState;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use crate::failure::Failure;

/// Time to take leave of all managers.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// What the membership is built on.
pub(crate) struct CmsGround {
    pub(crate) ground: Ground,
    pub(crate) exports: SharedExports,
    pub(crate) node: NodeState,
}

/// The membership.
pub(crate) struct CmsLeaf {
    leaf: Arc<Leaf<ThisServer>>,
    wanted: Current<Option<Settings>>,
    /// Managers send clients as soon as they know the server, so the doors open first.
    has_started: AtomicBool,
    node: NodeState,
    data_port: u16,
}

impl Subsystem for CmsLeaf {
    type Ground = CmsGround;

    fn build(ground: &CmsGround, configuration: &Configuration) -> Result<Self, Failure> {
        let server = ThisServer {
            exports: ground.exports.clone(),
            node: ground.node.clone(),
            log: ground.ground.log.clone(),
        };
        let names = ground.exports.current().name_changes().clone();
        let data_port = ground.ground.addresses.first().map_or(0, |address| address.port());
        Ok(Self {
            leaf: Arc::new(Leaf::new(Arc::new(server), names)),
            wanted: Current::new(settings(configuration, data_port)),
            has_started: AtomicBool::new(false),
            node: ground.node.clone(),
            data_port,
        })
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let fresh = settings(change.fresh, self.data_port);
        Ok(Box::new(move || {
            self.wanted.set(fresh);
            if self.has_started.load(Ordering::Relaxed) {
                self.start();
            }
        }))
    }

    fn drain(&self, _grace: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.leaf.stop(LEAVE_TIME))
    }
}

impl CmsLeaf {
    /// Logs in to the managers.
    pub(crate) fn start(&self) {
        if !self.has_started.swap(true, Ordering::Relaxed) {
            tokio::spawn(follow_drain(Arc::downgrade(&self.leaf), self.node.steps()));
        }
        self.leaf.configure(self.wanted.get());
    }

    /// What managers learn.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> Option<Settings> {
        self.wanted.get()
    }

    /// For the admin door.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(CmsPart(self.leaf.clone()))
    }
}

/// What managers learn; `None` without managers.
fn settings(configuration: &Configuration, data_port: u16) -> Option<Settings> {
    let managers = configuration.cms.managers.iter();
    let managers: Vec<_> = managers
        .filter_map(|manager| ManagerAddress::parse(manager, None))
        .collect();
    let exports = configuration.exports.iter().map(|export| Exported {
        path: export.path.clone(),
        is_writable: is_writable(export, configuration),
    });
    let reserves = configuration.exports.iter().map(|export| export.reserve_bytes.0);
    (!managers.is_empty()).then(|| Settings {
        managers,
        exports: exports.collect(),
        data_port,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        minimum_free_bytes: reserves.max().unwrap_or(0),
    })
}

/// This server, as managers see it.
struct ThisServer {
    exports: SharedExports,
    node: NodeState,
    log: Log,
}

impl Server for ThisServer {
    async fn has(&self, path: &LogicalPath) -> Option<Presence> {
        let exports = self.exports.current();
        let (export, inner) = exports.export_of(path)?;
        let found = export.store.for_itself().stat(&inner).await;
        found.ok().map(|_| Presence::Online)
    }

    async fn vitals(&self) -> Vitals {
        let mut vitals = Vitals::from(self.node.load());
        for export in self.exports.current().list() {
            let Ok(space) = export.store.space().await else {
                continue;
            };
            if vitals.total_bytes == 0 || space.free_bytes > vitals.free_bytes {
                vitals.total_bytes = space.total_bytes;
                vitals.free_bytes = space.free_bytes;
            }
        }
        offered(vitals, *self.node.steps().borrow())
    }

    fn note(&self, manager: &ManagerAddress, event: &Event) {
        let manager = manager.to_string();
        match event {
            Event::LoggedIn { system_id } => {
                let fields = json!({"manager": manager, "system_id": system_id});
                self.log.write("cms_logged_in", &fields);
            }
            Event::Sent { to } => {
                let fields = json!({"manager": manager, "to": to.to_string()});
                self.log.write("cms_sent_elsewhere", &fields);
            }
            Event::Lost(fault) => {
                let fields = json!({"manager": manager, "error": words(fault)});
                self.log.write("cms_lost", &fields);
            }
            Event::ChangeRefused { client } => {
                let fields = json!({"manager": manager, "client": client});
                self.log.write("cms_change_refused", &fields);
            }
        }
    }
}

/// What managers learn of a server that is used so: they choose servers for new files by room.
fn offered(vitals: Vitals, drain: Drain) -> Vitals {
    match drain {
        Drain::Active => vitals,
        Drain::NoWrites | Drain::NoReads => Vitals {
            free_bytes: 0,
            ..vitals
        },
    }
}

/// Suspends the server at its managers while it begins no transfers.
async fn follow_drain(leaf: Weak<Leaf<ThisServer>>, mut steps: watch::Receiver<Drain>) {
    loop {
        let drain = *steps.borrow_and_update();
        let Some(leaf) = leaf.upgrade() else { return };
        leaf.suspend(drain == Drain::NoReads);
        drop(leaf);
        if steps.changed().await.is_err() {
            return;
        }
    }
}

/// The fault as a sentence without its stop.
fn words(fault: &Fault) -> String {
    match fault {
        Fault::Unreachable(cause) => format!("cannot connect: {cause}"),
        Fault::Closed => "the manager closed the connection".to_owned(),
        Fault::TimedOut => "the manager does not answer".to_owned(),
        Fault::Refused(cause) => format!("the manager refuses: {cause}"),
        Fault::AuthenticationRequired => "the manager requires authentication, which is not supported".to_owned(),
        Fault::Malformed(detail) => format!("not the protocol of a manager: {detail}"),
        Fault::TooManyHops => "managers send us on without end".to_owned(),
        Fault::Unfit(fault) => format!("the exports cannot be expressed in a login: {fault:?}"),
    }
}

/// The membership, for the admin door.
struct CmsPart(Arc<Leaf<ThisServer>>);

impl Part for CmsPart {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async { text(&self.0.views()) })
    }

    /// Clients that know this server need no manager, so a lost one does not make it unready.
    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async { self.0.views().iter().map(check).collect() })
    }
}

fn check(view: &LinkView) -> Check {
    let says = match (&view.fault, view.state) {
        (_, LinkState::Open) => "It knows this server.".to_owned(),
        (Some(fault), _) => format!("It does not know this server: {}.", words(fault)),
        (None, _) => "It does not know this server yet.".to_owned(),
    };
    Check {
        name: format!("manager {}", view.manager),
        ok: view.state == LinkState::Open,
        needed: false,
        says,
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ManagerLabels {
    manager: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    manager: String,
    kind: &'static str,
}

fn text(views: &[LinkView]) -> String {
    if views.is_empty() {
        return String::new();
    }
    let up = Family::<ManagerLabels, Gauge>::default();
    let sessions = Family::<ManagerLabels, Counter>::default();
    let (questions, notices) = (
        Family::<KindLabels, Counter>::default(),
        Family::<KindLabels, Counter>::default(),
    );
    for view in views {
        let manager = || view.manager.to_string();
        let labels = ManagerLabels { manager: manager() };
        up.get_or_create(&labels).set(i64::from(view.state == LinkState::Open));
        sessions.get_or_create(&labels).inc_by(view.sessions);
        let absent = view.questions.saturating_sub(view.found + view.late);
        let kinds = [("present", view.found), ("absent", absent), ("late", view.late)];
        for (kind, count) in kinds {
            let labels = KindLabels {
                manager: manager(),
                kind,
            };
            questions.get_or_create(&labels).inc_by(count);
        }
        for (kind, count) in [("have", view.told), ("gone", view.removed), ("reset", view.resets)] {
            let labels = KindLabels {
                manager: manager(),
                kind,
            };
            notices.get_or_create(&labels).inc_by(count);
        }
    }
    let mut registry = Registry::with_prefix("crossload_cms");
    registry.register("manager_up", "Whether the manager knows this server", up);
    registry.register("sessions", "Sessions with the manager that began", sessions);
    let help = "Files that the manager asked for, by what was found";
    registry.register("questions", help, questions);
    registry.register("notices", "Changed files that were announced to the manager", notices);
    encoded(&registry)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_metric_is_in_the_manual_and_counts_what_was_seen() {
        let view = LinkView {
            manager: ManagerAddress::parse("cms.example:1213", None).unwrap(),
            state: LinkState::Open,
            fault: None,
            sessions: 2,
            questions: 9,
            found: 4,
            late: 1,
            told: 3,
            removed: 0,
            resets: 0,
        };
        let text = text(std::slice::from_ref(&view));
        let manual = include_str!("../../../../docs/metrics.md");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split('{').next().unwrap();
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
        let absent = "crossload_cms_questions_total{manager=\"cms.example:1213\",kind=\"absent\"} 4";
        assert!(text.contains(absent) && !text.contains("EOF"), "{text}");
        assert!(super::text(&[]).is_empty());
        assert_eq!(check(&view).says, "It knows this server.");
    }

    #[test]
    fn managers_send_no_new_files_to_a_drained_server() {
        let vitals = Vitals {
            processors: 7,
            total_bytes: 10,
            free_bytes: 5,
            ..Vitals::default()
        };
        assert_eq!(offered(vitals, Drain::Active), vitals);
        for drain in [Drain::NoWrites, Drain::NoReads] {
            let drained = offered(vitals, drain);
            assert_eq!(
                (drained.free_bytes, drained.total_bytes, drained.processors),
                (0, 10, 7)
            );
        }
    }

    #[test]
    fn managers_learn_what_clients_may_do_in_each_export() {
        let text = "[cms]\nmanagers = [\"[::1]:1213\"]\n[[export]]\npath = \"/rw\"\ndirectory = \"a\"\n\
                    anonymous = \"write\"\n[[export]]\npath = \"/ro\"\ndirectory = \"b\"\n[[export]]\npath = \"/below\"\n\
                    directory = \"c\"\nanonymous = \"write\"\nceiling = [\"read\"]\n";
        let parse = |text: &str| Configuration::parse(text, Path::new("/"), "test").unwrap();
        let settings = settings(&parse(text), 1094).unwrap();
        let exports: Vec<_> = settings
            .exports
            .iter()
            .map(|export| (export.path.as_str(), export.is_writable))
            .collect();
        assert_eq!(exports, [("/rw", true), ("/ro", false), ("/below", false)]);
        assert_eq!(settings.managers[0].to_string(), "[::1]:1213");
        assert_eq!(super::settings(&parse(""), 1094), None);
    }
}
