//! What operators do: end a running copy, cancel a job, drain a worker. Each has a page that asks
//! first; its form, or a program, then orders it by POST.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http_server::control::{Client, Refusal};
use schedule::JobId;
use serde::Serialize;
use types::{Error, ErrorCode, Phase, Side};

use crate::admission::{Acted, Viewer};
use crate::copies::CopyNow;
use crate::door::Pages;
use crate::forms::{Form, forbidden};
use crate::queue_facts::{Job, Queue};
use crate::respond::{json, page, wants_json};
use crate::shell::Shell;
use crate::words::{Words, cut};

const CANCEL_COPY: &str = "/now/cancel";
const CANCEL_JOB: &str = "/queue/cancel";
const DRAIN_WORKER: &str = "/queue/drain";

/// A name and a value that a form shows or sends.
#[derive(Serialize)]
struct Fact {
    name: &'static str,
    value: Words,
}

impl Fact {
    fn new(name: &'static str, value: impl Into<Words>) -> Self {
        Self {
            name,
            value: value.into(),
        }
    }
}

/// What an operator is asked before something is done; as JSON for programs.
#[derive(Serialize)]
struct Question {
    /// The name of the action in the log.
    action: &'static str,
    /// What it does.
    effect: &'static str,
    facts: Vec<Fact>,
    /// What the form must send, besides its token.
    fields: Vec<Fact>,
    /// The token of the form; `None`: this client needs none.
    form: Option<String>,
    #[serde(skip)]
    title: &'static str,
    #[serde(skip)]
    place: &'static str,
    #[serde(skip)]
    back: String,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    shell: Shell,
    question: Question,
}

/// What was done, for programs.
#[derive(Serialize)]
struct Done<'a> {
    action: &'static str,
    subject: &'a str,
}

pub(crate) fn routes() -> Router<Arc<Pages>> {
    Router::new()
        .route(CANCEL_COPY, get(ask_cancel_copy).post(cancel_copy))
        .route(CANCEL_JOB, get(ask_cancel_job).post(cancel_job))
        .route(DRAIN_WORKER, get(ask_drain_worker).post(drain_worker))
}

/// Where an operator ends a copy.
pub(crate) fn cancel_copy_place(id: &Words) -> String {
    place(CANCEL_COPY, &[("id", id.raw())])
}

/// Where an operator cancels a job.
pub(crate) fn cancel_job_place(id: JobId) -> String {
    place(CANCEL_JOB, &[("id", &id.to_string())])
}

/// Where an operator lets a worker take no new work, or take it again.
pub(crate) fn drain_worker_place(name: &Words, drains: bool) -> String {
    place(DRAIN_WORKER, &[("worker", name.raw()), ("drain", yes_or_no(drains))])
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn place(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    format!("{path}?{}", query.finish())
}

/// An operator and what it orders.
struct Order {
    pages: Arc<Pages>,
    viewer: Viewer,
    client: Client,
    wants_json: bool,
    form: Form,
}

impl Order {
    /// Reads the form of an operator.
    ///
    /// # Errors
    /// `page_forbidden`: the client is no operator, or no page of ours made the form.
    async fn read(pages: Arc<Pages>, viewer: Viewer, client: Client, request: Request) -> Result<Self, Refusal> {
        demand_operator(&viewer)?;
        let headers: HeaderMap = request.headers().clone();
        let form = Form::read(request).await?;
        pages.access.demand_form(&viewer, &headers, form.get("form"))?;
        Ok(Self {
            pages,
            viewer,
            client,
            wants_json: wants_json(&headers),
            form,
        })
    }

    fn who(&self) -> &str {
        self.viewer.name.as_ref().map_or("", Words::raw)
    }

    /// Logs what has become of it, and answers.
    fn end(
        &self,
        action: &'static str,
        subject: &str,
        done: Result<(), Error>,
        back: &str,
    ) -> Result<Response, Refusal> {
        let subject = &*cut(subject);
        self.pages.access.events.acted(&Acted {
            action,
            subject,
            who: self.who(),
            client: self.client.address,
            error: done.as_ref().err(),
        });
        done?;
        match self.wants_json {
            true => json(&Done { action, subject }),
            false => Ok((StatusCode::SEE_OTHER, [(header::LOCATION, back)]).into_response()),
        }
    }
}

fn demand_operator(viewer: &Viewer) -> Result<(), Refusal> {
    match (viewer.is_operator, &viewer.refused_certificate) {
        (true, _) => Ok(()),
        (false, Some(why)) => Err(forbidden(&format!("the client's certificate is not accepted: {why}"))),
        (false, None) => Err(forbidden("[web] operators does not name this client")),
    }
}

fn missing(what: &str, name: &str) -> Error {
    let error = Error::new(ErrorCode::NotShown, Side::Client, Phase::Open);
    error.with_detail(format!("there is no {what} {}", cut(name)))
}

fn no_copy() -> Error {
    let error = Error::new(ErrorCode::NotShown, Side::Client, Phase::Open);
    error.with_detail("no such copy runs")
}

/// Shows a question to an operator.
fn ask(pages: &Pages, viewer: &Viewer, headers: &HeaderMap, mut question: Question) -> Result<Response, Refusal> {
    question.form = pages.access.form_token(viewer);
    match wants_json(headers) {
        true => json(&question),
        false => page(&ConfirmPage {
            shell: pages.shell(question.title, "", viewer),
            question,
        }),
    }
}

fn query(uri: &Uri) -> Form {
    Form::of(uri.query().unwrap_or_default().as_bytes())
}

async fn ask_cancel_copy(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    demand_operator(&viewer)?;
    let query = query(&uri);
    let id = query.get("id");
    let copy: CopyNow = pages.of_endpoint()?.copies.find(id).ok_or_else(no_copy)?;
    let question = Question {
        action: "cancel_copy",
        title: "Cancel a copy",
        effect: "The copy ends at once. What it has written of the file is removed, and the client that ordered it is \
                 answered with the reason.",
        facts: vec![
            Fact::new("Transfer", copy.facts.id.clone()),
            Fact::new("Ordered by", copy.facts.who.clone()),
            Fact::new("From", copy.facts.from.clone()),
            Fact::new("To", copy.facts.to.clone()),
        ],
        fields: vec![Fact::new("id", id)],
        form: None,
        place: CANCEL_COPY,
        back: "/now".to_owned(),
    };
    ask(&pages, &viewer, &headers, question)
}

async fn cancel_copy(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Refusal> {
    let order = Order::read(pages, viewer, client, request).await?;
    let id = order.form.get("id");
    let done = match order.pages.of_endpoint()?.copies.stop(id) {
        Some(true) => Ok(()),
        Some(false) => Err(Error::new(ErrorCode::TooLate, Side::Client, Phase::Commit)),
        None => Err(no_copy()),
    };
    order.end("cancel_copy", id, done, "/now")
}

/// The job that a query or form names.
///
/// # Errors
/// `not_found`, or `job_terminal`.
async fn running_job(queue: &dyn Queue, name: &str) -> Result<Job, Error> {
    let id: JobId = name.parse().map_err(|_| missing("job", name))?;
    let job = queue.job(id).await?.ok_or_else(|| missing("job", name))?;
    match job.state.is_terminal() {
        true => Err(Error::new(ErrorCode::JobTerminal, Side::Client, Phase::Open)),
        false => Ok(job),
    }
}

async fn ask_cancel_job(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    demand_operator(&viewer)?;
    let job = running_job(pages.of_queue()?, query(&uri).get("id")).await?;
    let several = || Words::from("several storages");
    let question = Question {
        action: "cancel_job",
        title: "Cancel a job",
        effect: "Copies that run are stopped, and files that wait are not copied. What has ended stays as it is.",
        facts: vec![
            Fact::new("Job", job.job_id.to_string()),
            Fact::new("User", job.user.clone()),
            Fact::new("VO", job.vo.clone()),
            Fact::new("From", job.source.clone().unwrap_or_else(several)),
            Fact::new("To", job.destination.clone().unwrap_or_else(several)),
            Fact::new("Files", job.files.total.to_string()),
        ],
        fields: vec![Fact::new("id", job.job_id.to_string())],
        form: None,
        place: CANCEL_JOB,
        back: job_place(job.job_id),
    };
    ask(&pages, &viewer, &headers, question)
}

fn job_place(id: JobId) -> String {
    format!("/queue/jobs/{id}")
}

async fn cancel_job(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Refusal> {
    let order = Order::read(pages, viewer, client, request).await?;
    let (queue, name) = (order.pages.of_queue()?, order.form.get("id"));
    let found = running_job(queue, name).await;
    let (done, back) = match found {
        Ok(job) => (queue.cancel(job.job_id).await, job_place(job.job_id)),
        Err(error) => (Err(error), String::new()),
    };
    order.end("cancel_job", name, done, &back)
}

/// What a query or form says about draining.
///
/// # Errors
/// `bad_request`: neither `yes` nor `no`.
fn drains(form: &Form) -> Result<bool, Refusal> {
    match form.get("drain") {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => {
            let error = Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open);
            Err(error.with_detail("drain is yes or no").into())
        }
    }
}

async fn ask_drain_worker(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    demand_operator(&viewer)?;
    let query = query(&uri);
    let (name, drains) = (query.get("worker"), drains(&query)?);
    let workers = pages.of_queue()?.now().await?.workers;
    let is_known = workers.iter().any(|worker| worker.name.raw() == name);
    if !is_known {
        return Err(missing("worker", name).into());
    }
    let question = Question {
        action: drain_action(drains),
        title: if drains { "Drain a worker" } else { "Use a worker again" },
        effect: match drains {
            true => "The worker takes no new files. What it copies now goes on to its end.",
            false => "The worker takes new files again.",
        },
        facts: vec![Fact::new("Worker", name)],
        fields: vec![Fact::new("worker", name), Fact::new("drain", yes_or_no(drains))],
        form: None,
        place: DRAIN_WORKER,
        back: "/queue#workers".to_owned(),
    };
    ask(&pages, &viewer, &headers, question)
}

fn drain_action(drains: bool) -> &'static str {
    if drains { "drain_worker" } else { "undrain_worker" }
}

async fn drain_worker(
    State(pages): State<Arc<Pages>>,
    Extension(viewer): Extension<Viewer>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Refusal> {
    let order = Order::read(pages, viewer, client, request).await?;
    let (queue, name) = (order.pages.of_queue()?, order.form.get("worker"));
    let drains = drains(&order.form)?;
    let done = match queue.drain(name.to_owned(), drains, order.who().to_owned()).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(missing("worker", name)),
        Err(error) => Err(error),
    };
    order.end(drain_action(drains), name, done, "/queue#workers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_whose_certificate_is_not_accepted_reads_why() {
        let said = |viewer: &Viewer| {
            let refusal = demand_operator(viewer).expect_err("no operator");
            refusal.error().detail().unwrap_or_default().to_owned()
        };
        let unknown = said(&Viewer::default());
        assert_eq!(unknown, "[web] operators does not name this client");
        let refused = said(&Viewer {
            refused_certificate: Some("its issuer is not trusted".to_owned()),
            ..Viewer::default()
        });
        assert!(refused.contains("its issuer is not trusted"), "{refused}");
    }

    #[test]
    fn names_in_places_are_encoded() {
        assert_eq!(
            drain_worker_place(&"a&b#c d\n\"".into(), true),
            "/queue/drain?worker=a%26b%23c+d%0A%22&drain=yes"
        );
        assert_eq!(cancel_copy_place(&"t1".into()), "/now/cancel?id=t1");
    }
}
