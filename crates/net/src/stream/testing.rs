//! What tests of connections share.

use std::sync::OnceLock;

use execution::background::Background;
use types::limits::STEADY_NICENESS;

/// Starts the background, once for all tests of this crate.
pub(super) fn start_background() {
    static THREADS: OnceLock<Background> = OnceLock::new();
    THREADS
        .get_or_init(|| Background::start(2, 2, STEADY_NICENESS).unwrap())
        .enter();
}

/// The nice value of this thread.
pub(super) fn niceness() -> i32 {
    rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap()
}
