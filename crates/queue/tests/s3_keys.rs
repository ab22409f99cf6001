//! Keys of S3 storages: found for their holders only, and stored sealed.

use catalog::{Audit, Catalog, CloudStorage, Login, Owner, SecretKind};
use credentials::SealingKey;
use queue::owners::delegation_id;
use queue::{KeyHolder, S3Key, S3Keys, Vault};
use types::Secret;

fn key(secret: &str) -> S3Key {
    S3Key {
        access_key: Secret::new("access"),
        secret_key: Secret::new(secret),
    }
}

fn owner(user: &str, vo: &str) -> Owner {
    Owner {
        user: user.to_owned(),
        delegation_id: "1".to_owned(),
        vo: vo.to_owned(),
        login: Login::Certificate,
    }
}

fn entry() -> Audit {
    Audit {
        at_ms: 1,
        actor: "operator".to_owned(),
        action: "key".to_owned(),
        detail: String::new(),
    }
}

#[tokio::test]
async fn a_key_is_found_for_its_user_then_for_the_organisation() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let keys = S3Keys::new(catalog.clone(), Vault::new(SealingKey::new(b"key")));
    let storage = CloudStorage {
        name: "s3:store.example".to_owned(),
        region: Some("eu".to_owned()),
        is_alternate: true,
    };
    keys.put_storage(&storage, entry()).await.unwrap();
    assert_eq!(
        keys.storage("S3:store.example").await.unwrap().unwrap().name,
        "S3:STORE.EXAMPLE"
    );
    let (jane, atlas) = (
        KeyHolder::User("/CN=Jane Doe".to_owned()),
        KeyHolder::Vo("atlas".to_owned()),
    );
    keys.put(&storage.name, &jane, &key("of-jane"), entry()).await.unwrap();
    keys.put(&storage.name, &atlas, &key("of-atlas"), entry())
        .await
        .unwrap();
    let found = async |host: &str, user: &str, vo: &str| {
        let key = keys.find(host, &owner(user, vo)).await.unwrap();
        key.map(|found| found.key.secret_key.expose().to_owned())
    };
    assert_eq!(
        found("store.example", "/CN=Jane Doe", "cms").await.as_deref(),
        Some("of-jane")
    );
    assert_eq!(
        found("bucket.store.example", "/CN=John", "atlas").await.as_deref(),
        Some("of-atlas")
    );
    assert_eq!(found("store.example", "/CN=John", "cms").await, None);
    assert_eq!(found("other.example", "/CN=Jane Doe", "atlas").await, None);
    let stored = catalog
        .secrets_of(SecretKind::S3, "S3:STORE.EXAMPLE", 10)
        .await
        .unwrap();
    assert!(
        stored
            .iter()
            .all(|one| !one.sealed.windows(3).any(|part| part == b"of-"))
    );
    assert_eq!(keys.holders(&storage.name).await.unwrap(), [jane.clone(), atlas]);
    assert!(keys.remove(&storage.name, &jane, entry()).await.unwrap());
    assert_eq!(found("store.example", "/CN=Jane Doe", "cms").await, None);
    assert!(keys.remove_storage(&storage.name, entry()).await.unwrap());
    assert_eq!(found("store.example", "/CN=John", "atlas").await, None);
    assert_eq!(keys.storages().await.unwrap(), []);
}

#[tokio::test]
async fn a_user_with_a_token_is_one_of_its_issuer() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open_sqlite(&directory.path().join("queue.db")).await.unwrap();
    let keys = S3Keys::new(catalog, Vault::new(SealingKey::new(b"key")));
    let jane = KeyHolder::User("jane@https://a/".to_owned());
    assert!(
        !keys.put("s3:h", &jane, &key("of-jane"), entry()).await.unwrap(),
        "no such storage"
    );
    let storage = CloudStorage {
        name: "s3:h".to_owned(),
        ..CloudStorage::default()
    };
    keys.put_storage(&storage, entry()).await.unwrap();
    keys.put("s3:h", &jane, &key("of-jane"), entry()).await.unwrap();
    for (issuer, subject, is_hers) in [
        ("https://a/", "jane", true),
        ("https://b/", "jane", false),
        ("https://a/j", "ane", false),
    ] {
        let owner = Owner {
            user: subject.to_owned(),
            delegation_id: delegation_id([issuer, subject]),
            login: Login::Token,
            ..owner("", "cms")
        };
        let found = keys.find("h", &owner).await.unwrap();
        assert_eq!(found.is_some(), is_hers, "{subject} of {issuer}");
    }
}
