//! What happens on the data path, for those who watch it: files that clients use, clients that
//! leave, third-party copies that end.
//!
//! Doors tell events to a [`Hub`], which puts them into the queue of each sink. A sink that is slow
//! or stands still never delays a door: what its queue does not take is dropped and counted. A
//! server without sinks pays nothing.
#![forbid(unsafe_code)]

mod client;
mod copied;
mod file_use;
mod hub;
mod reporter;

pub use client::{Client, Spoken};
pub use copied::Copied;
pub use file_use::{Counts, FileUse, Used};
pub use hub::{Event, Gone, Hub, Queue};
pub use reporter::{Datagram, Reporter, Wishes};
