//! The third-party copies that run now, for all doors of a server.
//!
//! A copy is entered when it begins and removed when it ends; in between its counters are looked at
//! in regular samples, from which its rate follows, and whether it stands still.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use endpoint::TransferStart;
use transfer::Progress;
use types::Phase;

use crate::limits::{COPIES_LISTED_MAX, STALLED_AFTER};
use crate::stage::Stage;
use crate::words::Words;

/// Of a new sample, this part goes into the rate that is shown; the rest is the rate before.
const SAMPLE_WEIGHT: f64 = 0.3;

/// The copies. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct RunningCopies(Arc<Mutex<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    copies: HashMap<String, Running>,
    /// Copies that run and are not listed, because there were too many.
    unlisted: usize,
}

/// What does not change while a copy runs.
#[derive(Debug)]
pub(crate) struct CopyFacts {
    pub(crate) id: Words,
    /// `pull` or `push`.
    pub(crate) mode: &'static str,
    /// The client that ordered it.
    pub(crate) who: Words,
    pub(crate) from: Words,
    pub(crate) to: Words,
    /// What is searched, in lower case.
    searched: String,
}

#[derive(Debug)]
struct Running {
    facts: Arc<CopyFacts>,
    progress: Arc<Progress>,
    sample: Sample,
}

/// What was found when the counters were looked at last.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    moved_bytes: u64,
    bytes_per_s: f64,
    /// When bytes were last seen to have moved.
    moved_at: Instant,
}

/// A copy at one moment.
#[derive(Clone, Debug)]
pub(crate) struct CopyNow {
    pub(crate) facts: Arc<CopyFacts>,
    pub(crate) bytes: u64,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) bytes_per_s: u64,
    pub(crate) age: Duration,
    /// Its phase, as in the log.
    pub(crate) phase: &'static str,
    pub(crate) stage: Stage,
}

impl CopyFacts {
    fn of(start: &TransferStart) -> Self {
        let who = match &start.subject {
            Some(subject) => subject.clone(),
            None => format!("{} ({})", start.client.ip().to_canonical(), start.credential),
        };
        let (from, to) = match start.mode {
            "pull" => (start.remote.as_str(), start.path.as_str()),
            _ => (start.path.as_str(), start.remote.as_str()),
        };
        let searched = format!("{}\n{who}\n{from}\n{to}\n{}", start.transfer_id, start.mode);
        Self {
            id: start.transfer_id.as_str().into(),
            mode: start.mode,
            searched: searched.to_lowercase(),
            from: from.into(),
            to: to.into(),
            who: who.into(),
        }
    }

    /// Whether a text, in lower case, stands in it.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.searched.contains(text)
    }
}

impl CopyNow {
    /// Whether it should move, and has not for a while.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stage == Stage::Stalled
    }
}

impl Running {
    fn now(&self) -> CopyNow {
        let stands_still = self.sample.at.duration_since(self.sample.moved_at) >= STALLED_AFTER;
        CopyNow {
            facts: self.facts.clone(),
            bytes: self.progress.moved_bytes(),
            total_bytes: self.progress.total_bytes(),
            bytes_per_s: self.sample.bytes_per_s as u64,
            age: self.progress.elapsed(),
            phase: self.progress.phase().name(),
            stage: Stage::of(&self.progress, stands_still),
        }
    }

    fn sample(&mut self, now: Instant) {
        let (last, moved_bytes) = (self.sample, self.progress.moved_bytes());
        let passed_s = now.duration_since(last.at).as_secs_f64();
        if passed_s <= 0.0 {
            return;
        }
        // A copy that begins again counts anew.
        let moved_now = moved_bytes.saturating_sub(last.moved_bytes);
        let measured = moved_now as f64 / passed_s;
        let is_first = last.bytes_per_s == 0.0;
        self.sample = Sample {
            at: now,
            moved_bytes,
            bytes_per_s: match is_first {
                true => measured,
                false => last.bytes_per_s + SAMPLE_WEIGHT * (measured - last.bytes_per_s),
            },
            // Before and after the data, a copy waits for others and moves nothing.
            moved_at: match moved_bytes == last.moved_bytes && self.progress.phase() == Phase::Transfer {
                true => last.moved_at,
                false => now,
            },
        };
    }
}

impl RunningCopies {
    /// A copy has begun.
    pub fn begin(&self, start: &TransferStart, progress: &Arc<Progress>) {
        self.begin_at(start, progress, Instant::now());
    }

    fn begin_at(&self, start: &TransferStart, progress: &Arc<Progress>, now: Instant) {
        // Texts are made before the lock is taken.
        let facts = Arc::new(CopyFacts::of(start));
        let mut listed = self.lock();
        if listed.copies.len() >= COPIES_LISTED_MAX {
            listed.unlisted += 1;
            return;
        }
        let running = Running {
            facts,
            progress: progress.clone(),
            sample: Sample {
                at: now,
                moved_bytes: progress.moved_bytes(),
                bytes_per_s: 0.0,
                moved_at: now,
            },
        };
        listed.copies.insert(start.transfer_id.clone(), running);
    }

    /// A copy has ended.
    pub fn end(&self, transfer_id: &str) {
        let mut listed = self.lock();
        if listed.copies.remove(transfer_id).is_none() {
            listed.unlisted = listed.unlisted.saturating_sub(1);
        }
    }

    /// Looks at the counters of all copies.
    pub(crate) fn sample(&self, now: Instant) {
        for running in self.lock().copies.values_mut() {
            running.sample(now);
        }
    }

    /// Calls `look` with each copy.
    pub(crate) fn each(&self, mut look: impl FnMut(CopyNow)) {
        self.lock().copies.values().for_each(|running| look(running.now()));
    }

    /// A copy by its transfer's ID.
    pub(crate) fn find(&self, transfer_id: &str) -> Option<CopyNow> {
        self.lock().copies.get(transfer_id).map(Running::now)
    }

    /// Ends a copy, or says that it is too late for that; `None`: none with this ID runs.
    pub(crate) fn stop(&self, transfer_id: &str) -> Option<bool> {
        Some(self.lock().copies.get(transfer_id)?.progress.stop())
    }

    /// Copies that run and are not listed.
    pub(crate) fn unlisted(&self) -> usize {
        self.lock().unlisted
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A copy that begins.
    pub(crate) fn start(id: &str, path: &str) -> TransferStart {
        TransferStart {
            transfer_id: id.to_owned(),
            request_id: "r".to_owned(),
            mode: "pull",
            path: path.to_owned(),
            remote: "https://far.example/f".to_owned(),
            client: "192.0.2.7:1000".parse().unwrap(),
            ordered_by: telemetry::Client {
                spoken: telemetry::Spoken::Http,
                peer: "192.0.2.7:1000".parse().unwrap(),
                local: None,
                user: String::new(),
                program: String::new(),
                credential: "token",
                subject: "jane".to_owned(),
                issuer: String::new(),
                organisation: String::new(),
            },
            own_scheme: "https",
            credential: "token",
            subject: Some("jane".to_owned()),
            peer_credential: None,
            client_info: None,
            traceparent: String::new(),
            parent_span: None,
            scitag: None,
        }
    }

    fn only(copies: &RunningCopies) -> CopyNow {
        let mut all = Vec::new();
        copies.each(|copy| all.push(copy));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn rate_and_stall_follow_from_samples() {
        let (copies, progress) = (RunningCopies::default(), Arc::new(Progress::new()));
        let begun = Instant::now();
        copies.begin_at(&start("1", "/d/f"), &progress, begun);
        progress.enter(Phase::Transfer);
        progress.set_total(10_000);
        progress.add_moved(2000);
        copies.sample(begun + Duration::from_secs(2));
        let copy = only(&copies);
        assert_eq!(
            (copy.bytes, copy.total_bytes, copy.bytes_per_s),
            (2000, Some(10_000), 1000)
        );
        assert!(!copy.is_stalled());
        copies.sample(begun + Duration::from_secs(3));
        assert_eq!(only(&copies).bytes_per_s, 700);
        copies.sample(begun + Duration::from_secs(2) + STALLED_AFTER);
        assert!(only(&copies).is_stalled());
        progress.enter(Phase::Checksum);
        assert!(!only(&copies).is_stalled(), "a checksum moves nothing");
        progress.enter(Phase::Transfer);
        progress.add_moved(1);
        copies.sample(begun + Duration::from_secs(3) + STALLED_AFTER);
        assert!(!only(&copies).is_stalled());
        copies.end("1");
        copies.each(|_| panic!("it has ended"));
    }

    #[test]
    fn both_directions_have_their_ends() {
        let copies = RunningCopies::default();
        let push = TransferStart {
            mode: "push",
            subject: None,
            ..start("1", "/d/f")
        };
        copies.begin(&push, &Arc::default());
        let facts = only(&copies).facts;
        assert_eq!((facts.from.raw(), facts.to.raw()), ("/d/f", "https://far.example/f"));
        assert_eq!(facts.who.raw(), "192.0.2.7 (token)");
        assert!(facts.has("far.example") && facts.has("push") && !facts.has("jane"));
    }

    #[test]
    fn more_copies_than_are_listed_are_counted() {
        let (copies, progress) = (RunningCopies::default(), Arc::default());
        for number in 0..COPIES_LISTED_MAX + 2 {
            copies.begin(&start(&number.to_string(), "/f"), &progress);
        }
        assert_eq!(copies.unlisted(), 2);
        copies.end(&COPIES_LISTED_MAX.to_string());
        assert_eq!(copies.unlisted(), 1);
        copies.end("0");
        assert_eq!(copies.unlisted(), 1);
    }
}
