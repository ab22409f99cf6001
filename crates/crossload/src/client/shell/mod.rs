//! `crossload shell`: commands about files, one per line, relative to a directory of a server.
//!
//! A line is a command line of this program. The session resolves its places relative to the
//! directory, so that commands know nothing of the shell.

mod edit;
mod line;

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use types::{Error, ErrorCode, Phase, Side};

use super::place::Place;
use super::session::ClientContext;
use super::{Unfinished, carry_out, common_of, in_our_options, second_interrupt};
use crate::command_line::{Command, Common, ShellOptions, line_in};
use crate::exit_code::ExitCodes;
use crate::failure::{Failure, Reader};
use crate::file_size::survive_file_size_limit;
use crate::limits::LIST_LINE_BYTES_MAX;
use crate::output;
use edit::Prompt;
use line::Line;

const HELP: &str = "\
cd [DIRECTORY]          go to a directory, or back to the first one
pwd                     print the directory
ls, tree, find, du, df, stat, sum, cat, head, tail
                        print files and directories
get FILE... [LOCAL]     copy to this machine; -r for directories
put LOCAL... [PLACE]    copy to the server; -r for directories
lcd, lls, lpwd          cd, ls and pwd on this machine
mkdir, rm, mv, touch, chmod, xattr
                        change files and directories
copy SOURCE... PLACE    copy at the server, or between servers
stage, evict, archived  files on tape
help [COMMAND]          this list, or the options of a command
quit                    leave, as the end of the input does

Names are relative to the directory, or begin with /; URLs and NAME:PATH work too. Names with
blanks are quoted. Tab completes names at the server.";

/// Runs the lines of a terminal, or of a script on standard input.
///
/// # Errors
/// The first place is no directory. A terminal or standard input cannot be read.
pub(crate) fn run(options: &ShellOptions) -> Result<u8, Failure> {
    if options.common.json || options.common.timeout.is_some() {
        let refusal = "--json and --timeout are options of the shell's commands, not of the shell";
        return Err(Failure::invalid(refusal));
    }
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    let prompt = std::io::stdin().is_terminal().then(Prompt::open).transpose()?;
    let opened = runtime.block_on(interruptible(Shell::open(options, runtime.handle().clone())));
    let ended = opened.and_then(|shell| match prompt {
        Some(prompt) => shell.converse(prompt),
        None => shell.run_script(),
    });
    // A blocked read of standard input cannot be cancelled. It must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// A directory that an argument names.
///
/// # Errors
/// It is none.
async fn directory(session: &ClientContext, text: &str) -> Result<Place, Failure> {
    let place = session.place(text).await?;
    let found = session.stat(&place, place.side()).await;
    match found
        .inspect_err(|error| session.explain_denial(error.code()))?
        .is_directory
    {
        true => Ok(place),
        false => Err(Error::new(ErrorCode::NotDirectory, place.side(), Phase::Open)
            .with_subject(place)
            .into()),
    }
}

/// Runs what leaves nothing behind until Ctrl-C.
async fn interruptible<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => Err(Unfinished::Nothing.interrupted()),
    }
}

struct Shell {
    session: Arc<ClientContext>,
    runtime: Handle,
    /// Where `cd` without an argument leads.
    first: Place,
    /// Where `lcd` without an argument leads.
    first_here: PathBuf,
}

/// How a line ended.
enum Ended {
    Done(u8),
    Quit,
}

impl Shell {
    async fn open(options: &ShellOptions, runtime: Handle) -> Result<Self, Failure> {
        survive_file_size_limit().map_err(|cause| Failure::system("cannot receive signals", &cause))?;
        let session = Arc::new(ClientContext::open(&options.common)?);
        let first = directory(&session, &options.place).await?;
        session.set_directory(first.clone());
        Ok(Self {
            session,
            runtime,
            first,
            first_here: current_directory()?,
        })
    }

    /// Reads lines from the terminal. Failures are reported, and the next one is read.
    fn converse(self, mut prompt: Prompt) -> Result<u8, Failure> {
        prompt.complete_in(&self.session, &self.runtime);
        while let Some(text) = prompt.read(&self.directory())? {
            // Pasted text may have several.
            for line in text.lines() {
                match self.execute(line) {
                    Ok(Ended::Quit) => return Ok(0),
                    Ok(Ended::Done(0)) => {}
                    Ok(Ended::Done(_)) => break,
                    Err(failure) => {
                        complain(line, &failure);
                        break;
                    }
                }
            }
        }
        Ok(0)
    }

    /// Runs the lines of standard input. The first that fails ends the script: what follows may
    /// rely on it. So does the loss of its output, which the program reports at its end.
    fn run_script(self) -> Result<u8, Failure> {
        while output::failure().is_none() {
            let read = execution::blocking_try(Side::Client, Phase::Open, || Ok(read_line()));
            let read = self.runtime.block_on(interruptible(async { Ok(read.await?) }))?;
            let Some(text) = read.map_err(|cause| Failure::system("standard input", &cause))? else {
                break;
            };
            match self.execute(&text) {
                Ok(Ended::Quit) => break,
                Ok(Ended::Done(0)) => {}
                Ok(Ended::Done(code)) => return Ok(code),
                Err(failure) => {
                    complain(&text, &failure);
                    return Ok(failure.exit_code);
                }
            }
        }
        Ok(0)
    }

    fn directory(&self) -> String {
        self.session.directory().as_ref().unwrap_or(&self.first).to_string()
    }

    fn execute(&self, text: &str) -> Result<Ended, Failure> {
        match Line::parse(text)? {
            Line::Nothing => {}
            Line::Quit => return Ok(Ended::Quit),
            Line::Help => output::line(HELP),
            Line::HelpOf(words) => output::line(words.trim_end()),
            Line::Where => output::line(&self.directory()),
            Line::WhereHere => output::line(&current_directory()?.display().to_string()),
            Line::Go(to) => {
                let gone = match to {
                    Some(to) => self.runtime.block_on(interruptible(directory(&self.session, &to)))?,
                    None => self.first.clone(),
                };
                self.session.set_directory(gone);
            }
            Line::GoHere(to) => {
                let to = to.as_deref().map_or(self.first_here.as_path(), Path::new);
                std::env::set_current_dir(to).map_err(|cause| Failure::system(to.display(), &cause))?;
            }
            Line::Command(command) => return self.runtime.block_on(self.perform(*command)).map(Ended::Done),
            Line::Refused(words) => {
                output::complain(words.trim_end());
                return Ok(Ended::Done(ExitCodes::chosen().of_usage()));
            }
        }
        Ok(Ended::Done(0))
    }

    /// Runs a command. Ctrl-C ends it in an orderly way, the second one at once, and neither ends
    /// the shell.
    async fn perform(&self, command: Command) -> Result<u8, Failure> {
        let command = in_our_options(command)?;
        let (left, common) = (Unfinished::of(&command), common_of(&command));
        if common.as_ref().is_some_and(is_about_session) {
            return Err(Failure::invalid(
                "give credentials, authorities, -vv, --log-file and --client-info to the shell, not to its commands",
            ));
        }
        let timeout = common.and_then(|common| common.timeout);
        tokio::select! {
            result = carry_out(&self.session, command, timeout) => result,
            () = second_interrupt() => Err(left.interrupted()),
        }
    }
}

/// Whether options of a line would have to change what all lines share.
fn is_about_session(common: &Common) -> bool {
    let Common {
        verbose,
        log_file,
        client_info,
        access,
        ..
    } = common;
    *verbose > 1 || log_file.is_some() || !client_info.is_empty() || access.is_given()
}

fn current_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|cause| Failure::system("the current directory", &cause))
}

/// The next line of standard input; `None` at the end.
///
/// # Errors
/// It cannot be read, or the line is too long or not UTF-8.
fn read_line() -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut limited = std::io::stdin().lock().take(LIST_LINE_BYTES_MAX + 1);
    limited.read_until(b'\n', &mut bytes)?;
    line_in(bytes)
}

fn complain(text: &str, failure: &Failure) {
    let name = text.split_whitespace().next().unwrap_or_default();
    output::complain(&format!("{name}: {}", failure.message(Reader::User)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_command() {
        for verb in line::verbs() {
            let is_named = HELP
                .split(|one: char| !one.is_ascii_alphabetic())
                .any(|word| word == verb);
            assert!(is_named, "{verb}");
        }
    }
}
