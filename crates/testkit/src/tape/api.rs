//! What the storage answers. Source of the API: its reference (wlcg-storage/wlcg-tape-rest-api).

use serde_json::{Value, json};

use super::server::{Answer, Asked};
use super::{Kept, Recall, Shared, State, TapeCall};

const WELL_KNOWN: &str = "/.well-known/wlcg-tape-rest-api";
const ENDPOINT: &str = "/api/v1/tape";
const JSON: &str = "application/json";
/// The directory of all files.
const DIRECTORY: &str = "/data";

pub(super) fn answer(shared: &Shared, asked: Asked) -> Answer {
    let mut state = shared.state();
    if asked.path == WELL_KNOWN {
        let uri = format!("https://localhost:{}{ENDPOINT}/", shared.address.port());
        let document = json!({"sitename": "test", "endpoints": [{"uri": uri, "version": "v1", "metadata": {}}]});
        return Answer::new(200, JSON, document.to_string());
    }
    let below = asked.path.strip_prefix(ENDPOINT).map(str::to_owned);
    match below {
        Some(below) => api(&mut state, &below, &asked),
        None => file(&mut state, asked),
    }
}

fn file(state: &mut State, asked: Asked) -> Answer {
    let kept = state.files.get(&asked.path);
    match (asked.method.as_str(), kept) {
        ("PUT", None) => {
            let kept = Kept {
                content: asked.body,
                is_on_disk: true,
                ..Kept::default()
            };
            state.files.insert(asked.path, kept);
            Answer::new(201, "text/plain", "")
        }
        ("PUT", Some(_)) => problem(409, "it exists"),
        ("HEAD", Some(kept)) => Answer {
            length: Some(kept.content.len()),
            ..Answer::new(200, "application/octet-stream", "")
        },
        ("GET", Some(kept)) if kept.is_on_disk => Answer::new(200, "application/octet-stream", kept.content.clone()),
        ("GET", Some(_)) => problem(403, "the file is not on disk"),
        ("HEAD", None) if asked.path == DIRECTORY => Answer::new(200, "text/html", ""),
        ("GET" | "HEAD", None) => problem(404, "no such file"),
        _ => problem(405, "no such method"),
    }
}

fn api(state: &mut State, below: &str, asked: &Asked) -> Answer {
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    state.calls.push(TapeCall {
        what: format!("{} {below}", asked.method),
        body: body.clone(),
        bearer: asked.bearer.clone(),
    });
    if let Some(status) = state.refusal {
        return problem(status, "refused by the test");
    }
    let document: Value = serde_json::from_str(&body).unwrap_or_default();
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("POST", ["stage"]) => stage(state, &document),
        ("GET", ["stage", id]) => status(state, id),
        ("DELETE", ["stage", id]) => match state.recalls.remove(*id) {
            Some(_) => Answer::new(200, JSON, ""),
            None => problem(404, "no such request"),
        },
        ("POST", ["stage", id, "cancel"]) => cancel(state, id, &texts(&document["paths"])),
        // Who did not ask may release as well.
        ("POST", ["release", _]) => {
            for path in texts(&document["paths"]) {
                if let Some(kept) = state.files.get_mut(&path).filter(|kept| kept.is_on_tape) {
                    kept.is_on_disk = false;
                }
            }
            Answer::new(200, JSON, "")
        }
        ("POST", ["archiveinfo"]) => {
            let places = texts(&document["paths"]).into_iter().map(|path| place(state, path));
            Answer::new(200, JSON, Value::from(places.collect::<Vec<_>>()).to_string())
        }
        _ => problem(404, "no such operation"),
    }
}

fn stage(state: &mut State, document: &Value) -> Answer {
    let files = document["files"].as_array().cloned().unwrap_or_default();
    let paths: Vec<String> = files
        .iter()
        .filter_map(|file| file["path"].as_str().map(str::to_owned))
        .collect();
    if paths.is_empty() || paths.len() != files.len() || paths.iter().any(|path| path.contains("malformed")) {
        return problem(400, "a file has no good path");
    }
    let id = format!("request-{}", state.recalls.len() + 1);
    for path in paths.iter().filter(|_| state.is_fast) {
        if let Some(kept) = state.files.get_mut(path).filter(|kept| kept.fault.is_none()) {
            kept.is_on_disk = true;
        }
    }
    state.recalls.insert(
        id.clone(),
        Recall {
            paths,
            canceled: Vec::new(),
        },
    );
    Answer {
        location: Some(format!("{ENDPOINT}/stage/{id}")),
        ..Answer::new(201, JSON, json!({"requestId": id}).to_string())
    }
}

fn status(state: &State, id: &str) -> Answer {
    let Some(recall) = state.recalls.get(id) else {
        return problem(404, "no such request");
    };
    let files = recall.paths.iter().map(|path| match state.files.get(path) {
        _ if recall.canceled.contains(path) => json!({"path": path, "state": "CANCELLED"}),
        None => json!({"path": path, "state": "FAILED", "error": "no such file"}),
        Some(Kept { fault: Some(words), .. }) => json!({"path": path, "state": "FAILED", "error": words}),
        Some(kept) if kept.is_on_disk => json!({"path": path, "state": "COMPLETED", "finishedAt": 1}),
        Some(_) => json!({"path": path, "state": "STARTED", "startedAt": 1}),
    });
    let files: Vec<Value> = files.collect();
    Answer::new(
        200,
        JSON,
        json!({"id": id, "createdAt": 1, "startedAt": 1, "files": files}).to_string(),
    )
}

fn cancel(state: &mut State, id: &str, paths: &[String]) -> Answer {
    let Some(recall) = state.recalls.get_mut(id) else {
        return problem(404, "no such request");
    };
    if !paths.iter().all(|path| recall.paths.contains(path)) {
        return problem(400, "a path is not in the request");
    }
    recall.canceled.extend_from_slice(paths);
    Answer::new(200, JSON, "")
}

fn place(state: &State, path: String) -> Value {
    let locality = match state.files.get(&path) {
        None => return json!({"path": path, "error": "no such file"}),
        Some(kept) => match (kept.is_on_disk, kept.is_on_tape) {
            (true, true) => "DISK_AND_TAPE",
            (true, false) => "DISK",
            (false, true) => "TAPE",
            (false, false) => "NONE",
        },
    };
    json!({"path": path, "locality": locality})
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

fn problem(status: u16, title: &str) -> Answer {
    Answer::new(
        status,
        "application/problem+json",
        json!({"title": title, "status": status}).to_string(),
    )
}
