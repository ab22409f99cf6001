//! STOMP 1.0 to 1.2, as bytes and as states: frames, the session of a server that publishes, and
//! that of a client that sends. Nothing here opens a socket or reads a clock.
#![forbid(unsafe_code)]

pub mod client;
mod frame;
pub mod limits;
pub mod server;

pub use frame::{Beats, Command, Decoded, Frame, Malformed, Version, decode};
