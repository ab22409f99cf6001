//! Answers to "why", as JSON.

use catalog::{Catalog, FileRecord, Hop, HopPart};
use queue::{Capabilities, Operation, Part, Service};
use schedule::{FileId, FileState};
use serde_json::{Value, json};
use transfer::route::Evidence;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use crate::dates::instant;
use crate::token::now_s;

pub(super) async fn file(service: &Service, id: FileId) -> Result<Option<Value>> {
    service.why_file(id).await?.map(as_json).transpose()
}

/// Why a link stands still, with what is known of both of its storages; `None` if there is nothing
/// to say.
pub(super) async fn link(
    service: &Service,
    known: &Capabilities,
    source: &str,
    destination: &str,
) -> Result<Option<Value>> {
    let (source, destination) = (&with_port(source), &with_port(destination));
    let why = service.why_link(source, destination).await?;
    let has_shown = |storage| !known.of(storage).is_empty();
    if why.is_idle() && !has_shown(source) && !has_shown(destination) {
        return Ok(None);
    }
    let mut why = as_json(why)?;
    why["capabilities"] = json!({
        "source": capabilities(service, known, source, Operation::Read),
        "destination": capabilities(service, known, destination, Operation::Write),
    });
    Ok(Some(why))
}

/// The name of a storage as links have it: with the port of its scheme, if it has none.
fn with_port(storage: &str) -> String {
    let place = storage.split_once("://");
    let named = place.and_then(|(scheme, _)| Some((scheme, Location::parse(storage).ok()?)));
    named.map_or_else(
        || storage.to_owned(),
        |(scheme, location)| format!("{scheme}://{}:{}", location.host(), location.port()),
    )
}

/// The capabilities of a storage that count on one of its links, with their ages.
fn capabilities(service: &Service, known: &Capabilities, storage: &str, operation: Operation) -> Value {
    let protocol = storage.split("://").next().unwrap_or_default();
    let now_ms = now_s().saturating_mul(1000);
    let found = known
        .of(storage)
        .into_iter()
        .filter(|one| one.cell.operation == operation);
    let shown = found.map(|one| {
        json!({
            "protocol": protocol, "operation": one.cell.operation, "part": one.cell.part,
            "peer": one.cell.peer, "credential": one.cell.credential, "can": one.known.can,
            "evidence": one.known.evidence, "age_ms": now_ms.saturating_sub(one.known.at_ms).max(0),
        })
    });
    let configured = service.role(storage).map(|role| {
        json!({
            "protocol": protocol, "operation": operation, "part": Part::Active, "credential": null,
            "can": operation.is_allowed(role), "evidence": Evidence::Configured, "age_ms": null,
        })
    });
    configured.into_iter().chain(shown).collect()
}

/// What happened to a file: its failed attempts, one line each, and the copy that succeeded.
pub(super) async fn log(catalog: &Catalog, id: FileId) -> Result<Option<String>> {
    let Some(file) = catalog.file(id).await? else {
        return Ok(None);
    };
    let mut text = format!("{} -> {}: {}\n", file.source, file.destination, file.state.fts_name());
    if let Some(hop) = &file.hop {
        text.push_str(&format!("{}\n", hop_words(hop)));
    }
    for attempt in catalog.attempts(id).await? {
        text.push_str(&format!(
            "attempt {} at {}{}: {}\n",
            attempt.number,
            instant(attempt.at_ms),
            by_worker(attempt.worker.as_deref()),
            attempt.problem.reason
        ));
    }
    // Of an attempt whose worker was lost, and what was found of it.
    if let Some(problem) = file
        .problem
        .as_ref()
        .filter(|_| file.is_interrupted && file.way.is_none())
    {
        text.push_str(&format!("note: {}\n", problem.reason));
    }
    if file.state == FileState::Finished {
        text.push_str(&format!("{}\n", copied(&file)));
    }
    Ok(Some(text))
}

fn by_worker(worker: Option<&str>) -> String {
    worker.map_or_else(String::new, |worker| format!(" (worker {worker})"))
}

/// The way of a copy for people; in FTS's messages it has other words.
pub(super) fn way_words(way: &str) -> &str {
    match way {
        "3rd pull" => "pulled by the destination",
        "3rd push" => "pushed by the source",
        "streamed" => "through the queue's machine",
        other => other,
    }
}

/// The copy that succeeded.
fn copied(file: &FileRecord) -> String {
    let bytes = file.size_bytes.unwrap_or(file.moved_bytes);
    let way = file
        .way
        .as_deref()
        .map_or_else(String::new, |way| format!(", {}", way_words(way)));
    let worker = by_worker(file.worker.as_deref());
    match (file.times.started_ms, file.times.finished_ms) {
        (Some(started_ms), Some(finished_ms)) => format!(
            "copied {bytes} bytes from {} to {}{way}{worker}",
            instant(started_ms),
            instant(finished_ms)
        ),
        _ => format!("copied {bytes} bytes{way}{worker}"),
    }
}

/// The way of a file by a hop, for its log.
fn hop_words(hop: &Hop) -> String {
    let what = match hop.part {
        HopPart::Incoming => "on its way to",
        HopPart::Outgoing => "by way of",
        HopPart::GivenUp => "not by way of",
    };
    let [from, to] = hop.link();
    let why = hop.given_up_for.as_ref().map(|why| format!(": {why}"));
    format!(
        "{what} the hop {} ({from} -> {to}){}",
        hop.incoming.url,
        why.unwrap_or_default()
    )
}

pub(super) fn as_json(value: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|cause| Error::new(ErrorCode::Internal, Side::Queue, Phase::Queued).with_private(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_without_a_port_has_that_of_its_scheme() {
        for (name, whole) in [
            ("https://h", "https://h:443"),
            ("davs://h:443", "davs://h:443"),
            ("http://h:8080", "http://h:8080"),
            ("root://[::1]", "root://[::1]:1094"),
            ("gsiftp://h", "gsiftp://h"),
            ("*", "*"),
        ] {
            assert_eq!(with_port(name), whole);
        }
    }
}
