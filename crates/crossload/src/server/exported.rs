//! The exports of a server: their stores, rules and local users.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use config::{Configuration, Export};
use door_admin::Part;
use endpoint::{Exports, FairShare, SharedExports, Store, Users};
use net::tls::ClientTls;
use policy::{AnonymousAccess, Rule};
use serde_json::json;
use storage::{Posix, PosixOptions, SecretFiles, VoQuota};

use super::log::Log;
use super::redirecting::Redirecting;
use super::redirector_part::RedirectorPart;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use super::{exposed, rules, users};
use crate::failure::Failure;

/// Exports with equal keys share a store.
type StoreKey = (PathBuf, bool, u64, u64, Vec<VoQuota>);

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
    stores: Current<HashMap<StoreKey, Store>>,
    /// The redirector, if this server is one.
    redirecting: Current<Option<Redirecting>>,
    /// The authorities trusted when it asks nodes.
    trust: ClientTls,
    /// Files that no store serves.
    secrets: SecretFiles,
    fair_share: FairShare,
    log: Log,
}

/// The opened exports of a configuration.
struct Opened {
    /// Stores by their options.
    stores: HashMap<StoreKey, Store>,
    /// The exports, each with whether it is writable.
    exports: Vec<(endpoint::Export, bool)>,
    /// The redirector.
    redirecting: Option<Redirecting>,
    /// The rules of the policy.
    rules: Vec<Rule>,
    /// The local users, if files are used as such.
    users: Option<Users>,
    /// The server's secret files.
    secrets: Vec<PathBuf>,
}

impl Subsystem for Exported {
    type Ground = Ground;

    fn build(ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let this = Self {
            exports: SharedExports::default(),
            shown: Current::new(Vec::new()),
            disks: Current::new(Vec::new()),
            stores: Current::new(HashMap::new()),
            redirecting: Current::new(None),
            trust: ground.trust.clone(),
            secrets: SecretFiles::default(),
            fair_share: ground.fair_share.clone(),
            log: ground.log.clone(),
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
        let mut stores = HashMap::new();
        let mut exports = Vec::new();
        for export in &configuration.exports {
            let writable = is_writable(export, configuration);
            let directory = export.directory.clone();
            let quotas = users::quotas_in(configuration, &directory);
            let key = (
                directory,
                writable,
                export.quota_bytes.0,
                export.reserve_bytes.0,
                quotas,
            );
            let known = stores.get(&key).or_else(|| open.get(&key)).cloned();
            let store = match known {
                Some(store) => store,
                None => open_store(&key, &self.secrets, &self.log)?.sharing(self.fair_share.clone()),
            };
            stores.insert(key, store.clone());
            let rules = export.rules();
            exports.push((endpoint::Export { rules, store }, writable));
        }
        let running = self.redirecting.get();
        let redirecting = Redirecting::of(configuration, running, &self.trust, &self.log)?;
        let redirected = redirecting.iter().map(|this| this.export(configuration));
        exports.extend(redirected.map(|export| (export, !configuration.redirector.read_only)));
        Ok(Opened {
            stores,
            exports,
            redirecting,
            rules: rules::rules(configuration)?,
            users: users::users(configuration)?,
            secrets: exposed::secrets(configuration).collect(),
        })
    }

    fn put(&self, opened: Opened) {
        self.secrets.replace(&opened.secrets);
        // The files of a redirector are on its nodes, whose checks are their own.
        let own = opened
            .exports
            .iter()
            .filter(|(export, _)| export.store.elsewhere().is_none());
        let shown = own.map(|(export, writable)| door_admin::Export {
            path: export.rules.path.to_string(),
            store: export.store.clone(),
            writable: *writable,
        });
        self.shown.set(shown.collect());
        let writable = opened.stores.iter().filter(|(key, _)| key.1);
        let disks = writable.map(|(key, store)| Disk {
            directory: key.0.clone(),
            store: store.clone(),
        });
        self.disks.set(disks.collect());
        let exports = opened.exports.into_iter().map(|(export, _)| export).collect();
        let exports = Exports::with_rules(exports, opened.rules).acting_as(opened.users);
        self.exports.replace(exports);
        self.stores.set(opened.stores);
        self.redirecting.set(opened.redirecting);
    }

    /// What monitoring learns of the redirector.
    pub(crate) fn part(&self) -> Arc<dyn Part> {
        Arc::new(RedirectorPart(self.redirecting.clone()))
    }

    /// The options of the stores.
    #[cfg(test)]
    pub(crate) fn opened_with(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.stores.get().keys().map(|key| format!("{key:?}")).collect();
        keys.sort();
        keys
    }

    /// From what the redirector was built.
    #[cfg(test)]
    pub(crate) fn redirected_to(&self) -> String {
        format!("{:?}", self.redirecting.get())
    }
}

/// Whether any client may write to the export. If not, it needs no hidden directory.
pub(super) fn is_writable(export: &Export, configuration: &Configuration) -> bool {
    let by_rule = !configuration.rules.is_empty() || configuration.policy.authdb_file.is_some();
    let by_issuer = !configuration.issuers.is_empty() || configuration.tokens.scitokens_file.is_some();
    let by_token = configuration.macaroons.secret_file.is_some() || by_issuer;
    let by_anyone = export.anonymous == AnonymousAccess::Write;
    (by_anyone || by_token || by_rule) && !export.read_only
}

fn open_store(key: &StoreKey, secrets: &SecretFiles, log: &Log) -> Result<Store, Failure> {
    let (directory, writable, quota_bytes, reserve_bytes, vo_quotas) = key;
    let options = PosixOptions {
        writable: *writable,
        reserve_bytes: *reserve_bytes,
        quota_bytes: Some(*quota_bytes).filter(|bytes| *bytes > 0),
        vo_quotas: vo_quotas.clone(),
        secrets: secrets.clone(),
    };
    let posix = Posix::open(directory, &options).map_err(|error| {
        let failure = Failure::from(error);
        Failure {
            words: format!("export directory {}: {}", directory.display(), failure.words),
            ..failure
        }
    })?;
    let cleaned = posix.cleaned();
    log.write(
        "export_opened",
        &json!({"directory": directory, "writable": writable, "dead_servers": cleaned.instances,
            "parts_removed": cleaned.parts}),
    );
    Ok(Store::new(Arc::new(posix)))
}
