//! What the loads of copies, long lines and vector reads need beside their options: pairs of servers, and a pattern.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bench::ground::Target;
use bench::load::third_party::Pair;
use bench::load::tpc;
use bench::load::vector::Pattern;

use crate::command_line::VectorOptions;
use crate::failure::Failure;

/// Pieces in each request of a pattern that is made here.
const PIECES: usize = 64;
/// A larger file is no pattern: it would be a line of forty characters for each piece that is allowed.
const PATTERN_FILE_BYTES_MAX: u64 = 40 << 20;

/// The targets in pairs.
///
/// # Errors
/// When one is left over.
pub(super) fn pairs(targets: &[Target]) -> Result<Vec<Pair>, Failure> {
    tpc::pairs(targets).ok_or_else(|| {
        Failure::invalid(
            "copies are measured between two servers: give their URLs in pairs, from where and then to where"
                .to_owned(),
        )
    })
}

/// The pattern that the options name, or one that is made.
///
/// # Errors
/// When the file cannot be read, or is no pattern.
pub(super) fn pattern(options: &VectorOptions) -> Result<Pattern, Failure> {
    let pieces = options.pieces.map(|pieces| pieces as usize);
    match &options.pattern {
        None => Ok(Pattern::made(options.size, pieces.unwrap_or(PIECES))),
        Some(file) => Pattern::parse(&read(file)?, pieces)
            .map_err(|words| Failure::invalid(format!("{}: {words}", file.display()))),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |cause: std::io::Error| Failure::system(path.display(), &cause);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(PATTERN_FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    match text.len() as u64 > PATTERN_FILE_BYTES_MAX {
        true => Err(Failure::invalid(format!(
            "{}: it is too large for a pattern",
            path.display()
        ))),
        false => Ok(text),
    }
}
