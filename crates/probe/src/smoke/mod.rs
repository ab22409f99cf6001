//! The smoke test: one endpoint is asked everything that a transfer will ask of it, step by step,
//! and each failure comes with the command that shows it again.
//!
//! For each place (a directory, in HTTP or in the XRootD protocol), each address of its host and
//! each kind of credential: upload, download, checksums, delete; with a macaroon that is asked for
//! on the way, the same again. Then third-party copies in both directions. Whatever was made is
//! removed at the end ([`Smoke::clean_up`]).

mod addresses;
mod report;
mod results;
mod series;
mod third_party;

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use remote::{Access, Client, Resource};
use types::{Error, ErrorCode, Location, Phase, Result};

use crate::kind::Kind;
use crate::reproduce::{Context, CredentialFile, Shown, Trust};
use crate::steps::Content;
pub use report::{Blame, Failure, Outcome, Probe, Protocol, Tally};
pub use results::cells;

/// Time for an upload, a download, or a question for a checksum: the smoke test's.
const DATA_TIMEOUT: Duration = Duration::from_secs(180);
/// Time for a third-party copy: the smoke test's.
const COPY_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for what moves no data: the smoke test's.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

/// What is probed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories of the endpoint, each a URL; the same one in HTTP and in the XRootD protocol, or
    /// either.
    pub places: Vec<Location>,
    /// Files at other servers that everybody may read, for pulls; the first of the fitting protocol
    /// is taken.
    pub pull: Vec<Location>,
    /// Directories at other servers that the credential may write to, for pushes and for pulls that
    /// need a credential there; the first of the fitting protocol is taken.
    pub push: Vec<Location>,
    /// The kinds of credentials that were asked for. Without, all that are at hand.
    pub kinds: Option<Vec<Kind>>,
    /// Whether the endpoint reports checksums; if not, it is not asked for any.
    pub has_checksums: bool,
    /// Size of the files that are made, in bytes.
    pub size_bytes: u64,
    /// For the commands that reproduce a failure.
    pub trust: Trust,
}

/// A credential that is at hand, with the client that shows it.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its kind.
    pub kind: Kind,
    /// The client.
    pub client: Client,
    /// What is shown with each request: this credential and no other.
    pub access: Access,
    /// The file with the token or certificate, for the commands that reproduce a failure.
    pub file: Option<CredentialFile>,
}

/// Something that was made, and must go.
#[derive(Clone)]
struct Litter {
    kind: Kind,
    client: Client,
    file: Resource,
    /// Whether it is known to be there; else it may be.
    is_there: bool,
}

/// A smoke test. It can be dropped or interrupted at any moment; what it has made is known to
/// [`Smoke::clean_up`].
pub struct Smoke<'a> {
    options: Options,
    credentials: Vec<Credential>,
    /// Kinds that were looked for and are not at hand, with what to do about it.
    missing: Vec<(Kind, String)>,
    content: Content,
    /// A part of all names, so that two tests at a time do not meet.
    mark: String,
    litter: Mutex<Vec<Litter>>,
    probes: Mutex<Vec<Probe>>,
    /// What the endpoint says it runs.
    software: Mutex<Option<String>>,
    observe: Box<dyn Fn(&Probe) + Send + Sync + 'a>,
}

impl<'a> Smoke<'a> {
    /// Prepares a test. `mark` becomes part of all names; `observe` is called with each probe as it
    /// ends.
    #[must_use]
    pub fn new(
        options: Options,
        credentials: Vec<Credential>,
        missing: Vec<(Kind, String)>,
        mark: &str,
        observe: impl Fn(&Probe) + Send + Sync + 'a,
    ) -> Self {
        Self {
            content: Content::new(options.size_bytes),
            options,
            credentials,
            missing,
            mark: mark.to_owned(),
            litter: Mutex::default(),
            probes: Mutex::default(),
            software: Mutex::default(),
            observe: Box::new(observe),
        }
    }

    /// Tries everything, one after the other.
    pub async fn run(&self) {
        let mut places = Vec::new();
        for place in &self.options.places {
            places.extend(self.at_addresses(place).await);
        }
        for place in places {
            self.third_parties(&place).await;
        }
    }

    /// Removes what was made and is still there; failures are among the probes.
    pub async fn clean_up(&self) {
        let litter = std::mem::take(&mut *self.litter.lock().unwrap_or_else(PoisonError::into_inner));
        for Litter {
            kind,
            client,
            file,
            is_there,
        } in litter
        {
            let started = tokio::time::Instant::now();
            let removed = within(CONTROL_TIMEOUT, &file, client.delete(&file)).await;
            let Err(error) = removed else { continue };
            // What never came about need not go, and a server that forbids everything forbids this
            // too.
            if is_there && error.code() != ErrorCode::PeerNotFound {
                let at = At {
                    kind,
                    address: None,
                    macaroon_of: None,
                };
                let lines = self.context(at).delete(&file.location);
                let outcome = Outcome::Failed(Box::new(Failure::of(&error, None, lines)));
                self.note("clean up", &file.location, at, started.elapsed(), outcome);
            }
        }
    }

    /// What the endpoint says it runs, if it was asked and told.
    #[must_use]
    pub fn software(&self) -> Option<String> {
        self.software.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All probes so far.
    #[must_use]
    pub fn probes(&self) -> Vec<Probe> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kinds that were asked for, or that are worth a try.
    fn wants(&self, kind: Kind) -> bool {
        match &self.options.kinds {
            Some(kinds) => kinds.contains(&kind),
            // Who has a credential does not expect a server to be open to all.
            None => {
                let is_any = |one: &Credential| matches!(one.kind, Kind::Anonymous | Kind::Keys);
                kind != Kind::Anonymous || self.credentials.iter().all(is_any)
            }
        }
    }

    /// Whether a refusal of this kind is a fault. It is none for a kind that the user did not
    /// request, or for a macaroon that every client gets.
    fn is_expected(&self, kind: Kind) -> bool {
        let for_all = |kind| kind == Kind::Anonymous;
        let is_for_all = match kind {
            Kind::Macaroon => self.best().is_none_or(|best| for_all(best.kind)),
            kind => for_all(kind),
        };
        !is_for_all || self.options.kinds.is_some()
    }

    fn context<'b>(&'b self, at: At<'b>) -> Context<'b> {
        let file = |kind: Kind| {
            let mut found = self.credentials.iter().filter(|one| one.kind == kind);
            found.find_map(|one| one.file.as_ref())
        };
        let shown = |kind: Kind| Shown {
            kind,
            certificate: file(Kind::Proxy),
        };
        Context {
            trust: &self.options.trust,
            shown: shown(at.kind),
            base: shown(self.best().map_or(Kind::Anonymous, |best| best.kind)),
            token: file(Kind::Token),
            macaroon_of: at.macaroon_of,
            address: at.address,
        }
    }

    /// The credential with which macaroons are asked for, and files made at the third party.
    fn best(&self) -> Option<&Credential> {
        let order = [Kind::Proxy, Kind::Token, Kind::Anonymous];
        let wanted = order.iter().filter(|kind| self.wants(**kind)).chain(&order);
        let mut found = wanted.filter_map(|kind| self.credentials.iter().find(|one| one.kind == *kind));
        found.next()
    }

    /// The name of a new file.
    fn file_name(&self, what: &str) -> String {
        format!("smoke-test-{}-{what}", self.mark)
    }

    fn note(&self, name: &str, place: &Location, at: At<'_>, took: Duration, outcome: Outcome) {
        let probe = Probe {
            name: name.to_owned(),
            protocol: Protocol::of(place),
            kind: at.kind,
            address: at.address,
            place: place.clone(),
            outcome,
            took,
        };
        (self.observe)(&probe);
        self.probes.lock().unwrap_or_else(PoisonError::into_inner).push(probe);
    }

    fn skip(&self, name: &str, place: &Location, at: At<'_>, why: impl Into<String>) {
        self.note(name, place, at, Duration::ZERO, Outcome::Skipped(why.into()));
    }

    fn will_make(&self, key: &Credential, file: &Resource) {
        self.litter.lock().unwrap_or_else(PoisonError::into_inner).push(Litter {
            kind: key.kind,
            client: key.client.clone(),
            file: file.clone(),
            is_there: false,
        });
    }

    fn has_made(&self, file: &Resource) {
        for one in &mut *self.litter.lock().unwrap_or_else(PoisonError::into_inner) {
            one.is_there |= one.file.location == file.location;
        }
    }

    fn has_removed(&self, file: &Resource) {
        let mut litter = self.litter.lock().unwrap_or_else(PoisonError::into_inner);
        litter.retain(|one| one.file.location != file.location);
    }
}

impl std::fmt::Debug for Smoke<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Smoke({:?})", self.options.places)
    }
}

/// Under which circumstances a probe is made.
#[derive(Clone, Copy)]
struct At<'a> {
    kind: Kind,
    address: Option<IpAddr>,
    /// The file whose macaroon is used.
    macaroon_of: Option<&'a Location>,
}

/// The result of an operation that must end in time.
async fn within<T>(timeout: Duration, file: &Resource, operation: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(timeout, operation).await.unwrap_or_else(|_| {
        let error = Error::new(ErrorCode::PeerStalled, file.side, Phase::Transfer).with_subject(&file.location);
        Err(error.with_detail(format!("given up after {} s", timeout.as_secs())))
    })
}

/// How an operation ended, and how long it took.
struct Timed {
    result: Result<()>,
    took: Duration,
}

/// As [`within`], with the time.
async fn timed(timeout: Duration, file: &Resource, operation: impl Future<Output = Result<()>>) -> Timed {
    let started = tokio::time::Instant::now();
    let result = within(timeout, file, operation).await;
    Timed {
        result,
        took: started.elapsed(),
    }
}
