//! What operations on whole trees take beside the rights at their names: the same must be allowed
//! wherever a rule, an export or a scope begins to hold below. Of a rename, nothing may come to
//! where its mover can read it who could not read it where it was.

use std::collections::BTreeSet;

use credentials::{Activities, Credential};
use types::{ErrorCode, LogicalPath};

use crate::decide::{Request, Trail, refuse};
use crate::operation::Access;
use crate::policy::Policy;
use crate::rights::{Rights, export_of_text};
use crate::rules::ExportRules;
use crate::who::Person;

/// Checks both trees. The rights at the two names themselves have been checked before.
pub(crate) fn check(
    policy: &Policy,
    credential: &Credential,
    request: &Request,
    target: &LogicalPath,
    own: bool,
    trail: &mut Trail,
) -> Result<(), ErrorCode> {
    let move_ = Tree {
        policy,
        credential,
        request,
    };
    let away = if own { Access::MoveOwn } else { Access::MoveAway };
    let user = Person::holder(credential, request.client_address).user;
    let mut below: BTreeSet<String> = edges(policy, credential, user, &request.path).collect();
    below.extend(edges(policy, credential, user, target));
    for edge in &below {
        move_.check(away, &join(&request.path, edge), trail)?;
        move_.check(Access::MoveHere, &join(target, edge), trail)?;
    }
    if own {
        return Ok(());
    }
    for edge in std::iter::once("").chain(below.iter().map(String::as_str)) {
        for access in [Access::Read, Access::List] {
            if move_.allows(access, &join(target, edge)) {
                move_.check(access, &join(&request.path, edge), trail)?;
            }
        }
    }
    Ok(())
}

/// Checks everything below a path. The rights at the path itself have been checked before.
pub(crate) fn check_tree(
    policy: &Policy,
    credential: &Credential,
    request: &Request,
    accesses: &[Access],
    trail: &mut Trail,
) -> Result<(), ErrorCode> {
    if accesses.is_empty() {
        return Ok(());
    }
    let tree = Tree {
        policy,
        credential,
        request,
    };
    let user = Person::holder(credential, request.client_address).user;
    for edge in edges(policy, credential, user, &request.path) {
        for access in accesses {
            tree.check(*access, &join(&request.path, &edge), trail)?;
        }
    }
    Ok(())
}

/// The rights of an identity everywhere below a path.
pub(crate) struct Tree<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) credential: &'a Credential,
    pub(crate) request: &'a Request,
}

impl<'a> Tree<'a> {
    /// Whether something is allowed at an edge below the path.
    pub(crate) fn allows_at(&self, access: Access, edge: &str) -> bool {
        self.allows(access, &join(&self.request.path, edge))
    }

    fn rights(&self, path: &str) -> Option<(&'a ExportRules, Activities, Rights<'a>)> {
        let export = export_of_text(self.policy, path)?;
        let granted = match (self.credential.grant(), plain(path)) {
            (Some(grant), Some(plain)) => grant.named_on(&plain).without(grant.excepted_on(path)),
            _ => Activities::NONE,
        };
        let address = self.request.client_address;
        let rights = Rights::on(self.policy, export, self.credential, address, path, granted);
        Some((export, granted, rights))
    }

    fn allows(&self, access: Access, path: &str) -> bool {
        let rights = self.rights(path);
        rights.is_some_and(|(export, _, rights)| access.is_satisfied_below(export.ceiling(), rights.all))
    }

    fn check(&self, access: Access, path: &str, trail: &mut Trail) -> Result<(), ErrorCode> {
        if self.allows(access, path) {
            return Ok(());
        }
        let (Some((export, granted, rights)), Some(plain)) = (self.rights(path), plain(path)) else {
            return Err(ErrorCode::Forbidden);
        };
        Err(refuse(export, self.credential, access, &plain, granted, rights, trail))
    }
}

/// Where below a path the rights of an identity may differ, relative to the path.
pub(crate) fn edges(
    policy: &Policy,
    credential: &Credential,
    user: Option<&str>,
    path: &LogicalPath,
) -> impl Iterator<Item = String> {
    let areas = policy
        .rules()
        .iter()
        .flat_map(|rule| std::iter::once(&rule.area).chain(&rule.except));
    let of_rules = areas.filter_map(|area| area.edge_below(path, user));
    let inside = |other: &LogicalPath| other.is_within(path).then(|| other.as_str().to_owned());
    let of_exports = policy.exports().iter().filter_map(|export| inside(&export.path));
    let scopes = credential.grant().map_or(&[][..], |grant| &grant.scopes);
    let of_scopes = scopes.iter().filter_map(|scope| inside(&scope.path));
    let except = credential.grant().map_or(&[][..], |grant| &grant.except);
    let of_exceptions = except.iter().filter_map(|exception| {
        let edge = exception.edge();
        let above = path.as_str().trim_end_matches('/');
        edge.strip_prefix(above)
            .is_some_and(|rest| rest.starts_with('/'))
            .then_some(edge)
    });
    let length = if path.is_root() { 0 } else { path.as_str().len() };
    let all = of_rules.chain(of_exports).chain(of_scopes).chain(of_exceptions);
    let relative = all.map(|edge| edge[length..].to_owned());
    relative.filter(|edge| !edge.is_empty()).collect::<Vec<_>>().into_iter()
}

fn join(path: &LogicalPath, edge: &str) -> String {
    match path.is_root() {
        true => edge.to_owned(),
        false => format!("{path}{edge}"),
    }
}

/// The nearest path that something can have: an edge may lie just inside of a directory.
fn plain(path: &str) -> Option<LogicalPath> {
    LogicalPath::parse(path.trim_end_matches('\0')).ok()
}
