//! Limits of reports.

use std::time::Duration;

/// Largest file with a run that is read, in bytes.
pub const RUN_BYTES_MAX: u64 = 256 << 20;
/// Faults that are listed on a terminal.
pub const FAULTS_SHOWN: usize = 20;
/// Kinds of failures that the terminal shows; a page shows all.
pub const GROUPS_SHOWN: usize = 35;
/// Partners and ways to copy that are named for one kind of failure.
pub const MEMBERS_SHOWN: usize = 6;
/// Protocols and modes that the terminal shows one by one even if everything passed.
pub const PLANES_SHOWN: usize = 1;
/// Characters of a sentence or of a server's words that the terminal shows.
pub const WORDS_SHOWN: usize = 160;
/// Cells with metrics of their own: a mesh of 50 endpoints in four ways.
pub const METRIC_LINKS_MAX: usize = 10_000;
/// Cells of one kind of failure that a page names.
pub const PAGE_MEMBERS_SHOWN: usize = 60;
/// Bytes of links on a page after which their failures are not spelled out, but lead to their
/// group.
pub const FAILURE_TEXT_BYTES_MAX: usize = 1_000_000;
/// Kinds of failures that a page shows of one link with many copies.
pub const COUNTED_FAILURES_SHOWN: usize = 10;
/// Problems of one endpoint that a mail spells out.
pub const MAIL_PROBLEMS_MAX: usize = 10;
/// Characters of the subject of a mail.
pub const SUBJECT_CHARACTERS_MAX: usize = 150;
/// Limit on each wait for a server of SMTP.
pub const MAIL_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest file with a login.
pub const LOGIN_BYTES_MAX: usize = 4096;
/// Problems in the summary for a webhook.
pub const SUMMARY_GROUPS_MAX: usize = 500;
/// Runs that a page shows of each link.
pub const TREND_RUNS_MAX: u64 = 24;
