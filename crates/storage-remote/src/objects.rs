//! What is different if the server stores objects ([`Abilities::is_object_store`]): names are never
//! changed, directories are marked, checksums are kept beside the files, and whether an object can
//! be stored as a new one only has to be tried.
//!
//! [`Abilities::is_object_store`]: remote::Abilities::is_object_store

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use remote::{Facts, Resource, StoreOffers};
use tokio::sync::Mutex;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, LogicalPath, Phase, Result, Side};

use crate::fault::fault;
use crate::limits::{CREATING_LOCKS, TREE_DEPTH_MAX};
use crate::upstream::Upstream;

/// The locks of [`Upstream::creating`], by the hash of the address: exports may share a bucket.
static CREATING: [Mutex<()>; CREATING_LOCKS] = [const { Mutex::const_new(()) }; CREATING_LOCKS];

/// Why a name is not changed.
const NO_RENAMING: &str = "object stores cannot rename: copy the file, then remove the old one";
/// Why a file is not changed in place.
const NO_CHANGES: &str = "an object is stored as a whole: its bytes are not changed in place";

impl Upstream {
    /// Whether the server stores objects.
    pub(crate) fn is_object_store(&self) -> bool {
        self.abilities().is_object_store
    }

    /// What the server offers. It is tried once; after a failure, again with the next question.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn offers(&self) -> Result<StoreOffers> {
        let root = self.resource(&LogicalPath::root());
        let tried = self.offers.get_or_try_init(|| self.client.store_offers(&root)).await;
        tried.cloned().map_err(|error| self.blame(&error, &LogicalPath::root()))
    }

    /// Refuses what no object store can do.
    pub(crate) fn check_renaming(&self, path: &LogicalPath) -> Result<()> {
        match self.is_object_store() {
            true => Err(self.refuse(ErrorCode::NotImplemented, NO_RENAMING).with_subject(path)),
            false => Ok(()),
        }
    }

    /// The refusal to change a file in place.
    pub(crate) fn refuse_changes(&self, path: &LogicalPath) -> Error {
        let words = match self.is_object_store() {
            true => NO_CHANGES,
            false => "it takes whole files, which are not changed in place",
        };
        self.refuse(ErrorCode::NotImplemented, words).with_subject(path)
    }

    fn refuse(&self, code: ErrorCode, words: &str) -> Error {
        fault(code, Phase::Open, self.root(), words)
    }

    /// Whether a name is the directory of the store, which is there although nothing is in it.
    pub(crate) fn is_empty_root(&self, path: &LogicalPath, error: &Error) -> bool {
        path.is_root() && self.is_object_store() && error.code() == ErrorCode::NotFound
    }

    /// Refuses a file below another file, at any depth. Object stores would take it. Where the
    /// nearest directory exists, those above it were looked at when it was made.
    pub(crate) async fn check_parents(&self, path: &LogicalPath) -> Result<()> {
        let above = std::iter::successors(path.parent(), LogicalPath::parent);
        for directory in above.take_while(|directory| !directory.is_root()).take(TREE_DEPTH_MAX) {
            let is_last = directory.parent().is_none_or(|parent| parent.is_root());
            let resource = self.resource(&directory);
            let found = match is_last {
                true => self.client.head(&resource, &[]).await.map(|_| false),
                false => self.client.stat(&resource).await.map(|entry| entry.is_directory),
            };
            match found {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let error = Error::new(ErrorCode::NotDirectory, Side::Upstream, Phase::Open);
                    return Err(error.with_subject(&directory));
                }
                Err(error) if error.code() == ErrorCode::PeerNotFound => {}
                Err(error) => return Err(self.blame(&error, path)),
            }
        }
        Ok(())
    }

    /// Whether the server ignores that a file must be new, or refuses such requests.
    pub(crate) async fn replaces_silently(&self) -> Result<bool> {
        Ok(!self.offers().await?.creates_only)
    }

    /// Held from the last look for a new file to the end of its upload. The condition of the
    /// request alone does not suffice: SeaweedFS checks it for an upload in parts, but two that
    /// complete at the same time both succeed. Two names may share a lock.
    pub(crate) fn creating(&self, path: &LogicalPath) -> &'static Mutex<()> {
        let mut hasher = DefaultHasher::new();
        self.resource(path).location.to_string().hash(&mut hasher);
        let index = hasher.finish() % CREATING.len() as u64;
        &CREATING[usize::try_from(index).unwrap_or(0)]
    }

    /// Refuses a name that is taken.
    pub(crate) async fn check_absent(&self, path: &LogicalPath) -> Result<()> {
        match self.client.head(&self.resource(path), &[]).await {
            Ok(_) => Err(Error::new(ErrorCode::Exists, Side::Upstream, Phase::Open).with_subject(path)),
            Err(error) if error.code() == ErrorCode::PeerNotFound => Ok(()),
            Err(error) => Err(self.blame(&error, path)),
        }
    }

    /// Keeps checksums beside a file, where the server can. The file is complete without them.
    pub(crate) async fn keep(&self, file: &Resource, etag: Option<&str>, checksums: &[Checksum]) {
        let Some(etag) = etag.filter(|_| self.is_object_store() && !self.is_read_only && !checksums.is_empty()) else {
            return;
        };
        if self.offers().await.is_ok_and(|offers| offers.keeps_tags) {
            let _ = self.client.keep_checksums(file, etag, checksums).await;
        }
    }

    /// The checksums of a file that the server tells, and those that are kept beside it if any of
    /// the wanted ones is missing.
    pub(crate) async fn known(
        &self,
        file: &Resource,
        path: &LogicalPath,
        wanted: &[ChecksumAlgorithm],
    ) -> Result<Vec<Checksum>> {
        let facts = self.client.head(file, wanted).await?;
        Ok(self.known_of(file, path, &facts, wanted).await)
    }

    /// As [`Upstream::known`], of the version with these facts. Tags of another version do not
    /// count.
    pub(crate) async fn known_of(
        &self,
        file: &Resource,
        path: &LogicalPath,
        facts: &Facts,
        wanted: &[ChecksumAlgorithm],
    ) -> Vec<Checksum> {
        let mut known = facts.checksums.clone();
        self.stale.leave_out(path, &mut known);
        let is_known = |known: &[Checksum], algorithm| known.iter().any(|sum| sum.algorithm() == algorithm);
        if self.is_object_store()
            && !wanted.iter().all(|algorithm| is_known(&known, *algorithm))
            && let Some(etag) = &facts.etag
        {
            // A server without tags refuses; then they are computed.
            let kept = self.client.kept_checksums(file, etag).await.unwrap_or_default();
            for sum in kept {
                if !is_known(&known, sum.algorithm()) {
                    known.push(sum);
                }
            }
        }
        known
    }
}
