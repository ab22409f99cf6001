//! Random sequences of operations: counters equal a recount, and job states those of their files.

use std::collections::BTreeMap;

use catalog::{
    Advance, Catalog, CopyFacts, Ending, FileFilter, FileRecord, Grant, JobFilter, NewJob, Outcome, QueueKey,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use schedule::{FileEvent, FileId, FileState, JobId, JobKind, JobTally};

use crate::place::{A, B, C, NOW, Place, file, job, problem};

/// One step. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        kind: JobKind,
        files: u32,
        storage: usize,
        expires: bool,
    },
    Claim {
        worker: u8,
        count: u32,
    },
    Start {
        file: usize,
    },
    End {
        file: usize,
        worker: u8,
        how: u8,
    },
    CancelJob {
        job: usize,
    },
    CancelFile {
        file: usize,
    },
    CancelStorage {
        storage: usize,
    },
    Hold {
        storage: usize,
    },
    Release {
        storage: usize,
    },
    Priority {
        job: usize,
        priority: u8,
    },
    Stage {
        file: usize,
        is_done: bool,
    },
    Later {
        milliseconds: i64,
    },
    Renew {
        worker: u8,
    },
    Retire,
}

fn step() -> impl Strategy<Value = Step> {
    let kinds = prop::sample::select(JobKind::ALL.to_vec());
    prop_oneof![
        4 => (kinds, 1..5_u32, 0..3_usize, any::<bool>())
            .prop_map(|(kind, files, storage, expires)| Step::Submit { kind, files, storage, expires }),
        4 => (0..2_u8, 1..4_u32).prop_map(|(worker, count)| Step::Claim { worker, count }),
        3 => any::<usize>().prop_map(|file| Step::Start { file }),
        8 => (any::<usize>(), 0..2_u8, 0..6_u8).prop_map(|(file, worker, how)| Step::End { file, worker, how }),
        1 => any::<usize>().prop_map(|job| Step::CancelJob { job }),
        1 => any::<usize>().prop_map(|file| Step::CancelFile { file }),
        1 => (0..3_usize).prop_map(|storage| Step::CancelStorage { storage }),
        1 => (0..3_usize).prop_map(|storage| Step::Hold { storage }),
        2 => (0..3_usize).prop_map(|storage| Step::Release { storage }),
        1 => (any::<usize>(), 1..=5_u8).prop_map(|(job, priority)| Step::Priority { job, priority }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(file, is_done)| Step::Stage { file, is_done }),
        2 => (0..80_i64).prop_map(|milliseconds| Step::Later { milliseconds }),
        1 => (0..2_u8).prop_map(|worker| Step::Renew { worker }),
        1 => Just(Step::Retire),
    ]
}

const STORAGES: [&str; 3] = [A, B, C];

struct World<'c> {
    catalog: &'c Catalog,
    now_ms: i64,
    jobs: Vec<JobId>,
    files: Vec<FileId>,
}

impl World<'_> {
    fn file(&self, number: usize) -> FileId {
        let count = self.files.len().max(1);
        self.files.get(number % count).copied().unwrap_or(FileId(1))
    }

    fn job(&self, number: usize) -> JobId {
        let count = self.jobs.len().max(1);
        self.jobs.get(number % count).copied().unwrap_or(JobId([0xff; 16]))
    }

    async fn submit(&mut self, kind: JobKind, files: u32, storage: usize, expires: bool) {
        let is_chosen = matches!(kind, JobKind::MultiSource | JobKind::Multihop);
        let new_file = |place: u32| {
            let state = match place {
                1.. if is_chosen => FileState::NotUsed,
                _ if (place as usize + storage).is_multiple_of(4) => FileState::Staging,
                _ => FileState::Submitted,
            };
            let mut file = file(if kind == JobKind::MultiSource { 0 } else { place }, state);
            file.source_storage = STORAGES[storage].to_owned();
            file
        };
        let mut new = NewJob {
            files: (0..files).map(new_file).collect(),
            ..job(self.jobs.len() as u8 + 1, kind)
        };
        new.submitted_ms = self.now_ms;
        new.expires_ms = expires.then_some(self.now_ms + 50);
        self.jobs.push(new.id);
        self.files.extend(self.catalog.submit(new).await.unwrap());
    }

    async fn claim(&self, worker: u8, count: u32) {
        let queues = self.catalog.queues().await.unwrap();
        let grants: Vec<Grant> = queues
            .into_iter()
            .map(|queue| Grant {
                queue: queue.key,
                priority: queue.priority,
                count,
            })
            .collect();
        let lease_ms = self.now_ms + 60;
        let worker = format!("w{worker}");
        self.catalog
            .claim(&grants, &worker, self.now_ms, lease_ms)
            .await
            .unwrap();
    }

    async fn end(&self, file: FileId, worker: u8, how: u8) {
        let outcome = match how {
            0 | 1 => Outcome::Finished {
                size_bytes: 5,
                way: None,
            },
            2 => Outcome::Archiving {
                size_bytes: 5,
                way: None,
            },
            3 => Outcome::Held {
                until_ms: self.now_ms + 30,
                problem: problem(),
            },
            _ => Outcome::Failed {
                problem: problem(),
                retry_ms: (how == 4).then_some(self.now_ms + 20),
                report: None,
            },
        };
        let ending = Ending {
            file,
            moved_bytes: 5,
            outcome,
            facts: CopyFacts::default(),
        };
        self.catalog
            .end(&format!("w{worker}"), vec![ending], self.now_ms)
            .await
            .unwrap();
    }

    async fn pass_time(&mut self, milliseconds: i64) {
        self.now_ms += milliseconds;
        let due = self.catalog.due(self.now_ms, i64::MAX).await.unwrap();
        let silent = due
            .leases
            .into_iter()
            .filter(|lease| lease.lease_ms < self.now_ms)
            .collect();
        let lost = self.catalog.lose_workers(silent, self.now_ms).await.unwrap();
        let lost = lost.files.into_iter().map(|lost| Advance {
            worker: Some(lost.worker),
            ..Advance::new(lost.file, FileEvent::WorkerLost)
        });
        let given_up = FileEvent::Failed {
            is_recoverable: true,
            has_attempts: true,
            is_expired: true,
        };
        let expired = due.expired.into_iter().map(|expired| Advance {
            problem: Some(problem()),
            ..Advance::new(expired.file, given_up)
        });
        let events = lost.chain(expired).collect();
        self.catalog.advance(events, self.now_ms).await.unwrap();
    }

    async fn play(&mut self, step: Step) {
        let (catalog, now_ms) = (self.catalog, self.now_ms);
        match step {
            Step::Submit {
                kind,
                files,
                storage,
                expires,
            } => self.submit(kind, files, storage, expires).await,
            Step::Claim { worker, count } => self.claim(worker, count).await,
            Step::Start { file } => drop(catalog.start(&[self.file(file)], "w0", now_ms).await.unwrap()),
            Step::End { file, worker, how } => self.end(self.file(file), worker, how).await,
            Step::CancelJob { job } => drop(catalog.cancel_jobs(&[self.job(job)], "user", now_ms).await.unwrap()),
            Step::CancelFile { file } => {
                let file = catalog.file(self.file(file)).await.unwrap();
                if let Some(file) = file {
                    catalog
                        .cancel_files(file.job, &[file.id], "user", now_ms)
                        .await
                        .unwrap();
                }
            }
            Step::CancelStorage { storage } => {
                catalog
                    .cancel_storage(STORAGES[storage], None, "ban", now_ms)
                    .await
                    .unwrap();
            }
            Step::Hold { storage } => drop(catalog.hold(STORAGES[storage], None, now_ms).await.unwrap()),
            Step::Release { storage } => drop(catalog.release(STORAGES[storage], None, now_ms).await.unwrap()),
            Step::Priority { job, priority } => {
                catalog.set_priority(self.job(job), priority, now_ms).await.unwrap();
            }
            Step::Stage { file, is_done } => {
                let event = match is_done {
                    true => FileEvent::Staged { is_last_step: false },
                    false => FileEvent::StagingAsked,
                };
                catalog
                    .advance(vec![Advance::new(self.file(file), event)], now_ms)
                    .await
                    .unwrap();
            }
            Step::Later { milliseconds } => self.pass_time(milliseconds).await,
            Step::Renew { worker } => {
                catalog
                    .renew(&format!("w{worker}"), &[], now_ms, now_ms + 60)
                    .await
                    .unwrap();
            }
            Step::Retire => drop(catalog.retire(now_ms, 2).await.unwrap()),
        }
    }

    /// Compares what is kept with what is there.
    async fn check(&self) {
        let all = FileFilter {
            limit: 10_000,
            ..FileFilter::default()
        };
        let files = self.catalog.list_files(&all).await.unwrap();
        assert_eq!(files.len(), self.files.len());
        assert_eq!(kept(self.catalog).await, recounted(&files));
        let all = JobFilter {
            limit: 10_000,
            ..JobFilter::default()
        };
        let jobs = self.catalog.list_jobs(&all).await.unwrap();
        assert_eq!(jobs.len(), self.jobs.len());
        for job in jobs {
            let own = files.iter().filter(|file| file.job == job.id);
            let tally = JobTally::of(own.map(|file| file.state));
            assert_eq!(job.state, tally.state(job.kind), "{job:?}");
            assert_eq!(job.state.is_terminal(), job.finished_ms.is_some());
        }
    }
}

/// Waiting, delayed, held and active files by queue and priority.
type Counts = BTreeMap<(QueueKey, u8), [u64; 4]>;

async fn kept(catalog: &Catalog) -> Counts {
    let queues = catalog.queues().await.unwrap();
    let counts = |queue: catalog::QueueCount| {
        let numbers = [queue.waiting, queue.delayed, queue.held, queue.active];
        ((queue.key, queue.priority), numbers)
    };
    queues.into_iter().map(counts).collect()
}

fn recounted(files: &[FileRecord]) -> Counts {
    let mut counts = Counts::new();
    for file in files {
        let place = match file.state {
            FileState::Submitted if file.times.retry_ms.is_none() => 0,
            FileState::Submitted => 1,
            FileState::OnHold => 2,
            FileState::Ready | FileState::Active => 3,
            _ => continue,
        };
        let key = QueueKey {
            source: file.source_storage.clone(),
            destination: file.destination_storage.clone(),
            vo: file.vo.clone(),
            activity: file.activity.clone(),
            user: file.user.clone(),
        };
        counts.entry((key, file.priority)).or_default()[place] += 1;
    }
    counts
}

async fn play_all(place: &Place, steps: Vec<Step>) {
    let mut world = World {
        catalog: &place.catalog,
        now_ms: NOW,
        jobs: Vec::new(),
        files: Vec::new(),
    };
    for step in steps {
        world.play(step).await;
        world.check().await;
    }
}

/// Plays random sequences, each on a database of its own.
pub(crate) fn play_random(runtime: &tokio::runtime::Runtime, cases: u32, fresh: impl AsyncFn() -> Place) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = prop::collection::vec(step(), 1..40);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(async { play_all(&fresh().await, steps).await });
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn counters_and_job_states_follow_their_files_sqlite() {
    let runtime = execution::single_thread_runtime().unwrap();
    play_random(&runtime, 12, Place::sqlite);
}
