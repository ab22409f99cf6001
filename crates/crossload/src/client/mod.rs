//! The client's commands, for files on servers and on this machine.

mod account;
mod attributes;
mod bar;
pub(crate) mod bench;
mod cleanup;
mod compare_files;
mod compare_trees;
mod copy;
mod credentials;
mod drawing;
mod each;
mod ends;
pub(crate) mod explain;
mod find;
mod gfal_columns;
mod healthy;
mod info;
mod last_asked;
mod listing;
mod live_token;
mod login;
mod macaroon;
pub(crate) mod mesh;
mod metadata;
mod named;
mod names;
mod node;
mod piece_reader;
mod place;
mod prefetch;
pub(crate) mod proxy;
mod queue;
mod remove;
mod report;
mod scheme;
pub(crate) mod session;
pub(crate) mod shell;
mod show;
mod signals;
pub(crate) mod smoke;
mod space;
mod stdio;
mod sums;
mod tape;
mod top;
mod totals;
mod trace;
mod traced;
mod tree;
mod usage;
mod walk;
mod why;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use types::ErrorCode;

use self::signals::end_asked;
use crate::command_line::{CacheAction, CatOptions, Command, Common, EndOptions, TokenAction};
use crate::failure::{Advice, Failure};
use crate::file_size::survive_file_size_limit;
use crate::limits::SAME_INTERRUPT_TIME;
use crate::output;
use last_asked::LastAsked;
use session::ClientContext;

/// Exit code of an interrupted command, as gfal's tools have it (EINTR).
const INTERRUPTED: u8 = 4;
/// Exit code at the end of `--timeout` (ETIMEDOUT).
const TIMED_OUT: u8 = 110;
/// Exit code when the program that reads standard output has ended: 128 plus the number of SIGPIPE.
const UNREAD: u8 = 141;

/// Runs one of the client's commands and returns its exit code.
///
/// # Errors
/// The failure of the command.
pub(crate) fn run(command: Command) -> Result<u8, Failure> {
    if let Some(common) = common_of(&command) {
        output::choose_colour(common.display.colour());
    }
    let command = in_our_options(command)?;
    let Some(common) = common_of(&command) else {
        return Err(Failure::invalid("not a command of the client"));
    };
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let result = runtime.block_on(async {
        let no_signals = |cause: std::io::Error| Failure::system("cannot receive signals", &cause);
        survive_file_size_limit().map_err(no_signals)?;
        end_at_second_interrupt(INTERRUPTED).map_err(no_signals)?;
        let session = Arc::new(ClientContext::open(&common)?);
        carry_out(&session, command, common.timeout).await
    });
    // A blocked read of standard input cannot be cancelled. It must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

/// The command with options of other programs translated, and the notices about them printed.
///
/// # Errors
/// An option that is refused.
fn in_our_options(command: Command) -> Result<Command, Failure> {
    let command = match command {
        Command::Copy(options) => {
            let (options, notices) = options.translated()?;
            notices.iter().for_each(|words| output::complain(words));
            Command::Copy(Box::new(options))
        }
        Command::Cat(CatOptions { ref common, .. })
        | Command::Head(EndOptions { ref common, .. })
        | Command::Tail(EndOptions { ref common, .. })
            if common.json =>
        {
            let name = command.name();
            return Err(Failure::invalid(format!(
                "--json: {name} prints what is in the files; leave it out, or use crossload stdio"
            )));
        }
        other => other,
    };
    let notices = common_of(&command).map(|common| common.gfal.notices());
    notices.iter().flatten().for_each(|words| output::complain(words));
    Ok(command)
}

/// Runs a command to its end, until Ctrl-C or for `timeout`.
///
/// # Errors
/// The failure of the command.
async fn carry_out(session: &Arc<ClientContext>, command: Command, timeout: Option<Duration>) -> Result<u8, Failure> {
    let (left, is_output_all) = (Unfinished::of(&command), is_output_all(&command));
    // Its requests have the limit, each for itself.
    let is_limited_each = matches!(command, Command::Stdio(_));
    // An issuer gets none of the credentials for storages.
    let shows_credentials = !matches!(command, Command::Login(_) | Command::Logout(_));
    let command = with_defaults(session, command)?;
    session.set_traces(traced::start(session, &command)?);
    let url = service_url(&command).map(|text| session.url(text)).transpose()?;
    if let Some(text) = service_url(&command) {
        session.use_remote(text).await?;
    }
    let advised = |failure| match &url {
        Some(url) => scheme::advised(session, url, failure),
        None => failure,
    };
    let stop = async {
        tokio::select! {
            () = end_asked() => left.interrupted(),
            () = wait(timeout), if !is_limited_each => left.timed_out(session.last_asked().as_ref()),
        }
    };
    let ended = tokio::select! {
        result = perform_until(session, command, stop) => result.inspect_err(|failure| {
            if let Some(code) = failure.code.filter(|_| shows_credentials) {
                session.explain_denial(code);
            }
        }).map_err(advised),
        () = output::reader_gone(), if is_output_all => Ok(UNREAD),
    };
    // Parts of failed uploads are removed in the background, which may end with this function.
    session.client.settle().await;
    session.traces().stop().await;
    match ended {
        Ok(0) => Ok(0),
        _ if is_output_all && !output::has_reader() => Ok(UNREAD),
        ended => ended,
    }
}

/// The command with what its named remotes say about transfers.
///
/// # Errors
/// The file of the remotes is invalid.
fn with_defaults(session: &ClientContext, mut command: Command) -> Result<Command, Failure> {
    match &mut command {
        Command::Copy(options) => {
            session.take_defaults(options.places.iter().map(String::as_str), &mut options.transfer)?;
        }
        Command::Sync(options) => {
            let places = [options.source.as_str(), options.destination.as_str()];
            session.take_defaults(places, &mut options.transfer)?;
        }
        _ => {}
    }
    Ok(command)
}

/// Ends the program at the second Ctrl-C with `exit_code`, whatever it waits for: the output may go
/// to a program that does not read, or a clean-up to a server that does not answer.
fn end_at_second_interrupt(exit_code: u8) -> std::io::Result<()> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut seen = Interrupts::default();
        while interrupts.recv().await.is_some() {
            if seen.is_further(Instant::now()) {
                std::process::exit(i32::from(exit_code));
            }
        }
    });
    Ok(())
}

/// Returns at the second Ctrl-C.
async fn second_interrupt() {
    let mut seen = Interrupts::default();
    while tokio::signal::ctrl_c().await.is_ok() {
        if seen.is_further(Instant::now()) {
            return;
        }
    }
    std::future::pending().await
}

/// The interrupts of a command.
#[derive(Default)]
struct Interrupts {
    first: Option<Instant>,
}

impl Interrupts {
    /// Whether the one that comes now is not the first, nor the first sent twice.
    fn is_further(&mut self, now: Instant) -> bool {
        let first = *self.first.get_or_insert(now);
        now.duration_since(first) > SAME_INTERRUPT_TIME
    }
}

/// Whether the command does nothing but print, so that it ends with the program that reads its
/// output. Others go on.
fn is_output_all(command: &Command) -> bool {
    match command {
        Command::Copy(options) => options.places.last().is_some_and(|place| place == "-"),
        Command::Ls(_)
        | Command::Du(_)
        | Command::Df(_)
        | Command::Find(_)
        | Command::Tree(_)
        | Command::Stat(_)
        | Command::Sum(_)
        | Command::Compare(_)
        | Command::Cat(_)
        | Command::Head(_)
        | Command::Tail(_)
        | Command::Archived(_) => true,
        _ => false,
    }
}

/// What an interrupted command leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    /// Nothing: it only reads.
    Nothing,
    /// A part of the files.
    Files,
    /// Changes of names.
    Names,
    /// Requests at a tape system.
    Requests,
    /// Jobs of a queue.
    Jobs,
}

impl Unfinished {
    fn of(command: &Command) -> Self {
        match command {
            Command::Copy(_) | Command::Sync(_) => Self::Files,
            Command::Mkdir(_)
            | Command::Rm(_)
            | Command::Cleanup(_)
            | Command::Mv(_)
            | Command::Touch(_)
            | Command::Chmod(_) => Self::Names,
            Command::Stage(_) | Command::Evict(_) => Self::Requests,
            Command::Queue(_) => Self::Jobs,
            _ => Self::Nothing,
        }
    }

    /// How the user goes on.
    fn way_on(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Files => Some(
                "start the command again to go on: complete files of trees and lists are skipped, and an interrupted \
                 download continues",
            ),
            Self::Names => Some("what was done stays done; start the command again for the rest"),
            Self::Requests => Some("requests that the storage has taken go on: stage --status REQUEST shows them"),
            Self::Jobs => Some(
                "jobs that were submitted go on: \"crossload queue list\" shows them, \"crossload queue cancel JOB\" \
                 ends one",
            ),
        }
    }

    /// The user has interrupted the command.
    fn interrupted(self) -> Failure {
        let way_on = self.way_on().map_or_else(String::new, |words| format!("; {words}"));
        Failure {
            words: format!("{INTERRUPTED} (Interrupted system call) - canceled{way_on}"),
            advice: None,
            code: None,
            exit_code: INTERRUPTED,
        }
    }

    /// The command has taken too long; `asked` is its last request.
    fn timed_out(self, asked: Option<&LastAsked>) -> Failure {
        let asked = asked.map_or_else(String::new, |asked| format!("; it was {asked}"));
        let option = match self {
            Self::Jobs => "--abort-after",
            _ => "--timeout",
        };
        let way_on = self.way_on().map_or_else(String::new, |words| format!("; {words}"));
        Failure {
            words: format!(
                "{TIMED_OUT} (Connection timed out) - the command took longer than {option} allows{asked}{way_on}"
            ),
            advice: Some(Advice::Own(format!("Give a longer {option}."))),
            code: None,
            exit_code: TIMED_OUT,
        }
    }
}

async fn wait(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn common_of(command: &Command) -> Option<Common> {
    let common = match command {
        Command::Copy(options) => &options.common,
        Command::Sync(options) => &options.common,
        Command::Compare(options) => &options.common,
        Command::Ls(options) => &options.common,
        Command::Du(options) => &options.common,
        Command::Df(options) => &options.common,
        Command::Find(options) => &options.common,
        Command::Cache(CacheAction::Prefetch(options)) => &options.common,
        Command::Tree(options) => &options.common,
        Command::Stat(options) => &options.common,
        Command::Sum(options) => &options.common,
        Command::Mkdir(options) => &options.common,
        Command::Rm(options) => &options.common,
        Command::Cleanup(options) => &options.common,
        Command::Touch(options) => &options.common,
        Command::Chmod(options) => &options.common,
        Command::Xattr(action) => action.common(),
        Command::Mv(options) => &options.common,
        Command::Cat(options) => &options.common,
        Command::Stage(options) => &options.common,
        Command::Evict(options) => &options.common,
        Command::Archived(options) => &options.common,
        Command::Head(options) | Command::Tail(options) => &options.common,
        Command::Token(TokenAction::Macaroon(options)) => &options.common,
        Command::Why(options) => &options.common,
        Command::Trace(options) => &options.common,
        Command::Top(options) => &options.common,
        Command::Healthy(options) => &options.common,
        Command::Stdio(options) => &options.common,
        Command::Login(options) => &options.common,
        Command::Logout(options) => &options.common,
        Command::Node(action) => &action.options().common,
        Command::Queue(action) => return action.common(),
        Command::Token(_)
        | Command::Explain(_)
        | Command::Serve(_)
        | Command::Redirector(_)
        | Command::Cache(_)
        | Command::Check(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Upgrade(_)
        | Command::Shell(_)
        | Command::Smoke(_)
        | Command::Mesh(_)
        | Command::Stress(_)
        | Command::Bench(_)
        | Command::History(_)
        | Command::Report(_)
        | Command::Config(_)
        | Command::Proxy(_)
        | Command::Completions(_)
        | Command::Migrate(_)
        | Command::Man(_)
        | Command::Demo(_) => {
            return None;
        }
    };
    Some(common.clone())
}

/// The server of a command that asks one server about itself.
fn service_url(command: &Command) -> Option<&str> {
    match command {
        Command::Node(action) => Some(&action.options().node),
        Command::Why(options) => Some(&options.redirector),
        Command::Queue(action) => action.endpoint(),
        _ => None,
    }
}

/// The code that a server of ours names in a refusal: a document has it in `error.code`, a text in
/// its last line, `[token_expired] ID`.
fn named_code(body: &str) -> Option<ErrorCode> {
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    let of_text = || Some(body.lines().last()?.strip_prefix('[')?.split_once("] ")?.0);
    let name = document["error"]["code"].as_str().or_else(of_text)?;
    ErrorCode::ALL.iter().copied().find(|code| code.name() == name)
}

/// Runs a command until it is stopped for the reason that `stop` returns. Copies end in an orderly
/// way.
async fn perform_until(
    session: &Arc<ClientContext>,
    command: Command,
    stop: impl Future<Output = Failure>,
) -> Result<u8, Failure> {
    match command {
        Command::Copy(options) => copy::run(session, &options, None, stop).await,
        Command::Sync(options) => copy::sync(session, &options, None, stop).await,
        Command::Stdio(_) => stdio::run(session, stop).await,
        command => tokio::select! {
            // Listens for Ctrl-C before anything is asked.
            biased;
            reason = stop => Err(reason),
            result = perform(session, command) => result,
        },
    }
}

async fn perform(session: &Arc<ClientContext>, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Compare(options) => compare_trees::run(session, &options).await,
        Command::Ls(options) => listing::run(session, &options).await,
        Command::Du(options) => usage::run(session, &options).await,
        Command::Df(options) => space::run(session, &options).await,
        Command::Find(options) => find::run(session, &options).await,
        Command::Cache(CacheAction::Prefetch(options)) => prefetch::run(session, &options).await,
        Command::Tree(options) => drawing::run(session, &options).await,
        Command::Stat(options) => show::stat(session, &options).await,
        Command::Sum(options) => sums::run(session, &options).await,
        Command::Mkdir(options) => names::make_directories(session, &options).await,
        Command::Rm(options) => remove::run(session, &options).await,
        Command::Cleanup(options) => cleanup::run(session, &options).await,
        Command::Touch(options) => metadata::touch(session, &options).await,
        Command::Chmod(options) => metadata::change_mode(session, &options).await,
        Command::Xattr(action) => attributes::run(session, &action).await,
        Command::Mv(options) => names::rename(session, &options).await,
        Command::Cat(options) => names::cat(session, &options).await,
        Command::Stage(options) => tape::stage(session, &options).await,
        Command::Evict(options) => tape::evict(session, &options).await,
        Command::Archived(options) => tape::archived(session, &options).await,
        Command::Head(options) => ends::run(session, &options, ends::End::Head).await,
        Command::Tail(options) => ends::run(session, &options, ends::End::Tail).await,
        Command::Token(TokenAction::Macaroon(options)) => macaroon::run(session, &options).await,
        Command::Why(options) => why::run(session, &options).await,
        Command::Trace(options) => trace::run(session, &options).await,
        Command::Top(options) => top::run(session, &options).await,
        Command::Healthy(options) => healthy::run(session, &options).await,
        Command::Login(options) => login::run(session, &options).await,
        Command::Logout(options) => login::end(session, &options).await,
        Command::Node(action) => node::run(session, &action).await,
        Command::Queue(action) => queue::run(session, &action).await,
        Command::Copy(_)
        | Command::Sync(_)
        | Command::Stdio(_)
        | Command::Token(_)
        | Command::Explain(_)
        | Command::Serve(_)
        | Command::Redirector(_)
        | Command::Cache(_)
        | Command::Check(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Upgrade(_)
        | Command::Shell(_)
        | Command::Smoke(_)
        | Command::Mesh(_)
        | Command::Stress(_)
        | Command::Bench(_)
        | Command::History(_)
        | Command::Report(_)
        | Command::Config(_)
        | Command::Proxy(_)
        | Command::Completions(_)
        | Command::Migrate(_)
        | Command::Man(_)
        | Command::Demo(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::command_line::CommandLine;
    use crate::failure::Reader;

    #[test]
    fn an_interrupted_command_says_how_to_go_on() {
        for (line, words) in [
            ("copy -r a b", "complete files of trees and lists are skipped"),
            ("sync a b", "start the command again"),
            ("rm a b", "for the rest"),
            ("stage a", "stage --status"),
            ("queue submit a b", "crossload queue cancel JOB"),
        ] {
            let words_of = format!("crossload {line}");
            let parsed = CommandLine::try_parse_from(words_of.split_whitespace()).unwrap();
            let left = Unfinished::of(&parsed.command);
            let asked = LastAsked {
                place: types::Location::parse("https://a/f").unwrap(),
                activity: remote::ActivityNote::default(),
            };
            let words_of = left.timed_out(Some(&asked)).words;
            assert!(words_of.contains("it was asking about https://a/f"), "{words_of}");
            for failure in [left.interrupted(), left.timed_out(None)] {
                let message = failure.message(Reader::User);
                assert!(message.contains(words), "{line}: {message}");
            }
        }
        assert!(Unfinished::Nothing.interrupted().words.ends_with("canceled"));
    }

    #[test]
    fn an_interrupt_that_is_sent_twice_is_one() {
        let (mut seen, first) = (Interrupts::default(), Instant::now());
        for (after, is_further) in [(0, false), (1, false), (200, false), (201, true), (900, true)] {
            let now = first + Duration::from_millis(after);
            assert_eq!(seen.is_further(now), is_further, "{after} ms");
        }
    }

    #[test]
    fn a_refusal_names_its_code() {
        let refusal = "client authenticate: Permission denied\nGet a new token.\n[token_audience] 1a2b\n";
        assert_eq!(named_code(refusal), Some(ErrorCode::TokenAudience));
        let document = r#"{"error": {"code": "token_audience", "message": "[token_expired] x"}}"#;
        assert_eq!(named_code(document), Some(ErrorCode::TokenAudience));
        for other in [
            "",
            "{\"code\": 1}",
            "{\"error\": \"token_audience\"}",
            "[no_such_code] 1a2b\n",
            "[token_audience]",
        ] {
            assert_eq!(named_code(other), None, "{other}");
        }
    }
}
