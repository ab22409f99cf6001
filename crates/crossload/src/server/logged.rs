//! Which requests are logged now. The configuration changes it while the server runs.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{PoisonError, RwLock};

use config::{LogFilter, LoggedRequests};
use endpoint::RequestRecord;
use types::LogicalPath;

/// What [`RequestFilter::level`] is made of.
const NONE: u8 = 0;
const FAILED: u8 = 1;
const ALL: u8 = 2;
/// Added if there are filters.
const FOLLOWS: u8 = 4;

/// Decides which requests are logged.
pub(super) struct RequestFilter {
    /// One number decides about most requests, without a lock.
    level: AtomicU8,
    follow: RwLock<Vec<LogFilter>>,
}

impl RequestFilter {
    pub(super) fn new(wanted: &config::Log) -> Self {
        let filter = Self {
            level: AtomicU8::new(NONE),
            follow: RwLock::default(),
        };
        filter.set(wanted);
        filter
    }

    /// Sets what is logged from now on.
    pub(super) fn set(&self, wanted: &config::Log) {
        let level = match wanted.requests {
            LoggedRequests::None => NONE,
            LoggedRequests::Failed => FAILED,
            LoggedRequests::All => ALL,
        };
        let follows = if wanted.follow.is_empty() { NONE } else { FOLLOWS };
        let mut follow = self.follow.write().unwrap_or_else(PoisonError::into_inner);
        follow.clone_from(&wanted.follow);
        self.level.store(level | follows, Ordering::Relaxed);
    }

    /// Whether a request is logged. A quiet one is only if it failed, or a filter picks it.
    pub(super) fn takes(&self, record: &RequestRecord, is_quiet: bool) -> bool {
        let (level, has_failed) = (self.level.load(Ordering::Relaxed), record.error.is_some());
        let by_level = match level & !FOLLOWS {
            ALL => has_failed || !is_quiet,
            FAILED => has_failed,
            _ => false,
        };
        by_level || (level & FOLLOWS != 0 && self.follows(record))
    }

    fn follows(&self, record: &RequestRecord) -> bool {
        let follow = self.follow.read().unwrap_or_else(PoisonError::into_inner);
        follow.iter().any(|filter| picks(filter, record))
    }

    /// What is logged, for comparisons.
    #[cfg(test)]
    pub(super) fn wanted(&self) -> String {
        format!("{:?} {:?}", self.level, self.follow)
    }
}

fn picks(filter: &LogFilter, record: &RequestRecord) -> bool {
    match filter {
        LogFilter::Subject(name) => record.subject.as_ref() == Some(name),
        LogFilter::Vo(name) => record.vo.as_ref() == Some(name),
        LogFilter::Address(range) => range.contains(record.peer.ip()),
        LogFilter::Path(top) => is_within(&record.path, top),
        LogFilter::Transfer(id) => {
            record.transfer_id.as_ref() == Some(id) || has_trace(record, id) || names_job(&record.path, id)
        }
    }
}

/// Whether a path is another one or below it; it need not be one of files.
fn is_within(path: &str, top: &LogicalPath) -> bool {
    let below = path.strip_prefix(top.as_str().trim_end_matches('/'));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the request is part of a trace. A queue's job is one, written with hyphens.
fn has_trace(record: &RequestRecord, id: &str) -> bool {
    let trace = record
        .traceparent
        .as_deref()
        .and_then(|parent| parent.split('-').nth(1));
    let digits = id.bytes().filter(|byte| *byte != b'-');
    trace.is_some_and(|trace| trace.bytes().eq(digits))
}

/// Whether the request asks a queue about a job.
fn names_job(path: &str, id: &str) -> bool {
    let behind = path.split_once("/jobs/").map(|(_, behind)| behind);
    behind.is_some_and(|behind| behind.split('/').next() == Some(id))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Configuration;
    use endpoint::{ErrorFacts, Protocol};
    use types::{Error, ErrorCode, Phase, Side};

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const JOB: &str = "0af76519-16cd-43dd-8448-eb211c80319c";

    fn log(lines: &str) -> config::Log {
        let text = format!("[log]\n{lines}\n");
        Configuration::parse(&text, Path::new("/"), "test").unwrap().log
    }

    fn record(change: impl FnOnce(&mut RequestRecord)) -> RequestRecord {
        let mut record = RequestRecord::new(Protocol::Http, "[::ffff:192.0.2.7]:1".parse().unwrap(), "clear");
        change(&mut record);
        record
    }

    fn failed() -> RequestRecord {
        let error = Error::new(ErrorCode::NotFound, Side::Client, Phase::Open);
        record(|record| record.error = Some(ErrorFacts::from(&error)))
    }

    #[test]
    fn all_failed_or_no_requests_are_logged() {
        let (good, bad) = (record(|_| {}), failed());
        for (lines, logged) in [
            ("", [true, true, false, true]),
            ("requests = \"failed\"", [false, true, false, true]),
            ("requests = false", [false; 4]),
        ] {
            let filter = RequestFilter::new(&log(lines));
            let found = [
                filter.takes(&good, false),
                filter.takes(&bad, false),
                filter.takes(&good, true),
                filter.takes(&bad, true),
            ];
            assert_eq!(found, logged, "{lines}");
        }
    }

    #[test]
    fn what_is_followed_is_logged_in_any_case() {
        let path = |path: &str| record(|record| path.clone_into(&mut record.path));
        let traced = |id: &str| record(|record| record.traceparent = Some(format!("00-{id}-b7ad6b7169203331-01")));
        let (by_trace, by_job) = (format!("transfer:{TRACE}"), format!("transfer:{JOB}"));
        let of_job = format!("/jobs/{JOB}/files");
        let cases: [(&str, RequestRecord, bool); 21] = [
            (
                "subject:jane",
                record(|record| record.subject = Some("jane".to_owned())),
                true,
            ),
            (
                "subject:jane",
                record(|record| record.subject = Some("jane2".to_owned())),
                false,
            ),
            (
                "subject:jane",
                record(|record| record.user = Some("jane".to_owned())),
                false,
            ),
            ("vo:atlas", record(|record| record.vo = Some("atlas".to_owned())), true),
            ("vo:atlas", record(|record| record.vo = Some("cms".to_owned())), false),
            ("address:192.0.2.0/24", record(|_| {}), true),
            ("address:198.51.100.1", record(|_| {}), false),
            ("path:/data/a", path("/data/a"), true),
            ("path:/data/a/", path("/data/a/b"), true),
            ("path:/data/a", path("/data/ab"), false),
            ("path:/data/a", path("/data"), false),
            ("path:/data/a", path("-"), false),
            ("path:/", path("/data/a"), true),
            ("path:/", path(""), true),
            (
                "transfer:abcdef012345",
                record(|record| record.transfer_id = Some("abcdef012345".to_owned())),
                true,
            ),
            (
                "transfer:abcdef012345",
                record(|record| record.transfer_id = Some("abcdef0123456".to_owned())),
                false,
            ),
            (by_trace.as_str(), traced(TRACE), true),
            (by_job.as_str(), traced(TRACE), true),
            (by_job.as_str(), traced(&TRACE.replace('c', "d")), false),
            (by_job.as_str(), path(&of_job), true),
            (by_job.as_str(), path("/jobs"), false),
        ];
        for (filter, record, is_picked) in cases {
            for requests in ["false", "\"failed\""] {
                let lines = format!("requests = {requests}\nfollow = [\"vo:none\", \"{filter}\"]");
                let filter_now = RequestFilter::new(&log(&lines));
                for is_quiet in [false, true] {
                    assert_eq!(filter_now.takes(&record, is_quiet), is_picked, "{filter}: {record:?}");
                }
            }
        }
    }

    #[test]
    fn it_changes_while_requests_come() {
        let jane = record(|record| record.subject = Some("jane".to_owned()));
        let filter = RequestFilter::new(&log("requests = false"));
        assert!(!filter.takes(&jane, false));
        filter.set(&log("requests = false\nfollow = [\"subject:jane\"]"));
        assert!(filter.takes(&jane, true) && !filter.takes(&failed(), false));
        filter.set(&log("requests = \"failed\""));
        assert!(!filter.takes(&jane, false) && filter.takes(&failed(), false));
    }
}
