//! The rights of an identity on a path, and those that it may hand on.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::limits::{MACAROON_EXCEPTIONS_BYTES_MAX, MACAROON_EXCEPTIONS_MAX};
use credentials::{Activities, Activity, Allowance, Credential, Exception};
use types::LogicalPath;

use crate::operation::Access;
use crate::policy::{Policy, Said};
use crate::rules::{ExportRules, export_of};
use crate::who::Person;

/// What is allowed on one path, in its parts, before the ceiling of the export.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights<'a> {
    /// What the export gives to anybody and what rules give, less what rules take.
    pub(crate) common: Activities,
    /// The same with what the token grants.
    pub(crate) all: Activities,
    /// That again, with what rules take.
    pub(crate) uncut: Activities,
    /// What rules say of the holder.
    pub(crate) said: Said<'a>,
}

impl<'a> Rights<'a> {
    /// The rights on a path of that export.
    pub(crate) fn on(
        policy: &'a Policy,
        export: &ExportRules,
        credential: &Credential,
        address: IpAddr,
        path: &str,
        granted: Activities,
    ) -> Self {
        let said = policy.said(&Person::holder(credential, address), path);
        let given = match credential.grant() {
            Some(_) => policy.said(&Person::beneficiary(credential, address), path).may,
            None => said.may,
        };
        let cut = |rights: Activities| rights.without(said.may_not);
        let common = export.anonymous.activities().union(given);
        Self {
            common: cut(common),
            all: cut(common.union(granted)),
            uncut: common.union(granted),
            said,
        }
    }
}

/// What the bearer of a credential may hand on, of what is wanted, in a macaroon for that path. A
/// macaroon reaches everything below its path: where the bearer may do less there, in deeper
/// exports and wherever a rule begins to hold, it has exceptions. Where those would be too many,
/// what they are about is not handed on at all.
///
/// One that is asked for with a macaroon hands on what that one grants, since it is the same
/// narrowed.
#[must_use]
pub fn handed_on(
    policy: &Policy,
    credential: &Credential,
    address: IpAddr,
    path: &LogicalPath,
    wanted: Activities,
) -> Allowance {
    let own = |edge: &str, deeper: Option<&ExportRules>| {
        let Some(export) = deeper.or_else(|| export_of_text(policy, edge)) else {
            return Activities::NONE;
        };
        let granted = credential
            .grant()
            .map_or(Activities::NONE, |grant| grant.activities_on(path));
        let rights = Rights::on(policy, export, credential, address, edge, granted);
        nameable(match credential {
            Credential::Macaroon(_) => rights.all.intersection(granted),
            _ => rights.all,
        })
    };
    // Ceilings of deeper exports bind the macaroon's bearer too; this one is stated now.
    let ceiling = policy.export_of(path).map_or(Activities::NONE, ExportRules::ceiling);
    let activities = own(path.as_str(), None).intersection(ceiling).intersection(wanted);
    if matches!(credential, Credential::Macaroon(_)) {
        let except = Vec::new();
        return Allowance { activities, except };
    }
    let exports = policy.exports().iter().filter(|export| export.path.is_within(path));
    let in_exports = exports.map(|export| (export.path.as_str().to_owned(), own(export.path.as_str(), Some(export))));
    let user = Person::holder(credential, address).user;
    let rules = policy.rules().iter();
    let areas = rules.flat_map(|rule| std::iter::once(&rule.area).chain(&rule.except));
    let edges = areas.filter_map(|area| area.edge_below(path, user));
    let at_edges = edges.map(|edge| {
        let rights = own(&edge, None);
        (edge, rights)
    });
    let lacking = in_exports.chain(at_edges);
    fit(
        activities,
        lacking.map(|(edge, rights)| (edge, activities.without(rights))),
    )
}

/// The exceptions from the handed-on rights that a macaroon can carry.
fn fit(mut activities: Activities, lacking: impl Iterator<Item = (String, Activities)>) -> Allowance {
    let lacking: BTreeMap<String, Activities> = lacking.filter(|(_, lacking)| !lacking.is_empty()).collect();
    loop {
        let except = exceptions(&lacking, activities);
        let bytes: usize = except.iter().map(|exception| exception.to_string().len()).sum();
        if except.len() <= MACAROON_EXCEPTIONS_MAX && bytes <= MACAROON_EXCEPTIONS_BYTES_MAX {
            return Allowance { activities, except };
        }
        let count = |one: &Activity| {
            let one = Activities::of(&[*one]);
            except
                .iter()
                .filter(|exception| exception.activities.contains(one))
                .count()
        };
        match activities.iter().max_by_key(count) {
            Some(most) => activities = activities.without(Activities::of(&[most])),
            None => return Allowance::default(),
        }
    }
}

/// None that another one says already.
fn exceptions(lacking: &BTreeMap<String, Activities>, activities: Activities) -> Vec<Exception> {
    let mut except: Vec<Exception> = Vec::new();
    for (edge, lacking) in lacking {
        let lacking = lacking.intersection(activities);
        let exception = match edge.strip_suffix('\0') {
            Some(beginning) => Some(Exception::beginning_with(lacking, beginning)),
            None => LogicalPath::parse(edge)
                .ok()
                .map(|path| Exception::below(lacking, &path)),
        };
        let exception = exception.filter(|new| !lacking.is_empty() && !except.iter().any(|known| known.covers(new)));
        except.extend(exception);
    }
    except
}

/// The export of a path that need not be one that can exist.
pub(crate) fn export_of_text<'a>(policy: &'a Policy, path: &str) -> Option<&'a ExportRules> {
    let plain = path.trim_end_matches('\0');
    export_of(policy.exports(), &LogicalPath::parse(plain).ok()?)
}

/// The activities that a macaroon can name whose every use these rights allow.
fn nameable(rights: Activities) -> Activities {
    Activity::ALL.into_iter().fold(Activities::NONE, |all, activity| {
        let one = Activities::of(&[activity]);
        let uses = Access::ALL.into_iter().filter(|access| access.is_satisfied_by(one));
        let mut uses = uses.filter(|access| *access != Access::Stat).peekable();
        let allowed = match uses.peek() {
            None => rights.contains(one),
            Some(_) => rights.contains(one) || uses.all(|access| access.is_satisfied_by(rights)),
        };
        if allowed { all.union(one) } else { all }
    })
}
