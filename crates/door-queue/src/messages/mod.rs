//! Topics with the messages of FTS by STOMP: what Rucio's receiver connects to, without a broker in
//! between.
//!
//! Topics keep nothing: a subscriber gets what happens while it is connected. Those who must miss
//! nothing ask a broker in between, which gets each message at least once
//! (`queue::messages::push`), or ask the queue for the states of their jobs, as Rucio does.

mod admission;
mod connection;
mod listener;
#[cfg(test)]
mod tests;
mod topics;

pub use admission::{Password, Subscribers};
pub use listener::Listener;
pub use topics::Topics;
