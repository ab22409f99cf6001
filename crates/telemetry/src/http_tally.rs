//! How requests over HTTP ended, by method and status. Counting takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use monitoring_wire::HttpCounts;

/// The methods that XRootD counts, and its word for heads that are no request. Others are the last.
const METHODS: [&str; 11] = [
    "DELETE", "HEAD", "GET", "MKCOL", "MOVE", "OPTIONS", "PROPFIND", "PUT", "COPY", MALFORMED, "UNKNOWN",
];
const MALFORMED: &str = "Malformed";
/// The statuses that XRootD counts. Others are the last.
const STATUSES: [(u32, &str); 20] = [
    (100, "100"),
    (200, "200"),
    (201, "201"),
    (206, "206"),
    (207, "207"),
    (302, "302"),
    (307, "307"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (409, "409"),
    (416, "416"),
    (423, "423"),
    (500, "500"),
    (502, "502"),
    (504, "504"),
    (507, "507"),
    (0, "UNKNOWN"),
];

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEnding {
    /// It was answered.
    Success,
    /// Its connection broke.
    Disconnected,
    /// It failed.
    Failed,
}

impl HttpEnding {
    /// The ending of a request that was answered with this status.
    #[must_use]
    pub fn of_status(status: u32) -> Self {
        match status {
            ..400 => Self::Success,
            400.. => Self::Failed,
        }
    }
}

#[derive(Debug, Default)]
struct Cell {
    count: AtomicU64,
    network_errors: AtomicU64,
    server_errors: AtomicU64,
    duration_us: AtomicU64,
}

/// All counts since the server started.
#[derive(Debug, Default)]
pub(crate) struct HttpTally([[Cell; STATUSES.len()]; METHODS.len()]);

impl HttpTally {
    /// Counts a request; `status` is `None` if none was sent.
    pub(crate) fn count(&self, method: &str, status: Option<u32>, ending: HttpEnding, duration: Duration) {
        let method = if method == "-" { MALFORMED } else { method };
        let row = METHODS.iter().position(|known| *known == method);
        let column = STATUSES.iter().position(|(known, _)| Some(*known) == status);
        let cell = &self.0[row.unwrap_or(METHODS.len() - 1)][column.unwrap_or(STATUSES.len() - 1)];
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        cell.duration_us.fetch_add(duration_us, Ordering::Relaxed);
        match ending {
            HttpEnding::Success => {}
            HttpEnding::Disconnected => {
                cell.network_errors.fetch_add(1, Ordering::Relaxed);
            }
            HttpEnding::Failed => {
                cell.server_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        cell.count.fetch_add(1, Ordering::Relaxed);
    }

    /// What has happened at all.
    pub(crate) fn counts(&self) -> Vec<HttpCounts> {
        let rows = METHODS.iter().zip(&self.0);
        let cells = rows.flat_map(|(method, row)| {
            let cells = STATUSES.iter().zip(row);
            cells.map(move |((_, status), cell)| HttpCounts {
                method,
                status,
                count: cell.count.load(Ordering::Relaxed),
                network_errors: cell.network_errors.load(Ordering::Relaxed),
                server_errors: cell.server_errors.load(Ordering::Relaxed),
                duration: Duration::from_micros(cell.duration_us.load(Ordering::Relaxed)),
            })
        });
        cells.filter(|counts| counts.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_method_status_and_ending() {
        let tally = HttpTally::default();
        let second = Duration::from_secs(1);
        tally.count("GET", Some(200), HttpEnding::Success, second);
        tally.count("GET", Some(200), HttpEnding::Disconnected, second);
        tally.count("GET", Some(404), HttpEnding::Failed, second);
        tally.count("-", Some(400), HttpEnding::Failed, second);
        tally.count("BREW", None, HttpEnding::Disconnected, second);
        let counts = tally.counts();
        let found: Vec<_> = counts
            .iter()
            .map(|one| (one.method, one.status, one.count, one.network_errors, one.server_errors))
            .collect();
        let expected = [
            ("GET", "200", 2, 1, 0),
            ("GET", "404", 1, 0, 1),
            ("Malformed", "400", 1, 0, 1),
            ("UNKNOWN", "UNKNOWN", 1, 1, 0),
        ];
        assert_eq!(found, expected);
        assert_eq!(counts[0].duration, 2 * second);
    }
}
