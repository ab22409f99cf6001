//! The manual: files of a directory, beside the pages and for the same viewers.
//!
//! Its pages have neither scripts nor styles of their own, so they are shown under the same Content
//! Security Policy as all others.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http_server::control::Refusal;
use types::{Error, ErrorCode, Phase, Side};

use crate::door::{Pages, refused};
use crate::limits::{ASSET_AGE_MAX, MANUAL_FILE_BYTES_MAX, MANUAL_PATH_CHARACTERS_MAX};

/// Where the manual is.
const PLACE: &str = "/manual/";
/// The first page of a directory.
const INDEX: &str = "index.html";
/// Types of files by the ends of their names; no other file is shown.
const KINDS: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
];

/// The manual in a directory.
#[derive(Debug)]
pub struct Manual {
    /// As the file system names it.
    directory: PathBuf,
}

impl Manual {
    /// The manual in a directory; `None` if there is none.
    #[must_use]
    pub fn at(directory: &Path) -> Option<Self> {
        let directory = fs::canonicalize(directory).ok()?;
        directory.join(INDEX).is_file().then_some(Self { directory })
    }
}

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route("/manual", get(first))
        .route("/manual/", get(file))
        .route("/manual/{*path}", get(file))
}

/// Links of a page are relative to the slash.
async fn first() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, PLACE)]).into_response()
}

async fn file(State(pages): State<Arc<Pages>>, uri: Uri) -> Result<Response, Refusal> {
    let manual = pages.manual.as_ref().ok_or_else(|| refused(ErrorCode::NotFound))?;
    let mut name = uri.path().strip_prefix(PLACE).unwrap_or_default().to_owned();
    if name.is_empty() || name.ends_with('/') {
        name.push_str(INDEX);
    }
    let kind = kind_of(&name).ok_or_else(|| refused(ErrorCode::NotFound))?;
    let directory = manual.directory.clone();
    let read = execution::blocking_try(Side::Active, Phase::Open, move || read(&directory, &name));
    let content = read.await?;
    let fields = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CACHE_CONTROL, format!("max-age={}", ASSET_AGE_MAX.as_secs())),
    ];
    Ok((fields, content).into_response())
}

/// The type of a file; `None` for names that the manual does not have: hidden files, encoded
/// characters, ways out of the directory.
fn kind_of(name: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain);
    if name.len() > MANUAL_PATH_CHARACTERS_MAX || !name.split('/').all(is_part) {
        return None;
    }
    let (_, end) = name.rsplit_once('.')?;
    KINDS.iter().find(|(known, _)| *known == end).map(|(_, kind)| *kind)
}

/// # Errors
/// `not_found`: there is no such file, a link leads elsewhere, or it is too large.
fn read(directory: &Path, name: &str) -> types::Result<Vec<u8>> {
    let missing = || Error::new(ErrorCode::NotFound, Side::Client, Phase::Open);
    let path = fs::canonicalize(directory.join(name)).map_err(|_| missing())?;
    if !path.starts_with(directory) || !path.is_file() {
        return Err(missing());
    }
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MANUAL_FILE_BYTES_MAX + 1).read_to_end(&mut content))
        .map_err(|cause| missing().with_private(cause))?;
    if content.len() as u64 > MANUAL_FILE_BYTES_MAX {
        return Err(missing().with_private("it is larger than any page of the manual"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_manual_have_a_type() {
        assert_eq!(kind_of("index.html"), Some("text/html; charset=utf-8"));
        assert_eq!(
            kind_of("experiments/2026-11-22-a.html"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(kind_of("manual.css"), Some("text/css; charset=utf-8"));
        for name in [
            "../a.html",
            "a/../b.html",
            "%2e%2e/a.html",
            "/etc/a.html",
            "a//b.html",
            ".a.html",
            "a\\b.html",
            "a\0.html",
            "passwd",
            "a.sh",
        ] {
            assert_eq!(kind_of(name), None, "{name}");
        }
        assert_eq!(
            kind_of(&format!("{}.html", "a".repeat(MANUAL_PATH_CHARACTERS_MAX))),
            None
        );
    }
}
