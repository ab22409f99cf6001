//! Whether the server has what was sent: its size and checksum are compared with ours. A file that
//! differs, also when it is read back, is removed. One that cannot be read back stays.

use std::time::Instant;

use remote::{CreatedFile, Facts, GetOptions, Stored};
use storage::{CommitFacts, Hasher, Stat};
use tokio::time::sleep;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result};

use crate::limits::{AGE_SLACK_S, BEGIN_SLACK_S, READ_BACK_PAUSES};
use crate::minter::{DELETE, LOOK, READ};
use crate::stat::stat;
use crate::upload::RemoteUpload;

impl RemoteUpload {
    /// The server must have what was sent.
    pub(crate) async fn confirm(
        &self,
        facts: &CommitFacts,
        stored: &Stored,
        created: Option<&CreatedFile>,
    ) -> Result<Stat> {
        let since = Instant::now();
        let mut theirs = stored.checksums.clone();
        if stored.is_pending || first_common(&facts.checksums, &theirs).is_none() {
            let algorithms: Vec<ChecksumAlgorithm> = facts.checksums.iter().map(Checksum::algorithm).collect();
            match self.upstream.client.head(&self.resource(LOOK), &algorithms).await {
                Ok(now) => {
                    if now.size_bytes.is_some_and(|size| size != facts.size_bytes) {
                        let words = format!("{} bytes were sent, and it has another number", facts.size_bytes);
                        let remains = self.remove(stored, created, since).await;
                        let words = format!("{words}; {remains}");
                        return Err(self.fault(ErrorCode::PeerSizeDiffers, Phase::Checksum, &words));
                    }
                    theirs = now.checksums;
                }
                // A credential for storing may not be one for looking.
                Err(error) if says_nothing(&error) && !stored.is_pending => theirs = Vec::new(),
                Err(error) => return Err(self.blame(&error).in_phase(Phase::Checksum)),
            }
        }
        if let Some((ours, theirs)) = first_common(&facts.checksums, &theirs)
            && ours != theirs
        {
            self.compare_content(facts, ours, theirs, stored, created, since)
                .await?;
        }
        // The file is stored, whatever comes now.
        match self.upstream.client.stat(&self.resource(LOOK)).await {
            Ok(entry) if !entry.is_directory => Ok(stat(&entry)),
            _ => Ok(self.known()),
        }
    }

    /// Decides by the content about a file whose checksum (ours, theirs) is said to differ. XRootD
    /// tells the checksum of the old file for a new one that was stored in the same second (it
    /// compares the times of both). Without an answer the file stays: the old one is gone already.
    async fn compare_content(
        &self,
        facts: &CommitFacts,
        ours: &Checksum,
        theirs: &Checksum,
        stored: &Stored,
        created: Option<&CreatedFile>,
        since: Instant,
    ) -> Result<()> {
        match self.read_back(ours.algorithm()).await {
            Ok((size_bytes, found)) if size_bytes == facts.size_bytes && found.as_ref() == Some(ours) => {
                self.upstream.stale.note(&self.path, theirs);
                Ok(())
            }
            Ok(_) => {
                let remains = self.remove(stored, created, since).await;
                let words = format!("{ours} was sent, and it has {theirs}; {remains}");
                Err(self.fault(ErrorCode::ChecksumMismatch, Phase::Checksum, &words))
            }
            Err(error) => {
                let words = format!(
                    "{ours} was sent, and the server reports {theirs}, which may be that of the file before; \
                     reading the file back failed ({}), so it was kept: compare it",
                    error.code().row().meaning
                );
                Err(self.fault(ErrorCode::OutcomeUnknown, Phase::Checksum, &words))
            }
        }
    }

    /// The length and the checksum of the file as it is read now; asked again when reading breaks
    /// off.
    async fn read_back(&self, algorithm: ChecksumAlgorithm) -> Result<(u64, Option<Checksum>)> {
        let mut pauses = READ_BACK_PAUSES.iter();
        loop {
            let read = async {
                let mut hasher = Hasher::new(&[algorithm]);
                let file = self.resource(READ);
                let mut download = self.upstream.client.get(&file, &GetOptions::default()).await?;
                while let Some(batch) = download.next().await? {
                    batch.slices().for_each(|slice| hasher.update(slice));
                }
                Ok::<_, Error>((hasher.length_bytes(), hasher.finish().into_iter().next()))
            };
            match (read.await, pauses.next()) {
                (Err(error), Some(pause)) if error.retry() => sleep(*pause).await,
                (read, _) => return read,
            }
        }
    }

    /// Removes a file that is not what was sent, if it is ours: another client may have replaced
    /// it. Returns what became of it, for the error of the upload.
    async fn remove(&self, stored: &Stored, created: Option<&CreatedFile>, since: Instant) -> &'static str {
        let removed = async {
            let now = self.upstream.client.head(&self.resource(LOOK), &[]).await?;
            match is_ours(&now, stored, created, self.began_at, since) {
                false => Ok(false),
                true => {
                    let version = now.validator();
                    let file = self.resource(DELETE);
                    let deleted = self.upstream.client.delete_version(&file, version.as_ref());
                    deleted.await.map(|()| true)
                }
            }
        };
        match removed.await {
            Ok(true) => "it was removed",
            Ok(false) => "it may be another client's, so it was not removed",
            Err(_) => "it could not be removed",
        }
    }
}

/// The first pair of the same algorithm.
fn first_common<'a>(ours: &'a [Checksum], theirs: &'a [Checksum]) -> Option<(&'a Checksum, &'a Checksum)> {
    ours.iter().find_map(|own| {
        let same = theirs.iter().find(|other| other.algorithm() == own.algorithm())?;
        Some((own, same))
    })
}

/// Whether the server has stored the file and does not say more of it.
fn says_nothing(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::PeerDenied | ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported
    )
}

/// Whether the file that is there now is the one that the server said it stored: by its version, by
/// its identity and the time of its last change, since another client may have replaced its content
/// in place, or by that time alone. It is between the beginning of the upload and the answer of
/// `since`.
fn is_ours(now: &Facts, stored: &Stored, created: Option<&CreatedFile>, began: Instant, since: Instant) -> bool {
    if let Some(version) = &stored.version {
        return now.validator().as_ref() == Some(version);
    }
    if let Some((created, named)) = created.zip(now.identity.as_ref())
        && let Some(is_same) = created.identity.is_same(named)
    {
        // Whole seconds of one clock.
        let open_s = since.saturating_duration_since(created.at).as_secs() + 1;
        return is_same && named.modified_s <= created.identity.modified_s.saturating_add_unsigned(open_s);
    }
    let (upload_s, waited_s) = (began.elapsed().as_secs(), since.elapsed().as_secs());
    let age_s = now.age_s.and_then(|age_s| u64::try_from(age_s).ok());
    age_s.is_some_and(|age_s| {
        age_s.saturating_add(AGE_SLACK_S) >= waited_s && age_s <= upload_s.saturating_add(BEGIN_SLACK_S)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use remote::FileIdentity;
    use types::Location;

    use super::*;

    #[test]
    fn a_file_that_another_client_has_replaced_in_place_is_not_ours() {
        let place = Location::parse("root://h//f").unwrap();
        let named = |id, modified_s| FileIdentity {
            server: place.clone(),
            id,
            modified_s,
            is_unclosed: false,
        };
        let now = |identity| Facts {
            location: place.clone(),
            size_bytes: Some(1),
            etag: None,
            last_modified: None,
            age_s: None,
            cached_s: None,
            checksums: Vec::new(),
            checksum_refusal: None,
            accepts_ranges: None,
            identity: Some(identity),
            compares_trailers: false,
        };
        let created = CreatedFile {
            identity: named(7, 1000),
            is_new: true,
            at: Instant::now(),
        };
        // It was open for three seconds.
        let since = created.at + Duration::from_secs(3);
        for (id, modified_s, ours) in [(7, 1000, true), (7, 1004, true), (7, 1005, false), (8, 1000, false)] {
            let now = now(named(id, modified_s));
            let is_ours = is_ours(&now, &Stored::default(), Some(&created), created.at, since);
            assert_eq!(is_ours, ours, "{id} {modified_s}");
        }
    }
}
