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
    /// The same size, but neither times nor checksums can be compared.
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
            Self::Unknown => "it has the same size, and there is no checksum to compare",
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
        if let (Some(here), Some(there)) = (source.info.size_bytes, copy.info.size_bytes)
            && here != there
        {
            return Ok(Compared::OtherSize);
        }
        let times = match (source.info.modified_s, copy.info.modified_s) {
            // Within the same second it is not known which was first, unless times are kept.
            (Some(here), Some(there)) if there > here || (there == here && how.keeps_times) => Compared::NotOlder,
            (Some(here), Some(there)) if there == here => Compared::Unknown,
            (Some(_), Some(_)) => Compared::Older,
            _ => Compared::Unknown,
        };
        match how.by {
            CompareBy::Size => return Ok(Compared::SameSize),
            CompareBy::Time => return Ok(times),
            CompareBy::Auto | CompareBy::Checksum => {}
        }
        if let Some(listed) = in_common(&source.info.checksums, &copy.info.checksums) {
            return Ok(listed);
        }
        if how.by == CompareBy::Auto && times == Compared::NotOlder {
            return Ok(times);
        }
        self.compare_sums(source.place, copy.place).await
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
