//! What is fuzzed: one function per decoder, in a table, so that the same functions run under
//! libFuzzer (nightly) and in `cargo test` (stable), which replays the corpus and mutates it for a
//! bounded time.
//!
//! A target gets any bytes and must not panic, whatever they are. It asserts what must hold for
//! *every* input: that a decoder consumes no more than it was given, that cutting the input
//! differently changes nothing, that what was accepted can be written and read again as the same. A
//! target that asserts nothing only finds crashes.
//!
//! To add one:
//! 1. write `fn <name>(data: &[u8])` in the file of its crate here, and a line for it in
//!    [`TARGETS`];
//! 2. put a few small valid and invalid inputs into `fuzz/corpus/<name>/`, named for what they
//!    show;
//! 3. run `FUZZ_SECONDS=60 ./dev fuzz <name>`. An input that breaks it is left in
//!    `fuzz/artifacts/<name>/`: move it into the corpus together with the correction, so that it is
//!    tried for ever.
#![forbid(unsafe_code)]

mod cache;
mod cluster;
mod cluster_bus;
mod credentials;
mod delegation;
mod gsi;
mod gsi_login;
mod http_wire;
mod migrate_xrootd;
mod monitoring;
pub mod mutate;
mod other_systems;
mod paths;
mod policy;
mod queue;
mod records;
mod s3;
mod stomp;
mod tokens;
mod x509;
mod xroot_session;
mod xroot_wire;

/// A decoder and what helps to reach its depths.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs it on one input; panics when a property does not hold.
    pub run: fn(&[u8]),
    /// Pieces of its language, which blind mutation would take long to find.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "authdb",
        run: policy::authdb,
        words: policy::AUTHDB_WORDS,
    },
    Target {
        name: "authority-names",
        run: x509::authority_names,
        words: x509::NAME_WORDS,
    },
    Target {
        name: "cached-file",
        run: cache::header,
        words: cache::WORDS,
    },
    Target {
        name: "capability",
        run: credentials::capability,
        words: &["AQ", "A", "-", "_", "="],
    },
    Target {
        name: "caveat",
        run: credentials::caveat,
        words: credentials::CAVEAT_WORDS,
    },
    Target {
        name: "certificate",
        run: x509::certificate,
        words: x509::DER_WORDS,
    },
    Target {
        name: "certificate-chain",
        run: x509::certificate_chain,
        words: x509::PEM_WORDS,
    },
    Target {
        name: "certificate-request",
        run: x509::certificate_request,
        words: x509::DER_WORDS,
    },
    Target {
        name: "cluster-announcement",
        run: cluster_bus::announcement,
        words: cluster_bus::ANNOUNCEMENT_WORDS,
    },
    Target {
        name: "cluster-message",
        run: cluster_bus::message,
        words: cluster_bus::MESSAGE_WORDS,
    },
    Target {
        name: "delegation",
        run: delegation::delegation,
        words: delegation::SOAP_WORDS,
    },
    Target {
        name: "duration",
        run: credentials::duration,
        words: credentials::DURATION_WORDS,
    },
    Target {
        name: "fts-submission",
        run: queue::submission,
        words: queue::SUBMISSION_WORDS,
    },
    Target {
        name: "gsi-agreement",
        run: gsi::agreement,
        words: gsi::AGREEMENT_WORDS,
    },
    Target {
        name: "gsi-key",
        run: gsi::key,
        words: gsi::KEY_WORDS,
    },
    Target {
        name: "gsi-login",
        run: gsi_login::login,
        words: gsi::MESSAGE_WORDS,
    },
    Target {
        name: "gsi-message",
        run: gsi::message,
        words: gsi::MESSAGE_WORDS,
    },
    Target {
        name: "http-body-chunked",
        run: http_wire::body_chunked,
        words: http_wire::CHUNK_WORDS,
    },
    Target {
        name: "http-copy-request",
        run: http_wire::copy_request,
        words: http_wire::COPY_WORDS,
    },
    Target {
        name: "http-digest-headers",
        run: http_wire::digest_headers,
        words: http_wire::DIGEST_WORDS,
    },
    Target {
        name: "http-if",
        run: http_wire::state_conditions,
        words: http_wire::STATE_WORDS,
    },
    Target {
        name: "http-lock",
        run: http_wire::lock,
        words: http_wire::LOCK_WORDS,
    },
    Target {
        name: "http-markers",
        run: http_wire::markers,
        words: http_wire::MARKER_WORDS,
    },
    Target {
        name: "http-multipart",
        run: http_wire::multipart,
        words: http_wire::MULTIPART_WORDS,
    },
    Target {
        name: "http-multistatus",
        run: http_wire::multistatus,
        words: http_wire::XML_WORDS,
    },
    Target {
        name: "http-propfind",
        run: http_wire::propfind,
        words: http_wire::XML_WORDS,
    },
    Target {
        name: "http-proppatch",
        run: http_wire::proppatch,
        words: http_wire::XML_WORDS,
    },
    Target {
        name: "http-ranges",
        run: http_wire::ranges,
        words: http_wire::RANGE_WORDS,
    },
    Target {
        name: "http-request-head",
        run: http_wire::request_head,
        words: http_wire::HEAD_WORDS,
    },
    Target {
        name: "http-response-head",
        run: http_wire::response_head,
        words: http_wire::HEAD_WORDS,
    },
    Target {
        name: "issuer-document",
        run: tokens::issuer_document,
        words: tokens::DOCUMENT_WORDS,
    },
    Target {
        name: "key-set",
        run: tokens::key_set,
        words: tokens::KEY_WORDS,
    },
    Target {
        name: "location",
        run: paths::location,
        words: paths::LOCATION_WORDS,
    },
    Target {
        name: "macaroon",
        run: credentials::macaroon,
        words: credentials::MACAROON_WORDS,
    },
    Target {
        name: "macaroon-grant",
        run: credentials::macaroon_grant,
        words: credentials::CAVEAT_WORDS,
    },
    Target {
        name: "macaroon-request",
        run: credentials::macaroon_request,
        words: credentials::REQUEST_WORDS,
    },
    Target {
        name: "migrate-dcache",
        run: other_systems::dcache,
        words: other_systems::DCACHE_WORDS,
    },
    Target {
        name: "migrate-fts",
        run: other_systems::fts,
        words: other_systems::FTS_WORDS,
    },
    Target {
        name: "migrate-fts-settings",
        run: other_systems::fts_settings,
        words: other_systems::FTS_WORDS,
    },
    Target {
        name: "migrate-gfal",
        run: other_systems::gfal,
        words: other_systems::GFAL_WORDS,
    },
    Target {
        name: "migrate-storm",
        run: other_systems::storm,
        words: other_systems::STORM_WORDS,
    },
    Target {
        name: "monitoring-packet",
        run: monitoring::packet,
        words: monitoring::PACKET_WORDS,
    },
    Target {
        name: "name-maps",
        run: x509::name_maps,
        words: x509::NAME_WORDS,
    },
    Target {
        name: "record",
        run: records::record,
        words: records::WORDS,
    },
    Target {
        name: "revocation-list",
        run: x509::revocation_list,
        words: x509::DER_WORDS,
    },
    Target {
        name: "rule-words",
        run: policy::rule_words,
        words: policy::RULE_WORDS,
    },
    Target {
        name: "s3-answer",
        run: s3::answer,
        words: s3::ANSWER_WORDS,
    },
    Target {
        name: "s3-keys",
        run: s3::keys,
        words: s3::KEYS_WORDS,
    },
    Target {
        name: "s3-place",
        run: s3::place,
        words: s3::PLACE_WORDS,
    },
    Target {
        name: "stomp-frame",
        run: stomp::frame,
        words: stomp::FRAME_WORDS,
    },
    Target {
        name: "token",
        run: tokens::token,
        words: tokens::TOKEN_WORDS,
    },
    Target {
        name: "token-claims",
        run: tokens::token_claims,
        words: tokens::CLAIM_WORDS,
    },
    Target {
        name: "token-files",
        run: tokens::token_files,
        words: tokens::FILE_WORDS,
    },
    Target {
        name: "token-scope",
        run: tokens::token_scope,
        words: tokens::CLAIM_WORDS,
    },
    Target {
        name: "url-path",
        run: paths::url_path,
        words: paths::PATH_WORDS,
    },
    Target {
        name: "voms-attributes",
        run: x509::voms_attributes,
        words: x509::DER_WORDS,
    },
    Target {
        name: "voms-servers",
        run: x509::voms_servers,
        words: x509::NAME_WORDS,
    },
    Target {
        name: "xroot-body",
        run: xroot_wire::body,
        words: xroot_wire::BODY_WORDS,
    },
    Target {
        name: "xroot-cgi",
        run: xroot_wire::cgi,
        words: xroot_wire::CGI_WORDS,
    },
    Target {
        name: "xroot-cluster",
        run: cluster::stream,
        words: cluster::CLUSTER_WORDS,
    },
    Target {
        name: "xroot-connection-state",
        run: xroot_session::connection_state,
        words: xroot_wire::FRAME_WORDS,
    },
    Target {
        name: "xroot-credential",
        run: xroot_session::credential,
        words: xroot_session::CREDENTIAL_WORDS,
    },
    Target {
        name: "xroot-handshake",
        run: xroot_session::handshake,
        words: xroot_wire::FRAME_WORDS,
    },
    Target {
        name: "xroot-listing",
        run: xroot_wire::listing,
        words: xroot_wire::LISTING_WORDS,
    },
    Target {
        name: "xroot-pages",
        run: xroot_wire::page_units,
        words: xroot_wire::PAGE_WORDS,
    },
    Target {
        name: "xroot-request",
        run: xroot_wire::request,
        words: xroot_wire::REQUEST_WORDS,
    },
    Target {
        name: "xroot-response",
        run: xroot_wire::response,
        words: xroot_wire::FRAME_WORDS,
    },
    Target {
        name: "xroot-vector-answer",
        run: xroot_wire::vector_answer,
        words: xroot_wire::PAGE_WORDS,
    },
    Target {
        name: "xrootd-configuration",
        run: migrate_xrootd::configuration,
        words: migrate_xrootd::WORDS,
    },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs the target `name` on `data`.
///
/// # Panics
/// When there is no such target, and when the input breaks one of the target's properties.
pub fn run(name: &str, data: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("no fuzz target is called {name}"));
    (target.run)(data);
}
