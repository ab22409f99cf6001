//! Configurations as sites have them, translated and read by our own configuration and policy.

mod dcache;
mod fts;
mod gfal;
mod storm;

use std::path::{Path, PathBuf};

use config::Configuration;
use credentials::{CertificateIssuer, Credential, Grant, Principal, Scope, VerifiedCertificate, VerifiedToken};
use migrate::{Disk, DocumentKind, Files, Migration, Order, Outcome, System};
use policy::{Decision, Operation, Policy, Request, decide};
use types::LogicalPath;

const NOW_S: i64 = 1_000_000;

/// A site whose files were translated.
pub(crate) struct Site {
    pub(crate) migration: Migration,
    pub(crate) text: String,
    pub(crate) configuration: Configuration,
    policy: Policy,
}

/// Translates files of `tests/sites`; the result must be valid.
pub(crate) fn site(system: System, kind: DocumentKind, files: &[&str]) -> Site {
    read(kind, migration(system, files))
}

/// Translates other files.
pub(crate) fn site_of(system: System, kind: DocumentKind, files: &dyn Files, names: &[&str]) -> Site {
    let order = Order {
        files: names.iter().map(PathBuf::from).collect(),
        ..Order::default()
    };
    read(kind, system.migrate(&order, files).expect("the files can be read"))
}

fn read(kind: DocumentKind, migration: Migration) -> Site {
    let document = migration.find(kind).expect("there is such a file");
    let text = document.render("a test");
    let read = Configuration::parse(&text, Path::new("/etc/crossload"), kind.file_name());
    let configuration = read.unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    let exports = configuration.exports.iter().map(config::Export::rules).collect();
    let policy = Policy::new(exports, configuration.policy_rules());
    Site {
        migration,
        text,
        configuration,
        policy,
    }
}

/// Translates files of `tests/sites`.
pub(crate) fn migration(system: System, files: &[&str]) -> Migration {
    let sites = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sites");
    let order = Order {
        files: files.iter().map(|file| sites.join(file)).collect(),
        ..Order::default()
    };
    system.migrate(&order, &Disk).expect("the files can be read")
}

impl Site {
    fn ask(&self, credential: &Credential, operation: Operation, path: &str) -> Decision {
        let request = Request {
            operation,
            path: LogicalPath::parse(path).expect("a path"),
            client_address: "192.0.2.1".parse().expect("an address"),
            now_s: NOW_S,
            size_bytes: None,
        };
        decide(&self.policy, Ok(credential), &request)
    }

    pub(crate) fn reads(&self, credential: &Credential, path: &str) -> bool {
        self.ask(credential, Operation::Read, path).refusal.is_none()
    }

    pub(crate) fn lists(&self, credential: &Credential, path: &str) -> bool {
        self.ask(credential, Operation::List, path).refusal.is_none()
    }

    pub(crate) fn writes(&self, credential: &Credential, path: &str) -> bool {
        self.ask(credential, Operation::Create, path).refusal.is_none()
    }

    pub(crate) fn deletes(&self, credential: &Credential, path: &str) -> bool {
        self.ask(credential, Operation::Delete, path).refusal.is_none()
    }

    /// The local user who reads a file.
    pub(crate) fn reader(&self, credential: &Credential, path: &str) -> Option<String> {
        let decision = self.ask(credential, Operation::Read, path);
        assert!(decision.refusal.is_none(), "{path}: {}", self.text);
        decision.user.map(|user| user.to_string())
    }

    /// The remark whose line or words have this text.
    pub(crate) fn remark(&self, text: &str) -> (Outcome, String) {
        remark(&self.migration, text)
    }
}

/// The remark whose line or words have this text.
pub(crate) fn remark(migration: &Migration, text: &str) -> (Outcome, String) {
    let mut remarks = migration.remarks.iter();
    let found = remarks.find(|remark| remark.line().contains(text));
    let found = found.unwrap_or_else(|| panic!("no remark has {text:?}: {}", all_remarks(migration)));
    (found.outcome, found.line())
}

/// All remarks, for messages of tests.
pub(crate) fn all_remarks(migration: &Migration) -> String {
    migration
        .remarks
        .iter()
        .map(|remark| format!("{}\n", remark.line()))
        .collect()
}

/// The holder of a certificate with attributes. `user`: what the maps of the site make of it.
pub(crate) fn certificate(dn: &str, fqans: &[&str], user: Option<&str>) -> Credential {
    let vos = fqans.iter().filter_map(|fqan| fqan.split('/').nth(1));
    Credential::Certificate(Box::new(VerifiedCertificate {
        principal: Principal {
            dn: Some(dn.to_owned()),
            vos: vos.map(str::to_owned).collect(),
            fqans: fqans.iter().map(|fqan| (*fqan).to_owned()).collect(),
            user: user.map(str::to_owned),
            ..Principal::default()
        },
        issuer: CertificateIssuer::default(),
        expires_s: NOW_S + 10,
        proxies: 1,
        is_limited: false,
        allows_proxies: true,
        attribute_faults: Vec::new(),
    }))
}

/// The holder of a token without scopes.
pub(crate) fn token(issuer: &str, subject: &str, groups: &[&str]) -> Credential {
    token_with(issuer, subject, groups, None)
}

/// The holder of a token that may read everything below a path.
pub(crate) fn reading_token(issuer: &str, path: &str) -> Credential {
    token_with(issuer, "s", &[], Some(path))
}

fn token_with(issuer: &str, subject: &str, groups: &[&str], path: Option<&str>) -> Credential {
    let grant = path.map(|path| Grant {
        except: Vec::new(),
        scopes: vec![Scope {
            activities: credentials::Activities::READ,
            path: LogicalPath::parse(path).expect("a path"),
            inside_only: false,
        }],
        expires_s: Some(NOW_S + 10),
        addresses: Vec::new(),
        max_upload_bytes: None,
        subject: None,
    });
    Credential::Token(Box::new(VerifiedToken {
        grant,
        principal: Principal {
            issuer: Some(issuer.to_owned()),
            subject: Some(subject.to_owned()),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Principal::default()
        },
        token_id: None,
        expires_s: NOW_S + 10,
        not_before_s: None,
        audiences: Vec::new(),
        text: None,
    }))
}
