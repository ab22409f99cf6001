//! The store for each path: the same for all doors, replaceable while they run.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use credentials::capability;
use policy::{Explanation, ExportRules, InTheNameOf, Policy, Rule};
use types::{Error, LogicalPath};

use crate::drain::DrainGate;
use crate::export_path::ExportPath;
use crate::links::LinkRights;
use crate::locks::Locks;
use crate::name_changes::NameChanges;
use crate::own_uploads::OwnUploads;
use crate::requester::Requester;
use crate::store::Store;
use crate::upstream::{UpstreamFacts, explain_upstream};
use crate::users::Users;

/// One export: files below a path, and the rules for them.
#[derive(Clone, Debug)]
pub struct Export {
    /// The path, and who may do what there.
    pub rules: ExportRules,
    /// The files.
    pub store: Store,
}

/// All exports of a server.
#[derive(Debug, Default)]
pub struct Exports {
    list: Vec<Export>,
    policy: Arc<Policy>,
    users: Option<Users>,
    /// Whether the stores need to know for whom each operation runs.
    has_owners: bool,
    /// Whether files of any of them are on another server.
    has_upstreams: bool,
    pub(crate) own_uploads: OwnUploads,
    pub(crate) locks: Locks,
    pub(crate) name_changes: NameChanges,
    pub(crate) drain_gate: DrainGate,
}

/// What a path refers to.
#[derive(Clone, Debug)]
pub enum PathTarget {
    /// Inside an export: the store, and the path in it.
    Stored(ExportPath),
    /// Above all exports: a directory that contains only the way to them.
    Above(Vec<String>),
    /// Not exported.
    Nowhere,
}

impl Exports {
    /// Exports without further rules. If two have the same path, the first wins.
    #[must_use]
    pub fn new(list: Vec<Export>) -> Self {
        Self::with_rules(list, Vec::new())
    }

    /// Exports, and rules about who may do what in them.
    #[must_use]
    pub fn with_rules(list: Vec<Export>, rules: Vec<Rule>) -> Self {
        let exports = list.iter().map(|export| export.rules.clone()).collect();
        let has_upstreams = list.iter().any(|export| export.store.upstream().is_some());
        let has_owners = list.iter().any(|export| export.store.has_vo_quotas());
        Self {
            list,
            policy: Arc::new(Policy::new(exports, rules)),
            users: None,
            has_owners,
            has_upstreams,
            own_uploads: OwnUploads::default(),
            locks: Locks::default(),
            name_changes: NameChanges::default(),
            drain_gate: DrainGate::default(),
        }
    }

    /// Uses files with the rights of the local users that clients are mapped to.
    #[must_use]
    pub fn acting_as(self, users: Option<Users>) -> Self {
        Self {
            has_owners: self.has_owners || users.is_some(),
            users,
            ..self
        }
    }

    /// The exports in order.
    #[must_use]
    pub fn list(&self) -> &[Export] {
        &self.list
    }

    /// The names that are stored and removed, through every door.
    #[must_use]
    pub fn name_changes(&self) -> &NameChanges {
        &self.name_changes
    }

    /// What is refused because the server is drained. Requests whose rights come from a capability
    /// ask it themselves; [`Exports::authorize`] does for all others.
    #[must_use]
    pub fn drain_gate(&self) -> &DrainGate {
        &self.drain_gate
    }

    /// The deepest export that contains the path, and the path in it.
    #[must_use]
    pub fn export_of(&self, path: &LogicalPath) -> Option<(&Export, LogicalPath)> {
        let holding = self.list.iter().rev();
        let holding = holding.filter_map(|export| Some((export, path.below(&export.rules.path)?)));
        holding.max_by_key(|(export, _)| export.rules.path.as_str().len())
    }

    pub(crate) fn shared_policy(&self) -> Arc<Policy> {
        self.policy.clone()
    }

    /// Who may do what in them.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The error with the path that the client used; the store knows only the path in its export.
    #[must_use]
    pub fn with_client_path(&self, error: Error, path: &LogicalPath) -> Error {
        let export = self.policy.export_of(path);
        let inner = export.and_then(|export| path.below(&export.path));
        match inner {
            Some(inner) if error.subject() == Some(inner.as_str()) => error.with_subject(path),
            _ => error,
        }
    }

    /// The deepest export that contains the path. The store acts for this client from the first
    /// access on.
    #[must_use]
    pub fn place(&self, requester: Requester<'_>, path: &LogicalPath) -> PathTarget {
        self.place_for(requester, None, path)
    }

    /// The same for a client whose rights come from a capability. It acts in the holder's name.
    #[must_use]
    pub fn place_by_capability(
        &self,
        requester: Requester<'_>,
        holder: &capability::Holder,
        path: &LogicalPath,
    ) -> PathTarget {
        self.place_for(requester, Some(holder), path)
    }

    fn place_for(
        &self,
        requester: Requester<'_>,
        holder: Option<&capability::Holder>,
        path: &LogicalPath,
    ) -> PathTarget {
        if let Some((export, inner)) = self.export_of(path) {
            return PathTarget::Stored(ExportPath {
                store: self.store_for(export, requester, holder, path),
                path: inner,
                export: export.rules.path.clone(),
                recursive_delete: export.rules.recursive_delete,
                has_locks: export.rules.has_locks(),
            });
        }
        let names = self.names_below(path);
        match (names.is_empty(), path.is_root()) {
            (true, false) => PathTarget::Nowhere,
            _ => PathTarget::Above(names),
        }
    }

    /// Whether another export begins below a path, so that the tree spans several stores.
    #[must_use]
    pub fn begins_below(&self, path: &LogicalPath) -> bool {
        let mut paths = self.list.iter().map(|export| &export.rules.path);
        paths.any(|export| export != path && export.is_within(path))
    }

    /// The store of an export for this client, with what the other server is shown that has the
    /// files.
    fn store_for(
        &self,
        export: &Export,
        requester: Requester<'_>,
        holder: Option<&capability::Holder>,
        path: &LogicalPath,
    ) -> Store {
        let store = self.owned_store(export, requester, holder, path);
        let Some(upstream) = export.store.upstream().filter(|upstream| upstream.depends_on_client()) else {
            return store;
        };
        let client = requester.upstream(holder, self.owner_by(requester, holder, path));
        store.with_client(
            upstream
                .credential(&client)
                .map(|shown| shown.map(Arc::new))
                .transpose(),
        )
    }

    /// The path as rules and tokens have it, if the client wrote it otherwise: where it names a
    /// server, there are several ways.
    #[must_use]
    pub fn respelled(&self, path: &LogicalPath) -> Option<LogicalPath> {
        let (export, inner) = self.has_upstreams.then(|| self.export_of(path))??;
        let plain = export.store.upstream()?.plain_path(&inner)?;
        let plain = plain.under(&export.rules.path);
        (plain != *path).then_some(plain)
    }

    /// Who the client is at the server that has the files of a path; `None` if this one has them.
    /// `holder` is that of the capability by which the client acts.
    #[must_use]
    pub fn upstream_facts(
        &self,
        requester: Requester<'_>,
        holder: Option<&capability::Holder>,
        path: &LogicalPath,
    ) -> Option<UpstreamFacts> {
        if !self.has_upstreams {
            return None;
        }
        let (export, inner) = self.export_of(path)?;
        let client = requester.upstream(holder, self.owner_by(requester, holder, path));
        export.store.upstream()?.facts(&client, &inner)
    }

    /// The explanation of a decision, with what it means that another server has the file.
    pub(crate) fn explained(
        &self,
        requester: Requester<'_>,
        path: &LogicalPath,
        explanation: Explanation,
    ) -> Explanation {
        let Some((export, inner)) = self.export_of(path) else {
            return explanation;
        };
        match export.store.upstream() {
            None => explanation,
            Some(upstream) => {
                let client = requester.upstream(None, self.owner(requester, path));
                explain_upstream(explanation, upstream, &client, &inner)
            }
        }
    }

    /// In whose name a client uses a path.
    fn owner_by(
        &self,
        requester: Requester<'_>,
        holder: Option<&capability::Holder>,
        path: &LogicalPath,
    ) -> InTheNameOf {
        let mut owner = self.owner(requester, path);
        if let Some(holder) = holder {
            owner.user = holder.user.as_deref().map(Arc::from).or(owner.user);
            owner.vo = holder.vo.as_deref().map(Arc::from).or(owner.vo);
        }
        owner
    }

    fn owned_store(
        &self,
        export: &Export,
        requester: Requester<'_>,
        holder: Option<&capability::Holder>,
        path: &LogicalPath,
    ) -> Store {
        let links = LinkRights::of(
            &self.policy,
            &self.own_uploads,
            &export.rules.path,
            requester,
            holder.is_some(),
        );
        if !self.has_owners && links.is_none() {
            return export.store.clone();
        }
        let owner = match (self.has_owners, holder) {
            (false, None) => InTheNameOf::default(),
            _ => self.owner_by(requester, holder, path),
        };
        let users = self.users.as_ref();
        export
            .store
            .acting_for(users, owner.user.as_ref(), owner.vo.as_ref(), links)
    }

    /// The first components of the paths from `path` down to exports.
    fn names_below(&self, path: &LogicalPath) -> Vec<String> {
        let below = self.list.iter().filter_map(|export| export.rules.path.below(path));
        let names: BTreeSet<String> = below
            .filter_map(|rest| rest.components().next().map(str::to_owned))
            .collect();
        names.into_iter().collect()
    }
}

/// The current exports. Clones share them, so that a reload reaches every door.
#[derive(Clone, Debug, Default)]
pub struct SharedExports(Arc<RwLock<Arc<Exports>>>);

impl SharedExports {
    /// Starts with these exports.
    #[must_use]
    pub fn new(exports: Exports) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(exports))))
    }

    /// The exports right now. A request keeps these until its end.
    #[must_use]
    pub fn current(&self) -> Arc<Exports> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces all exports for later requests. Locks, who uploaded which file, the receivers of
    /// changed names, and what is refused because the server is drained are carried over.
    pub fn replace(&self, exports: Exports) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(Exports {
            own_uploads: current.own_uploads.clone(),
            locks: current.locks.clone(),
            name_changes: current.name_changes.clone(),
            drain_gate: current.drain_gate.clone(),
            ..exports
        });
    }
}
