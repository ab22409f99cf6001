//! The store of delegated credentials.

use std::os::unix::fs::PermissionsExt as _;

use gsi_wire::Certificate;
use rustls_pki_types::CertificateDer;

use super::*;
use credentials::CertificateIssuer;

use crate::limits::{
    DELEGATION_KEY_INTERVAL, DELEGATION_KEYS_AT_ONCE_MAX, DELEGATION_WRITE_MAX, LOGIN_DELEGATIONS_PER_USER_MAX,
    LOGIN_REFUSAL_MEMORY,
};

pub(super) fn user(name: &str) -> Delegator {
    Delegator {
        dn: format!("/DC=test/CN={name}"),
        issuer: CertificateIssuer {
            dn: "/DC=test/CN=Authority".to_owned(),
            key_sha256: [7; 32],
        },
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
    let lab = Lab::new();
    let store = lab.open();
    let first = store.request(&user("a"), "1").unwrap();
    assert!(first.starts_with("-----BEGIN CERTIFICATE REQUEST-----"));
    assert_eq!(store.request(&user("a"), "1").unwrap(), first, "the one that waits");
    let proxy = lab.proxy(&testkit::ProxyOptions::default());
    for number in 2..=DELEGATIONS_PER_USER_MAX {
        lab.store(&store, &user("a"), &number.to_string(), &proxy);
    }
    let code = |result: Result<String>| result.err().map(|error| error.code());
    assert_eq!(code(store.request(&user("a"), "more")), Some(ErrorCode::Overloaded));
    assert_eq!(code(store.request(&user("b"), "1")), None);
    let long = "x".repeat(DELEGATION_ID_BYTES_MAX + 1);
    assert_eq!(code(store.request(&user("b"), &long)), Some(ErrorCode::BadRequest));
    assert!(store.identity(&user("b"), Duration::ZERO, ShownBy::Gsi).is_none());
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
    let delegated = Delegated::new(owner, identity.clone(), expires_s);
    store.0.files.write(&slot, &delegated).unwrap();
    let file = inner.join(format!("{slot}.delegated"));
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(4).any(|part| part == b"BEGI" || part == b"DC=t"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = open(&inner, b"key").unwrap();
    assert_eq!(again.identity(&user("a"), Duration::ZERO, ShownBy::Gsi), Some(identity));
    assert!(again.identity(&user("b"), Duration::ZERO, ShownBy::Gsi).is_none());
    assert!(
        open(&inner, b"other")
            .unwrap()
            .identity(&user("a"), Duration::ZERO, ShownBy::Gsi)
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

fn identity_of(user: &testkit::User) -> ClientIdentity {
    let chain = user.chain_pem();
    ClientIdentity::from_pem(chain.as_bytes(), user.key().private_pem().as_bytes()).unwrap()
}

/// A store with a proxy that `change` makes of a user's.
struct Lab {
    inner: PathBuf,
    authority: testkit::Authority,
    _directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            inner: directory.path().join("store"),
            authority: testkit::Authority::new(directory.path()).unwrap(),
            _directory: directory,
        }
    }

    fn open(&self) -> Delegations {
        open(&self.inner, b"key").unwrap()
    }

    fn proxy(&self, options: &testkit::ProxyOptions) -> ClientIdentity {
        let jane = self.authority.issue_user("/DC=test/CN=a").unwrap();
        identity_of(&jane.proxy_with(options).unwrap())
    }

    /// Stores a proxy, and gives its file.
    fn store(&self, store: &Delegations, owner: &Delegator, id: &str, identity: &ClientIdentity) -> PathBuf {
        let slot = owner.slot(id);
        let file = self.inner.join(format!("{slot}.delegated"));
        let delegated = Delegated::new(owner.clone(), identity.clone(), identity.expires_s());
        store.0.store(slot, delegated).unwrap();
        file
    }
}

#[test]
fn files_that_name_no_issuer_are_removed_and_not_used() {
    let lab = Lab::new();
    lab.open();
    let (owner, slot) = (user("a"), user("a").slot("1"));
    let identity = lab.proxy(&testkit::ProxyOptions::default());
    let pem = files::pem_of(&identity);
    let old = serde_json::json!({"dn": owner.dn, "fqans": owner.fqans, "limited": false,
        "expires_s": identity.expires_s(), "pem": pem.as_str()});
    let salt = [0; credentials::SEAL_SALT_BYTES];
    let sealed = SealingKey::new(b"key").seal(
        b"delegated credential 1",
        salt,
        slot.as_bytes(),
        old.to_string().as_bytes(),
    );
    let file = lab.inner.join(format!("{slot}.delegated"));
    std::fs::write(&file, sealed.unwrap()).unwrap();
    let store = lab.open();
    assert_eq!(store.removed_without_issuer(), 1);
    assert!(!file.exists() && store.identity(&owner, Duration::ZERO, ShownBy::Gsi).is_none());
    assert_eq!(lab.open().removed_without_issuer(), 0);
}

#[test]
fn the_same_subject_of_another_authority_has_no_part_in_a_credential() {
    let lab = Lab::new();
    let jane = user("a");
    let mut other_key = jane.clone();
    other_key.issuer.key_sha256 = [8; 32];
    let mut other_name = jane.clone();
    other_name.issuer.dn = "/DC=test/CN=Other authority".to_owned();
    let proxy = lab.proxy(&testkit::ProxyOptions::default());
    let store = lab.open();
    lab.store(&store, &jane, "1", &proxy);
    for store in [store, lab.open()] {
        assert!(store.identity(&jane, Duration::ZERO, ShownBy::Tls).is_some());
        for other in [&other_key, &other_name] {
            // Clients calculate it themselves.
            assert_eq!(jane.id(), other.id());
            assert_ne!(jane.slot("1"), other.slot("1"));
            assert!(!jane.may_hold(other) && !other.may_hold(&jane));
            assert!(store.identity(other, Duration::ZERO, ShownBy::Gsi).is_none());
            assert_eq!(store.expires_s(other, "1", ShownBy::Gsi), None);
            assert!(!store.remove(other, "1"));
        }
    }
}

#[test]
fn a_credential_whose_file_is_removed_is_withdrawn_at_once() {
    let lab = Lab::new();
    let (owner, store) = (user("a"), lab.open());
    let proxy = lab.proxy(&testkit::ProxyOptions::default());
    let stored = |store: &Delegations| {
        let wanted = store.login_proxy(&owner, now_s() + 3600) == LoginProxy::Wanted;
        let described = store.expires_s(&owner, "1", ShownBy::Tls).is_some();
        let used = store.identity(&owner, Duration::ZERO, ShownBy::Tls).is_some();
        (used, described, !wanted)
    };
    for _ in 0..2 {
        let file = lab.store(&store, &owner, "1", &proxy);
        assert_eq!(stored(&store), (true, true, true));
        std::fs::remove_file(file).unwrap();
        assert_eq!(stored(&store), (false, false, false));
    }
}

#[test]
fn a_proxy_signed_with_sha1_is_for_gsi_only() {
    let lab = Lab::new();
    let (owner, store) = (user("a"), lab.open());
    let ending = |ends_s, is_sha1: bool| testkit::ProxyOptions {
        ends_s,
        fault: is_sha1.then_some(testkit::ProxyFault::Sha1),
        ..testkit::ProxyOptions::default()
    };
    let (weak, strong) = (lab.proxy(&ending(7200, true)), lab.proxy(&ending(3600, false)));
    lab.store(&store, &owner, "1", &weak);
    for store in [&store, &lab.open()] {
        assert_eq!(store.identity(&owner, Duration::ZERO, ShownBy::Tls), None);
        assert_eq!(store.identity(&owner, Duration::ZERO, ShownBy::Gsi), Some(weak.clone()));
    }
    lab.store(&store, &owner, "2", &strong);
    let used = [ShownBy::Tls, ShownBy::Gsi].map(|by| store.identity(&owner, Duration::ZERO, by).unwrap());
    assert_eq!(used, [strong, weak]);
}

#[test]
fn a_proxy_of_a_login_that_is_signed_with_sha1_is_no_delegation_over_http_but_goes_with_it() {
    let lab = Lab::new();
    let (owner, store) = (user("a"), lab.open());
    let weak = lab.proxy(&testkit::ProxyOptions {
        fault: Some(testkit::ProxyFault::Sha1),
        ..testkit::ProxyOptions::default()
    });
    let file = lab.store(&store, &owner, login::SHA1_LOGIN_ID, &weak);
    assert_eq!(store.expires_s(&owner, &owner.id(), ShownBy::Tls), None);
    assert!(store.expires_s(&owner, &owner.id(), ShownBy::Gsi).is_some());
    assert!(file.exists() && store.remove(&owner, &owner.id()) && !file.exists());
    lab.store(
        &store,
        &owner,
        login::LOGIN_ID,
        &lab.proxy(&testkit::ProxyOptions::default()),
    );
    assert!(store.expires_s(&owner, &owner.id(), ShownBy::Tls).is_some());
}

#[test]
fn all_orders_of_attributes_share_the_places_of_one_user() {
    let lab = Lab::new();
    let store = lab.open();
    let ordered = |number: usize| Delegator {
        fqans: vec![format!("/vo/{number}"), "/vo".to_owned()],
        ..user("a")
    };
    assert_ne!(ordered(1).id(), ordered(2).id());
    let proxy = lab.proxy(&testkit::ProxyOptions::default());
    for number in 0..DELEGATIONS_PER_USER_MAX {
        lab.store(&store, &ordered(number), "1", &proxy);
    }
    let one_more = ordered(DELEGATIONS_PER_USER_MAX);
    assert_eq!(store.request(&one_more, "1").unwrap_err().code(), ErrorCode::Overloaded);
    let subject = gsi_wire::encode::sequence(&[]);
    let asked = store.ask_proxy(&one_more, &subject);
    assert_eq!(asked.unwrap_err().code(), ErrorCode::Overloaded);
    // One that is there may be replaced, and another authority's user is another one.
    store.request(&ordered(0), "1").unwrap();
    let mut other = one_more;
    other.issuer.key_sha256 = [8; 32];
    store.request(&other, "1").unwrap();
}

#[test]
fn a_user_gets_no_more_keys_than_allowed_at_either_door() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("store"), b"key").unwrap();
    let subject = gsi_wire::encode::sequence(&[]);
    let owner = user("a");
    // Each takes one.
    store.request(&owner, "1").unwrap();
    store.ask_proxy(&owner, &subject).map(drop).unwrap();
    let used_up = Instant::now() + DELEGATION_KEY_INTERVAL;
    let mut left = 0;
    while store.0.current().rate.count(&owner, used_up).is_ok() {
        left += 1;
    }
    assert!(left < DELEGATION_KEYS_AT_ONCE_MAX, "{left}");
    // What waits is given again, and what is removed comes not back for nothing.
    store.request(&owner, "1").unwrap();
    store.remove(&owner, "1");
    let refusals = [
        store.request(&owner, "1").map(drop),
        store.ask_proxy(&owner, &subject).map(drop),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.code(), ErrorCode::Overloaded);
        assert!(
            refusal.detail().is_some_and(|detail| detail.contains("keys")),
            "{refusal:?}"
        );
    }
    store.request(&user("b"), "1").unwrap();
}

#[test]
fn a_limited_session_has_places_of_its_own() {
    let lab = Lab::new();
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
            let stored = store.login_proxy(owner, now_s() + 3600) == LoginProxy::Stored;
            assert_eq!(store.identity(owner, Duration::ZERO, ShownBy::Gsi).is_some(), stored);
            stored
        })
    };
    let narrowed = lab.proxy(&testkit::ProxyOptions {
        is_limited: true,
        ..testkit::ProxyOptions::default()
    });
    let store = lab.open();
    lab.store(&store, &full, "1", &lab.proxy(&testkit::ProxyOptions::default()));
    assert_eq!(holders(&lab.open()), [true, false]);
    assert!(store.remove(&full, "1"));
    lab.store(&store, &limited, "1", &narrowed);
    assert_eq!(holders(&lab.open()), [false, true]);
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
    // But a login does not ask this user again for a while, and those of others do.
    let proxy_of = |owner: &Delegator| store.login_proxy(owner, now_s() + 3600);
    assert_eq!(proxy_of(&user("a")), LoginProxy::RefusedLately);
    let limited = Delegator {
        is_limited: true,
        ..user("a")
    };
    assert_eq!(
        (proxy_of(&user("b")), proxy_of(&limited)),
        (LoginProxy::Wanted, LoginProxy::Wanted)
    );
    ask().unwrap().give_up(&store);
    let later_s = now_s() + seconds(LOGIN_REFUSAL_MEMORY);
    store.0.current().waiting.forget_old(later_s);
    assert_eq!(proxy_of(&user("a")), LoginProxy::Wanted);
}

#[test]
fn two_programs_of_a_user_delegate_at_once_and_strangers_take_no_part() {
    let lab = Lab::new();
    let (trust, _) = credentials::x509::TrustStore::build(lab.authority.trust_files().unwrap());
    let rules = credentials::x509::CertificateRules {
        trust: Arc::new(trust),
        ..Default::default()
    };
    let authenticator = Authenticator::new(crate::Sources {
        certificates: crate::Certificates::new(Some(rules)),
        ..Default::default()
    });
    let owner_of = |user: &testkit::User| {
        let chain: Vec<_> = user
            .chain()
            .into_iter()
            .map(|der| CertificateDer::from(der.to_vec()))
            .collect();
        Delegator::of(&authenticator.certificates(Some(&chain))).unwrap()
    };
    let name = "/O=Crossload test/CN=Jane Doe";
    let jane = lab.authority.issue_user(name).unwrap();
    let root = Certificate::parse(lab.authority.der()).unwrap();
    let other = lab.authority.issue_authority(root.subject().one_line).unwrap();
    let namesake = other.issue_user(name).unwrap();
    let (owner, store) = (owner_of(&jane), lab.open());
    let id = owner.id();
    let put = |user: &testkit::User, request: &str, number: u32| {
        let proxy = user.sign_request(request, number).unwrap();
        let result = store.put(&owner_of(user), &id, proxy.as_bytes(), &authenticator);
        result.map(drop).map_err(|error| error.code())
    };
    let requests = [(); 2].map(|()| store.request(&owner, &id).unwrap());
    // Signed by the same subject of another authority, and sent by either.
    assert_eq!(put(&namesake, &requests[0], 3), Err(ErrorCode::DelegationRefused));
    let foreign = namesake.sign_request(&requests[0], 3).unwrap();
    assert!(store.put(&owner, &id, foreign.as_bytes(), &authenticator).is_err());
    assert_eq!(put(&jane, &requests[0], 1), Ok(()));
    assert_eq!(put(&jane, &requests[1], 2), Ok(()));
    assert!(store.identity(&owner, Duration::ZERO, ShownBy::Tls).is_some());
    // With another key, once there is no request.
    let elsewhere = store.request(&owner, "elsewhere").unwrap();
    assert_eq!(put(&jane, &elsewhere, 4), Err(ErrorCode::DelegationRefused));
    assert_eq!(put(&namesake, &elsewhere, 5), Err(ErrorCode::DelegationRefused));
}
