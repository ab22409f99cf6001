//! The data phase of a pull: what it works with and what it brings.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use endpoint::Store;
use remote::{Client, Resource};
use storage::Upload;
use types::Checksum;

use crate::budget::Budget;
use crate::options::Order;
use crate::progress::Progress;

/// What the data phase brought.
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    pub(crate) checksums: Vec<Checksum>,
    /// Checksums that the source told together with the data.
    pub(crate) told: Vec<Checksum>,
    pub(crate) streams: u32,
}

/// The data phase of one pull.
pub(crate) struct Job<'a> {
    pub(crate) client: &'a Client,
    pub(crate) source: &'a Resource,
    pub(crate) store: &'a Store,
    pub(crate) order: &'a Order,
    pub(crate) budget: &'a Budget,
    pub(crate) progress: &'a Progress,
    pub(crate) upload: &'a Arc<dyn Upload>,
    /// The source has told what the file is.
    pub(crate) is_asked: bool,
    /// How long the source took to say what the file is.
    pub(crate) asked_for: Duration,
    /// The source has told its checksum already, and it will be compared.
    pub(crate) is_compared: bool,
    /// Set once the source has told its checksum while the data move.
    pub(crate) is_told: Arc<AtomicBool>,
}
