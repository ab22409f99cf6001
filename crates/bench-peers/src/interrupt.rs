//! Ending early: an interrupted benchmark must not leave gigabytes in memory and servers behind, so it stops where it can
//! and lets every guard do its work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use testkit::Result;
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT and SIGTERM only make [`is_set`] true.
pub(crate) fn watch() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        INTERRUPTED.store(true, Ordering::SeqCst);
    });
    Ok(())
}

/// Whether the benchmark was asked to end.
pub(crate) fn is_set() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
