//! The command line. Options that gfal's tools have too keep their letters.

mod attributes;
mod backup;
mod bench;
mod bench_files;
mod bench_transfers;
mod cache;
mod check;
mod cleanup;
mod client;
mod display;
mod ends;
mod examples;
mod explain;
mod habits;
mod healthy;
mod history;
mod login;
mod manual;
mod mesh;
mod metadata;
mod migrate;
mod node;
mod places;
mod proxy;
mod queue;
mod remotes;
mod report;
mod scripts;
mod server;
mod shell;
mod smoke;
mod spelling;
mod stdio;
mod stress;
mod sum;
mod tape;
mod token;
mod top;
mod trace;
mod trees;
mod why;
mod xrdcp;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

pub(crate) use attributes::AttributeAction;
pub(crate) use backup::{BackupOptions, RestoreOptions, UpgradeOptions};
pub(crate) use bench::{BenchCommon, BenchLoad, Named};
pub(crate) use bench_transfers::VectorOptions;
pub(crate) use cache::{CacheAction, CacheOptions, CacheVerifyOptions, CachedFilesOptions, PrefetchOptions};
pub(crate) use check::CheckOptions;
pub(crate) use cleanup::CleanupOptions;
pub(crate) use client::{
    Access, ChecksumMode, Common, CompareBy, CompareOptions, CopyOptions, Links, MakeDirectoryOptions, Mode,
    RemoveOptions, RenameOptions, SelectOptions, StatOptions, SyncOptions, TransferOptions, Verify,
};
pub(crate) use display::DisplayOptions;
pub(crate) use ends::{CatOptions, EndOptions};
pub(crate) use examples::EXIT_CODES;
pub(crate) use explain::{AskedOperation, ExplainOptions};
pub(crate) use habits::{GfalOptions, TimeStyle};
pub(crate) use healthy::HealthyOptions;
pub(crate) use history::{
    HistoryAction, HistoryCheckOptions, HistoryCompareOptions, HistoryExportOptions, HistoryFilter,
    HistoryImportOptions, HistoryListOptions, HistoryRemoveOptions, HistoryShowOptions,
};
pub(crate) use login::{LoginOptions, LogoutOptions};
pub(crate) use manual::{CompletedShell, CompletionsOptions, ManualOptions};
pub(crate) use mesh::{MeshOptions, ResultOptions};
pub(crate) use metadata::{ModeOptions, TouchOptions};
pub(crate) use migrate::{MigrateAction, MigrateOptions};
pub(crate) use node::{NodeAction, NodeOptions};
pub(crate) use places::{Places, line_in, lines_of, names_stdio};
pub(crate) use proxy::{ProxyAction, ProxyInfoOptions};
pub(crate) use queue::{
    BanStatus, Limit, QueueAction, QueueBanOptions, QueueCancelOptions, QueueDelegateOptions, QueueDrainOptions,
    QueueLimitsOptions, QueueLinkOptions, QueueLinksOptions, QueueListOptions, QueueLogOptions, QueuePriorityOptions,
    QueueServeOptions, QueueSharesOptions, QueueStatusOptions, QueueSubmitOptions, QueueWatchOptions,
    QueueWebhooksOptions, QueueWhoamiOptions, QueueWhyOptions, Rate, ThirdParty, WebhookAction, WebhookAddOptions,
    WebhookNameOptions,
};
pub(crate) use remotes::{ImportAction, ImportOptions, RemoteAction, RemoteOptions};
pub(crate) use report::{ReportOnOptions, ReportOptions};
pub(crate) use server::{ConfigAction, DemoOptions, RedirectorOptions, ServeOptions};
pub(crate) use shell::ShellOptions;
pub(crate) use smoke::SmokeOptions;
pub(crate) use stdio::StdioOptions;
pub(crate) use stress::StressOptions;
pub(crate) use sum::SumOptions;
pub(crate) use tape::{ArchivedOptions, EvictOptions, StageOptions, StageRequest};
pub(crate) use token::{AttenuateOptions, InspectOptions, MacaroonLimits, MacaroonOptions, TokenAction};
pub(crate) use top::TopOptions;
pub(crate) use trace::TraceOptions;
pub(crate) use trees::{
    FindOptions, FoundKind, ListOptions, ListedName, SortKey, SpaceOptions, TreeOptions, UsageOptions,
};
pub(crate) use why::WhyOptions;

/// Moves files straight from one storage site to another.
///
/// Files are named by URLs (http, https, dav, davs, root, roots, s3, s3s), by NAME:PATH in a named
/// remote (crossload config remote add), or by local paths.
#[derive(Debug, Parser)]
#[command(name = "crossload", version, max_term_width = 100, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl CommandLine {
    /// Parses arguments; the first is the program's name.
    ///
    /// # Errors
    /// Why they are invalid, or the help that they ask for.
    pub(crate) fn of(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments = scripts::in_our_commands(arguments.into_iter().collect())
            .map_err(|words| Self::command().error(ErrorKind::InvalidValue, words))?;
        Self::try_parse_from(spelling::in_our_spelling(arguments)).map_err(without_false_tip)
    }
}

/// The refusal without the tip that an option might be meant as a place: that hardly ever helps.
fn without_false_tip(mut refusal: clap::Error) -> clap::Error {
    let is_false = matches!(
        refusal.get(ContextKind::Suggested),
        Some(ContextValue::StyledStrs(tips)) if tips.iter().any(|tip| tip.to_string().contains("as a value"))
    );
    if is_false {
        refusal.remove(ContextKind::Suggested);
    }
    refusal
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process has one, and clap fills it")]
pub(crate) enum Command {
    /// Serve directories over HTTP, WebDAV and the XRootD protocol
    ///
    /// Either one directory with the options below, or everything that a configuration file says.
    #[command(
        override_usage = "crossload serve [OPTIONS] <DIRECTORY>\n       crossload serve [OPTIONS] --config <FILE>",
        after_help = examples::SERVE
    )]
    Serve(ServeOptions),
    /// Send clients to the servers of a cluster that have their files
    ///
    /// Finds each file on the nodes, chooses among those that have it, and places new files where
    /// there is room. Both protocols; nothing needs to be installed on the nodes, and they may be
    /// servers of other makers.
    #[command(after_help = examples::REDIRECTOR)]
    Redirector(RedirectorOptions),
    /// Copy files and directories between servers and this machine
    ///
    /// Between two servers the bytes go directly, as a third-party copy. On this machine and our
    /// servers, a file appears under its name only when it is complete and its checksum matches.
    #[command(
        visible_aliases = ["cp", "put"],
        override_usage = "crossload copy [OPTIONS] <SOURCE>... <DESTINATION>\n       \
                          crossload copy [OPTIONS] --from-file <FILE> [DESTINATION]",
        after_help = examples::COPY
    )]
    Copy(Box<CopyOptions>),
    /// Make a directory like another one: copy what differs, and with --delete remove the rest
    ///
    /// As copy -r, but files that differ are replaced. Without --delete nothing is deleted;
    /// --dry-run shows what would be done.
    #[command(after_help = examples::SYNC)]
    Sync(SyncOptions),
    /// Compare two trees, file by file
    ///
    /// Prints which files differ, and which only one of them has. Nothing is changed.
    #[command(after_help = examples::COMPARE)]
    Compare(CompareOptions),
    /// List directories
    #[command(disable_help_flag = true, after_help = examples::LS)]
    Ls(ListOptions),
    /// Add up the sizes of all files below directories
    #[command(disable_help_flag = true, after_help = examples::DU)]
    Du(UsageOptions),
    /// Print the space behind directories
    #[command(disable_help_flag = true, after_help = examples::DF)]
    Df(SpaceOptions),
    /// Search directories for files and directories
    #[command(after_help = examples::FIND)]
    Find(FindOptions),
    /// Draw directories and what is below them
    #[command(disable_help_flag = true, after_help = examples::TREE)]
    Tree(TreeOptions),
    /// Print size, time and checksums of files and directories
    Stat(StatOptions),
    /// Print the checksums of files, or compare them with a list
    #[command(after_help = examples::SUM)]
    Sum(SumOptions),
    /// Make directories
    Mkdir(MakeDirectoryOptions),
    /// Remove files and directories
    #[command(after_help = examples::RM)]
    Rm(RemoveOptions),
    /// Remove uploads to S3 storages that were begun and have not ended
    ///
    /// Their parts take space and are in no listing. Programs that were killed leave them; those of
    /// this program are removed by themselves, when the bucket is used again.
    #[command(after_help = examples::CLEANUP)]
    Cleanup(CleanupOptions),
    /// Create empty files
    #[command(after_help = examples::TOUCH)]
    Touch(TouchOptions),
    /// Change permissions
    #[command(after_help = examples::CHMOD)]
    Chmod(ModeOptions),
    /// List, print, set and remove extended attributes of files
    #[command(subcommand)]
    Xattr(AttributeAction),
    /// Rename a file or directory
    #[command(alias = "rename")]
    Mv(RenameOptions),
    /// Print files
    Cat(CatOptions),
    /// Print the beginning of files
    #[command(after_help = examples::HEAD)]
    Head(EndOptions),
    /// Print the end of files
    #[command(after_help = examples::TAIL)]
    Tail(EndOptions),
    /// Work in the directories of a server, command by command
    ///
    /// With a prompt, completion of names at the server and a history, or as a script on standard
    /// input.
    #[command(after_help = examples::SHELL)]
    Shell(Box<ShellOptions>),
    /// Bring files online from tape
    #[command(alias = "bringonline", after_help = examples::STAGE)]
    Stage(StageOptions),
    /// Let go of files that were brought online from tape
    #[command(after_help = examples::EVICT)]
    Evict(EvictOptions),
    /// Print whether files are on tape
    #[command(alias = "archivepoll", after_help = examples::ARCHIVED)]
    Archived(ArchivedOptions),
    /// Answer the requests of another program, on standard input and output
    ///
    /// Requests and answers are lines of JSON (docs/stdio.md); connections stay open between them.
    /// The Python module works this way. With --timeout, each request may take this long.
    #[command(after_help = examples::STDIO)]
    Stdio(StdioOptions),
    /// Inspect tokens, request macaroons and restrict them
    #[command(subcommand)]
    Token(TokenAction),
    /// Show the proxy certificate that commands use
    #[command(subcommand)]
    Proxy(ProxyAction),
    /// Get tokens of an issuer, by agreeing in a browser
    ///
    /// They are kept for you only, renewed when needed, and sent to remotes that have this issuer.
    #[command(after_help = examples::LOGIN)]
    Login(Box<LoginOptions>),
    /// Forget the tokens of an issuer
    ///
    /// The issuer is asked to revoke the refresh token. The tokens are forgotten even if it does
    /// not; a notice says why.
    Logout(Box<LogoutOptions>),
    /// Explain why a server allows or refuses an operation
    ///
    /// Prints each rule that was considered, the decision, and what would change it. Nothing is
    /// done on the server.
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainOptions),
    /// Ask a redirector where a file is, and where it sends clients
    ///
    /// Prints which nodes were asked, what each said and when, and which one is chosen and why.
    #[command(after_help = examples::WHY)]
    Why(WhyOptions),
    /// Show what a queue, redirectors and endpoints did for one transfer, as a timeline
    ///
    /// Servers are asked at their admin addresses, as long as they remember; log files have all.
    #[command(after_help = trace::EXAMPLES)]
    Trace(TraceOptions),
    /// Show what an endpoint, redirector or queue does now, on the terminal
    ///
    /// It shows what the server's pages show: copies, links and jobs, nodes; again and again.
    #[command(after_help = top::EXAMPLES)]
    Top(TopOptions),
    /// Check a server's configuration and everything that it names
    ///
    /// Prints each mistake with its line and the remedy. It changes nothing and does not disturb a
    /// running server. Run it on the server's machine, as the server's user.
    #[command(after_help = examples::CHECK)]
    Check(CheckOptions),
    /// Ask a server whether it can do its work
    ///
    /// Prints its checks: certificate, exports, and what else it needs. For scripts, and for the
    /// health check of a container, which has no shell.
    #[command(after_help = healthy::EXAMPLES)]
    Healthy(HealthyOptions),
    /// Save the configuration, the secrets and the state of a server in one file
    ///
    /// A queue may run meanwhile: its database is copied in one state. PostgreSQL's is saved by
    /// pg_dump. Run it as root or as the server's user.
    #[command(after_help = backup::EXAMPLES)]
    Backup(BackupOptions),
    /// Put back what a backup has, on this machine or another one
    ///
    /// Checks everything before it changes anything. Stop the services first. A restored queue
    /// goes on with its jobs, and looks at each destination before it copies a file.
    #[command(after_help = backup::RESTORE_EXAMPLES)]
    Restore(RestoreOptions),
    /// Restart running services with this program, and go back if one of them does not come up
    ///
    /// Packages run it after an upgrade. Before it restarts anything, it checks each configuration.
    /// Transfers that run are finished first, within server.grace_time. Needs systemd.
    #[command(after_help = backup::UPGRADE_EXAMPLES)]
    Upgrade(UpgradeOptions),
    /// Look into the cache of a server, or bring files into it
    ///
    /// prefetch takes URLs, on any machine. The other commands work on the directory of a running
    /// or stopped server, on the server's machine and as the server's user.
    #[command(subcommand)]
    Cache(CacheAction),
    /// Show the state and load of a node of a cluster, or drain it
    ///
    /// A node is a server that `crossload serve` runs; its redirectors learn of the order from it.
    #[command(subcommand)]
    Node(NodeAction),
    /// Run a transfer queue, or give it work: ours, or an FTS
    #[command(subcommand)]
    Queue(QueueAction),
    /// Test an endpoint: transfers, checksums, macaroons, third-party copies
    ///
    /// Works with any server, ours or not. Removes everything that it stored, also after Ctrl-C.
    #[command(after_help = examples::SMOKE)]
    Smoke(SmokeOptions),
    /// Copy a small file from each of many endpoints to each other
    ///
    /// In each protocol and mode, with each credential. Works with any server, ours or not. Removes
    /// everything that it stored, also after Ctrl-C; what a killed run left is removed by the next.
    #[command(after_help = examples::MESH)]
    Mesh(Box<MeshOptions>),
    /// Load the links between endpoints with many large copies, for a time
    ///
    /// Over the same file of endpoints as mesh. Prints the rate of each link and the failures by
    /// reason. Stops by itself at limits, and begins no copy to an endpoint without room.
    #[command(after_help = examples::STRESS)]
    Stress(Box<StressOptions>),
    /// Measure endpoints and compare them
    ///
    /// Works with any server, ours or not. Prints tables, and writes JSON, CSV or a page with
    /// plots.
    #[command(subcommand, after_help = examples::BENCH)]
    Bench(BenchLoad),
    /// Look at what smoke, mesh, stress and bench have found over time
    ///
    /// Keeps their runs in a file, says how endpoints stand and since when something fails, and
    /// finds what has become worse.
    #[command(subcommand, after_help = examples::HISTORY)]
    History(HistoryAction),
    /// Report on a run of mesh or stress: matrix, page, JUnit, metrics, mail
    ///
    /// Prints a matrix of sources and destinations, and what failed, grouped by what it has in
    /// common. The options write the same in other forms, and send it.
    #[command(after_help = examples::REPORT)]
    Report(Box<ReportOnOptions>),
    /// Named remotes of the client; the manual of a server's configuration file
    #[command(subcommand)]
    Config(ConfigAction),
    /// Translate the configuration of another program into ours
    ///
    /// Each key names the line that it comes from. What has no equivalent is listed on standard
    /// error, with advice. Nothing is changed but the files of --output.
    #[command(subcommand)]
    Migrate(MigrateAction),
    /// Print completions of commands and options for a shell
    #[command(after_help = manual::COMPLETIONS)]
    Completions(CompletionsOptions),
    /// Write a manual page for each command into a directory
    ///
    /// For packages. Read a page with man -l DIRECTORY/crossload-copy.1.
    #[command(hide = true)]
    Man(ManualOptions),
    /// Demonstrate third-party copies between two endpoints on this machine
    Demo(DemoOptions),
}

impl Command {
    /// The command's name in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Serve(_) => "serve",
            Self::Redirector(_) => "redirector",
            Self::Why(_) => "why",
            Self::Trace(_) => "trace",
            Self::Top(_) => "top",
            Self::Copy(_) => "copy",
            Self::Sync(_) => "sync",
            Self::Compare(_) => "compare",
            Self::Ls(_) => "ls",
            Self::Du(_) => "du",
            Self::Df(_) => "df",
            Self::Find(_) => "find",
            Self::Tree(_) => "tree",
            Self::Stat(_) => "stat",
            Self::Sum(_) => "sum",
            Self::Mkdir(_) => "mkdir",
            Self::Rm(_) => "rm",
            Self::Cleanup(_) => "cleanup",
            Self::Touch(_) => "touch",
            Self::Chmod(_) => "chmod",
            Self::Xattr(action) => action.name(),
            Self::Mv(_) => "mv",
            Self::Cat(_) => "cat",
            Self::Shell(_) => "shell",
            Self::Stage(_) => "stage",
            Self::Evict(_) => "evict",
            Self::Archived(_) => "archived",
            Self::Stdio(_) => "stdio",
            Self::Head(_) => "head",
            Self::Tail(_) => "tail",
            Self::Cache(action) => action.name(),
            Self::Node(action) => action.name(),
            Self::Queue(action) => action.name(),
            Self::Token(TokenAction::Inspect(_)) => "token inspect",
            Self::Token(TokenAction::Macaroon(_)) => "token macaroon",
            Self::Token(TokenAction::Attenuate(_)) => "token attenuate",
            Self::Proxy(_) => "proxy info",
            Self::Login(_) => "login",
            Self::Logout(_) => "logout",
            Self::Explain(_) => "explain",
            Self::Check(_) => "check",
            Self::Healthy(_) => "healthy",
            Self::Backup(_) => "backup",
            Self::Restore(_) => "restore",
            Self::Upgrade(_) => "upgrade",
            Self::Smoke(_) => "smoke",
            Self::Mesh(_) => "mesh",
            Self::Stress(_) => "stress",
            Self::Bench(_) => "bench",
            Self::History(action) => action.name(),
            Self::Report(_) => "report",
            Self::Config(_) => "config",
            Self::Migrate(action) => action.name(),
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
            Self::Demo(_) => "demo",
        }
    }
}

#[cfg(test)]
mod documents;
#[cfg(test)]
mod tests;
