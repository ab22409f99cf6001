//! Gathers how busy this server is. One task looks at what has to be looked at from time to time:
//! rates, the machine, and room. What is counted anyway is read when a client asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::announcement::Announcement;
use cluster::machine::{Machine, mean};
use cluster::node::Status;
use endpoint::Activity;
use transfer::{Budget, Flow};

use super::room::{Room, room_of};
use crate::server::events::Observer;
use crate::server::exported::Disk;
use crate::server::subsystem::Current;

/// Interval of looks at rates and the machine.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Interval of looks at the room of file systems.
const ROOM_PERIOD: Duration = Duration::from_secs(2);
/// A file system that has not answered for so long has no room: what it would say is not known.
const ROOM_TIME: Duration = Duration::from_secs(15);

/// What is read to know how busy the server is.
pub(crate) struct Collector {
    pub(crate) machine: Arc<Machine>,
    pub(crate) budget: Budget,
    pub(crate) activity: Activity,
    pub(crate) observer: Arc<Observer>,
    pub(crate) disks: Current<Vec<Disk>>,
    seen: Mutex<Seen>,
}

/// What was seen at the last looks.
#[derive(Debug, Default)]
struct Seen {
    at: Option<Instant>,
    in_bytes: u64,
    out_bytes: u64,
    in_bytes_s: f64,
    out_bytes_s: f64,
    room: Room,
    room_at: Option<Instant>,
}

impl Collector {
    pub(crate) fn new(
        machine: Arc<Machine>,
        budget: Budget,
        activity: Activity,
        observer: Arc<Observer>,
        disks: Current<Vec<Disk>>,
    ) -> Self {
        Self {
            machine,
            budget,
            activity,
            observer,
            disks,
            seen: Mutex::default(),
        }
    }

    /// Looks at rates and the machine from time to time; `each` is called after each look. It does
    /// not end.
    pub(crate) async fn keep_looking(&self, each: impl Fn()) {
        let mut clock = tokio::time::interval(LOOK_PERIOD);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            self.machine.look();
            self.look_at(Instant::now());
            each();
        }
    }

    /// Looks at the room of file systems from time to time; does not end. One that hangs holds up
    /// only this.
    pub(crate) async fn keep_measuring(&self) {
        loop {
            let room = room_of(&self.disks.get()).await;
            self.note_room(room, Instant::now());
            tokio::time::sleep(ROOM_PERIOD).await;
        }
    }

    fn note_room(&self, room: Room, now: Instant) {
        let mut seen = self.lock();
        (seen.room, seen.room_at) = (room, Some(now));
    }

    fn look_at(&self, now: Instant) {
        let (in_bytes, out_bytes) = (self.budget.flow_bytes(Flow::In), self.budget.flow_bytes(Flow::Out));
        let mut seen = self.lock();
        if let Some(time) = seen.at.map(|at| now.duration_since(at)).filter(|time| !time.is_zero()) {
            let rate = |before: u64, bytes: u64| bytes.saturating_sub(before) as f64 / time.as_secs_f64();
            seen.in_bytes_s = mean(seen.in_bytes_s, rate(seen.in_bytes, in_bytes), time);
            seen.out_bytes_s = mean(seen.out_bytes_s, rate(seen.out_bytes, out_bytes), time);
        }
        (seen.at, seen.in_bytes, seen.out_bytes) = (Some(now), in_bytes, out_bytes);
    }

    /// How busy the server is now, without what it is.
    pub(crate) fn announcement(&self) -> Announcement {
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let (pulls, pushes) = self.observer.copies();
        let (uploads, downloads) = (self.activity.uploads() as u64, self.activity.downloads() as u64);
        let wait = self.observer.waits().ninth_decile();
        let load = self.machine.load();
        let seen = self.lock();
        let is_recent = seen.room_at.is_some_and(|at| at.elapsed() <= ROOM_TIME);
        let free_bytes = if is_recent { seen.room.free_bytes } else { 0 };
        Announcement {
            status: Status {
                transfers: count(uploads + downloads + pulls + pushes),
                in_bytes_s: seen.in_bytes_s as u64,
                out_bytes_s: seen.out_bytes_s as u64,
                wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
                processors: rounded(load.processors),
                disk_pressure: rounded(load.disk_pressure),
                free_bytes,
                total_bytes: seen.room.total_bytes,
                ..Status::default()
            },
            uploads: count(uploads),
            downloads: count(downloads),
            pulls: count(pulls),
            pushes: count(pushes),
            ..Announcement::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share to a thousandth.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::log::Log;

    #[test]
    fn rates_and_transfers_are_those_of_now() {
        let site = tempfile::tempdir().unwrap();
        let log = Log::to_file(&site.path().join("log"));
        let wanted = config::Configuration::defaults().log;
        let observer = Arc::new(Observer::new(log, Arc::default(), &wanted));
        let (budget, activity) = (Budget::new(), Activity::default());
        let collector = Collector::new(
            Arc::default(),
            budget.clone(),
            activity.clone(),
            observer,
            Current::new(Vec::new()),
        );
        let start = Instant::now();
        collector.look_at(start);
        let (_upload, download) = (activity.begin_upload(), activity.begin_download());
        for second in 1..=20 {
            budget.add_moved(Flow::In, 1000);
            budget.add_moved(Flow::Out, 3000);
            collector.look_at(start + Duration::from_secs(second));
        }
        let told = collector.announcement();
        assert!((950..=1000).contains(&told.status.in_bytes_s), "{told:?}");
        assert!((2850..=3000).contains(&told.status.out_bytes_s), "{told:?}");
        assert_eq!((told.status.transfers, told.uploads, told.downloads), (2, 1, 1));
        assert_eq!(told.status.free_bytes, 0, "it is not known yet");
        drop(download);
        assert_eq!(collector.announcement().status.transfers, 1);
    }
}
