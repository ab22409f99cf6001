//! Settings of the whole service: `application.yml`, and environment variables.

use std::net::IpAddr;

use crate::document::DocumentKind;
use crate::environment::Variable;
use crate::limits::{DEPTH_MAX, VALUE_BYTES_MAX};
use crate::migration::Migration;
use crate::source::Source;
use crate::yaml::{Node, relaxed};

/// A file of Spring, and the documents in it.
pub(crate) struct Application {
    pub(crate) file: String,
    pub(crate) documents: Vec<Node>,
}

/// Settings of all files and variables.
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) applications: Vec<Application>,
    pub(crate) variables: Vec<Variable>,
}

/// A value and where it is set.
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) source: Source,
}

/// Keys that are read, by their paths, with the variables that StoRM's own defaults name.
const KEYS: &[(&str, &str)] = &[
    ("server.address", "STORM_WEBDAV_SERVER_ADDRESS"),
    ("storm.connector.port", "STORM_WEBDAV_HTTP_PORT"),
    ("storm.connector.securePort", "STORM_WEBDAV_HTTPS_PORT"),
    ("storm.tls.certificatePath", "STORM_WEBDAV_CERTIFICATE_PATH"),
    ("storm.tls.privateKeyPath", "STORM_WEBDAV_PRIVATE_KEY_PATH"),
    ("storm.tls.trustAnchorsDir", "STORM_WEBDAV_TRUST_ANCHORS_DIR"),
    ("storm.tls.requireClientCert", "STORM_WEBDAV_REQUIRE_CLIENT_CERT"),
    ("storm.voms.trust-store.dir", "STORM_WEBDAV_VOMS_TRUST_STORE_DIR"),
    ("storm.voMapFiles.enabled", "STORM_WEBDAV_VO_MAP_FILES_ENABLE"),
    ("storm.authz-server.enabled", "STORM_WEBDAV_AUTHZ_SERVER_ENABLE"),
    ("storm.authz.disabled", ""),
    ("storm.redirector.enabled", ""),
    ("storm.scitags.enabled", "STORM_WEBDAV_SCITAGS_ENABLED"),
    ("storm.nginx.enabled", "STORM_WEBDAV_NGINX_ENABLED"),
    ("storm.hostnames", "STORM_WEBDAV_HOSTNAME_0"),
    ("tpc.max-connections", "STORM_WEBDAV_TPC_MAX_CONNECTIONS"),
    ("tpc.verify-checksum", "STORM_WEBDAV_TPC_VERIFY_CHECKSUM"),
    ("tpc.report-delay-secs", "STORM_WEBDAV_TPC_REPORT_DELAY_SECS"),
];

impl Service {
    /// The value of a key: that of the last file that has it, else that of its variable. `None`: it
    /// is not set, or refers to something that is not here.
    pub(crate) fn value(&self, path: &str) -> Option<Found> {
        let mut nodes = self.applications.iter().flat_map(|application| {
            let documents = application.documents.iter();
            documents.filter_map(move |document| Some((application, document.get(path)?)))
        });
        if let Some((application, node)) = nodes.next_back() {
            let first = node.items().into_iter().find_map(Node::text)?;
            let text = self.resolve(first, 0)?;
            let source = Source::new(&application.file, node.line, &format!("{path}: {text}"));
            return Some(Found { text, source });
        }
        let (_, variable) = KEYS.iter().find(|(key, _)| *key == path)?;
        let variable = self.variable(variable)?;
        Some(Found {
            text: variable.value.clone(),
            source: variable.source.clone(),
        })
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, path: &str) -> bool {
        self.value(path)
            .is_some_and(|value| value.text.eq_ignore_ascii_case("true"))
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rfind(|variable| variable.name == name)
    }

    /// Replaces `${NAME:default}`.
    pub(crate) fn resolve(&self, text: &str, depth: usize) -> Option<String> {
        let Some(begin) = text.find("${") else {
            return Some(text.to_owned());
        };
        let inner = &text[begin + 2..];
        let end = inner.rfind('}')?;
        let (name, default) = match inner[..end].split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        let value = match (self.variable(name), default) {
            (Some(variable), _) => variable.value.clone(),
            (None, Some(default)) if depth < DEPTH_MAX => self.resolve(default, depth + 1)?,
            _ => return None,
        };
        let whole = format!("{}{value}{}", &text[..begin], &inner[end + 1..]);
        (whole.len() <= VALUE_BYTES_MAX).then_some(whole)
    }

    /// All nodes with a path, from every file.
    pub(crate) fn nodes(&self, path: &str) -> Vec<(&Application, &Node)> {
        let mut nodes = Vec::new();
        for application in &self.applications {
            let documents = application.documents.iter();
            nodes.extend(
                documents
                    .filter_map(|document| document.get(path))
                    .map(|node| (application, node)),
            );
        }
        nodes
    }
}

/// Writes what concerns the whole service.
pub(crate) fn write(service: &Service, migration: &mut Migration) {
    listen(service, migration);
    for (path, key, default) in [
        (
            "storm.tls.certificatePath",
            "server.certificate",
            "/etc/grid-security/storm-webdav/hostcert.pem",
        ),
        (
            "storm.tls.privateKeyPath",
            "server.key",
            "/etc/grid-security/storm-webdav/hostkey.pem",
        ),
        (
            "storm.tls.trustAnchorsDir",
            "x509.trust_directory",
            "/etc/grid-security/certificates",
        ),
        (
            "storm.voms.trust-store.dir",
            "x509.voms_directory",
            "/etc/grid-security/vomsdir",
        ),
    ] {
        let found = service.value(path);
        let source = found.as_ref().map_or_else(defaults, |found| found.source.clone());
        let value = found.map_or_else(|| default.to_owned(), |found| found.text);
        migration.set(DocumentKind::Endpoint, key, value, &source);
    }
    let entry = migration.set(DocumentKind::Endpoint, "xroot.enabled", false, &defaults());
    entry.note = Some("StoRM WebDAV has no XRootD protocol.".to_owned());
    let entry = migration.set(DocumentKind::Endpoint, "users.switch", "never", &defaults());
    entry.note = Some(
        "All files belong to the account of the server, as with StoRM: run it as the owner of the areas \
         (User= in a drop-in of systemd)."
            .to_owned(),
    );
    copies(service, migration);
    switches(service, migration);
    others(service, migration);
}

fn defaults() -> Source {
    Source::of_file("StoRM WebDAV's defaults")
}

fn listen(service: &Service, migration: &mut Migration) {
    let address = service.value("server.address");
    let host = address.as_ref().map_or("0.0.0.0", |found| found.text.trim());
    let parsed = host.parse::<IpAddr>();
    if let (Err(_), Some(found)) = (&parsed, &address) {
        let words = format!("{host} is no address; this server listens on loopback instead");
        migration.in_part(
            &found.source,
            words,
            "Write the address of this name into [server] listen",
        );
    }
    for (path, default) in [("storm.connector.securePort", "8443"), ("storm.connector.port", "8085")] {
        let found = service.value(path);
        let source = found.as_ref().map_or_else(defaults, |found| found.source.clone());
        let text = found.map_or_else(|| default.to_owned(), |found| found.text);
        let Ok(port) = text.trim().parse::<u16>() else {
            migration.in_part(
                &source,
                "the port cannot be read, and is left out",
                "Add it to [server] listen",
            );
            continue;
        };
        let listen = match parsed {
            Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            Ok(IpAddr::V4(address)) => format!("{address}:{port}"),
            Err(_) => format!("127.0.0.1:{port}"),
        };
        migration.push(DocumentKind::Endpoint, "server.listen", listen, &source);
    }
    let name = service.value("storm.hostnames").filter(|found| is_host(&found.text));
    if let Some(name) = name {
        let port = service
            .value("storm.connector.securePort")
            .map_or_else(|| "8443".to_owned(), |port| port.text);
        let url = format!("https://{}:{port}", name.text);
        migration.set(DocumentKind::Endpoint, "server.name", url, &name.source);
    }
}

fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain) && text.parse::<IpAddr>().is_err()
}

fn copies(service: &Service, migration: &mut Migration) {
    if let Some(found) = service
        .value("tpc.verify-checksum")
        .filter(|found| found.text == "true")
    {
        migration.set(DocumentKind::Endpoint, "tpc.verify", "required", &found.source);
    }
    for (path, key, unit) in [
        ("tpc.max-connections", "limits.transfers", ""),
        ("tpc.report-delay-secs", "limits.marker_period", "s"),
    ] {
        let Some(found) = service.value(path) else { continue };
        match found.text.parse::<u32>() {
            Ok(number) if number > 0 && unit.is_empty() => {
                migration.set(DocumentKind::Endpoint, key, i64::from(number), &found.source);
            }
            Ok(number) if number > 0 => {
                migration.set(DocumentKind::Endpoint, key, format!("{number}{unit}"), &found.source);
            }
            _ => migration.in_part(&found.source, "the number cannot be read", "Set it by hand"),
        }
    }
}

fn switches(service: &Service, migration: &mut Migration) {
    let on = |path: &str| {
        service
            .value(path)
            .filter(|found| found.text.eq_ignore_ascii_case("true"))
    };
    if let Some(found) = on("storm.authz.disabled") {
        let words = "authorization is off there; here clients have the rights of areas and policies only";
        migration.no_equivalent(
            &found.source,
            words,
            "Set anonymous in [[export]] if everyone should have access",
        );
    }
    if let Some(found) = on("storm.authz-server.enabled") {
        let file = "/var/lib/crossload/macaroon-secret";
        let entry = migration.set(DocumentKind::Endpoint, "macaroons.secret_file", file, &found.source);
        entry.note = Some("Made at the first start; tokens of StoRM's own issuer are not valid here.".to_owned());
        let words = "macaroons are in place of tokens of its own, at the same URLs";
        migration.in_part(&found.source, words, "Let clients ask for new ones");
    }
    if let Some(found) = on("storm.redirector.enabled") {
        let words = "payload is served by the server itself";
        migration.no_equivalent(&found.source, words, "See [hand_over] and [redirector]");
    }
    if let Some(found) = on("storm.scitags.enabled") {
        let words = "marking of packets needs a collector here";
        migration.no_equivalent(&found.source, words, "Set [scitags] destinations and [[flow]]");
    }
    if let Some(found) = on("storm.nginx.enabled") {
        let words = "the server needs no proxy in front, and takes no identities from one";
        migration.no_equivalent(&found.source, words, "Let clients connect to this server");
    }
    if let Some(found) = on("storm.tls.requireClientCert") {
        let words = "certificates of clients are asked for and not required in TLS; rights are the same";
        migration.in_part(&found.source, words, "Nothing to do: rules name who may do what");
    }
}

/// A remark for each key and variable that is not read.
fn others(service: &Service, migration: &mut Migration) {
    const KEPT: &[&str] = &[
        "oauth.issuers",
        "storm.authz.policies",
        "storm.voMapFiles.configDir",
        "storm.sa.configDir",
    ];
    let read: Vec<String> = KEYS
        .iter()
        .map(|(path, _)| relaxed(path))
        .chain(KEPT.iter().map(|path| relaxed(path)))
        .collect();
    for application in &service.applications {
        let leaves = application.documents.iter().flat_map(Node::leaves);
        for (path, node) in leaves {
            let is_secret = relaxed(&path).contains("secret") || relaxed(&path).contains("password");
            let source = match is_secret {
                true => Source::hidden(&application.file, node.line, &path),
                false => Source::new(
                    &application.file,
                    node.line,
                    &format!("{path}: {}", node.text().unwrap_or("…")),
                ),
            };
            let plain = relaxed(&path);
            match read
                .iter()
                .any(|known| *known == plain || plain.starts_with(&format!("{known}.")))
            {
                true => migration.taken(&source, "read"),
                false => setting(&plain, &source, migration),
            }
        }
    }
    for variable in &service.variables {
        let is_read = KEYS.iter().any(|(_, name)| *name == variable.name);
        match is_read {
            true => migration.taken(&variable.source, "read"),
            false => {
                let plain = relaxed(&variable.name.replacen("STORM_WEBDAV_", "", 1));
                setting(&plain, &variable.source, migration);
            }
        }
    }
}

fn setting(plain: &str, source: &Source, migration: &mut Migration) {
    let has = |words: &[&str]| words.iter().any(|word| plain.contains(word));
    if has(&[
        "jvm",
        "jar",
        "jetty",
        "conscrypt",
        "http2",
        "buffer",
        "thread",
        "acceptors",
        "selectors",
        "refresh",
    ]) {
        return migration.not_needed(source, "it is about the program itself");
    }
    if has(&[
        "log",
        "user",
        "idle",
        "queuesize",
        "connections",
        "shutdown",
        "cache",
        "management",
        "banner",
        "session",
    ]) {
        return migration.not_needed(
            source,
            "our own settings have defaults for this (docs/configuration.md)",
        );
    }
    if has(&["tape"]) {
        let words = "this server has no tape system";
        return migration.no_equivalent(source, words, "Keep StoRM in front of tape");
    }
    if has(&["secret"]) {
        return migration.not_needed(source, "its secret is not used; this server makes its own");
    }
    migration.no_equivalent(source, "this setting has no equivalent", "See docs/configuration.md");
}
