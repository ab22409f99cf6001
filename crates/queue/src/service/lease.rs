//! The thread that keeps this worker alive for the others.
//!
//! It has a runtime and a connection to the database of its own: a large request, or whatever else
//! keeps the threads of the service busy, delays no sign of life. Otherwise others would take the
//! files of a busy worker while its copies go on.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use types::{Error, ErrorCode, Phase, Result, Side};

use super::renew::{self, Signed};
use super::{Inner, liveness};

/// Starts the thread. It ends when the receiver of its signs is dropped.
///
/// # Errors
/// `internal` if the system gives no thread; those of the catalog.
pub(super) async fn start(inner: &Arc<Inner>) -> Result<watch::Receiver<Signed>> {
    let (signs, receiver) = watch::channel(Signed::default());
    let (begun, has_begun) = oneshot::channel();
    let thread_inner = inner.clone();
    let work = move || {
        let ended = thread_inner.lease_has_ended.clone();
        match execution::single_thread_runtime() {
            Ok(runtime) => runtime.block_on(keep(thread_inner, signs, begun)),
            Err(error) => drop(begun.send(Err(internal(error)))),
        }
        ended.send_replace(true);
    };
    execution::start_thread("lease", work).map_err(internal)?;
    has_begun.await.map_err(internal)??;
    Ok(receiver)
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::Internal, Side::Queue, Phase::Queued).with_private(error)
}

/// Gives signs of life, and stops the copies if it cannot.
async fn keep(inner: Arc<Inner>, signs: watch::Sender<Signed>, begun: oneshot::Sender<Result<()>>) {
    let catalog = match inner.catalog.apart() {
        Ok(catalog) => catalog,
        Err(error) => return drop(begun.send(Err(error))),
    };
    let _ = begun.send(Ok(()));
    let fence = async {
        match inner.catalog.is_shared() {
            true => liveness::fence(inner.clone()).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        () = renew::run(&inner, &catalog, &signs) => {}
        () = fence => {}
        () = signs.closed() => {}
    }
}
