//! Authorities of clients, local users and delegated credentials.

use super::*;
use Severity::{Error as Bad, Note, Warning};

/// A revocation list that expires after this many days.
fn list(site: &Site, days: i64) -> String {
    let now = OffsetDateTime::now_utc();
    let list = rcgen::CertificateRevocationListParams {
        this_update: now - Duration::days(60),
        next_update: now + Duration::days(days),
        crl_number: rcgen::SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(&site.issuer).unwrap().pem().unwrap()
}

#[test]
fn revocation_lists_of_clients_authorities_are_checked() {
    let site = Site::new();
    fs::create_dir(site.path("clients")).unwrap();
    fs::write(site.path("clients/0.pem"), site.issuer.pem()).unwrap();
    let with = |revocation: &str| {
        let x509 = format!("\n[x509]\ntrust_directory = \"clients\"\nrevocation = \"{revocation}\"\n");
        site.configure(|text| format!("{text}{x509}"));
        bad(&site.findings())
    };
    let line = Some(CONFIGURATION.lines().count() + 3);
    assert_eq!(with("if-present"), []);
    assert_eq!(with("required"), [(Bad, "client_revocation_list_missing", line)]);
    fs::write(site.path("clients/0.r0"), list(&site, -1)).unwrap();
    for demanded in ["if-present", "required"] {
        assert_eq!(with(demanded), [(Bad, "client_revocation_list_old", line)]);
    }
    assert_eq!(with("off"), []);
    fs::write(site.path("clients/0.r0"), list(&site, 1)).unwrap();
    assert_eq!(with("required"), []);
    fs::write(site.path("clients/1.pem"), "no certificate").unwrap();
    assert_eq!(with("required"), [(Warning, "client_authority_broken", line)]);
}

#[test]
fn other_users_must_not_access_delegated_credentials() {
    let site = Site::new();
    fs::create_dir(site.path("clients")).unwrap();
    fs::write(site.path("clients/0.pem"), site.issuer.pem()).unwrap();
    let more =
        "\n[x509]\ntrust_directory = \"clients\"\n[delegation]\ndirectory = \"store\"\nkey_file = \"delegation.key\"\n";
    site.configure(|text| format!("{text}{more}"));
    let lines = CONFIGURATION.lines().count();
    let (store, key) = (Some(lines + 5), Some(lines + 6));
    assert_eq!(
        bad(&site.findings()),
        [
            (Note, "delegations_not_made_yet", store),
            (Note, "secret_not_made_yet", key)
        ]
    );
    fs::create_dir(site.path("store")).unwrap();
    site.mode("store", 0o750);
    site.write_private(
        "delegation.key",
        "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWNyZXQ=\n",
    );
    site.mode("delegation.key", 0o644);
    assert_eq!(
        bad(&site.findings()),
        [
            (Bad, "delegations_open_to_others", store),
            (Bad, "secret_open_to_others", key)
        ]
    );
    site.mode("store", 0o700);
    site.mode("delegation.key", 0o600);
    assert_eq!(bad(&site.findings()), []);
}

/// Without the right to act as other users, nothing is reported.
#[test]
fn local_users_that_do_not_exist_are_found() {
    let site = Site::new();
    fs::write(
        site.path("map"),
        "\"/O=Grid/CN=Ann\" no-such-user-1\n\"/O=Grid/CN=Bob\" root\n\"/O=Grid/CN=Carl\" nobody\n",
    )
    .unwrap();
    let more = "\n[x509]\nsystem_authorities = true\ngrid_map_file = \"map\"\n\
                [[rule]]\nwho = \"dn:/O=Grid/CN=Dora\"\npath = \"/data\"\nmay = \"read\"\nuser = \"no-such-user-2\"\n";
    site.configure(|text| format!("{text}{more}"));
    let lines = CONFIGURATION.lines().count();
    let found = bad(&site.findings());
    if !endpoint::Users::can_switch() {
        assert!(!found.iter().any(|(_, code, _)| *code == "user_unknown"), "{found:?}");
        return;
    }
    let (map, rule) = (Some(lines + 4), Some(lines + 9));
    assert_eq!(
        found,
        [
            (Bad, "user_refused", map),
            (Bad, "user_unknown", map),
            (Bad, "user_unknown", rule)
        ]
    );
}
