//! One try to copy a file, as both interfaces show it.

use serde::{Deserialize, Serialize};

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u16,
    /// When it failed, in milliseconds since 1970.
    pub failed_ms: i64,
    /// Why.
    pub reason: String,
    /// The stable code of the failure.
    pub code: String,
    /// The worker that made it.
    pub worker: Option<String>,
}
