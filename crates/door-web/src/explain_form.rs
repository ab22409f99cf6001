//! The form *May this client do that?* of the page *Endpoint*.

use std::net::IpAddr;

use credentials::{Credential, Principal, VerifiedCertificate, VerifiedToken};
use policy::Operation;
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};
use url::form_urlencoded;

use crate::facts::ExplainQuestion;
use crate::limits::PATH_CHARACTERS_MAX;
use crate::words::Words;

/// What a form offers: the word of an operation, and what it is called.
pub(crate) struct OperationChoice {
    pub(crate) word: &'static str,
    pub(crate) label: &'static str,
}

const fn choice(word: &'static str, label: &'static str) -> OperationChoice {
    OperationChoice { word, label }
}

/// Further words of [`Operation::from_word`] count in a URL.
pub(crate) const OPERATIONS: [OperationChoice; 9] = [
    choice("read", "read it"),
    choice("write", "store it"),
    choice("stat", "see its size and checksum"),
    choice("list", "list it"),
    choice("delete", "delete it"),
    choice("mkdir", "make it as a directory"),
    choice("rmdir", "delete it as an empty directory"),
    choice("rmtree", "delete it with everything in it"),
    choice("rename", "rename it"),
];

/// What is said of a subject that has no issuer and is no distinguished name as rules have it.
const SUBJECT_ALONE: &str = "name the issuer of the token with this subject; a DN begins with a slash, as in \
                             /O=Example/CN=Jane Doe";

/// The form as it was filled in.
#[derive(Default)]
pub(crate) struct ExplainForm {
    pub(crate) path: Words,
    pub(crate) operation: Words,
    pub(crate) to: Words,
    pub(crate) issuer: Words,
    pub(crate) subject: Words,
    pub(crate) vo: Words,
    pub(crate) address: Words,
}

impl ExplainForm {
    /// Reads the query of the page.
    pub(crate) fn read(query: Option<&str>) -> Self {
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let text: String = value.trim().chars().take(PATH_CHARACTERS_MAX).collect();
            let field = match name.as_ref() {
                "path" => &mut form.path,
                "op" => &mut form.operation,
                "to" => &mut form.to,
                "issuer" => &mut form.issuer,
                "subject" => &mut form.subject,
                "vo" => &mut form.vo,
                "address" => &mut form.address,
                _ => continue,
            };
            *field = text.into();
        }
        form
    }

    /// The question; `None`: none was asked. Without an address, the client comes from that of the
    /// browser.
    ///
    /// # Errors
    /// A path, an operation or an address that is none; a subject of a token without its issuer.
    pub(crate) fn question(&self, browser: IpAddr) -> Result<Option<ExplainQuestion>> {
        if self.path.is_empty() {
            return Ok(None);
        }
        let wrong = |what: &str| {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
            error.with_detail(what)
        };
        let to = match self.to.is_empty() {
            true => None,
            false => Some(LogicalPath::parse(self.to.raw())?),
        };
        let word = if self.operation.is_empty() {
            "read"
        } else {
            self.operation.raw()
        };
        let operations = Operation::from_word(word, to);
        if !self.subject.is_empty() && self.issuer.is_empty() && !self.subject.raw().starts_with('/') {
            return Err(wrong(SUBJECT_ALONE));
        }
        Ok(Some(ExplainQuestion {
            path: LogicalPath::parse(self.path.raw())?,
            operations: operations.ok_or_else(|| wrong("no such operation, or a rename without its new path"))?,
            credential: self.credential(),
            address: match self.address.raw() {
                "" => browser,
                text => text.parse().map_err(|_| wrong("the address is no IP address"))?,
            },
        }))
    }

    /// A credential of the client that is asked about: a token if it has an issuer, else a
    /// certificate with its distinguished name, or of an unnamed member of a virtual organisation.
    fn credential(&self) -> Credential {
        let filled = |words: &Words| Some(words.raw().to_owned()).filter(|text| !text.is_empty());
        let vos = filled(&self.vo).into_iter().collect();
        if self.subject.is_empty() && self.issuer.is_empty() && self.vo.is_empty() {
            return Credential::Anonymous;
        }
        if self.issuer.is_empty() {
            return Credential::Certificate(Box::new(VerifiedCertificate {
                principal: Principal {
                    dn: filled(&self.subject),
                    vos,
                    ..Principal::default()
                },
                issuer: credentials::CertificateIssuer::default(),
                expires_s: i64::MAX,
                proxies: 0,
                is_limited: false,
                allows_proxies: false,
                attribute_faults: Vec::new(),
            }));
        }
        Credential::Token(Box::new(VerifiedToken {
            grant: None,
            principal: Principal {
                issuer: filled(&self.issuer),
                subject: filled(&self.subject),
                vos,
                ..Principal::default()
            },
            token_id: None,
            expires_s: VerifiedToken::END_UNKNOWN_S,
            not_before_s: None,
            audiences: Vec::new(),
            text: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use credentials::CredentialKind;

    use super::*;

    fn question(query: &str) -> Result<Option<ExplainQuestion>> {
        ExplainForm::read(Some(query)).question("192.0.2.7".parse().unwrap())
    }

    #[test]
    fn a_form_names_operation_client_and_address() {
        assert!(question("").unwrap().is_none());
        let asked = |query: &str| question(query).unwrap().unwrap();
        let kind = |query: &str| asked(query).credential.kind();
        assert_eq!(kind("path=/a"), CredentialKind::Anonymous);
        assert_eq!(kind("path=/a&vo=ops"), CredentialKind::Certificate);
        assert_eq!(kind("path=/a&issuer=https://iam&subject=/x"), CredentialKind::Token);
        assert_eq!(kind("path=/a&subject=/O=x/CN=Jane"), CredentialKind::Certificate);
        assert_eq!(asked("path=/a&op=write").operations.len(), 2);
        assert_eq!(asked("path=/a").address.to_string(), "192.0.2.7");
        assert_eq!(asked("path=/a&address=2001:db8::1").address.to_string(), "2001:db8::1");
        for wrong in [
            "path=/a&op=none",
            "path=/a&op=rename",
            "path=/a&address=x",
            "path=/../a",
            "path=/a&subject=jane",
            "path=/a&subject=CN=Jane Doe,O=Example",
        ] {
            assert!(question(wrong).is_err(), "{wrong}");
        }
        assert_eq!(asked("path=/a&op=rename&to=/b").operations.len(), 1);
    }
}
