//! Runs a server until it is stopped, and drains it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use super::service_manager;
use super::signals::{Asked, Signals};
use super::subsystem::Subsystem;
use super::{LAST_TASKS_WAIT, Server};
use crate::limits::{DRAIN_STATUS_PERIOD, FILE_WATCH_PERIOD};

/// Time for connections to end after a second signal.
const AT_ONCE: Duration = Duration::from_millis(500);

impl Server {
    /// Handles signals and changed files until the server is stopped, and drains it. Returns the
    /// time for the remaining tasks.
    pub(super) async fn serve(mut self, mut signals: Signals) -> Duration {
        let mut clock = tokio::time::interval(FILE_WATCH_PERIOD);
        loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Stop => break,
                    Asked::Reload => {
                        self.log.reopen();
                        self.reload("signal");
                    }
                },
                _ = clock.tick() => {
                    self.assembly.certificate.tell_expiry(&self.log);
                    if self.watch.changed() {
                        self.reload("file changed");
                    }
                }
            }
            self.doors.prune();
        }
        self.stopping.store(true, Ordering::Relaxed);
        self.log.write(
            "stopping",
            &json!({"grace_s": self.configuration.server.grace_time.as_secs()}),
        );
        let grace = self.configuration.server.grace_time;
        self.show_drain(grace);
        let in_time = tokio::select! {
            () = self.drain(grace) => true,
            () = signals.stop() => false,
            // A task is stuck, for example on a disk that does not respond.
            () = self.show_drain_for(grace + LAST_TASKS_WAIT) => true,
        };
        let wait = match in_time {
            true => LAST_TASKS_WAIT,
            false => {
                let _ = tokio::time::timeout(AT_ONCE, self.drain(Duration::ZERO)).await;
                Duration::ZERO
            }
        };
        let monitoring = self.monitoring.clone();
        let last_packets = execution::blocking(move || monitoring.stop());
        let _ = tokio::join!(self.observer.traces().stop(), last_packets);
        self.log.write("stopped", &json!({"cut_short": !in_time}));
        wait
    }

    /// Reports the drain to the service manager until it has taken this long.
    async fn show_drain_for(&self, limit: Duration) {
        let begun = Instant::now();
        let end = tokio::time::sleep(limit);
        tokio::pin!(end);
        let mut clock = tokio::time::interval(DRAIN_STATUS_PERIOD);
        loop {
            tokio::select! {
                () = &mut end => return,
                _ = clock.tick() => self.show_drain(limit.saturating_sub(begun.elapsed())),
            }
        }
    }

    fn show_drain(&self, left: Duration) {
        let status = service_manager::draining(self.doors.connections(), left);
        self.service_manager.stopping(&status, left);
    }

    /// All parts, in reload order: doors come last because they use the others.
    pub(super) fn parts(&self) -> impl Iterator<Item = &dyn Subsystem> {
        let doors: &dyn Subsystem = &self.doors;
        self.assembly.parts().into_iter().chain([doors])
    }

    /// Ends the running requests and transfers of all parts.
    async fn drain(&self, grace: Duration) {
        let mut ending: Vec<_> = self.parts().map(|part| part.drain(grace)).collect();
        std::future::poll_fn(|context| {
            ending.retain_mut(|part| part.as_mut().poll(context).is_pending());
            match ending.is_empty() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}
