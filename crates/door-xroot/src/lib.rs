//! The XRootD door of an endpoint: `root://` and `roots://` over the same files and with the same
//! promises as the other doors.
//!
//! The door parses, asks policy, acts on a store, and answers. It decides no rights and writes no
//! error sentence: it picks an error code, whose row in the table of codes has the number and the
//! words.
//!
//! [`Door`] takes connections. One task owns a connection and serves its requests in order. These
//! are the modules, from the top down; each uses only those below it:
//!
//! | modules | what they do |
//! |---|---|
//! | `door` | takes connections, shuts down |
//! | `conversation`, `bound` | the course of a connection; further connections of a session |
//! | `dispatch` | from a request to its function |
//! | `setup` … `write` | one file for each family of requests, `third_party` among them |
//! | `admit`, `authenticate`, `elsewhere` | what several of them need |
//! | `answer`, `exchange` | one request: its answers; its rights and locks |
//! | `connection`, `session`, `late` | a connection: socket, client, late answers |
//! | `shared`, `sessions`, `send` | what connections share, and hand to each other |
//! | `files`, `writing`, `copying`, `writers` | open files |
//! | `gsi`, `keys`, `interrupted`, `redirects`, `capability_uses`, `failure` | what all of the above stand on |
#![forbid(unsafe_code)]

mod admit;
mod answer;
mod attributes;
mod authenticate;
mod bound;
mod capability_uses;
mod checksum;
mod close;
mod connection;
mod conversation;
mod copy_progress;
mod copying;
mod dispatch;
mod door;
mod elsewhere;
mod exchange;
mod failure;
mod files;
mod gsi;
mod interrupted;
mod keys;
mod late;
pub mod limits;
mod list;
mod locate;
mod method;
mod names;
mod open;
mod prepare;
mod query;
mod read;
mod redirects;
mod send;
mod session;
mod sessions;
mod settings;
mod setup;
mod shared;
mod stat;
mod third_party;
mod truncate;
mod vector;
mod write;
mod writers;
mod writing;

pub use door::Door;
pub use keys::Keys;
pub use settings::{AuthenticationMethod, Limits, Settings, ThirdPartySettings};
