//! Answers in JSON, errors included.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_server::control::Refusal;
use http_wire::reason_phrase;
use serde_json::{Value, json};
use types::Error;

use crate::fts::FtsError;

/// The type of all answers.
pub(crate) const JSON: &str = "application/json";

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) enum Failed {
    /// In FTS's form.
    Fts(FtsError),
    /// In the same form, with our stable code beside FTS's members.
    Own(Error),
    /// The credential was refused: HTTP's own answer says what is wrong with it.
    Credential(Refusal),
}

impl From<FtsError> for Failed {
    fn from(error: FtsError) -> Self {
        Self::Fts(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Credential(refusal)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        match self {
            Self::Credential(refusal) => refusal.into_response(),
            Self::Fts(error) => with_status(error.status, &told(error.status, &error.message)),
            Self::Own(error) => {
                let status = error.code().http_status();
                let mut body = told(status, &error.public());
                body["code"] = error.code().name().into();
                Refusal::from(error).in_form(with_status(status, &body))
            }
        }
    }
}

fn told(status: u16, message: &str) -> Value {
    json!({"status": format!("{status} {}", reason_phrase(status)), "message": message})
}

/// What a handler gives.
pub(crate) type Answered = Result<Response, Failed>;

/// An answer with this status.
pub(crate) fn with_status(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, JSON)], body.to_string()).into_response()
}

/// An answer with status 200.
pub(crate) fn good(body: &Value) -> Response {
    with_status(200, body)
}

/// An answer without a body.
pub(crate) fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// The body of a request, of at most `bytes_max`.
///
/// # Errors
/// 413 for a longer one; why a body cannot be read, such as one that broke off.
pub(crate) async fn whole(body: Body, bytes_max: usize) -> Result<axum::body::Bytes, Failed> {
    axum::body::to_bytes(body, bytes_max).await.map_err(|cause| {
        let mut causes = std::iter::successors(Some(&cause as &dyn std::error::Error), |cause| cause.source());
        let fault = causes.find_map(|cause| cause.downcast_ref::<Error>().cloned());
        let too_large = || {
            let error = Error::new(types::ErrorCode::BodyTooLarge, types::Side::Client, types::Phase::Open);
            error.with_detail(format!("{bytes_max} bytes"))
        };
        fault.unwrap_or_else(too_large).into()
    })
}
