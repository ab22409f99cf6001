//! Answers to "why", as JSON.

use catalog::Catalog;
use queue::Service;
use schedule::FileId;
use serde_json::{Value, json};
use types::{Error, ErrorCode, Phase, Result, Side};

pub(super) async fn file(service: &Service, id: FileId) -> Result<Option<Value>> {
    service.why_file(id).await?.map(as_json).transpose()
}

pub(super) async fn link(service: &Service, source: &str, destination: &str) -> Result<Option<Value>> {
    let links = service.links().await?;
    let mut these = links
        .iter()
        .filter(|link| link.source == source && link.destination == destination)
        .peekable();
    if these.peek().is_none() {
        return Ok(None);
    }
    let vos: Vec<Value> = these
        .map(|link| {
            json!({
                "vo": link.vo, "active": link.active, "waiting": link.waiting, "delayed": link.delayed,
                "banned": link.banned, "limit": link.limit, "is_paused": link.is_paused,
                "held": link.hold.as_ref().map(|hold| json!({"until_ms": hold.until_ms, "reason": hold.reason})),
            })
        })
        .collect();
    Ok(Some(json!({"source": source, "destination": destination, "vos": vos})))
}

/// The failed attempts of a file, one line each.
pub(super) async fn log(catalog: &Catalog, id: FileId) -> Result<Option<String>> {
    let Some(file) = catalog.file(id).await? else {
        return Ok(None);
    };
    let mut text = format!("{} -> {}: {}\n", file.source, file.destination, file.state.fts_name());
    for attempt in catalog.attempts(id).await? {
        let worker = attempt.worker.unwrap_or_default();
        text.push_str(&format!(
            "attempt {} at {} ms by {worker}: {}\n",
            attempt.number, attempt.at_ms, attempt.problem.reason
        ));
    }
    Ok(Some(text))
}

fn as_json(value: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|cause| Error::new(ErrorCode::Internal, Side::Queue, Phase::Queued).with_private(cause))
}
