//! The door: its router, and what every request goes through first.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::any;
use endpoint::Gate;
use http_server::Server;
use http_server::control::{Client, ControlDoor};
use tower_service::Service as _;

use crate::limits::SUBMISSION_BYTES_MAX;
use crate::settings::Settings;
use crate::{rest, v1};

/// The door. `server` says how connections are served.
#[must_use]
pub fn door(server: Server, settings: Settings) -> ControlDoor {
    let gate = server.gate.clone();
    ControlDoor::new(server, router(settings, gate), SUBMISSION_BYTES_MAX)
}

/// The router. Streams end when `gate` closes.
///
/// Slashes at the beginning of a path are merged before routes are searched, because the `fts3`
/// client writes two; a redirect would lose the body.
pub fn router(settings: Settings, gate: Gate) -> Router {
    let inner = rest::router().merge(v1::router(gate)).with_state(Arc::new(settings));
    Router::new()
        .route("/", any(merged))
        .route("/{*rest}", any(merged))
        .with_state(inner)
}

async fn merged(State(mut inner): State<Router>, mut request: Request) -> Response {
    if let Some(uri) = merge_slashes(request.uri()) {
        *request.uri_mut() = uri;
    }
    // The captures of the outer routes would count as those of the inner ones.
    let client = request.extensions_mut().remove::<Client>();
    request.extensions_mut().clear();
    client.map(|client| request.extensions_mut().insert(client));
    let answered: Result<Response, Infallible> = inner.call(request).await;
    answered.unwrap_or_else(|never| match never {})
}

/// The same without double slashes; `None` if there are none.
fn merge_slashes(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") {
        return None;
    }
    let mut merged = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !merged.ends_with('/') {
            merged.push(character);
        }
    }
    if let Some(query) = uri.query() {
        merged.push('?');
        merged.push_str(query);
    }
    merged.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_merged_in_the_path_alone() {
        let merged = |text: &str| merge_slashes(&text.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(merged("//").as_deref(), Some("/"));
        assert_eq!(merged("//jobs///x?a=//b").as_deref(), Some("/jobs/x?a=//b"));
        assert_eq!(merged("/jobs?a=//b"), None);
    }
}
