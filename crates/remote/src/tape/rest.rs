//! The requests of the WLCG Tape REST API, version 1.

use types::{Error, ErrorCode, Location, PeerStatus, Phase, Result, Secret};

use super::wire::{self, Announced, Parsed};
use super::{ArchiveState, StageState, ToStage};
use crate::client::Client;
use crate::limits::{TAPE_ANSWER_BYTES_MAX, TAPE_DISCOVERY_BYTES_MAX};
use crate::resource::Resource;
use crate::service::{ServiceAnswer, ServiceCall, ServiceMethod};

/// Where a storage announces its tape system.
const WELL_KNOWN: &str = "/.well-known/wlcg-tape-rest-api";
const JSON: &str = "application/json";

/// The endpoint that a storage announces; `None` if it announces none.
pub(super) async fn discover(client: &Client, place: &Resource) -> Result<Option<Announced>> {
    let mut asked = at(place, place.location.with_path(WELL_KNOWN));
    // Announcements are for everybody.
    asked.access.bearer = None;
    let answer = call(client, &asked, ServiceMethod::Get, "", TAPE_DISCOVERY_BYTES_MAX).await?;
    if matches!(answer.status, 403 | 404 | 405 | 410 | 501) {
        return Ok(None);
    }
    let answer = success(client, &asked, answer)?;
    let found = understood(&asked, &answer, wire::announced(answer.body.expose()))?;
    if !found.uri.is_http() || place.location.is_encrypted() && !found.uri.is_encrypted() {
        let words = format!("its tape system is at {}, which is less safe", found.uri);
        return Err(misbehaved(&asked, &answer).with_detail(words));
    }
    Ok(Some(found))
}

pub(super) async fn stage(
    client: &Client,
    system: &Announced,
    place: &Resource,
    files: &[ToStage<'_>],
) -> Result<String> {
    let body = wire::stage_body(files, &system.site);
    let (asked, answer) = post(client, system, place, "/stage", &body).await?;
    let id = wire::request_id(answer.body.expose(), answer.location.as_deref());
    understood(&asked, &answer, id)
}

pub(super) async fn stage_states(
    client: &Client,
    system: &Announced,
    place: &Resource,
    request: &str,
    paths: &[String],
) -> Result<Vec<StageState>> {
    let asked = at(place, below(system, &format!("/stage/{request}")));
    let answer = call(client, &asked, ServiceMethod::Get, "", TAPE_ANSWER_BYTES_MAX).await?;
    let answer = success(client, &asked, answer)?;
    let states = wire::stage_states(answer.body.expose(), paths);
    understood(&asked, &answer, states)
}

pub(super) async fn cancel(
    client: &Client,
    system: &Announced,
    place: &Resource,
    request: &str,
    paths: &[String],
) -> Result<()> {
    let target = format!("/stage/{request}/cancel");
    post(client, system, place, &target, &wire::paths_body(paths)).await?;
    Ok(())
}

pub(super) async fn release(
    client: &Client,
    system: &Announced,
    place: &Resource,
    request: &str,
    paths: &[String],
) -> Result<()> {
    let target = format!("/release/{request}");
    post(client, system, place, &target, &wire::paths_body(paths)).await?;
    Ok(())
}

pub(super) async fn archive_states(
    client: &Client,
    system: &Announced,
    place: &Resource,
    paths: &[String],
) -> Result<Vec<ArchiveState>> {
    let body = wire::paths_body(paths);
    let (asked, answer) = post(client, system, place, "/archiveinfo", &body).await?;
    let states = wire::archive_states(answer.body.expose(), paths);
    understood(&asked, &answer, states)
}

/// The credentials for a file go to its storage's tape system, too: the storage has named it.
fn at(place: &Resource, location: Location) -> Resource {
    Resource {
        location,
        ..place.clone()
    }
}

fn below(system: &Announced, target: &str) -> Location {
    system.uri.with_path(&format!("{}{target}", system.uri.path()))
}

async fn post(
    client: &Client,
    system: &Announced,
    place: &Resource,
    target: &str,
    body: &str,
) -> Result<(Resource, ServiceAnswer)> {
    let asked = at(place, below(system, target));
    let answer = call(client, &asked, ServiceMethod::Post, body, TAPE_ANSWER_BYTES_MAX).await?;
    let answer = success(client, &asked, answer)?;
    Ok((asked, answer))
}

async fn call(
    client: &Client,
    asked: &Resource,
    method: ServiceMethod,
    body: &str,
    answer_bytes_max: usize,
) -> Result<ServiceAnswer> {
    let call = ServiceCall {
        method,
        content_type: JSON,
        body: &Secret::new(body),
        login: None,
        webhook: None,
        answer_bytes_max,
    };
    let answer = client.call(asked, &call).await;
    answer.map_err(|error| error.in_phase(Phase::Staging))
}

fn success(client: &Client, asked: &Resource, mut answer: ServiceAnswer) -> Result<ServiceAnswer> {
    if answer.is_success() {
        return Ok(answer);
    }
    answer.body = Secret::new(wire::problem_words(answer.body.expose()));
    Err(client.refusal_of(asked, &answer).in_phase(Phase::Staging))
}

fn understood<T>(asked: &Resource, answer: &ServiceAnswer, parsed: Parsed<T>) -> Result<T> {
    parsed.map_err(|why| misbehaved(asked, answer).with_detail(why))
}

fn misbehaved(asked: &Resource, answer: &ServiceAnswer) -> Error {
    let error = asked.error(ErrorCode::PeerMisbehaved, Phase::Staging);
    error.with_peer(Some(PeerStatus::Http(answer.status)), "")
}
