//! `rm`: prints a line per name, in the format of gfal-rm.

use serde_json::json;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::each::complain;
use super::place::{Place, without_query};
use super::session::{ClientContext, Info, is_missing};
use super::walk::{Found, Order, Step, Walk};
use crate::command_line::RemoveOptions;
use crate::exit_code::ExitCodes;
use crate::failure::{Failure, describe};
use crate::next_step::REMOVES_WHOLE;
use crate::output;
use storage::local::Unfit;

/// Removes all arguments, and continues after a failure.
pub(crate) async fn run(session: &ClientContext, options: &RemoveOptions) -> std::result::Result<u8, Failure> {
    let codes = ExitCodes::chosen();
    let (mut code, mut failures, mut count) = (0, 0_u64, 0_u64);
    for text in options.places.all()? {
        let text = text?;
        count += 1;
        let removed = match session.name(&text).await {
            Ok(place) => remove_argument(session, options, place, &text).await,
            Err(error) => Err(error.into()),
        };
        let Err(Refused { error, is_printed }) = removed else {
            continue;
        };
        say(options, &text, if is_missing(&error) { "MISSING" } else { "FAILED" });
        if is_missing(&error) && options.force {
            continue;
        }
        let failure = failure_of(options, error);
        match (options.places.is_one(), is_printed) {
            (true, true) => return Ok(failure.exit_code),
            (true, false) => return Err(failure),
            (false, _) => {}
        }
        failures += 1;
        code = codes.of_several(failure.exit_code);
        if !is_printed {
            complain("rm", failure);
        }
    }
    if failures > 0 {
        output::conclude(&format!("{failures} of {count} could not be removed"));
    }
    Ok(code)
}

/// Why an argument, or a part of it, is still there.
struct Refused {
    error: Error,
    /// It is about something below the argument, and was printed with its name.
    is_printed: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_printed: false,
        }
    }
}

/// The failure of an argument. A directory that is not empty after all of it was removed has
/// something that the server does not list, or not by its name.
fn failure_of(options: &RemoveOptions, error: Error) -> Failure {
    match error.code() {
        ErrorCode::NotEmpty if options.recursive => Failure::advised(
            &error,
            "Have what is left removed at the server: it lists it not at all, or not by its name, such as one with a \
             line end; or new files came.",
        ),
        _ => error.into(),
    }
}

fn say(options: &RemoveOptions, name: &str, outcome: &str) {
    let name = without_query(name);
    if options.quiet {
        return;
    }
    if options.common.json {
        output::json(&json!({"name": name, "outcome": outcome}));
    } else {
        output::line(&format!("{}\t{outcome}", output::name(name)));
    }
}

/// Removes a place with everything in it, and says nothing but why it cannot.
///
/// # Errors
/// The first failure; it goes on after it.
pub(super) async fn remove_tree(session: &ClientContext, place: Place, text: &str) -> Result<()> {
    let mut options = RemoveOptions::default();
    (options.recursive, options.quiet) = (true, true);
    let removed = remove_argument(session, &options, place, text).await;
    removed.map_err(|refused| refused.error)
}

async fn remove_argument(
    session: &ClientContext,
    options: &RemoveOptions,
    place: Place,
    text: &str,
) -> std::result::Result<(), Refused> {
    refuse_whole(&place, text)?;
    let info = match session.stat(&place, place.side()).await {
        // A dangling symbolic link looks missing, but its name can be removed.
        Err(error) if is_missing(&error) && !options.dry_run => Info::default(),
        found => found?,
    };
    if options.rmdir && !info.is_directory {
        return Err(Error::new(ErrorCode::NotDirectory, Side::Client, Phase::Open)
            .with_subject(text)
            .into());
    }
    if info.is_directory && !options.recursive && !options.rmdir {
        return Err(Error::new(ErrorCode::IsDirectory, Side::Client, Phase::Open)
            .with_subject(text)
            .into());
    }
    let mut removal = Removal {
        session,
        options,
        text,
        unlisted: Vec::new(),
        failure: None,
    };
    removal.run(place, info).await;
    removal.failure.map_or(Ok(()), Err)
}

/// Refuses what stands for everything, as rm of POSIX does: the top of a server or of this machine,
/// and a directory that is named by `.` or `..`.
fn refuse_whole(place: &Place, text: &str) -> Result<()> {
    let last = text.trim_end_matches('/').rsplit('/').next();
    match place.parent().is_none() || matches!(last, Some("." | "..")) {
        true => Err(Error::new(ErrorCode::PathRefused, Side::Client, Phase::Open)
            .with_detail(REMOVES_WHOLE)
            .with_subject(text)),
        false => Ok(()),
    }
}

/// The removal of one argument, with everything in it.
///
/// It tries to remove each name before it enters it. Where a server shows a symbolic link as the
/// directory behind it, this removes the link and keeps the directory. Names are removed while they
/// are being listed, so that a directory of any size takes little memory.
struct Removal<'a> {
    session: &'a ClientContext,
    options: &'a RemoveOptions,
    /// How the user named it.
    text: &'a str,
    /// For each directory on the path, the server's words about entries that it does not list.
    /// They keep the directory.
    unlisted: Vec<Option<String>>,
    /// The first failure. That of the argument itself is printed by the caller.
    failure: Option<Refused>,
}

impl Removal<'_> {
    /// Goes on after a failure.
    async fn run(&mut self, place: Place, info: Info) {
        let side = place.side();
        let mut walk = Walk::new(self.session, place, info, side, Order::Listed).entering_all();
        while let Some(step) = walk.next().await {
            match step {
                Step::Entry(found) if found.info.unfit == Some(Unfit::Name) => {
                    walk.skip();
                    self.tell_name(&found);
                }
                Step::Entry(found) => {
                    if !self.entry(&found).await {
                        walk.skip();
                    }
                }
                Step::Enter(_) => self.unlisted.push(None),
                Step::Unlisted(_, words) => {
                    if let Some(last) = self.unlisted.last_mut() {
                        *last = Some(words);
                    }
                }
                Step::Leave(found) => {
                    let unlisted = self.unlisted.pop().flatten();
                    self.leave(&found, unlisted).await;
                }
                Step::Loop(found) => {
                    let error = Error::new(ErrorCode::NotEmpty, side, Phase::Open).with_subject(&found.place);
                    self.tell(&found, &error.with_detail("a loop, or too deep"));
                }
                Step::Unnamed(found, error) => self.tell(&found, &error),
                Step::Failed(found, error) => self.tell(&found, &error),
            }
        }
    }

    /// A name that is not its own: no path leads to it.
    fn tell_name(&mut self, found: &Found) {
        let error = Error::new(ErrorCode::PathRefused, found.place.side(), Phase::Open);
        let shown = self.shown(found);
        self.tell(found, &error.with_detail(Unfit::Name.words()).with_subject(shown));
    }

    /// Removes a name, or returns true for a directory that has to be entered.
    async fn entry(&mut self, found: &Found) -> bool {
        let removed = match self.options.dry_run {
            true if found.info.is_directory => return true,
            true => Ok(()),
            false => remove_name(self.session, &found.place).await,
        };
        match removed {
            Err(error) if error.code() == ErrorCode::NotEmpty && found.info.is_directory && !self.options.rmdir => {
                return true;
            }
            removed => self.conclude(found, removed),
        }
        false
    }

    /// Removes a directory whose entries have been removed.
    async fn leave(&mut self, found: &Found, unlisted: Option<String>) {
        let removed = match (self.options.dry_run, &unlisted) {
            (true, None) => Ok(()),
            (true, Some(words)) => Err(not_empty(words, found)),
            (false, _) => remove_name(self.session, &found.place).await,
        };
        let removed = match (removed, &unlisted) {
            // Where only files make directories, this one went with its last file.
            (Err(error), _) if is_missing(&error) => Ok(()),
            (Err(error), Some(words)) if error.code() == ErrorCode::NotEmpty => Err(not_empty(words, found)),
            (removed, _) => removed,
        };
        self.conclude(found, removed);
    }

    fn conclude(&mut self, found: &Found, removed: Result<()>) {
        match removed {
            Ok(()) if self.options.dry_run => say(self.options, &self.shown(found), "WOULD DELETE"),
            Ok(()) => say(self.options, &self.shown(found), "DELETED"),
            Err(error) if is_missing(&error) && found.depth > 0 => say(self.options, &self.shown(found), "MISSING"),
            Err(error) => self.tell(found, &error),
        }
    }

    /// Prints a failure, except that of the argument itself, which the caller prints.
    fn tell(&mut self, found: &Found, error: &Error) {
        if found.depth > 0 {
            say(self.options, &self.shown(found), "FAILED");
        }
        // A directory is not empty because of a failure that was printed before.
        let is_new = self.failure.is_none() || error.code() != ErrorCode::NotEmpty;
        if found.depth > 0 && is_new {
            output::complain(&format!("crossload rm error: {}", describe(error)));
        }
        self.failure.get_or_insert_with(|| Refused {
            error: error.clone(),
            is_printed: found.depth > 0,
        });
    }

    fn shown(&self, found: &Found) -> String {
        match (&found.place, found.depth) {
            (_, 0) => self.text.to_owned(),
            // A URL, with its escapes: a list of what was deleted may be read again.
            (place @ Place::Remote(_), _) if place.name() == found.info.name => place.to_string(),
            _ => format!("{}/{}", self.text.trim_end_matches('/'), found.relative),
        }
    }
}

fn not_empty(words: &str, directory: &Found) -> Error {
    let error = Error::new(ErrorCode::NotEmpty, directory.place.side(), Phase::Open);
    error.with_detail(words).with_subject(&directory.place)
}

/// Removes a file, an empty directory, or a symbolic link, which is not followed.
///
/// # Errors
/// The server's or the system's refusal.
pub(super) async fn remove_name(session: &ClientContext, place: &Place) -> Result<()> {
    match place {
        Place::Remote(location) => {
            let file = session.resource(location, place.side());
            session.client.delete(&file).await
        }
        Place::Local(path) => {
            let removed = session.files.remove(path).await;
            removed.map_err(|error| error.at_side(place.side()))
        }
        Place::Stdio => Ok(()),
    }
}
