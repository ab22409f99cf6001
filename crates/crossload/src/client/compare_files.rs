//! Whether two files are equal: by size, and by checksum or time.

use transfer::refuses_to_tell;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Result, Side};

use super::place::Place;
use super::session::{ClientContext, Info};
use crate::command_line::CompareBy;

/// Algorithms that servers are asked for. The first is the grid's common one.
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
    /// The same, where checksums should have decided, and none could be compared.
    NotOlderUnverified,
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
        matches!(
            self,
            Self::SameSize | Self::NotOlder | Self::NotOlderUnverified | Self::SameChecksum
        )
    }

    /// The name in reports for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SameSize => "same_size",
            Self::NotOlder | Self::NotOlderUnverified => "not_older",
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
            Self::NotOlderUnverified => "it has the same size and is not older; there is no checksum to compare",
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

/// What listings say of a file and its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Decided(Compared),
    /// Checksums that are not listed decide. Without any, this is the result.
    Open(Compared),
}

impl ClientContext {
    /// Compares a file with its copy. Asks for checksums only if the listings do not decide.
    ///
    /// # Errors
    /// A checksum that cannot be computed.
    pub(crate) async fn compare(&self, source: Known<'_>, copy: Known<'_>, how: How) -> Result<Compared> {
        let otherwise = match compare_listed(source.info, copy.info, how) {
            Listed::Decided(compared) => return Ok(compared),
            Listed::Open(otherwise) => otherwise,
        };
        match self.compare_sums(source, copy).await {
            Ok(Compared::Unknown) => Ok(otherwise),
            // The times decide where a file may be listed and not read.
            Err(error) if otherwise.is_equal() && says_no(&error) => Ok(otherwise),
            compared => compared,
        }
    }

    /// Asks both sides for checksums. Unless both files are on this machine, one that is here is
    /// read only where the other side has a checksum.
    async fn compare_sums(&self, source: Known<'_>, copy: Known<'_>) -> Result<Compared> {
        let (mut here, mut there) = tokio::try_join!(
            self.told_sums(&source, Side::Source),
            self.told_sums(&copy, Side::Destination)
        )?;
        if in_common(&here, &there).is_none() {
            let are_here = is_local(source.place) && is_local(copy.place);
            let wanted = |theirs: &[Checksum]| match are_here {
                true => vec![ALGORITHMS[0]],
                false => theirs.iter().map(Checksum::algorithm).collect(),
            };
            let (of_source, of_copy) = (wanted(&there), wanted(&here));
            // Each side may have one that it did not mention.
            let (more_here, more_there) = tokio::try_join!(
                self.sum_of(source.place, &of_source, Side::Source),
                self.sum_of(copy.place, &of_copy, Side::Destination)
            )?;
            here.extend(more_here);
            there.extend(more_there);
        }
        Ok(in_common(&here, &there).unwrap_or(Compared::Unknown))
    }

    /// The checksums that a listing tells, or else the server when it is asked.
    async fn told_sums(&self, file: &Known<'_>, side: Side) -> Result<Vec<Checksum>> {
        match file.place {
            Place::Remote(location) if file.info.checksums.is_empty() => {
                let asked = self.resource(location, side);
                Ok(self.client.head(&asked, &ALGORITHMS).await?.checksums)
            }
            _ => Ok(file.info.checksums.clone()),
        }
    }

    /// The first checksum of these algorithms that this side can tell.
    async fn sum_of(&self, place: &Place, wanted: &[ChecksumAlgorithm], side: Side) -> Result<Option<Checksum>> {
        for algorithm in wanted {
            match self.sum(place, *algorithm, side).await {
                Ok(sum) => return Ok(Some(sum)),
                Err(error) if error.code() == ErrorCode::ChecksumUnavailable => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

fn is_local(place: &Place) -> bool {
    matches!(place, Place::Local(_))
}

/// Whether a side refuses to tell a checksum, and would again.
fn says_no(error: &Error) -> bool {
    refuses_to_tell(error) || error.code().denies_access()
}

/// Compares what listings say of a file and its copy.
///
/// A copy is newer than its source where the destination does not keep times, so a newer file may
/// be the copy, or a file with other content. Only a checksum tells them apart.
fn compare_listed(source: &Info, copy: &Info, how: How) -> Listed {
    let has_same_size = match (source.size_bytes, copy.size_bytes) {
        (Some(here), Some(there)) if here != there => return Listed::Decided(Compared::OtherSize),
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
        CompareBy::Size if has_same_size => Listed::Decided(Compared::SameSize),
        CompareBy::Size => Listed::Decided(Compared::Unknown),
        CompareBy::Time => Listed::Decided(times),
        CompareBy::Auto | CompareBy::Checksum => match in_common(&source.checksums, &copy.checksums) {
            Some(compared) => Listed::Decided(compared),
            None if how.by == CompareBy::Checksum => Listed::Open(Compared::Unknown),
            None if times == Compared::NotOlder && source.modified_s == copy.modified_s => Listed::Decided(times),
            None if times == Compared::NotOlder => Listed::Open(Compared::NotOlderUnverified),
            None => Listed::Open(Compared::Unknown),
        },
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
        let decided = |by| compare(Some(5), newer(), by);
        assert_eq!(decided(CompareBy::Size), Listed::Decided(Compared::SameSize));
        assert_eq!(decided(CompareBy::Time), Listed::Decided(Compared::NotOlder));
        assert_eq!(decided(CompareBy::Checksum), Listed::Open(Compared::Unknown));
        let other_size = compare(Some(6), newer(), CompareBy::Time);
        assert_eq!(other_size, Listed::Decided(Compared::OtherSize));
        let unknown = |by| compare(None, newer(), by);
        assert_eq!(unknown(CompareBy::Size), Listed::Decided(Compared::Unknown));
        assert_eq!(unknown(CompareBy::Time), Listed::Decided(Compared::Unknown));
        assert_eq!(unknown(CompareBy::Auto), Listed::Open(Compared::Unknown));
        let same = info(Some(5), Some(2), "adler32:00000001");
        let same = compare(None, same, CompareBy::Auto);
        assert_eq!(same, Listed::Decided(Compared::SameChecksum));
    }

    #[test]
    fn a_newer_file_is_no_copy_because_of_its_time() {
        let info = |modified_s, sum| Info {
            size_bytes: Some(5),
            modified_s: Some(modified_s),
            checksums: Checksum::from_pair(sum).into_iter().collect(),
            ..Info::default()
        };
        let source = info(10, "adler32:00000001");
        for (time, sum, keeps_times, listed) in [
            (11, "", false, Listed::Open(Compared::NotOlderUnverified)),
            (11, "", true, Listed::Open(Compared::NotOlderUnverified)),
            (
                11,
                "md5:d41d8cd98f00b204e9800998ecf8427e",
                false,
                Listed::Open(Compared::NotOlderUnverified),
            ),
            (11, "adler32:00000002", false, Listed::Decided(Compared::OtherChecksum)),
            (10, "", true, Listed::Decided(Compared::NotOlder)),
            (10, "", false, Listed::Open(Compared::Unknown)),
            (9, "", true, Listed::Open(Compared::Unknown)),
        ] {
            let by = CompareBy::Auto;
            let found = compare_listed(&source, &info(time, sum), How { by, keeps_times });
            assert_eq!(found, listed, "{time} {sum} {keeps_times}");
        }
    }
}
