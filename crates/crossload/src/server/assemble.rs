//! Builds the parts of a server from the configuration: stores, certificates, trust, keys,
//! settings.

use std::net::SocketAddr;
use std::sync::Arc;

use config::{Configuration, XrootTls, forward_http, forward_root};
use door_xroot::{Keys, ThirdPartySettings};
use endpoint::{Activity, FairShare, Refusals};
use http_wire::HeadLimits;
use identity::Authenticator;
use net::address::AddressPolicy;
use net::tls::ClientTls;
use remote::{Client, ClientOptions};
use transfer::{Budget, CopySettings, ForwardTo, Site, Slots};
use types::Location;
use xroot_wire::TlsPolicy;

use super::accept::Doors;
use super::bus::{BusMember, MemberGround};
use super::certificate::OwnCertificate;
use super::choices;
use super::cms::{CmsGround, CmsLeaf};
use super::events::Observer;
use super::exported::{Exported, ExportedGround};
use super::identities::Identities;
use super::log::Log;
use super::node::{NodeGround, NodeState};
use super::other_side::{Delegated, HandedOver};
use super::pages::Pages;
use super::shares::{Logged, Shares};
use super::space_report::{ReportGround, SpaceReports};
use super::subsystem::{Ground, Subsystem};
use super::trust_files::{TrustFiles, trust, unusable};
use crate::descriptors;
use crate::failure::Failure;

/// Product name and version, for clients and peers.
pub(crate) const PRODUCT: &str = concat!("crossload/", env!("CARGO_PKG_VERSION"));

/// The parts of a server that doors share and that follow configuration changes.
pub(crate) struct Assembly {
    pub(crate) ground: Ground,
    pub(crate) exported: Exported,
    pub(crate) certificate: OwnCertificate,
    /// Follows changes of the authorities' files.
    pub(crate) trust_files: TrustFiles,
    identities: Identities,
    handed_over: HandedOver,
    delegated: Delegated,
    shares: Shares,
    logged: Logged,
    /// This server as a node of a cluster.
    pub(crate) node: NodeState,
    /// The report about space.
    pub(crate) space_report: SpaceReports,
    /// The membership in an XRootD cluster.
    pub(crate) cms: CmsLeaf,
    /// The membership on a message bus.
    pub(crate) bus: BusMember,
    /// What the pages for operators follow.
    pub(crate) pages: Pages,
    /// The reasons of refusals, for all doors.
    pub(crate) refusals: Refusals,
    /// The slots for third-party copies, for all doors.
    transfers: Slots,
    /// The uploads and downloads of clients, at all doors.
    activity: Activity,
    /// Rendezvous keys, which outlive the doors.
    keys: Keys,
}

impl Assembly {
    /// Opens and reads everything that the configuration names.
    ///
    /// # Errors
    /// A file or directory that cannot be opened or read.
    pub(crate) fn new(
        configuration: &Configuration,
        addresses: Vec<SocketAddr>,
        log: &Log,
        observer: Arc<Observer>,
    ) -> Result<Self, Failure> {
        let shares = descriptors::share_out(descriptors::limit(), &configuration.limits);
        let fair_share = FairShare::new(&shares, Some(observer.clone()));
        let (trust, _) = ClientTls::load(&trust(configuration)).map_err(unusable)?;
        let ground = &Ground {
            log: log.clone(),
            observer,
            addresses,
            fair_share: fair_share.clone(),
            trust,
            authenticator: Authenticator::default(),
        };
        let delegated: Delegated = Subsystem::build(ground, configuration)?;
        let exported_ground = ExportedGround {
            ground: ground.clone(),
            delegations: delegated.current.clone(),
        };
        let exported: Exported = Subsystem::build(&exported_ground, configuration)?;
        let transfers = Slots::sharing(fair_share.clone(), Budget::new());
        let activity = Activity::default();
        let handed_over: HandedOver = Subsystem::build(ground, configuration)?;
        let node_ground = NodeGround {
            ground: ground.clone(),
            exports: exported.exports.clone(),
            disks: exported.disks.clone(),
            budget: transfers.budget().clone(),
            activity: activity.clone(),
            hand_over: handed_over.current.clone(),
            product: PRODUCT,
        };
        let node: NodeState = Subsystem::build(&node_ground, configuration)?;
        let cms_ground = CmsGround {
            ground: ground.clone(),
            exports: exported.exports.clone(),
            node: node.clone(),
        };
        let member_ground = MemberGround {
            ground: ground.clone(),
            exports: exported.exports.clone(),
            node: node.clone(),
        };
        let report_ground = ReportGround {
            ground: ground.clone(),
            exports: exported.exports.clone(),
            node: node.clone(),
        };
        Ok(Self {
            bus: Subsystem::build(&member_ground, configuration)?,
            cms: Subsystem::build(&cms_ground, configuration)?,
            pages: Subsystem::build(ground, configuration)?,
            certificate: Subsystem::build(ground, configuration)?,
            identities: Subsystem::build(ground, configuration)?,
            trust_files: Subsystem::build(ground, configuration)?,
            handed_over,
            delegated,
            shares: Subsystem::build(ground, configuration)?,
            logged: Subsystem::build(ground, configuration)?,
            space_report: Subsystem::build(&report_ground, configuration)?,
            exported,
            node,
            activity,
            ground: ground.clone(),
            refusals: ground.observer.refusals().clone(),
            transfers,
            keys: Keys::sharing(fair_share),
        })
    }

    /// The parts, in reload order.
    pub(crate) fn parts(&self) -> [&dyn Subsystem; 13] {
        [
            &self.certificate,
            &self.trust_files,
            &self.identities,
            &self.handed_over,
            &self.delegated,
            &self.shares,
            &self.logged,
            &self.exported,
            &self.node,
            &self.space_report,
            &self.cms,
            &self.bus,
            &self.pages,
        ]
    }

    /// The site that both data doors share.
    pub(crate) fn site(&self, configuration: &Configuration) -> Site {
        let (limits, tpc) = (&configuration.limits, &configuration.tpc);
        Site {
            exports: self.exported.exports.clone(),
            tls: self.certificate.tls.get(),
            authenticator: self.ground.authenticator.clone(),
            client: peer_client(configuration, &self.ground.trust),
            transfers: self.transfers.clone(),
            activity: self.activity.clone(),
            copies: CopySettings {
                verification: choices::verification(configuration),
                streams: limits.streams,
                chosen_streams: tpc.chosen_streams,
                attempts: limits.attempts,
            },
            forward_to: ForwardTo {
                http: forward_http(&tpc.forward_to),
                root: forward_root(&tpc.forward_to),
            },
            keep: configuration.server.checksums.clone(),
            limits: endpoint::TimeLimits {
                head_timeout: limits.head_timeout,
                idle: limits.idle_timeout,
                stall: limits.stall_timeout,
                handshake: limits.tls_handshake_timeout,
            },
            server_name: PRODUCT.to_owned(),
            fair_share: self.ground.fair_share.clone(),
            refusals: self.refusals.clone(),
            events: self.ground.observer.clone(),
            telemetry: self.ground.observer.telemetry().clone(),
        }
    }

    /// The data doors of this configuration.
    pub(crate) fn doors(&self, configuration: &Configuration) -> Doors {
        let site = self.site(configuration);
        let xroot = self.xroot_settings(configuration, &site);
        Doors {
            http: door_http::Door::new(self.http_settings(configuration, &site)),
            xroot: xroot.map(door_xroot::Door::new),
        }
    }

    /// Settings of the HTTP door.
    pub(crate) fn http_settings(&self, configuration: &Configuration, site: &Site) -> door_http::Settings {
        let limits = &configuration.limits;
        door_http::Settings {
            site: site.clone(),
            hand_over: self.handed_over.current.get(),
            delegations: self.delegated.current.get(),
            pass_token_to: configuration.tpc.pass_token_to.clone(),
            node: Some(self.node.for_door()),
            space_report: Some(self.space_report.for_door()),
            macaroons: self.identities.macaroons.get(),
            limits: door_http::Limits {
                head: HeadLimits {
                    head_bytes: usize::try_from(limits.head_bytes.0).unwrap_or(usize::MAX),
                    header_count: limits.header_count as usize,
                },
                marker_period: limits.marker_period,
                checksum_wait: limits.checksum_wait,
                ..door_http::Limits::default()
            },
            authorities: authorities(configuration, &self.ground.addresses),
        }
    }

    /// Settings of the XRootD door; `None` if it is disabled.
    pub(crate) fn xroot_settings(&self, configuration: &Configuration, site: &Site) -> Option<door_xroot::Settings> {
        let xroot = &configuration.xroot;
        let demands = |tls: XrootTls| xroot.tls == tls;
        xroot.enabled.then(|| door_xroot::Settings {
            site: site.clone(),
            hand_over: self.handed_over.current.get(),
            tls_policy: TlsPolicy {
                offered: !demands(XrootTls::None),
                login: demands(XrootTls::Login) || demands(XrootTls::Data),
                session: demands(XrootTls::Session),
                data: demands(XrootTls::Data),
                ..TlsPolicy::default()
            },
            authentication: choices::authentication(configuration),
            limits: door_xroot::Limits {
                handles: xroot.handles as usize,
                ..door_xroot::Limits::default()
            },
            third_party: ThirdPartySettings {
                keys: self.keys.clone(),
                key_lifetime: configuration.tpc.key_lifetime,
                key_lifetime_max: configuration.tpc.key_lifetime_max,
            },
            delegations: self.delegated.current.get(),
            host: named_place(configuration).map(|place| place.host().to_owned()),
        })
    }
}

/// The client for storages: peers of third-party copies, and the ends of a queue's copies.
pub(crate) fn peer_client(configuration: &Configuration, trust: &ClientTls) -> Client {
    let (limits, tpc) = (&configuration.limits, &configuration.tpc);
    Client::new(ClientOptions {
        tls: trust.clone(),
        addresses: AddressPolicy {
            local: tpc.allow_local_peers,
            private: tpc.allow_private_peers,
        },
        connect: limits.connect_timeout,
        first_byte: limits.first_byte_timeout,
        stall: limits.stall_timeout,
        user_agent: PRODUCT.to_owned(),
    })
}

/// Every `host:port` that certainly means this server.
fn authorities(configuration: &Configuration, addresses: &[SocketAddr]) -> Vec<String> {
    let named = named_place(configuration).map(|place| format!("{}:{}", place.host(), place.port()));
    let listening = addresses.iter().filter(|address| !address.ip().is_unspecified());
    named.into_iter().chain(listening.map(ToString::to_string)).collect()
}

/// The location of this server by `server.name`.
pub(super) fn named_place(configuration: &Configuration) -> Option<Location> {
    let name = configuration.server.name.as_deref()?;
    Location::parse(name).ok().filter(Location::is_http)
}

#[cfg(test)]
mod tests {
    use config::Changes;

    use super::*;
    use crate::server::subsystem::{self, Change};

    #[test]
    fn an_expired_certificate_is_logged_once() {
        let site = tempfile::tempdir().unwrap();
        let path = |name: &str| site.path().join(name);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2021, 2, 3);
        std::fs::write(path("host.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::create_dir(path("data")).unwrap();
        let mut file = std::fs::OpenOptions::new();
        let file = std::os::unix::fs::OpenOptionsExt::mode(file.write(true).create(true), 0o600).open(path("host.key"));
        std::io::Write::write_all(&mut file.unwrap(), key.serialize_pem().as_bytes()).unwrap();
        let text = "[server]\ncertificate = \"host.pem\"\nkey = \"host.key\"\n[[export]]\ndirectory = \"data\"\n";
        let configuration = Configuration::parse(text, site.path(), "test").unwrap();
        let log = Log::to_file(&path("log"));
        let observer = Arc::new(Observer::new(log.clone(), Arc::default(), &configuration.log));
        let assembly = Assembly::new(&configuration, Vec::new(), &log, observer).unwrap();
        assembly.certificate.tell_expiry(&log);
        assembly.certificate.tell_expiry(&log);
        log.flush();
        let text = std::fs::read_to_string(path("log")).unwrap();
        let told: Vec<_> = text
            .lines()
            .filter(|line| line.contains("certificate_expired"))
            .collect();
        assert_eq!(told.len(), 1, "{text}");
        assert!(told[0].contains("2021-02-03"), "{text}");
    }

    #[test]
    fn hand_over_and_delegation_follow_a_reload_and_keep_their_memory_otherwise() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("data")).unwrap();
        let parse = |text: &str| {
            let text = format!("[[export]]\ndirectory = \"data\"\n{text}");
            Configuration::parse(&text, site.path(), "test").unwrap()
        };
        let log = Log::to_file(&site.path().join("log"));
        let mut now = parse("");
        let observer = Arc::new(Observer::new(log.clone(), Arc::default(), &now.log));
        let assembly = Assembly::new(&now, Vec::new(), &log, observer).unwrap();
        let mut reload = |text: &str| {
            let fresh = parse(text);
            let keys = &Changes::new(&now, &fresh, &[]);
            let change = Change {
                old: &now,
                fresh: &fresh,
                keys,
            };
            subsystem::renew(assembly.parts(), &change).unwrap();
            let new_door = keys.need_new_door();
            now = fresh;
            new_door
        };
        let hand_over = || assembly.handed_over.current.get();
        let delegations = || assembly.delegated.current.get();
        assert!(hand_over().is_none() && delegations().is_none());
        let delegation = "[delegation]\ndirectory = \"kept\"\nkey_file = \"key\"\n";
        let both = format!("{delegation}[hand_over]\nreads = true\n");
        assert!(reload(&both));
        assert!(delegations().is_some(), "delegation begins");
        let first = hand_over().expect("the hand-over begins");
        assert!(!first.settings().writes);
        assert!(!reload(&format!("{both}[log]\nrequests = false\n")));
        let same = hand_over().unwrap();
        assert!(Arc::ptr_eq(&first, &same), "nothing of it changed");
        assert!(reload(&format!("{both}writes = true\n")));
        assert!(hand_over().unwrap().settings().writes);
        assert!(reload(""));
        assert!(hand_over().is_none() && delegations().is_none());
    }
}
