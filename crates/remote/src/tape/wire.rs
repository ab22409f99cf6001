//! The documents of the WLCG Tape REST API, version 1, as text.
//!
//! Source: the API's reference (wlcg-storage/wlcg-tape-rest-api), and gfal2's client
//! (`gfal_http_plugin_tape.cpp`), whose reading of the answers servers are made for.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use types::Location;

use super::{ArchiveState, Locality, StageState, ToStage};
use crate::limits::{TAPE_REQUEST_ID_BYTES_MAX, TAPE_VERSION_MAX};

/// Where an answer breaks the rules.
pub(super) type Parsed<T> = Result<T, String>;

/// A tape system's endpoint, as its storage announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// Without a slash at the end.
    pub(super) uri: Location,
    /// The site's name, under which it looks for its part of a file's metadata.
    pub(super) site: String,
}

/// Reads `/.well-known/wlcg-tape-rest-api`: the endpoint with the highest version that we know.
pub(super) fn announced(text: &str) -> Parsed<Announced> {
    let document = object(text)?;
    let site = document.get("sitename").and_then(Value::as_str).unwrap_or_default();
    let endpoints = document.get("endpoints").and_then(Value::as_array);
    let endpoints = endpoints.ok_or("it names no endpoints")?;
    let known = endpoints.iter().filter_map(|endpoint| {
        let version = endpoint.get("version")?.as_str()?.strip_prefix('v')?;
        let number: u32 = version.split('.').next()?.parse().ok()?;
        let uri = endpoint.get("uri")?.as_str()?.trim_end_matches('/');
        (number <= TAPE_VERSION_MAX).then_some((number, uri))
    });
    let newest = known.max_by_key(|(number, _)| *number);
    let (_, uri) = newest.ok_or("it names no endpoint of version v1")?;
    let uri = Location::parse(uri).map_err(|error| error.public())?;
    Ok(Announced {
        uri,
        site: site.to_owned(),
    })
}

/// The body of a request to bring files online.
pub(super) fn stage_body(files: &[ToStage<'_>], site: &str) -> String {
    let files: Vec<Value> = files.iter().map(|file| stage_entry(file, site)).collect();
    json!({ "files": files }).to_string()
}

fn stage_entry(file: &ToStage<'_>, site: &str) -> Value {
    let mut entry = Map::new();
    entry.insert("path".to_owned(), file.path.into());
    if let Some(seconds) = file.pin_s {
        entry.insert("diskLifetime".to_owned(), format!("PT{seconds}S").into());
    }
    if let Some(metadata) = file.metadata {
        // A client may have keyed it by site already; what is for all sites is called `default`.
        let own = metadata
            .get(site)
            .or_else(|| metadata.get("default"))
            .unwrap_or(metadata);
        entry.insert("targetedMetadata".to_owned(), json!({ site: own }));
    }
    Value::Object(entry)
}

/// The body of a request about paths.
pub(super) fn paths_body(paths: &[String]) -> String {
    json!({ "paths": paths }).to_string()
}

/// The name of a new request: in the body, else the end of `Location`.
pub(super) fn request_id(text: &str, location: Option<&str>) -> Parsed<String> {
    let told = object(text).ok().and_then(|document| {
        let id = document.get("requestId")?.as_str()?;
        Some(id.to_owned())
    });
    let placed = || {
        let path = location?.split(['?', '#']).next()?.trim_end_matches('/');
        path.rsplit('/').next().map(str::to_owned)
    };
    let id = told.or_else(placed).unwrap_or_default();
    let is_plain = id
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"/?#%\\".contains(&byte));
    // As a part of a path it would lead elsewhere.
    let is_dots = matches!(&*id, "." | "..");
    match !id.is_empty() && is_plain && !is_dots && id.len() <= TAPE_REQUEST_ID_BYTES_MAX {
        true => Ok(id),
        false => Err("it names no request".to_owned()),
    }
}

/// How far each of these files is, in their order.
pub(super) fn stage_states(text: &str, paths: &[String]) -> Parsed<Vec<StageState>> {
    let document = object(text)?;
    let files = document.get("files").and_then(Value::as_array);
    let told = by_path(files.ok_or("it names no files")?);
    let missing = || StageState::Failed("the answer does not name this file".to_owned());
    let state = |path: &String| told.get(&*plain(path)).map_or_else(missing, |entry| stage_state(entry));
    Ok(paths.iter().map(state).collect())
}

/// `onDisk` and `state` are alternatives; an `error` of null or without text is none.
fn stage_state(entry: &Value) -> StageState {
    let words = entry.get("error").and_then(Value::as_str).unwrap_or_default().trim();
    if entry.get("onDisk") == Some(&Value::Bool(true)) {
        return StageState::OnDisk;
    }
    match entry.get("state").and_then(Value::as_str) {
        Some("COMPLETED") => StageState::OnDisk,
        Some("CANCELLED" | "CANCELED") => StageState::Canceled,
        Some("FAILED") if words.is_empty() => StageState::Failed("it gives no reason".to_owned()),
        Some("FAILED") => StageState::Failed(words.to_owned()),
        _ if !words.is_empty() => StageState::Failed(words.to_owned()),
        Some("STARTED") => StageState::Started,
        None | Some("SUBMITTED") => StageState::Waiting,
        Some(other) => StageState::Failed(format!("its state is \"{other}\"")),
    }
}

/// Where each of these files is, in their order. A long list may be answered in part.
pub(super) fn archive_states(text: &str, paths: &[String]) -> Parsed<Vec<ArchiveState>> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let told = by_path(document.as_array().ok_or("it is no list")?);
    let state = |path: &String| {
        told.get(&*plain(path))
            .map_or(ArchiveState::Unanswered, |entry| archive_state(entry))
    };
    Ok(paths.iter().map(state).collect())
}

fn archive_state(entry: &Value) -> ArchiveState {
    let locality = match entry.get("locality").and_then(Value::as_str) {
        Some("DISK") => Locality::Disk,
        Some("TAPE") => Locality::Tape,
        Some("DISK_AND_TAPE") => Locality::DiskAndTape,
        Some("LOST") => Locality::Lost,
        Some("NONE") => Locality::Nowhere,
        Some("UNAVAILABLE") => Locality::Unavailable,
        Some(other) => return ArchiveState::Refused(format!("its locality is \"{other}\"")),
        None => {
            let words = entry
                .get("error")
                .and_then(Value::as_str)
                .unwrap_or("it gives no locality");
            return ArchiveState::Refused(words.to_owned());
        }
    };
    ArchiveState::At(locality)
}

/// The words of a problem document (RFC 7807); other texts as they are.
pub(super) fn problem_words(text: &str) -> String {
    let Ok(document) = object(text) else {
        return text.to_owned();
    };
    let word = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    match (word("title"), word("detail")) {
        ("", "") => text.to_owned(),
        (title, "") => title.to_owned(),
        ("", detail) => detail.to_owned(),
        (title, detail) => format!("{title}: {detail}"),
    }
}

fn object(text: &str) -> Parsed<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"))
}

fn by_path(entries: &[Value]) -> HashMap<String, &Value> {
    let named = entries.iter().filter_map(|entry| {
        let path = entry.get("path")?.as_str()?;
        Some((plain(path), entry))
    });
    named.collect()
}

/// A path with single slashes: servers may merge them.
fn plain(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests;
