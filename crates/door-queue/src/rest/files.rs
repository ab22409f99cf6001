//! Answers that show the files of jobs.
//!
//! A job can have a hundred thousand files, and a request names many jobs. So their files are read
//! and written part by part, as fast as the client takes them.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use catalog::FileRecord;
use futures_util::stream;
use schedule::JobId;
use serde_json::Value;
use types::Result;

use crate::fts::answers;
use crate::limits::{ANSWER_PART_BYTES, FILES_OF_A_JOB_AT_ONCE, JOBS_WITH_FILES_AT_ONCE, PAGE_MAX};
use crate::respond::JSON;
use crate::settings::Settings;

/// What comes next in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// All files of a job, with commas between them.
    Files(JobId),
    /// Those behind the file with this number.
    Rest(JobId, i64),
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct Answer {
    parts: VecDeque<Part>,
}

impl Answer {
    /// Adds text in JSON.
    pub(super) fn text(&mut self, text: &str) {
        match self.parts.back_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push_back(Part::Text(text.to_owned())),
        }
    }

    /// Adds a list of the job's files.
    pub(super) fn files(&mut self, job: JobId) {
        self.text("[");
        self.parts.push_back(Part::Files(job));
        self.text("]");
    }

    /// Adds an object that has the job's files as one more member.
    pub(super) fn with_files(&mut self, job: &Value, id: JobId) {
        let text = job.to_string();
        self.text(text.trim_end_matches('}'));
        self.text(",\"files\":");
        self.files(id);
        self.text("}");
    }

    /// The answer, with these members of the files, or all. If the database fails behind its
    /// beginning, it breaks off.
    pub(super) fn send(self, settings: Arc<Settings>, status: StatusCode, members: Option<Vec<String>>) -> Response {
        let writer = Writer {
            settings,
            members,
            parts: self.parts,
            read: HashMap::new(),
        };
        let body = stream::try_unfold(writer, async |mut writer| {
            let text = writer.next().await?;
            Ok::<_, types::Error>((!text.is_empty()).then_some((text, writer)))
        });
        (status, [(header::CONTENT_TYPE, JSON)], Body::from_stream(body)).into_response()
    }
}

struct Writer {
    settings: Arc<Settings>,
    members: Option<Vec<String>>,
    parts: VecDeque<Part>,
    /// First files of the next jobs.
    read: HashMap<JobId, Vec<FileRecord>>,
}

impl Writer {
    /// The next piece of the answer; empty at its end.
    async fn next(&mut self) -> Result<String> {
        let mut text = String::new();
        while text.len() < ANSWER_PART_BYTES
            && let Some(part) = self.parts.pop_front()
        {
            match part {
                Part::Text(more) => text.push_str(&more),
                Part::Files(job) => {
                    let files = self.first_of(job).await?;
                    self.write(&files, &mut text);
                    if files.len() == FILES_OF_A_JOB_AT_ONCE
                        && let Some(last) = files.last()
                    {
                        self.parts.push_front(Part::Rest(job, last.id.0));
                    }
                }
                Part::Rest(job, after) => {
                    let page = self.settings.queue.page_files(job, Some(after), PAGE_MAX).await?;
                    if !page.items.is_empty() {
                        text.push(',');
                        self.write(&page.items, &mut text);
                    }
                    if let Some(next) = page.next {
                        self.parts.push_front(Part::Rest(job, next));
                    }
                }
            }
        }
        Ok(text)
    }

    /// The first files of a job. Those of the next jobs are read with them.
    async fn first_of(&mut self, job: JobId) -> Result<Vec<FileRecord>> {
        if !self.read.contains_key(&job) {
            let next = self.parts.iter().filter_map(|part| match part {
                Part::Files(job) => Some(*job),
                _ => None,
            });
            let jobs = std::iter::once(job).chain(next).take(JOBS_WITH_FILES_AT_ONCE);
            let files = self.settings.queue.files(jobs.collect(), FILES_OF_A_JOB_AT_ONCE);
            for file in files.await? {
                self.read.entry(file.job).or_default().push(file);
            }
        }
        Ok(self.read.remove(&job).unwrap_or_default())
    }

    fn write(&self, files: &[FileRecord], text: &mut String) {
        for (index, file) in files.iter().enumerate() {
            let all = answers::file(file, &self.settings.shown);
            let shown = match &self.members {
                Some(members) => answers::selected(all, members),
                None => all,
            };
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{}", Value::Object(shown));
        }
    }
}
