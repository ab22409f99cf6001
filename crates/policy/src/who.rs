//! Whom a rule is about: the words of `who`, and whether they hold for an identity.

use std::fmt;
use std::net::IpAddr;

use credentials::{AddressRange, Credential, Principal};
use gsi_wire::dn;

/// One condition of a rule's `who`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Holds for everybody, without a credential too.
    Anyone,
    /// A valid credential was shown.
    Authenticated,
    /// The distinguished name of a certificate, `/C=…/CN=…`, whole and in its canonical spelling.
    Dn(String),
    /// A virtual organisation.
    Vo(String),
    /// A fully qualified attribute name of VOMS: `*` stands for one component, a last one for one
    /// or more.
    Fqan(String),
    /// The issuer of a token, byte for byte.
    Issuer(String),
    /// The subject of a token, beside its issuer.
    Subject(String),
    /// A group, of a token or of VOMS, as `/vo/group`.
    Group(String),
    /// A role of VOMS.
    Role(String),
    /// The local user that a mapping of the site gave to the credential.
    User(String),
    /// Addresses that the client must come from.
    Address(AddressRange),
}

impl Who {
    /// The holder of the certificate with this name, in any of its spellings: letters of UTF-8, for
    /// instance, stand for the escapes (`\xC3\xA4`) that names of certificates have in one line.
    pub(crate) fn dn(name: &str) -> Self {
        Self::Dn(dn::canonical(name))
    }

    /// Reads `anyone`, `authenticated` or `kind:value`.
    ///
    /// # Errors
    /// What is wrong, in words for the rule's author.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "anyone" => return Ok(Self::Anyone),
            "authenticated" => return Ok(Self::Authenticated),
            _ => {}
        }
        let kinds = "anyone, authenticated, dn:, vo:, fqan:, issuer:, subject:, group:, role:, user: and address:";
        let Some((kind, value)) = text.split_once(':') else {
            return Err(format!("\"{text}\" does not name an identity; there are {kinds}"));
        };
        if value.is_empty() || value.trim() != value || value.chars().any(char::is_control) {
            return Err(format!("\"{text}\" has no value that can be used behind the colon"));
        }
        let owned = value.to_owned();
        let begins_with_slash = || match value.starts_with('/') {
            true => Ok(value.to_owned()),
            false => Err(format!("\"{text}\": it begins with a slash, as in \"{kind}:/...\"")),
        };
        match kind {
            "dn" => begins_with_slash().map(|name| Self::dn(&name)),
            "fqan" => match plain_fqan(&begins_with_slash()?) {
                name if name.is_empty() || name.trim() != name || plain_fqan(name) != name => {
                    Err(format!("\"{text}\" is no name that VOMS gives"))
                }
                name => Ok(Self::Fqan(name.to_owned())),
            },
            "group" => begins_with_slash().map(Self::Group),
            "vo" if !value.contains('/') => Ok(Self::Vo(owned)),
            "vo" => Err(format!(
                "\"{text}\": the name of a VO has no slash; a group is \"group:/...\""
            )),
            "issuer" => Ok(Self::Issuer(owned)),
            "subject" => Ok(Self::Subject(owned)),
            "role" => Ok(Self::Role(owned)),
            "user" => Ok(Self::User(owned)),
            "address" => AddressRange::parse(value)
                .map(Self::Address)
                .ok_or_else(|| format!("\"{text}\": neither an address nor a range such as 192.0.2.0/24")),
            _ => Err(format!("\"{kind}:\" is not a kind of identity; there are {kinds}")),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => out.write_str("anyone"),
            Self::Authenticated => out.write_str("authenticated"),
            Self::Dn(name) => write!(out, "dn:{name}"),
            Self::Vo(name) => write!(out, "vo:{name}"),
            Self::Fqan(name) => write!(out, "fqan:{name}"),
            Self::Issuer(name) => write!(out, "issuer:{name}"),
            Self::Subject(name) => write!(out, "subject:{name}"),
            Self::Group(name) => write!(out, "group:{name}"),
            Self::Role(name) => write!(out, "role:{name}"),
            Self::User(name) => write!(out, "user:{name}"),
            Self::Address(range) => write!(out, "address:{range}"),
        }
    }
}

/// An identity, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person<'a> {
    principal: Option<&'a Principal>,
    pub(crate) user: Option<&'a str>,
    is_authenticated: bool,
    address: IpAddr,
}

impl<'a> Person<'a> {
    /// Any client from there.
    pub(crate) fn nobody(address: IpAddr) -> Self {
        Self {
            principal: None,
            user: None,
            is_authenticated: false,
            address,
        }
    }

    /// To whom rules may take something, and to whom users and quotas belong: the holder.
    pub(crate) fn holder(credential: &'a Credential, address: IpAddr) -> Self {
        let principal = credential.principal();
        let mapped = principal.and_then(|principal| principal.user.as_deref());
        Self {
            principal,
            user: mapped.or_else(|| credential.local_user()),
            is_authenticated: is_authenticated(credential),
            address,
        }
    }

    /// To whom rules may give something. A macaroon, and a token that says by scopes what it may be
    /// used for, give what they say and nothing more: its holder gets no more of rules than anybody
    /// does.
    pub(crate) fn beneficiary(credential: &'a Credential, address: IpAddr) -> Self {
        match credential.grant() {
            Some(_) => Self::nobody(address),
            None => Self::holder(credential, address),
        }
    }

    /// What a rule about this person alone would say.
    pub(crate) fn telling_name(&self) -> Option<Who> {
        let dn = self.dn().map(|name| Who::Dn(name.to_owned()));
        let vo = || self.vos().first().map(|name| Who::Vo(name.clone()));
        let issuer = || self.issuer().map(|name| Who::Issuer(name.to_owned()));
        dn.or_else(vo).or_else(issuer)
    }

    pub(crate) fn dn(&self) -> Option<&'a str> {
        self.principal?.dn.as_deref()
    }

    pub(crate) fn issuer(&self) -> Option<&'a str> {
        self.principal?.issuer.as_deref()
    }

    pub(crate) fn vos(&self) -> &'a [String] {
        self.principal.map_or(&[], |principal| &principal.vos)
    }

    pub(crate) fn fqans(&self) -> &'a [String] {
        self.principal.map_or(&[], |principal| &principal.fqans)
    }

    pub(crate) fn groups(&self) -> &'a [String] {
        self.principal.map_or(&[], |principal| &principal.groups)
    }

    /// Whether it holds. `with_issuer`: the rule also demands an issuer, so that a group is
    /// whatever that issuer says; otherwise a token's group counts only when the site gave its
    /// issuer that VO, lest any issuer speaks for everybody's groups.
    pub(crate) fn is(&self, who: &Who, with_issuer: bool) -> bool {
        match who {
            Who::Anyone => true,
            Who::Authenticated => self.is_authenticated,
            Who::Dn(name) => self.dn() == Some(name),
            Who::Vo(name) => self.vos().contains(name),
            Who::Fqan(pattern) => self.fqans().iter().any(|fqan| fqan_matches(pattern, plain_fqan(fqan))),
            Who::Issuer(name) => self.issuer() == Some(name),
            Who::Subject(name) => self.principal.is_some_and(|one| one.subject.as_ref() == Some(name)),
            Who::Group(name) => {
                let vouched = || with_issuer || self.vos().iter().any(|vo| first_component(name) == vo);
                let of_voms = || self.fqans().iter().any(|fqan| group_of(fqan) == name);
                (self.groups().contains(name) && vouched()) || of_voms()
            }
            Who::Role(name) => self.fqans().iter().any(|fqan| role_of(fqan) == Some(name)),
            Who::User(name) => self.user == Some(name),
            Who::Address(range) => range.contains(self.address),
        }
    }
}

fn is_authenticated(credential: &Credential) -> bool {
    match credential {
        Credential::Macaroon(_) | Credential::Token(_) | Credential::Certificate(_) => true,
        Credential::Anonymous | Credential::RefusedCertificate(_) => false,
    }
}

fn first_component(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

/// A name without the parts that say nothing.
fn plain_fqan(fqan: &str) -> &str {
    let fqan = fqan.strip_suffix("/Capability=NULL").unwrap_or(fqan);
    fqan.strip_suffix("/Role=NULL").unwrap_or(fqan)
}

/// The group of a fully qualified attribute name.
pub(crate) fn group_of(fqan: &str) -> &str {
    let fqan = plain_fqan(fqan);
    fqan.find("/Role=").map_or(fqan, |end| &fqan[..end])
}

/// The role of a fully qualified attribute name.
pub(crate) fn role_of(fqan: &str) -> Option<&str> {
    let start = fqan.find("/Role=")? + "/Role=".len();
    let role = fqan[start..].split('/').next().unwrap_or_default();
    (role != "NULL").then_some(role)
}

/// Whether a name fits a pattern, component by component; a role is one component.
fn fqan_matches(pattern: &str, fqan: &str) -> bool {
    let (fixed, open) = match pattern.strip_suffix("/*") {
        Some(fixed) => (fixed, true),
        None => (pattern, false),
    };
    let mut rest = fqan.split('/');
    for wanted in fixed.split('/') {
        match rest.next() {
            Some(found) if wanted == "*" || wanted == found => {}
            _ => return false,
        }
    }
    rest.next().is_some() == open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_back() {
        for text in [
            "anyone",
            "authenticated",
            "dn:/C=DE/O=GermanGrid/CN=Ann: Example",
            "vo:atlas",
            "fqan:/atlas/*/Role=production",
            "issuer:https://atlas-auth.cern.ch/",
            "subject:8c1e-ff",
            "group:/wlcg/test",
            "role:production",
            "user:ann",
            "address:192.0.2.0/24",
        ] {
            assert_eq!(Who::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "everyone",
            "anyone:x",
            "vo:",
            "vo:/atlas",
            "fqan:atlas",
            "fqan:/Role=NULL",
            "fqan:/atlas /Role=NULL",
            "group:x",
            "dn:CN=x",
            "user: ann",
            "address:here",
            "host:x",
            "user:a\nb",
        ] {
            assert!(Who::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_certificates_are_the_same_in_every_spelling() {
        for spelling in [
            "/O=Grid/CN=J\u{e4}ne",
            "/O=Grid/CN=J\\xC3\\xA4ne",
            "/O=Grid/CN=J\\xc3\\xa4ne",
        ] {
            let read = Who::parse(&format!("dn:{spelling}")).unwrap();
            assert_eq!(read, Who::Dn("/O=Grid/CN=J\\xC3\\xA4ne".to_owned()), "{spelling}");
        }
    }

    #[test]
    fn attribute_names_fit_component_by_component() {
        for (pattern, fqan, fits) in [
            ("/atlas", "/atlas", true),
            ("/atlas", "/atlas/de", false),
            ("/atlas", "/atlasx", false),
            ("/atlas/*", "/atlas/de", true),
            ("/atlas/*", "/atlas/de/Role=production", true),
            ("/atlas/*", "/atlas", false),
            ("/atlas/*", "/atlasx/de", false),
            ("/atlas/*/Role=production", "/atlas/de/Role=production", true),
            ("/atlas/*/Role=production", "/atlas/Role=production", false),
            ("/*/Role=pilot", "/cms/Role=pilot", true),
            ("/atlas/Role=*", "/atlas/Role=pilot", false),
            ("/*", "/atlas", true),
        ] {
            assert_eq!(fqan_matches(pattern, fqan), fits, "{pattern} {fqan}");
        }
        assert_eq!(group_of("/atlas/de/Role=production/Capability=NULL"), "/atlas/de");
        assert_eq!(role_of("/atlas/Role=NULL"), None);
        assert_eq!(role_of("/atlas/Role=pilot/Capability=x"), Some("pilot"));
    }
}
