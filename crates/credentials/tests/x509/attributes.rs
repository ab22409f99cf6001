//! VOMS attributes: verified, mapped, or left out with the reason.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use credentials::VerifiedCertificate;
use credentials::x509::{CertificateRules, GridMap, VomsDirectory, VomsMap, verify_chain};
use gsi_wire::{certificates_in_pem, encode};
use testkit::{AttributeOptions, Scratch, available};
use types::Error;

use crate::lab::{JANE, LAB, now_s, plain};

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
