//! The targets of a run, from the command line.

use bench::ground::Target;
use types::{Error, ErrorCode, Location, Phase, Side};

use crate::client::place::Place;
use crate::client::session::ClientContext;
use crate::command_line::{BenchCommon, Named};
use crate::failure::Failure;

/// The targets, with their files and processes.
///
/// # Errors
/// An unusable URL, or a file or process that belongs to no target.
pub(super) async fn find(options: &BenchCommon, session: &ClientContext) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for Named { name, url } in &options.targets {
        let location = place(session, url).await?;
        targets.push(Target {
            name: name
                .clone()
                .unwrap_or_else(|| format!("{}:{}", location.host(), location.port())),
            place: session.resource(&location, Side::Active),
            file: None,
            processes: Vec::new(),
        });
    }
    for text in &options.file {
        let location = place(session, text).await?;
        let home = targets
            .iter_mut()
            .find(|target| target.place.location.same_origin(&location));
        let home = home.ok_or_else(|| {
            Failure::invalid(format!(
                "--file {location} belongs to no target: scheme, host and port must be equal"
            ))
        })?;
        home.file = Some(session.resource(&location, Side::Active));
    }
    for process in &options.processes {
        let is_of = |target: &&mut Target| process.name.as_ref().is_none_or(|name| *name == target.name);
        let mut found = false;
        for target in targets.iter_mut().filter(is_of) {
            target.processes.push(process.id);
            found = true;
        }
        if !found {
            let name = process.name.as_deref().unwrap_or_default();
            return Err(Failure::invalid(format!(
                "--pid {name}={}: no target has this name",
                process.id
            )));
        }
        if bench::machine::cpu_seconds(process.id).is_none() {
            return Err(Failure::invalid(format!("--pid {}: no such process", process.id)));
        }
    }
    unambiguous(options, &targets)?;
    Ok(targets)
}

/// A process without a name is only accepted with a single server.
fn unambiguous(options: &BenchCommon, targets: &[Target]) -> Result<(), Failure> {
    let several = targets.iter().any(|target| target.name != targets[0].name);
    match options.processes.iter().any(|process| process.name.is_none()) && several {
        true => Err(Failure::invalid("--pid needs NAME= because there are several targets")),
        false => Ok(()),
    }
}

async fn place(session: &ClientContext, text: &str) -> Result<Location, Failure> {
    match session.place(text).await? {
        Place::Remote(location) => Ok(location),
        Place::Local(_) | Place::Stdio => {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_subject(text);
            let words = "bench takes http, https, dav, davs, root and roots URLs";
            Err(error.with_detail(words).into())
        }
    }
}
