//! Reports of runs: what `mesh`, `stress` and `smoke` found, for a terminal, as a page, and in the
//! forms that other programs read.
//!
//! [`View`] orders a [`history::Run`]: its cells by protocol and mode, its failures by what they
//! have in common. The other modules write it. Everything that a run holds, such as names of
//! endpoints and words of servers, was written by others: it stays text in each form.
#![forbid(unsafe_code)]

pub mod digest;
mod group;
pub mod html;
pub mod json;
pub mod junit;
pub mod limits;
pub mod mail;
pub mod prometheus;
pub mod text;
mod view;
pub mod words;

pub use group::{Common, Group};
pub use view::{Lasting, Pair, Plane, Tally, View};
