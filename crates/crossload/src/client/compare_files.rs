//! Whether two files are equal: by size, and by checksum or time.

use types::{Checksum, ChecksumAlgorithm, ErrorCode, Result, Side};

use super::place::Place;
use super::session::{ClientContext, Info};
use crate::command_line::CompareBy;

/// Algorithms that are asked for, until both sides have one. The first is the grid's common one.
const ALGORITHMS: [ChecksumAlgorithm; 3] = [
    ChecksumAlgorithm::Adler32,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Md5,
];

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    SameSize,
    /// The same size, and the second file is not older.
    NotOlder,
    SameChecksum,
    /// The second is no file.
    OtherKind,
    OtherSize,
    Older,
    OtherChecksum,
    /// No size is known, or the same size, and neither times nor checksums can be compared.
    Unknown,
}

impl Compared {
    /// Whether the files count as equal.
    pub(crate) fn is_equal(self) -> bool {
        matches!(self, Self::SameSize | Self::NotOlder | Self::SameChecksum)
    }

    /// The name in reports for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SameSize => "same_size",
            Self::NotOlder => "not_older",
            Self::SameChecksum => "same_checksum",
            Self::OtherKind => "other_kind",
            Self::OtherSize => "other_size",
            Self::Older => "older",
            Self::OtherChecksum => "other_checksum",
            Self::Unknown => "unknown",
        }
    }

    /// The text for users.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::SameSize => "it has the same size",
            Self::NotOlder => "it has the same size and is not older",
            Self::SameChecksum => "it has the same size and checksum",
            Self::OtherKind => "it is no file",
            Self::OtherSize => "it has another size",
            Self::Older => "it is older than the source",
            Self::OtherChecksum => "it has another checksum",
            Self::Unknown => "its size may be the same, and there is no checksum to compare",
        }
    }
}

/// How files are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) by: CompareBy,
    /// A copy gets the time of its source.
    pub(crate) keeps_times: bool,
}

/// A file, and what a listing says of it.
pub(crate) struct Known<'a> {
    pub(crate) place: &'a Place,
    pub(crate) info: &'a Info,
}

impl ClientContext {
    /// Compares a file with its copy.
    ///
    /// # Errors
    /// A checksum that cannot be computed.
    pub(crate) async fn compare(&self, source: Known<'_>, copy: Known<'_>, how: How) -> Result<Compared> {
        match compare_listed(source.info, copy.info, how) {
            Some(compared) => Ok(compared),
            None => self.compare_sums(source.place, copy.place).await,
        }
    }

    /// Asks both sides for a checksum.
    async fn compare_sums(&self, source: &Place, copy: &Place) -> Result<Compared> {
        for algorithm in ALGORITHMS {
            let here = self.sum(source, algorithm, Side::Source);
            let there = self.sum(copy, algorithm, Side::Destination);
            match tokio::try_join!(here, there) {
                Ok((here, there)) if here == there => return Ok(Compared::SameChecksum),
                Ok(_) => return Ok(Compared::OtherChecksum),
                Err(error) if error.code() == ErrorCode::ChecksumUnavailable => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Compared::Unknown)
    }
}

/// Compares what listings say of a file and its copy. `None`: only checksums that both sides
/// compute can decide.
fn compare_listed(source: &Info, copy: &Info, how: How) -> Option<Compared> {
    let has_same_size = match (source.size_bytes, copy.size_bytes) {
        (Some(here), Some(there)) if here != there => return Some(Compared::OtherSize),
        (here, there) => here.is_some() && there.is_some(),
    };
    let times = match (source.modified_s, copy.modified_s) {
        // A time says nothing of a file whose size is not known.
        _ if !has_same_size => Compared::Unknown,
        // Within the same second it is not known which was first, unless times are kept.
        (Some(here), Some(there)) if there > here || (there == here && how.keeps_times) => Compared::NotOlder,
        (Some(here), Some(there)) if there == here => Compared::Unknown,
        (Some(_), Some(_)) => Compared::Older,
        _ => Compared::Unknown,
    };
    match how.by {
        CompareBy::Size if has_same_size => Some(Compared::SameSize),
        CompareBy::Size => Some(Compared::Unknown),
        CompareBy::Time => Some(times),
        CompareBy::Auto | CompareBy::Checksum => {
            let is_decided = how.by == CompareBy::Auto && times == Compared::NotOlder;
            in_common(&source.checksums, &copy.checksums).or(is_decided.then_some(times))
        }
    }
}

/// Compares checksums of the same algorithm, if there are any.
fn in_common(here: &[Checksum], there: &[Checksum]) -> Option<Compared> {
    here.iter().find_map(|here| {
        let there = there.iter().find(|there| there.algorithm() == here.algorithm())?;
        Some(match here == there {
            true => Compared::SameChecksum,
            false => Compared::OtherChecksum,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_unknown_size_are_equal_by_their_checksums_only() {
        let info = |size_bytes, modified_s, sum| Info {
            size_bytes,
            modified_s,
            checksums: Checksum::from_pair(sum).into_iter().collect(),
            ..Info::default()
        };
        let compare = |size_bytes, copy: Info, by| {
            let how = How { by, keeps_times: false };
            compare_listed(&info(size_bytes, Some(1), "adler32:00000001"), &copy, how)
        };
        let newer = || info(Some(5), Some(2), "");
        assert_eq!(compare(Some(5), newer(), CompareBy::Size), Some(Compared::SameSize));
        assert_eq!(compare(Some(5), newer(), CompareBy::Time), Some(Compared::NotOlder));
        assert_eq!(compare(Some(5), newer(), CompareBy::Auto), Some(Compared::NotOlder));
        assert_eq!(compare(Some(5), newer(), CompareBy::Checksum), None);
        assert_eq!(compare(Some(6), newer(), CompareBy::Time), Some(Compared::OtherSize));
        assert_eq!(compare(None, newer(), CompareBy::Size), Some(Compared::Unknown));
        assert_eq!(compare(None, newer(), CompareBy::Time), Some(Compared::Unknown));
        assert_eq!(compare(None, newer(), CompareBy::Auto), None);
        let same = info(Some(5), Some(2), "adler32:00000001");
        assert_eq!(compare(None, same, CompareBy::Auto), Some(Compared::SameChecksum));
    }
}
