//! What the directives say, where several of them make one key of ours.

use std::collections::BTreeMap;

use crate::document::{DocumentKind, Entry};
use crate::files::Files;
use crate::migration::Migration;
use crate::source::Source;
use toml::Value;

/// A value with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The value.
    pub(crate) value: String,
    /// Its line.
    pub(crate) source: Source,
}

/// An exported path.
#[derive(Clone, Debug)]
pub(crate) struct ExportFact {
    /// The path, without a slash at its end.
    pub(crate) path: String,
    /// Whether it is exported: lines for disks may be about other paths, too.
    pub(crate) is_exported: bool,
    /// Whether it can be changed, if that is said.
    pub(crate) is_read_only: Option<bool>,
    /// Its options about tape.
    pub(crate) tape: Vec<String>,
    /// Its line.
    pub(crate) source: Source,
}

/// A method by which sessions authenticate, and its options.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    /// `gsi`, `ztn`, …
    pub(crate) name: String,
    /// Its line.
    pub(crate) source: Source,
}

/// Which hosts use which methods.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// A pattern of hosts.
    pub(crate) hosts: String,
    /// The methods; `none` alone for no authentication.
    pub(crate) methods: Vec<String>,
    /// Its line.
    pub(crate) source: Source,
}

impl Binding {
    /// Whether these hosts must show more than a name or an address.
    pub(crate) fn is_strict(&self) -> bool {
        !self.methods.iter().any(|method| is_open(method))
    }
}

/// Whether clients choose what they say by a method: `none`, their name, their address.
pub(crate) fn is_open(method: &str) -> bool {
    matches!(method, "none" | "unix" | "host")
}

/// A bucket of the S3 plug-in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bucket {
    /// Its directives by name.
    pub(crate) keys: BTreeMap<String, Named>,
}

/// The part of a server in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has files, or none was said.
    #[default]
    Server,
    /// It sends clients to others.
    Manager,
}

/// What was read so far.
pub(crate) struct Facts<'a> {
    /// Access to files that are named.
    pub(crate) files: &'a dyn Files,
    /// The first file, as the source of what follows from what is missing.
    pub(crate) main: Source,
    /// The result.
    pub(crate) migration: Migration,
    pub(crate) exports: Vec<ExportFact>,
    /// Whether exports are read-only unless they say otherwise (`oss.defaults`).
    pub(crate) default_read_only: bool,
    pub(crate) local_root: Option<Named>,
    pub(crate) role: Role,
    pub(crate) managers: Vec<Named>,
    /// Hosts whose servers may join (`cms.allow`).
    pub(crate) allowed_nodes: Vec<Named>,
    pub(crate) root_port: Option<Named>,
    pub(crate) http_ports: Vec<Named>,
    /// The line that loads HTTP.
    pub(crate) http: Option<Source>,
    /// Restrictions on who may connect (`xrd.allow`).
    pub(crate) allowed_clients: Vec<Named>,
    /// Certificate and key by rank: those of `xrd.tls`, of `http`, of `gsi`.
    pub(crate) certificates: BTreeMap<u8, (Named, Option<Named>)>,
    /// For what TLS is demanded so far.
    pub(crate) demanded_tls: Vec<String>,
    pub(crate) methods: Vec<Method>,
    pub(crate) bindings: Vec<Binding>,
    /// Lines that refuse clients with a valid certificate, such as those without a mapping.
    pub(crate) strict_logins: Vec<Source>,
    /// Whether lines may be missing.
    pub(crate) is_incomplete: bool,
    /// `ofs.authorize` in a branch that does not hold.
    pub(crate) authorize_elsewhere: Option<Source>,
    /// A demand for authentication in such a branch.
    pub(crate) methods_elsewhere: Option<Source>,
    /// `ofs.authorize`.
    pub(crate) authorize: Option<Source>,
    pub(crate) authdb: Option<Named>,
    /// The character that stands for a space in names (`acc.encoding`).
    pub(crate) space: Option<char>,
    pub(crate) is_path_encoded: bool,
    pub(crate) scitokens: Option<Named>,
    /// The issuers that were written.
    pub(crate) issuers: Vec<String>,
    /// Whether clients without a macaroon or another token may do nothing.
    pub(crate) macaroon_demanded: bool,
    /// The line of `ofs.authlib` without `++`, which takes the place of what was loaded.
    pub(crate) authorisation: Option<Source>,
    /// What decides rights, and is not ours.
    pub(crate) foreign_rights: Vec<Named>,
    /// Whether it is asked in place of the `authdb`.
    pub(crate) is_authdb_replaced: bool,
    /// The library of macaroons.
    pub(crate) macaroons: Option<Source>,
    pub(crate) macaroon_secret: Option<Named>,
    /// Whether files belong to the mapped users (`libXrdMultiuser`).
    pub(crate) multiuser: Option<Source>,
    /// Lines that map credentials to local users.
    pub(crate) mappings: Vec<Source>,
    /// Storage that is not ours: where its files are is unknown.
    pub(crate) foreign: Option<Source>,
    pub(crate) origin: Option<Named>,
    pub(crate) permitted: Vec<Named>,
    /// The cache library.
    pub(crate) cache: Option<Source>,
    /// Directories of spaces.
    pub(crate) spaces: BTreeMap<String, Vec<Named>>,
    pub(crate) cache_space: Option<Named>,
    pub(crate) cache_size: Option<Named>,
    pub(crate) prefetch: Option<Named>,
    pub(crate) block_bytes: u64,
    pub(crate) proxy_certificate: Option<Named>,
    pub(crate) token_file: Option<Named>,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) reserve: Option<Named>,
}

/// The block of XRootD's cache, if none is given, in bytes.
const BLOCK_BYTES: u64 = 128 << 10;

impl<'a> Facts<'a> {
    pub(crate) fn new(main: &str, files: &'a dyn Files) -> Self {
        Self {
            files,
            main: Source::of_file(main),
            migration: Migration::default(),
            exports: Vec::new(),
            default_read_only: false,
            local_root: None,
            role: Role::default(),
            managers: Vec::new(),
            allowed_nodes: Vec::new(),
            root_port: None,
            http_ports: Vec::new(),
            http: None,
            allowed_clients: Vec::new(),
            certificates: BTreeMap::new(),
            demanded_tls: Vec::new(),
            methods: Vec::new(),
            bindings: Vec::new(),
            strict_logins: Vec::new(),
            is_incomplete: false,
            authorize_elsewhere: None,
            methods_elsewhere: None,
            authorize: None,
            authdb: None,
            space: None,
            is_path_encoded: false,
            scitokens: None,
            issuers: Vec::new(),
            macaroon_demanded: false,
            authorisation: None,
            foreign_rights: Vec::new(),
            is_authdb_replaced: false,
            macaroons: None,
            macaroon_secret: None,
            multiuser: None,
            mappings: Vec::new(),
            foreign: None,
            origin: None,
            permitted: Vec::new(),
            cache: None,
            spaces: BTreeMap::new(),
            cache_space: None,
            cache_size: None,
            prefetch: None,
            block_bytes: BLOCK_BYTES,
            proxy_certificate: None,
            token_file: None,
            buckets: Vec::new(),
            reserve: None,
        }
    }

    /// Sets a key of the endpoint: `place` is `section.key`.
    pub(crate) fn set(&mut self, place: &str, value: impl Into<Value>, source: &Source) -> &mut Entry {
        self.migration.set(DocumentKind::Endpoint, place, value, source)
    }

    /// Sets a key, and notes the line as taken over.
    pub(crate) fn take_as(&mut self, place: &str, value: impl Into<Value>, source: &Source) {
        self.set(place, value, source);
        self.migration.taken(source, format!("is {}", in_brackets(place)));
    }

    /// Adds an item to a list, and notes the line as taken over.
    pub(crate) fn add_to(&mut self, place: &str, item: impl Into<Value>, source: &Source) {
        self.migration.push(DocumentKind::Endpoint, place, item, source);
        self.migration.taken(source, format!("is {}", in_brackets(place)));
    }

    /// Keeps a value of which the last line counts.
    pub(crate) fn keep(&mut self, slot: impl FnOnce(&mut Self) -> &mut Option<Named>, value: Named) {
        if let Some(earlier) = slot(self).replace(value) {
            self.migration.not_needed(&earlier.source, "a later line replaces it");
        }
    }

    /// The value of a key of the endpoint.
    pub(crate) fn get(&self, place: &str) -> Option<&Value> {
        let (section, key) = place.split_once('.')?;
        self.migration.find(DocumentKind::Endpoint)?.find(section)?.get(key)
    }

    /// Whether files are on another server.
    pub(crate) fn is_proxy(&self) -> bool {
        self.origin.is_some()
    }
}

/// `[section] key` for `section.key`.
pub(crate) fn in_brackets(place: &str) -> String {
    match place.split_once('.') {
        Some((section, key)) => format!("[{section}] {key}"),
        None => place.to_owned(),
    }
}

impl Named {
    pub(crate) fn new(value: &str, source: &Source) -> Self {
        Self {
            value: value.to_owned(),
            source: source.clone(),
        }
    }
}
