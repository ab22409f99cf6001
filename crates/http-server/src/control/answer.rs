//! The answer of a handler, sent.

use std::future::poll_fn;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_wire::{ContentType, ResponseBuilder};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::exchange::Exchange;
use crate::limits::REFUSAL_BODY_BYTES_MAX;

/// A refused request: the error table says status and sentences.
#[derive(Clone, Debug)]
pub struct Refusal(Error);

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl Refusal {
    /// Why the request is refused.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.0
    }

    /// A refusal in the form of the door's own protocol: `answer` has the body and its type. The
    /// status and the headers that the error asks for are added, and the log has it as a failure.
    #[must_use]
    pub fn in_form(self, mut answer: Response) -> Response {
        answer.extensions_mut().insert(self);
        answer
    }
}

/// The error travels beside an empty answer, and is written where the request's name is known.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code().http_status());
        let mut response = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether a handler's answer is a refusal with this code.
pub(super) fn is_refusal(response: &Response, code: ErrorCode) -> bool {
    let refusal = response.extensions().get::<Refusal>();
    refusal.is_some_and(|Refusal(error)| error.code() == code)
}

/// Sends a handler's answer.
///
/// # Errors
/// The connection is lost, the handler's body broke off, or what was refused could not be said.
pub(super) async fn send(exchange: &mut Exchange<'_>, response: Response) -> Result<()> {
    let (mut parts, body) = response.into_parts();
    if let Some(Refusal(error)) = parts.extensions.remove::<Refusal>() {
        return refuse(exchange, error, &parts.headers, body).await;
    }
    let status = parts.status.as_u16();
    let fill = |head: ResponseBuilder| with_fields(head, &parts.headers);
    let has_no_body = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if has_no_body {
        return exchange.bare(status, fill).await;
    }
    if exchange.is_head {
        let length = length_of(&parts.headers).or(body.size_hint().exact());
        return exchange
            .bare(status, |head| match length {
                Some(length) => fill(head).content_length(length),
                None => fill(head),
            })
            .await;
    }
    match body.size_hint().exact() {
        Some(length) => send_whole(exchange, body, length, status, fill).await,
        None => send_pieces(exchange, body, status, fill).await,
    }
}

/// What is refused for lack of room gives its connection back.
pub(super) fn give_back(exchange: &mut Exchange<'_>, error: &Error) {
    exchange.may_keep &= !matches!(error.code(), ErrorCode::Overloaded | ErrorCode::ShareUsedUp);
}

async fn refuse(exchange: &mut Exchange<'_>, error: Error, headers: &HeaderMap, body: Body) -> Result<()> {
    give_back(exchange, &error);
    if !exchange.fail(&error) {
        return Err(error);
    }
    let own = axum::body::to_bytes(body, REFUSAL_BODY_BYTES_MAX)
        .await
        .unwrap_or_default();
    if let Some(own) = std::str::from_utf8(&own).ok().filter(|own| !own.is_empty()) {
        let fill = |head: ResponseBuilder| with_fields(head, headers);
        return exchange.refuse_with(&error, own, fill).await;
    }
    let text = exchange.text_of(&error);
    let fill = |head: ResponseBuilder| with_fields(head, headers).content_type(ContentType::Text);
    exchange.refuse_with(&error, &text, fill).await
}

/// A body of known length.
async fn send_whole(
    exchange: &mut Exchange<'_>,
    mut body: Body,
    length: u64,
    status: u16,
    fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
) -> Result<()> {
    exchange.head(status, |head| fill(head).content_length(length));
    let mut left = length;
    while let Some(piece) = next_piece(exchange, &mut body).await? {
        let bytes = piece.len() as u64;
        left = left.checked_sub(bytes).ok_or_else(broken_off)?;
        exchange.record.bytes_out += bytes;
        exchange.connection.stream.send_copy(&piece).await?;
    }
    if left > 0 {
        return Err(broken_off());
    }
    exchange.connection.stream.flush().await
}

/// A body that is sent as it comes.
async fn send_pieces(
    exchange: &mut Exchange<'_>,
    mut body: Body,
    status: u16,
    fill: impl FnOnce(ResponseBuilder) -> ResponseBuilder,
) -> Result<()> {
    exchange.begin_pieces(status, fill);
    exchange.connection.stream.flush().await?;
    while let Some(piece) = next_piece(exchange, &mut body).await? {
        exchange.piece(&piece).await?;
        exchange.connection.stream.flush().await?;
    }
    exchange.end_pieces(None).await
}

/// The next piece of an answer's body that is not empty. Ends with an error when the client leaves
/// or the door closes for good.
async fn next_piece(exchange: &mut Exchange<'_>, body: &mut Body) -> Result<Option<Bytes>> {
    loop {
        let frame = tokio::select! {
            biased;
            frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)) => frame,
            () = exchange.server.gate.aborting() => {
                return Err(Error::new(ErrorCode::Cancelled, Side::Active, Phase::Transfer));
            }
            () = exchange.connection.stream.peer_closed() => {
                return Err(Error::new(ErrorCode::ClientGone, Side::Client, Phase::Transfer));
            }
        };
        match frame {
            None => return Ok(None),
            Some(Err(cause)) => return Err(broken_off().with_private(cause.to_string())),
            Some(Ok(frame)) => {
                if let Some(piece) = frame.into_data().ok().filter(|piece| !piece.is_empty()) {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

fn broken_off() -> Error {
    Error::new(ErrorCode::Internal, Side::Active, Phase::Transfer)
}

/// The length that a handler has said, in an answer to HEAD.
fn length_of(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn with_fields(head: ResponseBuilder, headers: &HeaderMap) -> ResponseBuilder {
    let texts = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), std::str::from_utf8(value.as_bytes()).ok()?)));
    texts.fold(head, |head, (name, value)| head.content_field(name, value))
}
