//! The files of a job: pairs of URLs, with the states that they begin in.

use std::collections::HashSet;

use catalog::{FileOptions, JobOptions, NewFile, Selection};
use schedule::{FileState, JobKind};
use serde_json::Value;
use types::ChecksumAlgorithm;

use super::body::{FileBody, Scalar, Texts};
use super::parameters::labelled;
use super::tokens::Tokens;
use super::url::FileUrl;
use super::value::integer;
use crate::fts::FtsError;
use crate::limits::{
    ARCHIVE_METADATA_BYTES_MAX, CHECKSUM_BYTES_MAX, FILE_METADATA_BYTES_MAX, JOB_FILES_MAX, NAME_BYTES_MAX,
    STAGING_METADATA_BYTES_MAX,
};
use crate::queue::TokenUse;

/// The values that a flow label can have (FTS 3.13).
const SCITAGS: std::ops::RangeInclusive<i64> = 65..=65535;

/// All pairs of sources and destinations, in order. Those of one file have one index.
///
/// # Errors
/// 400 for URLs, values and tokens that cannot be used, and for too many pairs.
pub(super) fn pairs(files: Vec<FileBody>, tokens: &mut Tokens) -> Result<Vec<NewFile>, FtsError> {
    let mut pairs = Vec::with_capacity(files.len());
    for (index, file) in files.into_iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        add_pairs(&mut pairs, index, file, tokens)?;
    }
    match pairs.is_empty() {
        true => Err(FtsError::bad("No valid pairs available")),
        false => Ok(pairs),
    }
}

fn add_pairs(pairs: &mut Vec<NewFile>, index: u32, mut file: FileBody, tokens: &mut Tokens) -> Result<(), FtsError> {
    let sources = urls("sources", file.sources.take(), FileUrl::source)?;
    let destinations = urls("destinations", file.destinations.take(), FileUrl::destination)?;
    if pairs.len() + sources.len() * destinations.len() > JOB_FILES_MAX {
        return Err(FtsError::invalid(format!("a job has more than {JOB_FILES_MAX} files")));
    }
    let source_tokens = tokens.add(file.source_tokens.take(), sources.len(), TokenUse::Source)?;
    let given = file.destination_tokens.take();
    let destination_tokens = tokens.add(given, destinations.len(), TokenUse::Destination)?;
    let size_bytes = size(file.filesize.take())?;
    let activity = activity(file.activity.take())?;
    let options = options(file)?;
    for (source, source_token) in sources.iter().zip(&source_tokens) {
        for (destination, destination_token) in destinations.iter().zip(&destination_tokens) {
            pairs.push(NewFile {
                index,
                source: source.text.clone(),
                destination: destination.text.clone(),
                source_storage: source.storage.clone(),
                destination_storage: destination.storage.clone(),
                state: FileState::Submitted,
                size_bytes,
                activity: activity.clone(),
                options: FileOptions {
                    copy_mode: source.copy_mode,
                    source_token: source_token.clone(),
                    destination_token: destination_token.clone(),
                    ..options.clone()
                },
            });
        }
    }
    Ok(())
}

fn urls(
    name: &str,
    texts: Option<Texts>,
    read: impl Fn(&str) -> Result<FileUrl, FtsError>,
) -> Result<Vec<FileUrl>, FtsError> {
    let texts = texts.ok_or_else(|| FtsError::bad(format!("Missing parameter: '{name}'")))?;
    let read = |text: &Option<String>| read(text.as_deref().unwrap_or_default());
    texts.0.iter().map(read).collect()
}

/// The size in bytes; 0 is none, as in FTS.
fn size(value: Option<Scalar>) -> Result<Option<u64>, FtsError> {
    let Some(value) = value else { return Ok(None) };
    let size = integer("filesize", &value.0)?;
    let size = u64::try_from(size).map_err(|_| FtsError::invalid("filesize is negative"))?;
    Ok((size > 0).then_some(size))
}

fn activity(activity: Option<String>) -> Result<String, FtsError> {
    match activity.filter(|activity| !activity.is_empty()) {
        None => Ok("default".to_owned()),
        // Logs and terminals show it.
        Some(activity) if activity.contains(char::is_control) => {
            Err(FtsError::invalid("activity has control characters"))
        }
        Some(activity) if activity.len() <= NAME_BYTES_MAX => Ok(activity),
        Some(_) => Err(FtsError::invalid(format!(
            "activity has more than {NAME_BYTES_MAX} bytes"
        ))),
    }
}

fn options(file: FileBody) -> Result<FileOptions, FtsError> {
    let checksum = file
        .checksum
        .as_deref()
        .map(str::trim)
        .filter(|checksum| !checksum.is_empty());
    if checksum.is_some_and(|checksum| checksum.len() > CHECKSUM_BYTES_MAX) {
        return Err(FtsError::invalid(format!(
            "checksum has more than {CHECKSUM_BYTES_MAX} bytes"
        )));
    }
    if let Some(text) = checksum {
        check_checksum(text)?;
    }
    let data = |what: &str, value: Option<Value>, bytes_max: usize| {
        value.map_or(Ok(None), |value| labelled(what, value, bytes_max))
    };
    let staging_metadata = file.staging_metadata.map(|json| json.0);
    let archive_metadata = file.archive_metadata.map(|json| json.0);
    Ok(FileOptions {
        checksum: checksum.map(str::to_owned),
        selection: selection(file.selection_strategy.as_deref())?,
        metadata: data("File", file.metadata.map(|json| json.0), FILE_METADATA_BYTES_MAX)?,
        staging_metadata: data("Staging", staging_metadata, STAGING_METADATA_BYTES_MAX)?,
        archive_metadata: data("Archive", archive_metadata, ARCHIVE_METADATA_BYTES_MAX)?,
        scitag: scitag(file.scitag)?,
        ..FileOptions::default()
    })
}

/// Checks `ADLER32:1a2b3c4d`, or `ADLER32` alone. Leading zeros may be missing.
fn check_checksum(text: &str) -> Result<(), FtsError> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let algorithm = ChecksumAlgorithm::from_name(&name.to_ascii_lowercase());
    let algorithm = algorithm.ok_or_else(|| {
        let known: Vec<&str> = ChecksumAlgorithm::ALL.iter().map(|known| known.name()).collect();
        FtsError::invalid(format!(
            "checksum {text}: the algorithm is none of {}",
            known.join(", ")
        ))
    })?;
    let value = value.trim();
    let digits = 2 * algorithm.value_bytes();
    match value.len() <= digits && value.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(()),
        false => Err(FtsError::invalid(format!(
            "checksum {text}: the value has at most {digits} hexadecimal digits"
        ))),
    }
}

fn selection(strategy: Option<&str>) -> Result<Selection, FtsError> {
    Ok(match strategy.unwrap_or_default() {
        "" | "auto" | "queue" => Selection::Auto,
        "orderly" => Selection::Orderly,
        "success" => Selection::Success,
        "throughput" => Selection::Throughput,
        "file-throughput" => Selection::FileThroughput,
        "pending-data" => Selection::PendingData,
        "waiting-time" => Selection::WaitingTime,
        "waiting-time-with-error" => Selection::WaitingTimeWithError,
        "duration" => Selection::Duration,
        _ => return Err(FtsError::invalid("selection_strategy does not exist")),
    })
}

fn scitag(value: Option<Scalar>) -> Result<Option<u16>, FtsError> {
    let Some(value) = value else { return Ok(None) };
    let scitag = integer("scitag", &value.0)?;
    match u16::try_from(scitag) {
        Ok(short) if SCITAGS.contains(&scitag) => Ok(Some(short)),
        _ => Err(FtsError::invalid(format!(
            "scitag is not from {} to {}",
            SCITAGS.start(),
            SCITAGS.end()
        ))),
    }
}

/// How the files belong together, and what that demands of them.
///
/// # Errors
/// 400 for kinds that exclude each other, several files where one with replicas is expected, a
/// chain that comes back to where it was, and session reuse over several pairs of storages.
pub(super) fn kind(files: &[NewFile], is_multihop: bool, reuses_session: bool) -> Result<JobKind, FtsError> {
    let has_replicas = files.windows(2).any(|pair| pair[0].index == pair[1].index);
    match (has_replicas, is_multihop, reuses_session) {
        (false, false, false) => Ok(JobKind::Normal),
        (true, false, false) => match files.iter().all(|file| file.index == files[0].index) {
            true => Ok(JobKind::MultiSource),
            false => Err(FtsError::bad("Multiple replicas jobs can only have one unique file")),
        },
        (true, true, _) => Err(FtsError::bad(
            "Can not specify multihop and multiple replicas at the same time",
        )),
        (true, false, true) => Err(FtsError::bad(
            "Can not specify reuse and multiple replicas at the same time",
        )),
        (false, true, true) => Err(FtsError::bad("Can not specify reuse and multihop at the same time")),
        (false, true, false) => check_chain(files).map(|()| JobKind::Multihop),
        (false, false, true) => check_session(files).map(|()| JobKind::SessionReuse),
    }
}

/// A hop may not write what the chain has read or written before. The hops themselves need not
/// join by name: Rucio names the same file on one host by `davs` and by `root`.
fn check_chain(files: &[NewFile]) -> Result<(), FtsError> {
    let mut seen = HashSet::new();
    for hop in files {
        seen.insert(&hop.source);
        if !seen.insert(&hop.destination) {
            return Err(FtsError::invalid(
                "a multihop job comes back to a file that it has read or written",
            ));
        }
    }
    Ok(())
}

fn check_session(files: &[NewFile]) -> Result<(), FtsError> {
    let pair = |file: &NewFile| (file.source_storage.clone(), file.destination_storage.clone());
    let first = files.first().map(pair);
    match files.iter().all(|file| Some(pair(file)) == first) {
        true => Ok(()),
        false => Err(FtsError::bad(
            "Reuse jobs can only contain transfers for the same source and destination storage",
        )),
    }
}

/// Gives each file the state that it begins in. Of replicas and hops only the first begins: which
/// replica that is, the queue may change by what it knows of its storages.
///
/// A file only waits for its tokens if one is `unusable` as it came: that is looked at from time to
/// time, for all files together.
pub(super) fn begin(files: &mut [NewFile], kind: JobKind, options: &JobOptions, unusable: &HashSet<&str>) {
    let from_tape = options.bring_online_s.is_some() || options.pin_lifetime_s.is_some();
    let is_chained = matches!(kind, JobKind::MultiSource | JobKind::Multihop);
    for (position, file) in files.iter_mut().enumerate() {
        let mut tokens = [&file.options.source_token, &file.options.destination_token]
            .into_iter()
            .flatten();
        let waits = tokens.any(|name| unusable.contains(&**name)) && !options.unmanaged_tokens;
        file.state = match (is_chained && position > 0, waits) {
            (true, _) => FileState::NotUsed,
            (false, true) => FileState::TokenPreparation,
            (false, false) if from_tape => FileState::Staging,
            (false, false) => FileState::Submitted,
        };
    }
}
