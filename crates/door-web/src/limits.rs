//! Limits of this crate. They are fixed: no configuration key overrides them.

use std::time::Duration;

/// Connections to the pages; each open page holds one for its events.
pub const WEB_CONNECTIONS_MAX: usize = 256;
/// Body of a request, in bytes: a form with a token.
pub const WEB_BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the identifier of a session: it cannot be guessed.
pub const SESSION_IDENTIFIER_BYTES: usize = 32;
/// A session ends after this time, if its token does not end before.
pub const SESSION_TIME_MAX: Duration = Duration::from_secs(12 * 3600);
/// Sessions of a door.
pub const SESSIONS_MAX: usize = 1024;
/// Sessions of one client.
pub const SESSIONS_OF_CLIENT_MAX: usize = 16;
/// A session that began at an issuer ends after this time: what the issuer has withdrawn since then
/// counts no longer. The life of the ID token says how long that may be shown, not this.
pub const ISSUER_SESSION_TIME: Duration = Duration::from_secs(4 * 3600);
/// Time in which a person signs in at the issuer.
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(600);
/// Sign-ins at the issuer that have come back to a door, and are remembered so that none counts
/// twice.
pub const USED_ATTEMPTS_MAX: usize = 1024;
/// Bytes of the cookie of a sign-in: browsers keep 4096 with its name and rules.
pub const ATTEMPT_COOKIE_BYTES_MAX: usize = 3800;
/// Sign-ins of one browser: all their cookies are in each request.
pub const ATTEMPTS_OF_BROWSER_MAX: usize = 5;
/// Characters of an issuer's words that a refusal repeats.
pub const ISSUER_WORDS_SHOWN_MAX: usize = 200;
/// The place to which a browser goes after signing in, in bytes.
pub const BACK_BYTES_MAX: usize = 2048;
/// A page that follows copies is admitted anew after this time: one whose session has ended sees
/// nothing more.
pub const ADMISSION_INTERVAL: Duration = Duration::from_secs(5);
/// What a browser may keep of style sheet and script. A new version shows itself after this time.
pub const ASSET_AGE_MAX: Duration = Duration::from_secs(60);
/// A file of the manual, in bytes: three times its largest page.
pub const MANUAL_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Characters of the path of a page of the manual.
pub const MANUAL_PATH_CHARACTERS_MAX: usize = 200;
/// For how long a browser comes back by TLS only (RFC 6797).
pub const TRANSPORT_SECURITY_AGE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Certificates and revocation lists on the page; those that end first come first.
pub const CERTIFICATES_SHOWN_MAX: usize = 200;
/// Running copies that the page *Now* follows: more than a server can run.
pub const COPIES_LISTED_MAX: usize = 20_000;
/// Links of a queue on its page.
pub const LINKS_SHOWN_MAX: usize = 200;
/// Storages in each direction of the matrix of links; those with most copies are shown.
pub const MATRIX_STORAGES_MAX: usize = 24;
/// Links of a queue whose failures are listed.
pub const FAILING_LINKS_SHOWN_MAX: usize = 50;
/// Faults of links that a page lists.
pub const FAULTS_SHOWN_MAX: usize = 20;
/// Nodes of a cluster on its page; those with trouble come first.
pub const NODES_SHOWN_MAX: usize = 500;
/// Characters of a path that a form asks about.
pub const PATH_CHARACTERS_MAX: usize = 4096;
/// Runs of each instrument that a page lists.
pub const RUNS_LISTED_MAX: u64 = 20;
/// Endpoints whose standing a page shows; those with problems come first.
pub const STANDINGS_SHOWN_MAX: usize = 300;
/// A history is read anew after this time, however many pages are open.
pub const RUNS_AGE_MAX: Duration = Duration::from_secs(10);
/// How long a page waits for another process that locks a history.
pub const HISTORY_WAIT: Duration = Duration::from_secs(2);
/// Jobs of a queue on its page; the next page has older ones.
pub const JOBS_SHOWN_MAX: usize = 100;
/// Files of a job on its page.
pub const FILES_SHOWN_MAX: usize = 200;
/// Characters of a name that a refusal repeats.
pub const NAME_SHOWN_CHARACTERS_MAX: usize = 64;
/// Rows that a page shows; a filter finds the others.
pub const ROWS_SHOWN_MAX: usize = 500;
/// Characters of a filter.
pub const FILTER_CHARACTERS_MAX: usize = 200;
/// Different filters and orders that open pages follow.
pub const VIEWS_OPEN_MAX: usize = 64;
/// Open pages get what has changed after this time.
pub const TICK_INTERVAL: Duration = Duration::from_millis(500);
/// A copy is stalled when it has moved no byte for this long.
pub const STALLED_AFTER: Duration = Duration::from_secs(10);
/// Without news, a page gets a comment after this time, so that no proxy cuts it off.
pub const EVENTS_HEARTBEAT: Duration = Duration::from_secs(15);
/// After this time a page comes back for events.
pub const EVENTS_TIME_MAX: Duration = Duration::from_secs(600);
