//! Users with certificates, and the client's side of a login by gsi: the agreement on a key, and
//! the proxy that is signed when the server asks for one.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use credentials::gsi::client::{Holder, Opened, Shown};
use credentials::x509::{Naming, proxy_terms};
use gsi_wire::delegation::{CertificateRequest, ProxyDraft};
use gsi_wire::gsi::{ClientOptions, ServerEntry};
use gsi_wire::{Certificate, Malformed, ProxyPolicy, pem_blocks, to_pem};
use net::random::{fill, random};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use testkit::{Authority, CertificateOptions, Error, KeyKind, Result, SigningPair};

use super::session::failed;

/// Since when proxies are valid, and for how long, in seconds.
const PROXY_SINCE_S: i64 = 300;
const PROXY_LASTS_S: i64 = 12 * 3600;

/// Makes users that differ in their names. All have the same key, because making one takes longer
/// than a login.
pub(crate) struct Users {
    pair: SigningPair,
    made: u32,
}

impl Users {
    pub(crate) fn new() -> Result<Self> {
        let pair = SigningPair::new(KeyKind::Rsa2048)?;
        Ok(Self { pair, made: 0 })
    }

    /// One more user, with a proxy.
    pub(crate) fn next(&mut self, authority: &Authority) -> Result<User> {
        self.made += 1;
        let options = CertificateOptions {
            // This key is thrown away, and the least work.
            key: KeyKind::EcdsaP256,
            public_key_info: Some(self.pair.public_key_info()),
            ..CertificateOptions::default()
        };
        let dn = format!("/O=Crossload test/CN=User {}", self.made);
        let own = authority.issue(&dn, &options)?.end_entity().to_vec();
        let terms = Terms {
            number: u64::from_be_bytes(random()) >> 1 | 1,
            public_key_info: &self.pair.public_key_info(),
            policy: ProxyPolicy::Full,
            path_length: None,
        };
        let proxy = sign(&self.pair, &own, terms)?;
        let chain = [proxy, own].map(CertificateDer::from).to_vec();
        let key = PrivateKeyDer::from_pem_slice(self.pair.private_pem().as_bytes()).map_err(failed)?;
        Ok(User {
            holder: Holder::new(&chain, key.secret_der()).map_err(|fault| failed(fault.0))?,
            chain,
            pair: self.pair.clone(),
        })
    }
}

/// A user who can log in by gsi.
pub(crate) struct User {
    holder: Holder,
    /// Proxy and certificate.
    chain: Vec<CertificateDer<'static>>,
    pair: SigningPair,
}

impl User {
    /// Signs the proxy that a server asks for.
    fn delegate(&self, request: &[u8]) -> Result<Vec<u8>> {
        let blocks = pem_blocks(request).map_err(failed)?;
        let [request] = blocks.as_slice() else {
            return Err(failed("the server does not ask for one proxy"));
        };
        let request = CertificateRequest::parse(&request.der).map_err(failed)?;
        let chain: std::result::Result<Vec<_>, _> = self.chain.iter().map(|der| Certificate::parse(der)).collect();
        let terms = proxy_terms(&chain.map_err(failed)?, &request, Naming::Numbered).map_err(failed)?;
        let terms = Terms {
            number: terms.number.ok_or_else(|| failed("the proxy has no number"))?,
            public_key_info: request.public_key_info,
            policy: terms.policy,
            path_length: terms.path_length,
        };
        let proxy = sign(&self.pair, &self.chain[0], terms)?;
        Ok(to_pem("CERTIFICATE", &proxy).into_bytes())
    }
}

/// What a proxy says.
struct Terms<'a> {
    /// Its name below its issuer, and its serial number.
    number: u64,
    public_key_info: &'a [u8],
    policy: ProxyPolicy,
    path_length: Option<u32>,
}

/// A proxy below the certificate `issuer`, both in DER.
fn sign(pair: &SigningPair, issuer: &[u8], terms: Terms<'_>) -> Result<Vec<u8>> {
    let issuer = Certificate::parse(issuer).map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(failed)?;
    let now_s = i64::try_from(now.as_secs()).map_err(failed)?;
    let draft = ProxyDraft {
        issuer: issuer.subject().der,
        common_name: &terms.number.to_string(),
        serial: &terms.number.to_be_bytes(),
        public_key_info: terms.public_key_info,
        not_before_s: now_s - PROXY_SINCE_S,
        not_after_s: now_s + PROXY_LASTS_S,
        policy: terms.policy,
        path_length: terms.path_length,
        extensions: Vec::new(),
    };
    let signed = draft.encode(pair.kind(), |content| pair.sign(content).map_err(Unsigned));
    signed.map_err(|Unsigned(error)| error)
}

/// Why a proxy was not signed.
struct Unsigned(Error);

impl From<Malformed> for Unsigned {
    fn from(why: Malformed) -> Self {
        Self(failed(why))
    }
}

/// Who logs in, and what for.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: Arc<User>,
    /// Whether the user offers to sign a proxy.
    pub(crate) delegates: bool,
}

/// A login that is under way.
pub(super) struct Showing<'a> {
    login: &'a Login,
    round: Round,
    /// Whether the server has asked for a proxy and got it.
    pub(super) has_delegated: bool,
}

enum Round {
    Opened(Opened),
    Shown(Box<Shown>),
    Delegated,
}

impl<'a> Showing<'a> {
    /// Begins, and gives the first message to a server whose offer of gsi is this.
    pub(super) fn begin(login: &'a Login, parameters: &str) -> Result<(Self, Vec<u8>)> {
        let server = ServerEntry::parse(parameters).map_err(|fault| failed(fault.0))?;
        let options = match login.delegates {
            true => ClientOptions::DELEGATES | ClientOptions::SIGNS,
            false => ClientOptions::default(),
        };
        let (opened, message) = Opened::begin(&server, options, &mut fill);
        let begun = Self {
            login,
            round: Round::Opened(opened),
            has_delegated: false,
        };
        Ok((begun, message))
    }

    /// The answer to a message of the server.
    pub(super) fn answer(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let user = &self.login.user;
        match std::mem::replace(&mut self.round, Round::Delegated) {
            Round::Opened(opened) => {
                let heard = opened.hear(message).map_err(|fault| failed(fault.0))?;
                let (shown, answer) = heard.show(&user.holder, &mut fill).map_err(|fault| failed(fault.0))?;
                self.round = Round::Shown(Box::new(shown));
                Ok(answer)
            }
            Round::Shown(shown) => {
                let mut why = None;
                let sign = |request: &[u8]| {
                    user.delegate(request).map_err(|error| {
                        let words = error.to_string();
                        why = Some(error);
                        words
                    })
                };
                let answer = shown.delegate(message, &user.holder, sign, &mut fill);
                let answer = answer.map_err(|fault| failed(fault.0))?;
                self.has_delegated = true;
                why.map_or(Ok(answer), Err)
            }
            Round::Delegated => Err(failed("the server goes on asking")),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Scratch;

    use super::*;

    #[test]
    fn users_have_names_of_their_own_and_proxies_below_them() {
        let scratch = Scratch::new("bench-users").expect("scratch");
        let authority = Authority::new(scratch.path()).expect("an authority");
        let mut users = Users::new().expect("a key");
        let mut names = Vec::new();
        for _ in 0..2 {
            let user = users.next(&authority).expect("a user");
            let [proxy, own] = [0, 1].map(|place| Certificate::parse(&user.chain[place]).expect("readable"));
            let name = own.subject().one_line;
            assert!(proxy.subject().one_line.starts_with(&format!("{name}/CN=")));
            names.push(name.to_owned());
        }
        assert_ne!(names[0], names[1]);
    }
}
