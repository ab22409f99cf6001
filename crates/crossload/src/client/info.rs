//! What the client knows of a file or directory.

use serde::{Deserialize, Serialize};
use storage::Stat;
use storage::local::{LocalEntry, Unfit};
use types::Checksum;

/// Properties of a file or directory, remote or local.
///
/// It is written to temporary files, without what lists of files do not need.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) is_directory: bool,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) modified_s: Option<i64>,
    #[serde(with = "written_checksums")]
    pub(crate) checksums: Vec<Checksum>,
    #[serde(skip)]
    pub(crate) etag: Option<String>,
    /// It is an upload that was never closed.
    #[serde(skip)]
    pub(crate) is_unclosed: bool,
    /// Why it cannot be used as a file or directory.
    #[serde(skip)]
    pub(crate) unfit: Option<Unfit>,
}

/// Checksums as `adler32:0a1b2c3d`.
mod written_checksums {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use types::Checksum;

    pub(super) fn serialize<S: Serializer>(checksums: &[Checksum], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(checksums.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Checksum>, D::Error> {
        let written = Vec::<String>::deserialize(from)?;
        Ok(written.iter().filter_map(|pair| Checksum::from_pair(pair)).collect())
    }
}

impl From<remote::Entry> for Info {
    fn from(entry: remote::Entry) -> Self {
        Self {
            name: entry.name().to_owned(),
            is_directory: entry.is_directory,
            size_bytes: entry.size_bytes,
            modified_s: entry.modified_s,
            checksums: entry.checksums,
            etag: entry.etag,
            is_unclosed: entry.is_unclosed,
            unfit: entry.is_special.then_some(Unfit::Special),
        }
    }
}

impl Info {
    /// The properties of a local name.
    pub(super) fn of_local(name: &str, stat: &Stat) -> Self {
        let modified = stat.modified.duration_since(std::time::UNIX_EPOCH);
        Self {
            name: name.to_owned(),
            is_directory: stat.is_directory(),
            size_bytes: Some(stat.size_bytes),
            modified_s: modified.ok().map(|since| since.as_secs() as i64),
            ..Self::default()
        }
    }
}

impl From<LocalEntry> for Info {
    fn from(found: LocalEntry) -> Self {
        match found.what {
            Ok(stat) => Self::of_local(&found.name, &stat),
            Err(unfit) => Self {
                name: found.name,
                unfit: Some(unfit),
                ..Self::default()
            },
        }
    }
}
