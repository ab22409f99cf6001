//! Delegated proxies in the catalog: two processes on one database, and what each user may do.

use std::sync::Arc;

use catalog::{Catalog, SealedSecret, SecretKind};
use credentials::SealingKey;
use credentials::x509::{CertificateRules, TrustStore};
use identity::delegation::Delegator;
use identity::limits::DELEGATIONS_PER_USER_MAX;
use identity::{Authenticator, Certificates, Sources};
use queue::{Proxies, Vault, proxy_name};
use rustls_pki_types::CertificateDer;
use tempfile::TempDir;
use testkit::{Authority, User};
use types::ErrorCode;

const JANE: &str = "/O=Crossload test/CN=Jane Doe";

struct Lab {
    authority: Authority,
    authenticator: Authenticator,
    catalog: Catalog,
    directory: TempDir,
}

impl Lab {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path()).unwrap();
        let (trust, _) = TrustStore::build(authority.trust_files().unwrap());
        let rules = CertificateRules {
            trust: Arc::new(trust),
            ..CertificateRules::default()
        };
        let authenticator = Authenticator::new(Sources {
            certificates: Certificates::new(Some(rules)),
            ..Sources::default()
        });
        Self {
            authority,
            authenticator,
            catalog: Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap(),
            directory,
        }
    }

    /// The proxies as another process sees them.
    fn process(&self) -> Proxies {
        let vault = Vault::new(SealingKey::new(b"key"));
        Proxies::new(self.catalog.clone(), vault, self.authenticator.clone())
    }

    fn owner(&self, user: &User) -> Delegator {
        let chain: Vec<_> = user
            .chain()
            .iter()
            .map(|der| CertificateDer::from(der.to_vec()))
            .collect();
        Delegator::of(&self.authenticator.certificates(Some(&chain))).unwrap()
    }
}

#[tokio::test]
async fn a_proxy_that_one_process_asked_for_is_taken_and_used_by_others() {
    let lab = Lab::new().await;
    let jane = lab.authority.issue_user(JANE).unwrap();
    let owner = lab.owner(&jane);
    let name = proxy_name(&owner);
    let [asks, takes, copies] = [(); 3].map(|()| lab.process());
    let request = asks.request(&owner).await.unwrap();
    assert_eq!(takes.request(&owner).await.unwrap(), request, "the one that waits");
    assert_eq!(copies.identity(&name).await.unwrap(), None);
    let first_ms = takes
        .put(&owner, jane.sign_request(&request, 60).unwrap().as_bytes())
        .await
        .unwrap();
    assert_eq!(asks.expires_ms(&owner).await.unwrap(), Some(first_ms));
    let first = copies.identity(&name).await.unwrap().unwrap();
    assert_eq!(copies.identity(&name).await.unwrap().unwrap(), first);
    // Two programs at once sign the same request.
    asks.put(&owner, jane.sign_request(&request, 30).unwrap().as_bytes())
        .await
        .unwrap();
    let second = copies.identity(&name).await.unwrap().unwrap();
    assert_ne!(second, first, "the next attempt shows the newer one");
    // And one for another key.
    let request = copies.request(&owner).await.unwrap();
    let third = jane.sign_request(&request, 90).unwrap();
    takes.put(&owner, third.as_bytes()).await.unwrap();
    assert_ne!(copies.identity(&name).await.unwrap().unwrap(), second);

    assert!(asks.remove(&owner).await.unwrap());
    assert_eq!(copies.identity(&name).await.unwrap(), None, "withdrawn at once");
    assert_eq!(takes.expires_ms(&owner).await.unwrap(), None);
    assert!(!takes.remove(&owner).await.unwrap());
    let late = takes.put(&owner, third.as_bytes()).await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::DelegationRefused);
}

#[tokio::test]
async fn what_has_expired_is_not_shown() {
    let lab = Lab::new().await;
    let jane = lab.authority.issue_user(JANE).unwrap();
    let (owner, proxies) = (lab.owner(&jane), lab.process());
    let request = proxies.request(&owner).await.unwrap();
    proxies
        .put(&owner, jane.sign_request(&request, 60).unwrap().as_bytes())
        .await
        .unwrap();
    let name = proxy_name(&owner);
    assert!(proxies.identity(&name).await.unwrap().is_some());
    let stored = lab.catalog.secret(SecretKind::Proxy, &name).await.unwrap().unwrap();
    let expired = SealedSecret {
        expires_ms: Some(1),
        ..stored
    };
    lab.catalog.put_secret(expired, 1).await.unwrap();
    assert_eq!(proxies.identity(&name).await.unwrap(), None);
    assert_eq!(proxies.expires_ms(&owner).await.unwrap(), None);
}

#[tokio::test]
async fn strangers_take_no_part_and_nothing_is_stored_in_clear() {
    let lab = Lab::new().await;
    let jane = lab.authority.issue_user(JANE).unwrap();
    let john = lab.authority.issue_user("/O=Crossload test/CN=John Doe").unwrap();
    let proxies = lab.process();
    let (owner, other) = (lab.owner(&jane), lab.owner(&john));
    let request = proxies.request(&owner).await.unwrap();
    let own = jane.sign_request(&request, 60).unwrap();
    let foreign = john.sign_request(&request, 60).unwrap();
    for (whose, proxy) in [(&owner, &foreign), (&other, &own), (&other, &foreign)] {
        let refused = proxies.put(whose, proxy.as_bytes()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::DelegationRefused);
    }
    proxies.put(&owner, own.as_bytes()).await.unwrap();
    assert_eq!(proxies.identity(&proxy_name(&other)).await.unwrap(), None);
    assert!(!proxies.remove(&other).await.unwrap());
    let stored = lab
        .catalog
        .secret(SecretKind::Proxy, &proxy_name(&owner))
        .await
        .unwrap();
    let stored = stored.unwrap();
    assert!(!stored.sealed.windows(5).any(|part| part == b"BEGIN"));
    // A process with another key uses nothing of it.
    let stranger = Proxies::new(
        lab.catalog.clone(),
        Vault::new(SealingKey::new(b"other")),
        lab.authenticator.clone(),
    );
    assert!(stranger.identity(&proxy_name(&owner)).await.is_err());
    drop(lab.directory);
}

#[tokio::test]
async fn the_proxies_of_a_user_are_counted() {
    let lab = Lab::new().await;
    let jane = lab.authority.issue_user(JANE).unwrap();
    let (owner, proxies) = (lab.owner(&jane), lab.process());
    for number in 0..DELEGATIONS_PER_USER_MAX {
        let one = SealedSecret {
            kind: SecretKind::Proxy,
            name: number.to_string(),
            sealed: vec![1],
            expires_ms: Some(i64::MAX),
            owner: owner.person(),
            renews_ms: None,
            lease_ms: None,
            renewed_by: None,
        };
        lab.catalog.put_secret(one, 1).await.unwrap();
    }
    let refused = proxies.request(&owner).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Overloaded);
    let john = lab.authority.issue_user("/O=Crossload test/CN=John Doe").unwrap();
    proxies.request(&lab.owner(&john)).await.unwrap();
}
