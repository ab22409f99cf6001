//! What lies in a trust directory: revocation lists, the names that an authority may sign, and
//! broken files.

use std::sync::Arc;

use credentials::x509::{CertificateRules, Revocation, TrustStore, verify_chain};
use gsi_wire::to_pem;
use testkit::{Authority, Scratch, User, available};
use types::ErrorCode;

use crate::lab::{JANE, LAB, code_of, now_s, plain};

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
        (
            "own.pem",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
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
