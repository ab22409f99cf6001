//! Answers: a page for people, JSON for programs.

use askama::Template;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_server::control::Refusal;
use serde::Serialize;
use types::{Error, ErrorCode, Phase, Side};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Whether a client prefers JSON: browsers always name HTML as well.
pub(crate) fn wants_json(headers: &HeaderMap) -> bool {
    let names = |kind: &str| {
        let mut accepted = headers.get_all(header::ACCEPT).iter();
        accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(kind)))
    };
    names(JSON) && !names("text/html")
}

/// A page.
///
/// # Errors
/// `internal` if the template fails.
pub(crate) fn page(template: &impl Template) -> Result<Response, Refusal> {
    page_with(StatusCode::OK, template)
}

/// A page with a status of its own.
///
/// # Errors
/// As [`page`].
pub(crate) fn page_with(status: StatusCode, template: &impl Template) -> Result<Response, Refusal> {
    let text = template.render().map_err(internal)?;
    Ok((status, [(header::CONTENT_TYPE, HTML)], text).into_response())
}

/// A document for programs.
///
/// # Errors
/// `internal` if it cannot be written as JSON.
pub(crate) fn json(document: &impl Serialize) -> Result<Response, Refusal> {
    json_with(StatusCode::OK, document)
}

/// A document with a status of its own.
///
/// # Errors
/// As [`json`].
pub(crate) fn json_with(status: StatusCode, document: &impl Serialize) -> Result<Response, Refusal> {
    let text = serde_json::to_string(document).map_err(internal)?;
    Ok((status, [(header::CONTENT_TYPE, JSON)], format!("{text}\n")).into_response())
}

/// A failure of our own.
pub(crate) fn internal(cause: impl std::fmt::Display) -> Refusal {
    let error = Error::new(ErrorCode::Internal, Side::Active, Phase::Open);
    error.with_private(cause).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_pages_and_programs_json() {
        let wants = |accept: &str| wants_json(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]));
        assert!(wants("application/json"));
        assert!(wants("application/json, */*;q=0.1"));
        assert!(!wants("text/html,application/xhtml+xml,application/json;q=0.9"));
        assert!(!wants("*/*") && !wants_json(&HeaderMap::new()));
    }
}
