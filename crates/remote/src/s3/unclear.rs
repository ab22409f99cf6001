//! What has become of an object whose upload ended without a clear answer: the connection was lost,
//! or the server failed behind the last byte. It may have stored the object, and refuses a second
//! request for that reason only.

use std::time::Instant;

use md5::{Digest as _, Md5};
use tokio::time::sleep;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Phase, Result};

use super::client::Client;
use super::part::sum_of;
use crate::limits::{S3_AGE_SLACK_S, S3_LOOK_PAUSES};
use crate::options::Stored;
use crate::resource::{Facts, Resource, Validator};

/// What was sent, and since when.
pub(super) struct Sent<'a> {
    /// All of it, where one request sends it.
    pub(super) content: &'a [u8],
    pub(super) size_bytes: u64,
    pub(super) sum: Option<Checksum>,
    /// The entity tag that an object has which is not encrypted ("Object" in the Amazon S3 API
    /// reference).
    pub(super) etag: Option<String>,
    pub(super) began: Instant,
    /// It may replace an object. A short one that was stored a moment before looks like the
    /// beginning of this one.
    pub(super) may_replace: bool,
}

impl<'a> Sent<'a> {
    /// An object that is sent by one request.
    pub(super) fn whole(content: &'a [u8], began: Instant, may_replace: bool) -> Self {
        Self {
            content,
            size_bytes: content.len() as u64,
            sum: Some(sum_of(content)),
            etag: Some(format!("\"{}\"", md5_of(content).to_hex())),
            began,
            may_replace,
        }
    }

    /// The beginning of the content, if the server has made an object of just that. `None` if it
    /// may be the object that was to be replaced.
    fn beginning(&self, facts: &Facts) -> Option<Self> {
        if self.may_replace {
            return None;
        }
        let size = usize::try_from(facts.size_bytes?).ok()?;
        let content = self.content.get(..size).filter(|_| size < self.content.len())?;
        let beginning = Self::whole(content, self.began, false);
        beginning.is(facts).then_some(beginning)
    }

    /// What the server says of the object that was sent.
    fn stored(&self, facts: Facts) -> Stored {
        Stored {
            version: facts.etag.map(Validator::Tag),
            checksums: facts.checksums,
            sent: self.sum.iter().cloned().collect(),
            ..Stored::default()
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
    let (mut all, mut count) = (Vec::new(), 0);
    for etag in etags {
        let sum = Checksum::from_hex(ChecksumAlgorithm::Md5, etag.trim_matches('"'))?;
        all.extend_from_slice(sum.value());
        count += 1;
    }
    Some(format!("\"{}-{count}\"", md5_of(&all).to_hex()))
}

pub(super) fn md5_of(bytes: &[u8]) -> Checksum {
    Checksum::md5(Md5::digest(bytes).into())
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
    /// Looks whether the object was stored, after an error that does not say so. Some servers make
    /// an object of what came of a request that broke off: such a one is removed.
    ///
    /// # Errors
    /// The error, if the server has stored nothing or it was removed; else `outcome_unknown`.
    pub(super) async fn look_for(&self, file: &Resource, sent: &Sent<'_>, error: Error) -> Result<Stored> {
        for pause in S3_LOOK_PAUSES {
            sleep(pause).await;
            match self.head(file, &[ChecksumAlgorithm::Crc64Nvme]).await {
                Ok(facts) if sent.is(&facts) => return Ok(sent.stored(facts)),
                Ok(facts) if sent.beginning(&facts).is_some() => {
                    return Err(self.remove_stump(file, facts, error).await);
                }
                Ok(facts) if has_failed(&error) && sent.is_older(&facts) => return Err(error),
                Err(none) if has_failed(&error) && none.code() == ErrorCode::PeerNotFound => return Err(error),
                Ok(facts) if !sent.is_older(&facts) => break,
                // A server that still reads what came may store it later.
                _ => {}
            }
        }
        Err(unknown(file, &error))
    }

    /// Removes an object that is the beginning of what was sent, if it is still that.
    async fn remove_stump(&self, file: &Resource, facts: Facts, error: Error) -> Error {
        let version = facts.etag.map(Validator::Tag);
        match self.delete(file, version.as_ref()).await {
            Ok(()) => error,
            Err(_) => unknown(file, &error).with_detail("the beginning of the object was stored and is still there"),
        }
    }
}
