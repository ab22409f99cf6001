//! `mkdir`, `mv` and `cat`.

use std::io;
use std::sync::Arc;

use serde_json::json;
use storage::Overwrite;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use transfer::{Order, OutputSink, Progress, RemoteSource, Source, Verification, copy};
use types::{Error, ErrorCode, Location, Phase, Side};

use super::each::{Finished, Work, each_changed, each_place};
use super::metadata::set_mode;
use super::place::{Place, without_query};
use super::session::{ClientContext, is_missing, is_taken};
use crate::command_line::{CatOptions, MakeDirectoryOptions, RenameOptions};
use crate::exit_code::named_by_peer;
use crate::failure::Failure;
use crate::limits::CAT_BUFFER_BYTES;
use crate::output;
use storage::local::fault;

/// `mkdir`.
pub(crate) async fn make_directories(session: &ClientContext, options: &MakeDirectoryOptions) -> Result<u8, Failure> {
    let work = Work {
        places: &options.places,
        is_json: options.common.json,
        done: "MADE",
    };
    each_changed("mkdir", work, async |text| -> Result<(), Failure> {
        let place = session.place(text).await?;
        if let Err(error) = session.make_directory(&place, options.parents, place.side()).await {
            return Err(why_not_made(session, &place, error).await);
        }
        match (options.mode, &place) {
            (Some(_), Place::Remote(location)) if location.is_http() => {
                output::complain(&format!("{place}: HTTP has no permissions; the server's own are kept"));
            }
            (Some(mode), _) => set_mode(session, &place, mode).await?,
            (None, _) => {}
        }
        Ok(())
    })
    .await
}

/// The failure for a directory that could not be made. The name may belong to a file, or one above
/// it.
async fn why_not_made(session: &ClientContext, place: &Place, error: Error) -> Failure {
    if !is_taken(&error) {
        return why_not_below(session, place, error).await;
    }
    match session.stat(place, place.side()).await {
        Ok(found) if found.is_directory => {
            let exists = Error::new(ErrorCode::DirectoryExists, place.side(), Phase::Open);
            exists.with_subject(place).into()
        }
        Ok(_) => Failure::advised(&error, "Use another name: this one belongs to a file."),
        // With -p, the name that is taken may be one above.
        Err(_) => why_not_below(session, place, error).await,
    }
}

/// The failure for a directory whose own name is free.
async fn why_not_below(session: &ClientContext, place: &Place, error: Error) -> Failure {
    match file_above(session, place).await {
        Some(file) => Error::new(ErrorCode::NotDirectory, place.side(), Phase::Open)
            .with_subject(file)
            .into(),
        None => error.into(),
    }
}

/// What the first existing name above a place is, if it is a file.
async fn file_above(session: &ClientContext, place: &Place) -> Option<Place> {
    let mut above = place.parent()?;
    loop {
        match session.stat(&above, place.side()).await {
            Ok(found) if found.is_directory => return None,
            Ok(_) => return Some(above),
            Err(error) if is_missing(&error) || is_below_file(&error) => above = above.parent()?,
            Err(_) => return None,
        }
    }
}

fn is_below_file(error: &Error) -> bool {
    named_by_peer(error).unwrap_or(error.code()) == ErrorCode::NotDirectory
}

/// `mv`.
pub(crate) async fn rename(session: &ClientContext, options: &RenameOptions) -> Result<u8, Failure> {
    let renamed = rename_named(session, options).await;
    if options.common.json {
        let outcome = if renamed.is_ok() { "RENAMED" } else { "FAILED" };
        let (name, destination) = (without_query(&options.source), without_query(&options.destination));
        output::json(&json!({"name": name, "destination": destination, "outcome": outcome}));
    }
    renamed.map(|()| 0)
}

async fn rename_named(session: &ClientContext, options: &RenameOptions) -> Result<(), Failure> {
    let source = session.name(&options.source).await?;
    let destination = session.name(&options.destination).await?;
    if source.names_to(&destination).is_some_and(|names| !names.is_empty()) {
        let within = Error::new(ErrorCode::PathRefused, Side::Client, Phase::Open).with_subject(&destination);
        let within = within.with_detail("it is within what would be moved");
        return Err(Failure::advised(&within, "Give a new name outside of the directory."));
    }
    let renamed = rename_place(session, &source, &destination, options.force).await;
    match renamed {
        Ok(()) => {
            if matches!(&source, Place::Remote(location) if location.is_s3()) && !options.common.json {
                output::complain("S3 has no rename: the object was copied within the server, and the old one removed");
            }
            Ok(())
        }
        Err(error) if error.code() == ErrorCode::CrossExport => {
            let advice = copy_and_remove(session, options, &source, &destination).await;
            Err(Failure::advised(&error, &advice))
        }
        Err(error) => Err(why_not_renamed(session, &source, &destination, error).await),
    }
}

/// Renames a file or directory. The new name must be complete.
///
/// # Errors
/// The server's or the system's refusal; `cross_export` for two servers.
pub(crate) async fn rename_place(
    session: &ClientContext,
    source: &Place,
    destination: &Place,
    overwrites: bool,
) -> types::Result<()> {
    match (source, destination) {
        (Place::Remote(from), Place::Remote(to)) if from.same_origin(to) => {
            refuse_directory(session, to, overwrites).await?;
            let resource = session.resource(from, source.side());
            session.client.rename(&resource, to, overwrites).await
        }
        (Place::Local(from), Place::Local(to)) => {
            let overwrite = if overwrites {
                Overwrite::Allow
            } else {
                Overwrite::Refuse
            };
            let renamed = session.files.rename(from, to, overwrite).await.map(drop);
            renamed.map_err(|error| error.at_side(source.side()))
        }
        _ => {
            let error = Error::new(ErrorCode::CrossExport, Side::Client, Phase::Open);
            Err(error.with_detail("a server renames only what it has itself, and both names must have one scheme"))
        }
    }
}

/// Refuses to replace a directory over HTTP: a server that may overwrite removes what has the new
/// name, with everything in it (RFC 4918 §9.9.3). In the XRootD protocol servers refuse it.
async fn refuse_directory(session: &ClientContext, destination: &Location, overwrites: bool) -> types::Result<()> {
    if !overwrites || !destination.is_http() {
        return Ok(());
    }
    let place = Place::Remote(destination.clone());
    match session.look(&place, place.side()).await? {
        Some(found) if found.is_directory => {
            let taken = Error::new(ErrorCode::IsDirectory, place.side(), Phase::Open);
            Err(taken.with_subject(destination))
        }
        _ => Ok(()),
    }
}

/// The commands that do what a rename between two servers or exports cannot.
async fn copy_and_remove(
    session: &ClientContext,
    options: &RenameOptions,
    source: &Place,
    destination: &Place,
) -> String {
    let found = session.stat(source, source.side()).await;
    // With a slash at its end, the contents of a directory are copied, not the directory itself.
    let (recursive, slash) = match found.is_ok_and(|found| found.is_directory) {
        true => (" -r", "/"),
        false => ("", ""),
    };
    let force = if options.force { " -f" } else { "" };
    let from = source.to_string();
    let from = from.trim_end_matches('/');
    let (whole, to) = (quoted(from), quoted(&destination.to_string()));
    let copied = quoted(&format!("{from}{slash}"));
    format!("crossload copy{recursive}{force} {copied} {to} && crossload rm{recursive} {whole}")
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    match !argument.is_empty() && argument.bytes().all(is_plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}

/// The failure of a rename. Unlike the system's `mv`, this one does not move into an existing
/// directory: the new name must be complete.
async fn why_not_renamed(session: &ClientContext, source: &Place, destination: &Place, error: Error) -> Failure {
    if is_missing(&error) && session.stat(source, source.side()).await.is_ok() {
        // Servers name the source, or do not say what is missing.
        let missing = Error::new(ErrorCode::ParentMissing, destination.side(), Phase::Open);
        return Failure::advised(&missing.with_subject(destination), "Make it with crossload mkdir -p.");
    }
    let may_be_directory = is_taken(&error)
        || matches!(
            error.code(),
            ErrorCode::ParentMissing | ErrorCode::IsDirectory | ErrorCode::NotEmpty | ErrorCode::PeerFailed
        );
    if !may_be_directory {
        return error.into();
    }
    let found = session.stat(destination, destination.side()).await;
    let within = destination.child(&source.name());
    match (found, within) {
        (Ok(found), Ok(within)) if found.is_directory => {
            let taken = Error::new(ErrorCode::IsDirectory, destination.side(), Phase::Open).with_subject(destination);
            Failure::advised(&taken, &format!("Give the complete new name: {within}"))
        }
        // Servers name the source, or only that something exists.
        (Ok(_), _) if is_taken(&error) => error.with_subject(destination).into(),
        _ => error.into(),
    }
}

/// `cat`.
pub(crate) async fn cat(session: &ClientContext, options: &CatOptions) -> Result<u8, Failure> {
    each_place("cat", &options.places, async |text| -> Result<Finished, Failure> {
        let place = session.place(text).await?;
        match &place {
            Place::Remote(location) => print_remote(session, location, place.side()).await?,
            Place::Local(path) => {
                let failed = |cause: &io::Error| fault(cause, Phase::Open, path).at_side(place.side()).into();
                let file = tokio::fs::File::open(path.as_str()).await;
                print(file.map_err(|cause| failed(&cause))?, failed).await?;
            }
            Place::Stdio => print(tokio::io::stdin(), |cause| Failure::system("standard input", cause)).await?,
        }
        Ok(Finished::Whole)
    })
    .await
}

async fn print_remote(session: &ClientContext, location: &Location, side: Side) -> types::Result<()> {
    let order = Order {
        verification: Verification::Never,
        ask_first: false,
        keep: Vec::new(),
        ..Order::default()
    };
    // The engine retries what the source did, so the side is named afterwards.
    let resource = session.resource(location, Side::Source);
    let source: Arc<dyn Source> = Arc::new(RemoteSource::new(&session.client, &resource));
    let sink = OutputSink::new(tokio::io::stdout());
    let copied = copy(&source, &sink, &order, &session.budget, &Progress::new()).await;
    copied.map(drop).map_err(|error| match error.side() {
        Side::Source => error.at_side(side),
        _ => error,
    })
}

/// Prints all of an input. `unread`: the failure if it cannot be read.
async fn print(mut input: impl AsyncRead + Unpin, unread: impl Fn(&io::Error) -> Failure) -> Result<(), Failure> {
    let unwritten = |cause| Failure::system(output::NAME, &cause);
    let mut out = tokio::io::stdout();
    let mut buffer = vec![0; CAT_BUFFER_BYTES];
    loop {
        let count = input.read(&mut buffer).await.map_err(|cause| unread(&cause))?;
        if count == 0 {
            return Ok(());
        }
        out.write_all(&buffer[..count]).await.map_err(unwritten)?;
        // The next read may wait for a user.
        out.flush().await.map_err(unwritten)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_argument() {
        assert_eq!(quoted("root://a:1094//d/f-1%20x"), "root://a:1094//d/f-1%20x");
        for argument in ["a b", "", "$HOME", "it's", "a;b", "?x=&y"] {
            let shell = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(argument))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), argument);
        }
    }
}
