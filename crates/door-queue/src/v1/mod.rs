//! Our own API, below `/v1`: what FTS's has no words for, in one form.
//!
//! The OpenAPI document is made from this code: each handler says its route, and the types of its
//! parameters, bodies and answers are described where they are defined.

mod answer;
mod bans;
mod capabilities;
mod events;
mod files;
mod hub;
mod jobs;
mod keys;
mod limits;
mod links;
mod model;
mod request;
mod service;
mod shares;
mod submit;
mod webhooks;
mod words;

use std::sync::Arc;

use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use endpoint::Gate;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::settings::Settings;
use answer::{ErrorAnswer, unknown_method, unknown_path};
use hub::Hub;
use keys::KnownKeys;

/// Where the routes are.
const BASE: &str = "/v1";

/// What the document says beside the routes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Crossload transfer queue",
        description = "Jobs that copy files between storages, why they wait, and what operators can set. Times are \
            in milliseconds since 1970, states in lower case, storages as `https://host:443`. Lists come in pages: \
            `next` of a page is `after` of the next. A parameter or a member of a body that is not described \
            here is refused with 400, and the message names those that are known. Clients delegate by FTS's routes `/whoami`, \
            `/delegation/ID/request` and `/delegation/ID/credential`.",
        version = "1",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(ErrorAnswer)),
    tags(
        (name = "jobs", description = "Jobs of copies"),
        (name = "files", description = "Files of jobs"),
        (name = "links", description = "Links between storages, and how many copies run on them"),
        (name = "limits", description = "What operators set: limits, shares and bans"),
        (name = "events", description = "What happens"),
        (name = "service", description = "The queue itself"),
    ),
)]
struct Description;

/// The routes without [`BASE`].
fn routes() -> OpenApiRouter<Arc<Settings>> {
    OpenApiRouter::new()
        .routes(routes!(jobs::list, submit::submit))
        .routes(routes!(jobs::show))
        .routes(routes!(jobs::files))
        .routes(routes!(jobs::why))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::priority))
        .routes(routes!(files::show))
        .routes(routes!(files::why))
        .routes(routes!(files::attempts))
        .routes(routes!(files::log))
        .routes(routes!(links::list))
        .routes(routes!(links::why))
        .routes(routes!(links::pause))
        .routes(routes!(links::resume))
        .routes(routes!(links::decisions))
        .routes(routes!(capabilities::report))
        .routes(routes!(limits::show, limits::put))
        .routes(routes!(bans::list, bans::put, bans::remove))
        .routes(routes!(shares::list, shares::put))
        .routes(routes!(service::workers))
        .routes(routes!(service::drain))
        .routes(routes!(service::whoami))
        .routes(routes!(events::follow))
        .routes(routes!(webhooks::list, webhooks::add))
        .routes(routes!(webhooks::remove))
        .routes(routes!(webhooks::enable))
        .routes(routes!(openapi))
}

/// The OpenAPI document of our own API, as JSON with line ends.
///
/// # Errors
/// If it cannot be written as JSON.
pub fn document() -> types::Result<String> {
    let all = OpenApiRouter::with_openapi(Description::openapi()).nest(BASE, routes());
    let document = all.into_openapi();
    let text = document.to_pretty_json().map_err(|cause| {
        let error = types::Error::new(types::ErrorCode::Internal, types::Side::Queue, types::Phase::Open);
        error.with_private(cause)
    })?;
    Ok(text + "\n")
}

/// All routes, the document among them. Streams end when `gate` closes.
pub(crate) fn router(gate: Gate) -> Router<Arc<Settings>> {
    let text = document().unwrap_or_default();
    let (routes, _) = routes().split_for_parts();
    let routes = routes
        .route_layer(from_fn_with_state(KnownKeys::of(&text), keys::check))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method);
    Router::new()
        .nest(BASE, routes)
        .layer(Extension(DocumentText(text.into())))
        .layer(Extension(Hub::new(gate)))
}

/// The document, made once.
#[derive(Clone)]
struct DocumentText(Arc<str>);

/// Show this document
///
/// It takes no credential.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service", operation_id = "show_openapi",
    responses((status = 200, body = Value, description = "The OpenAPI document of this API.")),
)]
async fn openapi(Extension(DocumentText(text)): Extension<DocumentText>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}
