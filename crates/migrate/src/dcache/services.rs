//! Services and settings of dCache without a part in exports and rights: what is in their place.

use std::collections::BTreeSet;

use super::layout::{Cell, Layout, Setting};
use crate::migration::Migration;
use crate::remark::Outcome;
use crate::source::Source;

/// What became of something, and what to do.
struct Fate {
    outcome: Outcome,
    words: &'static str,
    advice: Option<&'static str>,
}

const fn not_needed(words: &'static str) -> Fate {
    Fate {
        outcome: Outcome::NotNeeded,
        words,
        advice: None,
    }
}

const fn missing(words: &'static str, advice: &'static str) -> Fate {
    Fate {
        outcome: Outcome::NoEquivalent,
        words,
        advice: Some(advice),
    }
}

const fn taken(words: &'static str) -> Fate {
    Fate {
        outcome: Outcome::TakenOver,
        words,
        advice: None,
    }
}

/// What stands in place of a service.
fn of_service(service: &str) -> Fate {
    match service {
        "webdav" | "xrootd" => taken("[server] listen and [[export]]"),
        "gplazma" => taken("[x509], [[issuer]] and [[rule]]"),
        "poolmanager" | "pnfsmanager" | "zookeeper" | "cleaner" | "cleaner-disk" | "cleaner-hsm" | "namespace" => {
            not_needed("the file system of an export has names and data")
        }
        "admin" => not_needed("the configuration is one file; crossload check and crossload top show the rest"),
        "transfermanagers" => not_needed("the server makes third-party copies itself"),
        "alarms" => missing(
            "alarms are metrics",
            "Set [server] admin_listen, and use monitoring/alerts.yml",
        ),
        "httpd" | "info" | "statistics" | "topo" => missing(
            "pages and figures have a section of their own",
            "Set [web] listen and [server] admin_listen",
        ),
        "billing" => missing(
            "transfers are in the log",
            "Set [log] file, and [monitoring] for collectors of XRootD",
        ),
        "frontend" | "history" => missing("there is no REST API of dCache", "Use WebDAV, or the XRootD protocol"),
        "spacemanager" => missing(
            "there are no space tokens",
            "Set [[quota]] for each virtual organisation",
        ),
        "srm" | "srmmanager" | "bulk" => missing(
            "there is no SRM and no tape system",
            "Keep dCache in front of tape, and export its WebDAV door",
        ),
        "pinmanager" => missing("files are always on disk", "Keep dCache in front of tape"),
        "ftp" | "gridftp" => missing("there is no GridFTP", "Let clients use davs or root URLs"),
        "dcap" | "dcap-gsi" => missing("there is no dCap", "Let clients use root URLs, or mount the directory"),
        "nfs" => missing("there is no NFS", "Export the directory by the kernel's NFS server"),
        "replica" | "resilience" | "qos" | "qos-engine" | "qos-verifier" | "qos-adjuster" | "qos-scanner" => missing(
            "files have no second copies here",
            "Use RAID or a file system with copies",
        ),
        _ => missing("this service has no equivalent", "Find out which clients use it"),
    }
}

/// Beginnings of keys that say something about the services above.
const PREFIXES: &[(&str, Fate)] = &[
    ("dcache.java.", not_needed("there is no Java here")),
    ("dcache.layout", not_needed("it names the layout, which was read")),
    ("dcache.user", not_needed("systemd's unit has the user")),
    ("dcache.broker.", not_needed("there are no messages between services")),
    (
        "dcache.zookeeper.",
        not_needed("there are no messages between services"),
    ),
    ("dcache.log.", not_needed("the journal keeps the log")),
    (
        "dcache.description",
        missing(
            "the site has no name here",
            "Set [storage_report] name and [monitoring] site",
        ),
    ),
    (
        "dcache.enable.space-reservation",
        missing("there are no space tokens", "Set [[quota]]"),
    ),
    (
        "dcache.enable.quota",
        missing("quotas are of virtual organisations", "Set [[quota]]"),
    ),
    (
        "dcache.default-",
        missing("there is no tape system", "Keep dCache in front of tape"),
    ),
    (
        "dcache.enable.overwrite",
        not_needed("a rule's may says who may replace files"),
    ),
    (
        "webdav.enable.overwrite",
        not_needed("a rule's may says who may replace files"),
    ),
    (
        "webdav.redirect.",
        missing("the server sends the data itself", "See [hand_over] to save encryption"),
    ),
    (
        "webdav.oidc.client.",
        missing("tokens are passed on, not exchanged", "See [tpc] pass_token_to"),
    ),
    (
        "webdav.authn.require-client-cert",
        missing("certificates are optional in TLS", "Rules name who may do what"),
    ),
    (
        "webdav.authn.basic",
        missing("no passwords are accepted", "Give these clients tokens"),
    ),
    ("webdav.templates.", not_needed("pages of directories have one form")),
    (
        "webdav.static-content.",
        not_needed("pages of directories have one form"),
    ),
    ("webdav.loginbroker.", not_needed("clients know the server by its URL")),
    ("xrootd.loginbroker.", not_needed("clients know the server by its URL")),
    ("pool.", not_needed("a directory is in place of pools")),
    (
        "pnfsmanager.enable.acl",
        missing(
            "access lists of the namespace are not read, and may deny what modes allow",
            "Write them as access lists of the file system (setfacl), or as rules with may_not, before clients come",
        ),
    ),
    (
        "pnfsmanager.enable.inherit-file-ownership",
        missing(
            "new files belong to the user who stores them",
            "Map all who write in a directory to one user, by the user of their rules",
        ),
    ),
    (
        "pnfsmanager.",
        not_needed("the file system of an export has names and data"),
    ),
    (
        "poolmanager.",
        not_needed("the file system of an export has names and data"),
    ),
    (
        "chimera.",
        not_needed("the file system of an export has names and data"),
    ),
    ("billing.", not_needed("transfers are in the log")),
    (
        "gplazma.",
        missing(
            "this setting of gPlazma has no equivalent",
            "Check the rules that depend on it",
        ),
    ),
    (
        "webdav.",
        missing("this setting of doors has no equivalent", "See docs/configuration.md"),
    ),
    (
        "xrootd.",
        missing("this setting of doors has no equivalent", "See docs/configuration.md"),
    ),
    ("srm", missing("there is no SRM", "Let clients use davs URLs")),
    (
        "nfs.",
        missing("there is no NFS", "Export the directory by the kernel's NFS server"),
    ),
    (
        "ftp.",
        missing("there is no GridFTP", "Let clients use davs or root URLs"),
    ),
    ("dcap.", missing("there is no dCap", "Let clients use root URLs")),
    ("frontend.", missing("there is no REST API of dCache", "Use WebDAV")),
    ("dcache.", not_needed("it is about dCache's own processes")),
    ("admin.", not_needed("it is about dCache's own processes")),
    ("alarms.", not_needed("it is about dCache's own processes")),
    (
        "bulk.",
        missing("there is no tape system", "Keep dCache in front of tape"),
    ),
    ("cleaner", not_needed("it is about dCache's own processes")),
    ("history.", not_needed("it is about dCache's own processes")),
    ("httpd.", not_needed("pages have a section of their own, [web]")),
    ("info.", not_needed("figures are at [server] admin_listen")),
    (
        "pinmanager.",
        missing("files are always on disk", "Keep dCache in front of tape"),
    ),
    (
        "qos",
        missing(
            "files have no second copies here",
            "Use RAID or a file system with copies",
        ),
    ),
    (
        "resilience.",
        missing(
            "files have no second copies here",
            "Use RAID or a file system with copies",
        ),
    ),
    ("spacemanager.", missing("there are no space tokens", "Set [[quota]]")),
    ("statistics.", not_needed("figures are at [server] admin_listen")),
    (
        "transfermanagers.",
        not_needed("the server makes third-party copies itself"),
    ),
    ("zookeeper.", not_needed("there are no messages between services")),
];

/// Beginnings of keys whose values are read elsewhere.
const READ: &[&str] = &[
    "dcache.root",
    "dcache.net.listen",
    "dcache.paths.",
    "dcache.authn.",
    "dcache.enable.macaroons",
    "dcache.macaroons.",
    "webdav.macaroons.",
    "webdav.enable.macaroons",
    "webdav.enable.third-party.",
    "webdav.third-party-transfers.performance-marker-period",
    "transfermanagers.limits.external-transfers",
    "webdav.net.",
    "webdav.root",
    "webdav.authz.",
    "webdav.authn.protocol",
    "webdav.authn.hostcert.",
    "webdav.authn.accept-client-cert",
    "xrootd.net.port",
    "xrootd.net.listen",
    "xrootd.root",
    "xrootd.authz.",
    "xrootd.plugins",
    "xrootd.security.tls.",
    "gplazma.configuration.file",
    "gplazma.vorolemap.file",
    "gplazma.gridmap.file",
    "gplazma.authzdb.file",
    "gplazma.multimap.file",
    "gplazma.banfile.path",
    "gplazma.kpwd.file",
    "gplazma.omnisession.file",
    "gplazma.vomsdir.",
    "gplazma.oidc.provider!",
    "gplazma.oidc.audience-targets",
    "gplazma.scitoken.",
];

/// Parts of keys about the way in which dCache's cells reach each other.
const OF_CELLS: &[&str] = &[
    ".cell.",
    ".mover.",
    ".service.",
    ".loginbroker.",
    ".limits.",
    ".pool-monitor.",
    ".credential-service.",
];

/// Writes a remark for each service, and for each setting that has none yet.
pub(crate) fn write(layout: &Layout, migration: &mut Migration) {
    let pools: Vec<&Cell> = layout.services("pool").collect();
    for cell in &layout.cells {
        match cell.service.as_str() {
            "pool" => pool(layout, cell, migration),
            service => {
                let fate = of_service(service);
                migration.note(fate.outcome, &cell.source, fate.words, fate.advice.map(str::to_owned));
            }
        }
    }
    if let Some(first) = pools.first() {
        let words = format!("{} pools in all; the exports need as much space", pools.len());
        migration.in_part(
            &first.source,
            words,
            "Copy the tree by crossload sync from the WebDAV door",
        );
    }
    let known: BTreeSet<Source> = migration.remarks.iter().map(|remark| remark.source.clone()).collect();
    for setting in layout.settings().filter(|setting| !known.contains(&setting.source)) {
        one(setting, migration);
    }
}

fn one(setting: &Setting, migration: &mut Migration) {
    let begins = |prefix: &str| setting.key.starts_with(prefix);
    if READ.iter().any(|prefix| begins(prefix)) {
        return migration.taken(&setting.source, "read with its service");
    }
    if OF_CELLS.iter().any(|part| setting.key.contains(part)) {
        return migration.not_needed(&setting.source, "it is about dCache's own cells");
    }
    if begins("pool.") && (setting.key.contains(".hsm") || setting.key.contains("lfs")) {
        let words = "files are always on disk here";
        return migration.no_equivalent(
            &setting.source,
            words,
            "Keep dCache in front of tape, and export its WebDAV door",
        );
    }
    match PREFIXES.iter().find(|(prefix, _)| begins(prefix)) {
        Some((_, fate)) => migration.note(
            fate.outcome,
            &setting.source,
            fate.words,
            fate.advice.map(str::to_owned),
        ),
        None => {
            let words = "this setting is not known";
            migration.unknown(&setting.source, words, "Look for it in dCache's own defaults");
        }
    }
}

fn pool(layout: &Layout, cell: &Cell, migration: &mut Migration) {
    let value = |key: &str| layout.value(Some(cell), key).ok().flatten().map(|value| value.text);
    let name = value("pool.name").unwrap_or_else(|| "without a name".to_owned());
    let path = value("pool.path").unwrap_or_else(|| "an unknown directory".to_owned());
    let size = value("pool.size")
        .map(|size| format!(" with {size}"))
        .unwrap_or_default();
    let words = format!("the pool {name} in {path}{size}: its files have the names of the namespace in an export");
    migration.not_needed(&cell.source, words);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_and_setting_has_a_remark() {
        let mut layout = Layout::default();
        let text = "dcache.java.memory.heap = 1g\nnew.key = 1\n[d]\n[d/pool]\npool.name = p1\npool.path = /data/p1\n\
            pool.size = 10T\n[d/nfs]\nnfs.version = 4.1\n[d/strange]\n";
        layout.read("l", text);
        let mut migration = Migration::default();
        write(&layout, &mut migration);
        let of = |line: usize| {
            let mut remarks = migration.remarks.iter();
            remarks
                .find(|remark| remark.source.line == line)
                .unwrap_or_else(|| panic!("line {line}"))
        };
        for line in [1, 2, 4, 5, 6, 7, 8, 9, 10] {
            of(line);
        }
        assert!(of(4).words.contains("p1 in /data/p1 with 10T"), "{}", of(4).words);
        assert_eq!((of(2).outcome, of(1).outcome), (Outcome::Unknown, Outcome::NotNeeded));
    }
}
