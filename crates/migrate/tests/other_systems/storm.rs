//! StoRM WebDAV.

use std::path::Path;
use std::time::Duration;

use config::{Counts, Switch, Verification};
use credentials::Credential;
use migrate::{DocumentKind, InMemory, Outcome, System};

use crate::{Site, all_remarks, certificate, reading_token, site, site_of, token};

fn storm(files: &[&str]) -> Site {
    site(System::Storm, DocumentKind::Endpoint, files)
}

#[test]
fn areas_keep_their_directories_and_members() {
    let site = storm(&["storm-vo", "storm-vo/storm-webdav.env"]);
    let configuration = &site.configuration;
    let exports: Vec<_> = configuration
        .exports
        .iter()
        .map(|export| (export.path.as_str(), export.directory.as_deref()))
        .collect();
    let lab = Some(Path::new("/storage/lab"));
    assert_eq!(
        exports,
        [
            ("/lab", lab),
            ("/lab-alias", lab),
            ("/open", Some(Path::new("/storage/open")))
        ]
    );
    let listen: Vec<String> = configuration.server.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["0.0.0.0:443", "0.0.0.0:8085"]);
    assert_eq!(
        configuration.server.name.as_deref(),
        Some("https://dav.lab.example:443")
    );
    assert_eq!(
        (configuration.limits.transfers, configuration.tpc.verify),
        (200, Verification::Required)
    );
    assert_eq!(configuration.users.switch, Switch::Never);
    assert!(!configuration.xroot.enabled && configuration.macaroons.secret_file.is_some());
    let member = certificate("/CN=m", &["/lab.example"], None);
    assert!(
        site.writes(&member, "/lab/f") && site.deletes(&member, "/lab-alias/f") && !site.writes(&member, "/open/f")
    );
    let mapped = certificate("/DC=org/DC=example/CN=Second Person", &[], None);
    assert!(site.reads(&mapped, "/lab/f") && !site.writes(&mapped, "/lab/f"));
    // authenticatedReadEnabled, without any issuer.
    let stranger = certificate("/CN=x", &["/other"], None);
    assert!(site.reads(&stranger, "/lab/f") && !site.writes(&stranger, "/lab/f"));
    let anonymous = Credential::Anonymous;
    assert!(
        site.reads(&anonymous, "/open/f") && !site.writes(&anonymous, "/open/f") && !site.reads(&anonymous, "/lab/f")
    );
    assert_eq!(site.remark("orgsGrantReadPermissions").0, Outcome::Unknown);
    assert_eq!(site.remark("tapeEnabled").0, Outcome::NoEquivalent);
    assert!(
        site.remark("rootPath=storage/broken")
            .1
            .contains("no absolute directory")
    );
    assert!(!all_remarks(&site.migration).contains("areasonablesecret") && !site.text.contains("areasonablesecret"));
}

#[test]
fn scopes_count_in_the_areas_that_take_them() {
    let site = storm(&["storm-tokens", "storm-tokens/storm-webdav.conf"]);
    let configuration = &site.configuration;
    let listen: Vec<String> = configuration.server.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["192.0.2.9:8443", "192.0.2.9:8086"]);
    let issuers: Vec<_> = configuration.issuers.iter().map(|issuer| &*issuer.url).collect();
    assert_eq!(issuers, ["https://exp-auth.example/", "https://iam.second.example/"]);
    assert_eq!(configuration.issuers[0].base_paths[0].as_str(), "/disk/exp");
    assert!(!configuration.issuers[1].strategy.contains(&Counts::Capability));
    assert_eq!(configuration.tokens.audiences[0], "https://dav.exp.example");
    let (exp, second) = (
        token("https://exp-auth.example/", "s", &[]),
        token("https://iam.second.example/", "s", &[]),
    );
    assert!(!site.reads(&exp, "/disk/exp/f"), "only scopes give rights there");
    assert!(
        site.writes(&exp, "/user/exp/f") && site.writes(&second, "/user/exp/f") && !site.reads(&second, "/disk/exp/f")
    );
    assert!(!site.reads(&reading_token("https://exp-auth.example/", "/disk/exp"), "/user/exp/f"));
    assert!(
        !site.reads(&certificate("/CN=x", &[], None), "/user/exp/f"),
        "no rule for certificates alone"
    );
    for (text, outcome) in [
        ("does not trust the issuer https://unlisted.example/", Outcome::InPart),
        ("https://spare.example/", Outcome::NotNeeded),
        ("all certificates without all tokens", Outcome::InPart),
        ("storm.scitags.enabled", Outcome::NoEquivalent),
        ("certificates of clients are asked for", Outcome::InPart),
        ("client-secret (value not shown)", Outcome::NotNeeded),
    ] {
        assert_eq!(site.remark(text).0, outcome, "{text}");
    }
    assert!(!all_remarks(&site.migration).contains("keep-this-out"));
}

#[test]
fn policies_become_rules_that_give_no_more() {
    let site = storm(&["storm-policies"]);
    let admins = [
        token("https://iam.example/", "a", &["/example/admins"]),
        certificate("/CN=v", &["/example/admins"], None),
        certificate("/DC=org/DC=example/CN=Admin", &[], None),
    ];
    for admin in &admins {
        assert!(
            site.writes(admin, "/fga/x") && site.deletes(admin, "/fga/x") && site.reads(admin, "/fga/x"),
            "{}",
            site.text
        );
    }
    let anonymous = Credential::Anonymous;
    assert!(site.reads(&anonymous, "/fga/public/f") && site.lists(&anonymous, "/fga/public"));
    assert!(!site.reads(&anonymous, "/fga/f") && !site.writes(&anonymous, "/fga/public/f"));
    let writer = token("https://iam.example/", "writer-1", &[]);
    assert!(!site.deletes(&writer, "/fga/inbox/f") && !site.reads(&writer, "/fga/inbox/f"));
    // The denial behind all permissions takes from everyone with a credential.
    let other = token("https://iam.example/", "o", &[]);
    assert!(!site.reads(&other, "/fga/f"));
    let member = certificate("/CN=m", &["/club"], None);
    assert!(site.writes(&member, "/closed/f") && !site.reads(&anonymous, "/closed/f"));
    for (text, outcome) in [
        ("/*.txt is a pattern", Outcome::InPart),
        ("nothing is left to deny", Outcome::NotNeeded),
        ("jwt-scope", Outcome::NoEquivalent),
        (
            "One writer, without deleting (permit): taken over in part: rules; a denial",
            Outcome::InPart,
        ),
        ("no area \"elsewhere\"", Outcome::NotNeeded),
    ] {
        assert_eq!(site.remark(text).0, outcome, "{text}");
    }
}

#[test]
fn rights_in_an_area_end_where_another_one_begins() {
    let outer = "name=out\nrootPath=/out\naccessPoints=/\nvos=x\norgs=https://i.example/\nwlcgScopeAuthzEnabled=true\n";
    let inner = "name=in\nrootPath=/in\naccessPoints=/in\nvos=y\n";
    let issuers = "oauth:\n  issuers:\n  - issuer: https://i.example/\n";
    let files = InMemory::default()
        .with("/s/out.properties", outer)
        .with("/s/in.properties", inner)
        .with("/s/application.yml", issuers);
    let names = ["/s/out.properties", "/s/in.properties", "/s/application.yml"];
    let site = site_of(System::Storm, DocumentKind::Endpoint, &files, &names);
    let (x, y) = (certificate("/CN=x", &["/x"], None), certificate("/CN=y", &["/y"], None));
    assert!(site.writes(&x, "/f") && !site.reads(&x, "/in/f"), "{}", site.text);
    assert!(site.writes(&y, "/in/f") && !site.reads(&y, "/f"), "{}", site.text);
    assert!(!site.reads(&token("https://i.example/", "s", &[]), "/in/f"));
    assert!(
        !site.configuration.issuers[0].strategy.contains(&Counts::Capability),
        "scopes would reach /in"
    );
    assert_eq!(site.remark("another area is within it").0, Outcome::InPart);
}

#[test]
fn a_denial_that_no_rule_can_say_is_one_for_all() {
    let area = "name=a\nrootPath=/a\naccessPoints=/a\nvos=x\nfineGrainedAuthzEnabled=true\n";
    let policy = "storm:\n  voMapFiles: {enabled: true}\n  authz:\n    policies:\n    - sa: a\n      actions: [delete]\n      \
        effect: deny\n      principals:\n      - type: vo-map\n        params: {vo: gone}\n";
    let files = InMemory::default()
        .with("/s/a.properties", area)
        .with("/s/application.yml", policy);
    let site = site_of(
        System::Storm,
        DocumentKind::Endpoint,
        &files,
        &["/s/a.properties", "/s/application.yml"],
    );
    let member = certificate("/CN=m", &["/x"], None);
    assert!(
        site.reads(&member, "/a/f") && !site.deletes(&member, "/a/f"),
        "{}",
        site.text
    );
}

#[test]
fn a_denial_for_anonymous_clients_is_never_lost() {
    let area = "name=a\nrootPath=/a\naccessPoints=/a\nanonymousReadEnabled=true\nfineGrainedAuthzEnabled=true\n";
    let policy = |effect: &str, kind: &str| {
        format!("    - sa: a\n      actions: [all]\n      effect: {effect}\n      principals:\n      - type: {kind}\n")
    };
    let all = format!(
        "storm:\n  authz:\n    policies:\n{}{}",
        policy("deny", "anonymous"),
        policy("permit", "anyone")
    );
    let files = InMemory::default()
        .with("/s/a.properties", area)
        .with("/s/application.yml", &all);
    let names = ["/s/a.properties", "/s/application.yml"];
    let site = site_of(System::Storm, DocumentKind::Endpoint, &files, &names);
    assert!(!site.reads(&Credential::Anonymous, "/a/f"), "{}", site.text);
    assert!(site.writes(&certificate("/CN=x", &[], None), "/a/f"), "{}", site.text);
    assert_eq!(site.configuration.limits.marker_period, Duration::from_secs(5));
}
