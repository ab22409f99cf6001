//! A cluster: many endpoints behind redirectors that find files, choose a node, and say why.
//!
//! What is here decides and remembers nothing that it cannot ask for again: which nodes there are,
//! how busy they are and how much room they have ([`node`]), where files were found
//! ([`locations`]), which holder a reader is sent to ([`choice`]) and which node takes a new file
//! ([`placement`]). These parts read no clock and no network: time comes in as milliseconds of a
//! clock that never goes back. The [`director`] puts them together: it asks the nodes by a
//! [`locator`], and says what it knows and why it chose ([`explanation`]).
//!
//! A node says what it is and how busy in an [`announcement`]; [`machine`] reads its load.
//! [`nats`] is a source of nodes over a message bus, with the node's side of it.
//!
//! [`cms`] is the other side: a server of ours in a cluster of XRootD.
#![forbid(unsafe_code)]

pub mod announcement;
pub mod choice;
pub mod cms;
pub mod director;
pub mod expected;
pub mod explanation;
pub mod fixed;
pub mod follow;
mod left_out;
pub mod limits;
mod listing;
pub mod locations;
pub mod locator;
pub mod machine;
pub mod nats;
pub mod near;
pub mod node;
pub mod placement;
pub mod redirector;
mod relayed;
mod room;
mod store;
#[cfg(test)]
mod testing;
mod trouble;
