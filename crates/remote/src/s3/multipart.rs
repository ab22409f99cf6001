//! An upload in parts: begun, filled in any order, completed or removed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use s3_wire::limits::{ANSWER_BYTES_MAX, PARTS_MAX};
use s3_wire::{
    Composite, PartSum, Place, Refusal, Request, StoredPart, SumKind, complete_body, completed, header, upload_id,
};
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, PeerStatus, Phase, Result};

use super::client::{Client, Small};
use super::part::{KeptSum, PartOutlet, differs, part_sum_of, sum_of, sum_of_both};
use super::patience::Patience;
use super::unclear::{Sent, etag_of_parts, is_unclear};
use crate::limits::S3_REMOVAL_PAUSES;
use crate::options::Stored;
use crate::resource::{Resource, Validator};

/// The part that shows whether a server computes checksums of parts by itself: one byte under the
/// last number. A part that is not named at the end is thrown away, and a real one replaces it.
const SAMPLE: &[u8] = b"0";

/// An upload in parts. Dropping it before its end removes the parts in the background.
pub(super) struct Multipart {
    client: Client,
    file: Resource,
    place: Place,
    id: String,
    overwrite: bool,
    /// What the server computes of each part and of the object.
    kept: Option<SumKind>,
    /// The checksums that are computed for it, of the parts that were begun.
    kept_sums: Mutex<BTreeMap<u64, KeptSum>>,
    /// The parts that are stored, by their index from 0.
    parts: Mutex<BTreeMap<u64, Part>>,
    began: Instant,
    is_open: bool,
}

/// A part that is stored.
struct Part {
    etag: String,
    size_bytes: u64,
    /// The checksum of what was sent or copied; `None`: it is not known here.
    sum: Option<Checksum>,
    /// What the server says of it.
    told: Vec<Checksum>,
}

impl Client {
    /// Begins an upload, with the best checksum that the server computes, if it does.
    async fn begin_upload(&self, file: &Resource, place: &Place, overwrite: bool) -> Result<Multipart> {
        let known = self.kept_sum(place);
        let tried = match known {
            Some(kind) => vec![kind],
            None => SumKind::ALL.map(Some).to_vec(),
        };
        for asked in tried {
            let mut upload = match self.create_upload(file, place, overwrite, asked).await {
                Ok(upload) => upload,
                Err(error) if asked.is_some() && is_unknown(&error) => continue,
                Err(error) => return Err(error),
            };
            // One that does not answer passes over what it does not know.
            let is_sound = match upload.kept {
                Some(kind) if known.is_none() => self.takes_sample(file, place, &upload.id, kind).await?,
                _ => true,
            };
            if is_sound {
                self.note_kept_sum(place, upload.kept);
                return Ok(upload);
            }
            remove(self, file, place, &upload.id).await;
            upload.is_open = false;
            break;
        }
        let begun = self.create_upload(file, place, overwrite, None).await?;
        self.note_kept_sum(place, None);
        Ok(begun)
    }

    async fn create_upload(
        &self,
        file: &Resource,
        place: &Place,
        overwrite: bool,
        asked: Option<SumKind>,
    ) -> Result<Multipart> {
        let headers = asked.map(|kind| {
            [
                (header::CHECKSUM_ALGORITHM, kind.name()),
                (header::CHECKSUM_TYPE, kind.of_object()),
            ]
        });
        let request = Request {
            query: &[("uploads", "")],
            headers: headers.as_ref().map_or(&[], |headers| headers.as_slice()),
            ..Request::plain(s3_wire::Method::Post)
        };
        let mut answer = self.ask(file, place, &Small::of(request)).await?;
        let algorithm = answer.head.headers.get(header::CHECKSUM_ALGORITHM);
        let kept = algorithm
            .and_then(SumKind::from_name)
            .filter(|kept| asked == Some(*kept));
        let body = answer.collect(ANSWER_BYTES_MAX).await?;
        answer.release();
        let upload = Multipart {
            client: self.clone(),
            file: file.clone(),
            place: place.clone(),
            id: upload_id(&body).map_err(|error| file.blame(error))?.id,
            overwrite,
            kept,
            kept_sums: Mutex::default(),
            parts: Mutex::default(),
            began: Instant::now(),
            is_open: true,
        };
        self.journal_begin(file, &upload.id).await;
        Ok(upload)
    }

    /// Whether the server takes a part without a checksum of ours, and computes it. Some want one
    /// in front of each part, which would have to be read twice.
    async fn takes_sample(&self, file: &Resource, place: &Place, id: &str, kind: SumKind) -> Result<bool> {
        let number = PARTS_MAX.to_string();
        let request = Request {
            query: &[("partNumber", &number), ("uploadId", id)],
            ..Request::plain(s3_wire::Method::Put)
        };
        let small = Small {
            body: SAMPLE,
            ..Small::of(request)
        };
        let answer = match self.ask(file, place, &small).await {
            Ok(answer) => answer,
            Err(error) if is_unknown(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let expected = part_sum_of(kind, SAMPLE).to_base64();
        let is_kept = answer.head.headers.get(kind.header()) == Some(expected.as_str());
        answer.finish().await;
        Ok(is_kept)
    }
}

impl Multipart {
    /// Begins an upload.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) async fn begin(client: &Client, file: &Resource, place: &Place, overwrite: bool) -> Result<Self> {
        let broken = |cause| file.error(ErrorCode::Internal, Phase::Open).with_private(cause);
        let (client, file_there, place) = (client.clone(), file.clone(), place.clone());
        // A task of its own: if the caller leaves meanwhile, the answer with the upload still
        // comes, and the upload is removed as it is dropped.
        let begun = tokio::spawn(async move { client.begin_upload(&file_there, &place, overwrite).await });
        begun.await.map_err(broken)?
    }

    /// What the server calls it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Begins to send a part of known size; parts are counted from 0.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for more parts than an object may have.
    pub(super) async fn part(&self, index: u64, size_bytes: u64) -> Result<PartOutlet> {
        let number = self.number(index)?;
        let request = Request {
            query: &[("partNumber", &number), ("uploadId", &self.id)],
            ..Request::plain(s3_wire::Method::Put)
        };
        let outlet = self
            .client
            .put_at(&self.file, &self.place, &request, size_bytes, true)
            .await?;
        // CRC-64/NVME is computed in any case.
        let kept = self.kept.filter(|kind| *kind != SumKind::Crc64Nvme).map(KeptSum::new);
        let part = PartOutlet::new(outlet, kept.as_ref());
        if let Some(kept) = kept {
            self.kept_sums().insert(index, kept);
        }
        Ok(part)
    }

    fn number(&self, index: u64) -> Result<String> {
        if index < PARTS_MAX {
            return Ok((index + 1).to_string());
        }
        let error = self.file.error(ErrorCode::PeerUnsupported, Phase::Transfer);
        Err(error.with_detail("the object would have more than 10000 parts: its size must be known before"))
    }

    /// Notes how a part of this size was stored.
    ///
    /// # Errors
    /// The server's refusal; `peer_misbehaved` for an answer without an entity tag;
    /// `checksum_mismatch` if the server has other bytes.
    pub(super) fn end_part(&self, index: u64, size_bytes: u64, stored: Result<Stored>) -> Result<()> {
        let stored = stored.map_err(|error| self.file.blame(error))?;
        let Some(Validator::Tag(etag)) = stored.version else {
            let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
            return Err(error.with_detail("the server did not name the part"));
        };
        let sum = stored.sent.into_iter().next();
        if let Some((sent, theirs)) = sum.as_ref().and_then(|sum| differs(sum, &stored.checksums)) {
            let error = self.file.error(ErrorCode::ChecksumMismatch, Phase::Transfer);
            let words = format!("part {}: {sent} was sent, the server has {theirs}", index + 1);
            return Err(error.with_detail(words));
        }
        let part = Part {
            etag,
            size_bytes,
            sum,
            told: stored.checksums,
        };
        self.parts().insert(index, part);
        Ok(())
    }

    fn kept_sums(&self) -> MutexGuard<'_, BTreeMap<u64, KeptSum>> {
        self.kept_sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<u64, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parts in order, and the checksum of all of them.
    ///
    /// # Errors
    /// `internal` if a part is missing.
    fn all_parts(&self) -> Result<(Vec<StoredPart>, Option<Checksum>)> {
        let parts = self.parts();
        if parts.keys().copied().ne(0..parts.len() as u64) || parts.is_empty() {
            let error = self.file.error(ErrorCode::Internal, Phase::Commit);
            return Err(error.with_private("a part is missing"));
        }
        let mut whole = Some(sum_of(b""));
        for part in parts.values() {
            let both = whole.zip(part.sum.as_ref());
            whole = both.and_then(|(front, sum)| sum_of_both(&front, sum, part.size_bytes));
        }
        let stored = parts.iter().map(|(index, part)| StoredPart {
            etag: part.etag.clone(),
            sum: self.kept_sum_of(*index, part),
        });
        Ok((stored.collect(), whole))
    }

    /// The checksum of a part that the server keeps.
    fn kept_sum_of(&self, index: u64, part: &Part) -> Option<PartSum> {
        let kind = self.kept?;
        match kind {
            SumKind::Crc64Nvme => part.sum.as_ref()?.to_u64().map(|value| PartSum { kind, value }),
            SumKind::Crc32c | SumKind::Crc32 => self.kept_sums().get(&index)?.get(),
        }
    }

    /// Makes an object of the parts. A status of 200 is no success yet: the body decides.
    ///
    /// # Errors
    /// `internal` if a part is missing; the server's refusal; `peer_exists`; `checksum_mismatch` if
    /// what was sent has another checksum than was declared.
    pub(super) async fn complete(mut self, declared: &[Checksum]) -> Result<Stored> {
        let (parts, whole) = self.all_parts()?;
        if let Some((whole, declared)) = whole.as_ref().and_then(|whole| differs(whole, declared)) {
            let error = self.file.error(ErrorCode::ChecksumMismatch, Phase::Transfer);
            return Err(error.with_detail(format!("{whole} was sent, {declared} was declared")));
        }
        let body = complete_body(&parts);
        let is_whole = self.kept == Some(SumKind::Crc64Nvme);
        let declared = whole.as_ref().filter(|_| is_whole).map(Checksum::to_base64);
        let headers: Vec<(&str, &str)> = match &declared {
            Some(sum) => vec![
                (header::CHECKSUM_CRC64NVME, sum),
                (header::CHECKSUM_TYPE, SumKind::Crc64Nvme.of_object()),
            ],
            None => Vec::new(),
        };
        let id = self.id.clone();
        let request = Request {
            query: &[("uploadId", &id)],
            headers: &headers,
            ..Request::plain(s3_wire::Method::Post)
        };
        let small = Small {
            body: body.as_bytes(),
            is_new: !self.overwrite,
            ..Small::of(request)
        };
        let composite = Composition::of(&parts);
        let stored = self
            .complete_patiently(&small, whole.as_ref(), composite.as_ref())
            .await?;
        self.is_open = false;
        self.client.journal_end(&self.id).await;
        let mut checksums = stored.checksums;
        checksums.extend(self.told_of_only_part());
        Ok(Stored {
            checksums,
            sent: whole.into_iter().collect(),
            ..stored
        })
    }

    /// The MD5 that the server has told of a part that is all of the object: the object's own
    /// entity tag is no MD5.
    fn told_of_only_part(&self) -> Option<Checksum> {
        let parts = self.parts();
        let only = parts.get(&0).filter(|_| parts.len() == 1)?;
        let is_md5 = |told: &&Checksum| told.algorithm() == ChecksumAlgorithm::Md5;
        only.told.iter().find(is_md5).cloned()
    }

    /// Completes it, again where that helps. The server may complete it and fail to say so: then it
    /// does not know the upload any more, or refuses to replace our own object.
    async fn complete_patiently(
        &self,
        small: &Small<'_>,
        whole: Option<&Checksum>,
        composite: Option<&Composition>,
    ) -> Result<Stored> {
        let (mut patience, mut may_be_stored) = (Patience::default(), false);
        loop {
            let error = match self.complete_once(small, composite).await {
                Ok(stored) => return Ok(stored),
                Err(error) => error.in_phase(Phase::Commit),
            };
            may_be_stored |= is_unclear(&error) || is_gone(&error);
            let repeats = patience.after(&self.client, &self.file, &self.place, error).await;
            let Err(error) = repeats else { continue };
            if !may_be_stored {
                return Err(error);
            }
            let sent = self.sent(whole);
            return self.client.look_for(&self.file, &sent, error).await;
        }
    }

    /// What the object must be.
    fn sent(&self, whole: Option<&Checksum>) -> Sent<'static> {
        let parts = self.parts();
        Sent {
            content: &[],
            size_bytes: parts.values().map(|part| part.size_bytes).sum(),
            sum: whole.cloned(),
            etag: etag_of_parts(parts.values().map(|part| part.etag.as_str())),
            began: self.began,
            may_replace: self.overwrite,
        }
    }

    async fn complete_once(&self, small: &Small<'_>, composite: Option<&Composition>) -> Result<Stored> {
        let mut answer = self.client.ask_once(&self.file, &self.place, small).await?;
        match answer.head.status {
            412 if !self.overwrite => return Err(answer.refused_as(ErrorCode::PeerExists).await),
            200..300 => {}
            _ => return Err(answer.refused().await),
        }
        let body = answer.collect(ANSWER_BYTES_MAX).await?;
        answer.release();
        let made = completed(&body).map_err(|refusal| refused_late(&self.file, refusal.as_ref()))?;
        let version = made.etag.map(Validator::Tag);
        if let Some((ours, theirs)) = composite.zip(made.composite.as_ref())
            && ours.differs(theirs)
        {
            return Err(self.remove_wrong(theirs, version).await);
        }
        Ok(Stored {
            version,
            checksums: made.checksums,
            ..Stored::default()
        })
    }

    /// Removes an object that is not what was sent.
    async fn remove_wrong(&self, theirs: &Composite, version: Option<Validator>) -> Error {
        let removed = self.client.delete(&self.file, version.as_ref()).await;
        let remains = if removed.is_ok() { "" } else { "; it is still there" };
        let error = self.file.error(ErrorCode::ChecksumMismatch, Phase::Commit);
        error.with_detail(format!(
            "the server has {} {}, other parts were sent{remains}",
            theirs.kind.name(),
            theirs.text
        ))
    }
}

/// The checksum of the checksums of all parts.
struct Composition {
    sum: PartSum,
    parts: usize,
}

impl Composition {
    /// `None` if the server keeps no such checksum, or that of a part is not known.
    fn of(parts: &[StoredPart]) -> Option<Self> {
        let kind = parts.first()?.sum?.kind;
        if kind == SumKind::Crc64Nvme {
            return None;
        }
        let mut all = Vec::new();
        for part in parts {
            all.extend(part.sum.as_ref()?.bytes());
        }
        Some(Self {
            sum: part_sum_of(kind, &all),
            parts: parts.len(),
        })
    }

    fn differs(&self, theirs: &Composite) -> bool {
        theirs.kind == self.sum.kind && !theirs.is_of(&self.sum, self.parts)
    }
}

/// Whether a server refuses what it does not know.
fn is_unknown(error: &Error) -> bool {
    matches!(error.peer_status(), Some(PeerStatus::Http(400 | 501)))
}

/// A refusal behind the status 200, or an answer that is none.
pub(crate) fn refused_late(file: &Resource, refusal: Option<&Refusal>) -> Error {
    let Some(refusal) = refusal else {
        let error = file.error(ErrorCode::PeerMisbehaved, Phase::Commit);
        return error.with_detail("the answer does not say whether the object is stored");
    };
    let status = match refusal.code.as_str() {
        "SlowDown" | "ServiceUnavailable" => 503,
        _ if refusal.may_pass() => 500,
        _ => 200,
    };
    let code = refusal.meaning.unwrap_or(ErrorCode::PeerFailed);
    let error = file.error(code, Phase::Commit);
    error.with_peer(Some(PeerStatus::Http(status)), &refusal.words())
}

/// Removes the parts of an upload. A part that is still on its way may be stored after the removal
/// ("AbortMultipartUpload" in the Amazon S3 API reference), so it is repeated until there is no
/// such upload. If this fails, the next process tries again, or the bucket's rules remove them.
pub(super) async fn remove(client: &Client, file: &Resource, place: &Place, id: &str) {
    for pause in S3_REMOVAL_PAUSES {
        match client.abort(file, place, id).await {
            Ok(true) => tokio::time::sleep(pause).await,
            Ok(false) => break,
            Err(_) => return,
        }
    }
    client.journal_end(id).await;
}

impl Client {
    /// Removes the parts of an upload; says whether the server knew it.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) async fn abort(&self, file: &Resource, place: &Place, id: &str) -> Result<bool> {
        let request = Request {
            query: &[("uploadId", id)],
            ..Request::plain(s3_wire::Method::Delete)
        };
        match self.ask(file, place, &Small::of(request)).await {
            Ok(answer) => answer.finish().await,
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

/// Whether the server has no such upload. That it has no such bucket is another matter.
fn is_gone(error: &Error) -> bool {
    error.peer_words().unwrap_or_default().starts_with("NoSuchUpload")
}

impl Drop for Multipart {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (client, file, place) = (self.client.clone(), self.file.clone(), self.place.clone());
        let id = std::mem::take(&mut self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let removals = Arc::clone(&client.removals);
            let mut removals = removals.lock().unwrap_or_else(PoisonError::into_inner);
            while removals.try_join_next().is_some() {}
            removals.spawn_on(async move { remove(&client, &file, &place, &id).await }, &runtime);
        }
    }
}

impl fmt::Debug for Multipart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.parts().len();
        write!(formatter, "Multipart({}, {count} parts)", self.file.location)
    }
}
