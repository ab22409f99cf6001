//! Answers to "why", as JSON.

use catalog::Catalog;
use queue::Service;
use schedule::FileId;
use serde_json::Value;
use types::{Error, ErrorCode, Phase, Result, Side};

pub(super) async fn file(service: &Service, id: FileId) -> Result<Option<Value>> {
    service.why_file(id).await?.map(as_json).transpose()
}

pub(super) async fn link(service: &Service, source: &str, destination: &str) -> Result<Option<Value>> {
    service.why_link(source, destination).await?.map(as_json).transpose()
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

pub(super) fn as_json(value: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|cause| Error::new(ErrorCode::Internal, Side::Queue, Phase::Queued).with_private(cause))
}
