//! Conformance: what the tests in `tests/` share. They start the real binary and talk to it with
//! the programs that people use (curl, gfal2, davix, rclone, xrdcp, xrdfs, XRootD's Python client,
//! uproot, Chromium), with Debian's XRootD as the peer, and with sockets that misbehave.
//!
//! With `CONFORMANCE_SERVER=xrootd` the tests that do not need anything of ours run against XRootD
//! instead: what fails there too is a fault of the test. Those of the XRootD protocol always do
//! both, XRootD first ([`Site::compare`]). Nothing here uses code of the server: checksums and
//! requests are made independently, so that an error cannot cancel itself out.
#![forbid(unsafe_code)]

mod browser;
mod client;
mod curl;
mod endpoint;
mod files;
mod lab;
mod log;
mod look;
mod macaroon;
mod raw;
mod run;
mod schema;
mod scripted;
mod site;
mod smoke;
mod terminal;
mod tools;
mod xroot;

pub use browser::{Browsed, CHROMIUM};
pub use client::{json_lines, last_json};
pub use curl::{Answer, last_line};
pub use endpoint::Endpoint;
pub use files::{
    adler32, base64_of, bytes, crc32c, hex, is_mounted, is_whole, md5_of, parts, put_tree, sha256_of, tree, until,
    visible,
};
pub use lab::{Lab, Slot, shared};
pub use log::{log_lines, requests, requests_with, transfers};
pub use look::{Look, assert_pages_are_good, look_at};
pub use macaroon::{Twins, macaroon, oauth_macaroon};
pub use raw::{Received, exchange, open, read_answer, tls, tls_session, tls_session_as};
pub use run::{Run, background, run, run_with_input};
pub use schema::JsonLines;
pub use scripted::{Reply, Scripted, Seen};
pub use site::{Site, alone, reserving_nothing};
pub use smoke::{COPY_PROBES, HTTP_PROBES, ROOT_PROBES};
pub use terminal::Terminal;
pub use xroot::{
    ABLE_TLS, Frame, GOES_TO_TLS, GREETING, HAS_TLS, RootSocket, WANT_TLS, assert_root_alive, opcode, open_option,
    parameters, request_bytes, status,
};
