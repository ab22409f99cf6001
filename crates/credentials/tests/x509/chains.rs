//! Certificates that authorities issued, or did not.

use std::fs;
use std::process::Command;

use credentials::x509::{Revocation, verify_chain, verify_host};
use gsi_wire::to_pem;
use testkit::{Authority, CertificateOptions, KeyKind, ProxyFault, Scratch};
use types::ErrorCode;

use crate::lab::{JANE, LAB, broken, code_of, now_s, plain};

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
fn the_issuer_is_known_by_its_key_since_others_may_have_its_name() {
    let Some(lab) = &*LAB else { return };
    let root = gsi_wire::Certificate::parse(lab.authority.der()).unwrap();
    let name = root.subject().one_line;
    let issuer_of = |user: &testkit::User| lab.verify(user).unwrap().issuer;
    let own = issuer_of(&lab.jane);
    assert_eq!(own.dn, name);
    assert_eq!(issuer_of(&lab.jane.proxy_with(&plain()).unwrap()), own);
    assert_eq!(issuer_of(&lab.authority.issue_user(JANE).unwrap()), own);
    let other = lab.authority.issue_authority(name).unwrap();
    let theirs = issuer_of(&other.issue_user(JANE).unwrap());
    assert_eq!(theirs.dn, name);
    assert_ne!(theirs.key_sha256, own.key_sha256);
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
    let other = verify_host(&host.chain(), &rules, "other.example.org", now_s()).unwrap_err();
    let words = "is not for the host other.example.org, but for se.example.org";
    assert!(other.public().contains(words), "{other}");
}

#[test]
fn names_are_written_as_openssl_writes_them() {
    let Some(lab) = &*LAB else { return };
    for name in [
        "/DC=test/DC=grid/OU=People/CN=Jane Doe",
        "/C=DE/ST=Hessen/L=Ort/O=Crossload test/CN=Jörg Müller",
        "/O=Crossload test/UID=jdoe/emailAddress=jane@example.org",
        "/O=Crossload test/CN=host/se.example.org",
        "/O=Crossload test/CN=quote \" and \\ and \u{7f}",
        "/O=Crossload test/CN=日本",
        "/O=Crossload test/CN=Jane Doe+UID=jane/CN=more",
        "/O=Crossload test/CN=a+b",
    ] {
        let options = CertificateOptions {
            key: KeyKind::EcdsaP256,
            ..CertificateOptions::default()
        };
        let user = lab.authority.issue(name, &options).unwrap();
        let scratch = Scratch::new("names").unwrap();
        let (path, _) = user.write_pair(scratch.path(), "user").unwrap();
        let shown = Command::new("openssl")
            .args(["x509", "-noout", "-subject", "-nameopt", "compat", "-in"])
            .arg(path)
            .output()
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let ours = user.dn().unwrap();
        let shown = shown.trim_end().strip_prefix("subject=").unwrap_or_default();
        // OpenSSL 3 escapes slashes, which older ones, and the files of two decades, do not.
        assert_eq!(shown.replace("\\/", "/").replace("\\+", "+"), ours);
        assert!(gsi_wire::dn::same(shown, &ours), "{shown}");
        if !name.contains('\u{7f}') {
            assert!(gsi_wire::dn::same(name, &ours), "{name}");
        }
    }
}
