//! What a request presents to say who it comes from.
//!
//! Each kind of credential is one variant of [`Credential`]. It yields a [`Grant`] (what it allows
//! by itself), a [`Principal`] (who it is, for the rules of `policy`), or both, and an [`Identity`]
//! for the log.

use types::{Error, ErrorCode, Phase, Secret, Side};

use crate::activity::Activities;
use crate::grant::Grant;
use crate::invalid_token;
use crate::issue::{owner_of, withheld_of};
use crate::macaroon::{Macaroon, MacaroonKey};
use crate::principal::Principal;
use crate::token::{TokenRules, UnverifiedToken};

/// A credential that was checked. A time limit or an address in it is not checked yet: that takes
/// the request, and is done by `policy`.
#[derive(Clone, Debug)]
pub enum Credential {
    /// None was sent.
    Anonymous,
    /// A macaroon with our signature.
    Macaroon(Box<VerifiedMacaroon>),
    /// A token of an issuer that the site trusts, with a good signature.
    Token(Box<VerifiedToken>),
    /// A client certificate or proxy that leads to an authority that the site trusts.
    Certificate(Box<VerifiedCertificate>),
    /// An invalid client certificate, and why. Its holder is anonymous: programs send certificates
    /// unasked, so it takes no right away that anonymous clients have.
    RefusedCertificate(Box<Error>),
}

/// A JSON Web Token whose signature, audience and profile are good.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    /// What its scopes grant; `None` when it has none that count, and only rules about its issuer,
    /// subject and groups can give rights. Its time of validity is in here when it grants.
    pub grant: Option<Grant>,
    /// Its issuer, subject, groups, and what the site's mappings make of them.
    pub principal: Principal,
    /// Its own name (`jti`), when it has one.
    pub token_id: Option<String>,
    /// Valid before this time, in seconds since 1970.
    pub expires_s: i64,
    /// Not valid before this time, in seconds since 1970, the tolerated skew of clocks already
    /// taken off.
    pub not_before_s: Option<i64>,
    /// The servers that it is for, as it names them.
    pub audiences: Vec<String>,
    /// The token as it came, for an upstream server that is shown it; `None` where it is not kept.
    pub text: Option<Secret>,
}

impl VerifiedToken {
    /// The end of a token that is only asked about. Nothing is said of how long it is valid.
    pub const END_UNKNOWN_S: i64 = i64::MAX;
}

/// The authority that issued a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CertificateIssuer {
    /// Its name in one line.
    pub dn: String,
    /// SHA-256 of its public key (`SubjectPublicKeyInfo`). A subordinate authority may have the
    /// name of another authority, but not its key.
    pub key_sha256: [u8; 32],
}

/// A chain of certificates that was verified.
#[derive(Clone, Debug)]
pub struct VerifiedCertificate {
    /// Its name and what VOMS says of it.
    pub principal: Principal,
    /// The authority that issued the end-entity certificate: two may give the same name to two
    /// people.
    pub issuer: CertificateIssuer,
    /// The end of the first of its certificates (and attribute certificates) that ends, in seconds
    /// since 1970.
    pub expires_s: i64,
    /// How many proxies stand in front of the end-entity certificate.
    pub proxies: usize,
    /// Whether a limited proxy is among them. Storage treats it like a full one.
    pub is_limited: bool,
    /// Whether a further proxy may be made from it (RFC 3820 §3.8.1).
    pub allows_proxies: bool,
    /// Why attributes of VOMS in it were left out, if some were.
    pub attribute_faults: Vec<String>,
}

/// A macaroon whose signature is ours and whose caveats are all understood.
#[derive(Clone, Debug)]
pub struct VerifiedMacaroon {
    macaroon: Macaroon,
    grant: Grant,
    /// The local user in whose name it was issued.
    user: Option<String>,
    /// The virtual organisation for which it was issued.
    vo: Option<String>,
    /// What was asked for and not given.
    withheld: Activities,
}

impl VerifiedMacaroon {
    /// Verifies with each of the keys, the newest first, so that a secret can be replaced while
    /// macaroons of the old one are still about.
    ///
    /// # Errors
    /// `invalid_token`, see [`Macaroon::verify`] and [`Grant::from_caveats`].
    pub fn new(macaroon: Macaroon, keys: &[MacaroonKey]) -> Result<Self, Error> {
        let mut refusal = invalid_token("this server accepts no macaroons");
        for key in keys {
            match macaroon.verify(key).and_then(|caveats| Grant::from_caveats(&caveats)) {
                Ok(grant) => {
                    let identifier = macaroon.identifier();
                    let owner = owner_of(&identifier);
                    return Ok(Self {
                        grant,
                        user: owner.user.map(str::to_owned),
                        vo: owner.vo.map(str::to_owned),
                        withheld: withheld_of(&identifier),
                        macaroon,
                    });
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// What it grants.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The local user in whose name its issuer gave it out; `None` when it names none.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The virtual organisation for which it was given out; `None` when it names none.
    #[must_use]
    pub fn vo(&self) -> Option<&str> {
        self.vo.as_deref()
    }

    /// What its requester asked for and did not get, if the issuer noted it.
    #[must_use]
    pub fn withheld(&self) -> Activities {
        self.withheld
    }

    /// The macaroon itself, to narrow it further.
    #[must_use]
    pub fn macaroon(&self) -> &Macaroon {
        &self.macaroon
    }
}

/// Whether a name can be one of a local user: letters, digits, `.`, `_`, `-` and `@`, and neither
/// an option nor a directory of its own.
#[must_use]
pub fn is_user_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    !name.is_empty() && name.bytes().all(plain) && !name.starts_with(['-', '.'])
}

/// The kinds of credential, for logs, metrics and explanations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialKind {
    /// None was sent.
    Anonymous,
    /// A macaroon of ours.
    Macaroon,
    /// A token of another issuer.
    Token,
    /// A client certificate.
    Certificate,
}

impl CredentialKind {
    /// The word in logs and metrics. Never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Macaroon => "macaroon",
            Self::Token => "token",
            Self::Certificate => "certificate",
        }
    }
}

/// Who was it? For the log; it holds nothing that would let a reader of the log act as the bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The credential's kind.
    pub kind: CredentialKind,
    /// For whom the credential was issued, when it says so.
    pub subject: Option<String>,
    /// Who issued it: a macaroon's location.
    pub issuer: Option<String>,
    /// The credential's own name: a macaroon's identifier.
    pub token_id: Option<String>,
}

impl Credential {
    /// What it grants by itself; `None` when only the rules of the export can say.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Macaroon(verified) => Some(verified.grant()),
            Self::Token(token) => token.grant.as_ref(),
            Self::Anonymous | Self::Certificate(_) | Self::RefusedCertificate(_) => None,
        }
    }

    /// Before which time it is valid, in seconds since 1970; `None`: it does not expire.
    #[must_use]
    pub fn expires_s(&self) -> Option<i64> {
        match self {
            Self::Macaroon(verified) => verified.grant.expires_s,
            Self::Token(token) => Some(token.expires_s),
            Self::Certificate(certificate) => Some(certificate.expires_s),
            Self::Anonymous | Self::RefusedCertificate(_) => None,
        }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> CredentialKind {
        match self {
            Self::Anonymous | Self::RefusedCertificate(_) => CredentialKind::Anonymous,
            Self::Macaroon(_) => CredentialKind::Macaroon,
            Self::Token(_) => CredentialKind::Token,
            Self::Certificate(_) => CredentialKind::Certificate,
        }
    }

    /// The verified identity; `None` when anonymous.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Token(token) => Some(&token.principal),
            Self::Certificate(certificate) => Some(&certificate.principal),
            Self::Anonymous | Self::Macaroon(_) | Self::RefusedCertificate(_) => None,
        }
    }

    /// The local user that goes with it: that of the site's mapping, or of a macaroon's issuer.
    #[must_use]
    pub fn local_user(&self) -> Option<&str> {
        match self {
            Self::Macaroon(verified) => verified.user(),
            Self::Token(_) | Self::Certificate(_) => self.principal()?.user.as_deref(),
            Self::Anonymous | Self::RefusedCertificate(_) => None,
        }
    }

    /// The virtual organisation that it counts for: the first that vouches for the holder.
    #[must_use]
    pub fn vo(&self) -> Option<&str> {
        match self {
            Self::Macaroon(verified) => verified.vo(),
            _ => self.principal()?.vos.first().map(String::as_str),
        }
    }

    /// The record for the log.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let (subject, issuer, token_id) = match self {
            Self::Anonymous | Self::RefusedCertificate(_) => (None, None, None),
            Self::Macaroon(verified) => (
                verified.grant.subject.clone(),
                Some(verified.macaroon.location()),
                Some(verified.macaroon.identifier()),
            ),
            Self::Token(token) => {
                let Principal { subject, issuer, .. } = &token.principal;
                (subject.clone(), issuer.clone(), token.token_id.clone())
            }
            Self::Certificate(certificate) => (certificate.principal.dn.clone(), None, None),
        };
        Identity {
            kind: self.kind(),
            subject,
            issuer,
            token_id,
        }
    }
}

/// The token of an `Authorization: Bearer` header or an `authz` query parameter (the value without
/// the scheme), taken apart. Nothing of it is verified.
#[derive(Clone, Debug)]
pub enum Bearer {
    /// A macaroon.
    Macaroon(Macaroon),
    /// A JSON Web Token.
    Token(Box<UnverifiedToken>),
}

impl Bearer {
    /// Distinguishes the kinds: a JSON Web Token has exactly two dots (RFC 7515 §3.1), a macaroon
    /// in base64 has none.
    ///
    /// # Errors
    /// `invalid_token` for a macaroon and `token_*` for a malformed JSON Web Token, and
    /// `token_malformed` for anything else.
    pub fn parse(token: &str) -> Result<Self, Error> {
        let token = token.trim();
        if token.is_empty() {
            return Err(malformed("the token is empty"));
        }
        if token.starts_with('{') {
            return Macaroon::parse(token).map(Self::Macaroon);
        }
        match token.bytes().filter(|byte| *byte == b'.').count() {
            // What does not even begin like a macaroon is not called a broken one.
            0 if !Macaroon::is_likely(token) => Err(invalid_token(NEITHER)),
            0 => Macaroon::parse(token).map(Self::Macaroon),
            2 => UnverifiedToken::parse(token).map(|token| Self::Token(Box::new(token))),
            4 => Err(malformed("it is an encrypted JSON Web Token, which is not taken here")),
            _ => Err(malformed(NEITHER)),
        }
    }
}

/// Reads and verifies a token on a server that has keys of macaroons and accepts the tokens of no
/// issuer; where there are some, see [`Bearer::parse`] and [`verify_token`](crate::verify_token).
///
/// # Errors
/// `invalid_token` or one of the codes `token_*`, with the reason. A request with such a token must
/// not be treated as anonymous: its sender claims an identity, and has to learn that the token is
/// useless.
pub fn read_bearer(token: &str, keys: &[MacaroonKey]) -> Result<Credential, Error> {
    match Bearer::parse(token)? {
        Bearer::Macaroon(macaroon) => {
            let verified = VerifiedMacaroon::new(macaroon, keys)?;
            Ok(Credential::Macaroon(Box::new(verified)))
        }
        Bearer::Token(token) => match TokenRules::default().issuer(token.issuer()) {
            Ok(_) => Err(malformed("it was accepted by no issuer")),
            Err(error) => Err(error),
        },
    }
}

/// Why a text is no token at all.
const NEITHER: &str = "it is neither a JSON Web Token nor a macaroon";

fn malformed(why: &str) -> Error {
    Error::new(ErrorCode::TokenMalformed, Side::Client, Phase::Authenticate).with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_token_are_told_apart() {
        let keys = [MacaroonKey::new(b"k")];
        // A header that names RS256, and a body that names an issuer.
        let unknown = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJpIn0.YQ";
        for (token, code, words) in [
            ("", ErrorCode::TokenMalformed, "empty"),
            ("YWFh.YmJi.Y2Nj", ErrorCode::TokenMalformed, "not JSON"),
            (unknown, ErrorCode::TokenIssuerUnknown, "no issuer"),
            ("aaa.bbb", ErrorCode::TokenMalformed, "neither"),
            ("a.b.c.d.e", ErrorCode::TokenMalformed, "encrypted"),
            (
                "!!!",
                ErrorCode::InvalidToken,
                "neither a JSON Web Token nor a macaroon",
            ),
            (
                "nonsense",
                ErrorCode::InvalidToken,
                "neither a JSON Web Token nor a macaroon",
            ),
            ("AgAA", ErrorCode::InvalidToken, "macaroon"),
        ] {
            let error = read_bearer(token, &keys).unwrap_err();
            assert_eq!(error.code(), code, "{token}");
            assert!(error.public().contains(words), "{token}: {error}");
        }
    }

    #[test]
    fn an_older_key_still_verifies_and_the_log_shows_no_secret() {
        let (old, new) = (MacaroonKey::new(b"old"), MacaroonKey::new(b"new"));
        let macaroon = Macaroon::mint(&old, "se.example.org", "id-1", ["name:jdoe", "path:/a"]).unwrap();
        let text = macaroon.to_text();
        let credential = read_bearer(text.expose(), &[new.clone(), old]).unwrap();
        let identity = credential.identity();
        assert_eq!(identity.subject.as_deref(), Some("jdoe"));
        assert_eq!(identity.issuer.as_deref(), Some("se.example.org"));
        assert_eq!(identity.token_id.as_deref(), Some("id-1"));
        let shown = format!("{credential:?} {identity:?}");
        let signature = &text.expose()[text.expose().len() - 20..];
        assert!(!shown.contains(signature) && !shown.contains(text.expose()));
        assert_eq!(
            read_bearer(text.expose(), &[new]).unwrap_err().code(),
            ErrorCode::InvalidToken
        );
        assert_eq!(
            read_bearer(text.expose(), &[]).unwrap_err().code(),
            ErrorCode::InvalidToken
        );
    }
}
