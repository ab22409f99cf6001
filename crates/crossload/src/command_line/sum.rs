//! Options of `sum`.

use std::path::PathBuf;

use clap::Args;
use types::ChecksumAlgorithm;

use super::client::{Common, algorithm};
use super::places::Places;

/// Options of `sum`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SumOptions {
    /// Files: URLs, NAME:PATH in named remotes, local paths; last may be an algorithm (gfal-sum)
    #[arg(required_unless_present_any = ["from_file", "check"], value_name = "PLACE")]
    places: Vec<String>,
    /// Algorithm: adler32, crc32c, md5 or sha-256 [default: adler32]
    #[arg(short, long, value_name = "ALG", value_parser = algorithm)]
    pub(crate) algorithm: Option<ChecksumAlgorithm>,
    /// Compare the files in this list with their checksums; - is standard input
    ///
    /// A list is what this command prints, also with --json, or md5sum, sha256sum or xrdadler32.
    #[arg(short, long, value_name = "LIST", conflicts_with_all = ["places", "from_file"])]
    pub(crate) check: Option<PathBuf>,
    /// Read further places from this file, one per line; - is standard input
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// `xrdfs query checksum`: the algorithm and the value.
    #[arg(long, hide = true)]
    pub(crate) without_name: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Algorithms that other programs have.
const OTHER_ALGORITHMS: &[&str] = &[
    "sha1", "sha-1", "sha224", "sha384", "sha512", "sha-512", "sha3", "sha3-256", "sha3-512", "blake2b", "blake3",
    "crc32", "zcrc32", "crc64",
];

impl SumOptions {
    /// The last word, if it names an algorithm that this program does not know.
    pub(crate) fn unknown_algorithm(&self) -> Option<&str> {
        let last = self.places.last().filter(|_| self.places.len() > 1)?;
        let is_one = OTHER_ALGORITHMS.iter().any(|name| name.eq_ignore_ascii_case(last));
        is_one.then_some(last.as_str())
    }

    /// The files, and the checksum algorithm.
    pub(crate) fn wanted(&self) -> (Places, ChecksumAlgorithm) {
        let mut places = self.places.clone();
        let is_behind_places = places.len() > 1 || self.from_file.is_some();
        let last = places.last().and_then(|last| ChecksumAlgorithm::from_name(last));
        let last = last.filter(|_| is_behind_places && self.algorithm.is_none());
        if last.is_some() {
            places.pop();
        }
        let algorithm = self.algorithm.or(last).unwrap_or(ChecksumAlgorithm::Adler32);
        (Places::new(places, self.from_file.clone()), algorithm)
    }
}
