//! The configuration as users see it: what is accepted, what is refused, and the messages.

use std::path::Path;

use crate::manual::{docs, example};
use crate::*;
use std::time::Duration;

fn parse(text: &str) -> Result<Configuration, Vec<String>> {
    Configuration::parse(text, Path::new("/etc/crossload"), "c.toml").map_err(|faults| faults.0)
}

#[test]
fn the_example_is_accepted_and_equals_the_defaults() {
    let example = parse(&example()).expect("the example is valid");
    let defaults = Configuration::defaults();
    assert_eq!(example.limits, defaults.limits);
    assert_eq!(example.server, defaults.server);
    assert_eq!(example.tpc, defaults.tpc);
    assert_eq!(example.exports.len(), 1);
}

#[test]
fn every_key_is_in_the_manual_with_words_of_its_own() {
    let docs = docs();
    for section in Configuration::SECTIONS {
        assert!(docs.contains(&format!("[{}]", section.name)), "{}", section.name);
        for key in section.keys {
            assert!(docs.contains(&format!("| `{}` |", key.name)), "{}", key.name);
            assert!(
                key.about.trim().ends_with('.'),
                "{} is described in sentences",
                key.name
            );
        }
    }
}

#[test]
fn values_are_read_and_file_names_are_relative_to_the_file() {
    let text = r#"
        [server]
        listen = ["[::]:443", "127.0.0.1:0"]
        certificate = "host.pem"
        key = "/keys/host.key"
        [[export]]
        path = "/data"
        directory = "data"
        anonymous = "write"
        quota_bytes = "10GiB"
        [[export]]
        path = "/pub/"
        directory = "/srv/pub"
        [limits]
        head_timeout = "5s"
        connections = 10
    "#;
    let configuration = parse(text).unwrap();
    assert_eq!(configuration.server.listen.len(), 2);
    assert_eq!(
        configuration.server.certificate.as_deref(),
        Some(Path::new("/etc/crossload/host.pem"))
    );
    assert_eq!(configuration.server.key.as_deref(), Some(Path::new("/keys/host.key")));
    assert_eq!(configuration.exports[0].quota_bytes, Bytes(10 << 30));
    assert_eq!(
        configuration.exports[0].directory.as_deref(),
        Some(Path::new("/etc/crossload/data"))
    );
    assert_eq!(configuration.exports[1].path.as_str(), "/pub");
    assert_eq!(configuration.limits.head_timeout, Duration::from_secs(5));
    assert_eq!(configuration.limits.connections, 10);
    assert_eq!(configuration.limits.idle_timeout, types::limits::IDLE_TIMEOUT);
}

#[test]
fn unknown_names_are_refused_with_line_and_suggestion() {
    let faults =
        parse("[server]\nlistne = []\n[tcp]\n[[export]]\ndirectory = \"/d\"\nanonymus = \"read\"\n").unwrap_err();
    assert_eq!(
        faults,
        [
            "c.toml:2: unknown key \"listne\" in [server]; did you mean \"listen\"?",
            "c.toml:3: unknown section \"tcp\"; did you mean \"tpc\"?",
            "c.toml:6: unknown key \"anonymus\" in [export]; did you mean \"anonymous\"?",
        ]
    );
    let faults = parse("head_timeout = \"1s\"\n[server]\nverify = \"never\"\n").unwrap_err();
    assert!(faults[0].contains("belongs in the section [limits]"), "{faults:?}");
    assert!(faults[1].contains("it belongs in [tpc]"), "{faults:?}");
}

#[test]
fn bad_values_are_refused_with_line_and_reason() {
    let cases = [
        (
            "[limits]\n\nhead_timeout = 30\n",
            "c.toml:3: head_timeout: expected a duration",
        ),
        (
            "[limits]\nhead_bytes = \"much\"\n",
            "c.toml:2: head_bytes: \"much\" is not a size",
        ),
        (
            "[limits]\nconnections = -1\n",
            "c.toml:2: connections: -1 is out of range",
        ),
        (
            "[limits]\nconnections = 0\n",
            "c.toml:1: connections: must be at least 1",
        ),
        (
            "[server]\nlisten = [\"here\"]\n",
            "c.toml:2: listen: \"here\" is not an address",
        ),
        (
            "[server]\ncertificate = \"x\"\n",
            "c.toml:1: \"certificate\" and \"key\" must be set together",
        ),
        ("[xroot]\ntls = \"maybe\"\n", "c.toml:2: tls: \"maybe\" is not one of"),
        (
            "[xroot]\nauthentication = [\"token\"]\n",
            "c.toml:1: authentication: \"token\" needs TLS",
        ),
        (
            "[[export]]\npath = \"/a\"\n",
            "c.toml:1: /a: give one of directory, remote, remote_hosts and s3",
        ),
        (
            "[[export]]\ndirectory = \"d\"\nanonymous = \"all\"\n",
            "c.toml:3: anonymous: \"all\" is not one of",
        ),
        (
            "[[export]]\ndirectory = \"d\"\npath = \"/a/../b\"\n",
            "c.toml:3: path: \"/a/../b\" cannot be used",
        ),
        (
            "[tpc]\nverify = \"maybe\"\n",
            "c.toml:2: verify: \"maybe\" is not one of",
        ),
        ("[tpc]\nverify = \n", "c.toml:2: "),
        ("tpc = 3\n", "c.toml:1: \"tpc\" is a section"),
        (
            "[[export]]\ndirectory = \"d\"\n[[export]]\ndirectory = \"e\"\n",
            "c.toml:3: the path / is exported twice",
        ),
        // In their own section, at the key that the sentence names first.
        (
            "[[export]]\ndirectory = \"d\"\n[[export]]\npath = \"/b\"\nremote = \"https://a?x=1\"\n",
            "c.toml:5: /b: remote: no query",
        ),
        (
            "[[export]]\ndirectory = \"d\"\ncache_directory = \"c\"\ncache_size_bytes = \"1MiB\"\n",
            "c.toml:4: cache_size_bytes: the cache",
        ),
        (
            "[[export]]\ndirectory = \"d\"\ncache_size_bytes = \"100GiB\"\n",
            "c.toml:3: /: cache_size_bytes belongs to cache_directory, which is missing",
        ),
    ];
    for (text, expected) in cases {
        let faults = parse(text).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{text}\n{faults:?}"
        );
    }
}

#[test]
fn several_faults_are_reported_at_once() {
    let faults = parse("[limits]\nattempts = 0\nstreams = 0\nhead_timeout = \"x\"\n").unwrap_err();
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn tokens_are_offered_first_where_tls_and_issuers_exist() {
    use crate::AuthenticationMethod::{Gsi, Token, Unix};
    let tls = "[server]\ncertificate = \"c\"\nkey = \"k\"\n";
    let (issuer, macaroons) = (
        "[[issuer]]\nurl = \"https://iam\"\n",
        "[macaroons]\nsecret_file = \"s\"\n",
    );
    let scitokens = "[tokens]\nscitokens_file = \"s\"\n";
    let trust = "[x509]\ntrust_directory = \"t\"\n";
    let none = "[xroot]\ntls = \"none\"\n";
    let ways = |parts: &[&str]| {
        let text = parts.concat();
        Configuration::parse(&text, Path::new(""), "c.toml")
            .unwrap()
            .authentication()
    };
    for source in [issuer, macaroons, scitokens] {
        assert_eq!(ways(&[tls, source]), [Token, Unix], "{source}");
        assert_eq!(ways(&[tls, source, trust]), [Token, Gsi, Unix], "{source}");
        assert_eq!(ways(&[source]), [], "no TLS, no token");
        assert_eq!(ways(&[tls, source, none]), [], "no TLS, no token");
        assert_eq!(ways(&[tls, source, trust, none]), [Gsi, Unix], "no TLS, no token");
    }
    assert_eq!(ways(&[tls]), []);
    assert_eq!(ways(&[tls, trust]), [Gsi, Unix]);
    assert_eq!(ways(&[tls, issuer, "[xroot]\nauthentication = [\"ztn\"]\n"]), [Token]);
    assert_eq!(ways(&[tls, issuer, "[xroot]\nauthentication = []\n"]), []);
}

#[test]
fn tokens_in_clear_text_are_for_loopback_where_there_is_a_certificate() {
    use crate::ClearText::{Always, Loopback, Never};
    let tls = "[server]\ncertificate = \"c\"\nkey = \"k\"\n";
    let clear = |text: &str| {
        Configuration::parse(text, Path::new(""), "c.toml")
            .unwrap()
            .clear_text()
    };
    assert_eq!(clear(""), Always);
    assert_eq!(clear(tls), Loopback);
    assert_eq!(clear(&format!("{tls}clear_text_tokens = \"always\"\n")), Always);
    assert_eq!(clear("[server]\nclear_text_tokens = \"never\"\n"), Never);
}
