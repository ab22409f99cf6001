//! Tokens of a throw-away issuer that misbehaves in every way: no request waits longer than the
//! limit, and each fault has its words.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use credentials::{Credential, IssuerRules, KeySet, TokenRules};
use identity::{Authenticator, IssuerEvent, IssuerSettings, Issuers, KeyFetcher, LastShown, Sources};
use net::tls::{ClientTls, Trust};
use testkit::{Authority, IssuerMode, Scratch, TokenAlgorithm, TokenIssuer};
use types::{ErrorCode, Result};

/// How long a request waits here.
const WAIT: Duration = Duration::from_millis(300);
/// More than it may take with that: a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(5);

struct Site {
    scratch: Scratch,
    authority: Authority,
    issuer: TokenIssuer,
    events: Arc<Mutex<Vec<String>>>,
    fetches: Arc<AtomicUsize>,
}

impl Site {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name).expect("scratch");
        let authority = Authority::new(scratch.path()).expect("authority");
        let issuer = TokenIssuer::start(&authority).expect("issuer");
        Self {
            scratch,
            authority,
            issuer,
            events: Arc::default(),
            fetches: Arc::default(),
        }
    }

    fn settings(&self) -> IssuerSettings {
        let trust = Trust {
            files: vec![self.authority.ca_file()],
            ..Trust::default()
        };
        let (events, fetches) = (self.events.clone(), self.fetches.clone());
        IssuerSettings {
            fetcher: KeyFetcher {
                tls: ClientTls::load(&trust).expect("trust").0,
                timeout: Duration::from_secs(2),
                user_agent: "test".to_owned(),
            },
            wait: WAIT,
            refresh: Duration::from_secs(3600),
            expiry: Duration::from_secs(86400),
            state_directory: None,
            tell: Arc::new(move |_, event| {
                fetches.fetch_add(1, Ordering::SeqCst);
                events.lock().unwrap().push(match event {
                    IssuerEvent::Failed(error) => error.public(),
                    other => format!("{other:?}"),
                });
            }),
        }
    }

    fn rules(&self) -> TokenRules {
        TokenRules {
            issuers: vec![IssuerRules::new(self.issuer.url())],
            audiences: vec!["https://se.example.org".to_owned()],
            skew_s: 60,
        }
    }

    fn authenticator_with(&self, settings: &IssuerSettings, fixed: Option<Arc<KeySet>>) -> Authenticator {
        let url = self.issuer.url();
        Authenticator::new(Sources {
            token_rules: self.rules(),
            issuers: Issuers::new([(url.as_str(), fixed)], settings, &Issuers::default()),
            ..Sources::default()
        })
    }

    fn authenticator(&self) -> Authenticator {
        self.authenticator_with(&self.settings(), None)
    }

    fn token(&self) -> String {
        self.issuer.token().scope("storage.read:/").mint()
    }

    /// Waits until so many fetches have ended.
    async fn fetched(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE * 4;
        while self.fetches.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "{:?}", self.events.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn what_a_connection_showed_is_known_again_until_the_rules_are_read_anew() {
    let site = Site::new("identity-again");
    let authenticator = site.authenticator();
    let token = site.token();
    let (field, mut last) = (format!("Bearer {token}"), LastShown::default());
    assert!(authenticator.again(&field, &last).is_none(), "nothing was shown");
    let first = authenticator
        .bearer_in(Some(&field), &token, &mut last)
        .await
        .expect("verified");
    let again = authenticator.again(&field, &last).expect("known again");
    assert_eq!(first.identity(), again.identity());
    assert!(authenticator.again(&format!("{field} "), &last).is_none());
    assert!(site.authenticator().again(&field, &last).is_none(), "another server's");
    let clone = authenticator.clone();
    authenticator.replace(Sources::default());
    for one in [&authenticator, &clone] {
        assert!(one.again(&field, &last).is_none(), "the issuer may be trusted no more");
    }
    assert!(authenticator.bearer_in(Some(&field), &token, &mut last).await.is_err());
}

fn code(outcome: Result<Arc<Credential>>) -> ErrorCode {
    outcome.expect_err("refused").code()
}

#[tokio::test]
async fn a_token_is_verified_and_then_remembered() {
    let site = Site::new("identity-good");
    let authenticator = site.authenticator();
    for algorithm in [TokenAlgorithm::Rs256, TokenAlgorithm::Es256] {
        let token = site.issuer.token().scope("storage.read:/").algorithm(algorithm).mint();
        let first = authenticator.bearer(&token).await.expect("verified");
        let again = authenticator.bearer(&token).await.expect("remembered");
        assert!(Arc::ptr_eq(&first, &again));
    }
    // One fetch served all: discovery and keys.
    assert_eq!(site.issuer.requests().len(), 2);
    for algorithm in [
        TokenAlgorithm::None,
        TokenAlgorithm::Hs256WithPublicKey,
        TokenAlgorithm::Rs384,
    ] {
        let token = site.issuer.token().algorithm(algorithm).mint();
        assert_eq!(code(authenticator.bearer(&token).await), ErrorCode::TokenAlgorithm);
    }
    // A reload forgets what was verified, and keeps the keys.
    let token = site.token();
    let before = authenticator.bearer(&token).await.expect("verified");
    let url = site.issuer.url();
    authenticator.replace(Sources {
        token_rules: site.rules(),
        issuers: Issuers::new([(url.as_str(), None)], &site.settings(), &authenticator.issuers()),
        ..Sources::default()
    });
    let after = authenticator.bearer(&token).await.expect("verified");
    assert!(!Arc::ptr_eq(&before, &after));
    assert_eq!(site.issuer.requests().len(), 2);
}

#[tokio::test]
async fn a_key_that_is_not_known_is_asked_for_once_a_minute() {
    let site = Site::new("identity-rotation");
    let authenticator = site.authenticator();
    let old = site.token();
    assert!(authenticator.bearer(&old).await.is_ok());
    site.issuer.rotate_keys().expect("new keys");
    assert!(
        authenticator.bearer(&site.token()).await.is_ok(),
        "the new key is fetched"
    );
    let asked = site.issuer.requests().len();
    for _ in 0..5 {
        let strange = site.issuer.token().header("kid", "nobody").mint();
        assert_eq!(code(authenticator.bearer(&strange).await), ErrorCode::TokenKeyUnknown);
    }
    assert_eq!(site.issuer.requests().len(), asked, "it was asked just before");
    // A useless token makes no request to the issuer.
    let other = Site::new("identity-rotation-expired");
    let authenticator = other.authenticator();
    assert!(authenticator.bearer(&other.token()).await.is_ok());
    let expired = other.issuer.token().header("kid", "nobody").lifetime_s(-5).mint();
    assert_eq!(code(authenticator.bearer(&expired).await), ErrorCode::TokenExpired);
    assert_eq!(other.issuer.requests().len(), 2);
}

#[tokio::test]
async fn an_issuer_that_misbehaves_is_told_in_words_and_holds_nobody_up() {
    for (mode, words) in [
        (IssuerMode::Redirect("https://localhost:1/".to_owned()), "redirects"),
        (IssuerMode::Large, "larger than"),
        (IssuerMode::Garbage, "not a JSON object"),
        (IssuerMode::Failing, "500"),
        (IssuerMode::OtherIssuer, "another issuer"),
        (IssuerMode::Dead, "refused"),
        (IssuerMode::Hang, "has not answered"),
        (IssuerMode::Stall, "has not answered"),
    ] {
        let site = Site::new("identity-bad");
        site.issuer.set_mode(mode.clone());
        let mut settings = site.settings();
        // What never comes is waited for a moment, and an answer as long as a busy machine takes.
        settings.wait = match mode {
            IssuerMode::Hang | IssuerMode::Stall => WAIT,
            _ => PATIENCE * 4,
        };
        settings.fetcher.timeout = PATIENCE * 4;
        let authenticator = site.authenticator_with(&settings, None);
        let start = Instant::now();
        let error = authenticator.bearer(&site.token()).await.expect_err("refused");
        assert_eq!(error.code(), ErrorCode::TokenIssuerUnreachable, "{mode:?}");
        assert!(error.public().contains(words), "{mode:?}: {error}");
        assert!(start.elapsed() < settings.wait + PATIENCE, "{mode:?}");
        // Faults that need no keys are reported without a request.
        let expired = site.issuer.token().lifetime_s(-5).mint();
        assert_eq!(code(authenticator.bearer(&expired).await), ErrorCode::TokenExpired);
    }
}

#[tokio::test]
async fn a_failure_is_remembered_and_one_fetch_serves_all_who_wait() {
    let site = Site::new("identity-negative");
    site.issuer.set_mode(IssuerMode::Hang);
    let authenticator = site.authenticator();
    let token = site.token();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let (authenticator, token) = (authenticator.clone(), token.clone());
            tokio::spawn(async move { authenticator.bearer(&token).await.map(drop) })
        })
        .collect();
    for one in waiting {
        assert!(one.await.expect("ends").is_err());
    }
    assert_eq!(site.issuer.connections(), 1);
    site.fetched(1).await;
    // After the failure no request waits, nor is the issuer asked. The shortest of several tries
    // counts: on a busy machine any one of them may take long.
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let error = authenticator.bearer(&token).await.expect_err("refused");
        shortest = shortest.min(start.elapsed());
        assert!(error.public().contains("no complete answer within 2000 ms"), "{error}");
    }
    assert!(shortest < WAIT, "it waited again");
    assert_eq!(site.issuer.connections(), 1);
}

#[tokio::test]
async fn known_keys_are_used_while_the_issuer_is_down_and_kept_over_a_restart() {
    let site = Site::new("identity-down");
    let mut settings = site.settings();
    settings.state_directory = Some(site.scratch.join("state"));
    let first = site.authenticator_with(&settings, None);
    assert!(first.bearer(&site.token()).await.is_ok());
    let stored = || identity::stored_keys(&site.scratch.join("state"), &site.issuer.url());
    let deadline = Instant::now() + PATIENCE;
    while stored().is_none() {
        assert!(Instant::now() < deadline, "they were never stored");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    site.issuer.set_mode(IssuerMode::Dead);
    let another = site.issuer.token().scope("storage.read:/other").mint();
    assert!(first.bearer(&another).await.is_ok(), "the keys are at hand");
    drop(first);
    let restarted = site.authenticator_with(&settings, None);
    let start = Instant::now();
    assert!(restarted.bearer(&site.token()).await.is_ok(), "they are on disk");
    assert!(start.elapsed() < PATIENCE);
    // Keys that became too old are not used.
    settings.expiry = Duration::ZERO;
    let too_late = site.authenticator_with(&settings, None);
    assert_eq!(
        code(too_late.bearer(&site.token()).await),
        ErrorCode::TokenIssuerUnreachable
    );
}

#[tokio::test]
async fn keys_from_a_file_are_used_and_nobody_is_asked() {
    let site = Site::new("identity-offline");
    let keys = Arc::new(KeySet::parse(site.issuer.jwks().as_bytes()).expect("keys"));
    site.issuer.set_mode(IssuerMode::Hang);
    let authenticator = site.authenticator_with(&site.settings(), Some(keys));
    assert!(authenticator.bearer(&site.token()).await.is_ok());
    let strange = site.issuer.token().header("kid", "nobody").mint();
    assert_eq!(code(authenticator.bearer(&strange).await), ErrorCode::TokenKeyUnknown);
    assert_eq!(site.issuer.connections(), 0);
}

#[tokio::test]
async fn keys_are_refreshed_in_the_background_until_the_last_owner_goes() {
    let site = Site::new("identity-background");
    let mut settings = site.settings();
    settings.refresh = Duration::from_millis(1);
    let authenticator = site.authenticator_with(&settings, None);
    site.fetched(3).await;
    drop(authenticator);
    // A fetch that was under way may still reach the issuer; then there is silence.
    let mut seen = site.issuer.connections();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = site.issuer.connections();
        if now == seen {
            break;
        }
        assert!(now <= seen + 2, "it goes on");
        seen = now;
    }
}

#[tokio::test]
async fn a_certificate_of_a_stranger_is_not_believed() {
    let site = Site::new("identity-tls");
    let mut settings = site.settings();
    settings.fetcher.tls = ClientTls::load(&Trust::default()).expect("nobody").0;
    // It ends as soon as the certificate has been seen, on a busy machine too.
    settings.fetcher.timeout = Duration::from_secs(30);
    settings.wait = Duration::from_secs(60);
    let authenticator = site.authenticator_with(&settings, None);
    let error = authenticator.bearer(&site.token()).await.expect_err("refused");
    assert!(error.public().contains("Cannot set up a TLS connection"), "{error}");
}
