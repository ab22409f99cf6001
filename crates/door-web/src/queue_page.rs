//! The page *Queue*: links with their limits and what keeps them, workers, and jobs.

use std::cmp::Reverse;

use askama::Template;
use serde::Serialize;

use crate::actions::drain_worker_place;
use crate::figures::{moment_ms, passed, rate};
use crate::limits::LINKS_SHOWN_MAX;
use crate::queue_facts::{Job, Link, Listed, QueueNow, Worker};
use crate::queue_view::QueueView;
use crate::queue_words::{STATE_CHOICES, Shown, StateChoice, of_job, of_link};
use crate::shell::Shell;
use crate::words::Words;

#[derive(Template)]
#[template(path = "queue.html")]
pub(crate) struct QueuePage<'a> {
    shell: Shell,
    view: &'a QueueView,
    states: &'static [StateChoice],
    now: &'a QueueNow,
    at: String,
    sums: Sums,
    links: Vec<LinkRow<'a>>,
    more_links: usize,
    workers: Vec<WorkerRow<'a>>,
    jobs: Vec<JobRow<'a>>,
    /// The query of older jobs.
    older: Option<String>,
}

/// The page for programs.
#[derive(Serialize)]
pub(crate) struct QueueDocument<'a> {
    #[serde(flatten)]
    pub(crate) now: &'a QueueNow,
    pub(crate) jobs: &'a [Job],
    /// `before` of the next page of jobs.
    pub(crate) next: Option<i64>,
}

/// Files of all links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    active: u64,
    waiting: u64,
    delayed: u64,
    banned: u64,
}

struct LinkRow<'a> {
    link: &'a Link,
    state: Shown,
    /// Copies that run, of those that may.
    copies: String,
    /// For how long the first file has waited.
    oldest: String,
    rate: String,
    why: Vec<String>,
}

struct WorkerRow<'a> {
    worker: &'a Worker,
    seen: String,
    /// Where an operator drains it, or uses it again.
    drain: String,
}

struct JobRow<'a> {
    job: &'a Job,
    state: Shown,
    files: String,
    submitted: String,
    ended: String,
}

impl<'a> QueuePage<'a> {
    /// The page at a moment, in milliseconds since 1970.
    pub(crate) fn new(
        shell: Shell,
        view: &'a QueueView,
        now: &'a QueueNow,
        jobs: &'a Listed<Job>,
        now_ms: i64,
    ) -> Self {
        let mut sorted: Vec<&Link> = now.links.iter().collect();
        sorted.sort_by_key(|link| {
            let link: &'a Link = link;
            let stands_still = link.is_paused || link.held.is_some();
            let name = (&link.source, &link.destination, &link.vo);
            (!stands_still, Reverse(link.waiting), name)
        });
        let shown = sorted.iter().take(LINKS_SHOWN_MAX);
        let links: Vec<_> = shown.map(|link| LinkRow::new(link, now_ms)).collect();
        let worker = |worker: &'a Worker| WorkerRow {
            worker,
            seen: passed(worker.seen_ms, now_ms),
            drain: drain_worker_place(&worker.name, !worker.is_draining),
        };
        Self {
            shell,
            view,
            states: &STATE_CHOICES,
            now,
            at: moment_ms(now_ms),
            sums: Sums::of(&now.links),
            more_links: sorted.len() - links.len(),
            links,
            workers: now.workers.iter().map(worker).collect(),
            jobs: jobs.items.iter().map(JobRow::new).collect(),
            older: jobs.next.map(|before| view.next(before)),
        }
    }
}

impl Sums {
    fn of(links: &[Link]) -> Self {
        links.iter().fold(Self::default(), |sums, link| Self {
            active: sums.active.saturating_add(link.active),
            waiting: sums.waiting.saturating_add(link.waiting),
            delayed: sums.delayed.saturating_add(link.delayed),
            banned: sums.banned.saturating_add(link.banned),
        })
    }
}

impl<'a> LinkRow<'a> {
    fn new(link: &'a Link, now_ms: i64) -> Self {
        Self {
            link,
            state: of_link(link),
            copies: match link.limit {
                Some(limit) => format!("{} of {limit}", link.active),
                None => link.active.to_string(),
            },
            oldest: link.oldest_ms.map(|since| passed(since, now_ms)).unwrap_or_default(),
            rate: match link.bytes_per_s {
                0 => String::new(),
                moved => rate(moved),
            },
            why: why(link),
        }
    }
}

/// What keeps the files of a link, in sentences.
fn why(link: &Link) -> Vec<String> {
    let paused = link.is_paused.then(|| "operators have paused it".to_owned());
    let held = link.held.as_ref();
    let held = held.map(|held| format!("until {}: {}", moment_ms(held.until_ms), held.detail));
    let banned = match link.banned {
        0 => None,
        1 => Some("a ban holds 1 file".to_owned()),
        files => Some(format!("a ban holds {files} files")),
    };
    // What the queue says is cleaned of control characters here; templates escape the rest.
    let reasons = link.reasons.iter().map(Words::to_string);
    let all: Vec<String> = paused.into_iter().chain(held).chain(reasons).chain(banned).collect();
    match all.is_empty() && link.delayed > 0 && link.active == 0 {
        true => vec!["all of its files wait for a retry, or for a storage".to_owned()],
        false => all,
    }
}

impl<'a> JobRow<'a> {
    fn new(job: &'a Job) -> Self {
        Self {
            job,
            state: of_job(job.state),
            files: files(job),
            submitted: moment_ms(job.submitted_ms),
            ended: job.ended_ms.map(moment_ms).unwrap_or_default(),
        }
    }
}

/// How far the files of a job are.
pub(crate) fn files(job: &Job) -> String {
    let counts = &job.files;
    let mut words = format!("{} of {} finished", counts.finished, counts.total);
    for (count, what) in [
        (counts.failed, "failed"),
        (counts.canceled, "canceled"),
        (counts.active, "being copied"),
        (counts.waiting, "waiting"),
        (counts.staging, "waiting for tape"),
        (counts.archiving, "being archived"),
        (counts.unused, "not used"),
    ] {
        if count > 0 {
            words.push_str(&format!(", {count} {what}"));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_facts::Held;

    #[test]
    fn a_link_says_all_that_keeps_it() {
        let link = Link {
            is_paused: true,
            held: Some(Held {
                until_ms: 1000,
                detail: "no\nspace".into(),
            }),
            reasons: vec!["limit 3 of the link is reached".into()],
            banned: 2,
            ..Link::default()
        };
        assert_eq!(
            why(&link),
            [
                "operators have paused it",
                "until 1970-01-01 00:00:01 UTC: no\\x0aspace",
                "limit 3 of the link is reached",
                "a ban holds 2 files"
            ]
        );
        let delayed = Link {
            delayed: 1,
            ..Link::default()
        };
        assert_eq!(why(&delayed).len(), 1);
        assert!(why(&Link::default()).is_empty());
    }
}
