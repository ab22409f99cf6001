//! FTS3's REST API: what its clients send and expect.

pub mod answers;
mod error;
pub mod submission;

pub use error::FtsError;
