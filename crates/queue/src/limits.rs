//! Limits of the queue, each beside its reason.

use std::time::Duration;

/// Files that one decision hands out. The next decision follows at once.
pub const GRANTS_MAX: u32 = 256;
/// Decisions in a row while other workers are first. Their claims are noticed then.
pub const TURNS_MAX: u32 = 5;
/// Time between two decisions, so that many changes at once cause one; longer if decisions take
/// longer.
pub const DECISION_PAUSE: Duration = Duration::from_millis(10);
/// The longest such time.
pub const DECISION_PAUSE_MAX: Duration = Duration::from_millis(250);
/// Age of the queues' counters that is good enough for samples and answers.
pub const COUNTERS_AGE: Duration = Duration::from_millis(200);
/// Time without any change after which the catalog is looked at again.
pub const DECISION_PERIOD: Duration = Duration::from_secs(2);
/// Endings of copies that are written in one transaction.
pub const ENDINGS_MAX: usize = 256;
/// Endings that may wait for the catalog. Copies that end then wait with their result.
pub const ENDINGS_QUEUED_MAX: usize = 1024;
/// Time between two signs of life. A cancellation through another worker reaches a copy within it.
pub const RENEWAL_PERIOD: Duration = Duration::from_secs(1);
/// Leases for which a worker is kept alive whose own threads do nothing. After that it is taken for
/// broken rather than busy, and others take its files.
pub const LEASES_WHILE_BUSY_MAX: u32 = 10;
/// Time for one answer of the database about files of this worker; a quarter of the lease, if that
/// is less.
pub const OWN_FILES_TIME: Duration = Duration::from_secs(10);
/// Time after a stop or a restart until files of the ended process are copied again. The storages
/// notice by their next marker that its copies have lost their client.
pub const RESTART_GRACE: Duration = Duration::from_secs(10);
/// Time to remove what a stopped copy left at its destination. Less than [`STOP_TIME`].
pub const STOPPED_CLEANUP_TIME: Duration = Duration::from_secs(5);
/// How often a destination is asked whether it still has what a lost attempt may have left.
pub const LOST_PART_LOOKS_MAX: u16 = 8;
/// Pause after the first such look; it doubles each time, up to [`LOST_PART_PAUSE_MAX`]: 15 minutes
/// together. XRootD keeps the part of a broken upload for ten (`ofs.persist`).
pub const LOST_PART_PAUSE: Duration = Duration::from_secs(10);
/// The longest such pause.
pub const LOST_PART_PAUSE_MAX: Duration = Duration::from_secs(300);
/// Looks at a copy in the window of its least rate.
pub const COPY_RATE_LOOKS: u32 = 20;
/// Time for the last results of a process that stops.
pub const STOP_TIME: Duration = Duration::from_secs(10);
/// Time after which a file that this worker has, but does not copy, is given back. More than
/// [`OWN_FILES_TIME`], because its copy may be about to begin.
pub const ORPHAN_TIME: Duration = Duration::from_secs(20);
/// Time without a step after which another process goes on with the change of a large job.
pub const LONG_CHANGE_SILENCE: Duration = Duration::from_secs(60);
/// Time between two looks for retries that are due, expired files and lost workers.
pub const SWEEP_PERIOD: Duration = Duration::from_secs(1);
/// Jobs that are moved into the history, or forgotten, in one transaction. The next one follows
/// after [`RETIRE_PAUSE`] as long as there are more.
pub const RETIRED_MAX: usize = 500;
/// Time for others between two such transactions.
pub const RETIRE_PAUSE: Duration = Duration::from_millis(50);
/// How long events are kept for those who follow them and were away.
pub const EVENTS_KEPT: Duration = Duration::from_secs(6 * 3600);
/// How long events are kept that a broker has not confirmed: the life of a message in FTS.
pub const UNREAD_EVENTS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long messages show the sites and users' visibility as they were read.
pub const NAMES_KEPT: Duration = Duration::from_secs(5);
/// Pause after the catalog has failed.
pub const CATALOG_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a held link is tried again, when the storage has named none.
pub const HOLD_TIME: Duration = Duration::from_secs(60);
/// The longest time that a link is held at the wish of a storage.
pub const HOLD_TIME_MAX: Duration = Duration::from_secs(3600);
/// Retries of a file, whatever its job asks for. Each failed attempt is a row of the catalog.
pub const RETRIES_MAX: u32 = 100;
/// The longest pause between two attempts.
pub const RETRY_DELAY_MAX: Duration = Duration::from_secs(6 * 3600);
/// A clock that is set back by so much ends the waits of retries and holds, which it would delay by
/// as much.
pub const CLOCK_STEP_MIN: Duration = Duration::from_secs(30);
/// Time in which a copy must end, whatever its size (FTS: 600 s).
pub const COPY_TIME_BASE: Duration = Duration::from_secs(600);
/// Further time for each MiB (FTS: 2 s).
pub const COPY_TIME_PER_MIB: Duration = Duration::from_secs(2);
/// Time without any further byte after which a copy has stalled.
pub const COPY_STALL: Duration = Duration::from_secs(180);
/// Time in which a storage must answer a question about a file.
pub const QUESTION_TIME: Duration = Duration::from_secs(60);
/// Time between two looks of the optimizer at the links.
pub const SAMPLE_PERIOD: Duration = Duration::from_secs(3);
/// Links whose figures are counted for messages.
pub const LINK_FIGURES_MAX: usize = 10_000;
/// Links whose ends of the last hour are counted for pages.
pub const HOUR_LINKS_MAX: usize = 2000;
/// Kinds of failures that are counted separately on such a link, within some minutes.
pub const HOUR_FAILURE_KINDS_MAX: usize = 8;
/// Decisions of the optimizer that are remembered.
pub const DECISIONS_MAX: usize = 200;
/// Files whose tokens are looked at in one sweep.
pub const PREPARED_MAX: usize = 1000;
/// Time between two looks for credentials that no job uses any more.
pub const SECRETS_PERIOD: Duration = Duration::from_secs(10);
/// Credentials that are deleted in one transaction.
pub const SECRETS_DELETED_MAX: usize = 1000;
/// Delegated proxies that a process keeps opened, with their connections.
pub const OPENED_PROXIES_MAX: usize = 1024;
/// Files that one answer explains.
pub const WHY_FILES_MAX: usize = 1000;
/// Files whose position in the queue one answer looks up.
pub const POSITIONS_MAX: usize = 10;
/// Time over which starts of copies are added up for estimates, in milliseconds.
pub const PACE_SPAN_MS: i64 = 60_000;
/// Such spans that are kept.
pub const PACE_SPANS: usize = 10;
/// Flows whose pace is kept.
pub const PACES_MAX: usize = 20_000;
/// Time between two looks for tokens that end soon.
pub const TOKENS_PERIOD: Duration = Duration::from_secs(2);
/// Tokens that are renewed after one look.
pub const TOKENS_RENEWED_MAX: usize = 1000;
/// How long before its end a token of a waiting file is renewed; with a short life, in its last
/// third.
pub const TOKEN_RENEWED_BEFORE: Duration = Duration::from_secs(600);
/// How long a token must still be valid when a copy begins, if it can be renewed first.
pub const TOKEN_LEFT_MIN: Duration = Duration::from_secs(60);
/// Renewals at one issuer at the same time. A user has as many of them as are left for the others:
/// half when alone.
pub const ISSUER_CALLS_MAX: usize = 16;
/// How long other processes leave a grant alone that one is renewing: two questions and answers.
pub const GRANT_LEASE: Duration = Duration::from_secs(60);
/// How long a copy waits for another process that is renewing its token.
pub const BEARER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Time between two looks meanwhile.
pub const BEARER_WAIT_STEP: Duration = Duration::from_millis(500);
/// Users for whom an issuer fails in a row, until it is left alone as a whole.
pub const FAILING_USERS_MAX: usize = 3;
/// How long an issuer is left alone after its first failure; each further one doubles it.
pub const RENEWAL_PAUSE_MIN: Duration = Duration::from_secs(5);
/// The longest such pause.
pub const RENEWAL_PAUSE_MAX: Duration = Duration::from_secs(600);
/// Pages of files that wait for their tokens, in one sweep. The next one goes on behind them.
pub const PREPARED_PAGES_MAX: usize = 4;
/// How long other processes leave a broker to the one that sends. More than
/// [`broker::limits::ANSWER_TIMEOUT`].
pub const BROKER_LEASE: Duration = Duration::from_secs(60);
/// Time between two renewals of it, and between two looks whether it is free.
pub const BROKER_LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// Time between a change and the look for messages: a place is written for each batch at least.
pub const BROKER_GATHERING: Duration = Duration::from_millis(100);
/// Events whose messages a broker gets before it has confirmed the first of them.
pub const BROKER_BATCH_EVENTS_MAX: usize = 200;
/// How long brokers keep a message that is not taken: as FTS.
pub const MESSAGE_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Requests to tape systems that wait for an answer at the same time. A user takes as many as are
/// left for the others: half when alone.
pub const TAPE_CALLS_MAX: usize = 48;
/// Those of them to storages that have not shown that they answer, divided in the same way.
pub const TAPE_TRIALS_MAX: usize = 32;
/// Those to one storage, divided in the same way.
pub const STORAGE_TAPE_CALLS_MAX: usize = 8;
/// How many storages, and users at storages, have the time of their last question remembered.
pub const TAPE_TURNS_MAX: usize = 20_000;
/// Requests that are open at one storage's tape system at the same time. Further files wait, so
/// that no more is brought online than the copies take away.
pub const STORAGE_STAGE_REQUESTS_MAX: usize = 100;
/// Of the requests that may be open, a user has at most this many times what is left for others:
/// three quarters when alone.
pub const STAGE_REQUESTS_PER_FREE: usize = 3;
/// Files that wait for tape and are looked at for one user at a storage at a time.
pub const STAGED_AT_ONCE_MAX: usize = 1000;
/// The same, at a storage that has not shown that it answers: many of them may be asked at once.
pub const TRIED_AT_ONCE_MAX: usize = 100;
/// Time for further files to come, which then go into the same request.
pub const TAPE_TURN_PAUSE: Duration = Duration::from_millis(200);
/// Time without any change after which the catalog is looked at again for tape.
pub const TAPE_TURN_PERIOD: Duration = Duration::from_secs(1);
/// Shortest time between two questions about a request, and before the first.
pub const TAPE_POLL_MIN: Duration = Duration::from_secs(2);
/// Longest time between two questions (FTS: 10 minutes).
pub const TAPE_POLL_MAX: Duration = Duration::from_secs(300);
/// A question comes after this part of the time that the request is old.
pub const TAPE_POLL_PART: u32 = 4;
/// Time that tape may take where the job gives none (FTS: a week).
pub const BRING_ONLINE_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Pause before a tape system is asked again that did not answer, or refused a user for now. Each
/// further failure doubles it, [`TAPE_HOLD_DOUBLINGS_MAX`] times.
pub const TAPE_HOLD_TIME: Duration = Duration::from_secs(30);
/// To eight minutes.
pub const TAPE_HOLD_DOUBLINGS_MAX: u32 = 4;
/// Time in which a storage must say where its tape system is.
pub const TAPE_SEARCH_TIME: Duration = Duration::from_secs(20);
/// Refusals in a row to tell about a request, after which its files fail.
pub const TAPE_REFUSALS_MAX: u32 = 3;
/// Attempts to cancel or release files at a tape system. Their time on disk ends by itself.
pub const TAPE_FAREWELLS_MAX: u32 = 4;
/// How long the place of a storage's tape system is remembered.
pub const TAPE_SYSTEM_KEPT: Duration = Duration::from_secs(3600);
/// Tape systems whose places are remembered.
pub const TAPE_SYSTEMS_MAX: usize = 1000;
/// Events of files that are read at once.
pub const TAPE_EVENTS_MAX: usize = 2000;
/// Files of one user that are followed on their way to tape at one destination at the same time.
pub const ARCHIVED_AT_ONCE_MAX: usize = 50_000;
/// Storages whose capabilities are remembered.
pub const CAPABILITIES_MAX: usize = 2000;
/// Time between two exchanges of capabilities with the catalog.
pub const CAPABILITIES_PERIOD: Duration = Duration::from_secs(10);
/// Time between two files of one user that come back to a destination where the user has no room.
pub const QUOTA_SPACING: Duration = Duration::from_secs(1);
/// Users with such files that are remembered, each on a link; files of others come back together.
pub const QUOTA_HOLDS_MAX: usize = 10_000;
/// Rate limits of storages that are kept at once; those that no copy holds go first.
pub const RATE_LIMITS_MAX: usize = 10_000;
/// Time between two transactions with capabilities that were just learned: a process that is killed
/// loses those of this time. What says the same as before causes none.
pub const CAPABILITIES_STORE_PAUSE: Duration = Duration::from_millis(200);
/// Each exchange also reads what was stored this long before the last one: the clocks of workers
/// differ.
pub const CAPABILITIES_OVERLAP: Duration = Duration::from_secs(60);
/// How long a capability is kept that nothing has shown again.
pub const CAPABILITIES_KEPT: Duration = Duration::from_secs(90 * 86_400);
/// Time between two removals of those that are older.
pub const CAPABILITIES_FORGET_PERIOD: Duration = Duration::from_secs(86_400);
/// Capabilities that the catalog keeps: the latest.
pub const CAPABILITIES_STORED_MAX: usize = 50_000;
/// Capabilities that one exchange reads.
pub const CAPABILITIES_READ_MAX: usize = 20_000;
/// A capability that says the same as before is stored again after this time, for its age.
pub const CAPABILITY_STORED_EVERY: Duration = Duration::from_secs(600);
/// How long a storage is not asked again for what it has refused as such.
pub const CAPABILITY_AGE_MAX: Duration = Duration::from_secs(3600);
/// Time between two looks for settings that have changed.
pub const SETTINGS_PAUSE: Duration = Duration::from_millis(500);
/// Keys of one S3 storage.
pub const S3_KEYS_MAX: usize = 10_000;
/// S3 storages that operators have named.
pub const S3_STORAGES_MAX: usize = 1000;
/// Webhooks of a queue.
pub const WEBHOOKS_MAX: usize = 16;
/// The URL of a webhook, in bytes.
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;
/// Events that are posted together.
pub const WEBHOOK_BATCH_EVENTS_MAX: usize = 100;
/// Time between a change and the look for events, so that those of a moment are posted together.
pub const WEBHOOK_GATHERING: Duration = Duration::from_millis(100);
/// Time for the whole answer of a webhook. Less than [`WEBHOOK_LEASE`].
pub const WEBHOOK_ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest answer of a webhook, in bytes. It is not used.
pub const WEBHOOK_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The first pause after a failed attempt; each further one is twice as long.
pub const WEBHOOK_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause between attempts, also if the receiver asks for a longer one.
pub const WEBHOOK_PAUSE_MAX: Duration = Duration::from_secs(600);
/// A webhook whose attempts all fail for this time is disabled. As long as unread events are kept.
pub const WEBHOOK_FAILING_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long other processes leave a webhook to the one that posts.
pub const WEBHOOK_LEASE: Duration = Duration::from_secs(20);
/// Time between two renewals of it, and between two looks whether it is free.
pub const WEBHOOK_LEASE_RENEWAL: Duration = Duration::from_secs(3);
/// Time between two looks for webhooks that have changed.
pub const WEBHOOK_LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a value of a URL from which on it is hidden in what servers say: shorter ones are
/// numbers and words that also stand elsewhere, and no secrets.
pub const CONCEALED_BYTES_MIN: usize = 8;
/// How often a hop may lose a file on its way before the file goes without it.
pub const HOP_LOSSES_MAX: u8 = 2;
/// Links that the files of one job may have.
pub const JOB_LINKS_MAX: usize = 1000;
/// Links on which files of one virtual organisation may wait or be copied at once. One of its users
/// may have as many as are left for the others: half when alone.
pub const VO_LINKS_MAX: usize = 10_000;
/// Links that a user may have in any case, as long as the organisation has any left.
pub const USER_LINKS_MIN: usize = 100;
/// Queues (of a link, an activity, a user and a priority) with files of one virtual organisation:
/// each is read and weighed in every decision, which takes 0.1 s with so many.
pub const VO_QUEUES_MAX: usize = 30_000;
/// Activities of one virtual organisation with files at once, those with a share of their own not
/// counted. FTS's users have some thirty; further ones count as one.
pub const VO_ACTIVITIES_MAX: usize = 100;
/// Files of one virtual organisation that wait at a hop for one destination, before further ones
/// stay at their source.
pub const HOP_LINK_FILES_MAX: u64 = 1000;
/// Time that a file stays at its source after its way on from the hop may be open again: files that
/// are at the hop go first.
pub const HOP_WAIT: Duration = Duration::from_secs(15);
/// Files at hops that are removed at the same time.
pub const HOP_REMOVALS_MAX: usize = 32;
/// Pause between two looks for files at hops that are to be removed.
pub const HOP_PERIOD: Duration = Duration::from_secs(1);
/// Pause before the removal of a file at a hop is tried again; it doubles each time, up to
/// [`HOP_PAUSE_MAX`]. A removal takes less time.
pub const HOP_PAUSE: Duration = Duration::from_secs(120);
/// The longest such pause.
pub const HOP_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Attempts to remove a file at a hop: a day and a half. Then it stays.
pub const HOP_REMOVALS_TRIED_MAX: u32 = 40;

/// Kinds of failures that are counted by name, of each outcome; the error table has fewer.
pub const FAILURE_KINDS_MAX: usize = 256;

/// Bytes that are written to find out whether the database takes a job again.
pub const PROBE_BYTES: usize = 1 << 20;
