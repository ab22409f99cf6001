//! Exports and rules of storage areas.

use super::area::Area;
use super::policies::{Actions, Policy, Who};
use crate::document::DocumentKind;
use crate::migration::Migration;
use crate::rights::{CHANGE, NewRule, READ, is_below};
use crate::source::Source;

/// Most names of a map of a VO that become rules.
const NAMES_MAX: usize = 500;

/// What areas and policies refer to.
pub(crate) struct Trust {
    /// Issuers of tokens that the service trusts.
    pub(crate) issuers: Vec<String>,
    /// Names of certificates by VO, with the files that they are from.
    pub(crate) vo_maps: Vec<(String, Source, Vec<String>)>,
    /// Whether the service uses these maps.
    pub(crate) uses_vo_maps: bool,
}

/// Writes exports and rules. Rules of policies come after those of areas, in their order.
pub(crate) fn write(areas: &[Area], policies: &[Policy], trust: &Trust, migration: &mut Migration) {
    let mut known: Vec<String> = Vec::new();
    for area in areas {
        let of_area: Vec<&Policy> = policies.iter().filter(|policy| policy.area == area.name).collect();
        let is_fine = area.is_on("fineGrainedAuthzEnabled");
        let denies_anonymous = is_fine
            && of_area
                .iter()
                .any(|policy| !policy.is_permit && policy.who.contains(&Who::Anonymous));
        let mut paths = Vec::new();
        for path in &area.paths {
            if known.contains(path) {
                let words = format!("{path} is exported by another area already");
                migration.in_part(&area.source("accessPoints"), words, "Choose another path");
                continue;
            }
            known.push(path.clone());
            paths.push(path.as_str());
            export(area, path, denies_anonymous, migration);
        }
        for path in &paths {
            flat(area, path, trust, migration);
        }
        if is_fine {
            fine(area, &paths, &of_area, denies_anonymous, trust, migration);
        }
        sources(area, migration);
    }
    for policy in policies {
        let area = areas.iter().find(|area| area.name == policy.area);
        match area {
            None => {
                let words = format!("there is no area \"{}\"", policy.area);
                migration.not_needed(&policy.source, words);
            }
            Some(area) if !area.is_on("fineGrainedAuthzEnabled") => {
                let words = "its area does not use policies (fineGrainedAuthzEnabled)";
                migration.not_needed(&policy.source, words);
            }
            Some(_) => {}
        }
    }
}

fn export(area: &Area, path: &str, denies_anonymous: bool, migration: &mut Migration) {
    let source = area.source("accessPoints");
    let export = migration.document(DocumentKind::Endpoint).add("export");
    export.set("path", path, &source);
    export.set("directory", area.root.as_str(), &area.source("rootPath"));
    if !area.is_on("anonymousReadEnabled") {
        return;
    }
    let source = area.source("anonymousReadEnabled");
    if denies_anonymous {
        let words = "a policy denies something to clients without a credential, so here they may do nothing";
        return migration.in_part(
            &source,
            words,
            "Set anonymous = \"read\" and rules with may_not by hand",
        );
    }
    export.set("anonymous", "read", &source);
}

/// Rights of the settings of an area.
fn flat(area: &Area, path: &str, trust: &Trust, migration: &mut Migration) {
    for vo in &area.vos {
        add(
            NewRule::may(vec![format!("vo:{vo}")], path, CHANGE),
            &area.source("vos"),
            migration,
        );
    }
    if area.is_on("authenticatedReadEnabled") {
        let source = area.source("authenticatedReadEnabled");
        match trust.issuers.is_empty() {
            true => add(
                NewRule::may(vec!["authenticated".to_owned()], path, READ),
                &source,
                migration,
            ),
            false => {
                let words = "a rule cannot name all certificates without all tokens, so it is left out";
                let advice = "Add a rule with who = \"authenticated\" if holders of tokens may read, too";
                migration.in_part(&source, words, advice);
            }
        }
    }
    for issuer in area.issuers.iter().filter(|issuer| trust.issuers.contains(issuer)) {
        let may = match (
            area.is_on("orgsGrantReadPermission"),
            area.is_on("orgsGrantWritePermission"),
        ) {
            (true, true) => CHANGE,
            (true, false) => READ,
            // Writing takes both rights.
            (false, _) => continue,
        };
        add(
            NewRule::may(vec![format!("issuer:{issuer}")], path, may),
            &area.source("orgs"),
            migration,
        );
    }
    if area.is_on("voMapEnabled") && trust.uses_vo_maps {
        let may = if area.is_on("voMapGrantsWritePermission") {
            CHANGE
        } else {
            READ
        };
        for vo in &area.vos {
            members(vo, trust, migration, &mut |who, source, migration| {
                add(NewRule::may(who, path, may), source, migration);
            });
        }
    }
}

/// Calls for each name in the map of a VO.
fn members(
    vo: &str,
    trust: &Trust,
    migration: &mut Migration,
    each: &mut dyn FnMut(Vec<String>, &Source, &mut Migration),
) {
    let Some((_, source, names)) = trust.vo_maps.iter().find(|(name, ..)| name == vo) else {
        return;
    };
    for name in names.iter().take(NAMES_MAX) {
        each(vec![format!("dn:{name}")], source, migration);
    }
    if names.len() > NAMES_MAX {
        let words = format!("only the first {NAMES_MAX} names became rules");
        migration.in_part(source, words, "Let these clients use VOMS proxies or tokens");
    }
}

fn add(rule: NewRule, source: &Source, migration: &mut Migration) {
    if !rule.add(migration, source) {
        let words = "its names or paths cannot be written as a rule that means the same";
        migration.no_equivalent(source, words, "Write a rule by hand");
    }
}

/// Rules of the policies of an area. StoRM takes the first policy that fits a request; with us a
/// denial counts wherever it stands, unless the rules behind a permission do not hold (`last`).
fn fine(
    area: &Area,
    paths: &[&str],
    policies: &[&Policy],
    denies_anonymous: bool,
    trust: &Trust,
    migration: &mut Migration,
) {
    let has_other_rights = area.is_on("anonymousReadEnabled")
        || area.is_on("authenticatedReadEnabled")
        || !area.vos.is_empty()
        || !area.issuers.is_empty();
    let last_permit = policies.iter().rposition(|policy| policy.is_permit);
    for (index, policy) in policies.iter().enumerate() {
        let is_behind_all = last_permit.is_none_or(|last| index > last);
        if !policy.is_permit && is_behind_all && !has_other_rights {
            migration.not_needed(&policy.source, "nothing is left to deny behind all permissions");
            continue;
        }
        let denied = denied_behind(policy, &policies[index + 1..], has_other_rights);
        let is_last = policy.is_permit && policy.actions.meet(denied) && policy.actions.cover(denied);
        let mut is_whole = true;
        for who in &policy.who {
            is_whole &= one(policy, who, paths, is_last, denies_anonymous, trust, migration);
        }
        let loses = policy.is_permit && !is_last && policy.actions.meet(denied);
        match is_whole {
            true if loses => {
                let words = "rules; a denial behind it holds for the same clients here";
                migration.in_part(
                    &policy.source,
                    words,
                    "Narrow the rule of that denial if they should keep this right",
                );
            }
            true => migration.taken(&policy.source, "rules"),
            false => {
                let words = "some of its principals have no rule";
                migration.in_part(&policy.source, words, "Compare its rules, and add what is missing");
            }
        }
    }
}

/// The actions of the denials behind a permission whose paths meet its own. A permission that has
/// all of them can keep the rules of these denials away.
fn denied_behind(policy: &Policy, behind: &[&Policy], has_other_rights: bool) -> Actions {
    let last_permit = behind.iter().rposition(|later| later.is_permit);
    let meets = |later: &&&Policy| {
        let share = |a: &String, b: &String| is_below(a, b) || is_below(b, a);
        policy.paths.iter().any(|a| later.paths.iter().any(|b| share(a, b)))
    };
    let denials = behind.iter().enumerate().filter(|(index, later)| {
        !later.is_permit && (has_other_rights || last_permit.is_some_and(|last| *index < last))
    });
    let denials: Vec<&&Policy> = denials.map(|(_, later)| later).filter(meets).collect();
    denials
        .iter()
        .fold(Actions::default(), |all, later| all.union(later.actions))
}

/// Adds the rules for one principal. The result is `false` if something is missing.
fn one(
    policy: &Policy,
    who: &Who,
    paths: &[&str],
    is_last: bool,
    denies_anonymous: bool,
    trust: &Trust,
    migration: &mut Migration,
) -> bool {
    let mut named: Vec<Vec<String>> = Vec::new();
    match who {
        Who::Words(words) if denies_anonymous && policy.is_permit && *words == ["anyone"] => {
            named.push(vec!["authenticated".to_owned()]);
        }
        Who::Words(words) => named.push(words.clone()),
        // Denied: they have nothing in this area. Permitted: others would get it, too.
        Who::Anonymous => return !policy.is_permit,
        Who::VoMap(vo) if trust.uses_vo_maps => {
            members(vo, trust, migration, &mut |who, _, _| named.push(who));
        }
        Who::VoMap(_) => {}
        Who::Unknown(why) => {
            migration.no_equivalent(&policy.source, why.as_str(), "Write a rule by hand");
            if policy.is_permit {
                return false;
            }
            // A denial for clients that a rule cannot name is one for all.
            named.push(vec!["anyone".to_owned()]);
        }
    }
    let mut is_whole = true;
    for who in named {
        for area_path in paths {
            for path in &policy.paths {
                let path = format!("{}/{}", area_path.trim_end_matches('/'), path.trim_start_matches('/'));
                let path = if path == "/" {
                    path
                } else {
                    path.trim_end_matches('/').to_owned()
                };
                let rule = match policy.is_permit {
                    true => NewRule {
                        is_last,
                        ..NewRule::may(who.clone(), &path, &policy.actions.may())
                    },
                    false => NewRule::may_not(who.clone(), &path, &policy.actions.may_not()),
                };
                is_whole &= rule.add(migration, &policy.source);
            }
        }
    }
    is_whole
}

/// Remarks for the settings of an area.
fn sources(area: &Area, migration: &mut Migration) {
    for (key, words) in [
        ("name", "it names the area in policies"),
        ("rootPath", "[[export]] directory"),
        ("accessPoints", "[[export]] path"),
        ("vos", "rules"),
        ("orgs", "[[issuer]] and rules"),
        ("anonymousReadEnabled", "[[export]] anonymous"),
        ("authenticatedReadEnabled", "a rule"),
        ("voMapEnabled", "rules"),
        ("voMapGrantsWritePermission", "rules"),
        ("voMapGrantsWriteAccess", "rules"),
        ("orgsGrantReadPermission", "rules"),
        ("orgsGrantWritePermission", "rules"),
        ("wlcgScopeAuthzEnabled", "[[issuer]] base_paths"),
        ("fineGrainedAuthzEnabled", "rules"),
    ] {
        let source = area.source(key);
        let is_known = migration.remarks.iter().any(|remark| remark.source == source);
        if area.has(key) && !is_known {
            migration.taken(&source, words);
        }
    }
}
