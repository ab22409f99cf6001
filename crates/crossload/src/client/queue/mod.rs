//! `crossload queue …`: the client of a transfer queue, ours or an FTS.
//!
//! What both have goes by the REST API of FTS3.

mod delegation;
mod jobs;
mod service;
mod submission;
mod submit;
mod table;

use super::session::ClientContext;
use crate::command_line::QueueAction;
use crate::failure::Failure;

/// Performs a command of a queue's client and returns its exit code.
///
/// # Errors
/// The queue's refusal, or no answer.
pub(super) async fn run(session: &ClientContext, action: &QueueAction) -> Result<u8, Failure> {
    match action {
        QueueAction::Serve(_) => Ok(0),
        QueueAction::Submit(options) => submit::run(session, options).await,
        QueueAction::Status(options) => jobs::status(session, options).await,
        QueueAction::List(options) => jobs::list(session, options).await,
        QueueAction::Cancel(options) => jobs::cancel(session, options).await,
        QueueAction::Log(options) => jobs::log(session, options).await,
        QueueAction::Priority(options) => jobs::priority(session, options).await,
    }
}
