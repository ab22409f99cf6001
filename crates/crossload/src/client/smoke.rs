//! `crossload smoke`: tests an endpoint with every request that a transfer needs.

use std::path::Path;
use std::time::Duration;

use credentials::discovery::trust_directory;
use probe::{Credential, Failure as Fault, Kind, Options, Outcome, Probe, Smoke, Tally, Trust};
use remote::Access;
use types::{Error, ErrorCode, Location, Phase, Side};

use super::INTERRUPTED;
use super::place::Place;
use super::session::ClientContext;
use crate::command_line::{Common, SmokeOptions};
use crate::failure::Failure;
use crate::output;

/// Time limit of the clean-up after an interruption.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the probes. The exit code is 0 if all passed, 1 if one failed, 2 if one was skipped.
///
/// # Errors
/// An unusable URL, an unreadable credential, or an interruption, after cleaning up.
pub(crate) fn run(options: &SmokeOptions) -> Result<u8, Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    runtime.block_on(probe(options))
}

async fn probe(options: &SmokeOptions) -> Result<u8, Failure> {
    let session = ClientContext::open(&options.common)?;
    let places = places(&session, &options.places).await?;
    let (at_hand, missing) = credentials(&session, places.first());
    let kinds = Some(options.credential_kinds.clone()).filter(|kinds| !kinds.is_empty());
    let wanted = Options {
        places,
        pull: self::places(&session, &options.pull).await?,
        push: self::places(&session, &options.push).await?,
        kinds,
        size_bytes: options.size,
        trust: trust(&options.common),
    };
    let as_json = options.common.json;
    super::end_at_second_interrupt(INTERRUPTED).map_err(|cause| Failure::system("cannot receive signals", &cause))?;
    let smoke = Smoke::new(wanted, at_hand, missing, &mark(), |probe| show(probe, as_json));
    let interrupted = tokio::select! {
        () = smoke.run() => None,
        _ = tokio::signal::ctrl_c() => Some("interrupted"),
        () = super::wait(options.common.timeout) => Some("stopped by --timeout"),
    };
    if tokio::time::timeout(CLEAN_UP_TIMEOUT, smoke.clean_up()).await.is_err() {
        output::complain("clean-up timed out: files named smoke-test-… may be left behind");
    }
    let tally = Tally::of(&smoke.probes());
    match as_json {
        true => output::json(&tally.to_json()),
        false => output::line(&format!("\n{tally}")),
    }
    match interrupted {
        Some(why) => Err(Failure {
            words: format!("{INTERRUPTED} (Interrupted system call) - {why}; the test files were removed"),
            advice: None,
            code: None,
            exit_code: INTERRUPTED,
        }),
        None => Ok(tally.exit_code()),
    }
}

async fn places(session: &ClientContext, texts: &[String]) -> Result<Vec<Location>, Failure> {
    let mut places = Vec::new();
    for text in texts {
        let Place::Remote(location) = session.place(text).await? else {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_subject(text);
            let words = "smoke takes http, https, dav, davs, root and roots URLs";
            return Err(error.with_detail(words).into());
        };
        places.push(location);
    }
    Ok(places)
}

/// The available credentials, each on its own, and the reasons for the missing ones; those for the
/// first place.
fn credentials(session: &ClientContext, first: Option<&Location>) -> (Vec<Credential>, Vec<(Kind, String)>) {
    let mut access = session.access(first, None);
    let (token, identity) = (access.bearer.take(), access.identity.take());
    let with = |kind: Kind, access: Access| Credential {
        kind,
        client: session.client.clone(),
        access,
    };
    let mut found = vec![with(Kind::Anonymous, access.clone())];
    let mut missing = Vec::new();
    match token {
        Some(token) => {
            let bearer = Some(token);
            let access = access.clone();
            found.push(with(Kind::Token, Access { bearer, ..access }));
        }
        None => missing.push((
            Kind::Token,
            "no token: give --token-file, or set BEARER_TOKEN".to_owned(),
        )),
    }
    match identity {
        Some(identity) => {
            let identity = Some(identity);
            found.push(with(Kind::Proxy, Access { identity, ..access }));
        }
        None => missing.push((Kind::Proxy, "no proxy: give --proxy, or set X509_USER_PROXY".to_owned())),
    }
    (found, missing)
}

/// The trust options for the commands that reproduce a failure.
pub(super) fn trust(common: &Common) -> Trust {
    let access = &common.access;
    let variable = |name: &str| std::env::var(name).ok();
    let directory = access
        .capath
        .clone()
        .or_else(|| trust_directory(variable, Path::is_dir));
    let text = |path: &Path| path.display().to_string();
    Trust {
        file: access.cacert.first().map(|file| text(file)),
        directory: directory.as_deref().map(text),
        insecure: access.insecure,
    }
}

/// A name component that is unique to this test.
fn mark() -> String {
    format!("{:x}-{}", crate::token::now_s(), std::process::id())
}

fn show(probe: &Probe, as_json: bool) {
    if as_json {
        return output::json(&probe.to_json());
    }
    let address = probe
        .address
        .map_or_else(|| "-".to_owned(), |address| address.to_string());
    let word = match &probe.outcome {
        Outcome::Passed => "ok",
        Outcome::Failed(_) => "FAILED",
        Outcome::Skipped(_) => "skipped",
    };
    output::line(&format!(
        "{word:8} {:6} {address:16} {:10} {:40} {:>7} ms",
        probe.protocol.name(),
        probe.kind.name(),
        probe.name,
        probe.took.as_millis()
    ));
    match &probe.outcome {
        Outcome::Passed => {}
        Outcome::Skipped(why) => output::line(&format!("         {why}")),
        Outcome::Failed(failure) => explain(failure),
    }
}

fn explain(failure: &Fault) {
    output::line(&format!("         {}: {}", failure.blame.name(), failure.says));
    match (failure.server_status, &failure.server_words) {
        (Some(status), Some(words)) => output::line(&format!("         the server said {status}: \"{words}\"")),
        (Some(status), None) => output::line(&format!("         the server said {status}")),
        (None, Some(words)) => output::line(&format!("         the server said: \"{words}\"")),
        (None, None) => {}
    }
    for line in &failure.reproduce {
        output::line(&format!("         $ {line}"));
    }
}
