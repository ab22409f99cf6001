//! What the pages for operators show of the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Audit, FileRecord, JobSummary};
use config::Configuration;
use door_queue::queue::{Filter, Queue as _, Scope};
use door_web::queue_facts::{
    Attempt, Contender, FailureCount, File, FileCounts, FileStory, Held, Job, JobFilter, LastHour, Link, LinkHour,
    Listed, Queue, QueueFuture, QueueNow, Why, Worker,
};
use door_web::{Access, KeptRuns, Manual, Words};
use endpoint::clock;
use http_server::Server;
use queue::{LinkKey, LinkView, Service};
use schedule::{FileId, FileState, JobId, JobKind, Reason};
use tokio::sync::Mutex;
use types::{Phase, Result, Side};

use super::Parts;
use super::desk::Desk;
use super::state::host_name;
use super::why::way_words;
use crate::failure::Failure;
use crate::output;
use crate::server::assemble::PRODUCT;
use crate::server::events::{AdminLog, Observer};
use crate::server::pages;

/// Why files of a job that an operator cancels are not copied.
const CANCELED: &str = "Job canceled by an operator";

/// Links are looked at anew after this time, however many pages are open: what keeps them takes a
/// whole decision of the scheduler.
const NOW_AGE_MAX: Duration = Duration::from_secs(1);

/// The same for the last hour, and who is at fault.
const HOUR_AGE_MAX: Duration = Duration::from_secs(5);

/// The queue, for its pages.
struct Shown {
    service: Service,
    desk: Arc<Desk>,
    /// What was found last.
    kept: Mutex<Option<(Instant, QueueNow)>>,
    /// The same of the last hour.
    kept_hour: Mutex<Option<(Instant, Arc<LastHour>)>>,
}

/// Opens the port of the pages, if there is one.
///
/// # Errors
/// The address cannot be used.
pub(super) fn open(
    configuration: &Configuration,
    parts: &Parts,
    observer: &Arc<Observer>,
    service: Service,
    desk: Arc<Desk>,
) -> Result<(), Failure> {
    let Some(address) = configuration.web.queue_listen else {
        return Ok(());
    };
    let listener = parts.sockets.listen(address)?;
    let address = listener.local_addr();
    let address = address.map_err(|cause| Failure::system("listening", &cause))?;
    let server = Server {
        tls: parts.certificate.tls.get(),
        authenticator: parts.ground.authenticator.clone(),
        ..Server::new(PRODUCT, Arc::new(AdminLog(observer.clone())))
    };
    let (viewers, operators) = (parts.followed.viewers.clone(), parts.followed.operators.clone());
    let history = configuration.web.history.clone();
    let shown = Shown {
        service,
        desk,
        kept: Mutex::default(),
        kept_hour: Mutex::default(),
    };
    let access = Access::new(
        address,
        parts.ground.authenticator.clone(),
        Box::new(move || viewers.get()),
        Box::new(move || operators.get()),
        observer.clone(),
    );
    let pages = door_web::Pages {
        server: configuration.server.name.clone().unwrap_or_else(host_name),
        program: PRODUCT.to_owned(),
        access: pages::with_issuer(access, configuration, &parts.ground)?,
        cluster: None,
        runs: Some(KeptRuns::new(move || history.clone())),
        manual: Manual::at(configuration.web.manual_directory()),
        endpoint: None,
        queue: Some(Arc::new(shown)),
    };
    pages::serve(listener, server, pages)?;
    output::line(&format!("pages on {}://{address}", parts.scheme()));
    Ok(())
}

impl Shown {
    async fn look(&self) -> Result<QueueNow> {
        // Those who come meanwhile wait for the same look.
        let mut kept = self.kept.lock().await;
        if let Some((_, now)) = kept.as_ref().filter(|(at, _)| at.elapsed() < NOW_AGE_MAX) {
            return Ok(now.clone());
        }
        let mut reasons = self.service.link_reasons().await?;
        let links = self.service.links().await?;
        let workers = self.desk.workers().await?.into_iter();
        let now = QueueNow {
            copies: self.service.copies(),
            copies_maximum: self.service.copies_maximum(),
            links: links.into_iter().map(|view| link(view, &mut reasons)).collect(),
            workers: workers
                .map(|worker| Worker {
                    name: worker.name.into(),
                    seen_ms: worker.seen_ms,
                    active: worker.active,
                    is_draining: worker.is_draining,
                    is_lost: worker.is_lost,
                })
                .collect(),
        };
        *kept = Some((Instant::now(), now.clone()));
        Ok(now)
    }

    async fn hour(&self) -> Result<Arc<LastHour>> {
        let mut kept = self.kept_hour.lock().await;
        if let Some((_, hour)) = kept.as_ref().filter(|(at, _)| at.elapsed() < HOUR_AGE_MAX) {
            return Ok(hour.clone());
        }
        let hour = hour(self.service.last_hour());
        // Who is at fault takes a search, which must not keep the threads that serve.
        let judged = execution::blocking_try(Side::Queue, Phase::Open, move || {
            let faults = door_web::faults(&hour.links);
            Ok(LastHour { faults, ..hour })
        });
        let hour = Arc::new(judged.await?);
        *kept = Some((Instant::now(), hour.clone()));
        Ok(hour)
    }

    async fn story(&self, id: FileId) -> Result<Option<FileStory>> {
        let Some(record) = self.desk.file(id).await? else {
            return Ok(None);
        };
        let attempts = self.desk.attempts(id).await?.into_iter();
        let attempts = attempts.map(|attempt| Attempt {
            number: attempt.number,
            failed_ms: attempt.failed_ms,
            reason: attempt.reason.into(),
            code: attempt.code.into(),
            worker: attempt.worker.map(Words::from),
        });
        let log = self.desk.log(id).await?.unwrap_or_default();
        Ok(Some(FileStory {
            file: file(record),
            why: self.service.why_file(id).await?.map(why),
            attempts: attempts.collect(),
            log: log.lines().map(Words::from).collect(),
        }))
    }
}

impl Queue for Shown {
    fn now(&self) -> QueueFuture<'_, QueueNow> {
        Box::pin(self.look())
    }

    fn last_hour(&self) -> QueueFuture<'_, Arc<LastHour>> {
        Box::pin(self.hour())
    }

    fn jobs(&self, filter: JobFilter) -> QueueFuture<'_, Listed<Job>> {
        let wanted = Filter {
            scope: Scope::All,
            user: filter.user,
            vo: filter.vo,
            source_storage: filter.source,
            destination_storage: filter.destination,
            destination: None,
            ended_since_ms: None,
            limit: filter.limit,
        };
        Box::pin(async move {
            let page = self.desk.page_jobs(filter.states, wanted, filter.before).await?;
            Ok(Listed {
                items: page.items.into_iter().map(job).collect(),
                next: page.next,
            })
        })
    }

    fn job(&self, id: JobId) -> QueueFuture<'_, Option<Job>> {
        Box::pin(async move { Ok(self.desk.summary(id).await?.map(job)) })
    }

    fn files(&self, job: JobId, after: Option<i64>, limit: usize) -> QueueFuture<'_, Listed<File>> {
        Box::pin(async move {
            let page = self.desk.page_files(job, after, limit).await?;
            Ok(Listed {
                items: page.items.into_iter().map(file).collect(),
                next: page.next,
            })
        })
    }

    fn file(&self, id: FileId) -> QueueFuture<'_, Option<FileStory>> {
        Box::pin(self.story(id))
    }

    fn cancel(&self, job: JobId) -> QueueFuture<'_, ()> {
        self.desk.cancel(job, None, CANCELED.to_owned())
    }

    fn drain(&self, worker: String, drains: bool, who: String) -> QueueFuture<'_, bool> {
        let entry = Audit {
            at_ms: clock::now_s().saturating_mul(1000),
            actor: who,
            action: "drain".to_owned(),
            detail: format!("Worker {worker}: drain {drains}"),
        };
        Box::pin(async move {
            let is_known = self.desk.drain(worker, drains, entry).await?;
            // The next page shows it.
            *self.kept.lock().await = None;
            Ok(is_known)
        })
    }
}

fn link(view: LinkView, reasons: &mut BTreeMap<LinkKey, Vec<Reason>>) -> Link {
    let limit = view.decided_limit();
    let key = [view.source, view.destination, view.vo];
    // What keeps a link as a whole is said of it already.
    let is_kept = view.is_paused || view.hold.is_some();
    let reasons = reasons.remove(&key).filter(|_| !is_kept).unwrap_or_default();
    let [source, destination, vo] = key.map(Words::from);
    Link {
        source,
        destination,
        vo,
        active: view.active,
        waiting: view.waiting,
        oldest_ms: view.oldest_ms,
        delayed: view.delayed,
        banned: view.banned,
        limit,
        rationale: view.rationale.map(Words::from),
        bytes_per_s: view.goodput_bytes_s as u64,
        is_paused: view.is_paused,
        held: view.hold.map(|hold| Held {
            until_ms: hold.until_ms,
            detail: hold.detail.into(),
        }),
        reasons: texts(&reasons),
    }
}

fn hour(hour: queue::LastHour) -> LastHour {
    let failure = |problem: queue::CountedProblem| FailureCount {
        code: problem.code.into(),
        side: problem.side.into(),
        phase: problem.phase.into(),
        count: problem.count,
    };
    let link = |link: queue::LinkHour| LinkHour {
        source: link.source.into(),
        destination: link.destination.into(),
        copied: link.copied,
        failed: link.failed,
        bytes: link.bytes,
        failures: link.failures.into_iter().map(failure).collect(),
    };
    LastHour {
        from_ms: hour.from_ms,
        to_ms: hour.to_ms,
        links: hour.links.into_iter().map(link).collect(),
        unlisted: hour.unlisted,
        faults: Vec::new(),
    }
}

fn texts(reasons: &[Reason]) -> Vec<Words> {
    reasons.iter().map(|reason| reason.to_string().into()).collect()
}

fn job(summary: JobSummary) -> Job {
    let (job, tally) = (summary.record, summary.tally);
    Job {
        job_id: job.id,
        state: job.state,
        kind: match job.kind {
            JobKind::Normal => "independent files",
            JobKind::MultiSource => "replicas of one file",
            JobKind::Multihop => "hops of a chain",
            JobKind::SessionReuse => "a session",
        },
        user: job.owner.user.into(),
        vo: job.owner.vo.into(),
        priority: job.priority,
        submitted_ms: job.submitted_ms,
        ended_ms: job.finished_ms,
        expires_ms: job.expires_ms,
        reason: job.reason.map(Words::from),
        source: job.source_storage.map(Words::from),
        destination: job.destination_storage.map(Words::from),
        files: FileCounts {
            total: job.files,
            staging: tally.staging,
            waiting: tally.waiting,
            unused: tally.unused,
            active: tally.running,
            archiving: tally.archiving,
            finished: tally.finished,
            failed: tally.failed,
            canceled: tally.canceled,
        },
    }
}

fn file(record: FileRecord) -> File {
    // What failed before the copy succeeded is among the failed tries.
    let problem = record.problem.filter(|_| record.state != FileState::Finished);
    let (reason, code) = problem.map(|problem| (problem.reason, problem.code)).unzip();
    File {
        file_id: record.id,
        job_id: record.job,
        state: record.state,
        source: record.source.into(),
        destination: record.destination.into(),
        hop: record.hop.map(|hop| hop.incoming.url.into()),
        size_bytes: record.size_bytes.or(record.given_size_bytes),
        moved_bytes: record.moved_bytes,
        failed_attempts: record.attempts,
        started_ms: record.times.started_ms,
        ended_ms: record.times.finished_ms,
        retry_ms: record.times.retry_ms,
        reason: reason.map(Words::from),
        code: code.map(Words::from),
        way: record.way.map(|way| way_words(&way).into()),
        worker: record.worker.map(Words::from),
        activity: record.activity.into(),
        checksum: record.options.checksum.map(Words::from),
    }
}

fn why(why: queue::Why) -> Why {
    let contenders = why.contenders.into_iter().map(|one| Contender {
        source: one.source.into(),
        destination: one.destination.into(),
        vo: one.vo.into(),
        activity: one.activity.into(),
        active: one.active,
        waiting: one.waiting,
    });
    Why {
        reasons: texts(&why.reasons),
        ahead: why.ahead,
        contenders: contenders.collect(),
        start_ms: why.estimate.as_ref().map(|estimate| estimate.start_ms),
        end_ms: why.estimate.and_then(|estimate| estimate.end_ms),
        credential_expires_ms: why.credential_expires_ms,
    }
}
