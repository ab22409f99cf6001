//! The XRootD door of an endpoint: `root://` and `roots://` over the same files and with the same
//! promises as the other doors.
//!
//! The door parses, asks policy, acts on a store, and answers. It decides no rights and writes no
//! error sentence: it picks an error code, and the table of codes says which number and words that is.
//!
//! [`Door`] takes connections. One task owns a connection (`connection`) and serves its requests in
//! order, one file for each family of them. Answers that take long come back to the same task through a
//! channel (`late`). A further connection that is bound to a session has a task of its own (`bound`),
//! which only sends what the session's task hands to it.
#![forbid(unsafe_code)]

mod admit;
mod answer;
mod attributes;
mod authenticate;
mod bound;
mod checksum;
mod close;
mod connection;
mod conversation;
mod copy_progress;
mod copying;
mod dispatch;
mod door;
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
mod send;
mod session;
mod sessions;
mod settings;
mod setup;
mod shared;
mod stat;
mod third_party;
mod truncate;
mod turns;
mod vector;
mod write;
mod writing;

pub use door::Door;
pub use keys::Keys;
pub use settings::{AuthenticationMethod, Limits, Settings, ThirdPartySettings};
