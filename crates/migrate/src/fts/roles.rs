//! `[roles]`: what users with a VOMS role may do. FTS has a level for each operation; here users
//! are operators of everything, operators of their organisation, or neither.

use super::settings::Settings;
use crate::document::DocumentKind;
use crate::ini::Entry;
use crate::migration::Migration;

/// How much of an operation is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    #[default]
    None,
    /// For what is one's own.
    Own,
    /// For one's organisation.
    Vo,
    All,
}

/// What a role may do.
#[derive(Clone, Copy, Debug, Default)]
struct Grants {
    transfer: Level,
    config: Level,
}

/// Writes operators.
pub(crate) fn write(settings: &Settings, migration: &mut Migration) {
    let roles: Vec<&Entry> = settings
        .entries
        .iter()
        .filter(|entry| entry.section == "roles")
        .collect();
    let public = roles.iter().find(|entry| entry.key.eq_ignore_ascii_case("public"));
    let public = public.map_or_else(Grants::default, |entry| grants(&entry.value, Grants::default()));
    for entry in roles {
        if entry.key.eq_ignore_ascii_case("public") {
            everyone(entry, public, migration);
            continue;
        }
        let of_role = grants(&entry.value, public);
        let lowest = of_role.transfer.min(of_role.config);
        let key = match lowest {
            Level::All => "queue.operators",
            Level::Vo => "queue.vo_operators",
            Level::None | Level::Own => {
                let words = format!("the role {} has no right that operators have here", entry.key);
                let advice = "Give single users a right by POST /config/authorize (docs/queue.md)";
                migration.no_equivalent(&entry.source, words, advice);
                continue;
            }
        };
        let is_plain = !entry.key.is_empty()
            && entry
                .key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let Some(organisations) = settings.organisations().filter(|_| is_plain) else {
            let words = format!(
                "FTS takes the role {} of every organisation, and here each is named",
                entry.key
            );
            migration.in_part(&entry.source, words, format!("Add \"/VO/Role={}\" to {key}", entry.key));
            continue;
        };
        for vo in organisations {
            migration.push(
                DocumentKind::Queue,
                key,
                format!("/{vo}/Role={}", entry.key),
                &entry.source,
            );
        }
        let has_more = of_role.transfer.max(of_role.config) > lowest;
        match has_more {
            true => {
                let words = format!("{key}; one of its rights was wider");
                migration.in_part(
                    &entry.source,
                    words,
                    "Give single users the wider one by POST /config/authorize",
                );
            }
            false => migration.taken(&entry.source, key),
        }
    }
}

/// What everyone may do: here users see their own jobs, and change no settings.
fn everyone(entry: &Entry, public: Grants, migration: &mut Migration) {
    match public.transfer > Level::Own || public.config > Level::None {
        true => {
            let words = "here everyone sees and cancels their own jobs only";
            migration.in_part(&entry.source, words, "Name those who see more in [queue] vo_operators");
        }
        false => migration.taken(&entry.source, "users see their own jobs"),
    }
}

/// Reads `LEVEL:OPERATION;…`, on top of what everyone may do.
fn grants(value: &str, public: Grants) -> Grants {
    let mut grants = public;
    for grant in value.split(';').map(str::trim).filter(|grant| !grant.is_empty()) {
        let (level, operation) = grant.split_once(':').unwrap_or(("", grant));
        let level = match level.trim().to_ascii_lowercase().as_str() {
            "all" => Level::All,
            "vo" => Level::Vo,
            "" => Level::Own,
            _ => Level::None,
        };
        // Own settings: there are none.
        let of_config = if level == Level::Own { Level::None } else { level };
        match operation.trim().to_ascii_lowercase().as_str() {
            "transfer" => grants.transfer = level,
            "config" => grants.config = of_config,
            "*" => (grants.transfer, grants.config) = (level, of_config),
            _ => {}
        }
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_what_everyone_has_and_its_own() {
        let public = grants("vo:transfer;all:datamanagement", Grants::default());
        assert_eq!((public.transfer, public.config), (Level::Vo, Level::None));
        let production = grants("all:config", public);
        assert_eq!((production.transfer, production.config), (Level::Vo, Level::All));
        let admin = grants("all:*", Grants::default());
        assert_eq!((admin.transfer, admin.config), (Level::All, Level::All));
        assert_eq!(grants("config", Grants::default()).config, Level::None);
    }
}
