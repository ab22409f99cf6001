//! Breaks one thing at a time; exactly that must be found.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use time::{Duration, OffsetDateTime};
use types::{Error, ErrorCode, Location, Phase, Side};

use super::finding::{Finding, Position, Severity, Sum};
use super::{Environment, check_file, clock, dns, issuers, ports};

mod clients;
mod codes;
mod made_up;
mod places;
mod sessions;
mod upstream;

/// A server with valid configuration, files and certificate.
struct Site {
    directory: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
    environment: Environment,
}

const CONFIGURATION: &str = r#"[server]
listen = ["0.0.0.0:443"]
name = "https://se.example.org"
certificate = "host.pem"
key = "host.key"
admin_listen = "127.0.0.1:9090"

[[export]]
path = "/data"
directory = "data"
anonymous = "read"
reserve_bytes = 0

[macaroons]
secret_file = "macaroon.secret"

[trust]
ca_files = ["ca.pem"]
ca_directories = ["authorities"]
system = false
"#;

fn named(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = OffsetDateTime::now_utc() - Duration::days(1);
    parameters.not_after = OffsetDateTime::now_utc() + Duration::days(300);
    parameters
}

fn authority(name: &str) -> CertificateParams {
    let mut parameters = named(name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let issuer = CertifiedIssuer::self_signed(authority("Test CA"), KeyPair::generate().unwrap()).unwrap();
        let site = Self {
            directory,
            issuer,
            environment: Environment {
                now_s: OffsetDateTime::now_utc().unix_timestamp(),
                uid: rustix::process::geteuid().as_raw(),
                descriptors_max: None,
                warn_days: 14,
                free_space: |_| Some((50 << 30, 100 << 30)),
            },
        };
        fs::create_dir(site.path("data")).unwrap();
        fs::create_dir(site.path("authorities")).unwrap();
        fs::write(site.path("ca.pem"), site.issuer.pem()).unwrap();
        fs::write(site.path("authorities/0a1b2c3d.0"), site.issuer.pem()).unwrap();
        let secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWNyZXQ=\n";
        site.write_private("macaroon.secret", secret);
        site.issue(|_| {});
        site.configure(|text| text.to_owned());
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write_private(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    /// Issues a changed host certificate.
    fn issue(&self, change: impl FnOnce(&mut CertificateParams)) {
        let mut parameters = named("se.example.org");
        parameters.subject_alt_names = vec![rcgen::SanType::DnsName("se.example.org".try_into().unwrap())];
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path("host.pem"), certificate.pem()).unwrap();
        self.write_private("host.key", &key.serialize_pem());
    }

    fn configure(&self, change: impl FnOnce(&str) -> String) {
        fs::write(self.path("c.toml"), change(CONFIGURATION)).unwrap();
    }

    fn findings(&self) -> Vec<Finding> {
        check_file(&self.path("c.toml"), &self.environment).0
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }
}

/// All findings except `ok`, sorted by code.
fn bad(findings: &[Finding]) -> Vec<(Severity, &'static str, Option<usize>)> {
    let worth = findings.iter().filter(|finding| finding.severity > Severity::Ok);
    let mut found: Vec<_> = worth
        .map(|finding| {
            (
                finding.severity,
                finding.code,
                finding.position.as_ref().and_then(|position| position.line),
            )
        })
        .collect();
    found.sort_by_key(|(_, code, _)| *code);
    found
}

#[test]
fn a_good_configuration_has_only_findings_of_what_is_correct() {
    let site = Site::new();
    let findings = site.findings();
    assert_eq!(bad(&findings), [], "{findings:#?}");
    assert_eq!(Sum::of(&findings).exit_code(), 0);
    for code in [
        "configuration",
        "certificate",
        "certificate_names",
        "chain",
        "authorities",
        "secret",
        "storage",
        "space",
    ] {
        assert!(
            findings.iter().any(|finding| finding.code == code),
            "{code} was not checked"
        );
    }
    // Probe files are gone.
    assert_eq!(fs::read_dir(site.path("data")).unwrap().count(), 0);
}

/// A fault: its name, how to make it, and the expected severity, code and line.
type Case = (
    &'static str,
    fn(&Site),
    &'static [(Severity, &'static str, Option<usize>)],
);

use Severity::{Error as Bad, Note, Warning};

const CERTIFICATES: [Case; 12] = [
    (
        "an expired certificate",
        |site| site.issue(|own| own.not_after = OffsetDateTime::now_utc() - Duration::hours(1)),
        &[(Bad, "certificate_expired", Some(4))],
    ),
    (
        "one that expires soon",
        |site| site.issue(|own| own.not_after = OffsetDateTime::now_utc() + Duration::days(13)),
        &[(Warning, "certificate_expires_soon", Some(4))],
    ),
    (
        "one of the future",
        |site| site.issue(|own| own.not_before = OffsetDateTime::now_utc() + Duration::hours(1)),
        &[(Bad, "certificate_not_yet_valid", Some(4))],
    ),
    (
        "one for another host",
        |site| site.issue(|own| own.subject_alt_names = vec![rcgen::SanType::DnsName("other".try_into().unwrap())]),
        &[(Bad, "certificate_name_differs", Some(4))],
    ),
    (
        "one for no host",
        |site| site.issue(|own| own.subject_alt_names = Vec::new()),
        &[(Bad, "certificate_without_names", Some(4))],
    ),
    (
        "no certificate",
        |site| fs::remove_file(site.path("host.pem")).unwrap(),
        &[(Bad, "certificate_unreadable", Some(4))],
    ),
    (
        "no key",
        |site| fs::remove_file(site.path("host.key")).unwrap(),
        &[(Bad, "key_unreadable", Some(5)), (Bad, "secret_missing", Some(5))],
    ),
    (
        "another key",
        |site| site.write_private("host.key", &KeyPair::generate().unwrap().serialize_pem()),
        &[(Bad, "key_does_not_fit", Some(5))],
    ),
    (
        "an unknown issuer",
        |site| {
            let between = CertifiedIssuer::signed_by(authority("Between"), KeyPair::generate().unwrap(), &site.issuer);
            let key = KeyPair::generate().unwrap();
            let mut own = named("se.example.org");
            own.subject_alt_names = vec![rcgen::SanType::DnsName("se.example.org".try_into().unwrap())];
            fs::write(
                site.path("host.pem"),
                own.signed_by(&key, &between.unwrap()).unwrap().pem(),
            )
            .unwrap();
            site.write_private("host.key", &key.serialize_pem());
        },
        &[(Warning, "chain_incomplete", Some(4))],
    ),
    (
        "an issuer with the same name as a trusted one",
        |site| {
            let namesake = CertifiedIssuer::self_signed(authority("Test CA"), KeyPair::generate().unwrap());
            let key = KeyPair::generate().unwrap();
            let mut own = named("se.example.org");
            own.subject_alt_names = vec![rcgen::SanType::DnsName("se.example.org".try_into().unwrap())];
            fs::write(
                site.path("host.pem"),
                own.signed_by(&key, &namesake.unwrap()).unwrap().pem(),
            )
            .unwrap();
            site.write_private("host.key", &key.serialize_pem());
        },
        &[(Bad, "chain_signature", Some(4))],
    ),
    (
        "an authority's certificate",
        |site| {
            let key = KeyPair::generate().unwrap();
            let mut own = authority("se.example.org");
            own.subject_alt_names = vec![rcgen::SanType::DnsName("se.example.org".try_into().unwrap())];
            fs::write(site.path("host.pem"), own.signed_by(&key, &site.issuer).unwrap().pem()).unwrap();
            site.write_private("host.key", &key.serialize_pem());
        },
        &[(Warning, "certificate_is_authority", Some(4))],
    ),
    (
        "a chain in the wrong order",
        |site| {
            let other = authority("Other").self_signed(&KeyPair::generate().unwrap()).unwrap();
            let own = fs::read_to_string(site.path("host.pem")).unwrap();
            fs::write(site.path("host.pem"), own + &other.pem()).unwrap();
        },
        &[(Bad, "chain_out_of_order", Some(4))],
    ),
];

const FILES: [Case; 16] = [
    (
        "a secret that clients can fetch",
        |site| {
            fs::copy(site.path("macaroon.secret"), site.path("data/macaroon.secret")).unwrap();
            site.configure(|text| text.replace("macaroon.secret", "data/macaroon.secret"));
        },
        &[(Bad, "exported_secret", Some(15))],
    ),
    (
        "a log that clients can fetch",
        |site| site.configure(|text| text.to_owned() + "[log]\nfile = \"data/log\"\n"),
        &[(Bad, "exported_secret", Some(22))],
    ),
    (
        "a secret that the group may change",
        |site| site.mode("macaroon.secret", 0o660),
        &[(Bad, "secret_open_to_others", Some(15))],
    ),
    (
        "a key that all may read",
        |site| site.mode("host.key", 0o644),
        &[(Bad, "secret_open_to_others", Some(5))],
    ),
    (
        "a secret that is none",
        |site| site.write_private("macaroon.secret", "short"),
        &[(Bad, "secret_unusable", Some(15))],
    ),
    (
        "a secret that is to be made",
        |site| fs::remove_file(site.path("macaroon.secret")).unwrap(),
        &[(Note, "secret_not_made_yet", Some(15))],
    ),
    (
        "a secret in a directory that is not there",
        |site| site.configure(|text| text.replace("macaroon.secret", "none/macaroon.secret")),
        &[(Bad, "secret_missing", Some(15))],
    ),
    (
        "an old secret that is not there",
        |site| site.configure(|text| text.replace("[trust]", "old_secret_files = [\"old\"]\n[trust]")),
        &[(Bad, "secret_missing", Some(17))],
    ),
    (
        "a directory in which all may rename",
        |site| {
            site.configure(|text| {
                fs::create_dir(site.path("open")).unwrap();
                site.mode("open", 0o777);
                fs::copy(site.path("macaroon.secret"), site.path("open/macaroon.secret")).unwrap();
                text.replace("macaroon.secret", "open/macaroon.secret")
            })
        },
        &[(Bad, "secret_replaceable", Some(15))],
    ),
    (
        "a configuration that all may change",
        |site| site.mode("c.toml", 0o666),
        &[(Bad, "configuration_open", None)],
    ),
    (
        "a key that does not exist",
        |site| site.configure(|text| text.replace("anonymous", "annonymous")),
        &[(Bad, "configuration_fault", Some(11))],
    ),
    (
        "an export that is not there",
        |site| fs::remove_dir(site.path("data")).unwrap(),
        &[(Bad, "export_missing", Some(10))],
    ),
    (
        "an export that is a file",
        |site| {
            fs::remove_dir(site.path("data")).unwrap();
            fs::write(site.path("data"), "").unwrap();
        },
        &[(Bad, "export_no_directory", Some(10))],
    ),
    (
        "an export within another",
        |site| {
            fs::create_dir(site.path("data/inner")).unwrap();
            let more = "[[export]]\npath = \"/inner\"\ndirectory = \"data/inner\"\nreserve_bytes = 0\n\n[macaroons]";
            site.configure(|text| text.replace("[macaroons]", more));
        },
        &[(Warning, "exports_overlap", Some(16))],
    ),
    (
        "a reserve that leaves nothing",
        |site| site.configure(|text| text.replace("reserve_bytes = 0", "reserve_bytes = \"8000TiB\"")),
        &[(Bad, "space_exhausted", Some(12))],
    ),
    (
        "a quota above the file system",
        |site| site.configure(|text| text.replace("reserve_bytes = 0", "reserve_bytes = 0\nquota_bytes = \"8000TiB\"")),
        &[(Warning, "quota_too_large", Some(13))],
    ),
];

const RIGHTS: [Case; 8] = [
    (
        "everybody may write",
        |site| site.configure(|text| text.replace("anonymous = \"read\"", "anonymous = \"write\"")),
        &[(Warning, "anonymous_write", Some(11))],
    ),
    (
        "anonymous write in a read-only export",
        |site| site.configure(|text| text.replace("anonymous = \"read\"", "anonymous = \"write\"\nread_only = true")),
        &[(Warning, "anonymous_write_void", Some(11))],
    ),
    (
        "an export that no client can use",
        |site| {
            site.configure(|text| {
                let closed = text.replace("anonymous = \"read\"", "anonymous = \"none\"");
                closed.replace("secret_file = \"macaroon.secret\"", "")
            })
        },
        &[(Warning, "export_no_clients", Some(11))],
    ),
    (
        "metrics for everybody",
        |site| site.configure(|text| text.replace("127.0.0.1:9090", "0.0.0.0:9090")),
        &[(Warning, "admin_open", Some(6))],
    ),
    (
        "no TLS",
        |site| site.configure(|text| text.replace("certificate = \"host.pem\"\nkey = \"host.key\"\n", "")),
        &[
            (Warning, "no_certificate", Some(1)),
            (Note, "xroot_tokens_shut_out", Some(1)),
        ],
    ),
    (
        "strangers may use loopback",
        |site| site.configure(|text| text.to_owned() + "[tpc]\nallow_local_peers = true\n"),
        &[(Warning, "local_peers_allowed", Some(22))],
    ),
    (
        "a name and no way to it",
        |site| site.configure(|text| text.replace("0.0.0.0:443", "127.0.0.1:443")),
        &[(Note, "loopback_only", Some(2))],
    ),
    (
        "a server without a name",
        |site| site.configure(|text| text.replace("name = \"https://se.example.org\"\n", "")),
        &[(Note, "no_name", Some(1))],
    ),
];

const POLICY: [Case; 6] = [
    (
        "a rule about nothing that is exported",
        |site| {
            site.configure(|text| text.to_owned() + "[[rule]]\nwho = \"dn:/CN=x\"\npath = \"/dat\"\nmay = [\"read\"]\n")
        },
        &[(Warning, "rule_outside", Some(23))],
    ),
    (
        "a rule behind the last one",
        |site| {
            site.configure(|text| {
                let all = "[[rule]]\nwho = \"anyone\"\nmay = [\"read\"]\nlast = true\n";
                text.to_owned() + all + "[[rule]]\nwho = \"dn:/CN=x\"\nmay = [\"read\"]\n"
            })
        },
        &[(Warning, "rule_never_reached", Some(26))],
    ),
    (
        "a map that is not there",
        |site| site.configure(|text| text.to_owned() + "[x509]\ngrid_map_file = \"none\"\n"),
        &[(Bad, "file_missing", Some(22))],
    ),
    (
        "keys of an issuer that are not there",
        |site| site.configure(|text| text.to_owned() + "[[issuer]]\nurl = \"https://iam\"\njwks_file = \"none\"\n"),
        &[(Bad, "file_missing", Some(23))],
    ),
    (
        "local users without the right to act as them",
        |site| {
            site.configure(|text| {
                text.to_owned()
                    + "[[rule]]\nwho = \"dn:/CN=x\"\nmay = [\"read\"]\nuser = \"ann\"\n[users]\nswitch = \"never\"\n"
            })
        },
        &[],
    ),
    (
        "tokens for a server without a name",
        |site| {
            site.configure(|text| {
                let nameless = text.replace("name = \"https://se.example.org\"\n", "");
                let nameless = nameless.replace("secret_file = \"macaroon.secret\"", "");
                fs::write(site.path("keys"), "{}").unwrap();
                nameless + "[[issuer]]\nurl = \"https://iam\"\njwks_file = \"keys\"\n"
            })
        },
        &[(Warning, "audiences_unknown", Some(1))],
    ),
];

const TRUST: [Case; 4] = [
    (
        "a broken authority",
        |site| fs::write(site.path("authorities/deadbeef.0"), "nothing").unwrap(),
        &[(Warning, "authority_file_broken", Some(19))],
    ),
    (
        "an expired authority",
        |site| {
            let mut old = authority("Old");
            old.not_after = OffsetDateTime::now_utc() - Duration::hours(1);
            let old = old.self_signed(&KeyPair::generate().unwrap()).unwrap();
            fs::write(site.path("authorities/deadbeef.0"), old.pem()).unwrap();
        },
        &[(Warning, "authority_expired", Some(19))],
    ),
    (
        "an old list of revoked certificates",
        |site| write_list(site, OffsetDateTime::now_utc() - Duration::hours(1)),
        &[(Warning, "revocation_list_old", Some(19))],
    ),
    (
        "a directory that is not there",
        |site| fs::remove_dir_all(site.path("authorities")).unwrap(),
        &[(Warning, "authority_directory_missing", Some(19))],
    ),
];

fn write_list(site: &Site, end: OffsetDateTime) {
    let list = rcgen::CertificateRevocationListParams {
        this_update: end - Duration::days(2),
        next_update: end,
        crl_number: rcgen::SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let pem = list.signed_by(&site.issuer).unwrap().pem().unwrap();
    fs::write(site.path("authorities/deadbeef.r0"), pem).unwrap();
}

#[test]
fn each_fault_is_found_alone_and_at_its_line() {
    for (what, spoil, expected) in CERTIFICATES
        .iter()
        .chain(&FILES)
        .chain(&RIGHTS)
        .chain(&POLICY)
        .chain(&TRUST)
    {
        let site = Site::new();
        spoil(&site);
        let findings = site.findings();
        assert_eq!(bad(&findings), *expected, "{what}: {findings:#?}");
        for finding in findings.iter().filter(|finding| finding.severity > Note) {
            assert!(finding.change.is_some(), "{what}: no remedy: {finding}");
        }
    }
}

#[test]
fn no_authority_at_all_is_an_error() {
    let site = Site::new();
    fs::remove_file(site.path("authorities/0a1b2c3d.0")).unwrap();
    site.configure(|text| text.replace("ca_files = [\"ca.pem\"]\n", ""));
    let found = bad(&site.findings());
    assert!(found.contains(&(Bad, "no_authorities", Some(17))), "{found:?}");
}

#[test]
fn a_fresh_list_little_room_and_few_descriptors() {
    let mut site = Site::new();
    write_list(&site, OffsetDateTime::now_utc() + Duration::days(1));
    assert_eq!(bad(&site.findings()), []);
    site.environment.free_space = |_| Some((4 << 30, 100 << 30));
    assert_eq!(bad(&site.findings()), [(Warning, "space_low", Some(10))]);
    site.environment.free_space = |_| None;
    site.environment.descriptors_max = Some(1024);
    assert_eq!(bad(&site.findings()), [(Warning, "descriptors_few", None)]);
}

#[test]
fn nothing_can_be_written_to_an_export() {
    // Root can write everywhere except to a read-only file system.
    let read_only = Path::new("/proc/self");
    let site = Site::new();
    site.configure(|text| {
        text.replace(
            "directory = \"data\"",
            &format!("directory = \"{}\"", read_only.display()),
        )
    });
    let found = bad(&site.findings());
    assert!(found.contains(&(Bad, "export_not_writable", Some(10))), "{found:?}");
    site.configure(|text| {
        text.replace(
            "directory = \"data\"",
            &format!("ceiling = [\"read\"]\ndirectory = \"{}\"", read_only.display()),
        )
    });
    let found = bad(&site.findings());
    let is_tried = found.iter().any(|(_, code, _)| *code == "export_not_writable");
    assert!(!is_tried, "no client may write: {found:?}");
}

fn position() -> Position {
    Position {
        file: "c.toml".to_owned(),
        line: Some(3),
        key: "server.name".to_owned(),
    }
}

#[test]
fn dns_answers_are_judged() {
    let known = |name: Option<&str>, is_here| dns::Known {
        address: "192.0.2.1".parse().unwrap(),
        name: name.map(str::to_owned),
        is_here,
    };
    let codes = |known: &[dns::Known]| bad(&dns::judge("se.example.org", known, &position()));
    assert_eq!(codes(&[known(Some("SE.example.org."), true)]), []);
    assert_eq!(codes(&[]), [(Bad, "name_unknown", Some(3))]);
    assert_eq!(codes(&[known(None, true)]), [(Note, "name_not_back", Some(3))]);
    assert_eq!(codes(&[known(Some("other"), true)]), [(Note, "name_not_back", Some(3))]);
    assert_eq!(
        codes(&[known(Some("se.example.org"), false)]),
        [(Note, "name_elsewhere", Some(3))]
    );
}

#[test]
fn clocks_are_compared_in_both_directions() {
    let code = |date_s| clock::judge("peer", 1000, date_s, 1002).code;
    assert_eq!(code(1001), "clock");
    assert_eq!(code(998), "clock");
    assert_eq!(code(990), "clock_differs");
    assert_eq!(code(1010), "clock_differs");
    assert_eq!(code(2000), "clock_wrong");
    assert!(clock::judge("peer", 1000, 10, 1002).says.contains("ahead of"));
}

#[test]
fn another_servers_failure_to_fetch_shows_whether_it_could_connect() {
    let place = Location::parse("https://se.example.org").unwrap();
    let code = |code| ports::judge_from("other", &place, &Error::new(code, Side::Source, Phase::Open)).code;
    assert_eq!(code(ErrorCode::PeerNotFound), "from");
    assert_eq!(code(ErrorCode::PeerDenied), "from");
    assert_eq!(code(ErrorCode::PeerConnectTimeout), "closed_from_elsewhere");
    assert_eq!(code(ErrorCode::PeerTlsFailed), "closed_from_elsewhere");
}

#[test]
fn an_issuer_is_judged_by_its_name_and_its_keys() {
    let keys = |kind: &str| serde_json::json!({"keys": [{"kty": kind, "use": "sig"}]});
    let code = |named: &str, keys: Option<serde_json::Value>| issuers::judge("https://iam/", named, keys.as_ref()).code;
    assert_eq!(code("https://iam/", Some(keys("RSA"))), "issuer");
    assert_eq!(code("https://iam/", Some(keys("EC"))), "issuer");
    assert_eq!(code("https://iam", Some(keys("RSA"))), "issuer_name_differs");
    assert_eq!(code("https://iam/", Some(keys("oct"))), "issuer_without_keys");
    assert_eq!(code("https://iam/", None), "issuer_without_keys");
}
