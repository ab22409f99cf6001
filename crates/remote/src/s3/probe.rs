//! What a server offers: it is tried, since servers ignore what they do not know.

use s3_wire::{Place, Request};
use types::{Checksum, ErrorCode, Result};

use super::client::{Client, Small, now_s};
use crate::limits::S3_TRIAL_LIFETIME;
use crate::object_store::StoreOffers;
use crate::resource::{Facts, Resource};

/// The beginning of the names of such objects.
const NAME: &str = ".crossload-trial-";
/// Content of the object that is stored for a trial, and its Adler-32.
const CONTENT: &[u8] = b"a trial\n";
const ADLER32: u32 = 0x0c8b_02a8;

impl Client {
    /// Stores a small object below a directory twice, each time as a new one, and tags it. It is
    /// removed at the end, and so are old ones, whose processes were killed.
    ///
    /// # Errors
    /// The server's refusal to store it.
    pub(crate) async fn store_offers(&self, directory: &Resource) -> Result<StoreOffers> {
        let place = self.place(directory)?;
        let name = format!("{}{NAME}{:016x}", place.prefix(), fastrand::u64(..));
        let trial = Resource {
            location: directory.location.child(name.rsplit('/').next().unwrap_or_default()),
            ..directory.clone()
        };
        let key = place.with_key(&name);
        let is_conditional = self.store_trial(&trial, &key).await?;
        let offers = self.try_out(&trial, &key, is_conditional).await;
        self.remove_trial(&trial, &key).await;
        // They cost little, and the next start tries again.
        let _ = self.remove_old_trials(&trial, &place).await;
        offers
    }

    async fn remove_trial(&self, trial: &Resource, place: &Place) {
        let removal = Small::of(Request::plain(s3_wire::Method::Delete));
        if let Ok(answer) = self.ask(trial, place, &removal).await {
            answer.finish().await;
        }
    }

    async fn remove_old_trials(&self, trial: &Resource, directory: &Place) -> Result<()> {
        let prefix = format!("{}{NAME}", directory.prefix());
        let begun_s = now_s().saturating_sub(S3_TRIAL_LIFETIME.as_secs().cast_signed());
        let page = self.page(trial, directory, &prefix, None, "100").await?;
        for entry in page.entries {
            let is_old = entry.modified_s.is_some_and(|modified_s| modified_s < begun_s);
            if is_old && !entry.is_prefix && entry.key.starts_with(&prefix) {
                self.remove_trial(trial, &directory.with_key(&entry.key)).await;
            }
        }
        Ok(())
    }

    /// Stores the object. Whether the server took the condition; some refuse any.
    async fn store_trial(&self, trial: &Resource, place: &Place) -> Result<bool> {
        match self.ask(trial, place, &put(true)).await {
            Ok(answer) => {
                answer.finish().await;
                Ok(true)
            }
            Err(error) if error.code() == ErrorCode::PeerUnsupported => {
                self.ask(trial, place, &put(false)).await?.finish().await;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn try_out(&self, trial: &Resource, place: &Place, is_conditional: bool) -> Result<StoreOffers> {
        let mut creates_only = false;
        if is_conditional {
            let again = self.ask_once(trial, place, &put(true)).await?;
            creates_only = again.head.status == 412;
            again.finish().await;
        }
        let facts: Facts = self.head(trial, &types::ChecksumAlgorithm::ALL).await?;
        let sum = [Checksum::adler32(ADLER32)];
        let keeps_tags = match &facts.etag {
            Some(etag) => {
                let kept = self.keep_checksums(trial, etag, &sum).await;
                kept.is_ok() && self.kept_checksums(trial, etag).await.is_ok_and(|kept| kept == sum)
            }
            None => false,
        };
        Ok(StoreOffers {
            creates_only,
            keeps_tags,
            checksums: facts.checksums.iter().map(Checksum::algorithm).collect(),
        })
    }
}

/// The request that stores the object.
fn put(is_new: bool) -> Small<'static> {
    Small {
        body: CONTENT,
        is_new,
        ..Small::of(Request::plain(s3_wire::Method::Put))
    }
}
