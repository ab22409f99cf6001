//! `crossload smoke`: tests an endpoint with every request that a transfer needs.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use credentials::discovery::trust_directory;
use futures_util::StreamExt as _;
use futures_util::stream;
use history::{EndpointSeen, Instrument, Run};
use probe::mesh::{CredentialKind, Endpoint};
use probe::{Credential, Failure as Fault, Kind, Options, Outcome, Probe, Smoke, Tally, Trust, smoke_cells};
use remote::Access;
use types::{Error, ErrorCode, Location, Phase, Side};

use super::INTERRUPTED;
use super::mesh::endpoints::{self, certificate_file, token_file, without};
use super::place::{Place, without_query};
use super::session::ClientContext;
use super::signals::end_asked;
use crate::command_line::{Common, ReportOptions, SmokeOptions};
use crate::failure::Failure;
use crate::reporting::{self, Page, Printed};
use crate::{output, stored_runs};

/// Endpoints of a list that are probed at the same time.
const ENDPOINTS_AT_ONCE: usize = 8;
/// Time limit of the clean-up after an interruption.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// An endpoint to be probed.
struct Target {
    seen: EndpointSeen,
    smoke: Smoke<'static>,
}

/// What an endpoint is probed with.
struct Probed {
    seen: EndpointSeen,
    places: Vec<Location>,
    has_checksums: bool,
    at_hand: Vec<Credential>,
    missing: Vec<(Kind, String)>,
}

/// Runs the probes. The exit code is 0 if all passed, 1 if one failed, 2 if one was skipped and
/// that is not allowed.
///
/// # Errors
/// An unusable URL, an unreadable credential, an output that cannot be used, or an interruption,
/// after cleaning up.
pub(crate) fn run(options: &SmokeOptions) -> Result<u8, Failure> {
    let runtime = execution::worker_runtime().map_err(|cause| Failure::system("cannot start threads", &cause))?;
    match runtime.block_on(probe(options))? {
        Tally::SKIPPED if options.allow_skipped => Ok(0),
        code => Ok(code),
    }
}

async fn probe(options: &SmokeOptions) -> Result<u8, Failure> {
    let reports = reports(options)?;
    let used = [options.list.as_deref(), options.common.log_file.as_deref()];
    reporting::try_outputs(&reports, options.results.save.as_deref(), &used)?;
    let session = ClientContext::open(&options.common)?;
    let (title, targets) = match &options.list {
        Some(file) => listed(&session, options, file).await?,
        None => single(&session, options).await?,
    };
    let page = Page::open(&reports, None).await?;
    super::end_at_second_interrupt(INTERRUPTED).map_err(|cause| Failure::system("cannot receive signals", &cause))?;
    // The end is counted from the begin, whatever happens to the clock.
    let (started_ms, started) = (now_ms(), Instant::now());
    let running = stream::iter(&targets).for_each_concurrent(ENDPOINTS_AT_ONCE, |target| target.smoke.run());
    let interrupted = tokio::select! {
        () = running => None,
        () = end_asked() => Some("interrupted"),
        () = super::wait(options.common.timeout) => Some("stopped by --timeout"),
    };
    let cleaning = stream::iter(&targets).for_each_concurrent(ENDPOINTS_AT_ONCE, |target| target.smoke.clean_up());
    if tokio::time::timeout(CLEAN_UP_TIMEOUT, cleaning).await.is_err() {
        output::complain("clean-up timed out: files named smoke-test-… may be left behind");
    }
    let probes: Vec<Probe> = targets.iter().flat_map(|target| target.smoke.probes()).collect();
    let tally = Tally::of(&probes);
    match options.common.json {
        true => output::json(&tally.to_json()),
        false => output::line(&format!("\n{tally}")),
    }
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let results = results(title, started_ms, took_ms, interrupted, targets);
    conclude(options, &reports, page.as_ref(), &results).await?;
    match interrupted {
        Some(why) => Err(Failure {
            words: format!("{INTERRUPTED} (Interrupted system call) - {why}; the test files were removed"),
            advice: None,
            code: None,
            exit_code: INTERRUPTED,
        }),
        None => {
            if let Some(page) = page {
                page.serve_until_interrupted().await?;
            }
            Ok(tally.exit_code())
        }
    }
}

/// The options about reports; a daily run is kept.
fn reports(options: &SmokeOptions) -> Result<ReportOptions, Failure> {
    let mut reports = options.results.reports.clone();
    if options.daily {
        reports.history = Some(stored_runs::file(reports.history.as_deref())?);
    }
    Ok(reports)
}

/// The endpoint whose URLs the command has.
async fn single(session: &ClientContext, options: &SmokeOptions) -> Result<(String, Vec<Target>), Failure> {
    let places = places(session, &options.places).await?;
    let (at_hand, missing) = credentials(session, &places);
    let name = places.first().map(Location::authority).unwrap_or_default();
    let title = options.places.first().map(|text| without_query(text).to_owned());
    let seen = EndpointSeen {
        name,
        ..EndpointSeen::default()
    };
    let probed = Probed {
        seen,
        places,
        has_checksums: true,
        at_hand,
        missing,
    };
    let target = target(session, options, probed).await?;
    Ok((title.unwrap_or_default(), vec![target]))
}

/// The endpoints of a file. Those in downtime are not probed.
async fn listed(
    session: &ClientContext,
    options: &SmokeOptions,
    path: &Path,
) -> Result<(String, Vec<Target>), Failure> {
    let file = endpoints::read(path)?;
    let mut targets = Vec::new();
    for endpoint in endpoints::endpoints(session, &file, path).await? {
        let seen = endpoint.seen(now_ms());
        let places = match seen.downtime {
            Some(_) => Vec::new(),
            None => endpoint.places.iter().map(|place| place.location.clone()).collect(),
        };
        let (at_hand, missing) = endpoint_credentials(session, &endpoint);
        let probed = Probed {
            seen,
            places,
            has_checksums: endpoint.has_checksums,
            at_hand,
            missing,
        };
        targets.push(target(session, options, probed).await?);
    }
    Ok((file.mesh.title, targets))
}

async fn target(session: &ClientContext, options: &SmokeOptions, probed: Probed) -> Result<Target, Failure> {
    let Probed {
        seen,
        places,
        has_checksums,
        at_hand,
        missing,
    } = probed;
    let kinds = Some(options.credential_kinds.clone()).filter(|kinds| !kinds.is_empty());
    let wanted = Options {
        places,
        pull: self::places(session, &options.pull).await?,
        push: self::places(session, &options.push).await?,
        kinds,
        has_checksums,
        size_bytes: options.size,
        trust: trust(&options.common),
    };
    let as_json = options.common.json;
    // Of many endpoints, what went well is no news.
    let name = options.list.as_ref().map(|_| seen.name.clone());
    let shows_all = name.is_none() || options.common.verbose > 0;
    let show = move |probe: &Probe| {
        if as_json || shows_all || !matches!(probe.outcome, Outcome::Passed) {
            show(probe, name.as_deref(), as_json);
        }
    };
    let mark = mark(&seen.name);
    Ok(Target {
        smoke: Smoke::new(wanted, at_hand, missing, &mark, show),
        seen,
    })
}

/// The results as a run of the history; `ended_by`: why it ended early.
fn results(title: String, started_ms: u64, took_ms: u64, ended_by: Option<&str>, targets: Vec<Target>) -> Run {
    let cells = targets
        .iter()
        .flat_map(|target| smoke_cells(&target.seen.name, &target.smoke.probes(), started_ms));
    Run {
        instrument: Instrument::Smoke,
        title,
        started_ms,
        ended_ms: started_ms.saturating_add(took_ms),
        program: concat!("crossload ", env!("CARGO_PKG_VERSION")).to_owned(),
        is_complete: ended_by.is_none(),
        ended_by: ended_by.map(str::to_owned),
        cells: cells.collect(),
        endpoints: targets
            .into_iter()
            .map(|target| EndpointSeen {
                software: target.smoke.software(),
                ..target.seen
            })
            .collect(),
        figures: Vec::new(),
    }
}

/// Reports the results everywhere that the options name.
///
/// # Errors
/// The first of what failed; the others are printed.
async fn conclude(
    options: &SmokeOptions,
    reports: &ReportOptions,
    page: Option<&Page>,
    results: &Run,
) -> Result<(), Failure> {
    let saved = options
        .results
        .save
        .as_deref()
        .map(|file| reporting::save(results, file));
    let printed = match options.daily && !options.common.json {
        true => Printed::Digest,
        false => Printed::Nothing,
    };
    let told = reporting::deliver(results, reports, printed, options.common.json).await;
    if let Some(page) = page {
        page.show(results);
    }
    reporting::first_of(saved.into_iter().chain([told]).filter_map(Result::err).collect())
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

async fn places(session: &ClientContext, texts: &[String]) -> Result<Vec<Location>, Failure> {
    let mut places = Vec::new();
    for text in texts {
        let Place::Remote(location) = session.place(text).await? else {
            let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_subject(text);
            let words = "smoke takes http, https, dav, davs, root, roots, s3 and s3s URLs";
            return Err(error.with_detail(words).into());
        };
        places.push(location);
    }
    Ok(places)
}

/// The available credentials, each on its own, and the reasons for the missing ones: those for the
/// first place, and the access key for the first one of S3.
fn credentials(session: &ClientContext, places: &[Location]) -> (Vec<Credential>, Vec<(Kind, String)>) {
    let other = places.iter().find(|place| !place.is_s3());
    let place = other.or(places.first());
    let mut access = session.access(place, None);
    let (token, identity, _) = (access.bearer.take(), access.identity.take(), access.account.take());
    let with = |kind: Kind, access: Access| Credential {
        kind,
        client: session.client.clone(),
        access,
        file: None,
    };
    let mut found = vec![with(Kind::Anonymous, access.clone())];
    let mut missing = Vec::new();
    match token {
        Some(token) => {
            let bearer = Some(token);
            let access = access.clone();
            let file = place.and_then(|place| session.token_file(place));
            found.push(Credential {
                file: file.as_deref().map(token_file),
                ..with(Kind::Token, Access { bearer, ..access })
            });
        }
        None => missing.push((
            Kind::Token,
            "no token: give --token-file, or set BEARER_TOKEN".to_owned(),
        )),
    }
    match identity {
        Some(identity) => {
            let identity = Some(identity);
            let files = place.and_then(|place| session.certificate_files(place));
            found.push(Credential {
                file: files.map(|found| certificate_file(&found.certificate, &found.key)),
                ..with(Kind::Proxy, Access { identity, ..access })
            });
        }
        None => missing.push((Kind::Proxy, "no proxy: give --proxy, or set X509_USER_PROXY".to_owned())),
    }
    let s3 = places.iter().find(|place| place.is_s3());
    match s3.map(|place| session.access(Some(place), None)) {
        Some(access) if access.account.is_some() => {
            let (bearer, identity) = (None, None);
            found.push(with(
                Kind::Keys,
                Access {
                    bearer,
                    identity,
                    ..access
                },
            ));
        }
        Some(_) => missing.push((
            Kind::Keys,
            "no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name the storage a remote".to_owned(),
        )),
        None => {}
    }
    (found, missing)
}

/// The credentials that a file of endpoints has for an endpoint.
fn endpoint_credentials(session: &ClientContext, endpoint: &Endpoint) -> (Vec<Credential>, Vec<(Kind, String)>) {
    let kind = |kind: CredentialKind, place: &Location| match kind {
        CredentialKind::X509 => Kind::Proxy,
        CredentialKind::Token => Kind::Token,
        CredentialKind::Keys if place.is_s3() => Kind::Keys,
        CredentialKind::Keys | CredentialKind::Anonymous => Kind::Anonymous,
    };
    let (mut found, mut missing): (Vec<Credential>, Vec<(Kind, String)>) = Default::default();
    for place in &endpoint.places {
        for credential in &place.credentials {
            let kind = kind(credential.kind, &place.location);
            if found.iter().all(|known| known.kind != kind) {
                found.push(Credential {
                    kind,
                    client: session.client.clone(),
                    access: credential.access.clone(),
                    file: credential.file.clone(),
                });
            }
        }
        for (lacking, why) in &place.missing {
            missing.push((kind(*lacking, &place.location), why.clone()));
        }
    }
    if found.iter().all(|known| known.kind != Kind::Anonymous) {
        let access = found.first().map(|one| without(one.access.clone()));
        found.insert(
            0,
            Credential {
                kind: Kind::Anonymous,
                client: session.client.clone(),
                access: access.unwrap_or_default(),
                file: None,
            },
        );
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
        files: access.cacert.iter().map(|file| text(file.path())).collect(),
        directory: directory.as_deref().map(text),
        insecure: access.insecure,
    }
}

/// A name component that is unique to this test of an endpoint.
fn mark(endpoint: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric();
    let endpoint: String = endpoint.chars().filter(is_plain).collect();
    format!("{:x}-{}-{endpoint}", crate::token::now_s(), std::process::id())
}

/// Prints a probe; `endpoint`: with this name, where there are several.
fn show(probe: &Probe, endpoint: Option<&str>, as_json: bool) {
    if as_json {
        let mut line = probe.to_json();
        if let Some(endpoint) = endpoint {
            line["endpoint"] = endpoint.into();
        }
        return output::json(&line);
    }
    let address = probe
        .address
        .map_or_else(|| "-".to_owned(), |address| address.to_string());
    let word = match &probe.outcome {
        Outcome::Passed => "ok",
        Outcome::Failed(_) => "FAILED",
        Outcome::Skipped(_) => "skipped",
    };
    let endpoint = endpoint.map_or_else(String::new, |name| format!("{name}: "));
    output::line(&format!(
        "{endpoint}{word:8} {:6} {address:16} {:10} {:40} {:>7} ms",
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
    let words = reports::words::server_said(failure.server_status, failure.server_words.as_deref());
    if let Some(words) = words {
        output::line(&format!("         {words}"));
    }
    for line in &failure.reproduce {
        output::line(&format!("         $ {line}"));
    }
}
