//! Requests for the page *Cluster*.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::get;
use http_server::control::{Client, Refusal};
use types::ErrorCode;

use crate::admission::Viewer;
use crate::cluster_page::{ClusterDocument, ClusterPage, WhyForm};
use crate::door::{Pages, now_ms, refused};
use crate::respond::{json, page, wants_json};
use crate::shell::CLUSTER_PLACE;

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new().route(CLUSTER_PLACE.path, get(cluster))
}

async fn cluster(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let cluster = pages.cluster.as_deref().ok_or_else(|| refused(ErrorCode::NotFound))?;
    let nodes = cluster.nodes().ok_or_else(|| refused(ErrorCode::NotFound))?;
    let form = WhyForm::read(uri.query());
    let answer = match form.question(client.address.ip()) {
        Ok(Some(question)) => cluster.why(&question).await.map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if wants_json(&headers) {
        let answer = answer?;
        return json(&ClusterDocument {
            nodes: &nodes,
            why: answer.as_ref().map(|answer| &answer.value),
        });
    }
    let shell = pages.shell(CLUSTER_PLACE.name, CLUSTER_PLACE.path, &viewer);
    page(&ClusterPage::new(shell, &nodes, &form, &answer, now_ms()))
}
