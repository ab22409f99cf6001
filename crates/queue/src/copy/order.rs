//! What one file asks for, read from its records.

use catalog::{ChecksumMode, Claimed, CopyMode, HopPart, Overwrite};
use remote::{Access, PacketMark, Resource};
use schedule::JobKind;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Secret, Side};

use super::EndAccess;
use super::by_hop::under_way;

/// The algorithm where the client names none.
const USUAL_ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Adler32;

/// What the checksums of a file are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedChecksum {
    pub(super) mode: ChecksumMode,
    pub(super) algorithm: ChecksumAlgorithm,
    /// The value that the client gave.
    pub(super) given: Option<Checksum>,
}

/// One file to copy.
#[derive(Clone, Debug)]
pub(super) struct FileOrder {
    pub(super) source: Location,
    pub(super) destination: Location,
    pub(super) checksum: WantedChecksum,
    pub(super) overwrites: bool,
    pub(super) copy_mode: Option<CopyMode>,
    /// For the storages' logs: `job-id=…;file-id=…;retry=…` as gfal2 sends it.
    pub(super) client_info: String,
    /// W3C Trace Context, from the identifiers of job and file: each attempt is a span of the job.
    pub(super) traceparent: String,
}

impl FileOrder {
    /// One end of the copy, as it is asked.
    pub(super) fn resource(&self, location: Location, access: Access, side: Side, claimed: &Claimed) -> Resource {
        let access = Access {
            client_info: Some(self.client_info.clone()),
            traceparent: Some(self.traceparent.clone()),
            scitag: claimed.file.options.scitag,
            packets: PacketMark::of_tag(claimed.file.options.scitag),
            // The link waits, so that the copy takes no place meanwhile.
            returns_delays: true,
            ..access
        };
        Resource { location, access, side }
    }

    /// Reads the records.
    ///
    /// # Errors
    /// `bad_url` and `bad_request` for what a storage cannot be asked for. Submissions are checked,
    /// so this is what an older release stored.
    pub(super) fn of(claimed: &Claimed, access: &EndAccess, traceparent: String) -> Result<Self> {
        let (file, job) = (&claimed.file, &claimed.job);
        // As FTS, which does nothing but copy then.
        let checksum_mode = match job.options.is_strict_copy {
            true => ChecksumMode::None,
            false => job.options.checksum_mode,
        };
        let location = |shown: &str, whole: Option<&Secret>, side| {
            let url = whole.map_or(shown, Secret::expose);
            Location::parse(url).map_err(|error| error.at_side(side))
        };
        Ok(Self {
            source: location(&file.source, access.source_url.as_ref(), Side::Source)?,
            destination: location(&file.destination, access.destination_url.as_ref(), Side::Destination)?,
            checksum: wanted(checksum_mode, checksum(claimed))?,
            overwrites: overwrites(claimed),
            copy_mode: file.options.copy_mode,
            client_info: format!("job-id={};file-id={};retry={}", job.id, file.id, file.attempts),
            traceparent,
        })
    }
}

/// The checksum that the client gave; for the second half of a way by a hop, the one that was
/// compared at the hop.
fn checksum(claimed: &Claimed) -> Option<&str> {
    let at_hop = under_way(claimed).and_then(|hop| hop.checksum.as_deref());
    at_hop.or(claimed.file.options.checksum.as_deref())
}

/// Whether an existing destination may be replaced by this attempt. What is at a hop under the
/// file's name is its own.
fn overwrites(claimed: &Claimed) -> bool {
    if under_way(claimed).is_some_and(|hop| hop.part == HopPart::Incoming) {
        return true;
    }
    let (file, job) = (&claimed.file, &claimed.job);
    let is_last = |files: u32| file.index + 1 >= files;
    let is_hop = job.kind == JobKind::Multihop && !is_last(job.files);
    match job.options.overwrite {
        Overwrite::Never => false,
        Overwrite::Always => true,
        Overwrite::OnRetry => file.attempts > 0,
        Overwrite::Hops => is_hop,
        // Where the file lies is known after a look at it: `locality`.
        Overwrite::OnlyOnDisk => false,
        Overwrite::HopsAndOnlyOnDisk => is_hop,
    }
}

/// Reads `ADLER32:1a2b3c4d` or `ADLER32`. Leading zeros may be missing, and case does not count.
fn wanted(mode: ChecksumMode, text: Option<&str>) -> Result<WantedChecksum> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(WantedChecksum {
            mode,
            algorithm: USUAL_ALGORITHM,
            given: None,
        });
    };
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let refused = || {
        let error = Error::new(ErrorCode::BadRequest, Side::Queue, Phase::Queued);
        error.with_detail(format!("\"{text}\" is no checksum that this queue knows"))
    };
    let algorithm = ChecksumAlgorithm::from_name(&name.to_ascii_lowercase()).ok_or_else(refused)?;
    let given = match value.trim() {
        "" => None,
        value => {
            let padded = format!("{value:0>width$}", width = 2 * algorithm.value_bytes());
            Some(Checksum::from_hex(algorithm, &padded).ok_or_else(refused)?)
        }
    };
    Ok(WantedChecksum { mode, algorithm, given })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_as_fts_reads_them() {
        let read = |text| wanted(ChecksumMode::Both, text);
        let sum = Checksum::from_hex(ChecksumAlgorithm::Adler32, "00ab12cd").unwrap();
        for text in ["ADLER32:00ab12cd", "adler32:AB12CD", "Adler32:0ab12CD"] {
            assert_eq!(read(Some(text)).unwrap().given, Some(sum.clone()), "{text}");
        }
        let md5 = read(Some("MD5")).unwrap();
        assert_eq!((md5.algorithm, md5.given), (ChecksumAlgorithm::Md5, None));
        assert_eq!(read(None).unwrap().algorithm, ChecksumAlgorithm::Adler32);
        for text in ["ADLER32:zz", "ADLER32:123456789", "WHIRLPOOL:1"] {
            assert_eq!(read(Some(text)).unwrap_err().code(), ErrorCode::BadRequest, "{text}");
        }
    }
}
