//! Copies within one server: of an object by one request, of a large one part by part. No byte of
//! it passes this machine.

use s3_wire::limits::{ANSWER_BYTES_MAX, PART_BYTES_MAX};
use s3_wire::{Made, Method, Parts, Place, Request, copied, header};
use tokio::task::JoinSet;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Phase, Result};

use super::client::{Client, Small};
use super::multipart::{Multipart, refused_late};
use super::patience::Patience;
use crate::limits::{S3_COPIED_PART_BYTES, S3_PARTS_COPIED_AT_ONCE};
use crate::options::{CopiedWithin, Stored, WithinOptions};
use crate::resource::{Facts, Resource, Validator};

/// Checksums by which the two objects are compared, where both have one.
const COMPARED: [ChecksumAlgorithm; 4] = [
    ChecksumAlgorithm::Crc64Nvme,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Md5,
    ChecksumAlgorithm::Adler32,
];

impl Client {
    /// Whether a server can copy from one to the other: it has both, and one account may read and
    /// write there.
    pub(crate) fn copies_within(&self, source: &Resource, target: &Resource) -> bool {
        let accounts = (&source.access.account, &target.access.account);
        let (Some(of_source), Some(of_target)) = accounts else {
            return false;
        };
        let (Ok(from), Ok(to)) = (self.place_of(source), self.place_of(target)) else {
            return false;
        };
        of_source.key_id == of_target.key_id && from.shares_server(&to) && !from.key.is_empty()
    }

    /// Copies an object within its server, and says what both are then.
    ///
    /// # Errors
    /// The server's refusal; `peer_exists`; `source_changed` if the source is replaced meanwhile.
    pub(crate) async fn copy_within(
        &self,
        source: &Resource,
        target: &Resource,
        options: &WithinOptions,
    ) -> Result<CopiedWithin> {
        let (from, to) = (self.place(source)?, self.place(target)?);
        if to.key.is_empty() || to.key.ends_with('/') {
            return Err(target.error(ErrorCode::IsDirectory, Phase::Open));
        }
        let facts = self.head(source, &COMPARED).await?;
        if !options.overwrite && !options.is_absent {
            self.check_absent(target).await?;
        }
        let copy = CopyWithin {
            client: self,
            source,
            target,
            from: &from,
            to: &to,
            facts: &facts,
        };
        let stored = match facts.size_bytes {
            Some(size) if size > PART_BYTES_MAX => copy.in_parts(size, options.overwrite).await?,
            _ => copy.whole(options.overwrite).await?,
        };
        let there = self
            .head(target, &COMPARED)
            .await
            .map_err(|error| error.in_phase(Phase::Checksum))?;
        Ok(copied_within(facts, stored, there))
    }
}

/// What both objects are after a copy. If the name shows another version than the answer to the
/// copy, another client has replaced the copy since: then only the answer is about it, and nothing
/// may be removed.
fn copied_within(source: Facts, made: Stored, there: Facts) -> CopiedWithin {
    let opaque = |tag: &str| tag.trim_start_matches("W/").trim_matches('"').to_owned();
    match &made.version {
        Some(Validator::Tag(tag)) if there.etag.as_ref().is_some_and(|now| opaque(now) != opaque(tag)) => {
            let target = Facts {
                size_bytes: source.size_bytes,
                etag: Some(tag.clone()),
                last_modified: None,
                age_s: None,
                checksums: made.checksums,
                ..there
            };
            CopiedWithin {
                source,
                target,
                version: None,
            }
        }
        _ => CopiedWithin {
            source,
            target: there,
            version: made.version,
        },
    }
}

/// One copy.
#[derive(Clone, Copy)]
struct CopyWithin<'a> {
    client: &'a Client,
    source: &'a Resource,
    target: &'a Resource,
    from: &'a Place,
    to: &'a Place,
    facts: &'a Facts,
}

impl CopyWithin<'_> {
    /// By one request, which the server refuses if the name is taken and must stay. Servers that do
    /// not know this condition for a copy were asked for the name before.
    async fn whole(&self, overwrite: bool) -> Result<Stored> {
        let made = match self.ask(&[], None, !overwrite).await {
            Err(error) if !overwrite && matches!(error.peer_status(), Some(PeerStatus::Http(400 | 501))) => {
                self.ask(&[], None, false).await?
            }
            made => made?,
        };
        Ok(stored(made))
    }

    async fn in_parts(&self, size_bytes: u64, overwrite: bool) -> Result<Stored> {
        let usual = Parts::of(size_bytes);
        let parts = Parts {
            part_bytes: usual.part_bytes.max(S3_COPIED_PART_BYTES),
            ..usual
        };
        let multipart = std::sync::Arc::new(Multipart::begin(self.client, self.target, self.to, overwrite).await?);
        let (mut running, mut next) = (JoinSet::new(), 0);
        loop {
            while running.len() < S3_PARTS_COPIED_AT_ONCE && next < parts.count() {
                let (index, range) = (next, parts.range(next));
                next += 1;
                let (client, source, target) = (self.client.clone(), self.source.clone(), self.target.clone());
                let (from, to, facts) = (self.from.clone(), self.to.clone(), self.facts.clone());
                let multipart = std::sync::Arc::clone(&multipart);
                running.spawn(async move {
                    let copy = CopyWithin {
                        client: &client,
                        source: &source,
                        target: &target,
                        from: &from,
                        to: &to,
                        facts: &facts,
                    };
                    let number = (index + 1).to_string();
                    let query = [("partNumber", number.as_str()), ("uploadId", multipart.id())];
                    let bytes = format!("bytes={}-{}", range.start, range.end - 1);
                    let made = copy.ask(&query, Some(&bytes), false).await;
                    multipart.end_part(index, range.len(), made.map(stored_part))
                });
            }
            let Some(ended) = running.join_next().await else { break };
            let broken = |cause| {
                self.target
                    .error(ErrorCode::Internal, Phase::Transfer)
                    .with_private(cause)
            };
            ended.map_err(broken)??;
        }
        match std::sync::Arc::into_inner(multipart) {
            Some(multipart) => multipart.complete(&[]).await,
            None => Err(self.target.error(ErrorCode::Internal, Phase::Commit)),
        }
    }

    /// Asks to copy all of the object, or some bytes of it into a part of another.
    async fn ask(&self, query: &[(&str, &str)], bytes: Option<&str>, is_new: bool) -> Result<Made> {
        let source = self.from.copy_source();
        let mut headers = vec![(header::COPY_SOURCE, source.as_str())];
        let version = self.facts.validator();
        if let Some(Validator::Tag(tag)) = &version {
            headers.push((header::COPY_SOURCE_IF_MATCH, tag));
        }
        headers.extend(bytes.map(|bytes| (header::COPY_SOURCE_RANGE, bytes)));
        let request = Request {
            query,
            headers: &headers,
            ..Request::plain(Method::Put)
        };
        let small = Small {
            is_new,
            ..Small::of(request)
        };
        let mut patience = Patience::default();
        loop {
            let error = match self.ask_once(&small).await {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            patience.after(self.client, self.target, self.to, error).await?;
        }
    }

    async fn ask_once(&self, small: &Small<'_>) -> Result<Made> {
        let mut answer = self.client.ask_once(self.target, self.to, small).await?;
        match answer.head.status {
            200..300 => {}
            412 if !small.is_new => return Err(self.changed()),
            412 => {
                // One of two conditions failed.
                let error = answer.refused_as(ErrorCode::PeerExists).await;
                return match self.client.head(self.target, &[]).await {
                    Ok(_) => Err(error),
                    Err(_) => Err(self.changed()),
                };
            }
            _ => return Err(answer.refused().await),
        }
        let body = answer.collect(ANSWER_BYTES_MAX).await?;
        answer.release();
        copied(&body).map_err(|refusal| refused_late(self.target, refusal.as_ref()))
    }

    fn changed(&self) -> Error {
        self.source.error(ErrorCode::SourceChanged, Phase::Transfer)
    }
}

/// A part with the checksum that the server told when it had copied it. The end of the upload must
/// name that checksum ("CompleteMultipartUpload" in the Amazon S3 API reference).
fn stored_part(made: Made) -> Stored {
    let stored = stored(made);
    let is_kept = |told: &&Checksum| told.algorithm() == ChecksumAlgorithm::Crc64Nvme;
    Stored {
        sent: stored.checksums.iter().find(is_kept).cloned().into_iter().collect(),
        ..stored
    }
}

fn stored(made: Made) -> Stored {
    Stored {
        version: made.etag.map(Validator::Tag),
        checksums: made.checksums,
        ..Stored::default()
    }
}
