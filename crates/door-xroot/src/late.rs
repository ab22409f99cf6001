//! Late answers: a task of its own works on each, and hands it to the connection's task through a
//! bounded channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::limits::XROOT_LATE_ANSWERS_MAX;
use endpoint::RequestRecord;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use types::{Error, ErrorCode, LogicalPath, Phase, Side};
use xroot_wire::StreamId;

use crate::failure::Failure;

/// A late answer.
pub(crate) enum Late {
    /// A text.
    Text(String),
    /// Success.
    Done,
    /// A request to ask again.
    Again,
}

/// A request that is answered late.
#[derive(Clone)]
pub(crate) struct LateRequest {
    pub(crate) stream: StreamId,
    /// Whether the client has been told to wait for an unsolicited answer.
    pub(crate) announced: bool,
    pub(crate) record: RequestRecord,
    pub(crate) began: Instant,
}

/// A late answer that is ready.
pub(crate) struct LateAnswer {
    pub(crate) request: LateRequest,
    /// The answer, or why there is none.
    pub(crate) outcome: Result<Late, Failure>,
}

/// The late answers of one session. All work on them ends with it. Without any, this takes no
/// memory.
#[derive(Default)]
pub(crate) struct LateAnswers(Option<Box<Working>>);

struct Working {
    sender: mpsc::Sender<Box<LateAnswer>>,
    receiver: mpsc::Receiver<Box<LateAnswer>>,
    running: JoinSet<()>,
    /// Which file each task is about, so that it can be cancelled.
    about: Vec<(LogicalPath, AbortHandle, Pledge)>,
}

impl Working {
    fn new() -> Box<Self> {
        let (sender, receiver) = mpsc::channel(XROOT_LATE_ANSWERS_MAX);
        Box::new(Self {
            sender,
            receiver,
            running: JoinSet::new(),
            about: Vec::new(),
        })
    }
}

/// What it takes to answer for a task that was cancelled.
#[derive(Clone)]
struct Pledge {
    /// Set by the first to answer, so that there is one answer.
    taken: Arc<AtomicBool>,
    request: LateRequest,
}

impl LateAnswers {
    /// The next answer that is ready. The future may be dropped.
    pub(crate) async fn next(&mut self) -> LateAnswer {
        if let Some(working) = &mut self.0 {
            // Never `None`, since we hold a sender.
            if let Some(answer) = working.receiver.recv().await {
                return *answer;
            }
        }
        std::future::pending().await
    }

    /// Whether a task is running.
    pub(crate) fn is_working(&self) -> bool {
        let working = self.0.as_ref();
        working.is_some_and(|working| working.about.iter().any(|(_, handle, _)| !handle.is_finished()))
    }

    /// Starts a task for an answer about `path`.
    pub(crate) fn begin(
        &mut self,
        path: &LogicalPath,
        request: LateRequest,
        work: impl Future<Output = Result<Late, Failure>> + Send + 'static,
    ) -> Result<(), Failure> {
        let working = self.0.get_or_insert_with(Working::new);
        while working.running.try_join_next().is_some() {}
        working.about.retain(|(_, handle, _)| !handle.is_finished());
        if working.running.len() >= XROOT_LATE_ANSWERS_MAX {
            let full = Error::new(ErrorCode::Overloaded, Side::Active, Phase::Checksum);
            return Err(full
                .with_detail(format!("answers that a session waits for: {XROOT_LATE_ANSWERS_MAX}"))
                .into());
        }
        let pledge = Pledge {
            taken: Arc::default(),
            request,
        };
        let (sender, own) = (working.sender.clone(), pledge.clone());
        let handle = working.running.spawn(async move {
            let outcome = work.await;
            if let Some(answer) = own.fulfil(outcome) {
                // The session may have ended, and needs no answer then.
                let _ = sender.send(Box::new(answer)).await;
            }
        });
        working.about.push((path.clone(), handle, pledge));
        Ok(())
    }

    /// Cancels the tasks about `path`; returns the answers to send.
    pub(crate) fn cancel(&mut self, path: &LogicalPath) -> Vec<LateAnswer> {
        self.give_up(|about, _| about == path)
    }

    /// Cancels the task of one request; returns the answer to send.
    pub(crate) fn cancel_request(&mut self, stream: StreamId) -> Vec<LateAnswer> {
        self.give_up(|_, request| request == stream)
    }

    fn give_up(&mut self, which: impl Fn(&LogicalPath, StreamId) -> bool) -> Vec<LateAnswer> {
        let Some(working) = &mut self.0 else {
            return Vec::new();
        };
        let running = std::mem::take(&mut working.about).into_iter();
        let (given_up, kept): (Vec<_>, _) = running
            .filter(|(_, handle, _)| !handle.is_finished())
            .partition(|(about, _, pledge)| which(about, pledge.request.stream));
        working.about = kept;
        let cancelled = |(path, handle, pledge): (LogicalPath, AbortHandle, Pledge)| {
            handle.abort();
            let error = Error::new(ErrorCode::Cancelled, Side::Client, Phase::Checksum).with_subject(&path);
            pledge.fulfil(Err(error.into()))
        };
        given_up.into_iter().filter_map(cancelled).collect()
    }
}

impl Pledge {
    fn fulfil(self, outcome: Result<Late, Failure>) -> Option<LateAnswer> {
        (!self.taken.swap(true, Ordering::AcqRel)).then_some(LateAnswer {
            request: self.request,
            outcome,
        })
    }
}
