//! Which store answers for which path, the same for every door, replaceable while doors are open.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use policy::{ExportRules, InTheNameOf, Policy, Rule};
use types::{Error, LogicalPath};

use crate::authorize::Asker;
use crate::links::LinkRights;
use crate::locks::Locks;
use crate::own_uploads::OwnUploads;
use crate::store::Store;
use crate::users::Users;

/// One export: files under a path, and the rules for them.
#[derive(Clone, Debug)]
pub struct Export {
    /// Where it begins and who may do what there.
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
    /// Whether it matters to the stores in whose name something is done.
    has_owners: bool,
    pub(crate) own_uploads: OwnUploads,
    pub(crate) locks: Locks,
}

/// What a path stands for.
#[derive(Clone, Debug)]
pub enum Place {
    /// Within an export: the store, and the path in it.
    Stored(Spot),
    /// Above all exports: a directory that holds nothing but the way to them.
    Above(Vec<String>),
    /// Nothing is exported there.
    Nowhere,
}

/// A path within an export, and the files there as whoever asked may use them.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The files.
    pub store: Store,
    /// The path as the store knows it.
    pub path: LogicalPath,
    /// Where the export begins.
    pub export: LogicalPath,
    /// Whether directories are removed there with everything in them.
    pub recursive_delete: bool,
    /// Whether locks can be taken there.
    pub has_locks: bool,
}

impl Exports {
    /// These exports, without further rules. Of two with the same path the first counts.
    #[must_use]
    pub fn new(list: Vec<Export>) -> Self {
        Self::with_rules(list, Vec::new())
    }

    /// These exports, and the rules of who may do what in them.
    #[must_use]
    pub fn with_rules(list: Vec<Export>, rules: Vec<Rule>) -> Self {
        let exports = list.iter().map(|export| export.rules.clone()).collect();
        let has_owners = list.iter().any(|export| export.store.has_vo_quotas());
        Self {
            list,
            policy: Arc::new(Policy::new(exports, rules)),
            users: None,
            has_owners,
            own_uploads: OwnUploads::default(),
            locks: Locks::default(),
        }
    }

    /// From now on files are used with the rights of the local users in whose names it is done.
    #[must_use]
    pub fn acting_as(self, users: Option<Users>) -> Self {
        Self {
            has_owners: self.has_owners || users.is_some(),
            users,
            ..self
        }
    }

    /// The exports in their order.
    #[must_use]
    pub fn list(&self) -> &[Export] {
        &self.list
    }

    pub(crate) fn shared_policy(&self) -> Arc<Policy> {
        self.policy.clone()
    }

    /// Who may do what in them.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// An error with the path as the client named it: the store knows that path within its export only.
    #[must_use]
    pub fn shown(&self, error: Error, path: &LogicalPath) -> Error {
        let export = self.policy.export_of(path);
        let inner = export.and_then(|export| path.below(&export.path));
        match inner {
            Some(inner) if error.subject() == Some(inner.as_str()) => error.with_subject(path),
            _ => error,
        }
    }

    /// What a path stands for to whoever asks: the deepest export that holds it. The store acts in the
    /// asker's name from the first look on.
    #[must_use]
    pub fn place(&self, asker: Asker<'_>, path: &LogicalPath) -> Place {
        self.place_for(asker, false, path)
    }

    /// The same for an asker whose rights come from a capability.
    #[must_use]
    pub fn place_by_capability(&self, asker: Asker<'_>, path: &LogicalPath) -> Place {
        self.place_for(asker, true, path)
    }

    fn place_for(&self, asker: Asker<'_>, is_capability: bool, path: &LogicalPath) -> Place {
        let holding = self
            .list
            .iter()
            .rev()
            .filter(|export| path.is_within(&export.rules.path));
        let deepest = holding.max_by_key(|export| export.rules.path.as_str().len());
        if let Some(export) = deepest
            && let Some(inner) = path.below(&export.rules.path)
        {
            return Place::Stored(Spot {
                store: self.store_for(export, asker, is_capability, path),
                path: inner,
                export: export.rules.path.clone(),
                recursive_delete: export.rules.recursive_delete,
                has_locks: export.rules.has_locks(),
            });
        }
        let names = self.names_below(path);
        match (names.is_empty(), path.is_root()) {
            (true, false) => Place::Nowhere,
            _ => Place::Above(names),
        }
    }

    /// Whether another export begins below a path: what is there is not in the same store.
    #[must_use]
    pub fn begins_below(&self, path: &LogicalPath) -> bool {
        let mut paths = self.list.iter().map(|export| &export.rules.path);
        paths.any(|export| export != path && export.is_within(path))
    }

    fn store_for(&self, export: &Export, asker: Asker<'_>, is_capability: bool, path: &LogicalPath) -> Store {
        let links = LinkRights::of(
            &self.policy,
            &self.own_uploads,
            &export.rules.path,
            asker,
            is_capability,
        );
        if !self.has_owners && links.is_none() {
            return export.store.clone();
        }
        let owner = match self.has_owners {
            true => self.owner(asker, path),
            false => InTheNameOf::default(),
        };
        let users = self.users.as_ref();
        export
            .store
            .acting_for(users, owner.user.as_ref(), owner.vo.as_ref(), links)
    }

    /// The first names of the ways from `path` down to exports.
    fn names_below(&self, path: &LogicalPath) -> Vec<String> {
        let below = self.list.iter().filter_map(|export| export.rules.path.below(path));
        let names: BTreeSet<String> = below
            .filter_map(|rest| rest.components().next().map(str::to_owned))
            .collect();
        names.into_iter().collect()
    }
}

/// The exports that are valid now. Clones share them, so that a reload reaches every door.
#[derive(Clone, Debug, Default)]
pub struct SharedExports(Arc<RwLock<Arc<Exports>>>);

impl SharedExports {
    /// Begins with these.
    #[must_use]
    pub fn new(exports: Exports) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(exports))))
    }

    /// The exports of this moment. A request keeps to them until its end.
    #[must_use]
    pub fn current(&self) -> Arc<Exports> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces all exports, for the requests that come from now on.
    /// Who uploaded what, and what is locked, stays known.
    pub fn replace(&self, exports: Exports) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (own_uploads, locks) = (current.own_uploads.clone(), current.locks.clone());
        *current = Arc::new(Exports {
            own_uploads,
            locks,
            ..exports
        });
    }
}
