//! The pages of a job and of a file.

use std::time::Duration;

use askama::Template;
use serde::Serialize;

use types::binary_size;

use crate::actions::cancel_job_place;
use crate::figures::{age, moment_ms, passed, rate};
use crate::queue_facts::{Attempt, File, FileStory, Job, Listed, Why};
use crate::queue_page::files;
use crate::queue_words::{Shown, of_file, of_job};
use crate::shell::Shell;
use crate::words::Words;

#[derive(Template)]
#[template(path = "job.html")]
pub(crate) struct JobPage<'a> {
    shell: Shell,
    job: &'a Job,
    state: Shown,
    counts: String,
    submitted: String,
    ended: Option<String>,
    /// Where an operator cancels it.
    cancel: Option<String>,
    expires: Option<String>,
    files: Vec<FileRow<'a>>,
    /// `after` of the next page of files.
    next: Option<i64>,
    /// Whether files come before those that are shown.
    is_later: bool,
}

/// A job for programs.
#[derive(Serialize)]
pub(crate) struct JobDocument<'a> {
    #[serde(flatten)]
    pub(crate) job: &'a Job,
    pub(crate) list: &'a [File],
    /// `after` of the next page of files.
    pub(crate) next: Option<i64>,
}

struct FileRow<'a> {
    file: &'a File,
    state: Shown,
    moved: String,
    retry: Option<String>,
}

impl<'a> JobPage<'a> {
    pub(crate) fn new(shell: Shell, job: &'a Job, list: &'a Listed<File>, after: Option<i64>) -> Self {
        let can_cancel = shell.is_operator && !job.state.is_terminal();
        Self {
            shell,
            cancel: can_cancel.then(|| cancel_job_place(job.job_id)),
            state: of_job(job.state),
            counts: files(job),
            submitted: moment_ms(job.submitted_ms),
            ended: job.ended_ms.map(moment_ms),
            expires: job.expires_ms.filter(|_| job.ended_ms.is_none()).map(moment_ms),
            files: list.items.iter().map(FileRow::new).collect(),
            next: list.next,
            is_later: after.is_some(),
            job,
        }
    }
}

impl<'a> FileRow<'a> {
    fn new(file: &'a File) -> Self {
        Self {
            file,
            state: of_file(file.state),
            moved: moved(file),
            retry: retry(file),
        }
    }
}

/// How much of a file is copied.
fn moved(file: &File) -> String {
    match (file.moved_bytes, file.size_bytes) {
        (moved, Some(total)) if moved == total => binary_size(total),
        (0, Some(total)) => format!("0 of {}", binary_size(total)),
        (moved, Some(total)) => format!("{} of {}", binary_size(moved), binary_size(total)),
        (0, None) => String::new(),
        (moved, None) => binary_size(moved),
    }
}

/// When a file that has not ended is tried again.
fn retry(file: &File) -> Option<String> {
    file.retry_ms.filter(|_| !file.state.is_terminal()).map(moment_ms)
}

#[derive(Template)]
#[template(path = "file.html")]
pub(crate) struct FilePage<'a> {
    shell: Shell,
    file: &'a File,
    state: Shown,
    moved: String,
    rate: Option<String>,
    started: Option<String>,
    ended: Option<String>,
    retry: Option<String>,
    why: Option<WhyWords<'a>>,
    attempts: Vec<AttemptRow<'a>>,
    log: &'a [Words],
}

/// Why a file is where it is, for people.
struct WhyWords<'a> {
    why: &'a Why,
    start: Option<String>,
    end: Option<String>,
    credential: Option<String>,
}

struct AttemptRow<'a> {
    attempt: &'a Attempt,
    failed: String,
}

impl<'a> FilePage<'a> {
    /// The page at a moment, in milliseconds since 1970.
    pub(crate) fn new(shell: Shell, story: &'a FileStory, now_ms: i64) -> Self {
        let file = &story.file;
        let row = |attempt: &'a Attempt| AttemptRow {
            attempt,
            failed: moment_ms(attempt.failed_ms),
        };
        Self {
            shell,
            state: of_file(file.state),
            moved: moved(file),
            rate: mean_rate(file, now_ms),
            started: file.started_ms.map(moment_ms),
            ended: file.ended_ms.map(moment_ms),
            retry: retry(file),
            why: story.why.as_ref().map(|why| WhyWords::new(why, now_ms)),
            attempts: story.attempts.iter().map(row).collect(),
            log: &story.log,
            file,
        }
    }
}

impl<'a> WhyWords<'a> {
    fn new(why: &'a Why, now_ms: i64) -> Self {
        let credential = why.credential_expires_ms.map(|end_ms| match end_ms > now_ms {
            true => format!("expires in {}", passed(now_ms, end_ms)),
            false => format!("expired {} ago", passed(end_ms, now_ms)),
        });
        Self {
            start: why.start_ms.map(moment_ms),
            end: why.end_ms.map(moment_ms),
            credential,
            why,
        }
    }
}

/// Bytes per second since the copy began, and for how long.
fn mean_rate(file: &File, now_ms: i64) -> Option<String> {
    let took_ms = file.ended_ms.unwrap_or(now_ms).checked_sub(file.started_ms?)?;
    let took_ms = u64::try_from(took_ms).ok().filter(|took| *took > 0)?;
    let per_s = u128::from(file.moved_bytes) * 1000 / u128::from(took_ms);
    let per_s = u64::try_from(per_s).ok().filter(|rate| *rate > 0)?;
    Some(format!("{} over {}", rate(per_s), age(Duration::from_millis(took_ms))))
}

#[cfg(test)]
mod tests {
    use schedule::{FileId, FileState, JobId};

    use super::*;

    /// A file that is being copied.
    fn file() -> File {
        File {
            file_id: FileId(7),
            job_id: JobId([1; 16]),
            state: FileState::Active,
            source: "https://a/f".into(),
            destination: "https://b/f".into(),
            hop: None,
            size_bytes: Some(4096),
            moved_bytes: 1024,
            failed_attempts: 0,
            started_ms: Some(1000),
            ended_ms: None,
            retry_ms: None,
            reason: None,
            code: None,
            way: None,
            worker: None,
            activity: "default".into(),
            checksum: None,
        }
    }

    #[test]
    fn figures_of_a_copy_follow_from_its_times() {
        assert_eq!(moved(&file()), "1.0 KiB of 4.0 KiB");
        assert_eq!(mean_rate(&file(), 3000).as_deref(), Some("512 B/s over 2 s"));
        assert_eq!(mean_rate(&file(), 1000), None);
        assert_eq!(mean_rate(&file(), 0), None, "a clock that went back");
        let waiting = File {
            started_ms: None,
            moved_bytes: 0,
            state: FileState::Submitted,
            retry_ms: Some(5000),
            ..file()
        };
        assert_eq!(
            (moved(&waiting).as_str(), mean_rate(&waiting, 3000)),
            ("0 of 4.0 KiB", None)
        );
        assert!(retry(&waiting).is_some_and(|at| at.contains("00:00:05")));
        let ended = File {
            state: FileState::Failed,
            ..waiting
        };
        assert_eq!(retry(&ended), None);
    }
}
