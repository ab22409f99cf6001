//! Rights behind symbolic links: policy checks the path that a link leads to, as it checked the
//! named path.

use std::net::IpAddr;
use std::sync::Arc;

use credentials::Credential;
use policy::{Operation, Policy, Request, allows_at_most, decide};
use storage::{LinkChecker, LinkUse, refused_behind_link};
use types::{LogicalPath, Result};

use crate::clock::now_s;
use crate::own_uploads::OwnUploads;
use crate::requester::Requester;

/// The rights of a client in one export.
#[derive(Debug)]
pub(crate) struct LinkRights {
    policy: Arc<Policy>,
    own_uploads: OwnUploads,
    export: LogicalPath,
    /// `None`: a capability decides, and only the export limits it further.
    credential: Option<Result<Arc<Credential>>>,
    address: IpAddr,
}

impl LinkRights {
    /// `None` if the client has the same rights everywhere in the export, so that no link can lead
    /// to other rights. A capability is limited by the exports only.
    pub(crate) fn of(
        policy: &Arc<Policy>,
        own_uploads: &OwnUploads,
        export: &LogicalPath,
        requester: Requester<'_>,
        is_capability: bool,
    ) -> Option<Arc<dyn LinkChecker>> {
        let has_grant = || matches!(requester.credential, Ok(credential) if credential.grant().is_some());
        let is_divided = |other: &policy::ExportRules| other.path != *export && other.path.is_within(export);
        let differs = !policy.rules().is_empty() || has_grant() || policy.exports().iter().any(is_divided);
        differs.then(|| {
            Arc::new(Self {
                policy: policy.clone(),
                own_uploads: own_uploads.clone(),
                export: export.clone(),
                credential: (!is_capability).then(|| requester.credential.clone()),
                address: requester.address.to_canonical(),
            }) as Arc<dyn LinkChecker>
        })
    }

    /// The path by which a client would name it.
    fn named(&self, inner: &LogicalPath) -> Result<LogicalPath> {
        match (self.export.is_root(), inner.is_root()) {
            (true, _) => Ok(inner.clone()),
            (_, true) => Ok(self.export.clone()),
            _ => LogicalPath::parse(&format!("{}{inner}", self.export)),
        }
    }

    fn operation(&self, used: LinkUse<'_>) -> Result<Operation> {
        Ok(match used {
            LinkUse::Stat => Operation::Stat,
            LinkUse::Read => Operation::Read,
            LinkUse::List => Operation::List,
            LinkUse::Create => Operation::Create,
            LinkUse::Overwrite => Operation::Overwrite,
            LinkUse::MakeDirectory => Operation::MakeDirectory,
            LinkUse::Delete => Operation::Delete,
            LinkUse::RemoveDirectory => Operation::RemoveDirectory,
            LinkUse::ChangeMode => Operation::ChangeMode,
            LinkUse::Rename {
                asked,
                inode,
                target,
                replaces,
            } => {
                let asked = self.named(asked)?;
                let is_own = |credential| self.own_uploads.is_own(credential, &asked, inode);
                Operation::Rename {
                    target: self.named(target)?,
                    replaces,
                    own: self.credential.as_ref().is_some_and(is_own),
                }
            }
        })
    }
}

impl LinkChecker for LinkRights {
    fn check(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        let (path, operation) = (self.named(reached)?, self.operation(used)?);
        let decided = match &self.credential {
            None => allows_at_most(&self.policy, &operation, &path),
            Some(credential) => {
                let request = Request {
                    operation,
                    path,
                    client_address: self.address,
                    now_s: now_s(),
                    size_bytes: None,
                };
                let credential = credential.as_ref().map(Arc::as_ref);
                decide(&self.policy, credential, &request).into_result()
            }
        };
        // The client named another path, and must not learn where it leads.
        decided.map_err(|error| refused_behind_link(error.code()).with_private(error.public()))
    }

    fn same_rights_around(&self, path: &LogicalPath) -> Option<LogicalPath> {
        let Some(Ok(credential)) = &self.credential else {
            return None;
        };
        let tree = self
            .policy
            .same_rights_around(credential.grant(), &self.named(path).ok()?)?;
        tree.below(&self.export)
    }
}

/// The link rights of the reading and the writing side of a copy.
#[derive(Debug)]
pub(crate) struct BothEnds {
    pub(crate) reader: Option<Arc<dyn LinkChecker>>,
    pub(crate) writer: Option<Arc<dyn LinkChecker>>,
}

impl LinkChecker for BothEnds {
    fn check(&self, reached: &LogicalPath, used: LinkUse<'_>) -> Result<()> {
        let ask = |checker: &Option<Arc<dyn LinkChecker>>| match checker {
            Some(checker) => checker.check(reached, used),
            None => Ok(()),
        };
        match used {
            LinkUse::Read | LinkUse::List => ask(&self.reader),
            LinkUse::Stat => ask(&self.reader).or_else(|_| ask(&self.writer)),
            _ => ask(&self.writer),
        }
    }
}
