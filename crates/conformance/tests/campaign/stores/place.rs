//! An export, the directory of the server behind it, and the versions of its files that there may
//! be.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use testkit::S3Bucket;

const STICKY: u32 = 0o1000;
/// For so many rounds an upload whose outcome is unknown may still come to its end.
const LATE_ROUNDS: u64 = 50;

/// What stands behind an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Behind {
    /// One of ours, in clear text.
    Http,
    /// The same over TLS.
    Https,
    /// XRootD.
    Root,
    /// A bucket.
    S3,
}

impl Behind {
    pub(super) const ALL: [Self; 4] = [Self::Http, Self::Https, Self::Root, Self::S3];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Root => "root",
            Self::S3 => "s3",
        }
    }

    /// Whether the relay can read and answer its requests.
    pub(super) fn is_clear_http(self) -> bool {
        matches!(self, Self::Http | Self::S3)
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// A file's content, or that there is none.
pub(super) type Version = Option<Arc<Vec<u8>>>;

/// What a file may be.
#[derive(Debug, Default)]
struct Known {
    now: Version,
    /// What it may still be, and since which round.
    others: Vec<(u64, Version)>,
}

/// An export.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) behind: Behind,
    pub(super) is_cached: bool,
    /// Where the server behind has its files.
    pub(super) directory: PathBuf,
    /// Where its files are objects.
    bucket: Option<S3Bucket>,
    files: BTreeMap<String, Known>,
}

impl Place {
    pub(super) fn new(behind: Behind, is_cached: bool, data: &Path, bucket: &S3Bucket) -> Self {
        let mut place = Self {
            behind,
            is_cached,
            directory: PathBuf::new(),
            bucket: (behind == Behind::S3).then(|| bucket.clone()),
            files: BTreeMap::new(),
        };
        place.directory = data.join(place.name());
        place
    }

    /// Of its export, and of its directory.
    pub(super) fn name(&self) -> String {
        let cached = if self.is_cached { "-cached" } else { "" };
        format!("{}{cached}", self.behind.name())
    }

    pub(super) fn path(&self, file: &str) -> String {
        format!("/{}/{file}", self.name())
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    /// The versions of a file that a client may see.
    pub(super) fn versions(&self, file: &str) -> Vec<Version> {
        let Some(known) = self.files.get(file) else {
            return vec![None];
        };
        let others = known.others.iter().map(|(_, version)| version.clone());
        std::iter::once(known.now.clone()).chain(others).collect()
    }

    /// Puts a version in place behind the back of the server in front, at a time of its own.
    pub(super) fn change(&self, file: &str, content: &[u8], modified: SystemTime) {
        if let Some(bucket) = &self.bucket {
            let key = format!("{}/{file}", self.name());
            return bucket.store(&key, content).expect("stored");
        }
        let (path, new) = (self.directory.join(file), self.directory.join(format!(".{file}.new")));
        fs::write(&new, content).expect("written");
        let written = fs::File::options().write(true).open(&new).expect("opened");
        written.set_modified(modified).expect("dated");
        fs::rename(new, path).expect("renamed");
    }

    /// Whether XRootD holds back what its client has not closed: its sticky bit says so.
    pub(super) fn is_pending(&self, file: &str) -> bool {
        let facts = fs::metadata(self.directory.join(file));
        self.behind == Behind::Root && facts.is_ok_and(|facts| facts.permissions().mode() & STICKY != 0)
    }

    /// What the server behind has.
    pub(super) fn stored(&self, file: &str) -> Version {
        fs::read(self.directory.join(file)).ok().map(Arc::new)
    }

    /// From now on the file is this. With `unsure` also what came of others may still appear.
    pub(super) fn settle(&mut self, file: &str, now: Version, unsure: Vec<Version>, round: u64) {
        let known = self.files.entry(file.to_owned()).or_default();
        known.now = now;
        known.others.retain(|(since, _)| since + LATE_ROUNDS > round);
        known.others.extend(unsure.into_iter().map(|version| (round, version)));
    }
}

/// Times long ago, so that caches keep what has them, each later than the one before.
#[derive(Debug)]
pub(super) struct Clock(SystemTime);

impl Clock {
    pub(super) fn new() -> Self {
        Self(SystemTime::now() - Duration::from_secs(1 << 22))
    }

    pub(super) fn next(&mut self) -> SystemTime {
        self.0 += Duration::from_secs(1);
        self.0
    }
}
