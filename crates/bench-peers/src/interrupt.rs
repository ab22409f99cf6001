//! Ending early: an interrupted benchmark must not leave gigabytes in memory and servers behind,
//! and must not lose what it measured. So the signal ends the clients that are under way, and
//! everything else goes its usual way.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use testkit::Result;
use tokio::signal::unix::{SignalKind, signal};

/// A terminal sends its signal to clients and servers as well, so a failure may be seen a little
/// before the signal is.
const SETTLE: Duration = Duration::from_millis(200);

/// What ended the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// SIGINT, which Ctrl-C sends.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Interruption {
    /// What a shell calls a process that this signal ended: 128 and its number.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }
}

struct State {
    interruption: Option<Interruption>,
    /// The clients under way, by a number of their own.
    clients: Vec<(u64, OwnedFd)>,
    last_number: u64,
}

static STATE: Mutex<State> = Mutex::new(State {
    interruption: None,
    clients: Vec::new(),
    last_number: 0,
});
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT and SIGTERM only make [`is_set`] true and end the clients.
pub(crate) fn watch() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        let interruption = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => Interruption::Interrupt,
                _ = terminate.recv() => Interruption::Terminate,
            }
        });
        let mut state = state();
        state.interruption = Some(interruption);
        for (_, client) in &state.clients {
            end(client);
        }
        CHANGED.notify_all();
    });
    Ok(())
}

fn end(client: &OwnedFd) {
    // One that has just ended needs no signal.
    let _ = pidfd_send_signal(client, Signal::TERM);
}

/// Whether the benchmark was asked to end, and how.
pub(crate) fn is_set() -> Option<Interruption> {
    state().interruption
}

/// The same after a failure, which the signal may have caused: waits a little for it.
pub(crate) fn settle() -> Option<Interruption> {
    let (state, _) = CHANGED
        .wait_timeout_while(state(), SETTLE, |state| state.interruption.is_none())
        .unwrap_or_else(PoisonError::into_inner);
    state.interruption
}

/// As long as this lives, an interruption ends the client that it was made for.
#[must_use]
pub(crate) struct EndsEarly(u64);

impl EndsEarly {
    /// `child` has not been waited for yet. A kernel without process descriptors lets it run to its
    /// end.
    pub(crate) fn new(child: &Child) -> Self {
        let mut state = state();
        state.last_number += 1;
        let number = state.last_number;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(client) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            if state.interruption.is_some() {
                end(&client);
            }
            state.clients.push((number, client));
        }
        Self(number)
    }
}

impl Drop for EndsEarly {
    fn drop(&mut self) {
        state().clients.retain(|(number, _)| *number != self.0);
    }
}
