//! What has become of an object whose upload ended without a clear answer: the connection was lost,
//! or the server failed behind the last byte. It may have stored the object, and refuses a second
//! request for that reason only.

use std::time::Instant;

use md5::{Digest as _, Md5};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Phase, Result};

use super::client::Client;
use super::part::sum_of;
use crate::limits::S3_AGE_SLACK_S;
use crate::options::Stored;
use crate::resource::{Facts, Resource, Validator};

/// What was sent, and since when.
pub(super) struct Sent {
    pub(super) size_bytes: u64,
    pub(super) sum: Option<Checksum>,
    /// The entity tag that an object has which is not encrypted ("Object" in the Amazon S3 API
    /// reference).
    pub(super) etag: Option<String>,
    pub(super) began: Instant,
}

impl Sent {
    /// An object that is sent by one request.
    pub(super) fn whole(content: &[u8], began: Instant) -> Self {
        Self {
            size_bytes: content.len() as u64,
            sum: Some(sum_of(content)),
            etag: Some(format!("\"{}\"", hex(&Md5::digest(content)))),
            began,
        }
    }

    /// Whether the object was, or may have been, stored before the upload began, by the server's
    /// clock.
    fn is_older(&self, facts: &Facts) -> bool {
        let since_s = i64::try_from(self.began.elapsed().as_secs()).unwrap_or(i64::MAX);
        facts
            .age_s
            .is_none_or(|age_s| age_s > since_s.saturating_add(S3_AGE_SLACK_S))
    }

    fn is(&self, facts: &Facts) -> bool {
        if facts.size_bytes != Some(self.size_bytes) || self.is_older(facts) {
            return false;
        }
        let mut sums = facts.checksums.iter();
        let theirs = sums.find(|sum| sum.algorithm() == ChecksumAlgorithm::Crc64Nvme);
        match (&self.sum, theirs) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.etag.is_some() && self.etag == facts.etag,
        }
    }
}

/// The entity tag of an object in parts: the MD5 of the MD5 of each, and their number. `None` if a
/// tag of a part is no MD5.
pub(super) fn etag_of_parts<'a>(etags: impl Iterator<Item = &'a str>) -> Option<String> {
    let (mut all, mut count) = (Md5::new(), 0);
    for etag in etags {
        let sum = Checksum::from_hex(ChecksumAlgorithm::Md5, etag.trim_matches('"'))?;
        all.update(sum.value());
        count += 1;
    }
    Some(format!("\"{}-{count}\"", hex(&all.finalize())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the server may have done what was asked.
pub(super) fn is_unclear(error: &Error) -> bool {
    let is_lost = matches!(
        error.code(),
        ErrorCode::PeerClosed | ErrorCode::PeerStalled | ErrorCode::PeerMisbehaved | ErrorCode::OutcomeUnknown
    );
    is_lost || has_failed(error)
}

fn has_failed(error: &Error) -> bool {
    matches!(error.peer_status(), Some(PeerStatus::Http(500 | 502 | 504)))
}

/// The error of an upload whose outcome is unknown.
pub(super) fn unknown(file: &Resource, why: &Error) -> Error {
    let error = file.error(ErrorCode::OutcomeUnknown, Phase::Commit);
    let words = why.peer_words().filter(|words| !words.is_empty());
    error.with_detail(words.unwrap_or(why.code().meaning()))
}

impl Client {
    /// Looks whether the object was stored, after an error that does not say so.
    ///
    /// # Errors
    /// The error, if the server failed and has stored nothing; else `outcome_unknown`.
    pub(super) async fn look_for(&self, file: &Resource, sent: &Sent, error: Error) -> Result<Stored> {
        let found = self.head(file, &[ChecksumAlgorithm::Crc64Nvme]).await;
        match found {
            Ok(facts) if sent.is(&facts) => Ok(Stored {
                version: facts.etag.map(Validator::Tag),
                checksums: facts.checksums,
                sent: sent.sum.iter().cloned().collect(),
                ..Stored::default()
            }),
            Ok(facts) if has_failed(&error) && sent.is_older(&facts) => Err(error),
            Err(none) if has_failed(&error) && none.code() == ErrorCode::PeerNotFound => Err(error),
            _ => Err(unknown(file, &error)),
        }
    }
}
