//! `crossload token inspect` and `crossload token attenuate`, which work offline.
//!
//! `inspect` prints neither the token nor its signature, so its output is safe to share.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use credentials::{Caveat, Macaroon, TokenKind, attenuate, inspect};
use serde_json::json;
use types::limits::MACAROON_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Secret, Side};

use crate::command_line::{AttenuateOptions, InspectOptions, MacaroonLimits};
use crate::failure::Failure;
use crate::output;

/// Allowance for white space around a token in its file.
const SURROUNDINGS_BYTES_MAX: u64 = 64;

/// `token inspect`.
///
/// # Errors
/// The token cannot be read; `invalid_token` after printing what could be decoded.
pub(crate) fn show(options: &InspectOptions) -> Result<u8, Failure> {
    let token = read(options.token.as_deref())?;
    let inspection = inspect(token.expose(), now_s());
    match options.json {
        true => output::json(&inspection.to_json()),
        false => output::line(&inspection.to_string()),
    }
    Ok(match inspection.kind {
        TokenKind::Unknown => ErrorCode::InvalidToken.exit_code(),
        TokenKind::Macaroon | TokenKind::Jwt => 0,
    })
}

/// `token attenuate`.
///
/// # Errors
/// The token is not a macaroon, or would allow nothing.
pub(crate) fn narrow(options: &AttenuateOptions) -> Result<u8, Failure> {
    let token = read(options.token.as_deref())?;
    if token.expose().contains('.') {
        let error = Error::new(ErrorCode::InvalidToken, Side::Client, Phase::Authenticate);
        return Err(error
            .with_detail("only macaroons can be attenuated; this is a JSON Web Token")
            .into());
    }
    let macaroon = Macaroon::parse(token.expose())?;
    let activity = options.activity.map(Caveat::Activity);
    let path = options.path.clone().map(Caveat::Path);
    let before = options.lifetime.map(|lifetime| before(lifetime.as_secs()));
    let restrictions: Vec<Caveat> = activity
        .into_iter()
        .chain(path)
        .chain(limits(&options.limits))
        .chain(before)
        .collect();
    if restrictions.is_empty() {
        return Err(Failure::invalid(
            "no restriction: give --activity, --path, --for, --ip or --max-upload",
        ));
    }
    let narrowed = attenuate(&macaroon, &restrictions)?;
    hand_out(&narrowed.to_text(), options.output.as_deref(), options.json)?;
    Ok(0)
}

/// The caveat for a lifetime that begins now.
pub(crate) fn before(lifetime_s: u64) -> Caveat {
    Caveat::Before(now_s().saturating_add_unsigned(lifetime_s))
}

/// The caveats for the restrictions of the options.
pub(crate) fn limits(limits: &MacaroonLimits) -> impl Iterator<Item = Caveat> + use<> {
    let addresses = (!limits.ip.is_empty()).then(|| Caveat::Address(limits.ip.clone()));
    addresses.into_iter().chain(limits.max_upload.map(Caveat::MaxUpload))
}

/// Prints a macaroon, or writes it to a new file that only the user can read.
///
/// # Errors
/// The file cannot be made. An existing file is not overwritten.
pub(crate) fn hand_out(macaroon: &Secret, file: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let Some(file) = file else {
        match as_json {
            true => {
                let mut value = inspect(macaroon.expose(), now_s()).to_json();
                value["macaroon"] = macaroon.expose().into();
                output::json(&value);
            }
            false => output::line(macaroon.expose()),
        }
        return Ok(());
    };
    let fresh = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    fresh
        .and_then(|mut fresh| writeln!(fresh, "{}", macaroon.expose()))
        .map_err(|cause| Failure::system(file.display(), &cause))?;
    match as_json {
        true => output::json(&json!({"file": file, "token": inspect(macaroon.expose(), now_s()).to_json()})),
        false => output::line(&format!("written to {}", file.display())),
    }
    Ok(())
}

/// Reads a token from a file or standard input, up to the size limit of tokens.
///
/// # Errors
/// The input cannot be read, or is not text.
pub(crate) fn read(file: Option<&Path>) -> Result<Secret, Failure> {
    let named = file.filter(|file| *file != Path::new("-"));
    let source: Box<dyn Read> = match named {
        Some(file) => Box::new(File::open(file).map_err(|cause| Failure::system(file.display(), &cause))?),
        None => Box::new(std::io::stdin()),
    };
    let place = named.map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    source
        .take(MACAROON_BYTES_MAX as u64 + SURROUNDINGS_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|cause| Failure::system(&place, &cause))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        let error = Error::new(ErrorCode::InvalidToken, Side::Client, Phase::Authenticate);
        error.with_detail(format!("{place} does not contain a token"))
    })?;
    Ok(Secret::new(text.trim()))
}

/// The time, in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
