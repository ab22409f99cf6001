//! This server as a node of a cluster: what it tells redirectors, and what it is used for.

mod collector;
mod orders;
mod room;
mod shown;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::announcement::{AnnouncedExport, Announcement, Door, Role};
use cluster::machine::{Load, Machine};
use cluster::node::Status;
use config::{Configuration, XrootTls};
use door_admin::Part;
use door_http::{Node, OrderFuture};
use endpoint::{Activity, HandOver, Requester, SharedExports};
use policy::{Drain, Rule};
use serde_json::json;
use tokio::sync::watch;
use transfer::Budget;
use types::{Error, ErrorCode, Phase, Side};

use super::exported::{Disk, is_writable};
use super::log::Log;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use crate::failure::Failure;
use collector::Collector;
pub(crate) use orders::load as load_order;
use orders::{Order, Orders};
use shown::NodePart;

/// How long an announcement is given again without being made anew.
const TOLD_TIME: Duration = Duration::from_millis(100);

/// What the node is built on.
pub(crate) struct NodeGround {
    pub(crate) ground: Ground,
    pub(crate) exports: SharedExports,
    pub(crate) disks: Current<Vec<Disk>>,
    pub(crate) budget: Budget,
    pub(crate) activity: Activity,
    pub(crate) hand_over: Current<Option<Arc<HandOver>>>,
    pub(crate) product: &'static str,
}

/// The server as a node. Clones are the same.
#[derive(Clone)]
pub(crate) struct NodeState(Arc<Inner>);

struct Inner {
    collector: Collector,
    exports: SharedExports,
    log: Log,
    addresses: Vec<SocketAddr>,
    product: &'static str,
    started_ms: u64,
    settings: Current<Settings>,
    hand_over: Current<Option<Arc<HandOver>>>,
    /// What does not change while it runs, with nothing about load.
    facts: Current<Announcement>,
    orders: Mutex<Orders>,
    /// Orders are followed one at a time.
    ordering: tokio::sync::Mutex<()>,
    told: Mutex<Option<Told>>,
    steps: watch::Sender<Drain>,
}

/// The last announcement.
struct Told {
    at: Instant,
    text: Arc<str>,
}

/// What the configuration says.
#[derive(Clone, Debug, PartialEq)]
struct Settings {
    redirectors: Vec<Rule>,
    operators: Vec<Rule>,
    state_file: Option<PathBuf>,
}

impl Subsystem for NodeState {
    type Ground = NodeGround;

    fn build(ground: &NodeGround, configuration: &Configuration) -> Result<Self, Failure> {
        let settings = settings(configuration);
        let order = match &settings.state_file {
            Some(file) => orders::load(file)?,
            None => Order::default(),
        };
        let wanted = &configuration.cluster;
        let this = Self(Arc::new(Inner {
            collector: Collector::new(
                Arc::new(Machine::default()),
                ground.budget.clone(),
                ground.activity.clone(),
                ground.ground.observer.clone(),
                ground.disks.clone(),
            ),
            exports: ground.exports.clone(),
            log: ground.ground.log.clone(),
            addresses: ground.ground.addresses.clone(),
            product: ground.product,
            started_ms: now_ms(),
            settings: Current::new(settings),
            hand_over: ground.hand_over.clone(),
            facts: Current::new(Announcement::default()),
            steps: watch::Sender::new(wanted.drain.max(order.drain)),
            orders: Mutex::new(Orders::new(wanted.drain, order, wanted.drain_grace)),
            ordering: tokio::sync::Mutex::default(),
            told: Mutex::default(),
        }));
        this.0.facts.set(this.0.facts_of(configuration));
        this.0.enforce();
        this.0.log_drain("start");
        Ok(this)
    }

    /// A state file that is new takes over the order that holds now, unless it has one.
    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let (fresh, inner) = (change.fresh, &self.0);
        let settings = settings(fresh);
        let kept = match &settings.state_file {
            Some(file) if settings.state_file != inner.settings.get().state_file && file.exists() => {
                Some(orders::load(file)?)
            }
            _ => None,
        };
        Ok(Box::new(move || {
            inner.settings.set(settings);
            inner.facts.set(inner.facts_of(fresh));
            inner.change_orders("configuration", |orders| {
                let order = kept.unwrap_or_else(|| orders.order.clone());
                orders.with(fresh.cluster.drain, order, fresh.cluster.drain_grace, Instant::now())
            });
        }))
    }
}

impl NodeState {
    /// Looks at load and room, and enforces orders, until the process ends.
    pub(crate) async fn keep(self) {
        let looking = self.0.collector.keep_looking(|| self.0.enforce());
        tokio::join!(looking, self.0.collector.keep_measuring());
    }

    /// How busy the machine is.
    pub(crate) fn load(&self) -> Load {
        self.0.collector.machine.load()
    }

    /// What the server is used for, now and when that changes.
    pub(crate) fn steps(&self) -> watch::Receiver<Drain> {
        self.0.steps.subscribe()
    }

    /// How busy it is, and what it is used for.
    pub(crate) fn status(&self) -> Status {
        self.0.announcement_now().status
    }

    /// URLs of the doors, by the name of this machine.
    pub(crate) fn door_urls(&self) -> Vec<String> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let doors = self.0.facts.get().doors;
        let url = |door: Door| format!("{}://{host}:{}", door.scheme, door.port);
        doors.into_iter().map(url).collect()
    }

    /// For the admin door.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(NodePart(self.0.clone()))
    }

    /// For the HTTP door.
    pub(crate) fn for_door(&self) -> Arc<dyn Node> {
        self.0.clone()
    }

    /// What follows from the configuration.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> String {
        let orders = self.0.lock_orders().clone();
        let (settings, facts) = (self.0.settings.get(), self.0.facts.get());
        format!(
            "{settings:?} {:?} {:?} {:?}",
            facts.site,
            orders.configured,
            orders.grace()
        )
    }
}

fn settings(configuration: &Configuration) -> Settings {
    let cluster = &configuration.cluster;
    let rules = |list: &[config::RuleSubjects]| list.iter().map(config::RuleSubjects::rule).collect();
    Settings {
        redirectors: rules(&cluster.redirectors),
        operators: rules(&cluster.operators),
        state_file: cluster.state_file.clone(),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The ways to reach each port. Both protocols are spoken there, with and without TLS.
pub(super) fn doors(configuration: &Configuration, addresses: &[SocketAddr]) -> Vec<Door> {
    let has_certificate = configuration.server.certificate.is_some();
    let xroot = &configuration.xroot;
    let schemes = [
        ("https", has_certificate),
        ("http", true),
        ("roots", xroot.enabled && has_certificate && xroot.tls != XrootTls::None),
        ("root", xroot.enabled),
    ];
    let mut doors = Vec::new();
    for port in addresses.iter().map(SocketAddr::port) {
        for (scheme, _) in schemes.iter().filter(|(_, is_offered)| *is_offered) {
            let door = Door {
                scheme: (*scheme).to_owned(),
                port,
            };
            if !doors.contains(&door) {
                doors.push(door);
            }
        }
    }
    doors
}

impl Inner {
    fn facts_of(&self, configuration: &Configuration) -> Announcement {
        let exports = configuration.exports.iter().map(|export| AnnouncedExport {
            path: export.path.to_string(),
            writable: is_writable(export, configuration),
        });
        let facts = Announcement {
            role: match configuration.nodes.is_empty() {
                true => Role::Server,
                false => Role::Redirector,
            },
            server: self.product.to_owned(),
            name: configuration.server.name.clone(),
            site: configuration.cluster.site.clone(),
            started_ms: self.started_ms,
            doors: doors(configuration, &self.addresses),
            exports: exports.collect(),
            ..Announcement::default()
        };
        facts.bounded()
    }

    fn lock_orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the doors refuse what is to be refused now.
    fn enforce(&self) {
        let enforced = self.lock_orders().enforced(Instant::now());
        self.exports.current().drain_gate().set(enforced);
    }

    fn change_orders(&self, why: &'static str, change: impl FnOnce(&Orders) -> Orders) {
        let mut orders = self.lock_orders();
        let before = orders.told();
        *orders = change(&orders);
        let (told, is_new) = (orders.told(), orders.told() != before);
        self.steps.send_replace(told);
        drop(orders);
        self.enforce();
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if is_new {
            self.log_drain(why);
        }
    }

    fn log_drain(&self, why: &'static str) {
        let orders = self.lock_orders().clone();
        if why == "start" && orders.told() == Drain::Active {
            return;
        }
        let by = (!orders.order.ordered_by.is_empty()).then_some(&orders.order.ordered_by);
        let fields = json!({"drain": orders.told(), "why": why, "configured": orders.configured,
            "ordered": orders.order.drain, "ordered_by": by});
        self.log.write("node_drain", &fields);
    }

    /// Who ordered the step that holds; `None` if the configuration did.
    fn orderer(&self) -> Option<String> {
        let orders = self.lock_orders();
        let is_ordered = orders.order.drain == orders.told() && orders.configured < orders.told();
        is_ordered.then(|| orders.order.ordered_by.clone())
    }

    fn announcement_now(&self) -> Announcement {
        let (facts, load) = (self.facts.get(), self.collector.announcement());
        let orders = self.lock_orders().clone();
        Announcement {
            status: Status {
                drain: orders.told(),
                time_ms: now_ms(),
                is_starting: self.hand_over.get().is_some_and(|hand_over| hand_over.is_starting()),
                ..load.status
            },
            refuses: orders.enforced(Instant::now()),
            uploads: load.uploads,
            downloads: load.downloads,
            pulls: load.pulls,
            pushes: load.pushes,
            ..facts
        }
    }

    async fn follow(&self, drain: Drain, orderer: &str) -> types::Result<()> {
        let _alone = self.ordering.lock().await;
        let order = Order {
            drain,
            ordered_by: orderer.to_owned(),
        };
        if let Some(file) = self.settings.get().state_file {
            let kept = order.clone();
            let failed = |cause: std::io::Error| {
                let error = Error::new(ErrorCode::StorageFailed, Side::Active, Phase::Commit);
                error.with_detail("the order could not be stored").with_private(cause)
            };
            let keep = move || orders::keep(&file, &kept).map_err(failed);
            execution::blocking_try(Side::Active, Phase::Commit, keep).await?;
        }
        self.change_orders("order", |orders| {
            orders.with(orders.configured, order, orders.grace(), Instant::now())
        });
        Ok(())
    }
}

impl Node for Inner {
    fn may_look(&self, requester: Requester<'_>) -> bool {
        let is_here = requester.address.to_canonical().is_loopback();
        let is_named = || names(&self.settings.get().redirectors, requester);
        (is_here && requester.credential.is_ok()) || is_named() || self.may_order(requester)
    }

    fn may_order(&self, requester: Requester<'_>) -> bool {
        names(&self.settings.get().operators, requester)
    }

    fn is_redirector(&self) -> bool {
        self.facts.get().role == Role::Redirector
    }

    fn announcement(&self) -> Arc<str> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.as_ref().filter(|told| told.at.elapsed() < TOLD_TIME) {
            Some(told) => told.text.clone(),
            None => {
                // It has only texts and numbers, so that this cannot fail.
                let text: Arc<str> = serde_json::to_string(&self.announcement_now())
                    .unwrap_or_default()
                    .into();
                *told = Some(Told {
                    at: Instant::now(),
                    text: text.clone(),
                });
                text
            }
        }
    }

    fn order<'a>(&'a self, drain: Drain, orderer: &'a str) -> OrderFuture<'a> {
        Box::pin(self.follow(drain, orderer))
    }
}

/// Whether one of these names the client.
pub(super) fn names(rules: &[Rule], requester: Requester<'_>) -> bool {
    let Ok(credential) = requester.credential else {
        return false;
    };
    rules.iter().any(|rule| rule.benefits(credential, requester.address))
}
