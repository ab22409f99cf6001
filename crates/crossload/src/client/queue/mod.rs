//! `crossload queue …`: the client of a transfer queue, ours or an FTS.
//!
//! What both have goes by the REST API of FTS3. What an FTS does not have goes by our own API below
//! `/v1`, and is refused for an FTS.

mod advice;
mod capabilities;
mod delegation;
mod elements;
mod events;
mod jobs;
mod limits;
mod links;
mod operate;
mod pages;
mod server;
mod service;
mod single;
mod submission;
mod submit;
mod times;
mod watch;
mod webhooks;
mod who;
mod why;

pub(super) use capabilities::{SeenCapability, report_capabilities};
pub(super) use service::check_url;
pub(super) use single::{JobFailure, PHASE, SingleCopies};

use super::session::ClientContext;
use crate::command_line::QueueAction;
use crate::failure::Failure;
use crate::output;

/// Performs a command of a queue's client and returns its exit code.
///
/// # Errors
/// The queue's refusal, or no answer.
pub(super) async fn run(session: &ClientContext, action: &QueueAction) -> Result<u8, Failure> {
    perform(session, action)
        .await
        .map_err(|failure| advice::advised(failure, action))
}

/// Names options of FTS's client that were given and change nothing.
fn say_ignored(options: &[&str]) {
    if !options.is_empty() {
        output::complain(&format!("these options change nothing here: {}", options.join(", ")));
    }
}

async fn perform(session: &ClientContext, action: &QueueAction) -> Result<u8, Failure> {
    match action {
        QueueAction::Serve(_) => Ok(0),
        QueueAction::Submit(options) => submit::run(session, options).await,
        QueueAction::Status(options) => jobs::status(session, options).await,
        QueueAction::List(options) => jobs::list(session, options).await,
        QueueAction::Cancel(options) => jobs::cancel(session, options).await,
        QueueAction::Log(options) => jobs::log(session, options).await,
        QueueAction::Priority(options) => jobs::priority(session, options).await,
        QueueAction::Why(options) => why::run(session, options).await,
        QueueAction::Watch(options) => watch::run(session, options).await,
        QueueAction::Links(options) => links::list(session, options).await,
        QueueAction::Pause(options) => links::pause(session, options, true).await,
        QueueAction::Resume(options) => links::pause(session, options, false).await,
        QueueAction::Limits(options) => limits::run(session, options).await,
        QueueAction::Ban(options) => operate::ban(session, options).await,
        QueueAction::Drain(options) => operate::drain(session, options).await,
        QueueAction::Shares(options) => operate::shares(session, options).await,
        QueueAction::Webhooks(options) => webhooks::run(session, options).await,
        QueueAction::Whoami(options) => who::whoami(session, options).await,
        QueueAction::Delegate(options) => who::delegate(session, options).await,
    }
}
