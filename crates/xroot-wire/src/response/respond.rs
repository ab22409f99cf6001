//! Whole responses, ready to be sent.

use crate::codes::Status;
use crate::error_number::ErrorNumber;
use crate::ids::StreamId;
use crate::response::frame::LATE_ANSWER;
use crate::response::{Redirect, ResponseHeader};

/// Appends a response of any kind with this body.
pub fn frame(out: &mut Vec<u8>, stream: StreamId, status: Status, body: &[u8]) {
    out.extend_from_slice(&ResponseHeader::new(stream, status, body.len()).encode());
    out.extend_from_slice(body);
}

/// Appends `ok` with this body, which may be empty.
pub fn ok(out: &mut Vec<u8>, stream: StreamId, body: &[u8]) {
    frame(out, stream, Status::Ok, body);
}

/// Appends `ok` with a text and the NUL that clients expect behind it.
pub fn ok_text(out: &mut Vec<u8>, stream: StreamId, text: &str) {
    out.extend_from_slice(&ResponseHeader::new(stream, Status::Ok, text.len() + 1).encode());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends a part of an answer; the last part is sent with [`ok`]. Only reads, vector reads and
/// directory listings may be divided.
pub fn partial(out: &mut Vec<u8>, stream: StreamId, body: &[u8]) {
    frame(out, stream, Status::Partial, body);
}

/// Appends an error. Its text ends with NUL, without which clients lose the last letter, or worse.
pub fn error(out: &mut Vec<u8>, stream: StreamId, number: ErrorNumber, message: &str) {
    frame(out, stream, Status::Error, &error_body(number, message));
}

/// The body of an error, for [`later`].
#[must_use]
pub fn error_body(number: ErrorNumber, message: &str) -> Vec<u8> {
    let mut body = number.0.to_be_bytes().to_vec();
    body.extend(message.bytes().filter(|byte| *byte != 0));
    body.push(0);
    body
}

/// Appends a redirection.
pub fn redirect(out: &mut Vec<u8>, stream: StreamId, target: &Redirect) {
    frame(out, stream, Status::Redirect, &target.encode());
}

/// Appends the demand to send the same request again after so many seconds.
pub fn wait(out: &mut Vec<u8>, stream: StreamId, seconds: u32, message: &str) {
    frame(out, stream, Status::Wait, &wait_body(seconds, message));
}

/// Appends the promise of an answer within so many seconds, which is sent with [`later`].
pub fn wait_for_answer(out: &mut Vec<u8>, stream: StreamId, seconds: u32, message: &str) {
    frame(out, stream, Status::WaitForAnswer, &wait_body(seconds, message));
}

/// The body of a demand to wait, for [`later`].
#[must_use]
pub fn wait_body(seconds: u32, message: &str) -> Vec<u8> {
    let mut body = seconds.min(i32::MAX.cast_unsigned()).to_be_bytes().to_vec();
    body.extend_from_slice(message.as_bytes());
    body
}

/// Appends the next message of the client's authentication protocol.
pub fn more_authentication(out: &mut Vec<u8>, stream: StreamId, data: &[u8]) {
    frame(out, stream, Status::MoreAuthentication, data);
}

/// Appends a late answer to the request on `stream`, for which [`wait_for_answer`] was sent.
pub fn later(out: &mut Vec<u8>, stream: StreamId, status: Status, body: &[u8]) {
    out.extend_from_slice(&ResponseHeader::new(StreamId::ZERO, Status::Attention, 16 + body.len()).encode());
    out.extend_from_slice(&LATE_ANSWER.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    frame(out, stream, status, body);
}
