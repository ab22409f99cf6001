//! Signals that end a command, after it has cleaned up.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of SIGHUP.
const HANGUP: u32 = 1;

/// Ctrl-C, SIGTERM of a batch system, and SIGHUP of a lost terminal, unless the command
/// was started with that one ignored, as by nohup.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl EndSignals {
    /// # Errors
    /// The system gives no signals.
    pub(crate) fn new() -> io::Result<Self> {
        let is_hangup_ignored = ignores(&std::fs::read_to_string("/proc/self/status")?, HANGUP);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: (!is_hangup_ignored).then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Returns at the next of them.
    pub(crate) async fn wait(&mut self) {
        let Self {
            interrupt,
            terminate,
            hangup,
        } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = hung_up => {}
        }
    }
}

/// Returns at the next signal that ends a command; without signals, never.
pub(crate) async fn end_asked() {
    match EndSignals::new() {
        Ok(mut signals) => signals.wait().await,
        Err(_) => std::future::pending().await,
    }
}

/// Whether a process with this status (proc_pid_status(5)) ignores the signal.
fn ignores(status: &str, number: u32) -> bool {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status = "Name:\tcrossload\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(ignores(status, 1) && ignores(status, 13));
        assert!(!ignores(status, 2) && !ignores("Name:\tx\n", 1));
    }
}
