//! What every HTTP door needs below its own requests, written once.
//!
//! A door is a [`Service`]: it is given one [`Exchange`] after the other and answers each.
//! Everything around that is here: TLS and the loop over requests (`connection`), who sends them
//! (`admission`), the ways to answer (`answer`), the answer to an error (`refusal`), the record for
//! the log, and the [`Claim`]s by which a door says which methods and paths it answers.
//! A [`control`] door has an axum router instead.
#![forbid(unsafe_code)]

mod admission;
mod answer;
mod claim;
mod connection;
pub mod control;
mod exchange;
pub mod limits;
mod record;
mod refusal;
mod server;
mod service;

pub use claim::{Captured, Claim, find};
pub use connection::serve_connection;
pub use exchange::{Exchange, Fate};
pub use refusal::advice;
pub use server::Server;
pub use service::Service;
