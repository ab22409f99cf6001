//! Tests that each configuration key reloads as it declares. A declared key without a case fails.

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

use super::assemble::Assembly;
use super::doors::need_new_one;
use super::events::Observer;
use super::log::Log;
use super::subsystem::{self, Change};

/// Key, other keys of its section, the value before (empty: not set) and after, and other sections.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const EXPORT: &str = "[[export]]\ndirectory = \"data\"\nanonymous = \"read\"\n";
const CACHED: &str = "directory = \"data\"\ncache_directory = \"cache1\"";
const NO_TRUST: &str = "[trust]\nsystem = false\nca_directories = []\n";
const TLS: &str = "[server]\ncertificate = \"host.pem\"\nkey = \"host.key\"\n";
const ISSUER: &str = "[[issuer]]\nurl = \"https://iam.invalid\"\n";
const AT_ISSUER: &str = "url = \"https://iam.invalid\"";
const TRUST: &str = "trust_directory = \"trust\"";
const SIGN_IN: &str = "oidc_issuer = \"https://iam.invalid\"\noidc_client_id = \"c\"";
const NODE: &str = "[[node]]\nurl = \"http://d1.invalid\"\n";
const NODE_BELOW: &str = "[[node]]\nurl = \"http://d1.invalid\"\n[redirector]\npath = \"/c\"\n";
const TREE: &str = "path = \"/c\"";
const REDIRECTOR: &str = "[redirector]\npath = \"/c\"\n";
const AT_NODE: &str = "url = \"http://d1.invalid\"";
const READS: &str = "reads = true";
const S3_KEYS: &str = "s3_access_key_id = \"k\"\ns3_secret_key_file = \"s1\"";
const S3_FILE: &str = "s3 = \"https://a/b\"\ns3_secret_key_file = \"s1\"";
const S3_KEY: &str = "s3 = \"https://a/b\"\ns3_access_key_id = \"k\"";
const S3_ALL: &str = "s3 = \"https://a/b\"\ns3_access_key_id = \"k\"\ns3_secret_key_file = \"s1\"";

const CASES: &[Case] = &[
    ("server.listen", "", "", r#"["127.0.0.1:9"]"#, ""),
    (
        "server.certificate",
        "",
        "\"host.pem\"\nkey = \"host.key\"",
        "\"other.pem\"\nkey = \"other.key\"",
        "",
    ),
    (
        "server.key",
        "",
        "\"host.key\"\ncertificate = \"host.pem\"",
        "\"other.key\"\ncertificate = \"other.pem\"",
        "",
    ),
    ("server.admin_listen", "", "", r#""127.0.0.1:9""#, ""),
    ("server.name", "", "", r#""https://se.example""#, ""),
    ("server.checksums", "", "", r#"["md5"]"#, ""),
    ("server.worker_threads", "", "", "3", ""),
    ("server.blocking_threads", "", "", "9", ""),
    ("server.bulk_niceness", "", "", "3", ""),
    ("server.core_dumps", "", "", "true", ""),
    ("server.clear_text_tokens", "", "", r#""never""#, ""),
    ("server.grace_time", "", "", r#""5s""#, ""),
    ("export.path", "directory = \"data\"", r#""/a""#, r#""/b""#, ""),
    ("export.directory", "", r#""data""#, r#""data2""#, ""),
    ("export.remote", "", r#""https://a/x""#, r#""https://b/x""#, ""),
    ("export.remote_hosts", "", r#"["a"]"#, r#"["b"]"#, ""),
    (
        "export.remote_identity",
        "remote = \"https://a/x\"",
        "",
        r#""client""#,
        "",
    ),
    (
        "export.remote_macaroon_secret_file",
        "remote = \"https://a/x\"\nremote_identity = \"minted\"",
        r#""s1""#,
        r#""s2""#,
        "",
    ),
    (
        "export.remote_token_file",
        "remote = \"https://a/x\"",
        r#""s1""#,
        r#""s2""#,
        "",
    ),
    (
        "export.remote_certificate",
        "remote = \"https://a/x\"",
        "\"host.pem\"\nremote_key = \"host.key\"",
        "\"other.pem\"\nremote_key = \"other.key\"",
        "",
    ),
    (
        "export.remote_key",
        "remote = \"https://a/x\"",
        "\"host.key\"\nremote_certificate = \"host.pem\"",
        "\"other.key\"\nremote_certificate = \"other.pem\"",
        "",
    ),
    (
        "export.remote_page_checksums",
        "remote = \"root://a//x\"",
        "",
        "false",
        "",
    ),
    ("export.s3", S3_KEYS, r#""https://a/b""#, r#""https://a/c""#, ""),
    ("export.s3_access_key_id", S3_FILE, r#""k""#, r#""l""#, ""),
    ("export.s3_secret_key_file", S3_KEY, r#""s1""#, r#""s2""#, ""),
    ("export.s3_region", S3_ALL, "", r#""r""#, ""),
    ("export.s3_addressing", S3_ALL, "", r#""path""#, ""),
    ("export.anonymous", "directory = \"data\"", "", r#""read""#, ""),
    ("export.read_only", "directory = \"data\"", "", "true", ""),
    ("export.locks", "directory = \"data\"", "", "false", ""),
    ("export.ceiling", "directory = \"data\"", "", r#"["read"]"#, ""),
    ("export.recursive_delete", "directory = \"data\"", "", "true", ""),
    ("export.quota_bytes", "directory = \"data\"", "", "5000", ""),
    ("export.reserve_bytes", "directory = \"data\"", "", "1", ""),
    (
        "export.cache_directory",
        "directory = \"data\"",
        r#""cache1""#,
        r#""cache2""#,
        "",
    ),
    ("export.cache_size_bytes", CACHED, "", "70000000", ""),
    ("export.cache_revalidate_after", CACHED, "", r#""2s""#, ""),
    ("export.cache_immutable", CACHED, "", "true", ""),
    ("export.cache_prefetch_blocks", CACHED, "", "3", ""),
    ("rule.who", "may = \"read\"", r#""anyone""#, r#""authenticated""#, ""),
    ("rule.path", "who = \"anyone\"\nmay = \"read\"", "", r#""/a""#, ""),
    ("rule.except", "who = \"anyone\"\nmay = \"read\"", "", r#"["/a"]"#, ""),
    ("rule.may", "who = \"anyone\"", r#""read""#, r#""write""#, ""),
    (
        "rule.may_not",
        "who = \"anyone\"\nmay = \"read\"",
        "",
        r#""delete""#,
        "",
    ),
    ("rule.user", "who = \"anyone\"\nmay = \"read\"", "", r#""jane""#, ""),
    ("rule.vo", "who = \"anyone\"\nmay = \"read\"", "", r#""atlas""#, ""),
    ("rule.any_issuer", "who = \"anyone\"\nmay = \"read\"", "", "true", ""),
    ("rule.last", "who = \"anyone\"\nmay = \"read\"", "", "true", ""),
    ("policy.authdb_file", "", "", r#""authdb""#, ""),
    ("users.switch", "", "", r#""never""#, ""),
    ("users.minimum_uid", "", "", "5000", ""),
    ("users.default_user", "", "", r#""jane""#, ""),
    ("users.groups", "", "", r#""primary""#, ""),
    ("quota.vo", "path = \"/\"\nbytes = 5", r#""a""#, r#""b""#, ""),
    ("quota.path", "vo = \"a\"\nbytes = 5", r#""/""#, r#""/x""#, ""),
    ("quota.bytes", "vo = \"a\"\npath = \"/\"", "5", "6", ""),
    ("quota.uids", "vo = \"a\"\npath = \"/\"\nbytes = 5", "", "[5]", ""),
    ("x509.client_certificates", TRUST, "", r#""off""#, TLS),
    ("x509.trust_directory", "", "", r#""trust""#, ""),
    ("x509.system_authorities", "", "", "true", ""),
    ("x509.revocation", TRUST, "", r#""off""#, ""),
    ("x509.voms_directory", TRUST, "", r#""vomsdir""#, ""),
    ("x509.grid_map_file", TRUST, "", r#""map""#, ""),
    ("x509.voms_map_file", TRUST, "", r#""map""#, ""),
    ("x509.refresh", "", "", r#""20s""#, ""),
    ("macaroons.secret_file", "", r#""s1""#, r#""s2""#, ""),
    (
        "macaroons.old_secret_files",
        "secret_file = \"s1\"",
        "",
        r#"["s2"]"#,
        "",
    ),
    ("macaroons.default_lifetime", "secret_file = \"s1\"", "", r#""1m""#, ""),
    (
        "macaroons.maximum_lifetime",
        "secret_file = \"s1\"",
        "",
        r#""100d""#,
        "",
    ),
    ("tokens.audiences", "", "", r#"["a"]"#, ""),
    ("tokens.clock_skew", "", "", r#""5s""#, ""),
    ("tokens.issuer_wait", "", "", r#""1s""#, ISSUER),
    ("tokens.issuer_timeout", "", "", r#""1s""#, ISSUER),
    ("tokens.key_refresh", "", "", r#""2h""#, ISSUER),
    ("tokens.key_expiry", "", "", r#""90d""#, ISSUER),
    ("tokens.state_directory", "", "", r#""state""#, ISSUER),
    ("tokens.remembered", "", "", "5", ""),
    ("tokens.remembered_for", "", "", r#""5s""#, ""),
    ("tokens.scitokens_file", "", "", r#""scitokens""#, ""),
    ("issuer.url", "", r#""https://a.invalid""#, r#""https://b.invalid""#, ""),
    ("issuer.vo", "url = \"https://iam.invalid\"", "", r#""atlas""#, ""),
    ("issuer.base_paths", AT_ISSUER, "", r#"["/a"]"#, ""),
    ("issuer.restricted_paths", AT_ISSUER, "", r#"["/a"]"#, ""),
    ("issuer.strategy", AT_ISSUER, "", r#"["group"]"#, ""),
    ("issuer.groups_claim", AT_ISSUER, "", r#""groups""#, ""),
    ("issuer.username_claim", AT_ISSUER, "", r#""name""#, ""),
    ("issuer.map_subject", "url = \"https://iam.invalid\"", "", "true", ""),
    ("issuer.default_user", AT_ISSUER, "", r#""jane""#, ""),
    ("issuer.name_map_file", AT_ISSUER, "", r#""names""#, ""),
    ("issuer.jwks_file", "url = \"https://iam.invalid\"", "", r#""jwks""#, ""),
    ("xroot.enabled", "", "", "false", ""),
    ("xroot.tls", "", "", r#""login""#, ""),
    ("xroot.authentication", "", "", r#"["unix"]"#, ""),
    ("xroot.handles", "", "", "3", ""),
    ("tpc.allow_local_peers", "", "", "true", ""),
    ("tpc.allow_private_peers", "", "", "false", ""),
    ("tpc.verify", "", "", r#""never""#, ""),
    ("tpc.chosen_streams", "", "", "2", ""),
    ("tpc.forward_to", "", "", r#"["https://se.example"]"#, ""),
    ("tpc.key_lifetime", "", "", r#""5s""#, ""),
    ("tpc.key_lifetime_max", "", "", r#""9h""#, ""),
    ("tpc.pass_token_to", "", "", r#"["se.example"]"#, ""),
    ("hand_over.reads", "", "", "true", ""),
    ("hand_over.writes", READS, "", "true", ""),
    (
        "hand_over.target",
        "reads = true\nkey_file = \"s1\"",
        "",
        r#""http://d.example:1""#,
        "",
    ),
    (
        "hand_over.accept_as",
        "key_file = \"s1\"",
        "",
        r#""http://d.example:1""#,
        "",
    ),
    ("hand_over.key_file", READS, r#""s1""#, r#""s2""#, ""),
    ("hand_over.lifetime", READS, "", r#""30s""#, ""),
    ("hand_over.bind_address", READS, "", "false", ""),
    ("hand_over.minimum_bytes", READS, "", "5", ""),
    (
        "delegation.directory",
        "key_file = \"s1\"",
        r#""kept""#,
        r#""kept2""#,
        "",
    ),
    ("delegation.key_file", "directory = \"kept\"", r#""s1""#, r#""s2""#, ""),
    ("trust.ca_files", "", "", r#"["host.pem"]"#, ""),
    ("trust.ca_directories", "", "", "[]", ""),
    ("trust.system", "", "", "false", ""),
    ("limits.connections", "", "", "5", ""),
    ("limits.transfers", "", "", "5", ""),
    ("limits.open_files", "", "", "5", ""),
    ("limits.client_share_percent", "", "", "20", ""),
    ("limits.streams", "", "", "3", ""),
    ("limits.head_bytes", "", "", "9000", ""),
    ("limits.header_count", "", "", "9", ""),
    ("limits.head_timeout", "", "", r#""3s""#, ""),
    ("limits.tls_handshake_timeout", "", "", r#""3s""#, ""),
    ("limits.tls_session_bytes", "", "", "9000", TLS),
    ("limits.idle_timeout", "", "", r#""3s""#, ""),
    ("limits.stall_timeout", "", "", r#""3s""#, ""),
    ("limits.connect_timeout", "", "", r#""3s""#, ""),
    ("limits.first_byte_timeout", "", "", r#""3s""#, ""),
    ("limits.checksum_wait", "", "", r#""3s""#, ""),
    ("limits.marker_period", "", "", r#""3s""#, ""),
    ("limits.attempts", "", "", "2", ""),
    ("log.file", "", "", r#""log2""#, ""),
    ("log.format", "", "", r#""text""#, ""),
    ("log.requests", "", "", "\"failed\"", ""),
    ("log.follow", "", "", r#"["subject:jane"]"#, ""),
    ("log.personal_names", "", "", "false", ""),
    ("storage_report.path", "", "", r#""/srr""#, ""),
    ("storage_report.readers", "", "", r#"["anyone"]"#, ""),
    ("storage_report.name", "", "", r#""se""#, ""),
    ("storage_report.quality", "", "", r#""testing""#, ""),
    ("monitoring.destinations", "", "", r#"["127.0.0.1:9930"]"#, ""),
    ("monitoring.copy_destinations", "", "", r#"["127.0.0.1:9930"]"#, ""),
    ("monitoring.http_destinations", "", "", r#"["127.0.0.1:9930"]"#, ""),
    (
        "monitoring.broker",
        "spool = \"spool\"",
        "",
        r#""stomp://broker.example:61613""#,
        "",
    ),
    ("monitoring.broker_destination", "", "", r#""/queue/m""#, ""),
    ("monitoring.broker_password_file", "", "", r#""password""#, ""),
    (
        "monitoring.broker_certificate",
        "broker_key = \"b.key\"",
        "\"a.pem\"",
        "\"b.pem\"",
        "",
    ),
    (
        "monitoring.broker_key",
        "broker_certificate = \"b.pem\"",
        "\"a.key\"",
        "\"b.key\"",
        "",
    ),
    ("monitoring.spool", "", "", r#""spool""#, ""),
    ("monitoring.spool_bytes", "", "", r#""2GiB""#, ""),
    ("monitoring.site", "", "", r#""T9""#, ""),
    ("monitoring.personal_names", "", "", "true", ""),
    ("monitoring.flush_interval", "", "", r#""3s""#, ""),
    ("monitoring.progress_interval", "", "", r#""3s""#, ""),
    ("monitoring.identity_interval", "", "", r#""3s""#, ""),
    ("scitags.destinations", "", "", r#"["127.0.0.1:9930"]"#, ""),
    ("scitags.to_peers", "", "", "true", ""),
    ("scitags.excluded", "", "", r#"["192.0.2.0/24"]"#, ""),
    ("scitags.ongoing_interval", "", "", r#""3s""#, ""),
    ("flow.vo", "experiment = 2", "", r#""atlas""#, ""),
    ("flow.path", "experiment = 2", "", r#""/atlas""#, ""),
    ("flow.experiment", "", "2", "3", ""),
    ("flow.activity", "experiment = 2", "", "4", ""),
    ("web.listen", "", "", r#""127.0.0.1:9""#, ""),
    ("web.queue_listen", "", "", r#""127.0.0.1:9""#, ""),
    ("web.history", "", "", r#""/r""#, ""),
    (
        "web.viewers",
        "",
        "",
        r#"["vo:ops"]"#,
        "[[issuer]]\nurl = \"https://a.invalid\"\n",
    ),
    (
        "web.operators",
        "",
        "",
        r#"["vo:ops"]"#,
        "[[issuer]]\nurl = \"https://a.invalid\"\n",
    ),
    (
        "web.oidc_issuer",
        "oidc_client_id = \"c\"",
        r#""https://iam.invalid""#,
        r#""https://b.invalid""#,
        "[[issuer]]\nurl = \"https://iam.invalid\"\n[[issuer]]\nurl = \"https://b.invalid\"\n",
    ),
    (
        "web.oidc_client_id",
        "oidc_issuer = \"https://iam.invalid\"",
        r#""c""#,
        r#""d""#,
        ISSUER,
    ),
    ("web.oidc_client_secret_file", SIGN_IN, r#""s1""#, r#""s2""#, ISSUER),
    ("web.oidc_scopes", SIGN_IN, "", r#"["openid", "profile"]"#, ISSUER),
    ("web.oidc_button", SIGN_IN, "", r#""In""#, ISSUER),
    (
        "web.oidc_redirect_url",
        SIGN_IN,
        "",
        r#""https://ops.example/sign-in/issuer/return""#,
        ISSUER,
    ),
    ("cms.managers", "", "", r#"["cms.invalid:1213"]"#, ""),
    ("redirector.path", "", r#""/a""#, r#""/b""#, NODE),
    ("redirector.anonymous", TREE, "", r#""read""#, NODE),
    ("redirector.read_only", TREE, "", "true", NODE),
    ("redirector.ceiling", TREE, "", r#"["read"]"#, NODE),
    (
        "redirector.capabilities",
        TREE,
        "",
        "true",
        "[[node]]\nurl = \"http://d1.invalid\"\n[hand_over]\nkey_file = \"s1\"\n",
    ),
    ("redirector.prefer_same_machine", TREE, "", "true", NODE),
    ("redirector.location_bytes", TREE, "", "70000", NODE),
    (
        "site.name",
        "networks = [\"192.0.2.0/24\"]",
        r#""a""#,
        r#""b""#,
        NODE_BELOW,
    ),
    (
        "site.networks",
        "name = \"a\"",
        r#"["192.0.2.0/24"]"#,
        r#"["192.0.2.0/25"]"#,
        NODE_BELOW,
    ),
    (
        "node.url",
        "",
        r#""http://d1.invalid""#,
        r#""http://d2.invalid""#,
        REDIRECTOR,
    ),
    ("node.http_url", AT_NODE, "", r#""none""#, REDIRECTOR),
    ("node.root_url", AT_NODE, "", r#""none""#, REDIRECTOR),
    ("node.exports", AT_NODE, "", r#"["/c/d"]"#, REDIRECTOR),
    ("node.bus", AT_NODE, "", "false", REDIRECTOR),
    ("node.bus_name", AT_NODE, "", r#""d7""#, REDIRECTOR),
    ("node.site", AT_NODE, "", r#""here""#, REDIRECTOR),
    ("node.weight", AT_NODE, "", "2", REDIRECTOR),
    ("node.follow_redirects", AT_NODE, "", "true", REDIRECTOR),
    ("node.token_file", AT_NODE, "", r#""s1""#, REDIRECTOR),
    ("bus.servers", "name = \"d1\"", "", r#"["nats://bus.invalid"]"#, ""),
    ("bus.prefix", "", "", r#""other""#, ""),
    ("bus.name", "", "", r#""d1""#, ""),
    ("bus.user", "password_file = \"s1\"", r#""u""#, r#""v""#, ""),
    ("bus.password_file", "user = \"u\"", r#""s1""#, r#""s2""#, ""),
    ("bus.nkey_file", "", "", r#""s1""#, ""),
    ("bus.credentials_file", "", "", r#""s1""#, ""),
    ("bus.ca_files", "", "", r#"["host.pem"]"#, ""),
    (
        "bus.certificate",
        "key = \"host.key\"",
        r#""host.pem""#,
        r#""other.pem""#,
        "",
    ),
    (
        "bus.key",
        "certificate = \"host.pem\"",
        r#""host.key""#,
        r#""other.key""#,
        "",
    ),
    ("bus.clear_text", "", "", "true", ""),
    ("bus.unfiltered", "", "", r#"["/a"]"#, ""),
    ("bus.filter_bytes", "", "", "70000", ""),
    (
        "cluster.redirectors",
        "",
        "",
        r#"["address:192.0.2.0/24", ["vo:a", "role:b"]]"#,
        "",
    ),
    ("cluster.operators", "", "", r#"["dn:/CN=Jane"]"#, ""),
    ("cluster.drain", "", "", r#""no_writes""#, ""),
    ("cluster.drain_grace", "", "", r#""0s""#, ""),
    ("cluster.state_file", "", "", r#""node""#, ""),
    ("cluster.site", "", "", r#""here""#, ""),
    ("queue.listen", "", "", r#"["127.0.0.1:9"]"#, ""),
    ("queue.state_directory", "", "", r#""state""#, ""),
    ("queue.database", "", "", r#""postgres://q@db.example/q""#, ""),
    ("queue.key_file", "", "", r#""s1""#, ""),
    ("queue.token_clients_file", "", "", r#""clients""#, ""),
    ("queue.worker", "", "", r#""w1""#, ""),
    ("queue.copies", "", "", "5", ""),
    ("queue.storage_copies", "", "", "5", ""),
    ("queue.link_copies", "", "", "5", ""),
    ("queue.link_copies_minimum", "", "", "3", ""),
    ("queue.shares_by", "", "", r#""bytes""#, ""),
    ("queue.retries", "", "", "1", ""),
    ("queue.retry_delay", "", "", r#""5s""#, ""),
    ("queue.copy_time_maximum", "", "", r#""1d""#, ""),
    ("queue.copy_rate_minimum", "", "", r#""1KiB""#, ""),
    ("queue.copy_rate_window", "", "", r#""2m""#, ""),
    ("queue.hops", "", "", r#"[{urls = ["davs://h.example/hop"]}]"#, ""),
    (
        "queue.storages",
        "",
        "",
        r#"[{name = "davs://h.example", third_party = "pull"}]"#,
        "",
    ),
    ("queue.history", "", "", r#""5d""#, ""),
    ("queue.lease", "", "", r#""30s""#, ""),
    ("queue.operators", "", "", r#"["*"]"#, ""),
    ("queue.vo_operators", "", "", r#"["*"]"#, ""),
    ("queue.anonymous", "", "", "true", ""),
    ("messages.listen", "users = [\"*\"]", "", r#"["127.0.0.1:9"]"#, ""),
    ("messages.password_file", "", "", r#""passwords""#, ""),
    ("messages.users", "", "", r#"["*"]"#, ""),
    ("messages.brokers", "", "", r#"["stomp://broker.example:61613"]"#, ""),
    ("messages.broker_password_file", "", "", r#""password""#, ""),
    (
        "messages.broker_certificate",
        "broker_key = \"b.key\"",
        "\"a.pem\"",
        "\"b.pem\"",
        "",
    ),
    (
        "messages.broker_key",
        "broker_certificate = \"b.pem\"",
        "\"a.key\"",
        "\"b.key\"",
        "",
    ),
    ("messages.broker_prefix", "", "", r#""/queue/""#, ""),
    ("messages.persistent", "", "", "false", ""),
];

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
