//! The message bus: how this server reaches it, and its membership as a node.

mod node;
mod shown;

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cluster::nats::limits::REBUILD_INTERVAL_MS;
use cluster::nats::node::{Member, NodeSettings};
use cluster::nats::{Access, AccessFault, BusEvent, BusName, ClientCertificate, Identity, Subjects};
use config::{Bus, Configuration};
use door_admin::Part;
use endpoint::SharedExports;
use policy::Drain;
use serde_json::json;
use tokio::sync::watch;
use types::Secret;

use super::assemble::PRODUCT;
use super::log::Log;
use super::node::NodeState;
use super::secret;
use super::subsystem::{Change, Ground, Renewal, Subsystem};
use crate::failure::Failure;
use node::ThisNode;
use shown::MemberPart;
pub(super) use shown::{bus_says, redirector_text};

/// Time to take leave of the bus.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// How to reach the bus; `None` without servers.
///
/// # Errors
/// A file that cannot be read, or that others may read.
pub(crate) fn access(bus: &Bus) -> Result<Option<Access>, Failure> {
    if bus.servers.is_empty() {
        return Ok(None);
    }
    let text = |what: &str, file: &Path| {
        let text = secret::load_text(what, file)?;
        Ok::<_, Failure>(Secret::new(text.trim()))
    };
    let identity = match (&bus.user, &bus.password_file, &bus.nkey_file, &bus.credentials_file) {
        (Some(user), Some(file), _, _) => Identity::User {
            name: user.clone(),
            password: text("password for the message bus", file)?,
        },
        (_, _, Some(file), _) => Identity::Nkey(text("key for the message bus", file)?),
        (_, _, _, Some(file)) => Identity::Credentials(text("credentials for the message bus", file)?),
        _ => Identity::Anonymous,
    };
    let certificate = bus.certificate.clone().zip(bus.key.clone());
    Ok(Some(Access {
        servers: bus.servers.clone(),
        identity,
        authorities: bus.ca_files.clone(),
        certificate: certificate.map(|(certificate, key)| ClientCertificate { certificate, key }),
        requires_tls: !bus.clear_text,
    }))
}

/// The subjects of the cluster.
///
/// # Errors
/// A prefix that cannot be one.
pub(crate) fn subjects(bus: &Bus) -> Result<Subjects, Failure> {
    Subjects::with_prefix(&bus.prefix).ok_or_else(|| Failure::invalid("[bus] prefix: not a subject"))
}

/// The failure for settings with which the bus can never be reached.
pub(crate) fn unusable(fault: &AccessFault) -> Failure {
    Failure::invalid(match fault {
        AccessFault::NoServer => "[bus] servers: needs at least one".to_owned(),
        AccessFault::Server(server) => format!("[bus] servers: \"{server}\" is not a server of NATS"),
        AccessFault::Credentials(words) => format!("the credentials for the message bus: {words}"),
    })
}

/// What happens to the connection, for the log.
pub(super) fn log_bus(log: &Log, event: &BusEvent) {
    match event {
        BusEvent::Connected => log.write("bus_connected", &json!({})),
        BusEvent::Lost => log.write("bus_lost", &json!({})),
        BusEvent::Unreachable(error) => log.write("bus_unreachable", &json!({"error": error})),
        BusEvent::Refused(error) => log.write("bus_refused", &json!({"error": error})),
        BusEvent::Slow => log.write("bus_slow", &json!({})),
    }
}

/// What the membership is built on.
pub(crate) struct MemberGround {
    pub(crate) ground: Ground,
    pub(crate) exports: SharedExports,
    pub(crate) node: NodeState,
}

/// This server as a node on the bus.
pub(crate) struct BusMember {
    settings: Option<NodeSettings>,
    facts: Arc<ThisNode>,
    exports: SharedExports,
    member: SharedMember,
}

/// `None` before the start and after the end.
type SharedMember = Arc<Mutex<Option<Member<ThisNode>>>>;

/// Announces each change of what the server is used for.
async fn follow_drain(member: Weak<Mutex<Option<Member<ThisNode>>>>, mut steps: watch::Receiver<Drain>) {
    while steps.changed().await.is_ok() {
        let Some(member) = member.upgrade() else { return };
        if let Some(member) = member.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            member.announce();
        }
    }
}

impl Subsystem for BusMember {
    type Ground = MemberGround;

    fn build(ground: &MemberGround, configuration: &Configuration) -> Result<Self, Failure> {
        let facts = ThisNode {
            exports: ground.exports.clone(),
            node: ground.node.clone(),
            log: ground.ground.log.clone(),
        };
        Ok(Self {
            settings: settings(configuration, &ground.node)?,
            facts: Arc::new(facts),
            exports: ground.exports.clone(),
            member: Arc::default(),
        })
    }

    /// Every key takes effect at the next start.
    fn renew<'a>(&'a self, _change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        Ok(Box::new(|| {}))
    }

    fn drain(&self, _grace: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let member = self.lock().take();
        Box::pin(async {
            if let Some(member) = member {
                member.stop(LEAVE_TIME).await;
            }
        })
    }
}

impl BusMember {
    /// Announces this server. Redirectors send clients as soon as they know it, so the doors open
    /// first.
    ///
    /// # Errors
    /// Settings with which the bus can never be reached.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        let Some(settings) = self.settings.clone() else {
            return Ok(());
        };
        let names = self.exports.current().name_changes().clone();
        let member = Member::start(settings, self.facts.clone(), &names);
        *self.lock() = Some(member.map_err(|fault| unusable(&fault))?);
        tokio::spawn(follow_drain(Arc::downgrade(&self.member), self.facts.node.steps()));
        Ok(())
    }

    /// For the admin door.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(MemberPart(self.member.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Member<ThisNode>>> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How this server takes part; `None` without a bus or without exports.
fn settings(configuration: &Configuration, node: &NodeState) -> Result<Option<NodeSettings>, Failure> {
    let bus = &configuration.bus;
    let (Some(name), false) = (&bus.name, configuration.exports.is_empty()) else {
        return Ok(None);
    };
    let Some(access) = access(bus)? else { return Ok(None) };
    Ok(Some(NodeSettings {
        access,
        subjects: subjects(bus)?,
        name: BusName::parse(name).ok_or_else(|| Failure::invalid("[bus] name: not a name"))?,
        version: PRODUCT.to_owned(),
        doors: node.door_urls(),
        exports: configuration.exports.iter().map(|export| export.path.clone()).collect(),
        unfiltered: bus.unfiltered.clone(),
        rebuild_ms: REBUILD_INTERVAL_MS,
    }))
}
