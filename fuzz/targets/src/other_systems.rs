//! Configurations of other programs, which are translated into ours.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use config::Configuration;
use credentials::Credential;
use migrate::{DocumentKind, InMemory, Order, System};
use policy::{Operation, Policy, Request, decide};
use types::LogicalPath;

/// What stands in front of the name of each further file.
const NEXT_FILE: &str = "\n=== ";

/// Pieces of files of dCache.
pub(crate) const DCACHE_WORDS: &[&str] = &[
    "\n=== gplazma.conf\n",
    "\n=== multi-mapfile\n",
    "\n=== omnisession.conf\n",
    "\n=== ban.conf\n",
    "\n=== grid-vorolemap\n",
    "\n=== storage-authzdb\n",
    "[d/webdav]\n",
    "[d/xrootd]\n",
    "[d/gplazma]\n",
    "webdav.authz.anonymous-operations=FULL\n",
    "webdav.authz.allowed-paths=/a:/b\n",
    "xrootd.authz.write-paths=/\n",
    "gplazma.oidc.provider!a=https://a/ -profile=wlcg -prefix=/a -authz-id=\"uid:1 gid:1\"\n",
    "auth optional x509\n",
    "auth optional oidc\n",
    "map optional multimap\n",
    "map optional vorolemap\n",
    "map optional authzdb\n",
    "session optional omnisession\n",
    "account requisite banfile\n",
    "dn:/CN=x uid:1000 gid:1000,true\n",
    "op:a uid:1000 gid:1000\n",
    "DEFAULT root:/ prefix:/a read-only\n",
    "authorize x read-write 1000 1000 / /a /\n",
    "\"*\" \"/vo\" x\n",
    "${",
    "}",
    "\\\n",
    "\"",
];

/// Pieces of files of StoRM WebDAV.
pub(crate) const STORM_WORDS: &[&str] = &[
    "\n=== sa.d/a.properties\n",
    "\n=== vo-mapfiles.d/x.vomap\n",
    "\n=== unit.conf\n",
    "name=a\n",
    "rootPath=/a\n",
    "accessPoints=/a,/b\n",
    "vos=x\n",
    "orgs=https://i/\n",
    "fineGrainedAuthzEnabled=true\n",
    "wlcgScopeAuthzEnabled=true\n",
    "oauth:\n  issuers:\n  - issuer: https://i/\n",
    "storm:\n  authz:\n    policies:\n",
    "    - sa: a\n      effect: permit\n      actions: [all]\n",
    "      principals:\n      - type: anyone\n",
    "      - type: vo\n        params: {vo: x}\n",
    "      paths: [/x/**, /y/*]\n",
    "${A:b}",
    "&x",
    "*x",
    "/DC=x/CN=y,/DC=x/CN=ca\n",
];

/// Pieces of files of FTS.
pub(crate) const FTS_WORDS: &[&str] = &[
    "\n=== fts-activemq.conf\n",
    "AuthorizedVO=a;b\n",
    "Alias=a.b\n",
    "MaxUrlCopyProcesses=1\n",
    "[roles]\n",
    "[providers]\n",
    "Public=vo:transfer;all:config\n",
    "x_ClientSecret=s\n",
    "BROKER=a.b:1\n",
    "TOPIC=false\n",
    "SSL=true\n",
    "START=p.transfer.fts_monitoring_start\n",
    "USE_BROKER_CREDENTIALS=true\n",
    "{\"davs://a\": {\"se_info\": {\"inbound_max_active\": 1}}}",
    "[{\"source\": \"*\", \"destination\": \"*\", \"max_active\": 3}]",
    "\"share\": [{\"a\": 0.5}]",
];

/// FTS: the first file is `fts3config`.
pub(crate) fn fts(data: &[u8]) {
    translate(System::Fts, "/d", "fts3config", data);
}

/// FTS: an answer of a route. Each command in the result is one line.
pub(crate) fn fts_settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let order = Order {
        files: vec![PathBuf::from("/d/se.json")],
        ..Order::default()
    };
    let files = InMemory::default().with("/d/se.json", text);
    let migration = System::Fts.migrate(&order, &files).expect("the file is there");
    for file in &migration.texts {
        let commands = file.text.lines().skip_while(|line| !line.starts_with("crossload"));
        for line in commands {
            let outside = line.replace("'\\''", "");
            let is_whole = outside.matches('\'').count() % 2 == 0;
            assert!(line.starts_with("crossload queue ") && is_whole, "{line}");
        }
    }
}

/// Pieces of files of gfal.
pub(crate) const GFAL_WORDS: &[&str] = &[
    "[HTTP PLUGIN]\n",
    "[S3:A.B]\n",
    "[X509]\n",
    "CERT=/c\n",
    "KEY=/k\n",
    "SECRET_KEY=s\n",
    "ALTERNATE=true\n",
    "REGION=x\n",
    "{\"rse\": \"A\", \"protocols\": [{\"scheme\": \"davs\", \"hostname\": \"h\", \"port\": 1, \"prefix\": \"/\"}]}",
];

/// gfal: as its settings, and as a list of storages. The client can read what comes out.
pub(crate) fn gfal(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let files = InMemory::default().with("/d/a.conf", text).with("/d/a.json", text);
    let order = Order {
        files: vec![PathBuf::from("/d/a.conf"), PathBuf::from("/d/a.json")],
        ..Order::default()
    };
    let migration = System::Gfal.migrate(&order, &files).expect("the files are there");
    for document in &migration.documents {
        let text = document.render("fuzz");
        assert!(document.mistakes(&text, Path::new("/c")).is_empty(), "{text}");
    }
}

/// dCache: the first file is a layout.
pub(crate) fn dcache(data: &[u8]) {
    translate(System::Dcache, "/d/l.conf", "l.conf", data);
}

/// StoRM WebDAV: the first file is `application.yml`.
pub(crate) fn storm(data: &[u8]) {
    let mut whole = data.to_vec();
    if !data.windows(4).any(|bytes| bytes == b"sa.d") {
        whole.extend_from_slice(b"\n=== a.properties\nname=a\nrootPath=/a\naccessPoints=/a\nvos=x\n");
    }
    translate(System::Storm, "/d", "application.yml", &whole);
}

/// What comes out is TOML, remarks are lines, and clients without a credential never change files.
fn translate(system: System, named: &str, first: &str, data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.split(NEXT_FILE);
    let mut files = InMemory::default().with(&format!("/d/{first}"), parts.next().unwrap_or_default());
    for part in parts {
        let (name, text) = part.split_once('\n').unwrap_or((part, ""));
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
        if is_plain && !name.is_empty() {
            files = files.with(&format!("/d/{name}"), text);
        }
    }
    let order = Order {
        files: vec![PathBuf::from(named)],
        ..Order::default()
    };
    let migration = system.migrate(&order, &files).expect("the first file is there");
    for remark in &migration.remarks {
        assert!(!remark.line().contains('\n'), "{}", remark.line());
    }
    for document in &migration.documents {
        let text = document.render("fuzz");
        assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        // Policies of StoRM may let everyone write.
        let is_open = system == System::Storm && text.contains("\"anyone\"");
        if document.kind == DocumentKind::Endpoint && !is_open {
            strangers_change_nothing(&text);
        }
    }
}

fn strangers_change_nothing(text: &str) {
    let Ok(configuration) = Configuration::parse(text, Path::new("/c"), "c.toml") else {
        return;
    };
    let exports = configuration.exports.iter().map(config::Export::rules).collect();
    let policy = Policy::new(exports, configuration.policy_rules());
    for path in ["/", "/a/f", "/b/f"] {
        for operation in [Operation::Create, Operation::Overwrite, Operation::Delete] {
            let request = Request {
                operation,
                path: LogicalPath::parse(path).expect("a path"),
                client_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                now_s: 0,
                size_bytes: None,
            };
            let decision = decide(&policy, Ok(&Credential::Anonymous), &request);
            assert!(decision.refusal.is_some(), "{path}\n{text}");
        }
    }
}
