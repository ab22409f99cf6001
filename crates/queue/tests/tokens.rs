//! Tokens of waiting files: renewed once for all of them, and never lost.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catalog::{Catalog, JobSecrets, Login, NewJob, Owner, SecretKind};
use credentials::SealingKey;
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use queue::{Tokens, Vault};
use remote::{Client, ClientOptions, TokenProvider};
use schedule::{FileState, JobId, JobKind};
use tempfile::TempDir;
use testkit::{Authority, IssuerMode, TOKEN_CLIENT, TokenIssuer};
use types::{Error, ErrorCode, Secret, Side};

struct Lab {
    issuer: TokenIssuer,
    authority: Authority,
    catalog: Catalog,
    /// Renewals that failed, with their errors.
    failures: Arc<Mutex<Vec<String>>>,
    _directory: TempDir,
}

impl Lab {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path()).unwrap();
        Self {
            issuer: TokenIssuer::start(&authority).unwrap(),
            catalog: Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap(),
            authority,
            failures: Arc::default(),
            _directory: directory,
        }
    }

    /// The tokens as a process sees them that knows the issuer.
    fn process(&self) -> Tokens {
        self.process_with(vec![provider(&self.issuer)])
    }

    fn process_with(&self, providers: Vec<TokenProvider>) -> Tokens {
        let trust = Trust {
            files: vec![self.authority.ca_file()],
            ..Trust::default()
        };
        // An issuer's own time limit is shorter.
        let time = Duration::from_secs(60);
        let client = Client::new(ClientOptions {
            tls: ClientTls::load(&trust).unwrap().0,
            addresses: AddressPolicy {
                local: true,
                private: true,
            },
            connect: time,
            first_byte: time,
            stall: time,
            user_agent: "test".to_owned(),
        });
        let failures = self.failures.clone();
        Tokens::new(
            self.catalog.clone(),
            Vault::new(SealingKey::new(b"key")),
            &client,
            providers,
            Arc::new(move |_: &str, error: &Error, _| failures.lock().unwrap().push(error.public())),
        )
    }

    /// Submits a job of so many files with a token that ends in `life_s`; gives the token.
    async fn submit(&self, tokens: &Tokens, number: u8, name: &str, life_s: i64) -> Secret {
        self.submit_of(&owner(), tokens, number, name, life_s).await
    }

    async fn submit_of(&self, owner: &Owner, tokens: &Tokens, number: u8, name: &str, life_s: i64) -> Secret {
        self.submit_from(&self.issuer, owner, tokens, number, name, life_s)
            .await
    }

    async fn submit_from(
        &self,
        issuer: &TokenIssuer,
        owner: &Owner,
        tokens: &Tokens,
        number: u8,
        name: &str,
        life_s: i64,
    ) -> Secret {
        let draft = issuer
            .token()
            .scope("storage.read:/a offline_access")
            .lifetime_s(life_s);
        let token = Secret::new(draft.claim("jti", name).mint());
        let mut job = job(number);
        job.owner = owner.clone();
        job.files[0].options.source_token = Some(name.to_owned());
        let sealed = tokens.seal(name, &token, owner, true).unwrap();
        let secrets = JobSecrets {
            stored: vec![sealed.secret],
            grants: sealed.grant.into_iter().collect(),
        };
        self.catalog.submit_with_secrets(job, secrets, None).await.unwrap();
        token
    }
}

fn provider(issuer: &TokenIssuer) -> TokenProvider {
    TokenProvider {
        issuer: issuer.url(),
        client_id: TOKEN_CLIENT.0.to_owned(),
        client_secret: Some(Secret::new(TOKEN_CLIENT.1)),
        token_url: None,
    }
}

fn owner() -> Owner {
    Owner {
        user: "jane".to_owned(),
        delegation_id: "1".to_owned(),
        vo: "vo".to_owned(),
        login: Login::Token,
    }
}

fn job(number: u8) -> NewJob {
    NewJob {
        id: JobId([number; 16]),
        kind: JobKind::Normal,
        owner: owner(),
        submitted_ms: 1_800_000_000_000,
        priority: 3,
        expires_ms: None,
        options: catalog::JobOptions::default(),
        metadata: None,
        files: vec![catalog::NewFile {
            index: 0,
            source: "https://a.example/a".to_owned(),
            destination: "https://b.example/b".to_owned(),
            source_storage: "https://a.example:443".to_owned(),
            destination_storage: "https://b.example:443".to_owned(),
            state: FileState::TokenPreparation,
            size_bytes: None,
            activity: "default".to_owned(),
            options: catalog::FileOptions::default(),
        }],
    }
}

async fn bearer(tokens: &Tokens, name: &str) -> types::Result<String> {
    let token = tokens.bearer(name, &owner(), true, Side::Source).await;
    token.map(|token| token.expose().to_owned())
}

#[tokio::test]
async fn a_token_that_lives_long_enough_is_used_as_it_came() {
    let lab = Lab::new().await;
    let tokens = lab.process();
    let given = lab.submit(&tokens, 1, "t1", 7200).await;
    tokens.renew_due().await.unwrap();
    assert_eq!(bearer(&tokens, "t1").await.unwrap(), given.expose());
    assert_eq!(lab.issuer.grants().exchanged, 0, "no request without need");
}

#[tokio::test]
async fn tokens_for_the_same_are_exchanged_once_by_all_processes() {
    let lab = Lab::new().await;
    let [one, other] = [lab.process(), lab.process()];
    let given = lab.submit(&one, 1, "t1", 30).await;
    for (number, name) in [(2, "t2"), (3, "t3")] {
        lab.submit(&other, number, name, 30).await;
    }
    let both = tokio::join!(one.renew_due(), other.renew_due());
    both.0.unwrap();
    both.1.unwrap();
    let [first, second] = [bearer(&one, "t1").await.unwrap(), bearer(&other, "t3").await.unwrap()];
    assert_eq!(first, second, "one token for all");
    assert_ne!(first, given.expose());
    let grants = lab.issuer.grants();
    assert_eq!((grants.exchanged, grants.refused), (1, 0));
    let latest = grants.latest.join("\n");
    assert!(latest.contains("scope=storage.read:/a offline_access"), "{latest}");
    assert!(latest.contains("audience=https://wlcg.cern.ch/jwt/v1/any"), "{latest}");
    // What is stored is sealed, and goes with its jobs.
    assert_eq!(lab.catalog.due_secrets(i64::MAX / 2, 10).await.unwrap().len(), 1);
    let ids = [1, 2, 3].map(|number| JobId([number; 16]));
    lab.catalog.cancel_jobs(&ids, "user", 1_800_000_000_000).await.unwrap();
    assert_eq!(lab.catalog.delete_unused_secrets(0, 10).await.unwrap(), 4);
}

#[tokio::test]
async fn each_refresh_token_is_used_once_and_its_successor_is_stored() {
    let lab = Lab::new().await;
    lab.issuer.set_life_s(20);
    let tokens = lab.process();
    lab.submit(&tokens, 1, "t1", 30).await;
    for _ in 0..3 {
        // Another process each time: it knows what is stored, and nothing else.
        lab.process().renew_due().await.unwrap();
    }
    let grants = lab.issuer.grants();
    assert_eq!((grants.exchanged, grants.refreshed, grants.refused), (1, 2, 0));
    lab.issuer.set_life_s(3600);
    lab.process().renew_due().await.unwrap();
    assert!(bearer(&tokens, "t1").await.is_ok());
    assert_eq!(lab.issuer.grants().refreshed, 3);
}

#[tokio::test]
async fn a_lost_answer_loses_no_grant() {
    let lab = Lab::new().await;
    lab.issuer.set_life_s(20);
    let tokens = lab.process();
    lab.submit(&tokens, 1, "t1", 30).await;
    tokens.renew_due().await.unwrap();
    lab.issuer.lose_answer();
    // The issuer has taken the refresh token back, and its successor got lost.
    lab.process().renew_due().await.unwrap();
    assert_eq!(lab.issuer.grants().refreshed, 1);
    lab.issuer.set_life_s(3600);
    // As after the pause.
    let renewed = bearer(&lab.process(), "t1").await.unwrap();
    let grants = lab.issuer.grants();
    assert_eq!(
        (grants.refused, grants.exchanged),
        (1, 2),
        "begun again with a valid token"
    );
    assert_eq!(bearer(&tokens, "t1").await.unwrap(), renewed);
}

#[tokio::test]
async fn lives_that_cannot_be_are_none() {
    let lab = Lab::new().await;
    let tokens = lab.process();
    lab.submit(&tokens, 1, "t1", 50).await;
    for life_s in [i64::MAX, i64::MIN, 0] {
        lab.issuer.set_answered_life_s(life_s);
        tokens.renew_due().await.unwrap();
        let due = lab.catalog.due_secrets(i64::MAX / 2, 10).await.unwrap();
        let grant = due
            .iter()
            .find(|secret| secret.kind == SecretKind::RefreshToken)
            .unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let renews_ms = grant.renews_ms.unwrap() - now.as_millis() as i64;
        assert!(
            (20_000..400 * 24 * 3_600_000).contains(&renews_ms),
            "{life_s}: {renews_ms}"
        );
        // The next one makes it due again.
        lab.catalog.set_renewal(grant.kind, &grant.name, Some(1)).await.unwrap();
    }
    assert_eq!(lab.issuer.grants().refused, 0, "no refresh token is lost");
}

#[tokio::test]
async fn an_issuer_that_is_down_is_left_alone_and_a_valid_token_still_used() {
    let lab = Lab::new().await;
    let tokens = lab.process();
    let given = lab.submit(&tokens, 1, "t1", 50).await;
    lab.issuer.set_mode(IssuerMode::Failing);
    tokens.renew_due().await.unwrap();
    let asked = lab.issuer.requests().len();
    tokens.renew_due().await.unwrap();
    assert_eq!(bearer(&tokens, "t1").await.unwrap(), given.expose());
    assert_eq!(lab.issuer.requests().len(), asked, "paused");
    let failures = lab.failures.lock().unwrap().clone();
    assert_eq!(failures.len(), 1, "told once: {failures:?}");
    assert!(failures[0].contains("answered 500"), "{failures:?}");
    lab.submit(&tokens, 2, "t2", -5).await;
    let refused = bearer(&tokens, "t2").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TokenIssuerUnreachable);
    let words = refused.to_string();
    assert!(
        words.contains("answered 500") && words.contains("it is asked again in"),
        "{words}"
    );
    lab.issuer.set_mode(IssuerMode::Well);
    let again = lab.process();
    assert!(bearer(&again, "t1").await.is_ok());
    assert!(bearer(&again, "t2").await.is_ok(), "the grant is that of the first");
}

#[tokio::test]
async fn what_an_issuer_says_of_itself_is_not_fetched_from_elsewhere() {
    let lab = Lab::new().await;
    let tokens = lab.process();
    lab.submit(&tokens, 1, "t1", 50).await;
    let other = TokenIssuer::start(&lab.authority).unwrap();
    let elsewhere = format!("{}/.well-known/openid-configuration", other.url());
    lab.issuer.set_mode(IssuerMode::Redirect(elsewhere));
    tokens.renew_due().await.unwrap();
    let failures = lab.failures.lock().unwrap().clone();
    assert!(failures[0].contains("those are not followed"), "{failures:?}");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[tokio::test]
async fn an_issuer_that_fails_for_one_user_is_asked_for_others() {
    let lab = Lab::new().await;
    let tokens = lab.process();
    let eve = Owner {
        user: "eve".to_owned(),
        delegation_id: "2".to_owned(),
        ..owner()
    };
    lab.submit_of(&eve, &tokens, 1, "t1", 50).await;
    lab.issuer.set_mode(IssuerMode::Failing);
    tokens.renew_due().await.unwrap();
    lab.issuer.set_mode(IssuerMode::Well);
    let given = lab.submit(&tokens, 2, "t2", 50).await;
    tokens.renew_due().await.unwrap();
    assert_ne!(bearer(&tokens, "t2").await.unwrap(), given.expose(), "it is renewed");
}

#[tokio::test]
async fn an_issuer_that_hangs_delays_no_renewal_at_another() {
    let lab = Lab::new().await;
    let hanging = TokenIssuer::start(&lab.authority).unwrap();
    hanging.set_mode(IssuerMode::Hang);
    let tokens = lab.process_with(vec![provider(&lab.issuer), provider(&hanging)]);
    for (number, user) in (1..).zip(["alice", "bob", "carol"]) {
        let owner = Owner {
            user: user.to_owned(),
            ..owner()
        };
        lab.submit_from(&hanging, &owner, &tokens, number, user, 50).await;
    }
    let running = tokio::spawn(tokens.clone().run());
    // It is asked, and would keep one after the other waiting for a minute in all.
    until(async || hanging.connections() > 0).await;
    lab.submit(&tokens, 4, "t4", 50).await;
    until(async || lab.issuer.grants().exchanged == 1).await;
    running.abort();
}

/// Waits for what comes within seconds, or on a busy machine a little later.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(45), "it does not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn unmanaged_and_foreign_tokens_are_used_as_they_came() {
    let lab = Lab::new().await;
    let stranger = lab.process_with(Vec::new());
    let tokens = lab.process();
    let given = lab.submit(&tokens, 1, "t1", 30).await;
    for (tokens, is_managed) in [(&tokens, false), (&stranger, true)] {
        let used = tokens.bearer("t1", &owner(), is_managed, Side::Source).await.unwrap();
        assert_eq!(used.expose(), given.expose());
        let sealed = tokens.seal("t9", &given, &owner(), is_managed).unwrap();
        assert_eq!((sealed.grant, sealed.secret.renews_ms), (None, None));
        assert!(sealed.ends_ms.is_some());
    }
    lab.submit(&tokens, 2, "t2", -5).await;
    let refused = stranger
        .bearer("t2", &owner(), true, Side::Destination)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), refused.side()),
        (ErrorCode::TokenExpired, Side::Destination)
    );
    // A token with made-up claims opens no tokens of another user.
    tokens.renew_due().await.unwrap();
    let john = Owner {
        user: "john".to_owned(),
        ..owner()
    };
    let forged = tokens.bearer("t2", &john, true, Side::Source).await.unwrap_err();
    assert_eq!(forged.code(), ErrorCode::TokenExpired);
    assert!(lab.catalog.secret(SecretKind::Token, "t2").await.unwrap().is_some());
}
