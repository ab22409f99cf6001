//! The exports of a server: their stores, rules and local users.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Configuration, Export};
use credentials::{Activities, Activity};
use door_admin::Part;
use door_web::cluster_facts::Cluster;
use endpoint::{Exports, FairShare, SharedExports, Store, Users};
use identity::delegation::Delegations;
use net::tls::ClientTls;
use policy::{AnonymousAccess, ExportRules, Rule};
use serde_json::json;
use storage::{Posix, PosixOptions, SecretFiles, VoQuota};
use types::{Error, ErrorCode, LogicalPath};

use super::caches::{Caches, CachesPart};
use super::cluster_pages::ClusterPages;
use super::log::Log;
use super::redirecting::Redirecting;
use super::redirector_part::RedirectorPart;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use super::upstream::{OpenUpstream, UpstreamKey, UpstreamPart};
use super::upstream_trial::{TrialsPart, TriedUpstream};
use super::{exposed, rules, users};
use crate::failure::Failure;

/// A directory, whether it is writable, its quota and reserve in bytes, and the quotas of VOs.
type DirectoryKey = (PathBuf, bool, u64, u64, Vec<VoQuota>);

/// Exports with equal keys share a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StoreKey {
    Directory(DirectoryKey),
    Upstream(Box<UpstreamKey>),
}

/// A store, and the other server that has its files.
#[derive(Clone)]
struct OpenStore {
    store: Store,
    upstream: Option<OpenUpstream>,
    /// Whether that server can be used; `None` if clients name it.
    tried: Option<Arc<TriedUpstream>>,
}

impl OpenStore {
    /// The same, with the credential that its files have now.
    fn renewed(self, key: &StoreKey) -> Result<Self, Failure> {
        if let (StoreKey::Upstream(key), Some(upstream)) = (key, &self.upstream) {
            key.renew(upstream)?;
        }
        Ok(self)
    }
}

/// An export whose files an upstream server has.
struct Forwarded {
    path: LogicalPath,
    upstream: Arc<TriedUpstream>,
}

/// The directory of writable exports, and its store. Exports that show the same directory with the
/// same limits are one.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) directory: PathBuf,
    pub(crate) store: Store,
}

/// The exports.
pub(crate) struct Exported {
    /// For the doors.
    pub(crate) exports: SharedExports,
    /// For the admin door.
    pub(crate) shown: Current<Vec<door_admin::Export>>,
    /// Where new files can be stored.
    pub(crate) disks: Current<Vec<Disk>>,
    stores: Current<HashMap<StoreKey, OpenStore>>,
    /// The upstream servers of exports.
    upstreams: Current<Vec<OpenUpstream>>,
    /// Those that the configuration names.
    tried: Current<Vec<Arc<TriedUpstream>>>,
    caches: Current<Caches>,
    /// The redirector, if this server is one.
    redirecting: Current<Option<Redirecting>>,
    /// The authorities trusted when it asks nodes.
    trust: ClientTls,
    /// Files that no store serves.
    secrets: SecretFiles,
    fair_share: FairShare,
    log: Log,
    /// The credentials that clients have delegated, for exports that show them.
    delegations: Current<Option<Delegations>>,
}

/// The opened exports of a configuration.
struct Opened {
    /// Stores by their options.
    stores: HashMap<StoreKey, OpenStore>,
    /// The caches in front of them.
    caches: Caches,
    /// The exports, each with whether it is writable.
    exports: Vec<(endpoint::Export, bool)>,
    /// The paths of those whose files are on this machine.
    local: Vec<LogicalPath>,
    /// The paths of the others.
    forwarded: Vec<Forwarded>,
    /// The redirector.
    redirecting: Option<Redirecting>,
    /// The rules of the policy.
    rules: Vec<Rule>,
    /// The local users, if files are used as such.
    users: Option<Users>,
    /// The server's secret files.
    secrets: Vec<PathBuf>,
}

/// What the exports are built on.
pub(crate) struct ExportedGround {
    pub(crate) ground: Ground,
    /// The credentials that clients have delegated.
    pub(crate) delegations: Current<Option<Delegations>>,
}

impl Subsystem for Exported {
    type Ground = ExportedGround;

    fn build(ground: &ExportedGround, configuration: &Configuration) -> Result<Self, Failure> {
        let ExportedGround { ground, delegations } = ground;
        let this = Self {
            exports: SharedExports::default(),
            shown: Current::new(Vec::new()),
            disks: Current::new(Vec::new()),
            stores: Current::new(HashMap::new()),
            caches: Current::new(Caches::default()),
            upstreams: Current::new(Vec::new()),
            tried: Current::new(Vec::new()),
            redirecting: Current::new(None),
            trust: ground.trust.clone(),
            secrets: SecretFiles::default(),
            fair_share: ground.fair_share.clone(),
            log: ground.log.clone(),
            delegations: delegations.clone(),
        };
        this.put(this.open(configuration)?);
        Ok(this)
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let opened = self.open(change.fresh)?;
        Ok(Box::new(move || self.put(opened)))
    }
}

impl Exported {
    /// Opens the stores of all exports. A store that is open with the same options is kept.
    fn open(&self, configuration: &Configuration) -> Result<Opened, Failure> {
        let open = self.stores.get();
        let (running_caches, mut caches) = (self.caches.get(), Caches::default());
        let mut stores: HashMap<StoreKey, OpenStore> = HashMap::new();
        let (mut exports, mut local, mut forwarded) = (Vec::new(), Vec::new(), Vec::new());
        for export in &configuration.exports {
            let writable = is_writable(export, configuration);
            let key = store_key(export, configuration, writable);
            let opened = match (stores.get(&key), open.get(&key)) {
                (Some(shared), _) => shared.clone(),
                (None, Some(known)) => known.clone().renewed(&key)?,
                (None, None) => self.open_store(&key)?,
            };
            let path = export.path.clone();
            match (opened.tried.clone(), &opened.upstream) {
                (Some(upstream), _) => forwarded.push(Forwarded { path, upstream }),
                (None, None) => local.push(path),
                // Clients name the server.
                (None, Some(_)) => {}
            }
            let store = caches.behind(export, opened.store.clone(), &running_caches, &self.log)?;
            stores.insert(key, opened);
            let rules = export.rules();
            exports.push((endpoint::Export { rules, store }, writable));
        }
        let running = self.redirecting.get();
        let redirecting = Redirecting::of(configuration, running, &self.trust, &self.log)?;
        let redirected = redirecting.iter().map(|this| this.export(configuration));
        exports.extend(redirected.map(|export| {
            let writable = export.rules.allows_changes();
            (export, writable)
        }));
        Ok(Opened {
            stores,
            caches,
            exports,
            local,
            forwarded,
            redirecting,
            rules: rules::rules(configuration)?,
            users: users::users(configuration)?,
            secrets: exposed::secrets(configuration).collect(),
        })
    }

    fn open_store(&self, key: &StoreKey) -> Result<OpenStore, Failure> {
        let (store, upstream, tried) = match key {
            StoreKey::Directory(key) => (open_directory(key, &self.secrets, &self.log)?, None, None),
            StoreKey::Upstream(key) => {
                let (store, upstream) = key.open(&self.trust, &self.delegations, &self.log)?;
                let looked_at = upstream.looked_at().cloned();
                let tried = looked_at.map(|one| Arc::new(TriedUpstream::new((**key).clone(), one)));
                (store, Some(upstream), tried)
            }
        };
        Ok(OpenStore {
            store: store.sharing(self.fair_share.clone()),
            upstream,
            tried,
        })
    }

    fn put(&self, opened: Opened) {
        opened.caches.resize();
        self.try_upstreams(&opened);
        self.secrets.replace(&opened.secrets);
        // Files on other servers are checked and counted there.
        let local: HashSet<&LogicalPath> = opened.local.iter().collect();
        let own = opened
            .exports
            .iter()
            .filter(|(export, _)| local.contains(&export.rules.path));
        let shown = own.map(|(export, writable)| door_admin::Export {
            path: export.rules.path.to_string(),
            store: export.store.clone(),
            writable: *writable,
        });
        self.shown.set(shown.collect());
        let disks = opened.stores.iter().filter_map(|(key, open)| match key {
            StoreKey::Directory((directory, true, ..)) => Some(Disk {
                directory: directory.clone(),
                store: open.store.clone(),
            }),
            StoreKey::Directory(_) | StoreKey::Upstream(_) => None,
        });
        self.disks.set(disks.collect());
        let exports = opened.exports.into_iter().map(|(export, _)| export).collect();
        let exports = Exports::with_rules(exports, opened.rules).acting_as(opened.users);
        self.exports.replace(exports);
        let upstreams = opened.stores.values().filter_map(|open| open.upstream.clone());
        self.upstreams.set(upstreams.collect());
        self.stores.set(opened.stores);
        self.caches.set(opened.caches);
        self.redirecting.set(opened.redirecting);
    }

    /// Begins to look at upstream servers, and says which exports they have.
    fn try_upstreams(&self, opened: &Opened) {
        let tried: Vec<_> = opened.stores.values().filter_map(|open| open.tried.clone()).collect();
        for upstream in &tried {
            let own = opened
                .forwarded
                .iter()
                .filter(|one| Arc::ptr_eq(&one.upstream, upstream));
            upstream.serve(own.map(|one| one.path.clone()).collect(), &self.log);
        }
        self.tried.set(tried);
    }

    /// What monitoring learns of whether upstream servers can be used.
    pub(crate) fn trials_part(&self) -> Arc<dyn Part> {
        let (local, redirecting) = (self.shown.clone(), self.redirecting.clone());
        let (upstreams, tried) = (self.upstreams.clone(), self.tried.clone());
        Arc::new(TrialsPart {
            upstreams: self.tried.clone(),
            has_others: Box::new(move || {
                let forwards = upstreams.get().len() > tried.get().len();
                forwards || !local.get().is_empty() || redirecting.get().is_some()
            }),
        })
    }

    /// What monitoring learns of upstream servers.
    pub(crate) fn upstream_part(&self) -> Arc<dyn Part> {
        Arc::new(UpstreamPart(self.upstreams.clone()))
    }

    /// What monitoring learns of the redirector.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(RedirectorPart(self.redirecting.clone()))
    }

    /// What pages show of the redirector.
    pub(crate) fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(ClusterPages(self.redirecting.clone()))
    }

    /// What monitoring learns of the caches.
    pub(crate) fn caches_part(&self) -> Arc<dyn Part> {
        Arc::new(CachesPart(self.caches.clone()))
    }

    /// The options of the stores.
    #[cfg(test)]
    pub(crate) fn opened_with(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.stores.get().keys().map(|key| format!("{key:?}")).collect();
        keys.sort();
        keys.push(self.caches.get().used_with());
        keys
    }

    /// From what the redirector was built.
    #[cfg(test)]
    pub(crate) fn redirected_to(&self) -> String {
        format!("{:?}", self.redirecting.get())
    }
}

/// Whether the store of the export is opened for changes. If no client can have a right to any, it
/// needs no hidden directory.
pub(super) fn is_writable(export: &Export, configuration: &Configuration) -> bool {
    let by_anyone = export.anonymous == AnonymousAccess::Write;
    let by_others = configuration.hand_over.takes_clients_of_others();
    let by_rule = !configuration.rules.is_empty();
    (by_anyone || by_others || by_rule || has_further_rights(configuration)) && export.rules().allows_changes()
}

/// Whether credentials, or records of an `authdb`, may give rights beside the rules.
fn has_further_rights(configuration: &Configuration) -> bool {
    let by_issuer = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    by_issuer || configuration.macaroons.secret_file.is_some() || configuration.policy.authdb_file.is_some()
}

/// Whether some client may store new files in an export, or on the nodes of a redirector.
pub(super) fn takes_files(export: &ExportRules, configuration: &Configuration) -> bool {
    let uploads = Activities::of(&[Activity::Upload, Activity::Insert]);
    let allowed = export.ceiling().intersection(uploads);
    let gives = |rule: &config::Rule| {
        let is_here = rules::meets(&rule.path.to_string(), export.path.as_str());
        is_here && !rule.may.1.intersection(allowed).is_empty()
    };
    let by_anyone = export.anonymous == AnonymousAccess::Write;
    let by_redirector = configuration.hand_over.key_file.is_some();
    let by_rule = configuration.rules.iter().any(gives);
    (by_anyone || by_redirector || by_rule || has_further_rights(configuration)) && !allowed.is_empty()
}

fn store_key(export: &Export, configuration: &Configuration, writable: bool) -> StoreKey {
    if let Some(key) = UpstreamKey::of(export, configuration) {
        return StoreKey::Upstream(Box::new(key));
    }
    let directory = export.directory.clone().unwrap_or_default();
    let quotas = users::quotas_in(configuration, &directory);
    StoreKey::Directory((
        directory,
        writable,
        export.quota_bytes.0,
        export.reserve_bytes.0,
        quotas,
    ))
}

/// The directory of an export cannot be used. No client and no rule is concerned.
fn unusable(directory: &Path, writable: bool, error: Error) -> Failure {
    let failure = match (error.code(), writable) {
        (ErrorCode::NotFound, _) => Failure::advised(&error, "Make the directory, or correct the key `directory`."),
        (ErrorCode::Forbidden, true) => Failure::advised(
            &error,
            "Let the server's user read and write there, or set read_only = true in [[export]].",
        ),
        (ErrorCode::Forbidden, false) => Failure::advised(&error, "Let the server's user read the directory."),
        _ => error.into(),
    };
    Failure {
        words: format!("export directory {}: {}", directory.display(), failure.words),
        ..failure
    }
}

fn open_directory(key: &DirectoryKey, secrets: &SecretFiles, log: &Log) -> Result<Store, Failure> {
    let (directory, writable, quota_bytes, reserve_bytes, vo_quotas) = key;
    let options = PosixOptions {
        writable: *writable,
        reserve_bytes: *reserve_bytes,
        quota_bytes: Some(*quota_bytes).filter(|bytes| *bytes > 0),
        vo_quotas: vo_quotas.clone(),
        secrets: secrets.clone(),
    };
    let posix = Posix::open(directory, &options).map_err(|error| unusable(directory, *writable, error))?;
    let cleaned = posix.cleaned();
    log.write(
        "export_opened",
        &json!({"directory": directory, "writable": writable, "dead_servers": cleaned.instances,
            "parts_removed": cleaned.parts}),
    );
    Ok(Store::new(Arc::new(posix)))
}

#[cfg(test)]
mod tests {
    use types::{Phase, Side};

    use super::*;
    use crate::failure::Reader;

    #[test]
    fn a_directory_that_cannot_be_used_is_no_matter_of_rules() {
        let said = |code, writable| {
            let error = Error::new(code, Side::Active, Phase::Open).with_subject("/d");
            let failure = unusable(Path::new("/d"), writable, error);
            failure.message(Reader::Administrator)
        };
        let missing = said(ErrorCode::NotFound, true);
        assert!(
            missing.starts_with("export directory /d: ") && missing.contains("Make the directory"),
            "{missing}"
        );
        let closed = said(ErrorCode::Forbidden, true);
        assert!(
            closed.contains("read_only = true") && !closed.contains("explain"),
            "{closed}"
        );
        let unreadable = said(ErrorCode::Forbidden, false);
        assert!(
            !unreadable.contains("read_only") && !unreadable.contains("explain"),
            "{unreadable}"
        );
    }

    #[test]
    fn an_export_is_writable_where_its_ceiling_has_a_change() {
        let writable = |export: &str, more: &str| {
            let text = format!("[[export]]\npath = \"/data\"\ndirectory = \"/d\"\n{export}\n{more}");
            let configuration = Configuration::parse(&text, Path::new("/etc"), "c.toml").unwrap();
            is_writable(&configuration.exports[0], &configuration)
        };
        let tokens = "[macaroons]\nsecret_file = \"s\"\n";
        assert!(!writable("", "") && writable("", tokens));
        assert!(writable("anonymous = \"write\"", ""));
        let key = "[hand_over]\nkey_file = \"k\"\n";
        assert!(!writable("", key) && writable("", &format!("{key}accept_as = \"https://d1.example:1094\"\n")));
        assert!(!writable("read_only = true", tokens));
        assert!(!writable("ceiling = [\"read\"]", tokens));
        assert!(!writable(
            "anonymous = \"write\"\nceiling = [\"read\", \"stage\"]",
            tokens
        ));
        for ceiling in ["create", "delete", "write"] {
            assert!(
                writable(&format!("ceiling = [\"read\", \"{ceiling}\"]"), tokens),
                "{ceiling}"
            );
        }
    }

    #[test]
    fn an_export_takes_files_where_someone_may_store_them() {
        let takes = |export: &str, more: &str| {
            let text = format!("[[export]]\npath = \"/data\"\ndirectory = \"/d\"\n{export}\n{more}");
            let configuration = Configuration::parse(&text, Path::new("/etc"), "c.toml").unwrap();
            takes_files(&configuration.exports[0].rules(), &configuration)
        };
        let rule = |lines: &str| format!("[[rule]]\nwho = \"anyone\"\n{lines}\n");
        let open = "anonymous = \"write\"\n";
        assert!(!takes("", ""));
        assert!(takes(open, ""));
        assert!(!takes(&format!("{open}read_only = true"), ""));
        assert!(!takes(&format!("{open}ceiling = [\"read\", \"delete\"]"), ""));
        assert!(takes(&format!("{open}ceiling = [\"read\", \"create\"]"), ""));
        assert!(takes("", &rule("may = [\"write\"]")));
        assert!(takes("", &rule("path = \"/data/a*\"\nmay = [\"create\"]")));
        for given in [
            "may = [\"read\", \"stage\"]",
            "may_not = [\"write\"]",
            "path = \"/other\"\nmay = [\"write\"]",
        ] {
            assert!(!takes("", &rule(given)), "{given}");
        }
        assert!(takes("", "[macaroons]\nsecret_file = \"s\"\n"));
        assert!(takes("", "[hand_over]\nkey_file = \"k\"\n"));
        assert!(!takes("ceiling = [\"read\"]", "[macaroons]\nsecret_file = \"s\"\n"));
    }
}
