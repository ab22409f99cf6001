//! The door: its router, and what every request goes through first.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use endpoint::Gate;
use http_server::Server;
use http_server::control::{Client, ControlDoor, KnownBy, Refusal, demand_local};
use tower_service::Service as _;
use types::{Error, ErrorCode, Phase, Side};
use url::form_urlencoded;

use crate::actions;
use crate::admission::{Access, Viewer};
use crate::cluster_door;
use crate::cluster_facts::Cluster;
use crate::copies::RunningCopies;
use crate::endpoint_page::{EndpointDocument, EndpointPage};
use crate::error_page::{error_document, error_page};
use crate::explain_form::ExplainForm;
use crate::facts::{EndpointFacts, ExplainAnswer, ExplainQuestion, Share};
use crate::issuer_sign_in;
use crate::kept_runs::KeptRuns;
use crate::limits::{ASSET_AGE_MAX, WEB_BODY_BYTES_MAX};
use crate::live::Live;
use crate::manual::{self, Manual};
use crate::mesh_door;
use crate::now_page::{NowDocument, NowPage, events};
use crate::queue_door;
use crate::queue_facts::Queue;
use crate::respond::{internal, json, page, wants_json};
use crate::security::protect;
use crate::shell::{CLUSTER_PLACE, ENDPOINT_PLACES, MESH_PLACE, Place, QUEUE_PLACES, Shell};
use crate::sign_in::{self, SignInForm};
use crate::view::{Selection, View};
use crate::words::Words;

const STYLE: &str = include_str!("../assets/style.css");
const NOW_SCRIPT: &str = include_str!("../assets/now.js");
const FTSMON_SCRIPT: &str = include_str!("../assets/ftsmon.js");
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = include_str!("../assets/icon.svg");

/// Facts about the endpoint, gathered on demand.
pub type EndpointFuture = Pin<Box<dyn Future<Output = EndpointFacts> + Send>>;

/// Answers to a question about rights.
pub type ExplainFuture = Pin<Box<dyn Future<Output = types::Result<Vec<ExplainAnswer>>> + Send>>;

/// What the pages show.
pub struct Pages {
    /// The server's name.
    pub server: String,
    /// Product and version.
    pub program: String,
    /// Who may look.
    pub access: Access,
    /// The endpoint, if the server is one.
    pub endpoint: Option<EndpointPages>,
    /// The queue, if the server is one.
    pub queue: Option<Arc<dyn Queue>>,
    /// The cluster, if the server may be a redirector.
    pub cluster: Option<Arc<dyn Cluster>>,
    /// Runs of the instruments.
    pub runs: Option<KeptRuns>,
    /// The manual, if this machine has it.
    pub manual: Option<Manual>,
}

/// What the pages of an endpoint show.
pub struct EndpointPages {
    /// The endpoint as it is now.
    pub facts: Box<dyn Fn() -> EndpointFuture + Send + Sync>,
    /// Whether a client may do something, and why.
    pub explain: Box<dyn Fn(ExplainQuestion) -> ExplainFuture + Send + Sync>,
    /// The third-party copies that run.
    pub copies: RunningCopies,
    /// What is in use now.
    pub shares: Box<dyn Fn() -> Vec<Share> + Send + Sync>,
}

impl std::fmt::Debug for EndpointPages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EndpointPages")
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pages({})", self.server)
    }
}

impl Pages {
    pub(crate) fn shell(&self, title: impl Into<Words>, current: &'static str, viewer: &Viewer) -> Shell {
        Shell {
            title: title.into(),
            current,
            server: Words::from(self.server.as_str()),
            program: Words::from(self.program.as_str()),
            viewer: viewer.name.clone(),
            sign_out: viewer.proof.session().and_then(|_| self.access.form_token(viewer)),
            can_sign_in: self.access.has_sign_in(),
            is_operator: viewer.is_operator,
            places: self.places(),
            has_manual: self.manual.is_some(),
        }
    }

    /// The pages in the navigation.
    fn places(&self) -> Vec<Place> {
        let endpoint = self.endpoint.iter().flat_map(|_| ENDPOINT_PLACES);
        let queue = self.queue.iter().flat_map(|_| QUEUE_PLACES);
        let runs = self.runs.iter().filter(|runs| runs.is_there());
        let cluster = self.cluster.iter().filter(|cluster| cluster.nodes().is_some());
        endpoint
            .chain(cluster.map(|_| CLUSTER_PLACE))
            .chain(queue)
            .chain(runs.map(|_| MESH_PLACE))
            .collect()
    }

    /// # Errors
    /// `not_found`: this server is no endpoint.
    pub(crate) fn of_endpoint(&self) -> Result<&EndpointPages, Refusal> {
        self.endpoint.as_ref().ok_or_else(|| refused(ErrorCode::NotFound))
    }

    /// # Errors
    /// `not_found`: this server is no queue.
    pub(crate) fn of_queue(&self) -> Result<&dyn Queue, Refusal> {
        self.queue.as_deref().ok_or_else(|| refused(ErrorCode::NotFound))
    }
}

/// The door. `server` says how connections are served. To be called on a runtime, where one task
/// ticks for all open pages.
#[must_use]
pub fn door(server: Server, pages: Pages) -> ControlDoor {
    let now = pages.endpoint.as_ref().map(|endpoint| {
        let live = Live::new(endpoint.copies.clone());
        tokio::spawn(live.clone().keep());
        Now {
            live,
            gate: server.gate.clone(),
        }
    });
    ControlDoor::new(server, router(Arc::new(pages), now), WEB_BODY_BYTES_MAX)
}

/// What follows the running copies.
#[derive(Clone)]
struct Now {
    live: Live,
    gate: Gate,
}

/// All requests pass [`guarded`], those for unknown paths too.
fn router(pages: Arc<Pages>, now: Option<Now>) -> Router {
    let open = Router::new()
        .route("/style.css", get(|| asset("text/css; charset=utf-8", style())))
        .route("/now.js", get(|| asset(JAVASCRIPT, NOW_SCRIPT.to_owned())))
        .route("/ftsmon.js", get(|| asset(JAVASCRIPT, FTSMON_SCRIPT.to_owned())))
        .route("/icon.svg", get(|| asset("image/svg+xml", ICON.to_owned())));
    let closed = Router::new()
        .route("/", get(first))
        .merge(queue_door::routes())
        .merge(mesh_door::routes())
        .merge(manual::routes())
        .merge(cluster_door::routes())
        .merge(sign_in::routes())
        .merge(issuer_sign_in::routes())
        .merge(actions::routes())
        .route("/endpoint", get(endpoint))
        .route("/now", get(running))
        .route(
            "/now/events",
            get(follow).with_state(Following {
                now,
                pages: pages.clone(),
            }),
        )
        .fallback(|| async { refused(ErrorCode::NotFound) })
        .method_not_allowed_fallback(|| async { refused(ErrorCode::MethodNotAllowed) })
        .with_state(pages.clone());
    let doors = Doors { pages, open, closed };
    Router::new()
        .route("/", any(guarded))
        .route("/{*rest}", any(guarded))
        .with_state(doors)
}

fn style() -> String {
    format!("{}{STYLE}{}", markup::THEME, reports::html::MATRIX_STYLE)
}

async fn asset(kind: &'static str, text: String) -> Response {
    let age = format!("max-age={}", ASSET_AGE_MAX.as_secs());
    (
        [(header::CONTENT_TYPE, kind.to_owned()), (header::CACHE_CONTROL, age)],
        text,
    )
        .into_response()
}

pub(crate) fn refused(code: ErrorCode) -> Refusal {
    Error::new(code, Side::Client, Phase::Open).into()
}

/// The routers behind the guard.
#[derive(Clone)]
struct Doors {
    pages: Arc<Pages>,
    /// For everyone: the looks of pages.
    open: Router,
    /// For viewers.
    closed: Router,
}

async fn guarded(State(doors): State<Doors>, client: Client, mut request: Request) -> Response {
    let is_encrypted = client.is_encrypted;
    let is_machine = wants_json(request.headers());
    let request_id = client.request_id.clone();
    // The captures of the outer routes would count as those of the inner ones.
    request.extensions_mut().clear();
    let mut viewer = Viewer::default();
    let back = back_to(&request);
    let asking = client.clone();
    let access = &doors.pages.access;
    // Before the handler, which may end the session.
    let holder = access.session_holder(&client, request.headers(), now_s());
    let answered = match admitted(&doors.pages, &client, &request) {
        Err(refusal) => Err(refusal),
        Ok(Entry::Elsewhere(answer)) => Ok(answer),
        Ok(Entry::Open) => Ok(call(doors.open.clone(), request).await),
        Ok(Entry::Viewer(known)) => {
            viewer = known.clone();
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(known);
            Ok(call(doors.closed.clone(), request).await)
        }
    };
    let mut answer = answered.unwrap_or_else(Refusal::into_response);
    match answer.extensions().get::<Refusal>().cloned() {
        None => {}
        Some(refusal) if is_machine => answer = error_document(refusal, &request_id),
        Some(refusal) => {
            let shell = doors.pages.shell("Refused", "", &viewer);
            let may_help = matches!(refusal.error().code().http_status(), 401 | 403) && viewer.name.is_none();
            let form = SignInForm::new(access, &asking, &back).filter(|_| may_help);
            answer = error_page(refusal, shell, &request_id, form);
        }
    }
    if let Some(credential) = holder {
        answer.extensions_mut().insert(KnownBy(credential));
    }
    protect(answer.headers_mut(), is_encrypted);
    answer
}

async fn call(mut router: Router, request: Request) -> Response {
    let answered: Result<Response, Infallible> = router.call(request).await;
    answered.unwrap_or_else(|never| match never {})
}

/// Where a browser goes when it has signed in.
fn back_to(request: &Request) -> String {
    let place = request
        .uri()
        .path_and_query()
        .filter(|_| request.method() == Method::GET);
    place.map(ToString::to_string).unwrap_or_default()
}

/// How a request goes on.
enum Entry {
    /// With an answer at once.
    Elsewhere(Response),
    /// To what everyone may have.
    Open,
    /// To the pages.
    Viewer(Viewer),
}

fn admitted(pages: &Pages, client: &Client, request: &Request) -> Result<Entry, Refusal> {
    let host = request.headers().get(header::HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    let access = &pages.access;
    if access.is_local() {
        demand_local(host)?;
    }
    if !access.is_local() && !client.is_encrypted {
        return Ok(Entry::Elsewhere(by_tls(host.unwrap_or_default(), request)));
    }
    if matches!(
        request.uri().path(),
        "/style.css" | "/icon.svg" | "/now.js" | "/ftsmon.js"
    ) {
        return Ok(Entry::Open);
    }
    let viewer = access.admit(client, request.headers(), now_s());
    // Everyone may try to sign in.
    match issuer_sign_in::is_for_everyone(request.uri().path()) {
        true => Ok(Entry::Viewer(viewer.unwrap_or_default())),
        false => viewer.map(Entry::Viewer),
    }
}

/// Sends a browser to the same page by TLS.
fn by_tls(host: &str, request: &Request) -> Response {
    if host.is_empty() {
        return refused(ErrorCode::TlsRequired).into_response();
    }
    let place = format!("https://{host}{}", request.uri());
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, place)]).into_response()
}

/// Seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(passed.as_secs()).unwrap_or(i64::MAX)
}

/// A field of a query.
pub(crate) fn field(uri: &Uri, wanted: &str) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let mut fields = form_urlencoded::parse(query.as_bytes());
    let found = fields.find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.trim().to_owned())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    now_s().saturating_mul(1000)
}

/// Leads to the first page.
async fn first(State(pages): State<Arc<Pages>>) -> Response {
    match pages.places().first() {
        Some(place) => (StatusCode::SEE_OTHER, [(header::LOCATION, place.path)]).into_response(),
        None => refused(ErrorCode::NotFound).into_response(),
    }
}

async fn endpoint(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let endpoint = pages.of_endpoint()?;
    let facts = (endpoint.facts)().await;
    let form = ExplainForm::read(uri.query());
    let answers = match form.question(client.address.ip()) {
        Ok(Some(question)) => (endpoint.explain)(question).await,
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    if wants_json(&headers) {
        return json(&EndpointDocument::new(&facts, &answers?));
    }
    let shell = pages.shell("Endpoint", "/endpoint", &viewer);
    page(&EndpointPage::new(shell, &facts, &form, &answers, now_s()))
}

async fn running(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let of_endpoint = pages.of_endpoint()?;
    let view = View::read(uri.query()).for_operator(viewer.is_operator);
    let shares = (of_endpoint.shares)();
    let selection = Selection::of(&of_endpoint.copies, &view);
    if wants_json(&headers) {
        return json(&NowDocument::new(&selection, &shares));
    }
    let shell = pages.shell("Now", "/now", &viewer);
    page(&NowPage::new(shell, view, &selection, shares).map_err(internal)?)
}

/// What the events of pages are made of.
#[derive(Clone)]
struct Following {
    now: Option<Now>,
    pages: Arc<Pages>,
}

async fn follow(
    State(Following { now, pages }): State<Following>,
    Extension(client): Extension<Client>,
    Extension(viewer): Extension<Viewer>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let now = now.ok_or_else(|| refused(ErrorCode::NotFound))?;
    let is_operator = viewer.is_operator;
    let frames = now.live.follow(View::read(uri.query()).for_operator(is_operator))?;
    let may_look = move || {
        let viewer = pages.access.admit(&client, &headers, now_s());
        viewer.is_ok_and(|viewer| viewer.is_operator == is_operator)
    };
    Ok(events(frames, now.gate, Box::new(may_look)).into_response())
}
