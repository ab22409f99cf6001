//! Answers to the program: a line of JSON, and the payload behind it.

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use types::Error;

use crate::client::report::error_json;
use crate::failure::{Failure, Reader};

/// Answers that wait to be written, beside those of the requests that wait for their place.
const ANSWERS_QUEUED_MAX: usize = 1;

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

/// Writes answers one after the other, until the program no longer reads. A task of its own, since
/// a request can be cancelled and an answer must not be cut.
/// The task ends when all is written and no sender is left.
pub(super) fn writer(mut output: impl AsyncWrite + Unpin + Send + 'static) -> (mpsc::Sender<Answer>, JoinHandle<()>) {
    let (answers, mut queue) = mpsc::channel::<Answer>(ANSWERS_QUEUED_MAX);
    let written = tokio::spawn(async move {
        while let Some(answer) = queue.recv().await {
            if write(&mut output, &answer).await.is_err() {
                break;
            }
        }
    });
    (answers, written)
}

async fn write(output: &mut (impl AsyncWrite + Unpin), answer: &Answer) -> std::io::Result<()> {
    output.write_all(format!("{}\n", answer.line).as_bytes()).await?;
    for piece in &answer.payload {
        output.write_all(piece).await?;
    }
    output.flush().await
}
