//! Answers of our own API: JSON, and errors in one form.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_server::control::Refusal;
use serde::Serialize;
use types::{Error, ErrorCode, Phase, Side};
use utoipa::ToSchema;

use crate::fts::FtsError;
use crate::respond::Failed;

const JSON: &str = "application/json";

/// Why a request failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorAnswer {
    /// The failure.
    error: ErrorBody,
}

/// A failure.
#[derive(Debug, Serialize, ToSchema)]
struct ErrorBody {
    /// The stable code, as in the table of error codes.
    #[schema(example = "not_found")]
    code: &'static str,
    /// What happened, in one sentence.
    message: String,
    /// The side at fault.
    #[schema(example = "client")]
    side: &'static str,
    /// What was being done.
    #[schema(example = "open")]
    phase: &'static str,
}

/// A request that failed.
#[derive(Debug)]
pub(super) struct ApiError(Error);

/// What a handler gives.
pub(super) type Answered<T> = Result<T, ApiError>;

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<Failed> for ApiError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Own(error) => Self(error),
            Failed::Credential(refusal) => Self(refusal.error().clone()),
            Failed::Fts(error) => error.into(),
        }
    }
}

/// Submissions of both APIs are checked by the same code, which says errors in FTS's words.
impl From<FtsError> for ApiError {
    fn from(error: FtsError) -> Self {
        let code = match error.status {
            403 => ErrorCode::Forbidden,
            404 => ErrorCode::NotFound,
            _ => ErrorCode::BadRequest,
        };
        let words = error.message.strip_prefix("Invalid value within the request: ");
        Self(Error::new(code, Side::Client, Phase::Open).with_detail(words.unwrap_or(&error.message)))
    }
}

impl ErrorAnswer {
    fn of(error: &Error) -> Self {
        Self {
            error: ErrorBody {
                code: error.code().name(),
                message: message(error),
                side: error.side().name(),
                phase: error.phase().name(),
            },
        }
    }
}

/// The sentence for people. What is missing here is no file, as the table's own sentence says.
fn message(error: &Error) -> String {
    match (error.code(), error.detail()) {
        (ErrorCode::NotFound, Some(words)) => words.to_owned(),
        _ => error.public(),
    }
}

impl ApiError {
    /// The document that the answer has, on one line.
    pub(super) fn document(&self) -> String {
        serde_json::to_string(&ErrorAnswer::of(&self.0)).unwrap_or_default()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let answer = written(error.code().http_status(), &ErrorAnswer::of(&error));
        Refusal::from(error).in_form(answer)
    }
}

/// A document as answer.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        written(200, &self.0)
    }
}

/// A document as answer, with this status.
pub(super) fn written(status: u16, body: &impl Serialize) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match serde_json::to_string(body) {
        Ok(text) => (status, [(header::CONTENT_TYPE, JSON)], text).into_response(),
        // Only a map whose keys are no texts cannot be written.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A malformed request.
pub(super) fn bad(words: impl Into<String>) -> ApiError {
    ApiError(Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(words))
}

/// What does not exist, or not for this client.
pub(super) fn missing(words: impl Into<String>) -> ApiError {
    ApiError(Error::new(ErrorCode::NotFound, Side::Client, Phase::Open).with_detail(words))
}

/// What is answered at a path that does not exist.
pub(super) async fn unknown_path() -> ApiError {
    missing("no such path: see /v1/openapi.json")
}

/// What is answered to a method that a path does not have.
pub(super) async fn unknown_method() -> ApiError {
    ApiError(Error::new(ErrorCode::MethodNotAllowed, Side::Client, Phase::Open))
}
