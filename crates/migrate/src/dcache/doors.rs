//! The doors for WebDAV and XRootD: where they listen, what they show, and to whom.

use std::net::IpAddr;

use super::layout::{Cell, Layout, Value};
use crate::document::DocumentKind;
use crate::migration::Migration;
use crate::rights::plain_path;
use crate::source::Source;

/// A protocol of doors that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Webdav,
    Xrootd,
}

impl Protocol {
    pub(crate) const ALL: [Self; 2] = [Self::Webdav, Self::Xrootd];

    /// Its service in layouts, with which its settings begin.
    pub(crate) fn service(self) -> &'static str {
        match self {
            Self::Webdav => "webdav",
            Self::Xrootd => "xrootd",
        }
    }
}

/// What a door says of clients without an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Anonymous {
    None,
    /// They may read files, and not list directories.
    Unlisted,
    Read,
    Full,
}

/// A door.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) protocol: Protocol,
    /// The line of its section.
    pub(crate) source: Source,
    /// The directory that it shows as `/`.
    pub(crate) root: String,
    /// Directories that clients may read, in dCache's namespace.
    pub(crate) readable: Vec<String>,
    /// Directories that clients may change.
    pub(crate) writable: Vec<String>,
    pub(crate) anonymous: Anonymous,
    pub(crate) has_tls: bool,
    /// Whether clients may show certificates.
    pub(crate) takes_certificates: bool,
}

/// Settings as a door sees them.
struct Reader<'a> {
    layout: &'a Layout,
    cell: &'a Cell,
    prefix: &'static str,
}

impl Reader<'_> {
    /// The value of `prefix.name`. One that cannot be read is a remark.
    fn value(&self, name: &str, migration: &mut Migration) -> Option<Value> {
        let key = format!("{}.{name}", self.prefix);
        match self.layout.value(Some(self.cell), &key) {
            Ok(value) => value,
            Err(why) => {
                let words = format!("{key} cannot be read: {why}; the narrowest value was taken");
                migration.in_part(
                    &self.cell.source,
                    words,
                    "Write the value into the layout and try again",
                );
                None
            }
        }
    }

    fn text(&self, name: &str, migration: &mut Migration) -> String {
        self.value(name, migration).map(|value| value.text).unwrap_or_default()
    }

    fn is_true(&self, name: &str, migration: &mut Migration) -> bool {
        self.text(name, migration).eq_ignore_ascii_case("true")
    }

    /// Paths between colons. One that cannot be a path here is a remark.
    fn paths(&self, name: &str, migration: &mut Migration) -> Vec<String> {
        let Some(value) = self.value(name, migration) else {
            return Vec::new();
        };
        let source = value.source.unwrap_or_else(|| self.cell.source.clone());
        let mut paths = Vec::new();
        for path in value.text.split(':').map(str::trim).filter(|path| !path.is_empty()) {
            match plain_path(path) {
                Some(path) => paths.push(path),
                None => migration.in_part(
                    &source,
                    "a path cannot be used here and was left out",
                    "Export it by hand",
                ),
            }
        }
        paths
    }
}

/// Reads the doors. Each listens where it did, and its certificate becomes that of the server.
pub(crate) fn read(layout: &Layout, migration: &mut Migration) -> Vec<Door> {
    let mut doors = Vec::new();
    for protocol in Protocol::ALL {
        for cell in layout.services(protocol.service()) {
            let reader = Reader {
                layout,
                cell,
                prefix: protocol.service(),
            };
            listen(&reader, migration);
            let door = match protocol {
                Protocol::Webdav => webdav(&reader, migration),
                Protocol::Xrootd => xrootd(&reader, migration),
            };
            if door.has_tls {
                certificate(&reader, protocol, migration);
            }
            doors.push(door);
        }
    }
    if let Some(first) = doors
        .first()
        .filter(|_| !doors.iter().any(|door| door.takes_certificates))
    {
        let entry = migration.set(DocumentKind::Endpoint, "x509.client_certificates", "off", &first.source);
        entry.note = Some("No door takes certificates.".to_owned());
    }
    doors
}

fn listen(reader: &Reader<'_>, migration: &mut Migration) {
    let port = reader.value("net.port", migration);
    let host = reader.text("net.listen", migration);
    let source = port.as_ref().and_then(|value| value.source.clone());
    let source = source.unwrap_or_else(|| reader.cell.source.clone());
    let Some(port) = port.and_then(|value| value.text.trim().parse::<u16>().ok()) else {
        migration.in_part(
            &source,
            "the port cannot be read, and the door was left out of listen",
            "Add it to [server] listen",
        );
        return;
    };
    let address = match host.trim() {
        "any" | "" | "::" => format!("[::]:{port}"),
        host => match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => format!("{address}:{port}"),
            Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            Err(_) => {
                let words =
                    format!("the door listens on the host name {host}; this server listens on loopback instead");
                migration.in_part(&source, words, "Write the address of this name into [server] listen");
                format!("127.0.0.1:{port}")
            }
        },
    };
    migration.push(DocumentKind::Endpoint, "server.listen", address, &source);
}

fn webdav(reader: &Reader<'_>, migration: &mut Migration) -> Door {
    let readable = reader.paths("authz.allowed-paths", migration);
    let is_read_only = !reader.text("authz.readonly", migration).eq_ignore_ascii_case("false");
    let operations = reader.text("authz.anonymous-operations", migration);
    let may_list = reader.is_true("authz.anonymous-listing", migration);
    let demands = reader.text("authn.require-client-cert", migration);
    let demands_certificates = !matches!(demands.to_ascii_lowercase().as_str(), "" | "false");
    let anonymous = match (anonymous(&operations), may_list) {
        _ if demands_certificates => Anonymous::None,
        (Anonymous::None, _) => Anonymous::None,
        (_, false) => Anonymous::Unlisted,
        (operations, true) => operations,
    };
    // Only this word means clear text; what cannot be read is not taken for it.
    let has_tls = !reader.text("authn.protocol", migration).eq_ignore_ascii_case("http");
    Door {
        protocol: Protocol::Webdav,
        source: reader.cell.source.clone(),
        root: root(reader, migration),
        writable: if is_read_only { Vec::new() } else { readable.clone() },
        readable,
        anonymous,
        has_tls,
        takes_certificates: has_tls && reader.is_true("authn.accept-client-cert", migration),
    }
}

fn xrootd(reader: &Reader<'_>, migration: &mut Migration) -> Door {
    let plugins = reader.text("plugins", migration);
    let has = |plugin: &str| plugins.split(',').any(|one| one.trim() == plugin);
    let user = reader.text("authz.user", migration);
    // Without authentication, everyone acts as this user.
    let anonymous = match has("gplazma:none") && user == "nobody" {
        true => Anonymous::Read,
        false => Anonymous::None,
    };
    if has("gplazma:none") && user != "nobody" {
        let words = format!("clients without a credential act as {user} at this door; here they may do nothing");
        migration.in_part(
            &reader.cell.source,
            words,
            "Give rights to clients by their address (who = \"address:…\")",
        );
    }
    if has("authz:alice-token") {
        let words = "tokens of ALICE are not understood";
        migration.no_equivalent(
            &reader.cell.source,
            words,
            "Keep this door for ALICE, or use tokens of WLCG's profile",
        );
    }
    Door {
        protocol: Protocol::Xrootd,
        source: reader.cell.source.clone(),
        root: root(reader, migration),
        readable: reader.paths("authz.read-paths", migration),
        writable: reader.paths("authz.write-paths", migration),
        anonymous,
        has_tls: !reader.text("security.tls.mode", migration).eq_ignore_ascii_case("off"),
        takes_certificates: has("gplazma:gsi"),
    }
}

fn anonymous(operations: &str) -> Anonymous {
    match operations.to_ascii_uppercase().as_str() {
        "READONLY" => Anonymous::Read,
        "FULL" => Anonymous::Full,
        _ => Anonymous::None,
    }
}

/// The directory that the door shows; one that cannot be read shows nothing that we know.
fn root(reader: &Reader<'_>, migration: &mut Migration) -> String {
    let root = reader.text("root", migration);
    plain_path(&root).unwrap_or(root)
}

fn certificate(reader: &Reader<'_>, protocol: Protocol, migration: &mut Migration) {
    let prefix = match protocol {
        Protocol::Webdav => "authn",
        Protocol::Xrootd => "security.tls",
    };
    for (name, key) in [("hostcert.cert", "server.certificate"), ("hostcert.key", "server.key")] {
        let Some(value) = reader.value(&format!("{prefix}.{name}"), migration) else {
            continue;
        };
        let source = value.source.unwrap_or_else(|| reader.cell.source.clone());
        let known = migration.document(DocumentKind::Endpoint).section("server");
        let known = known
            .get(key.trim_start_matches("server."))
            .and_then(toml::Value::as_str);
        match known.map(|known| known == value.text) {
            None => {
                migration.set(DocumentKind::Endpoint, key, value.text, &source);
            }
            Some(true) => {}
            Some(false) => {
                let words = "another door has another certificate, and this server has one";
                migration.in_part(
                    &source,
                    words,
                    "Run a second instance for this door (crossload@.service)",
                );
            }
        }
    }
}

/// TLS and authentication of the XRootD protocol, as strict as the strictest door.
pub(crate) fn xroot_protocol(layout: &Layout, migration: &mut Migration) {
    let mut strictest: Option<(u8, &'static str, Source)> = None;
    let mut methods: Option<(Vec<&'static str>, Source)> = None;
    for cell in layout.services("xrootd") {
        let reader = Reader {
            layout,
            cell,
            prefix: "xrootd",
        };
        let mode = reader.text("security.tls.mode", migration).to_ascii_uppercase();
        let requires_login = reader.is_true("security.tls.require-login", migration);
        let requires_session = reader.is_true("security.tls.require-session", migration);
        let requires_data = reader.is_true("security.tls.require-data", migration);
        let (rank, word) = match mode.as_str() {
            "OFF" => (0, "none"),
            "OPTIONAL" => (1, "optional"),
            _ if requires_data => (4, "data"),
            _ if requires_session && !requires_login => (2, "session"),
            _ => (3, "login"),
        };
        if strictest.as_ref().is_none_or(|known| known.0 < rank) {
            strictest = Some((rank, word, cell.source.clone()));
        }
        let of_door = authentication(&reader, migration);
        methods = Some(match methods {
            None => (of_door, cell.source.clone()),
            Some((known, source)) => (known.into_iter().filter(|one| of_door.contains(one)).collect(), source),
        });
    }
    match strictest {
        Some((_, word, source)) => {
            migration.set(DocumentKind::Endpoint, "xroot.tls", word, &source);
        }
        None => {
            let source = Source::of_file("the layout");
            let entry = migration.set(DocumentKind::Endpoint, "xroot.enabled", false, &source);
            entry.note = Some("There is no door for XRootD.".to_owned());
        }
    }
    if let Some((methods, source)) = methods {
        migration.set(DocumentKind::Endpoint, "xroot.authentication", methods, &source);
    }
}

/// The methods of a door that we have, in its order. Whether our server can offer them is decided
/// later, from certificate and trust directory.
fn authentication(reader: &Reader<'_>, migration: &mut Migration) -> Vec<&'static str> {
    let mut methods = Vec::new();
    for plugin in reader.text("plugins", migration).split(',') {
        match plugin.trim() {
            "gplazma:gsi" => methods.push("gsi"),
            "gplazma:ztn" => methods.push("token"),
            // In XRootD a client that shows nothing says its user name.
            "gplazma:none" => methods.push("unix"),
            _ => {}
        }
    }
    methods
}
