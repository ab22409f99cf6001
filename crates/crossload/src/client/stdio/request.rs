//! Requests of the program: a line of JSON, and the payload behind it.

use serde::Deserialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use crate::limits::{STDIO_LINE_BYTES_MAX, STDIO_PAYLOAD_BYTES_MAX};

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// The program chooses it; no other running request has it.
    pub(super) id: u64,
    /// What to do, or why that is not understood.
    pub(super) operation: Result<Operation, String>,
    /// The bytes behind the line.
    pub(super) payload: Vec<u8>,
}

/// What to do. Places are URLs, local paths or places in named remotes.
#[derive(Debug, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Operation {
    /// What a name stands for.
    Stat { place: String },
    /// The entries of a directory, or a file itself.
    Ls { place: String },
    /// The checksum of a file.
    Sum { place: String, algorithm: String },
    /// Makes a directory, with `parents` also those above it.
    Mkdir {
        place: String,
        #[serde(default)]
        parents: bool,
    },
    /// Removes a file, with `recursive` also a directory with everything in it.
    Rm {
        place: String,
        #[serde(default)]
        recursive: bool,
    },
    /// Removes an empty directory.
    Rmdir { place: String },
    /// Renames within one server.
    Mv {
        source: String,
        destination: String,
        #[serde(default)]
        overwrite: bool,
    },
    /// Opens a file of a server to read ranges of it.
    Open { place: String },
    /// Reads ranges, each from its first byte to before its last; a range ends with the file.
    Read { file: u64, ranges: Vec<[u64; 2]> },
    /// Begins a file on a server, of this size if it is known.
    Create {
        place: String,
        #[serde(default)]
        overwrite: bool,
        bytes: Option<u64>,
    },
    /// Appends the payload to a file that was begun.
    Write { file: u64 },
    /// Ends a file that was begun: it has its name from now on.
    Commit { file: u64 },
    /// Closes a file. One that was begun and not committed is given up.
    Close { file: u64 },
    /// `crossload copy` with these arguments; its events come before the result.
    Copy { arguments: Vec<String> },
    /// `crossload sync` with these arguments.
    Sync { arguments: Vec<String> },
    /// Cancels a request. It still has its own answer.
    Cancel { request: u64 },
}

/// What must be known of a line to read on.
#[derive(Deserialize)]
struct Head {
    id: u64,
    #[serde(default)]
    payload_bytes: u64,
}

/// Members of a line beside those of the operation.
const HEAD_MEMBERS: [&str; 2] = ["id", "payload_bytes"];

/// Reads the next request; `None` at the end of the input.
///
/// # Errors
/// The input ends within a request, or why it is not known where the next one begins.
pub(super) async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Request>, String> {
    let mut line = Vec::new();
    let mut limited = input.take(STDIO_LINE_BYTES_MAX + 1);
    // A broken input is an ended one: no program is left to learn of it.
    if limited.read_until(b'\n', &mut line).await.is_err() || line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return match line.len() as u64 >= STDIO_LINE_BYTES_MAX {
            true => Err(format!("a request is longer than {STDIO_LINE_BYTES_MAX} bytes")),
            false => Err("standard input ends within a line".to_owned()),
        };
    }
    let head: Head = serde_json::from_slice(&line).map_err(|cause| format!("a line is not a request: {cause}"))?;
    if head.payload_bytes > STDIO_PAYLOAD_BYTES_MAX {
        return Err(format!("a payload is longer than {STDIO_PAYLOAD_BYTES_MAX} bytes"));
    }
    let mut payload = vec![0; head.payload_bytes as usize];
    if input.read_exact(&mut payload).await.is_err() {
        return Err(format!("standard input ends within the payload of request {}", head.id));
    }
    Ok(Some(Request {
        id: head.id,
        operation: operation(&line).map_err(|cause| cause.to_string()),
        payload,
    }))
}

fn operation(line: &[u8]) -> serde_json::Result<Operation> {
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line)?;
    members.retain(|name, _| !HEAD_MEMBERS.contains(&name.as_str()));
    serde_json::from_value(members.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut input: &[u8]) -> Vec<Result<Request, String>> {
        let mut all = Vec::new();
        while let Some(next) = next(&mut input).await.transpose() {
            let is_end = next.is_err();
            all.push(next);
            if is_end {
                break;
            }
        }
        all
    }

    #[tokio::test]
    async fn payload_lies_between_the_lines() {
        let input = b"{\"id\":1,\"operation\":\"write\",\"file\":7,\"payload_bytes\":3}\n{\n}{\"id\":2,\"operation\":\"close\",\"file\":7}\n";
        let all = read(input).await;
        let [Ok(first), Ok(second)] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((first.id, first.payload.as_slice()), (1, &b"{\n}"[..]));
        assert!(matches!(first.operation, Ok(Operation::Write { file: 7 })));
        assert!(matches!(second.operation, Ok(Operation::Close { file: 7 })));
    }

    #[tokio::test]
    async fn an_unknown_operation_ends_nothing_and_an_unknown_end_does() {
        let all = read(
            b"{\"id\":1,\"operation\":\"fly\"}\n{\"id\":2,\"operation\":\"stat\",\"place\":\"a\",\"x\":1}\n{\"x\":1}\n",
        )
        .await;
        assert!(matches!(&all[..], [Ok(_), Ok(_), Err(_)]), "{all:?}");
        assert!(all[..2].iter().flatten().all(|request| request.operation.is_err()));
        let long = vec![b' '; STDIO_LINE_BYTES_MAX as usize + 1];
        assert!(matches!(&read(&long).await[..], [Err(_)]));
        let much = format!("{{\"id\":1,\"payload_bytes\":{}}}\n", STDIO_PAYLOAD_BYTES_MAX + 1);
        assert!(matches!(&read(much.as_bytes()).await[..], [Err(_)]));
        for cut in [&b"{\"id\":1"[..], b"{\"id\":1,\"payload_bytes\":3}\nab"] {
            assert!(
                matches!(&read(cut).await[..], [Err(words)] if words.contains("ends within")),
                "{cut:?}"
            );
        }
        assert!(read(b"").await.is_empty());
    }
}
