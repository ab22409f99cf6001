//! Answers to the program: a line of JSON, and the payload behind it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use types::Error;

use crate::client::report::error_json;
use crate::failure::{Failure, Reader};

/// Answers that wait to be written, beside those of the requests that wait for their place.
const ANSWERS_QUEUED_MAX: usize = 1;
/// Events of copies that wait to be written.
const EVENTS_QUEUED_MAX: usize = 16;

/// A line for the program, and the payload behind it.
pub(super) struct Answer {
    line: Value,
    payload: Vec<Vec<u8>>,
}

/// What a request comes to.
#[derive(Default)]
pub(super) struct Outcome {
    /// The member `result`.
    pub(super) result: Value,
    /// Pieces of payload, which the program gets as one.
    pub(super) payload: Vec<Vec<u8>>,
}

impl From<Value> for Outcome {
    fn from(result: Value) -> Self {
        let payload = Vec::new();
        Self { result, payload }
    }
}

/// Why a request failed, as JSON.
pub(super) struct Refusal(pub(super) Value);

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error_json(&error))
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let code = failure.code.map(types::ErrorCode::name);
        Self(
            json!({"code": code, "exit_code": failure.exit_code, "side": "client", "phase": null,
            "message": failure.words, "next": failure.next(Reader::User), "retry": false}),
        )
    }
}

impl Answer {
    /// The answer that ends a request. Without an ID it is about a line that is no request.
    pub(super) fn last(id: Option<u64>, performed: Result<Outcome, Refusal>) -> Self {
        match performed {
            Ok(Outcome { result, payload }) => {
                let bytes: usize = payload.iter().map(Vec::len).sum();
                let mut line = json!({"id": id, "result": result});
                if bytes > 0 {
                    line["payload_bytes"] = bytes.into();
                }
                Self { line, payload }
            }
            Err(Refusal(error)) => Self {
                line: json!({"id": id, "error": error}),
                payload: Vec::new(),
            },
        }
    }

    /// An event of a request that goes on, or of none.
    pub(super) fn event(id: Option<u64>, mut event: Value) -> Self {
        if let Some(id) = id {
            event["id"] = id.into();
        }
        Self {
            line: event,
            payload: Vec::new(),
        }
    }
}

/// Where answers are sent to.
pub(super) struct Answers {
    answers: mpsc::Sender<Answer>,
    events: mpsc::UnboundedSender<Answer>,
    places: Arc<Places>,
}

/// Places for events of copies. A copy blocks its thread for one, so that it is no faster than the
/// program. It must not wait as tasks do: the thread may run another task that waits, which would
/// miss what wakes it, and may have the next place.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    is_free: Condvar,
}

impl Places {
    fn take(&self) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken >= EVENTS_QUEUED_MAX;
        let free = self.is_free.wait_while(taken, is_full);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn free(&self, count: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(count);
        self.is_free.notify_all();
    }
}

impl Answers {
    pub(super) async fn send(&self, answer: Answer) {
        // Without a reader, the program is gone, and the session ends.
        let _ = self.answers.send(answer).await;
    }

    /// Blocks the thread until there is place. Answers that are sent afterwards are written later.
    pub(super) fn send_blocking(&self, event: Answer) {
        if self.events.is_closed() {
            return;
        }
        tokio::task::block_in_place(|| self.places.take());
        if self.events.send(event).is_err() {
            self.places.free(1);
        }
    }

    /// Returns when the program reads no more.
    pub(super) async fn closed(&self) {
        self.answers.closed().await;
    }
}

/// Writes answers one after the other, until the program no longer reads. A task of its own, since
/// a request can be cancelled and an answer must not be cut.
/// The task ends when all is written and no sender is left.
pub(super) fn writer(output: impl AsyncWrite + Unpin + Send + 'static) -> (Answers, JoinHandle<()>) {
    let (answers, queue) = mpsc::channel(ANSWERS_QUEUED_MAX);
    let (events, queued_events) = mpsc::unbounded_channel();
    let places = Arc::new(Places::default());
    let freed = Arc::clone(&places);
    let written = tokio::spawn(async move {
        write_all(output, queue, queued_events, &freed).await;
        // Those that wait find that no one reads.
        freed.free(usize::MAX);
    });
    let answers = Answers {
        answers,
        events,
        places,
    };
    (answers, written)
}

async fn write_all(
    mut output: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Answer>,
    mut events: mpsc::UnboundedReceiver<Answer>,
    places: &Places,
) {
    loop {
        let last = tokio::select! {
            biased;
            Some(event) = events.recv() => {
                if write(&mut output, &event).await.is_err() {
                    return;
                }
                places.free(1);
                continue;
            }
            Some(answer) = queue.recv() => answer,
            else => return,
        };
        // The events of a copy come before its end.
        while let Ok(event) = events.try_recv() {
            if write(&mut output, &event).await.is_err() {
                return;
            }
            places.free(1);
        }
        if write(&mut output, &last).await.is_err() {
            return;
        }
    }
}

async fn write(output: &mut (impl AsyncWrite + Unpin), answer: &Answer) -> std::io::Result<()> {
    output.write_all(format!("{}\n", answer.line).as_bytes()).await?;
    for piece in &answer.payload {
        output.write_all(piece).await?;
    }
    output.flush().await
}
