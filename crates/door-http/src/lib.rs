//! The HTTP door of an endpoint: HTTP/1.1 and WebDAV over TLS and in clear text, and HTTP
//! third-party copy as the active side.
//!
//! The door parses, asks policy, calls a store or the copy engine, and answers. It moves no payload
//! itself, decides no rights, and writes no error sentence: it picks an error code, and the error
//! table has its status and words.
//!
//! No module uses one that uses it. *Ground*: `limits`, `digest`, `counted`, `methods`, `hand_over`
//! (capabilities), `node` (of a cluster), `space_report`, `settings`, `shared`, `frame` (what pages
//! have around their content), `order` (of listings), and `route`: everything that this door can be
//! asked, as one table. *One request*: `exchange`, and on it `access` (rights), `authority` (which
//! hosts are us), `state` (locks), `redirect` (hand-over), `missing` (files for which a redirector
//! sent its client in vain), `refuse` (errors) with `error_page` (the same for browsers). *Verbs
//! and services*: one file each. On top, `dispatch` calls them, and [`Door`] serves connections.
#![forbid(unsafe_code)]

mod access;
mod announce;
mod authority;
mod cached;
mod collections;
mod copy;
mod counted;
mod delegation;
mod delete;
mod digest;
mod dispatch;
mod door;
mod elsewhere;
mod error_page;
mod exchange;
mod forward;
mod frame;
mod get;
mod hand_over;
pub mod limits;
mod local_copy;
mod lock;
mod methods;
mod missing;
mod mkcol;
mod node;
mod options;
mod order;
mod page;
mod post;
mod propfind;
mod proppatch;
mod put;
mod question;
mod redirect;
mod refuse;
mod rename;
mod route;
mod settings;
mod shared;
mod space_report;
mod state;
mod tpc;
mod why;

pub use door::Door;
pub use node::{Node, OrderFuture};
pub use settings::{Limits, MacaroonSettings, Settings};
pub use space_report::{DocumentFuture, SpaceReport};
