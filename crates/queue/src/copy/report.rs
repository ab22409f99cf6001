//! What a destination has instead of the file (`dst_file_report`).

use remote::{ArchiveState, Locality};
use serde_json::{Value, json};
use types::{Error, ErrorCode};

use super::{Attempt, in_time};

impl Attempt<'_> {
    /// The facts of an existing destination, if the job asks for them and this is why it failed:
    /// the fields of FTS 3.14 (`DestFile`). What the destination does not say of itself is `null`;
    /// a place that it does not say is neither disk nor tape.
    pub(super) async fn report(&self, error: &Error) -> Option<Value> {
        let wants = self.claimed.job.options.reports_destination;
        let exists = matches!(error.code(), ErrorCode::PeerExists | ErrorCode::PeerOnTape);
        if !wants || !exists {
            return None;
        }
        let algorithm = self.order.checksum.algorithm;
        let algorithms = [algorithm];
        let asked = self.copier.client.head(&self.destination, &algorithms);
        let (facts, place) = tokio::join!(in_time(&self.destination, asked), self.locality());
        let facts = facts.ok()?;
        let found = facts.checksums.iter().find(|sum| sum.algorithm() == algorithm);
        let (on_disk, on_tape) = match place {
            // Without a tape system, what can be looked at is on disk.
            Ok(None) => (true, false),
            Ok(Some(ArchiveState::At(place))) => {
                let on_disk = matches!(place, Locality::Disk | Locality::DiskAndTape);
                (on_disk, place.is_on_tape())
            }
            Ok(Some(_)) | Err(_) => (false, false),
        };
        Some(json!({
            "file_size": facts.size_bytes,
            "checksum_type": algorithm.name().to_uppercase(),
            "checksum_value": found.map(types::Checksum::to_hex),
            "file_on_disk": on_disk,
            "file_on_tape": on_tape,
        }))
    }
}
