//! A further connection of a session. It takes no requests: it sends what the session's task hands
//! to it, and is lent to that task for writes whose data arrive on it.

use std::time::Instant;

use net::Frames;
use tokio::sync::oneshot;
use transfer::Site;
use types::Result;
use xroot_wire::request::{Payload, Request, RequestHeader};

use crate::answer::refuse;
use crate::connection::{Connection, Next};
use crate::dispatch::dispatch;
use crate::sessions::{Binding, Errand, Loan, no_such_stream, stream_ended};

/// Serves a session until it ends or the client closes this connection.
pub(crate) async fn serve(site: &Site, mut frames: Frames, mut binding: Binding) {
    loop {
        let errand = tokio::select! {
            errand = binding.errands.recv() => errand,
            () = frames.stream.peer_closed() => None,
        };
        match errand {
            None => break,
            Some(Errand::Send(task)) => {
                let sent = task.send(&mut frames.stream, site).await;
                if sent.is_err() || frames.stream.flush().await.is_err() {
                    return;
                }
            }
            Some(Errand::Lend(borrower)) => match lend(frames, borrower).await {
                Some(back) => frames = back,
                None => return,
            },
        }
    }
    // The client may have closed the connection already.
    let _ = frames.stream.close().await;
}

async fn lend(frames: Frames, borrower: oneshot::Sender<Loan>) -> Option<Frames> {
    let (back, returned) = oneshot::channel();
    match borrower.send(Loan { frames, back }) {
        Ok(()) => returned.await.ok(),
        // The session ended meanwhile.
        Err(_) => None,
    }
}

/// One request whose payload arrives on a further stream of the session. It is answered there too,
/// as the reference server does.
///
/// Later requests of the session wait until the payload has arrived. Writes to a file are
/// serialised anyway.
pub(crate) async fn one_elsewhere(
    connection: &mut Connection,
    path: u8,
    header: &RequestHeader,
    payload: Payload,
    began: Instant,
) -> Result<Next> {
    // What is queued here must not wait for the other stream.
    connection.flush().await?;
    let Some(mut loan) = borrow(connection, path).await else {
        // It is unknown where the payload is, so it cannot be skipped.
        mark_incomplete(connection, header);
        return Ok(refuse(connection, header, began, no_such_stream()));
    };
    std::mem::swap(&mut connection.frames, &mut loan.frames);
    let mut served = dispatch(connection, header, &[], payload, began).await;
    if served.is_ok() {
        served = connection.flush().await.and(served);
    }
    std::mem::swap(&mut connection.frames, &mut loan.frames);
    match served {
        Ok(next) => {
            // The stream's task waits for it, unless the client has closed the stream.
            let _ = loan.back.send(loan.frames);
            Ok(next)
        }
        // That stream has ended, but the session continues.
        Err(_) => {
            mark_incomplete(connection, header);
            Ok(refuse(connection, header, began, stream_ended()))
        }
    }
}

async fn borrow(connection: &Connection, path: u8) -> Option<Loan> {
    let way = connection.session.as_ref()?.registration.stream(path)?;
    let (lender, loan) = oneshot::channel();
    way.send(Errand::Lend(lender)).await.ok()?;
    loan.await.ok()
}

/// Data of a write were lost: closing the file must fail.
fn mark_incomplete(connection: &mut Connection, header: &RequestHeader) {
    let handle = match Request::parse(header, &[]) {
        Ok(Request::Write(write)) => write.handle,
        Ok(Request::PageWrite(write)) => write.handle,
        _ => return,
    };
    if let Ok(writing) = connection.files().and_then(|files| files.file(handle)?.writing()) {
        writing.mark_incomplete();
    }
}
