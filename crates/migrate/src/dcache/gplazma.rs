//! Who clients are, and what they may do: from gPlazma's stack of plug-ins to our sections.

use super::bans;
use super::exports::Tree;
use super::maps::{self, Mapped, NameLine, Principal, Read};
use super::people::People;
use super::plugins::{Plugin, Stack};
use super::sessions;
use super::tokens;
use crate::document::DocumentKind;
use crate::migration::{Migration, TextFile};
use crate::rights::{ALL, NewRule};

/// The copy of a `grid-vorolemap` without lines that would mean more here.
const CLEAN_MAP: &str = "voms-mapfile";

/// Plug-ins that take names of users from the system or from a directory service.
const SYSTEM_USERS: &[&str] = &["nsswitch", "ldap", "nis"];

/// Translates the stack.
pub(crate) fn write(stack: &Stack<'_>, tree: &Tree, migration: &mut Migration) {
    certificates(stack, migration);
    tokens::audiences(stack, migration);
    let mut people = People {
        providers: tokens::providers(stack, migration),
        has_system_users: stack.has("map", SYSTEM_USERS),
        ..People::default()
    };
    let names = read_maps(stack, &mut people, migration);
    bans::write(stack, &people, &names, migration);
    if let Some(lines) = &people.sessions.lines {
        bans::restrict(lines, &people, tree, migration);
    }
    for (of, to, source) in &names {
        people.add(of, to, source, tree, migration);
    }
    // Behind the rules for single people: the first rule that names a user decides.
    issuers(&people, tree, migration);
    for line in people.lines.iter().filter(|line| line.of.kind == "username") {
        migration.taken(&line.source, "the users of rules");
    }
    others(stack, migration);
}

fn certificates(stack: &Stack<'_>, migration: &mut Migration) {
    let x509 = stack.find("auth", "x509").or_else(|| stack.find("auth", "voms"));
    let Some(plugin) = x509 else { return };
    let directory = stack.setting(plugin, "gplazma.vomsdir.ca");
    let directory = directory.unwrap_or_else(|| "/etc/grid-security/certificates".to_owned());
    migration.set(
        DocumentKind::Endpoint,
        "x509.trust_directory",
        directory,
        &plugin.source,
    );
    migration.taken(&plugin.source, "x509.trust_directory");
    let mode = stack.layout.value(stack.cell, "dcache.authn.crl-mode").ok().flatten();
    let (text, source) = mode.map_or((String::new(), None), |mode| (mode.text, mode.source));
    let source = source.unwrap_or_else(|| plugin.source.clone());
    match text.as_str() {
        "REQUIRE" => {
            migration.set(DocumentKind::Endpoint, "x509.revocation", "required", &source);
        }
        "IGNORE" => {
            let words = "revoked certificates are refused here, where their authority has a list";
            migration.in_part(&source, words, "Nothing to do, or set [x509] revocation = \"off\"");
        }
        _ => {}
    }
    let ocsp = stack.layout.value(stack.cell, "dcache.authn.ocsp-mode").ok().flatten();
    if let Some(source) = ocsp.filter(|mode| mode.text == "REQUIRE").and_then(|mode| mode.source) {
        migration.set(DocumentKind::Endpoint, "x509.revocation", "required", &source);
        let words = "OCSP is not asked; instead each authority needs a current revocation list";
        migration.in_part(&source, words, "Run fetch-crl");
    }
    if let Some(voms) = stack.find("auth", "voms") {
        let directory = stack.setting(voms, "gplazma.vomsdir.dir");
        let directory = directory.unwrap_or_else(|| "/etc/grid-security/vomsdir".to_owned());
        migration.set(DocumentKind::Endpoint, "x509.voms_directory", directory, &voms.source);
        migration.taken(&voms.source, "x509.voms_directory");
    }
}

/// Reads the files of all plug-ins. What each line maps is added to rules later.
fn read_maps(stack: &Stack<'_>, people: &mut People, migration: &mut Migration) -> Vec<Mapped> {
    let mut names = Vec::new();
    for plugin in stack.plugins.iter().filter(|plugin| plugin.phase == "map") {
        match plugin.name.as_str() {
            "vorolemap" => role_map(stack, plugin, &mut names, migration),
            "gridmap" => grid_map(stack, plugin, &mut names, migration),
            "multimap" => multi_map(stack, plugin, people, &mut names, migration),
            "authzdb" => {
                if let Some((_, found)) = stack.file(plugin, "gplazma.authzdb.file", migration) {
                    let read = known(maps::authzdb(&found.name, &found.text), migration);
                    for account in &read {
                        migration.taken(&account.source, "a user of rules");
                    }
                    people.accounts.extend(read);
                    migration.taken(&plugin.source, "the users of rules");
                }
            }
            "kpwd" => kpwd(stack, plugin, people, &mut names, migration),
            _ => {}
        }
    }
    for plugin in stack.plugins.iter().filter(|plugin| plugin.phase == "session") {
        match plugin.name.as_str() {
            "authzdb" => {
                if let Some((_, found)) = stack.file(plugin, "gplazma.authzdb.file", migration) {
                    let read = maps::authzdb(&found.name, &found.text);
                    people.sessions.accounts.extend(read.into_iter().flatten());
                    migration.taken(&plugin.source, "the paths of rules");
                }
            }
            "kpwd" => {
                if let Some((_, found)) = stack.file(plugin, "gplazma.kpwd.file", migration) {
                    people.sessions.accounts.extend(maps::kpwd(&found.name, &found.text).0);
                }
            }
            "omnisession" => {
                // Without the file, no client has a session.
                let found = stack.file(plugin, "gplazma.omnisession.file", migration);
                let lines = found.map_or_else(Vec::new, |(_, found)| sessions::parse(&found.name, &found.text));
                people.sessions.lines.get_or_insert_default().extend(lines);
                migration.taken(&plugin.source, "the paths of rules");
            }
            _ => {}
        }
    }
    names
}

/// The lines that are understood. The others are remarks.
fn known<T>(read: Vec<Read<T>>, migration: &mut Migration) -> Vec<T> {
    let mut known = Vec::new();
    for line in read {
        match line {
            Ok(line) => known.push(line),
            Err(source) => migration.unknown(&source, "this line is not understood", "Correct it, or write a rule"),
        }
    }
    known
}

fn role_map(stack: &Stack<'_>, plugin: &Plugin, names: &mut Vec<Mapped>, migration: &mut Migration) {
    let Some((path, found)) = stack.file(plugin, "gplazma.vorolemap.file", migration) else {
        return;
    };
    let lines = known(maps::role_map(&found.name, &found.text), migration);
    let means_more = |line: &NameLine| line.fqan.as_ref().is_none_or(|fqan| fqan.contains('*'));
    let file = match lines.iter().any(means_more) {
        false => path,
        true => {
            let (name, text) = (CLEAN_MAP.to_owned(), clean(&lines, migration));
            migration.texts.push(TextFile { name, text });
            CLEAN_MAP.to_owned()
        }
    };
    migration.set(DocumentKind::Endpoint, "x509.voms_map_file", file, &plugin.source);
    migration.taken(&plugin.source, "x509.voms_map_file");
    users(&lines, "group", names, migration);
}

/// The map in our format: `*` in an attribute is a star in dCache and a pattern here, and a line
/// without an attribute holds for all of them.
fn clean(lines: &[NameLine], migration: &mut Migration) -> String {
    let mut text = format!(
        "# Made by \"crossload migrate\" from {} lines of a grid-vorolemap.\n",
        lines.len()
    );
    for line in lines {
        let has_star = line.fqan.as_ref().is_some_and(|fqan| fqan.contains('*'));
        let is_plain = !line.dn.contains('"') && credentials::is_user_name(&line.user);
        if has_star {
            let words = "a star in an attribute is no pattern in dCache, so this line fits no client there";
            migration.not_needed(&line.source, words);
        } else if is_plain {
            let fqan = line.fqan.as_deref().unwrap_or("/*");
            text.push_str(&format!("\"{}\" \"{fqan}\" {}\n", line.dn, line.user));
        }
    }
    text
}

fn grid_map(stack: &Stack<'_>, plugin: &Plugin, names: &mut Vec<Mapped>, migration: &mut Migration) {
    let Some((path, found)) = stack.file(plugin, "gplazma.gridmap.file", migration) else {
        return;
    };
    let lines = known(maps::grid_map(&found.name, &found.text), migration);
    migration.set(DocumentKind::Endpoint, "x509.grid_map_file", path, &plugin.source);
    migration.taken(&plugin.source, "x509.grid_map_file");
    users(&lines, "username", names, migration);
}

/// A rule for each user that lines name, and one against each client with `-`.
fn users(lines: &[NameLine], kind: &str, names: &mut Vec<Mapped>, migration: &mut Migration) {
    for line in lines {
        if line.user == "-" {
            revoked(line, migration);
            continue;
        }
        let of = Principal::new(kind, &line.user);
        if names.iter().all(|(known, _, _)| *known != of) {
            let to = vec![Principal::new("username", &line.user)];
            names.push((of, to, line.source.clone()));
        }
    }
}

/// A line against clients. One that cannot be written exactly takes more.
fn revoked(line: &NameLine, migration: &mut Migration) {
    let mut who = Vec::new();
    if !line.dn.contains('*') {
        who.push(format!("dn:{}", line.dn));
    }
    who.extend(line.fqan.as_ref().map(|fqan| format!("fqan:{fqan}")));
    match NewRule::may_not(who, "/", ALL).add(migration, &line.source) {
        true => migration.taken(&line.source, "a rule with may_not"),
        false => bans::close_all(
            &line.source,
            "this line against clients cannot be written as a rule",
            migration,
        ),
    }
}

fn multi_map(
    stack: &Stack<'_>,
    plugin: &Plugin,
    people: &mut People,
    names: &mut Vec<Mapped>,
    migration: &mut Migration,
) {
    let Some((_, found)) = stack.file(plugin, "gplazma.multimap.file", migration) else {
        return;
    };
    let lines = known(maps::multi_map(&found.name, &found.text), migration);
    for line in &lines {
        let is_inner = matches!(line.of.kind.as_str(), "username" | "group" | "uid" | "gid");
        if !is_inner {
            names.push((line.of.clone(), line.to.clone(), line.source.clone()));
        }
    }
    people.lines.extend(lines);
    migration.taken(&plugin.source, "rules");
}

fn kpwd(stack: &Stack<'_>, plugin: &Plugin, people: &mut People, names: &mut Vec<Mapped>, migration: &mut Migration) {
    let Some((_, found)) = stack.file(plugin, "gplazma.kpwd.file", migration) else {
        return;
    };
    let (accounts, lines, passwords) = maps::kpwd(&found.name, &found.text);
    people.accounts.extend(accounts);
    for line in lines {
        let to = vec![Principal::new("username", &line.user)];
        names.push((Principal::new("dn", &line.dn), to, line.source));
    }
    if passwords > 0 {
        let words = format!("{passwords} accounts log in by password, which this server does not accept");
        migration.no_equivalent(&plugin.source, words, "Give these clients tokens or certificates");
    } else {
        migration.taken(&plugin.source, "rules");
    }
}

fn issuers(people: &People, tree: &Tree, migration: &mut Migration) {
    for provider in &people.providers {
        let is_authorized = provider.has_scopes && people.add_authorized(provider, tree, migration);
        tokens::write(provider, is_authorized, tree, migration);
        if provider.identified.is_empty() {
            continue;
        }
        if is_authorized && provider.identified != provider.authorized {
            let words = "tokens with and without scopes have different users, and a rule cannot tell them apart: those \
                without may do nothing";
            migration.in_part(&provider.source, words, "Write rules for the groups of these tokens");
            continue;
        }
        let of = Principal::new("op", &provider.name);
        people.add(&of, &provider.identified, &provider.source, tree, migration);
    }
}

/// Plug-ins without a part in the above.
fn others(stack: &Stack<'_>, migration: &mut Migration) {
    for plugin in &stack.plugins {
        let (phase, name, source) = (plugin.phase.as_str(), plugin.name.as_str(), &plugin.source);
        match (phase, name) {
            ("auth", "x509" | "voms") | ("map" | "session", "authzdb" | "kpwd") => {}
            ("map", "vorolemap" | "gridmap" | "multimap") | ("session", "omnisession") => {}
            ("account", "banfile" | "argus") => {}
            ("identity", _) => migration.not_needed(source, "no protocol here shows names of users"),
            ("auth", "oidc" | "scitoken") => migration.taken(source, "[[issuer]]"),
            (_, "nsswitch") => migration.taken(source, "the users of rules are those of this system"),
            (_, "ldap" | "nis") => {
                let words = "users are those that this system knows";
                migration.in_part(
                    source,
                    words,
                    "Let the system know them (SSSD); clients see the whole tree",
                );
            }
            ("auth", "htpasswd" | "jaas" | "kpwd") | (_, "krb5") => {
                let words = "this server accepts no passwords and no Kerberos";
                migration.no_equivalent(source, words, "Give these clients tokens or certificates");
            }
            ("account", name) if name != "kpwd" => {
                let why = format!("{name} decides who is banned, and this server does not ask it");
                bans::close_all(source, &why, migration);
            }
            ("session", "roles") | ("auth", "roles") => {
                let words = "administrators are named by section";
                migration.no_equivalent(source, words, "Set operators in [web], [cluster] or [queue]");
            }
            _ if plugin.is_demanded && name != "kpwd" => {
                let why = format!("logins need {name}, and this server does not ask it");
                bans::close_all(source, &why, migration);
            }
            _ => {
                let words = format!("the plug-in {name} has no equivalent");
                migration.no_equivalent(source, words, "Write rules for the clients that depend on it");
            }
        }
    }
}
