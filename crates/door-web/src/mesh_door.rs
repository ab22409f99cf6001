//! Requests for the page *Mesh* and the pages of runs.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use history::RunId;
use http_server::control::Refusal;
use types::{Error, ErrorCode, Phase, Side};

use crate::admission::Viewer;
use crate::door::{Pages, field, refused};
use crate::kept_runs::{KeptRuns, RUNS};
use crate::mesh_page::MeshPage;
use crate::respond::{json, page, wants_json};
use crate::shell::MESH_PLACE;

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route(MESH_PLACE.path, get(mesh))
        .route("/mesh/runs/{run}", get(run))
}

/// # Errors
/// `not_found`: there is no history.
fn of(pages: &Pages) -> Result<&KeptRuns, Refusal> {
    pages.runs.as_ref().ok_or_else(|| refused(ErrorCode::NotFound))
}

async fn mesh(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let wanted: Option<RunId> = field(&uri, "run").and_then(|run| run.parse().ok());
    let overview = of(&pages)?.overview(wanted).await?;
    let overview = overview.ok_or_else(|| refused(ErrorCode::NotFound))?;
    if wants_json(&headers) {
        return json(&*overview);
    }
    let shell = pages.shell(MESH_PLACE.name, MESH_PLACE.path, &viewer);
    page(&MeshPage::new(shell, &overview, wanted.is_some()))
}

/// The page of a run is that of the reports: whole, with looks of its own.
async fn run(State(pages): State<Arc<Pages>>, uri: Uri, headers: HeaderMap) -> Result<Response, Refusal> {
    let kept = of(&pages)?;
    let missing = |words: String| -> Refusal {
        let error = Error::new(ErrorCode::NotFound, Side::Client, Phase::Open);
        error.with_detail(words).into()
    };
    let name = uri.path().strip_prefix(RUNS).unwrap_or_default();
    let id: RunId = name.parse().map_err(|_| missing("a run has a number".to_owned()))?;
    let made = kept.page(id).await?.ok_or_else(|| refused(ErrorCode::NotFound))?;
    let made = made.map_err(missing)?;
    if wants_json(&headers) {
        return Ok(([(header::CONTENT_TYPE, "application/json".to_owned())], made.json).into_response());
    }
    let policy = format!("{}; frame-ancestors 'none'", reports::html::security_policy());
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    Ok((fields, made.html).into_response())
}
