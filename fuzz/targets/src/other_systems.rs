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

/// dCache: the first file is a layout.
pub(crate) fn dcache(data: &[u8]) {
    translate(System::Dcache, "l.conf", data);
}

/// What comes out is TOML, remarks are lines, and clients without a credential never change files.
fn translate(system: System, first: &str, data: &[u8]) {
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
        files: vec![PathBuf::from(format!("/d/{first}"))],
        ..Order::default()
    };
    let migration = system.migrate(&order, &files).expect("the first file is there");
    for remark in &migration.remarks {
        assert!(!remark.line().contains('\n'), "{}", remark.line());
    }
    for document in &migration.documents {
        let text = document.render("fuzz");
        assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        if document.kind == DocumentKind::Endpoint {
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
