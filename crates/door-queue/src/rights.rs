//! Who may do what, and who a client is to the queue.
//!
//! Everyone may submit, and see and change their own jobs. More is given by the configuration: to
//! a user, or to a role or group of a virtual organisation. A token gives no right by itself that
//! its holder does not have (FTS gives every right to every token).

use std::collections::BTreeMap;

use catalog::{Login, Operation, Owner, UserRight};
use credentials::{Credential, Principal};
use identity::delegation::Delegator;
use queue::owners::delegation_id;
use serde::{Deserialize, Serialize};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::queue::Scope;

/// The name of clients without a credential.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// How far a right reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Own jobs; no settings.
    #[default]
    Own,
    /// All of its virtual organisation.
    Vo,
    /// Everything.
    All,
}

impl Level {
    /// The word in FTS's API; none for own jobs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Vo => "vo",
            Self::All => "all",
        }
    }
}

/// Rights beyond own jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Levels {
    /// Seeing, cancelling and changing jobs.
    pub transfer: Level,
    /// Seeing and changing settings, bans and workers.
    pub config: Level,
}

impl Levels {
    /// The rights of both. One for a virtual organisation does not make one for all less.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            transfer: self.transfer.max(other.transfer),
            config: self.config.max(other.config),
        }
    }

    /// What is left to a client of another virtual organisation than that of the group or role.
    fn elsewhere(self) -> Self {
        let left = |level| if level == Level::Vo { Level::Own } else { level };
        Self {
            transfer: left(self.transfer),
            config: left(self.config),
        }
    }
}

/// The rights of clients.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// Of every client.
    pub everyone: Levels,
    /// By user: the name of a certificate, or `subject@issuer` of a token.
    pub users: BTreeMap<String, Levels>,
    /// By role: the word behind `Role=` in a VOMS attribute.
    pub roles: BTreeMap<String, Levels>,
    /// By group: a VOMS attribute or the group of a token, whole.
    pub groups: BTreeMap<String, Levels>,
    /// The virtual organisation of clients without a credential; `None`: they are refused.
    pub anonymous_vo: Option<String>,
    /// The virtual organisation of clients whose credential names none; `None`: one of their own,
    /// named like their delegation, as in FTS.
    pub default_vo: Option<String>,
}

/// A client, as the queue knows it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name by which operators give it rights: that of its certificate, or `subject@issuer` of
    /// its token.
    pub name: String,
    /// The owner of its jobs.
    pub owner: Owner,
    /// What it may do.
    pub levels: Levels,
    /// What it may do by grants alone.
    pub granted: Vec<Operation>,
    /// All of its virtual organisations.
    pub vos: Vec<String>,
    /// Its VOMS attributes, or the groups of its token.
    pub attributes: Vec<String>,
    /// Its roles.
    pub roles: Vec<String>,
    /// Who it is to the store of delegated credentials.
    pub delegator: Option<Delegator>,
}

impl Rights {
    /// The client that shows this credential.
    ///
    /// # Errors
    /// `unauthenticated` for an anonymous client that is not admitted, and for a macaroon; why a
    /// certificate was refused.
    pub fn caller(&self, credential: &Credential) -> Result<Caller> {
        let unknown = || Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
        match credential {
            Credential::Certificate(certificate) => {
                let dn = certificate.principal.dn.clone().ok_or_else(unknown)?;
                let id = delegation_id([dn.as_str()].into_iter().chain(texts(&certificate.principal.fqans)));
                let delegator = Delegator::of(credential);
                Ok(self.known(
                    &certificate.principal,
                    Login::Certificate,
                    dn.clone(),
                    dn,
                    id,
                    delegator,
                ))
            }
            Credential::Token(token) => {
                let subject = token.principal.subject.clone().ok_or_else(unknown)?;
                let issuer = token.principal.issuer.clone().unwrap_or_default();
                let id = delegation_id([issuer.as_str(), subject.as_str()]);
                let name = format!("{subject}@{issuer}");
                Ok(self.known(&token.principal, Login::Token, subject, name, id, None))
            }
            Credential::Anonymous => self.anonymous().ok_or_else(unknown),
            Credential::RefusedCertificate(error) => self.anonymous().ok_or_else(|| (**error).clone()),
            Credential::Macaroon(_) => Err(unknown().with_detail("a macaroon is for storage")),
        }
    }

    fn known(
        &self,
        principal: &Principal,
        login: Login,
        user: String,
        name: String,
        id: String,
        delegator: Option<Delegator>,
    ) -> Caller {
        let mut vos = principal.vos.clone();
        if vos.is_empty() {
            vos.push(self.default_vo.clone().unwrap_or_else(|| id.clone()));
        }
        let attributes: Vec<String> = principal.fqans.iter().chain(&principal.groups).cloned().collect();
        let mut roles: Vec<String> = Vec::new();
        for role in principal.fqans.iter().filter_map(|fqan| role_of(fqan)) {
            if !roles.iter().any(|known| known == role) {
                roles.push(role.to_owned());
            }
        }
        let by_role = roles.iter().filter_map(|role| self.roles.get(role));
        let groups = principal.groups.iter().filter(|group| is_vouched(principal, group));
        let by_group = principal.fqans.iter().chain(groups).filter_map(|group| {
            let given = *self.groups.get(group)?;
            Some(match organisation(group) == Some(vos[0].as_str()) {
                true => given,
                false => given.elsewhere(),
            })
        });
        let given = by_role.chain(self.users.get(&name)).copied().chain(by_group);
        Caller {
            levels: given.fold(self.everyone, Levels::or),
            granted: Vec::new(),
            name,
            owner: Owner {
                user,
                delegation_id: id,
                vo: vos[0].clone(),
                login,
            },
            vos,
            attributes,
            roles,
            delegator,
        }
    }

    fn anonymous(&self) -> Option<Caller> {
        let vo = self.anonymous_vo.clone()?;
        Some(Caller {
            name: ANONYMOUS.to_owned(),
            owner: Owner {
                user: ANONYMOUS.to_owned(),
                delegation_id: delegation_id([ANONYMOUS]),
                vo: vo.clone(),
                login: Login::Anonymous,
            },
            levels: self.everyone,
            granted: Vec::new(),
            vos: vec![vo],
            attributes: Vec::new(),
            roles: Vec::new(),
            delegator: None,
        })
    }
}

impl Caller {
    /// Adds what operators have granted while the queue runs.
    pub(crate) fn take_grants(&mut self, grants: &[UserRight]) {
        // Rights are for users who have shown who they are.
        if self.owner.login == Login::Anonymous {
            return;
        }
        for grant in grants.iter().filter(|grant| grant.user == self.name) {
            let level = match grant.operation {
                Operation::Transfer => &mut self.levels.transfer,
                Operation::Config => &mut self.levels.config,
            };
            if std::mem::replace(level, Level::All) != Level::All {
                self.granted.push(grant.operation);
            }
        }
    }

    /// Whose jobs it may see and change.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match self.levels.transfer {
            Level::Own => Scope::Own(self.owner.clone()),
            Level::Vo => Scope::Vo(self.owner.clone()),
            Level::All => Scope::All,
        }
    }

    /// Whether it may see and change the settings of a virtual organisation; `None`: of all.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn may_configure(&self, vo: Option<&str>) -> Result<()> {
        match (self.levels.config, vo) {
            (Level::All, _) => Ok(()),
            (Level::Vo, Some(vo)) if vo == self.owner.vo => Ok(()),
            _ => Err(forbidden("only operators of the queue may do this")),
        }
    }

    /// Whether it may give a right to a user: only what it has itself. With the right to change
    /// settings alone it could else read and cancel the jobs of all.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn may_grant(&self, operation: Operation) -> Result<()> {
        self.may_configure(None)?;
        match operation {
            Operation::Transfer if self.levels.transfer < Level::All => Err(forbidden(
                "only those who have the right transfer for all jobs may give it",
            )),
            Operation::Transfer | Operation::Config => Ok(()),
        }
    }

    /// Whether it may send the events of the jobs of a virtual organisation to a webhook; `None`:
    /// of all. It needs the right to change settings, because the queue opens connections there,
    /// and that to see these jobs.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn may_send_events(&self, vo: Option<&str>) -> Result<()> {
        self.may_configure(None)?;
        match (self.levels.transfer, vo) {
            (Level::All, _) => Ok(()),
            (Level::Vo, Some(vo)) if vo == self.owner.vo => Ok(()),
            _ => Err(forbidden(
                "only those who may see these jobs may have their events sent",
            )),
        }
    }
}

fn forbidden(words: &str) -> Error {
    Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize).with_detail(words)
}

/// Whether a token's group gives rights: the site gave its issuer the organisation that the group
/// is of. Else any issuer would speak for the groups of all.
fn is_vouched(principal: &Principal, group: &str) -> bool {
    principal.vos.iter().any(|vo| Some(vo.as_str()) == organisation(group))
}

/// The virtual organisation of a group or VOMS attribute.
fn organisation(group: &str) -> Option<&str> {
    group.trim_start_matches('/').split('/').next()
}

fn texts(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str)
}

fn role_of(fqan: &str) -> Option<&str> {
    let role = fqan.split('/').find_map(|part| part.strip_prefix("Role="))?;
    (role != "NULL").then_some(role)
}

#[cfg(test)]
impl Caller {
    /// A client with a token and no rights.
    pub(crate) fn with_token(subject: &str, issuer: &str) -> Self {
        Self {
            name: format!("{subject}@{issuer}"),
            owner: Owner {
                user: subject.to_owned(),
                delegation_id: "1".to_owned(),
                vo: "vo".to_owned(),
                login: Login::Token,
            },
            levels: Levels::default(),
            granted: Vec::new(),
            vos: Vec::new(),
            attributes: Vec::new(),
            roles: Vec::new(),
            delegator: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_counts_only_from_an_issuer_of_its_organisation() {
        let all = Levels {
            transfer: Level::All,
            config: Level::All,
        };
        let named = ["/atlas/admins", "/DC=org/CN=Jane", "/atlas/Role=production"];
        let rights = Rights {
            groups: named.iter().map(|name| ((*name).to_owned(), all)).collect(),
            ..Rights::default()
        };
        let levels = |principal: &Principal| {
            let caller = rights.known(principal, Login::Token, String::new(), String::new(), "1f".into(), None);
            caller.levels
        };
        let token = |vo: &str, group: &str| Principal {
            vos: vec![vo.to_owned()],
            groups: vec![group.to_owned()],
            ..Principal::default()
        };
        assert_eq!(levels(&token("atlas", "/atlas/admins")), all);
        for (vo, group) in [
            ("cms", "/atlas/admins"),
            ("", "/atlas/admins"),
            ("cms", "/DC=org/CN=Jane"),
            ("atlas", "/DC=org/CN=Jane"),
            ("cms", "/atlas/Role=production"),
        ] {
            assert_eq!(levels(&token(vo, group)), Levels::default(), "{group} of {vo}");
        }
        let of_voms = Principal {
            vos: vec!["atlas".to_owned()],
            fqans: vec!["/atlas/Role=production".to_owned()],
            ..Principal::default()
        };
        assert_eq!(levels(&of_voms), all);
    }

    #[test]
    fn a_role_gives_rights_in_its_own_organisation_only() {
        let of_vo = Levels {
            transfer: Level::Vo,
            config: Level::Vo,
        };
        let rights = Rights {
            groups: [("/atlas/Role=production".to_owned(), of_vo)].into(),
            ..Rights::default()
        };
        let levels = |vos: &[&str]| {
            let principal = Principal {
                vos: vos.iter().map(|vo| (*vo).to_owned()).collect(),
                fqans: vec!["/atlas/Role=production".to_owned()],
                ..Principal::default()
            };
            let caller = rights.known(
                &principal,
                Login::Certificate,
                String::new(),
                String::new(),
                "1f".into(),
                None,
            );
            caller.levels
        };
        assert_eq!(levels(&["atlas", "cms"]), of_vo);
        // Its jobs are those of the first one, and it would be an operator there.
        assert_eq!(levels(&["cms", "atlas"]), Levels::default());
    }
}
