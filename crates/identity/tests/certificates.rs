//! Chains of certificates judged by files that change and break.

use std::path::Path;
use std::sync::Arc;

use credentials::{Credential, CredentialKind};
use identity::{Authenticator, CertificateFiles, Certificates, Sources};
use rustls_pki_types::CertificateDer;
use testkit::{Authority, Scratch, User};
use types::ErrorCode;

const JANE: &str = "/O=Crossload test/CN=Jane Doe";

fn chain(user: &User) -> Vec<CertificateDer<'static>> {
    user.chain()
        .into_iter()
        .map(|der| CertificateDer::from(der.to_vec()))
        .collect()
}

fn files(trust_directory: &Path) -> CertificateFiles {
    CertificateFiles {
        trust_directory: Some(trust_directory.to_owned()),
        ..CertificateFiles::default()
    }
}

fn refusal(credential: &Credential) -> Option<ErrorCode> {
    match credential {
        Credential::RefusedCertificate(error) => Some(error.code()),
        _ => None,
    }
}

#[test]
fn a_chain_is_verified_once_and_again_when_the_rules_change() {
    let scratch = Scratch::new("identity").unwrap();
    let authority = Authority::new(scratch.path()).unwrap();
    let jane = authority.issue_user(JANE).unwrap().proxy().unwrap();
    let files = files(&authority.trust_directory());
    let (rules, report) = files.read(None);
    assert_eq!(
        (report.authorities, report.revocation_lists, report.faults),
        (1, 1, Vec::new())
    );
    assert!(report.oldest_list_s.is_some());
    let certificates = Certificates::new(Some(rules));
    let authenticator = Authenticator::new(Sources {
        certificates: certificates.clone(),
        ..Sources::default()
    });
    let shown = chain(&jane);
    let first = authenticator.certificates(Some(&shown));
    assert_eq!(first.principal().unwrap().dn.as_deref(), Some(JANE));
    assert!(
        Arc::ptr_eq(&first, &authenticator.certificates(Some(&shown))),
        "it was verified twice"
    );
    // The same certificates in another order are another chain, here one without proxies.
    let mut turned = shown.clone();
    turned.reverse();
    let other = authenticator.certificates(Some(&turned));
    assert!(other.principal().is_some() && !Arc::ptr_eq(&first, &other));
    authority.revoke(&[jane.serial().unwrap()], 86_400).unwrap();
    let known = certificates.rules();
    certificates.replace(Some(files.read(known.as_deref()).0));
    let late = authenticator.certificates(Some(&shown));
    assert_eq!(refusal(&late), Some(ErrorCode::CertificateRevoked));
    certificates.replace(None);
    for shown in [Some(&*shown), Some(&[]), None] {
        let credential = authenticator.certificates(shown);
        assert_eq!(
            (credential.kind(), refusal(&credential)),
            (CredentialKind::Anonymous, None)
        );
    }
}

#[test]
fn what_cannot_be_read_any_more_still_holds() {
    let scratch = Scratch::new("identity").unwrap();
    let authority = Authority::new(scratch.path()).unwrap();
    let vo = authority.issue_voms_server("testvo").unwrap();
    let voms_directory = scratch.create("vomsdir").unwrap();
    vo.write_lsc(&voms_directory).unwrap();
    let map = scratch.join("grid-mapfile");
    std::fs::write(&map, format!("\"{JANE}\" jane\nnonsense\n")).unwrap();
    let files = CertificateFiles {
        voms_directory: Some(voms_directory.clone()),
        grid_map_file: Some(map.clone()),
        voms_map_file: Some(scratch.join("none")),
        ..files(&authority.trust_directory())
    };
    let (rules, report) = files.read(None);
    assert_eq!((report.authorities, report.vos, report.mappings), (1, 1, 1));
    let at_fault: Vec<&str> = report.faults.iter().map(|fault| &*fault.file).collect();
    assert_eq!(
        at_fault,
        [map.to_str().unwrap(), scratch.join("none").to_str().unwrap()]
    );
    let before = files.fingerprint();
    assert_eq!(before, files.fingerprint());
    std::fs::remove_file(&map).unwrap();
    std::fs::rename(&voms_directory, scratch.join("away")).unwrap();
    std::fs::rename(authority.trust_directory(), scratch.join("gone")).unwrap();
    assert_ne!(before, files.fingerprint());
    let (after, report) = files.read(Some(&rules));
    assert_eq!((report.authorities, report.vos, report.mappings), (1, 1, 1));
    assert_eq!(report.faults.len(), 4, "{:?}", report.faults);
    let certificates = Certificates::new(Some(after));
    let authenticator = Authenticator::new(Sources {
        certificates,
        ..Sources::default()
    });
    let jane = authority.issue_user(JANE).unwrap();
    let credential = authenticator.certificates(Some(&chain(&jane)));
    assert_eq!(credential.principal().unwrap().user.as_deref(), Some("jane"));
}

#[test]
fn a_file_written_over_in_place_is_seen() {
    let scratch = Scratch::new("identity").unwrap();
    let authority = Authority::new(scratch.path()).unwrap();
    let files = files(&authority.trust_directory());
    let before = files.fingerprint();
    let (name, content) = authority.trust_files().unwrap().remove(0);
    let file = authority.trust_directory().join(name);
    std::fs::write(&file, [&content[..], b"\n"].concat()).unwrap();
    assert_ne!(before, files.fingerprint());
}
