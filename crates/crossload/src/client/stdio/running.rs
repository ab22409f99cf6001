//! The requests that run, and copies among them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::sync::oneshot;
use types::{Error, ErrorCode, Phase, Side};

use super::answer::{Answer, Outcome, Refusal};
use super::{CARRIES_REQUESTS, Desk, bad_request};
use crate::client::report::Listener;
use crate::client::{copy, with_defaults};
use crate::command_line::{Command, CommandLine, Common, names_stdio};
use crate::failure::Failure;
use crate::limits::STDIO_REQUESTS_MAX;

/// The requests that run, with what cancels them.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<u64, oneshot::Sender<()>>>);

impl Running {
    fn requests(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins. What is returned ends when it is cancelled.
    ///
    /// # Errors
    /// `overloaded` for too many; `bad_request` if one with this ID runs.
    pub(super) fn begin(&self, id: u64) -> Result<oneshot::Receiver<()>, Error> {
        let mut requests = self.requests();
        if requests.contains_key(&id) {
            return Err(bad_request("a request with this ID runs already"));
        }
        if requests.len() >= STDIO_REQUESTS_MAX {
            let error = Error::new(ErrorCode::Overloaded, Side::Client, Phase::Open);
            return Err(error.with_detail(format!("{STDIO_REQUESTS_MAX} requests run already")));
        }
        let (cancel, cancelled) = oneshot::channel();
        requests.insert(id, cancel);
        Ok(cancelled)
    }

    pub(super) fn end(&self, id: u64) {
        self.requests().remove(&id);
    }

    /// Cancels a request. Returns whether it ran.
    pub(super) fn cancel(&self, id: u64) -> bool {
        self.requests().remove(&id).is_some()
    }

    pub(super) fn cancel_all(&self) {
        self.requests().clear();
    }
}

/// Runs `copy` or `sync` with these arguments, with the credentials of this session. Its events go
/// to the program.
pub(super) async fn copy(
    desk: &Arc<Desk>,
    id: u64,
    command: &str,
    arguments: Vec<String>,
    stop: impl Future<Output = Failure>,
) -> Result<Outcome, Refusal> {
    if arguments.iter().any(|argument| names_stdio(argument)) {
        return Err(bad_request(CARRIES_REQUESTS).into());
    }
    let words = ["crossload", command].map(str::to_owned).into_iter().chain(arguments);
    let parsed = CommandLine::of(words.map(OsString::from));
    let parsed = parsed.map_err(|refusal| bad_request(refusal.render().to_string()))?;
    let common = |given: Common| Common {
        json: true,
        timeout: given.timeout,
        ..desk.session.common.clone()
    };
    let command = match parsed.command {
        Command::Copy(options) => {
            let mut options = options.translated()?.0;
            options.common = common(options.common);
            Command::Copy(Box::new(options))
        }
        Command::Sync(mut options) => {
            options.common = common(options.common);
            Command::Sync(options)
        }
        _ => return Err(bad_request("not a copy").into()),
    };
    let session = &desk.session;
    let hearing = Arc::clone(desk);
    // Blocks the copy until the program has read what came before.
    let listener: Listener = Arc::new(move |event| {
        hearing.answers.send_blocking(Answer::event(Some(id), event));
    });
    let code = match with_defaults(session, command)? {
        Command::Copy(options) => copy::run(session, &options, Some(&listener), stop).await?,
        Command::Sync(options) => copy::sync(session, &options, Some(&listener), stop).await?,
        _ => 0,
    };
    Ok(json!({"exit_code": code}).into())
}
