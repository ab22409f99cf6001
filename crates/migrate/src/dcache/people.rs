//! Rules for the people that gPlazma maps to users.

use super::exports::Tree;
use super::maps::{Account, MultiLine, Principal, is_number};
use super::sessions::{Attributes, Sessions, account_of};
use super::tokens::Provider;
use crate::migration::Migration;
use crate::rights::{ALL, CHANGE, CHANGES, NewRule, READ};
use crate::source::Source;

/// How often names lead to further names: DN to user name, user name to numbers, and one to spare.
const STEPS_MAX: usize = 3;

/// Everything that maps names to others.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// Accounts, of `map … authzdb` and `kpwd`.
    pub(crate) accounts: Vec<Account>,
    /// Lines of all multi-mapfiles.
    pub(crate) lines: Vec<MultiLine>,
    pub(crate) sessions: Sessions,
    pub(crate) providers: Vec<Provider>,
    /// Whether user names are those of the system, by nsswitch or a directory service.
    pub(crate) has_system_users: bool,
}

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocalUser {
    Known(String),
    /// Root, which our server never acts as.
    Root,
    Missing,
}

impl People {
    /// The words of a rule's `who` for a name of dCache.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn who(&self, name: &Principal) -> Result<Vec<String>, String> {
        let Principal { kind, value } = name;
        match kind.as_str() {
            "dn" => Ok(vec![format!("dn:{value}")]),
            "fqan" if value.contains([',', '*']) => Err("a primary or star FQAN cannot be named in a rule".to_owned()),
            "fqan" => Ok(vec![format!("fqan:{value}")]),
            "oidc" => self.subject(value),
            "op" => {
                let provider = self.providers.iter().find(|provider| provider.name == *value);
                let provider = provider.ok_or_else(|| format!("the issuer {value} is not configured"))?;
                Ok(vec![format!("issuer:{}", provider.url)])
            }
            "oidcgrp" => self.group(value),
            "username" | "group" => Ok(vec![format!("user:{value}")]),
            other => Err(format!("a rule cannot name clients by \"{other}\"")),
        }
    }

    fn subject(&self, value: &str) -> Result<Vec<String>, String> {
        let (subject, provider) = match value.rsplit_once('@') {
            Some((subject, name)) => {
                let provider = self.providers.iter().find(|provider| provider.name == name);
                (subject, provider)
            }
            None => (value, self.only_provider()),
        };
        let provider = provider.ok_or("it does not name one of the issuers, and a subject alone is no identity")?;
        Ok(vec![format!("subject:{subject}"), format!("issuer:{}", provider.url)])
    }

    /// A group counts for the issuer that has its name, or for the only one.
    fn group(&self, value: &str) -> Result<Vec<String>, String> {
        if !value.starts_with('/') {
            return Err("groups of tokens begin with a slash here".to_owned());
        }
        let vo = value.trim_start_matches('/').split('/').next().unwrap_or_default();
        let named = self.providers.iter().find(|provider| provider.name == vo);
        let provider = named.or_else(|| self.only_provider());
        let provider = provider.ok_or("several issuers could claim this group, and a rule has to name one")?;
        Ok(vec![format!("group:{value}"), format!("issuer:{}", provider.url)])
    }

    fn only_provider(&self) -> Option<&Provider> {
        match self.providers.as_slice() {
            [provider] => Some(provider),
            _ => None,
        }
    }

    /// All names of a client that has these.
    pub(crate) fn all_names(&self, begin: &[Principal]) -> Vec<Principal> {
        let mut names = begin.to_vec();
        for _ in 0..STEPS_MAX {
            let mut further: Vec<Principal> = Vec::new();
            for line in self
                .lines
                .iter()
                .filter(|line| is_inner(&line.of) && names.contains(&line.of))
            {
                further.extend(line.to.iter().cloned());
            }
            if let Some(account) = account_of(&self.accounts, &names) {
                further.push(Principal::new("username", &account.name));
                further.push(Principal::new("uid", &account.uid));
                for (index, gid) in account.gids.iter().enumerate() {
                    let is_primary = if index == 0 { ",true" } else { "" };
                    further.push(Principal::new("gid", &format!("{gid}{is_primary}")));
                }
            }
            further.retain(|name| !names.contains(name));
            names.extend(further);
        }
        // Predicates of sessions name a group without saying whether it is the primary one.
        let plain = names
            .iter()
            .filter_map(|name| name.value.strip_suffix(",true").map(|value| (name, value)));
        let plain: Vec<Principal> = plain.map(|(name, value)| Principal::new(&name.kind, value)).collect();
        names.extend(plain);
        names
    }

    fn local_user(&self, names: &[Principal]) -> LocalUser {
        let values = |kind: &'static str| names.iter().filter(move |name| name.kind == kind);
        let uid = values("uid").map(|name| name.value.as_str()).find(|uid| is_number(uid));
        let primary = values("gid").find_map(|name| name.value.strip_suffix(",true"));
        let gid = primary.or_else(|| values("gid").map(|name| name.value.as_str()).find(|gid| is_number(gid)));
        match (uid, gid) {
            (Some(uid), _) if uid.parse::<u32>() == Ok(0) => LocalUser::Root,
            (Some(uid), Some(gid)) if is_number(gid) => LocalUser::Known(format!("{uid}:{gid}")),
            _ if self.has_system_users => match values("username").chain(values("group")).next() {
                Some(name) if name.value == "root" => LocalUser::Root,
                Some(name) if credentials::is_user_name(&name.value) => LocalUser::Known(name.value.clone()),
                _ => LocalUser::Missing,
            },
            _ => LocalUser::Missing,
        }
    }

    /// Adds the rule for clients with a name that a line maps to others.
    pub(crate) fn add(
        &self,
        of: &Principal,
        to: &[Principal],
        source: &Source,
        tree: &Tree,
        migration: &mut Migration,
    ) {
        let who = match self.who(of) {
            Ok(who) => who,
            Err(why) => {
                return migration.no_equivalent(source, why, "Write a rule by hand, or give these clients tokens");
            }
        };
        let mut begin = vec![of.clone()];
        begin.extend(to.iter().cloned());
        let names = self.all_names(&begin);
        let user = match self.local_user(&names) {
            LocalUser::Known(user) => user,
            LocalUser::Root => {
                return migration.no_equivalent(source, "this server never acts as root", "Map them to another user");
            }
            LocalUser::Missing => {
                let words = "no user and group ID follow from it, without which dCache refuses the login";
                return migration.in_part(source, words, "Write a rule with user = \"UID:GID\" by hand");
            }
        };
        let Some(session) = self.sessions.of(&names) else {
            let words = "no line gives these clients a session, without which dCache refuses the login";
            return migration.in_part(source, words, "Write a rule by hand");
        };
        let directory = session.directory().map(str::to_owned);
        let path = directory.as_ref().and_then(|directory| tree.url(directory));
        let Some(path) = path else {
            let words = "the directory of these clients is outside of the tree that the doors show";
            return migration.in_part(source, words, "Write a rule by hand");
        };
        let rule = NewRule {
            user: Some(user),
            ..NewRule::may(who, &path, if session.is_read_only { READ } else { CHANGE })
        };
        if !rule.add(migration, source) {
            let words = "its names or paths cannot be written as a rule that means the same";
            return migration.no_equivalent(source, words, "Write a rule by hand");
        }
        tell(
            &session,
            &path,
            names.iter().filter(|name| name.kind == "gid").count(),
            source,
            migration,
        );
    }

    /// The user of tokens that have scopes for storages. Their rights come from the scopes, within
    /// what the session of this user may do. The result is `false` if dCache refuses their login.
    pub(crate) fn add_authorized(&self, provider: &Provider, tree: &Tree, migration: &mut Migration) -> bool {
        let of = Principal::new("op", &provider.name);
        let mut begin = provider.authorized.clone();
        if begin.is_empty() {
            begin.push(of.clone());
            let lines = self.lines.iter().filter(|line| line.of == of);
            begin.extend(lines.flat_map(|line| line.to.iter().cloned()));
        }
        let names = self.all_names(&begin);
        let (LocalUser::Known(user), Some(session)) = (self.local_user(&names), self.sessions.of(&names)) else {
            return false;
        };
        let path = session.directory().and_then(|directory| tree.url(directory));
        let Some(path) = path else { return false };
        let who = vec![format!("issuer:{}", provider.url)];
        if path != "/" {
            let rule = NewRule {
                except: vec![path],
                ..NewRule::may_not(who.clone(), "/", ALL)
            };
            if !rule.add(migration, &provider.source) {
                return false;
            }
        }
        if session.is_read_only {
            NewRule::may_not(who.clone(), "/", CHANGES).add(migration, &provider.source);
        }
        let rule = NewRule {
            who,
            path: "/".to_owned(),
            user: Some(user),
            note: Some("Who tokens with scopes act as; their scopes say what they may do.".to_owned()),
            ..NewRule::default()
        };
        rule.add(migration, &provider.source)
    }
}

/// Whether a name is one that maps give, and not one of a credential.
fn is_inner(name: &Principal) -> bool {
    matches!(name.kind.as_str(), "username" | "group" | "uid" | "gid")
}

fn tell(session: &Attributes, path: &str, groups: usize, source: &Source, migration: &mut Migration) {
    let root = session.root.as_deref().unwrap_or("/");
    if root != "/" && path != "/" {
        let words =
            format!("a rule; these clients saw {root} as /, and here the paths in their URLs begin with {path}");
        return migration.in_part(
            source,
            words,
            "Change the URLs, or run an instance with this directory as /",
        );
    }
    if session.has_upload_limit {
        let words = "a rule; there is no limit on the size of an upload";
        return migration.in_part(source, words, "Set quota_bytes of the export, or a [[quota]]");
    }
    // The primary group is named with and without its mark.
    if groups > 2 {
        let words = "a rule; of the groups, only the primary one counts for a user by numbers";
        return migration.in_part(
            source,
            words,
            "Name a user of the system instead, whose groups all count",
        );
    }
    migration.taken(source, "a rule");
}
