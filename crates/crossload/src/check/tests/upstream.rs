//! Exports whose files other servers have, and caches.

use super::*;
use Severity::{Error as Bad, Warning};

/// The line of the first key of the export that a test configures.
const FIRST: usize = 10;

/// What is wrong with an export that has these lines instead of its directory.
fn wrong(lines: &str, sections: &str) -> Vec<(Severity, &'static str, Option<usize>)> {
    let site = Site::new();
    site.configure(|text| format!("{}{sections}", text.replace("directory = \"data\"", lines)));
    let mut found = bad(&site.findings());
    found.retain(|(severity, ..)| *severity >= Warning);
    found
}

#[test]
fn a_credential_that_is_missing_is_told_once_at_its_own_key() {
    for (lines, behind) in [
        ("remote = \"https://a/d\"\nremote_token_file = \"none\"", 1),
        ("remote = \"https://a/d\"\nremote_certificate = \"none.pem\"", 1),
        (
            "remote = \"https://a/d\"\nremote_certificate = \"host.pem\"\nremote_key = \"none.key\"",
            2,
        ),
        (
            "remote = \"https://a/d\"\nremote_identity = \"minted\"\nremote_macaroon_secret_file = \"none/s\"",
            2,
        ),
        (
            "s3 = \"https://a/b\"\ns3_access_key_id = \"k\"\ns3_secret_key_file = \"none\"",
            2,
        ),
    ] {
        assert_eq!(
            wrong(lines, ""),
            [(Bad, "secret_missing", Some(FIRST + behind))],
            "{lines}"
        );
    }
    let empty = "s3 = \"https://a/b\"\ns3_access_key_id = \"k\"\ns3_secret_key_file = \"/dev/null\"";
    assert_eq!(wrong(empty, ""), [(Bad, "upstream_unusable", Some(FIRST + 2))]);
}

#[test]
fn clear_text_is_for_one_machine() {
    let s3 = "s3_access_key_id = \"k\"\ns3_secret_key_file = \"macaroon.secret\"\ns3";
    for (lines, line) in [
        (format!("{s3} = \"http://s3.example.org/b\""), FIRST + 2),
        ("remote = \"http://10.0.0.1/d\"".to_owned(), FIRST),
    ] {
        assert_eq!(
            wrong(&lines, ""),
            [(Warning, "upstream_clear_text", Some(line))],
            "{lines}"
        );
    }
    for lines in [
        format!("{s3} = \"http://localhost:9000/b\""),
        "remote = \"http://127.0.0.1/d\"".to_owned(),
        "remote = \"http://[::1]:8080/d\"".to_owned(),
        "remote = \"https://disk.example.org/d\"".to_owned(),
        // Sites use it inside, with gsi.
        "remote = \"root://disk.example.org//d\"".to_owned(),
    ] {
        assert_eq!(wrong(&lines, ""), [], "{lines}");
    }
}

#[test]
fn an_identity_that_no_client_can_have_is_told() {
    let remote = |identity| format!("remote = \"https://a/d\"\nremote_identity = \"{identity}\"");
    let delegation = "[delegation]\ndirectory = \"store\"\nkey_file = \"delegation.key\"\n";
    let void = [(Warning, "upstream_identity_void", Some(FIRST + 1))];
    assert_eq!(wrong(&remote("client"), ""), void);
    assert_eq!(wrong(&remote("delegated"), delegation), void);
    let issuer = "[[issuer]]\nurl = \"https://issuer.example.org\"\nbase_paths = [\"/\"]\nvo = \"wlcg\"\n";
    let found = wrong(&remote("client"), issuer);
    assert!(!found.contains(&void[0]), "{found:?}");
}

#[test]
fn a_server_is_not_behind_itself() {
    for (url, is_itself) in [
        ("https://se.example.org/d", true),
        ("roots://localhost:443//d", true),
        ("https://disk.example.org/d", false),
    ] {
        let found = wrong(&format!("remote = \"{url}\""), "");
        let itself = [(Bad, "upstream_is_itself", Some(FIRST))];
        assert_eq!(found == itself, is_itself, "{url}: {found:?}");
    }
}

#[test]
fn a_cache_has_a_directory_and_a_disk_that_is_large_enough() {
    let cached = |cache: &str| wrong(&format!("directory = \"data\"\ncache_directory = {cache}"), "");
    assert_eq!(cached("\"made/by/the/server\""), []);
    assert_eq!(cached("\"host.pem/cache\""), [(Bad, "cache_unusable", Some(FIRST + 1))]);
    let large = "\"cache\"\ncache_size_bytes = \"101GiB\"";
    assert_eq!(cached(large), [(Warning, "cache_too_large", Some(FIRST + 2))]);
}
