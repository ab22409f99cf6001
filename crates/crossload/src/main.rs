//! The `crossload` program: command line, client commands, and the wiring of the server. Only this
//! crate reads arguments and the environment.
#![forbid(unsafe_code)]

mod authorities;
mod backup;
mod cached_files;
mod check;
mod client;
mod command_line;
mod dates;
mod demo;
mod descriptors;
mod exit_code;
mod explain;
mod failure;
mod file_size;
mod input_file;
mod kept_files;
mod limits;
mod log_search;
mod logins;
mod made_client;
mod manual;
mod migrating;
mod next_step;
mod output;
mod queue;
mod remotes;
mod reporting;
mod server;
mod stored_runs;
mod table;
mod token;
mod traces;
mod upgrade;
mod upstream_fault;
mod where_sent;

use std::process::ExitCode;

use command_line::{CacheAction, Command, CommandLine, ConfigAction, ImportAction, QueueAction, TokenAction};
use exit_code::{ExitCodes, not_begun};
use failure::{Failure, Reader};

/// Metadata requests make many small allocations. They cost 6 to 8 % less processor time than with
/// the allocator of the C library (`docs/experiments/2026-11-22-small-requests.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let parsed = match CommandLine::of(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(refusal) => return refuse(&refusal),
    };
    let name = parsed.command.name();
    let reader = match parsed.command {
        Command::Config(ConfigAction::Remote(_) | ConfigAction::Import(_)) => Reader::User,
        Command::Serve(_)
        | Command::Redirector(_)
        | Command::Check(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Upgrade(_)
        | Command::Cache(CacheAction::Ls(_) | CacheAction::Stat(_) | CacheAction::Evict(_) | CacheAction::Verify(_))
        | Command::Config(_)
        | Command::Migrate(_)
        | Command::Queue(QueueAction::Serve(_)) => Reader::Administrator,
        _ => Reader::User,
    };
    let is_server = matches!(
        parsed.command,
        Command::Serve(_) | Command::Redirector(_) | Command::Queue(QueueAction::Serve(_))
    );
    let ended = match (run(parsed.command), output::failure()) {
        (Ok(_), Some(cause)) => Err(Failure::system(output::NAME, &cause)),
        (ended, _) => ended,
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let message = failure.message(reader);
            if is_server {
                server::report_failure(&message);
            }
            output::complain(&format!("crossload {name} error: {message}"));
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Prints why the command line is invalid, or the help that it asks for.
fn refuse(refusal: &clap::Error) -> ExitCode {
    // A closed pipe is not an error.
    let _ = refusal.print();
    match refusal.use_stderr() {
        true => ExitCode::from(ExitCodes::chosen().of_usage()),
        false => ExitCode::SUCCESS,
    }
}

fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Serve(options) => server::run(&options).map(|()| 0),
        Command::Redirector(options) => server::run(&options.into()).map(|()| 0),
        Command::Queue(QueueAction::Serve(options)) => queue::run(&options).map(|()| 0),
        Command::Config(action) => configure(&action),
        Command::Migrate(action) => migrating::run(&action),
        Command::Demo(options) => demo::run(options).map(|()| 0),
        Command::Completions(options) => {
            manual::complete(&options);
            Ok(0)
        }
        Command::Man(options) => manual::write_pages(&options).map(|()| 0),
        Command::Token(TokenAction::Inspect(options)) => token::show(&options),
        Command::Token(TokenAction::Attenuate(options)) => token::narrow(&options),
        Command::Proxy(action) => client::proxy::run(&action),
        Command::Explain(options) => explain::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Backup(options) => backup::run(&options).map(|()| 0),
        Command::Restore(options) => backup::restore(&options).map(|()| 0),
        Command::Upgrade(options) => upgrade::run(&options),
        Command::Shell(options) => client::shell::run(&options),
        Command::Cache(action) if !matches!(action, CacheAction::Prefetch(_)) => cached_files::run(&action),
        Command::Smoke(options) => client::smoke::run(&options).map_err(tests_not_begun),
        Command::Mesh(options) => client::mesh::run(&options).map_err(tests_not_begun),
        Command::Stress(options) => client::mesh::run_stress(&options).map_err(tests_not_begun),
        Command::Bench(load) => client::bench::run(&load),
        Command::History(action) => stored_runs::run(&action),
        Command::Report(options) => reporting::run(&options).map_err(tests_not_begun),
        other => client::run(other),
    }
}

fn tests_not_begun(failure: Failure) -> Failure {
    Failure {
        exit_code: not_begun(failure.exit_code),
        ..failure
    }
}

fn configure(action: &ConfigAction) -> Result<u8, Failure> {
    match action {
        ConfigAction::Docs => output::write_out(config::manual::docs().as_bytes()),
        ConfigAction::Example => output::write_out(config::manual::example().as_bytes()),
        ConfigAction::Openapi => output::write_out(door_queue::document()?.as_bytes()),
        ConfigAction::Remote(action) => remotes::run(action)?,
        ConfigAction::Import(ImportAction::Rclone(options)) => return remotes::rclone::run(options),
        ConfigAction::ImportAuthdb { file } => {
            for rule in server::rules::authdb(file)? {
                output::line(&rule.to_toml());
            }
        }
        ConfigAction::Check { file } => {
            let configuration = server::configured::load(file)?;
            server::rules::policy(&configuration)?;
            for file in &configuration.read_from {
                output::line(&format!("{}: no mistakes found", file.display()));
            }
        }
    }
    Ok(0)
}
