//! The page of the newest run over HTTP: read-only, in clear text, usually for this machine only.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use endpoint::{RequestLog, RequestRecord};
use history::Run;
use http_server::Server;
use http_server::control::{ControlDoor, shares};
use net::listen::Acceptor;
use reports::{html, json, prometheus};

use super::files::read_run;
use super::{past, view};
use crate::command_line::ReportOptions;
use crate::failure::Failure;
use crate::limits::{REPORT_BODY_BYTES_MAX, REPORT_CONNECTIONS_MAX};
use crate::output;
use crate::server;

/// How long requests may go on after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// The forms of a run that are served.
#[derive(Clone, Debug, Default)]
struct Forms {
    html: Arc<str>,
    json: Arc<str>,
    metrics: Arc<str>,
}

impl Forms {
    fn of(run: &Run, history: Option<&Path>) -> Self {
        let past = past(run, history).unwrap_or_else(|failure| {
            output::complain(&failure.words);
            None
        });
        let view = view(run, past);
        Self {
            html: html::write(&view).into(),
            json: json::write(&json::without_addresses(run)).into(),
            metrics: prometheus::write(&view).into(),
        }
    }
}

/// What all requests share.
struct Shared {
    newest: Mutex<Newest>,
    /// The file that the run was read from, which may be replaced by a newer one.
    file: Option<PathBuf>,
    /// Where the run is kept.
    history: Option<PathBuf>,
}

#[derive(Default)]
struct Newest {
    forms: Forms,
    /// When the file was written that they are from.
    written: Option<SystemTime>,
}

/// A served page. It shows the newest run that it was given, or that its file has.
pub(crate) struct Page {
    shared: Arc<Shared>,
    door: ControlDoor,
}

impl Page {
    /// Opens the address of `--serve`, if there is one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) async fn open(options: &ReportOptions, file: Option<PathBuf>) -> Result<Option<Self>, Failure> {
        let Some(address) = options.serve else { return Ok(None) };
        let listener = server::bind(address)?;
        let system = |cause: std::io::Error| Failure::system("listening", &cause);
        let address = listener.local_addr().map_err(system)?;
        let shared = Arc::new(Shared {
            newest: Mutex::default(),
            file,
            history: options.history.clone(),
        });
        let server = Server {
            fair_share: shares(REPORT_CONNECTIONS_MAX),
            ..Server::new(concat!("crossload/", env!("CARGO_PKG_VERSION")), Arc::new(Silent))
        };
        let pages = pages(Arc::clone(&shared));
        let door = ControlDoor::at(address.ip(), server, pages, REPORT_BODY_BYTES_MAX);
        let (accepting, acceptor) = (door.clone(), Acceptor::new(listener).map_err(system)?);
        tokio::spawn(async move { accepting.accept(acceptor).await });
        output::complain(&format!("the page of the newest run is at http://{address}/"));
        Ok(Some(Self { shared, door }))
    }

    /// Shows a run from now on.
    pub(crate) fn show(&self, run: &Run) {
        let mut newest = self.shared.lock();
        newest.forms = Forms::of(run, self.shared.history.as_deref());
        newest.written = self.shared.written();
    }

    /// Serves until Ctrl-C.
    ///
    /// # Errors
    /// The signal cannot be waited for.
    pub(crate) async fn serve_until_interrupted(&self) -> Result<(), Failure> {
        let waited = tokio::signal::ctrl_c().await;
        self.door.shut_down(GRACE).await;
        waited.map_err(|cause| Failure::system("cannot receive signals", &cause))
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pipe has given its run, and waiting for another one could take for ever.
    fn written(&self) -> Option<SystemTime> {
        let metadata = std::fs::metadata(self.file.as_ref()?).ok();
        let metadata = metadata.filter(std::fs::Metadata::is_file)?;
        metadata.modified().ok()
    }

    /// The forms of the newest run. A file that is replaced by no run changes nothing.
    fn forms(&self) -> Forms {
        let (written, mut newest) = (self.written(), self.lock());
        if let Some(file) = self.file.as_ref().filter(|_| written != newest.written) {
            newest.written = written;
            match read_run(file) {
                Ok(run) => newest.forms = Forms::of(&run, self.history.as_deref()),
                Err(failure) => output::complain(&format!("the page stays as it is: {}", failure.words)),
            }
        }
        newest.forms.clone()
    }
}

fn pages(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/run.json", get(run_json))
        .route("/metrics", get(metrics))
        .with_state(shared)
}

/// Renders on a thread that may block: a large file may have to be read.
async fn forms(shared: Arc<Shared>) -> Forms {
    execution::blocking(move || shared.forms()).await.unwrap_or_default()
}

fn answer(content_type: &'static str, body: &str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (
            header::CONTENT_SECURITY_POLICY,
            format!("{}; frame-ancestors 'none'", html::security_policy()),
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    (headers, body.to_owned()).into_response()
}

async fn page(State(shared): State<Arc<Shared>>) -> Response {
    answer("text/html; charset=utf-8", &forms(shared).await.html)
}

async fn run_json(State(shared): State<Arc<Shared>>) -> Response {
    answer("application/json", &forms(shared).await.json)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    answer("text/plain; version=0.0.4; charset=utf-8", &forms(shared).await.metrics)
}

/// Requests for a page are not logged.
struct Silent;

impl RequestLog for Silent {
    fn request(&self, _record: &RequestRecord) {}
}
