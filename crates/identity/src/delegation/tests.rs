//! The store of delegated credentials.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::limits::{DELEGATION_WRITE_MAX, LOGIN_DELEGATIONS_PER_USER_MAX};

fn user(name: &str) -> Delegator {
    Delegator {
        dn: format!("/DC=test/CN={name}"),
        fqans: vec!["/vo".to_owned()],
        is_limited: false,
    }
}

fn open(directory: &std::path::Path, secret: &[u8]) -> std::io::Result<Delegations> {
    Delegations::open(DelegationSettings {
        directory: directory.to_owned(),
        key: SealingKey::new(secret),
    })
}

#[test]
fn the_name_is_that_of_fts() {
    // The first 16 digits of: printf '/DC=test/CN=a/vo' | sha1sum
    assert_eq!(user("a").id(), "0e77b909e031d072");
    assert_ne!(user("a").slot("1"), user("a").slot("2"));
    assert_ne!(user("a").slot("1"), user("b").slot("1"));
}

#[test]
fn requests_are_counted_for_each_user() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let store = open(directory.path(), b"key").unwrap();
    let first = store.request(&user("a"), "1").unwrap();
    assert!(first.starts_with("-----BEGIN CERTIFICATE REQUEST-----"));
    assert_ne!(store.request(&user("a"), "1").unwrap(), first, "a new key each time");
    for number in 2..=DELEGATIONS_PER_USER_MAX {
        store.request(&user("a"), &number.to_string()).unwrap();
    }
    let code = |result: Result<String>| result.err().map(|error| error.code());
    assert_eq!(code(store.request(&user("a"), "more")), Some(ErrorCode::Overloaded));
    assert_eq!(code(store.request(&user("b"), "1")), None);
    let long = "x".repeat(DELEGATION_ID_BYTES_MAX + 1);
    assert_eq!(code(store.request(&user("b"), &long)), Some(ErrorCode::BadRequest));
    assert!(store.identity(&user("a"), Duration::ZERO).is_none());
}

#[test]
fn a_directory_that_others_see_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(
        open(directory.path(), b"key")
            .unwrap_err()
            .to_string()
            .contains("chmod 700")
    );
}

#[test]
fn what_was_written_is_read_with_the_same_key_only() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("store");
    let store = open(&inner, b"key").unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap();
    let pem = certificate.self_signed(&key).unwrap().pem();
    let identity = ClientIdentity::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    let slot = user("a").slot("1");
    let expires_s = identity.expires_s();
    let (owner, identity) = (user("a"), identity);
    let delegated = Delegated {
        owner,
        identity: identity.clone(),
        expires_s,
    };
    store.0.files.write(&slot, &delegated).unwrap();
    let file = inner.join(format!("{slot}.delegated"));
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(4).any(|part| part == b"BEGI" || part == b"DC=t"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = open(&inner, b"key").unwrap();
    assert_eq!(again.identity(&user("a"), Duration::ZERO), Some(identity));
    assert!(again.identity(&user("b"), Duration::ZERO).is_none());
    assert!(
        open(&inner, b"other")
            .unwrap()
            .identity(&user("a"), Duration::ZERO)
            .is_none()
    );
    // Under another name it belongs to another client.
    std::fs::rename(&file, inner.join(format!("{}.delegated", user("b").slot("1")))).unwrap();
    assert!(open(&inner, b"key").unwrap().0.current().delegated.is_empty());
    assert!(again.remove(&user("a"), "1") && !again.remove(&user("a"), "1"));
}

#[test]
fn what_a_dead_server_was_writing_is_removed_once_it_is_old() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("store");
    open(&inner, b"key").unwrap();
    let place = |name: &str| inner.join(name);
    for name in [".0a-1b", ".0a-2c", ".not-ours", "0a-1b"] {
        let file = std::fs::File::create(place(name)).unwrap();
        if name != ".0a-2c" {
            let old = SystemTime::now() - 2 * DELEGATION_WRITE_MAX;
            file.set_modified(old).unwrap();
        }
    }
    open(&inner, b"key").unwrap();
    assert!(!place(".0a-1b").exists(), "old and unfinished");
    assert!(place(".0a-2c").exists(), "another server may still be writing it");
    assert!(place(".not-ours").exists() && place("0a-1b").exists());
}

/// Writes a credential as servers before 0.2 did.
fn write_old(directory: &std::path::Path, slot: &str, owner: &Delegator, user: &testkit::User) {
    let chain: String = user
        .chain()
        .into_iter()
        .map(|der| gsi_wire::to_pem("CERTIFICATE", der))
        .collect();
    let pem = format!("{}{chain}", user.key().private_pem());
    let content = serde_json::json!({"dn": owner.dn, "fqans": owner.fqans, "pem": pem}).to_string();
    let purpose = b"delegated credential 1";
    let salt = [0; credentials::SEAL_SALT_BYTES];
    let sealed = SealingKey::new(b"key").seal(purpose, salt, slot.as_bytes(), content.as_bytes());
    std::fs::write(directory.join(format!("{slot}.delegated")), sealed.unwrap()).unwrap();
}

#[test]
fn a_limited_session_has_places_of_its_own_and_old_files_say_by_their_chain_what_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("store");
    open(&inner, b"key").unwrap();
    let authority = testkit::Authority::new(directory.path()).unwrap();
    let jane = authority.issue_user("/DC=test/CN=a").unwrap();
    let limited_proxy = testkit::ProxyOptions {
        is_limited: true,
        ..testkit::ProxyOptions::default()
    };
    let full = user("a");
    let limited = Delegator {
        is_limited: true,
        ..user("a")
    };
    assert_eq!(full.id(), limited.id());
    assert_ne!(full.slot("1"), limited.slot("1"));
    assert!(full.may_hold(&limited) && !limited.may_hold(&full) && !user("b").may_hold(&full));
    let holders = |store: &Delegations| {
        [&full, &limited].map(|owner| {
            let lacks = store.lacks_proxy(owner, now_s() + 3600);
            (store.identity(owner, Duration::ZERO).is_some(), !lacks)
        })
    };
    write_old(&inner, &full.slot("1"), &full, &jane.proxy().unwrap());
    let store = open(&inner, b"key").unwrap();
    assert_eq!(holders(&store), [(true, true), (false, false)]);
    assert!(store.remove(&full, "1"));
    let narrowed = jane.proxy_with(&limited_proxy).unwrap();
    write_old(&inner, &full.slot("2"), &full, &narrowed);
    assert_eq!(holders(&open(&inner, b"key").unwrap()), [(false, false), (true, true)]);
}

#[test]
fn a_proxy_that_does_not_come_frees_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("store"), b"key").unwrap();
    let subject = gsi_wire::encode::sequence(&[]);
    let ask = || store.ask_proxy(&user("a"), &subject).map(|(asked, _)| asked);
    let mut asked: Vec<_> = (0..LOGIN_DELEGATIONS_PER_USER_MAX).map(|_| ask().unwrap()).collect();
    assert_eq!(ask().unwrap_err().code(), ErrorCode::Overloaded);
    // The session ends, or the client refuses.
    drop(asked.pop());
    asked.push(ask().unwrap());
    let authenticator = Authenticator::default();
    let refused = asked.pop().unwrap();
    let bad = CertificateDer::from(vec![0]);
    store.keep_proxy(refused, bad, &[], &authenticator).unwrap_err();
    ask().unwrap();
}
