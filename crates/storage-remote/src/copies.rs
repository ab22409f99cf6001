//! Copies by the server itself, where it can: no byte of them passes this machine.

use storage::{Overwrite, Stat};
use types::{ChecksumAlgorithm, Error, ErrorCode, LogicalPath, PeerStatus, Phase, Result};

use remote::{Validator, WithinOptions};

use crate::fault::fault;
use crate::minter::{CHANGE, CREATE, READ, REPLACE};
use crate::stat::stat;
use crate::store::{RemoteStore, refused};

impl RemoteStore {
    /// Copies a file within the server, and compares what both names have then. A copy that
    /// differs is removed. A checksum that is kept beside the copied version of the source is kept
    /// beside the copy.
    ///
    /// # Errors
    /// `not_implemented` if the server cannot, `exists`, or its refusal.
    pub(crate) async fn copy_within(&self, from: &LogicalPath, to: &LogicalPath, overwrite: Overwrite) -> Result<Stat> {
        let upstream = &self.upstream;
        let may_replace = overwrite == Overwrite::Allow;
        let source = upstream.resource_for(from, READ);
        let target = upstream.resource_for(to, if may_replace { REPLACE } else { CREATE });
        if !upstream.client.copies_within(&source, &target) {
            return Err(refused(ErrorCode::NotImplemented, to));
        }
        upstream.check_parents(to).await?;
        let options = WithinOptions {
            overwrite: may_replace || upstream.replaces_silently().await?,
            is_absent: !may_replace,
        };
        let creating = match may_replace {
            true => None,
            false => {
                let lock = upstream.creating(to).lock().await;
                upstream.check_absent(to).await?;
                Some(lock)
            }
        };
        let copied = match upstream.client.copy_within(&source, &target, &options).await {
            Err(error) if is_unable(&error) => return Err(refused(ErrorCode::NotImplemented, to)),
            copied => self.told(copied, to)?,
        };
        drop(creating);
        if let Some(words) = copied.difference() {
            if copied.version.is_some() {
                let removed = upstream.client.delete_version(&target, copied.version.as_ref()).await;
                self.told(removed, to)?;
            }
            return Err(fault(ErrorCode::ChecksumMismatch, Phase::Checksum, upstream.root(), &words).with_subject(to));
        }
        // Without an entity tag of the source, another version of it may have been copied.
        if let (Some(Validator::Tag(_)), Some(Validator::Tag(etag))) = (copied.source.validator(), &copied.version) {
            let wanted = [ChecksumAlgorithm::Adler32];
            let kept = upstream.known_of(&source, from, &copied.source, &wanted).await;
            upstream
                .keep(&upstream.resource_for(to, CHANGE), Some(etag), &kept)
                .await;
        }
        let entry = upstream.client.stat(&target).await;
        self.told(entry, to).map(|entry| stat(&entry))
    }
}

/// Whether the server fails to copy by itself, or does not know how: it may still let the file be
/// read and written. Not if the copy was made, and not after a refusal for rights or a condition.
fn is_unable(error: &Error) -> bool {
    let is_status = matches!(error.peer_status(), Some(PeerStatus::Http(200 | 400 | 500..=599)));
    let is_refusal = matches!(error.code(), ErrorCode::PeerFailed | ErrorCode::BodyTooLarge);
    is_status && is_refusal && error.phase() != Phase::Checksum
}
