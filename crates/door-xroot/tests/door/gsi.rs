//! Logins by certificate (`gsi`), and the delegation of a proxy in them. The client calculates as
//! it should, and what it signs and sends is made here.

use std::sync::Arc;
use std::time::Duration;

use credentials::gsi::client::{Holder, Opened, Shown};
use credentials::x509::{CertificateRules, TrustStore};
use door_xroot::{AuthenticationMethod, Settings};
use endpoint::{DelegationStep, RequestRecord};
use gsi_wire::delegation::{CertificateRequest, ProxyDraft};
use gsi_wire::gsi::{ClientOptions, Opening, ServerEntry};
use gsi_wire::proxy::ProxyPolicy;
use gsi_wire::{Certificate, to_pem};
use identity::delegation::{DelegationSettings, Delegations, Delegator};
use identity::{Authenticator, Certificates, ShownBy, Sources};
use net::random::fill;
use net::tls::ServerTls;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer};
use testkit::{Authority, CertificateOptions, HostCertificate, ProxyOptions, Scratch, SigningPair, User};
use types::ErrorCode;
use xroot_wire::ErrorNumber;
use xroot_wire::request::{Authenticate, Expect, Request};
use xroot_wire::response::LoginReply;

use crate::harness::{Answer, Raw, Server, login};

const MORE: u16 = 4002;
pub(crate) const DN: &str = "/O=Crossload test/CN=Jane Doe";

/// A server that offers gsi and keeps proxies.
pub(crate) struct Lab {
    pub(crate) server: Server,
    pub(crate) delegations: Delegations,
    authenticator: Authenticator,
    pub(crate) authority: Authority,
    host: HostCertificate,
    pub(crate) jane: User,
    scratch: Scratch,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new("door-gsi").unwrap();
        let authority = Authority::new(scratch.path()).unwrap();
        let host = authority.issue_localhost().unwrap();
        let (trust, _) = TrustStore::build(authority.trust_files().unwrap());
        let rules = CertificateRules {
            trust: Arc::new(trust),
            ..CertificateRules::default()
        };
        let authenticator = Authenticator::new(Sources {
            certificates: Certificates::new(Some(rules)),
            ..Sources::default()
        });
        let delegations = Delegations::open(DelegationSettings {
            directory: scratch.path().join("delegated"),
            key: credentials::SealingKey::new(b"key"),
        });
        let delegations = delegations.unwrap();
        let server = start(&host, &authenticator, |settings| {
            settings.delegations = Some(delegations.clone());
        });
        Self {
            host,
            jane: authority.issue_user(DN).unwrap(),
            server,
            delegations,
            authenticator,
            authority,
            scratch,
        }
    }

    /// Another server that demands gsi, and keeps no proxies.
    pub(crate) fn another(&self, change: impl FnOnce(&mut Settings)) -> Server {
        start(&self.host, &self.authenticator, change)
    }

    /// A session of a user, who delegates a proxy or does not.
    pub(crate) async fn session(&self, user: &User, delegates: bool) -> Raw {
        match delegates {
            true => {
                let mut login = self.asked(user).await;
                login.delegate(|request| Ok(proxy(user, request, |_| {}))).await.ok();
                login.raw
            }
            false => {
                let login = self.showing(user, ClientOptions::default()).await;
                login.answer.ok();
                login.raw
            }
        }
    }

    fn owner(&self, user: &User) -> Delegator {
        let chain = chain(user);
        Delegator::of(&self.authenticator.certificates(Some(&chain))).unwrap()
    }

    /// The subject of what a user has delegated.
    fn kept(&self, user: &User) -> Option<String> {
        let identity = self
            .delegations
            .identity(&self.owner(user), Duration::ZERO, ShownBy::Gsi);
        identity.map(|identity| identity.subject().to_owned())
    }

    /// The record of a user's login that did this about delegation.
    async fn logged(&self, user: &User, step: DelegationStep) -> RequestRecord {
        let dn = user.dn().unwrap();
        let is_wanted =
            |record: &RequestRecord| record.delegation == Some(step) && record.subject.as_ref() == Some(&dn);
        self.server.log.first(is_wanted).await
    }

    /// A connection that has logged in and not authenticated, with the offer of gsi.
    async fn offered(&self) -> (Raw, ServerEntry) {
        let mut raw = self.server.connect().await;
        raw.greet(xroot_wire::ProtocolOptions::empty(), Expect::Login).await;
        let reply = LoginReply::parse(&raw.ask(&login(true)).await.ok()).unwrap();
        let entry = &reply.protocols[0];
        let entry = ServerEntry::parse(entry.parameters.as_deref().unwrap()).unwrap();
        (raw, entry)
    }

    /// A login in which the client has shown its chain.
    pub(crate) async fn showing(&self, user: &User, options: ClientOptions) -> Login {
        let (mut raw, entry) = self.offered().await;
        let holder = holder(user);
        let (opened, message) = Opened::begin(&entry, options, &mut fill);
        let answer = step(&mut raw, &message).await;
        assert_eq!(answer.status, MORE, "{answer:?}");
        let (shown, message) = opened.hear(&answer.body).unwrap().show(&holder, &mut fill).unwrap();
        let answer = step(&mut raw, &message).await;
        Login {
            raw,
            holder,
            shown,
            answer,
            proof: message,
        }
    }

    /// A login whose client is asked for a proxy.
    pub(crate) async fn asked(&self, user: &User) -> Login {
        let login = self
            .showing(user, ClientOptions::DELEGATES | ClientOptions::SIGNS)
            .await;
        assert_eq!(login.answer.status, MORE, "{:?}", login.answer);
        login
    }
}

fn start(host: &HostCertificate, authenticator: &Authenticator, change: impl FnOnce(&mut Settings)) -> Server {
    Server::start(|settings| {
        settings.site.tls = Some(ServerTls::load(&host.certificate, &host.key).unwrap());
        settings.site.authenticator = authenticator.clone();
        settings.authentication = vec![AuthenticationMethod::Gsi];
        change(settings);
    })
}

/// A login that is under way.
pub(crate) struct Login {
    pub(crate) raw: Raw,
    holder: Holder,
    shown: Shown,
    /// The last answer.
    pub(crate) answer: Answer,
    /// The message with the chain.
    proof: Vec<u8>,
}

impl Login {
    /// The message with the proxy that `sign` makes of the request.
    fn signed(&self, sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>) -> Vec<u8> {
        let message = self.shown.delegate(&self.answer.body, &self.holder, sign, &mut fill);
        message.unwrap()
    }

    /// Sends it.
    pub(crate) async fn delegate(&mut self, sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>) -> Answer {
        let message = self.signed(sign);
        step(&mut self.raw, &message).await
    }
}

async fn step(raw: &mut Raw, message: &[u8]) -> Answer {
    raw.ask(&Request::Authenticate(Authenticate::new("gsi", message))).await
}

fn chain(user: &User) -> Vec<CertificateDer<'static>> {
    let owned = user.chain().into_iter().map(<[u8]>::to_vec);
    owned.map(CertificateDer::from).collect()
}

fn holder(user: &User) -> Holder {
    let key = PrivateKeyDer::from_pem_slice(user.key().private_pem().as_bytes()).unwrap();
    Holder::new(&chain(user), key.secret_der()).unwrap()
}

/// A proxy for a request, as XRootD's clients sign it unless `change` makes it another.
pub(crate) fn proxy(user: &User, request: &[u8], change: impl FnOnce(&mut ProxyDraft<'_>)) -> Vec<u8> {
    let request = CertificateSigningRequestDer::from_pem_slice(request).unwrap();
    let request = CertificateRequest::parse(&request).unwrap();
    let issuer = Certificate::parse(user.chain()[0]).unwrap();
    let (above, number) = request.subject_line.rsplit_once("/CN=").unwrap();
    assert_eq!(above, issuer.subject().one_line, "the request names the client");
    let mut draft = ProxyDraft {
        issuer: issuer.subject().der,
        common_name: number,
        serial: &number.parse::<u32>().unwrap().to_be_bytes(),
        public_key_info: request.public_key_info,
        not_before_s: issuer.not_before_s(),
        not_after_s: issuer.not_after_s(),
        policy: ProxyPolicy::Full,
        path_length: None,
        extensions: Vec::new(),
    };
    change(&mut draft);
    let key = user.key();
    let signed = draft.encode::<Box<dyn std::error::Error>>(key.kind(), |content| Ok(key.sign(content)?));
    to_pem("CERTIFICATE", &signed.unwrap()).into_bytes()
}

#[tokio::test]
async fn a_client_is_asked_for_a_proxy_once_while_it_lasts() {
    let lab = Lab::new();
    let proxied = lab.jane.proxy().unwrap();
    assert_eq!(lab.kept(&proxied), None);
    let mut first = lab.asked(&proxied).await;
    first
        .delegate(|request| Ok(proxy(&proxied, request, |_| {})))
        .await
        .ok();
    let kept = lab.kept(&proxied).unwrap();
    let own = Certificate::parse(proxied.chain()[0])
        .unwrap()
        .subject()
        .one_line
        .to_owned();
    assert!(kept.starts_with(&format!("{own}/CN=")), "{kept}");
    lab.server
        .log
        .first(|record| record.delegation == Some(DelegationStep::Asked))
        .await;
    let record = lab.logged(&lab.jane, DelegationStep::Received).await;
    assert_eq!(record.delegation_error, None);
    // It lasts as long as a new one would.
    let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    lab.showing(&proxied, options).await.answer.ok();
    assert_eq!(lab.kept(&proxied), Some(kept));
}

#[tokio::test]
async fn only_a_client_that_signs_is_asked() {
    let lab = Lab::new();
    let proxied = lab.jane.proxy().unwrap();
    for options in [
        ClientOptions::default(),
        ClientOptions::MAKES_PROXIES,
        // It would send its private key.
        ClientOptions::SIGNS | ClientOptions::SENDS_KEY,
    ] {
        lab.showing(&proxied, options).await.answer.ok();
    }
    for options in [ClientOptions::DELEGATES, ClientOptions::SIGNS] {
        assert_eq!(lab.showing(&proxied, options).await.answer.status, MORE);
    }
    assert_eq!(lab.kept(&proxied), None);
}

#[tokio::test]
async fn a_stored_proxy_that_ends_soon_is_renewed_by_one_that_lasts_longer() {
    let lab = Lab::new();
    let ending = |ends_s| {
        let options = ProxyOptions {
            ends_s,
            ..ProxyOptions::default()
        };
        lab.jane.proxy_with(&options).unwrap()
    };
    let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    let (short, same, longer) = (ending(3600), ending(3700), ending(7200));
    lab.asked(&short)
        .await
        .delegate(|request| Ok(proxy(&short, request, |_| {})))
        .await
        .ok();
    let kept = lab.kept(&short);
    lab.showing(&same, options).await.answer.ok();
    lab.asked(&longer)
        .await
        .delegate(|request| Ok(proxy(&longer, request, |_| {})))
        .await
        .ok();
    assert_ne!(lab.kept(&short), kept);
}

/// FTS' clients look for their proxy under the name that `/whoami` gives them.
#[tokio::test]
async fn a_proxy_of_a_login_is_seen_and_removed_under_its_owners_name() {
    let lab = Lab::new();
    lab.session(&lab.jane, true).await;
    let owner = lab.owner(&lab.jane);
    assert_eq!(
        lab.delegations
            .expires_s(&owner, "another name", identity::ShownBy::Gsi),
        None
    );
    assert!(
        lab.delegations
            .expires_s(&owner, &owner.id(), identity::ShownBy::Tls)
            .is_some()
    );
    assert!(lab.delegations.remove(&owner, &owner.id()));
    assert_eq!(lab.kept(&lab.jane), None);
    assert!(!lab.delegations.remove(&owner, &owner.id()));
}

#[tokio::test]
async fn a_server_that_keeps_no_proxies_notes_an_offer() {
    let mut lab = Lab::new();
    lab.server = lab.another(|_| {});
    let offers = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    lab.showing(&lab.jane, offers).await.answer.ok();
    let record = lab.logged(&lab.jane, DelegationStep::NotAsked).await;
    let why = record.delegation_error.expect("a reason");
    assert_eq!(why.code, "credential_unsupported");
    assert!(
        why.message.contains("[delegation] is not configured"),
        "{}",
        why.message
    );
}

#[tokio::test]
async fn a_proxy_is_kept_for_a_limited_time_even_if_it_is_valid_longer() {
    let lab = Lab::new();
    let days = |days: u64| Duration::from_secs(days * 86400);
    let options = ProxyOptions {
        ends_s: 9 * 86400,
        ..ProxyOptions::default()
    };
    let user = lab.jane.proxy_with(&options).unwrap();
    lab.session(&user, true).await;
    let owner = lab.owner(&user);
    assert!(lab.delegations.identity(&owner, days(6), ShownBy::Gsi).is_some());
    assert!(lab.delegations.identity(&owner, days(8), ShownBy::Gsi).is_none());
}

/// A certificate of the authority for the key of a request.
fn certificate(authority: &Authority, request: &[u8]) -> Vec<u8> {
    let request = CertificateSigningRequestDer::from_pem_slice(request).unwrap();
    let request = CertificateRequest::parse(&request).unwrap();
    let options = CertificateOptions {
        public_key_info: Some(request.public_key_info.to_vec()),
        ..CertificateOptions::default()
    };
    let issued = authority.issue(DN, &options).unwrap();
    to_pem("CERTIFICATE", issued.chain()[0]).into_bytes()
}

/// The same certificate with another signature.
fn altered(pem: &[u8]) -> Vec<u8> {
    let mut der = CertificateDer::from_pem_slice(pem).unwrap().to_vec();
    *der.last_mut().unwrap() ^= 1;
    to_pem("CERTIFICATE", &der).into_bytes()
}

/// A proxy for a request below the user's own certificate, where one below the proxy was asked for.
fn of_end_entity(user: &User, proxied: &User, request: &[u8]) -> Vec<u8> {
    let own = Certificate::parse(user.chain()[0]).unwrap();
    let key = user.key();
    let mut made = Vec::new();
    proxy(proxied, request, |draft| {
        let draft = ProxyDraft {
            issuer: own.subject().der,
            ..draft.clone()
        };
        let signed = draft.encode::<Box<dyn std::error::Error>>(key.kind(), |content| Ok(key.sign(content)?));
        made = to_pem("CERTIFICATE", &signed.unwrap()).into_bytes();
    });
    made
}

/// How a client answers the request for a proxy.
type Signer<'a> = &'a dyn Fn(&User, &[u8]) -> Result<Vec<u8>, String>;

#[tokio::test]
async fn a_bad_proxy_is_not_kept_and_the_login_goes_on() {
    let lab = Lab::new();
    let other_key = SigningPair::new(testkit::KeyKind::Rsa2048).unwrap().public_key_info();
    let other_key: &'static [u8] = other_key.leak();
    let cases: [(&str, &str, Signer<'_>); 9] = [
        ("another key", "for another key", &|user, request| {
            Ok(proxy(user, request, |draft| draft.public_key_info = other_key))
        }),
        ("another name", "another name", &|user, request| {
            Ok(proxy(user, request, |draft| draft.common_name = "4711"))
        }),
        (
            "another signer",
            "not made from the certificate of this session",
            &|user, request| Ok(of_end_entity(&lab.jane, user, request)),
        ),
        ("longer than its signer", "ends later", &|user, request| {
            Ok(proxy(user, request, |draft| draft.not_after_s += 3600))
        }),
        ("limited", "full proxy made from a limited one", &|user, request| {
            Ok(proxy(user, request, |_| {}))
        }),
        ("altered", "altered", &|user, request| {
            Ok(altered(&proxy(user, request, |_| {})))
        }),
        ("no proxy", "is no proxy", &|_, request| {
            Ok(certificate(&lab.authority, request))
        }),
        ("independent", "is independent", &|user, request| {
            Ok(proxy(user, request, |draft| draft.policy = ProxyPolicy::Independent))
        }),
        ("words", "signs none: I would rather not", &|_, _| {
            Err("I would rather not".into())
        }),
    ];
    for (name, why, sign) in cases {
        let user = lab
            .authority
            .issue_user(&format!("/O=Crossload test/CN={name}"))
            .unwrap();
        let options = ProxyOptions {
            is_limited: name == "limited",
            ..ProxyOptions::default()
        };
        let user = user.proxy_with(&options).unwrap();
        lab.asked(&user)
            .await
            .delegate(|request| sign(&user, request))
            .await
            .ok();
        let record = lab.logged(&user, DelegationStep::Refused).await;
        let error = record.delegation_error.unwrap();
        assert!(error.message.contains(why), "{name}: {}", error.message);
        assert_eq!(
            (error.side, error.phase, record.status),
            ("client", "authenticate", Some(0)),
            "{name}"
        );
        assert!(record.error.is_none(), "{name}");
        assert_eq!(lab.kept(&user), None, "{name}");
    }
}

#[tokio::test]
async fn a_message_that_is_not_the_proxy_ends_the_login() {
    let lab = Lab::new();
    let user = lab.jane.proxy().unwrap();
    let good = |request: &[u8]| Ok(proxy(&user, request, |_| {}));
    // Of another login: each has a key of its own.
    let recorded = lab.asked(&user).await.signed(good);
    let key = user.key().private_pem();
    let with_key = |request: &[u8]| Ok([&proxy(&user, request, |_| {})[..], key.as_bytes()].concat());
    let twice = |request: &[u8]| Ok([good(request)?, good(request)?].concat());
    let asked = lab.asked(&user).await;
    let mut cut = asked.signed(good);
    cut.truncate(cut.len() - 40);
    let (_, opening) = Opened::begin(&ServerEntry::new([1]), ClientOptions::SIGNS, &mut fill);
    let own = lab.asked(&user).await;
    for (name, mut login, message) in [
        ("replayed", lab.asked(&user).await, recorded),
        ("cut", asked, cut),
        ("the second message again", own, Vec::new()),
        ("the first message again", lab.asked(&user).await, opening),
    ] {
        let message = if message.is_empty() {
            login.proof.clone()
        } else {
            message
        };
        let refused = step(&mut login.raw, &message).await;
        assert_eq!(refused.error(), ErrorNumber::AUTHENTICATION_FAILED, "{name}");
        // The key is gone with the login.
        let late = login.delegate(good).await;
        assert_eq!(late.error(), ErrorNumber::AUTHENTICATION_FAILED, "{name}");
        assert_eq!(lab.kept(&user), None, "{name}");
    }
    for (name, message) in [("a private key", &with_key as &dyn Fn(&[u8]) -> _), ("two", &twice)] {
        let mut login = lab.asked(&user).await;
        let refused = login.delegate(message).await;
        assert_eq!(refused.error(), ErrorNumber::AUTHENTICATION_FAILED, "{name}");
        assert_eq!(lab.kept(&user), None, "{name}");
    }
    let record = lab.server.log.first(|record| {
        let error = record.error.as_ref();
        error.is_some_and(|error| error.message.contains("a private key was sent"))
    });
    let record = format!("{:?}", record.await);
    assert!(!record.contains("BEGIN") && !record.contains(&key[40..80]), "{record}");
}

#[tokio::test]
async fn the_first_messages_of_another_login_prove_nothing() {
    let lab = Lab::new();
    let user = lab.jane.proxy().unwrap();
    let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    let recorded = lab.showing(&user, options).await.proof;
    let (mut raw, entry) = lab.offered().await;
    let (_, opening) = Opened::begin(&entry, options, &mut fill);
    assert_eq!(step(&mut raw, &opening).await.status, MORE);
    assert_eq!(
        step(&mut raw, &recorded).await.error(),
        ErrorNumber::AUTHENTICATION_FAILED
    );
    assert_eq!(lab.kept(&user), None);
}

#[tokio::test]
async fn versions_that_do_not_sign_the_agreement_are_refused_at_once() {
    let lab = Lab::new();
    for version in [10_000, 10_100, 10_300, 10_399] {
        let (mut raw, entry) = lab.offered().await;
        let opening = Opening {
            version,
            authorities: &entry.authority_list(),
            options: ClientOptions::DELEGATES | ClientOptions::SIGNS,
            tag: *b"tagtagta",
        };
        let refused = step(&mut raw, &opening.encode()).await;
        assert_eq!(refused.error(), ErrorNumber::AUTHENTICATION_FAILED, "{version}");
    }
}

#[tokio::test]
async fn two_delegations_at_once_do_not_disturb_each_other() {
    let lab = Lab::new();
    let user = lab.jane.proxy().unwrap();
    let (mut one, mut other) = (lab.asked(&user).await, lab.asked(&user).await);
    for login in [&mut other, &mut one] {
        login.delegate(|request| Ok(proxy(&user, request, |_| {}))).await.ok();
        assert!(lab.kept(&user).is_some());
    }
}

#[tokio::test]
async fn a_user_who_leaves_requests_unanswered_is_asked_no_more() {
    let lab = Lab::new();
    let user = lab.jane.proxy().unwrap();
    let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
    let mut unanswered = Vec::new();
    for _ in 0..identity::limits::LOGIN_DELEGATIONS_PER_USER_MAX {
        unanswered.push(lab.asked(&user).await);
    }
    lab.showing(&user, options).await.answer.ok();
    let record = lab.logged(&user, DelegationStep::NotAsked).await;
    let error = record.delegation_error.unwrap();
    assert_eq!(error.code, ErrorCode::Overloaded.name());
    // Others are.
    let other = lab.authority.issue_user("/O=Crossload test/CN=Other").unwrap();
    lab.asked(&other).await;
    // A session that ends frees its own.
    drop(unanswered.pop());
    let freed = || lab.delegations.ask_proxy(&lab.owner(&user), &empty_name());
    while freed().is_err() {
        tokio::task::yield_now().await;
    }
    lab.asked(&user).await;
}

fn empty_name() -> Vec<u8> {
    gsi_wire::encode::sequence(&[])
}

impl Lab {
    /// A user's login that was not asked for a proxy, for a reason with these words.
    async fn not_asked(&self, user: &User, words: &str) {
        let options = ClientOptions::DELEGATES | ClientOptions::SIGNS;
        self.showing(user, options).await.answer.ok();
        let dn = user.dn().unwrap();
        let is_wanted = |record: &RequestRecord| {
            let error = record.delegation_error.as_ref();
            record.delegation == Some(DelegationStep::NotAsked)
                && record.subject.as_ref() == Some(&dn)
                && error.is_some_and(|error| error.message.contains(words))
        };
        self.server.log.first(is_wanted).await;
    }
}

#[tokio::test]
async fn a_user_who_got_nowhere_is_not_asked_again_for_a_while() {
    let lab = Lab::new();
    let limited = ProxyOptions {
        is_limited: true,
        ..ProxyOptions::default()
    };
    let limited = lab.jane.proxy_with(&limited).unwrap();
    // As XRootD's client does it.
    let mut login = lab.asked(&limited).await;
    login
        .delegate(|request| Ok(proxy(&limited, request, |_| {})))
        .await
        .ok();
    lab.not_asked(&limited, "signed none lately").await;
    let unwilling = lab.authority.issue_user("/O=Crossload test/CN=Unwilling").unwrap();
    let mut login = lab.asked(&unwilling).await;
    login.delegate(|_| Err("no".to_owned())).await.ok();
    lab.not_asked(&unwilling, "signed none lately").await;
    // The same user with another proxy.
    lab.session(&lab.jane.proxy().unwrap(), true).await;
}

#[tokio::test]
async fn the_same_subject_of_another_authority_gets_nothing_of_a_user() {
    let lab = Lab::new();
    lab.session(&lab.jane, true).await;
    assert!(lab.kept(&lab.jane).is_some());
    // An authority may even have the name of the user's.
    let root = Certificate::parse(lab.authority.der()).unwrap();
    let other = lab.authority.issue_authority(root.subject().one_line).unwrap();
    let namesake = other.issue_user(DN).unwrap();
    assert_eq!(lab.owner(&namesake).id(), lab.owner(&lab.jane).id());
    assert_eq!(lab.kept(&namesake), None);
    // Asked as one who has delegated nothing, with a proxy of their own.
    lab.session(&namesake, true).await;
    let chains = [&lab.jane, &namesake].map(|user| {
        let identity = lab.delegations.identity(&lab.owner(user), Duration::ZERO, ShownBy::Tls);
        identity.unwrap().chain()[1].to_vec()
    });
    assert_eq!(chains, [lab.jane.chain()[0], namesake.chain()[0]]);
}

#[tokio::test]
async fn an_administrator_withdraws_a_proxy_by_removing_its_file() {
    let lab = Lab::new();
    lab.session(&lab.jane, true).await;
    assert!(lab.kept(&lab.jane).is_some());
    for entry in std::fs::read_dir(lab.scratch.path().join("delegated")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(lab.kept(&lab.jane), None);
    lab.asked(&lab.jane).await;
}
