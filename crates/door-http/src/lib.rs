//! The HTTP door of an endpoint: HTTP/1.1 and WebDAV over TLS and in clear text, and HTTP
//! third-party copy as the active party.
//!
//! The door parses, asks policy, acts on a store or on the copy engine, and answers. It moves no
//! payload itself, decides no rights, and writes no error sentence: it picks an error code, and the
//! table of codes says which status and words that is.
//!
//! There is one file for each verb. [`Door`] takes connections, `connection` carries one request
//! after the other, and `exchange` is one request with its answer.
#![forbid(unsafe_code)]

mod access;
mod collections;
mod connection;
mod copy;
mod counted;
mod delegation;
mod delete;
mod digest;
mod door;
mod exchange;
mod forward;
mod get;
mod hand_over;
pub mod limits;
mod local_copy;
mod lock;
mod mkcol;
mod options;
mod page;
mod post;
mod propfind;
mod proppatch;
mod put;
mod question;
mod rename;
mod settings;
mod state;
mod tpc;

pub use door::Door;
pub use hand_over::{HandOver, HandOverSettings};
pub use settings::{Limits, MacaroonSettings, Settings};
