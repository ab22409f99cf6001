//! A disk cache in front of any [`storage::Store`].
//!
//! [`CachedStore`] is the layer, [`Cache`] the directory behind any number of layers. Files are
//! cached in blocks of 1 MiB, in sparse files whose layout [`layout`] describes. Each read from the
//! disk is checked; a block that fails is dropped and fetched again. A block is fetched once,
//! however many readers want it, and they get its parts as they arrive.
//!
//! Nothing that the cache's disk does is an error for a reader: without a working cache, files come
//! from the origin.
#![forbid(unsafe_code)]

mod cache;
mod checked;
mod counters;
mod fetch;
mod file;
mod flight;
mod index;
pub mod inspect;
mod keeper;
mod key;
pub mod layout;
pub mod limits;
mod open_file;
mod origins;
mod reader;
mod store;
mod writer;

pub use cache::{Cache, OnTrouble, Trouble, Usage};
pub use counters::Counts;
pub use store::{CachedStore, Settings};
