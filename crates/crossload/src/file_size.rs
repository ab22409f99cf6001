//! The limit on the size of files that the process may write (`ulimit -f`, `LimitFSIZE=`).

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Makes a write beyond the limit fail, and with it only its request. Without a handler the signal
/// ends the process. Call this on a runtime.
///
/// # Errors
/// The handler cannot be installed.
pub(crate) fn survive_file_size_limit() -> std::io::Result<()> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
