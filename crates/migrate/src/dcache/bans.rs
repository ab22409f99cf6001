//! Who may not log in: `ban.conf`, revoked lines of maps, and central services for bans.

use super::maps::{Mapped, Principal, words};
use super::people::People;
use super::plugins::Stack;
use super::sessions::SessionLine;
use crate::migration::Migration;
use crate::rights::{ALL, CHANGES, NewRule, plain_path};
use crate::source::Source;

/// Short names that dCache knows for classes of names.
const CLASSES: &[(&str, &str)] = &[
    ("org.globus.gsi.gssapi.jaas.GlobusPrincipal", "dn"),
    ("org.dcache.auth.FQANPrincipal", "fqan"),
    ("org.dcache.auth.UserNamePrincipal", "username"),
    ("org.dcache.auth.LoginNamePrincipal", "name"),
    ("org.dcache.auth.GroupNamePrincipal", "group"),
    ("org.dcache.auth.OidcSubjectPrincipal", "oidc"),
    ("org.dcache.auth.OpenIdGroupPrincipal", "oidcgrp"),
    ("javax.security.auth.kerberos.KerberosPrincipal", "kerberos"),
];

/// Reads `ban.conf`: the names that are banned.
pub(crate) fn parse(file: &str, text: &str) -> Vec<Result<(Principal, Source), Source>> {
    let mut aliases: Vec<(String, String)> = Vec::new();
    let mut bans = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let source = Source::new(file, index + 1, line);
        match line.split_once(char::is_whitespace) {
            Some(("alias", rest)) => match rest.split_once('=') {
                Some((alias, class)) => aliases.push((alias.trim().to_owned(), short(class.trim()).to_owned())),
                None => bans.push(Err(source)),
            },
            Some(("ban", rest)) => {
                let whole = words(rest.trim()).filter(|words| words.len() == 1);
                let text = whole.map_or_else(|| rest.trim().to_owned(), |words| words.concat());
                match Principal::parse(&text) {
                    Some(name) => {
                        let alias = aliases.iter().find(|(alias, _)| *alias == name.kind);
                        let kind = alias.map_or(short(&name.kind), |(_, kind)| kind.as_str());
                        bans.push(Ok((Principal::new(kind, &name.value), source)));
                    }
                    None => bans.push(Err(source)),
                }
            }
            _ => bans.push(Err(source)),
        }
    }
    bans
}

fn short(class: &str) -> &str {
    CLASSES
        .iter()
        .find(|(known, _)| *known == class)
        .map_or(class, |(_, name)| name)
}

/// Writes the bans of all account plug-ins. `mapped` are all names that maps know.
pub(crate) fn write(stack: &Stack<'_>, people: &People, mapped: &[Mapped], migration: &mut Migration) {
    let of_accounts = stack.plugins.iter().filter(|plugin| plugin.phase == "account");
    for plugin in of_accounts.filter(|plugin| plugin.name == "banfile") {
        migration.taken(&plugin.source, "rules with may_not");
        if let Some((_, found)) = stack.file(plugin, "gplazma.banfile.path", migration) {
            for ban in parse(&found.name, &found.text) {
                match ban {
                    Ok((name, source)) => one(&name, &source, people, mapped, migration),
                    Err(source) => close(people, &source, "this line of bans is not understood", migration),
                }
            }
        } else {
            close_all(&plugin.source, "the file with bans was not found", migration);
        }
    }
    if let Some(plugin) = stack.find("account", "argus") {
        close_all(
            &plugin.source,
            "Argus decides who is banned, and this server does not ask it",
            migration,
        );
    }
}

fn one(name: &Principal, source: &Source, people: &People, mapped: &[Mapped], migration: &mut Migration) {
    match name.kind.as_str() {
        "username" | "group" | "uid" | "gid" => of_users(name, source, people, mapped, migration),
        // Neither kind of client can log in here at all.
        "name" | "kerberos" => migration.not_needed(source, "clients do not log in by password or Kerberos here"),
        _ => {
            let who = people.who(name);
            match who.is_ok_and(|who| NewRule::may_not(who, "/", ALL).add(migration, source)) {
                true => migration.taken(source, "a rule with may_not"),
                false => close(people, source, "this ban cannot be written as a rule", migration),
            }
        }
    }
}

/// A ban of a user or group: it holds for all whom maps give this name.
fn of_users(name: &Principal, source: &Source, people: &People, mapped: &[Mapped], migration: &mut Migration) {
    let mut banned: Vec<Vec<String>> = Vec::new();
    if name.kind == "username" || name.kind == "group" {
        banned.push(vec![format!("user:{}", name.value)]);
    }
    for (of, to, _) in mapped {
        let mut names = vec![of.clone()];
        names.extend(to.iter().cloned());
        if people.all_names(&names).contains(name) {
            // Names that no rule can say have no rights.
            banned.extend(people.who(of));
        }
    }
    for provider in &people.providers {
        let ids = [&provider.authorized, &provider.identified];
        if ids.iter().any(|id| people.all_names(id).contains(name)) {
            banned.push(vec![format!("issuer:{}", provider.url)]);
        }
    }
    banned.sort();
    banned.dedup();
    for who in banned {
        if !NewRule::may_not(who, "/", ALL).add(migration, source) {
            return close(people, source, "this ban cannot be written as a rule", migration);
        }
    }
    migration.taken(source, "rules with may_not");
}

/// Closes the server for everyone until the administrator has seen to a ban.
pub(crate) fn close_all(source: &Source, why: &str, migration: &mut Migration) {
    closing_rule("authenticated", source, why, migration);
    let words = format!("{why}; a rule closes the server for everyone with a credential");
    migration.no_equivalent(source, words, "Write bans as rules with may_not, then remove that rule");
}

/// Closes the server for tokens and certificates: any of them may be banned.
fn close(people: &People, source: &Source, why: &str, migration: &mut Migration) {
    if people.providers.is_empty() {
        return close_all(source, why, migration);
    }
    for provider in &people.providers {
        closing_rule(&format!("issuer:{}", provider.url), source, why, migration);
    }
    let words = format!("{why}; a rule closes the server for the issuers that the client may have a token of");
    migration.no_equivalent(
        source,
        words,
        "Write the ban as a rule with may_not, then remove that rule",
    );
}

fn closing_rule(who: &str, source: &Source, why: &str, migration: &mut Migration) {
    let rule = NewRule {
        note: Some(format!(
            "CLOSED: {why}. Remove this rule when the bans are written otherwise."
        )),
        ..NewRule::may_not(vec![who.to_owned()], "/", ALL)
    };
    rule.add(migration, source);
}

/// Writes what lines of `omnisession.conf` about single people take away from them: a rule for
/// their group does not know these lines.
pub(crate) fn restrict(lines: &[SessionLine], people: &People, tree: &super::exports::Tree, migration: &mut Migration) {
    for line in lines {
        let Some(of) = &line.of else { continue };
        let is_of_groups = matches!(of.kind.as_str(), "username" | "group" | "uid" | "gid");
        let said = line.attributes.as_ref();
        if is_of_groups || said.is_some_and(|said| !said.restrict()) {
            continue;
        }
        let Ok(who) = people.who(of) else {
            close(
                people,
                &line.source,
                "what this line takes away cannot be written as a rule",
                migration,
            );
            continue;
        };
        let directory = said.and_then(|said| said.directory());
        let path = directory
            .and_then(|directory| tree.url(directory))
            .and_then(|path| plain_path(&path));
        match path {
            None => drop_all(who, &line.source, migration),
            Some(path) => {
                if path != "/" {
                    let rule = NewRule {
                        except: vec![path],
                        ..NewRule::may_not(who.clone(), "/", ALL)
                    };
                    rule.add(migration, &line.source);
                }
                if said.is_some_and(|said| said.is_read_only) {
                    NewRule::may_not(who, "/", CHANGES).add(migration, &line.source);
                }
                migration.taken(&line.source, "a rule with may_not");
            }
        }
    }
}

fn drop_all(who: Vec<String>, source: &Source, migration: &mut Migration) {
    NewRule::may_not(who, "/", ALL).add(migration, source);
    let words = "these clients may do nothing, since their directory is not one of the tree";
    migration.in_part(source, words, "Change that rule if they should");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_have_classes_and_aliases() {
        let text = "alias who=org.globus.gsi.gssapi.jaas.GlobusPrincipal\nban who:/CN=a b\n\
            ban org.dcache.auth.FQANPrincipal:/vo\nban name:ernie\nban\nfree x:y\nban \"dn:/CN=c d\"\n";
        let bans = parse("ban.conf", text);
        let names: Vec<_> = bans
            .iter()
            .flatten()
            .map(|(name, _)| (&*name.kind, &*name.value))
            .collect();
        assert_eq!(
            names,
            [("dn", "/CN=a b"), ("fqan", "/vo"), ("name", "ernie"), ("dn", "/CN=c d")]
        );
        assert_eq!(bans.iter().filter(|ban| ban.is_err()).count(), 2);
    }
}
