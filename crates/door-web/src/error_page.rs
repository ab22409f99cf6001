//! Refused requests as pages.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use http_server::control::Refusal;

use crate::respond::page_with;
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

/// The refusal as a page, with a form for signing in where that may help.
pub(crate) fn error_page(refusal: Refusal, shell: Shell, request_id: &str, form: Option<SignInForm>) -> Response {
    let error = refusal.error();
    let code = error.code();
    let page = ErrorPage {
        shell,
        status: code.http_status(),
        meaning: code.meaning(),
        detail: error.detail().map(Words::from),
        advice: code.for_client(),
        request_id: Words::from(request_id),
        form,
    };
    let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match page_with(status, &page) {
        Ok(answer) => refusal.in_form(answer),
        Err(fault) => axum::response::IntoResponse::into_response(fault),
    }
}
