//! The service manager, such as systemd: reports of the server's state (`sd_notify(3)`; without
//! `NOTIFY_SOCKET` nothing is sent), and sockets that the manager has opened.

mod sockets;

use std::time::Duration;

use execution::Rota;
use sd_notify::NotifyState;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::log::Log;
use crate::limits::STOP_TIMEOUT_MARGIN;
use crate::output::counted;

pub(crate) use sockets::Sockets;

/// The shortest interval between two signs of life.
const WATCHDOG_PERIOD_MIN: Duration = Duration::from_millis(1);

/// The service manager of this server. Clones report to the same one.
#[derive(Clone)]
pub(crate) struct ServiceManager {
    log: Log,
}

impl ServiceManager {
    /// The one that the environment names.
    pub(crate) fn new(log: &Log) -> Self {
        Self { log: log.clone() }
    }

    /// The server answers clients. `status` says what it does.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
    }

    /// The server reads its configuration again; [`ServiceManager::ready`] follows.
    pub(crate) fn reloading(&self) {
        let Ok(now) = NotifyState::monotonic_usec_now() else {
            return;
        };
        let status = NotifyState::Status("reading the configuration again");
        self.send(&[NotifyState::Reloading, now, status]);
    }

    /// The server stops, and needs no longer than this.
    pub(crate) fn stopping(&self, status: &str, limit: Duration) {
        let limit_us = (limit + STOP_TIMEOUT_MARGIN).as_micros();
        // Within 71 minutes the next report follows.
        let extended = NotifyState::ExtendTimeoutUsec(u32::try_from(limit_us).unwrap_or(u32::MAX));
        let status = one_line(status);
        self.send(&[NotifyState::Stopping, NotifyState::Status(&status), extended]);
    }

    /// Sends a sign of life in each half of the time that the watchdog allows, if there is one: a
    /// task has run on the runtime of the caller, and one on a thread for connections. One thread
    /// that waits for a dead disk is no reason to end the work of all others.
    pub(crate) fn feed_watchdog(&self, rota: &Rota) {
        let Some(allowed) = sd_notify::watchdog_enabled().filter(|allowed| !allowed.is_zero()) else {
            return;
        };
        let (own, rota) = (self.clone(), rota.clone());
        tokio::spawn(async move { own.send_signs_of_life(allowed / 2, &rota).await });
    }

    async fn send_signs_of_life(&self, period: Duration, rota: &Rota) {
        let mut clock = tokio::time::interval(period.max(WATCHDOG_PERIOD_MIN));
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pulse = Pulse::new(rota);
        loop {
            clock.tick().await;
            pulse.beat().await;
            self.send(&[NotifyState::Watchdog]);
        }
    }

    fn send(&self, state: &[NotifyState<'_>]) {
        if let Err(cause) = sd_notify::notify(state) {
            let says = "the service manager cannot be reached at NOTIFY_SOCKET";
            self.log
                .write("notify_failed", &json!({"error": cause.to_string(), "says": says}));
        }
    }
}

/// Whether threads for connections run what they are given.
struct Pulse<'a> {
    rota: &'a Rota,
    /// The question that waits at each of them, at most one.
    asked: Vec<Option<JoinHandle<()>>>,
    answer: mpsc::Sender<()>,
    answers: mpsc::Receiver<()>,
}

impl<'a> Pulse<'a> {
    fn new(rota: &'a Rota) -> Self {
        let (answer, answers) = mpsc::channel(1);
        Self {
            rota,
            asked: rota.runtimes().map(|_| None).collect(),
            answer,
            answers,
        }
    }

    /// Returns when one of them has run a task.
    async fn beat(&mut self) {
        for ((_, runtime), asked) in self.rota.runtimes().zip(&mut self.asked) {
            if asked.as_ref().is_none_or(JoinHandle::is_finished) {
                let answer = self.answer.clone();
                *asked = Some(runtime.spawn(async move {
                    let _ = answer.try_send(());
                }));
            }
        }
        // This struct keeps a sender, so the channel is open.
        self.answers.recv().await;
    }
}

/// Reports why a server did not start, for `systemctl status`.
pub(crate) fn report_failure(message: &str) {
    // The message is on standard error, too.
    let _ = sd_notify::notify(&[NotifyState::Status(&one_line(message))]);
}

/// The state of a server that waits for its connections to end.
pub(crate) fn draining(connections: usize, left: Duration) -> String {
    let connections = counted(connections as u64, "connection");
    format!("draining: waiting up to {} s for {connections}", left.as_secs())
}

/// A line break would begin another variable of the protocol.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use execution::ServerThreads;

    use super::*;

    #[test]
    fn a_sign_of_life_needs_one_thread_for_connections() {
        let threads = ServerThreads::start(2, 1, 0).unwrap();
        let rota = threads.rota();
        let hold = |(_, runtime): (usize, &tokio::runtime::Handle)| {
            let (release, held) = std::sync::mpsc::channel::<()>();
            runtime.spawn(async move {
                let _ = held.recv();
            });
            release
        };
        let mut stuck: Vec<_> = rota.runtimes().map(hold).collect();
        threads.block_on(async {
            let mut pulse = Pulse::new(&rota);
            let beat = tokio::time::timeout(Duration::from_millis(200), pulse.beat());
            assert!(beat.await.is_err(), "all of them are stuck");
            stuck.pop();
            pulse.beat().await;
        });
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(
            one_line("invalid configuration\nc.toml:1: x\n"),
            "invalid configuration c.toml:1: x"
        );
        let left = Duration::from_millis(19_900);
        assert_eq!(draining(1, left), "draining: waiting up to 19 s for 1 connection");
        assert!(draining(2, left).ends_with("2 connections"));
    }
}
