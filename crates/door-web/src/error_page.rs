//! Refused requests: a page for people, JSON for programs.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use http_server::advice;
use http_server::control::Refusal;
use serde::Serialize;

use crate::respond::{json_with, page_with};
use crate::shell::Shell;
use crate::sign_in::SignInForm;
use crate::words::Words;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shell: Shell,
    status: u16,
    /// What happened.
    meaning: &'static str,
    detail: Option<Words>,
    /// What the reader can do.
    advice: &'static str,
    /// Under this name the log has it.
    request_id: Words,
    /// For clients that may look once they have signed in.
    form: Option<SignInForm>,
}

/// A refusal as the queue's own API has it (`/v1`), with what the text of other doors says.
#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    /// The stable code, as in the table of error codes.
    code: &'static str,
    /// What happened.
    message: String,
    /// The side at fault.
    side: &'static str,
    /// What was being done.
    phase: &'static str,
    /// What the reader can do.
    advice: &'static str,
    /// Under this name the log has it.
    request_id: &'a str,
}

/// The refusal for programs.
pub(crate) fn error_document(refusal: Refusal, request_id: &str) -> Response {
    let error = refusal.error();
    let document = ErrorDocument {
        error: ErrorBody {
            code: error.code().name(),
            message: error.public(),
            side: error.side().name(),
            phase: error.phase().name(),
            advice: advice(error),
            request_id,
        },
    };
    let answer = json_with(status_of(&refusal), &document);
    in_form(refusal, answer)
}

fn status_of(refusal: &Refusal) -> StatusCode {
    let status = StatusCode::from_u16(refusal.error().code().http_status());
    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// If the form cannot be made, that fault is answered instead.
fn in_form(refusal: Refusal, answer: Result<Response, Refusal>) -> Response {
    match answer {
        Ok(answer) => refusal.in_form(answer),
        Err(fault) => fault.into_response(),
    }
}

/// The refusal as a page, with a form for signing in where that may help.
pub(crate) fn error_page(refusal: Refusal, shell: Shell, request_id: &str, form: Option<SignInForm>) -> Response {
    let error = refusal.error();
    let code = error.code();
    let page = ErrorPage {
        shell,
        status: code.http_status(),
        meaning: code.meaning(),
        detail: error.detail().map(Words::from),
        advice: advice(error),
        request_id: Words::from(request_id),
        form,
    };
    let answer = page_with(status_of(&refusal), &page);
    in_form(refusal, answer)
}
