//! The parameters that each route knows. A key in the query that is none of them is refused,
//! whatever the handler reads: a filter with a typing mistake would else show everything.
//!
//! They are those of the OpenAPI document, which is made from the handlers.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::answer::{ApiError, bad};

/// The parameters of each route: by method and path, in the document's order.
#[derive(Clone, Debug)]
pub(super) struct KnownKeys(Arc<HashMap<String, Vec<String>>>);

impl KnownKeys {
    /// Those that an OpenAPI document describes.
    pub(super) fn of(document: &str) -> Self {
        let document: Value = serde_json::from_str(document).unwrap_or_default();
        let mut known = HashMap::new();
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let of_query = parameters.filter(|parameter| parameter["in"] == "query");
                let names = of_query.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned));
                known.insert(route(method, path), names.collect());
            }
        }
        Self(Arc::new(known))
    }

    /// Looks at the query of a request.
    ///
    /// # Errors
    /// 400 for a key that its route does not know, with those that it knows.
    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let Some(query) = request.uri().query() else {
            return Ok(());
        };
        let path = request.extensions().get::<MatchedPath>();
        let method = match request.method().as_str() {
            "HEAD" => "GET",
            method => method,
        };
        // A path or method that does not exist has an answer of its own.
        let Some(known) = path.and_then(|path| self.0.get(&route(method, path.as_str()))) else {
            return Ok(());
        };
        for (key, _) in url::form_urlencoded::parse(query.as_bytes()) {
            if !known.iter().any(|name| *name == key) {
                return Err(unknown(&key, known));
            }
        }
        Ok(())
    }
}

fn route(method: &str, path: &str) -> String {
    format!("{} {path}", method.to_ascii_uppercase())
}

fn unknown(key: &str, known: &[String]) -> ApiError {
    let key: String = key.chars().take(64).collect();
    match known {
        [] => bad(format!("unknown parameter {key}: this path takes none")),
        known => bad(format!("unknown parameter {key}: it is one of {}", known.join(", "))),
    }
}

/// Refuses requests with keys that their route does not know.
pub(super) async fn check(State(keys): State<KnownKeys>, request: Request, next: Next) -> Response {
    match keys.check(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
