//! The door and its pages.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use endpoint::ids::is_traced_id;
use endpoint::{Refusals, RequestLog};
use http_server::Server;
use http_server::control::{ControlDoor, shares};
use serde_json::json;

use crate::limits::{ADMIN_BODY_BYTES_MAX, ADMIN_CONNECTIONS_MAX};
use crate::metrics::Metrics;
use crate::part::Part;
use crate::plain::plain;
use crate::ready::{Check, Export, check_certificate, check_export, check_reload};
use crate::state::{Reload, State as Now, Trust};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What readers of OpenMetrics accept.
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text";
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
/// Lines of JSON (<https://github.com/ndjson/ndjson-spec>).
const JSON_LINES: &str = "application/x-ndjson";
const NO_ID: &str = "an identifier has 8 to 64 hexadecimal digits and hyphens";
const FORGOTTEN: &str = "no refusal with this request ID is known; the server keeps only the latest";

/// Finds the lines of the log that name an identifier.
pub type LinesAbout = dyn Fn(&str) -> Vec<u8> + Send + Sync;

/// What the admin door reports on.
pub struct Admin {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Why requests were refused.
    pub refusals: Refusals,
    /// The exports as they are now.
    pub exports: Box<dyn Fn() -> Vec<Export> + Send + Sync>,
    /// When the certificate in use expires, in seconds since 1970; `None` without one.
    pub certificate_expiry_s: Box<dyn Fn() -> Option<i64> + Send + Sync>,
    /// How reloads went; `None` for a process that never reloads.
    pub reload: Box<dyn Fn() -> Option<Reload> + Send + Sync>,
    /// The authorities for certificates of clients; `None` if none are accepted.
    pub trust: Box<dyn Fn() -> Option<Trust> + Send + Sync>,
    /// Log lines dropped since the start.
    pub log_lines_dropped: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The last lines of the log that name an identifier, each a JSON object.
    pub log_lines_about: Box<LinesAbout>,
    /// Sets the metrics that are not counted, before they are shown.
    pub refresh: Box<dyn Fn() + Send + Sync>,
    /// Tasks of the server that have not ended.
    pub tasks: Box<dyn Fn() -> usize + Send + Sync>,
    /// Whether the server is stopping: then it is no longer ready.
    pub stopping: Box<dyn Fn() -> bool + Send + Sync>,
    /// A part with figures and checks of its own.
    pub part: Option<Arc<dyn Part>>,
}

impl Admin {
    /// Looks at everything that the server needs to do its work.
    pub async fn checks(&self) -> Vec<Check> {
        let now_s = endpoint::clock::now_s();
        let seconds_left = (self.certificate_expiry_s)().map(|end_s| end_s - now_s);
        let mut checks = vec![check_certificate(seconds_left)];
        for export in (self.exports)() {
            checks.push(check_export(&export).await);
        }
        if let Some(part) = &self.part {
            checks.extend(part.checks().await);
        }
        if (self.stopping)() {
            checks.push(Check {
                name: "server".to_owned(),
                ok: false,
                needed: true,
                says: "It is stopping.".to_owned(),
            });
        }
        // The old configuration stays in use, so this alone does not make the server unready.
        checks.push(check_reload((self.reload)().and_then(|reload| reload.fault)));
        checks
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Admin")
    }
}

/// The door at this address: in clear text, within the limits of [`crate::limits`]. `log` gets a
/// record of each request.
#[must_use]
pub fn door(address: IpAddr, admin: Arc<Admin>, server_name: String, log: Arc<dyn RequestLog>) -> ControlDoor {
    let server = Server {
        fair_share: shares(ADMIN_CONNECTIONS_MAX),
        ..Server::new(server_name, log)
    };
    ControlDoor::at(address, server, pages(admin), ADMIN_BODY_BYTES_MAX)
}

fn pages(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/explain/{id}", get(explain))
        .route("/explain/{id}/json", get(explain_json))
        .route("/trace/{id}", get(trace))
        .with_state(admin)
}

async fn metrics(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    (admin.refresh)();
    let mut text = admin.metrics.text();
    text.push_str(&now(&admin).await.text());
    if let Some(part) = &admin.part {
        text.push_str(&part.metrics().await);
    }
    let mut accepted = headers.get_all(header::ACCEPT).iter();
    let is_open = accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(OPEN_METRICS_TYPE)));
    let (kind, text) = match is_open {
        true => (OPEN_METRICS, text + "# EOF\n"),
        false => (PLAIN_METRICS, plain(&text)),
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn now(admin: &Admin) -> Now {
    // Two exports may show the same files; their quotas are reported once.
    let (mut spaces, mut quotas) = (Vec::new(), Vec::new());
    for export in (admin.exports)() {
        if let Ok(space) = export.store.space().await {
            spaces.push((export.path.clone(), space));
        }
        quotas.extend(export.store.usage());
    }
    Now {
        spaces,
        quotas,
        certificate_expiry_s: (admin.certificate_expiry_s)(),
        reload: (admin.reload)(),
        trust: (admin.trust)(),
        process: crate::process::usage(),
        tasks: (admin.tasks)(),
        log_lines_dropped: (admin.log_lines_dropped)(),
    }
}

/// Alive: this task is being run.
async fn health() -> Response {
    ([(header::CONTENT_TYPE, JSON)], json!({"alive": true}).to_string()).into_response()
}

/// Why a request was refused, in words.
async fn explain(State(admin): State<Arc<Admin>>, Path(id): Path<String>) -> Response {
    let found = admin.refusals.find(&id);
    if found.is_empty() {
        return (StatusCode::NOT_FOUND, format!("{FORGOTTEN}\n")).into_response();
    }
    let texts: Vec<String> = found.iter().map(|explanation| format!("{explanation}\n")).collect();
    texts.join("\n").into_response()
}

/// The same for programs: a list, one object for each thing that was refused in the request.
async fn explain_json(State(admin): State<Arc<Admin>>, Path(id): Path<String>) -> Response {
    let found = admin.refusals.find(&id);
    let (status, body) = match found.is_empty() {
        true => (StatusCode::NOT_FOUND, json!({"error": FORGOTTEN})),
        false => {
            let list: Vec<_> = found.iter().map(AsRef::as_ref).collect();
            (StatusCode::OK, json!(list))
        }
    };
    (status, [(header::CONTENT_TYPE, JSON)], format!("{body}\n")).into_response()
}

/// What the log says of a transfer, request or trace: its lines, as long as they are remembered.
/// No line is an answer, too: 404 is left to servers without this page.
async fn trace(State(admin): State<Arc<Admin>>, Path(id): Path<String>) -> Response {
    if !is_traced_id(&id) {
        return (StatusCode::BAD_REQUEST, format!("{NO_ID}\n")).into_response();
    }
    let lines = (admin.log_lines_about)(&id);
    ([(header::CONTENT_TYPE, JSON_LINES)], lines).into_response()
}

async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    let checks = admin.checks().await;
    let all = checks.iter().all(|check| check.ok || !check.needed);
    let list: Vec<_> = checks
        .iter()
        .map(|check| json!({"name": check.name, "ok": check.ok, "says": check.says}))
        .collect();
    let status = if all {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({"ready": all, "checks": list}).to_string();
    (status, [(header::CONTENT_TYPE, JSON)], body).into_response()
}
