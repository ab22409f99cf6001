//! FTS3's REST API: what its clients send and expect.

pub mod answers;
pub mod submission;

pub use crate::fts_error::FtsError;
