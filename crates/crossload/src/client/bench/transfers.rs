//! Inputs of the loads `tpc`, `latency` and `vector`: pairs of servers, and the read pattern.

use std::path::Path;

use bench::ground::Target;
use bench::load::third_party::Pair;
use bench::load::tpc;
use bench::load::vector::Pattern;
use config::read_text;

use crate::command_line::VectorOptions;
use crate::failure::Failure;

/// Pieces per request of the default pattern.
const PIECES: usize = 64;
/// Largest pattern file: 40 characters for each piece that is allowed.
const PATTERN_FILE_BYTES_MAX: u64 = 40 << 20;

/// The targets in pairs.
///
/// # Errors
/// An odd number of targets.
pub(super) fn pairs(targets: &[Target]) -> Result<Vec<Pair>, Failure> {
    tpc::pairs(targets).ok_or_else(|| {
        Failure::invalid("copies need pairs of URLs: source, destination, source, destination, …".to_owned())
    })
}

/// The pattern of `--pattern`, or the default one.
///
/// # Errors
/// A file that cannot be read or is not a pattern.
pub(super) fn pattern(options: &VectorOptions) -> Result<Pattern, Failure> {
    let pieces = options.pieces.map(|pieces| pieces as usize);
    match &options.pattern {
        None => Ok(Pattern::made(options.size, pieces.unwrap_or(PIECES))),
        Some(file) => Pattern::parse(&read(file)?, pieces)
            .map_err(|words| Failure::invalid(format!("{}: {words}", file.display()))),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    read_text(path, PATTERN_FILE_BYTES_MAX).map_err(|cause| Failure::system(path.display(), &cause))
}
