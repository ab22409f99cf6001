//! Limits of this crate. The configuration can override some of them; the others are fixed.

use std::time::Duration;

/// Faults of the trust directory that the log names at each reading; further ones are counted.
pub(crate) const LOGGED_FAULTS_MAX: usize = 32;
/// Largest user mapping file and `scitokens.cfg`, in bytes.
pub(crate) const TOKEN_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Directories with unusable names that the log reports; further ones are only counted.
pub(crate) const UNLISTED_DIRECTORIES_MAX: usize = 256;
/// Time after which the log reports the same directory again.
pub(crate) const UNLISTED_AGAIN_TIME: Duration = Duration::from_secs(3600);
/// Entries, over all exports, that `crossload check` examines for unusable names.
pub(crate) const CHECK_ENTRIES_MAX: usize = 200_000;
/// Time limit of that search.
pub(crate) const CHECK_WALK_TIME: Duration = Duration::from_secs(5);
/// Least file descriptors kept from clients: a sixteenth of all, within these bounds. They serve to
/// accept connections, for the admin address, the log, and idle connections to peers.
pub(crate) const DESCRIPTORS_RESERVED_MIN: u64 = 64;
/// Most file descriptors kept from clients; see [`DESCRIPTORS_RESERVED_MIN`].
pub(crate) const DESCRIPTORS_RESERVED_MAX: u64 = 1024;
/// File descriptors of a client's connection with one running request: the socket, and for an
/// upload the new file and its directory.
pub(crate) const DESCRIPTORS_PER_CONNECTION: u64 = 3;
/// File descriptors of each further open file of a session: the file, and for an upload its
/// directory.
pub(crate) const DESCRIPTORS_PER_FILE: u64 = 2;
/// File descriptors of a third-party copy: the file, its directory, and a connection to the peer.
pub(crate) const DESCRIPTORS_PER_TRANSFER: u64 = 3;
/// Most trees that are removed or copied at the same time. Each occupies a thread.
pub(crate) const TREES_MAX: usize = 16;
/// Most memory for bodies of requests that are being received or handled, and for bytes that came
/// before their turn in uploads to other servers, in pieces of
/// [`endpoint::limits::BODY_PIECE_BYTES`]: 256 MiB. A single client can use half of it, which is
/// enough for the largest submission.
pub(crate) const BODIES_MAX: usize = 1024;
/// Connections over the limit that get an answer at the same time; more are closed silently.
pub(crate) const REFUSALS_MAX: usize = 64;
/// Most queued log lines; more are dropped and counted.
pub(crate) const LOG_LINES_QUEUED_MAX: usize = 16 * 1024;
/// Most events that wait for the monitoring; more are dropped and counted.
pub(crate) const EVENTS_QUEUED_MAX: usize = 64 * 1024;
/// Time for which events of the monitoring are gathered, so that not each of them wakes its thread:
/// short enough that the queue above does not fill at a million events per second.
pub(crate) const EVENTS_GATHER_TIME: Duration = Duration::from_millis(25);
/// Interval at which packets that wait for a broker are written through to the disk.
pub(crate) const SPOOL_SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the last packets of the monitoring when the server stops.
pub(crate) const LAST_PACKETS_WAIT: Duration = Duration::from_secs(1);
/// Time between two looks whether a broker has confirmed them.
pub(crate) const LAST_PACKETS_LOOK: Duration = Duration::from_millis(10);
/// Time in which an export must say how much space it has, or it is not in a summary.
pub(crate) const SUMMARY_SPACE_WAIT: Duration = Duration::from_secs(5);
/// Most spans of traces that wait for the collector; more are dropped and counted. About 8 MiB.
pub(crate) const SPANS_QUEUED_MAX: usize = 8 * 1024;
/// Most spans in one request to the collector: about half a megabyte.
pub(crate) const SPANS_PER_EXPORT_MAX: usize = 512;
/// Time for which spans are gathered before they are sent together.
pub(crate) const SPANS_GATHER_TIME: Duration = Duration::from_secs(2);
/// Time limit of one request to the collector (OpenTelemetry's usual one).
pub(crate) const COLLECTOR_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Longest answer of the collector that is read, in bytes.
pub(crate) const COLLECTOR_ANSWER_BYTES_MAX: usize = 64 << 10;
/// How often the same spans are sent to the collector.
pub(crate) const EXPORT_ATTEMPTS: u32 = 5;
/// First pause between two attempts; it doubles.
pub(crate) const EXPORT_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts, whatever the collector says: the queue fills meanwhile.
pub(crate) const EXPORT_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time for the last spans when a process stops.
pub(crate) const LAST_SPANS_WAIT: Duration = Duration::from_secs(2);
/// Time for the last log lines when a process stops: a pipe or the journal may take no more.
pub(crate) const LAST_LINES_WAIT: Duration = Duration::from_secs(2);
/// Most checksums that are being computed or queued at the same time.
pub(crate) const CHECKSUMS_COMPUTED_MAX: usize = 1024;
/// Lines of the log that are kept in memory for questions about a transfer, in bytes. About ten
/// thousand requests.
pub(crate) const RECENT_LINES_BYTES: usize = 4 << 20;
/// Most identifiers that `crossload trace` follows.
pub(crate) const TRACE_IDS_MAX: usize = 64;
/// Longest line of a log that it reads, in bytes; longer ones are cut.
pub(crate) const TRACE_LINE_BYTES_MAX: u64 = 1 << 20;
/// Longest answer of a server that it reads: all lines that a server remembers, and the line about
/// those left out.
pub(crate) const TRACE_PAGE_BYTES_MAX: usize = RECENT_LINES_BYTES + 1024;
/// Most lines in the answer to such a question.
pub(crate) const TRACE_LINES_MAX: usize = 2_000;
/// Time for which log lines are collected before they are written together.
pub(crate) const LOG_GATHER_TIME: Duration = Duration::from_millis(2);
/// Interval at which a server checks its configuration, certificates and authorities for changes.
pub(crate) const FILE_WATCH_PERIOD: Duration = Duration::from_secs(2);
/// First pause before an upstream server that failed is looked at again; it doubles.
pub(crate) const UPSTREAM_TRIAL_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause before an upstream server that failed is looked at again.
pub(crate) const UPSTREAM_TRIAL_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Interval at which the failures of an upstream server are counted, to look at it if there are new
/// ones.
pub(crate) const UPSTREAM_FAILURES_PERIOD: Duration = Duration::from_secs(5);
/// Time limit of one look at an upstream server.
pub(crate) const UPSTREAM_ANSWER_TIME: Duration = Duration::from_secs(10);
/// Time for which existing connections may keep the old configuration after a reload.
pub(crate) const OLD_DOOR_GRACE: Duration = Duration::from_secs(24 * 3600);
/// Most WebDAV locks, over all clients.
pub(crate) const LOCKS_MAX: usize = 16 * 1024;
/// First pause before a file is copied again after a failure; it doubles.
pub(crate) const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause before a file is copied again, whatever its server asks for.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Entries of one directory that a walk of a tree holds in memory; further ones go to a temporary
/// file.
pub(crate) const LISTED_HELD_MAX: usize = 5_000;
/// Entries of a directory at the destination that a walk holds in memory; in longer ones, each file
/// is asked for.
pub(crate) const LISTED_THERE_MAX: usize = 50_000;
/// Longest line of a list of names or checksums, in bytes.
pub(crate) const LIST_LINE_BYTES_MAX: u64 = 64 * 1024;
/// Files that were found in trees and wait to be copied.
pub(crate) const FOUND_QUEUED_MAX: usize = 1024;
/// Deepest directory level that a recursive copy enters. A deeper tree is a loop or an attack.
pub(crate) const TREE_DEPTH_MAX: usize = 512;
/// Entries of a directory that a walk reads before it enters the directory, to see a loop first.
pub(crate) const WALK_LOOKAHEAD_ENTRIES: usize = 8 * 1024;
/// Names of directories that a walk keeps in memory for each directory on its path, in bytes; more
/// lie in a temporary file.
pub(crate) const WALK_WAITING_BYTES_MAX: usize = 256 << 10;
/// Entries of a directory that a sorted walk holds in memory; more lie in temporary files.
pub(crate) const WALK_SORTED_HELD_MAX: usize = 25_000;
/// Longest token that a login keeps, in bytes: servers take no longer headers.
pub(crate) const LOGIN_TOKEN_BYTES_MAX: usize = 16 << 10;
/// Checksums that `crossload sum` asks for at the same time.
pub(crate) const SUMS_AT_ONCE: usize = 8;
/// Bytes per block of a cache: `cache prefetch` reads one byte of each.
pub(crate) const PREFETCH_BLOCK_BYTES: u64 = cache::limits::BLOCK_BYTES;
/// Blocks that `cache prefetch` asks for in one request.
pub(crate) const PREFETCH_BLOCKS_AT_ONCE: usize = 64;
/// How often `cache prefetch` looks whether the last block was stored.
pub(crate) const PREFETCH_LOOKS_MAX: u32 = 20;
/// Pause between two of these looks.
pub(crate) const PREFETCH_PAUSE: Duration = Duration::from_millis(100);
/// How long a server may be silent about a checksum before it is asked whether that is a directory.
pub(crate) const DIRECTORY_ASKED_AFTER: Duration = Duration::from_secs(5);
/// First piece of a file that is read in pieces (`crossload head` and `tail`, beginnings of files
/// that are compared), in bytes.
pub(crate) const PIECE_BYTES_MIN: u64 = 64 << 10;
/// Largest piece of such a file, in bytes.
pub(crate) const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Longest file at a server that is read to find whether it is what an interrupted copy left there,
/// in bytes. It is read from both sides, over this client.
pub(crate) const BEGINNING_BYTES_MAX: u64 = 1 << 30;
/// Interrupts within this time are one: `timeout` sends its signal to a process, and then to its
/// group.
pub(crate) const SAME_INTERRUPT_TIME: Duration = Duration::from_millis(200);
/// Time to remove what an interrupted copy left at a server. XRootD may say for some seconds that
/// it is in use.
pub(crate) const CLEAN_UP_TIME: Duration = Duration::from_secs(6);
/// Pause between the end of standard input and that of its upload.
pub(crate) const INPUT_END_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a local file that `crossload cat` holds.
pub(crate) const CAT_BUFFER_BYTES: usize = 64 << 10;
/// First pause between two looks how far staging is; it grows by half each time.
pub(crate) const STAGE_LOOK_PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause between two looks how far staging is.
pub(crate) const STAGE_LOOK_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Looks in a row that may fail while staging is waited for: about ten minutes.
pub(crate) const STAGE_LOOK_FAILURES_MAX: u32 = 25;
/// Longest list of checks of a server: a redirector has one for each of its 10 000 nodes.
pub(crate) const READY_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest status of a node.
pub(crate) const NODE_ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Links that the metrics of a queue report one by one. Monitoring keeps a series for each state of
/// each.
pub(crate) const QUEUE_LINKS_REPORTED_MAX: usize = 1000;
/// Time for the answer of a queue's database to `/ready`.
pub(crate) const QUEUE_READY_TIME: Duration = Duration::from_secs(3);
/// Longest answer of a queue to our client that is held in memory, in bytes: a page of a list, or
/// 10 000 bans. As values of JSON it takes up to ten times as much.
pub(crate) const QUEUE_ANSWER_BYTES_MAX: usize = 8 << 20;
/// Longest list of a queue that our client holds in memory, all pages together, in bytes.
pub(crate) const QUEUE_ITEMS_BYTES_MAX: usize = 16 << 20;
/// Files of a job that our client reads; as the queue takes.
pub(crate) const QUEUE_FILES_MAX: usize = door_queue::limits::JOB_FILES_MAX;
/// One of them, in bytes: with its metadata and the reason of its failure.
pub(crate) const QUEUE_FILE_BYTES_MAX: usize = 256 << 10;
/// Files that are printed as one table. Columns of the next table may have other widths.
pub(crate) const QUEUE_FILES_TABLE: usize = 1000;
/// Address of a file's log that is printed, in bytes.
pub(crate) const QUEUE_LOG_ADDRESS_BYTES_MAX: usize = 512;
/// Files of the jobs of one command whose names are shown with their events.
pub(crate) const QUEUE_NAMES_MAX: usize = 10_000;
/// Name of a file that is shown with its events, in characters.
pub(crate) const QUEUE_NAME_CHARACTERS_MAX: usize = 200;
/// Time between two counts of a job's files while its changes are shown.
pub(crate) const QUEUE_COUNTS_PAUSE: Duration = Duration::from_secs(10);
/// Longest identifier of an event that a queue is asked to go on after, in bytes.
pub(crate) const QUEUE_EVENT_ID_BYTES_MAX: usize = 64;
/// Most jobs that `crossload queue list` asks for; as FTS allows.
pub(crate) const QUEUE_JOBS_LISTED_MAX: usize = 500;
/// Jobs that one request of our client names; as Rucio.
pub(crate) const QUEUE_JOBS_NAMED: usize = 100;
/// Files of one job that `crossload queue submit --file` makes, unless an option says otherwise.
pub(crate) const QUEUE_FILES_PER_JOB: usize = 1000;
/// Longest list of files that `crossload queue submit` reads, in bytes.
pub(crate) const QUEUE_LIST_BYTES_MAX: u64 = 1 << 30;
/// Attempts to submit one job, if the answer is lost or the queue asks for patience.
pub(crate) const QUEUE_SUBMIT_ATTEMPTS: u32 = 4;
/// First pause between two looks at a job; it grows by half each time.
pub(crate) const QUEUE_LOOK_PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause between two looks at a job.
pub(crate) const QUEUE_LOOK_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Looks at a job in a row that may fail while the queue is waited for: about ten minutes.
pub(crate) const QUEUE_LOOK_FAILURES_MAX: u32 = 25;
/// Pause between two looks at a job from which on the user learns what it waits for.
pub(crate) const QUEUE_WAIT_SAID_AFTER: Duration = Duration::from_secs(2);
/// Jobs of one command whose reasons to wait are asked for.
pub(crate) const QUEUE_WAITS_ASKED_MAX: usize = 10;
/// Files of a job that `crossload queue why` explains to people.
pub(crate) const QUEUE_WHY_FILES: usize = 20;
/// Files that `crossload queue submit --blocking` names because they were not copied.
pub(crate) const QUEUE_FAILED_FILES: usize = 10;
/// Longest event of a queue, in bytes.
pub(crate) const QUEUE_EVENT_BYTES_MAX: usize = 1 << 20;
/// Items of one page of a queue's list.
pub(crate) const QUEUE_PAGE_ITEMS: usize = 1000;
/// Pages of a queue's list that are asked for.
pub(crate) const QUEUE_PAGES_MAX: usize = 1000;
/// Time between two looks for what bans were to do and have not done.
pub(crate) const BAN_FINISH_PERIOD: Duration = Duration::from_secs(20);
/// Age of a ban up to which a worker looks at it again, in milliseconds: another may be at it.
pub(crate) const BAN_FINISH_OVERLAP_MS: i64 = 120_000;
/// How long the token of a login must last when a command begins; it is renewed so long before its
/// end.
pub(crate) const LOGIN_LEFT_MIN: Duration = Duration::from_secs(60);
/// Shortest pause between two renewals of a login while a command runs.
pub(crate) const LOGIN_RENEWAL_PAUSE: Duration = Duration::from_secs(10);
/// Lines of the history of `crossload shell`.
pub(crate) const HISTORY_LINES_MAX: usize = 1000;
/// Entries of a directory in which names are completed.
pub(crate) const COMPLETION_NAMES_MAX: usize = 10_000;
/// Time for listing a directory in which names are completed.
pub(crate) const COMPLETION_TIME: Duration = Duration::from_secs(5);
/// Longest line of a request to `crossload stdio`, in bytes: a vector read of about 25 000 ranges.
pub(crate) const STDIO_LINE_BYTES_MAX: u64 = 1 << 20;
/// Payload of one request to `crossload stdio`, or of one answer, in bytes.
pub(crate) const STDIO_PAYLOAD_BYTES_MAX: u64 = 8 << 20;
/// Requests that `crossload stdio` works on at the same time. With their payload they take up to
/// 256 MiB.
pub(crate) const STDIO_REQUESTS_MAX: usize = 32;
/// Files that a program reads through `crossload stdio` at the same time.
pub(crate) const STDIO_FILES_READ_MAX: usize = 1024;
/// Files that a program writes through `crossload stdio` at the same time.
pub(crate) const STDIO_FILES_WRITTEN_MAX: usize = 256;
/// Bytes that these files hold together until their servers take them.
pub(crate) const STDIO_WRITTEN_BYTES_MAX: usize = 128 << 20;
/// Entries of a directory in one line of `crossload stdio`.
pub(crate) const STDIO_ENTRIES_PER_LINE: usize = 500;
/// Connections to the served page of a run at the same time.
pub(crate) const REPORT_CONNECTIONS_MAX: usize = 64;
/// Longest body of a request for the page of a run: there is none.
pub(crate) const REPORT_BODY_BYTES_MAX: usize = 1024;
/// Longest answer of a webhook that gets the summary of a run, in bytes.
pub(crate) const REPORT_ANSWER_BYTES_MAX: usize = 64 << 10;
/// Time limit of that webhook.
pub(crate) const REPORT_ANSWER_TIME: Duration = Duration::from_secs(30);
/// Largest file with the token of a webhook or the login of a server of SMTP, in bytes.
pub(crate) const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Largest file with authorities that an option names, in bytes.
pub(crate) const AUTHORITIES_BYTES_MAX: u64 = 16 << 20;
/// Newest runs of a history among which the one before a run is looked for.
pub(crate) const EARLIER_RUNS_MAX: u64 = 100;
/// Interval at which a server that is draining reports its state to the service manager.
pub(crate) const DRAIN_STATUS_PERIOD: Duration = Duration::from_secs(1);
/// Time beyond that of the drain in which the service manager does not kill the server.
pub(crate) const STOP_TIMEOUT_MARGIN: Duration = Duration::from_secs(10);
/// Largest file, apart from databases, in a backup.
pub(crate) const BACKUP_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files in a backup.
pub(crate) const BACKUP_FILES_MAX: usize = 100_000;
/// Files that are kept under numbered names when others took their place.
pub(crate) const KEPT_FILES_MAX: usize = 1000;
/// Largest list of what is in a backup.
pub(crate) const BACKUP_LIST_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Time in which a service that was ready before an upgrade must be ready again.
pub(crate) const UPGRADE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long a program may take to say its version, or to check a configuration, in an upgrade.
pub(crate) const UPGRADE_PROGRAM_WAIT: Duration = Duration::from_secs(60);
/// Time between two looks whether such a program has ended.
pub(crate) const UPGRADE_PROGRAM_LOOK_PERIOD: Duration = Duration::from_millis(10);
/// Time between two looks at a service that was restarted.
pub(crate) const UPGRADE_LOOK_PERIOD: Duration = Duration::from_millis(500);
