//! Names: what they stand for, removing them, and what stands for directories. S3 has none: a
//! directory is there as long as a key begins with its name and a slash. The object with exactly
//! that key, which some clients store, is empty and marks a directory.

use s3_wire::{Place, Request};
use types::{ErrorCode, Location, Phase, Result};

use super::client::{Client, Small};
use crate::Entry;
use crate::options::WithinOptions;
use crate::resource::{Resource, Validator};

impl Client {
    /// What a name stands for: a bucket, an object, or a prefix of others.
    ///
    /// # Errors
    /// `peer_not_found`, or another refusal.
    pub(crate) async fn stat(&self, file: &Resource) -> Result<Entry> {
        let place = self.place(file)?;
        let directory = || Entry {
            path: path_of(&place),
            is_directory: true,
            ..Entry::default()
        };
        if place.bucket.is_empty() {
            return Ok(directory());
        }
        if place.key.is_empty() {
            self.page(file, &place, "", None, "1").await?;
            return Ok(directory());
        }
        let refused = if place.key.ends_with('/') {
            file.error(ErrorCode::PeerNotFound, Phase::Open)
        } else {
            match self.head_entry(file, &place).await {
                Err(error) if error.code() == ErrorCode::PeerNotFound => error,
                found => return found,
            }
        };
        match self.page(file, &place, &place.prefix(), None, "1").await {
            Ok(page) if !page.entries.is_empty() => Ok(directory()),
            // No such bucket, a key that the server does not know, or a bucket that is elsewhere.
            Err(error)
                if matches!(
                    error.code(),
                    ErrorCode::PeerNotFound | ErrorCode::PeerDenied | ErrorCode::PeerMisbehaved
                ) =>
            {
                Err(error)
            }
            _ => Err(refused),
        }
    }

    async fn head_entry(&self, file: &Resource, place: &Place) -> Result<Entry> {
        let answer = self
            .ask_head_or_list(file, place, &Request::plain(s3_wire::Method::Head))
            .await?;
        let entry = Entry {
            path: path_of(place),
            size_bytes: answer.head.content_length(),
            modified_s: answer.head.last_modified(),
            etag: answer.head.etag().map(str::to_owned),
            ..Entry::default()
        };
        answer.release();
        Ok(entry)
    }

    /// Removes an object, if it is still this version where the server knows such a condition. The
    /// server does not say whether there was one, so it is asked before. A directory is removed as
    /// by [`Client::remove_directory`], if it is there.
    ///
    /// # Errors
    /// `peer_not_found`, `not_empty`, or another refusal.
    pub(crate) async fn delete(&self, file: &Resource, version: Option<&Validator>) -> Result<()> {
        let place = self.place(file)?;
        if place.key.is_empty() {
            let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail("buckets are not removed"));
        }
        if version.is_none()
            && let Err(error) = self.head(file, &[]).await
        {
            return match error.code() {
                ErrorCode::PeerNotFound => match self.remove_mark(file, &place).await? {
                    true => Ok(()),
                    false => Err(error),
                },
                _ => Err(error),
            };
        }
        let version = match version {
            Some(Validator::Tag(tag)) => Some(tag.as_str()),
            _ => None,
        };
        self.remove(file, &place, version).await
    }

    async fn remove(&self, file: &Resource, place: &Place, version: Option<&str>) -> Result<()> {
        let small = Small {
            version,
            ..Small::of(Request::plain(s3_wire::Method::Delete))
        };
        self.ask(file, place, &small).await?.finish().await;
        Ok(())
    }

    /// Removes the mark of a directory. Without one, a directory is gone with its last object, so
    /// one that is not there is removed.
    ///
    /// # Errors
    /// `not_empty`, or a refusal.
    pub(crate) async fn remove_directory(&self, directory: &Resource) -> Result<()> {
        let place = self.place(directory)?;
        if place.key.is_empty() {
            let error = directory.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail("buckets are not removed"));
        }
        self.remove_mark(directory, &place).await.map(drop)
    }

    /// Removes the mark of a directory, and says whether there was one.
    async fn remove_mark(&self, directory: &Resource, place: &Place) -> Result<bool> {
        let prefix = place.prefix();
        let page = self.page(directory, place, &prefix, None, "2").await?;
        if page.entries.iter().any(|entry| entry.key != prefix) {
            return Err(directory.error(ErrorCode::NotEmpty, Phase::Open));
        }
        if page.entries.is_empty() {
            return Ok(false);
        }
        self.remove(directory, &place.with_key(&prefix), None).await?;
        Ok(true)
    }

    /// Makes a bucket. A directory needs not be made: it is there with the first object in it.
    ///
    /// # Errors
    /// `peer_exists` for a bucket, or another refusal.
    pub(crate) async fn make_directory(&self, directory: &Resource) -> Result<()> {
        let place = self.place(directory)?;
        if !place.key.is_empty() || place.bucket.is_empty() {
            return Ok(());
        }
        let request = Request::plain(s3_wire::Method::Put);
        self.ask(directory, &place, &Small::of(request)).await?.finish().await;
        Ok(())
    }

    /// Stores the object that marks a directory, so that it is there without others. One that is
    /// there stays.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn mark_directory(&self, directory: &Resource) -> Result<()> {
        let place = self.place(directory)?;
        if place.key.is_empty() {
            return self.make_directory(directory).await;
        }
        let mark = place.with_key(&place.prefix());
        let request = Request::plain(s3_wire::Method::Put);
        self.ask(directory, &mark, &Small::of(request)).await?.finish().await;
        Ok(())
    }

    /// Gives an object another name. S3 has no request for that: the server copies it, the copy is
    /// compared, and then the old one is removed.
    ///
    /// # Errors
    /// `peer_exists`; `peer_unsupported` for a directory; `checksum_mismatch`, and then the copy is
    /// removed; another refusal.
    pub(crate) async fn rename(&self, file: &Resource, to: &Location, overwrite: bool) -> Result<()> {
        let target = Resource {
            location: to.clone(),
            ..file.clone()
        };
        if self.stat(file).await?.is_directory {
            let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail("S3 has no directories to rename"));
        }
        let options = WithinOptions {
            overwrite,
            is_absent: false,
        };
        let copied = self.copy_within(file, &target, &options).await?;
        if let Some(words) = copied.difference() {
            if copied.version.is_some() {
                self.delete(&target, copied.version.as_ref()).await?;
            }
            let error = target.error(ErrorCode::ChecksumMismatch, Phase::Checksum);
            return Err(error.with_detail(words));
        }
        self.delete(file, copied.source.validator().as_ref()).await
    }
}

/// A path as listings name it.
fn path_of(place: &Place) -> String {
    let path = format!("/{}/{}", place.bucket, place.key);
    path.trim_end_matches('/').to_owned()
}
