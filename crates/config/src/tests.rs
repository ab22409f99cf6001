//! The configuration as users see it: what is accepted, what is refused, and the messages.

use std::path::Path;

use crate::manual::{docs, example};
use crate::*;
use std::time::Duration;

fn parse(text: &str) -> Result<Configuration, Vec<String>> {
    Configuration::parse(text, Path::new("/etc/crossload"), "c.toml")
        .map_err(|faults| faults.0.iter().map(Mistake::to_string).collect())
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
            "c.toml:2: connections: must be at least 1",
        ),
        (
            "[server]\nlisten = [\"here\"]\n",
            "c.toml:2: listen: \"here\" is not an address",
        ),
        (
            "[server]\ncertificate = \"x\"\n",
            "c.toml:2: certificate: its private key is missing",
        ),
        ("[xroot]\ntls = \"maybe\"\n", "c.toml:2: tls: \"maybe\" is not one of"),
        (
            "[xroot]\nauthentication = [\"token\"]\n",
            "c.toml:2: authentication: \"token\" needs TLS",
        ),
        (
            "[[export]]\npath = \"/a\"\n",
            "c.toml:1: directory: the export has no files; give one of",
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
            "c.toml:3: path: / is exported twice",
        ),
        // In their own section, at their key.
        (
            "[[export]]\ndirectory = \"d\"\n[[export]]\npath = \"/b\"\nremote = \"https://a?x=1\"\n",
            "c.toml:5: remote: it has a query",
        ),
        (
            "[[export]]\ndirectory = \"d\"\ncache_directory = \"c\"\ncache_size_bytes = \"1MiB\"\n",
            "c.toml:4: cache_size_bytes: the cache",
        ),
        (
            "[[export]]\ndirectory = \"d\"\ncache_size_bytes = \"100GiB\"\n",
            "c.toml:3: cache_size_bytes: belongs to cache_directory, which is missing",
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

/// Mistakes of every kind, the key of each, and its line.
const MISTAKES: [(&str, &str, usize); 70] = [
    ("[server]\n\nlisten = []\n", "server.listen", 3),
    ("[server]\ngrace_time = \"1s\"\nkey = \"k\"\n", "server.key", 3),
    (
        "[limits]\nattempts = 3\nheader_count = 100000\n",
        "limits.header_count",
        3,
    ),
    (
        "[macaroons]\nmaximum_lifetime = \"1m\"\ndefault_lifetime = \"1h\"\n",
        "macaroons.default_lifetime",
        3,
    ),
    ("[xroot]\nenabled = true\nhandles = 0\n", "xroot.handles", 3),
    (
        "[xroot]\nenabled = true\nauthentication = [\"gsi\"]\n",
        "xroot.authentication",
        3,
    ),
    (
        "[tpc]\nkey_lifetime_max = \"1s\"\nkey_lifetime = \"2s\"\n",
        "tpc.key_lifetime",
        3,
    ),
    ("[tpc]\nverify = \"never\"\nforward_to = [\"x\"]\n", "tpc.forward_to", 3),
    ("[hand_over]\n\ntarget = \"http://a:1\"\n", "hand_over.target", 3),
    ("[hand_over]\n\nlifetime = \"99h\"\n", "hand_over.lifetime", 3),
    ("[delegation]\n\ndirectory = \"d\"\n", "delegation.directory", 3),
    ("[delegation]\n\nkey_file = \"d\"\n", "delegation.key_file", 3),
    ("[queue]\nretries = 1\nlisten = []\n", "queue.listen", 3),
    (
        "[queue]\nretries = 1\nlink_copies_minimum = 0\n",
        "queue.link_copies_minimum",
        3,
    ),
    ("[queue]\nretries = 1\nlease = \"1s\"\n", "queue.lease", 3),
    ("[log]\nfile = \"l\"\nformat = \"journald\"\n", "log.format", 3),
    (
        "[messages]\npersistent = true\nlisten = [\"127.0.0.1:1\"]\n",
        "messages.listen",
        3,
    ),
    (
        "[messages]\npersistent = true\nbrokers = [\"b\"]\n",
        "messages.brokers",
        3,
    ),
    (
        "[messages]\npersistent = true\nbroker_key = \"k\"\n",
        "messages.broker_key",
        3,
    ),
    ("[cms]\n\nmanagers = [\"h\"]\n", "cms.managers", 3),
    (
        "[cluster]\nsite = \"s\"\ndrain_grace = \"2h\"\n",
        "cluster.drain_grace",
        3,
    ),
    (
        "[cluster]\nsite = \"s\"\noperators = [\"subject:r\"]\n",
        "cluster.operators",
        3,
    ),
    ("[bus]\nfilter_bytes = 1\nprefix = \"a..b\"\n", "bus.prefix", 3),
    ("[bus]\nfilter_bytes = 1\nuser = \"u\"\n", "bus.user", 3),
    (
        "[bus]\nfilter_bytes = 1\npassword_file = \"u\"\n",
        "bus.password_file",
        3,
    ),
    ("[bus]\nfilter_bytes = 1\ncertificate = \"u\"\n", "bus.certificate", 3),
    (
        "[bus]\nnkey_file = \"n\"\ncredentials_file = \"c\"\n",
        "bus.credentials_file",
        3,
    ),
    (
        "[bus]\nservers = [\"nats://b\"]\n[[export]]\ndirectory = \"d\"\n",
        "bus.name",
        1,
    ),
    ("[x509]\n\nrefresh = \"0s\"\n", "x509.refresh", 3),
    (
        "[x509]\n\nclient_certificates = \"optional\"\n",
        "x509.client_certificates",
        3,
    ),
    ("[tokens]\n\nkey_refresh = \"1s\"\n", "tokens.key_refresh", 3),
    (
        "[tokens]\nkey_refresh = \"9h\"\nkey_expiry = \"8h\"\n",
        "tokens.key_expiry",
        3,
    ),
    (
        "[redirector]\nread_only = true\ncapabilities = true\n",
        "redirector.capabilities",
        3,
    ),
    (
        "[redirector]\nread_only = true\nlocation_bytes = 1\n",
        "redirector.location_bytes",
        3,
    ),
    (
        "[[node]]\nurl = \"https://a\"\n[[node]]\nurl = \"https://a\"\n",
        "node.url",
        4,
    ),
    (
        "[[node]]\nurl = \"https://a\"\n[[node]]\nurl = \"https://b\"\nweight = 0\n",
        "node.weight",
        5,
    ),
    (
        "[[node]]\nurl = \"https://a\"\n[[node]]\nurl = \"https://b\"\nhttp_url = \"root://b\"\n",
        "node.http_url",
        5,
    ),
    (
        "[[node]]\nurl = \"https://a\"\nbus = false\nbus_name = \"a\"\n",
        "node.bus_name",
        4,
    ),
    ("[[node]]\nurl = \"https://a\"\nexports = []\n", "node.exports", 3),
    (
        "[[issuer]]\nurl = \"https://a\"\n[[issuer]]\nurl = \"http://b\"\n",
        "issuer.url",
        4,
    ),
    (
        "[[issuer]]\nurl = \"https://a\"\nbase_paths = []\n",
        "issuer.base_paths",
        3,
    ),
    (
        "[[issuer]]\nurl = \"https://a\"\ndefault_user = \"a b\"\n",
        "issuer.default_user",
        3,
    ),
    (
        "[[export]]\ndirectory = \"d\"\n[[quota]]\nvo = \"v\"\npath = \"/\"\nbytes = 1\n[[quota]]\nvo = \"\"\npath = \"/\"\nbytes = 1\n",
        "quota.vo",
        8,
    ),
    ("[[quota]]\nvo = \"v\"\npath = \"/x\"\nbytes = 1\n", "quota.path", 3),
    (
        "[[rule]]\nwho = \"anyone\"\nmay = \"read\"\n[[rule]]\npath = \"/\"\nwho = \"anyone\"\n",
        "rule.who",
        6,
    ),
    ("[[rule]]\nwho = \"anyone\"\nuser = \"a b\"\n", "rule.user", 3),
    (
        "[[export]]\ndirectory = \"d\"\n[[export]]\ndirectory = \"e\"\npath = \"/\"\n",
        "export.path",
        5,
    ),
    (
        "[[export]]\ndirectory = \"e\"\nremote = \"https://a\"\n",
        "export.remote",
        3,
    ),
    ("[[export]]\npath = \"/x\"\n", "export.directory", 1),
    (
        "[[export]]\ndirectory = \"d\"\nremote_token_file = \"t\"\n",
        "export.remote_token_file",
        3,
    ),
    (
        "[[export]]\ndirectory = \"d\"\nremote_key = \"t\"\n",
        "export.remote_key",
        3,
    ),
    (
        "[[export]]\ndirectory = \"d\"\nremote_identity = \"client\"\n",
        "export.remote_identity",
        3,
    ),
    (
        "[[export]]\nremote = \"https://a\"\nremote_identity = \"delegated\"\n",
        "export.remote_identity",
        3,
    ),
    (
        "[[export]]\nremote = \"https://a\"\nremote_macaroon_secret_file = \"s\"\n",
        "export.remote_macaroon_secret_file",
        3,
    ),
    (
        "[[export]]\nremote = \"https://a\"\nremote_page_checksums = false\n",
        "export.remote_page_checksums",
        3,
    ),
    (
        "[[export]]\nremote_identity = \"client\"\nremote = \"http://a\"\n",
        "export.remote",
        3,
    ),
    (
        "[[export]]\nremote = \"https://a\"\nquota_bytes = 1\n",
        "export.quota_bytes",
        3,
    ),
    (
        "[[export]]\ndirectory = \"d\"\ns3_region = \"r\"\n",
        "export.s3_region",
        3,
    ),
    ("[[export]]\npath = \"/x\"\ns3 = \"https://a\"\n", "export.s3", 3),
    (
        "[[export]]\npath = \"/x\"\ns3 = \"https://a/b\"\n",
        "export.s3_access_key_id",
        1,
    ),
    (
        "[[export]]\nremote_hosts = [\"a\"]\ncache_directory = \"c\"\n",
        "export.cache_directory",
        3,
    ),
    (
        "[[export]]\ndirectory = \"d\"\ncache_directory = \"c\"\ncache_size_bytes = 1\n",
        "export.cache_size_bytes",
        4,
    ),
    ("[server]\n\nlisten = 3\n", "server.listen", 3),
    ("[server]\ncertificate = \"\"\n", "server.certificate", 2),
    ("[[node]]\n\nweight = 3\n", "node.url", 1),
    ("tpc = 3\n", "tpc", 1),
    ("[server]\n\nlisten =\n", "", 3),
    ("[server]\n\nlistne = []\n", "server.listne", 3),
    ("\n[tcp]\n", "tcp", 2),
    ("\nlisten = []\n", "listen", 2),
];

#[test]
fn each_mistake_has_its_key_its_line_and_what_to_do() {
    for (text, key, line) in MISTAKES {
        let parsed = Configuration::parse(text, Path::new("/etc/crossload"), "c.toml");
        let faults = parsed.expect_err(text).0;
        let found = faults.iter().find(|mistake| mistake.key == key);
        let found = found.unwrap_or_else(|| panic!("{text}: {faults:?}"));
        assert_eq!(found.line, Some(line), "{text}: {found:?}");
        assert!(!found.remedy().contains("lists all keys"), "{text}: {found:?}");
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
