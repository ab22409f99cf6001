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
    /// Names of certificates by VO.
    pub(crate) vo_maps: Vec<VoMap>,
    /// Whether the service uses these maps.
    pub(crate) uses_vo_maps: bool,
}

/// The members of a VO by the names of their certificates.
pub(crate) struct VoMap {
    pub(crate) vo: String,
    pub(crate) names: Vec<String>,
    /// Whether each line of the file was understood.
    pub(crate) is_whole: bool,
    pub(crate) source: Source,
}

impl Trust {
    fn map(&self, vo: &str) -> Option<&VoMap> {
        self.vo_maps.iter().find(|map| map.vo == vo)
    }
}

/// An access point of an area.
pub(crate) struct Place<'a> {
    path: &'a str,
    /// Access points of other areas below it, where rules of this one do not hold.
    nested: Vec<String>,
}

impl<'a> Place<'a> {
    fn new(path: &'a str, area: &Area, areas: &[Area]) -> Self {
        Self {
            path,
            nested: nested(path, area, areas),
        }
    }

    /// A rule of this area, which leaves other areas alone. `None`: it is about another area only.
    fn rule(&self, rule: NewRule) -> Option<NewRule> {
        if self.nested.iter().any(|other| is_below(&rule.path, other)) {
            return None;
        }
        let below = self.nested.iter().filter(|other| is_below(other, &rule.path));
        let except = below.cloned().collect();
        Some(NewRule { except, ..rule })
    }
}

/// Access points of other areas below a path of this one.
pub(crate) fn nested(path: &str, area: &Area, areas: &[Area]) -> Vec<String> {
    let others = areas
        .iter()
        .filter(|other| other.name != area.name)
        .flat_map(|other| &other.paths);
    others
        .filter(|other| *other != path && is_below(other, path))
        .cloned()
        .collect()
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
        let mut places = Vec::new();
        for path in &area.paths {
            if known.contains(path) {
                let words = format!("{path} is exported by another area already");
                migration.in_part(&area.source("accessPoints"), words, "Choose another path");
                continue;
            }
            known.push(path.clone());
            export(area, path, denies_anonymous, migration);
            places.push(Place::new(path, area, areas));
        }
        for place in &places {
            flat(area, place, trust, migration);
        }
        if is_fine {
            fine(area, &places, &of_area, denies_anonymous, trust, migration);
        }
        sources(area, migration);
    }
    tell_unused(areas, policies, migration);
}

/// Remarks for policies that no area uses.
fn tell_unused(areas: &[Area], policies: &[Policy], migration: &mut Migration) {
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
fn flat(area: &Area, place: &Place<'_>, trust: &Trust, migration: &mut Migration) {
    for vo in &area.vos {
        give(place, format!("vo:{vo}"), CHANGE, &area.source("vos"), migration);
    }
    if area.is_on("authenticatedReadEnabled") {
        let source = area.source("authenticatedReadEnabled");
        match trust.issuers.is_empty() {
            true => give(place, "authenticated".to_owned(), READ, &source, migration),
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
        give(place, format!("issuer:{issuer}"), may, &area.source("orgs"), migration);
    }
    if area.is_on("voMapEnabled") && trust.uses_vo_maps {
        let may = if area.is_on("voMapGrantsWritePermission") {
            CHANGE
        } else {
            READ
        };
        for map in area.vos.iter().filter_map(|vo| trust.map(vo)) {
            for name in map.names.iter().take(NAMES_MAX) {
                give(place, format!("dn:{name}"), may, &map.source, migration);
            }
            if map.names.len() > NAMES_MAX {
                let words = format!("only the first {NAMES_MAX} names became rules");
                migration.in_part(&map.source, words, "Let these clients use VOMS proxies or tokens");
            }
        }
    }
}

fn give(place: &Place<'_>, who: String, may: &[&'static str], source: &Source, migration: &mut Migration) {
    let rule = place.rule(NewRule::may(vec![who], place.path, may));
    if !rule.is_some_and(|rule| rule.add(migration, source)) {
        let words = "its names or paths cannot be written as a rule that means the same";
        migration.no_equivalent(source, words, "Write a rule by hand");
    }
}

/// Rules of the policies of an area. StoRM takes the first policy that fits a request; with us a
/// denial counts wherever it stands, unless the rules behind a permission do not hold (`last`).
fn fine(
    area: &Area,
    places: &[Place<'_>],
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
            let named = names(policy, who, denies_anonymous, trust, migration);
            is_whole &= named.is_some();
            for words in named.unwrap_or_default() {
                is_whole &= rules(policy, &words, places, is_last, migration);
            }
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

/// The words of rules for a principal. `None`: a permission cannot name them.
fn names(
    policy: &Policy,
    who: &Who,
    denies_anonymous: bool,
    trust: &Trust,
    migration: &mut Migration,
) -> Option<Vec<Vec<String>>> {
    let everyone = || vec![vec!["anyone".to_owned()]];
    match who {
        Who::Words(words) if denies_anonymous && policy.is_permit && *words == ["anyone"] => {
            Some(vec![vec!["authenticated".to_owned()]])
        }
        Who::Words(words) => Some(vec![words.clone()]),
        // Denied: they have nothing in this area. Permitted: others would get it, too.
        Who::Anonymous => (!policy.is_permit).then(Vec::new),
        // No client is mapped by its name then.
        Who::VoMap(_) if !trust.uses_vo_maps => Some(Vec::new()),
        Who::VoMap(vo) => {
            let named = |map: &VoMap| -> Vec<Vec<String>> {
                let names = map.names.iter().take(NAMES_MAX);
                names.map(|name| vec![format!("dn:{name}")]).collect()
            };
            let map = trust.map(vo);
            let is_whole = map.is_some_and(|map| map.is_whole && map.names.len() <= NAMES_MAX);
            match policy.is_permit || is_whole {
                true => map.map(named),
                false => Some(everyone()),
            }
        }
        Who::Unknown(why) => {
            migration.no_equivalent(&policy.source, why.as_str(), "Write a rule by hand");
            // A denial for clients that a rule cannot name is one for all.
            (!policy.is_permit).then(everyone)
        }
    }
}

/// Adds the rules for clients with these names. The result is `false` if a permission lacks one.
fn rules(policy: &Policy, who: &[String], places: &[Place<'_>], is_last: bool, migration: &mut Migration) -> bool {
    let mut is_whole = true;
    for place in places {
        for path in &policy.paths {
            let path = format!("{}/{}", place.path.trim_end_matches('/'), path.trim_start_matches('/'));
            let path = if path == "/" {
                path
            } else {
                path.trim_end_matches('/').to_owned()
            };
            let rule = match policy.is_permit {
                true => NewRule {
                    is_last,
                    ..NewRule::may(who.to_vec(), &path, &policy.actions.may())
                },
                false => NewRule::may_not(who.to_vec(), &path, &policy.actions.may_not()),
            };
            let Some(rule) = place.rule(rule) else { continue };
            if rule.add(migration, &policy.source) {
                continue;
            }
            is_whole = false;
            // A denial is never lost: it then holds for all, in the whole area.
            let all = NewRule::may_not(vec!["anyone".to_owned()], place.path, &policy.actions.may_not());
            let all = (!policy.is_permit).then(|| place.rule(all)).flatten();
            if let Some(all) = all {
                all.add(migration, &policy.source);
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
