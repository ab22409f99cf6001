//! Certificates, proxies and VOMS attributes of a throw-away authority: those that are sound are believed, each that is
//! not is refused with its own code, and OpenSSL is of the same opinion.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use credentials::VerifiedCertificate;
use credentials::x509::{
    CertificateRules, GridMap, Revocation, TrustStore, VomsDirectory, VomsMap, verify_chain, verify_host,
    verify_request,
};
use gsi_wire::delegation::{CertificateRequest, ProxyDraft, certificate_request};
use gsi_wire::proxy::ProxyPolicy;
use gsi_wire::{Malformed, certificates_in_pem, encode, to_pem};
use testkit::{
    AttributeOptions, Authority, CertificateOptions, KeyKind, ProxyFault, ProxyOptions, Scratch, SigningPair, User,
    VomsServer, available,
};
use types::{Error, ErrorCode};

const JANE: &str = "/O=Crossload test/CN=Jane Doe";

/// An authority, a user and a VO's server, made once: keys take time.
struct Lab {
    scratch: Scratch,
    authority: Authority,
    jane: User,
    server: VomsServer,
}

static LAB: LazyLock<Option<Lab>> = LazyLock::new(|| {
    let scratch = Scratch::new("x509").expect("scratch");
    let authority = available("x509", Authority::new(scratch.path()))?;
    let jane = authority.issue_user(JANE).expect("issued");
    let server = authority.issue_voms_server("testvo").expect("issued");
    Some(Lab {
        scratch,
        authority,
        jane,
        server,
    })
});

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("small")
}

impl Lab {
    fn rules(&self) -> CertificateRules {
        let files = self.authority.trust_files().expect("readable");
        self.rules_with(files)
    }

    fn rules_with(&self, files: Vec<(String, Vec<u8>)>) -> CertificateRules {
        let (trust, _) = TrustStore::build(files);
        let lsc = self.server.lsc().expect("made");
        let file = (
            "testvo".to_owned(),
            "voms.testvo.example.lsc".to_owned(),
            lsc.into_bytes(),
        );
        let (voms, faults) = VomsDirectory::build([file]);
        assert_eq!(faults, []);
        CertificateRules {
            trust: Arc::new(trust),
            voms: Arc::new(voms),
            host_names: vec!["se.example.org".to_owned()],
            ..CertificateRules::default()
        }
    }

    fn verify(&self, user: &User) -> Result<VerifiedCertificate, Error> {
        verify_chain(&user.chain(), &self.rules(), now_s())
    }

    /// OpenSSL's opinion of the same chain.
    fn openssl(&self, user: &User) -> bool {
        self.openssl_accepts(&user.chain())
    }

    fn openssl_accepts(&self, chain: &[&[u8]]) -> bool {
        let directory = Scratch::new("openssl").expect("scratch");
        let (own, above) = (directory.path().join("own.pem"), directory.path().join("above.pem"));
        fs::write(&own, to_pem("CERTIFICATE", chain[0])).expect("written");
        let rest: String = chain[1..].iter().map(|der| to_pem("CERTIFICATE", der)).collect();
        fs::write(&above, rest).expect("written");
        let mut command = Command::new("openssl");
        command.args(["verify", "-allow_proxy_certs", "-purpose", "sslclient", "-CAfile"]);
        command.arg(self.authority.ca_file());
        if chain.len() > 1 {
            command.arg("-untrusted").arg(above);
        }
        command.arg(own).output().expect("started").status.success()
    }
}

/// A proxy with a key that is made quickly, and a change.
fn with(change: impl FnOnce(&mut ProxyOptions)) -> ProxyOptions {
    let mut options = ProxyOptions {
        key: KeyKind::EcdsaP256,
        ..ProxyOptions::default()
    };
    change(&mut options);
    options
}

fn plain() -> ProxyOptions {
    with(|_| ())
}

fn broken(fault: ProxyFault) -> ProxyOptions {
    with(|options| options.fault = Some(fault))
}

fn code_of(result: Result<VerifiedCertificate, Error>) -> ErrorCode {
    result.expect_err("it is refused").code()
}

#[test]
fn certificates_and_proxies_of_all_kinds_are_believed_as_by_openssl() {
    let Some(lab) = &*LAB else { return };
    let limited = with(|options| options.is_limited = true);
    let full = lab.jane.proxy().unwrap();
    let nested = full.proxy_with(&plain()).unwrap().proxy_with(&plain()).unwrap();
    let narrowed = full.proxy_with(&limited).unwrap().proxy_with(&limited).unwrap();
    let ec_user = CertificateOptions {
        key: KeyKind::EcdsaP256,
        ..CertificateOptions::default()
    };
    let ec_user = lab.authority.issue("/O=Crossload test/CN=EC", &ec_user).unwrap();
    let last = with(|options| options.path_length = Some(0));
    for (user, proxies, is_limited) in [
        (&lab.jane, 0, false),
        (&full, 1, false),
        (&nested, 3, false),
        (&narrowed, 3, true),
        (&ec_user.proxy_with(&plain()).unwrap(), 1, false),
        (&full.proxy_with(&last).unwrap(), 2, false),
    ] {
        let verified = lab.verify(user).unwrap();
        assert_eq!(verified.proxies, proxies);
        assert_eq!(verified.is_limited, is_limited);
        assert_eq!(verified.principal.dn, Some(user.dn().unwrap()));
        assert!(verified.expires_s > now_s());
        assert!(lab.openssl(user), "{proxies} {is_limited}");
    }
    assert_eq!(lab.verify(&nested).unwrap().principal.dn.as_deref(), Some(JANE));
}

#[test]
fn each_broken_proxy_is_refused_with_its_own_code_and_openssl_agrees() {
    let Some(lab) = &*LAB else { return };
    let full = lab.jane.proxy_with(&plain()).unwrap();
    let limited = lab.jane.proxy_with(&with(|options| options.is_limited = true)).unwrap();
    let last = lab
        .jane
        .proxy_with(&with(|options| options.path_length = Some(0)))
        .unwrap();
    let expired = with(|options| options.ends_s = -60);
    let early = with(|options| (options.starts_s, options.ends_s) = (3600, 7200));
    let cases = [
        (
            "limited then full",
            limited.proxy_with(&plain()).unwrap(),
            ErrorCode::ProxyWidened,
            true,
        ),
        (
            "too deep",
            last.proxy_with(&plain()).unwrap(),
            ErrorCode::ProxyTooDeep,
            false,
        ),
        (
            "altered",
            lab.jane.proxy_with(&broken(ProxyFault::AlteredPolicy)).unwrap(),
            ErrorCode::ProxyPolicyRefused,
            false,
        ),
        (
            "forged",
            full.proxy_with(&broken(ProxyFault::WrongSignature)).unwrap(),
            ErrorCode::CertificateSignature,
            false,
        ),
        (
            "expired",
            full.proxy_with(&expired).unwrap(),
            ErrorCode::CertificateExpired,
            false,
        ),
        (
            "expired in the middle",
            lab.jane.proxy_with(&expired).unwrap().proxy_with(&plain()).unwrap(),
            ErrorCode::CertificateExpired,
            false,
        ),
        (
            "early",
            full.proxy_with(&early).unwrap(),
            ErrorCode::CertificateNotYetValid,
            false,
        ),
        (
            "of GT2",
            full.proxy_with(&broken(ProxyFault::Legacy)).unwrap(),
            ErrorCode::ProxyLegacy,
            false,
        ),
        (
            "of GT3",
            lab.jane.proxy_with(&broken(ProxyFault::Draft)).unwrap(),
            ErrorCode::ProxyLegacy,
            false,
        ),
        (
            "two names",
            lab.jane.proxy_with(&broken(ProxyFault::TwoNames)).unwrap(),
            ErrorCode::ProxyInvalid,
            false,
        ),
        (
            "other name",
            lab.jane.proxy_with(&broken(ProxyFault::OtherName)).unwrap(),
            ErrorCode::ProxyInvalid,
            false,
        ),
        (
            "authority",
            lab.jane.proxy_with(&broken(ProxyFault::Authority)).unwrap(),
            ErrorCode::ProxyInvalid,
            false,
        ),
        (
            "alternative name",
            lab.jane.proxy_with(&broken(ProxyFault::AlternativeName)).unwrap(),
            ErrorCode::ProxyInvalid,
            false,
        ),
        (
            "not critical",
            lab.jane.proxy_with(&broken(ProxyFault::NotCritical)).unwrap(),
            ErrorCode::ProxyInvalid,
            true,
        ),
        (
            "unknown extension",
            lab.jane.proxy_with(&broken(ProxyFault::UnknownExtension)).unwrap(),
            ErrorCode::ProxyInvalid,
            false,
        ),
        (
            "SHA-1",
            lab.jane.proxy_with(&broken(ProxyFault::Sha1)).unwrap(),
            ErrorCode::CertificateWeak,
            false,
        ),
        (
            "words",
            lab.jane.proxy_with(&broken(ProxyFault::PolicyWords)).unwrap(),
            ErrorCode::ProxyPolicyRefused,
            true,
        ),
        (
            "language",
            lab.jane
                .proxy_with(&broken(ProxyFault::Language("1.3.6.1.5.5.7.21.0".to_owned())))
                .unwrap(),
            ErrorCode::ProxyPolicyRefused,
            true,
        ),
    ];
    for (what, user, code, openssl) in &cases {
        let error = lab.verify(user).expect_err(what);
        assert_eq!(error.code(), *code, "{what}: {error}");
        assert_eq!(error.code().http_status(), 401);
        assert!(
            error.detail().is_some_and(|detail| detail.contains('/')),
            "{what}: {error}"
        );
        // Those that only OpenSSL would let pass are named: limited proxies mean nothing to it, for one.
        assert_eq!(lab.openssl(user), *openssl, "{what}");
    }
}

#[test]
fn a_legacy_proxy_is_told_how_to_become_a_good_one() {
    let Some(lab) = &*LAB else { return };
    let proxy = lab.jane.proxy_with(&broken(ProxyFault::Legacy)).unwrap();
    let error = lab.verify(&proxy).unwrap_err();
    assert!(error.public().contains("-rfc"), "{error}");
}

#[test]
fn keys_that_are_too_short_are_refused() {
    let Some(lab) = &*LAB else { return };
    let made = Command::new("openssl")
        .args([
            "genpkey",
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:1024",
            "-outform",
            "PEM",
        ])
        .output()
        .unwrap();
    let key = lab.scratch.path().join("short.key");
    fs::write(&key, made.stdout).unwrap();
    let public = Command::new("openssl")
        .args(["pkey", "-pubout", "-outform", "DER", "-in"])
        .arg(&key)
        .output()
        .unwrap();
    let proxy = lab
        .jane
        .proxy_with(&broken(ProxyFault::Key(public.stdout.clone())))
        .unwrap();
    let error = lab.verify(&proxy).unwrap_err();
    assert_eq!(error.code(), ErrorCode::CertificateWeak);
    assert!(error.public().contains("1024 bits"), "{error}");
    let options = CertificateOptions {
        public_key_info: Some(public.stdout),
        ..CertificateOptions::default()
    };
    let user = lab.authority.issue(JANE, &options).unwrap();
    assert_eq!(code_of(lab.verify(&user)), ErrorCode::CertificateWeak);
}

#[test]
fn certificates_that_no_authority_stands_for_are_refused() {
    let Some(lab) = &*LAB else { return };
    let elsewhere = Scratch::new("elsewhere").unwrap();
    let other = Authority::new(elsewhere.path()).unwrap();
    // The same names and another key.
    assert_eq!(
        code_of(lab.verify(&other.issue_user(JANE).unwrap())),
        ErrorCode::CertificateSignature
    );
    let unlawful = lab.jane.issue_unlawfully("/O=Crossload test/CN=Root").unwrap();
    assert_eq!(code_of(lab.verify(&unlawful)), ErrorCode::CertificateUntrusted);
    let unlawful = lab
        .jane
        .proxy()
        .unwrap()
        .issue_unlawfully("/O=Crossload test/CN=Root")
        .unwrap();
    assert!(lab.verify(&unlawful).is_err());
    let proxy = lab.jane.proxy_with(&plain()).unwrap();
    let chain = proxy.chain();
    let rules = lab.rules();
    assert_eq!(
        code_of(verify_chain(&chain[..1], &rules, now_s())),
        ErrorCode::CertificateUntrusted
    );
    assert_eq!(
        code_of(verify_chain(&[], &rules, now_s())),
        ErrorCode::CertificateMalformed
    );
    assert_eq!(
        code_of(verify_chain(&[b"0"], &rules, now_s())),
        ErrorCode::CertificateMalformed
    );
    let twisted = [chain[1], chain[0]];
    assert_eq!(verify_chain(&twisted, &rules, now_s()).unwrap().proxies, 0);
    let long = vec![chain[1]; 17];
    assert_eq!(
        code_of(verify_chain(&long, &rules, now_s())),
        ErrorCode::CertificateChainTooLong
    );
    assert_eq!(
        code_of(verify_chain(&[lab.authority.der()], &rules, now_s())),
        ErrorCode::CertificateUnsuitable
    );
}

#[test]
fn ten_certificates_are_not_too_many() {
    let Some(lab) = &*LAB else { return };
    let mut user = lab.jane.clone();
    for _ in 0..12 {
        user = user.proxy_with(&plain()).unwrap();
    }
    assert_eq!(lab.verify(&user).unwrap().proxies, 12);
}

#[test]
fn end_entity_certificates_are_judged_by_time_and_use() {
    let Some(lab) = &*LAB else { return };
    let of = |change: &dyn Fn(&mut CertificateOptions)| {
        let mut options = CertificateOptions::default();
        change(&mut options);
        lab.authority.issue(JANE, &options).unwrap()
    };
    let server_only = of(&|options| options.purposes = vec!["1.3.6.1.5.5.7.3.1".to_owned()]);
    let no_signing = of(&|options| options.key_usage = Some(vec![3, 2, 5, 0x20]));
    let cases = [
        (of(&|options| options.ends_s = -1), ErrorCode::CertificateExpired),
        (of(&|options| options.starts_s = 60), ErrorCode::CertificateNotYetValid),
        (server_only, ErrorCode::CertificateUnsuitable),
        (of(&|options| options.is_ca = true), ErrorCode::CertificateUnsuitable),
        (no_signing.proxy_with(&plain()).unwrap(), ErrorCode::ProxyInvalid),
        (
            of(&|options| options.ends_s = -1).proxy_with(&plain()).unwrap(),
            ErrorCode::CertificateExpired,
        ),
    ];
    for (user, code) in &cases {
        assert_eq!(code_of(lab.verify(user)), *code);
        assert!(!lab.openssl(user), "{code:?}");
    }
    assert!(lab.verify(&of(&|options| options.purposes.clear())).is_ok());
}

#[test]
fn an_authority_in_between_may_be_sent_or_installed() {
    let Some(lab) = &*LAB else { return };
    let between = lab.authority.issue_authority("/O=Crossload test/CN=Sub CA").unwrap();
    let user = between.issue_user("/O=Crossload test/CN=Below").unwrap();
    let proxy = user.proxy_with(&plain()).unwrap();
    assert_eq!(
        lab.verify(&proxy).unwrap().principal.dn.as_deref(),
        Some("/O=Crossload test/CN=Below")
    );
    assert!(lab.openssl(&proxy));
    let without = &proxy.chain()[..2];
    assert_eq!(
        code_of(verify_chain(without, &lab.rules(), now_s())),
        ErrorCode::CertificateUntrusted
    );
    let mut files = lab.authority.trust_files().unwrap();
    files.push(("sub.pem".to_owned(), to_pem("CERTIFICATE", between.der()).into_bytes()));
    let mut rules = lab.rules_with(files.clone());
    assert!(verify_chain(without, &rules, now_s()).is_ok());
    rules.revocation = Revocation::Required;
    let unknown = verify_chain(without, &rules, now_s());
    assert_eq!(code_of(unknown), ErrorCode::CertificateRevocationUnknown);
    // The first authority revokes the one below: what that one signed is worth nothing any more.
    let elsewhere = Scratch::new("revoked-sub").unwrap();
    let revoking = Authority::new(elsewhere.path()).unwrap();
    let between = revoking.issue_authority("/O=Crossload test/CN=Sub CA").unwrap();
    let user = between.issue_user("/O=Crossload test/CN=Below").unwrap();
    let serial = gsi_wire::Certificate::parse(between.der()).unwrap().serial().to_vec();
    revoking.revoke(&[serial], 3600).unwrap();
    let mut files = revoking.trust_files().unwrap();
    files.push(("sub.pem".to_owned(), to_pem("CERTIFICATE", between.der()).into_bytes()));
    let rules = lab.rules_with(files);
    assert_eq!(
        code_of(verify_chain(&user.chain(), &rules, now_s())),
        ErrorCode::CertificateRevoked
    );
}

#[test]
fn revocation_lists_count_as_the_mode_says() {
    let scratch = Scratch::new("revocation").unwrap();
    let Some(lab) = &*LAB else { return };
    let authority = Authority::new(scratch.path()).unwrap();
    let (good, bad) = (
        authority.issue_user(JANE).unwrap(),
        authority.issue_user("/O=Crossload test/CN=Bad").unwrap(),
    );
    let verify = |user: &User, files: Vec<(String, Vec<u8>)>, revocation| {
        let mut rules = lab.rules_with(files);
        rules.revocation = revocation;
        verify_chain(&user.proxy_with(&plain()).unwrap().chain(), &rules, now_s()).map_err(|error| error.code())
    };
    let all = [Revocation::Required, Revocation::IfPresent, Revocation::Off];
    let unknown = Err(ErrorCode::CertificateRevocationUnknown);
    let check = |user: &User, files: &[(String, Vec<u8>)], expected: [Result<(), ErrorCode>; 3]| {
        for (mode, expected) in all.into_iter().zip(expected) {
            assert_eq!(verify(user, files.to_vec(), mode).map(|_| ()), expected, "{mode:?}");
        }
    };
    authority.revoke(&[bad.serial().unwrap()], 3600).unwrap();
    let current = authority.trust_files().unwrap();
    check(&good, &current, [Ok(()), Ok(()), Ok(())]);
    let revoked = Err(ErrorCode::CertificateRevoked);
    check(&bad, &current, [revoked, revoked, Ok(())]);

    let without: Vec<_> = current
        .iter()
        .filter(|(name, _)| !name.ends_with(".r0"))
        .cloned()
        .collect();
    check(&good, &without, [unknown, Ok(()), Ok(())]);

    let mut garbage = current.clone();
    for (_, bytes) in garbage.iter_mut().filter(|(name, _)| name.ends_with(".r0")) {
        bytes.truncate(100);
    }
    check(&good, &garbage, [unknown, unknown, Ok(())]);

    authority.revoke(&[bad.serial().unwrap()], -60).unwrap();
    let old = authority.trust_files().unwrap();
    check(&good, &old, [unknown, unknown, Ok(())]);
    check(&bad, &old, [revoked, revoked, Ok(())]);

    // The list of another authority of the same name.
    let mut foreign = without.clone();
    foreign.extend(
        lab.authority
            .trust_files()
            .unwrap()
            .into_iter()
            .filter(|(name, _)| name.ends_with(".r0")),
    );
    check(&good, &foreign, [unknown, unknown, Ok(())]);

    // A list that is broken later is stood in for by what it was.
    let (before, faults) = TrustStore::build(current);
    assert_eq!(faults, []);
    let (after, faults) = TrustStore::build_after(garbage, Some(&before));
    assert!(
        faults.iter().all(|fault| fault.why.contains("still holds")) && !faults.is_empty(),
        "{faults:?}"
    );
    let rules = CertificateRules {
        trust: Arc::new(after),
        ..CertificateRules::default()
    };
    assert!(verify_chain(&good.chain(), &rules, now_s()).is_ok());
    assert_eq!(
        code_of(verify_chain(&bad.chain(), &rules, now_s())),
        ErrorCode::CertificateRevoked
    );
}

#[test]
fn an_authority_signs_only_the_names_that_it_may() {
    let scratch = Scratch::new("names").unwrap();
    let Some(authority) = available("names", Authority::new(scratch.path())) else {
        return;
    };
    let verify = |dn: &str| {
        let (trust, faults) = TrustStore::build(authority.trust_files().unwrap());
        let rules = CertificateRules {
            trust: Arc::new(trust),
            ..CertificateRules::default()
        };
        let user = authority.issue_user(dn).unwrap();
        let verdict = verify_chain(&user.chain(), &rules, now_s())
            .map(|_| ())
            .map_err(|error| error.code());
        (verdict, faults.len())
    };
    let refused = Err(ErrorCode::CertificateNameRefused);
    // What the testkit writes: a signing policy for /O=Crossload test/*.
    assert_eq!(verify(JANE), (Ok(()), 0));
    assert_eq!(verify("/O=Elsewhere/CN=Jane Doe"), (refused, 0));
    // Namespaces go before it, and their first statement that matches decides.
    let namespaces = "TO Issuer SELF DENY Subject \"/O=Elsewhere/CN=Robot.*\"\n\
        TO Issuer \"/O=Crossload test/CN=Crossload test CA\" \\\n PERMIT Subject \"/O=Elsewhere/.*\"\n";
    authority.write_beside("namespaces", namespaces).unwrap();
    assert_eq!(verify("/O=Elsewhere/CN=Jane Doe"), (Ok(()), 0));
    assert_eq!(verify("/O=Elsewhere/CN=Robot 1"), (refused, 0));
    assert_eq!(verify(JANE), (refused, 0));
    // One that cannot be read permits nothing.
    authority
        .write_beside("namespaces", "TO Issuer SELF PERMIT Subject \"(\"\n")
        .unwrap();
    let (verdict, faults) = verify(JANE);
    assert_eq!(verdict, refused);
    assert!(faults > 0);
}

#[test]
fn a_broken_file_takes_nobody_else_down() {
    let Some(lab) = &*LAB else { return };
    let mut files = lab.authority.trust_files().unwrap();
    let junk: [(&str, &[u8]); 6] = [
        ("00000000.0", b"-----BEGIN CERTIFICATE-----\nMIIB\n"),
        ("11111111.0", b""),
        ("22222222.r0", b"\xff\xfe"),
        ("33333333.signing_policy", b"nonsense"),
        ("44444444.namespaces", b"\xff"),
        ("own.pem", to_pem_static()),
    ];
    files.extend(junk.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
    files.push(("README".to_owned(), b"words".to_vec()));
    let user = lab.jane.chain()[0].to_vec();
    files.push(("user.pem".to_owned(), to_pem("CERTIFICATE", &user).into_bytes()));
    let (trust, faults) = TrustStore::build(files);
    let named: Vec<&str> = faults.iter().map(|fault| &*fault.file).collect();
    for (name, _) in junk {
        assert!(named.contains(&name), "{name}: {faults:?}");
    }
    assert!(named.contains(&"user.pem") && !named.contains(&"README"));
    let rules = CertificateRules {
        trust: Arc::new(trust),
        ..CertificateRules::default()
    };
    assert!(verify_chain(&lab.jane.chain(), &rules, now_s()).is_ok());
}

/// A block that is no certificate.
fn to_pem_static() -> &'static [u8] {
    b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
}

#[test]
fn attributes_of_voms_are_believed_and_mapped() {
    let Some(lab) = &*LAB else { return };
    let fqans = [
        "/testvo/prod/Role=admin/Capability=NULL",
        "/testvo/Role=NULL/Capability=NULL",
    ];
    let attributes = lab.server.attributes(&lab.jane, &fqans).unwrap();
    let proxy = lab.jane.voms_proxy(vec![attributes]).unwrap();
    let further = proxy.proxy_with(&plain()).unwrap();
    let mut rules = lab.rules();
    rules.voms_map = VomsMap::parse("\"/testvo/prod/Role=admin\" prodadm\n").0;
    for user in [&proxy, &further] {
        let verified = verify_chain(&user.chain(), &rules, now_s()).unwrap();
        assert_eq!(verified.attribute_faults, Vec::<String>::new());
        assert_eq!(verified.principal.vos, ["testvo"]);
        assert_eq!(verified.principal.fqans, ["/testvo/prod/Role=admin", "/testvo"]);
        assert_eq!(verified.principal.user.as_deref(), Some("prodadm"));
    }
    rules.grid_map = GridMap::parse(&format!("\"{JANE}\" jane\n")).0;
    let verified = verify_chain(&proxy.chain(), &rules, now_s()).unwrap();
    assert_eq!(verified.principal.user.as_deref(), Some("jane"));
}

#[test]
fn attributes_of_several_vos_and_the_end_of_the_first_that_ends() {
    let Some(lab) = &*LAB else { return };
    let other = lab.authority.issue_voms_server("other").unwrap();
    let short = AttributeOptions {
        ends_s: 600,
        ..AttributeOptions::default()
    };
    let proxy = lab
        .jane
        .voms_proxy(vec![
            lab.server.attributes(&lab.jane, &["/testvo"]).unwrap(),
            other.attributes_with(&lab.jane, &["/other"], &short).unwrap(),
        ])
        .unwrap();
    let verified = lab.verify(&proxy).unwrap();
    assert_eq!(verified.principal.fqans, ["/testvo"]);
    assert!(
        verified.attribute_faults[0].contains("VO other"),
        "{:?}",
        verified.attribute_faults
    );
    assert!(verified.expires_s > now_s() + 3600);
    let mut rules = lab.rules();
    let files = [&lab.server, &other].map(|server| {
        let lsc = server.lsc().unwrap().into_bytes();
        let vo = if lsc.starts_with(b"/O=Crossload test/CN=voms.other") {
            "other"
        } else {
            "testvo"
        };
        (vo.to_owned(), "any.lsc".to_owned(), lsc)
    });
    rules.voms = Arc::new(VomsDirectory::build(files).0);
    let verified = verify_chain(&proxy.chain(), &rules, now_s()).unwrap();
    assert_eq!(verified.principal.vos, ["testvo", "other"]);
    assert!(verified.expires_s <= now_s() + 600);
}

#[test]
fn attributes_that_are_not_believed_are_left_out_with_the_reason() {
    let Some(lab) = &*LAB else { return };
    let john = lab.authority.issue_user("/O=Crossload test/CN=John Doe").unwrap();
    let impostor = lab.authority.issue_voms_server("impostor").unwrap();
    let of = |options: AttributeOptions| lab.server.attributes_with(&lab.jane, &["/testvo"], &options).unwrap();
    let base = AttributeOptions::default;
    let cases = [
        (
            lab.server.attributes(&john, &["/testvo"]).unwrap(),
            "another certificate",
        ),
        (of(AttributeOptions { ends_s: -301, ..base() }), "were valid until"),
        (
            of(AttributeOptions {
                starts_s: 330,
                ..base()
            }),
            "are valid from",
        ),
        (
            of(AttributeOptions {
                wrong_signature: true,
                ..base()
            }),
            "altered",
        ),
        (
            of(AttributeOptions {
                unknown_extension: true,
                ..base()
            }),
            "critical extension",
        ),
        (
            of(AttributeOptions {
                without_certificate: true,
                ..base()
            }),
            "not sent along",
        ),
        (
            of(AttributeOptions {
                targets: Some(vec!["other.example.org".to_owned()]),
                ..base()
            }),
            "other hosts",
        ),
        (
            of(AttributeOptions {
                targets: Some(Vec::new()),
                ..base()
            }),
            "other hosts",
        ),
        (
            of(AttributeOptions {
                vo: Some("unknown".to_owned()),
                ..base()
            }),
            "not one of this VO",
        ),
        (
            lab.server.attributes(&lab.jane, &["/testvox"]).unwrap(),
            "not one of this VO",
        ),
        (
            lab.server
                .attributes(&lab.jane, &["/testvo", "/atlas/Role=production"])
                .unwrap(),
            "not one of this VO",
        ),
        (
            impostor
                .attributes_with(
                    &lab.jane,
                    &["/testvo"],
                    &AttributeOptions {
                        vo: Some("testvo".to_owned()),
                        ..base()
                    },
                )
                .unwrap(),
            "no .lsc file that names",
        ),
        (
            impostor.attributes(&lab.jane, &["/impostor"]).unwrap(),
            "nothing about this VO",
        ),
        (lab.server.attributes(&lab.jane, &[]).unwrap(), "empty"),
        (encode::sequence(&[b"\x05\x00"]), "not where it should be"),
    ];
    for (attributes, words) in cases {
        let verified = lab.verify(&lab.jane.voms_proxy(vec![attributes]).unwrap()).unwrap();
        assert_eq!(verified.principal.fqans, Vec::<String>::new(), "{words}");
        assert_eq!(verified.principal.vos, Vec::<String>::new(), "{words}");
        let fault = verified.attribute_faults.first().map_or("", |fault| fault);
        assert!(fault.contains(words), "{words}: {fault}");
        assert_eq!(verified.principal.dn.as_deref(), Some(JANE));
    }
    // The clocks may differ by five minutes, and a list of targets may name this host.
    for good in [
        AttributeOptions { ends_s: -200, ..base() },
        AttributeOptions {
            starts_s: 200,
            ..base()
        },
        AttributeOptions {
            targets: Some(vec!["https://SE.example.org:8443/".to_owned()]),
            ..base()
        },
    ] {
        let verified = lab.verify(&lab.jane.voms_proxy(vec![of(good)]).unwrap()).unwrap();
        assert_eq!(verified.attribute_faults, Vec::<String>::new());
    }
}

#[test]
fn a_servers_certificate_in_the_voms_directory_is_as_good_as_an_lsc_file() {
    let Some(lab) = &*LAB else { return };
    let options = AttributeOptions {
        without_certificate: true,
        ..AttributeOptions::default()
    };
    let attributes = lab.server.attributes_with(&lab.jane, &["/testvo"], &options).unwrap();
    let proxy = lab.jane.voms_proxy(vec![attributes]).unwrap();
    let mut rules = lab.rules();
    let pem = lab.server.own().chain_pem().into_bytes();
    let file = ("testvo".to_owned(), "voms.testvo.example.pem".to_owned(), pem);
    rules.voms = Arc::new(VomsDirectory::build([file]).0);
    let verified = verify_chain(&proxy.chain(), &rules, now_s()).unwrap();
    assert_eq!(verified.principal.fqans, ["/testvo"]);
}

#[test]
fn a_proxy_of_debians_voms_proxy_fake_is_believed_with_its_vo_and_fqans() {
    let Some(lab) = &*LAB else { return };
    let path = lab.scratch.path().join("fake.pem");
    let fqans = [
        "/testvo/group/Role=pilot/Capability=NULL",
        "/testvo/Role=NULL/Capability=NULL",
    ];
    let made = lab.server.fake_proxy(&lab.jane, &fqans, &path);
    let Some(path) = available("voms-proxy-fake", made) else {
        return;
    };
    let verified = verify_file(&path, &lab.rules()).unwrap();
    assert_eq!(verified.attribute_faults, Vec::<String>::new());
    assert_eq!(verified.principal.dn.as_deref(), Some(JANE));
    assert_eq!(verified.principal.vos, ["testvo"]);
    assert_eq!(verified.principal.fqans, ["/testvo/group/Role=pilot", "/testvo"]);
    assert_eq!(verified.proxies, 1);
}

fn verify_file(path: &Path, rules: &CertificateRules) -> Result<VerifiedCertificate, Error> {
    let chain = certificates_in_pem(&fs::read(path).unwrap()).unwrap();
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    verify_chain(&chain, rules, now_s())
}

#[test]
fn voms_proxy_info_reads_what_the_testkit_makes() {
    let Some(lab) = &*LAB else { return };
    let Some(program) = available("voms-proxy-info", testkit::require("voms-proxy-info")) else {
        return;
    };
    let scratch = Scratch::new("voms-proxy-info").unwrap();
    lab.server.write_lsc(scratch.path()).unwrap();
    let attributes = lab
        .server
        .attributes(&lab.jane, &["/testvo/Role=pilot/Capability=NULL"])
        .unwrap();
    let proxy = lab.jane.voms_proxy(vec![attributes]).unwrap();
    let path = proxy.write_proxy(&scratch.path().join("proxy.pem")).unwrap();
    let output = Command::new(program)
        .args(["-all", "-file"])
        .arg(path)
        .env("X509_CERT_DIR", lab.authority.trust_directory())
        .env("X509_VOMS_DIR", scratch.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(
        words.contains("/testvo/Role=pilot") && words.contains("testvo"),
        "{output:?}"
    );
}

#[test]
fn hosts_are_verified_by_name() {
    let Some(lab) = &*LAB else { return };
    let options = CertificateOptions {
        purposes: vec!["1.3.6.1.5.5.7.3.1".to_owned()],
        host_names: vec!["se.example.org".to_owned()],
        ..CertificateOptions::default()
    };
    let host = lab
        .authority
        .issue("/O=Crossload test/CN=se.example.org", &options)
        .unwrap();
    let rules = lab.rules();
    let verified = verify_host(&host.chain(), &rules, "se.example.org", now_s()).unwrap();
    assert_eq!(verified.dn, "/O=Crossload test/CN=se.example.org");
    for (chain, name) in [
        (host.chain(), "other.example.org"),
        (lab.jane.chain(), "se.example.org"),
    ] {
        let error = verify_host(&chain, &rules, name, now_s()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::CertificateUnsuitable);
    }
}

#[test]
fn a_delegated_proxy_is_made_from_a_request_and_believed_by_us_and_openssl() {
    let Some(lab) = &*LAB else { return };
    for kind in [KeyKind::Rsa2048, KeyKind::EcdsaP256] {
        let receiver = SigningPair::new(kind).unwrap();
        let name = testkit::name_der("/CN=anything").unwrap();
        let key = receiver.public_key_info();
        let request = certificate_request(&name, &key, receiver.kind(), |message| receiver.sign(message)).unwrap();
        let path = lab.scratch.path().join(format!("{kind:?}.csr"));
        fs::write(&path, to_pem("CERTIFICATE REQUEST", &request)).unwrap();
        let openssl = Command::new("openssl")
            .args(["req", "-verify", "-noout", "-in"])
            .arg(path)
            .output();
        assert!(openssl.unwrap().status.success());
        let request = CertificateRequest::parse(&request).unwrap();
        verify_request(&request).unwrap();
        assert_eq!(
            (&*request.subject_line, request.public_key_info),
            ("/CN=anything", &*key)
        );
        let altered = CertificateRequest {
            signed_part: request.subject,
            ..request.clone()
        };
        assert_eq!(
            verify_request(&altered).unwrap_err().code(),
            ErrorCode::CertificateSignature
        );
        let issuer = gsi_wire::Certificate::parse(lab.jane.end_entity()).unwrap();
        let draft = ProxyDraft {
            issuer: issuer.subject().der,
            common_name: "12345",
            serial: &[1, 2, 3, 4],
            public_key_info: request.public_key_info,
            not_before_s: now_s() - 300,
            not_after_s: now_s() + 3600,
            policy: ProxyPolicy::Limited,
            path_length: Some(2),
            extensions: Vec::new(),
        };
        let own = lab.jane.key();
        let sign = |message: &[u8]| own.sign(message).map_err(|error| Malformed(error.to_string().into()));
        let proxy = draft.encode(own.kind(), sign).unwrap();
        let chain = [&*proxy, lab.jane.end_entity()];
        let verified = verify_chain(&chain, &lab.rules(), now_s()).unwrap();
        assert!(verified.is_limited && verified.expires_s <= now_s() + 3600);
        assert!(lab.openssl_accepts(&chain));
    }
}
