//! `crossload token macaroon`: requests a macaroon from a server.

use credentials::{Activities, Caveat, Exception, Grant, Macaroon, attenuate};
use types::{Error, ErrorCode, Location, Phase, Secret, Side};

use super::place::Place;
use super::session::ClientContext;
use crate::command_line::MacaroonOptions;
use crate::failure::Failure;
use crate::{output, token};

/// Lifetimes are requested in whole minutes, which every server understands.
const MINUTE_S: u64 = 60;

/// Requests a macaroon, adds the caveats that the server left out, and prints it.
///
/// # Errors
/// The server's refusal, or an answer that is not a macaroon.
pub(crate) async fn run(session: &ClientContext, options: &MacaroonOptions) -> Result<u8, Failure> {
    let place = session.place(&options.url).await?;
    let location = location(place, options)?;
    let lifetime_s = options.lifetime.as_secs().max(1);
    let deadline = token::before(lifetime_s);
    let resource = session.resource(&location, Side::Active);
    let given = session
        .client
        .request_macaroon(&resource, options.activity, lifetime_s)
        .await?;
    let macaroon = fit(&given, options, lifetime_s, deadline)?;
    token::hand_out(&macaroon, options.output.as_deref(), options.common.json)?;
    Ok(0)
}

fn location(place: Place, options: &MacaroonOptions) -> Result<Location, Failure> {
    match place {
        Place::Remote(location) if location.is_http() => Ok(match &options.path {
            Some(path) => location.with_path(&path.to_url_path()),
            None => location,
        }),
        _ => {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open);
            let error = error.with_detail("macaroons are requested over HTTP: give an https or davs URL");
            Err(error.with_subject(&options.url).into())
        }
    }
}

/// Adds the caveats that the request cannot express, and those that the server ignored: XRootD
/// grants all rights of the requester when it cannot grant any of the requested ones.
fn fit(given: &Secret, options: &MacaroonOptions, lifetime_s: u64, deadline: Caveat) -> Result<Secret, Failure> {
    let mut restrictions: Vec<Caveat> = token::limits(&options.limits).collect();
    let macaroon = Macaroon::parse(given.expose());
    let granted = macaroon.as_ref().ok().and_then(activities_of);
    if granted.is_some_and(|granted| !options.activity.contains(granted)) {
        restrictions.insert(0, Caveat::Activity(options.activity));
    }
    if !lifetime_s.is_multiple_of(MINUTE_S) {
        restrictions.push(deadline);
    }
    let missing: Vec<&str> = granted.map_or_else(Vec::new, |granted| {
        let wanted = options.activity.iter();
        wanted
            .filter(|one| !granted.contains(Activities::of(&[*one])))
            .map(|one| one.name())
            .collect()
    });
    if !missing.is_empty() {
        output::complain(&format!("the server did not grant {}", missing.join(",")));
    }
    for exception in macaroon.as_ref().ok().and_then(exceptions_of).unwrap_or_default() {
        output::complain(&format!("the server did not grant {exception}"));
    }
    if restrictions.is_empty() {
        return Ok(given.clone());
    }
    Ok(attenuate(&macaroon?, &restrictions)?.to_text())
}

/// The activities that a macaroon allows, if all its caveats are understood.
fn activities_of(macaroon: &Macaroon) -> Option<Activities> {
    let grant = Grant::from_caveats(&macaroon.read_caveats().ok()?).ok()?;
    let scopes = grant.scopes.iter();
    Some(scopes.fold(Activities::NONE, |all, scope| all.union(scope.activities)))
}

/// Paths where a macaroon allows less than its activities say.
fn exceptions_of(macaroon: &Macaroon) -> Option<Vec<Exception>> {
    Some(Grant::from_caveats(&macaroon.read_caveats().ok()?).ok()?.except)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{Command, CommandLine, TokenAction};
    use clap::Parser as _;
    use credentials::MacaroonKey;

    fn options(line: &str) -> MacaroonOptions {
        let words = ["crossload", "token", "macaroon", "https://a/data"];
        let words = words.into_iter().chain(line.split_whitespace());
        match CommandLine::try_parse_from(words).unwrap().command {
            Command::Token(TokenAction::Macaroon(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    fn fitted(caveats: &[&str], line: &str) -> Vec<String> {
        let key = MacaroonKey::new(b"k");
        let given = Macaroon::mint(&key, "se", "id", caveats.iter().copied()).unwrap();
        let options = options(line);
        let fitted = fit(
            &given.to_text(),
            &options,
            options.lifetime.as_secs(),
            Caveat::Before(60),
        )
        .unwrap();
        let macaroon = Macaroon::parse(fitted.expose()).unwrap();
        macaroon.verify(&key).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_server_gave_is_narrowed_to_what_was_asked() {
        assert_eq!(
            fitted(&["activity:LIST"], "--activity LIST,DOWNLOAD"),
            ["activity:LIST"]
        );
        assert_eq!(
            fitted(
                &["activity:LIST,UPLOAD"],
                "--activity list --for 90s --ip 192.0.2.1 --max-upload 1KiB"
            ),
            [
                "activity:LIST,UPLOAD",
                "activity:LIST",
                "ip:192.0.2.1",
                "max-upload:1024",
                "before:1970-01-01T00:01:00Z"
            ]
        );
        assert_eq!(fitted(&["activity:STAGE"], "--activity stage"), ["activity:STAGE"]);
    }

    #[test]
    fn the_path_takes_the_place_of_that_of_the_url() {
        let located = |options: &MacaroonOptions| location(Place::parse(&options.url).unwrap(), options);
        let url = |line: &str| located(&options(line)).unwrap().to_string();
        assert_eq!(url("--activity LIST"), "https://a/data");
        assert_eq!(url("--activity LIST --path /b"), "https://a/b");
        let mut root = options("--activity LIST");
        root.url = "root://a//b".to_owned();
        assert_eq!(located(&root).unwrap_err().exit_code, ErrorCode::BadUrl.exit_code());
    }
}
