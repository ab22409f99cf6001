//! A submission: from the bytes of a client to a job.
//!
//! Everything here is computed from the arguments: the clock and randomness come with them, and
//! what the queue knows (bans, credentials) is checked by the caller.

mod body;
mod files;
mod hold;
mod parameters;
mod tokens;
mod url;
mod value;

use std::collections::HashSet;

use catalog::{JobOptions, Login, NewJob, Overwrite, Owner};
use identity::name_uuid::{BASE_ID, name_uuid};
use queue::is_token_usable;
use schedule::JobId;
use serde_json::{Map, Value};
use types::uuid_text;

use crate::fts::FtsError;
use crate::queue::GivenToken;
use body::Body;
pub(crate) use body::{FileBody, Texts};
use parameters::IdGenerator;
pub(crate) use parameters::Parameters;
use tokens::Tokens;

pub use hold::hold;
pub use parameters::clamped_priority;
pub use url::{source_as_given, storage_without_port};

/// Who submits, and when.
#[derive(Clone, Copy, Debug)]
pub struct Submitter<'a> {
    /// Whose job it will be.
    pub owner: &'a Owner,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// What makes a new identifier unique.
    pub random: [u8; 16],
}

/// A job as it was submitted.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The job.
    pub job: NewJob,
    /// The tokens that its files name.
    pub tokens: Vec<GivenToken>,
    /// Whether the client chose the identifier, so that it may exist already.
    pub is_deterministic: bool,
}

/// Reads a submission.
///
/// # Errors
/// 400 with FTS's sentence for what FTS refuses too; 400 for what is over a limit of
/// [`crate::limits`]; 405 for jobs that delete.
pub fn read(body: &[u8], from: &Submitter<'_>) -> Result<Submission, FtsError> {
    let body = Body::read(body)?;
    let parameters = Parameters::new(body.params.map(|json| json.0))?;
    let files = body
        .files
        .ok_or_else(|| FtsError::bad("No transfers operations specified"))?;
    assemble(files.0, parameters, from)
}

/// Makes a job of its files and parameters.
///
/// # Errors
/// As [`read`].
pub(crate) fn assemble(
    files: Vec<FileBody>,
    mut parameters: Parameters,
    from: &Submitter<'_>,
) -> Result<Submission, FtsError> {
    let mut tokens = Tokens::default();
    let mut files = files::pairs(files, &mut tokens)?;
    let kind = files::kind(&files, parameters.flag("multihop"), parameters.flag("reuse"))?;
    let has_checksum = files.iter().any(|file| file.options.checksum.is_some());
    let options = parameters.options(has_checksum)?;
    check_disk_only(&options, &files)?;
    let tokens = tokens.into_list();
    files::begin(&mut files, kind, &options, &unusable(&tokens, from.now_ms));
    let (id, is_deterministic) = match parameters.id_generator()? {
        IdGenerator::Standard => (new_id(from), false),
        IdGenerator::Deterministic(sid) => (deterministic_id(&from.owner.vo, &sid), true),
    };
    let job = NewJob {
        id,
        kind,
        owner: from.owner.clone(),
        submitted_ms: from.now_ms,
        priority: parameters.priority()?,
        expires_ms: parameters.expires_ms(from.now_ms)?,
        metadata: metadata(parameters.metadata()?, from.owner.login),
        options,
        files,
    };
    Ok(Submission {
        job,
        tokens,
        is_deterministic,
    })
}

/// The names of the tokens that must be renewed before they are used.
fn unusable(tokens: &[GivenToken], now_ms: i64) -> HashSet<&str> {
    let ending = tokens.iter().filter(|given| !is_token_usable(&given.token, now_ms));
    ending.map(|given| given.name.as_str()).collect()
}

/// FTS adds how the client logged in.
fn metadata(given: Option<Map<String, Value>>, login: Login) -> Option<Value> {
    let method = match login {
        Login::Certificate => "certificate",
        Login::Token => "oauth2",
        Login::Anonymous => return given.map(Value::Object),
    };
    let mut metadata = given.unwrap_or_default();
    metadata.insert("auth_method".to_owned(), method.into());
    Some(Value::Object(metadata))
}

/// Overwriting only what is not on tape makes sense for a tape system that is asked about it.
fn check_disk_only(options: &JobOptions, files: &[catalog::NewFile]) -> Result<(), FtsError> {
    if !matches!(options.overwrite, Overwrite::OnlyOnDisk | Overwrite::HopsAndOnlyOnDisk) {
        return Ok(());
    }
    if options.archive_timeout_s.is_none() {
        let message = "'overwrite-when-only-on-disk' requires 'archive-timeout' parameter to be set";
        return Err(FtsError::bad(message));
    }
    let last = files
        .last()
        .map(|file| file.destination_storage.as_str())
        .unwrap_or_default();
    match last.starts_with("https://") || last.starts_with("davs://") {
        true => Ok(()),
        false => Err(FtsError::bad(
            "'overwrite-when-only-on-disk' requires an https or davs destination",
        )),
    }
}

/// A new identifier, which sorts by time (RFC 9562 §5.7).
fn new_id(from: &Submitter<'_>) -> JobId {
    let mut bytes = from.random;
    let time = u64::try_from(from.now_ms).unwrap_or_default().to_be_bytes();
    bytes[..6].copy_from_slice(&time[2..]);
    // The text sets the bits of version and variant.
    uuid_text(bytes, 7).parse().unwrap_or(JobId(bytes))
}

/// The identifier of the job that a VO's client calls `sid`.
#[must_use]
pub fn deterministic_id(vo: &str, sid: &str) -> JobId {
    JobId(name_uuid(name_uuid(BASE_ID, vo), sid))
}

/// The parameters that FTS shows in one text (`internal_job_params`); `None` if none is set.
#[must_use]
pub fn internal_parameters(options: &JobOptions) -> Option<String> {
    let number = |name: &str, value: Option<u32>| value.map(|value| format!("{name}:{value}"));
    let word = |name: &str, is_set: bool| is_set.then(|| name.to_owned());
    let all = [
        number("nostreams", options.streams.map(u32::from)),
        number("timeout", options.timeout_s),
        number("buffersize", options.tcp_buffer_bytes),
        word("strict", options.is_strict_copy),
        word("disable-cleanup", options.keeps_failed),
        word("ipv4", options.ipv4_only),
        word("ipv6", options.ipv6_only),
        word("s3alternate", options.s3_alternate),
    ];
    let set: Vec<String> = all.into_iter().flatten().collect();
    (!set.is_empty()).then(|| set.join(","))
}

#[cfg(test)]
mod tests;
