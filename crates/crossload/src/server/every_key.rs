//! Tests that each configuration key reloads as it declares. A declared key without a case fails.

mod cases;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use config::section::Reload;
use config::{Changes, Configuration, KeyPath, Sections as _};
use credentials::Macaroon;
use identity::delegation::Delegations;

use self::cases::{CASES, Case, EXPORT, NO_TRUST};
use super::assemble::Assembly;
use super::doors::need_new_one;
use super::events::Observer;
use super::log::Log;
use super::subsystem::{self, Change};

/// The files that the cases name.
fn site() -> tempfile::TempDir {
    let site = tempfile::tempdir().unwrap();
    let path = |name: &str| site.path().join(name);
    let write = |name: &str, text: &str| {
        fs::write(path(name), text).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o600)).unwrap();
    };
    for directory in ["data", "data2", "trust", "vomsdir", "state"] {
        fs::create_dir(path(directory)).unwrap();
    }
    for name in ["host", "other"] {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec![format!("{name}.example")]).unwrap();
        write(&format!("{name}.pem"), &parameters.self_signed(&key).unwrap().pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    }
    write("s1", "Zmlyc3Qtc2VjcmV0LWZpcnN0LXNlY3JldC1maXJzdC1zZWNyZXQtMQ==");
    write("s2", "c2Vjb25kLXNlY3JldC1zZWNvbmQtc2VjcmV0LXNlY29uZC1zZWNyZXQ=");
    write("authdb", "u jane /data rl\n");
    write("scitokens", "[Issuer X]\nissuer = https://x.invalid\nbase_path = /\n");
    write("names", "[{\"sub\": \"a\", \"result\": \"jane\"}]");
    let key = rcgen::KeyPair::generate().unwrap();
    let (x, y) = key.public_key_raw()[1..].split_at(32);
    let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
    let key = serde_json::json!({"kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "x": x, "y": y});
    write("jwks", &serde_json::json!({"keys": [key]}).to_string());
    write("map", "");
    site
}

fn text(case: &Case, value: &str) -> String {
    let (name, lines, _, _, others) = case;
    let (section, key) = name.split_once('.').unwrap();
    let repeated = Configuration::SECTIONS
        .iter()
        .any(|known| known.name == section && known.repeated);
    let heading = if repeated {
        format!("[[{section}]]")
    } else {
        format!("[{section}]")
    };
    let export = if section == "export" { "" } else { EXPORT };
    let trust = if section == "trust" { "" } else { NO_TRUST };
    let value = if value.is_empty() {
        String::new()
    } else {
        format!("{key} = {value}\n")
    };
    format!("{export}{trust}{others}{heading}\n{lines}\n{value}")
}

/// The state that existing connections use.
fn live(assembly: &Assembly, configuration: &Configuration) -> String {
    let tls = assembly.certificate.tls.get();
    let shown = tls.as_ref().and_then(|tls| tls.identity());
    let (ground, exported) = (&assembly.ground, &assembly.exported);
    let keys = ground.authenticator.issuers().at_hand("https://iam.invalid").is_some();
    format!(
        "{tls:?} {:?} {:?} {:?} {:?} {:?} {:?} {keys} {:?} {:?} {:?} {:?} {} {} {}",
        shown.map(|identity| identity.chain().to_vec()),
        exported.opened_with(),
        exported.redirected_to(),
        exported.exports.current(),
        assembly.trust_files.followed(),
        ground.authenticator,
        ground.fair_share,
        ground.observer.wanted(),
        configuration.server.grace_time,
        assembly.cms.wanted(),
        assembly.node.wanted(),
        assembly.space_report.wanted(),
        assembly.pages.wanted(),
    )
}

/// The state that new connections use: everything that a door holds.
fn door(assembly: &Assembly, configuration: &Configuration) -> (String, Option<Delegations>) {
    let site = assembly.site(configuration);
    let http = assembly.http_settings(configuration, &site);
    let macaroon = http.macaroons.as_ref().map(|settings| {
        Macaroon::mint(&settings.key, "", "id", [])
            .unwrap()
            .to_text()
            .expose()
            .to_owned()
    });
    let hand_over = http.hand_over.as_ref().map(|hand_over| hand_over.settings().clone());
    let sealed = hand_over
        .as_ref()
        .and_then(|settings| settings.key.seal(b"test", [0; 16], b"", b""));
    let shown = format!(
        "{:?} {:?} {:?} {:?} {:?} {hand_over:?} {sealed:?} {macaroon:?} {:?} {:?} {:?} {:?} {:?}",
        site.client,
        site.forward_to,
        site.copies,
        site.limits,
        site.keep,
        http.delegations,
        http.pass_token_to,
        http.macaroons,
        http.limits,
        http.authorities,
    );
    let xroot = assembly.xroot_settings(configuration, &site).map(|xroot| {
        let third = xroot.third_party;
        let shown = format!(
            "{:?} {:?} {:?} {:?}",
            xroot.tls_policy, xroot.authentication, xroot.limits, xroot.host
        );
        format!("{shown} {:?} {:?}", third.key_lifetime, third.key_lifetime_max)
    });
    (format!("{shown} {xroot:?}"), http.delegations)
}

/// Reloads; returns whether a new door is needed.
fn reload(assembly: &Assembly, old: &Configuration, fresh: &Configuration) -> bool {
    let keys = &Changes::new(old, fresh, &[]);
    let change = Change { old, fresh, keys };
    subsystem::renew(assembly.parts(), &change).unwrap();
    need_new_one(&change)
}

/// Changes a key in a server, and compares the effect with the key's declaration.
fn change(site: &Path, case: &Case) {
    let (name, _, before, after, _) = case;
    let parse = |value: &str| Configuration::parse(&text(case, value), site, name).unwrap();
    let (old, mut fresh) = (parse(before), parse(after));
    let log = Log::to_file(&site.join("log"));
    let observer = Arc::new(Observer::new(log.clone(), Arc::default(), &old.log));
    let assembly = Assembly::new(&old, Vec::new(), &log, observer).unwrap();
    let (live_before, (door_before, delegations)) = (live(&assembly, &old), door(&assembly, &old));
    reload(&assembly, &old, &old);
    assert_eq!(live(&assembly, &old), live_before, "{name}: nothing changed");
    let keys = Changes::new(&old, &fresh, &[]);
    let changed = fresh.changed(&old);
    let place = changed.iter().find(|place| place.name() == *name).expect(name);
    fresh.keep_fixed(&old);
    let new_door = reload(&assembly, &old, &fresh);
    let is_live = live(&assembly, &fresh) != live_before;
    let (door_after, delegations_after) = door(&assembly, &fresh);
    let same = match (&delegations, &delegations_after) {
        (Some(before), Some(after)) => before.is_same(after),
        (before, after) => before.is_some() == after.is_some(),
    };
    let in_door = new_door && (door_after != door_before || !same);
    let ignored: Vec<String> = keys.ignored().map(KeyPath::name).collect();
    match place.key.facts.reload {
        Reload::Live => assert!(is_live && ignored.is_empty(), "{name} changes nothing"),
        Reload::NewDoor => assert!(in_door && ignored.is_empty(), "{name} changes no door"),
        Reload::Restart => assert!(!is_live && !new_door && ignored == [*name], "{name}: {ignored:?}"),
    }
}

#[test]
fn each_key_changes_what_it_says_it_does() {
    let declared: BTreeSet<String> = Configuration::SECTIONS
        .iter()
        .flat_map(|section| section.keys.iter().map(|key| format!("{}.{}", section.name, key.name)))
        .collect();
    let tried: BTreeSet<String> = CASES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(declared, tried, "each key has its case");
    let site = site();
    let runtime = execution::single_thread_runtime().unwrap();
    // A redirector looks after its nodes from the start.
    let _entered = runtime.enter();
    for case in CASES {
        // The kernel decides whether this process may act as other users.
        if !case.0.starts_with("users.") || endpoint::Users::can_switch() {
            change(site.path(), case);
        }
    }
}
