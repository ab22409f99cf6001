//! What a destination has instead of the file (`dst_file_report`).

use serde_json::{Value, json};
use types::{Error, ErrorCode};

use super::{Attempt, in_time};

impl Attempt<'_> {
    /// The facts of an existing destination, if the job asks for them and this is why it failed.
    pub(super) async fn report(&self, error: &Error) -> Option<Value> {
        let wants = self.claimed.job.options.reports_destination;
        if !wants || error.code() != ErrorCode::PeerExists {
            return None;
        }
        let algorithm = self.order.checksum.algorithm;
        let client = &self.copier.client;
        let facts = in_time(&self.destination, client.head(&self.destination, &[algorithm]))
            .await
            .ok()?;
        let found = facts.checksums.iter().find(|sum| sum.algorithm() == algorithm);
        Some(json!({
            "file_size": facts.size_bytes,
            "checksum_type": found.map(|sum| sum.algorithm().name().to_uppercase()),
            "checksum_value": found.map(types::Checksum::to_hex),
            // Without a tape system in between, what can be looked at is on disk.
            "file_on_disk": true,
            "file_on_tape": false,
        }))
    }
}
