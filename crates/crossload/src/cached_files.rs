//! `crossload cache`: looks into the directory of a cache, of a running server too.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use cache::inspect::{self, CachedFile};
use serde_json::json;
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

use crate::command_line::{CacheAction, CacheOptions, CacheVerifyOptions, CachedFilesOptions};
use crate::dates;
use crate::failure::Failure;
use crate::output;

/// Exit code when a file of several could not be handled, or blocks are damaged.
const SOME_FAILED: u8 = 1;

/// Runs one of the commands.
///
/// # Errors
/// The directory is no cache, or cannot be read.
pub(crate) fn run(action: &CacheAction) -> Result<u8, Failure> {
    match action {
        CacheAction::Prefetch(_) => Err(Failure::invalid("not a command about the directory of a cache")),
        CacheAction::Ls(options) => list(options),
        CacheAction::Stat(options) => each(options, |file, as_json| {
            show(file, as_json);
            Ok(())
        }),
        CacheAction::Evict(options) => each(options, evict),
        CacheAction::Verify(options) => verify(options),
    }
}

fn failed(directory: &Path) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| {
        let failure = Failure::system(format!("{} is not a usable cache", directory.display()), &error);
        if error.kind() != io::ErrorKind::NotFound || !directory.is_dir() {
            return failure;
        }
        let words = format!(
            "{} holds no cache: name the cache_directory of an export",
            directory.display()
        );
        Failure { words, ..failure }
    }
}

fn list(options: &CacheOptions) -> Result<u8, Failure> {
    for file in inspect::files(&options.directory).map_err(failed(&options.directory))? {
        show(&file, options.json);
    }
    Ok(0)
}

/// Does something with each named file.
fn each(options: &CachedFilesOptions, act: impl Fn(&CachedFile, bool) -> io::Result<()>) -> Result<u8, Failure> {
    let directory = &options.cache.directory;
    let mut code = 0;
    for path in &options.paths {
        let found = inspect::find(directory, path).map_err(failed(directory))?;
        if found.is_empty() {
            let error = Error::new(ErrorCode::NotFound, Side::Client, Phase::Open);
            let error = error.with_detail("the cache does not have it").with_subject(path);
            if let [_] = options.paths[..] {
                return Err(match path_within(directory, path) {
                    Some(within) => {
                        Failure::advised(&error, &format!("Paths are those within the export: try {within}"))
                    }
                    None => Failure::advised(
                        &error,
                        "Paths are those within the export; crossload cache ls lists what is there.",
                    ),
                });
            }
            output::complain(&format!("{path}: the cache does not have it"));
            code = SOME_FAILED;
        }
        for file in found {
            act(&file, options.cache.json).map_err(failed(&file.file))?;
        }
    }
    Ok(code)
}

/// The cached path of what may be the path in a URL, with that of the export before it.
fn path_within(directory: &Path, path: &LogicalPath) -> Option<LogicalPath> {
    let whole = path.to_string();
    let ends = whole.match_indices('/').skip(1).map(|(at, _)| &whole[at..]);
    ends.filter_map(|end| LogicalPath::parse(end).ok())
        .find(|path| inspect::find(directory, path).is_ok_and(|found| !found.is_empty()))
}

fn evict(file: &CachedFile, as_json: bool) -> io::Result<()> {
    inspect::evict(file)?;
    if as_json {
        show(file, true);
        return Ok(());
    }
    let (path, origin) = (output::name(&file.path), output::name(&file.origin));
    output::line(&format!("evicted {} bytes of {origin}: {path}", file.stored_bytes));
    Ok(())
}

fn verify(options: &CacheVerifyOptions) -> Result<u8, Failure> {
    let directory = &options.cache.directory;
    let (mut good_blocks, mut bad_blocks) = (0, 0);
    for file in inspect::files(directory).map_err(failed(directory))? {
        let verified = match inspect::verify(&file, options.repair) {
            Ok(verified) => verified,
            // Evicted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(&file.file)(error)),
        };
        good_blocks += verified.good_blocks;
        bad_blocks += verified.bad_blocks;
        if verified.bad_blocks > 0 && !options.cache.json {
            let (path, bad) = (output::name(&file.path).into_owned(), verified.bad_blocks);
            let removed = if options.repair { ", removed" } else { "" };
            output::line(&format!("{path}: {}{removed}", output::counted(bad, "damaged block")));
        }
    }
    match options.cache.json {
        true => output::json(&json!({"good_blocks": good_blocks, "bad_blocks": bad_blocks})),
        false => output::line(&format!(
            "{}, {bad_blocks} damaged",
            output::counted(good_blocks, "good block")
        )),
    }
    Ok(if bad_blocks > 0 { SOME_FAILED } else { 0 })
}

fn show(file: &CachedFile, as_json: bool) {
    let [used, modified] = [file.used, file.modified].map(unix_ms);
    if as_json {
        let value = json!({
            "origin": file.origin, "path": file.path, "size_bytes": file.size_bytes,
            "stored_bytes": file.stored_bytes, "modified_ms": modified, "used_ms": used,
        });
        return output::json(&value);
    }
    let (path, origin) = (output::name(&file.path), output::name(&file.origin));
    let (stored, size, used) = (file.stored_bytes, file.size_bytes, dates::instant(used));
    output::line(&format!("{stored} of {size} bytes, used {used}, {origin}: {path}"));
}

fn unix_ms(time: SystemTime) -> i64 {
    let after = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(after.as_millis()).unwrap_or(i64::MAX)
}
