//! The listener and its three pages.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

use crate::metrics::Metrics;
use crate::ready::{Check, Export, check_certificate, check_export};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// What the admin door looks at when it is asked.
pub struct Admin {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The exports as they are now.
    pub exports: Box<dyn Fn() -> Vec<Export> + Send + Sync>,
    /// Seconds until the certificate in use expires; `None` without one.
    pub certificate_seconds_left: Box<dyn Fn() -> Option<i64> + Send + Sync>,
    /// Whether the server is stopping: then it is no longer ready.
    pub stopping: Box<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Admin")
    }
}

/// Answers on `listener` until the process ends.
///
/// # Errors
/// When the listener itself fails.
pub async fn serve(listener: TcpListener, admin: Arc<Admin>) -> std::io::Result<()> {
    axum::serve(listener, pages(admin)).await
}

fn pages(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .with_state(admin)
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    for export in (admin.exports)() {
        admin.metrics.set_space(&export.path, export.store.space().await.ok());
    }
    admin.metrics.set_certificate((admin.certificate_seconds_left)());
    admin.metrics.set_process(crate::process::usage());
    ([(header::CONTENT_TYPE, OPEN_METRICS)], admin.metrics.text()).into_response()
}

/// Alive: this task is being run.
async fn health() -> Response {
    ([(header::CONTENT_TYPE, JSON)], json!({"alive": true}).to_string()).into_response()
}

async fn ready(State(admin): State<Arc<Admin>>) -> Response {
    let mut checks = vec![check_certificate((admin.certificate_seconds_left)())];
    for export in (admin.exports)() {
        checks.push(check_export(&export).await);
    }
    if (admin.stopping)() {
        checks.push(Check {
            name: "server".to_owned(),
            ok: false,
            says: "It is stopping.".to_owned(),
        });
    }
    let all = checks.iter().all(|check| check.ok);
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
