//! Requests for the pages of the queue.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http_server::control::Refusal;
use schedule::{FileId, JobId};
use types::{Error, ErrorCode, Phase, Side};

use crate::admission::Viewer;
use crate::door::{Pages, field, now_ms};
use crate::job_page::{FilePage, JobDocument, JobPage};
use crate::limits::FILES_SHOWN_MAX;
use crate::links_page::{LinksDocument, LinksPage};
use crate::queue_page::{QueueDocument, QueuePage};
use crate::queue_view::{QueueView, wrong};
use crate::respond::{json, page, wants_json};
use crate::shell::Shell;
use crate::words::cut;

const QUEUE: &str = "/queue";
const LINKS: &str = "/links";
const JOBS: &str = "/queue/jobs/";
const FILES: &str = "/queue/files/";

/// Leads from the address of a job at FTS's monitoring to its page. Without scripts, it asks for
/// the job: browsers keep what follows `#` to themselves.
#[derive(Template)]
#[template(path = "ftsmon.html")]
struct FtsPage {
    shell: Shell,
}

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route(QUEUE, get(queue))
        .route(LINKS, get(links))
        .route("/queue/find", get(find))
        .route("/queue/jobs/{job}", get(job))
        .route("/queue/files/{file}", get(file))
        .route("/fts3/ftsmon", get(fts))
        .route("/fts3/ftsmon/", get(fts))
}

fn missing(what: &str, name: &str) -> Refusal {
    let error = Error::new(ErrorCode::NotShown, Side::Client, Phase::Open);
    error
        .with_detail(format!("the queue has no {what} {}", cut(name)))
        .into()
}

async fn queue(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (queue, view) = (pages.of_queue()?, QueueView::read(uri.query())?);
    let now = queue.now().await?;
    let jobs = queue.jobs(view.filter()).await?;
    if wants_json(&headers) {
        return json(&QueueDocument {
            now: &now,
            jobs: &jobs.items,
            next: jobs.next,
        });
    }
    let shell = pages.shell("Queue", QUEUE, &viewer);
    page(&QueuePage::new(shell, &view, &now, &jobs, now_ms()))
}

async fn links(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let hour = pages.of_queue()?.last_hour().await?;
    if wants_json(&headers) {
        return json(&LinksDocument { hour: &hour });
    }
    page(&LinksPage::new(pages.shell("Links", LINKS, &viewer), &hour))
}

/// Leads to a job or file by its identifier.
async fn find(State(pages): State<Arc<Pages>>, uri: Uri) -> Result<Response, Refusal> {
    pages.of_queue()?;
    let id = field(&uri, "id").unwrap_or_default();
    let place = match (id.parse::<JobId>(), id.parse::<i64>()) {
        (Ok(job), _) => format!("{JOBS}{job}"),
        (_, Ok(file)) => format!("{FILES}{file}"),
        _ => return Err(missing("job or file", &id)),
    };
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response())
}

async fn job(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let queue = pages.of_queue()?;
    let name = uri.path().strip_prefix(JOBS).unwrap_or_default();
    let missing = || missing("job", name);
    let id: JobId = name.parse().map_err(|_| missing())?;
    let job = queue.job(id).await?.ok_or_else(missing)?;
    let after = field(&uri, "after").map(|after| after.parse::<i64>().map_err(|_| wrong("after is no number")));
    let after = after.transpose()?;
    let files = queue.files(id, after, FILES_SHOWN_MAX).await?;
    if wants_json(&headers) {
        return json(&JobDocument {
            job: &job,
            list: &files.items,
            next: files.next,
        });
    }
    let shell = pages.shell(format!("Job {id}"), QUEUE, &viewer);
    page(&JobPage::new(shell, &job, &files, after))
}

async fn file(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let queue = pages.of_queue()?;
    let name = uri.path().strip_prefix(FILES).unwrap_or_default();
    let missing = || missing("file", name);
    let id = name.parse().map(FileId).map_err(|_| missing())?;
    let story = queue.file(id).await?.ok_or_else(missing)?;
    if wants_json(&headers) {
        return json(&story);
    }
    let shell = pages.shell(format!("File {id}"), QUEUE, &viewer);
    page(&FilePage::new(shell, &story, now_ms()))
}

async fn fts(State(pages): State<Arc<Pages>>, Extension(viewer): Extension<Viewer>) -> Result<Response, Refusal> {
    pages.of_queue()?;
    page(&FtsPage {
        shell: pages.shell("Find a job", QUEUE, &viewer),
    })
}
