//! Requests for the pages of a server, as JSON.

use remote::{Resource, ServiceAnswer, ServiceCall, ServiceMethod};
use serde_json::Value;
use types::{Error, ErrorCode, Location, Phase, Secret, Side};
use url::form_urlencoded::Serializer;

use crate::client::session::ClientContext;
use crate::failure::Failure;
use crate::limits::QUEUE_ANSWER_BYTES_MAX;

/// The pages with something to look at.
const PAGES: [&str; 3] = ["/now", "/queue", "/cluster"];

/// What to do where there are no pages. The code's own sentence is about copies.
const NO_PAGES: &str = "Give the address that the server prints as \"pages on\": [web] listen or queue_listen.";

/// A failed look, with what helps.
fn failed(error: Error) -> Failure {
    match error.code() {
        ErrorCode::PeerUnsupported => Failure::advised(&error, NO_PAGES),
        _ => error.into(),
    }
}

/// What can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Copies,
    Links,
    Jobs,
    Workers,
    Cluster,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Copies, Self::Links, Self::Jobs, Self::Workers, Self::Cluster];

    /// The name for people and programs.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Copies => "copies",
            Self::Links => "links",
            Self::Jobs => "jobs",
            Self::Workers => "workers",
            Self::Cluster => "cluster",
        }
    }

    /// The page that has it.
    const fn path(self) -> &'static str {
        match self {
            Self::Copies => "/now",
            Self::Links | Self::Jobs | Self::Workers => "/queue",
            Self::Cluster => "/cluster",
        }
    }
}

/// What was seen last.
pub(super) enum Seen {
    Fresh(Value),
    /// What was seen before the looks failed, and why the last one did.
    Stale(Value, String),
}

impl Seen {
    pub(super) fn document(&self) -> &Value {
        match self {
            Self::Fresh(document) | Self::Stale(document, _) => document,
        }
    }

    pub(super) fn fault(&self) -> Option<&str> {
        match self {
            Self::Fresh(_) => None,
            Self::Stale(_, fault) => Some(fault),
        }
    }

    /// After a further look.
    pub(super) fn then(self, looked: Result<Value, Failure>) -> Self {
        match looked {
            Ok(document) => Self::Fresh(document),
            Err(failure) => {
                let (Self::Fresh(document) | Self::Stale(document, _)) = self;
                Self::Stale(document, failure.words)
            }
        }
    }
}

/// The pages of a server.
pub(super) struct Looks<'a> {
    session: &'a ClientContext,
    server: String,
    kinds: Vec<Kind>,
}

impl<'a> Looks<'a> {
    /// Asks which pages there are.
    ///
    /// # Errors
    /// The URL is none, the server does not answer, or has no pages.
    pub(super) async fn open(session: &'a ClientContext, url: &str) -> Result<Self, Failure> {
        let url = session.url(url)?.trim_end_matches('/').to_owned();
        let wrong = "top needs the http or https URL of a server's pages, such as http://localhost:8450";
        let location = Location::parse(&url)?;
        if !location.is_http() {
            return Err(Failure::invalid(wrong));
        }
        let mut looks = Self {
            session,
            server: url,
            kinds: Vec::new(),
        };
        for page in PAGES {
            match looks.ask(page).await {
                Ok(_) => looks
                    .kinds
                    .extend(Kind::ALL.into_iter().filter(|kind| kind.path() == page)),
                Err(error) if error.code() == ErrorCode::PeerNotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if looks.kinds.is_empty() {
            let error = Error::new(ErrorCode::PeerUnsupported, Side::Active, Phase::Open).with_subject(&location);
            return Err(failed(error.with_detail("there are no pages for operators here")));
        }
        Ok(looks)
    }

    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.kinds.clone()
    }

    /// Looks once.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub(super) async fn look(&self, kind: Kind, filter: &str, sort: Option<&str>) -> Result<Value, Failure> {
        let mut query = Serializer::new(String::new());
        if kind == Kind::Copies {
            query.append_pair("q", filter);
            if let Some(sort) = sort {
                query.append_pair("sort", sort);
            }
        }
        let query = query.finish();
        let path = match query.is_empty() {
            true => kind.path().to_owned(),
            false => format!("{}?{query}", kind.path()),
        };
        self.ask(&path).await.map_err(failed)
    }

    async fn ask(&self, path: &str) -> types::Result<Value> {
        let place = self.place(path)?;
        let answer = self.call(&place, None).await?;
        if !answer.is_success() {
            return Err(self.session.client.refusal_of(&place, &answer));
        }
        let document = serde_json::from_str::<Value>(answer.body.expose()).ok();
        document.filter(Value::is_object).ok_or_else(|| {
            let error = Error::new(ErrorCode::PeerUnsupported, Side::Active, Phase::Open).with_subject(&place.location);
            error.with_detail("this is no page for operators of Crossload")
        })
    }

    /// A path of the server, with the credential that it gets.
    pub(super) fn place(&self, path: &str) -> types::Result<Resource> {
        let location = Location::parse(&format!("{}{path}", self.server))?;
        Ok(self.session.resource(&location, Side::Active))
    }

    /// Asks for a document, or sends a form. A form goes to this place only.
    pub(super) async fn call(&self, place: &Resource, form: Option<&Secret>) -> types::Result<ServiceAnswer> {
        let nothing = Secret::new("");
        let call = ServiceCall {
            method: match form {
                Some(_) => ServiceMethod::Post,
                None => ServiceMethod::Get,
            },
            content_type: match form {
                Some(_) => "application/x-www-form-urlencoded",
                None => "application/json",
            },
            body: form.unwrap_or(&nothing),
            login: None,
            webhook: None,
            answer_bytes_max: QUEUE_ANSWER_BYTES_MAX,
        };
        self.session.client.call(place, &call).await
    }
}
